"""Typed calls of other agents as actions: what is recorded, what a recovering run does, and which instance it calls."""

from typing import Any

import pytest
from runtime_scene import ActionContext, journal_of, yes

from protolink_grpc.errors import (
    ActionDeniedError,
    BudgetExceededError,
    PermissionDeniedError,
    ProtolinkError,
    ToolFailedError,
    UnavailableError,
)
from protolink_grpc.models import RunBudget, RunContext
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.events import ActionEnded, PeerTaskLinked, RunEvent
from protolink_grpc.models.payload import Payload, TypedMessage
from protolink_grpc.policy.capabilities import CapabilityPolicy
from protolink_grpc.runtime.actions.gate import Gate
from protolink_grpc.runtime.actions.method_calls import MethodAnswer, call_method

RESPONSE = Payload(TypedMessage("acme.AddResponse", b"\x08\x05"), preview='{"result": 5}')
METHOD = "/acme.Calculator/Add"
COMPLETED = ["action.requested", "action.policy", "action.started", "action.completed"]


class Call:
    """A call of an agent with the instances `a` and `b`.

    Attributes:
        sent: URL, action id and budget of each call that was sent, with the number of committed events.
    """

    agent, method, request = "calculator", METHOD, {"a": "2", "b": "3"}

    def __init__(self, *answers: MethodAnswer, reached: str = "", fails: ProtolinkError | None = None) -> None:
        self.answers = list(answers) or [MethodAnswer(RESPONSE, BudgetUsage(tool_calls=1))]
        self.chosen = 0
        self.connected: list[str] = []
        self.sent: list[tuple[str, str, RunContext, int]] = []
        self.scene: ActionContext | None = None
        self._reached, self._fails = reached, fails

    async def choose_instance(self) -> str:
        self.chosen += 1
        return "grpc://a"

    async def connect(self, url: str) -> str:
        self.connected.append(url)
        if self._fails is not None:
            raise self._fails
        return self._reached or url

    async def send(self, url: str, action_id: str, context: RunContext) -> MethodAnswer:
        self.sent.append((url, action_id, context, self.scene.committed if self.scene is not None else 0))
        return self.answers.pop(0)


async def make(call: Call, scene: ActionContext, policy: Any = None) -> Payload:
    call.scene = scene
    return await call_method(Gate(policy), scene, call, position="here")


def until(log: list[RunEvent], kind: str) -> list[RunEvent]:
    """The log of a run whose process died after the last event of a kind."""
    last = max(index for index, event in enumerate(log) if event.type == kind)
    return log[: last + 1]


async def test_a_call_is_an_action_with_the_message_the_instance_and_the_response() -> None:
    call, scene = Call(), ActionContext()
    assert await make(call, scene) == RESPONSE
    assert scene.types == COMPLETED
    action = scene.payload("action.requested").action
    assert (action.kind, action.name, action.capabilities) == ("agent.call", "calculator", {"agent.delegate"})
    assert action.payload == {
        "agent": "calculator",
        "method": METHOD,
        "url": "grpc://a",
        "request": {"a": "2", "b": "3"},
    }
    ended: ActionEnded = scene.payload("action.completed")
    assert (ended.result, ended.usage) == (RESPONSE, BudgetUsage(tool_calls=1))
    ((url, action_id, _, committed),) = call.sent
    assert (url, action_id) == ("grpc://a", action.action_id)
    assert scene.types[:committed] == COMPLETED[:3]  # its start is on disk before it is sent


async def test_the_ids_of_the_calls_task_are_recorded_when_a_response_has_named_it() -> None:
    link = PeerTaskLinked("calculator", "grpc://a", "plgrpc", "the task")
    scene = ActionContext()
    await make(Call(MethodAnswer(RESPONSE, BudgetUsage(), link=link)), scene)
    assert scene.types == [*COMPLETED[:3], "action.peer_task", COMPLETED[3]]
    assert scene.payload("action.peer_task") == link
    assert {event.action_id for event in scene.log} == {scene.payload("action.requested").action.action_id}


async def test_the_context_of_the_call_is_a_child_with_the_share_of_the_budget() -> None:
    context = RunContext("run-1", "session-1", agent_chain=["planner"], permissions={"a.b": False})
    call, scene = Call(), ActionContext(context=context, budget=RunBudget(max_tool_calls=4))
    await make(call, scene)
    child = call.sent[0][2]
    assert (child.parent_run_id, child.agent_chain, child.session_id) == ("run-1", ["planner"], "session-1")
    assert (child.permissions, child.budget.max_tool_calls) == ({"a.b": False}, 4)
    assert scene.budget.usage.tool_calls == 1


async def test_a_recovering_run_gets_the_recorded_response_and_calls_nothing() -> None:
    scene = ActionContext()
    await make(Call(), scene)
    again = Call()
    assert await make(again, ActionContext(journal=journal_of(scene.log))) == RESPONSE
    assert (again.chosen, again.connected, again.sent) == (0, [], [])


async def test_a_call_without_an_end_is_repeated_with_its_id_at_its_instance_without_approval() -> None:
    scene, first = ActionContext(), Call()
    await make(first, scene)
    again, later = Call(), ActionContext(journal=journal_of(until(scene.log, "action.started")))
    assert await make(again, later) == RESPONSE
    assert [each[:2] for each in again.sent] == [each[:2] for each in first.sent]
    assert (again.chosen, again.connected) == (0, [])  # another instance would run it a second time
    assert later.types == ["action.started", "action.completed"]


async def test_a_call_that_was_only_requested_may_go_to_another_instance() -> None:
    scene = ActionContext()
    await make(Call(), scene)
    again, later = Call(reached="grpc://b"), ActionContext(journal=journal_of(until(scene.log, "action.policy")))
    await make(again, later)
    assert (again.connected, again.sent[0][0]) == (["grpc://a"], "grpc://b")


async def test_an_instance_that_takes_the_place_of_another_is_recorded_before_the_call_and_stays() -> None:
    scene, call = ActionContext(), Call(reached="grpc://b")
    await make(call, scene)
    assert scene.types == [*COMPLETED[:2], "action.started", "action.started", "action.completed"]
    url, _, _, committed = call.sent[0]
    assert url == "grpc://b"
    assert scene.log[committed - 1].payload.arguments["url"] == "grpc://b"  # type: ignore[union-attr]  # ActionStarted
    again = Call()
    await make(again, ActionContext(journal=journal_of(until(scene.log, "action.started"))))
    assert [each[:2] for each in again.sent] == [each[:2] for each in call.sent]


async def test_a_recovered_call_that_is_interrupted_again_stays_at_its_instance() -> None:
    first, second = ActionContext(), Call(reached="grpc://b")
    await make(second, first)
    begun = until(first.log, "action.started")
    later = ActionContext(journal=journal_of(begun))
    await make(Call(), later)
    third = Call()
    await make(third, ActionContext(journal=journal_of(begun, until(later.log, "action.started"))))
    assert third.sent[0][:2] == second.sent[0][:2]


@pytest.mark.parametrize(
    ("answer", "used"),
    [
        (MethodAnswer(RESPONSE, BudgetUsage(tool_calls=2)), 2),
        (MethodAnswer(RESPONSE, None), 5),
        (MethodAnswer(None, None, UnavailableError("gone")), 5),
        (MethodAnswer(None, BudgetUsage(), PermissionDeniedError("no")), 0),
    ],
    ids=["stated", "unknown", "unknown and failed", "refused"],
)
async def test_an_unknown_usage_counts_the_whole_share(answer: MethodAnswer, used: int) -> None:
    scene = ActionContext(budget=RunBudget(max_tool_calls=5))
    call = make(Call(answer), scene)
    if answer.error is None:
        await call
    else:
        with pytest.raises(type(answer.error)):
            await call
    assert scene.budget.usage.tool_calls == used
    assert scene.log[-1].payload.usage.tool_calls == used  # type: ignore[union-attr]  # ActionEnded
    assert journal_of(scene.log).usage == BudgetUsage(tool_calls=used)


async def test_a_call_that_could_not_be_sent_costs_nothing() -> None:
    scene = ActionContext(budget=RunBudget(max_tool_calls=5))
    with pytest.raises(UnavailableError):
        await make(Call(fails=UnavailableError("the registry is away")), scene)
    assert (scene.types[-1], scene.budget.usage.tool_calls) == ("action.failed", 0)


@pytest.mark.parametrize("error", [BudgetExceededError("used up"), ActionDeniedError("denied")])
async def test_a_limit_of_the_other_agent_is_a_failure_and_no_limit_of_this_run(error: ProtolinkError) -> None:
    scene = ActionContext()
    with pytest.raises(ToolFailedError, match="agent 'calculator'") as failed:
        await make(Call(MethodAnswer(None, BudgetUsage(), error)), scene)
    assert failed.value.is_of_peer
    assert failed.value.failure.reason == error.reason
    assert scene.types == [*COMPLETED[:3], "action.failed"]
    with pytest.raises(ToolFailedError, match="agent 'calculator'"):
        await make(Call(), ActionContext(journal=journal_of(scene.log)))


async def test_a_denied_call_is_never_sent() -> None:
    call, scene = Call(), ActionContext()
    with pytest.raises(ActionDeniedError):
        await make(call, scene, CapabilityPolicy({"agent.delegate": "deny"}))
    assert (call.connected, call.sent) == ([], [])


async def test_an_answer_to_an_approval_counts_for_the_run_that_recovers() -> None:
    policy, scene = CapabilityPolicy({"agent.delegate": "ask"}), ActionContext(yes)
    await make(Call(), scene, policy)
    later, call = ActionContext(journal=journal_of(until(scene.log, "approval.decided"))), Call()
    assert await make(call, later, policy) == RESPONSE
    assert (later.asked, call.chosen) == ([], 0)
