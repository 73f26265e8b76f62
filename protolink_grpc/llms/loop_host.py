"""The interfaces of an inference: its request and result, and the host that runs its actions. The loop is in `loop`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.context_policy import ContextPolicy
from protolink_grpc.llms.port import ToolSpec
from protolink_grpc.models.action import OmittedContext
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import LlmCallCompleted, Payload, RunEvent, Severity
from protolink_grpc.models.json_schema import OutputType
from protolink_grpc.models.json_value import JsonValue
from protolink_grpc.models.media import Media
from protolink_grpc.models.tool import OfferedTool
from protolink_grpc.policy.budget import BudgetEnforcer

ActionKind = Literal["tool.call", "agent.call"]
ReasoningLevel = Literal["none", "low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ActionCall:
    """One action that a model requests. The loop has checked it; the host has not allowed it yet.

    Args:
        position: `<model call>/<index>`, the same in every attempt at the same inference.
        name: The tool, or the agent.
        arguments: The tool's arguments; for an agent `{"action": "tool_call", "tool", "args"}` or `{"action": "infer", "prompt"}`.
        call_id: The model's id of the call, unique within its answer.
        step: Step of the loop, from 1.
    """

    position: str
    kind: ActionKind
    name: str
    arguments: dict[str, Any]
    call_id: str
    step: int


@dataclass(frozen=True, slots=True)
class Observation:
    """The outcome of an action.

    Args:
        status: `ok`, `rejected` (not executed; the model may correct the call) or `failed`.
        content: The result, if the status is `ok`.
        error: The error for the model otherwise; for `rejected` it is `ToolRejectedError.to_dict()`.
    """

    status: Literal["ok", "rejected", "failed"]
    content: JsonValue = None
    error: dict[str, Any] | None = None


class LoopHost(Protocol):
    """Runs the actions of one inference, records its events and checks its budget. Used on one event loop."""

    @property
    def budget(self) -> BudgetEnforcer:
        """The loop charges it for steps, model calls and tokens, and `act` for the actions."""
        ...

    def check_canceled(self) -> None:
        """Raise asyncio.CancelledError if the run was canceled. Called often, so it must be fast."""
        ...

    async def wait_while_paused(self) -> None:
        """Wait until the task is not paused. Called before each model call."""
        ...

    async def report(
        self,
        payload: Payload,
        *,
        severity: Severity = "info",
        summary: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Append an event to the log, in order. Does not wait until it is stored.

        Args:
            metadata: Further facts. `decision` is the key by which `decided` finds the event.
        """
        ...

    def delta(self, call_id: str, offset: int, text: str) -> None:
        """Publish the next piece of a call's text. `offset` is in bytes of UTF-8; a new attempt at the call starts at 0 again."""
        ...

    def recorded(self, call_id: str) -> LlmCallCompleted | None:
        """The answer to this call from an earlier attempt, or None. The loop uses it without a model call, charge or report."""
        ...

    async def publish_files(self, call_id: str, files: Sequence[Media]) -> None:
        """Publish the files of an answer, before its LlmCallCompleted. Repeating it with the same call id replaces the files."""
        ...

    def recorded_files(self, call_id: str) -> Sequence[Media]:
        """The published files of an answer that `recorded` returns."""
        ...

    def decided(self, key: str) -> RunEvent | None:
        """The event with this key that an earlier attempt has reported, or None."""
        ...

    async def act(self, calls: Sequence[ActionCall]) -> list[Observation]:
        """Authorize and run actions. Several are passed only if all of them are read-only tools, which may run concurrently.

        Every attempt passes the same positions again, so an implementation must know which actions have already been executed.

        Returns:
            One observation per call, in their order.

        Raises:
            ActionDeniedError, ApprovalRequiredError, BudgetExceededError, ...: The inference ends with this error. Charges of
                the actions are reported by the host.
        """
        ...


@checks_arguments
@dataclass(frozen=True, slots=True)
class InferSettings:
    """Limits and options of an inference. The budget limits its steps.

    Args:
        max_parse_failures: Consecutive answers that are invalid or that a hook rejects; the last one ends the inference with
            InferParseError.
        max_tool_corrections: Consecutive rejected calls of one tool that the model may correct; the next one ends the inference.
        max_transport_retries: Retries of one model call if the provider is unavailable or too slow.
        repeat_limit: Consecutive rounds that repeat earlier actions with the same results; then the model gets a note. Twice as
            many end the inference with RepeatedActionError.
        parallel_read_only: Whether several read-only tool calls of one answer run concurrently.
        call_timeout_s: Timeout of one model call in seconds. The remaining time of the budget limits it too.
    """

    max_parse_failures: int = 3
    max_tool_corrections: int = 2
    max_transport_retries: int = 3
    repeat_limit: int = 3
    parallel_read_only: bool = True
    reasoning_level: ReasoningLevel = "none"
    temperature: float | None = None
    max_output_tokens: int | None = None
    call_timeout_s: float | None = None

    def __post_init__(self) -> None:
        for name, least in (
            ("max_parse_failures", 1),
            ("max_tool_corrections", 0),
            ("max_transport_retries", 0),
            ("repeat_limit", 1),
        ):
            if getattr(self, name) < least:
                raise InvalidArgumentError(f"must be at least {least}", field=name)


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """The request for one inference.

    Args:
        key: Id of the inference within its task, for example `msg_1/0`. The same in every attempt.
        query: The text of the request.
        media: The files of the request.
        instructions: The system prompt of the agent's author.
        history: The conversation before the request, oldest first.
        peers: Agents for delegation.
        output_schema: JSON Schema of the answer; None means text. The model gets it as data.
        output_type: The type of that schema, for answers that are converted in this process: the model also corrects answers that
            only the type refuses, for instance because of a validator.
        flow_prompt: Instructions of the agent's own flow; part of the system prompt.
        caller_flow_prompt: The caller's text about the caller's flow; the model gets it as data.
        context_policy: Limits of the prompt; None means no limits.
        offered: Facts about the tools and the peers, for the log.
        omitted: What is left out of the input, oldest first, for the log.
    """

    key: str
    query: str
    instructions: str = ""
    history: Sequence[LLMMessage] = ()
    tools: Sequence[ToolSpec] = ()
    peers: Sequence[AgentCard] = ()
    output_schema: dict[str, Any] | None = None
    run_context: RunContext = field(default_factory=RunContext)
    agent_name: str = ""
    flow_prompt: str = ""
    caller_flow_prompt: str = ""
    output_type: OutputType[Any] | None = None
    settings: InferSettings = field(default_factory=InferSettings)
    media: Sequence[Media] = ()
    context_policy: ContextPolicy | None = field(default_factory=ContextPolicy)
    offered: Sequence[OfferedTool] = ()
    omitted: Sequence[OmittedContext] = ()


@dataclass(frozen=True, slots=True)
class InferenceResult:
    """The result of an inference.

    Args:
        content: The answer: text, or a JSON value that satisfies `output_schema`.
        messages: The turn for the history: the request, each call with its result, and the answer.
        steps: The number of steps.
        files: The files of all answers, in their order.
    """

    content: JsonValue
    messages: list[LLMMessage]
    steps: int
    files: tuple[Media, ...] = ()
