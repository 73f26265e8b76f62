"""State operations as JSON and protobuf: lossless conversions, and errors for invalid input."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import control_service_pb2 as pb
from wire_values import store_reports

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.conversation import HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult, StateStoreReport
from protolink_grpc.wire import state as wire

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)
ids = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=40)
counts = st.integers(0, 2**63 - 1)
bounds = st.integers(2, 2**31 - 1)
requests = st.builds(
    StateOperationRequest,
    session_id=st.none() | ids,
    stores=st.lists(ids, max_size=3).map(tuple),
    include_data=st.booleans(),
    strategy=st.sampled_from(["recent", "tokens", "summary"]),
    max_messages=bounds,
    max_tokens=bounds,
    preserve_recent=st.integers(0, 2**31 - 1),
    summary_max_tokens=bounds,
    metadata=objects,
)
reports = store_reports.filter(lambda report: "compaction" not in report.metadata)
results = st.builds(
    StateOperationResult,
    operation=st.sampled_from(["describe", "reset", "compact"]),
    session_id=st.none() | ids,
    stores=st.lists(reports, max_size=3).map(tuple),
)


@given(requests)
def test_a_request_survives_json(request: StateOperationRequest) -> None:
    assert StateOperationRequest.from_dict(request.to_dict()) == request


@given(results, objects)
def test_a_result_survives_json(result: StateOperationResult, metadata: dict[str, Any]) -> None:
    result.metadata = metadata
    assert StateOperationResult.from_dict(result.to_dict()) == result


@given(requests)
def test_each_operation_sends_its_part_of_a_request(request: StateOperationRequest) -> None:
    described = wire.describe_request_from_pb(wire.describe_request_to_pb(request))
    assert described == StateOperationRequest(request.session_id, request.stores, request.include_data)
    reset = wire.reset_request_from_pb(wire.reset_request_to_pb(request))
    assert reset == StateOperationRequest(request.session_id, request.stores)
    compacted = wire.compact_request_from_pb(wire.compact_request_to_pb(request))
    assert (compacted.session_id, compacted.stores) == (request.session_id, request.stores)
    assert HistoryCompactionRequest.to_dict(compacted.compaction) == {
        **HistoryCompactionRequest.to_dict(request.compaction),
        "metadata": {},
    }


@given(results)
def test_a_result_survives_the_wire(result: StateOperationResult) -> None:
    encoded: Any = {
        "describe": wire.describe_result_to_pb,
        "reset": wire.reset_result_to_pb,
        "compact": wire.compact_result_to_pb,
    }[result.operation](result)
    decoded = type(encoded).FromString(encoded.SerializeToString())
    assert wire.result_from_pb(decoded, result.operation, result.session_id) == result


def test_all_fields_of_a_compaction_are_converted() -> None:
    request = StateOperationRequest("s", ("conversation",))
    encoded = wire.compact_request_to_pb(request)
    assert {field.name for field, _ in encoded.ListFields()} == set(pb.CompactStateRequest.DESCRIPTOR.fields_by_name)
    done = HistoryCompactionResult("summary", 5, 3, 3, 50, 30, True)
    report = StateStoreReport("conversation", compacted=True, metadata={"compaction": done.to_dict()})
    answer = wire.compact_result_to_pb(StateOperationResult("compact", "s", (report,)))
    assert {field.name for field, _ in answer.ListFields()} == set(pb.CompactStateResponse.DESCRIPTOR.fields_by_name)
    assert (answer.before_messages, answer.after_messages, answer.summary_created) == (5, 3, True)
    assert wire.result_from_pb(answer, "compact", "s").compaction == done


def test_missing_fields_have_their_defaults() -> None:
    # In the contract an empty strategy means this one; ProtoLink's requests always have one.
    assert wire.compact_request_from_pb(pb.CompactStateRequest()) == StateOperationRequest(strategy="recent")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.CompactStateRequest(strategy=77), "strategy"),
        (pb.CompactStateRequest(scope=pb.StateScope(session_id="a\nb")), "scope.session_id"),
        (pb.CompactStateRequest(scope=pb.StateScope(session_id="x" * 10_000)), "scope.session_id"),
    ],
)
def test_an_invalid_field_is_named(message: pb.CompactStateRequest, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        wire.compact_request_from_pb(message)
    assert caught.value.field == field


def test_negative_bounds_are_refused_where_they_are_used() -> None:
    request = wire.compact_request_from_pb(pb.CompactStateRequest(max_messages=-1))
    with pytest.raises(InvalidArgumentError) as caught:
        _ = request.compaction
    assert caught.value.field == "max_messages"


def test_zero_preserved_messages_differs_from_the_default() -> None:
    assert wire.compact_request_from_pb(pb.CompactStateRequest()).preserve_recent == 6
    assert wire.compact_request_from_pb(pb.CompactStateRequest(preserve_recent=0)).preserve_recent == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("max_messages", "max_tokens", "summary_max_tokens") for value in (0, -1, 2**31)),
        ("preserve_recent", -1),
        ("preserve_recent", 2**31),
    ],
)
def test_bounds_that_would_change_their_meaning_are_not_sent(name: str, value: int) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        wire.compact_request_to_pb(StateOperationRequest("s", **{name: value}))  # type: ignore[arg-type]  # by name
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("report", "field"),
    [
        (pb.StateStoreReport(), "stores[0].name"),
        (pb.StateStoreReport(name="n", data={"json": "{"}), "stores[0].data.json"),
        (pb.StateStoreReport(name="n", metadata_json="[]"), "stores[0].metadata_json"),
    ],
)
def test_an_invalid_report_is_named(report: pb.StateStoreReport, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        wire.result_from_pb(pb.DescribeStateResponse(stores=[report]), "describe", None)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"strategy": "best"}, "strategy"),
        ({"stores": 7}, "stores"),
        ({"max_messages": "20"}, "max_messages"),
        ({"include_data": 1}, "include_data"),
    ],
)
def test_invalid_json_of_a_request_is_named(data: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        StateOperationRequest.from_dict(data)
    assert caught.value.field == field


def test_a_result_lists_store_names_from_its_reports() -> None:
    result = StateOperationResult(
        "reset",
        "s",
        (
            StateStoreReport("a", exists=False, cleared=True),
            StateStoreReport("b", exists=True, compacted=True),
            StateStoreReport("c"),
            StateStoreReport("d", enabled=False, error="state store is not enabled"),
            StateStoreReport("e", error="broken"),
        ),
    )
    shown = result.to_dict()
    assert (shown["cleared"], shown["compacted"], shown["missing"]) == (["a"], ["b"], ["d"])
    assert shown["errors"] == [{"store": "e", "message": "broken"}]
    assert shown["stores"][2] == {
        "name": "c",
        "enabled": True,
        "exists": False,
        "item_count": 0,
        "message_count": 0,
        "cleared": False,
        "compacted": False,
        "data": None,
        "metadata": {},
        "error": None,
    }


def test_content_that_does_not_fit_is_left_out_and_its_size_reported() -> None:
    reports = tuple(StateStoreReport(name, data="x" * size) for name, size in (("a", 10), ("b", 2 << 20), ("c", 20)))
    answer = wire.describe_result_to_pb(StateOperationResult("describe", None, reports))
    assert [store.HasField("data") for store in answer.stores] == [True, False, True]
    assert answer.ByteSize() < 1 << 20
    read = wire.result_from_pb(answer, "describe", None)
    omitted = [store.metadata.get("omitted_bytes", 0) for store in read.stores]
    assert omitted[0] == omitted[2] == 0 < 2 << 20 < omitted[1]
