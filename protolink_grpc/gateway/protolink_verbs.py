"""What an agent answers in ProtoLink's own words: one table of methods and paths, whatever carries it. Nothing is framed here."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from hashlib import blake2b
from html import escape
from typing import Any, Literal, NamedTuple

from protolink_grpc.auth.principal import NOBODY, Principal
from protolink_grpc.errors import InternalError
from protolink_grpc.gateway.protolink_events import StreamEvents, is_last
from protolink_grpc.gateway.protolink_shapes import Fields, PublicUrl, card_json, task_json
from protolink_grpc.models import reader
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.conversation import HistoryCompactionRequest
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.state.control import StateControl, kept
from protolink_grpc.wire.events import delta_from_frame, event_from_frame, is_delta
from protolink_grpc.wire.tasks import MAX_ARTIFACTS, MAX_MESSAGES, check_bounds, check_id

AGENT, CONTROL = "/protolink.v1.AgentService", "/protolink.v1.ControlService"

Health = Callable[[], Fields]
"""What `/healthz` shows."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Args:
        data: The JSON value of the body, None without one.
        params: Of the query; repeated ones are lists.
        key: Idempotency key, empty when there is none.
        socket: It came over WebSocket.
    """

    principal: Principal = NOBODY
    data: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    socket: bool = False


Answer = Callable[[Ask], Awaitable[Any]]
Stream = Callable[[Ask], AsyncGenerator[list[Fields], None]]


@dataclass(frozen=True, slots=True)
class Verb:
    """One row of the table: exactly one of `answer` and `stream`.

    Args:
        rpc: What it is over gRPC, full name: rules about who may call speak of that.
        is_work: It waits for work of the agent; the others never wait behind such ones.
        is_open: Nobody is asked for credentials.
    """

    method: str
    path: str
    rpc: str
    answer: Answer | None = None
    stream: Stream | None = None
    media: Literal["json", "html"] = "json"
    is_work: bool = False
    is_open: bool = False


class AgentVerbs:
    """The verbs of one agent.

    Args:
        public_url: Where the card says that the agent is.
        deltas: Streams show the text of models while it is produced.
    """

    def __init__(
        self,
        service: TaskService,
        card: Callable[[], AgentCard],
        control: StateControl | None,
        *,
        public_url: PublicUrl,
        deltas: bool = True,
    ) -> None:
        self._service = service
        self._card = card
        self._control = control
        self._public_url = public_url
        self._deltas = deltas

    def table(self, health: Health | None = None, *, public_card: bool = True) -> list[Verb]:
        """All rows; those of the health only where something tells it."""
        card_rpc, compact = f"{AGENT}/GetAgentCard", f"{CONTROL}/CompactState"
        rows = [
            Verb("POST", "/tasks/", f"{AGENT}/SendTask", self.send, is_work=True),
            Verb("POST", "/tasks/stream", f"{AGENT}/StreamTask", stream=self.stream, is_work=True),
            Verb("POST", "/tasks/cancel", f"{AGENT}/CancelTask", self.cancel),
            Verb("POST", "/llm/history/compact", compact, self.compact_history),
            Verb("POST", "/state/describe", f"{CONTROL}/DescribeState", self.describe_state),
            Verb("POST", "/state/reset", f"{CONTROL}/ResetState", self.reset_state),
            Verb("POST", "/state/compact", compact, self.compact_state),
            Verb("GET", "/.well-known/agent.json", card_rpc, self.card, is_open=public_card),
            Verb("GET", "/status", card_rpc, self.status, media="html"),
        ]
        return rows if health is None else rows + health_verbs(health)

    async def send(self, ask: Ask) -> Fields:
        """Start or continue a task and wait until it is settled."""
        return task_json(await self._service.send(submission_of(ask), ask.principal.name))

    async def stream(self, ask: Ask) -> AsyncGenerator[list[Fields], None]:
        """`send`, told as it goes. The last event is a final status with the whole task."""
        principal = ask.principal.name
        events = StreamEvents()
        async with aclosing(self._service.stream(submission_of(ask), principal, deltas=self._deltas)) as batches:
            async for frames in batches:
                told = [each for frame in frames for each in events.of(_event_of(frame))]
                for each in told:
                    if is_last(each):
                        each["metadata"]["task"] = await self._task_at(each, principal)
                if told:
                    yield told
                if told and is_last(told[-1]):
                    return
        # Watches end with a settled task or raise; a reader must not take silence for success.
        raise InternalError("the stream ended before the task")

    async def _task_at(self, told: Fields, principal: str) -> Fields:
        """The task that a last event speaks of; it may have been continued by somebody else since."""
        return task_json(await self._service.get(told["task_id"], principal)) | {"state": told["new_state"]}

    async def cancel(self, ask: Ask) -> Fields:
        """The task after the attempt; its id may be called `task_id`, and the reason may stand in the metadata."""
        data = reader.as_object(ask.data)
        task_id = reader.text(data, "id") or reader.required_text(data, "task_id")
        metadata = reader.mapping(data, "metadata")
        reason = data.get("reason", metadata.get("reason"))
        fold = await self._service.cancel(
            check_id(task_id, "id"),
            ask.principal.name,
            reason="" if reason is None else str(reason),
            metadata=metadata,
        )
        return task_json(fold)

    async def compact_history(self, ask: Ask) -> Fields:
        request = HistoryCompactionRequest.from_dict(_object(ask.data))
        return (await kept(self._control).compact_history(request, ask.principal.name)).to_dict()

    async def describe_state(self, ask: Ask) -> Fields:
        return await self._operate(ask, kept(self._control).describe)

    async def reset_state(self, ask: Ask) -> Fields:
        return await self._operate(ask, kept(self._control).reset)

    async def compact_state(self, ask: Ask) -> Fields:
        return await self._operate(ask, kept(self._control).compact)

    async def _operate(
        self, ask: Ask, operation: Callable[[StateOperationRequest, str], Awaitable[StateOperationResult]]
    ) -> Fields:
        request = StateOperationRequest.from_dict(_object(ask.data))
        return (await operation(request, ask.principal.name)).to_dict()

    async def card(self, ask: Ask) -> Fields:
        return card_json(self._card(), self._public_url(), socket=ask.socket)

    async def status(self, ask: Ask) -> str:
        card = self._card()
        rows = [TableRow(skill.id, skill.description) for skill in card.skills]
        about = f"{card.description} Version {card.version}, {len(self._service.active_task_ids)} active tasks."
        return page(card.name, about, TableRow("Skill", "Description"), rows)


def health_verbs(health: Health) -> list[Verb]:
    """The rows of `/healthz` and `/readyz`, open to everybody."""

    async def tell(_: Ask) -> Fields:
        return health()

    paths = ("/healthz", "/readyz")
    return [Verb("GET", path, "/grpc.health.v1.Health/Check", tell, is_open=True) for path in paths]


class TableRow(NamedTuple):
    name: str
    about: str


def page(title: str, about: str, head: TableRow, rows: list[TableRow]) -> str:
    """A page for people, of text only: it needs neither scripts nor styles of anybody's."""
    body = "".join(f"<tr><td>{escape(row.name)}</td><td>{escape(row.about)}</td></tr>" for row in rows)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<h1>{escape(title)}</h1><p>{escape(about)}</p>"
        f"<table><thead><tr><th>{head.name}</th><th>{head.about}</th></tr></thead><tbody>{body}</tbody></table></html>"
    )


def submission_of(ask: Ask) -> Submission:
    """What the sender of a task contributes.

    Raises:
        InvalidArgumentError: What is no task, or more than the contract allows; names the path.
    """
    task = Task.from_dict(ask.data)
    submission = Submission.of(task, request_id=_request_id(ask))
    check_bounds(task.messages, MAX_MESSAGES, "messages", "messages")
    check_bounds(task.artifacts, MAX_ARTIFACTS, "artifacts", "artifacts")
    check_id(task.id, "id")
    check_id(submission.session_id, "metadata.session_id")
    submission.scopes = ask.principal.scopes
    return submission


def _request_id(ask: Ask) -> str:
    """The id under which a repetition of this request is found.

    ProtoLink's clients use the id of the task as the key, for each of its turns. So the key alone is no request: it is one together
    with what the task holds, and a turn that says something new is another one.
    """
    if not ask.key:
        return ""
    held = [[_identity(each) for each in ask.data.get(name) or ()] for name in ("messages", "artifacts")]
    digest = blake2b(repr((ask.key, ask.data.get("id"), held)).encode("utf-8", "replace"), digest_size=16)
    return f"key-{digest.hexdigest()}"


def _identity(item: Fields) -> Any:
    """What a message or artifact is known by in a log: its id, or else all of it."""
    return item.get("id") or sorted(item.items())


def _object(data: Any) -> Any:
    """Operations that need nothing may be asked without a body."""
    return {} if data is None else data


def _event_of(frame: bytes) -> Any:
    return delta_from_frame(frame) if is_delta(frame) else event_from_frame(frame)
