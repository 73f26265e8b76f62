"""The components of an agent, created from its configuration: tools, model, policy and state."""

import asyncio
from collections import OrderedDict
from typing import Any

from protolink_grpc.agent.config import AgentConfig, MemoryConfig
from protolink_grpc.agent.local_agent import PRINCIPAL
from protolink_grpc.agent.mcp_tools import AttachedServers
from protolink_grpc.agent.peers import Peers
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.context_policy import context_policy_of
from protolink_grpc.llms.factory import create_llm
from protolink_grpc.llms.loop_host import InferSettings
from protolink_grpc.models.action import RunAction
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.redaction import DEFAULT_REDACTION_POLICY
from protolink_grpc.models.snapshot import ToolInventorySnapshot
from protolink_grpc.policy.budget import BudgetEnforcer, effective
from protolink_grpc.runtime.actions.action_context import ActionContext, charge_tool_call
from protolink_grpc.runtime.actions.delegation import Actions
from protolink_grpc.runtime.actions.gate import TOOL_CALL, Gate
from protolink_grpc.runtime.actions.input_requests import INPUT_REQUEST, check_answer
from protolink_grpc.runtime.actions.outside import ActionAuthorizer, NarrowedContext, StandaloneContext
from protolink_grpc.runtime.actions.sampling import ModelSampler
from protolink_grpc.runtime.actions.tools import tool_inventory
from protolink_grpc.runtime.controls import Controls
from protolink_grpc.runtime.default_handler import DefaultHandler, ModelSettings
from protolink_grpc.runtime.run import Run, current_run
from protolink_grpc.state import ConversationMemory, InMemoryStorage, State
from protolink_grpc.state.control import FindConversation, StateControl
from protolink_grpc.telemetry.worker import workers_of
from protolink_grpc.tools.context import NO_MEMORY, Memory
from protolink_grpc.tools.runner import ToolRunner
from protolink_grpc.tools.toolbox import Toolbox

BUDGETS = 1024
"""Maximum number of contexts outside of tasks whose budgets are kept."""


class AgentComponents:
    """The components of one agent, created from its configuration.

    Attributes:
        state: The state across tasks, or None.
        mcp: The MCP servers of the agent, which `Agent` sets.
        find_conversation: As in StateControl; set with the runtime of the agent.
        telemetry: Receive the committed facts.
    """

    def __init__(self, name: str, config: AgentConfig, runner: ToolRunner) -> None:
        model, safety = config.model, config.safety
        self._name = name
        self.toolbox = Toolbox(runner)
        self.approvals = safety.approvals
        self.redaction = safety.redaction or DEFAULT_REDACTION_POLICY
        self.policy = safety.policy
        self.llm = create_llm(model.llm) if isinstance(model.llm, str) else _check_model(model.llm)
        self.state = _state(config.memory, name)
        self.telemetry = workers_of(config.runtime.telemetry, self.redaction)
        self.controls = Controls(
            budget=safety.budget or RunBudget(),
            approval_handler=safety.approval_handler,
            remote_approvals=safety.approvals is not None and safety.approvals.remote,
            expose_errors=safety.expose_errors,
            redaction=self.redaction,
        )
        expires_s = safety.approvals.expires_s if safety.approvals is not None else None
        gate, settings = Gate(safety.policy, expires_s), model.infer or InferSettings()
        sampler = ModelSampler(gate, self.llm, settings)
        self.actions = Actions(self.toolbox, gate, memory=self._tool_memory, sampler=sampler)
        self.model = ModelSettings(
            model=self.llm,
            instructions=model.system_prompt or "",
            settings=settings,
            conversations=self._conversations,
            context_policy=context_policy_of(model.context_policy),
            hooks=model.hooks,
        )
        self.executor = DefaultHandler(self.actions, self.model)
        self.mcp: AttachedServers | None = None
        self.find_conversation: FindConversation | None = None
        self.peers: Peers | None = None
        self._budgets: OrderedDict[tuple[str, str], BudgetEnforcer] = OrderedDict()

    def _conversations(self, principal: str) -> ConversationMemory | None:
        return self.state.of(principal).conversation if self.state is not None else None

    def _tool_memory(self, principal: str, session_id: str) -> Memory:
        tools = self.state.of(principal).tools if self.state is not None else None
        return tools.session(session_id) if tools is not None else NO_MEMORY

    async def call_tool(self, agent_name: str, tool_name: str, context: RunContext | None, arguments: Any) -> Any:
        """Call a tool for code of the application: as an action of the current run, or outside of any task."""
        run = current_run()
        if run is not None and run.agent_name == agent_name:
            action_context: ActionContext = run
            if context is not None:
                action_context = NarrowedContext(run, context)
                if context.budget != RunBudget():
                    await charge_tool_call(action_context, self._budget_of(context, run.task_id))
            return await self.call_tool_of_run(run, tool_name, arguments, action_context)
        context = (context or RunContext()).with_agent(agent_name)
        action_context = StandaloneContext(context, self._budget_of(context), self.controls, PRINCIPAL)
        return (await self.actions.call_tool(action_context, tool_name, arguments, position="")).value()

    async def call_tool_of_run(
        self, run: Run, tool_name: str, arguments: Any, action_context: ActionContext | None = None
    ) -> Any:
        """Call a tool as an action of a run, found in its journal by the call and its number.

        Args:
            action_context: A narrower context than the run's.
        """
        position = run.position(TOOL_CALL, tool_name, arguments)
        outcome = await self.actions.call_tool(action_context or run, tool_name, arguments, position=position)
        return outcome.value()

    def _budget_of(self, context: RunContext, task_id: str = "") -> BudgetEnforcer:
        """Return the budget of all calls in one context of one task. The task is included, because run ids are not unique."""
        key = task_id, context.run_id
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = BudgetEnforcer(effective(self.controls.budget, context.budget))
            if len(self._budgets) > BUDGETS:
                self._budgets.popitem(last=False)
        return budget

    async def open(self) -> None:
        """Open the state and the sessions with MCP servers, and load the packages of the model. Raises StoreError."""
        if self.state is not None:
            await self.state.open()
        if self.mcp is not None:
            await self.mcp.open()
        if isinstance(self.llm, LLM):
            await self.llm.open()

    async def aclose(self) -> None:
        if self.mcp is not None:
            await self.mcp.aclose()
        if self.state is not None:
            await self.state.close()
        if isinstance(self.llm, LLM):
            await self.llm.aclose()
        await asyncio.gather(*(each.aclose() for each in self.telemetry))

    @property
    def control(self) -> StateControl | None:
        """The control of the agent's state, or None without state."""
        if self.state is None:
            return None
        summarize = self.llm.summarize if isinstance(self.llm, LLM) else None
        return StateControl(self.state, self._authorize, find_conversation=self.find_conversation, summarize=summarize)

    async def _authorize(self, operation: str, session_id: str, principal: str) -> None:
        """Raise ActionDeniedError or ApprovalRequiredError if the policy does not allow an operation on the state."""
        action = RunAction(operation, operation, {"session_id": session_id}, frozenset({operation}))
        # Policies that were written before RunContext.principal existed read the caller from the metadata.
        metadata = {"principal": principal}
        context = RunContext(session_id=session_id or None, principal=principal, metadata=metadata)
        await ActionAuthorizer(self.policy, self.controls.approval_handler).authorize(action, context)

    async def tool_inventory(self, principal: str, scopes: frozenset[str]) -> ToolInventorySnapshot:
        """Return the tools that a principal with these scopes can use, and the peers that the model can call."""
        peers = self.peers
        if self.llm is None or self.model.peers is None or peers is None:
            return tool_inventory(self.toolbox, self.policy, principal, scopes)
        cards = [each for each in await self.model.peers() if each.name != self._name]
        return tool_inventory(
            self.toolbox, self.policy, principal, scopes, peers=cards, has_all_peers=peers.has_all_cards
        )

    def check_edit(self, action: RunAction, arguments: dict[str, Any]) -> None:
        """Check edited arguments of a waiting tool call, or the answer to a question of a tool.

        Raises:
            InvalidArgumentError: They are invalid.
        """
        if action.kind == INPUT_REQUEST:
            check_answer(action, arguments)
            return
        tool = str(action.metadata.get("tool", action.name))
        if tool in self.toolbox:
            try:
                self.toolbox.get(tool).validate(arguments)
            except Exception as error:
                raise InvalidArgumentError(str(error)) from error


def _check_model(llm: Any) -> Any:
    if llm is not None and not callable(getattr(llm, "generate", None)):
        raise TypeError(f"llm must be a model, such as create_llm('mock') makes, not {type(llm).__name__}")
    return llm


def _state(memory: MemoryConfig, name: str) -> State | None:
    if isinstance(memory.state, State):
        if memory.storage is not None:
            memory.state.storage = memory.storage
        return memory.state.bind(name)
    if memory.state is None and memory.storage is None:
        return None
    modules = ("conversation",) if memory.state is None else memory.state
    return State(memory.storage or InMemoryStorage(), modules).bind(name)
