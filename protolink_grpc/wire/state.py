"""Converts operations on an agent's memory between the models and `plgrpc`. The operations themselves are in `state`."""

from typing import Any, Final

from plgrpc.v1 import control_service_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.conversation import HistoryCompactionResult, compaction_strategy
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.state import StateOperation, StateOperationRequest, StateOperationResult, StateStoreReport
from protolink_grpc.wire.compile import Codec, Group, LeftOut, Special
from protolink_grpc.wire.context import STRATEGIES
from protolink_grpc.wire.scalars import MAX_INT32, json_object_from_pb, json_object_to_pb
from protolink_grpc.wire.tasks import check_id
from protolink_grpc.wire.values import FAILURE

DATA_BYTES: Final = 1 << 20
"""Maximum size in bytes of the content in one description."""

OMITTED_KEY: Final = "omitted_bytes"
"""Key in the metadata of a report for the size in bytes of content that did not fit."""


def _write_failure(report: StateStoreReport) -> Any:
    known = report.failure
    if known is None or known.message != report.error:
        known = Failure.of_text(report.error)
    return None if known is None else FAILURE.to_pb(known)


def _read_failure(report: pb.StateStoreReport) -> tuple[str | None, Failure | None]:
    failure = FAILURE.from_pb(report.failure, "failure") if report.HasField("failure") else None
    return None if failure is None else failure.message, failure


def _read_metadata(report: pb.StateStoreReport) -> dict[str, Any]:
    metadata = json_object_from_pb(report.metadata_json, "metadata_json")
    return metadata | {OMITTED_KEY: report.omitted_bytes} if report.omitted_bytes else metadata


STORE_REPORT: Final = Codec(
    StateStoreReport,
    pb.StateStoreReport,
    metadata=Special("metadata_json", lambda report: json_object_to_pb(report.metadata), _read_metadata),
    omitted_bytes=LeftOut("`describe_result_to_pb` sets it, and it is read into the metadata."),
    failure=Group(("error", "failure"), _write_failure, _read_failure),
)


_DEFAULTS = StateOperationRequest()

_BOUNDS = ("max_messages", "max_tokens", "summary_max_tokens")
"""The parameters whose 0 means the default. `preserve_recent` has presence instead."""


def describe_request_to_pb(request: StateOperationRequest) -> pb.DescribeStateRequest:
    return pb.DescribeStateRequest(scope=_scope_to_pb(request), include_data=request.include_data)


def describe_request_from_pb(request: pb.DescribeStateRequest) -> StateOperationRequest:
    session_id, stores = _scope_from_pb(request.scope)
    return StateOperationRequest(session_id, stores, request.include_data)


def reset_request_to_pb(request: StateOperationRequest) -> pb.ResetStateRequest:
    return pb.ResetStateRequest(scope=_scope_to_pb(request))


def reset_request_from_pb(request: pb.ResetStateRequest) -> StateOperationRequest:
    return StateOperationRequest(*_scope_from_pb(request.scope))


def compact_request_to_pb(request: StateOperationRequest) -> pb.CompactStateRequest:
    """Convert a request. Raises InvalidArgumentError for parameters that its fields cannot hold; names the parameter."""
    for name, least in (*((name, 1) for name in _BOUNDS), ("preserve_recent", 0)):
        if not least <= getattr(request, name) <= MAX_INT32:
            raise InvalidArgumentError(f"must be from {least} to {MAX_INT32} to be sent", field=name)
    return pb.CompactStateRequest(
        scope=_scope_to_pb(request),
        strategy=STRATEGIES[request.strategy],
        max_messages=request.max_messages,
        max_tokens=request.max_tokens,
        preserve_recent=request.preserve_recent,
        summary_max_tokens=request.summary_max_tokens,
    )


def compact_request_from_pb(request: pb.CompactStateRequest) -> StateOperationRequest:
    session_id, stores = _scope_from_pb(request.scope)
    strategy = compaction_strategy(STRATEGIES.read_request(request.strategy, "strategy") or "recent")
    # Negative parameters are refused when the operation runs, by the same rules for every caller.
    bounds = {name: getattr(request, name) or getattr(_DEFAULTS, name) for name in _BOUNDS}
    if request.HasField("preserve_recent"):
        bounds["preserve_recent"] = request.preserve_recent
    return StateOperationRequest(session_id, stores, strategy=strategy, **bounds)


def _scope_to_pb(request: StateOperationRequest) -> pb.StateScope:
    return pb.StateScope(session_id=request.session_id or "", stores=request.stores)


def _scope_from_pb(scope: pb.StateScope) -> tuple[str | None, tuple[str, ...]]:
    session_id = check_id(scope.session_id, "scope.session_id") if scope.session_id else None
    return session_id, tuple(scope.stores)


def describe_result_to_pb(result: StateOperationResult) -> pb.DescribeStateResponse:
    """Convert a result with at most `DATA_BYTES` of content. Content that does not fit is replaced by its size."""
    stores, room = list(map(STORE_REPORT.to_pb, result.stores)), DATA_BYTES
    for store in stores:
        size = store.data.ByteSize()
        if size <= room:
            room -= size
        else:
            store.ClearField("data")
            store.omitted_bytes = size
    return pb.DescribeStateResponse(stores=stores)


def reset_result_to_pb(result: StateOperationResult) -> pb.ResetStateResponse:
    return pb.ResetStateResponse(stores=map(STORE_REPORT.to_pb, result.stores))


def compact_result_to_pb(result: StateOperationResult) -> pb.CompactStateResponse:
    done = result.compaction or HistoryCompactionResult()
    return pb.CompactStateResponse(
        stores=map(STORE_REPORT.to_pb, result.stores),
        before_messages=done.before_messages,
        after_messages=done.after_messages,
        before_tokens=done.before_tokens,
        after_tokens=done.after_tokens,
        summary_created=done.summary_created,
    )


def result_from_pb(
    response: pb.DescribeStateResponse | pb.ResetStateResponse | pb.CompactStateResponse,
    operation: StateOperation,
    session_id: str | None,
) -> StateOperationResult:
    """Convert a response. Operation and session are those of the request; the reports contain the result of a compaction."""
    return StateOperationResult(
        operation, session_id or None, tuple(STORE_REPORT.all_from_pb(response.stores, "stores"))
    )
