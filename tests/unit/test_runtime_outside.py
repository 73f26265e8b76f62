"""Actions outside of tasks: the ActionAuthorizer of an application, calls with a context, and runs with fewer permissions."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from runtime_scene import ActionContext, actions_of

from protolink_grpc.errors import (
    ActionDeniedError,
    ApprovalChangedError,
    ApprovalDeniedError,
    ApprovalRequiredError,
    BudgetExceededError,
    ToolRejectedError,
)
from protolink_grpc.models import Artifact, Part, PolicyDecision, PolicyEffect, RunAction, RunBudget, RunContext
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest
from protolink_grpc.models.events import RunEvent
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.policy.capabilities import CapabilityPolicy
from protolink_grpc.runtime.actions.outside import ActionAuthorizer, NarrowedContext, StandaloneContext
from protolink_grpc.runtime.controls import Controls
from protolink_grpc.tools.context import ToolContext
from protolink_grpc.tools.tool import Tool

ASK = CapabilityPolicy({"calendar.write": "ask"})
EDITABLE = CapabilityPolicy({"calendar.write": {"effect": "ask", "editable": True}})
PATIENCE_S = 20.0


def action(**fields: Any) -> RunAction:
    payload = {"arguments": {"title": ["Review"]}}
    return RunAction("calendar.create", "create_event", **{"payload": payload, **fields}).with_capabilities(
        ["calendar.write"]
    )


class Told:
    """The observer of each step, and the facts that were known at the request for an approval."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    async def __call__(self, event: RunEvent) -> None:
        await asyncio.sleep(0)
        self.events.append(event)


# ActionAuthorizer


async def test_an_allowed_action_is_authorized_without_asking() -> None:
    told, wanted = Told(), action()
    authorization = await ActionAuthorizer(event_callback=told).authorize(wanted, RunContext())
    assert authorization.action == wanted
    assert (authorization.decision.effect, authorization.approval) == (PolicyEffect.ALLOW, None)
    assert told.types == ["action.requested", "action.policy"]


async def test_without_a_context_the_policy_alone_decides() -> None:
    with pytest.raises(ActionDeniedError):
        await ActionAuthorizer(CapabilityPolicy(default_effect="deny")).authorize(action())


async def test_the_steps_of_an_approval_are_told_in_the_order_in_which_they_happen() -> None:
    told, seen = Told(), list[list[str]]()

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        seen.append(told.types)
        return True

    wanted = action()
    authorization = await ActionAuthorizer(ASK, handler, event_callback=told).authorize(wanted, RunContext())
    assert seen == [["action.requested", "action.policy", "approval.required"]]
    assert told.types == [*seen[0], "approval.decided"]
    assert {event.action_id for event in told.events} == {wanted.action_id}
    assert authorization.approval is not None
    assert authorization.approval.approved


async def test_a_denial_is_told_and_raised_with_its_reason() -> None:
    told = Told()

    def handler(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        return ApprovalDecision(False, request.request_id, "not in my calendar", decided_by="ann")

    with pytest.raises(ApprovalDeniedError, match="not in my calendar") as error:
        await ActionAuthorizer(ASK, handler, event_callback=told).authorize(action(), RunContext())
    assert told.types[-2:] == ["approval.decided", "action.denied"]
    assert error.value.approval.decided_by == "ann"
    assert error.value.decision.effect is PolicyEffect.REQUIRE_APPROVAL


async def test_without_a_handler_an_approval_fails_closed_and_carries_the_request() -> None:
    told, wanted = Told(), action()
    with pytest.raises(ApprovalRequiredError) as error:
        await ActionAuthorizer(ASK, event_callback=told).authorize(wanted, RunContext(run_id="run-1"))
    assert (error.value.request.action, error.value.request.run_id) == (wanted, "run-1")
    assert told.types == ["action.requested", "action.policy", "approval.required", "action.denied"]


async def test_permissions_of_the_context_make_the_policy_stricter() -> None:
    with pytest.raises(ApprovalRequiredError):
        await ActionAuthorizer().authorize(action(), RunContext(permissions={"calendar.write": "ask"}))


async def test_a_canceled_context_authorizes_nothing() -> None:
    with pytest.raises(ActionDeniedError, match="canceled"):
        await ActionAuthorizer().authorize(action(), RunContext().cancel("enough"))


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("answer", [True, False])
async def test_handlers_may_be_sync_or_async_and_answer_with_a_bool(asynchronous: bool, answer: bool) -> None:
    async def later(request: ApprovalRequest, context: RunContext) -> bool:
        return answer

    handler: Any = later if asynchronous else lambda request, context: answer
    authorizing = ActionAuthorizer(ASK, handler).authorize(action(), RunContext())
    if answer:
        assert (await authorizing).approval is not None
    else:
        with pytest.raises(ActionDeniedError):
            await authorizing


async def test_an_answer_to_another_request_is_an_error() -> None:
    authorizer = ActionAuthorizer(ASK, lambda request, context: ApprovalDecision(True, "another"))
    with pytest.raises(ValueError, match="another"):
        await authorizer.authorize(action(), RunContext())


async def test_an_answer_of_another_type_is_an_error() -> None:
    handler: Any = lambda request, context: "yes"  # noqa: E731 -- a function of the wrong type
    with pytest.raises(TypeError, match="not str"):
        await ActionAuthorizer(ASK, handler).authorize(action(), RunContext())


async def test_an_action_that_its_owner_changes_while_it_waits_is_refused() -> None:
    wanted = action()

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        wanted.payload["arguments"]["title"].append("and my neighbour's")
        return True

    with pytest.raises(ApprovalChangedError):
        await ActionAuthorizer(ASK, handler).authorize(wanted, RunContext())


async def test_a_handler_can_change_neither_the_action_nor_the_context() -> None:
    wanted, context = action(), RunContext(permissions={"calendar.write": "ask"})

    async def handler(request: ApprovalRequest, seen: RunContext) -> bool:
        request.action.payload["arguments"]["title"].append("more")
        seen.permissions.clear()
        return True

    authorization = await ActionAuthorizer(ASK, handler).authorize(wanted, context)
    assert authorization.action.payload == {"arguments": {"title": ["Review"]}}
    assert context.permissions == {"calendar.write": "ask"}


@pytest.mark.parametrize("policy", [ASK, EDITABLE], ids=["fixed", "editable"])
async def test_arguments_are_edited_only_where_policy_allows_it(policy: CapabilityPolicy) -> None:
    def handler(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        return ApprovalDecision(True, request.request_id, edited_arguments={"title": "Lunch"})

    wanted = action()
    authorized = (await ActionAuthorizer(policy, handler).authorize(wanted, RunContext())).action
    expected = {"title": "Lunch"} if policy is EDITABLE else {"title": ["Review"]}
    assert (authorized.payload["arguments"], authorized.action_id) == (expected, wanted.action_id)


async def test_previews_are_in_the_question() -> None:
    wanted = action().with_artifacts([Artifact(name="event", parts=[Part.text("Review, 3 pm")])])
    asked: list[ApprovalRequest] = []

    def handler(request: ApprovalRequest, context: RunContext) -> bool:
        asked.append(request)
        return True

    await ActionAuthorizer(ASK, handler).authorize(wanted, RunContext())
    (preview,) = asked[0].action.artifacts
    assert (preview.name, preview.action_id) == ("event", wanted.action_id)


async def test_a_question_that_expires_counts_as_no() -> None:
    policy = CapabilityPolicy({"calendar.write": {"effect": "ask", "expires_s": 0.001}})

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        await asyncio.Event().wait()
        return True

    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ApprovalDeniedError, match="the approval expired"):
            await ActionAuthorizer(policy, handler).authorize(action(), RunContext())


async def test_a_callback_may_be_sync() -> None:
    events: list[RunEvent] = []
    await ActionAuthorizer(event_callback=events.append).authorize(action(), RunContext())
    assert [event.type for event in events] == ["action.requested", "action.policy"]


# Calls outside of a task


def tool_of(seen: list[ToolContext]) -> Tool:
    async def create_event(title: str, context: ToolContext) -> str:
        seen.append(context)
        return f"created {title}"

    return Tool.from_callable(create_event, capabilities=["calendar.write"])


def detached(context: RunContext, *, handler: Any = None, budget: RunBudget | None = None) -> StandaloneContext:
    return StandaloneContext(context, BudgetEnforcer(budget or RunBudget()), Controls(approval_handler=handler), "ann")


async def test_a_call_outside_of_a_task_runs_under_its_context() -> None:
    seen: list[ToolContext] = []
    actions = actions_of(tool_of(seen))
    action_context = detached(RunContext(run_id="run-1", session_id="s", agent_chain=["agent"]))
    outcome = await actions.call_tool(action_context, "create_event", {"title": "Review"}, position="")
    assert outcome.value() == "created Review"
    assert (seen[0].task_id, seen[0].run_id, seen[0].session_id) == ("", "run-1", "s")
    assert (seen[0].agent_name, seen[0].principal) == ("agent", "ann")


async def test_a_call_outside_of_a_task_is_checked_judged_and_charged_like_any_other() -> None:
    actions, context = actions_of(tool_of([]), policy=ASK), RunContext()
    with pytest.raises(ToolRejectedError):
        await actions.call_tool(detached(context), "create_event", {"title": 3}, position="")
    with pytest.raises(ApprovalRequiredError):
        await actions.call_tool(detached(context), "create_event", {"title": "Review"}, position="")
    action_context = detached(context, handler=lambda request, context: True, budget=RunBudget(max_tool_calls=1))
    await actions.call_tool(action_context, "create_event", {"title": "Review"}, position="")
    with pytest.raises(BudgetExceededError):
        await actions.call_tool(action_context, "create_event", {"title": "Review"}, position="")


async def test_a_call_in_a_canceled_context_is_denied_and_cancels_nobody() -> None:
    seen: list[ToolContext] = []
    run: Any = ActionContext()
    for action_context in (
        detached(RunContext().cancel("enough")),
        NarrowedContext(run, RunContext().cancel("enough")),
    ):
        with pytest.raises(ActionDeniedError, match="canceled"):
            await actions_of(tool_of(seen)).call_tool(action_context, "create_event", {"title": "Review"}, position="")
    assert seen == []


async def test_the_clock_of_the_budget_stands_while_a_person_thinks() -> None:
    now = [0.0]

    def handler(request: ApprovalRequest, context: RunContext) -> bool:
        now[0] += 1000
        return True

    budget = BudgetEnforcer(RunBudget(max_runtime_seconds=1), clock=lambda: now[0])
    action_context = StandaloneContext(RunContext(), budget, Controls(approval_handler=handler))
    await actions_of(tool_of([]), policy=ASK).call_tool(
        action_context, "create_event", {"title": "Review"}, position=""
    )
    assert budget.usage.runtime_seconds == 0


# A run under a narrower context


class Open:
    """A policy that allows everything and remembers under which permissions it was asked."""

    def __init__(self) -> None:
        self.seen: list[RunContext] = []

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        self.seen.append(context)
        return PolicyDecision(PolicyEffect.ALLOW)


Permissions = dict[str, Any]


@pytest.mark.parametrize(
    ("ours", "theirs", "allowed"),
    [
        ({}, {}, True),
        ({}, {"calendar.write": False}, False),
        ({"calendar.write": False}, {"calendar.write": True, "default": True}, False),
        ({"calendar.write": True}, {"calendar.*": "deny"}, False),
        ({"calendar.write": True}, {"mail.*": "deny"}, True),
    ],
)
async def test_a_context_can_take_permissions_away_and_give_none(
    ours: Permissions, theirs: Permissions, allowed: bool
) -> None:
    run: Any = ActionContext(context=RunContext(run_id="run-1", permissions=ours))
    action_context = NarrowedContext(run, RunContext(run_id="of the caller's", permissions=theirs))
    seen: list[ToolContext] = []
    call: Callable[[], Any] = lambda: actions_of(tool_of(seen), policy=Open()).call_tool(  # noqa: E731 -- called once
        action_context, "create_event", {"title": "Review"}, position="p"
    )
    if allowed:
        assert (await call()).value() == "created Review"
        assert seen[0].run_id == "run-1"
    else:
        with pytest.raises(ActionDeniedError):
            await call()
        assert seen == []


async def test_a_narrowed_run_reports_asks_charges_and_is_canceled_as_the_run_that_it_is() -> None:
    run = ActionContext(
        lambda request: ApprovalDecision(True, request.request_id),
        context=RunContext(metadata={"a": 1, "b": 1}),
        budget=RunBudget(max_tool_calls=5),
    )
    policy = Open()
    given: Any = run
    action_context = NarrowedContext(given, RunContext(permissions={"calendar.write": "ask"}, metadata={"b": 2}))
    await actions_of(tool_of([]), policy=policy).call_tool(
        action_context, "create_event", {"title": "Review"}, position="p"
    )
    assert run.types == [
        "action.requested",
        "action.policy",
        "approval.required",
        "approval.decided",
        "action.started",
        "action.completed",
    ]
    assert (len(run.asked), run.budget.usage.tool_calls) == (1, 1)
    assert policy.seen[0].metadata == {"a": 1, "b": 2}
    assert run.context.permissions == {}
    run.token.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await actions_of(tool_of([])).call_tool(action_context, "create_event", {"title": "Review"}, position="q")
