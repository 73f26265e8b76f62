"""Converts the prompts, the model calls and the budget of a task to Agent Runtime events."""

from typing import Any, Final

from protolink_grpc.agentruntime.state import (
    MAX_CLOSED,
    POLICIES,
    UNAVAILABLE,
    UNKNOWN,
    Mapped,
    ModelCall,
    Record,
    TaskRecords,
    amount,
    duration_ms,
    run_id_of,
    show_status,
    to_camel,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import OmittedContext
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_text import strip_code_fence, try_parse_json
from protolink_grpc.models.tool import OfferedTool
from protolink_grpc.net.trace_context import span_id_of

RATE_LIMITED: Final = "MODEL_RATE_LIMITED"
"""The reason of a failure by a limit of the model's provider."""

# -- Prompts ---------------------------------------------------------------------------------------------------------------


def map_prepared(task: TaskRecords, event: RunEvent, prepared: ev.ContextPrepared) -> Mapped:
    payload: Record = {"manifest": to_camel(prepared.manifest.to_dict()), "step": prepared.step}
    if purpose := prepared.manifest.purpose:
        yield "context.resolved", {"payload": payload | {"purpose": purpose, "omissions": [], "omittedCount": 0}}
        return
    if prepared.offered is not None:
        task.offered = event.event_id
        task.destructive = frozenset(each.name for each in prepared.offered.tools if each.destructive)
        tools = [_tool_of(each) for each in prepared.offered.tools]
        yield "tool.catalog.resolved", {"payload": {"tools": tools, "toolCount": len(tools)}}
    if task.offered:
        payload["toolInventoryRef"] = task.offered
    if prepared.omitted is not None:
        task.omitted = event.event_id
        payload["omissions"] = [_omission_of(each) for each in prepared.omitted.items]
        payload["omittedCount"] = prepared.omitted.count
    elif task.omitted:
        payload["omissionsRef"] = task.omitted
    yield "context.resolved", {"payload": payload}


def _tool_of(tool: OfferedTool) -> Record:
    """Return an entry of an inventory. A flag that the author of the tool has not set is unknown."""
    return {
        "toolName": tool.name,
        "description": UNAVAILABLE,
        "inputSchemaRef": UNAVAILABLE,
        "runtimeOwner": tool.runtime_owner or UNKNOWN,
        "policy": UNKNOWN if tool.effect is None else POLICIES.get(tool.effect, str(tool.effect)),
        "isReadOnly": tool.read_only or UNKNOWN,
        "isIdempotent": tool.idempotent or UNKNOWN,
        "isConcurrencySafe": UNKNOWN,
        "isDestructive": tool.destructive or (False if tool.read_only else UNKNOWN),
        "interruptBehavior": "cancel",
    }


def _omission_of(omitted: OmittedContext) -> Record:
    return {"kind": omitted.kind, "ref": omitted.ref, "reason": omitted.reason, "tokens": amount(omitted.tokens)}


# -- Model calls -----------------------------------------------------------------------------------------------------------


def _model_ids(event: RunEvent, call: ModelCall) -> Record:
    started = call.started
    if not started.call_id:
        return {}
    return {
        "modelRequestId": call.request_id,
        "stepId": f"{event.task_id}/model/{started.call_id}",
        "spanId": span_id_of(call.run_id, started.call_id, str(started.attempt)),
    }


def _request_of(task: TaskRecords, event: RunEvent, call_id: str, attempt: int = 1) -> ModelCall:
    """Remove and return an open model call, or build one if its begin is not known."""
    unknown = ModelCall(call_id, ev.LlmCallStarted(call_id, attempt=attempt), event.run_id)
    return task.models.pop(call_id, unknown)


def map_call_started(task: TaskRecords, event: RunEvent, call: ev.LlmCallStarted) -> Mapped:
    if call.call_id in task.models:
        lost = task.models.pop(call.call_id)
        failure = {"failureCategory": "outcome_unknown", "retryable": True}
        yield (
            "model.failed",
            {"runId": run_id_of(event.task_id, lost.run_id)} | _model_ids(event, lost) | {"payload": failure},
        )
    task.requests[call.call_id] += 1
    number = task.requests[call.call_id]
    request_id = f"{call.call_id}/retry/{task.retry}" if task.retry else call.call_id
    request_id = request_id if number == 1 else f"{request_id}/{number}"
    request = task.models[call.call_id] = ModelCall(request_id, call, event.run_id)
    provider, model = call.provider or UNKNOWN, call.model or UNKNOWN
    asked = {"requestedProvider": call.requested_provider or provider, "requestedModel": call.requested_model or model}
    selected = {"selectedProvider": provider, "selectedModel": model}
    payload = {"provider": provider, "model": model} | asked | selected | {"attempt": call.attempt, "step": call.step}
    task.failed_call = None
    yield from show_status(task, event, "The model call is repeated")
    if not task.has_called_model and (call.requested_provider or call.requested_model):
        decision = {"decisionSource": UNKNOWN, "decisionReason": "another model than the requested one was selected"}
        yield "routing.decided", _model_ids(event, request) | {"payload": asked | selected | decision}
    task.has_called_model = True
    yield "model.requested", _model_ids(event, request) | {"payload": payload}


_THINK: Final = "<think>"

_ACTIONS: Final = ("final", "tool_call", "agent_call")
"""The actions of a model that answers in JSON."""


def map_call_completed(task: TaskRecords, event: RunEvent, call: ev.LlmCallCompleted) -> Mapped:
    usage = {"inputTokens": amount(call.input_tokens), "outputTokens": amount(call.output_tokens)}
    parts = {"cachedInputTokens": call.cached_input_tokens, "reasoningTokens": call.reasoning_tokens}
    usage |= {name: tokens for name, tokens in parts.items() if tokens is not None}
    payload = {
        "provider": call.provider,
        "model": call.model,
        "responseModel": call.response_model or call.model,
        "usage": usage,
        "stopReason": call.finish_reason or UNKNOWN,
        "text": call.text,
        "toolCalls": [to_camel(each.to_dict()) for each in call.tool_calls],
        "durationMs": duration_ms(call.duration_micros),
    }
    ids = _model_ids(event, _request_of(task, event, call.call_id))
    if thought := _thought_of(call.text):
        yield "reasoning.summary", ids | {"payload": {"summary": thought}}
    yield "model.completed", ids | {"payload": payload}
    cost = {"costMicros": amount(call.cost_micros), "currency": call.currency or UNKNOWN}
    yield "cost.recorded", ids | {"payload": usage | cost}


def _thought_of(text: str) -> str:
    """Return the reasoning that a model has written before its answer, or into the field `thought` of an action; may be empty."""
    body = text.strip()
    if body.startswith(_THINK):
        return body.removeprefix(_THINK).partition("</think>")[0].strip()
    found = try_parse_json(strip_code_fence(body)) if '"thought"' in body else None
    thought = found.get("thought") if isinstance(found, dict) and found.get("type") in _ACTIONS else None
    return thought if isinstance(thought, str) else ""


def _limit_of(call: ev.LlmCallFailed) -> Record:
    """Return what the provider has reported about its limits."""
    payload = {
        "source": "provider",
        "provider": call.provider,
        "model": call.model,
        "retryAfterS": amount(call.failure.retry_delay_s),
    }
    details = call.failure.details
    found = details.get("limits") if isinstance(details, dict) else None
    limits = [_limit(each) for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return payload | ({"limits": limits} if limits else {})


def _limit(reported: dict[str, Any]) -> Record:
    """Return one limit; see `errors.ReportedRateLimit`."""
    names = {"unit": "unit", "limit": "limit", "remaining": "remaining", "reset_s": "resetS"}
    return {name: UNKNOWN if reported.get(key) in (None, "") else reported[key] for key, name in names.items()}


def map_budget(_: TaskRecords, event: RunEvent, reported: ev.BudgetReported) -> Mapped:
    payload = {"limitState": to_camel(reported.decision.to_dict())}
    yield "limit.changed", {"payload": payload}
    yield "quota.low" if reported.decision.allowed else "quota.blocked", {"payload": payload}


def map_call_failed(task: TaskRecords, event: RunEvent, call: ev.LlmCallFailed) -> Mapped:
    payload = {
        "provider": call.provider,
        "model": call.model,
        "attempt": call.attempt,
        "step": call.step,
        "failureCategory": str(call.failure.category or UNKNOWN),
        "detail": call.failure.message,
        "reason": call.failure.reason,
        "retryable": call.failure.retryable or call.will_retry,
        "willRetry": call.will_retry,
        "retryDelayS": call.failure.retry_delay_s,
        "durationMs": duration_ms(call.duration_micros),
    }
    ids = _model_ids(event, _request_of(task, event, call.call_id, call.attempt))
    if call.failure.reason == RATE_LIMITED:
        yield "rate_limit.hit", ids | {"payload": _limit_of(call)}
    yield "model.failed", ids | {"payload": payload}
    task.failed_call = call if call.will_retry else None
    yield from show_status(task, event, "The model call has failed and is not repeated")


# -- Budgets and the conversation ------------------------------------------------------------------------------------------


def map_compacted(task: TaskRecords, event: RunEvent, done: ev.ContextCompacted) -> Mapped:
    trigger = "auto" if "decision" in event.metadata else "manual"
    yield "context.compaction.started", {"payload": {"trigger": trigger}}
    payload = {
        "beforeTokens": done.before_tokens,
        "afterTokens": done.after_tokens,
        "strategy": done.strategy or ("shortened_results" if trigger == "auto" else UNKNOWN),
        "preservedActions": [*task.approvals],
    }
    yield "context.compaction.completed", {"payload": payload | {"summary": done.summary}}


def map_step(_: TaskRecords, event: RunEvent, step: ev.LlmStep) -> Mapped:
    yield (
        f"plgrpc.llm.{step.kind.removeprefix('llm_')}",
        {"payload": {"step": step.step, "content": step.content, "data": step.data}},
    )


def close_models(task: TaskRecords, event: RunEvent, category: str) -> Mapped:
    """Close the model calls whose end is not recorded."""
    for call in [*task.models.values()][:MAX_CLOSED]:
        started = call.started
        payload = {"provider": started.provider, "model": started.model, "failureCategory": category, "retryable": True}
        yield (
            "model.failed",
            {"runId": run_id_of(event.task_id, call.run_id)} | _model_ids(event, call) | {"payload": payload},
        )
    task.models = {}
