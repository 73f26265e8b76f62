"""What an agent is made of besides its card and its place to listen: tools, model, policy, memory, each from what a user wrote."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from protolink_grpc.client.local_agent import PRINCIPAL
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.factory import create_llm
from protolink_grpc.llms.surroundings import InferSettings
from protolink_grpc.models.action import RunAction
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.policy.budget import BudgetEnforcer, effective
from protolink_grpc.policy.capabilities import Policy
from protolink_grpc.policy.redaction import DEFAULT_REDACTION_POLICY, RedactionPolicy
from protolink_grpc.runtime.actions import Actions
from protolink_grpc.runtime.approvals import Approvals
from protolink_grpc.runtime.asking import ApprovalHandler
from protolink_grpc.runtime.detached import ActionAuthorizer, Detached, Narrowed
from protolink_grpc.runtime.gate import TOOL_CALL, Gate, Scene, charge_tool_call
from protolink_grpc.runtime.parts import Mind, PartExecutor
from protolink_grpc.runtime.run import Controls, current_run
from protolink_grpc.state import ConversationMemory, InMemoryStorage, State, Storage
from protolink_grpc.state.control import StateControl
from protolink_grpc.tools.context import NO_MEMORY, Memory
from protolink_grpc.tools.runner import ToolRunner
from protolink_grpc.tools.toolbox import Toolbox

BUDGETS = 1024
"""Contexts of calls outside of tasks whose budgets are remembered."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The arguments of `Agent` that say how it thinks, what it may do and what it remembers; meanings are documented there."""

    llm: LLM | str | None = None
    system_prompt: str | None = None
    policy: Policy | None = None
    approval_handler: ApprovalHandler | None = None
    approvals: Approvals | None = None
    budget: RunBudget | None = None
    infer: InferSettings | None = None
    storage: Storage | None = None
    state: State | Iterable[str] | str | None = None
    redaction: RedactionPolicy | None = None
    expose_errors: bool = True


class Faculties:
    """The faculties of one agent.

    Attributes:
        state: What it remembers; None for an agent that remembers nothing.
    """

    def __init__(self, name: str, wishes: Wishes, runner: ToolRunner) -> None:
        self.toolbox = Toolbox(runner)
        self.approvals = wishes.approvals
        self.redaction = wishes.redaction or DEFAULT_REDACTION_POLICY
        self.policy = wishes.policy
        self.llm = create_llm(wishes.llm) if isinstance(wishes.llm, str) else _checked(wishes.llm)
        self.state = _state(wishes, name)
        self.controls = Controls(
            budget=wishes.budget or RunBudget(),
            approval_handler=wishes.approval_handler,
            remote_approvals=wishes.approvals is not None and wishes.approvals.remote,
            expose_errors=wishes.expose_errors,
            redaction=self.redaction,
        )
        expires_s = wishes.approvals.expires_s if wishes.approvals is not None else None
        self.actions = Actions(self.toolbox, Gate(wishes.policy, expires_s), memory=self._tool_memory)
        self.mind = Mind(
            model=self.llm,
            instructions=wishes.system_prompt or "",
            settings=wishes.infer or InferSettings(),
            conversations=self._conversations,
        )
        self.executor = PartExecutor(self.actions, self.mind)
        self._budgets: OrderedDict[tuple[str, str], BudgetEnforcer] = OrderedDict()

    def _conversations(self, principal: str) -> ConversationMemory | None:
        return self.state.of(principal).conversation if self.state is not None else None

    def _tool_memory(self, principal: str, session_id: str) -> Memory:
        tools = self.state.of(principal).tools if self.state is not None else None
        return tools.session(session_id) if tools is not None else NO_MEMORY

    async def call_tool(self, agent_name: str, tool_name: str, context: RunContext | None, arguments: Any) -> Any:
        """Run a tool for code of the application: as an action of the run that the code works for, else outside of any task."""
        run = current_run()
        if run is not None and run.agent_name == agent_name:
            scene: Scene = run
            if context is not None:
                scene = Narrowed(run, context)
                if context.budget != RunBudget():
                    await charge_tool_call(scene, self._budget_of(context, run.task_id))
            position = run.position(TOOL_CALL, tool_name, arguments)
            return (await self.actions.call_tool(scene, tool_name, arguments, position=position)).value()
        context = (context or RunContext()).with_agent(agent_name)
        scene = Detached(context, self._budget_of(context), self.controls, PRINCIPAL)
        return (await self.actions.call_tool(scene, tool_name, arguments, position="")).value()

    def _budget_of(self, context: RunContext, task_id: str = "") -> BudgetEnforcer:
        """One budget for all calls in one context of one task. Callers choose run ids, so two tasks may have the same one."""
        key = task_id, context.run_id
        known = self._budgets.get(key)
        if known is None:
            known = self._budgets[key] = BudgetEnforcer(effective(self.controls.budget, context.budget))
            if len(self._budgets) > BUDGETS:
                self._budgets.popitem(last=False)
        return known

    async def open(self) -> None:
        """Make sure that what is remembered can be reached; raises StoreError."""
        if self.state is not None:
            await self.state.open()

    async def aclose(self) -> None:
        if self.state is not None:
            await self.state.close()
        if isinstance(self.llm, LLM):
            await self.llm.aclose()

    @property
    def control(self) -> StateControl | None:
        """The control plane of what the agent remembers, None where it remembers nothing."""
        if self.state is None:
            return None
        summarize = self.llm.summarize if isinstance(self.llm, LLM) else None
        return StateControl(self.state, self._authorize, summarize=summarize)

    async def _authorize(self, operation: str, session_id: str, principal: str) -> None:
        """Raises ActionDeniedError, ApprovalRequiredError: policy does not let this be done to the agent's memory."""
        action = RunAction(operation, operation, {"session_id": session_id}, frozenset({operation}))
        context = RunContext(session_id=session_id or None, metadata={"principal": principal})
        await ActionAuthorizer(self.policy, self.controls.approval_handler).authorize(action, context)

    def check_edit(self, action: RunAction, arguments: dict[str, Any]) -> None:
        """Whether a waiting tool call could run with other arguments.

        Raises:
            InvalidArgumentError: It could not.
        """
        tool = str(action.metadata.get("tool", action.name))
        if tool in self.toolbox:
            try:
                self.toolbox.get(tool).validate(arguments)
            except Exception as error:
                raise InvalidArgumentError(str(error)) from error


def _checked(llm: Any) -> Any:
    if llm is not None and not callable(getattr(llm, "generate", None)):
        raise TypeError(f"llm must be a model, such as create_llm('mock') makes, not {type(llm).__name__}")
    return llm


def _state(wishes: Wishes, name: str) -> State | None:
    if isinstance(wishes.state, State):
        if wishes.storage is not None:
            wishes.state.storage = wishes.storage
        return wishes.state.bind(name)
    if wishes.state is None and wishes.storage is None:
        return None
    modules = ("conversation",) if wishes.state is None else wishes.state
    return State(wishes.storage or InMemoryStorage(), modules).bind(name)
