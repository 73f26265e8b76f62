"""Rules about channels, and about tasks of peers."""

from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.log_state import WITHDRAWN, LogState
from protolink_grpc.agentruntime.validator.rule import HOLDS, Outcome, RuleSet

JOINED: Final = (
    "routing.candidates.resolved",
    "routing.decided",
    "routing.fallback.applied",
    "routing.not_possible",
    "routing.single_candidate",
    "rate_limit.hit",
    "quota.low",
    "quota.blocked",
    "limit.changed",
    "channel.connected",
    "channel.disconnected",
    "channel.resumed",
    "channel.message",
    "channel.peer_task.linked",
    "channel.peer_task.updated",
)
"""Types that evidence, replays and reviews join with turns."""

RULES = RuleSet()


@RULES.rule(
    "R025",
    "A routing decision, a limit or an event of a channel names a turn of the log.",
    "RES:71",
    *JOINED,
    needs_beginning=True,
)
def check_joined(event: Event, log: LogState) -> Outcome:
    if not event.text("turnId"):
        return None
    turn = log.turns.get(event.turn)
    is_known = log.has_turn_ended(event) or (turn is not None and "turn.submitted" in turn.begun)
    return HOLDS if is_known else f"no turn.submitted of turn {event.turn[1]}"


@RULES.rule(
    "R069", "A task of a peer has another id than the local task.", "TASK:134, RC:95", "channel.peer_task.linked"
)
def check_peer_id(event: Event, log: LogState) -> Outcome:
    task, remote = event.text("taskId"), event.text("remoteTaskId")
    if not task or not remote:
        return None
    return f"{remote} is the id of both" if task == remote else HOLDS


@RULES.rule(
    "R136",
    "A task of a peer is linked to a task or a subagent of the log.",
    "RC:54",
    "channel.peer_task.linked",
    "channel.peer_task.updated",
    needs_beginning=True,
)
def check_linked(event: Event, log: LogState) -> Outcome:
    session, subagent, task = (event.text(name) for name in ("sessionId", "subagentId", "taskId"))
    if subagent:
        key, found = (session, subagent), log.subagents
        return HOLDS if key in found.open or found.has_ended(key) else f"no subagent.spawned of subagent {subagent}"
    return (HOLDS if task in log.tasks else f"no event of task {task}") if task else None


@RULES.rule(
    "R071", "The artifacts of the peers of a task are recorded before it is completed.", "TASK:148", "task.completed"
)
def check_remote_artifacts(event: Event, log: LogState) -> Outcome:
    task = log.tasks.get(event.text("taskId"))
    if task is None or not task.remote_artifacts:
        return None
    missing = task.remote_artifacts - task.artifacts
    return f"no artifact.changed of {min(missing)}" if missing else HOLDS


@RULES.rule(
    "R138",
    "An answer that a channel returned is the answer to the question.",
    "RC:62",
    "action.resolved",
)
def check_returned(event: Event, log: LogState) -> Outcome:
    action = log.actions.get((event.text("sessionId"), event.text("actionId")))
    if action is None or not action.returned or event.text("decision") in WITHDRAWN:
        return None
    decision = event.text("decision")
    return HOLDS if decision == action.returned else f"the channel returned {action.returned}, the answer is {decision}"


@RULES.rule(
    "R141",
    "The work of a peer is not completed while the channel to it is disconnected.",
    "RC:99",
    "subagent.completed",
    "task.completed",
)
def check_connected(event: Event, log: LogState) -> Outcome:
    work = event.text("subagentId") if event.type == "subagent.completed" else event.text("taskId")
    session = event.text("sessionId")
    channel = log.channels.get((session, work))
    if channel is None:
        return None
    return f"channel {channel} is disconnected" if (session, channel) in log.disconnected else HOLDS
