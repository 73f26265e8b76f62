"""Decides which peers receive an agent's credentials: only those that its configuration names."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from protolink_grpc.agent.registry import Registry
from protolink_grpc.auth.confidential import is_confidential
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.client.lru_map import LRUMap
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, UnauthenticatedError
from protolink_grpc.logs import get_logger
from protolink_grpc.net.address import RUNTIME_SCHEME, comparable_url, origin_of

log = get_logger(__name__)

LOGGED_PEERS = 1_000
"""Maximum number of peers for which it is remembered that calls without credentials were logged."""


@dataclass(frozen=True, slots=True)
class PeerConnection:
    """A peer and the client for it.

    Args:
        withheld: The agent has credentials or metadata that this client does not send.
    """

    url: str
    client: AgentClient
    withheld: bool = False

    @contextmanager
    def explain_refusals(self) -> Iterator[None]:
        """Add to an UnauthenticatedError of the peer that no credentials were sent, and how to send them."""
        try:
            yield
        except UnauthenticatedError as error:
            if not self.withheld:
                raise
            raise UnauthenticatedError(
                f"{error}; no credentials were sent, because this agent does not trust {self.url}: "
                f"add {_server_of(self.url)!r} to its trusted_peers",
                **{**error.metadata, "url": self.url},
            ) from error


class PeerTrust:
    """The decision for one agent.

    Args:
        peers: URLs, compared by scheme, host and port, and names in the registry.
        whole_registry: Every agent in the registry is trusted.
        registry: The agent's setting.

    Raises:
        InvalidArgumentError: A URL is invalid, or the responses of the registry for a name could be forged.
    """

    def __init__(
        self,
        peers: Iterable[str],
        whole_registry: bool,
        registry: "Registry | RegistryClient | None",
    ) -> None:
        if isinstance(peers, str):
            raise InvalidArgumentError("must be a list of URLs and names", field="trusted_peers")
        entries = list(enumerate(peers))
        self._origins = {origin_of(each, field=f"trusted_peers[{index}]") for index, each in entries if "://" in each}
        self._names = {each for _, each in entries if "://" not in each}
        self._whole_registry = whole_registry
        self._registry = registry.client if isinstance(registry, Registry) else registry
        if registry is not None and self._needs_registry:
            _check_registry(registry, "trust_registry" if whole_registry else "trusted_peers")

    @property
    def _needs_registry(self) -> bool:
        return self._whole_registry or bool(self._names)

    def without_names(self) -> "PeerTrust":
        """Return the trust in servers only."""
        servers = PeerTrust((), False, None)
        servers._origins = self._origins
        return servers

    def of_name(self, name: str) -> bool:
        """Return whether the agent with that name in the registry is trusted."""
        return self._whole_registry or name in self._names

    def of_server(self, url: str) -> bool:
        """Return whether the configuration contains the server of a URL."""
        try:
            return bool(self._origins) and origin_of(url) in self._origins
        except InvalidArgumentError:
            return False

    async def of_url(self, url: str) -> bool:
        """Return whether a URL from any source is trusted: by its server, or because a trusted agent is registered there."""
        if self.of_server(url):
            return True
        if self._registry is None or not self._needs_registry:
            return False
        try:
            card = (await self._registry.get(url)).card
        except ProtolinkError:
            return False
        return comparable_url(card.url) == comparable_url(url) and self.of_name(card.name)


class PeerClients:
    """The two clients of an agent, with and without credentials.

    Args:
        own: Sends the agent's credentials and metadata.
        plain: Sends neither; None if the agent has neither.
        agent_name: For the log.
    """

    def __init__(self, own: AgentClient, plain: AgentClient | None = None, agent_name: str = "") -> None:
        self.own = own
        self._plain = plain
        self._agent_name = agent_name
        self._logged: LRUMap[bool] = LRUMap(LOGGED_PEERS)

    @property
    def has_secrets(self) -> bool:
        """Whether the two clients differ."""
        return self._plain is not None

    def reach(self, url: str, *, trusted: bool) -> PeerConnection:
        """Return the client for a peer. The first call to a peer without credentials is logged."""
        if self._plain is None or trusted or url.startswith(RUNTIME_SCHEME):
            return PeerConnection(url, self.own)
        server = _server_of(url)
        if self._logged.get(server) is None:
            self._logged.put(server, True)
            log.warning(
                "%s sends no credentials to %s, because it is not in the agent's trusted_peers",
                self._agent_name,
                server,
            )
        return PeerConnection(url, self._plain, withheld=True)


def _check_registry(registry: Registry | RegistryClient, field: str) -> None:
    if isinstance(registry, Registry):
        if not registry.authenticates:
            raise InvalidArgumentError(
                "the registry does not authenticate registrations, so any caller can register any name: give it an "
                "authenticator, or trust peers by their URLs",
                field=field,
            )
    elif not is_confidential(registry.url):
        raise InvalidArgumentError(
            f"the registry at {registry.url} is not reached over TLS, so its responses can be forged: use TLS, or trust "
            "peers by their URLs",
            field=field,
        )


def _server_of(url: str) -> str:
    """Return the scheme, host and port of a peer's URL."""
    scheme, separator, rest = comparable_url(url).partition("://")
    return f"{scheme}{separator}{rest.partition('/')[0]}"
