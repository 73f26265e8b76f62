"""The glossary is complete, and the README and the architecture link to it."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    *(
        "task",
        "run",
        "turn",
        "event",
        "log",
        "fold",
        "sequence",
        "session",
        "snapshot",
        "principal",
        "lease",
        "worker",
        "installation",
        "epoch",
        "handler",
        "slot",
        "attempt",
        "scope",
        "reason",
        "card",
        "peer",
        "registry",
    ),
    *("action", "gate", "policy", "approval", "delta", "watch", "budget", "journal", "frame"),
    *(
        "draft",
        "thread",
        "held",
        "position",
        "quiet position",
        "entry",
        "hook",
        "context policy",
        "case",
        "sample",
        "scorer",
    ),
}


def test_every_word_is_defined_once_in_at_most_three_sentences() -> None:
    defined = dict(re.findall(r"^\| \*\*([\w ]+)\*\* \| (.+) \|$", (ROOT / "docs/glossary.md").read_text(), re.M))
    assert set(defined) == WORDS
    assert {word: text for word, text in defined.items() if not 1 <= len(re.findall(r"[.](?:\s|$)", text)) <= 3} == {}


def test_the_readme_and_the_architecture_link_the_glossary() -> None:
    assert "(docs/glossary.md)" in (ROOT / "README.md").read_text()
    assert "(glossary.md)" in (ROOT / "docs/architecture.md").read_text()
