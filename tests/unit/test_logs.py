"""Texts of callers cannot forge log lines, control a terminal or fill a disk."""

import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import protolink_grpc
from protolink_grpc.logs import MAX_RECORDS, WINDOW_S, RecordFilter, escape, get_logger, records_left_out

EVIL = "x\n12:00:00 ERROR all is lost\r\x1b[31m\x9b2J\u202eexe.\u2066\u200f\u2028\ud800"
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@pytest.fixture
def written() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger of the package and what a plain handler makes of it."""
    logger, out = get_logger("protolink_grpc.test_logs"), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    yield logger, out
    logger.removeHandler(handler)
    logger.propagate = True


@given(st.text())
def test_an_escaped_text_has_no_character_that_a_terminal_or_a_reader_of_lines_obeys(text: str) -> None:
    assert not OBEYED.search(escape(text))
    assert len(escape(text).splitlines()) <= 1
    assert not OBEYED.search(escape(text, keep_lines=True))
    escape(text).encode()


def test_harmless_text_stays_as_it_is() -> None:
    text = "Grüße, 世界 👩‍💻 \\n"
    assert escape(text) == text
    assert escape("a\n\tb", keep_lines=True) == "a\n\tb"


@pytest.mark.parametrize("template", ["task %s failed", "task %r failed"])
@pytest.mark.parametrize("value", [EVIL, ValueError(EVIL), [EVIL]], ids=["text", "error", "list"])
def test_a_record_is_one_line_whatever_its_arguments_are(
    written: tuple[logging.Logger, io.StringIO], template: str, value: object
) -> None:
    logger, out = written
    logger.error(template, value)
    assert out.getvalue().count("\n") == 1
    assert not OBEYED.search(out.getvalue())


def test_numbers_of_a_record_stay_numbers(written: tuple[logging.Logger, io.StringIO]) -> None:
    logger, out = written
    logger.error("%d of %.1f at %s", 3, 4.5, "here")
    assert out.getvalue() == "ERROR 3 of 4.5 at here\n"


def test_a_line_within_a_trace_does_not_look_like_a_record(written: tuple[logging.Logger, io.StringIO]) -> None:
    logger, out = written
    try:
        raise ValueError(EVIL)
    except ValueError:
        logger.exception("it failed")
    first, *trace = out.getvalue().rstrip("\n").split("\n")
    assert first == "ERROR it failed"
    assert any("ERROR all is lost" in line for line in trace)
    assert all(line.startswith("  ") for line in trace)
    assert not OBEYED.search(out.getvalue())


def test_a_place_that_logs_too_often_is_counted_and_the_next_record_says_how_often() -> None:
    now = 0.0
    limit = RecordFilter(lambda: now)

    def passes(line: int) -> logging.LogRecord | None:
        record = logging.LogRecord("protolink_grpc.x", logging.WARNING, "x.py", line, "no %s", ("luck",), None)
        return record if limit.filter(record) else None

    assert sum(passes(1) is not None for _ in range(MAX_RECORDS + 500)) == MAX_RECORDS
    assert passes(2) is not None
    assert limit.left_out == 500
    now += WINDOW_S
    record = passes(1)
    assert record is not None
    assert record.getMessage() == "no luck (500 similar records were left out)"
    again = passes(1)
    assert again is not None
    assert again.getMessage() == "no luck"


def test_what_was_left_out_is_counted_for_the_process(written: tuple[logging.Logger, io.StringIO]) -> None:
    logger, out = written
    before = records_left_out()
    for _ in range(MAX_RECORDS + 7):
        logger.warning("again")
    assert (records_left_out() - before, out.getvalue().count("again")) == (7, MAX_RECORDS)


def test_every_module_of_the_package_takes_its_logger_from_here() -> None:
    package = Path(protolink_grpc.__file__).parent
    direct = re.compile(r"logging\.getLogger\([^)]")
    found = [path.name for path in package.rglob("*.py") if direct.search(path.read_text(encoding="utf-8"))]
    assert found == ["logs.py"]
