"""From spans to the hooks of a telemetry, with the content that it may get."""

from collections.abc import Iterator
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


class RunHooks:
    """Returns the hook calls for the spans of one run.

    Args:
        captures: The hooks get content.
        redaction: Removes secrets from the content.
    """

    def __init__(self, captures: bool, redaction: RedactionPolicy) -> None:
        self._captures = captures
        self._redact = redaction.redact
        self._task: Task | None = None

    def calls(self, span: Span, task: Task | None) -> Iterator[HookCall]:
        """Yield the calls for a span that has begun or ended.

        Args:
            task: The task after the event; None if it is not known, or if content is not captured.
        """
        shown = self._shown(span)
        if not span.end_micros:
            yield self._started(shown, task)
            return
        yield self._ended(shown, task)
        yield "on_span", (shown,)

    def notes(self, payload: object, span: Span | None) -> Iterator[HookCall]:
        """Yield the call for an event that belongs to no span of its own."""
        if isinstance(payload, NOTED):
            yield "on_llm_event", ({"type": type_of(payload), **_ids(span), **note_of(payload)},)

    def _shown(self, span: Span) -> Span:
        """Return the span as the hooks may see it."""
        if not self._captures:
            return span.without_content()
        return replace(
            span,
            input=self._redact(span.input),
            output=self._redact(span.output),
            message=str(self._redact(span.message)),
        )

    def _started(self, span: Span, task: Task | None) -> HookCall:
        match span.kind:
            case "run":
                self._task = self._shown_task(span, task, TaskState.WORKING)
                return "on_task_start", (self._task, span.agent_name)
            case "llm":
                return "on_llm_start", (span.input or "", span.attributes["model"] or None, _facts(span))
            case "tool":
                return "on_tool_start", (span.name, span.input or {})
            case "agent_call":
                return "on_llm_event", (_event("agent_call_start", span, agent=span.name, payload=span.input),)
            case "approval":
                return "on_llm_event", (_event("approval_required", span, action=span.name),)

    def _ended(self, span: Span, task: Task | None) -> HookCall:
        error = ": ".join(filter(None, (span.error, span.message))) or None
        match span.kind:
            case "run":
                result = self._shown_task(span, task, TaskState(span.attributes["state"]))
                return "on_task_end", (self._task or result, result, span.agent_name)
            case "llm" if error is not None:
                failure = {"code": span.error, "message": span.message}
                return "on_llm_end", (Part("error", failure, _facts(span)),)
            case "llm":
                return "on_llm_end", (Part("infer_output", (span.output or {}).get("text", ""), _facts(span)),)
            case "tool":
                return "on_tool_end", (span.name, span.output, error)
            case "agent_call":
                kind = "agent_call_result" if error is None else "agent_call_error"
                return "on_llm_event", (_event(kind, span, agent=span.name, result=span.output, message=error),)
            case "approval":
                return "on_llm_event", (_event("approval_decided", span, action=span.name),)

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
