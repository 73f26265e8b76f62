"""Asking somebody: the approval handler of the application, or whoever answers from outside, whoever is first."""

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
"""What an application brings to answer approvals: sync ones run on a thread, where they may block."""

EXPIRED = "nobody answered in time"


async def answer_of(handler: ApprovalHandler, request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
    """What the handler says about a request. It sees copies: nothing that it does to them changes what will run.

    Raises:
        ValueError: It answers another request.
        TypeError: Its answer is neither an ApprovalDecision nor a bool.
        ApprovalChangedError: Its answer has the fingerprint of another action.
    """
    seen = ApprovalRequest.from_dict(request.to_dict())
    if _is_async(handler):
        answer: Any = handler(seen, context.copy())
    else:
        answer = await _on_a_thread(functools.partial(handler, seen, context.copy()))
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
            f"the approval handler answered request {request.request_id} as if it asked for another action",
            request_id=request.request_id,
        )
    return answer if request.editable else replace(answer, edited_arguments=None)


async def _on_a_thread(call: Callable[[], Any]) -> Any:
    """Call it on a thread that keeps nothing waiting, should the answer come from elsewhere first: neither others nor the exit."""
    runner = ToolRunner(max_workers=1)
    try:
        return await runner.run(call)
    finally:
        await runner.aclose(grace_s=0)


def _is_async(handler: ApprovalHandler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def expired(request: ApprovalRequest) -> ApprovalDecision:
    """The answer that time gives."""
    return ApprovalDecision(False, request.request_id, EXPIRED, metadata={"expired": True})


def said_about(decision: ApprovalDecision) -> str:
    """One line for people about an answer."""
    verdict = "approved" if decision.approved else "denied"
    by = f" by {decision.decided_by}" if decision.decided_by else ""
    return f"{verdict}{by}: {decision.reason}" if decision.reason else f"{verdict}{by}"


def decided(request: ApprovalRequest, decision: ApprovalDecision, request_id: str = "") -> RunEvent:
    """The answer as the fact that it is, wherever it was given."""
    return RunEvent(
        payload=ApprovalDecided(decision, request_id), action_id=request.action.action_id, summary=said_about(decision)
    )


def seconds_left(request: ApprovalRequest, now_micros: int) -> float | None:
    """Until the question goes stale, 0 when it has; None means never."""
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
    """The first answer to a request, and whether it came from outside, where it is recorded already.

    An answer that is edited where nothing may be edited keeps the asked arguments.

    Raises:
        Whatever the handler raises, and what `answer_of` raises about its answer.
    """
    remote = asyncio.ensure_future(outside())
    waits: set[asyncio.Future[ApprovalDecision]] = {remote}
    if handler is not None:
        waits.add(asyncio.ensure_future(answer_of(handler, request, context)))
    try:
        done, _ = await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if remote in done:
            return remote.result(), True
        for answered in done:
            return answered.result(), False
        return expired(request), False
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
