"""The state that a client stores about an A2A peer: its card, the peer's ids of tasks, and how far each task was read."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from protolink_grpc.a2a.client.card_interfaces import InterfaceAddress, ResolvedAddress
from protolink_grpc.a2a.client.messages import tidy
from protolink_grpc.a2a.client.remote_log import Reading
from protolink_grpc.a2a.client.transport import (
    Card,
    PeerInterface,
    a2a_errors,
    choose_interface,
    fetch_card,
    grpc_interface,
    open_interface,
)
from protolink_grpc.a2a.pb_codec import update_from_pb
from protolink_grpc.a2a.values import A2A_KEY, Update
from protolink_grpc.client.http_channel import Sender
from protolink_grpc.client.lru_map import LRUMap
from protolink_grpc.errors import UnauthenticatedError, UnavailableError
from protolink_grpc.models.events import PeerTaskLinked
from protolink_grpc.models.task import Task
from protolink_grpc.net.address import Address

KNOWN_LINKS = 10_000
"""Maximum number of tasks whose A2A ids are stored."""

OPEN_READINGS, DONE_READINGS = 1_000, 100
"""Maximum number of tasks whose content is stored, so that reading can continue: unfinished and finished ones."""


@dataclass(frozen=True, slots=True)
class Link:
    """The peer's ids of a task and its session; empty if unknown or absent."""

    task_id: str = ""
    context_id: str = ""


@dataclass(slots=True)
class A2APeer:
    """The state of one peer, shared by all event loops of a client: its card and the tasks sent to it.

    Attributes:
        binding: The binding to use; empty prefers the order of the peer's card.
        links: The peer's ids, by task id.
        names: Task ids, by the peer's task id.
        notes: Receive the peer's ids of a task as soon as they are known, by task id.
        knows_keys: Whether the peer's latest card says that it supports idempotency keys.
    """

    sender: Sender
    binding: str = ""
    links: LRUMap[Link] = field(default_factory=lambda: LRUMap(KNOWN_LINKS))
    names: LRUMap[str] = field(default_factory=lambda: LRUMap(KNOWN_LINKS))
    notes: dict[str, Callable[[PeerTaskLinked], Awaitable[None]]] = field(default_factory=dict)
    _unfinished: LRUMap[Reading] = field(default_factory=lambda: LRUMap(OPEN_READINGS))
    _finished: LRUMap[Reading] = field(default_factory=lambda: LRUMap(DONE_READINGS))
    knows_keys: bool = False
    _card: Card | None = None
    _chosen: tuple[Card, InterfaceAddress, ResolvedAddress] | None = None

    @property
    def url(self) -> str:
        return self.sender.address.url

    @property
    def is_own_agent(self) -> bool:
        """Whether the peer is an agent of this package, according to its latest card."""
        return self.knows_keys

    async def card(self, *, refresh: bool = False) -> Card:
        """Return the card. `refresh` requests it from the peer even if the cached card is still fresh."""
        known = self._card
        if known is None or refresh or time.monotonic() >= known.fresh_until:
            known = self._card = await fetch_card(self.sender, known)
            self.knows_keys = known.has_own_services
        return known

    async def interface(self) -> PeerInterface:
        """Return the chosen interface of the peer.

        Raises:
            UnimplementedError: The card has no interface that is supported here.
            InvalidAgentResponseError: The card leads only to forbidden addresses.
        """
        card = await self.card()
        known = self._chosen
        if known is None or known[0] is not card:
            known = self._chosen = (card, *await choose_interface(card, self.sender, self.binding))
        return open_interface(known[1], known[2], card, self.sender)

    def remember_link(self, task_id: str, link: Link) -> None:
        self.links.put(task_id, link)
        if link.task_id:
            self.names.put(link.task_id, task_id)

    def reading_of(self, task_id: str) -> Reading | None:
        """Return the latest stored reading of a task, or None."""
        return self._unfinished.get(task_id) or self._finished.get(task_id)

    def store_reading(self, reading: Reading) -> None:
        """Store a reading when its reader stops."""
        task_id = reading.fold.task_id
        if reading.fold.is_terminal:
            self._unfinished.pop(task_id)
            self._finished.put(task_id, reading)
        elif reading.fold.sequence:
            self._unfinished.put(task_id, reading)

    def link_of(self, task: Task) -> Link | None:
        """Return the peer's ids of a task, as stored here or in the task's metadata; None for a new task."""
        known = self.links.get(task.id)
        own = task.metadata.get(A2A_KEY)
        if known is not None or not isinstance(own, dict) or own.get("url") != self.url:
            return known
        task_id, context_id = own.get("task_id"), own.get("context_id")
        return Link(
            task_id if isinstance(task_id, str) else "",
            context_id if isinstance(context_id, str) else "",
        )

    async def call(self, interface: PeerInterface, verb: str, request: Any, task_id: str = "", *, key: str = "") -> Any:
        """Send a unary request and return its response. If the peer refuses the credentials, refresh them and retry once.

        Args:
            key: Idempotency key, for a request that sends a message.
        """
        renewed = False
        while True:
            call = await interface.call(self.sender, key)
            try:
                with a2a_errors(self.url, interface.grpc, **_task_metadata(task_id)):
                    return await getattr(interface.transport, verb)(request, context=call)
            except UnauthenticatedError:
                if renewed or not await self.sender.refresh(call.service_parameters):
                    raise
                renewed = True
            except UnavailableError:
                self._card = None  # it may have moved
                raise

    async def stream(
        self, interface: PeerInterface, verb: str, request: Any, task_id: str, *, key: str = ""
    ) -> AsyncGenerator[Update, None]:
        """Send a request and yield the updates of its stream. Credentials are refreshed as in `call`, but only before the first
        response."""
        renewed = begun = False
        while True:
            call = await interface.call(self.sender, key)
            try:
                with a2a_errors(self.url, interface.grpc, **_task_metadata(task_id)):
                    async with aclosing(getattr(interface.transport, verb)(request, context=call)) as responses:
                        async for response in responses:
                            begun = True
                            update = tidy(response)
                            if update.WhichOneof("payload") is not None:
                                yield update_from_pb(update)
                return
            except UnauthenticatedError:
                if begun or renewed or not await self.sender.refresh(call.service_parameters):
                    raise
                renewed = True
            except UnavailableError:
                self._card = None  # it may have moved
                raise


class GrpcPeer(A2APeer):
    """The A2A service on the gRPC port of an agent of this package, called without a card."""

    __slots__ = ("address",)

    def __init__(self, sender: Sender, address: Address) -> None:
        super().__init__(sender)
        self.address = address

    @property
    def is_own_agent(self) -> bool:
        return True

    async def interface(self) -> PeerInterface:
        return grpc_interface(self.address, self.sender)


def _task_metadata(task_id: str) -> dict[str, str]:
    return {"task_id": task_id} if task_id else {}
