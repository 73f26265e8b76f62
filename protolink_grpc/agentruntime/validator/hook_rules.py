"""Rules about sandboxes and hooks."""

from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.log_state import EXECUTION, LogState
from protolink_grpc.agentruntime.validator.rule import HOLDS, Outcome, RuleSet

SANDBOX_MODES: Final = frozenset(("read_only", "workspace_write", "danger_full_access", "external_sandbox"))

HOOK_DECISIONS: Final = frozenset(("continue", "block", "allow", "deny", "ask"))

RULES = RuleSet()


# -- Sandboxes ----------------------------------------------------------------------------------------------------------


@RULES.rule("R102", "A sandbox has its mode, its directory and its network.", "PS:30", "sandbox.applied")
def check_sandbox(event: Event, log: LogState) -> Outcome:
    inside = event.record.get("sandboxProfile")
    profile = inside if isinstance(inside, dict) else event.payload
    if str(profile.get("mode")) not in SANDBOX_MODES:
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


@RULES.rule("R115", "A turn is not completed after a hook has blocked its end.", "HP:14", "turn.completed")
def check_stop(event: Event, log: LogState) -> Outcome:
    turn = log.turns.get(event.turn)
    if turn is None or not turn.stop_hooks:
        return None
    return f"hook run {turn.blocking_stop} has blocked it" if turn.blocking_stop else HOLDS


@RULES.rule(
    "R184", "The end of a tool call names the hook that stopped or changed it.", "AS:60", "tool.result", "tool.failed"
)
def check_hook_shown(event: Event, log: LogState) -> Outcome:
    call = log.call_of(event)
    if call is None or not call.hook:
        return None
    names = ("hookRunId", "hookRunIds", "hookRunRefs", "hookRuns", "hookRun")
    return HOLDS if event.has(*names) else f"without hookRunId; hook run {call.hook} has stopped or changed it"
