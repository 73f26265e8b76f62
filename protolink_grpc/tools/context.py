"""What a running tool may know about the call it serves.

Nothing here reaches a peer: a parameter annotated with `ToolContext` is filled by the runtime and never in a schema.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from protolink_grpc.errors import UnimplementedError
from protolink_grpc.models.context import RunContext


class Progress(Protocol):
    """Tells whoever watches the task how far a tool has come."""

    async def __call__(self, percent: float | None, message: str = "") -> None:
        """Report a percentage from 0 to 100, or None where it is unknown, and one sentence for people.

        Raises:
            InvalidArgumentError: Another value; names `progress`.
        """


async def no_progress(percent: float | None, message: str = "") -> None:
    """Where nobody watches, a report goes nowhere."""


class Cancellation(Protocol):
    """Whether the run that a tool works for was asked to stop; any thread may ask."""

    @property
    def is_cancelled(self) -> bool: ...
    def raise_if_cancelled(self) -> None:
        """A checkpoint for code that does not await.

        Raises:
            asyncio.CancelledError: The run was asked to stop.
        """


class NeverCanceled:
    """Of a call that nobody can cancel."""

    is_cancelled = False

    def raise_if_cancelled(self) -> None:
        return


class Memory(Protocol):
    """What a tool keeps from one task of a session to the next: JSON values by key, the last writer wins."""

    async def get(self, key: str, default: Any = None) -> Any: ...
    async def set(self, key: str, value: Any) -> None: ...
    async def delete(self, key: str) -> bool:
        """Whether there was such a key."""
        ...

    async def all(self) -> dict[str, Any]: ...


class NoMemory:
    """The memory of an agent that keeps none: nothing is found in it, and nothing can be put there."""

    async def get(self, key: str, default: Any = None) -> Any:
        return default

    async def set(self, key: str, value: Any) -> None:
        raise UnimplementedError("this agent keeps no memory for tools; give it storage and state=['tools']")

    async def delete(self, key: str) -> bool:
        return False

    async def all(self) -> dict[str, Any]:
        return {}


NEVER_CANCELED = NeverCanceled()
NO_MEMORY = NoMemory()


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call that a tool serves. Every field has a default, so that a test can build one from what it needs.

    Args:
        task_id: Task that the call belongs to, empty outside of a task.
        run_id: Attempt that the call belongs to.
        session_id: Conversation that the task belongs to.
        agent_name: Agent that owns the tool.
        principal: Authenticated caller, owner of the task.
        call_id: This call, as its `tool_call` part names it.
        action_id: This call, as the log names it: the same when it is repeated after a crash, so a key for idempotent requests.
        run_context: Envelope of the run; read only.
        cancellation: For checks between the steps of a long call, above all right before something is committed.
        memory: Of the session, where the agent keeps one.
        progress: Awaited on the event loop; a sync tool runs on a thread and cannot await it.
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
