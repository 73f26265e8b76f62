"""The tools and services of an agent: how they are registered and called."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

from protolink_grpc.agent.config import AgentConfig
from protolink_grpc.agent.lifecycle import AgentLifecycle
from protolink_grpc.agent.mcp_tools import AttachedServers
from protolink_grpc.agent.registry import Registry
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.flows.flow import Flow
from protolink_grpc.mcp.client.adapter import MCPToolAdapter
from protolink_grpc.mcp.client.server import McpTransport
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.json_schema import SchemaLike
from protolink_grpc.services.definition import services_of
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.tools.tool import ActionBuilder, BaseTool, Tool
from protolink_grpc.tools.toolbox import as_tool
from protolink_grpc.wire.cards import card_to_bytes, check_card_size

F = TypeVar("F", bound=Callable[..., Any])


@checks_arguments
class AgentTools(AgentLifecycle):
    """An agent's tools: functions, methods of users' services, and tools of MCP servers. Each one is a skill of the card."""

    def __init__(
        self,
        card: AgentCard,
        config: AgentConfig,
        *,
        registry: "str | Registry | RegistryClient | None",
        registry_url: str | None,
        store: TaskStore | None,
        flow: Flow | None,
    ) -> None:
        super().__init__(card, config, registry=registry, registry_url=registry_url, store=store, flow=flow)
        self._advertise = config.tooling.skills == "auto"
        self._mcp = self._components.mcp = AttachedServers(self._toolbox, self.add_tool, self._remove_tool)

    @overload
    def tool(self, name: F) -> F: ...
    @overload
    def tool(
        self,
        name: str | None = None,
        description: str | None = None,
        input_schema: SchemaLike | None = None,
        output_schema: SchemaLike | None = None,
        tags: Iterable[str] | None = None,
        examples: Iterable[Any] | None = None,
        capabilities: Iterable[str] | None = None,
        action_builder: ActionBuilder | None = None,
        *,
        timeout_s: float | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        title: str = "",
        destructive: bool = False,
    ) -> Callable[[F], F]: ...
    def tool(  # noqa: PLR0917 -- the documented signature
        self,
        name: F | str | None = None,
        description: str | None = None,
        input_schema: SchemaLike | None = None,
        output_schema: SchemaLike | None = None,
        tags: Iterable[str] | None = None,
        examples: Iterable[Any] | None = None,
        capabilities: Iterable[str] | None = None,
        action_builder: ActionBuilder | None = None,
        *,
        timeout_s: float | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        title: str = "",
        destructive: bool = False,
    ) -> Any:
        """Register the decorated function as a tool, with or without arguments (`@agent.tool`, `@agent.tool(...)`).

        The schema is built from the type hints. Arguments are checked against it before each call. The result of a generator
        function is the list of its items; a typed service streams them.

        Args:
            title: Display name; empty means `name`.
            read_only: A call has no effects, so several calls of one answer of a model may run concurrently.
            idempotent: Repeating a call has no further effect, so a call that a crash interrupted is repeated.
            destructive: A call may delete or overwrite data. This is shown to callers and has no other effect.
        """

        def register(fn: F) -> F:
            self.add_tool(
                Tool.from_callable(
                    fn,
                    name=name if isinstance(name, str) else None,
                    description=description,
                    input_schema=input_schema,
                    output_schema=output_schema,
                    tags=tags,
                    examples=examples,
                    capabilities=capabilities,
                    action_builder=action_builder,
                    timeout_s=timeout_s,
                    read_only=read_only,
                    idempotent=idempotent,
                    title=title,
                    destructive=destructive,
                )
            )
            return fn

        return register(name) if callable(name) else register

    def add_tool(self, tool: BaseTool | Callable[..., Any]) -> Tool:
        """Register a tool and its skill on the card. A tool with the same name is replaced.

        Raises:
            InvalidArgumentError: The agent is running and its encoded card would exceed 1 MiB, or a method of a service has this
                name; the tool is not added.
        """
        added, card = as_tool(tool), self.card
        task_tools = self._components.actions.task_tools
        if added.name in self._toolbox and self._toolbox.get(added.name) in task_tools:
            raise InvalidArgumentError(f"a method of services= is a tool named '{added.name}'", field="tools")
        if self._advertise:
            skills = [skill for skill in card.skills if skill.id != added.name] + [added.skill()]
            if self.is_running:
                check_card_size(len(card_to_bytes(replace(card, skills=skills))))
            card.skills = skills
        self._toolbox.add(added)
        card.capabilities.tool_calling = True
        return added

    def add_service(self, servicer: object) -> None:
        """Serve the methods of a servicer: an object of a subclass of a generated class, with async methods.

        Durable methods without streams are tools and skills, too.

        Raises:
            InvalidArgumentError: The agent has a service or a tool of this name, or the servicer or a method has the wrong form.
            RuntimeError: The agent is running.
        """
        if self.is_running:
            raise RuntimeError("add_service() is for agents that are not running; call it before the start")
        for service in services_of(servicer):
            self._service_calls.add(service)
            for method in service.methods.values():
                if method.tool:
                    self.add_tool(self._add_method_tool(method))

    def _remove_tool(self, name: str) -> None:
        self._toolbox.remove(name)
        if self._advertise:
            self.card.skills = [skill for skill in self.card.skills if skill.id != name]

    async def add_mcp(
        self,
        adapter: MCPToolAdapter | None = None,
        *,
        transport: McpTransport | None = None,
        command: str | None = None,
        args: Sequence[str] | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        include: Iterable[str] | None = None,
        prefix: str = "",
    ) -> list[Tool]:
        """Add the tools of an MCP server, and return them.

        The adapter, or the connection that the other arguments describe, has one session. It is closed with the agent, and opened
        again when the agent starts again. When the server changes its tools, so do those of the agent. Calls pass the policy like
        those of other tools.

        Args:
            transport: As in MCPToolAdapter; by default `stdio` with a command and `sse` with a URL.
            include: The server's names of the tools to add; None means all.
            prefix: Put before the names of the tools, for servers that use the same names.

        Raises:
            InvalidArgumentError: An argument contradicts another one, the server has no such tool to include, or a name is taken.
            UnavailableError: The server could not be started or reached, or is not an MCP server.
            UnimplementedError: The `mcp` extra is not installed.
        """
        given = {"transport": transport, "command": command, "args": args, "url": url, "headers": headers}
        if adapter is not None and (also := [name for name, value in given.items() if value is not None]):
            raise InvalidArgumentError("is given to the adapter", field=also[0])
        if adapter is None:
            chosen: McpTransport = transport or ("sse" if url is not None else "stdio")
            adapter = MCPToolAdapter(chosen, command=command, args=args, url=url, headers=headers)
        try:
            return await self._mcp.attach(adapter, include, prefix)
        except BaseException:
            await adapter.aclose()
            raise

    @property
    def tools(self) -> dict[str, Tool]:
        """Return the tools by name."""
        return {name: self._toolbox.get(name) for name in self._toolbox.names}

    async def call_tool(self, tool_name: str, /, **arguments: Any) -> Any:
        """Call one of the agent's tools, subject to its policy. Within a handler this is an action of the run.

        Raises:
            ToolRejectedError: The tool does not exist or the arguments are invalid.
            ActionDeniedError, ApprovalDeniedError, ApprovalRequiredError, BudgetExceededError: The tool was not allowed to run.
            ToolFailedError, ToolTimeoutError: The tool ran and failed.
        """
        return await self._components.call_tool(self.card.name, tool_name, None, arguments)

    async def call_tool_in_context(self, tool_name: str, context: RunContext, /, **arguments: Any) -> Any:
        """As `call_tool`, with the permissions and the budget of a context. All calls in one context share its budget."""
        return await self._components.call_tool(self.card.name, tool_name, context, arguments)
