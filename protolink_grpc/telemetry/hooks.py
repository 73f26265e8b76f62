"""From spans to the hooks of a telemetry, with the content that it may get."""

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Any

from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import type_of
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.part import Part
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.task import Task
from protolink_grpc.telemetry.spans import NOTED, Span, note_of

HOOKS = (
    "on_task_start",
    "on_task_end",
    "on_llm_start",
    "on_llm_end",
    "on_tool_start",
    "on_tool_end",
    "on_llm_event",
    "on_span",
    "flush",
)

HookCall = tuple[str, tuple[Any, ...]]
"""The name of a hook and its arguments."""


_START_HOOKS = {
    "run": "on_task_start",
    "llm": "on_llm_start",
    "tool": "on_tool_start",
    "agent_call": "on_llm_event",
    "approval": "on_llm_event",
    "step": "on_llm_event",
}
_END_HOOKS = {
    "run": "on_task_end",
    "llm": "on_llm_end",
    "tool": "on_tool_end",
    "agent_call": "on_llm_event",
    "approval": "on_llm_event",
    "step": "on_llm_event",
}


class RunHooks:
    """Returns the hook calls for the spans of one run.

    Args:
        wanted: The names of the hooks that are called; others cost nothing.
        captures: The spans have content, which the hooks get redacted.
        redaction: Removes secrets from the content.
    """

    def __init__(self, wanted: Container[str], captures: bool, redaction: RedactionPolicy) -> None:
        self._wanted = wanted
        self._captures = captures
        self._redact = redaction.redact
        self._task: Task | None = None

    def calls(self, span: Span, task: Task | None) -> Iterator[HookCall]:
        """Yield the calls for a span that has begun or ended.

        Args:
            task: The task after the event; None if it is not known, or if content is not captured.
        """
        is_ended = bool(span.end_micros)
        hook = (_END_HOOKS if is_ended else _START_HOOKS)[span.kind]
        gets_span = is_ended and "on_span" in self._wanted
        if hook not in self._wanted and not gets_span:
            return
        shown = self._shown(span)
        if hook in self._wanted:
            yield hook, (self._ended if is_ended else self._started)(shown, task)
        if gets_span:
            yield "on_span", (shown,)

    def notes(self, payload: object, span: Span | None) -> Iterator[HookCall]:
        """Yield the call for an event that belongs to no span of its own."""
        if isinstance(payload, NOTED) and "on_llm_event" in self._wanted:
            yield "on_llm_event", ({"type": type_of(payload), **_ids(span), **note_of(payload)},)

    def _shown(self, span: Span) -> Span:
        """Return the span as the hooks may see it."""
        if not self._captures:
            return span
        return replace(
            span,
            input=self._redact(span.input),
            output=self._redact(span.output),
            message=str(self._redact(span.message)),
        )

    def _started(self, span: Span, task: Task | None) -> tuple[Any, ...]:
        match span.kind:
            case "run":
                self._task = self._shown_task(span, task, TaskState.WORKING)
                return (self._task, span.agent_name)
            case "llm":
                return (span.input or "", span.attributes["model"] or None, _facts(span))
            case "tool":
                return (span.name, span.input or {})
            case "agent_call":
                return (_event("agent_call_start", span, agent=span.name, payload=span.input),)
            case "approval":
                return (_event("approval_required", span, action=span.name),)
            case "step":
                return (_event("step_start", span, step=span.name),)

    def _ended(self, span: Span, task: Task | None) -> tuple[Any, ...]:
        error = ": ".join(filter(None, (span.error, span.message))) or None
        match span.kind:
            case "run":
                result = self._shown_task(span, task, TaskState(span.attributes["state"]))
                return (self._task or result, result, span.agent_name)
            case "llm" if error is not None:
                failure = {"code": span.error, "message": span.message}
                return (Part("error", failure, _facts(span)),)
            case "llm":
                return (Part("infer_output", (span.output or {}).get("text", ""), _facts(span)),)
            case "tool":
                return (span.name, span.output, error)
            case "agent_call":
                kind = "agent_call_result" if error is None else "agent_call_error"
                return (_event(kind, span, agent=span.name, result=span.output, message=error),)
            case "approval":
                return (_event("approval_decided", span, action=span.name),)
            case "step":
                return (_event("step_end", span, step=span.name, result=span.output, message=error),)

    def _shown_task(self, span: Span, task: Task | None, state: TaskState) -> Task:
        """Return the task as the hooks may see it. Its context has the id of the trace."""
        if task is None or not self._captures:
            failure = Failure(span.error) if state in (TaskState.FAILED, TaskState.REJECTED) else None
            created_at = iso_from_micros(span.start_micros)
            task = Task(span.task_id, state, created_at=created_at, failure=failure)
            context = RunContext(span.run_id, trace_id=span.trace_id, created_at=created_at)
        else:
            context = task.context or RunContext(span.run_id)
            task = Task.from_dict(self._redact(task.to_dict()))
            context = RunContext.from_dict(self._redact(context.to_dict()))
        task.context = replace(context, trace_id=context.trace_id or span.trace_id)
        return task


def _ids(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {}
    names = ("task_id", "run_id", "agent_name", "trace_id", "span_id")
    return {name: getattr(span, name) for name in names}


def _facts(span: Span) -> dict[str, Any]:
    return _ids(span) | span.attributes | ({"duration_micros": span.duration_micros} if span.end_micros else {})


def _event(kind: str, span: Span, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **_facts(span), **{name: value for name, value in fields.items() if value is not None}}
