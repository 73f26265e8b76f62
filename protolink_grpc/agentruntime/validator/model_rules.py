"""Rules about model calls, their routing and their cost. `lifecycle_rules` has those about the begin and end of a model call."""

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.log_state import LogState
from protolink_grpc.agentruntime.validator.rule import HOLDS, Outcome, RuleSet

RULES = RuleSet()


@RULES.rule("R026.5", "The end of a model call has the usage and the stop reason.", "RES:75", "model.completed")
def check_usage(event: Event, log: LogState) -> Outcome:
    missing = [name for name in ("usage", "stopReason") if not event.has(name)]
    return f"without {' and '.join(missing)}" if missing else HOLDS


@RULES.rule(
    "R026.6", "A failed model call has a failureCategory, and whether a retry makes sense.", "RES:75", "model.failed"
)
def check_model_failure(event: Event, log: LogState) -> Outcome:
    if not event.has("failureCategory", "errorCategory"):
        return "without failureCategory"
    return HOLDS if isinstance(event.payload.get("retryable"), bool) else "without retryable"


@RULES.rule(
    "R015",
    "A cost, a limit or a quota names a model call of the log.",
    "SPEC:58",
    "cost.recorded",
    "rate_limit.hit",
    "quota.low",
    "quota.blocked",
    needs_beginning=True,
)
def check_cost_joins(event: Event, log: LogState) -> Outcome:
    call = event.text("modelRequestId")
    if not call:
        return None
    key = (event.text("sessionId"), call)
    return HOLDS if key in log.models.open or log.models.has_ended(key) else f"no model.requested of model call {call}"


@RULES.rule("R127", "A cost is an amount or unknown.", "MR:28", "cost.recorded", "cost.estimated")
def check_amount(event: Event, log: LogState) -> Outcome:
    inside = event.record.get("costState")
    places = [event.payload, *([inside] if isinstance(inside, dict) else [])]
    names = (
        "costMicros",
        "costUsd",
        "cost",
        "amount",
        "actualCost",
        "estimate",
        "estimatedCost",
        "estimatedClass",
        "costClass",
    )
    found = [place[name] for place in places for name in names if name in place]
    is_amount = any(isinstance(each, str | dict) or (isinstance(each, int | float) and each >= 0) for each in found)
    return HOLDS if is_amount else "without an amount; unknown is a value"


@RULES.rule(
    "R091.1", "After a routing decision that no model is possible, no model is called.", "TC:57", "model.requested"
)
def check_routing(event: Event, log: LogState) -> Outcome:
    turn = log.turns.get(event.turn)
    if turn is None or not turn.routing:
        return None
    return "routing.not_possible is the last routing decision" if turn.routing == "routing.not_possible" else HOLDS


@RULES.rule(
    "R091.2", "The model of a turn is selected before it is called.", "TC:57", "routing.decided", needs_beginning=True
)
def check_routed_first(event: Event, log: LogState) -> Outcome:
    turn = log.turns.get(event.turn)
    if turn is None or turn.is_routed:
        return None
    return "after model.requested of the same turn" if "model.requested" in turn.begun else HOLDS


@RULES.rule("R125", "A single candidate is counted as one.", "MR:24", "routing.single_candidate")
def check_single(event: Event, log: LogState) -> Outcome:
    inside = event.record.get("candidateModelSet")
    places = [event.payload, *([inside] if isinstance(inside, dict) else [])]
    counts = [place["candidateCount"] for place in places if "candidateCount" in place]
    return HOLDS if counts == [1] * len(counts) and counts else f"candidateCount {counts[0] if counts else 'missing'}"


@RULES.rule("R123", "A routing decision has the selected model and the reason.", "MR:22", "routing.decided")
def check_routing_decision(event: Event, log: LogState) -> Outcome:
    inside = event.record.get("routingDecision")
    places = [event.payload, *([inside] if isinstance(inside, dict) else [])]
    for names in (("selectedModel", "selected"), ("decisionReason", "reason")):
        if not any(place.get(name) for place in places for name in names):
            return f"without {names[0]}"
    return HOLDS
