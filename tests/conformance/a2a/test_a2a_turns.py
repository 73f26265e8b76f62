"""The end of a turn in responses and streams: behind a queue, beside an approval, and while other turns run."""

import asyncio
from typing import Any

import pytest
from a2a_stage import PATIENCE_S, Stage, World, agent_with, by_token, card, numbered, playing, push
from a2a_wires import Caller, message

from protolink_grpc import A2AOptions, Approvals, HttpOptions, Limits, Principal
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.push_operations import PIECE
from protolink_grpc.a2a.values import V03, V1, CallerInfo, ListParams
from protolink_grpc.errors import StoreError
from protolink_grpc.runtime.service import TaskService

BINDING = "jsonrpc"
"""What is asked here is decided behind the bindings."""


def operations_of(world: World) -> Operations:
    ports: Any = world.agent._ports
    found: Operations = ports._operations
    return found


def service_of(world: World) -> TaskService:
    found = world.agent._service
    assert found is not None
    return found


async def streamed_end(caller: Caller, task_id: str) -> str:
    events = await caller.streamed(message("more", taskId=task_id))
    state: str = events[-1]["statusUpdate"]["status"]["state"]
    return state


async def sent_end(caller: Caller, task_id: str) -> str:
    state: str = (await caller.task(message("more", taskId=task_id)))["status"]["state"]
    return state


@pytest.mark.parametrize("approvals", [None, Approvals()], ids=["alone", "approvals"])
@pytest.mark.parametrize("end_of", [streamed_end, sent_end])
async def test_a_turn_that_waits_for_a_slot_is_not_over(end_of: Any, approvals: Approvals | None) -> None:
    agent = Stage(
        card(),
        http=HttpOptions(),
        authenticator=by_token,
        limits=Limits(max_concurrency=1),
        approvals=approvals,
        grace_s=0.2,
    )
    async with playing(agent) as world:
        caller = world.caller(BINDING)
        task_id = (await caller.task("ask what?"))["id"]
        text, script = world.stage.script()
        await caller.begin(text)
        going = asyncio.ensure_future(end_of(caller, task_id))
        async with asyncio.timeout(PATIENCE_S):
            while len((await caller.get(task_id)).get("history", ())) < 2:
                await asyncio.sleep(0)
            assert not going.done()
            script.ends()
            assert await going == "TASK_STATE_COMPLETED"


async def test_a_send_waits_for_its_task_although_nobody_can_look_for_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with playing(agent_with(approvals=Approvals())) as world:
        looked = asyncio.Event()

        async def failing(task_id: str, owner: str) -> None:
            looked.set()
            raise StoreError("away")

        monkeypatch.setattr(operations_of(world), "_wait_for_approval", failing)
        text, script = world.stage.script()
        sending = asyncio.ensure_future(world.caller(BINDING).task(text))
        async with asyncio.timeout(PATIENCE_S):
            await looked.wait()
            script.ends()
            assert (await sending)["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_an_answer_is_read_before_notifications_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with playing(agent_with(A2AOptions(push=push()))) as world:
        caller = world.caller(BINDING)
        webhooks: Any = operations_of(world).push._webhooks
        text, script = world.stage.script()

        async def next_turn(task_id: str, within_s: float) -> None:
            monkeypatch.undo()
            await caller.begin(message(text, taskId=task_id))

        monkeypatch.setattr(webhooks, "flush", next_turn)
        assert (await caller.task("ask what?"))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        script.ends()


async def test_a_list_leaves_out_what_the_store_has_just_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async with playing(agent_with()) as world:
        caller = world.caller(BINDING, "ada")
        gone, kept = [(await caller.task("hello"))["id"] for _ in range(2)]
        service = service_of(world)
        head = service.store.head

        async def forgetful(task_id: str) -> Any:
            return None if task_id == gone else await head(task_id)

        monkeypatch.setattr(service.store, "head", forgetful)
        params = ListParams(include_artifacts=True)
        page = await operations_of(world).list_tasks(CallerInfo(Principal("ada"), True, V1), params)
        assert [view.task_id for view in page.tasks] == [kept]


async def test_a_webhook_of_v03_is_told_once_what_one_reading_of_the_task_holds() -> None:
    async with playing(agent_with(A2AOptions(push=push()))) as world:
        caller = world.caller(BINDING, "ada")
        text, script = world.stage.script()
        task_id = (await caller.begin(text))["id"]
        await script.does(*map(numbered, range(2 * PIECE)))
        store = service_of(world).store
        async with asyncio.timeout(PATIENCE_S):
            while (head := await store.head(task_id)) is None or head.sequence <= 2 * PIECE:
                await store.wait(task_id, head.sequence if head else 0)
        rendered = await operations_of(world).push.render(V03, "ada", task_id, 0)
        assert rendered.sequence >= head.sequence
        assert len(rendered.notifications) == 1
        script.ends()
