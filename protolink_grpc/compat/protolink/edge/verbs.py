"""The operations of an agent in ProtoLink's protocol: one table of methods and paths for all transports."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from html import escape
from typing import Any, Literal, NamedTuple, TypeVar

from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL, Principal
from protolink_grpc.compat.protolink.edge.events import StreamEvents, is_last
from protolink_grpc.compat.protolink.edge.shapes import Fields, PublicUrl, card_json, task_json
from protolink_grpc.errors import InternalError
from protolink_grpc.models import reader
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import HistoryCompactionRequest
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.admission import AcceptedTurn
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.state.control import StateControl, require_state
from protolink_grpc.wire.bounds import run_in_thread
from protolink_grpc.wire.events import delta_from_frame, event_from_frame, is_delta
from protolink_grpc.wire.tasks import MAX_ARTIFACTS, MAX_MESSAGES, check_counts, check_id, check_ids

T = TypeVar("T")

AGENT, CONTROL = "/plgrpc.v1.AgentService", "/plgrpc.v1.ControlService"

Health = Callable[[], Fields]
"""The source of the content of `/healthz`."""


@dataclass(frozen=True, slots=True)
class VerbCall:
    """One call of an operation, over any transport.

    Args:
        data: The JSON value of the body, None without a body.
        params: Query parameters; repeated ones are lists.
        key: Idempotency key, or empty.
        socket: The transport is WebSocket.
        is_complex: The conversion of the data takes long and must run in a thread.
    """

    principal: Principal = ANONYMOUS_PRINCIPAL
    data: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    socket: bool = False
    is_complex: bool = False

    async def read(self, convert: Callable[["VerbCall"], T]) -> T:
        """Convert the data, in a thread if that takes long. Raises as `convert`."""
        return await run_in_thread(convert, self) if self.is_complex else convert(self)


Answer = Callable[[VerbCall], Awaitable[Any]]
Stream = Callable[[VerbCall], AsyncGenerator[list[Fields], None]]


@dataclass(frozen=True, slots=True)
class Verb:
    """One operation, with exactly one of `answer` and `stream`.

    Args:
        rpc: Full name of the corresponding gRPC method, for access rules.
        is_work: Whether it waits for a run. Other operations never wait behind such ones.
        is_open: Whether it needs no credentials.
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
    """The operations of one agent.

    Args:
        public_url: The URL in the card.
        deltas: Whether streams contain the text of models while it is produced.
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
        """Return all operations; those for health only with a health source."""
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

    async def send(self, call: VerbCall) -> Fields:
        """Start or continue a task and wait until it is settled."""
        return task_json(await self._service.send(await self._submission(call), call.principal.name))

    async def _submission(self, call: VerbCall) -> Submission:
        submission = await call.read(submission_of)
        if submission.context is not None:
            submission.context = without_receiver(submission.context, self._service.agent_name)
        return submission

    async def stream(self, call: VerbCall) -> AsyncGenerator[list[Fields], None]:
        """As `send`, but yields the events. The last one is a final status with the whole task."""
        principal = call.principal.name
        events = StreamEvents()
        submission = await self._submission(call)
        turn: AcceptedTurn | None = None
        async with aclosing(self._service.stream(submission, principal, deltas=self._deltas)) as batches:
            async for frames in batches:
                shown = [each for frame in frames for each in events.of(_event_of(frame))]
                for each in shown:
                    turn = turn or self._service.turn_after(each["task_id"], 0)
                    if is_last(each):
                        fold = await self._service.get_after(turn, principal)
                        # The task may have been continued by another caller since.
                        each["metadata"]["task"] = task_json(fold) | {"state": each["new_state"]}
                if shown:
                    yield shown
                if shown and is_last(shown[-1]):
                    return
        # A watch ends with a settled task or raises, because a reader must not mistake an early end for success.
        raise InternalError("the stream ended before the task")

    async def cancel(self, call: VerbCall) -> Fields:
        """Cancel a task and return it. The key of its id may be `task_id`, and the reason may be in the metadata."""
        data = reader.as_object(call.data)
        task_id = reader.text(data, "id") or reader.required_text(data, "task_id")
        metadata = reader.mapping(data, "metadata")
        reason = data.get("reason", metadata.get("reason"))
        fold = await self._service.cancel(
            check_id(task_id, "id"),
            call.principal.name,
            reason="" if reason is None else str(reason),
            metadata=metadata,
        )
        return task_json(fold)

    async def compact_history(self, call: VerbCall) -> Fields:
        request = HistoryCompactionRequest.from_dict(_object(call.data))
        return (await require_state(self._control).compact_history(request, call.principal.name)).to_dict()

    async def describe_state(self, call: VerbCall) -> Fields:
        return await self._operate(call, require_state(self._control).describe)

    async def reset_state(self, call: VerbCall) -> Fields:
        return await self._operate(call, require_state(self._control).reset)

    async def compact_state(self, call: VerbCall) -> Fields:
        return await self._operate(call, require_state(self._control).compact)

    async def _operate(
        self, call: VerbCall, operation: Callable[[StateOperationRequest, str], Awaitable[StateOperationResult]]
    ) -> Fields:
        request = StateOperationRequest.from_dict(_object(call.data))
        return (await operation(request, call.principal.name)).to_dict()

    async def card(self, call: VerbCall) -> Fields:
        return card_json(self._card(), self._public_url(), socket=call.socket)

    async def status(self, call: VerbCall) -> str:
        card = self._card()
        rows = [TableRow(skill.id, skill.description) for skill in card.skills]
        about = f"{card.description} Version {card.version}, {len(self._service.active_task_ids)} active tasks."
        return page(card.name, about, TableRow("Skill", "Description"), rows)


def health_verbs(health: Health) -> list[Verb]:
    """Return the operations `/healthz` and `/readyz`, which need no credentials."""

    async def get_health(_: VerbCall) -> Fields:
        return health()

    paths = ("/healthz", "/readyz")
    return [Verb("GET", path, "/grpc.health.v1.Health/Check", get_health, is_open=True) for path in paths]


class TableRow(NamedTuple):
    name: str
    about: str


def page(title: str, about: str, head: TableRow, rows: list[TableRow]) -> str:
    """Return a plain HTML page without scripts and external styles."""
    body = "".join(f"<tr><td>{escape(row.name)}</td><td>{escape(row.about)}</td></tr>" for row in rows)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<h1>{escape(title)}</h1><p>{escape(about)}</p>"
        f"<table><thead><tr><th>{head.name}</th><th>{head.about}</th></tr></thead><tbody>{body}</tbody></table></html>"
    )


def submission_of(call: VerbCall) -> Submission:
    """Build the submission for a task that was sent.

    Raises:
        InvalidArgumentError: The task is invalid or exceeds a limit; names the path.
    """
    _check_counts(call.data)
    task = Task.from_dict(call.data)
    submission = Submission.of(task, request_id=_request_id(call))
    check_ids(task.messages, "messages")
    check_ids(task.artifacts, "artifacts")
    check_id(task.id, "id")
    check_id(submission.session_id, "metadata.session_id")
    if submission.context is not None:
        check_id(submission.context.run_id, "metadata.run_context.run_id")
    submission.scopes = call.principal.scopes
    return submission


def without_receiver(context: RunContext, agent_name: str) -> RunContext:
    """Return the context of delegated work with an agent chain of only those agents that have handled the work.

    ProtoLink's agents append the receiver to the chain before they send. In this package the receiver adds itself, and an agent
    in the chain has handled the work.
    """
    chain = context.agent_chain
    if context.parent_run_id is None or not chain or chain[-1].casefold() != agent_name.casefold():
        return context
    return replace(context, agent_chain=chain[:-1])


def _check_counts(data: Any) -> None:
    """Raise MessageTooLargeError before a task with too many items is converted. Invalid types are reported by the conversion."""
    for name, most in (("messages", MAX_MESSAGES), ("artifacts", MAX_ARTIFACTS)):
        items = data.get(name) if isinstance(data, dict) else None
        if not isinstance(items, list):
            continue
        parts = [each.get("parts") if isinstance(each, dict) else None for each in items[: most + 1]]
        check_counts(len(items), [len(each) if isinstance(each, list) else 0 for each in parts], most, name, name)


def _request_id(call: VerbCall) -> str:
    """Return the request id, which is the same for a retry of this request.

    ProtoLink's clients use the task's id as the key of all its turns. The request id therefore also depends on the content of the
    task, so that a turn with new content is a new request.
    """
    if not call.key:
        return ""
    held = [[_identity(each) for each in call.data.get(name) or ()] for name in ("messages", "artifacts")]
    digest = blake2b(repr((call.key, call.data.get("id"), held)).encode("utf-8", "replace"), digest_size=16)
    return f"key-{digest.hexdigest()}"


def _identity(item: Fields) -> Any:
    """Return the identity of a message or artifact in a log: its id, or its whole content."""
    return item.get("id") or sorted(item.items())


def _object(data: Any) -> Any:
    """Return the object of the body; empty if the request has no body."""
    return {} if data is None else data


def _event_of(frame: bytes) -> Any:
    return delta_from_frame(frame) if is_delta(frame) else event_from_frame(frame)
