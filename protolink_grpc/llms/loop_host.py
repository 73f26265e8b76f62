"""The two ends of an inference: what it is asked, and what it asks of the world around it. The loop between them is in `loop`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.port import ToolSpec
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import LlmCallCompleted, Payload, Severity
from protolink_grpc.models.json_value import JsonValue
from protolink_grpc.policy.budget import BudgetEnforcer

ActionKind = Literal["tool.call", "agent.call"]
ReasoningLevel = Literal["none", "low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ActionCall:
    """One action that a model wants, checked as far as the loop can, and not yet allowed.

    Args:
        position: `<model call>/<index>`: the same in every attempt at the same inference.
        name: The tool, or the agent.
        arguments: The tool's; of an agent's call `{"action": "tool_call", "tool", "args"}` or `{"action": "infer", "prompt"}`.
        call_id: As the model names the call; unique within its answer.
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
    """What came of an action.

    Args:
        status: `ok`, `rejected` (nothing has happened, the model may correct the call) or `failed`.
        content: The result, where it is ok.
        error: What a model should know about it, where it is not: `ToolRejectedError.to_dict()` of a rejected one.
    """

    status: Literal["ok", "rejected", "failed"]
    content: JsonValue = None
    error: dict[str, Any] | None = None


class LoopHost(Protocol):
    """What an inference needs besides a model. One object serves one inference, on one event loop."""

    @property
    def budget(self) -> BudgetEnforcer:
        """Charged by the loop for steps, model calls and tokens, and by `act` for what it runs."""
        ...

    def check(self) -> None:
        """Raise asyncio.CancelledError when the run was canceled. Called often: must be cheap."""
        ...

    async def report(self, payload: Payload, *, severity: Severity = "info", summary: str = "") -> None:
        """A fact for the log, in order. Does not wait for the disk."""
        ...

    def delta(self, call_id: str, offset: int, text: str) -> None:
        """The next piece of a call's text, `offset` in bytes of UTF-8. A later attempt at the same call begins at 0 again."""
        ...

    def recorded(self, call_id: str) -> LlmCallCompleted | None:
        """What the model answered to that call in an earlier attempt. The loop then neither asks, charges nor reports."""
        ...

    async def act(self, calls: Sequence[ActionCall]) -> list[Observation]:
        """Authorise and run; several only when all of them are tools that change nothing, which may run side by side.

        Asked again for the same positions in every attempt: whoever implements it knows what has happened already.

        Returns:
            One observation per call, in their order.

        Raises:
            ActionDeniedError, ApprovalRequiredError, BudgetExceededError, ...: The inference ends with it. What it charges
                it reports itself.
        """
        ...


@checks_arguments
@dataclass(frozen=True, slots=True)
class InferSettings:
    """Bounds and manners of an inference. How many steps it may take is the budget's business.

    Args:
        max_parse_failures: Answers in a row that are no valid action before InferParseError ends it.
        max_tool_corrections: Rejected calls of one tool in a row that are fed back; the next ends it.
        max_transport_retries: Repetitions of one model call whose provider was not reachable or too slow.
        repeat_limit: Rounds in a row that repeat earlier actions with the same outcome, before the model is told so. Twice as many
            end the inference with RepeatedActionError.
        parallel_read_only: Several read-only tool calls of one answer run side by side.
        call_timeout_s: Bound of one model call in seconds; what is left of the budget's time bounds it too.
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
    """One question to an agent's model.

    Args:
        key: Names the inference within its task, for instance `msg_1/0`: the same in every attempt.
        query: What is asked.
        instructions: The system prompt of the agent's author.
        history: The conversation before the question, oldest first.
        peers: Agents that work may be delegated to.
        output_schema: JSON Schema of the answer; None asks for text. Shown to the model as data.
        flow_prompt: Instructions of a flow of the agent's own; part of the system prompt.
        caller_flow_prompt: What the caller says about a flow of the caller's; shown to the model as data.
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
    settings: InferSettings = field(default_factory=InferSettings)


@dataclass(frozen=True, slots=True)
class InferenceResult:
    """The end of an inference.

    Args:
        content: The answer: text, or a JSON value that satisfies `output_schema`.
        messages: The turn for the history: the question, each call with what came of it, the answer.
        steps: How many steps it took.
    """

    content: JsonValue
    messages: list[LLMMessage]
    steps: int
