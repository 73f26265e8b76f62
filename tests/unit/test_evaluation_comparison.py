"""Comparisons of evaluations: regressions, improvements, and what is more than noise."""

import pytest

from protolink_grpc import EvaluationCase, EvaluationReport, EvaluationSample, EvaluationScore, compare_evaluations
from protolink_grpc.evaluation import CaseChange


def report(**passed: str) -> EvaluationReport:
    """A report with a case for each argument: `+` is a sample that passed, `-` one that did not, `!` a failed agent."""
    cases = [EvaluationCase(name, "x", name) for name in passed]
    samples = [
        EvaluationSample(
            case.id,
            number,
            f"task-{case.id}-{number}",
            state="failed" if mark == "!" else "completed",
            scores=[] if mark == "!" else [EvaluationScore("exact_match", float(mark == "+"))],
            case=case,
        )
        for case in cases
        for number, mark in enumerate(passed[case.id], 1)
    ]
    return EvaluationReport(cases, samples, max(map(len, passed.values()), default=1), ["exact_match"])


def test_cases_are_compared_by_the_share_of_samples_that_passed() -> None:
    old = report(worse="+++", better="--+", same="++-", gone="+", fewer="++++")
    new = report(worse="++-", better="+++", same="++-", new="+", fewer="++")
    found = compare_evaluations(old, new)
    assert [each.case_id for each in found.regressions] == ["worse"]
    assert [each.case_id for each in found.improvements] == ["better"]
    assert [each.case_id for each in found.unchanged] == ["same", "fewer"]
    assert (found.added, found.removed, found.not_compared) == (["new"], ["gone"], [])
    assert found.total is not None
    assert (found.total.old_passed, found.total.old_samples, found.total.new_passed) == (10, 13, 9)


def test_a_case_is_not_compared_if_its_input_changed_or_it_has_no_samples() -> None:
    old, new = report(a="+", b="+"), report(a="-", b="")
    new.cases[0] = EvaluationCase("a", "another", "a")
    found = compare_evaluations(old, new)
    assert (found.regressions, found.not_compared, found.total) == ([], ["a", "b"], None)
    assert found.format() == "Not compared: a, b\nThe evaluations have no case in common that can be compared."


def test_failures_of_the_agent_are_counted_apart() -> None:
    (change,) = compare_evaluations(report(a="++"), report(a="!-")).regressions
    assert (change.new_passed, change.new_failed) == (0, 1)


@pytest.mark.parametrize(
    ("old", "new", "chance", "clear"),
    [
        ((1, 1), (0, 1), 0.5, False),
        ((3, 3), (0, 3), 0.05, True),
        ((3, 3), (1, 3), 0.2, False),
        ((5, 5), (1, 5), 0.0238, True),
        ((5, 5), (2, 5), 0.0833, False),
        ((0, 3), (3, 3), 0.05, True),
        ((10, 10), (9, 10), 0.5, False),
        ((4, 4), (0, 2), 0.0667, False),
    ],
)
def test_a_change_is_clear_if_chance_alone_seldom_causes_it(
    old: tuple[int, int], new: tuple[int, int], chance: float, clear: bool
) -> None:
    change = CaseChange("a", *old, *new)
    assert (round(change.chance, 4), change.is_clear) == (chance, clear)


def test_a_comparison_has_a_table_of_80_columns_with_counts() -> None:
    found = compare_evaluations(report(a="+++", b="---", long_name="+"), report(a="---", b="-+-", long_name="+"))
    assert found.format().splitlines() == [
        "Regressions:",
        "  CASE  BEFORE  NOW  CHANGE",
        "  a        3/3  0/3   clear",
        "",
        "Improvements:",
        "  CASE  BEFORE  NOW                CHANGE",
        "  b        0/3  1/3  may be noise, p=0.50",
        "",
        "Compared: 1 regression, 1 improvement, 1 unchanged",
        "Passed in total: 4/7 before, 2/7 now: may be noise, p=0.30",
    ]
    assert found.to_dict()["regressions"][0]["is_clear"] is True
