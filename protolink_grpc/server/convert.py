"""Requests of AgentService as the values that the runtime takes. What cannot be right is refused here, naming the field."""

from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import context_pb2, task_pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.runtime.submission import StopAt, Submission
from protolink_grpc.store.port import TaskHead, TaskQuery
from protolink_grpc.wire.context import context_from_pb
from protolink_grpc.wire.pages import cursor_from_token, page_size_of
from protolink_grpc.wire.scalars import json_object_from_pb, micros_from_pb, micros_to_pb, timestamp_from_pb
from protolink_grpc.wire.tasks import STATES, artifacts_from_pb, check_id, encoded_messages_from_pb

_STOPS: dict[int, StopAt] = {
    pb.STOP_AT_UNSPECIFIED: StopAt.TERMINAL,
    pb.STOP_AT_TERMINAL: StopAt.TERMINAL,
    pb.STOP_AT_INTERRUPTED: StopAt.INTERRUPTED,
    pb.STOP_AT_CURRENT: StopAt.CURRENT,
}


def submission_from_pb(request: pb.SendTaskRequest | pb.StreamTaskRequest) -> Submission:
    """What a SendTask or StreamTask asks for."""
    task = request.task
    task_id, own_id = request.task_id, task.id
    if task_id and own_id and task_id != own_id:
        raise InvalidArgumentError(f"names another task than task.id, {own_id}", field="task_id")
    state = STATES.asked(task.state, "task.state") if task.state else TaskState.SUBMITTED
    messages, encoded = encoded_messages_from_pb(task.messages, "task.messages")
    return Submission(
        messages=messages,
        encoded=encoded,
        artifacts=artifacts_from_pb(task.artifacts, "task.artifacts") if task.artifacts else [],
        task_id=check_id(task_id or own_id, "task.id") if task_id or own_id else "",
        must_exist=bool(task_id),
        metadata=json_object_from_pb(task.metadata_json, "task.metadata_json"),
        flow_state=json_object_from_pb(task.flow_state_json, "task.flow_state_json"),
        session_id=check_id(task.session_id, "task.session_id") if task.session_id else "",
        context=_context_from_pb(task.context) if task.HasField("context") else None,
        request_id=check_id(request.request_id, "request_id") if request.request_id else "",
        state=state,
        created_at=timestamp_from_pb(task.create_time, "task.create_time") if task.HasField("create_time") else "",
    )


def _context_from_pb(pb: context_pb2.RunContext) -> RunContext:
    context = context_from_pb(pb, "task.context")
    check_id(context.run_id, "task.context.run_id")
    return context


_VIEWS = frozenset(task_pb2.TaskView.values())


def required_id(value: str, field: str) -> str:
    if not value:
        raise InvalidArgumentError("must not be empty", field=field)
    return check_id(value, field)


def view_from_pb(
    view: "task_pb2.TaskView.ValueType", default: "task_pb2.TaskView.ValueType"
) -> "task_pb2.TaskView.ValueType":
    """The view, or the method's default."""
    if view not in _VIEWS:
        raise InvalidArgumentError(f"{view} is not a task view", field="view")
    return view or default


def stop_from_pb(value: int) -> StopAt:
    stop = _STOPS.get(value)
    if stop is None:
        raise InvalidArgumentError(f"{value} is not a place to stop at", field="stop_at")
    return stop


def query_from_pb(request: pb.ListTasksRequest, principal: str, agent_name: str) -> TaskQuery:
    states = [STATES.asked(state, f"states[{index}]") for index, state in enumerate(request.states)]
    after = micros_from_pb(request.updated_after, "updated_after") if request.HasField("updated_after") else 0
    return TaskQuery(
        principal=principal,
        agent_name=agent_name,
        states=frozenset(states),
        session_id=check_id(request.session_id, "session_id"),
        updated_after_micros=after,
        page_size=page_size_of(request.page_size),
        after=cursor_from_token(request.page_token),
    )


def head_to_pb(head: TaskHead) -> task_pb2.Task:
    """The header view."""
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
    return out
