"""Spans: timed parts of runs, computed from the events of a log.

A run is a span. The model calls, actions and flow steps of the run are its children, and the approval of an action is a child of
the action. An action of a flow step is a child of the step.
The ids follow from the ids in the log (`net.trace_context`), so each reader of a log computes the same spans.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from protolink_grpc.models.action import ApprovalRequest
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import (
    ActionEnded,
    ActionRequested,
    ActionStarted,
    ApprovalDecided,
    ApprovalRequired,
    BudgetReported,
    ContextCompacted,
    ContextPrepared,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    RunEvent,
    TaskErrorReported,
    TaskMessagesAdded,
    TaskStatusChanged,
    TaskSubmitted,
    type_of,
)
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.references import References
from protolink_grpc.net.trace_context import TraceContext, span_id_of, trace_of
from protolink_grpc.runtime.actions.gate import AGENT_CALL, FLOW_STEP

SpanKind = Literal["run", "llm", "tool", "agent_call", "approval", "step"]

STEP_EVENTS = "workflow.node."
"""Prefix of the types of events of a flow's steps; their payload has the `path` of the step."""

_STEP_POSITION = "flow:"
"""Prefix of the positions of a flow's actions, followed by the path of the step. Source: `flows.record`."""

MAX_EVENTS = 128
"""Maximum number of events of a span; later ones are omitted. Source: the default limit of OpenTelemetry's SDKs."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """A point in time within a span. `name` is the type of an event of the log."""

    name: str
    micros: int
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Span:
    """A timed part of a run.

    Args:
        name: The name of the agent, model, tool or called agent.
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        parent_id: 16 hex digits; empty for the first span of a trace.
        start_micros, end_micros: Microseconds since the epoch, UTC. `end_micros` is 0 while the span is open.
        error: Why it did not succeed: a reason such as TOOL_FAILED, or an outcome such as denied. Empty if it succeeded.
        message: The sentence of the error. Part of the content.
        attributes: Facts without content: model, tokens, state, outcome and others.
        input, output: Content: arguments and result of an action, text of a model call.
        is_sampled: False if the caller does not record its trace.
        trace_state: The caller's `tracestate`.
    """

    kind: SpanKind
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    task_id: str
    run_id: str
    agent_name: str
    start_micros: int
    end_micros: int = 0
    error: str = ""
    message: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    input: Any = None
    output: Any = None
    is_sampled: bool = True
    trace_state: str = ""

    @property
    def duration_micros(self) -> int:
        return max(0, self.end_micros - self.start_micros)

    def without_content(self) -> "Span":
        """Return a copy without input, output and message."""
        return replace(self, message="", input=None, output=None)


class SpanReader:
    """Computes the spans of one task from its events, in their order.

    Args:
        keeps_content: Spans have input, output and message.
        session_id, context: Those of the task if the reader does not begin with the first event of the log.
    """

    def __init__(
        self,
        task_id: str,
        agent_name: str,
        session_id: str = "",
        context: RunContext | None = None,
        *,
        keeps_content: bool = True,
    ) -> None:
        self.task_id = task_id
        self.agent_name = agent_name
        self._session_id = session_id
        self._keeps_content = keeps_content
        self._context = context
        self._trace: TraceContext | None = None
        self._run: Span | None = None
        self._open: dict[str, Span] = {}
        self._last_text = ""
        self._last_micros = 0

    @property
    def run(self) -> Span | None:
        """The current run."""
        return self._run

    def read(self, payload: object, run_id: str, micros: int, action_id: str = "") -> Iterator[Span]:
        """Apply the next event, and yield the spans that it begins and ends. The iterator must be exhausted.

        A span is yielded when it begins and once more when it has ended, inner ones first. It is the same object.

        Args:
            payload: The payload of the event; the event itself if `is_step`.
        """
        if self._run is not None and run_id and run_id != self._run.run_id:
            yield from self._leave_run("lost", self._last_micros)  # its process died: the log has no end of it
        self._last_micros = micros
        match payload:
            case TaskSubmitted():
                self._context = payload.context
                self._session_id = payload.session_id or self.task_id
                self._note_text(payload.task.messages)
                yield self._begin_run(run_id, micros, "submitted")
            case TaskMessagesAdded():
                self._note_text(payload.messages)
            case TaskStatusChanged():
                yield from self._change_state(payload, run_id, micros)
            case LlmCallStarted() | LlmCallCompleted() | LlmCallFailed():
                yield from self._read_llm(payload, run_id, micros)
            case ActionRequested() | ActionStarted() | ActionEnded() | ApprovalRequired() | ApprovalDecided():
                yield from self._read_action(payload, run_id, micros, action_id)
            case RunEvent(type=kind, payload=dict(fields)):
                yield from self._read_step(kind.removeprefix(STEP_EVENTS), str(fields.get("path", "")), run_id, micros)
            case _:
                self._note(payload, micros)

    def add_pending(self, request: ApprovalRequest, run_id: str, micros: int) -> None:
        """Note an approval that was requested, at `micros`, before the first event that the reader gets."""
        action = request.action
        self._begin_action(action.action_id, action.kind, action.name, run_id, micros)
        self._begin_approval(request.request_id, action.action_id, action.name, run_id, micros)

    def end(self, micros: int) -> Iterator[Span]:
        """End the run and its model calls, although the log has no end of them: another process may continue the task."""
        yield from self._leave_run("interrupted", micros)

    # -- runs ------------------------------------------------------------------------------------------------------------

    def _begin_run(self, run_id: str, micros: int, cause: str) -> Span:
        self._trace = trace_of(self._context, self.task_id)
        span = self._new("run", self.agent_name, span_id_of(self.task_id, run_id), run_id, micros, self._trace.span_id)
        span.attributes = {"cause": cause, "session_id": self._session_id}
        self._run = span
        return span

    def _change_state(self, change: TaskStatusChanged, run_id: str, micros: int) -> Iterator[Span]:
        state = change.new_state
        if change.attempt:
            if change.context is not None:
                self._context = change.context
            if self._run is None:
                yield self._begin_run(run_id, micros, change.cause)
            run = self._run
            if run is not None:
                run.attributes |= {"attempt": change.attempt, "cause": change.cause or run.attributes["cause"]}
                run.events.append(SpanEvent("run.started", micros))
        if state in TERMINAL or state in INTERRUPTED:
            if self._run is None:
                yield self._begin_run(run_id, micros, "unknown")
            failure = change.failure
            error = "" if failure is None else failure.reason or str(state)
            if state is TaskState.CANCELED:
                error = "canceled"
            if (run := self._run) is not None:
                run.message = self._content(change.reason)
                run.attributes |= _usage_of(change)
            yield from self._end_run(micros, error, str(state))

    def _leave_run(self, error: str, micros: int) -> Iterator[Span]:
        """End the run without an end in the log. Its actions stay open, because the next run continues them."""
        actions = {key: span for key, span in self._open.items() if span.kind not in ("llm", "step")}
        for key in actions:
            del self._open[key]
        yield from self._end_run(micros, error, "working")
        self._open = actions

    def _end_run(self, micros: int, error: str, state: str) -> Iterator[Span]:
        run, self._run = self._run, None
        if run is None:
            return
        for span in reversed(list(self._open.values())):
            span.error = span.error or error
            yield self._ended(span, micros)
        run.attributes["state"] = state
        run.error = error
        run.end_micros = micros
        yield run

    # -- model calls -----------------------------------------------------------------------------------------------------

    def _read_llm(
        self, payload: LlmCallStarted | LlmCallCompleted | LlmCallFailed, run_id: str, micros: int
    ) -> Iterator[Span]:
        key = f"llm {payload.call_id}"
        if isinstance(payload, LlmCallStarted):
            yield self._begin_llm(key, payload, run_id, micros, payload.attempt)
            return
        if key not in self._open:
            attempt = payload.attempt if isinstance(payload, LlmCallFailed) else 1
            yield self._begin_llm(key, payload, run_id, micros - payload.duration_micros, attempt)
        span = self._open[key]
        # Its start and its end may have been committed together.
        span.start_micros = min(span.start_micros, micros - payload.duration_micros)
        if isinstance(payload, LlmCallFailed):
            span.error, span.message = payload.failure.reason or "MODEL_FAILED", self._content(payload.failure.message)
            span.attributes["will_retry"] = payload.will_retry
        else:
            if self._keeps_content:
                span.output = {"text": payload.text, "tool_calls": [each.to_dict() for each in payload.tool_calls]}
            span.attributes |= _call_facts(payload)
        yield self._ended(span, micros)

    def _begin_llm(
        self,
        key: str,
        payload: LlmCallStarted | LlmCallCompleted | LlmCallFailed,
        run_id: str,
        micros: int,
        attempt: int,
    ) -> Span:
        span_id = span_id_of(run_id, payload.call_id, str(attempt))
        span = self._open[key] = self._new("llm", payload.model or payload.provider, span_id, run_id, micros)
        span.attributes = {
            "provider": payload.provider,
            "model": payload.model,
            "step": payload.step,
            "attempt": attempt,
            "call_id": payload.call_id,
        }
        span.input = self._last_text
        return span

    # -- actions ---------------------------------------------------------------------------------------------------------

    def _read_action(
        self,
        payload: ActionRequested | ActionStarted | ActionEnded | ApprovalRequired | ApprovalDecided,
        run_id: str,
        micros: int,
        action_id: str,
    ) -> Iterator[Span]:
        match payload:
            case ActionRequested(action=action):
                span = self._begin_action(action.action_id, action.kind, action.name, run_id, micros)
                step = payload.position.removeprefix(_STEP_POSITION).partition("?")[0]
                if step != payload.position and (around := self._open.get(f"step {step}")) is not None:
                    span.parent_id = around.span_id
                if self._keeps_content:
                    span.input = action.payload.get("arguments", action.payload)
                span.attributes["call_id"] = action.call_id
                yield span
            case ActionStarted():
                if f"action {action_id}" not in self._open:  # requested by an earlier run
                    yield self._begin_action(action_id, payload.kind, payload.name, run_id, micros)
                span = self._open[f"action {action_id}"]
                if self._keeps_content and payload.arguments is not None:
                    span.input = payload.arguments
                span.events.append(SpanEvent("action.started", micros))
            case ActionEnded():
                if f"action {action_id}" not in self._open:
                    started = micros - payload.duration_micros
                    yield self._begin_action(action_id, payload.kind, payload.name, run_id, started)
                span = self._open[f"action {action_id}"]
                if self._keeps_content:
                    span.output = payload.result
                span.attributes |= {"outcome": payload.outcome, "execution_micros": payload.duration_micros}
                if payload.outcome != "completed":
                    failure = payload.failure or Failure()
                    span.error, span.message = failure.reason or payload.outcome, self._content(failure.message)
                yield self._ended(span, micros)
            case ApprovalRequired(request=request):
                name = request.action.name
                if (asking := self._open.get(f"action {action_id}")) is not None:
                    name = asking.name
                yield self._begin_approval(request.request_id, action_id, name, run_id, micros)
            case ApprovalDecided(decision=decision):
                if f"approval {decision.request_id}" not in self._open:
                    yield self._begin_approval(decision.request_id, action_id, "", run_id, micros)
                waiting = self._open[f"approval {decision.request_id}"]
                waiting.attributes["decision"] = str(decision.state)
                yield self._ended(waiting, micros)

    def _begin_action(self, action_id: str, kind: str, name: str, run_id: str, micros: int) -> Span:
        span_kind: SpanKind = _KINDS_OF_ACTIONS.get(kind, "tool")
        span = self._new(span_kind, name, span_id_of(action_id), run_id, micros)
        span.attributes = {"action_id": action_id, "action_kind": kind}
        self._open[f"action {action_id}"] = span
        return span

    def _begin_approval(self, request_id: str, action_id: str, name: str, run_id: str, micros: int) -> Span:
        span = self._new("approval", name, span_id_of(request_id), run_id, micros, span_id_of(action_id))
        span.attributes = {"request_id": request_id, "action_id": action_id}
        self._open[f"approval {request_id}"] = span
        return span

    # -- steps of flows ---------------------------------------------------------------------------------------------------

    def _read_step(self, event: str, path: str, run_id: str, micros: int) -> Iterator[Span]:
        key = f"step {path}"
        if key not in self._open:
            # A step that began in an earlier run is continued by this one.
            began = micros if event == "started" or self._run is None else self._run.start_micros
            around, _, name = path.rpartition("/")
            outer = self._open.get(f"step {around}")
            parent_id = None if outer is None else outer.span_id
            self._open[key] = self._new("step", name, span_id_of(self.task_id, run_id, path), run_id, began, parent_id)
            self._open[key].attributes = {"path": path}
            yield self._open[key]
        if event != "started":
            span = self._open[key]
            span.attributes["outcome"] = event
            span.error = "" if event == "completed" else event
            yield self._ended(span, micros)

    # -- common ----------------------------------------------------------------------------------------------------------

    def _new(  # noqa: PLR0917 -- the fields of a span
        self, kind: SpanKind, name: str, span_id: str, run_id: str, micros: int, parent_id: str | None = None
    ) -> Span:
        trace = self._trace
        if trace is None:
            trace = self._trace = trace_of(self._context, self.task_id)
        if parent_id is None:
            run = self._run
            parent_id = run.span_id if run is not None and run.run_id == run_id else span_id_of(self.task_id, run_id)
        return Span(
            kind,
            name,
            trace.trace_id,
            span_id,
            parent_id,
            self.task_id,
            run_id,
            self.agent_name,
            micros,
            is_sampled=trace.is_sampled,
            trace_state=trace.state,
        )

    def _content(self, text: str) -> str:
        return text if self._keeps_content else ""

    def _ended(self, span: Span, micros: int) -> Span:
        span.end_micros = max(micros, span.start_micros)
        for key, each in self._open.items():
            if each is span:
                del self._open[key]
                break
        return span

    def _note(self, payload: object, micros: int) -> None:
        """Add a point in time to the span of the run."""
        run = self._run
        if run is not None and isinstance(payload, NOTED) and len(run.events) < MAX_EVENTS:
            run.events.append(SpanEvent(type_of(payload), micros, note_of(payload)))

    def _note_text(self, messages: Any) -> None:
        if not self._keeps_content:
            return
        texts = [part.content for message in messages[-1:] for part in message.parts if part.type in ("text", "infer")]
        if texts:
            last = texts[-1]
            self._last_text = last if isinstance(last, str) else str((last or {}).get("prompt") or "")


_KINDS_OF_ACTIONS: dict[str, SpanKind] = {AGENT_CALL: "agent_call", FLOW_STEP: "step"}


def is_step(event: RunEvent) -> bool:
    """Whether an event is about a step of a flow. `SpanReader.read` gets such an event instead of its payload."""
    return event.payload.__class__ is dict and event.type.startswith(STEP_EVENTS)


def spans_of(events: Iterable[RunEvent]) -> list[Span]:
    """Return the spans of the log of a task, in the order in which they ended.

    The spans of a task that is still working end with its last event.

    Args:
        events: All events of the log, oldest first.
    """
    found: list[Span] = []
    reader, references, micros = SpanReader("", ""), References(), 0
    for event in events:
        if event.task_id != reader.task_id:
            reader = SpanReader(event.task_id, event.agent_name, event.session_id)
        whole, micros = references.whole(event), micros_from_iso(event.timestamp)
        payload = whole if is_step(whole) else whole.payload
        read = reader.read(payload, whole.run_id, micros, whole.action_id)
        found.extend(span for span in read if span.end_micros)
    return [*found, *reader.end(micros)]


NOTED = (BudgetReported, ContextCompacted, ContextPrepared, TaskErrorReported)
"""Payloads that are events of the run's span."""


def note_of(payload: object) -> dict[str, Any]:
    """Return the facts of a noted payload, without content."""
    match payload:
        case BudgetReported(decision=decision):
            return {"limit": decision.limit_name}
        case ContextCompacted():
            return {"before_tokens": payload.before_tokens, "after_tokens": payload.after_tokens}
        case ContextPrepared(manifest=manifest):
            return {"step": payload.step, "estimated_tokens": manifest.total_estimated_tokens}
        case TaskErrorReported():
            return {"reason": payload.failure.reason, "effect": payload.effect}
    return {}


def _usage_of(change: TaskStatusChanged) -> dict[str, Any]:
    usage = change.usage
    if usage is None:
        return {}
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "llm_calls": usage.llm_calls,
        "tool_calls": usage.tool_calls,
    }


def _call_facts(payload: LlmCallCompleted) -> dict[str, Any]:
    cost = payload.cost
    facts = {
        "input_tokens": payload.input_tokens,
        "output_tokens": payload.output_tokens,
        "cached_input_tokens": payload.cached_input_tokens,
        "reasoning_tokens": payload.reasoning_tokens,
        "finish_reason": payload.finish_reason or None,
        "response_model": payload.response_model or None,
        "cost_micros": None if cost is None else payload.cost_micros,
        "currency": None if cost is None else payload.currency,
    }
    return {name: value for name, value in facts.items() if value is not None}
