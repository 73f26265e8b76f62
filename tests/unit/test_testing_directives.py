"""Directives of a scripted agent, and the evaluation of reports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.testing.cases import CASES, Report, parse_report
from protolink_grpc.testing.conformance import PROGRAM
from protolink_grpc.testing.directives import VERBS, Directive, Fault, parse_directive
from protolink_grpc.testing.judge import evaluate_reports


@pytest.mark.parametrize(
    ("text", "directive"),
    [
        ("echo  two spaces ", Directive("echo", " two spaces ")),
        ("echo", Directive("echo")),
        ("count 100", Directive("count", "100")),
        ("wait", Directive("wait")),
        ("ask Where to?", Directive("ask", "Where to?")),
        ("approve it", Directive("approve", "it")),
        ("header x-conformance", Directive("header", "x-conformance")),
        ("flaky 2 word", Directive("count-runs", "word", failures=2)),
        ("cut 40 count 100", Directive("count", "100", fault=Fault("cut", after=40, times=2))),
        ("cut 4 flaky 2 word", Directive("count-runs", "word", failures=2, fault=Fault("cut", after=4, times=2))),
        ("outage 4000 40 count 100", Directive("count", "100", fault=Fault("outage", after=40, number=4000))),
        ("reset 8 40 count 100", Directive("count", "100", fault=Fault("reset", after=40, number=8))),
        ("reset 0 1 echo  x", Directive("echo", " x", fault=Fault("reset", after=1, number=0))),
        ("early 40 count 100", Directive("count", "100", fault=Fault("early", after=40))),
        ("gap 5 count 10", Directive("count", "10", fault=Fault("gap", after=5))),
        ("idle 5 1100 echo here", Directive("echo", "here", fault=Fault("idle", times=5, number=1100))),
        ("forget 5 count 100", Directive("count", "100", fault=Fault("forget", after=5))),
        ("undecided 5 approve it", Directive("approve", "it", fault=Fault("undecided", after=5))),
        ("spend 3", Directive("spend", "3")),
        ("ponder", Directive("ponder")),
        ("hold word", Directive("hold", "word")),
        ("flap word", Directive("flap", "word")),
        ("down word", Directive("down", "word")),
        ("calls word", Directive("calls", "word")),
    ],
)
def test_texts_are_parsed_as_directives(text: str, directive: Directive) -> None:
    assert parse_directive(text) == directive


NONSENSE = """
hello|Echo x|spend|spend 0|count|count ten|count 0|count -1|count ²|count 1000001|header|count-runs|flaky 2|flaky word|hold\
|flap|down|calls|outage 40 count 1|outage 0 4 count 1|reset -1 4 count 1|reset 8 0 count 1|reset 8 4|early 0 count 1\
|idle 5 echo x|idle 0 9 echo x
"""


@pytest.mark.parametrize(
    "text", ["", "cut 40", "cut forty count 1", "cut 4 x", "forget x", *NONSENSE.strip().split("|")]
)
def test_other_texts_are_not_directives(text: str) -> None:
    assert parse_directive(text) is None


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    found = parse_directive(text)
    assert found is None or found.verb in VERBS


@given(st.text())
def test_an_echo_is_the_text_after_the_verb(text: str) -> None:
    assert parse_directive(f"echo {text}") == Directive("echo", text)


@pytest.mark.parametrize(
    ("line", "report"),
    [
        ("PASS unary 12ms", Report("PASS", "unary")),
        ("PASS unary", Report("PASS", "unary")),
        ("FAIL resume: got sequence 41 twice", Report("FAIL", "resume", "got sequence 41 twice")),
        ("SKIP vectors: no folder", Report("SKIP", "vectors", "no folder")),
    ],
)
def test_a_line_reports_a_case(line: str, report: Report) -> None:
    assert parse_report(line) == report


@pytest.mark.parametrize(
    "line", ["", "PASS", "pass unary", "PASSED unary", "FAIL resume:x", " PASS unary", "PASS a b c"]
)
def test_any_other_line_is_output(line: str) -> None:
    assert parse_report(line) is None


@given(st.text())
def test_any_line_can_be_parsed(line: str) -> None:
    parse_report(line)


ALL = [Report("PASS", case) for case in CASES]


def test_a_program_that_passes_every_case_passes() -> None:
    assert evaluate_reports(ALL, 0).passed


def test_a_skipped_case_is_reported() -> None:
    assert evaluate_reports([*ALL[:-1], Report("SKIP", CASES[-1], "no folder")], 0).passed


@pytest.mark.parametrize(
    ("reports", "exit_code", "problem"),
    [
        (ALL[1:], 0, "unary was not reported"),
        ([], 0, "vectors was not reported"),
        ([*ALL, ALL[0]], 0, "unary was reported 2 times"),
        ([*ALL, Report("PASS", "dance")], 0, "dance is not a case"),
        ([Report("FAIL", "unary", "no answer"), *ALL[1:]], 1, "unary failed: no answer"),
        ([Report("FAIL", "unary", "no answer"), *ALL[1:]], 0, "the program ended with 0, and a case failed"),
        (ALL, 3, "the program ended with 3, and no case failed"),
    ],
)
def test_a_program_that_does_not_pass_gets_the_problem(reports: list[Report], exit_code: int, problem: str) -> None:
    verdict = evaluate_reports(reports, exit_code)
    assert not verdict.passed
    assert problem in verdict.problems


def test_the_python_program_has_every_case_in_order() -> None:
    assert tuple(PROGRAM) == CASES
