"""The project that the assistant repairs: a module with two bugs and its tests, in a new git repository."""

from pathlib import Path

from examples.code_assistant.git import git
from examples.mesh.process import own_file

GOAL = "Make all tests pass. The tests are right: change only slugs.py."

FILES = {
    "README.md": "# slugs\n\nTurns titles into the last part of a URL. `python -m unittest` runs the tests.\n",
    "slugs.py": '''\
"""Titles as parts of URLs."""


def slugify(title: str) -> str:
    """Return the title as lower-case words, joined by hyphens."""
    return title.lower().replace(" ", "-")
''',
    "test_slugs.py": """\
import unittest

from slugs import slugify


class SlugTest(unittest.TestCase):
    def test_words_are_joined(self):
        self.assertEqual(slugify("Hello World"), "hello-world")

    def test_punctuation_is_dropped(self):
        self.assertEqual(slugify("Ready, set, go!"), "ready-set-go")

    def test_spaces_count_once(self):
        self.assertEqual(slugify("  two   spaces "), "two-spaces")

    def test_accents_become_letters(self):
        self.assertEqual(slugify("Crème brûlée"), "creme-brulee")


if __name__ == "__main__":
    unittest.main()
""",
}


def create_project(root: Path) -> None:
    """Create the repository with its first commit, unless it exists."""
    if (root / ".git").exists():
        return
    root.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (root / name).write_text(content, encoding="utf-8")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "A module that turns titles into slugs, with its tests")


def project_root() -> Path:
    """Return the root of the repository: `project` in the demo's directory, or the working directory without a demo."""
    return own_file("project") or Path.cwd()
