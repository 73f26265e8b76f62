"""What a client knows of one A2A peer: its card, what its tasks are called there, and how far they were read."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from protolink_grpc.a2a.pb_codec import update_from_pb
from protolink_grpc.a2a.values import A2A_KEY, Update
from protolink_grpc.client.a2a_messages import tidied
from protolink_grpc.client.a2a_way import Card, Way, a2a_errors, chosen, fetch_card, grpc_way, way_to
from protolink_grpc.client.card_places import Guide, Place
from protolink_grpc.client.foreign_reading import Reading
from protolink_grpc.client.http_channel import Sender
from protolink_grpc.client.recent import Recent
from protolink_grpc.errors import UnauthenticatedError, UnavailableError
from protolink_grpc.models.task import Task
from protolink_grpc.wire.address import Address

KNOWN_LINKS = 10_000
"""Tasks whose A2A names are remembered."""

OPEN_READINGS, DONE_READINGS = 1_000, 100
"""Tasks whose content is remembered, to go on from there: unfinished ones, and the latest that ended."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a task and its session are called there; empty where that is not known, or there is none."""

    task_id: str = ""
    context_id: str = ""


@dataclass(slots=True)
class A2APeer:
    """What a client knows of one peer, from whichever loop it asks: its card, and the tasks that it was given.

    Attributes:
        binding: The binding to speak; empty leaves the choice to the peer.
        knows_keys: Whether a request with an idempotency key can be repeated there, by its latest card.
    """

    sender: Sender
    binding: str = ""
    links: Recent[Link] = field(default_factory=lambda: Recent(KNOWN_LINKS))
    names: Recent[str] = field(default_factory=lambda: Recent(KNOWN_LINKS))
    _unfinished: Recent[Reading] = field(default_factory=lambda: Recent(OPEN_READINGS))
    _finished: Recent[Reading] = field(default_factory=lambda: Recent(DONE_READINGS))
    knows_keys: bool = False
    _card: Card | None = None
    _chosen: tuple[Card, Place, Guide] | None = None

    @property
    def url(self) -> str:
        return self.sender.address.url

    async def card(self, *, asked: bool = False) -> Card:
        """The card; `asked` from the peer, however fresh the known one is."""
        known = self._card
        if known is None or asked or time.monotonic() >= known.fresh_until:
            known = self._card = await fetch_card(self.sender, known)
            self.knows_keys = known.has_own_services
        return known

    async def way(self) -> Way:
        """The way to it.

        Raises:
            UnimplementedError, InvalidAgentResponseError: Its card names none, or leads where it must not.
        """
        card = await self.card()
        known = self._chosen
        if known is None or known[0] is not card:
            known = self._chosen = (card, *await chosen(card, self.sender, self.binding))
        return way_to(known[1], known[2], card, self.sender)

    def note(self, task_id: str, link: Link) -> None:
        self.links.keep(task_id, link)
        if link.task_id:
            self.names.keep(link.task_id, task_id)

    def reading_of(self, task_id: str) -> Reading | None:
        """The latest reading of a task that is complete, as far as it goes."""
        return self._unfinished.get(task_id) or self._finished.get(task_id)

    def keep(self, reading: Reading) -> None:
        """Somebody has read so far, and reads no further now."""
        task_id = reading.fold.task_id
        if reading.fold.is_terminal:
            self._unfinished.drop(task_id)
            self._finished.keep(task_id, reading)
        elif reading.fold.sequence:
            self._unfinished.keep(task_id, reading)

    def link_of(self, task: Task) -> Link | None:
        """The A2A task that a task of ours is there, as far as this client or the task itself knows; None for a new one."""
        known = self.links.get(task.id)
        said = task.metadata.get(A2A_KEY)
        if known is not None or not isinstance(said, dict) or said.get("url") != self.url:
            return known
        task_id, context_id = said.get("task_id"), said.get("context_id")
        return Link(
            task_id if isinstance(task_id, str) else "",
            context_id if isinstance(context_id, str) else "",
        )

    async def ask(self, way: Way, verb: str, request: Any, task_id: str = "", *, key: str = "") -> Any:
        """The one answer to a request; with new credentials where the peer refuses the ones that it was shown.

        Args:
            key: Idempotency key of a request that sends.
        """
        renewed = False
        while True:
            call = await way.call(self.sender, key)
            try:
                with a2a_errors(self.url, way.grpc, **_named(task_id)):
                    return await getattr(way.transport, verb)(request, context=call)
            except UnauthenticatedError:
                if renewed or not await self.sender.refresh(call.service_parameters):
                    raise
                renewed = True
            except UnavailableError:
                self._card = None  # it may have moved
                raise

    async def follow(
        self, way: Way, verb: str, request: Any, task_id: str, *, key: str = ""
    ) -> AsyncGenerator[Update, None]:
        """The same for a stream, before its first answer."""
        renewed = begun = False
        while True:
            call = await way.call(self.sender, key)
            try:
                with a2a_errors(self.url, way.grpc, **_named(task_id)):
                    async with aclosing(getattr(way.transport, verb)(request, context=call)) as responses:
                        async for response in responses:
                            begun = True
                            answer = tidied(response)
                            if answer.WhichOneof("payload") is not None:
                                yield update_from_pb(answer)
                return
            except UnauthenticatedError:
                if begun or renewed or not await self.sender.refresh(call.service_parameters):
                    raise
                renewed = True
            except UnavailableError:
                self._card = None  # it may have moved
                raise


class GrpcPeer(A2APeer):
    """The A2A service on the gRPC port of one of our agents, called without a card."""

    __slots__ = ("address",)

    def __init__(self, sender: Sender, address: Address) -> None:
        super().__init__(sender)
        self.address = address

    async def way(self) -> Way:
        return grpc_way(self.address, self.sender)


def _named(task_id: str) -> dict[str, str]:
    return {"task_id": task_id} if task_id else {}
