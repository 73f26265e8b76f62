"""`make conformance`: builds each language's program, runs it through `plgrpc conformance run`, and writes the table.

Exit code 1 where a language that can be run here does not pass.
"""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from languages import LANGUAGES, ROOT, Language, judged, work_folder

from protolink_grpc.testing.cases import CASES, Report, parse_report

PAGE = ROOT / "docs/polyglot.md"
BEGIN, END = "<!-- conformance: begin -->", "<!-- conformance: end -->"


@dataclass
class Outcome:
    """How it went with one language.

    Attributes:
        reports: By case; none where it was not run.
        why: What is wrong, or why it was skipped.
    """

    language: Language
    reports: dict[str, Report] = field(default_factory=dict)
    why: str = ""
    skipped: bool = False
    failed: bool = False

    def cell(self, case: str) -> str:
        report = self.reports.get(case)
        if report is None:
            return "not run" if self.skipped else "FAIL"
        return {"PASS": "pass", "SKIP": "skip"}.get(report.result, report.result)


def outcome_of(language: Language) -> Outcome:
    """Build and run one language's program; its output goes through as it comes."""
    outcome, why = Outcome(language), language.missing()
    if why:
        print(f"-- {language.title}: skipped, {why}", flush=True)
        outcome.why, outcome.skipped = why, True
        return outcome
    print(f"-- {language.title}", flush=True)
    with work_folder() as out:
        try:
            command = language.built(Path(out))
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            print(error, flush=True)
            outcome.why, outcome.failed = str(error), True
            return outcome
        with subprocess.Popen(
            judged(command), cwd=ROOT, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ) as program:
            for line in program.stdout or ():
                print(line, end="", flush=True)
                report = parse_report(line)
                if report is not None:
                    outcome.reports[report.case] = report
    outcome.failed = program.returncode != 0
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """Cases by languages, in Markdown; without times, so that it changes only when something did."""
    rows = [["case", *(each.language.title for each in outcomes)]]
    rows += [[f"`{case}`", *(each.cell(case) for each in outcomes)] for case in CASES]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def written_into(page: str, content: str) -> str:
    """The page with the content between its two marks.

    Raises:
        ValueError: It has no marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no {BEGIN} ... {END}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def main(names: list[str]) -> int:
    """Run the languages of these names, by default all; only a run of all of them writes the page."""
    unknown = set(names) - {each.name for each in LANGUAGES}
    if unknown:
        print(f"no such language: {', '.join(sorted(unknown))}; there are {', '.join(each.name for each in LANGUAGES)}")
        return 2
    outcomes = [outcome_of(each) for each in LANGUAGES if not names or each.name in names]
    print()
    print(table(outcomes))
    if not names:
        PAGE.write_text(written_into(PAGE.read_text(encoding="utf-8"), table(outcomes)), encoding="utf-8")
    failed = sum(each.failed for each in outcomes)
    skipped = sum(each.skipped for each in outcomes)
    for each in outcomes:
        if each.skipped:
            print(f"{each.language.title} was skipped: {each.why}")
    print(f"{len(outcomes) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
