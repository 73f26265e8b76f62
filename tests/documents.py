"""The documents that describe ProtoLink and the Agent Runtime contract, and the Python blocks in them.

The documents are text without marks for code. A block is a longest run of lines that is Python and more than a single word.
"""

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "shared/reference/seeds"
"""Beside the project, because the documents belong to others."""

NAMES = (
    "agentruntime-llms-full",
    "protolink-models",
    "protolink-runtime",
    "protolink-transport",
    "protolink-whitepaper",
)

INDENTED = (
    "class BookingRequest(BaseModel):\n    location: str\n    guests: int = Field(gt=0)\n",
    "async def book_hotel(booking: BookingRequest) -> dict[str, str]:\n"
    '    return {"location": booking.location, "status": "confirmed"}\n',
    'async for event in client.send_task_streaming("http://localhost:8010", task):\n    ...\n',
    "async for task_event in agent.handle_task_streaming(task):\n    await recorder.record_task_event(task_event)\n",
)
"""Lines of the whitepaper, which has lost its indentation. The printed lines are the same without it."""

MAX_LINES = 60


@dataclass(frozen=True, slots=True)
class Block:
    """A Python block: its document, the number of its first line, and its text."""

    document: str
    line: int
    code: str

    @property
    def id(self) -> str:
        return f"{self.document}:{self.line}"


def are_required() -> bool:
    """Whether missing documents are an error, as in CI."""
    return bool(os.environ.get("PLGRPC_REQUIRE_DOCUMENTS"))


def read_document(name: str) -> str:
    text = (FOLDER / f"{name}.txt").read_text()
    if name == "protolink-whitepaper":
        for snippet in INDENTED:
            printed = re.sub(r"^ +", "", snippet, flags=re.MULTILINE)
            assert text.count(printed) == 1, printed
            text = text.replace(printed, snippet)
    return text


def blocks_of(name: str) -> list[Block]:
    return list(_find_blocks(name, read_document(name).splitlines()))


def _find_blocks(name: str, lines: list[str]) -> Iterator[Block]:
    start = 0
    while start < len(lines):
        end = _end_of_code(lines, start)
        if end is None:
            start += 1
            continue
        yield Block(name, start + 1, "\n".join(lines[start:end]) + "\n")
        start = end


def _end_of_code(lines: list[str], start: int) -> int | None:
    """Return the line after the longest block that begins here, or None if no block begins here."""
    if not lines[start] or lines[start][0].isspace():
        return None
    end = None
    for last in range(start + 1, min(start + MAX_LINES, len(lines)) + 1):
        text = "\n".join(lines[start:last])
        try:
            statements = ast.parse(text).body
        except SyntaxError as error:
            if _is_incomplete(error, last - start):
                continue
            break
        if not all(_is_code(each, lines, start) for each in statements):
            break
        if lines[last - 1].strip() and statements:
            end = last
    return end


def _is_incomplete(error: SyntaxError, lines: int) -> bool:
    """Whether further lines may complete the code."""
    return "was never closed" in error.msg or "triple-quoted" in error.msg or (error.lineno or 0) >= lines


def _is_code(statement: ast.stmt, lines: list[str], start: int) -> bool:
    """Whether a statement is code, and not a word or a list of words that happens to be an expression."""
    if not isinstance(statement, ast.Expr):
        return True
    value = statement.value
    if isinstance(value, ast.Call | ast.Await | ast.Dict) or (isinstance(value, ast.List) and value.elts):
        return True
    # A type, as in "Task  # Self for method chaining", or alone under "Returns:".
    at = start + statement.lineno - 1
    return "  # " in lines[at] or next((each for each in reversed(lines[:at]) if each), "") == "Returns:"
