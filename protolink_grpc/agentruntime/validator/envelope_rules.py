"""Rules about the envelope of each event: its fields, its ids, and its order."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.event_types import (
    ENVELOPE_IDS,
    ENVELOPE_OBJECTS,
    ENVELOPE_TEXTS,
    IDS_OF_TYPES,
    SCOPE_IDS,
    WORK_IDS,
    is_vendor_type,
)
from protolink_grpc.agentruntime.validator.log_state import LogState
from protolink_grpc.agentruntime.validator.rule import HOLDS, Outcome, RuleSet

MAX_PAYLOAD_CHARS: Final = 64 << 10
"""Maximum length of a payload as JSON. The contract names no limit."""


def _ids(*, are_scopes: bool) -> dict[str, list[list[str]]]:
    """Return the alternatives for each id that events of each type need, only those of scopes or only the others."""
    table = {kind: [each.split("|") for each in ids] for kind, ids in IDS_OF_TYPES.items()}
    return {kind: [names for names in ids if (names[0] in SCOPE_IDS) is are_scopes] for kind, ids in table.items()}


_SCOPE_IDS: Final = _ids(are_scopes=True)
_WORK_IDS: Final = _ids(are_scopes=False)

RULES = RuleSet()


@RULES.rule("R002", "A type is one of the contract, or has a prefix of its own.", "SPEC:86, SPEC:150")
def check_type(event: Event, log: LogState) -> Outcome:
    kind = event.type
    if not kind:
        return None
    return HOLDS if kind in IDS_OF_TYPES or is_vendor_type(kind) else f"type {kind!r} is not in the contract"


@RULES.rule("R004.1", "An event has a type, an eventId and a timestamp.", "SPEC:109")
def check_required_fields(event: Event, log: LogState) -> Outcome:
    missing = [name for name in ("type", "eventId", "timestamp") if not event.text(name)]
    return f"without {' and '.join(missing)}" if missing else HOLDS


@RULES.rule("R004.2", "A timestamp is a date and a time with an offset.", "SPEC:109")
def check_timestamp(event: Event, log: LogState) -> Outcome:
    text = event.text("timestamp")
    if not text:
        return None
    try:
        is_complete = "T" in text.upper() and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        is_complete = False
    return HOLDS if is_complete else f"timestamp {text!r}"


@RULES.rule("R004.3", "Fields of the envelope have their types, and ids are not empty.", "SPEC:109")
def check_field_types(event: Event, log: LogState) -> Outcome:
    record = event.record
    for name in ("type", "eventId", "timestamp", "schemaVersion", *ENVELOPE_IDS):
        if name in record and not (isinstance(record[name], str) and record[name]):
            return f"{name} must be a text that is not empty"
    sequence = record.get("sequence", 0)
    if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence < 0:
        return "sequence must be an integer, 0 or greater"
    for name in ("payload", "refs"):
        if not isinstance(record.get(name, {}), dict):
            return f"{name} must be an object"
    return HOLDS


@RULES.rule("R001", "The objects of the envelope are objects, and its statuses are texts.", "SPEC:22")
def check_typed_fields(event: Event, log: LogState) -> Outcome:
    record = event.record
    present = [name for name in (*ENVELOPE_OBJECTS, *ENVELOPE_TEXTS) if name in record]
    for name in present:
        if name in ENVELOPE_OBJECTS and not isinstance(record[name], dict):
            return f"{name} must be an object"
        if name in ENVELOPE_TEXTS and not isinstance(record[name], str):
            return f"{name} must be a text"
    return HOLDS if present else None


@RULES.rule("R005", "An eventId belongs to one event.", "SPEC:114")
def check_unique(event: Event, log: LogState) -> Outcome:
    if not event.text("eventId"):
        return None
    return "another event has the same eventId" if log.has_event(event) else HOLDS


@RULES.rule("R006", "Sequences grow within the events of a session.", "SPEC:116, RES:38")
def check_order(event: Event, log: LogState) -> Outcome:
    sequence, last = event.record.get("sequence"), log.sequences.get(event.text("sessionId"), -1)
    if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence < 0:
        return None
    return HOLDS if sequence > last else f"sequence {sequence} comes after {last}"


@RULES.rule("R007.1", "An event has the ids of the session, thread and turn that it belongs to.", "SPEC:118")
def check_scope_ids(event: Event, log: LogState) -> Outcome:
    return _missing_ids(event, _SCOPE_IDS)


@RULES.rule("R008.1", "An event has the ids of the task, call, question and so on that it is about.", "SPEC:119")
def check_work_ids(event: Event, log: LogState) -> Outcome:
    return _missing_ids(event, _WORK_IDS)


def _missing_ids(event: Event, table: Mapping[str, list[list[str]]]) -> Outcome:
    needed = table.get(event.type)
    if not needed:
        return None
    missing = [" or ".join(names) for names in needed if not any(event.text(name) for name in names)]
    return f"{event.type} without {' and '.join(missing)}" if missing else HOLDS


@RULES.rule("R003", "Different things have different ids.", "SPEC:105")
def check_distinct_ids(event: Event, log: LogState) -> Outcome:
    seen: dict[str, str] = {}
    for name in WORK_IDS:
        value = event.record.get(name)
        if not isinstance(value, str) or not value:
            continue
        if value in seen:
            return f"{seen[value]} and {name} are both {value!r}"
        seen[value] = name
    return HOLDS if len(seen) > 1 else None


@RULES.rule("R007.2", "A turn belongs to one thread.", "SPEC:118")
def check_thread_of_turn(event: Event, log: LogState) -> Outcome:
    turn = log.turns.get(event.turn)
    if turn is None or not event.text("threadId") or not turn.thread[1]:
        return None
    if turn.thread == event.thread:
        return HOLDS
    return f"turn {event.turn[1]} is in thread {event.thread[1]} here and in {turn.thread[1]} before"


@RULES.rule("R008.2", "A run belongs to one task.", "SPEC:119")
def check_task_of_run(event: Event, log: LogState) -> Outcome:
    run, task = event.text("runId"), event.text("taskId")
    if not task or run not in log.runs:
        return None
    known = log.runs[run]
    return HOLDS if known == task else f"run {run} is of task {task} here and of {known} before"


@RULES.rule("R008.3", "A step belongs to one turn.", "SPEC:119")
def check_turn_of_step(event: Event, log: LogState) -> Outcome:
    known = log.steps.get((event.text("sessionId"), event.text("stepId")))
    if known is None or not event.text("turnId"):
        return None
    return HOLDS if known == event.turn else f"step {event.text('stepId')} is of turn {known[1]}, which is open"


@RULES.rule("R008.4", "A tool call belongs to one step.", "SPEC:119")
def check_step_of_call(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or not call.step or not event.text("stepId"):
        return None
    return (
        HOLDS if call.step == event.text("stepId") else f"tool call {event.text('toolCallId')} is of step {call.step}"
    )


@RULES.rule("R008.5", "A question is about one tool call.", "SPEC:119", "action.resolved", "permission.resolved")
def check_call_of_action(event: Event, log: LogState) -> Outcome:
    action = log.actions.get((event.text("sessionId"), event.text("actionId")))
    if action is None or action.call is None or not event.text("toolCallId"):
        return None
    known, call = action.call[1], event.text("toolCallId")
    return HOLDS if known == call else f"question {event.text('actionId')} was about tool call {known}"


@RULES.rule("R020", "If an event of a run has a traceId, the later ones have it too.", "EV:62")
def check_trace(event: Event, log: LogState) -> Outcome:
    run = event.text("runId")
    if not run or run not in log.traced:
        return None
    return HOLDS if event.text("traceId") else f"without traceId, unlike earlier events of run {run}"


@RULES.rule(
    "R016",
    "A call of a model, a tool, a process or a peer has its trace; unavailable is a value.",
    "RM:48",
    "model.requested",
    "tool.started",
    "process.started",
    "subagent.spawned",
)
def check_correlation(event: Event, log: LogState) -> Outcome:
    return HOLDS if event.text("traceId") else "without traceId"


@RULES.rule("R009", "Large values are references, not copies.", "SPEC:124")
def check_size(event: Event, log: LogState) -> Outcome:
    if "payload" not in event.record:
        return None
    if event.size <= MAX_PAYLOAD_CHARS:
        return HOLDS
    size = len(json.dumps(event.record["payload"], ensure_ascii=False, separators=(",", ":")))
    return HOLDS if size <= MAX_PAYLOAD_CHARS else f"a payload of {size:,} characters, more than {MAX_PAYLOAD_CHARS:,}"
