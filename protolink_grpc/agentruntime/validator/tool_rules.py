"""Rules about tool calls, permissions and questions."""

from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.log_state import (
    EXECUTION,
    WITHDRAWN,
    LogState,
    arguments_of,
    choices_of,
)
from protolink_grpc.agentruntime.validator.rule import HOLDS, Outcome, RuleSet

DECISIONS: Final = frozenset(("allow", "deny", "ask", "sandboxed", "unavailable"))

DECISION_SOURCES: Final = frozenset(
    ("rule", "mode", "hook", "classifier", "human", "host_policy", "sandbox_override", "tool_contract", "unknown")
)

MODES: Final = frozenset(("default", "untrusted", "on_request", "on_failure", "never", "plan", "bypass", "auto"))
"""The permission modes."""

POLICIES: Final = frozenset(("allowed", "ask", "denied", "sandboxed", "unavailable"))

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


@RULES.rule(
    "R096",
    "A result that is a reference has a preview, or its structured content or artifacts.",
    "OS:20",
    "tool.result",
)
def check_structured_result(event: Event, log: LogState) -> Outcome:
    inside = event.payload.get("result")
    result = inside if isinstance(inside, dict) else {}
    if not event.has("outputRef", "resultRef", "rawOutputRef") and not {"outputRef", "rawOutputRef"} & result.keys():
        return None
    names = ("preview", "displayPreview", "structuredContentRef", "artifactRefs", "errorRef")
    return HOLDS if event.has(*names) or any(result.get(name) is not None for name in names) else "without preview"


@RULES.rule(
    "R014",
    "The arguments of a tool call change only by a hook, an answer or a decision of the policy.",
    "SPEC:51, HP:10",
    *EXECUTION,
)
def check_arguments(event: Event, log: LogState) -> Outcome:
    call, arguments = log.call_of(event), arguments_of(event)
    if call is None or call.arguments is None or arguments is None:
        return None
    return HOLDS if arguments == call.arguments or call.is_edited else "other arguments than those of tool.started"


@RULES.rule("R092", "Calls of tools with effects do not overlap in a turn.", "TC:74", *EXECUTION)
def check_serialized(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or call.is_executing or not log.is_writing(event):
        return None
    others = sorted(name for _, name in log.turns[call.turn].writing)
    return f"tool call {others[0]} is executed at the same time" if others else HOLDS


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


@RULES.rule(
    "R100.1",
    "The policy decides about a tool that is destructive as about a destructive action.",
    "PS:20",
    "tool.started",
)
def check_destructive(event: Event, log: LogState) -> Outcome:
    call, turn = log.call_of(event), log.turns.get(event.turn)
    tool = None if turn is None else turn.tools.get(event.text("toolName"))
    if call is None or tool is None or not tool.is_destructive or not call.verdict:
        return None
    return HOLDS if call.is_destructive else "the decision is without destructive: true"


@RULES.rule(
    "R100.2",
    "A decision about a destructive action has its scope, its source and advice for a rollback.",
    "PS:20",
    "permission.evaluated",
)
def check_destructive_decision(event: Event, log: LogState) -> Outcome:
    if event.payload.get("destructive") is not True:
        return None
    needed = (("scope", "impactScope"), ("decisionSource",), ("rollbackAdvice", "rollback"))
    missing = [names[0] for names in needed if not event.has(*names)]
    return f"without {' and '.join(missing)}" if missing else HOLDS


@RULES.rule(
    "R099",
    "A permission mode is one of the contract's eight.",
    "PS:18",
    "permission.evaluated",
    "permission.requested",
    "action.required",
    "policy.changed",
)
def check_known_mode(event: Event, log: LogState) -> Outcome:
    state = event.record.get("permissionState", event.payload.get("permissionState"))
    mode = event.text("permissionMode") or (state.get("mode") if isinstance(state, dict) else None)
    if not mode:
        return None
    return HOLDS if isinstance(mode, str) and mode in MODES else f"mode {mode!r}"


@RULES.rule(
    "R103", "A call that is sandboxed by the policy has its sandbox before it is executed.", "PS:32", *EXECUTION
)
def check_sandboxed(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or "sandboxed" not in (call.policy, call.verdict):
        return None
    return HOLDS if call.has_sandbox else f"no sandbox.applied of tool call {event.text('toolCallId')}"


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
