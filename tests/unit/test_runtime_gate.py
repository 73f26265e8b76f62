"""The gate: every way of an action from its preparation to its end, and every way back into it after a crash."""

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
from runtime_scene import Scene, actions_of, journal_of, no, yes

from protolink_grpc.errors import (
    ActionDeniedError,
    ApprovalChangedError,
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
from protolink_grpc.runtime.actions import Actions
from protolink_grpc.runtime.gate import Done, Gate, Prepared
from protolink_grpc.runtime.outcome import Outcome
from protolink_grpc.runtime.run import as_fact
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


async def buy(actions: Actions, scene: Scene, amount: Any = 3) -> Outcome:
    return await actions.call_tool(scene, "buy", {"amount": amount}, position="here", call_id="call-1")


# Policy and approval


async def test_an_allowed_action_is_requested_judged_started_and_ended_in_this_order() -> None:
    shop, scene = Shop(), Scene()
    outcome = await buy(shop.actions(), scene)
    assert scene.types == [*REQUESTED, *RAN]
    assert (outcome.value(), shop.sold) == ("bought 3", [3])
    assert {event.action_id for event in scene.log} == {outcome.action_id}
    requested = scene.payload("action.requested")
    assert (requested.position, requested.action.payload) == ("here", {"arguments": {"amount": 3}})
    assert requested.action.capabilities == {"money.spend"}
    started, ended = scene.payload("action.started"), scene.payload("action.completed")
    assert (started.kind, started.name, started.arguments) == ("tool.call", "buy", {"amount": 3})
    assert (ended.result, ended.error) == ("bought 3", None)


def test_a_handler_cannot_emit_a_type_that_contradicts_the_outcome() -> None:
    event = RunEvent("action.completed", ActionEnded("tool.call", "buy", outcome="failed"))
    with pytest.raises(InvalidArgumentError) as refused:
        as_fact(event)
    assert refused.value.field == "type"
    assert as_fact(replace(event, type="action.failed")).type == "action.failed"


async def test_an_action_is_on_disk_before_it_begins() -> None:
    shop, scene = Shop(), Scene()
    seen: list[tuple[int, str]] = []
    shop.during = lambda: seen.append((scene.committed, scene.types[-1]))
    await buy(shop.actions(), scene)
    assert seen == [(3, "action.started")]


async def test_a_read_only_action_waits_for_no_disk() -> None:
    shop, scene = Shop(), Scene()
    seen: list[int] = []
    shop.during = lambda: seen.append(scene.committed)
    await buy(shop.actions(read_only=True), scene)
    assert seen == [0]


async def test_a_tool_learns_under_which_identity_it_runs() -> None:
    shop, scene = Shop(), Scene()
    outcome = await buy(shop.actions(), scene)
    (context,) = shop.contexts
    assert context.action_id == outcome.action_id
    assert (context.task_id, context.run_id, context.session_id) == ("task-1", "run-1", "session-1")
    assert (context.agent_name, context.principal, context.call_id) == ("agent", "ann", "call-1")
    assert context.cancellation is scene.token


async def test_a_denied_action_never_begins() -> None:
    shop, scene = Shop(), Scene()
    with pytest.raises(ActionDeniedError, match="money") as error:
        await buy(shop.actions(DENY), scene)
    assert (scene.types, shop.sold) == ([*REQUESTED, "action.denied"], [])
    assert error.value.action.name == "buy"
    assert error.value.decision.effect is PolicyEffect.DENY
    assert error.value.approval is None
    refusal = scene.payload("action.denied").error
    assert (refusal["code"], refusal["changes_made"]) == ("ACTION_DENIED", False)
    assert scene.log[-1].severity == "error"


async def test_the_permissions_of_a_context_deny_what_the_policy_allows() -> None:
    shop = Shop()
    scene = Scene(context=RunContext(permissions={"money.*": False}))
    with pytest.raises(ActionDeniedError):
        await buy(shop.actions(CapabilityPolicy(default_effect="allow")), scene)
    assert shop.sold == []


async def test_the_permissions_of_a_context_allow_nothing_that_the_policy_denies() -> None:
    shop = Shop()
    scene = Scene(context=RunContext(permissions={"money.spend": True, "default": True}))
    with pytest.raises(ActionDeniedError):
        await buy(shop.actions(DENY), scene)
    assert shop.sold == []


async def test_the_question_is_on_disk_before_it_is_asked() -> None:
    shop, scene = Shop(), Scene(yes)
    assert (await buy(shop.actions(ASK), scene)).value() == "bought 3"
    assert scene.types == [*REQUESTED, *ASKED, *RAN]
    ((request, committed),) = scene.asked
    assert scene.types[:committed][-1] == "approval.required"
    assert (request.task_id, request.run_id) == ("task-1", "run-1")
    assert request.action == scene.payload("action.requested").action
    assert request.policy_decision.matched_capabilities == ("money.spend",)
    assert (request.editable, request.expires_at) == (False, None)


async def test_what_a_person_denies_does_not_run_and_says_why() -> None:
    shop, scene = Shop(), Scene(no)
    with pytest.raises(ActionDeniedError, match="not today") as error:
        await buy(shop.actions(ASK), scene)
    assert (scene.types, shop.sold) == ([*REQUESTED, *ASKED, "action.denied"], [])
    assert error.value.approval.decided_by == "ann"


async def test_an_answer_that_time_gave_counts_as_no() -> None:
    def late(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(False, request.request_id, "nobody answered in time", metadata={"expired": True})

    shop, scene = Shop(), Scene(late)
    with pytest.raises(ActionDeniedError, match="nobody answered in time"):
        await buy(shop.actions(ASK), scene)
    assert shop.sold == []


@pytest.mark.parametrize(("rule_s", "gate_s", "expected"), [(5.0, 60.0, 5.0), (None, 60.0, 60.0), (None, None, None)])
async def test_a_question_is_open_as_long_as_the_rule_says_or_else_the_agent(
    rule_s: float | None, gate_s: float | None, expected: float | None
) -> None:
    policy = CapabilityPolicy({"money.spend": {"effect": "ask", "expires_s": rule_s} if rule_s else "ask"})
    scene = Scene(yes)
    await buy(Shop().actions(policy, expires_s=gate_s), scene)
    request = scene.asked[0][0]
    if expected is None:
        assert request.expires_at is None
    else:
        assert request.expires_at is not None
        assert micros_from_iso(request.expires_at) - micros_from_iso(request.created_at) == expected * 1e6


async def test_nobody_to_ask_keeps_the_action_from_running_and_shows_the_question() -> None:
    shop, scene = Shop(), Scene(None)
    with pytest.raises(ApprovalRequiredError) as error:
        await buy(shop.actions(ASK), scene)
    assert (scene.types, shop.sold) == ([*REQUESTED, "approval.required", "action.denied"], [])
    assert error.value.request == scene.payload("approval.required").request
    assert scene.payload("action.denied").error["code"] == "APPROVAL_REQUIRED"


async def test_an_approver_who_raises_fails_the_action_with_his_error() -> None:
    def broken(request: ApprovalRequest) -> ApprovalDecision:
        raise ZeroDivisionError("the approver is broken")

    shop, scene = Shop(), Scene(broken)
    with pytest.raises(ZeroDivisionError):
        await buy(shop.actions(ASK), scene)
    assert (scene.types, shop.sold) == ([*REQUESTED, "approval.required"], [])


def editing(**arguments: Any) -> Callable[[ApprovalRequest], ApprovalDecision]:
    return lambda request: ApprovalDecision(True, request.request_id, edited_arguments=arguments)


async def test_edited_arguments_are_what_runs_and_what_the_log_says() -> None:
    shop, scene = Shop(), Scene(editing(amount=1))
    outcome = await buy(shop.actions(EDITABLE), scene)
    assert (outcome.value(), shop.sold) == ("bought 1", [1])
    assert scene.payload("action.started").arguments == {"amount": 1}
    assert scene.payload("action.requested").action.payload == {"arguments": {"amount": 3}}
    assert {event.action_id for event in scene.log} == {outcome.action_id}


@pytest.mark.parametrize("policy", [ASK, EDITABLE], ids=["fixed", "editable"])
async def test_a_question_says_whether_its_arguments_may_be_edited(policy: CapabilityPolicy) -> None:
    scene = Scene(yes)
    await buy(Shop().actions(policy), scene)
    assert scene.asked[0][0].editable is (policy is EDITABLE)


async def test_edited_arguments_that_are_wrong_end_the_action_as_rejected() -> None:
    shop, scene = Shop(), Scene(editing(amount="much"))
    with pytest.raises(ToolRejectedError) as error:
        await buy(shop.actions(EDITABLE), scene)
    assert error.value.code == "invalid_arguments"
    assert (scene.types, shop.sold) == ([*REQUESTED, *ASKED, "action.rejected"], [])


class Cheap:
    """Asks for everything, and denies what costs more than 5."""

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        if action.payload["arguments"]["amount"] > 5:
            return PolicyDecision(PolicyEffect.DENY, "too dear")
        return PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, metadata={"editable": True})


async def test_policy_judges_edited_arguments_too() -> None:
    shop, scene = Shop(), Scene(editing(amount=6))
    with pytest.raises(ActionDeniedError, match="too dear"):
        await buy(shop.actions(Cheap()), scene)
    assert (scene.types[-1], shop.sold) == ("action.denied", [])


# What everybody sees is what will run


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

    scene = Scene(seen.answer)
    actions = actions_of(Tool.from_callable(book, action_builder=builder), policy=seen)
    await actions.call_tool(
        scene, "book", {"nights": "3", "since": "2026-01-02", "extras": ["sea", "sea"]}, position="here"
    )
    assert ran == [(3, datetime.date(2026, 1, 2), {"sea"}, True)]
    expected = {"nights": 3, "since": "2026-01-02", "extras": ["sea"], "breakfast": True}
    assert [arguments for arguments, _ in seen.shown] == [expected] * 3
    assert scene.payload("action.requested").action.payload["arguments"] == expected
    assert scene.payload("action.started").arguments == expected


async def test_the_same_call_has_one_fingerprint_however_it_was_written() -> None:
    found = set()
    for amount in (3, "3", 3.0):
        seen = Seen()
        await buy(Shop().actions(seen), Scene(yes), amount)
        found |= {fingerprint for _, fingerprint in seen.shown}
    assert len(found) == 1


async def test_a_policy_judges_an_amount_that_was_sent_as_text() -> None:
    shop = Shop()
    with pytest.raises(ActionDeniedError, match="too dear"):
        await buy(shop.actions(Cheap()), Scene(yes), "7")
    assert shop.sold == []


async def test_edited_arguments_are_converted_before_policy_judges_them() -> None:
    shop, scene = Shop(), Scene(editing(amount="2"))
    await buy(shop.actions(Cheap()), scene)
    assert (shop.sold, scene.payload("action.started").arguments) == ([2], {"amount": 2})
    with pytest.raises(ActionDeniedError, match="too dear"):
        await buy(shop.actions(Cheap()), Scene(editing(amount="6")))


async def test_arguments_are_converted_once() -> None:
    ran: list[int] = []

    def pay(amount: Annotated[int, AfterValidator(lambda value: value + 1)]) -> None:
        ran.append(amount)

    scene = Scene()
    await actions_of(Tool.from_callable(pay)).call_tool(scene, "pay", {"amount": 1}, position="here")
    assert (ran, scene.payload("action.started").arguments) == ([2], {"amount": 2})


async def test_edited_arguments_need_no_second_approval() -> None:
    shop, scene = Shop(), Scene(editing(amount=5))
    await buy(shop.actions(Cheap()), scene)
    assert (len(scene.asked), shop.sold) == (1, [5])


async def test_an_action_that_changes_while_it_waits_does_not_run() -> None:
    payload: dict[str, Any] = {"arguments": {"amount": 1}}
    ran: list[RunAction] = []

    async def execute(action: RunAction) -> Done:
        ran.append(action)
        return Done()

    async def prepare() -> Prepared:
        return Prepared(RunAction("tool.call", "buy", payload, frozenset({"money.spend"})), execute)

    def meddling(request: ApprovalRequest) -> ApprovalDecision:
        payload["arguments"]["amount"] = 1000
        return yes(request)

    with pytest.raises(ApprovalChangedError, match="buy"):
        await Gate(ASK).perform(Scene(meddling), prepare)
    assert ran == []


async def test_a_policy_that_raises_denies_and_keeps_its_trace_to_itself() -> None:
    class Broken:
        async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            raise RuntimeError("the password is swordfish")

    shop, scene = Shop(), Scene()
    with pytest.raises(ActionDeniedError, match="incident") as error:
        await buy(shop.actions(Broken()), scene)
    assert "swordfish" not in str(error.value)
    assert shop.sold == []


async def test_what_a_policy_does_to_its_copies_changes_nothing() -> None:
    class Meddling:
        async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            action.payload["arguments"]["amount"] = 1000
            context.permissions["money.spend"] = True
            return PolicyDecision(PolicyEffect.ALLOW)

    shop, scene = Shop(), Scene()
    await buy(shop.actions(Meddling()), scene)
    assert (shop.sold, scene.context.permissions) == ([3], {})


# Preparation


def built(**fields: Any) -> Callable[[dict[str, Any], RunContext], RunAction]:
    return lambda arguments, context: RunAction(
        **{"kind": "tool.call", "name": "buy", "payload": {"arguments": arguments}, **fields}
    )


async def test_a_builder_shows_more_of_an_action_and_stamps_its_previews() -> None:
    shown = Artifact(name="receipt", parts=[Part.text("3 euros")])
    builder = built(artifacts=(shown,), description="spend 3 euros", metadata={"currency": "EUR"})
    shop, scene = Shop(), Scene(yes)
    outcome = await buy(shop.actions(ASK, action_builder=builder), scene)
    request = scene.asked[0][0]
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

    shop, scene = Shop(), Scene()
    await shop.actions(action_builder=builder).call_tool(scene, "buy", arguments_of_caller, position="")
    assert (shop.sold, arguments_of_caller, scene.context.permissions) == ([3], {"amount": 3}, {})
    assert contexts[0].run_id == "run-1"


async def test_a_builder_may_change_the_arguments_and_those_run() -> None:
    builder = built(payload={"arguments": {"amount": 2}, "rounded": True})
    shop, scene = Shop(), Scene()
    await buy(shop.actions(action_builder=builder), scene)
    assert shop.sold == [2]
    assert scene.payload("action.requested").action.payload == {"arguments": {"amount": 2}, "rounded": True}


async def test_a_builder_that_names_no_arguments_keeps_those_of_the_call() -> None:
    shop, scene = Shop(), Scene()
    await buy(shop.actions(action_builder=built(payload={"to": "the shop"})), scene)
    assert shop.sold == [3]
    assert scene.payload("action.requested").action.payload == {"arguments": {"amount": 3}, "to": "the shop"}


async def test_a_builder_can_add_capabilities_and_drop_none() -> None:
    shop, scene = Shop(), Scene()
    builder = built(capabilities=frozenset({"mail.send"}))
    with pytest.raises(ActionDeniedError):
        await buy(shop.actions(DENY, action_builder=builder), scene)
    assert scene.payload("action.requested").action.capabilities == {"money.spend", "mail.send"}


async def test_an_action_under_another_name_still_says_which_tool_it_runs() -> None:
    scene = Scene()
    await buy(Shop().actions(action_builder=built(name="purchase")), scene)
    action = scene.payload("action.requested").action
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
    shop, scene = Shop(), Scene()
    with pytest.raises(ToolFailedError, match=said):
        await buy(shop.actions(action_builder=builder), scene)
    assert (scene.log, shop.sold) == ([], [])


async def test_a_builder_that_refuses_is_a_refusal() -> None:
    def builder(arguments: dict[str, Any], context: RunContext) -> RunAction:
        raise ToolRejectedError("closed on Sundays", code="closed")

    scene = Scene()
    with pytest.raises(ToolRejectedError, match="Sundays"):
        await buy(Shop().actions(action_builder=builder), scene)
    assert scene.log == []


async def test_arguments_that_a_builder_made_wrong_are_refused() -> None:
    scene = Scene()
    with pytest.raises(ToolRejectedError) as error:
        await buy(Shop().actions(action_builder=built(payload={"arguments": {"amount": "much"}})), scene)
    assert (error.value.code, scene.log) == ("invalid_arguments", [])


async def test_wrong_arguments_are_refused_before_anything_is_recorded_or_charged() -> None:
    shop, scene = Shop(), Scene(budget=RunBudget(max_tool_calls=1))
    with pytest.raises(ToolRejectedError):
        await buy(shop.actions(), scene, "much")
    assert (scene.log, scene.budget.usage.tool_calls) == ([], 0)
    with pytest.raises(ToolRejectedError, match="'sell' not found"):
        await shop.actions().call_tool(scene, "sell", {}, position="here")


# Ends


async def test_a_tool_that_fails_is_an_outcome_that_says_so() -> None:
    shop, scene = Shop(), Scene()
    shop.error = RuntimeError("out of stock")
    outcome = await buy(shop.actions(), scene)
    assert scene.types == [*REQUESTED, "action.started", "action.failed"]
    assert outcome.error == {
        "status": "failed",
        "code": "TOOL_FAILED",
        "message": "Tool 'buy' failed: RuntimeError: out of stock",
    }
    assert scene.payload("action.failed").error == outcome.error | {"origin": "buy"}
    failure = scene.payload("action.failed").failure
    assert (failure.category, failure.origin) == (FailureCategory.TOOL, "buy")
    with pytest.raises(ToolFailedError, match="out of stock"):
        outcome.value()


async def test_a_tool_that_refuses_is_an_outcome_that_says_that_nothing_was_changed() -> None:
    shop, scene = Shop(), Scene()
    shop.error = ToolRejectedError("not for sale", code="closed", suggestion="come back tomorrow")
    outcome = await buy(shop.actions(), scene)
    assert scene.types == [*REQUESTED, "action.started", "action.rejected"]
    assert outcome.rejected
    assert outcome.error == shop.error.to_dict()
    with pytest.raises(ToolRejectedError, match="not for sale"):
        outcome.value()


async def test_what_the_scene_hides_of_a_failure_is_in_neither_outcome_nor_log() -> None:
    class Discreet(Scene):
        def reported(self, error: ToolFailedError, *, peer: bool = False) -> ToolFailedError:
            return ToolFailedError("an incident")

    shop, scene = Shop(), Discreet()
    shop.error = RuntimeError("the password is swordfish")
    outcome = await buy(shop.actions(), scene)
    assert outcome.error["message"] == "an incident"
    assert "swordfish" not in str([event.to_dict() for event in scene.log])


async def performed(scene: Scene, error: Exception, kind: str = "agent.call") -> Outcome:
    async def execute(action: RunAction) -> Done:
        raise error

    async def prepare() -> Prepared:
        return Prepared(RunAction(kind, "hotel"), execute)

    return await Gate().perform(scene, prepare)


async def test_a_peer_that_cannot_be_reached_is_a_failed_action() -> None:
    scene = Scene()
    outcome = await performed(scene, UnavailableError("nobody listens"))
    assert scene.types[-1] == "action.failed"
    assert (outcome.error["code"], outcome.error["message"]) == ("TOOL_FAILED", "nobody listens")
    with pytest.raises(UnavailableError):
        outcome.value()


async def test_a_budget_that_delegated_work_exceeds_is_reported_and_ends_the_run() -> None:
    scene = Scene(budget=RunBudget(max_steps=0))
    with pytest.raises(BudgetExceededError) as exceeded:
        scene.budget.check_step()
    with pytest.raises(BudgetExceededError):
        await performed(scene, exceeded.value)
    assert scene.types == [*REQUESTED, "action.started", "budget.exceeded", "action.failed"]


# Budget


async def test_each_tool_call_is_charged_before_it_is_requested() -> None:
    shop, scene = Shop(), Scene(budget=RunBudget(max_tool_calls=1))
    await buy(shop.actions(), scene)
    with pytest.raises(BudgetExceededError) as error:
        await buy(shop.actions(), scene)
    assert scene.types == ["budget.warning", *REQUESTED, *RAN, "budget.exceeded"]
    assert shop.sold == [3]
    assert error.value.decision.limit_name == "max_tool_calls"
    assert scene.payload("budget.exceeded").decision == error.value.decision
    assert scene.budget.usage.tool_calls == 1


async def test_a_delegation_is_no_tool_call() -> None:
    scene = Scene(budget=RunBudget(max_tool_calls=0))
    await performed(scene, UnavailableError("nobody listens"))
    assert scene.budget.usage.tool_calls == 0


# Cancellation


async def test_a_canceled_run_prepares_nothing() -> None:
    shop, scene = Shop(), Scene()
    scene.token.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await buy(shop.actions(), scene)
    assert (scene.log, shop.sold) == ([], [])


async def test_a_run_that_is_canceled_while_it_waits_for_the_disk_does_not_begin_the_action() -> None:
    shop, scene = Shop(), Scene()

    def cancel_at_the_start(event: RunEvent) -> None:
        if event.type == "action.started":
            scene.token.cancel("enough")

    scene.on_emit = cancel_at_the_start
    with pytest.raises(asyncio.CancelledError):
        await buy(shop.actions(), scene)
    assert shop.sold == []


async def test_a_run_that_is_canceled_by_its_approver_does_not_begin_the_action() -> None:
    def cancels(request: ApprovalRequest) -> ApprovalDecision:
        scene.token.cancel("enough")
        return yes(request)

    shop, scene = Shop(), Scene(cancels)
    with pytest.raises(asyncio.CancelledError):
        await buy(shop.actions(ASK), scene)
    assert (scene.types, shop.sold) == ([*REQUESTED, *ASKED], [])


async def test_an_action_that_is_interrupted_is_recorded_as_canceled() -> None:
    shop, scene = Shop(), Scene()
    running = asyncio.ensure_future(buy(shop.actions(), scene))
    shop.during = running.cancel
    with pytest.raises(asyncio.CancelledError):
        await running
    assert scene.types == [*REQUESTED, "action.started", "action.canceled"]
    assert scene.log[-1].severity == "warning"


async def test_an_action_that_ends_after_the_cancel_is_recorded_and_nothing_follows() -> None:
    shop, scene = Shop(), Scene()
    shop.during = lambda: scene.token.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await buy(shop.actions(), scene)
    assert scene.types == [*REQUESTED, *RAN]
    assert scene.payload("action.completed").result == "bought 3"


# After a crash


def second(first: Scene, upto: str, answers: Any = None, **more: Any) -> Scene:
    """The scene of a run that takes over after the first event of that type."""
    end = first.types.index(upto) + 1
    return Scene(answers, journal=journal_of(first.log[:end]), **more)


async def test_an_outcome_that_is_recorded_is_taken_as_it_is() -> None:
    shop, first = Shop(), Scene()
    known = await buy(shop.actions(), first)
    scene = second(first, "action.completed")
    outcome = await buy(shop.actions(DENY), scene)
    assert (outcome.value(), outcome.action_id) == ("bought 3", known.action_id)
    assert (scene.log, shop.sold) == ([], [3])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("out of stock"), ToolFailedError),
        (ToolTimeoutError("too slow"), ToolFailedError),
        (ToolRejectedError("closed", code="closed", details={"until": 9}, suggestion="wait"), ToolRejectedError),
    ],
)
async def test_a_recorded_failure_raises_what_the_first_run_raised(error: Exception, expected: type) -> None:
    shop, first = Shop(), Scene()
    shop.error = error
    outcome = await buy(shop.actions(), first)
    again = await buy(shop.actions(), second(first, first.types[-1]))
    assert (again.error, again.rejected) == (outcome.error, outcome.rejected)
    with pytest.raises(expected) as raised:
        again.value()
    assert type(raised.value) is type(outcome.exception)
    assert str(raised.value) == str(outcome.exception)
    if isinstance(raised.value, ToolRejectedError):
        assert raised.value.to_dict() == outcome.error
    assert shop.sold == [3]


async def test_an_outcome_of_a_later_version_is_no_success_and_runs_nothing_again() -> None:
    shop, first = Shop(), Scene()
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

    actions, first = actions_of(Tool.from_callable(sleeps, timeout_s=0.001)), Scene()
    await actions.call_tool(first, "sleeps", {}, position="here")
    again = await actions.call_tool(second(first, "action.failed"), "sleeps", {}, position="here")
    with pytest.raises(ToolTimeoutError, match="timed out"):
        again.value()


async def test_a_recorded_denial_denies_again_without_asking() -> None:
    shop, first = Shop(), Scene(no)
    with pytest.raises(ActionDeniedError):
        await buy(shop.actions(ASK), first)
    scene = second(first, "action.denied", yes)
    with pytest.raises(ActionDeniedError, match="not today"):
        await buy(shop.actions(), scene)
    assert (scene.log, scene.asked, shop.sold) == ([], [], [])


async def test_where_nobody_could_be_asked_the_same_error_comes_again() -> None:
    shop, first = Shop(), Scene(None)
    with pytest.raises(ApprovalRequiredError):
        await buy(shop.actions(ASK), first)
    with pytest.raises(ApprovalRequiredError) as error:
        await buy(shop.actions(ASK), second(first, "action.denied", yes))
    assert error.value.request.request_id == first.asked[0][0].request_id


async def test_a_budget_that_ended_an_action_ends_it_again() -> None:
    first = Scene(budget=RunBudget(max_steps=0))
    with pytest.raises(BudgetExceededError):
        first.budget.check_step()

    async def execute(action: RunAction) -> Done:
        first.budget.check_step()
        return Done()

    async def prepare() -> Prepared:
        return Prepared(RunAction("agent.call", "hotel"), execute)

    with pytest.raises(BudgetExceededError):
        await Gate().perform(first, prepare, position="here")
    scene = second(first, "action.failed")
    with pytest.raises(BudgetExceededError, match="max_steps"):
        await Gate().perform(scene, prepare, position="here")
    assert scene.log == []


async def test_an_action_that_was_only_requested_goes_on_under_its_identity_and_is_charged_once() -> None:
    shop, first = Shop(), Scene(budget=RunBudget(max_tool_calls=1))
    known = await buy(shop.actions(), first)
    shop.sold.clear()
    scene = second(first, "action.requested", budget=RunBudget(max_tool_calls=1))
    outcome = await buy(shop.actions(), scene)
    assert scene.types == ["action.policy", *RAN]
    assert (outcome.action_id, shop.sold) == (known.action_id, [3])
    assert scene.budget.usage.tool_calls == 1


async def test_a_question_that_is_open_is_taken_up_again_and_not_asked_twice() -> None:
    shop, first = Shop(), Scene(yes)
    await buy(shop.actions(ASK), first)
    shop.sold.clear()
    scene = second(first, "approval.required", yes)
    await buy(shop.actions(ASK), scene)
    assert scene.types == ["approval.decided", *RAN]
    assert [request.request_id for request, _ in scene.asked] == [first.asked[0][0].request_id]
    assert shop.sold == [3]


async def test_a_question_stays_open_though_the_policy_would_not_ask_any_more() -> None:
    shop, first = Shop(), Scene(yes)
    await buy(shop.actions(ASK), first)
    shop.sold.clear()
    scene = second(first, "approval.required", no)
    with pytest.raises(ActionDeniedError, match="not today"):
        await buy(shop.actions(), scene)
    assert (scene.types[0], shop.sold) == ("action.policy", [])


async def test_an_answer_that_came_meanwhile_counts() -> None:
    shop, first = Shop(), Scene(editing(amount=1))
    await buy(shop.actions(EDITABLE), first)
    shop.sold.clear()
    scene = second(first, "approval.decided")
    await buy(shop.actions(EDITABLE), scene)
    assert (scene.asked, scene.types, shop.sold) == ([], RAN, [1])


@pytest.mark.parametrize("recorded", [{"amount": "3"}, {"amount": 3}])
async def test_a_question_whose_log_has_the_arguments_as_they_were_sent_is_not_asked_twice(recorded: Any) -> None:
    shop, first = Shop(), Scene(yes)
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
    scene = second(first, "approval.decided", no)
    await buy(shop.actions(ASK), scene, "3")
    assert (scene.asked, shop.sold) == ([], [3])


async def test_an_open_question_about_other_arguments_answers_nothing() -> None:
    prices = iter([1, 2])

    def builder(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return RunAction("tool.call", "buy", {"arguments": arguments, "price": next(prices)})

    shop, first = Shop(), Scene(yes)
    actions = shop.actions(ASK, action_builder=builder)
    await buy(actions, first)
    scene = second(first, "approval.decided", no)
    with pytest.raises(ActionDeniedError):
        await buy(actions, scene)
    assert scene.asked[0][0].request_id != first.asked[0][0].request_id
    assert scene.asked[0][0].action.payload["price"] == 2


async def test_previews_that_are_built_anew_carry_the_identity_of_the_log() -> None:
    def builder(arguments: dict[str, Any], context: RunContext) -> RunAction:
        shown = Artifact(parts=[Part.text("3 euros")])
        return RunAction("tool.call", "buy", {"arguments": arguments}, artifacts=(shown,))

    shop, first = Shop(), Scene(yes)
    known = await buy(shop.actions(ASK, action_builder=builder), first)
    scene = second(first, "action.requested", yes)
    await buy(shop.actions(ASK, action_builder=builder), scene)
    assert scene.asked[0][0].action.artifacts[0].action_id == known.action_id


async def interrupted(shop: Shop, actions: Actions, answers: Any = None) -> Scene:
    """A first run that died after the action had begun, and what it did."""
    scene = Scene(answers)
    await buy(actions, scene)
    assert shop.sold
    return scene


@pytest.mark.parametrize("repeatable", ["idempotent", "read_only"])
async def test_a_call_that_was_cut_off_is_repeated_where_that_is_safe(repeatable: str) -> None:
    shop = Shop()
    actions = shop.actions(**{repeatable: True})
    first = await interrupted(shop, actions)
    scene = second(first, "action.started")
    outcome = await buy(actions, scene)
    assert (scene.types, shop.sold, scene.asked) == (RAN, [3, 3], [])
    assert shop.contexts[0].action_id == shop.contexts[1].action_id == outcome.action_id
    assert scene.budget.usage.tool_calls == 1


async def test_a_call_that_was_cut_off_and_approved_is_repeated_without_a_second_approval() -> None:
    shop = Shop()
    actions = shop.actions(EDITABLE, idempotent=True)
    first = await interrupted(shop, actions, editing(amount=1))
    scene = second(first, "action.started", no)
    await buy(actions, scene)
    assert (scene.asked, shop.sold) == ([], [1, 1])


async def test_an_uncertain_call_is_repeated_only_when_somebody_says_so() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    scene = second(first, "action.started", yes)
    await buy(shop.actions(), scene)
    assert (scene.types, shop.sold) == ([*ASKED, *RAN], [3, 3])
    ((request, committed),) = scene.asked
    assert committed == 1
    assert request.metadata["uncertain"] is True
    assert "approve to run it again" in request.metadata["reason"]


async def test_an_uncertain_call_that_nobody_wants_repeated_ends_the_run_and_stays_uncertain() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    scene = second(first, "action.started", no)
    with pytest.raises(UncertainExecutionError, match="not today"):
        await buy(shop.actions(), scene)
    # Nobody knows how it ended: the log does not say that it was denied, nor that it changed nothing.
    assert (scene.types, shop.sold) == (ASKED, [3])


async def test_an_uncertain_call_fails_closed_where_nobody_can_be_asked() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    scene = second(first, "action.started")
    with pytest.raises(UncertainExecutionError, match="nobody can be asked"):
        await buy(shop.actions(), scene)
    assert (scene.types, shop.sold) == (["approval.required"], [3])


async def test_an_uncertain_call_that_policy_denies_now_is_denied() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    with pytest.raises(ActionDeniedError):
        await buy(shop.actions(DENY), second(first, "action.started", yes))
    assert shop.sold == [3]


async def test_an_interrupted_call_is_uncertain() -> None:
    shop, first = Shop(), Scene()
    running = asyncio.ensure_future(buy(shop.actions(), first))
    shop.during = running.cancel
    with pytest.raises(asyncio.CancelledError):
        await running
    shop.during = lambda: None
    scene = second(first, "action.canceled", no)
    with pytest.raises(UncertainExecutionError):
        await buy(shop.actions(), scene)
    assert shop.sold == [3]


async def test_that_a_call_may_be_repeated_counts_once() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    twice = second(first, "action.started", yes)
    await buy(shop.actions(), twice)
    cut = twice.types.index("action.started") + 1
    scene = Scene(no, journal=journal_of(first.log[:3], twice.log[:cut]))
    with pytest.raises(UncertainExecutionError):
        await buy(shop.actions(), scene)
    assert (len(scene.asked), shop.sold) == (1, [3, 3])


async def test_an_uncertain_question_that_is_open_or_answered_is_not_asked_again() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    twice = second(first, "action.started", yes)
    await buy(shop.actions(), twice)
    for cut, asked in ((1, 1), (2, 0)):
        scene = Scene(yes, journal=journal_of(first.log[:3], twice.log[:cut]))
        await buy(shop.actions(), scene)
        assert "approval.required" not in scene.types
        assert len(scene.asked) == asked


async def test_an_uncertain_call_is_repeated_with_the_arguments_it_was_begun_with() -> None:
    shop = Shop()
    actions = shop.actions(EDITABLE)
    first = await interrupted(shop, actions, editing(amount=1))
    scene = second(first, "action.started", yes)
    await buy(actions, scene)
    assert shop.sold == [1, 1]
    assert scene.asked[0][0].action.payload == {"arguments": {"amount": 1}}


async def test_the_answer_to_an_uncertain_question_may_edit_where_policy_lets_it() -> None:
    shop = Shop()
    actions = shop.actions(EDITABLE)
    first = await interrupted(shop, actions, yes)
    scene = second(first, "action.started", editing(amount=2))
    await buy(actions, scene)
    assert shop.sold == [3, 2]


async def test_an_action_without_a_position_is_new_each_time() -> None:
    shop = Shop()
    first = await interrupted(shop, shop.actions())
    scene = second(first, "action.completed")
    await shop.actions().call_tool(scene, "buy", {"amount": 3}, position="")
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
        return no(request) if request.metadata.get("uncertain") else answer(request)

    def scene_of(dies_at: int) -> Scene:
        scene = Scene(asked, journal=journal_of(*logs), budget=RunBudget(max_tool_calls=1))

        def dies(event: RunEvent) -> None:
            if len(scene.log) == dies_at:
                raise Crash

        scene.on_emit = dies
        return scene

    for dies_at, written in crashes:
        scene = scene_of(dies_at)
        with suppress(Crash, ActionDeniedError, UncertainExecutionError):
            await buy(actions, scene)
        # What was not flushed may be on disk or not.
        logs.append(scene.log if written else scene.log[: scene.committed])
    last = scene_of(0)
    ended: Any = None
    try:
        ended = (await buy(actions, last)).value()
    except (ActionDeniedError, UncertainExecutionError) as error:
        ended = type(error)
    assert len({event.action_id for log in logs for event in log if event.action_id}) <= 1
    assert last.budget.usage.tool_calls == 1
    if answer is no:
        assert (ended, shop.sold) == (ActionDeniedError, [])
    elif idempotent:
        assert ended == "bought 3"
    else:
        assert ended in ("bought 3", UncertainExecutionError)
        assert len(shop.sold) <= 1
