"""The Python blocks of all documents are valid, and import only names that exist. Tests in e2e run many of them."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    (f"{page.name}, block {number}", block)
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE), 1)
]


def missing_names(name: str, block: str) -> list[str]:
    """The names that a block imports from this package and that do not exist. Raises SyntaxError for invalid code."""
    tree = compile(block, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    return [
        f"{each.module}.{alias.name}"
        for each in imports
        if each.module and each.module.partition(".")[0] == "protolink_grpc"
        for alias in each.names
        if not hasattr(importlib.import_module(each.module), alias.name)
    ]


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_a_block_is_valid_and_imports_names_that_exist(name: str, block: str) -> None:
    assert missing_names(name, block) == []


def test_a_wrong_block_is_found() -> None:
    assert missing_names("wrong", "from protolink_grpc import Agent, Agnet") == ["protolink_grpc.Agnet"]
    with pytest.raises(SyntaxError):
        missing_names("wrong", "agent = Agent(")
