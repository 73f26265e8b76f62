"""One line for people about each kind of event, used where its writer gives none. Nothing here is read by programs."""

from collections.abc import Callable
from typing import Any

from protolink_grpc.models import events as ev
from protolink_grpc.models.lifecycle import TERMINAL, TaskState

MAX_SUMMARY = 140
"""Characters of a summary; a longer one ends with an ellipsis."""


def summary_of(payload: ev.Payload | ev.TextDelta | dict[str, Any] | None) -> str:
    """Summarise a payload in one line of at most `MAX_SUMMARY` characters; empty for kinds of an application."""
    write = _WRITERS.get(payload.__class__)
    return "" if write is None else _on_one_line(write(payload))


def _on_one_line(text: str) -> str:
    if len(text) > MAX_SUMMARY or not text.isprintable():
        # Lone surrogates have no bytes: the payload is refused for them, not its summary.
        text = " ".join(text[: 4 * MAX_SUMMARY].encode(errors="replace").decode().split())
    return text if len(text) <= MAX_SUMMARY else f"{text[: MAX_SUMMARY - 1]}…"


_STATES = {
    state: f"Task finished with state {state}" if state in TERMINAL else f"Task state changed to {state}"
    for state in TaskState
}


def _status(status: ev.TaskStatusChanged) -> str:
    text = _STATES.get(status.new_state) or f"Task state changed to {status.new_state}"
    return f"{text}: {status.reason}" if status.reason else text


def _because(text: str) -> str:
    return f": {text}" if text else ""


def _messages(added: ev.TaskMessagesAdded) -> str:
    return "Message added" if len(added.messages) == 1 else f"{len(added.messages)} messages added"


def _artifact(update: ev.TaskArtifactUpdated) -> str:
    artifact = update.artifact
    return f"Artifact {'extended' if update.append else 'produced'}: {artifact.name or artifact.id}"


def _patched(patch: ev.TaskPatched) -> str:
    return f"Task metadata changed: {', '.join([*patch.metadata, *patch.flow_state])}"


def _progress(progress: ev.TaskProgress) -> str:
    unknown = progress.progress is None
    return progress.message or ("Task progress" if unknown else f"Task progress {progress.progress:g}%")


def _ended(ended: ev.ActionEnded) -> str:
    error = ended.error
    why = error.get("message") if isinstance(error, dict) else error
    return f"Action {ended.outcome}: {ended.name}{f': {why}' if why else ''}"


def _call_completed(call: ev.LlmCallCompleted) -> str:
    return f"LLM call completed{f': {call.model}' if call.model else ''} in {call.duration_micros / 1000:g} ms"


def _step(step: ev.LlmStep) -> str:
    if step.kind == "llm_hook":
        return f"{step.kind}: {_hook(step.data, step.content)}"
    return f"{step.kind}: {step.content}" if step.content else step.kind


def _hook(data: dict[str, Any], content: str) -> str:
    """Return what a hook has decided."""
    match data:
        case {"hook": "before_model", "changed": list() as changed}:
            return f"before_model changed {', '.join(map(str, changed)) or 'nothing'}"
        case {"hook": "after_tool", "tool": tool}:
            return f"after_tool replaced the result of {tool}"
        case {"hook": "before_complete", "accepted": True}:
            return "before_complete accepted the answer"
        case {"hook": "before_complete"}:
            return f"before_complete rejected the answer: {content}"
        case _:
            return content


_WRITERS: dict[type, Callable[[Any], str]] = {
    ev.TaskSubmitted: lambda _submitted: "Task submitted",
    ev.TaskStatusChanged: _status,
    ev.TaskMessagesAdded: _messages,
    ev.TaskArtifactUpdated: _artifact,
    ev.TaskPatched: _patched,
    ev.TaskProgress: _progress,
    ev.TaskErrorReported: lambda error: error.error_message or "Task failed",
    ev.CancelRequested: lambda asked: f"Cancel requested{f': {asked.reason}' if asked.reason else ''}",
    ev.ActionRequested: lambda requested: f"Action requested: {requested.action.name}",
    ev.ActionPolicyEvaluated: lambda policy: f"Policy decision: {policy.decision.effect}",
    ev.ApprovalRequired: lambda required: f"Approval required: {required.request.action.name}",
    ev.ApprovalDecided: lambda decided: f"Approval {'granted' if decided.decision.approved else 'denied'}",
    ev.ActionStarted: lambda started: f"Action started: {started.name}",
    ev.ActionEnded: _ended,
    ev.ContextPrepared: lambda found: f"Context prepared: {found.manifest.total_estimated_tokens} estimated tokens",
    ev.LlmCallStarted: lambda call: f"LLM call started{f': {call.model}' if call.model else ''}",
    ev.LlmCallCompleted: _call_completed,
    ev.LlmCallFailed: lambda call: f"LLM call failed{f': {call.model}' if call.model else ''}: {call.failure.message}",
    ev.ContextCompacted: lambda done: (
        f"Context compacted: {done.before_tokens} to {done.after_tokens} estimated tokens"
    ),
    ev.BudgetReported: lambda budget: budget.decision.message,
    ev.TaskDescribed: lambda described: f"Task described{_because(described.description.title)}",
    ev.TaskInputReplaced: lambda _replaced: "Input replaced",
    ev.TaskStartRequested: lambda start: (
        "Start requested for work outside of the agent" if start.external else "Start requested"
    ),
    ev.TaskPauseRequested: lambda pause: f"Pause requested{_because(pause.reason)}",
    ev.TaskPaused: lambda _paused: "Task paused",
    ev.TaskResumed: lambda resumed: f"Task resumed{_because(resumed.reason)}",
    ev.TaskRetried: lambda retried: f"Retry {retried.retry} requested{_because(retried.reason)}",
    ev.TaskLinked: lambda linked: f"Link added: {linked.link.kind} {linked.link.target}",
    ev.TaskUnlinked: lambda unlinked: f"Link removed: {unlinked.link.kind} {unlinked.link.target}",
    ev.TaskQueued: lambda queued: queued.reason.capitalize(),
    ev.PeerTaskLinked: lambda peer: f"Delegated to {peer.agent_name or peer.url or 'a peer'} as {peer.task_id}",
    ev.LlmStep: _step,
}
