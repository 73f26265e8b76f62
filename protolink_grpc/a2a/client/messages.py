"""Messages of the official A2A client: builds requests for a peer and removes empty parts of its responses."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from a2a.types import a2a_pb2 as pb

from protolink_grpc.a2a.client.remote_log import WITHOUT_SUCCESS
from protolink_grpc.a2a.pb_codec import STATES, message_pb
from protolink_grpc.a2a.struct_pb import put_metadata
from protolink_grpc.a2a.values import A2A_KEY, MAX_PAGE_SIZE, OWN_KEY, TaskView
from protolink_grpc.client.port import ListFilter, TaskSummary
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.context import CONTEXT_KEY
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_metadata import own_metadata
from protolink_grpc.wire.scalars import timestamp_to_pb

_PRIVATE = ("workspace_uri", "trace_id", "metadata", "principal", "scopes", "session_id")
"""Fields of a run's context that are not sent to a peer."""


def build_request(
    task: Task, *, task_id: str, context_id: str, tenant: str, at_once: bool, is_own_agent: bool
) -> pb.SendMessageRequest:
    """Return the request that sends the last item of a task.

    An agent acts on the last item, and an A2A request cannot carry the earlier messages of other agents.

    Args:
        task_id, context_id: The peer's ids of the task and its session; empty for a new task.
        at_once: The response need not wait for the end of the turn.
        is_own_agent: The peer is an agent of this package. Other agents receive infer parts as text.

    Raises:
        InvalidArgumentError: The task has no item to send.
    """
    item = _last_item(task)
    if not is_own_agent:
        item = replace(item, parts=_write_infer_parts(item.parts))
    request = pb.SendMessageRequest(
        tenant=tenant,
        message=message_pb(item, context_id or task.session_id or "", task_id),
        configuration=pb.SendMessageConfiguration(return_immediately=at_once),
    )
    metadata = own_metadata(task.metadata)
    metadata.pop(A2A_KEY, None)
    context = task.given_context()
    if context is not None:
        fields = context.to_dict()
        metadata[OWN_KEY] = {CONTEXT_KEY: {key: fields[key] for key in fields if key not in _PRIVATE}}
    if metadata:
        put_metadata(request.metadata, metadata)
    return request


def _last_item(task: Task) -> Message:
    item = task.get_last_item()
    if item is None or not item.parts:
        raise InvalidArgumentError("must end with a message or an artifact that has parts", field="task")
    if isinstance(item, Artifact):
        return Message(role="user", parts=item.parts)
    return item if item.role == "user" else replace(item, role="user")


def _write_infer_parts(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with each infer part as text: the prompt, unless it is also a text part, and an instruction with the schema
    of the answer."""
    known = {part.content for part in parts if part.type == "text" and isinstance(part.content, str)}
    written, instructions = list[Part](), list[Part]()
    for part in parts:
        content = part.content
        if part.type != "infer" or not isinstance(content, dict):
            written.append(part)
            continue
        prompt = "\n\n".join(str(content[key]) for key in ("prompt", "user") if content.get(key))
        if prompt not in known:
            written.append(Part("text", prompt, part.metadata))
        if schema := content.get("output_schema"):
            rule = f"Answer with JSON, and nothing else, that satisfies this JSON Schema:\n{to_json(schema)}"
            instructions.append(Part("text", rule))
    return written + instructions


def build_list_request(wanted: ListFilter, tenant: str) -> pb.ListTasksRequest:
    """Return the request for a page of tasks. Raises InvalidArgumentError for more than one state."""
    if len(wanted.states) > 1:
        raise InvalidArgumentError("A2A lists one state at a time", field="states")
    return pb.ListTasksRequest(
        tenant=tenant,
        context_id=wanted.session_id,
        status=STATES[wanted.states[0]] if wanted.states else None,
        page_size=min(wanted.page_size, MAX_PAGE_SIZE) or None,
        page_token=wanted.page_token,
        status_timestamp_after=timestamp_to_pb(wanted.updated_after) if wanted.updated_after else None,
    )


def summary_of(view: TaskView, task_id: str, agent_name: str) -> TaskSummary:
    """Return the summary of a task for a list.

    A2A has one time per task, which is used for creation and update. The counts are of the items in the response.

    Args:
        task_id: Id of the task in this client.
    """
    when = iso_from_micros(view.status.micros)
    message = view.status.message
    return TaskSummary(
        id=task_id,
        state=view.status.state,
        session_id=view.context_id,
        run_id=view.task_id,
        agent_name=agent_name,
        sequence=0,
        created_at=when,
        updated_at=when,
        message_count=len(view.history or ()),
        artifact_count=len(view.artifacts or ()),
        reason=message.text if message is not None and view.status.state in WITHOUT_SUCCESS else "",
    )


# -- incomplete responses ------------------------------------------------------------------------------------------------------


def tidy(response: Any) -> Any:
    """Remove messages and artifacts without parts from a response, and set missing roles. The official types allow them, and
    some agents send them."""
    which = response.WhichOneof("payload")
    if which == "task":
        tidy_task(response.task)
    elif which == "message":
        _set_role(response.message)
    elif which == "status_update":
        _tidy_status(response.status_update.status)
    elif which == "artifact_update" and not response.artifact_update.artifact.parts:
        response.ClearField("artifact_update")
    return response


def tidy_task(task: pb.Task) -> pb.Task:
    _tidy_status(task.status)
    items: Any
    for items in (task.history, task.artifacts):
        kept = [item for item in items if item.parts]
        if len(kept) < len(items):
            del items[:]
            items.extend(kept)
    for message in task.history:
        _set_role(message)
    return task


def _tidy_status(status: pb.TaskStatus) -> None:
    if status.HasField("message"):
        if status.message.parts:
            _set_role(status.message)
        else:
            status.ClearField("message")


def _set_role(message: pb.Message) -> None:
    if message.role == pb.ROLE_UNSPECIFIED:
        message.role = pb.ROLE_AGENT
