"""Sending and streaming of messages over every binding. Numbers are those of the list of requirements."""

import asyncio
import random
from contextlib import aclosing, suppress

import pytest
from a2a_stage import PATIENCE_S, World, numbered, said
from a2a_wires import V03_NAMES, V1_NAMES, Caller, Json, Refused, everything, message

from protolink_grpc import Artifact, Message, Part
from protolink_grpc.models.events import TaskArtifactUpdated, TaskProgress

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = "no-such-task"


def kinds(events: list[Json]) -> list[str]:
    return [next(iter(event)) for event in events]


def states(events: list[Json]) -> list[str]:
    """Of the status updates and the tasks, without repetitions."""
    found: list[str] = []
    for event in events:
        holder = event.get("task") or event.get("statusUpdate")
        if holder and found[-1:] != [holder["status"]["state"]]:
            found.append(holder["status"]["state"])
    return found


def artifact_names(events: list[Json]) -> list[str]:
    """Of all that a reader has seen: the first snapshot's, then the updates'."""
    found = [each["name"] for each in events[0].get("task", {}).get("artifacts", ())]
    return found + [event["artifactUpdate"]["artifact"]["name"] for event in events if "artifactUpdate" in event]


# -- 1 to 4: SendMessage -------------------------------------------------------------------------------------------------


async def test_an_answer_is_a_task_or_a_message_and_never_both(speaking: World, binding: str) -> None:
    """1."""
    caller = speaking.caller(binding)
    task = await caller.send("hello")
    reply = await caller.send("reply so be it")
    assert list(task) == ["task"]
    assert list(reply) == ["message"]
    assert said(reply["message"]) == "so be it"
    assert reply["message"]["role"] == "ROLE_AGENT"
    assert reply["message"]["messageId"]


async def test_a_blocking_send_answers_with_the_end_and_all_artifacts(caller: Caller) -> None:
    """2."""
    task = await caller.task("many")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert said(task["status"]["message"]) == "all three"
    assert [each["name"] for each in task["artifacts"]] == ["n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("ask what?", "TASK_STATE_INPUT_REQUIRED"),
        ("login", "TASK_STATE_AUTH_REQUIRED"),
        ("break", "TASK_STATE_FAILED"),
        ("refuse", "TASK_STATE_REJECTED"),
    ],
)
async def test_a_blocking_send_answers_at_every_end_of_a_turn(caller: Caller, text: str, state: str) -> None:
    """2 and 32: an interrupted task says in its status what it waits for."""
    task = await caller.task(text)
    assert task["status"]["state"] == state
    assert said(task["status"]["message"])
    assert (await caller.get(task["id"]))["status"] == task["status"]


async def test_an_immediate_answer_does_not_wait_for_the_work(world: World, caller: Caller) -> None:
    """3."""
    text, script = world.stage.script()
    task = await caller.begin(text)
    assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
    script.ends()
    assert (await settled(caller, task["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_an_older_client_that_says_no_more_than_that_it_will_not_wait_does_not_wait(world: World) -> None:
    """3: in JSON, unlike in protobuf, false is said."""
    text, script = world.stage.script()
    caller = world.caller("rest-0.3")
    body = {
        "message": {"messageId": "m-alone", "role": "ROLE_USER", "content": [{"text": text}]},
        "configuration": {"blocking": False},
    }
    asked = asyncio.ensure_future(world.line.http.post("/v1/message:send", json=body, headers=caller.headers))
    done, _ = await asyncio.wait([asked], timeout=1.0)
    script.ends()
    assert done
    assert (await asked).json()["task"]["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")


async def test_a_stream_does_not_care_whether_an_immediate_answer_was_asked_for(world: World, caller: Caller) -> None:
    """3."""
    events = await caller.streamed("many", configuration={"returnImmediately": True})
    assert states(events)[-1] == "TASK_STATE_COMPLETED"
    assert artifact_names(events) == ["n1", "n2", "n3"]


async def settled(caller: Caller, task_id: str) -> Json:
    """The task at its end. If it has already ended, no subscription is possible."""
    with suppress(Refused):
        async with asyncio.timeout(PATIENCE_S):
            await caller.subscribed(task_id)
    return await caller.get(task_id)


@pytest.mark.parametrize("text", ["done", "break", "refuse"])
async def test_a_finished_task_takes_no_more_messages(caller: Caller, text: str) -> None:
    """4."""
    task = await caller.task(text)
    for send in (caller.send, caller.streamed):
        with pytest.raises(Refused) as refused:
            await send(message("more", taskId=task["id"], contextId=task["contextId"]))
        assert refused.value.reason == "UNSUPPORTED_OPERATION"
        if caller.name != "grpc-0.3":  # see the next one
            assert refused.value.code == caller.expected("UNSUPPORTED_OPERATION")
    assert await caller.get(task["id"]) == task


async def test_one_error_has_one_status_in_older_grpc(world: World) -> None:
    """4 and 30."""
    caller = world.caller("grpc-0.3")
    task = await caller.task("done")
    with pytest.raises(Refused) as sent:
        await caller.send(message("more", taskId=task["id"]))
    with pytest.raises(Refused) as subscribed:
        await caller.subscribed(task["id"])
    assert sent.value.reason == subscribed.value.reason == "UNSUPPORTED_OPERATION"
    assert sent.value.code == subscribed.value.code == caller.expected("UNSUPPORTED_OPERATION")


async def test_a_working_task_takes_no_message_either(world: World, caller: Caller) -> None:
    """4: nothing waits for one."""
    text, script = world.stage.script()
    task = await caller.begin(text)
    with pytest.raises(Refused) as refused:
        await caller.send(message("more", taskId=task["id"]))
    assert refused.value.reason == "UNSUPPORTED_OPERATION"
    script.ends()


async def test_a_part_of_a_kind_that_the_card_does_not_name_is_refused_before_work(
    world: World, caller: Caller
) -> None:
    """4 and 27."""
    works = world.stage.works
    video = {"url": "https://example.com/v.mp4", "mediaType": "video/mp4"}
    for send in (caller.send, caller.streamed):
        with pytest.raises(Refused) as refused:
            await send(message("look", parts=[{"text": "look"}, video]))
        assert refused.value.reason == "CONTENT_TYPE_NOT_SUPPORTED"
        assert refused.value.code == caller.expected("CONTENT_TYPE_NOT_SUPPORTED")
        assert "video/mp4" in refused.value.message
    assert world.stage.works == works


async def test_a_part_of_a_kind_that_the_card_names_is_taken(caller: Caller) -> None:
    """4."""
    image = {"raw": "iVBORw==", "mediaType": "image/png", "filename": "a.png"}
    task = await caller.task(message(parts=[{"text": "echo"}, image]))
    assert task["artifacts"][0]["parts"] == [image]


# -- 5 and 6: streams ----------------------------------------------------------------------------------------------------


async def test_a_stream_of_a_message_is_that_message_alone(speaking: World, binding: str) -> None:
    """5."""
    events = await speaking.caller(binding).streamed("reply just this")
    assert kinds(events) == ["message"]
    assert said(events[0]["message"]) == "just this"


async def test_a_stream_of_a_task_shows_the_task_first_and_nothing_but_updates_after_it(caller: Caller) -> None:
    """5: the first-event rule."""
    events = await caller.streamed("many")
    assert kinds(events)[0] == "task"
    assert "task" not in kinds(events)[1:]
    assert "message" not in kinds(events)
    assert events[0]["task"]["history"][0]["parts"] == [{"text": "many"}]
    assert states(events)[-1] == "TASK_STATE_COMPLETED"
    assert artifact_names(events) == ["n1", "n2", "n3"]
    ids = {(each["id"] if "id" in each else each["taskId"]) for event in events for each in event.values()}
    assert len(ids) == 1


async def test_an_agent_that_may_answer_with_messages_keeps_the_first_event_rule(speaking: World, binding: str) -> None:
    """5."""
    events = await speaking.caller(binding).streamed("many")
    assert kinds(events)[0] == "task"
    assert "task" not in kinds(events)[1:]
    assert artifact_names(events) == ["n1", "n2", "n3"]


@pytest.mark.parametrize("text", ["done", "break", "refuse", "ask more", "login"])
async def test_a_stream_ends_with_its_turn(caller: Caller, text: str) -> None:
    """5: at the end of the task, or where it waits; the last event shows which."""
    events = await caller.streamed(text)
    (task_id,) = {event["task"]["id"] for event in events if "task" in event}
    assert states(events)[-1] == (await caller.get(task_id))["status"]["state"]
    assert "statusUpdate" in events[-1]


@pytest.mark.parametrize("binding", V03_NAMES)
@pytest.mark.parametrize(
    "text",
    [
        "done",
        "break",
        "ask more",
        "login",
    ],
)
async def test_the_last_update_of_a_stream_says_to_older_clients_that_it_is(
    world: World, binding: str, text: str
) -> None:
    """5: v0.3's `final`, and no update before it."""
    events = await world.caller(binding).streamed(text)
    flags = [event["statusUpdate"]["final"] for event in events if "statusUpdate" in event]
    assert flags == [False] * (len(flags) - 1) + [True]


async def test_the_stream_of_a_second_turn_begins_with_the_task_as_it_is(caller: Caller) -> None:
    """5."""
    task = await caller.task("ask which one?")
    events = await caller.streamed(message("the red one", taskId=task["id"]))
    assert kinds(events)[0] == "task"
    assert events[0]["task"]["id"] == task["id"]
    assert states(events)[-1] == "TASK_STATE_COMPLETED"


async def test_all_streams_of_a_task_show_the_same_updates_in_the_same_order(world: World, caller: Caller) -> None:
    """6."""
    text, script = world.stage.script()
    task = await caller.begin(text)
    streams = [caller.subscribe(task["id"]) for _ in range(4)]
    firsts = [await anext(stream) for stream in streams]
    reading = [asyncio.ensure_future(everything(stream)) for stream in streams]
    await script.does(TaskProgress(10, "begun"), numbered(1), Message.agent("a word"), numbered(2), numbered(3))
    script.ends()
    found = await asyncio.gather(*reading)
    assert all(list(first) == ["task"] for first in firsts)
    assert found[0]
    assert all(each == found[0] for each in found)
    assert [event["artifactUpdate"]["artifact"]["name"] for event in found[0] if "artifactUpdate" in event] == [
        "n1",
        "n2",
        "n3",
    ]


async def test_hanging_up_one_stream_affects_neither_the_others_nor_the_task(world: World, caller: Caller) -> None:
    """6."""
    text, script = world.stage.script()
    task = await caller.begin(text)
    kept, dropped = caller.subscribe(task["id"]), caller.subscribe(task["id"])
    first = await anext(kept)
    await anext(dropped)
    await script.does(numbered(1))
    await dropped.aclose()
    await script.does(numbered(2))
    script.ends()
    events = [first, *await everything(kept)]
    assert artifact_names(events) == ["n1", "n2"]
    assert (await caller.get(task["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_hanging_up_on_the_stream_that_began_a_task_does_not_end_it(world: World, caller: Caller) -> None:
    """6."""
    text, script = world.stage.script()
    async with aclosing(caller.streaming(text)) as stream:
        task_id = (await anext(stream))["task"]["id"]
    await script.does(numbered(1))
    script.ends()
    task = await settled(caller, task_id)
    assert [each["name"] for each in task["artifacts"]] == ["n1"]


# -- 7: SubscribeToTask --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whoever_subscribes_at_any_moment_sees_every_artifact_once_and_in_order(
    world: World, caller: Caller, seed: int
) -> None:
    """7: no gap between the snapshot and the next event, and nothing twice."""
    dice, count = random.Random(seed), 40
    moments = sorted(dice.sample(range(count), 6))
    text, script = world.stage.script()
    task = await caller.begin(text)
    inside: list[asyncio.Event] = []

    async def reader(begun: asyncio.Event) -> list[Json]:
        found = []
        async with aclosing(caller.subscribe(task["id"])) as stream:
            async for event in stream:
                found.append(event)
                begun.set()
        return found

    readers = []
    for number in range(count):
        if number in moments:
            # Not waited for: the request races with the artifacts that follow.
            inside.append(asyncio.Event())
            readers.append(asyncio.ensure_future(reader(inside[-1])))
        await script.does(numbered(number))
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(each.wait() for each in inside))
    script.ends()
    for events in await asyncio.gather(*readers):
        assert kinds(events)[0] == "task"
        assert "task" not in kinds(events)[1:]
        assert artifact_names(events) == [f"n{number}" for number in range(count)]
        assert states(events)[-1] == "TASK_STATE_COMPLETED"


async def test_a_subscriber_amid_the_work_sees_what_was_and_what_comes(world: World, caller: Caller) -> None:
    """7: the same at a moment that is certain to lie amid the artifacts."""
    text, script = world.stage.script()
    task = await caller.begin(text)
    await script.does(numbered(0), numbered(1))
    stream = caller.subscribe(task["id"])
    events = [await anext(stream)]
    assert [each["name"] for each in events[0]["task"]["artifacts"]] == ["n0", "n1"]
    await script.does(numbered(2))
    script.ends()
    events += await everything(stream)
    assert artifact_names(events) == ["n0", "n1", "n2"]
    assert states(events)[-1] == "TASK_STATE_COMPLETED"


async def test_chunks_of_an_artifact_that_arrive_after_the_snapshot_continue_it(world: World, caller: Caller) -> None:
    """7."""
    text, script = world.stage.script()
    task = await caller.begin(text)
    whole = Artifact(parts=[Part("text", "one ")], name="letter")
    await script.does(TaskArtifactUpdated(whole))
    stream = caller.subscribe(task["id"])
    snapshot = await anext(stream)
    more = Artifact(id=whole.id, parts=[Part("text", "two")], name="letter")
    await script.does(TaskArtifactUpdated(more, append=True, last_chunk=True))
    script.ends()
    events = await everything(stream)
    assert [part["text"] for part in snapshot["task"]["artifacts"][0]["parts"]] == ["one "]
    (update,) = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    assert (update["append"], update["lastChunk"]) == (True, True)
    assert update["artifact"]["artifactId"] == whole.id
    assert [part["text"] for part in update["artifact"]["parts"]] == ["two"]
    (artifact,) = (await caller.get(task["id"]))["artifacts"]
    assert [part["text"] for part in artifact["parts"]] == ["one ", "two"]


async def test_a_subscription_stays_open_while_the_task_waits_for_its_caller(caller: Caller) -> None:
    """7: closed at the end of the task, not of a turn."""
    task = await caller.task("ask which?")
    stream = caller.subscribe(task["id"])
    snapshot = await anext(stream)
    assert snapshot["task"]["status"] == task["status"]
    await caller.send(message("ask again?", taskId=task["id"]))
    await caller.send(message("this one", taskId=task["id"]))
    events = await everything(stream)
    assert states(events) == [
        "TASK_STATE_WORKING",
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_WORKING",
        "TASK_STATE_COMPLETED",
    ]


async def test_a_finished_task_cannot_be_subscribed_to(caller: Caller) -> None:
    """7."""
    task = await caller.task("done")
    with pytest.raises(Refused) as refused:
        await caller.subscribed(task["id"])
    assert refused.value.reason == "UNSUPPORTED_OPERATION"
    assert refused.value.code == caller.expected("UNSUPPORTED_OPERATION")


async def test_an_unknown_task_cannot_be_subscribed_to(caller: Caller) -> None:
    """7."""
    with pytest.raises(Refused) as refused:
        await caller.subscribed(UNKNOWN)
    assert refused.value.reason == "TASK_NOT_FOUND"


# -- 8 to 10: ids and contexts -------------------------------------------------------------------------------------------


async def test_ids_of_tasks_and_contexts_are_the_servers_and_unique(caller: Caller) -> None:
    """8 and 9."""
    first, second = await caller.task("one"), await caller.task("two")
    assert len({first["id"], second["id"]}) == 2
    assert len({first["contextId"], second["contextId"]}) == 2
    assert all((first["contextId"], second["contextId"]))


async def test_a_task_id_of_the_callers_own_making_is_not_found(caller: Caller) -> None:
    """8."""
    for send in (caller.send, caller.streamed):
        with pytest.raises(Refused) as refused:
            await send(message("hello", taskId=UNKNOWN))
        assert refused.value.reason == "TASK_NOT_FOUND"
        assert refused.value.code == caller.expected("TASK_NOT_FOUND")


async def test_a_context_of_the_callers_own_making_is_kept(caller: Caller, binding: str) -> None:
    """9: taken as it is, never silently replaced."""
    context = f"my-context-{binding}-{id(caller)}"
    first = await caller.task(message("one", contextId=context))
    second = await caller.task(message("two", contextId=context))
    assert first["contextId"] == second["contextId"] == context
    assert first["id"] != second["id"]


async def test_a_context_that_no_agent_could_keep_is_refused(caller: Caller) -> None:
    """9."""
    with pytest.raises(Refused) as refused:
        await caller.send(message("one", contextId="x" * 10_000))
    assert refused.value.reason == "INVALID_ARGUMENT"
    assert any("contextid" in name for name in refused.value.fields)


async def test_the_context_of_a_continued_task_is_inferred(caller: Caller) -> None:
    """10."""
    task = await caller.task("ask which?")
    again = await caller.task(message("ask once more?", taskId=task["id"]))
    end = await caller.task(message("that one", taskId=task["id"]))
    assert task["contextId"] == again["contextId"] == end["contextId"]
    assert end["status"]["state"] == "TASK_STATE_COMPLETED"
    assert {each["contextId"] for each in end["history"]} == {task["contextId"]}
    assert {each["taskId"] for each in end["history"]} == {task["id"]}


async def test_a_context_that_is_not_the_tasks_is_refused_and_the_task_goes_on(caller: Caller) -> None:
    """10."""
    task, other = await caller.task("ask which?"), await caller.task("done")
    for context in (other["contextId"], "some-other-context"):
        for send in (caller.send, caller.streamed):
            with pytest.raises(Refused) as refused:
                await send(message("that one", taskId=task["id"], contextId=context))
            assert refused.value.reason == "INVALID_ARGUMENT"
            assert any("contextid" in name for name in refused.value.fields)
    end = await caller.task(message("that one", taskId=task["id"], contextId=task["contextId"]))
    assert end["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_one_message_id_for_two_tasks_makes_two_tasks(caller: Caller) -> None:
    """8: a message id says nothing about the task."""
    given = message("hello")
    first, second = await caller.task(given), await caller.task(given)
    assert first["id"] != second["id"]
    assert first["history"][0]["messageId"] == second["history"][0]["messageId"] == given["messageId"]


async def test_one_message_id_for_two_messages_of_a_task_keeps_both(caller: Caller) -> None:
    """8."""
    given = message("ask first")
    task = await caller.task(given)
    task = await caller.task(message("ask second", taskId=task["id"], messageId=given["messageId"]))
    task = await caller.task(message("third", taskId=task["id"], messageId=given["messageId"]))
    asked = [said(each) for each in task["history"] if each["role"] == "ROLE_USER"]
    assert asked == ["ask first", "ask second", "third"]
    assert said(task["status"]["message"]) == "did: third"


async def test_a_message_is_shown_with_the_id_that_its_sender_gave_it(caller: Caller) -> None:
    """8: also where the log has another one for it."""
    given = message("ask first")
    task = await caller.task(given)
    task = await caller.task(message("second", taskId=task["id"], messageId=given["messageId"]))
    ids = [each["messageId"] for each in task["history"] if each["role"] == "ROLE_USER"]
    assert ids == [given["messageId"], given["messageId"]]


@pytest.mark.parametrize("binding", V1_NAMES)
async def test_what_the_caller_takes_reaches_the_handler(world: World, binding: str) -> None:
    """2: `acceptedOutputModes`."""
    task = await world.caller(binding).task("modes", configuration={"acceptedOutputModes": ["text/csv"]})
    assert "text/csv" in said(task["status"]["message"])
