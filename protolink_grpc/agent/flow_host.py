"""Runs flows: as the handler of an agent, and for programs that execute a flow without an agent."""

import asyncio
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from protolink_grpc.agent.local_agent import LocalAgent
from protolink_grpc.agent.peer_tasks import PeerTasks
from protolink_grpc.agent.registry import registry_client
from protolink_grpc.agent.trust import PeerClients
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.flows.execution import run_part
from protolink_grpc.flows.flow import Flow
from protolink_grpc.flows.record import FlowRecord
from protolink_grpc.flows.scope import Connection, current_host
from protolink_grpc.lazy import load
from protolink_grpc.logs import get_logger
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.actions.delegation import Actions
from protolink_grpc.runtime.log import AppendedFacts, AppendObserver
from protolink_grpc.runtime.run import CANCEL_GRACE_S, current_run
from protolink_grpc.storage.port import TaskStore

log = get_logger(__name__)

CARD_S = 2.0
"""Timeout for the card of the next step, which only improves a prompt, in seconds."""


class FlowConnection:
    """The peers that the steps of a flow can reach."""

    def __init__(self, actions: Actions, tasks: PeerTasks) -> None:
        self.actions = actions
        self.tasks = tasks
        self._cards: dict[str, AgentCard | None] = {}

    async def card(self, target: str) -> AgentCard | None:
        """Return the card of a peer, which is requested once; None if the peer does not answer in time."""
        if target not in self._cards:
            self._cards[target] = await self._requested_card(target)
        return self._cards[target]

    async def _requested_card(self, target: str) -> AgentCard | None:
        try:
            async with asyncio.timeout(CARD_S):
                peer = await self.tasks.peers.find(target)
                return await peer.client.get_agent_card(peer.url)
        except (ProtolinkError, TimeoutError):
            return None

    def cancel(self, target: str, task_id: str, reason: str) -> None:
        self.tasks.cancel(target, task_id, reason)


class AgentFlowHost:
    """The host of the flows of one agent, with its actions and peers."""

    def __init__(self, actions: Actions, tasks: PeerTasks) -> None:
        self._base = FlowConnection(actions, tasks)
        self._cancellations: set[asyncio.Task[None]] = set()
        # With the objects whose ids are the keys, so that no other object gets their ids.
        self._connections: dict[tuple[int, int], tuple[FlowConnection, Any, Any]] = {}

    def connection(self, client: AgentClient | None, registry: Any, parent: Connection | None) -> FlowConnection:
        outer = parent if isinstance(parent, FlowConnection) else self._base
        if client is None and registry is None:
            return outer
        key = (id(client or outer), id(registry or outer))
        found, *_ = self._connections.get(key, (None,))
        if found is None:
            peers = outer.tasks.peers.with_other(
                None if client is None else PeerClients(client),
                None if registry is None else registry_client(registry, None, None, ()),
            )
            base = self._base.actions
            tasks = PeerTasks(peers)
            found = FlowConnection(Actions(base.toolbox, base.gate, tasks), tasks)
            self._connections[key] = (found, client, registry)
        return found

    async def address(self, agent: Any) -> str:
        url: str = await agent.local_url()
        return url

    def observe(self, flow: Flow, store: TaskStore) -> AppendObserver:
        """Return an observer that cancels the tasks that wait at peers when the task of the flow is canceled."""

        def note(appended: AppendedFacts) -> None:
            if appended.fold.state is TaskState.CANCELED:
                work = asyncio.get_running_loop().create_task(self._cancel_waiting(flow, store, appended.fold))
                self._cancellations.add(work)
                work.add_done_callback(self._cancellations.discard)

        return note

    async def _cancel_waiting(self, flow: Flow, store: TaskStore, fold: TaskFold) -> None:
        try:
            record = await FlowRecord.read(store, fold)
        except ProtolinkError as error:
            log.warning("task %s: the tasks that wait for it cannot be canceled: %s", fold.task_id, error)
            return
        for target, task_id in record.waiting:
            self.connection(flow.client, flow.registry, None).cancel(target, task_id, fold.reason)

    async def aclose(self) -> None:
        if self._cancellations:
            await asyncio.wait(set(self._cancellations), timeout=CANCEL_GRACE_S)
        connections, self._connections = self._connections, {}
        for each, *_ in connections.values():
            await each.tasks.peers.aclose()
            await each.tasks.aclose()


async def execute_flow(flow: Flow, task: Task) -> Task:
    """Execute a flow: as a part of the current run, or on an agent of its own, which is created at the first use."""
    run, host = current_run(), current_host.get()
    if run is not None and host is not None:
        return await run_part(flow, task, run, host)
    agent = flow.own_agent(_new_agent)
    local = await agent.local_agent()
    # The same for a repetition in another process, and another one for each answer.
    key = f"{task.id}/{len(task.messages)}/{len(task.artifacts)}"
    try:
        done: Task = await local.run(task, request_id=f"flow-{blake2b(key.encode(), digest_size=16).hexdigest()}")
    except asyncio.CancelledError:
        await _cancel(local, task.id)
        raise
    return done


def _new_agent(flow: Flow) -> Any:
    flow.check()
    card = AgentCard(name=flow.name, description=f"Executes the flow {flow.name}.", url=f"runtime://{new_uuid()}")
    return load("protolink_grpc.agent.agent:Agent")(card, flow=flow, store=flow.store)


async def _cancel(local: LocalAgent, task_id: str) -> None:
    with suppress(ProtolinkError, asyncio.CancelledError):
        await asyncio.shield(local.cancel(task_id, "the call that executed the flow was canceled", None))
