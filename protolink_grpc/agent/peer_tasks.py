"""Tasks at other agents: sent, followed to their end, found again after a crash, and canceled.

Theory of operation. A delegated task outlives the call that sent it, and the process of its caller. Before a task is sent, the ids
that it will have are recorded (`note`). A run that continues after a crash gets this record (`known`): an agent that takes our id
answers a repeated request with the same task, and a task of an A2A agent is read by its ids there and not sent again, unless the
agent has lost it. A run that is canceled ends after the cancellations of its tasks, up to a timeout. After a crash in between, the
recovery repeats them.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from protolink_grpc.agent.local_agent import PRINCIPAL
from protolink_grpc.agent.peers import Peers
from protolink_grpc.agent.trust import PeerConnection
from protolink_grpc.auth.principal import ANONYMOUS
from protolink_grpc.client.backoff import Backoff
from protolink_grpc.client.port import A2A
from protolink_grpc.client.task_calls import Target
from protolink_grpc.errors import (
    DeadlineExceededError,
    InvalidAgentResponseError,
    ProtolinkError,
    RemoteError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.events import PeerTaskLinked
from protolink_grpc.models.ids import new_request_id
from protolink_grpc.models.task import Task
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.address import RUNTIME_SCHEME
from protolink_grpc.runtime.actions.delegation import Relay
from protolink_grpc.runtime.run import CANCEL_GRACE_S, current_run
from protolink_grpc.wire.tasks import MAX_ID_BYTES

log = get_logger(__name__)

Note = Callable[[PeerTaskLinked], Awaitable[None]]
"""Records the ids of a task at a peer."""


class PeerTasks:
    """The tasks of one agent at its peers.

    Args:
        peers: Finds the peers.
    """

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self._cancellations: set[asyncio.Task[Any]] = set()

    async def aclose(self) -> None:
        """Wait for pending cancellations up to a timeout. Those that remain are given up."""
        if self._cancellations:
            _, late = await asyncio.wait(set(self._cancellations), timeout=CANCEL_GRACE_S)
            for each in late:
                each.cancel()
            if late:
                await asyncio.wait(late)

    # -- sending -------------------------------------------------------------------------------------------------------------

    async def run(
        self,
        target: str,
        task: Task,
        request_id: str | None = None,
        *,
        note: Note | None = None,
        known: PeerTaskLinked | None = None,
        relay: Relay | None = None,
        continues: bool = False,
    ) -> Task:
        """Send a task and return it when it ends or waits. If the wait is canceled with the run, the task is canceled too.

        Args:
            note: Called after the peer is connected and before the task is sent, and again when an A2A peer has assigned its ids.
            known: The ids that an earlier process has noted for this request.
            relay: Receives the task's events.
            continues: The task must exist at the peer.
        """
        run, request = current_run(), request_id or new_request_id()
        peer: PeerConnection | None = None
        may_be_sent = False
        try:
            found = None if known is None else await self._find_recorded(target, task, known)
            peer = found or await self._connect(target, task, known)
            if run is not None:
                task = _in_session_of(run.principal, task, peer)
            protocol = "" if note is None else await peer.client.protocol(peer.url)
            if note is not None:
                await note(self._link(target, peer, task, protocol) if found is None or known is None else known)
            may_be_sent = True
            with peer.explain_refusals(), _noted_ids(peer, task, note if protocol == A2A else None):
                if found is not None:
                    return await self._follow(peer, task.id, relay)
                if relay is not None:
                    return await self._relay(peer, task, request, relay)
                return await self._send(peer, task, request, "continue" if continues else None)
        except asyncio.CancelledError:
            reason = None if run is None else run.token.reason
            if run is None or run.token.is_cancelled:
                if peer is not None and may_be_sent:
                    self.cancel_task(peer, task.id, reason)
                elif known is not None:  # an earlier process has sent it
                    self._spawn(_cancel_logged(self._reach(target, known), known.task_id, known.url, reason))
            raise

    async def _connect(self, target: str, task: Task, known: PeerTaskLinked | None) -> PeerConnection:
        """Connect to the peer for a task. If an earlier process may have sent it, wait for the peer as `_find_recorded`."""
        if known is None:
            return await self.peers.connect(target, task.id)
        backoff = Backoff(_patience_s())
        while True:
            backoff.begin()
            try:
                return await self.peers.connect(target, task.id, known.url)
            except UnavailableError as error:
                await backoff.wait_after(error)

    def _link(self, target: str, peer: PeerConnection, task: Task, protocol: str) -> PeerTaskLinked:
        """Return the ids that a task will have at a peer, as far as they are known."""
        name = self.peers.name_at(target, peer.url)
        if protocol == A2A:
            return PeerTaskLinked(name, peer.url, protocol)
        return PeerTaskLinked(name, peer.url, protocol, task.id, task.session_id or "")

    async def _send(self, peer: PeerConnection, task: Task, request: str, target: Target | None) -> Task:
        """Send the task in one call, and follow it if the call is interrupted."""
        try:
            return await peer.client.send_task(peer.url, task, request_id=request, target=target)
        except (DeadlineExceededError, UnavailableError) as error:
            # The task continues there: only the call has timed out or was interrupted.
            try:
                return await self._wait_ended(peer, task.id)
            except (TaskNotFoundError, UnimplementedError):
                raise error from None  # an agent of another system may not support getting tasks

    async def _relay(self, peer: PeerConnection, task: Task, request: str, relay: Relay) -> Task:
        task_id = task.id
        stream = peer.client.send_task_streaming(peer.url, task, request_id=request, deltas=relay.deltas)
        async with aclosing(stream) as events:
            async for event in events:
                task_id = event.task_id or task_id
                await relay.give(event)
        return await self._wait_ended(peer, task_id)

    async def _follow(self, peer: PeerConnection, task_id: str, relay: Relay | None) -> Task:
        """Follow a task that the peer has, until it ends or waits."""
        if relay is not None:
            stream = peer.client.subscribe(task_id, agent_url=peer.url, stop_at=StopAt.INTERRUPTED, deltas=relay.deltas)
            async with aclosing(stream) as events:
                async for event in events:
                    await relay.give(event)
        return await self._wait_ended(peer, task_id)

    async def _wait_ended(self, peer: PeerConnection, task_id: str) -> Task:
        """Wait for the end of a task across interruptions, without sending it again, which could start it again."""
        backoff = Backoff(OUTAGE_S)
        while True:
            backoff.begin()
            try:
                return await peer.client.wait_task(task_id, agent_url=peer.url)
            except ProtolinkError as error:
                if not _may_pass(error):
                    raise
                await backoff.wait_after(error)

    # -- after a crash -------------------------------------------------------------------------------------------------------

    async def _find_recorded(self, target: str, task: Task, known: PeerTaskLinked) -> PeerConnection | None:
        """Return the A2A peer that has the task which an earlier process sent; None if the task must be sent.

        It must be sent if the peer takes our ids, or states that it does not have the task. A peer that is unavailable or fails is
        asked again until the time of the run's budget is over, or for `LOST_S` without such a limit.

        Raises:
            ProtolinkError: The peer did not tell whether it has the task.
        """
        if known.protocol != A2A:
            return None
        patience_s = _patience_s()
        backoff = Backoff(patience_s)
        while True:
            backoff.begin()
            try:
                peer = await self.peers.reach_recorded(target, known.url)
                if await peer.client.a2a_tasks(peer.url).adopt(task, known, min(patience_s, READ_S)):
                    return peer
                why = "it has another context, or has not received the message"
            except ProtolinkError as error:
                if not _is_not_found(error):
                    if not _may_pass(error):
                        raise
                    await backoff.wait_after(error)
                    continue
                why = str(error)
            log.warning("task %s is sent again: task %s at %s: %s", task.id, known.task_id, known.url, why)
            return None

    # -- cancellation --------------------------------------------------------------------------------------------------------

    def cancel(self, target: str, task_id: str, reason: str) -> None:
        """Cancel a task of a peer, without waiting for it."""
        self._spawn(_cancel_logged(lambda: self.peers.find(target, task_id), task_id, target, reason))

    def cancel_task(self, peer: PeerConnection, task_id: str, reason: str | None) -> None:
        """Cancel a task of this agent at a peer, without waiting for the answer."""

        async def reach() -> PeerConnection:
            return peer

        self._spawn(_cancel_logged(reach, task_id, peer.url, reason))

    def _reach(self, target: str, known: PeerTaskLinked) -> Callable[[], Awaitable[PeerConnection]]:
        if known.protocol == A2A:
            return lambda: self.peers.reach_recorded(target, known.url)
        return lambda: self.peers.find(target, known.task_id, known.url)

    async def cancel_recorded(self, known: PeerTaskLinked, reason: str) -> None:
        """Cancel a task that an earlier process sent. A task that has ended, or that the peer does not have, needs no cancellation.

        Raises:
            ProtolinkError: The peer refused it, or was unavailable for `OUTAGE_S`.
        """
        await _cancel(self._reach(known.agent_name or known.url, known), known.task_id, reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine independently of the calling asyncio task. The end of a canceled run waits for it, up to a timeout."""
        cancellation = asyncio.get_running_loop().create_task(work)
        self._cancellations.add(cancellation)
        cancellation.add_done_callback(self._cancellations.discard)
        run = current_run()
        if run is not None:
            run.end_after(cancellation)


async def _cancel_logged(
    reach: Callable[[], Awaitable[PeerConnection]], task_id: str, where: str, reason: str | None
) -> None:
    """As `_cancel`, and log a failure."""
    try:
        await _cancel(reach, task_id, reason)
    except ProtolinkError as error:
        log.info("task %s at %s could not be canceled: %s", task_id, where, error)


async def _cancel(reach: Callable[[], Awaitable[PeerConnection]], task_id: str, reason: str | None) -> None:
    """Cancel a task of a peer, unless it has ended. Raises ProtolinkError if the peer refuses, or is unavailable for `OUTAGE_S`."""
    why = reason or "the work that delegated this was canceled"
    pauses, backoff = iter(ARRIVAL_PAUSES_S), Backoff(OUTAGE_S)
    while True:
        backoff.begin()
        try:
            peer = await reach()
            await peer.client.cancel_task(peer.url, task_id, reason=why)
            return
        except TaskNotCancelableError:
            return
        except ProtolinkError as error:
            if _is_not_found(error):
                # The task may not have arrived yet.
                pause_s = next(pauses, None)
                if pause_s is None:
                    return
                await asyncio.sleep(pause_s)
            elif _may_pass(error):
                await backoff.wait_after(error)
            else:
                raise


def _patience_s() -> float:
    """Return how long a recovered run waits for a peer that has its task, in seconds."""
    run = current_run()
    left_s = None if run is None else run.budget.remaining_seconds
    return LOST_S if left_s is None else left_s


def _is_not_found(error: ProtolinkError) -> bool:
    """Return whether an agent states that it does not have a task."""
    return isinstance(error, TaskNotFoundError) or (isinstance(error, RemoteError) and error.code == "NOT_FOUND")


def _may_pass(error: ProtolinkError) -> bool:
    """Return whether the same request may succeed later, because the agent failed and did not refuse it."""
    if isinstance(error, InvalidAgentResponseError):
        return False
    code = error.code if isinstance(error, RemoteError) else error.rule.grpc
    return error.rule.retryable or code in _FAILURES or code.startswith("HTTP_5")


_FAILURES = frozenset({"INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED"})
"""Codes of responses that tell nothing about the task."""


def _noted_ids(peer: PeerConnection, task: Task, note: Note | None) -> AbstractContextManager[None]:
    """Call `note` in this block with the ids that an A2A peer assigns to a task."""
    return nullcontext() if note is None else peer.client.a2a_tasks(peer.url).note_ids(task.id, note)


# -- sessions ------------------------------------------------------------------------------------------------------------------


def _in_session_of(owner: str, task: Task, peer: PeerConnection) -> Task:
    """Return the task with a session id that is specific to the owner; see `session_at`."""
    session = task.session_id
    if session is None or (there := session_at(peer, owner, session)) == session:
        return task
    task = task.settled()
    context = None if task.context is None else replace(task.context, session_id=there)
    return replace(task, session_id=there, context=context)


def session_at(peer: PeerConnection, owner: str, session_id: str) -> str:
    """Return the id of a session of `owner` at a peer. It is specific to the owner, because there all tasks are this agent's.

    The session id is unchanged if the peer sees the same principal as this agent.
    """
    there = PRINCIPAL if peer.url.startswith(RUNTIME_SCHEME) else ANONYMOUS if peer.client.is_anonymous else None
    return session_id if owner == there and not _MARK.search(session_id) else marked_session(owner, session_id)


def marked_session(owner: str, session_id: str) -> str:
    """Append a stable suffix for the owner to a session id, so that sessions of different owners differ at a peer."""
    mark = blake2b(f"{len(owner)}:{owner}{session_id}".encode(), digest_size=16).hexdigest()
    # An existing suffix is replaced.
    plain = _MARK.sub("", session_id).encode()[: MAX_ID_BYTES - len(mark) - 1]
    return f"{plain.decode(errors='ignore')}~{mark}"


_MARK = re.compile(r"~[0-9a-f]{32}\Z")

OUTAGE_S = 15.0
"""How long a peer with a delegated task may be unavailable before the action fails, in seconds: longer than a restart."""

READ_S = 30.0
"""Timeout of one request for the task that an earlier process has sent, in seconds."""

LOST_S = 300.0
"""How long a recovered run without a time limit waits for an unavailable peer that has its task, in seconds."""

ARRIVAL_PAUSES_S = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
"""Interval between attempts to cancel a task that has not arrived at its agent yet, in seconds."""
