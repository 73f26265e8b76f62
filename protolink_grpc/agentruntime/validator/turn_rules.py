"""Rules about sessions, threads, turns and queues. `lifecycle_rules` has those about the begin and end of a turn."""

from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.event_types import IDS_OF_TYPES
from protolink_grpc.agentruntime.validator.log_state import LogState
from protolink_grpc.agentruntime.validator.rule import HOLDS, Outcome, RuleSet
from protolink_grpc.agentruntime.validator.task_statuses import THREAD_STATUSES

PARALLEL_POLICIES: Final = frozenset(("start", "parallel", "concurrent"))
"""Policies with which a turn starts beside the active one."""

WORK: Final = tuple(
    kind
    for kind in IDS_OF_TYPES
    if kind.startswith(("model.", "reasoning.", "tool.", "context.", "action.required", "process.", "routing."))
)
"""Types that belong to the execution of a turn, if they name one."""

RULES = RuleSet()


@RULES.rule("X01", "session.created is the first event of its session.", "SPEC:128", "session.created")
def check_session_begins(event: Event, log: LogState) -> Outcome:
    session = event.text("sessionId")
    if not session:
        return None
    if log.sessions.get(session):
        return f"session {session} was created before"
    return f"events of session {session} came before" if session in log.sessions else HOLDS


@RULES.rule("X02", "thread.started is the first event of its thread.", "SPEC:128", "thread.started")
def check_thread_begins(event: Event, log: LogState) -> Outcome:
    if not event.text("threadId"):
        return None
    thread = log.threads.get(event.thread)
    if thread is None:
        return HOLDS
    return f"thread {event.thread[1]} was started before" if thread.is_started else "events of the thread came before"


@RULES.rule("X21", "The status of a thread is one of the contract's.", "SPEC:131", "thread.updated")
def check_thread_status(event: Event, log: LogState) -> Outcome:
    status = event.text("status")
    if not status:
        return None
    return HOLDS if status in THREAD_STATUSES else f"status {status!r}"


@RULES.rule(
    "X03", "In a whole session, a turn is submitted to a thread that has started.", "SPEC:128", "turn.submitted"
)
def check_thread_of_submission(event: Event, log: LogState) -> Outcome:
    if not log.sessions.get(event.text("sessionId")) or not event.text("threadId"):
        return None
    thread = log.threads.get(event.thread)
    return HOLDS if thread is not None and thread.is_started else f"no thread.started of {event.thread[1]}"


@RULES.rule("X04", "A turn is submitted before its work begins.", "AS:20", "turn.submitted")
def check_submitted_first(event: Event, log: LogState) -> Outcome:
    turn = log.turns.get(event.turn)
    if turn is None or "turn.submitted" in turn.begun:
        return HOLDS if turn is None and not log.has_turn_ended(event) else None
    work = sorted(turn.begun.intersection((*WORK, "turn.started")))
    return f"after {work[0]} of the same turn" if work else HOLDS


@RULES.rule("X05", "A turn starts once.", "RM:48", "turn.started")
def check_starts_once(event: Event, log: LogState) -> Outcome:
    turn = log.turns.get(event.turn)
    if turn is None:
        return None
    return f"turn {event.turn[1]} has started before" if "turn.started" in turn.begun else HOLDS


@RULES.rule("X06", "The work of a turn begins after turn.started.", "SPEC:128", *WORK, needs_beginning=True)
def check_work_after_start(event: Event, log: LogState) -> Outcome:
    turn = log.turns.get(event.turn)
    if turn is None or "turn.submitted" not in turn.begun or event.type.startswith(("context.", "routing.")):
        return None
    return HOLDS if "turn.started" in turn.begun else f"turn {event.turn[1]} has not started"


@RULES.rule("X07", "A turn that has ended has no further work.", "RM:48", *WORK, "turn.started")
def check_work_before_end(event: Event, log: LogState) -> Outcome:
    if not event.text("turnId"):
        return None
    return f"turn {event.turn[1]} has ended" if log.has_turn_ended(event) else HOLDS


@RULES.rule("X08", "A turn that failed has a failureCategory and a status.", "SPEC:128", "turn.failed")
def check_failed_turn(event: Event, log: LogState) -> Outcome:
    missing = [name for name in ("failureCategory", "status") if not event.has(name)]
    return f"without {' and '.join(missing)}" if missing else HOLDS


@RULES.rule("X09", "A submission is accepted or queued, and refers to its input.", "SPEC:128", "turn.submitted")
def check_submission(event: Event, log: LogState) -> Outcome:
    status = event.text("status")
    if status not in ("accepted", "queued"):
        return f"status {status!r}" if status else "without status"
    return HOLDS if event.has("inputRef", "input", "inputRefs") else "without inputRef"


@RULES.rule("R047.1", "An input to a busy thread names the policy that accepted it.", "CP:65", "turn.submitted")
def check_policy_named(event: Event, log: LogState) -> Outcome:
    thread = log.threads.get(event.thread)
    if thread is None or not thread.active:
        return None
    return HOLDS if event.has("policy", "queuePolicy") else f"thread {event.thread[1]} has an active turn"


@RULES.rule(
    "R047.2",
    "Turns of a thread follow one another, unless the policy of one starts it at once.",
    "CP:65",
    "turn.started",
)
def check_turns_in_order(event: Event, log: LogState) -> Outcome:
    thread, turn = log.threads.get(event.thread), log.turns.get(event.turn)
    if thread is None or turn is None or not turn.policy:
        return None
    others = [key for key, policy in thread.active.items() if key != event.turn and policy not in PARALLEL_POLICIES]
    if not others or turn.policy in PARALLEL_POLICIES:
        return HOLDS
    return f"turn {others[0][1]} is active, and the policy is {turn.policy}"


# -- The queue -------------------------------------------------------------------------------------------------------------


@RULES.rule("R048.1", "A change of the queue has the order after it, and what happened.", "CP:65", "queue.changed")
def check_queue_payload(event: Event, log: LogState) -> Outcome:
    order = event.payload.get("order")
    if not isinstance(order, list) or not all(isinstance(each, str) for each in order):
        return "without order, a list of turns"
    return HOLDS if event.has("state", "status") else "without state"


@RULES.rule(
    "R048.2",
    "The order of a queue is the one before, with the named turn added, moved or removed.",
    "CP:65",
    "queue.changed",
    needs_beginning=True,
)
def check_queue_folds(event: Event, log: LogState) -> Outcome:
    order, turn = event.payload.get("order"), event.text("queueId") or event.text("queuedTurnId")
    if not isinstance(order, list) or not turn or not event.text("threadId"):
        return None
    thread = log.threads.get(event.thread)
    before = thread.queue if thread is not None else []
    if [each for each in order if each != turn] != [each for each in before if each != turn]:
        return f"the order was {before} before and is {order}"
    return f"the order has {turn} twice" if order.count(turn) > 1 else HOLDS


@RULES.rule("R048.3", "A turn that starts has left the queue.", "CP:65", "turn.started")
def check_left_queue(event: Event, log: LogState) -> Outcome:
    turn, thread = log.turns.get(event.turn), log.threads.get(event.thread)
    if turn is None or thread is None or "queue.changed" not in turn.begun:
        return None
    return f"turn {event.turn[1]} is in the queue of its thread" if event.turn[1] in thread.queue else HOLDS


@RULES.rule("R048.4", "A turn that ends without a start has left the queue.", "CP:65", "turn.completed", "turn.failed")
def check_ended_out_of_queue(event: Event, log: LogState) -> Outcome:
    turn, thread = log.turns.get(event.turn), log.threads.get(event.thread)
    if turn is None or thread is None or "queue.changed" not in turn.begun or "turn.started" in turn.begun:
        return None
    return f"turn {event.turn[1]} is in the queue of its thread" if event.turn[1] in thread.queue else HOLDS


@RULES.rule("R048.5", "A turn that waited was in the queue.", "CP:65", "turn.started")
def check_was_in_queue(event: Event, log: LogState) -> Outcome:
    turn = log.turns.get(event.turn)
    if turn is None or not turn.is_queued:
        return None
    return HOLDS if "queue.changed" in turn.begun else f"no queue.changed of turn {event.turn[1]}"


# -- Snapshots and compactions ------------------------------------------------------------------------------------------


@RULES.rule(
    "X19",
    "A snapshot that was updated has its name, and the sequence or the version that it reflects.",
    "SPEC:147, RES:88",
    "snapshot.updated",
)
def check_snapshot(event: Event, log: LogState) -> Outcome:
    if not event.has("snapshot", "readModel", "readModels", "recoveryMode"):
        return "without snapshot"
    names = ("sequence", "snapshotSequence", "cursor", "version", "position", "recoveryMode")
    return HOLDS if any(event.payload.get(name) not in (None, "") for name in names) else "without sequence"


@RULES.rule(
    "R034", "A compaction keeps the open questions of its thread.", "SH:18, TC:53", "context.compaction.completed"
)
def check_questions_kept(event: Event, log: LogState) -> Outcome:
    names = ("preservedActions", "pendingActions", "preservedPendingActions")
    kept = next((event.payload[name] for name in names if isinstance(event.payload.get(name), list)), None)
    if kept is None:
        return None
    ids = [each.get("actionId") if isinstance(each, dict) else each for each in kept]
    lost = sorted(name for (_, name), each in log.actions.items() if each.thread == event.thread and name not in ids)
    return f"without question {lost[0]}, which is open" if lost else HOLDS
