"""Telemetry: the base class of all telemetry, with the hooks of ProtoLink."""

from collections.abc import Callable
from typing import Any

from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.service import ServiceGauges
from protolink_grpc.telemetry.spans import Span


class Telemetry:
    """Receives the runs, model calls and actions of an agent: `Agent(telemetry=...)`. Override the hooks that you need.

    The hooks are called after the facts are committed to the log, on a thread of its own for each agent. They may be async. The
    hooks of one run are called in the order of the log and in one `contextvars` context, so a hook can store a value for later
    ones. A hook that fails, hangs or is slow does not affect the run.

    Attributes:
        capture_content: Give the hooks prompts, answers, arguments, results and error messages, redacted by the agent's
            `RedactionPolicy`. Otherwise these are empty.
    """

    capture_content: bool = False

    def on_task_start(self, task: Task, agent_name: str) -> Any:
        """A run begins: the first one of a task, one for each further message, and one for each recovery.

        Args:
            task: Without content, it has only its ids, state, times and context.
        """

    def on_task_end(self, task: Task, result: Task, agent_name: str) -> Any:
        """A run ends.

        Args:
            task: The task as given to `on_task_start`.
            result: The task with its state, failure and usage.
        """

    def on_llm_start(self, prompt: str, model: str | None = None, metadata: dict[str, Any] | None = None) -> Any:
        """A model call begins.

        Args:
            prompt: The text of the task's last message, not the whole prompt: the log does not contain that.
            metadata: `task_id`, `run_id`, `agent_name`, `trace_id`, `span_id`, and the attributes of the span.
        """

    def on_llm_end(self, response: Part) -> Any:
        """A model call ends.

        Args:
            response: An `infer_output` part, or an `error` part. Its metadata contains that of `on_llm_start`, and the tokens, cost
                and duration of the call.
        """

    def on_tool_start(self, tool_name: str, args: dict[str, Any]) -> Any:
        """A tool call is requested. A policy or a person may still deny it."""

    def on_tool_end(self, tool_name: str, result: Any, error: str | None = None) -> Any:
        """A tool call ends.

        Args:
            error: The reason, such as `TOOL_FAILED`, followed by the message if content is given; None if the call succeeded.
        """

    def on_llm_event(self, event: dict[str, Any]) -> Any:
        """Another event of a run.

        Args:
            event: Its `type` is agent_call_start, agent_call_result, agent_call_error, approval_required, approval_decided,
                step_start, step_end, or the type of an event of the log, such as context.prepared or budget.warning. The other keys
                are those of a span.
        """

    def on_span(self, span: Span) -> Any:
        """A span has ended. A span is given after the spans within it."""

    def add_service(self, agent_name: str, gauges: Callable[[], ServiceGauges | None]) -> None:
        """Export the current numbers of an agent that starts.

        Args:
            gauges: Returns the numbers, and None after the agent has stopped. May be called from any thread.
        """

    def flush(self) -> Any:
        """Export everything that has been given to the hooks. Called when an agent stops."""
