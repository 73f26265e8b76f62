"""Options of an agent's A2A bindings."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from protolink_grpc.a2a.values import BINDINGS, Extension
from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard


class Signer(Protocol):
    """Adds signatures to a card; `CardSigner` is the implementation of this package."""

    def sign(self, card: dict[str, Any]) -> dict[str, Any]: ...


@checks_arguments
@dataclass(frozen=True, slots=True)
class PushOptions:
    """The settings of an agent's push notifications.

    Args:
        allow: Non-public networks that may be posted to, such as "10.1.0.0/16", or "private" for all networks that are private
            to an organisation or a machine.
        max_per_task: Maximum number of webhooks of one task.
        connections: Maximum number of concurrent attempts, to all receivers; a single principal gets at most a quarter of them.
        timeout_s: Timeout of one attempt in seconds. Source: A2A v1.0.1 recommends 10 to 30 s.
        give_up_s: Age in seconds at which a notification that was never accepted is given up: it is skipped.
        tls: TLS context that verifies https receivers; None trusts the usual certificate authorities.
    """

    allow: tuple[str, ...] = ()
    max_per_task: int = 100
    connections: int = 64
    timeout_s: float = 15.0
    give_up_s: float = 3600.0
    tls: ssl.SSLContext | None = field(default=None, compare=False)


ExtendedCard = AgentCard | Callable[[Principal], AgentCard | None]


@checks_arguments
@dataclass(frozen=True, slots=True)
class A2AOptions:
    """The settings of an agent's A2A interface.

    Args:
        v03: Serve A2A v0.3 besides v1.0, on the same ports.
        dual_card: Add the v0.3 fields to the card, for clients that support v0.3 only. A client that requests the card with
            `A2A-Version: 1.0` gets the v1.0 fields only.
        interfaces: Bindings that the card lists, preferred first: some of "JSONRPC", "HTTP+JSON" and "GRPC". None lists all served
            bindings. A binding that is not listed is still served.
        streaming: Serve the two streaming operations.
        push: Send push notifications; None refuses them. `PushOptions()` allows public addresses only.
        extended_card: Card for authenticated callers, or a function that returns one for a principal (None: no card for it).
        extensions: Extensions that the card declares; every request must name the required ones.
        tenants: Tenant names that requests may contain; None accepts any. Each tenant is a partition of its caller's tasks.
        message_replies: Handlers may reply with a message instead of a task (`task.metadata["a2a"] = {"reply": "message"}`).
            A stream then sends nothing until it is certain which of the two the response is.
        signer: Signs the public card.
        public_card: Whether the card can be read without credentials.
        card_max_age_s: How long clients may cache the card, in seconds.
        provider_organization, provider_url: The provider of the agent; both or neither.
    """

    v03: bool = True
    dual_card: bool = True
    interfaces: tuple[str, ...] | None = None
    streaming: bool = True
    push: PushOptions | None = None
    extended_card: ExtendedCard | None = None
    extensions: tuple[Extension, ...] = ()
    tenants: frozenset[str] | None = None
    message_replies: bool = False
    signer: Signer | None = None
    public_card: bool = True
    card_max_age_s: int = 300
    provider_organization: str = ""
    provider_url: str = ""
    documentation_url: str = ""
    icon_url: str = ""

    def __post_init__(self) -> None:
        if bool(self.provider_organization) != bool(self.provider_url):
            raise InvalidArgumentError("must be given together with provider_organization", field="provider_url")
        given = self.interfaces
        if given is not None and (not given or len(set(given)) < len(given) or not set(given) <= set(BINDINGS)):
            raise InvalidArgumentError(f"must name some of {', '.join(BINDINGS)}, each once", field="interfaces")
        if self.card_max_age_s < 0:
            raise InvalidArgumentError("must not be negative", field="card_max_age_s")
