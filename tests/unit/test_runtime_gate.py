"""The gate: each path of an action from its preparation to its end, and after a crash."""

import asyncio
import datetime
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator
from runtime_scene import ActionContext, actions_of, journal_of, no, yes

from protolink_grpc.errors import (
    ActionDeniedError,
    ApprovalChangedError,
    ApprovalDeniedError,
    ApprovalRequiredError,
    BudgetExceededError,
    InvalidArgumentError,
    ToolFailedError,
    ToolRejectedError,
    ToolTimeoutError,
    UnavailableError,
    UncertainExecutionError,
)
from protolink_grpc.models import Artifact, Part, PolicyDecision, PolicyEffect, RunAction, RunBudget, RunContext
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.events import ActionEnded, ActionRequested, ApprovalRequired, RunEvent
from protolink_grpc.models.failure import FailureCategory
from protolink_grpc.policy.capabilities import CapabilityPolicy
from protolink_grpc.runtime.actions.delegation import Actions
from protolink_grpc.runtime.actions.gate import ActionResult, Gate, Outcome, PreparedAction
from protolink_grpc.runtime.facts import fact_from
from protolink_grpc.tools.context import ToolContext
from protolink_grpc.tools.tool import Tool

ASK = CapabilityPolicy({"money.spend": "ask"})
EDITABLE = CapabilityPolicy({"money.spend": {"effect": "ask", "editable": True}})
DENY = CapabilityPolicy({"money.spend": "deny"})

REQUESTED = ["action.requested", "action.policy"]
RAN = ["action.started", "action.completed"]
ASKED = ["approval.required", "approval.decided"]


class Shop:
    """A tool that spends money, and what became of it."""

    def __init__(self) -> None:
        self.sold: list[int] = []
        self.contexts: list[ToolContext] = []
        self.during: Callable[[], object] = lambda: None
        self.error: Exception | None = None

    async def buy(self, amount: int, context: ToolContext) -> str:
        """Spend money."""
        self.contexts.append(context)
        self.sold.append(amount)
        self.during()
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return f"bought {amount}"

    def actions(self, policy: Any = None, *, expires_s: float | None = None, **tool: Any) -> Actions:
        made = Tool.from_callable(self.buy, **{"capabilities": ["money.spend"], **tool})
        return actions_of(made, policy=policy, expires_s=expires_s)


async def buy(actions: Actions, action_context: ActionContext, amount: Any = 3) -> Outcome:
    return await actions.call_tool(action_context, "buy", {"amount": amount}, position="here", call_id="call-1")


# Policy and approval


async def test_an_allowed_action_is_requested_judged_started_and_ended_in_this_order() -> None:
    shop, action_context = Shop(), ActionContext()
    outcome = await buy(shop.actions(), action_context)
    assert action_context.types == [*REQUESTED, *RAN]
    assert (outcome.value(), shop.sold) == ("bought 3", [3])
    assert {event.action_id for event in action_context.log} == {outcome.action_id}
    requested = action_context.payload("action.requested")
    assert (requested.position, requested.action.payload) == ("here", {"arguments": {"amount": 3}})
    assert requested.action.capabilities == {"money.spend"}
    started, ended = action_context.payload("action.started"), action_context.payload("action.completed")
    assert (started.kind, started.name, started.arguments) == ("tool.call", "buy", {"amount": 3})
    assert (ended.result, ended.error) == ("bought 3", None)


def test_a_handler_cannot_emit_a_type_that_contradicts_the_outcome() -> None:
    event = RunEvent("action.completed", ActionEnded("tool.call", "buy", outcome="failed"))
    with pytest.raises(InvalidArgumentError) as refused:
        fact_from(event)
    assert refused.value.field == "type"
    assert fact_from(replace(event, type="action.failed")).type == "action.failed"


async def test_an_action_is_on_disk_before_it_begins() -> None:
    shop, action_context = Shop(), ActionContext()
    seen: list[tuple[int, str]] = []
    shop.during = lambda: seen.append((action_context.committed, action_context.types[-1]))
    await buy(shop.actions(), action_context)
    assert seen == [(3, "action.started")]


async def test_a_read_only_action_waits_for_no_disk() -> None:
    shop, action_context = Shop(), ActionContext()
    seen: list[int] = []
    shop.during = lambda: seen.append(action_context.committed)
    await buy(shop.actions(read_only=True), action_context)
    assert seen == [0]


async def test_a_tool_learns_under_which_identity_it_runs() -> None:
    shop, action_context = Shop(), ActionContext()
    outcome = await buy(shop.actions(), action_context)
    (context,) = shop.contexts
    assert context.action_id == outcome.action_id
    assert (context.task_id, context.run_id, context.session_id) == ("task-1", "run-1", "session-1")
    assert (context.agent_name, context.principal, context.call_id) == ("agent", "ann", "call-1")
    assert context.cancellation is action_context.token


async def test_a_denied_action_never_begins() -> None:
    shop, action_context = Shop(), ActionContext()
    with pytest.raises(ActionDeniedError, match="money") as error:
        await buy(shop.actions(DENY), action_context)
    assert (action_context.types, shop.sold) == ([*REQUESTED, "action.denied"], [])
    assert error.value.action.name == "buy"
    assert error.value.decision.effect is PolicyEffect.DENY
    assert error.value.approval is None
    refusal = action_context.payload("action.denied").error
    assert (refusal["code"], refusal["changes_made"]) == ("ACTION_DENIED", False)
    assert action_context.log[-1].severity == "error"


async def test_the_permissions_of_a_context_deny_what_the_policy_allows() -> None:
    shop = Shop()
    action_context = ActionContext(context=RunContext(permissions={"money.*": False}))
    with pytest.raises(ActionDeniedError):
        await buy(shop.actions(CapabilityPolicy(default_effect="allow")), action_context)
    assert shop.sold == []


async def test_the_permissions_of_a_context_allow_nothing_that_the_policy_denies() -> None:
    shop = Shop()
    action_context = ActionContext(context=RunContext(permissions={"money.spend": True, "default": True}))
    with pytest.raises(ActionDeniedError):
        await buy(shop.actions(DENY), action_context)
    assert shop.sold == []


async def test_the_question_is_on_disk_before_it_is_asked() -> None:
    shop, action_context = Shop(), ActionContext(yes)
    assert (await buy(shop.actions(ASK), action_context)).value() == "bought 3"
    assert action_context.types == [*REQUESTED, *ASKED, *RAN]
    ((request, committed),) = action_context.asked
    assert action_context.types[:committed][-1] == "approval.required"
    assert (request.task_id, request.run_id) == ("task-1", "run-1")
    assert request.action == action_context.payload("action.requested").action
    assert request.policy_decision.matched_capabilities == ("money.spend",)
    assert (request.editable, request.expires_at) == (False, None)


async def test_what_a_person_denies_does_not_run_and_says_why() -> None:
    shop, action_context = Shop(), ActionContext(no)
    with pytest.raises(ApprovalDeniedError, match="not today") as error:
        await buy(shop.actions(ASK), action_context)
    assert (action_context.types, shop.sold) == ([*REQUESTED, *ASKED, "action.denied"], [])
    assert error.value.approval.decided_by == "ann"
    assert action_context.payload("action.denied").error["code"] == "APPROVAL_DENIED"


async def test_an_answer_that_time_gave_counts_as_no() -> None:
    def late(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(False, request.request_id, "the approval expired", expired=True)

    shop, action_context = Shop(), ActionContext(late)
    with pytest.raises(ApprovalDeniedError, match="the approval expired"):
        await buy(shop.actions(ASK), action_context)
    assert shop.sold == []


@pytest.mark.parametrize(("rule_s", "gate_s", "expected"), [(5.0, 60.0, 5.0), (None, 60.0, 60.0), (None, None, None)])
async def test_a_question_is_open_as_long_as_the_rule_says_or_else_the_agent(
    rule_s: float | None, gate_s: float | None, expected: float | None
) -> None:
    policy = CapabilityPolicy({"money.spend": {"effect": "ask", "expires_s": rule_s} if rule_s else "ask"})
    action_context = ActionContext(yes)
    await buy(Shop().actions(policy, expires_s=gate_s), action_context)
    request = action_context.asked[0][0]
    if expected is None:
        assert request.expires_at is None
    else:
        assert request.expires_at is not None
        assert micros_from_iso(request.expires_at) - micros_from_iso(request.created_at) == expected * 1e6


async def test_nobody_to_ask_keeps_the_action_from_running_and_shows_the_question() -> None:
    shop, action_context = Shop(), ActionContext(None)
    with pytest.raises(ApprovalRequiredError) as error:
        await buy(shop.actions(ASK), action_context)
    assert (action_context.types, shop.sold) == ([*REQUESTED, "approval.required", "action.denied"], [])
    assert error.value.request == action_context.payload("approval.required").request
    assert action_context.payload("action.denied").error["code"] == "APPROVAL_REQUIRED"


async def test_an_approver_who_raises_fails_the_action_with_his_error() -> None:
    def broken(request: ApprovalRequest) -> ApprovalDecision:
        raise ZeroDivisionError("the approver is broken")

    shop, action_context = Shop(), ActionContext(broken)
    with pytest.raises(ZeroDivisionError):
        await buy(shop.actions(ASK), action_context)
    assert (action_context.types, shop.sold) == ([*REQUESTED, "approval.required"], [])


def editing(**arguments: Any) -> Callable[[ApprovalRequest], ApprovalDecision]:
    return lambda request: ApprovalDecision(True, request.request_id, edited_arguments=arguments)


async def test_edited_arguments_are_what_runs_and_what_the_log_says() -> None:
    shop, action_context = Shop(), ActionContext(editing(amount=1))
    outcome = await buy(shop.actions(EDITABLE), action_context)
    assert (outcome.value(), shop.sold) == ("bought 1", [1])
    assert action_context.payload("action.started").arguments == {"amount": 1}
    assert action_context.payload("action.requested").action.payload == {"arguments": {"amount": 3}}
    assert {event.action_id for event in action_context.log} == {outcome.action_id}


@pytest.mark.parametrize("policy", [ASK, EDITABLE], ids=["fixed", "editable"])
async def test_a_question_says_whether_its_arguments_may_be_edited(policy: CapabilityPolicy) -> None:
    action_context = ActionContext(yes)
    await buy(Shop().actions(policy), action_context)
    assert action_context.asked[0][0].editable is (policy is EDITABLE)


async def test_edited_arguments_that_are_wrong_end_the_action_as_rejected() -> None:
    shop, action_context = Shop(), ActionContext(editing(amount="much"))
    with pytest.raises(ToolRejectedError) as error:
        await buy(shop.actions(EDITABLE), action_context)
    assert error.value.code == "invalid_arguments"
    assert (action_context.types, shop.sold) == ([*REQUESTED, *ASKED, "action.rejected"], [])


class Cheap:
    """Asks for everything, and denies what costs more than 5."""

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        if action.payload["arguments"]["amount"] > 5:
            return PolicyDecision(PolicyEffect.DENY, "too dear")
        return PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, metadata={"editable": True})


async def test_policy_judges_edited_arguments_too() -> None:
    shop, action_context = Shop(), ActionContext(editing(amount=6))
    with pytest.raises(ActionDeniedError, match="too dear") as error:
        await buy(shop.actions(Cheap()), action_context)
    assert (action_context.types[-1], shop.sold) == ("action.denied", [])
    assert type(error.value) is ActionDeniedError


# Policies, approvers and the log see the arguments that will run


class Seen:
    """A policy that asks for everything and keeps what it was shown, as does the approver."""

    def __init__(self) -> None:
        self.shown: list[tuple[Any, str]] = []

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        self.shown.append((action.payload["arguments"], _fingerprint(action)))
        return PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, metadata={"editable": True})

    def answer(self, request: ApprovalRequest) -> ApprovalDecision:
        self.shown.append((request.action.payload["arguments"], _fingerprint(request.action)))
        return yes(request)


def _fingerprint(action: RunAction) -> str:
    """Without what is new in each action."""
    return replace(action, action_id="one", created_at="").fingerprint


async def test_policy_preview_approval_and_log_see_the_arguments_that_run() -> None:
    ran: list[Any] = []
    seen = Seen()

    def book(nights: int, since: datetime.date, extras: set[str], breakfast: bool = True) -> None:
        ran.append((nights, since, extras, breakfast))

    def builder(arguments: dict[str, Any], context: RunContext) -> RunAction:
        seen.shown.append((arguments, ""))
        return RunAction("tool.call", "book", {"arguments": arguments})

    action_context = ActionContext(seen.answer)
    actions = actions_of(Tool.from_callable(book, action_builder=builder), policy=seen)
    await actions.call_tool(
        action_context, "book", {"nights": "3", "since": "2026-01-02", "extras": ["sea", "sea"]}, position="here"
    )
    assert ran == [(3, datetime.date(2026, 1, 2), {"sea"}, True)]
    expected = {"nights": 3, "since": "2026-01-02", "extras": ["sea"], "breakfast": True}
    assert [arguments for arguments, _ in seen.shown] == [expected] * 3
    assert action_context.payload("action.requested").action.payload["arguments"] == expected
    assert action_context.payload("action.started").arguments == expected


async def test_the_same_call_has_one_fingerprint_however_it_was_written() -> None:
    found = set()
    for amount in (3, "3", 3.0):
        seen = Seen()
        await buy(Shop().actions(seen), ActionContext(yes), amount)
        found |= {fingerprint for _, fingerprint in seen.shown}
    assert len(found) == 1


async def test_a_policy_judges_an_amount_that_was_sent_as_text() -> None:
    shop = Shop()
    with pytest.raises(ActionDeniedError, match="too dear"):
        await buy(shop.actions(Cheap()), ActionContext(yes), "7")
    assert shop.sold == []


async def test_edited_arguments_are_converted_before_policy_judges_them() -> None:
    shop, action_context = Shop(), ActionContext(editing(amount="2"))
    await buy(shop.actions(Cheap()), action_context)
    assert (shop.sold, action_context.payload("action.started").arguments) == ([2], {"amount": 2})
    with pytest.raises(ActionDeniedError, match="too dear"):
        await buy(shop.actions(Cheap()), ActionContext(editing(amount="6")))


async def test_arguments_are_converted_once() -> None:
    ran: list[int] = []

    def pay(amount: Annotated[int, AfterValidator(lambda value: value + 1)]) -> None:
        ran.append(amount)

    action_context = ActionContext()
    await actions_of(Tool.from_callable(pay)).call_tool(action_context, "pay", {"amount": 1}, position="here")
    assert (ran, action_context.payload("action.started").arguments) == ([2], {"amount": 2})


async def test_edited_arguments_need_no_second_approval() -> None:
    shop, action_context = Shop(), ActionContext(editing(amount=5))
    await buy(shop.actions(Cheap()), action_context)
    assert (len(action_context.asked), shop.sold) == (1, [5])


async def test_an_action_that_changes_while_it_waits_does_not_run() -> None:
    payload: dict[str, Any] = {"arguments": {"amount": 1}}
    ran: list[RunAction] = []

    async def execute(action: RunAction) -> ActionResult:
        ran.append(action)
        return ActionResult()

    async def prepare() -> PreparedAction:
        return PreparedAction(RunAction("tool.call", "buy", payload, frozenset({"money.spend"})), execute)

    def meddling(request: ApprovalRequest) -> ApprovalDecision:
        payload["arguments"]["amount"] = 1000
        return yes(request)

    with pytest.raises(ApprovalChangedError, match="buy"):
        await Gate(ASK).perform(ActionContext(meddling), prepare)
    assert ran == []


async def test_a_policy_that_raises_denies_and_keeps_its_trace_to_itself() -> None:
    class Broken:
        async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            raise RuntimeError("the password is swordfish")

    shop, action_context = Shop(), ActionContext()
    with pytest.raises(ActionDeniedError, match="incident") as error:
        await buy(shop.actions(Broken()), action_context)
    assert "swordfish" not in str(error.value)
    assert shop.sold == []


async def test_what_a_policy_does_to_its_copies_changes_nothing() -> None:
    class Meddling:
        async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            action.payload["arguments"]["amount"] = 1000
            context.permissions["money.spend"] = True
            return PolicyDecision(PolicyEffect.ALLOW)

    shop, action_context = Shop(), ActionContext()
    await buy(shop.actions(Meddling()), action_context)
    assert (shop.sold, action_context.context.permissions) == ([3], {})


# Preparation


def built(**fields: Any) -> Callable[[dict[str, Any], RunContext], RunAction]:
    return lambda arguments, context: RunAction(
        **{"kind": "tool.call", "name": "buy", "payload": {"arguments": arguments}, **fields}
    )


async def test_a_builder_shows_more_of_an_action_and_stamps_its_previews() -> None:
    shown = Artifact(name="receipt", parts=[Part.text("3 euros")])
    builder = built(artifacts=(shown,), description="spend 3 euros", metadata={"currency": "EUR"})
    shop, action_context = Shop(), ActionContext(yes)
    outcome = await buy(shop.actions(ASK, action_builder=builder), action_context)
    request = action_context.asked[0][0]
    (preview,) = request.action.artifacts
    assert (preview.action_id, preview.parts) == (outcome.action_id, shown.parts)
    assert (request.action.description, request.action.metadata) == ("spend 3 euros", {"currency": "EUR"})
    assert shown.action_id is None


async def test_a_builder_may_be_async_and_gets_copies() -> None:
    arguments_of_caller = {"amount": 3}
    contexts: list[RunContext] = []

    async def builder(arguments: dict[str, Any], context: RunContext) -> RunAction:
        await asyncio.sleep(0)
        contexts.append(context)
        context.permissions["money.spend"] = False
        given = dict(arguments)
        arguments["amount"] = 1000
        return RunAction("tool.call", "buy", {"arguments": given})

    shop, action_context = Shop(), ActionContext()
    await shop.actions(action_builder=builder).call_tool(action_context, "buy", arguments_of_caller, position="")
    assert (shop.sold, arguments_of_caller, action_context.context.permissions) == ([3], {"amount": 3}, {})
    assert contexts[0].run_id == "run-1"


async def test_a_builder_may_change_the_arguments_and_those_run() -> None:
    builder = built(payload={"arguments": {"amount": 2}, "rounded": True})
    shop, action_context = Shop(), ActionContext()
    await buy(shop.actions(action_builder=builder), action_context)
    assert shop.sold == [2]
    assert action_context.payload("action.requested").action.payload == {"arguments": {"amount": 2}, "rounded": True}


async def test_a_builder_that_names_no_arguments_keeps_those_of_the_call() -> None:
    shop, action_context = Shop(), ActionContext()
    await buy(shop.actions(action_builder=built(payload={"to": "the shop"})), action_context)
    assert shop.sold == [3]
    assert action_context.payload("action.requested").action.payload == {"arguments": {"amount": 3}, "to": "the shop"}


async def test_a_builder_can_add_capabilities_and_drop_none() -> None:
    shop, action_context = Shop(), ActionContext()
    builder = built(capabilities=frozenset({"mail.send"}))
    with pytest.raises(ActionDeniedError):
        await buy(shop.actions(DENY, action_builder=builder), action_context)
    assert action_context.payload("action.requested").action.capabilities == {"money.spend", "mail.send"}


async def test_an_action_under_another_name_still_says_which_tool_it_runs() -> None:
    action_context = ActionContext()
    await buy(Shop().actions(action_builder=built(name="purchase")), action_context)
    action = action_context.payload("action.requested").action
    assert (action.name, action.metadata) == ("purchase", {"tool": "buy"})


@pytest.mark.parametrize(
    ("builder", "said"),
    [
        (lambda arguments, context: {"kind": "tool.call"}, "must return a RunAction, not dict"),
        (lambda arguments, context: 1 / 0, "division by zero"),
    ],
    ids=["another type", "raises"],
)
async def test_a_builder_that_fails_keeps_the_action_from_being_requested(builder: Any, said: str) -> None:
    shop, action_context = Shop(), ActionContext()
    with pytest.raises(ToolFailedError, match=said):
        await buy(shop.actions(action_builder=builder), action_context)
    assert (action_context.log, shop.sold) == ([], [])


async def test_a_builder_that_refuses_is_a_refusal() -> None:
    def builder(arguments: dict[str, Any], context: RunContext) -> RunAction:
        raise ToolRejectedError("closed on Sundays", code="closed")

    action_context = ActionContext()
    with pytest.raises(ToolRejectedError, match="Sundays"):
        await buy(Shop().actions(action_builder=builder), action_context)
    assert action_context.log == []


async def test_arguments_that_a_builder_made_wrong_are_refused() -> None:
    action_context = ActionContext()
    with pytest.raises(ToolRejectedError) as error:
        await buy(Shop().actions(action_builder=built(payload={"arguments": {"amount": "much"}})), action_context)
    assert (error.value.code, action_context.log) == ("invalid_arguments", [])


async def test_wrong_arguments_are_refused_before_anything_is_recorded_or_charged() -> None:
    shop, action_context = Shop(), ActionContext(budget=RunBudget(max_tool_calls=1))
    with pytest.raises(ToolRejectedError):
        await buy(shop.actions(), action_context, "much")
    assert (action_context.log, action_context.budget.usage.tool_calls) == ([], 0)
    with pytest.raises(ToolRejectedError, match="'sell' not found"):
        await shop.actions().call_tool(action_context, "sell", {}, position="here")


# Ends


async def test_a_tool_that_fails_is_an_outcome_that_says_so() -> None:
    shop, action_context = Shop(), ActionContext()
    shop.error = RuntimeError("out of stock")
    outcome = await buy(shop.actions(), action_context)
    assert action_context.types == [*REQUESTED, "action.started", "action.failed"]
    assert outcome.error == {
        "status": "failed",
        "code": "TOOL_FAILED",
        "message": "Tool 'buy' failed: RuntimeError: out of stock",
    }
    assert action_context.payload("action.failed").error == outcome.error | {"origin": "buy"}
    failure = action_context.payload("action.failed").failure
    assert (failure.category, failure.origin) == (FailureCategory.TOOL, "buy")
    with pytest.raises(ToolFailedError, match="out of stock"):
        outcome.value()


async def test_a_tool_that_refuses_is_an_outcome_that_says_that_nothing_was_changed() -> None:
    shop, action_context = Shop(), ActionContext()
    shop.error = ToolRejectedError("not for sale", code="closed", suggestion="come back tomorrow")
    outcome = await buy(shop.actions(), action_context)
    assert action_context.types == [*REQUESTED, "action.started", "action.rejected"]
    assert outcome.rejected
    assert outcome.error == shop.error.to_dict()
    with pytest.raises(ToolRejectedError, match="not for sale"):
        outcome.value()


async def test_what_the_scene_hides_of_a_failure_is_in_neither_outcome_nor_log() -> None:
    class Discreet(ActionContext):
        def report_failure(self, error: ToolFailedError, *, peer: bool = False) -> ToolFailedError:
            return ToolFailedError("an incident")

    shop, action_context = Shop(), Discreet()
    shop.error = RuntimeError("the password is swordfish")
    outcome = await buy(shop.actions(), action_context)
    assert outcome.error["message"] == "an incident"
    assert "swordfish" not in str([event.to_dict() for event in action_context.log])


async def performed(action_context: ActionContext, error: Exception, kind: str = "agent.call") -> Outcome:
    async def execute(action: RunAction) -> ActionResult:
        raise error

    async def prepare() -> PreparedAction:
        return PreparedAction(RunAction(kind, "hotel"), execute)

    return await Gate().perform(action_context, prepare)


async def test_a_peer_that_cannot_be_reached_is_a_failed_action() -> None:
    action_context = ActionContext()
    outcome = await performed(action_context, UnavailableError("nobody listens"))
    assert action_context.types[-1] == "action.failed"
    assert (outcome.error["code"], outcome.error["message"]) == ("TOOL_FAILED", "nobody listens")
    with pytest.raises(UnavailableError):
        outcome.value()


async def test_a_budget_that_delegated_work_exceeds_is_reported_and_ends_the_run() -> None:
    action_context = ActionContext(budget=RunBudget(max_steps=0))
    with pytest.raises(BudgetExceededError) as exceeded:
        action_context.budget.check_step()
    with pytest.raises(BudgetExceededError):
        await performed(action_context, exceeded.value)
    assert action_context.types == [*REQUESTED, "action.started", "budget.exceeded", "action.failed"]


# Budget


async def test_each_tool_call_is_charged_before_it_is_requested() -> None:
    shop, action_context = Shop(), ActionContext(budget=RunBudget(max_tool_calls=1))
    await buy(shop.actions(), action_context)
    with pytest.raises(BudgetExceededError) as error:
        await buy(shop.actions(), action_context)
    assert action_context.types == ["budget.warning", *REQUESTED, *RAN, "budget.exceeded"]
    assert shop.sold == [3]
    assert error.value.decision.limit_name == "max_tool_calls"
    assert action_context.payload("budget.exceeded").decision == error.value.decision
    assert action_context.budget.usage.tool_calls == 1


async def test_a_delegation_is_no_tool_call() -> None:
    action_context = ActionContext(budget=RunBudget(max_tool_calls=0))
    await performed(action_context, UnavailableError("nobody listens"))
    assert action_context.budget.usage.tool_calls == 0


# Cancellation


async def test_a_canceled_run_prepares_nothing() -> None:
    shop, action_context = Shop(), ActionContext()
    action_context.token.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await buy(shop.actions(), action_context)
    assert (action_context.log, shop.sold) == ([], [])


async def test_a_run_that_is_canceled_while_it_waits_for_the_disk_does_not_begin_the_action() -> None:
    shop, action_context = Shop(), ActionContext()

    def cancel_at_the_start(event: RunEvent) -> None:
        if event.type == "action.started":
            action_context.token.cancel("enough")

    action_context.on_emit = cancel_at_the_start
    with pytest.raises(asyncio.CancelledError):
        await buy(shop.actions(), action_context)
    assert shop.sold == []


async def test_a_run_that_is_canceled_by_its_approver_does_not_begin_the_action() -> None:
    def cancels(request: ApprovalRequest) -> ApprovalDecision:
        action_context.token.cancel("enough")
        return yes(request)

    shop, action_context = Shop(), ActionContext(cancels)
    with pytest.raises(asyncio.CancelledError):
        await buy(shop.actions(ASK), action_context)
    assert (action_context.types, shop.sold) == ([*REQUESTED, *ASKED], [])


async def test_an_action_that_is_interrupted_is_recorded_as_canceled() -> None:
    shop, action_context = Shop(), ActionContext()
    running = asyncio.ensure_future(buy(shop.actions(), action_context))
    shop.during = running.cancel
    with pytest.raises(asyncio.CancelledError):
        await running
    assert action_context.types == [*REQUESTED, "action.started", "action.canceled"]
    assert action_context.log[-1].severity == "warning"


async def test_an_action_that_ends_after_the_cancel_is_recorded_and_nothing_follows() -> None:
    shop, action_context = Shop(), ActionContext()
    shop.during = lambda: action_context.token.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await buy(shop.actions(), action_context)
    assert action_context.types == [*REQUESTED, *RAN]
    assert action_context.payload("action.completed").result == "bought 3"


# After a crash


def second(first: ActionContext, upto: str, answers: Any = None, **more: Any) -> ActionContext:
    """The action_context of a run that takes over after the first event of that type."""
    end = first.types.index(upto) + 1
    return ActionContext(answers, journal=journal_of(first.log[:end]), **more)


async def test_an_outcome_that_is_recorded_is_taken_as_it_is() -> None:
    shop, first = Shop(), ActionContext()
    known = await buy(shop.actions(), first)
    action_context = second(first, "action.completed")
    outcome = await buy(shop.actions(DENY), action_context)
    assert (outcome.value(), outcome.action_id) == ("bought 3", known.action_id)
    assert (action_context.log, shop.sold) == ([], [3])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("out of stock"), ToolFailedError),
        (ToolTimeoutError("too slow"), ToolFailedError),
        (ToolRejectedError("closed", code="closed", details={"until": 9}, suggestion="wait"), ToolRejectedError),
    ],
)
async def test_a_recorded_failure_raises_what_the_first_run_raised(error: Exception, expected: type) -> None:
    shop, first = Shop(), ActionContext()
    shop.error = error
    outcome = await buy(shop.actions(), first)
    again = await buy(shop.actions(), second(first, first.types[-1]))
    assert (again.error, again.rejected) == (outcome.error, outcome.rejected)
    with pytest.raises(expected) as raised:
        again.value()
    assert type(raised.value) is type(outcome.exception)
    assert str(raised.value) == str(outcome.exception)
    (known,) = [event.payload.failure for event in first.log if isinstance(event.payload, ActionEnded)]
    assert (raised.value.origin, raised.value.failure) == (known.origin, known.cause)
    assert raised.value.action_id == again.action_id
    if isinstance(raised.value, ToolRejectedError):
        assert raised.value.to_dict() == outcome.error
    assert shop.sold == [3]


async def test_an_outcome_of_a_later_version_is_no_success_and_runs_nothing_again() -> None:
    shop, first = Shop(), ActionContext()
    await buy(shop.actions(), first)
    (at,) = (index for index, event in enumerate(first.log) if isinstance(event.payload, ActionEnded))
    event = first.log[at]
    later = replace(event.payload, result=None, outcome="unknown-77")
    first.log[at] = replace(event, type="action.parked", payload=later)
    again = await buy(shop.actions(), second(first, "action.parked"))
    with pytest.raises(ToolFailedError, match="unknown-77"):
        again.value()
    assert shop.sold == [3]


async def test_a_timeout_that_is_recorded_raises_a_timeout() -> None:
    async def sleeps() -> None:
        await asyncio.Event().wait()

    actions, first = actions_of(Tool.from_callable(sleeps, timeout_s=0.001)), ActionContext()
    await actions.call_tool(first, "sleeps", {}, position="here")
    again = await actions.call_tool(second(first, "action.failed"), "sleeps", {}, position="here")
    with pytest.raises(ToolTimeoutError, match="timed out"):
        again.value()


async def test_a_recorded_denial_denies_again_without_asking() -> None:
    shop, first = Shop(), ActionContext(no)
    with pytest.raises(ApprovalDeniedError):
        await buy(shop.actions(ASK), first)
    action_context = second(first, "action.denied", yes)
    with pytest.raises(ApprovalDeniedError, match="not today") as error:
        await buy(shop.actions(), action_context)
    assert error.value.approval.decided_by == "ann"
    assert (action_context.log, action_context.asked, shop.sold) == ([], [], [])


async def test_a_recorded_denial_of_an_approver_with_the_code_of_earlier_versions_stays_a_denial() -> None:
    shop, first = Shop(), ActionContext(no)
    with pytest.raises(ApprovalDeniedError):
        await buy(shop.actions(ASK), first)
    first.payload("action.denied").error["code"] = "ACTION_DENIED"
    with pytest.raises(ActionDeniedError, match="not today") as error:
        await buy(shop.actions(), second(first, "action.denied", yes))
    assert type(error.value) is ActionDeniedError
    assert error.value.approval.decided_by == "ann"


async def test_where_nobody_could_be_asked_the_same_error_comes_again() -> None:
    shop, first = Shop(), ActionContext(None)
    with pytest.raises(ApprovalRequiredError):
        await buy(shop.actions(ASK), first)
    with pytest.raises(ApprovalRequiredError) as error:
        await buy(shop.actions(ASK), second(first, "action.denied", yes))
    assert error.value.request.request_id == first.asked[0][0].request_id


async def test_a_budget_that_ended_an_action_ends_it_again() -> None:
    first = ActionContext(budget=RunBudget(max_steps=0))
    with pytest.raises(BudgetExceededError):
        first.budget.check_step()

    async def execute(action: RunAction) -> ActionResult:
        first.budget.check_step()
        return ActionResult()

    async def prepare() -> PreparedAction:
        return PreparedAction(RunAction("agent.call", "hotel"), execute)

    with pytest.raises(BudgetExceededError):
        await Gate().perform(first, prepare, position="here")
    action_context = second(first, "action.failed")
    with pytest.raises(BudgetExceededError, match="max_steps"):
        await Gate().perform(action_context, prepare, position="here")
    assert action_context.log == []


async def test_an_action_that_was_only_requested_goes_on_under_its_identity_and_is_charged_once() -> None:
    shop, first = Shop(), ActionContext(budget=RunBudget(max_tool_calls=1))
    known = await buy(shop.actions(), first)
    shop.sold.clear()
    action_context = second(first, "action.requested", budget=RunBudget(max_tool_calls=1))
    outcome = await buy(shop.actions(), action_context)
    assert action_context.types == ["action.policy", *RAN]
    assert (outcome.action_id, shop.sold) == (known.action_id, [3])
    assert action_context.budget.usage.tool_calls == 1


async def test_a_question_that_is_open_is_taken_up_again_and_not_asked_twice() -> None:
    shop, first = Shop(), ActionContext(yes)
    await buy(shop.actions(ASK), first)
    shop.sold.clear()
    action_context = second(first, "approval.required", yes)
    await buy(shop.actions(ASK), action_context)
    assert action_context.types == ["approval.decided", *RAN]
    assert [request.request_id for request, _ in action_context.asked] == [first.asked[0][0].request_id]
    assert shop.sold == [3]


async def test_a_question_stays_open_though_the_policy_would_not_ask_any_more() -> None:
    shop, first = Shop(), ActionContext(yes)
    await buy(shop.actions(ASK), first)
    shop.sold.clear()
    action_context = second(first, "approval.required", no)
    with pytest.raises(ActionDeniedError, match="not today"):
        await buy(shop.actions(), action_context)
    assert (action_context.types[0], shop.sold) == ("action.policy", [])


async def test_an_answer_that_came_meanwhile_counts() -> None:
    shop, first = Shop(), ActionContext(editing(amount=1))
    await buy(shop.actions(EDITABLE), first)
    shop.sold.clear()
    action_context = second(first, "approval.decided")
    await buy(shop.actions(EDITABLE), action_context)
    assert (action_context.asked, action_context.types, shop.sold) == ([], RAN, [1])


@pytest.mark.parametrize("recorded", [{"amount": "3"}, {"amount": 3}])
async def test_a_question_whose_log_has_the_arguments_as_they_were_sent_is_not_asked_twice(recorded: Any) -> None:
    shop, first = Shop(), ActionContext(yes)
    await buy(shop.actions(ASK), first, "3")
    shop.sold.clear()
    for index, event in enumerate(first.log):
        payload = event.payload
        if isinstance(payload, ActionRequested):
            payload = replace(payload, action=payload.action.with_payload({"arguments": recorded}))
        elif isinstance(payload, ApprovalRequired):
            action = payload.request.action.with_payload({"arguments": recorded})
            payload = replace(payload, request=replace(payload.request, action=action))
        first.log[index] = replace(event, payload=payload)
    action_context = second(first, "approval.decided", no)
    await buy(shop.actions(ASK), action_context, "3")
    assert (action_context.asked, shop.sold) == ([], [3])


async def test_an_open_question_about_other_arguments_answers_nothing() -> None:
    prices = iter([1, 2])

    def builder(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return RunAction("tool.call", "buy", {"arguments": arguments, "price": next(prices)})

    shop, first = Shop(), ActionContext(yes)
    actions = shop.actions(ASK, action_builder=builder)
    await buy(actions, first)
    action_context = second(first, "approval.decided", no)
    with pytest.raises(ActionDeniedError):
        await buy(actions, action_context)
    assert action_context.asked[0][0].request_id != first.asked[0][0].request_id
    assert action_context.asked[0][0].action.payload["price"] == 2


async def test_previews_that_are_built_anew_carry_the_identity_of_the_log() -> None:
    def builder(arguments: dict[str, Any], context: RunContext) -> RunAction:
        shown = Artifact(parts=[Part.text("3 euros")])
        return RunAction("tool.call", "buy", {"arguments": arguments}, artifacts=(shown,))

    shop, first = Shop(), ActionContext(yes)
    known = await buy(shop.actions(ASK, action_builder=builder), first)
    action_context = second(first, "action.requested", yes)
    await buy(shop.actions(ASK, action_builder=builder), action_context)
    assert action_context.asked[0][0].action.artifacts[0].action_id == known.action_id


async def interrupted(shop: Shop, actions: Actions, answers: Any = None) -> ActionContext:
    """A first run that died after the action had begun, and what it did."""
    action_context = ActionContext(answers)
    await buy(actions, action_context)
    assert shop.sold
    return action_context


@pytest.mark.parametrize("repeatable", ["idempotent", "read_only"])
async def test_a_call_that_was_cut_off_is_repeated_where_that_is_safe(repeatable: str) -> None:
    shop = Shop()
    actions = shop.actions(**{repeatable: True})
    first = await interrupted(shop, actions)
    action_context = second(first, "action.started")
    outcome = await buy(actions, action_context)
    assert (action_context.types, shop.sold, action_context.asked) == (RAN, [3, 3], [])
    assert shop.contexts[0].action_id == shop.contexts[1].action_id == outcome.action_id
    assert action_context.budget.usage.tool_calls == 1


async def test_a_call_that_was_cut_off_and_approved_is_repeated_without_a_second_approval() -> None:
    shop = Shop()
    actions = shop.actions(EDITABLE, idempotent=True)
    first = await interrupted(shop, actions, editing(amount=1))
    action_context = second(first, "action.started", no)
    await buy(actions, action_context)
    assert (action_context.asked, shop.sold) == ([], [1, 1])


async def test_an_uncertain_call_is_repeated_only_when_somebody_says_so() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    action_context = second(first, "action.started", yes)
    await buy(shop.actions(), action_context)
    assert (action_context.types, shop.sold) == ([*ASKED, *RAN], [3, 3])
    ((request, committed),) = action_context.asked
    assert committed == 1
    assert request.uncertain is True
    assert "approve to repeat it" in request.metadata["reason"]


async def test_an_uncertain_call_that_nobody_wants_repeated_ends_the_run_and_stays_uncertain() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    action_context = second(first, "action.started", no)
    with pytest.raises(UncertainExecutionError, match="not today"):
        await buy(shop.actions(), action_context)
    # Its outcome is unknown: the log does not show a denial, nor that nothing was changed.
    assert (action_context.types, shop.sold) == (ASKED, [3])


async def test_an_uncertain_call_fails_closed_where_nobody_can_be_asked() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    action_context = second(first, "action.started")
    with pytest.raises(UncertainExecutionError, match="no approver is configured"):
        await buy(shop.actions(), action_context)
    assert (action_context.types, shop.sold) == (["approval.required"], [3])


async def test_an_uncertain_call_that_policy_denies_now_is_denied() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    with pytest.raises(ActionDeniedError):
        await buy(shop.actions(DENY), second(first, "action.started", yes))
    assert shop.sold == [3]


async def test_an_interrupted_call_is_uncertain() -> None:
    shop, first = Shop(), ActionContext()
    running = asyncio.ensure_future(buy(shop.actions(), first))
    shop.during = running.cancel
    with pytest.raises(asyncio.CancelledError):
        await running
    shop.during = lambda: None
    action_context = second(first, "action.canceled", no)
    with pytest.raises(UncertainExecutionError):
        await buy(shop.actions(), action_context)
    assert shop.sold == [3]


async def test_that_a_call_may_be_repeated_counts_once() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    twice = second(first, "action.started", yes)
    await buy(shop.actions(), twice)
    cut = twice.types.index("action.started") + 1
    action_context = ActionContext(no, journal=journal_of(first.log[:3], twice.log[:cut]))
    with pytest.raises(UncertainExecutionError):
        await buy(shop.actions(), action_context)
    assert (len(action_context.asked), shop.sold) == (1, [3, 3])


async def test_an_uncertain_question_that_is_open_or_answered_is_not_asked_again() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    twice = second(first, "action.started", yes)
    await buy(shop.actions(), twice)
    for cut, asked in ((1, 1), (2, 0)):
        action_context = ActionContext(yes, journal=journal_of(first.log[:3], twice.log[:cut]))
        await buy(shop.actions(), action_context)
        assert "approval.required" not in action_context.types
        assert len(action_context.asked) == asked


async def test_an_uncertain_call_is_repeated_with_the_arguments_it_was_begun_with() -> None:
    shop = Shop()
    actions = shop.actions(EDITABLE)
    first = await interrupted(shop, actions, editing(amount=1))
    action_context = second(first, "action.started", yes)
    await buy(actions, action_context)
    assert shop.sold == [1, 1]
    assert action_context.asked[0][0].action.payload == {"arguments": {"amount": 1}}


async def test_the_answer_to_an_uncertain_question_may_edit_where_policy_lets_it() -> None:
    shop = Shop()
    actions = shop.actions(EDITABLE)
    first = await interrupted(shop, actions, yes)
    action_context = second(first, "action.started", editing(amount=2))
    await buy(actions, action_context)
    assert shop.sold == [3, 2]


async def test_an_action_without_a_position_is_new_each_time() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    action_context = second(first, "action.completed")
    await shop.actions().call_tool(action_context, "buy", {"amount": 3}, position="")
    assert shop.sold == [3, 3]


class Crash(BaseException):
    """The process is gone: nothing that follows happens."""


@given(
    crashes=st.lists(st.tuples(st.integers(1, 8), st.booleans()), max_size=6),
    answer=st.sampled_from([yes, no]),
    idempotent=st.booleans(),
)
async def test_however_often_a_process_dies_a_call_runs_twice_only_where_it_may(
    crashes: list[tuple[int, bool]], answer: Callable[[ApprovalRequest], ApprovalDecision], idempotent: bool
) -> None:
    shop = Shop()
    actions = shop.actions(ASK, idempotent=idempotent)
    logs: list[list[RunEvent]] = []

    def asked(request: ApprovalRequest) -> ApprovalDecision:
        return no(request) if request.uncertain else answer(request)

    def scene_of(dies_at: int) -> ActionContext:
        action_context = ActionContext(asked, journal=journal_of(*logs), budget=RunBudget(max_tool_calls=1))

        def dies(event: RunEvent) -> None:
            if len(action_context.log) == dies_at:
                raise Crash

        action_context.on_emit = dies
        return action_context

    for dies_at, written in crashes:
        action_context = scene_of(dies_at)
        with suppress(Crash, ActionDeniedError, UncertainExecutionError):
            await buy(actions, action_context)
        # What was not flushed may be on disk or not.
        logs.append(action_context.log if written else action_context.log[: action_context.committed])
    last = scene_of(0)
    ended: Any = None
    try:
        ended = (await buy(actions, last)).value()
    except (ActionDeniedError, UncertainExecutionError) as error:
        ended = type(error)
    assert len({event.action_id for log in logs for event in log if event.action_id}) <= 1
    assert last.budget.usage.tool_calls == 1
    if answer is no:
        assert (ended, shop.sold) == (ApprovalDeniedError, [])
    elif idempotent:
        assert ended == "bought 3"
    else:
        assert ended in ("bought 3", UncertainExecutionError)
        assert len(shop.sold) <= 1
