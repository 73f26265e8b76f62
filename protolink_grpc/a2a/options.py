"""What an agent wants of its A2A edge."""

from collections.abc import Callable
from dataclasses import dataclass

from protolink_grpc.a2a.push import PushOptions
from protolink_grpc.a2a.signing import CardSigner
from protolink_grpc.a2a.values import Extension
from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCard

ExtendedCard = AgentCard | Callable[[Principal], AgentCard | None]


@dataclass(frozen=True, slots=True)
class A2AOptions:
    """How an agent behaves as an A2A agent.

    Args:
        v03: Speak A2A v0.3 beside v1.0, on the same ports.
        dual_card: Put v0.3's fields into the card, too, for clients that know no other. Strict readers of v1.0 may refuse it then.
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
    dual_card: bool = False
    streaming: bool = True
    push: PushOptions | None = None
    extended_card: ExtendedCard | None = None
    extensions: tuple[Extension, ...] = ()
    tenants: frozenset[str] | None = None
    message_replies: bool = False
    signer: CardSigner | None = None
    public_card: bool = True
    card_max_age_s: int = 300
    provider_organization: str = ""
    provider_url: str = ""
    documentation_url: str = ""
    icon_url: str = ""

    def __post_init__(self) -> None:
        if bool(self.provider_organization) != bool(self.provider_url):
            raise InvalidArgumentError("names an organization and a url, or neither", field="provider_url")
        if self.card_max_age_s < 0:
            raise InvalidArgumentError("must not be negative", field="card_max_age_s")
