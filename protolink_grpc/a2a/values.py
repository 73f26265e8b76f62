"""Parameters and results of the A2A operations, the same for every binding.

Codecs convert requests of a binding into these values and these values into responses; the operations use nothing else. Where the
models of this package have a term of their own, it is used here: a `contextId` is a session, a `messageId` the id of a message.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL, Principal
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.push_config import PushConfig

OWN_KEY = "plgrpc"
"""Key in A2A metadata for values that only this package reads."""

TASK_METADATA = "task_metadata"
"""Key below `OWN_KEY` in an update: the changed keys of the task's metadata, with null for removed keys."""

RETRY_OF = "retry_of"
"""Key below `OWN_KEY` in a task that is the retry of another one: the id of the first attempt."""

A2A_KEY = "a2a"
"""Key in the metadata of our tasks, messages, parts and artifacts for A2A values that the models have no field for."""

V1, V03 = "1.0", "0.3"
"""Supported versions of the protocol."""

JSONRPC, REST, GRPC = BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
"""A2A's bindings, as its cards name them."""

IDEMPOTENCY_KEY = "idempotency-key"
"""HTTP header and gRPC metadata key. A repeated request with the same value is recognized as the same request."""

PAGE_SIZE, MAX_PAGE_SIZE = 50, 100
"""Default and maximum number of tasks, or push configs, of one page. Source: A2A v1.0.1, ListTasksRequest."""


@dataclass(frozen=True, slots=True)
class CallerInfo:
    """The caller of a request and the service parameters of the request.

    Args:
        authenticated: By credentials or a certificate; required for the extended card.
        version: `A2A-Version` as received, empty if absent.
        extensions: URIs in `A2A-Extensions`.
        idempotency_key: Idempotency key from a header or from gRPC metadata, empty if absent.
    """

    principal: Principal = ANONYMOUS_PRINCIPAL
    authenticated: bool = False
    version: str = ""
    extensions: frozenset[str] = frozenset()
    idempotency_key: str = ""


@dataclass(slots=True)
class SendParams:
    """Parameters of SendMessage and SendStreamingMessage.

    Args:
        message: Has the caller's message id; its `metadata[A2A_KEY]` may hold `extensions` and `reference_task_ids`.
        task_id: The task to continue; empty begins a new task.
        context_id: Session of the task; if empty, the server infers or creates one.
        metadata: Metadata of the request.
        history_length: Maximum number of messages in the response, newest last; None means all.
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
    """Parameters of ListTasks. `page_size` None means `PAGE_SIZE`; `updated_after_micros` 0 means any time."""

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
    """State of a task, as A2A shows it. `message` gives the reason for the state or the input that the task needs."""

    state: TaskState
    micros: int
    message: Message | None = None


@dataclass(slots=True)
class TaskView:
    """A task as a response shows it.

    Args:
        history: Oldest first, cut to the requested length; None omits the field.
        artifacts: Oldest first; None omits the field.
        sequence: Sequence of the last event that this view includes.
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
    """A message as the direct response, instead of a task."""

    message: Message
    context_id: str = ""
    sequence: int = 0


@dataclass(slots=True)
class StatusUpdate:
    """A change of a task's status. `final` marks the last update of a stream."""

    task_id: str
    context_id: str
    status: Status
    metadata: dict[str, Any] = field(default_factory=dict)
    final: bool = False
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class TextArtifact:
    """An artifact with text parts only, without its time. Streams contain thousands of them, so it is kept small."""

    id: str
    texts: list[str]
    name: str | None = None

    def to_artifact(self) -> Artifact:
        return Artifact(self.id, [Part("text", text) for text in self.texts], name=self.name)


@dataclass(slots=True)
class ArtifactUpdate:
    """An artifact or, with `append`, further parts of the artifact with the same id."""

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
        return artifact.to_artifact() if isinstance(artifact, TextArtifact) else artifact


Update = TaskView | MessageReply | StatusUpdate | ArtifactUpdate
"""One element of a stream: the payload of a `StreamResponse`."""


@dataclass(slots=True)
class TaskViewPage:
    """A page of tasks, last changed first; the token is empty on the last page."""

    tasks: list[TaskView]
    next_page_token: str
    page_size: int
    total_size: int


LARGE_VALUES = 5_000
"""Number of JSON values that take about 5 ms to convert to protobuf messages."""


def is_large(shown: Update | TaskViewPage) -> bool:
    """Return whether a response has too many JSON values, in data parts and metadata, to convert them to protobuf on the loop."""
    pending = _find_values(shown)
    count = 0
    while pending:
        value = pending.pop()
        count += len(value)
        if count > LARGE_VALUES:
            return True
        pending += [each for each in (value.values() if type(value) is dict else value) if type(each) in (dict, list)]
    return False


def _find_values(shown: Update | TaskViewPage) -> list[Any]:
    """Return the JSON objects and arrays in the data parts and metadata of a response."""
    if isinstance(shown, TaskViewPage):
        return [value for view in shown.tasks for value in _find_values(view)]
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
class NotificationBatch:
    """The notifications of a webhook for a piece of a log.

    Args:
        notifications: Pairs of event sequence and body, ascending. An event can have several notifications; most have none.
        sequence: Sequence of the last event read; if there was none to read, the position where the read began.
        is_last: Whether the webhook gets nothing after `sequence`, although the log may continue.
    """

    notifications: Sequence[tuple[int, bytes]]
    sequence: int
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Extension:
    """An A2A extension that the agent supports; callers must name the `required` ones."""

    uri: str
    description: str = ""
    required: bool = False
    params: dict[str, Any] = field(default_factory=dict)


OWN_SERVICES = "https://protolink-grpc.github.io/a2a/extensions/services/v1"
"""URI of this package's extension. It says that the services of `plgrpc.v1` are served over gRPC-Web under the base URL of the
card, and that a request with an idempotency key can be repeated. It is not required, so clients of other systems ignore it."""


def services_extension(names: Sequence[str]) -> Extension:
    """Return the extension of an agent that serves these services, given by their full names."""
    return Extension(
        OWN_SERVICES,
        "Services of plgrpc.v1 over gRPC-Web under the base URL of this card",
        params={"protocol": "grpc-web", "services": list(names)},
    )


@dataclass(frozen=True, slots=True)
class Binding:
    """One interface of the agent: an entry of `supportedInterfaces`.

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
    """The contents of an A2A card: the agent's own card and the fields that only A2A has."""

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
