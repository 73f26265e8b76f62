"""ProtoLink's transport objects: the address of a server, or the settings of a client, in place of a transport's name.

They hold settings only. The ports of agents and registries listen, and AgentClient calls: the same code as without these objects.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Literal, Protocol

from protolink_grpc.auth.credentials import BearerToken, Credentials
from protolink_grpc.auth.principal import Authenticate
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.compat.protolink.task_events import TaskEvent, TaskEvents
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.fold import copy_artifact, copy_message
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.task import Task, stored_metadata
from protolink_grpc.net.tls import TLSConfig

DEFAULT_TIMEOUT_S = 360.0


class Server(Protocol):
    """An agent or a registry that listens at the address of a transport."""

    @property
    def is_running(self) -> bool: ...

    async def serve(self) -> None: ...

    async def aclose(self) -> None: ...


@checks_arguments
class Transport:
    """The address and the settings of one kind of protocol.

    Given to `Agent` or `Registry`, it is the address to listen on, and `authenticator` checks their callers. Given to
    `AgentClient`, its timeout, certificates and credentials apply to the client's calls, and streams yield ProtoLink's events.

    Args:
        url: The address, with one of the schemes of the protocol.
        timeout: Seconds that a call may take. It may be changed, and then applies to the next call.
        authenticator: Authenticates the callers of a server.
        credentials: Sent with calls: a bearer token, or Credentials.
        tls: Certificates.

    Raises:
        InvalidArgumentError: The URL has another scheme; names `url`.
    """

    transport_type: ClassVar[str]
    supports_streaming: ClassVar[bool] = True
    schemes: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        url: str,
        timeout: float = DEFAULT_TIMEOUT_S,
        authenticator: Authenticate | None = None,
        credentials: str | Credentials | None = None,
        *,
        tls: TLSConfig | None = None,
    ) -> None:
        self._url = url
        if not self.validate_url():
            wanted = " or ".join(f"{each}://" for each in self.schemes)
            raise InvalidArgumentError(
                f"{url!r} is not a URL of {type(self).__name__}, which begins with {wanted}", field="url"
            )
        self.timeout = timeout
        self.authenticator = authenticator
        self.tls = tls
        self._credentials = _TransportCredentials(credentials)
        self._server: Server | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    @property
    def url(self) -> str:
        return self._url

    @property
    def credentials(self) -> Credentials:
        """The credentials of calls, which `authenticate` replaces."""
        return self._credentials

    @property
    def has_credentials(self) -> bool:
        """Whether calls carry credentials."""
        return not self._credentials.is_empty

    @property
    def is_running(self) -> bool:
        """Whether the server with this transport is running. A transport of a client has no server."""
        return self._server is not None and self._server.is_running

    def validate_url(self) -> bool:
        """Return whether the URL has a scheme of this transport."""
        return self._url.partition("://")[0].lower() in self.schemes

    async def authenticate(self, credentials: str | Credentials) -> None:
        """Send other credentials with the next calls: a bearer token, or Credentials."""
        self._credentials.use(credentials)

    def attach(self, server: Server) -> None:
        """Make `start`, `stop` and `is_running` those of a server."""
        self._server = server

    async def start(self) -> None:
        """Start the server with this transport. A client needs no start."""
        if self._server is not None:
            await self._server.serve()

    async def stop(self) -> None:
        """Stop the server with this transport."""
        if self._server is not None:
            await self._server.aclose()

    def event_converter(
        self, get_task: Callable[[str], Awaitable[Task]]
    ) -> Callable[[RunEvent], Awaitable[list[TaskEvent]]]:
        """Return the function that converts the events of one stream of a client: see TaskEvents."""
        return TaskEvents(get_task).of

    def note_answer(self, task: Task, answer: Task) -> None:
        """Called with each task that a user has sent, and the agent's current task."""

    async def subscribe(self, agent_url: str, task: Task) -> AsyncGenerator[dict[str, Any], None]:
        """Send a task to an agent and yield the events of its turn as JSON objects."""
        stream: Any = AgentClient(self).send_task_streaming(agent_url, task)
        async with aclosing(stream) as events:
            async for event in events:
                yield event.to_dict()


class HTTPTransport(Transport):
    """HTTP, with server-sent events for streams.

    Args:
        backend, log_level, access_log: Accepted as in ProtoLink and without effect, because there is one HTTP server.
        validate_schema: Without effect, because every request is validated.
    """

    transport_type = "http"
    schemes = ("http", "https")

    def __init__(
        self,
        url: str,
        timeout: float = DEFAULT_TIMEOUT_S,
        authenticator: Authenticate | None = None,
        backend: Literal["starlette", "fastapi"] = "starlette",
        *,
        validate_schema: bool = False,
        credentials: str | Credentials | None = None,
        log_level: str = "info",
        access_log: bool = True,
        tls: TLSConfig | None = None,
    ) -> None:
        super().__init__(url, timeout, authenticator, credentials, tls=tls)
        self.backend, self.validate_schema = backend, validate_schema


class SSEJSONRPCTransport(HTTPTransport):
    """HTTP, with server-sent events for streams. In this package there is no difference from HTTPTransport but the name."""

    transport_type = "sse"


class WebSocketTransport(Transport):
    """WebSocket."""

    transport_type = "websocket"
    schemes = ("ws", "wss")


class RuntimeTransport(Transport):
    """Agents in the same process. The tasks that are sent over it are brought up to date when their turn ends."""

    transport_type = "runtime"
    schemes = ("runtime",)

    def note_answer(self, task: Task, answer: Task) -> None:
        if task.id == answer.id:
            _bring_up_to_date(task, answer)


class GRPCTransport(Transport):
    """gRPC, the native protocol."""

    transport_type = "grpc"
    schemes = ("grpc", "grpcs")


def _bring_up_to_date(task: Task, latest: Task) -> None:
    """Give a task the state and the content of its latest version. The two share no message, artifact and metadata."""
    task.state, task.created_at = latest.state, latest.created_at
    task.messages = [copy_message(message) for message in latest.messages]
    task.artifacts = [copy_artifact(artifact) for artifact in latest.artifacts]
    task.metadata, task.flow_state = plain(stored_metadata(latest)), plain(latest.flow_state)
    task.context, task.session_id, task.state_history = latest.context, latest.session_id, list(latest.state_history)
    task.failure, task.cancel_reason, task.usage = latest.failure, latest.cancel_reason, latest.usage


class _TransportCredentials:
    """The current credentials of a transport; none until they are set."""

    def __init__(self, credentials: str | Credentials | None) -> None:
        self._current: Credentials | None = None
        if credentials is not None:
            self.use(credentials)

    @property
    def is_empty(self) -> bool:
        return self._current is None

    def use(self, credentials: str | Credentials) -> None:
        self._current = BearerToken(credentials) if isinstance(credentials, str) else credentials

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        return {} if self._current is None else await self._current.headers(audience_url)

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        return self._current is not None and await self._current.refresh(refused)
