"""Converts requests of AgentService to values of the runtime. Errors name the field."""

from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import task_input_pb2, task_pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.page_tokens import cursor_from_token, page_size_of
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.port import TaskHead, TaskQuery
from protolink_grpc.wire.answer_bounds import HEADER_BYTES, Window, reduce_header
from protolink_grpc.wire.scalars import json_object_from_pb, micros_from_pb, micros_to_pb, timestamp_from_pb
from protolink_grpc.wire.tasks import STATES, artifacts_from_pb, check_id, encoded_messages_from_pb
from protolink_grpc.wire.typed_calls import options_from_pb

_STOPS: dict[int, StopAt] = {
    pb.STOP_AT_UNSPECIFIED: StopAt.TERMINAL,
    pb.STOP_AT_TERMINAL: StopAt.TERMINAL,
    pb.STOP_AT_INTERRUPTED: StopAt.INTERRUPTED,
    pb.STOP_AT_CURRENT: StopAt.CURRENT,
}


_TARGETS: dict[int, TaskTarget] = {
    task_input_pb2.TASK_TARGET_CREATE: TaskTarget.CREATE,
    task_input_pb2.TASK_TARGET_CONTINUE: TaskTarget.CONTINUE,
    task_input_pb2.TASK_TARGET_CREATE_OR_CONTINUE: TaskTarget.CREATE_OR_CONTINUE,
}

_WAITS: dict[int, bool] = {pb.WAIT_FOR_UNSPECIFIED: True, pb.WAIT_FOR_SETTLED: True, pb.WAIT_FOR_ACCEPTED: False}

_DELTAS: dict[int, bool] = {pb.DELTA_MODE_UNSPECIFIED: False, pb.DELTA_MODE_NONE: False, pb.DELTA_MODE_ALL: True}


def submission_from_pb(request: pb.SendTaskRequest | pb.StreamTaskRequest) -> Submission:
    """Convert the request of SendTask or StreamTask to a submission."""
    submission = submission_from_input(request.input)
    if request.request_id:
        submission.request_id = check_id(request.request_id, "request_id")
    return submission


def submission_from_input(given: task_input_pb2.TaskInput) -> Submission:
    """Convert the field `input` of a request to a submission."""
    task_id, session_id = given.task_id, given.session_id
    target = _TARGETS.get(given.target)
    if target is None:
        if given.target:
            raise InvalidArgumentError(f"{given.target} is not known", field="input.target")
        target = TaskTarget.CONTINUE if task_id else TaskTarget.CREATE
    messages, encoded = encoded_messages_from_pb(given.messages, "input.messages")
    submission = Submission(
        messages,
        artifacts_from_pb(given.artifacts, "input.artifacts") if given.artifacts else [],
        check_id(task_id, "input.task_id") if task_id else "",
        target,
        given.expected_sequence,
        json_object_from_pb(given.metadata_json, "input.metadata_json"),
        json_object_from_pb(given.flow_state_json, "input.flow_state_json"),
        check_id(session_id, "input.session_id") if session_id else "",
        options_from_pb(given.options, "input.options", session_id) if given.HasField("options") else None,
        encoded=encoded,
    )
    if given.HasField("create_time"):
        submission.created_at = timestamp_from_pb(given.create_time, "input.create_time")
    return submission


def waits_from_pb(value: int) -> bool:
    """Return whether a SendTask waits for the end of the turn."""
    waits = _WAITS.get(value)
    if waits is None:
        raise InvalidArgumentError(f"{value} is not known", field="wait_for")
    return waits


def deltas_from_pb(value: int) -> bool:
    """Return whether a stream includes deltas."""
    deltas = _DELTAS.get(value)
    if deltas is None:
        raise InvalidArgumentError(f"{value} is not known", field="deltas")
    return deltas


_VIEWS = frozenset(task_pb2.TaskView.values())


def require_id(value: str, field: str) -> str:
    """Return a valid id. Raises InvalidArgumentError if it is empty or invalid."""
    if not value:
        raise InvalidArgumentError("must not be empty", field=field)
    return check_id(value, field)


def view_from_pb(
    view: "task_pb2.TaskView.ValueType", default: "task_pb2.TaskView.ValueType"
) -> "task_pb2.TaskView.ValueType":
    """Return the requested view, or the method's default."""
    if view not in _VIEWS:
        raise InvalidArgumentError(f"{view} is not a task view", field="view")
    return view or default


def window_from_pb(request: pb.GetTaskRequest) -> Window:
    """Return which messages and artifacts a GetTask requests."""
    for name in ("max_messages", "before_message", "before_artifact"):
        if getattr(request, name) < 0:
            raise InvalidArgumentError("must be at least 0", field=name)
    return Window(
        request.max_messages,
        request.before_message if request.HasField("before_message") else None,
        request.before_artifact if request.HasField("before_artifact") else None,
    )


def stop_from_pb(value: int) -> StopAt:
    stop = _STOPS.get(value)
    if stop is None:
        raise InvalidArgumentError(f"{value} is not known", field="stop_at")
    return stop


def query_from_pb(request: pb.ListTasksRequest, principal: str, agent_name: str) -> TaskQuery:
    states = [STATES.read_request_item(state, f"states[{index}]") for index, state in enumerate(request.states)]
    after = micros_from_pb(request.updated_after, "updated_after") if request.HasField("updated_after") else 0
    return TaskQuery(
        principal=principal,
        agent_name=agent_name,
        states=frozenset(states),
        session_id=check_id(request.session_id, "session_id"),
        updated_after_micros=after,
        page_size=page_size_of(request.page_size),
        after=cursor_from_token(request.page_token),
        include_total=request.include_total,
    )


def head_to_pb(head: TaskHead) -> task_pb2.Task:
    """Return a task in the header view."""
    out = task_pb2.Task(
        id=head.task_id,
        state=STATES[head.state],
        session_id=head.session_id,
        run_id=head.run_id,
        sequence=head.sequence,
        agent_name=head.agent_name,
        create_time=micros_to_pb(head.create_micros),
        update_time=micros_to_pb(head.update_micros),
        message_count=head.messages,
        artifact_count=head.artifacts,
    )
    if head.reason and head.state is TaskState.CANCELED:
        out.cancel_reason = head.reason
    elif head.reason:
        out.failure.message = head.reason
    if len(head.reason) > HEADER_BYTES // 4:  # a character has at most 4 bytes
        return reduce_header(out)
    return out
