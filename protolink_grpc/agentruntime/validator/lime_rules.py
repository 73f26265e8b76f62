"""Rules of the contract's profile Lime, which apply at the level lime beside those of the core.

They are ours: tables of families and their ids, from the text of the profile and its schemas. Valid events cannot meet some of the
schema's demands; the rules about those have waivers, numbered D03 to D08.
"""

from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.event_types import IDS_OF_TYPES, PROSE_TYPES, is_vendor_type
from protolink_grpc.agentruntime.validator.log_state import LogState
from protolink_grpc.agentruntime.validator.rule import HOLDS, Level, Outcome, RuleSet

SCHEMA_VERSION: Final = "lime-profile-0.4.0"
"""The `schemaVersion` of the profile's events and snapshots."""

BASE_FIELDS: Final = (
    "type",
    "eventId",
    "timestamp",
    "schemaVersion",
    "runtimeId",
    "sessionId",
    "sequence",
    "payload",
)

TURN_FAMILIES: Final = frozenset(
    (
        "turn",
        "model",
        "reasoning",
        "tool",
        "action",
        "permission",
        "sandbox",
        "hook",
        "context",
        "routing",
        "cost",
        "rate_limit",
        "quota",
    )
)
"""The families whose events must have a thread and a turn."""

_TYPES: Final = tuple(kind for kind in IDS_OF_TYPES if kind not in PROSE_TYPES)

_TURN_TYPES: Final = tuple(kind for kind in _TYPES if kind.split(".")[0] in TURN_FAMILIES)

_IDS_IN_TURNS: Final = ("runId", "stepId", "toolCallId", "modelRequestId", "actionId")
"""An event with one of these ids belongs to a turn."""

RULES = RuleSet(Level.LIME)


def _missing(event: Event, *names: str) -> str:
    """Return which of the fields the envelope does not have; empty if it has all of them."""
    missing = [name for name in names if event.record.get(name) in (None, "", {})]
    return f"without {' and '.join(missing)}" if missing else HOLDS


@RULES.rule("R174.1", "An event has the eight fields that the profile requires.", "LP:42")
def check_base_fields(event: Event, log: LogState) -> Outcome:
    missing = [name for name in BASE_FIELDS if event.record.get(name) in (None, "")]
    return f"without {' and '.join(missing)}" if missing else HOLDS


@RULES.rule("R174.2", f"The schemaVersion is {SCHEMA_VERSION}.", "LP:42, LP:137")
def check_schema_version(event: Event, log: LogState) -> Outcome:
    version = event.text("schemaVersion")
    if not version:
        return None
    return HOLDS if version == SCHEMA_VERSION else f"schemaVersion {version!r}"


@RULES.rule(
    "R174.3",
    "The type is one of the 120 of the schema.",
    "LP:137, SPEC:150",
    waiver="D03, D04: the contract permits types of implementations and has types in its text that its schema does not allow",
)
def check_type(event: Event, log: LogState) -> Outcome:
    if not event.type or not (event.type in IDS_OF_TYPES or is_vendor_type(event.type)):
        return None  # R002 reports it
    return HOLDS if event.type in _KNOWN else f"type {event.type!r} is not in the schema"


_KNOWN: Final = frozenset(_TYPES)


@RULES.rule("R175.1", "An event that belongs to a turn has the ids of its thread and its turn.", "LP:44", *_TURN_TYPES)
def check_turn_ids(event: Event, log: LogState) -> Outcome:
    return None if _is_without_turn(event) else _missing(event, "threadId", "turnId")


@RULES.rule(
    "R175.2",
    "An event about a task with an open attempt has the runId.",
    "LP:44",
    *(kind for kind in _TYPES if kind.startswith("task.") and kind != "task.profile.resolved"),
)
def check_run_id(event: Event, log: LogState) -> Outcome:
    task = log.tasks.get(event.text("taskId"))
    if task is None or task.attempt != "task.attempt.started":
        return None
    return _missing(event, "runId")


@RULES.rule(
    "R175.3",
    "An event of a subagent has the ids of the thread and the turn of its parent.",
    "LP:44",
    *(kind for kind in _TYPES if kind.startswith("subagent.")),
)
def check_parent_ids(event: Event, log: LogState) -> Outcome:
    return _missing(event, "sessionId", "threadId", "turnId")


_OF_BENCHMARKS: Final = {
    "benchmark.dataset.resolved": ("benchmark",),
    "benchmark.configuration.resolved": ("benchmark",),
    "benchmark.trial.started": ("benchmark", "taskId", "runId", "refs", "threadId", "turnId"),
    "benchmark.trial.completed": ("benchmark", "taskId", "runId", "refs"),
    "benchmark.trial.failed": ("benchmark", "taskId", "runId", "refs"),
    "benchmark.reward.recorded": ("benchmark", "taskId", "runId", "refs"),
    "benchmark.comparison.completed": ("benchmark", "comparison", "refs"),
}


@RULES.rule("R175.4", "An event of a benchmark has its objects, its references and its ids.", "LP:137", *_OF_BENCHMARKS)
def check_benchmark(event: Event, log: LogState) -> Outcome:
    return _missing(event, *_OF_BENCHMARKS[event.type])


@RULES.rule(
    "R175.5",
    "tool.catalog.resolved has a stepId and a toolCallId.",
    "LP:137",
    "tool.catalog.resolved",
    waiver="D06: an inventory belongs to no tool call",
)
def check_inventory_ids(event: Event, log: LogState) -> Outcome:
    return _missing(event, "stepId", "toolCallId")


@RULES.rule(
    "R175.6",
    "Hooks, contexts, permissions, limits and costs have the ids of a thread and a turn.",
    "LP:137",
    *_TURN_TYPES,
    waiver="D07: an event about a whole session, a thread or an account belongs to no turn",
)
def check_ids_without_turn(event: Event, log: LogState) -> Outcome:
    if event.type.split(".")[0] in ("turn", "model", "reasoning", "tool", "action"):
        return None
    return _missing(event, "threadId", "turnId") if _is_without_turn(event) else HOLDS


@RULES.rule(
    "R175.7",
    "task.profile.resolved has a taskId.",
    "LP:137",
    "task.profile.resolved",
    waiver="D08: a profile belongs to a turn, which need not have a task",
)
def check_profile_task(event: Event, log: LogState) -> Outcome:
    return _missing(event, "taskId")


@RULES.rule(
    "R176", "An unknown id of a correlation is unknown, unavailable, stale or not_applicable, not empty.", "LP:56"
)
def check_correlation(event: Event, log: LogState) -> Outcome:
    places = [place.get(name) for place in (event.record, event.payload) for name in ("correlation", "telemetry")]
    found = [place for place in (*places, event.payload.get("runtimeCorrelation")) if isinstance(place, dict)]
    empty = sorted(name for place in found for name, value in place.items() if value in (None, ""))
    if not found:
        return None
    return f"{empty[0]} is empty" if empty else HOLDS


def _is_without_turn(event: Event) -> bool:
    """Whether an event has no id of a turn, nor of anything that belongs to one. Only events of some families can be that."""
    if event.type.split(".")[0] not in (
        "hook",
        "context",
        "permission",
        "sandbox",
        "cost",
        "rate_limit",
        "quota",
        "routing",
    ):
        return False
    return not event.record.get("turnId") and not any(event.text(name) for name in _IDS_IN_TURNS)
