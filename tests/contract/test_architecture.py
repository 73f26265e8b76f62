"""docs/architecture.md lists every module of the package, and docs/adr/README.md every decision."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "protolink_grpc"
MAX_WORDS = 8


def listed_modules() -> dict[str, dict[str, str]]:
    """The modules of each package with their descriptions, as the page lists them."""
    section = (ROOT / "docs/architecture.md").read_text().partition("\n## Modules\n")[2].partition("\n## ")[0]
    packages = re.findall(r"^### `([\w/]+)`\n\n(.*?)(?=^### |\Z)", section, re.DOTALL | re.MULTILINE)
    return {package: dict(re.findall(r"^`(\w+)` \((.+)\),?$", text, re.MULTILINE)) for package, text in packages}


def existing_modules() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if not path.stem.startswith("__"):
            package = path.parent.relative_to(PACKAGE.parent).as_posix()
            found.setdefault(package.removeprefix(f"{PACKAGE.name}/"), set()).add(path.stem)
    return found


def test_the_page_lists_exactly_the_modules_that_exist() -> None:
    listed, existing = listed_modules(), existing_modules()
    pairs = {(package, name) for package, names in listed.items() for name in names}
    files = {(package, name) for package, names in existing.items() for name in names}
    assert (sorted(files - pairs), sorted(pairs - files)) == ([], []), "not listed, and listed without a file"


def test_the_modules_are_in_order_and_described_in_a_few_words() -> None:
    for package, modules in listed_modules().items():
        assert list(modules) == sorted(modules), package
        assert [name for name, words in modules.items() if len(words.split()) > MAX_WORDS] == [], package


def test_the_list_of_decisions_has_each_record_with_its_title() -> None:
    folder = ROOT / "docs/adr"
    listed = re.findall(r"^- \[(.+)\]\((.+\.md)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    records = {path.name: path.read_text().partition("\n")[0].removeprefix("# ") for path in folder.glob("[0-9]*.md")}
    assert len(listed) == len(records)
    assert {file: title for title, file in listed} == records
