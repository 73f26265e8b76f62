"""Events from JSON: the inverse of `RunEvent.to_dict`, as far as JSON allows. The stream events of ProtoLink are read elsewhere."""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import events as ev
from protolink_grpc.models import reader
from protolink_grpc.models.action import (
    ApprovalDecision,
    ApprovalRequest,
    BudgetDecision,
    BudgetUsage,
    ContextManifest,
    PolicyDecision,
    RunAction,
)
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import COMPACTION_STRATEGIES
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import read_state
from protolink_grpc.models.message import Message
from protolink_grpc.models.open_enum import unrecognized_number
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.task import Task

Fields = dict[str, Any]


def event_from_dict(data: object) -> ev.RunEvent:
    """Read a JSON object. A payload that does not match its type stays a dict; an empty one is None.

    The identity of the event follows from its task and sequence; a session is read where the writer has added one.

    Raises:
        InvalidArgumentError: The envelope is invalid; names the field.
    """
    source = reader.as_object(data)
    kind = reader.required_text(source, "type")
    return ev.RunEvent(
        type=kind,
        payload=reader.nested(source, "payload", partial(_payload, kind)),
        task_id=reader.text(source, "task_id"),
        sequence=reader.optional_integer(source, "sequence") or None,
        run_id=reader.text(source, "run_id"),
        session_id=reader.text(source, "session_id"),
        agent_name=reader.text(source, "agent_name"),
        timestamp=reader.moment(source, "timestamp"),
        severity=severity_from(source),
        summary=reader.text(source, "summary"),
        final=reader.flag(source, "final"),
        action_id=reader.text(source, "action_id"),
        metadata=reader.mapping(source, "metadata") | _protolink_ids(source),
    )


def _protolink_ids(source: Fields) -> Fields:
    found = {name: reader.text(source, name) for name in ev.PROTOLINK_IDS}
    return {name: value for name, value in found.items() if value}


def severity_from(source: Fields) -> ev.Severity:
    found = reader.text(source, "severity", "info")
    for known in _SEVERITIES:
        if found == known:
            return known
    raise InvalidArgumentError(f"must be one of {', '.join(_SEVERITIES)}", field="severity")


_SEVERITIES: tuple[ev.Severity, ...] = ("info", "warning", "error")


def _payload(kind: str, value: object) -> ev.Payload | ev.TextDelta | Fields | None:
    if value is None or value == {}:
        return None
    original = reader.as_object(value)
    # ProtoLink and versions before 1.0 name the outcome of an action in the type only.
    source = {"outcome": ev.OUTCOME_TYPES[kind]} | original if kind in ev.OUTCOME_TYPES else original
    for payload_type, read in _FAMILIES.get(kind.partition(".")[0], ()):
        # Every field that the kind has: an application's own payload of that type loses nothing by being taken for ours.
        if _NAMES[payload_type] <= source.keys():
            with suppress(
                InvalidArgumentError
            ):  # a log may hold what JSON's readers are too strict for: it stays as it is
                found: ev.Payload | ev.TextDelta = read(source)
                return found
    copied: Fields = reader.copied(original, "")
    return copied


def _submitted(source: Fields) -> ev.TaskSubmitted:
    return ev.TaskSubmitted.of(
        reader.nested(source, "task", Task.from_dict),
        reader.text(source, "principal"),
        reader.text(source, "request_id"),
    )


def _status(source: Fields) -> ev.TaskStatusChanged:
    return ev.TaskStatusChanged(
        read_state(source.get("previous_state"), field="previous_state"),
        read_state(source.get("new_state"), field="new_state"),
        _optional(source, "failure", Failure.from_dict),
        reader.text(source, "cancel_reason"),
        reader.integer(source, "attempt"),
        reader.text(source, "cause"),
        _optional(source, "context", RunContext.from_dict),
        _optional(source, "usage", BudgetUsage.from_dict),
        _optional(source, "worker", ev.Worker.from_dict),
    )


def _messages(source: Fields) -> ev.TaskMessagesAdded:
    return ev.TaskMessagesAdded(
        tuple(reader.items(source, "messages", Message.from_dict)), reader.text(source, "request_id")
    )


def _artifact(source: Fields) -> ev.TaskArtifactUpdated:
    return ev.TaskArtifactUpdated(
        reader.nested(source, "artifact", Artifact.from_dict),
        reader.flag(source, "append"),
        reader.flag(source, "last_chunk"),
    )


def _patched(source: Fields) -> ev.TaskPatched:
    return ev.TaskPatched(reader.mapping(source, "metadata"), reader.mapping(source, "flow_state"))


def _progress(source: Fields) -> ev.TaskProgress:
    progress = ev.TaskProgress(reader.optional_double(source, "progress"), reader.text(source, "message"))
    progress.check()
    return progress


def _error(source: Fields) -> ev.TaskErrorReported:
    return ev.TaskErrorReported(
        reader.nested(source, "failure", Failure.from_dict), _named(source, "effect", ev.ERROR_EFFECTS)
    )


def _cancel(source: Fields) -> ev.CancelRequested:
    return ev.CancelRequested(
        reader.text(source, "reason"), reader.text(source, "requested_by"), reader.mapping(source, "metadata")
    )


def _requested(source: Fields) -> ev.ActionRequested:
    return ev.ActionRequested(
        reader.nested(source, "action", RunAction.from_dict),
        reader.text(source, "position"),
    )


def _policy(source: Fields) -> ev.ActionPolicyEvaluated:
    return ev.ActionPolicyEvaluated(reader.nested(source, "decision", PolicyDecision.from_dict))


def _approval(source: Fields) -> ev.ApprovalRequired:
    return ev.ApprovalRequired(reader.nested(source, "request", ApprovalRequest.from_dict))


def _answer(source: Fields) -> ev.ApprovalDecided:
    return ev.ApprovalDecided(reader.nested(source, "decision", ApprovalDecision.from_dict))


def _started(source: Fields) -> ev.ActionStarted:
    return ev.ActionStarted(
        reader.text(source, "kind"),
        reader.text(source, "name"),
        reader.optional_mapping(source, "arguments"),
    )


def _ended(source: Fields) -> ev.ActionEnded:
    return ev.ActionEnded(
        reader.text(source, "kind"),
        reader.text(source, "name"),
        reader.copied(source.get("result"), "result"),
        reader.copied(source.get("error"), "error"),
        reader.micros(source, "duration_micros"),
        _optional(source, "usage", BudgetUsage.from_dict),
        _named(source, "outcome", ev.OUTCOME_TYPES.values()),
    )


def _named(source: Fields, key: str, known: Collection[str]) -> str:
    """The name of a value of an open enum."""
    found = reader.text(source, key)
    if found not in known and unrecognized_number(found) is None:
        raise InvalidArgumentError(f"must be one of {', '.join(known)}", field=key)
    return found


def _prepared(source: Fields) -> ev.ContextPrepared:
    manifest = reader.nested(source, "manifest", ContextManifest.from_dict)
    return ev.ContextPrepared(manifest, reader.integer(source, "step"))


def _call(source: Fields) -> ev.LlmCallStarted:
    return ev.LlmCallStarted(
        reader.text(source, "call_id"),
        reader.text(source, "provider"),
        reader.text(source, "model"),
        reader.integer(source, "attempt"),
        reader.integer(source, "step"),
        reader.flag(source, "streaming"),
    )


def _completed(source: Fields) -> ev.LlmCallCompleted:
    return ev.LlmCallCompleted(
        reader.text(source, "call_id"),
        reader.text(source, "provider"),
        reader.text(source, "model"),
        reader.integer(source, "step"),
        reader.text(source, "text"),
        reader.optional_integer(source, "input_tokens"),
        reader.optional_integer(source, "output_tokens"),
        reader.optional_integer(source, "cost_micros"),
        reader.text(source, "currency"),
        reader.micros(source, "duration_micros"),
        reader.mapping(source, "metrics"),
        tuple(reader.items(source, "tool_calls", ToolCall.from_dict)),
        reader.text(source, "finish_reason"),
        reader.optional_integer(source, "cached_input_tokens"),
        reader.optional_integer(source, "reasoning_tokens"),
    )


def _budget(source: Fields) -> ev.BudgetReported:
    return ev.BudgetReported(reader.nested(source, "decision", BudgetDecision.from_dict))


def _failed(source: Fields) -> ev.LlmCallFailed:
    return ev.LlmCallFailed(
        reader.text(source, "call_id"),
        reader.text(source, "provider"),
        reader.text(source, "model"),
        reader.integer(source, "step"),
        reader.integer(source, "attempt"),
        reader.nested(source, "failure", Failure.from_dict),
        reader.flag(source, "will_retry"),
        reader.integer(source, "duration_micros"),
    )


def _compacted(source: Fields) -> ev.ContextCompacted:
    return ev.ContextCompacted(
        reader.integer(source, "before_tokens"),
        reader.integer(source, "after_tokens"),
        _named(source, "strategy", ("", *COMPACTION_STRATEGIES)),
        reader.text(source, "summary"),
    )


def _step(source: Fields) -> ev.LlmStep:
    return ev.LlmStep(
        reader.text(source, "kind"),
        reader.integer(source, "step"),
        reader.text(source, "content"),
        reader.mapping(source, "data"),
    )


def _delta(source: Fields) -> ev.TextDelta:
    return ev.TextDelta(reader.text(source, "call_id"), reader.integer(source, "offset"), reader.text(source, "text"))


def _optional(source: Fields, key: str, read: Callable[[object], Any]) -> Any:
    return None if source.get(key) is None else reader.nested(source, key, read)


_FAMILIES: dict[str, tuple[tuple[type, Callable[[Fields], Any]], ...]] = {
    "task": (
        (ev.TaskSubmitted, _submitted),
        (ev.TaskStatusChanged, _status),
        (ev.TaskMessagesAdded, _messages),
        (ev.TaskArtifactUpdated, _artifact),
        (ev.TaskPatched, _patched),
        (ev.TaskProgress, _progress),
        (ev.TaskErrorReported, _error),
        (ev.CancelRequested, _cancel),
    ),
    "action": (
        (ev.ActionRequested, _requested),
        (ev.ActionPolicyEvaluated, _policy),
        (ev.ActionEnded, _ended),
        (ev.ActionStarted, _started),
    ),
    "approval": ((ev.ApprovalRequired, _approval), (ev.ApprovalDecided, _answer)),
    "context": ((ev.ContextPrepared, _prepared), (ev.ContextCompacted, _compacted)),
    "llm": (
        (ev.LlmCallFailed, _failed),
        (ev.LlmCallCompleted, _completed),
        (ev.LlmCallStarted, _call),
        (ev.LlmStep, _step),
        (ev.TextDelta, _delta),
    ),
    "budget": ((ev.BudgetReported, _budget),),
}
"""Kinds by the first word of their types. Within one word each has fields that the others have not."""

_NAMES = {
    kind: frozenset(each.name for each in fields(kind) if each.compare)
    for family in _FAMILIES.values()
    for kind, _ in family
}
"""The fields of each kind that its JSON form has."""

# Its session and its context are where ProtoLink's readers look for them: in the metadata of the task.
_NAMES[ev.TaskSubmitted] -= {"session_id", "context"}
