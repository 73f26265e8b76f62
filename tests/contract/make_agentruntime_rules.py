"""Writes the table of rules in docs/agentruntime.md. Run it as `PYTHONPATH=. python tests/contract/make_agentruntime_rules.py`."""

from pathlib import Path

from protolink_grpc.agentruntime.validator.validation import RULES

PAGE = Path(__file__).parents[2] / "docs/agentruntime.md"
BEGIN, END = "<!-- rules: begin -->\n", "<!-- rules: end -->\n"


def page_with_rules(page: str) -> str:
    """Return the page with the current table."""
    before, _, rest = page.partition(BEGIN)
    rows = "".join(f"| {each.id} | {each.sentence} | {each.source} |\n" for each in RULES)
    return f"{before}{BEGIN}| rule | | source |\n|---|---|---|\n{rows}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page_with_rules(PAGE.read_text()))
