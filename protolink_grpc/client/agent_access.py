"""The settings of a client, and the agent that a URL names. The calls of agents are in other modules."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import grpc.aio

from protolink_grpc.auth.confidential import check_headers
from protolink_grpc.auth.credentials import Credentials
from protolink_grpc.client.backoff import OUTAGE_S
from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.port import A2ATasks, AgentPort, AgentSource, ClientTransport
from protolink_grpc.client.sources import GRPC, SOURCES, WEB, SourceOptions, create_source
from protolink_grpc.client.typed_stub import LoopChannel, StubChannel
from protolink_grpc.errors import InvalidArgumentError, UnimplementedError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import TRANSPORT_ALIASES, AgentCard
from protolink_grpc.net.address import RUNTIME_SCHEME, Address
from protolink_grpc.net.tls import TLSConfig

S = TypeVar("S")

A2ABinding = Literal["JSONRPC", "HTTP+JSON", "GRPC"]

CONNECT_S = 2.0
"""Timeout of `connect`. It is short, because another agent may be able to do the work."""

_WEB_SCHEMES = {"a2a": "http://", "http": "http://", "sse": "http://", "websocket": "ws://"}
_SCHEMES = {"grpc": "grpc://", "runtime": RUNTIME_SCHEME, **_WEB_SCHEMES}
"""The default URL scheme of each transport."""


@checks_arguments
class AgentAccess:
    """Opens agents by URL, with one set of options and credentials. `AgentClient` describes the arguments."""

    def __init__(
        self,
        transport: str | ClientTransport = "grpc",
        url: str | None = None,
        timeout: float | None = 300.0,
        *,
        tls: TLSConfig | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        credentials: Credentials | None = None,
        outage_s: float = OUTAGE_S,
        trusted_origins: Sequence[str] = (),
        insecure_ok: bool = False,
        binding: A2ABinding | None = None,
    ) -> None:
        self._transport_object: ClientTransport | None = None
        if not isinstance(transport, str):
            if tls is not None or credentials is not None:
                raise InvalidArgumentError(
                    "has its own certificates and credentials: set them there", field="transport"
                )
            self._transport_object, url = transport, url or transport.url
            tls, credentials, transport = transport.tls, transport.credentials, transport.transport_type
        elif "://" in transport:
            if url is not None:
                raise InvalidArgumentError("is a URL, so url must not be given, too", field="transport")
            transport, url = "grpc", transport
        transport = TRANSPORT_ALIASES.get(transport, transport)
        if transport not in _SCHEMES:
            raise InvalidArgumentError(f"{transport!r} is not one of {', '.join(_SCHEMES)}", field="transport")
        if binding is not None and transport not in ("a2a", "grpc"):
            raise InvalidArgumentError(f"is for A2A agents only, and the transport is {transport}", field="binding")
        self.transport = transport
        self.url = url
        self._timeout_s = timeout
        self._options = ChannelOptions(tls, tuple(metadata), credentials, outage_s)
        self._insecure_ok = insecure_ok
        self._binding = binding
        self._source_options = SourceOptions(self._options, tuple(trusted_origins), insecure_ok, binding or "")
        self._sources: dict[str, AgentSource] = {}

    # Python's error about a wrong name of an argument has this name: callers know only the public class.
    __init__.__qualname__ = "AgentClient.__init__"

    @property
    def timeout(self) -> float | None:
        """Seconds that a unary call may take. That of a transport object, if the client has one."""
        return self._timeout_s if self._transport_object is None else self._transport_object.timeout

    @timeout.setter
    def timeout(self, timeout: float | None) -> None:
        if self._transport_object is None:
            self._timeout_s = timeout
        elif timeout is not None:
            self._transport_object.timeout = timeout

    @property
    def is_anonymous(self) -> bool:
        """Whether the calls carry no credentials: neither `credentials`, nor metadata, nor a client certificate."""
        if self._transport_object is not None and not self._transport_object.has_credentials:
            return replace(self._options, credentials=None).is_anonymous
        return self._options.is_anonymous

    @property
    def outage_s(self) -> float:
        """How long an interrupted call or stream is retried without progress, in seconds."""
        return self._options.outage_s

    def _url(self, agent_url: str | None) -> str:
        url = agent_url or self.url
        if not url:
            raise InvalidArgumentError("is required, because the client has no url", field="agent_url")
        if "://" not in url:
            url = _SCHEMES[self.transport] + url
        scheme, _, rest = url.partition("://")
        return f"{scheme.lower()}://{rest}"

    def _agent(self, agent_url: str | None, *, outage_s: float | None = None) -> AgentPort:
        url = self._url(agent_url)
        check_headers(self._options.metadata, url, insecure_ok=self._insecure_ok)
        # An unknown scheme is refused as an invalid gRPC address.
        name = SOURCES.get(url.partition("://")[0], GRPC)
        if self._binding is not None and name != WEB:
            raise InvalidArgumentError(
                f"selects an interface of an A2A card, and {url} has no such card: use the agent's http:// URL",
                field="binding",
            )
        return self._source(name).open(url, self.transport, outage_s=outage_s)

    def _source(self, name: str) -> AgentSource:
        source = self._sources.get(name)
        if source is None:
            source = self._sources[name] = create_source(name, self._source_options)
        return source

    def _over_a2a(self, agent_url: str | None) -> Any:
        """Open an agent over A2A, which is the only protocol with webhooks."""
        url = self._url(agent_url)
        if url.startswith(RUNTIME_SCHEME):
            raise UnimplementedError(
                f"{url} is in this process and does not support webhooks: subscribe to the task", url=url
            )
        web: Any = self._source(WEB)
        return web.a2a_agent(url)

    def stub(self, kind: Callable[[grpc.aio.Channel], S], agent_url: str | None = None) -> S:
        """Return a generated stub, such as `CalculatorStub`, over the channel to an agent.

        Its calls have the client's credentials, timeout, trace headers and retries. Each unary call has an `x-request-id`, so a
        retry never runs twice on an agent of this package. Pass `metadata=(("x-request-id", ...),)` to repeat a call yourself.

        Raises:
            InvalidArgumentError: The URL is not one of gRPC.
        """
        channel: Any = self.stub_channel(agent_url, timeout_s=self.timeout)
        return kind(channel)

    def stub_channel(self, agent_url: str | None = None, *, timeout_s: float | None) -> StubChannel:
        """Return the channel of the stubs of an agent.

        Args:
            timeout_s: Default timeout of a unary call; None means no timeout.

        Raises:
            InvalidArgumentError: The URL is not one of gRPC.
        """
        url = self._url(agent_url)
        check_headers(self._options.metadata, url, insecure_ok=self._insecure_ok)
        if not url.startswith(("grpc://", "grpcs://")):
            raise InvalidArgumentError(
                f"{url} is not a grpc:// or grpcs:// URL, over which stubs are called", field="agent_url"
            )
        address = Address.parse(url)
        return StubChannel(LoopChannel(address, self._options), address, self._options, timeout_s)

    async def connect(self, agent_url: str | None = None) -> None:
        """Check that the agent can be reached. A later call that fails may have reached the agent.

        Raises:
            UnavailableError: The agent could not be reached within `CONNECT_S`.
        """
        agent = self._agent(agent_url, outage_s=min(self.outage_s, CONNECT_S))
        if not agent.is_connected:
            await agent.card(self.timeout)

    async def protocol(self, agent_url: str | None = None) -> str:
        """Return the protocol over which an agent is called: `plgrpc`, `a2a` or `protolink`. It is detected for web URLs."""
        return await self._agent(agent_url).protocol()

    def a2a_tasks(self, agent_url: str | None = None) -> A2ATasks:
        """Return the tasks of this client at an agent that is called over A2A."""
        tasks: A2ATasks = self._over_a2a(agent_url)
        return tasks

    async def get_agent_card(self, agent_url: str | None = None) -> AgentCard:
        """Return the agent's card: its name, skills and interfaces."""
        return await self._agent(agent_url).card(self.timeout)
