"""Errors in the terminal: a hint with a command, and a colour for every state."""

import pytest

from protolink_grpc import errors
from protolink_grpc.cli.failure import _EXIT_CODES, _HINTS, command_error
from protolink_grpc.cli.output import STYLES
from protolink_grpc.errors import RULES
from protolink_grpc.models.action import ApprovalState
from protolink_grpc.models.lifecycle import TaskState

CALLERS = [
    "APPROVAL_NOT_FOUND",
    "APPROVAL_CHANGED",
    "APPROVAL_DENIED",
    "APPROVAL_REQUIRED",
    "ACTION_DENIED",
    "BUDGET_EXCEEDED",
    "SESSION_NOT_FOUND",
    "DELEGATION_CYCLE",
]


@pytest.mark.parametrize("reason", [*CALLERS, *_HINTS])
def test_a_hint_names_the_target_and_leaves_no_blank(reason: str) -> None:
    told = command_error(errors.classes()[reason]("no"), "calc")
    assert told.hint
    assert not set("{}") & set(told.hint)
    assert ("calc" in told.hint) == ("{target}" in _HINTS[reason])


def test_an_approval_is_named_in_its_hint() -> None:
    told = command_error(errors.ApprovalChangedError("changed", approval_id="r1"), "calc")
    assert told.hint.endswith("plgrpc approvals show calc r1")


def test_a_port_of_another_protocol_has_its_own_hint() -> None:
    told = command_error(errors.UnavailableError("not reachable", protocol="HTTP/1"), "calc")
    assert "an HTTP/1 server answers at this port" in told.hint


def test_hints_and_exit_codes_are_about_reasons_that_exist() -> None:
    assert _HINTS.keys() | _EXIT_CODES.keys() <= RULES.keys()


def test_every_state_that_needs_attention_has_a_colour() -> None:
    assert {*ApprovalState} <= STYLES.keys()
    assert {*TaskState} - {TaskState.SUBMITTED, TaskState.UNKNOWN} <= STYLES.keys()
