"""The context of a tool call. A parameter annotated with `ToolContext` is filled by the runtime and is not part of the schema."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from protolink_grpc.errors import UnimplementedError
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import LLMMessage


class Progress(Protocol):
    """Reports the progress of a tool to the watchers of the task."""

    async def __call__(self, percent: float | None, message: str = "") -> None:
        """Report a percentage from 0 to 100, or None if it is unknown, and a message.

        Raises:
            InvalidArgumentError: The value is invalid; names `progress`.
        """


async def no_progress(percent: float | None, message: str = "") -> None:
    """Ignore progress, outside of a task."""


@dataclass(frozen=True, slots=True)
class InputAnswer:
    """The answer of a person to a question of a tool.

    Args:
        accepted: Whether the person gave an answer.
        values: The answer; it satisfies the schema of the question.
        reason: Why there is no answer.
    """

    accepted: bool
    values: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


class AskPerson(Protocol):
    """Asks a person for input, as an approval request that is answered by editing its arguments."""

    async def __call__(self, message: str, schema: dict[str, Any] | None = None, *, url: str = "") -> InputAnswer:
        """Wait for the answer. Without an approver, or after a denial, `accepted` is false.

        Args:
            schema: JSON Schema of the answer, an object; None means that only a consent is needed.
            url: Page that the person is asked to open.

        Raises:
            InvalidArgumentError: The schema is invalid; names `schema`.
        """
        ...


async def ask_nobody(message: str, schema: dict[str, Any] | None = None, *, url: str = "") -> InputAnswer:
    """Give no answer, outside of an agent."""
    return InputAnswer(False, {}, "input can be requested only while an agent runs the tool")


@dataclass(frozen=True, slots=True)
class SampledText:
    """A text of the agent's model.

    Args:
        model: The provider's name of the model.
        finish_reason: As in `ModelResponse`.
    """

    text: str
    model: str = ""
    finish_reason: str = ""


class SampleModel(Protocol):
    """Asks the agent's model, without its instructions, tools and conversation, under the policy and the budget of the run."""

    async def __call__(
        self, messages: Sequence[LLMMessage], *, max_tokens: int | None = None, temperature: float | None = None
    ) -> SampledText:
        """Return the answer.

        Args:
            messages: The conversation, oldest first, with the roles `user` and `assistant`.

        Raises:
            UnimplementedError: There is no model.
            ActionDeniedError, ApprovalDeniedError, ApprovalRequiredError: The policy does not allow it (`model.sample`).
            BudgetExceededError: The budget does not allow it.
            ModelError: The model failed.
        """
        ...


async def sample_nothing(
    messages: Sequence[LLMMessage], *, max_tokens: int | None = None, temperature: float | None = None
) -> SampledText:
    """Refuse, outside of an agent."""
    raise UnimplementedError("a model can be asked only while an agent runs the tool")


class Cancellation(Protocol):
    """Whether the run of a tool was canceled. It can be used from any thread."""

    @property
    def is_cancelled(self) -> bool: ...
    def raise_if_cancelled(self) -> None:
        """A checkpoint for code that does not await.

        Raises:
            asyncio.CancelledError: The run was canceled.
        """


class NeverCanceled:
    """The cancellation state of a call that cannot be canceled."""

    is_cancelled = False

    def raise_if_cancelled(self) -> None:
        return


class Memory(Protocol):
    """Values that a tool stores across the tasks of a session: JSON values by key; the last write wins."""

    async def get(self, key: str, default: Any = None) -> Any: ...
    async def set(self, key: str, value: Any) -> None: ...
    async def delete(self, key: str) -> bool:
        """Delete a key. Returns whether it existed."""
        ...

    async def all(self) -> dict[str, Any]: ...


class NoMemory:
    """The memory of an agent without state: it is empty, and storing a value fails."""

    async def get(self, key: str, default: Any = None) -> Any:
        return default

    async def set(self, key: str, value: Any) -> None:
        raise UnimplementedError("this agent has no memory for tools; configure storage and state=['tools']")

    async def delete(self, key: str) -> bool:
        return False

    async def all(self) -> dict[str, Any]:
        return {}


NEVER_CANCELED = NeverCanceled()
NO_MEMORY = NoMemory()


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of a tool call. Every field has a default, so that tests can create one easily.

    Args:
        task_id: The task of the call; empty outside of a task.
        run_id: The run of the call.
        session_id: The session of the task.
        agent_name: The agent with the tool.
        principal: The authenticated caller, who owns the task.
        call_id: Id of the call in its `tool_call` part.
        action_id: Id of the call in the log. It is the same if the call is repeated after a crash, so it can be used as an
            idempotency key.
        run_context: Context of the run; read only.
        cancellation: For checks between the steps of a long call, especially before a commit.
        memory: Values of the session, if the agent has state.
        progress: Awaited on the event loop; a sync tool runs in a thread and cannot await it.
        ask: Asks a person for input; awaited like `progress`. The timeout of the tool includes the wait.
        sample: Asks the agent's model; awaited like `progress`.
    """

    task_id: str = ""
    run_id: str = ""
    session_id: str = ""
    agent_name: str = ""
    principal: str = ""
    call_id: str = ""
    action_id: str = ""
    run_context: RunContext = field(default_factory=RunContext)
    cancellation: Cancellation = NEVER_CANCELED
    memory: Memory = NO_MEMORY
    progress: Progress = no_progress
    ask: AskPerson = ask_nobody
    sample: SampleModel = sample_nothing
