"""What crosses the A2A operations, whatever the binding: requests as values of ours, answers as readings of a task's log.

Codecs turn what a binding brings into these and these into what it sends; operations know nothing else. Words are ours where the
models have one: a `contextId` is a session, a `messageId` a message's id.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from protolink_grpc.auth.principal import NOBODY, Principal
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part

OWN_KEY = "plgrpc"
"""Where A2A's metadata keeps what only readers of this package look at."""

TASK_METADATA = "task_metadata"
"""Under that key in an update: keys of the task's metadata that have changed, null for those that were removed."""

A2A_KEY = "a2a"
"""Where the metadata of our tasks, messages, parts and artifacts keeps what A2A knows and the models have no field for."""

V1, V03 = "1.0", "0.3"
"""Versions of the protocol that are spoken here."""

JSONRPC, REST, GRPC = BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
"""A2A's bindings, as its cards name them."""

IDEMPOTENCY_KEY = "idempotency-key"
"""Header, and key of gRPC metadata, that makes a repeated request the same request."""

PAGE_SIZE, MAX_PAGE_SIZE = 50, 100
"""Tasks, or push configs, of one page. Source: A2A v1.0.1, ListTasksRequest."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks, and what came with the request besides it.

    Args:
        authenticated: By credentials or a certificate; an extended card is shown to nobody else.
        version: `A2A-Version` as it came, empty when it did not.
        extensions: URIs of `A2A-Extensions`.
        idempotency_key: As it came in a header or in gRPC metadata, empty when it did not.
    """

    principal: Principal = NOBODY
    authenticated: bool = False
    version: str = ""
    extensions: frozenset[str] = frozenset()
    idempotency_key: str = ""


@dataclass(slots=True)
class PushConfig:
    """Where to tell about a task. `scheme` and `credentials` make the Authorization header of each notification."""

    url: str
    id: str = ""
    task_id: str = ""
    token: str = field(default="", repr=False)
    scheme: str = ""
    credentials: str = field(default="", repr=False)
    tenant: str = ""


@dataclass(slots=True)
class SendParams:
    """SendMessage and SendStreamingMessage.

    Args:
        message: With the caller's id; its `metadata[A2A_KEY]` may hold `extensions` and `reference_task_ids`.
        task_id: The task to continue; empty begins a new one.
        context_id: Its session; empty lets the server infer or make one.
        metadata: Of the request.
        history_length: Messages of the answer at most, newest last; None means all.
    """

    message: Message
    task_id: str = ""
    context_id: str = ""
    tenant: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    accepted_output_modes: tuple[str, ...] = ()
    history_length: int | None = None
    return_immediately: bool = False
    push: PushConfig | None = None


@dataclass(slots=True)
class ListParams:
    """ListTasks. `page_size` None means `PAGE_SIZE`; `updated_after_micros` 0 means any time."""

    tenant: str = ""
    context_id: str = ""
    state: TaskState | None = None
    page_size: int | None = None
    page_token: str = ""
    history_length: int | None = None
    updated_after_micros: int = 0
    include_artifacts: bool = False


@dataclass(slots=True)
class Status:
    """Where a task stands, as A2A shows it. `message` says why, or what is asked for."""

    state: TaskState
    micros: int
    message: Message | None = None


@dataclass(slots=True)
class TaskView:
    """A task as one answer shows it.

    Args:
        history: Oldest first, cut to what was asked for; None leaves the field out.
        artifacts: Oldest first; None leaves the field out.
        sequence: Of the last event in this reading.
    """

    task_id: str
    context_id: str
    status: Status
    history: list[Message] | None = None
    artifacts: list[Artifact] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    sequence: int = 0


@dataclass(slots=True)
class MessageReply:
    """A direct answer, in place of a task."""

    message: Message
    context_id: str = ""
    sequence: int = 0


@dataclass(slots=True)
class StatusUpdate:
    """`final`: nothing follows in this stream."""

    task_id: str
    context_id: str
    status: Status
    metadata: dict[str, Any] = field(default_factory=dict)
    final: bool = False
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class TextArtifact:
    """An artifact with nothing but texts, as a stream of them carries by the thousand; its time is not shown."""

    id: str
    texts: list[str]
    name: str | None = None

    def whole(self) -> Artifact:
        return Artifact(self.id, [Part("text", text) for text in self.texts], name=self.name)


@dataclass(slots=True)
class ArtifactUpdate:
    """An artifact, or with `append` the further parts of the one with the same id."""

    task_id: str
    context_id: str
    artifact: Artifact | TextArtifact
    append: bool = False
    last_chunk: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    sequence: int = 0

    @property
    def whole_artifact(self) -> Artifact:
        artifact = self.artifact
        return artifact.whole() if isinstance(artifact, TextArtifact) else artifact


Update = TaskView | MessageReply | StatusUpdate | ArtifactUpdate
"""One element of a stream: what a `StreamResponse` holds."""


@dataclass(slots=True)
class TaskPage:
    """A page of tasks, last changed first; the token is empty on the last page."""

    tasks: list[TaskView]
    next_page_token: str
    page_size: int
    total_size: int


LARGE_VALUES = 5_000
"""JSON values that are written as protobuf messages in some 5 ms."""


def is_large(shown: Update | TaskPage) -> bool:
    """Whether an answer holds more JSON values, in data parts and metadata, than should be written as messages on the loop."""
    pending = _values_in(shown)
    count = 0
    while pending:
        value = pending.pop()
        count += len(value)
        if count > LARGE_VALUES:
            return True
        pending += [each for each in (value.values() if type(value) is dict else value) if type(each) in (dict, list)]
    return False


def _values_in(shown: Update | TaskPage) -> list[Any]:
    """The objects and arrays of an answer that are not plain text."""
    if isinstance(shown, TaskPage):
        return [value for view in shown.tasks for value in _values_in(view)]
    holders: list[Message | Artifact] = []
    match shown:
        case TaskView():
            holders += [*(shown.history or ()), *(shown.artifacts or ())]
        case MessageReply():
            holders.append(shown.message)
        case ArtifactUpdate() if isinstance(shown.artifact, Artifact):
            holders.append(shown.artifact)
    if isinstance(shown, TaskView | StatusUpdate) and shown.status.message is not None:
        holders.append(shown.status.message)
    found = [] if isinstance(shown, MessageReply) else [shown.metadata]
    for holder in holders:
        found += [part.content for part in holder.parts if type(part.content) in (dict, list)]
        found += [each.metadata for each in (holder, *holder.parts) if each.metadata]
    return found


@dataclass(slots=True)
class PushPage:
    """A page of a task's push configs, oldest first; the token is empty on the last page."""

    configs: list[PushConfig]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a piece of a log looks like to a webhook.

    Args:
        notifications: Sequence of the event and body, ascending; one event may make several, most make none.
        sequence: How far the log was read; where it was asked for what is not there yet, the position that was asked from.
    """

    notifications: Sequence[tuple[int, bytes]]
    sequence: int


@dataclass(frozen=True, slots=True)
class Extension:
    """An A2A extension that the agent supports; callers must name a `required` one."""

    uri: str
    description: str = ""
    required: bool = False
    params: dict[str, Any] = field(default_factory=dict)


OWN_SERVICES = "https://protolink-grpc.github.io/a2a/extensions/services/v1"
"""URI of our own extension: the services of `plgrpc.v1` answer over gRPC-Web under the base URL of this card, and a request with
an idempotency key can be repeated. It is not required, so clients of other systems ignore it."""


def own_services(names: Sequence[str]) -> Extension:
    """The extension of an agent that serves these services, by their full names."""
    return Extension(
        OWN_SERVICES,
        "Services of plgrpc.v1 over gRPC-Web under the base URL of this card",
        params={"protocol": "grpc-web", "services": list(names)},
    )


@dataclass(frozen=True, slots=True)
class Binding:
    """One way in which the agent can be called: an entry of `supportedInterfaces`.

    Args:
        protocol: "JSONRPC", "GRPC" or "HTTP+JSON".
        version: `V1` or `V03`.
    """

    url: str
    protocol: str
    version: str = V1
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class PublicCard:
    """What an A2A card is made of: the agent's own card, and what only A2A asks for."""

    card: AgentCard
    bindings: tuple[Binding, ...] = ()
    streaming: bool = True
    push_notifications: bool = False
    extended_card: bool = False
    extensions: tuple[Extension, ...] = ()
    provider_url: str = ""
    provider_organization: str = ""
    documentation_url: str = ""
    icon_url: str = ""
