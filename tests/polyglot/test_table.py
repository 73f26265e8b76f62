"""`make conformance` counts correctly, changes only the part between its marks, and gives a reason for each language left out."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import run_conformance
from languages import LANGUAGES, ROOT, Language
from run_conformance import BEGIN, END, PAGE, Outcome, table, written_into

from protolink_grpc.testing.cases import CASES, Report

PYTHON = LANGUAGES[0]


def speaking(name: str, text: str, **changes: object) -> Language:
    """A language whose program is a line of Python."""
    made = replace(PYTHON, name=name, title=name.title(), run=lambda _: [sys.executable, "-c", text])
    return replace(made, **changes)  # type: ignore[arg-type]  # names of fields


EVERY_CASE = f"[print('PASS', case, '1ms') for case in {CASES!r}]"


def test_the_page_changes_between_its_marks_only() -> None:
    assert written_into(f"before\n{BEGIN}\nold\n{END}\nafter", "new") == f"before\n{BEGIN}\nnew\n{END}\nafter"


@pytest.mark.parametrize("page", ["", BEGIN, END])
def test_a_page_without_marks_is_left_alone(page: str) -> None:
    with pytest.raises(ValueError, match="has no"):
        written_into(page, "new")


def test_the_page_has_marks_and_every_case() -> None:
    page = PAGE.read_text(encoding="utf-8")
    written = page.partition(BEGIN)[2].partition(END)[0].strip("\n")
    assert written_into(page, written) == page
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in written.split("\n")]
    assert rows[0] == ["case", *(each.title for each in LANGUAGES)], "run make conformance"
    assert [row[0] for row in rows[2:]] == [f"`{case}`" for case in CASES], "run make conformance"
    _, _, cases = page.partition("## The cases")
    assert [case for case in CASES if f"| `{case}` |" not in cases] == []


def test_the_program_on_the_page_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "room 7",
        "1 task.submitted",
        "2 task.status",
        "3 task.artifact",
        "4 task.artifact",
        "5 task.artifact",
        "6 task.status",
        "['a room', 'cut 2 count 3']",
    ]


def test_a_cell_says_what_was_reported() -> None:
    reports = {
        "unary": Report("PASS", "unary"),
        "large": Report("FAIL", "large", "x"),
        "unknown-event": Report("SKIP", "unknown-event"),
    }
    outcomes = [Outcome(PYTHON, reports), Outcome(LANGUAGES[1], skipped=True)]
    cells = {
        row.split("|")[1].strip(): [each.strip() for each in row.split("|")[2:-1]]
        for row in table(outcomes).split("\n")
    }
    assert cells["case"] == ["Python", "Go"]
    assert cells["`unary`"] == ["pass", "not run"]
    assert cells["`large`"] == ["FAIL", "not run"]
    assert cells["`unknown-event`"] == ["skip", "not run"]
    # It ended before that.
    assert cells["`vectors`"] == ["FAIL", "not run"]


def test_every_language_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    languages = (
        speaking("good", EVERY_CASE),
        speaking("silent", "pass"),
        speaking(
            "unbuilt", EVERY_CASE, build=lambda _: [([sys.executable, "-c", "raise SystemExit('no luck')"], ROOT)]
        ),
        speaking("absent", EVERY_CASE, folder="no/such/folder"),
        speaking("toolless", EVERY_CASE, tools=("no-such-compiler",)),
    )
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    monkeypatch.setattr(run_conformance, "LANGUAGES", languages)
    monkeypatch.setattr(run_conformance, "PAGE", page)
    assert run_conformance.main([]) == 1
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == "1 passed, 2 failed, 2 skipped"
    assert "Absent was skipped: there is no no/such/folder" in said
    assert "Toolless was skipped: no-such-compiler not installed" in said
    assert "no luck" in said
    (row,) = [line.split("|")[2:-1] for line in page.read_text().split("\n") if line.startswith("| `unary` ")]
    assert [cell.strip() for cell in row] == ["pass", "FAIL", "FAIL", "not run", "not run"]


def test_some_languages_do_not_make_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text("untouched")
    monkeypatch.setattr(run_conformance, "LANGUAGES", (speaking("good", EVERY_CASE), speaking("silent", "pass")))
    monkeypatch.setattr(run_conformance, "PAGE", page)
    assert run_conformance.main(["good"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"
    assert page.read_text() == "untouched"
    assert run_conformance.main(["klingon"]) == 2
