"""Approvals over A2A: a task waits for an answer of its caller or of another principal, and continues afterwards."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from a2a_stage import PATIENCE_S, World, by_token, card, playing, said
from a2a_wires import V1_NAMES, Caller, Json, Refused, everything, message

from protolink_grpc import Agent, AgentClient, Approvals, CapabilityPolicy, HttpOptions, Limits
from protolink_grpc.client.channel import close_channels

pytestmark = pytest.mark.asyncio(loop_scope="module")

PART = "application/vnd.plgrpc.part+json"
BOSS = "boss"


def hotel(approvals: Approvals) -> Agent:
    agent = Agent(
        card(name="hotel"),
        policy=CapabilityPolicy({"booking.write": {"effect": "require_approval"}}),
        approvals=approvals,
        authenticator=by_token,
        http=HttpOptions(),
        limits=Limits(max_concurrency=64),
        grace_s=0.2,
    )

    @agent.tool(capabilities=["booking.write"])
    def book(nights: int) -> str:
        """Book a room."""
        return f"booked {nights} nights"

    return agent


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def _closed() -> AsyncIterator[None]:
    yield
    await close_channels()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def own() -> AsyncIterator[World]:
    """Callers answer for themselves."""
    async with playing(hotel(Approvals())) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def supervised() -> AsyncIterator[World]:
    """Only the boss answers."""
    async with playing(hotel(Approvals(approvers=[BOSS]))) as found:
        yield found


def booking(nights: int = 2) -> Json:
    """A call of the tool, as a part of ours."""
    call = {"tool_name": "book", "args": {"nights": nights}, "call_id": "c1"}
    return message(parts=[{"data": {"type": "tool_call", "content": call}, "mediaType": PART}])


def question(task: Json) -> Json:
    """What the status message says for programs."""
    (found,) = [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]
    assert found["type"] == "approval"
    content: Json = found["content"]
    return content


def is_booked(task: Json) -> bool:
    return "booked 2 nights" in str(task.get("artifacts"))


def decision(request_id: str, approved: bool, **more: Any) -> Json:
    content = {"request_id": request_id, "approved": approved, **more}
    return {"data": {"type": "approval_decision", "content": content}, "mediaType": PART}


async def test_a_blocking_send_answers_with_the_question(own: World, binding: str) -> None:
    caller = own.caller(binding)
    task = await caller.task(booking())
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert "book" in said(task["status"]["message"])
    asked = question(task)
    assert (asked["name"], asked["answerable"]) == ("book", True)
    assert asked["request_id"]
    assert await caller.get(task["id"]) == task


async def test_a_stream_shows_the_question_and_ends(own: World, binding: str) -> None:
    caller = own.caller(binding)
    events = await caller.streamed(booking())
    last = events[-1]["statusUpdate"]["status"]
    assert last["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert question({"status": last})["answerable"] is True
    assert (await caller.get(events[0]["task"]["id"]))["status"] == last


@pytest.mark.parametrize("text", ["approve", " Approve\n"])
async def test_the_word_that_approves_lets_the_work_go_on(own: World, binding: str, text: str) -> None:
    caller = own.caller(binding)
    task = await caller.task(booking())
    end = await caller.task(message(text, taskId=task["id"]))
    assert end["status"]["state"] == "TASK_STATE_COMPLETED"
    assert is_booked(end)
    assert end["contextId"] == task["contextId"]


async def test_the_word_that_denies_keeps_the_work_from_being_done(own: World, binding: str) -> None:
    caller = own.caller(binding)
    task = await caller.task(booking())
    end = await caller.task(message("deny", taskId=task["id"]))
    assert end["status"]["state"] in ("TASK_STATE_FAILED", "TASK_STATE_COMPLETED")
    assert not is_booked(end)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_data_part_answers_for_programs(own: World, binding: str, approved: bool) -> None:
    caller = own.caller(binding)
    task = await caller.task(booking())
    part = decision(question(task)["request_id"], approved, reason="because")
    end = await caller.task(message(parts=[part], taskId=task["id"]))
    assert is_booked(end) is approved
    assert approved or "because" in str(end)


async def test_plain_data_answers_too(own: World, binding: str) -> None:
    """Programs that know nothing of ours."""
    caller = own.caller(binding)
    task = await caller.task(booking())
    part = {"data": {"request_id": question(task)["request_id"], "approved": True}}
    assert is_booked(await caller.task(message(parts=[part], taskId=task["id"])))


async def test_a_streamed_answer_shows_what_follows_from_it(own: World, binding: str) -> None:
    caller = own.caller(binding)
    task = await caller.task(booking())
    events = await caller.streamed(message("approve", taskId=task["id"]))
    assert "task" in events[0]
    assert events[-1].get("statusUpdate", events[0].get("task"))["status"]["state"] == "TASK_STATE_COMPLETED"
    assert is_booked(await caller.get(task["id"]))


async def test_anything_else_is_no_answer_and_the_question_stays(own: World, binding: str) -> None:
    caller = own.caller(binding)
    task = await caller.task(booking())
    for parts in (
        [{"text": "what do you mean?"}],
        [{"text": "yes"}],
        [decision("no-such-request", True)],
    ):
        with pytest.raises(Refused):
            await caller.send(message(parts=parts, taskId=task["id"]))
    assert await caller.get(task["id"]) == task


async def test_a_subscription_sees_question_answer_and_end(own: World, binding: str) -> None:
    caller = own.caller(binding)
    task = await caller.task(booking())
    stream = caller.subscribe(task["id"])
    assert (await anext(stream))["task"]["status"] == task["status"]
    await caller.send(message("approve", taskId=task["id"]))
    async with asyncio.timeout(PATIENCE_S):
        events = await everything(stream)
    states = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
    assert states[-1] == "TASK_STATE_COMPLETED"
    assert "TASK_STATE_INPUT_REQUIRED" not in states


async def test_a_waiting_task_can_be_canceled(own: World, binding: str) -> None:
    caller = own.caller(binding)
    task = await caller.task(booking())
    assert (await caller.cancel(task["id"]))["status"]["state"] == "TASK_STATE_CANCELED"
    with pytest.raises(Refused) as refused:
        await caller.send(message("approve", taskId=task["id"]))
    assert refused.value.reason == "UNSUPPORTED_OPERATION"


@pytest.mark.parametrize("binding", V1_NAMES)
async def test_a_list_shows_that_the_task_waits(own: World, binding: str) -> None:
    caller = own.caller(binding)
    task = await caller.task(booking())
    (listed,) = (await caller.listed())["tasks"]
    assert listed["status"] == task["status"]


@pytest.mark.parametrize("binding", V1_NAMES)
async def test_a_list_is_filtered_by_the_status_that_it_shows(own: World, binding: str) -> None:
    caller = own.caller(binding)
    task = await caller.task(booking())
    waiting = await caller.listed(status="TASK_STATE_INPUT_REQUIRED")
    working = await caller.listed(status="TASK_STATE_WORKING")
    assert [each["id"] for each in waiting["tasks"]] == [task["id"]]
    assert working["tasks"] == []


async def test_what_others_have_to_approve_asks_nothing_of_the_caller(supervised: World, binding: str) -> None:
    """32: the state comes with a message, and authorizes nothing by itself."""
    caller = supervised.caller(binding)
    task = await caller.task(booking())
    assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    assert question(task)["answerable"] is False
    for given in ("approve", "deny"):
        with pytest.raises(Refused):
            await caller.send(message(given, taskId=task["id"]))
    assert await caller.get(task["id"]) == task


async def test_what_others_approve_goes_on_without_a_message_of_the_caller(supervised: World, binding: str) -> None:
    """32: every reader sees it."""
    caller = supervised.caller(binding)
    task = await caller.task(booking())
    stream = caller.subscribe(task["id"])
    await anext(stream)
    await answered_by_boss(supervised, question(task)["request_id"])
    async with asyncio.timeout(PATIENCE_S):
        events = await everything(stream)
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert is_booked(await caller.get(task["id"]))


async def answered_by_boss(world: World, request_id: str) -> None:
    boss = AgentClient(url=world.agent.card.url, metadata=(("authorization", f"Bearer {BOSS}"),))
    (approval,) = [each for each in (await boss.list_approvals()).approvals if each.approval_id == request_id]
    await boss.respond_approval(None, approval, True)


async def test_the_boss_sees_no_task_of_others_over_a2a(supervised: World, binding: str) -> None:
    """31: who may approve may not read."""
    task = await supervised.caller(binding).task(booking())
    boss: Caller = supervised.caller(binding, BOSS)
    with pytest.raises(Refused) as refused:
        await boss.get(task["id"])
    assert refused.value.reason == "TASK_NOT_FOUND"
