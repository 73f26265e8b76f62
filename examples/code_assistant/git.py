"""The git commands of the coder: the change since the last commit, and a commit of exactly that change.

The configuration of the user and of the system is not read, and no hooks run.
"""

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from examples.code_assistant.repository import TEMPORARY
from protolink_grpc import ToolRejectedError

TIMEOUT_S = 30.0

MAX_DIFF = 200_000
"""Maximum length of a diff, in characters."""

AUTHOR = {"NAME": "Code assistant", "EMAIL": "code-assistant@example.com"}


@dataclass(frozen=True, slots=True)
class Change:
    """The difference between the last commit and the files; `tree` identifies the content of all files."""

    tree: str
    diff: str


@dataclass(frozen=True, slots=True)
class Commit:
    commit: str
    message: str


def git(root: Path, *arguments: str, index: str | None = None) -> str:
    """Run a git command in the repository and return its output.

    Args:
        index: Path of the index file to use instead of the repository's.
    """
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in AUTHOR.items()},
    }
    if index is not None:
        environment["GIT_INDEX_FILE"] = index
    done = subprocess.run(
        ["git", "-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", *arguments],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        raise RuntimeError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")


def change(root: Path) -> Change:
    """Return the change since the last commit. The repository's own index is neither used nor changed.

    Raises:
        ToolRejectedError: The change is too large for a review.
    """
    with tempfile.TemporaryDirectory() as directory:
        index = str(Path(directory, "index"))
        git(root, "add", "--all", "--", ".", f":(exclude,glob)**/.*{TEMPORARY}", index=index)
        tree = git(root, "write-tree", index=index).strip()
    diff = git(root, "diff", "--no-ext-diff", "--no-textconv", "HEAD", tree)
    if len(diff) > MAX_DIFF:
        raise ToolRejectedError(f"the change has more than {MAX_DIFF} characters", code="too_large")
    return Change(tree, diff)


def check_tree(root: Path, tree: str) -> Change:
    """Return the change since the last commit.

    Raises:
        ToolRejectedError: The files are no longer `tree`, or the change is too large.
    """
    found = change(root)
    if found.tree != tree:
        raise ToolRejectedError("the files have changed since the diff was read", code="changed")
    return found


def commit(root: Path, message: str, tree: str) -> Commit:
    """Commit the files, which must still be `tree`. A repeated commit is made once.

    Raises:
        ToolRejectedError: As `check_tree`.
    """
    check_tree(root, tree)
    head, head_tree = git(root, "rev-parse", "HEAD", "HEAD^{tree}").split()
    if head_tree != tree:
        new = git(root, "commit-tree", tree, "-p", head, "-m", message).strip()
        # Fails if another commit was made meanwhile.
        git(root, "update-ref", "-m", "commit", "HEAD", new, head)
        head = new
    git(root, "read-tree", "HEAD")
    return Commit(head, git(root, "log", "-1", "--format=%B", "HEAD").strip())
