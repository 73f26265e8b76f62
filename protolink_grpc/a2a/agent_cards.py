"""The cards of an agent over A2A: the public one, and the extended one for authenticated callers."""

from collections.abc import Callable, Sequence

from protolink_grpc.a2a.negotiation import owner_of_request
from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.a2a.values import Binding, CallerInfo, PublicCard
from protolink_grpc.errors import ExtendedCardNotConfiguredError, UnauthenticatedError, UnsupportedOperationError
from protolink_grpc.models.card import AgentCard


class AgentCards:
    """The cards of one agent.

    Args:
        card: Returns the agent's current card.
        bindings: Returns the bindings that the card lists.
    """

    def __init__(
        self, card: Callable[[], AgentCard], bindings: Callable[[], Sequence[Binding]], options: A2AOptions
    ) -> None:
        self._card = card
        self._bindings = bindings
        self._options = options

    def public(self) -> PublicCard:
        """Return the public card."""
        return self._to_public_card(self._card())

    async def extended(self, caller: CallerInfo, tenant: str = "") -> PublicCard:
        """Return the extended card, which is for authenticated callers.

        Raises:
            UnsupportedOperationError: The agent has no extended card.
            UnauthenticatedError: The caller is not authenticated.
            ExtendedCardNotConfiguredError: There is no extended card for this caller.
        """
        configured = self._options.extended_card
        if configured is None:
            raise UnsupportedOperationError("this agent has no extended card")
        owner_of_request(caller, tenant, self._options)
        if not caller.authenticated:
            raise UnauthenticatedError("authentication is required for the extended card")
        card = configured(caller.principal) if callable(configured) else configured
        if card is None:
            raise ExtendedCardNotConfiguredError("there is no extended card for this caller")
        return self._to_public_card(card)

    def _to_public_card(self, card: AgentCard) -> PublicCard:
        options = self._options
        return PublicCard(
            card,
            tuple(self._bindings()),
            streaming=options.streaming,
            push_notifications=options.push is not None,
            extended_card=options.extended_card is not None,
            extensions=options.extensions,
            provider_url=options.provider_url,
            provider_organization=options.provider_organization,
            documentation_url=options.documentation_url,
            icon_url=options.icon_url,
        )
