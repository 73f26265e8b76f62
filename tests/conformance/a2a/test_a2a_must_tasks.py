"""Tasks are read, listed and canceled over every binding. Numbers are those of the list of requirements."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from a2a_stage import World, said
from a2a_wires import V03_NAMES, V1_NAMES, Caller, Json, Refused, message

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = "no-such-task"
over_v1 = pytest.mark.parametrize("binding", V1_NAMES)
over_v03 = pytest.mark.parametrize("binding", V03_NAMES)


def time_of(task: Json) -> datetime:
    text = task["status"]["timestamp"]
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


async def conversation(caller: Caller) -> Json:
    """A task of three turns: five messages of which the last is in the status."""
    task = await caller.task("ask one?")
    await caller.send(message("ask two?", taskId=task["id"]))
    return await caller.task(message("three", taskId=task["id"]))


# -- 11 and 12: GetTask --------------------------------------------------------------------------------------------------


async def test_a_task_is_shown_as_it_is_now(world: World, caller: Caller) -> None:
    """11."""
    text, script = world.stage.script()
    begun = await caller.begin(text)
    assert (await caller.get(begun["id"]))["status"]["state"] == "TASK_STATE_WORKING"
    stream = caller.subscribe(begun["id"])
    await anext(stream)
    script.ends()
    async for _ in stream:
        pass
    assert (await caller.get(begun["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_sending_and_getting_show_the_same_task(caller: Caller) -> None:
    """11."""
    for text in ("many", "ask what?", "break", "refuse"):
        task = await caller.task(text)
        assert await caller.get(task["id"]) == task


async def test_an_unknown_task_is_not_found(caller: Caller) -> None:
    """11."""
    with pytest.raises(Refused) as refused:
        await caller.get(UNKNOWN)
    assert (refused.value.reason, refused.value.code) == ("TASK_NOT_FOUND", caller.expected("TASK_NOT_FOUND"))


async def test_the_whole_history_is_shown_where_nothing_is_said(caller: Caller) -> None:
    """12."""
    task = await conversation(caller)
    assert [said(each) for each in task["history"]] == ["ask one?", "one?", "ask two?", "two?", "three"]
    assert said(task["status"]["message"]) == "did: three"


@pytest.mark.parametrize("length", [1, 2, 4, 100])
async def test_a_history_length_shows_so_many_of_the_newest_at_most(caller: Caller, length: int) -> None:
    """12."""
    task = await conversation(caller)
    shown = await caller.get(task["id"], length)
    assert shown["history"] == task["history"][-length:]
    assert shown["status"] == task["status"]


@over_v1
async def test_a_history_length_of_none_leaves_the_history_out(world: World, binding: str) -> None:
    """12: absent, not empty."""
    caller = world.caller(binding)
    task = await conversation(caller)
    assert "history" not in await caller.get(task["id"], 0)
    sent = await caller.task("hello", configuration={"historyLength": 0})
    assert "history" not in sent
    (listed,) = [each for each in (await caller.listed(historyLength=0))["tasks"] if each["id"] == task["id"]]
    assert "history" not in listed


@over_v03
async def test_older_clients_mean_all_of_the_history_by_zero(world: World, binding: str) -> None:
    """12: v0.3's protobuf says so."""
    caller = world.caller(binding)
    task = await conversation(caller)
    assert (await caller.get(task["id"], 0))["history"] == task["history"]


async def test_a_history_length_counts_for_what_is_sent_too(caller: Caller) -> None:
    """12."""
    task = await caller.task("ask one?")
    answer = await caller.task(message("two", taskId=task["id"]), configuration={"historyLength": 1})
    assert [said(each) for each in answer["history"]] == ["two"]
    events = await caller.streamed(message("ask it?"), configuration={"historyLength": 1})
    again = await caller.streamed(message("there", taskId=events[0]["task"]["id"]), configuration={"historyLength": 1})
    assert len(again[0]["task"]["history"]) == 1


@over_v1
async def test_a_negative_history_length_is_refused(world: World, binding: str) -> None:
    """12 and 27."""
    caller = world.caller(binding)
    task = await caller.task("done")
    asking = [
        caller.get(task["id"], -1),
        caller.listed(historyLength=-1),
        caller.send("hello", configuration={"historyLength": -1}),
    ]
    for each in asking:
        with pytest.raises(Refused) as refused:
            await each
        assert refused.value.code == caller.expected("INVALID_ARGUMENT")
        assert any("historylength" in name for name in refused.value.fields)


# -- 13: ListTasks -------------------------------------------------------------------------------------------------------


@over_v1
async def test_a_list_of_nothing_says_everything_that_it_must(world: World, binding: str) -> None:
    """13: `nextPageToken` is there, and empty."""
    found = await world.caller(binding).listed()
    assert found == {"tasks": [], "nextPageToken": "", "pageSize": found["pageSize"], "totalSize": 0}
    assert found["pageSize"] == 50


@over_v1
async def test_a_list_has_the_callers_tasks_last_changed_first(world: World, binding: str) -> None:
    """13."""
    caller = world.caller(binding)
    tasks = [await caller.task(text) for text in ("one", "ask two?", "three")]
    changed = await caller.task(message("now", taskId=tasks[1]["id"]))
    await world.caller(binding).task("somebody else's")
    found = await caller.listed()
    assert [each["id"] for each in found["tasks"]] == [changed["id"], tasks[2]["id"], tasks[0]["id"]]
    assert [time_of(each) for each in found["tasks"]] == sorted(map(time_of, found["tasks"]), reverse=True)
    assert (found["totalSize"], found["nextPageToken"]) == (3, "")


@over_v1
async def test_a_listed_task_is_where_it_says_that_it_is_when_asked_for(world: World, binding: str) -> None:
    """13."""
    caller = world.caller(binding)
    for text in ("done", "ask what?", "break", "refuse"):
        await caller.task(text)
    for listed in (await caller.listed())["tasks"]:
        got = await caller.get(listed["id"])
        assert listed["contextId"] == got["contextId"]
        assert listed["status"]["state"] == got["status"]["state"]
        assert listed["status"]["timestamp"] == got["status"]["timestamp"]


@over_v1
async def test_a_listed_task_has_the_status_that_it_has_when_asked_for(world: World, binding: str) -> None:
    """13: the same Task, less what the request leaves out."""
    caller = world.caller(binding)
    await caller.task("ask what?")
    (listed,) = (await caller.listed())["tasks"]
    assert listed["status"] == (await caller.get(listed["id"]))["status"]


@over_v1
async def test_a_list_shows_artifacts_only_to_who_asks_for_them(world: World, binding: str) -> None:
    """13: absent, not empty."""
    caller = world.caller(binding)
    task = await caller.task("many")
    (without,) = (await caller.listed())["tasks"]
    (denied,) = (await caller.listed(includeArtifacts=False))["tasks"]
    (shown,) = (await caller.listed(includeArtifacts=True))["tasks"]
    assert "artifacts" not in without
    assert "artifacts" not in denied
    assert shown["artifacts"] == task["artifacts"]


@over_v1
async def test_pages_add_up_to_the_list(world: World, binding: str) -> None:
    """13."""
    caller = world.caller(binding)
    ids = [(await caller.task(f"task {number}"))["id"] for number in range(7)]
    found: list[str] = []
    token, sizes = "", []
    while True:
        page = await caller.listed(pageSize=3, **({"pageToken": token} if token else {}))
        assert (page["pageSize"], page["totalSize"]) == (3, 7)
        sizes.append(len(page["tasks"]))
        found += [each["id"] for each in page["tasks"]]
        token = page["nextPageToken"]
        if not token:
            break
    assert sizes == [3, 3, 1]
    assert found == ids[::-1]


@over_v1
async def test_pages_are_stable_while_tasks_are_begun(world: World, binding: str) -> None:
    """13: a cursor, not an offset: nothing twice, and nothing left out that was there."""
    caller = world.caller(binding)
    ids = [(await caller.task(f"task {number}"))["id"] for number in range(6)]
    page = await caller.listed(pageSize=2)
    found = [each["id"] for each in page["tasks"]]
    while page["nextPageToken"]:
        await asyncio.gather(caller.task("new"), caller.task("newer"))
        page = await caller.listed(pageSize=2, pageToken=page["nextPageToken"])
        found += [each["id"] for each in page["tasks"]]
    assert found == ids[::-1]


@over_v1
@pytest.mark.parametrize("size", [1, 100])
async def test_pages_may_have_1_to_100_tasks(world: World, binding: str, size: int) -> None:
    """13."""
    assert (await world.caller(binding).listed(pageSize=size))["pageSize"] == size


@over_v1
@pytest.mark.parametrize("size", [0, -1, 101, 1_000_000])
async def test_pages_of_other_sizes_are_refused(world: World, binding: str, size: int) -> None:
    """13 and 27."""
    caller = world.caller(binding)
    with pytest.raises(Refused) as refused:
        await caller.listed(pageSize=size)
    assert refused.value.code == caller.expected("INVALID_ARGUMENT")
    assert refused.value.fields == ["pagesize"]


@over_v1
@pytest.mark.parametrize("token", ["junk", "AAAA", "é", "0" * 3000])
async def test_a_page_token_that_nobody_gave_out_is_refused(world: World, binding: str, token: str) -> None:
    """13."""
    caller = world.caller(binding)
    with pytest.raises(Refused) as refused:
        await caller.listed(pageToken=token)
    assert refused.value.code == caller.expected("INVALID_ARGUMENT")
    assert refused.value.fields == ["pagetoken"]


@over_v1
async def test_a_list_is_filtered_by_context(world: World, binding: str) -> None:
    """13."""
    caller = world.caller(binding)
    first = await caller.task("one")
    await caller.task("two")
    third = await caller.task(message("three", contextId=first["contextId"]))
    found = await caller.listed(contextId=first["contextId"])
    assert [each["id"] for each in found["tasks"]] == [third["id"], first["id"]]
    assert found["totalSize"] == 2
    assert (await caller.listed(contextId="no-such-context"))["tasks"] == []


@over_v1
async def test_a_list_is_filtered_by_status(world: World, binding: str) -> None:
    """13."""
    caller = world.caller(binding)
    by_state = {}
    for text in ("done", "ask what?", "login", "break", "refuse"):
        task = await caller.task(text)
        by_state[task["status"]["state"]] = task["id"]
    assert len(by_state) == 5
    for state, task_id in by_state.items():
        found = await caller.listed(status=state)
        assert [each["id"] for each in found["tasks"]] == [task_id]
    assert (await caller.listed(status="TASK_STATE_WORKING"))["totalSize"] == 0


@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
async def test_a_status_that_there_is_not_is_refused(world: World, binding: str) -> None:
    """13 and 27: not silently ignored. In protobuf there is no way to spell one."""
    caller = world.caller(binding)
    with pytest.raises(Refused) as refused:
        await caller.listed(status="TASK_STATE_BOGUS")
    assert refused.value.code == caller.expected("INVALID_ARGUMENT")
    assert refused.value.fields == ["status"]


@over_v1
async def test_a_list_is_filtered_by_the_time_of_the_status(world: World, binding: str) -> None:
    """13: at that time or after it."""
    caller = world.caller(binding)
    first = await caller.task("one")
    while datetime.now(UTC) <= time_of(first):
        await asyncio.sleep(0)
    now = datetime.now(UTC)
    while datetime.now(UTC).timestamp() - now.timestamp() < 0.002:
        await asyncio.sleep(0)
    second = await caller.task("two")
    stamp = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert [each["id"] for each in (await caller.listed(statusTimestampAfter=stamp))["tasks"]] == [second["id"]]
    everything = await caller.listed(statusTimestampAfter="2001-01-01T00:00:00Z")
    assert [each["id"] for each in everything["tasks"]] == [second["id"], first["id"]]
    assert (await caller.listed(statusTimestampAfter="2999-01-01T00:00:00Z"))["tasks"] == []


@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
@pytest.mark.parametrize("stamp", ["yesterday", "2024-13-01T00:00:00Z"])
async def test_a_time_that_is_none_is_refused(world: World, binding: str, stamp: str) -> None:
    """13 and 27."""
    caller = world.caller(binding)
    with pytest.raises(Refused) as refused:
        await caller.listed(statusTimestampAfter=stamp)
    assert refused.value.code == caller.expected("INVALID_ARGUMENT")


# -- 14: CancelTask ------------------------------------------------------------------------------------------------------


async def test_a_working_task_can_be_canceled_again_and_again(world: World, caller: Caller) -> None:
    """14: idempotent."""
    text, _ = world.stage.script()
    task = await caller.begin(text)
    canceled = await caller.cancel(task["id"])
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert await caller.cancel(task["id"]) == canceled
    assert await caller.get(task["id"]) == canceled


async def test_a_task_that_waits_for_its_caller_can_be_canceled(caller: Caller) -> None:
    """14."""
    task = await caller.task("ask what?")
    assert (await caller.cancel(task["id"]))["status"]["state"] == "TASK_STATE_CANCELED"
    with pytest.raises(Refused) as refused:
        await caller.send(message("too late", taskId=task["id"]))
    assert refused.value.reason == "UNSUPPORTED_OPERATION"


@pytest.mark.parametrize("text", ["done", "break", "refuse"])
async def test_a_finished_task_cannot_be_canceled(caller: Caller, text: str) -> None:
    """14."""
    task = await caller.task(text)
    with pytest.raises(Refused) as refused:
        await caller.cancel(task["id"])
    assert refused.value.reason == "TASK_NOT_CANCELABLE"
    assert refused.value.code == caller.expected("TASK_NOT_CANCELABLE")
    assert await caller.get(task["id"]) == task


async def test_an_unknown_task_cannot_be_canceled(caller: Caller) -> None:
    """14."""
    with pytest.raises(Refused) as refused:
        await caller.cancel(UNKNOWN)
    assert refused.value.reason == "TASK_NOT_FOUND"


async def test_canceling_ends_the_streams_of_the_task_and_the_call_that_waits_for_it(
    world: World, caller: Caller
) -> None:
    """14 and 6."""
    text, _ = world.stage.script()
    stream = caller.streaming(text)
    task_id = (await anext(stream))["task"]["id"]
    watching = caller.subscribe(task_id)
    await anext(watching)
    await caller.cancel(task_id)
    for each in (stream, watching):
        *_, last = [event async for event in each]
        assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_canceling_and_finishing_at_once_leaves_one_end(world: World, caller: Caller) -> None:
    """14: whichever comes first, the answers agree with the task."""
    text, script = world.stage.script()
    task = await caller.begin(text)
    canceling = asyncio.ensure_future(caller.cancel(task["id"]))
    script.ends()
    state = "TASK_STATE_COMPLETED"
    with suppress(Refused):
        state = (await canceling)["status"]["state"]
    shown = await caller.get(task["id"])
    assert shown["status"]["state"] == state


# -- 15 ------------------------------------------------------------------------------------------------------------------


async def test_results_are_artifacts_with_ids_of_their_own(caller: Caller) -> None:
    """15."""
    task = await caller.task("many")
    ids = [each["artifactId"] for each in task["artifacts"]]
    assert len(set(ids)) == 3
    assert all(ids)
    assert [each["parts"] for each in task["artifacts"]] == [[{"text": f"number {n}"}] for n in (1, 2, 3)]
