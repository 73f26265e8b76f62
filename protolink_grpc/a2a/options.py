"""What an agent wants of its A2A edge."""

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
    """Puts signatures on a card: a `CardSigner`."""

    def sign(self, card: dict[str, Any]) -> dict[str, Any]: ...


@checks_arguments
@dataclass(frozen=True, slots=True)
class PushOptions:
    """How an agent sends push notifications.

    Args:
        allow: Networks that may be posted to although they are not public: "10.1.0.0/16", or "private" for those that an
            organisation or a machine has to itself.
        max_per_task: Webhooks of one task.
        connections: Attempts under way at once, to all receivers; those of one principal have a quarter of them.
        timeout_s: Of one attempt. Source: A2A v1.0.1 recommends 10 to 30 s.
        give_up_s: Age at which a notification that nobody accepts is left out.
        tls: What https receivers are verified with; None trusts the usual authorities.
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
    """How an agent behaves as an A2A agent.

    Args:
        v03: Speak A2A v0.3 beside v1.0, on the same ports.
        dual_card: Put v0.3's fields into the card, too, for clients that know no other. A reader that sends `A2A-Version: 1.0` with
            its request for the card gets v1.0's fields alone.
        interfaces: Bindings that the card lists, best first: some of "JSONRPC", "HTTP+JSON" and "GRPC". None lists all that are
            served. A binding that is not listed is served even so.
        streaming: Offer the two streaming operations.
        push: Send push notifications; None refuses them. `PushOptions()` reaches public addresses only.
        extended_card: Shown to authenticated callers: a card, or what makes one for a principal (None: there is none for it).
        extensions: Declared in the card; the required ones are demanded of every request.
        tenants: Names that requests may bring; None accepts any. Each tenant is a partition of what its caller owns.
        message_replies: Handlers may answer with a message instead of a task (`task.metadata["a2a"] = {"reply": "message"}`).
            Streams then show nothing before it is clear which of the two it is.
        signer: Signs the public card.
        public_card: Whether the card is shown without credentials.
        card_max_age_s: How long clients may keep the card, in seconds.
        provider_organization, provider_url: Who offers the agent; both or neither.
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
            raise InvalidArgumentError("names an organization and a url, or neither", field="provider_url")
        given = self.interfaces
        if given is not None and (not given or len(set(given)) < len(given) or not set(given) <= set(BINDINGS)):
            raise InvalidArgumentError(f"must name some of {', '.join(BINDINGS)}, each once", field="interfaces")
        if self.card_max_age_s < 0:
            raise InvalidArgumentError("must not be negative", field="card_max_age_s")
