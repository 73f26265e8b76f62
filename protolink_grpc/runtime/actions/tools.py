"""Tool calls as actions: checks a call, builds its action and passes it to the gate."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import Any, Final

from protolink_grpc.errors import (
    InvalidArgumentError,
    ProtolinkError,
    ToolFailedError,
    error_text,
)
from protolink_grpc.models.action import PolicyEffect, RunAction
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.ended_task import ended_error
from protolink_grpc.models.events import RunEvent, TaskProgress
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.json_value import normalize, plain, to_json
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolCall, ToolOutput
from protolink_grpc.models.snapshot import Availability, Gap, ToolInventoryEntry, ToolInventorySnapshot
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.tool import OfferedTool, ToolDescription
from protolink_grpc.models.tool_result import find_tool_output
from protolink_grpc.policy.capabilities import Policy, static_effect
from protolink_grpc.runtime.actions.action_context import ActionContext
from protolink_grpc.runtime.actions.gate import DELEGATE, TOOL_CALL, ActionResult, Gate, Outcome, PreparedAction
from protolink_grpc.runtime.actions.input_requests import InputRequests
from protolink_grpc.runtime.actions.sampling import ModelSampler
from protolink_grpc.runtime.actions.tool_items import ItemLog, ToolItems
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.tools.arguments import CheckedArguments
from protolink_grpc.tools.context import NO_MEMORY, Memory, SampledText, ToolContext, sample_nothing
from protolink_grpc.tools.tool import PEER_OWNER, Tool
from protolink_grpc.tools.toolbox import Toolbox

ExecuteInTask = Callable[[ActionContext, RunAction], Awaitable[ActionResult]]
"""Executes an action in a task of its own, which has the id of the action."""


class ToolActions:
    """Calls the tools of one agent through its gate.

    Args:
        memory: Returns the tools' memory for a principal and a session; None if the agent has no such memory.

    Attributes:
        task_tools: Executes the calls of tools that run in tasks of their own.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        gate: Gate,
        memory: Callable[[str, str], Memory] | None = None,
        sampler: ModelSampler | None = None,
    ) -> None:
        self.toolbox = toolbox
        self.gate = gate
        self.task_tools: dict[Tool, ExecuteInTask] = {}
        self._memory = memory
        self._sampler = sampler

    def offered_tools(self, context: RunContext) -> list[OfferedTool]:
        """Return the tools as a run offers them to a model, with the effect of policy and permissions on their calls."""
        effect_of = cache(partial(static_effect, self.gate.policy, context=context))
        return [
            OfferedTool(
                tool.name,
                tool.runtime_owner,
                tool.read_only,
                tool.idempotent,
                tool.destructive,
                effect_of_calls(tool, effect_of(tool.capabilities)),
            )
            for tool in self.toolbox.all()
        ]

    async def call_tool(
        self,
        action_context: ActionContext,
        name: str,
        arguments: Mapping[str, Any],
        *,
        position: str,
        call_id: str = "",
        items: ItemLog | None = None,
    ) -> Outcome:
        """Call a tool through the gate.

        Args:
            items: Records the items of a generator tool while it works. None: the result has them.

        Raises:
            ToolRejectedError: The tool does not exist, or the arguments are invalid; nothing was recorded.
            ProtolinkError: As `Gate.perform`.
        """

        async def prepare() -> PreparedAction:
            tool = self.toolbox.get(name)
            given = plain(dict(arguments))
            return await self._prepare(tool, given, action_context, call_id, position=position, items=items)

        return await self.gate.perform(action_context, prepare, position=position)

    async def _prepare(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        action_context: ActionContext,
        call_id: str,
        *,
        position: str,
        items: ItemLog | None,
    ) -> PreparedAction:
        action, checked = await _build_action(tool, tool.check(arguments), action_context.context, call_id)

        async def execute(action: RunAction) -> ActionResult:
            context = self._tool_context(action, action_context, call_id, tool.name, position)
            runner = self.toolbox.runner
            if not tool.streams:
                return ActionResult(await tool.run(checked.keywords, context=context, runner=runner))
            taken = ToolItems(tool.name, action_context, action.action_id, items)
            result = await tool.run(checked.keywords, context=context, runner=runner, on_item=taken.take)
            taken.check_end()
            return ActionResult(result, in_log=items is not None and items.count > 0)

        def edit(changed: dict[str, Any]) -> RunAction:
            nonlocal checked
            checked = tool.check(changed)
            return action.with_payload({**action.payload, "arguments": checked.as_json})

        def is_same(payload: dict[str, Any]) -> bool:
            """Compare after validation: the recorded arguments may be unconverted or in another order."""
            own = {**action.payload, "arguments": checked.as_json}
            if payload == own:
                return True
            if payload | {"arguments": None} != own | {"arguments": None}:
                return False
            try:
                return tool.validate(payload.get("arguments", {})) == checked.keywords
            except ProtolinkError:
                return False

        in_task = self.task_tools.get(tool)
        if in_task is not None:
            # The task has the id of the action, so a repeated action finds the same task.
            own = partial(in_task, action_context)
            return PreparedAction(action, own, edit, is_same, idempotent=True, read_only=tool.read_only)
        return PreparedAction(action, execute, edit, is_same, idempotent=tool.idempotent, read_only=tool.read_only)

    def _tool_context(
        self, action: RunAction, action_context: ActionContext, call_id: str, tool: str, position: str
    ) -> ToolContext:
        questions = InputRequests(action_context, tool, position=position, expires_s=self.gate.expires_s)
        samples = count(1)

        async def sample(messages: Sequence[LLMMessage], **options: Any) -> SampledText:
            own = f"{position}/sample/{next(samples)}" if position else ""
            if self._sampler is None:
                return await sample_nothing(messages)
            return await self._sampler.sample(action_context, tool, own, messages, **options)

        async def progress(percent: float | None, message: str = "") -> None:
            report = TaskProgress(percent, message)
            report.check()
            await action_context.emit(RunEvent(payload=report, action_id=action.action_id))

        context = action_context.context
        session = context.session_id or ""
        return ToolContext(
            task_id=action_context.task_id,
            run_id=context.run_id,
            session_id=session,
            agent_name=context.agent_chain[-1] if context.agent_chain else "",
            principal=action_context.principal,
            call_id=call_id,
            action_id=action.action_id,
            run_context=context,
            cancellation=action_context.token,
            memory=self._memory(action_context.principal, session)
            if self._memory is not None and session
            else NO_MEMORY,
            progress=progress,
            ask=questions.ask,
            sample=sample,
        )


async def _build_action(
    tool: Tool, checked: CheckedArguments, context: RunContext, call_id: str
) -> tuple[RunAction, CheckedArguments]:
    """Return the action of a tool call, and its arguments.

    The tool's own `action_builder` may add to the action and change its arguments. It cannot remove a capability.

    Raises:
        ToolFailedError: The `action_builder` failed, or returned something else than an action.
        ToolRejectedError: Its arguments are invalid.
    """
    arguments = checked.as_json
    if tool.action_builder is None:
        payload = {"arguments": arguments}
        text = tool.description[:200]
        return RunAction(TOOL_CALL, tool.name, payload, tool.capabilities, description=text, call_id=call_id), checked
    try:
        built: Any = tool.action_builder(plain(arguments), context.copy())
        if inspect.isawaitable(built):
            built = await built
    except (ProtolinkError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise ToolFailedError(
            f"the preview of tool '{tool.name}' failed: {error_text(error)}", tool=tool.name
        ) from error
    if not isinstance(built, RunAction):
        raise ToolFailedError(
            f"the action_builder of tool '{tool.name}' must return a RunAction, not {type(built).__name__}",
            tool=tool.name,
        )
    as_json: Any = normalize(built.payload)
    payload = {"arguments": arguments, **as_json}
    if payload["arguments"] != arguments:
        checked = tool.check(payload["arguments"])
        payload["arguments"] = checked.as_json
    metadata = built.metadata if built.name == tool.name else {**built.metadata, "tool": tool.name}
    action = replace(
        built,
        payload=payload,
        capabilities=built.capabilities | tool.capabilities,
        artifacts=tuple(replace(each, action_id=built.action_id) for each in built.artifacts),
        metadata=metadata,
        call_id=call_id,
    )
    return action, checked


INVENTORY_BYTES: Final = 2 << 20
"""Maximum size of an inventory. gRPC receives 4 MiB per message by default; ListTools has pages."""


def effect_of_calls(tool: Tool, effect: PolicyEffect | None) -> PolicyEffect | None:
    """Return the effect on calls of a tool whose capabilities have this effect; None if its `action_builder` may add some."""
    return effect if tool.action_builder is None or effect is PolicyEffect.DENY else None


def tool_inventory(
    toolbox: Toolbox,
    policy: Policy | None,
    principal: str,
    scopes: frozenset[str],
    *,
    peers: Sequence[AgentCard] = (),
    has_all_peers: bool = True,
) -> ToolInventorySnapshot:
    """Return the tools of an agent and the peers that its model can call, with the effect of its policy for a caller.

    Args:
        has_all_peers: `peers` has all peers that the registry has now.
    """
    context = RunContext(principal=principal, scopes=tuple(sorted(scopes)))
    found = [_tool_entry(toolbox.get(each.name), each, policy, context) for each in toolbox.describe()]
    found += [_peer_entry(each, policy, context) for each in peers]
    found.sort(key=lambda entry: entry.tool.name)
    entries: list[ToolInventoryEntry] = []
    gaps: list[Gap] = []
    if not has_all_peers:
        gaps.append(Gap("tools", Availability.STALE, "the registry does not answer, so peers may be missing"))
    size = 0
    for entry in found:
        size += len(to_json(entry.tool.to_dict()))
        if entries and size > INVENTORY_BYTES:
            left = f"the inventory is too large: {len(found) - len(entries)} tools are left out"
            gaps.append(Gap("tools", Availability.UNKNOWN, left))
            break
        entries.append(entry)
    if any(each.tool.effect is None for each in entries):
        gaps.append(Gap("tools.effect", Availability.UNKNOWN, "the policy decides when a tool is called"))
    if entries:
        gaps.append(Gap("tools.concurrency_safe", Availability.UNAVAILABLE, "not recorded"))
    return ToolInventorySnapshot(utc_now(), tuple(entries), tuple(gaps))


def _tool_entry(
    tool: Tool, description: ToolDescription, policy: Policy | None, context: RunContext
) -> ToolInventoryEntry:
    effect = effect_of_calls(tool, static_effect(policy, tool.capabilities, context))
    return ToolInventoryEntry(replace(description, effect=effect), tool.runtime_owner)


def _peer_entry(peer: AgentCard, policy: Policy | None, context: RunContext) -> ToolInventoryEntry:
    description = ToolDescription(
        peer.name,
        description=peer.description,
        capabilities=(DELEGATE,),
        effect=static_effect(policy, frozenset({DELEGATE}), context),
    )
    return ToolInventoryEntry(description, f"{PEER_OWNER}{peer.name}")


TOOL_TASK = "plgrpc.tool_call"
"""Metadata key of a task that only calls a tool. The default handler executes it, even if the agent has its own handler."""


async def run_tool(
    service: TaskService,
    toolbox: Toolbox,
    call: ToolCall,
    principal: str,
    *,
    session_id: str = "",
    request_id: str = "",
    task_id: str = "",
    scopes: frozenset[str] = frozenset(),
    context: RunContext | None = None,
) -> TaskFold:
    """Run a tool in a task of its own and wait for its end. `require_output` reads the output of the task.

    Args:
        task_id: Id of the new task; if empty, the service generates one.
        context: The options of the run that the caller has chosen.

    Raises:
        ToolRejectedError: The tool does not exist, or the arguments are invalid; no task was created.
        InvalidArgumentError: The arguments are not JSON; no task was created.
        ProtolinkError: As `TaskService.send`.
    """
    submission = tool_submission(
        toolbox,
        call,
        session_id=session_id,
        request_id=request_id,
        task_id=task_id,
        scopes=scopes,
        context=context,
    )
    return await service.send(submission, principal)


def tool_submission(
    toolbox: Toolbox,
    call: ToolCall,
    *,
    session_id: str = "",
    request_id: str = "",
    task_id: str = "",
    scopes: frozenset[str] = frozenset(),
    context: RunContext | None = None,
) -> Submission:
    """Check a tool call and return the request for a new task that makes it. Parameters and errors are as of `run_tool`."""
    # If a validator of the application fails, the task is created and records the failure.
    with suppress(ToolFailedError):
        tool = toolbox.get(call.tool_name)
        try:
            arguments = call.json_args()
        except InvalidArgumentError as error:
            raise error.within("call") from None
        tool.validate(arguments)
    part = Part("tool_call", call) if call.call_id else Part.tool_call(call.tool_name, call.args)
    return Submission(
        messages=[Message(role="user", parts=[part])],
        target=TaskTarget.CREATE,
        metadata={TOOL_TASK: True},
        task_id=task_id,
        session_id=session_id,
        context=context,
        request_id=request_id,
        scopes=scopes,
    )


def require_output(fold: TaskFold) -> ToolOutput:
    """Return the output of the tool of an ended task, which may be a failure.

    Raises:
        ProtolinkError: The call was not allowed to run, or was canceled.
    """
    output = find_tool_output(fold.artifacts)
    if output is None:
        raise ended_error(fold)
    return output
