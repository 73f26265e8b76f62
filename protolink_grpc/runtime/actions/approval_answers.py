"""The answer to an approval that a run waits for: from a handler in this process, from the log, or by the end of its time."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from protolink_grpc.errors import ApprovalChangedError
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import ApprovalDecided, RunEvent
from protolink_grpc.tools.runner import ToolRunner

ApprovalHandler = Callable[[ApprovalRequest, RunContext], Awaitable[ApprovalDecision | bool] | ApprovalDecision | bool]
"""A function of the application that answers approval requests. A synchronous one is called in a thread and may block."""

EXPIRED = "the approval expired"


async def call_handler(handler: ApprovalHandler, request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
    """Return the handler's answer to a request. The handler gets copies, so it cannot change the action.

    An edit is ignored if the request does not allow edits.

    Raises:
        ValueError: The handler answered another request.
        TypeError: The answer is neither an ApprovalDecision nor a bool.
        ApprovalChangedError: The answer has the fingerprint of another action.
    """
    copied = ApprovalRequest.from_dict(request.to_dict())
    if _is_async(handler):
        answer: Any = handler(copied, context.copy())
    else:
        answer = await _run_in_thread(functools.partial(handler, copied, context.copy()))
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, bool):
        return ApprovalDecision(answer, request.request_id, decided_by="approval_handler")
    if not isinstance(answer, ApprovalDecision):
        raise TypeError(f"an approval handler must return an ApprovalDecision or a bool, not {type(answer).__name__}")
    if answer.request_id != request.request_id:
        raise ValueError(f"the approval handler answered request {answer.request_id}, not {request.request_id}")
    if answer.fingerprint and answer.fingerprint != request.action.fingerprint:
        raise ApprovalChangedError(
            f"the approval handler answered request {request.request_id} with the fingerprint of another action",
            approval_id=request.request_id,
        )
    return answer if request.editable else replace(answer, edited_arguments=None)


async def _run_in_thread(call: Callable[[], Any]) -> Any:
    """Call a function in a thread of its own. If the wait is canceled, the thread blocks neither other calls nor the exit."""
    runner = ToolRunner(max_workers=1)
    try:
        return await runner.run(call)
    finally:
        await runner.aclose(grace_s=0)


def _is_async(handler: ApprovalHandler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def expired_decision(request: ApprovalRequest) -> ApprovalDecision:
    """Return the denial of an expired request."""
    return ApprovalDecision(False, request.request_id, EXPIRED, expired=True)


def answer_summary(decision: ApprovalDecision) -> str:
    """Return one line of text about an answer."""
    verdict = "approved" if decision.approved else "denied"
    by = f" by {decision.decided_by}" if decision.decided_by else ""
    return f"{verdict}{by}: {decision.reason}" if decision.reason else f"{verdict}{by}"


def answer_event(request: ApprovalRequest, decision: ApprovalDecision, request_id: str = "") -> RunEvent:
    """Return the event that records an answer.

    Args:
        request_id: Request id of the RPC that brought the answer.
    """
    payload = ApprovalDecided(decision, request_id)
    return RunEvent(payload=payload, action_id=request.action.action_id, summary=answer_summary(decision))


def seconds_left(request: ApprovalRequest, now_micros: int) -> float | None:
    """Return the seconds until the request expires, 0 if it has expired; None means never."""
    if request.expires_at is None:
        return None
    return max(0.0, (micros_from_iso(request.expires_at) - now_micros) / 1e6)


async def first_answer(
    request: ApprovalRequest,
    context: RunContext,
    *,
    handler: ApprovalHandler | None,
    outside: Callable[[], Awaitable[ApprovalDecision]],
    timeout_s: float | None,
) -> tuple[ApprovalDecision, bool]:
    """Return the first answer to a request, and whether it is from `outside`. The answer of a timeout is `expired_decision`.

    Args:
        outside: Waits for a remote answer, which is already recorded when it returns.
        timeout_s: Maximum wait in seconds; None means no limit.

    Raises:
        Exception: Any exception of the handler, or of `call_handler`.
    """
    remote = asyncio.ensure_future(outside())
    waits: set[asyncio.Future[ApprovalDecision]] = {remote}
    if handler is not None:
        waits.add(asyncio.ensure_future(call_handler(handler, request, context)))
    try:
        done, _ = await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if remote in done:
            return remote.result(), True
        for answer in done:
            return answer.result(), False
        return expired_decision(request), False
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
