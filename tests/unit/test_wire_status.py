"""Errors as statuses: each is read back as the same error, and no answer of a peer breaks the reader."""

from typing import Any

import pytest
from google.rpc import code_pb2, error_details_pb2, status_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protolink_grpc import errors
from protolink_grpc.errors import RULES, InvalidArgumentError, ProtolinkError, RemoteError
from protolink_grpc.wire.status import from_code, from_status, to_status

# A shared machine's pauses are no failure.
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
CLASSES = errors.classes()
each_class = pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES.keys())

names = st.text(st.characters(codec="ascii", categories=["L", "Nd"]), min_size=1, max_size=8)
metadata = st.dictionaries(names.filter(lambda key: key not in ("field", "code")), st.text(max_size=8), max_size=3)


def travelled(error: ProtolinkError) -> ProtolinkError:
    return from_status(status_pb2.Status.FromString(to_status(error).SerializeToString()))


# -- there and back ------------------------------------------------------------------------------------------------------


@each_class
def test_every_error_comes_back_as_itself(cls: type[ProtolinkError]) -> None:
    error = cls("it went wrong")
    error.metadata["task_id"] = "task"
    status = to_status(error)
    back = travelled(error)
    assert code_pb2.Code.Name(status.code) == RULES[cls.reason].grpc
    assert type(back) is cls
    assert (str(back), back.reason, back.metadata) == (str(error), error.reason, error.metadata)


@relaxed
@given(message=st.text(min_size=1, max_size=20), known=metadata)
def test_every_sentence_and_all_metadata_come_back(message: str, known: dict[str, str]) -> None:
    for cls in CLASSES.values():
        error = cls(message)
        error.metadata.update(known)
        back = travelled(error)
        assert type(back) is cls
        assert (str(back), back.metadata) == (str(error), error.metadata)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES.values() if issubclass(cls, InvalidArgumentError)])
@relaxed
@given(message=st.text(min_size=1, max_size=20), field=st.text(max_size=12), known=metadata)
def test_the_field_of_a_wrong_argument_comes_back(
    cls: type[InvalidArgumentError], message: str, field: str, known: dict[str, str]
) -> None:
    error = cls(message, field=field)
    error.metadata.update(known)
    back = travelled(error)
    assert isinstance(back, InvalidArgumentError)
    assert (back.field, back.detail, str(back)) == (field, message, str(error))
    assert back.metadata == error.metadata


def test_the_field_of_a_wrong_argument_is_where_every_grpc_client_looks_for_it() -> None:
    found = error_details_pb2.BadRequest()
    status = to_status(InvalidArgumentError("must not be empty", field="task.id"))
    assert any(detail.Unpack(found) for detail in status.details if detail.Is(found.DESCRIPTOR))
    assert [(each.field, each.description) for each in found.field_violations] == [("task.id", "must not be empty")]
    assert not any(detail.Is(found.DESCRIPTOR) for detail in to_status(InvalidArgumentError("no field")).details)


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.29, 1.0, 1.001, 1.1, 2.5, 59.999, 86_400.0])
def test_how_long_to_wait_comes_back_to_the_millisecond(seconds: float) -> None:
    back = travelled(errors.ResourceExhaustedError("full", retry_after_s=seconds, queue="runs"))
    assert isinstance(back, errors.ResourceExhaustedError)
    assert back.retry_after_s == seconds
    assert back.metadata == {"queue": "runs"}


def test_the_code_of_a_refused_tool_call_comes_back() -> None:
    back = travelled(errors.ToolRejectedError("no such tool", code="unknown_tool"))
    assert isinstance(back, errors.ToolRejectedError)
    assert back.code == "unknown_tool"


def test_a_rejected_call_keeps_what_it_says_besides_its_sentence() -> None:
    details = {"errors": [{"path": "guests[0]", "message": "must be text"}], "n": 2**70}
    sent = errors.ToolRejectedError("wrong", code="invalid_arguments", details=details, suggestion="look again")
    back = travelled(sent)
    assert isinstance(back, errors.ToolRejectedError)
    assert (back.to_dict(), back.metadata) == (sent.to_dict(), sent.metadata)


@pytest.mark.parametrize("details", [{"text": "x" * 10_000}, {"object": object()}, {"text": "\ud800"}])
def test_details_that_cannot_travel_stay_behind(details: dict[str, Any]) -> None:
    back = travelled(errors.ToolRejectedError("wrong", details=details, suggestion="s" * 10_000))
    assert isinstance(back, errors.ToolRejectedError)
    assert back.details == {}
    assert len(to_status(back).SerializeToString()) < 8192


@pytest.mark.parametrize("text", ["{", "[]", "null"])
def test_details_of_a_peer_that_are_none_are_left_out(text: str) -> None:
    info = error_details_pb2.ErrorInfo(
        reason="TOOL_REJECTED", domain=errors.DOMAIN, metadata={"code": "x", "details_json": text}
    )
    back = from_status(status_of(code_pb2.INVALID_ARGUMENT, "wrong", info))
    assert isinstance(back, errors.ToolRejectedError)
    assert (back.code, back.details, back.suggestion) == ("x", {}, None)


def test_every_detail_names_our_domain() -> None:
    info = error_details_pb2.ErrorInfo()
    to_status(errors.TaskNotFoundError("no task")).details[0].Unpack(info)
    assert (info.domain, info.reason) == (errors.DOMAIN, "TASK_NOT_FOUND")


# -- answers of others ---------------------------------------------------------------------------------------------------


def status_of(code: int, message: str, *details: Any) -> status_pb2.Status:
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        status.details.add().Pack(detail)
    return status


def test_a_reason_of_a_newer_version_is_kept() -> None:
    info = error_details_pb2.ErrorInfo(reason="FROM_THE_FUTURE", domain=errors.DOMAIN, metadata={"a": "b", "code": "c"})
    error = from_status(status_of(code_pb2.ABORTED, "new", info))
    assert isinstance(error, RemoteError)
    assert (str(error), error.remote_reason, error.code) == ("new", "FROM_THE_FUTURE", "ABORTED")
    assert error.metadata == {"a": "b", "code": "c"}


def test_our_reason_in_anothers_domain_is_anothers_reason() -> None:
    info = error_details_pb2.ErrorInfo(reason="TASK_NOT_FOUND", domain="example.org")
    error = from_status(status_of(code_pb2.NOT_FOUND, "nope", info))
    assert isinstance(error, RemoteError)
    assert (error.remote_reason, error.code) == ("TASK_NOT_FOUND", "NOT_FOUND")


@each_class
def test_metadata_may_have_any_names(cls: type[ProtolinkError]) -> None:
    names = ["message", "self", "cls", "task", "field", "code", "details", "retry_after_s", "remote_reason", "", "a b"]
    info = error_details_pb2.ErrorInfo(reason=cls.reason, domain=errors.DOMAIN, metadata=dict.fromkeys(names, "x"))
    error = from_status(status_of(code_pb2.UNKNOWN, "sentence", info))
    assert type(error) is cls
    assert error.metadata == dict.fromkeys(names, "x")
    assert "sentence" in str(error)


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        ("UNAVAILABLE", errors.UnavailableError),
        ("DEADLINE_EXCEEDED", errors.DeadlineExceededError),
        ("UNAUTHENTICATED", errors.UnauthenticatedError),
        ("PERMISSION_DENIED", errors.PermissionDeniedError),
        ("UNIMPLEMENTED", errors.UnimplementedError),
        ("INVALID_ARGUMENT", InvalidArgumentError),
        ("RESOURCE_EXHAUSTED", errors.ResourceExhaustedError),
        ("NOT_FOUND", RemoteError),
        ("DATA_LOSS", RemoteError),
        ("no code at all", RemoteError),
    ],
)
def test_a_bare_code_becomes_the_nearest_error(code: str, cls: type[ProtolinkError]) -> None:
    error = from_code(code, "")
    assert type(error) is cls
    assert str(error) == code
    assert str(from_code(code, "a sentence")) == "a sentence"


@pytest.mark.parametrize("number", [-1, 17, 2**31 - 1])
def test_a_number_that_is_no_code_is_unknown(number: int) -> None:
    error = from_status(status_pb2.Status(code=number, message="strange"))
    assert isinstance(error, RemoteError)
    assert error.code == "UNKNOWN"


@settings(deadline=None)  # as above
@given(
    code=st.integers(-(2**31), 2**31 - 1) | st.integers(0, 16),
    message=st.text(max_size=20),
    reason=st.sampled_from([*RULES, "OTHER", ""]),
    domain=st.sampled_from([errors.DOMAIN, "other"]),
    known=st.dictionaries(st.sampled_from(["field", "code", "message", "x"]), st.text(max_size=5)),
    raw=st.dictionaries(
        st.sampled_from(["google.rpc.ErrorInfo", "google.rpc.RetryInfo", "google.rpc.BadRequest", "x"]),
        st.binary(max_size=12),
    ),
    seconds=st.integers(-(2**63), 2**63 - 1),
)
def test_no_answer_of_a_peer_can_break_its_reader(
    code: int, message: str, reason: str, domain: str, known: dict[str, str], raw: dict[str, bytes], seconds: int
) -> None:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.seconds = seconds
    info = error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=known)
    status = status_of(code, message, info, retry)
    for name, value in raw.items():
        status.details.insert(0, type(status.details.add())(type_url=f"type.googleapis.com/{name}", value=value))
    assert isinstance(from_status(status), ProtolinkError)
