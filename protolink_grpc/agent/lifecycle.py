"""Starts and stops an agent: its ports, its runtime, and its registration."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self, TypeVar
from weakref import WeakMethod

from starlette.types import ASGIApp

from protolink_grpc.agent.agent_peer import call_peer_of_run
from protolink_grpc.agent.components import AgentComponents
from protolink_grpc.agent.config import (
    AgentConfig,
)
from protolink_grpc.agent.edge_settings import check_hosted_url, edge_settings, http_options
from protolink_grpc.agent.flow_host import AgentFlowHost
from protolink_grpc.agent.grpc_port import ServedAgent
from protolink_grpc.agent.identity import ANY_PORT, listen_address, resolve_card
from protolink_grpc.agent.lifetime import close_from_thread, log_listening, log_stopping, stop_on_signal
from protolink_grpc.agent.local_agent import LocalAgent, LocalEndpoint, announce, announce_object, withdraw
from protolink_grpc.agent.peer_tasks import OUTAGE_S, PeerTasks
from protolink_grpc.agent.peers import Peers
from protolink_grpc.agent.ports import AgentPorts
from protolink_grpc.agent.registry import Registry, registry_client
from protolink_grpc.agent.trust import PeerClients, PeerTrust
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.edges.http.hosted_app import HostedApp
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.errors import (
    InvalidArgumentError,
    ProtolinkError,
    UnavailableError,
)
from protolink_grpc.flows.flow import Flow
from protolink_grpc.logs import get_logger
from protolink_grpc.mcp.edge.server import McpAgent
from protolink_grpc.mcp.edge.stdio import serve_stdio
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.events import PeerTaskLinked
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.task import Task
from protolink_grpc.net.address import RUNTIME_SCHEME
from protolink_grpc.net.background_loop import background as shared_loop
from protolink_grpc.net.event_loops import run_server
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.reports import RunStore, SQLiteRunStore
from protolink_grpc.reports.run_saver import RunSaver
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.log import AppendObserver
from protolink_grpc.runtime.run import Run, RunActions
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.services.definition import ServiceMethod
from protolink_grpc.services.execution import ServiceCalls
from protolink_grpc.services.method_tools import MethodTool
from protolink_grpc.services.recording import SERVICE_CALL
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.telemetry.prometheus import PrometheusTelemetry
from protolink_grpc.tools.runner import ToolRunner
from protolink_grpc.tools.tool import Tool
from protolink_grpc.typed.service import TypedService, load_typed_service
from protolink_grpc.wire.cards import card_to_bytes, check_card_size
from protolink_grpc.wire.registry import InstanceState, InstanceStatus

log = get_logger(__name__)

T = TypeVar("T")

REGISTER_WAIT_S = 2.0
UNREGISTER_WAIT_S = 2.0
"""How long starting and stopping wait for the registry, in seconds; both continue without it."""


@checks_arguments
class AgentLifecycle:
    """Starts and stops an agent. `Agent` adds the handlers and the methods for users.

    A subclass provides the function that runs a task (`_handler`), and whether it is the default handler (`_is_default`).

    Attributes:
        flow: The flow that executes the tasks; None without one.
        card: The agent's card. Its URLs are set when the ports are open.
        store: The task store.
        run_store: The additional run store, or None.
        grace_s: How long `stop` waits for runs, in seconds.
    """

    def __init__(
        self,
        card: AgentCard,
        config: AgentConfig,
        *,
        registry: "str | Registry | RegistryClient | None",
        registry_url: str | None,
        store: TaskStore | None,
        flow: Flow | None = None,
    ) -> None:
        self.flow = flow
        serving = config.serving
        self._config = config
        self.card = card
        self.run_store = config.runtime.run_store
        self.store: TaskStore = _store(store, self.run_store)
        self.grace_s = serving.grace_s
        self._runner = ToolRunner(max_workers=config.tooling.max_sync_workers, timeout_s=config.tooling.tool_timeout_s)
        self._components = AgentComponents(card.name, config, self._runner)
        self._toolbox = self._components.toolbox
        self._metadata = tuple(config.peering.metadata)
        self._registry_given = registry if isinstance(registry, Registry) else None
        self._registry = registry_client(registry, registry_url, serving.tls, self._metadata)
        self._listen_at = listen_address(card, serving.listen, registers=self._registry is not None)
        trusted = config.peering.trusted_peers
        self._trusted_peers = trusted if isinstance(trusted, str) else tuple(trusted)
        self._clients = self._new_clients(card.transport if card.transport == "runtime" else "grpc", serving.tls)
        self._peers, self._peer_tasks = self._new_peers()
        self._limits = config.runtime.limits or Limits()
        self._edge_settings = edge_settings(serving, card.url)
        self._service_calls = ServiceCalls(self._edge_settings.grpc.request_bounds, self._edge_settings.access)
        self._configured_url = card.url
        self._own_interfaces = list(card.interfaces)
        self._own_schemes = dict(card.security_schemes or {})
        self._service: TaskService | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._local_url = ""
        self._ports: AgentPorts | None = None
        self._hosted: HostedApp | None = None
        self._has_come_up = False
        self._keeper: asyncio.Task[None] | None = None
        self._is_draining = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None

    def _handler(self) -> Callable[[Task, Run], Awaitable[Task | None]]:
        """Return the function that runs a task."""
        raise NotImplementedError

    @property
    def _is_default(self) -> bool:
        """Whether it is the default handler, whose runs can be repeated after a crash."""
        raise NotImplementedError

    def _is_replayable(self, fold: TaskFold) -> bool:
        """Whether the work on a task is all in its log: methods of the user's services are the user's code, like own handlers."""
        return self._is_default and SERVICE_CALL not in fold.metadata

    @property
    def http_url(self) -> str:
        """The public URL of the HTTP port; empty without one, or while the agent is not running."""
        return self._ports.http_url if self._ports is not None else ""

    @property
    def is_running(self) -> bool:
        """Whether the agent is reachable under its URL."""
        return self._loop is not None

    def relocate(
        self,
        *,
        url: str | None = None,
        registry: "str | Registry | RegistryClient | None" = None,
        store: TaskStore | None = None,
        tls: TLSConfig | None = None,
        listen: str | None = None,
        http: HttpOptions | str | int | None = None,
    ) -> Self:
        """Change the addresses, the registry and the store of an agent before it is started. None leaves a setting unchanged.

        A `url` without `listen` is also the address to listen on.

        Raises:
            InvalidArgumentError: The URL is invalid for an agent, or cannot be registered.
            RuntimeError: The agent has been started.
        """
        if self._service is not None or self.is_running:
            raise RuntimeError("relocate() moves agents that are not running; stop it first")
        card = self.card if url is None else resolve_card(self.card, None, url=url)
        known = self._listen_at.url if self._listen_at is not None and url is None else None
        registers = registry is not None or self._registry is not None
        self._listen_at = listen_address(card, listen or known, registers=registers)
        self.card, self._configured_url = card, card.url
        tls = tls or self._edge_settings.grpc.tls
        wanted = http if http is not None else self._config.serving.http
        self._edge_settings = replace(self._edge_settings, http=http_options(wanted, card.url, tls))
        if tls is not None:
            self._edge_settings = replace(self._edge_settings, grpc=replace(self._edge_settings.grpc, tls=tls))
            self._clients = self._new_clients(self._clients.own.transport, tls)
        if registry is not None:
            self._registry_given = registry if isinstance(registry, Registry) else None
            self._registry = registry_client(registry, None, tls or self._edge_settings.grpc.tls, self._metadata)
        self._peers, self._peer_tasks = self._new_peers()
        self.store = store if store is not None else self.store
        return self

    def asgi_app(self) -> ASGIApp:
        """Return the HTTP port as an ASGI application, which replaces the agent's own HTTP port.

        `uvicorn module:app` starts and stops the agent together with the server. In a host application (`host.mount("/agent",
        app)`), start the agent in the host's lifespan with `async with agent`. The application answers on the event loop on which
        the agent was started. The card needs the public URL: `http=HttpOptions(public_url="https://host.example/agent")`. Further
        calls return the same application.

        Raises:
            InvalidArgumentError: The public URL is missing; names `http.public_url`.
            RuntimeError: The agent is running with its own HTTP port.
        """
        if self._hosted is None:
            if self.is_running:
                raise RuntimeError("asgi_app() is for agents that are not running; call it before the start")
            check_hosted_url(self._edge_settings.http)
            self._hosted = HostedApp(f"agent {self.card.name}", self.serve, self.aclose)
        return self._hosted

    async def serve(self, *, register: bool = True) -> None:
        """Start on the running event loop: store, ports, registration, in this order.

        Raises:
            AddressInUseError: The port is taken.
            AgentConflictError: Another agent of this process has the `runtime://` URL.
            StoreError: The store cannot be opened.
            InvalidArgumentError: The encoded card is larger than 1 MiB, or the tools differ from the typed service's file.
        """
        if self._loop is not None:
            return
        self.card.security_schemes = self._own_schemes | self._edge_settings.security_schemes
        check_card_size(len(card_to_bytes(self.card)))
        service = await self._own_service()
        self._loop = asyncio.get_running_loop()
        try:
            if self.card.transport == "runtime":
                announce(self.card.url, self._endpoint())
            await self._open_ports(service)
            if register and self._registry is not None:
                await self._register(self._registry, service)
        except BaseException:
            await self.aclose(grace_s=0)
            raise
        urls = dict.fromkeys(filter(None, (self.card.url, self.http_url)))
        self._has_come_up = True
        log_listening(log, f"agent {self.card.name}", urls, foreground=self._stopped is not None)

    async def _open_ports(self, service: TaskService) -> None:
        components = self._components
        ports = self._ports = AgentPorts(self._edge_settings, self._listen_at, self._hosted)
        await ports.open(
            ServedAgent(
                service,
                self.card,
                self._toolbox,
                components.control,
                components.redaction,
                approvals=components.approvals,
                bounds=self._edge_settings.grpc.request_bounds,
                typed=await self._load_typed(),
                user_services=self._service_calls.services,
                collectors=[
                    each.telemetry for each in components.telemetry if isinstance(each.telemetry, PrometheusTelemetry)
                ],
            )
        )

    async def _call_agent_of_run(self, run: Run, target: str, task: Task) -> Task:
        return await call_peer_of_run(run, self._components.actions, target, task)

    async def _cancel_delegated(self, link: PeerTaskLinked, reason: str) -> None:
        await self._peer_tasks.cancel_recorded(link, reason)

    @property
    def function_tools(self) -> list[Tool]:
        """The tools that are not methods of the user's services: those are in .proto files already."""
        return [each for each in self._toolbox.all() if each not in self._components.actions.task_tools]

    def _add_method_tool(self, method: ServiceMethod) -> Tool:
        """Make a method of a user's service a tool, and return the tool.

        Raises:
            InvalidArgumentError: There is a tool of this name.
        """
        if method.tool in self._toolbox:
            raise InvalidArgumentError(
                f"{method.descriptor.full_name} would be a second tool named '{method.tool}'; choose another name with "
                "@rpc(tool=...)",
                field="services",
            )
        made = MethodTool(method, self._on_service)
        self._components.actions.task_tools[made.tool] = made.execute
        return made.tool

    async def _on_service(self, work: Callable[[TaskService], Coroutine[Any, Any, T]]) -> T:
        return await (await self.local_agent()).on_service(work)

    async def _load_typed(self) -> TypedService | None:
        """Build the typed service of the tools, in a thread, because a file is compiled."""
        source, card = self._config.serving.typed, self.card
        if source is None:
            return None
        try:
            typed = await asyncio.to_thread(
                load_typed_service, source, card.name, card.description, self.function_tools
            )
        except TypeError as error:
            raise InvalidArgumentError(str(error), field="typed") from error
        name = typed.descriptor.full_name
        if any(each.name == name for each in self._service_calls.services):
            raise InvalidArgumentError(f"a service of services= is named {name}, too", field="typed")
        return typed

    async def _register(self, registry: RegistryClient, service: TaskService) -> None:
        registered = asyncio.Event()
        self._keeper = asyncio.get_running_loop().create_task(
            registry.keep_registered(
                lambda: self.card,
                lease_ttl_s=self._config.peering.lease_ttl_s,
                instance_id=new_uuid(),
                status=lambda: self._status(service),
                registered=registered,
            )
        )
        # An unavailable registry must not prevent the agent from working: registration continues in the background.
        waiting = asyncio.ensure_future(registered.wait())
        await asyncio.wait([waiting, self._keeper], timeout=REGISTER_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._keeper.done():
            self._keeper.result()

    def _status(self, service: TaskService) -> InstanceStatus:
        """Return the status for heartbeats."""
        return InstanceStatus(InstanceState.DRAINING if self._is_draining else InstanceState.UP, *service.load)

    async def _say_draining(self, registry: RegistryClient, service: TaskService) -> None:
        """Report DRAINING to the registry: callers with tasks here still find the agent, others use another instance."""
        self._is_draining = True  # also reported by later heartbeats
        with suppress(ProtolinkError, TimeoutError):
            async with asyncio.timeout(UNREGISTER_WAIT_S):
                await registry.heartbeat(self.card.url, self._status(service))

    async def _unregister(self) -> None:
        """Deregister the agent, if it is registered."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        keeper.cancel()
        await asyncio.wait([keeper])
        if self._registry is not None:
            with suppress(ProtolinkError, TimeoutError):
                async with asyncio.timeout(UNREGISTER_WAIT_S):
                    await self._registry.unregister(self.card.url)

    async def aclose(self, grace_s: float | None = None) -> None:
        """Stop on the running event loop: report draining, refuse new tasks, wait for runs, deregister, close ports and store.

        An agent without runs, or with `grace_s` 0, deregisters first.
        """
        grace = self.grace_s if grace_s is None else grace_s
        was_up, self._has_come_up = self._has_come_up, False
        if was_up:
            running = self._service.load[0] if self._service is not None else 0
            server = f"agent {self.card.name}"
            log_stopping(log, server, running, grace, foreground=self._stopped is not None)
        if self._ports is not None:
            await self._ports.drain()
        service, self._service = self._service, None
        if self._keeper is not None and self._registry and service and grace > 0 and any(service.load):
            await self._say_draining(self._registry, service)
        else:
            await self._unregister()
        try:
            if service is not None:
                withdraw(self.card.url, service)
                await service.stop(grace)
        finally:
            await self._unregister()
            self._is_draining = False
        ports, self._ports = self._ports, None
        if ports is not None:
            # The runs have ended. The remaining watches receive their last events.
            await ports.close(min(grace, 1.0))
        await self._flow_host.aclose()
        await self._peers.aclose()
        await self._peer_tasks.aclose()
        await self._components.aclose()
        await self._runner.aclose(grace_s=0)
        self._runner = ToolRunner(max_workers=self._runner.max_workers, timeout_s=self._runner.timeout_s)
        self._toolbox.runner = self._runner
        self.card.url, self.card.interfaces = self._configured_url, list(self._own_interfaces)
        self._loop = None
        if was_up:
            log.info("agent %s has stopped", self.card.name)
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            stopped.set()

    def start(self, *, register: bool = True, background: bool = False) -> None:
        """Start in the foreground until a signal or `stop`, or with `background` in the background. Raises as `serve`."""
        if background:
            shared_loop.run(self.serve(register=register))
        else:
            self.run(register=register)

    def stop(self) -> None:
        """Stop, from any thread, and return when everything is closed. A stopped agent can be started again."""
        if self._loop is not None:
            close_from_thread(self._loop, self.aclose, "agent")

    def run(self, *, register: bool = True) -> None:
        """Run in the foreground until SIGTERM, SIGINT or `stop`. Raises as `serve`.

        In the main thread, a port in use and an unusable store end the program with one line of text (SystemExit).
        """
        run_server(self._run(register))

    async def _run(self, register: bool) -> None:
        stopped = self._stopped = asyncio.Event()
        stop_on_signal(stopped)
        await self.serve(register=register)
        if self._ports is None or not self._ports.listens:
            log.warning(
                "%s listens on no port: %s can be called in this process only; give the agent a url like %s to be reached",
                self.card.name,
                self.card.url,
                ANY_PORT,
            )
        await stopped.wait()
        await self.aclose()

    async def serve_mcp(self) -> None:
        """Serve MCP over standard input and output until the input ends, then close the agent. No port is opened.

        Raises:
            StoreError: The store cannot be opened.
            UnimplementedError: The `mcp` extra is not installed.
        """
        try:
            service, components = await self._own_service(), self._components
            approvals, redaction = components.approvals, components.redaction
            await serve_stdio(McpAgent(service, self._toolbox, self.card, approvals, redaction))
        finally:
            await self.aclose()

    async def __aenter__(self) -> Self:
        await self.serve()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def local_agent(self) -> LocalAgent:
        """Return this agent as a peer within its process, for callers on any event loop."""
        await self._own_service()
        return LocalAgent(self.card.url, self._endpoint)

    async def local_url(self) -> str:
        """Return a `runtime://` URL under which code of this process can call this agent, whether it is started or not."""
        await self._own_service()
        if not self._local_url:
            self._local_url = f"{RUNTIME_SCHEME}{new_uuid()}"
            announce_object(self._local_url, WeakMethod(self._endpoint))
        return self._local_url

    def _endpoint(self) -> LocalEndpoint:
        if self._service is None or self._home is None:
            raise UnavailableError(f"agent {self.card.name} was stopped", agent=self.card.name)
        components = self._components
        return LocalEndpoint(
            self._service, self._home, lambda: self.card, self._toolbox, components.control, components.redaction
        )

    def _observers(self) -> list[AppendObserver]:
        telemetry = [each.observe for each in self._components.telemetry]
        flow = [] if self.flow is None else [self._flow_host.observe(self.flow, self.store)]
        return [*self._config.runtime.observers, *telemetry, *flow]

    async def _own_service(self) -> TaskService:
        """Return the runtime of this agent, which is started on the running loop at the first use.

        A runtime ends with its event loop. On another loop, a new runtime uses the same store.
        """
        loop = asyncio.get_running_loop()
        if self._service is None or (self._home is not loop and (self._home is None or self._home.is_closed())):
            self._home = loop
            self._service = TaskService(
                self.card.name,
                self.store,
                self._handler(),
                limits=self._limits,
                recovery=self._config.runtime.recovery,
                controls=self._components.controls,
                replayable=self._is_replayable,
                approvals=self._components.approvals,
                redaction=self._components.redaction,
                check_edit=self._components.check_edit,
                run_saver=_run_saver(self.run_store, self.store),
                observers=self._observers(),
                has_spans=bool(self._components.telemetry),
                actions=RunActions(self._components.call_tool_of_run, self._call_agent_of_run),
                inventory=self._components.tool_inventory,
                cancel_delegated=self._cancel_delegated,
            )
            self._components.find_conversation = self._service.sessions.open_conversation
            self._service.sessions.state = self._components.control
            for each in self._components.telemetry:
                each.add_service(self._service)
        service = self._service
        if self._home is loop and not service.is_accepting:
            try:
                await self._components.open()
                await service.start()
            except BaseException:
                self._service = None
                raise
        return service

    def _new_clients(self, transport: str, tls: TLSConfig | None) -> PeerClients:
        if self._config.peering.credentials is None and not self._metadata:
            return PeerClients(AgentClient(transport, tls=tls, outage_s=OUTAGE_S))
        own = AgentClient(
            transport,
            tls=tls,
            metadata=self._metadata,
            credentials=self._config.peering.credentials,
            outage_s=OUTAGE_S,
            trusted_origins=[each for each in self._trusted_peers if "://" in each],
        )
        return PeerClients(own, AgentClient(transport, tls=tls, outage_s=OUTAGE_S), self.card.name)

    def _new_peers(self) -> tuple[Peers, PeerTasks]:
        trust = PeerTrust(
            self._trusted_peers, self._config.peering.trust_registry, self._registry_given or self._registry
        )
        peers = Peers(self._clients, self._registry, trust, lambda: self.card)
        tasks = PeerTasks(peers)
        self._flow_host = AgentFlowHost(self._components.actions, tasks)
        self._components.actions.peers, self._components.peers = tasks, peers
        self._components.model.peers = peers.cards if self.card.capabilities.delegation else None
        return peers, tasks


def _store(store: TaskStore | None, run_store: RunStore | None) -> TaskStore:
    if not isinstance(run_store, SQLiteRunStore):
        return store if store is not None else MemoryStore()
    if store is not None:
        raise InvalidArgumentError("the run store brings the task store along: give one of both", field="run_store")
    return run_store.task_store


def _run_saver(run_store: RunStore | None, store: TaskStore) -> RunSaver | None:
    """Create the saver for a run store of the application. A view over the agent's own store needs none."""
    if run_store is None or isinstance(run_store, SQLiteRunStore):
        return None
    return RunSaver(run_store, store)
