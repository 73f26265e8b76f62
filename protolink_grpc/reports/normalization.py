"""Normalises events for comparisons: removes or renames the values that differ in every run (ids, times, durations, ports).

Two runs that did the same have equal normalised events. `reports.diff` compares them.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from protolink_grpc.models import events as ev
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.report_diff import RunReportSection

Fact = tuple[RunReportSection, str, dict[str, Any]]
"""One statement of an event: its section, its subject (for instance `add #2`, the second action named add), and its values."""


@dataclass(frozen=True, slots=True)
class NormalizedEvent:
    """An event and its facts, which are compared instead of the event."""

    event: RunEvent
    facts: tuple[Fact, ...]

    def matches(self, other: "NormalizedEvent") -> bool:
        return self.event.type == other.event.type and self.facts == other.facts


class EventNormalizer:
    """Normalises the events of one run, oldest first, at a cost that grows with their size only.

    Ids are renamed in the order of their first appearance: `id-1`, `id-2`. This applies to the ids of events and, anywhere in a
    text, to UUIDs and to ports of the loopback address. All other values of users are unchanged.

    Args:
        ignore: Facts of these sections are left out.
    """

    def __init__(self, ignore: Collection[RunReportSection] = ()) -> None:
        self._ignored = frozenset(ignore)
        self._names: dict[str, str] = {}
        self._labels: dict[tuple[str, str], str] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def normalize(self, event: RunEvent) -> NormalizedEvent | None:
        """Return the next event; None if each of its facts is ignored, or if it is a text delta or a wait for a slot."""
        if isinstance(event.payload, ev.TextDelta | ev.TaskQueued):
            return None  # they depend on readers and on the load of the agent
        read = _READERS.get(type(event.payload), EventNormalizer._read_other)
        found = list(read(self, event, event.payload))
        facts = tuple(
            # Renaming comes first: the number of an id must not depend on what is ignored.
            (section, subject, renamed)
            for section, subject, renamed in [
                (section, subject, self._rename(value)) for section, subject, value in found
            ]
            if section not in self._ignored
        )
        return NormalizedEvent(event, facts) if facts else None

    # -- Values --------------------------------------------------------------------------------------------------------

    def _rename(self, value: Any, key: str = "", *, own: bool = True) -> Any:
        """Copy a JSON value with renamed ids and without times. `own` is False within values of users."""
        if isinstance(value, str):
            is_id = _is_id(key) if own else key == "id" and _DIGEST.fullmatch(value) is not None
            return self._rename_id(key, value) if is_id else self._rename_text(value)
        if isinstance(value, dict):
            return {
                self._rename_text(name): self._rename(item, name, own=own and name not in _CONTENT)
                for name, item in value.items()
                if not _is_volatile(name, item, own=own)
            }
        if isinstance(value, list):
            return [self._rename(item, key, own=own) for item in value]
        return value

    def _rename_id(self, key: str, value: str) -> str:
        if not value:
            return value
        pattern = _GENERATED_OR_DIGEST
        if key == "position" or pattern.search(value):
            return pattern.sub(self._name_of_match, value)
        return self._name_of(value)

    def _rename_text(self, text: str) -> str:
        return text if len(text) < _SHORTEST else _GENERATED.sub(self._name_of_match, text)

    def _name_of_match(self, match: re.Match[str]) -> str:
        return self._name_of(match.group().lower())

    def _name_of(self, value: str) -> str:
        return self._names.setdefault(value, f"id-{len(self._names) + 1}")

    def _label(self, kind: str, value: str, name: str) -> str:
        """Return the label of a subject: its name and, counted from 1, which one of that name it is."""
        found = self._labels.get((kind, value))
        if found is None:
            name = self._rename_text(name)
            self._counts[kind, name] += 1
            found = self._labels[kind, value] = f"{name} #{self._counts[kind, name]}"
        return found

    def _numbered(self, name: str) -> str:
        self._counts["", name] += 1
        return f"{name} #{self._counts['', name]}"

    # -- Kinds of events -----------------------------------------------------------------------------------------------

    def _read_submitted(self, event: RunEvent, submitted: ev.TaskSubmitted) -> Iterator[Fact]:
        task = submitted.to_dict()["task"]
        yield "input", "task", {key: task[key] for key in ("artifacts", "metadata", "flow_state")}
        yield from self._read_message_list("input", task["messages"])

    def _read_messages(self, event: RunEvent, added: ev.TaskMessagesAdded) -> Iterator[Fact]:
        for message in added.messages:
            section: RunReportSection = "input" if message.role == "user" else "output"
            yield from self._read_message_list(section, [message.to_dict()])

    def _read_message_list(self, section: RunReportSection, messages: list[dict[str, Any]]) -> Iterator[Fact]:
        for message in messages:
            yield section, self._numbered(f"{message['role']} message"), message

    def _read_artifact(self, event: RunEvent, update: ev.TaskArtifactUpdated) -> Iterator[Fact]:
        label = self._label("artifact", update.artifact.id, update.artifact.name or "artifact")
        subject = self._numbered(f"{label} chunk") if update.append else label
        yield "output", subject, update.artifact.to_dict() | {"append": update.append}

    def _read_patched(self, event: RunEvent, patched: ev.TaskPatched) -> Iterator[Fact]:
        yield "output", "task", patched.to_dict()

    def _read_status(self, event: RunEvent, status: ev.TaskStatusChanged) -> Iterator[Fact]:
        found = status.to_dict()
        usage, context = found.pop("usage"), found.pop("context")
        found["state"] = found.pop("new_state")
        found.pop("previous_state")
        yield "state", "task", found
        if context is not None:
            yield "input", "context", context
        if usage is not None:
            yield "usage", "total", usage

    def _read_error(self, event: RunEvent, error: ev.TaskErrorReported) -> Iterator[Fact]:
        yield "state", self._numbered("error"), error.to_dict()

    def _read_cancel(self, event: RunEvent, request: ev.CancelRequested) -> Iterator[Fact]:
        yield "state", "cancel request", request.to_dict()

    def _action(self, event: RunEvent, name: str, action_id: str = "") -> str:
        return self._label("action", event.action_id or action_id, name)

    def _read_requested(self, event: RunEvent, requested: ev.ActionRequested) -> Iterator[Fact]:
        found, action = requested.to_dict()["action"], requested.action
        subject = self._action(event, action.name, action.action_id)
        arguments = found.pop("payload")
        yield "actions", subject, found | {"position": requested.position}
        yield "arguments", subject, _arguments(arguments.get("arguments", arguments))

    def _read_policy(self, event: RunEvent, evaluated: ev.ActionPolicyEvaluated) -> Iterator[Fact]:
        yield "policy", self._action(event, ev.UNKNOWN_ACTION), evaluated.decision.to_dict()

    def _read_approval(self, event: RunEvent, required: ev.ApprovalRequired) -> Iterator[Fact]:
        request = required.request.to_dict()
        action = request.pop("action")
        subject = self._action(event, action["name"], action["action_id"])
        self._labels["action", required.request.request_id] = subject  # for a decision without an action id
        yield "approvals", subject, {"request": request}

    def _read_decided(self, event: RunEvent, decided: ev.ApprovalDecided) -> Iterator[Fact]:
        subject = self._action(event, ev.UNKNOWN_ACTION, decided.decision.request_id)
        yield "approvals", subject, {"decision": decided.decision.to_dict()}

    def _read_started(self, event: RunEvent, started: ev.ActionStarted) -> Iterator[Fact]:
        subject = self._action(event, started.name)
        yield "actions", subject, {"kind": started.kind, "name": started.name, "started": True}
        if started.arguments is not None:
            yield "arguments", subject, _arguments(started.to_dict()["arguments"])

    def _read_ended(self, event: RunEvent, ended: ev.ActionEnded) -> Iterator[Fact]:
        found, subject = ended.to_dict(), self._action(event, ended.name)
        yield "actions", subject, {key: found[key] for key in ("kind", "name", "outcome")}
        yield "results", subject, {key: found[key] for key in ("result", "error")}
        if found["usage"] is not None:
            yield "usage", subject, found["usage"]

    def _call(self, call_id: str) -> str:
        return self._label("call", call_id, "model call")

    def _read_prepared(self, event: RunEvent, prepared: ev.ContextPrepared) -> Iterator[Fact]:
        found = prepared.to_dict()
        for each in found.get("omitted", {}).get("items", ()):
            each["id"] = each.pop("ref")  # under this key it is renamed: providers choose the ids of tool calls
        yield "prompts", self._numbered("prompt"), found

    def _read_call_started(self, event: RunEvent, started: ev.LlmCallStarted) -> Iterator[Fact]:
        yield "model_calls", self._call(started.call_id), started.to_dict()

    def _read_call_completed(self, event: RunEvent, call: ev.LlmCallCompleted) -> Iterator[Fact]:
        found, subject = call.to_dict(), self._call(call.call_id)
        text, tools = found.pop("text"), found.pop("tool_calls")
        usage = {key: found.pop(key) for key in _USAGE}
        found.pop("metrics")  # measurements of the provider
        found["tools"] = [each["tool_name"] for each in tools]
        yield "model_calls", subject, found
        yield "model_text", subject, {"text": text}
        if tools:
            yield "arguments", subject, {"arguments": [each["args"] for each in tools]}
        yield "usage", subject, usage

    def _read_call_failed(self, event: RunEvent, failed: ev.LlmCallFailed) -> Iterator[Fact]:
        yield "model_calls", f"{self._call(failed.call_id)} attempt {failed.attempt}", failed.to_dict()

    def _read_compacted(self, event: RunEvent, done: ev.ContextCompacted) -> Iterator[Fact]:
        found, subject = done.to_dict(), self._numbered("compaction")
        yield "model_text", subject, {"summary": found.pop("summary")}
        yield "prompts", subject, found

    def _read_budget(self, event: RunEvent, reported: ev.BudgetReported) -> Iterator[Fact]:
        found = reported.decision.to_dict()
        found.pop("message")  # repeats the numbers
        if str(found["limit_name"]).endswith("seconds"):
            found.pop("observed")
        yield "usage", self._numbered("budget"), found

    def _read_step(self, event: RunEvent, step: ev.LlmStep) -> Iterator[Fact]:
        found, subject = step.to_dict(), self._numbered(step.kind)
        yield "model_text", subject, {"content": found.pop("content")}
        yield "model_calls", subject, found

    def _read_progress(self, event: RunEvent, progress: ev.TaskProgress) -> Iterator[Fact]:
        yield "events", self._numbered(event.type), progress.to_dict()

    def _read_peer_task(self, event: RunEvent, linked: ev.PeerTaskLinked) -> Iterator[Fact]:
        yield "events", self._numbered(event.type), linked.to_dict()

    def _read_other(self, event: RunEvent, payload: Any) -> Iterator[Fact]:
        """Read an event of the application, or of an unknown kind. Other summaries repeat the payload and are not compared."""
        found = event.to_dict()
        yield "events", self._numbered(event.type), {"payload": found["payload"], "summary": event.summary}


def _arguments(value: Any) -> dict[str, Any]:
    return {"arguments": value}


_USAGE = (
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "reasoning_tokens",
    "cost_micros",
    "currency",
)

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?:~[0-9a-f]{32})?"
"""A UUID, which has a suffix for the owner if it is a session at another agent."""

_LOOPBACK = r"(?:127\.0\.0\.1|localhost|\[::1\]):\d+"
_GENERATED = re.compile(f"{_UUID}|{_LOOPBACK}")
_DIGEST = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{32})(?![0-9a-f])")
_GENERATED_OR_DIGEST = re.compile(f"{_GENERATED.pattern}|{_DIGEST.pattern}")
_SHORTEST = len("[::1]:1")

_CONTENT = frozenset(
    {
        "arguments",
        "content",
        "data",
        "details",
        "edited_arguments",
        "error",
        "flow_state",
        "metadata",
        "payload",
        "result",
    }
)
"""Keys of values that users write."""

_IDS = frozenset({"fingerprint", "id", "position"})
_TIMES = frozenset({"created_at", "timestamp"})
_DURATIONS = frozenset({"duration_micros", "runtime_seconds"})
_VOLATILE = _DURATIONS | {"retry_delay_s", "timestamp", "worker"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def _is_id(key: str) -> bool:
    return key in _IDS or key.endswith(("_id", "_ids"))


def _is_volatile(key: str, value: Any, *, own: bool) -> bool:
    if own:
        return key in _VOLATILE or key.endswith("_at")
    # A result of a step or of another agent contains messages with their times, and usage.
    if key in _DURATIONS:
        return isinstance(value, int | float)
    return key in _TIMES and isinstance(value, str) and _TIME.fullmatch(value) is not None


_READERS: dict[type, Callable[[EventNormalizer, RunEvent, Any], Iterator[Fact]]] = {
    ev.TaskSubmitted: EventNormalizer._read_submitted,
    ev.TaskStatusChanged: EventNormalizer._read_status,
    ev.TaskMessagesAdded: EventNormalizer._read_messages,
    ev.TaskArtifactUpdated: EventNormalizer._read_artifact,
    ev.TaskPatched: EventNormalizer._read_patched,
    ev.TaskProgress: EventNormalizer._read_progress,
    ev.TaskErrorReported: EventNormalizer._read_error,
    ev.CancelRequested: EventNormalizer._read_cancel,
    ev.ActionRequested: EventNormalizer._read_requested,
    ev.ActionPolicyEvaluated: EventNormalizer._read_policy,
    ev.ApprovalRequired: EventNormalizer._read_approval,
    ev.ApprovalDecided: EventNormalizer._read_decided,
    ev.ActionStarted: EventNormalizer._read_started,
    ev.ActionEnded: EventNormalizer._read_ended,
    ev.ContextPrepared: EventNormalizer._read_prepared,
    ev.LlmCallStarted: EventNormalizer._read_call_started,
    ev.LlmCallCompleted: EventNormalizer._read_call_completed,
    ev.LlmCallFailed: EventNormalizer._read_call_failed,
    ev.ContextCompacted: EventNormalizer._read_compacted,
    ev.BudgetReported: EventNormalizer._read_budget,
    ev.LlmStep: EventNormalizer._read_step,
    ev.PeerTaskLinked: EventNormalizer._read_peer_task,
}
