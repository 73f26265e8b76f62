"""Rules about tool calls, permissions, questions, sandboxes, hooks and model calls."""

from typing import Final

from protolink_grpc.reports.agentruntime_validator.event_file import Event
from protolink_grpc.reports.agentruntime_validator.log_state import EXECUTION, REFUSALS, LogState, choices_of
from protolink_grpc.reports.agentruntime_validator.rule import HOLDS, Outcome, RuleSet

DECISIONS: Final = frozenset(("allow", "deny", "ask", "sandboxed", "unavailable"))

DECISION_SOURCES: Final = frozenset(
    ("rule", "mode", "hook", "classifier", "human", "host_policy", "sandbox_override", "tool_contract", "unknown")
)

SANDBOX_MODES: Final = frozenset(("read_only", "workspace_write", "danger_full_access", "external_sandbox"))

HOOK_DECISIONS: Final = frozenset(("continue", "block", "allow", "deny", "ask"))

POLICIES: Final = frozenset(("allowed", "ask", "denied", "sandboxed", "unavailable"))

WITHDRAWN: Final = REFUSALS - {"deny", "denied", "reject", "rejected", "unavailable"}
"""Decisions that no one has to offer: the question expired, or its work was canceled."""

RULES = RuleSet()


# -- Calls and their permission --------------------------------------------------------------------------------------------


@RULES.rule("R088.5", "tool.started names the tool, its arguments and the policy.", "TC:26", "tool.started")
def check_started(event: Event, log: LogState) -> Outcome:
    if not event.has("toolName", "tool_name"):
        return "without toolName"
    if not any(name in event.payload for name in ("safeArgs", "inputRef", "args")) and not event.has("inputRef"):
        return "without safeArgs or inputRef"
    return HOLDS if event.text("policy") in POLICIES else f"policy {event.text('policy')!r}"


@RULES.rule("R088.6", "tool.failed has a failureCategory, and whether a retry makes sense.", "TC:26", "tool.failed")
def check_failed(event: Event, log: LogState) -> Outcome:
    if not event.has("failureCategory", "errorCategory"):
        return "without failureCategory"
    return HOLDS if isinstance(event.payload.get("retryable"), bool) else "without retryable"


@RULES.rule("R089", "tool.result has the result or a reference to it.", "TC:37", "tool.result")
def check_result(event: Event, log: LogState) -> Outcome:
    if "result" in event.payload:
        return HOLDS
    names = ("outputRef", "resultRef", "preview", "structuredContentRef", "rawOutputRef", "artifactRefs")
    return HOLDS if event.has(*names) else "without result or outputRef"


@RULES.rule("R098.1", "The policy decides about a tool call before it is executed.", "PS:10, AS:56", *EXECUTION)
def check_evaluated(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or not log.has_permissions:
        return None
    return HOLDS if call.verdict else f"no permission.evaluated of tool call {event.text('toolCallId')}"


@RULES.rule("R098.2", "The sandbox of a tool call is applied before it is executed.", "PS:10, AS:56", "sandbox.applied")
def check_sandbox_first(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None:
        return None
    return f"tool call {event.text('toolCallId')} is already executed" if call.is_executing else HOLDS


@RULES.rule("R013", "A tool call that the policy denied is not executed.", "SPEC:50", *EXECUTION)
def check_not_denied(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or not call.verdict:
        return None
    return f"the policy denied tool call {event.text('toolCallId')}" if call.verdict == "deny" else HOLDS


@RULES.rule("R044.1", "A tool call is not executed while a question about it is open.", "CP:61", *EXECUTION)
def check_not_waiting(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or call.verdict not in ("ask", "allow"):
        return None
    return f"question {call.question} is open" if call.question else HOLDS


@RULES.rule("R044.2", "A tool call that was refused is not executed.", "CP:61", *EXECUTION)
def check_not_refused(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or call.verdict not in ("ask", "allow"):
        return None
    return f"the answer was {call.refusal}" if call.refusal else HOLDS


@RULES.rule("R044.3", "A tool call whose policy is to ask is not executed before an answer.", "CP:61", *EXECUTION)
def check_asked(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or call.question or call.refusal or call.verdict not in ("ask", "allow"):
        return None
    return f"no answer about tool call {event.text('toolCallId')}" if call.verdict == "ask" else HOLDS


@RULES.rule(
    "R101", "A decision of the policy has its value, its source and its reason.", "PS:24", "permission.evaluated"
)
def check_decision(event: Event, log: LogState) -> Outcome:
    if event.text("decision") not in DECISIONS:
        return f"decision {event.text('decision')!r}"
    if event.text("decisionSource") not in DECISION_SOURCES:
        return f"decisionSource {event.text('decisionSource')!r}"
    return HOLDS if "decisionReason" in event.payload else "without decisionReason"


@RULES.rule("R105.5", "A permission is requested after the policy was evaluated.", "PS:24", "permission.requested")
def check_request_evaluated(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or not log.has_permissions:
        return None
    return HOLDS if call.verdict else f"no permission.evaluated of tool call {event.text('toolCallId')}"


@RULES.rule("R106", "In the mode never, no one is asked.", "PS:18", "action.required")
def check_mode(event: Event, log: LogState) -> Outcome:
    mode = event.text("permissionMode") or event.text("mode")
    if not mode:
        return None
    return "a question in the permission mode never" if mode == "never" else HOLDS


# -- Questions -------------------------------------------------------------------------------------------------------------


@RULES.rule(
    "R043", "A question has a type, a prompt or a schema, and the decisions to choose from.", "CP:52", "action.required"
)
def check_question(event: Event, log: LogState) -> Outcome:
    if not event.has("actionType"):
        return "without actionType"
    if not event.has("prompt", "schema", "inputSchema", "requestedSchema"):
        return "without prompt or schema"
    return HOLDS if choices_of(event) else "without availableDecisions"


@RULES.rule(
    "R045.5", "An answer is one of the offered decisions, or the question was withdrawn.", "CP:52", "action.resolved"
)
def check_answer(event: Event, log: LogState) -> Outcome:
    action = log.actions.get((event.text("sessionId"), event.text("actionId")))
    if action is None or not action.choices:
        return None
    decision = event.text("decision")
    if decision in action.choices or decision in WITHDRAWN:
        return HOLDS
    return f"decision {decision!r} is not one of {', '.join(action.choices)}"


# -- Sandboxes and hooks ---------------------------------------------------------------------------------------------------


@RULES.rule("R102", "A sandbox has its mode, its directory and its network.", "PS:30", "sandbox.applied")
def check_sandbox(event: Event, log: LogState) -> Outcome:
    inside = event.record.get("sandboxProfile")
    profile = inside if isinstance(inside, dict) else event.payload
    if profile.get("mode") not in SANDBOX_MODES:
        return f"mode {profile.get('mode')!r}"
    missing = [name for name in ("cwd", "network") if name not in profile]
    return f"without {' and '.join(missing)}" if missing else HOLDS


@RULES.rule("R107", "A failure by the sandbox has a sandbox.violation.", "PS:30", "tool.failed")
def check_violation(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or not event.text("failureCategory").startswith("sandbox"):
        return None
    return HOLDS if call.has_violation else f"no sandbox.violation of tool call {event.text('toolCallId')}"


@RULES.rule("R111", "The result of a hook is one of the contract's decisions.", "HP:22", "hook.completed")
def check_hook_decision(event: Event, log: LogState) -> Outcome:
    decision = event.text("decision")
    if not decision:
        return None
    return HOLDS if decision in HOOK_DECISIONS else f"decision {decision!r}"


@RULES.rule(
    "R112", "After a hook that failed closed, its tool call is not executed.", "HP:33", *EXECUTION, "tool.failed"
)
def check_failed_closed(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or not call.blocking_hook:
        return None
    return HOLDS if event.type == "tool.failed" else f"hook run {call.blocking_hook} has failed closed"


@RULES.rule(
    "R113", "A hook that failed open has a runtime.warning in its turn.", "HP:33", "turn.completed", "turn.failed"
)
def check_warning(event: Event, log: LogState) -> Outcome:
    turn = log.turns.get(event.turn)
    if turn is None or "hook.failed" not in turn.begun:
        return None
    return f"no warning about hook run {min(turn.quiet_hooks)}" if turn.quiet_hooks else HOLDS


@RULES.rule("R114.4", "The end of a hook has its duration.", "HP:22", "hook.completed", "hook.failed")
def check_duration(event: Event, log: LogState) -> Outcome:
    inside = event.record.get("hookRun")
    found = [
        place["durationMs"] for place in (event.payload, inside) if isinstance(place, dict) and "durationMs" in place
    ]
    is_number = bool(found) and isinstance(found[0], int | float) and not isinstance(found[0], bool) and found[0] >= 0
    return HOLDS if is_number else "without durationMs"


# -- Models, routing and cost ----------------------------------------------------------------------------------------------


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


@RULES.rule("R015", "A cost names a model call of the log.", "SPEC:58", "cost.recorded", needs_beginning=True)
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
    "R091", "After a routing decision that no model is possible, no model is called.", "TC:57", "model.requested"
)
def check_routing(event: Event, log: LogState) -> Outcome:
    turn = log.turns.get(event.turn)
    if turn is None or not turn.routing:
        return None
    return "routing.not_possible is the last routing decision" if turn.routing == "routing.not_possible" else HOLDS


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
