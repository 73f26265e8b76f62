"""What a running tool may know about the call it serves.

Nothing here reaches a peer: a parameter annotated with `ToolContext` is filled by the runtime and never in a schema.
"""

from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """Tells whoever watches the task how far a tool has come."""

    async def __call__(self, value: float, message: str = "") -> None:
        """Report `value`, from 0.0 (nothing) to 1.0 (done), and one sentence for people."""


async def no_progress(value: float, message: str = "") -> None:
    """Where nobody watches, a report goes nowhere."""


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
        progress: Awaited on the event loop; a sync tool runs on a thread and cannot await it.
    """

    task_id: str = ""
    run_id: str = ""
    session_id: str = ""
    agent_name: str = ""
    principal: str = ""
    call_id: str = ""
    progress: Progress = no_progress
