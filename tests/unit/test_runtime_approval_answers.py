"""Answers to approvals: from the handler of the application and from remote callers; the first answer counts."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from protolink_grpc.errors import ApprovalChangedError
from protolink_grpc.models import PolicyDecision, PolicyEffect, RunAction, RunContext
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest, ApprovalState
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.runtime.actions.approval_answers import (
    answer_summary,
    call_handler,
    expired_decision,
    first_answer,
    seconds_left,
)

VERDICT = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it costs money", metadata={"rule": ["money"]})
PATIENCE_S = 20.0


def request_of(**fields: Any) -> ApprovalRequest:
    action = RunAction("tool.call", "buy", {"arguments": {"amount": [3]}}, frozenset({"money.spend"}))
    return ApprovalRequest(action, VERDICT, run_id="run-1", request_id="r1", **fields)


CONTEXT = RunContext(run_id="run-1", permissions={"money.spend": "ask"})


async def silence() -> ApprovalDecision:
    never: asyncio.Future[ApprovalDecision] = asyncio.get_running_loop().create_future()
    return await never


async def ask(
    handler: Any,
    outside: Callable[[], Awaitable[ApprovalDecision]] = silence,
    *,
    timeout_s: float | None = None,
    **fields: Any,
) -> tuple[ApprovalDecision, bool]:
    async with asyncio.timeout(PATIENCE_S):
        return await first_answer(request_of(**fields), CONTEXT, handler=handler, outside=outside, timeout_s=timeout_s)


def yes(request: ApprovalRequest, context: RunContext) -> bool:
    return True


# The handler


@pytest.mark.parametrize("approved", [True, False])
async def test_a_bool_is_an_answer_of_the_handler(approved: bool) -> None:
    decision = await call_handler(lambda request, context: approved, request_of(), CONTEXT)
    assert (decision.approved, decision.request_id, decision.decided_by) == (approved, "r1", "approval_handler")


async def test_a_sync_handler_may_block_without_holding_up_the_loop() -> None:
    go, threads = threading.Event(), list[threading.Thread]()

    def blocks(request: ApprovalRequest, context: RunContext) -> bool:
        threads.append(threading.current_thread())
        return go.wait(PATIENCE_S)

    asking = asyncio.ensure_future(call_handler(blocks, request_of(), CONTEXT))
    while not threads:
        await asyncio.sleep(0)
    assert not asking.done()
    go.set()
    assert (await asking).approved
    assert threads[0] is not threading.main_thread()


class ByMethod:
    async def __call__(self, request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        return ApprovalDecision(True, request.request_id, "fine", decided_by="ann")


async def by_coroutine(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
    return ApprovalDecision(True, request.request_id, "fine", decided_by="ann")


def by_awaitable(request: ApprovalRequest, context: RunContext) -> Awaitable[ApprovalDecision]:
    return by_coroutine(request, context)


@pytest.mark.parametrize("handler", [by_coroutine, by_awaitable, ByMethod()], ids=["async", "awaitable", "object"])
async def test_a_handler_may_be_async_in_any_way(handler: Any) -> None:
    decision = await call_handler(handler, request_of(), CONTEXT)
    assert (decision.approved, decision.reason, decision.decided_by) == (True, "fine", "ann")


async def test_an_async_handler_runs_on_the_loop() -> None:
    loops: list[object] = []

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        loops.append(asyncio.get_running_loop())
        return True

    await call_handler(handler, request_of(), CONTEXT)
    assert loops == [asyncio.get_running_loop()]


async def test_a_handler_sees_everything_and_can_change_nothing() -> None:
    request, seen = request_of(), list[ApprovalRequest]()

    def meddles(shown: ApprovalRequest, context: RunContext) -> bool:
        assert (shown.to_dict(), context.to_dict()) == (request.to_dict(), CONTEXT.to_dict())
        seen.append(shown)
        shown.action.payload["arguments"]["amount"].append(1000)
        shown.policy_decision.metadata["rule"].append("none")
        context.permissions.clear()
        return True

    before, fingerprint = request.to_dict(), request.action.fingerprint
    await call_handler(meddles, request, CONTEXT)
    assert seen
    assert (request.to_dict(), request.action.fingerprint) == (before, fingerprint)
    assert CONTEXT.permissions == {"money.spend": "ask"}


async def test_an_answer_to_another_request_is_an_error() -> None:
    with pytest.raises(ValueError, match="answered request r2, not r1"):
        await call_handler(lambda request, context: ApprovalDecision(True, "r2"), request_of(), CONTEXT)


async def test_an_answer_about_another_action_is_refused() -> None:
    def stale(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        return ApprovalDecision(True, request.request_id, fingerprint="that of what was shown yesterday")

    def fresh(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        return ApprovalDecision(True, request.request_id, fingerprint=request.action.fingerprint)

    with pytest.raises(ApprovalChangedError, match="r1"):
        await call_handler(stale, request_of(), CONTEXT)
    assert (await call_handler(fresh, request_of(), CONTEXT)).approved


@pytest.mark.parametrize("answer", [None, 1, "yes", {"approved": True}])
async def test_an_answer_of_another_type_is_an_error_and_never_a_yes(answer: Any) -> None:
    with pytest.raises(TypeError, match=f"not {type(answer).__name__}"):
        await call_handler(lambda request, context: answer, request_of(), CONTEXT)


@pytest.mark.parametrize("editable", [True, False])
async def test_a_handler_edits_only_where_that_is_allowed(editable: bool) -> None:
    def edits(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        return ApprovalDecision(True, request.request_id, edited_arguments={"amount": 1})

    decision = await call_handler(edits, request_of(editable=editable), CONTEXT)
    assert decision.approved
    assert decision.edited_arguments == ({"amount": 1} if editable else None)


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_what_a_handler_raises_rises(asynchronous: bool) -> None:
    def raises(request: ApprovalRequest, context: RunContext) -> bool:
        raise ZeroDivisionError("the approver is broken")

    async def raises_later(request: ApprovalRequest, context: RunContext) -> bool:
        raise ZeroDivisionError("the approver is broken")

    with pytest.raises(ZeroDivisionError):
        await ask(raises_later if asynchronous else raises)


# The first answer


async def test_the_handler_is_heard_while_nobody_answers_from_outside() -> None:
    decision, recorded = await ask(yes)
    assert (decision.approved, recorded) == (True, False)


async def test_an_answer_from_outside_counts_while_the_handler_thinks_and_is_recorded_already() -> None:
    canceled = asyncio.Event()

    async def thinks(request: ApprovalRequest, context: RunContext) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            canceled.set()
        return True

    async def outside() -> ApprovalDecision:
        return ApprovalDecision(False, "r1", "from outside")

    decision, recorded = await ask(thinks, outside)
    assert (decision.reason, recorded, canceled.is_set()) == ("from outside", True, True)


async def test_of_two_answers_at_once_the_recorded_one_counts() -> None:
    async def outside() -> ApprovalDecision:
        return ApprovalDecision(False, "r1", "from outside")

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        return True

    assert (await ask(handler, outside))[0].reason == "from outside"


async def test_a_sync_handler_that_never_answers_keeps_neither_the_run_nor_the_process() -> None:
    go, thread = threading.Event(), list[threading.Thread]()

    def blocks(request: ApprovalRequest, context: RunContext) -> bool:
        thread.append(threading.current_thread())
        return go.wait()

    async def outside() -> ApprovalDecision:
        while not thread:
            await asyncio.sleep(0)
        return ApprovalDecision(True, "r1", "from outside")

    decision, _ = await ask(blocks, outside)
    assert decision.reason == "from outside"
    # The interpreter waits for no daemon thread.
    assert thread[0].is_alive()
    assert thread[0].daemon
    go.set()
    await asyncio.to_thread(thread[0].join, PATIENCE_S)


async def test_time_answers_no_where_nobody_else_does() -> None:
    decision, recorded = await ask(None, timeout_s=0.001)
    assert (decision.approved, decision.state, recorded) == (False, ApprovalState.EXPIRED, False)
    assert decision.request_id == "r1"


async def test_an_answer_that_is_there_counts_though_the_time_is_over() -> None:
    async def outside() -> ApprovalDecision:
        return ApprovalDecision(True, "r1", "just in time")

    assert (await ask(None, outside, timeout_s=0.0))[0].reason == "just in time"


async def test_who_stops_waiting_leaves_nobody_behind() -> None:
    begun: asyncio.Queue[str] = asyncio.Queue()
    ended: list[str] = []

    async def waits(name: str) -> Any:
        begun.put_nowait(name)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        return bool(await waits("handler"))

    asking = asyncio.ensure_future(ask(handler, lambda: waits("outside")))
    await begun.get()
    await begun.get()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert sorted(ended) == ["handler", "outside"]


# Time and words


def test_how_long_a_question_is_open_is_never_negative() -> None:
    asked = request_of()
    now = micros_from_iso(asked.created_at)
    assert seconds_left(asked, now) is None
    open_until = request_of(expires_at=iso_from_micros(now + 2_500_000))
    assert [seconds_left(open_until, now + later) for later in (0, 2_000_000, 2_500_000, 9_000_000)] == [2.5, 0.5, 0, 0]


def test_what_is_answer_summary_an_answer_names_who_gave_it_and_why() -> None:
    assert answer_summary(ApprovalDecision(True, "r1")) == "approved"
    assert answer_summary(ApprovalDecision(False, "r1", "too dear", "ann")) == "denied by ann: too dear"
    assert answer_summary(expired_decision(request_of())) == "denied: the approval expired"
