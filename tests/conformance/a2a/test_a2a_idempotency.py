"""A repeated request is the same request: `Idempotency-Key` as a header or gRPC metadata, on every binding of both versions."""

import asyncio
from itertools import count

import pytest
from a2a_stage import PATIENCE_S, World
from a2a_wires import Caller, Refused, message

pytestmark = pytest.mark.asyncio(loop_scope="module")

_numbers = count(1)


@pytest.fixture
def keyed(world: World, binding: str) -> Caller:
    """A new caller whose requests all have one key."""
    return world.caller(binding).with_headers(idempotency_key=f"key-{next(_numbers)}")


def task_of(events: list[dict[str, object]]) -> object:
    first = events[0]
    assert isinstance(first.get("task"), dict)
    return first["task"]["id"]  # type: ignore[index]  # a dict, as asserted


async def test_a_send_with_the_same_key_is_the_same_run(world: World, keyed: Caller) -> None:
    before = world.stage.works
    first, again = await keyed.task("hello"), await keyed.task("hello")
    assert again["id"] == first["id"]
    assert again["status"]["state"] == "TASK_STATE_COMPLETED"
    assert world.stage.works == before + 1


async def test_a_key_counts_whatever_the_body_says(world: World, keyed: Caller) -> None:
    before = world.stage.works
    first, other = await keyed.task("hello"), await keyed.task("something else")
    assert (other["id"], other["history"]) == (first["id"], first["history"])
    assert world.stage.works == before + 1


async def test_the_same_key_of_another_principal_is_another_request(world: World, keyed: Caller, binding: str) -> None:
    other = world.caller(binding).with_headers(idempotency_key=keyed.headers["idempotency-key"])
    assert (await keyed.task("hello"))["id"] != (await other.task("hello"))["id"]


async def test_a_stream_with_the_same_key_shows_the_same_run(world: World, keyed: Caller) -> None:
    before = world.stage.works
    first, again = await keyed.streamed("many"), await keyed.streamed("many")
    assert task_of(first) == task_of(again)
    assert world.stage.works == before + 1
    sent = await keyed.task("many")
    assert (sent["id"], world.stage.works) == (task_of(first), before + 1)


async def test_repetitions_at_the_same_time_share_a_run(world: World, keyed: Caller) -> None:
    before = world.stage.works
    text, script = world.stage.script()
    sending = [asyncio.create_task(keyed.task(text)) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_S):
        while world.stage.works == before:
            await asyncio.wait(sending, timeout=0.01)
        script.steps.put_nowait(None)
        found = await asyncio.gather(*sending)
    assert len({task["id"] for task in found}) == 1
    assert world.stage.works == before + 1


async def test_a_repeated_answer_to_a_question_is_one_turn(world: World, binding: str) -> None:
    caller = world.caller(binding)
    asked = await caller.task("ask what?")
    before = world.stage.works
    answering = caller.with_headers(idempotency_key=f"key-{next(_numbers)}")
    first = await answering.task(message("ask again?", taskId=asked["id"]))
    again = await answering.task(message("ask again?", taskId=asked["id"]))
    assert (first["status"]["state"], again["status"]["state"]) == ("TASK_STATE_INPUT_REQUIRED",) * 2
    assert len(again["history"]) == len(first["history"])
    assert world.stage.works == before + 1


async def test_a_key_that_is_too_long_is_refused_by_its_name(world: World, binding: str) -> None:
    before = world.stage.works
    with pytest.raises(Refused, match="Idempotency-Key: must be 1 to 128 bytes"):
        await world.caller(binding).with_headers(idempotency_key="k" * 129).task("hello")
    assert world.stage.works == before


async def test_a_request_id_in_the_metadata_is_a_key(world: World, binding: str) -> None:
    caller, before = world.caller(binding), world.stage.works
    key = f"key-{next(_numbers)}"
    metadata = {"plgrpc": {"request_id": key}, "own": 1}
    first, again = [await caller.task("hello", metadata=metadata) for _ in range(2)]
    by_header = await caller.with_headers(idempotency_key=key).task("hello")
    assert first["id"] == again["id"] == by_header["id"]
    assert world.stage.works == before + 1


@pytest.mark.parametrize("request_id", [7, "other", "a\nb"])
async def test_a_request_id_that_is_none_or_another_one_is_refused(
    keyed: Caller, world: World, request_id: object
) -> None:
    before = world.stage.works
    with pytest.raises(Refused, match="request_id"):
        await keyed.task("hello", metadata={"plgrpc": {"request_id": request_id}})
    assert world.stage.works == before


async def test_a_webhook_of_a_repeated_request_is_set_once(world: World, keyed: Caller) -> None:
    where = {"url": "http://127.0.0.1:9/hook"}
    for _ in range(2):
        task = await keyed.task("ask what?", configuration={"taskPushNotificationConfig": where})
    assert len((await keyed.list_push(task["id"]))["configs"]) == 1
