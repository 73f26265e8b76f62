"""Interrupted streams over HTTP and their resumption: ids, Last-Event-ID, keep-alives, a server that stops."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_stage import PATIENCE_S, Stage, World, agent_with, by_token, card, numbered, playing
from a2a_wires import Caller, Frame, Json, JsonRpc, Rest, frames_of, message

from protolink_grpc import HttpOptions, Limits, SQLiteStore
from protolink_grpc.edges.http.sse import SHUTDOWN_FRAME, OpenStreams

pytestmark = pytest.mark.asyncio(loop_scope="module")

OVER_HTTP = ("jsonrpc", "rest", "jsonrpc-0.3", "rest-0.3")
over_http = pytest.mark.parametrize("binding", OVER_HTTP)


def request_of(caller: Caller, operation: str, params: Json) -> tuple[str, str, dict[str, Any]]:
    if isinstance(caller, JsonRpc):
        return "POST", "/", {"json": caller.envelope(operation, params)}
    assert isinstance(caller, Rest)
    return caller.request(operation, params)


def event_of(caller: Caller, frame: Frame) -> Json:
    """What a frame shows, whatever its envelope, with the flag that v0.3 ends a stream with left out."""
    assert isinstance(caller, JsonRpc | Rest)
    data = frame.data["result"] if isinstance(caller, JsonRpc) else frame.data
    found: Json = caller.read("SubscribeToTask", data)
    return found


@asynccontextmanager
async def opened(
    caller: Caller, operation: str, params: Json, comments: list[str] | None = None, **headers: str
) -> AsyncIterator[AsyncGenerator[Frame, None]]:
    method, path, more = request_of(caller, operation, params)
    async with caller.line.http.stream(method, path, headers=caller.headers | headers, **more) as response:
        assert response.status_code == 200
        async with aclosing(frames_of(response, comments)) as frames:
            yield frames


async def frames(caller: Caller, operation: str, params: Json, **headers: str) -> list[Frame]:
    async with opened(caller, operation, params, **headers) as found:
        return [frame async for frame in found]


async def resumed(caller: Caller, task_id: str, last: str) -> list[Frame]:
    return await frames(caller, "SubscribeToTask", {"id": task_id}, **{"last-event-id": last})


async def told(caller: Caller, text: str) -> tuple[str, list[Frame]]:
    """A task and all frames of the stream that began it."""
    found = await frames(caller, "SendStreamingMessage", caller.sending(text))
    task_id = event_of(caller, found[0])["task"]["id"]
    return task_id, found


# -- ids -----------------------------------------------------------------------------------------------------------------


@over_http
async def test_each_event_has_an_id_and_ids_ascend(world: World, binding: str) -> None:
    caller = world.caller(binding)
    _, found = await told(caller, "many")
    ids = [int(frame.id) for frame in found]
    assert len(ids) > 4
    assert ids == sorted(set(ids))


@over_http
async def test_a_subscription_counts_like_the_stream_that_began_the_task(world: World, binding: str) -> None:
    caller = world.caller(binding)
    text, script = world.stage.script()
    async with opened(caller, "SendStreamingMessage", caller.sending(text)) as first:
        task_id = event_of(caller, await anext(first))["task"]["id"]
        async with opened(caller, "SubscribeToTask", {"id": task_id}) as second:
            snapshot = await anext(second)
            await script.does(numbered(1), numbered(2))
            script.ends()
            beginning = [frame async for frame in first]
            joining = [frame async for frame in second]
    assert all(int(frame.id) > int(snapshot.id) for frame in joining)
    shared = [frame for frame in beginning if int(frame.id) > int(snapshot.id)]
    assert [(frame.id, event_of(caller, frame)) for frame in shared] == [
        (frame.id, event_of(caller, frame)) for frame in joining
    ]


# -- coming back ---------------------------------------------------------------------------------------------------------


@over_http
@pytest.mark.parametrize("text", ["many", "talk"])
async def test_whoever_comes_back_after_any_event_gets_the_rest_though_the_task_has_ended(
    world: World, binding: str, text: str
) -> None:
    caller = world.caller(binding)
    task_id, found = await told(caller, text)
    events = [event_of(caller, frame) for frame in found]
    for seen, frame in enumerate(found, 1):
        rest = [event_of(caller, each) for each in await resumed(caller, task_id, frame.id)]
        # Of what one event has made, something may be told again; nothing is left out.
        assert len(rest) >= len(events) - seen
        assert rest == events[len(events) - len(rest) :], seen


@over_http
async def test_a_cut_connection_loses_nothing_and_repeats_nothing(world: World, binding: str) -> None:
    """Cut after each event, while the task works."""
    caller = world.caller(binding)
    text, script = world.stage.script()
    task = await caller.begin(text)
    seen: list[Frame] = []
    async with opened(caller, "SubscribeToTask", {"id": task["id"]}) as stream:
        seen.append(await anext(stream))
    for number in range(5):
        # Two events happen without a reader, and the reader sees one of them before the next interruption.
        script.steps.put_nowait(numbered(2 * number))
        script.steps.put_nowait(numbered(2 * number + 1))
        async with opened(caller, "SubscribeToTask", {"id": task["id"]}, **{"last-event-id": seen[-1].id}) as stream:
            async with asyncio.timeout(PATIENCE_S):
                seen.append(await anext(stream))
    script.ends()
    seen += await resumed(caller, task["id"], seen[-1].id)
    events = [event_of(caller, frame) for frame in seen]
    assert "task" in events[0]
    names = [event["artifactUpdate"]["artifact"]["name"] for event in events if "artifactUpdate" in event]
    assert names == [f"n{number}" for number in range(10)]
    assert sum("task" in event for event in events) == 1
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@over_http
async def test_whoever_comes_back_to_a_quiet_task_is_answered_at_once(world: World, binding: str) -> None:
    """Otherwise there are no signs of life, no farewell, and nothing that tells the reader that it is connected."""
    caller = world.caller(binding)
    task = await caller.task("ask what?")
    async with opened(caller, "SubscribeToTask", {"id": task["id"]}) as stream:
        last = (await anext(stream)).id
    answered = asyncio.Event()

    async def come_back() -> None:
        async with opened(caller, "SubscribeToTask", {"id": task["id"]}, **{"last-event-id": last}):
            answered.set()

    coming = asyncio.ensure_future(come_back())
    await asyncio.wait([coming], timeout=2.0)
    is_answered = answered.is_set()
    await caller.cancel(task["id"])
    await coming
    assert is_answered


@over_http
async def test_whoever_has_seen_the_end_is_shown_nothing_more(world: World, binding: str) -> None:
    caller = world.caller(binding)
    task_id, found = await told(caller, "many")
    assert await resumed(caller, task_id, found[-1].id) == []


@pytest.mark.parametrize("given", ["junk", "-1", "1.5", "0x1", "²", "9" * 18, "9" * 40, "1,2"])
async def test_an_id_that_no_event_had_is_refused(world: World, given: str) -> None:
    rest, rpc = world.caller("rest"), world.caller("jsonrpc")
    headers = {"last-event-id": given.encode()}
    for caller in (rest, rpc):
        task = await caller.task("ask what?")
        method, path, more = request_of(caller, "SubscribeToTask", {"id": task["id"]})
        sent = {name.encode(): value.encode() for name, value in caller.headers.items()}
        named = sent | {name.encode(): value for name, value in headers.items()}
        response = await world.line.http.request(method, path, headers=list(named.items()), **more)
        if caller is rest:
            assert response.status_code == 400
        else:
            assert response.json()["error"]["code"] == -32602


@over_http
async def test_nobody_comes_back_to_a_task_of_somebody_else(world: World, binding: str) -> None:
    owner, other = world.caller(binding), world.caller(binding)
    task_id, found = await told(owner, "many")
    method, path, more = request_of(other, "SubscribeToTask", {"id": task_id})
    response = await world.line.http.request(
        method, path, headers=other.headers | {"last-event-id": found[0].id}, **more
    )
    assert "TASK_NOT_FOUND" in response.text


# -- how a log is cut into batches does not show ---------------------------------------------------------------------------


@over_http
async def test_what_a_stream_shows_does_not_depend_on_how_the_log_is_read(binding: str) -> None:
    """6: one event a batch, or all of them, is the same story."""
    options: dict[str, Any] = {"authenticator": by_token, "http": HttpOptions(), "grace_s": 0.2}
    async with playing(Stage(card(), limits=Limits(batch_events=1), **options)) as slow:
        caller = slow.caller(binding)
        task_id, found = await told(caller, "many")
        last = event_of(caller, found[-1])["statusUpdate"]["status"]
        assert last == (await caller.get(task_id))["status"]


# -- signs of life, and the end of a server --------------------------------------------------------------------------------


@over_http
async def test_a_quiet_stream_shows_signs_of_life(binding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenStreams.__init__, "__defaults__", (0.05,))  # it is seconds otherwise
    async with playing(agent_with()) as quick:
        caller = quick.caller(binding)
        task = await caller.task("ask what?")
        comments: list[str] = []
        async with opened(caller, "SubscribeToTask", {"id": task["id"]}, comments) as stream:
            await anext(stream)
            waiting = asyncio.ensure_future(anext(stream))
            async with asyncio.timeout(PATIENCE_S):
                while len(comments) < 3:
                    await asyncio.sleep(0.01)  # until it has spoken: nothing else tells
            await caller.cancel(task["id"])
            assert event_of(caller, await waiting)["statusUpdate"]
        assert set(comments) == {":"}


async def until_cut(stream: AsyncGenerator[Frame, None]) -> list[Frame]:
    """What still comes; a server that goes away ends its streams properly."""
    async with asyncio.timeout(PATIENCE_S):
        return [frame async for frame in stream]


@over_http
async def test_a_server_that_goes_away_ends_its_streams_and_their_readers_go_on_at_the_next(
    binding: str, tmp_path: Path
) -> None:
    farewell = next(line for line in SHUTDOWN_FRAME.decode().splitlines() if line.startswith(":"))
    path, name = tmp_path / "tasks.db", "alice"
    comments: list[str] = []
    agent = agent_with(store=SQLiteStore(path))
    async with playing(agent) as first:
        caller = first.caller(binding, name)
        task = await caller.task("ask what?")
        async with opened(caller, "SubscribeToTask", {"id": task["id"]}, comments) as stream:
            seen = [await anext(stream)]
            await caller.send(message("ask what else?", taskId=task["id"]))
            seen.append(await anext(stream))
            stopping = asyncio.ensure_future(agent.aclose())
            seen += await until_cut(stream)
        await stopping
    assert farewell in comments
    async with playing(agent_with(store=SQLiteStore(path))) as second:
        caller = second.caller(binding, name)
        ending = asyncio.ensure_future(caller.task(message("that", taskId=task["id"])))
        async with opened(caller, "SubscribeToTask", {"id": task["id"]}, **{"last-event-id": seen[-1].id}) as stream:
            seen += await until_cut(stream)
        end = await ending
        events = [event_of(caller, frame) for frame in seen]
        ids = [int(frame.id) for frame in seen]
        assert ids == sorted(set(ids))
        whole = await resumed(caller, task["id"], seen[0].id)
        assert events[1:] == [event_of(caller, frame) for frame in whole]
        assert events[-1]["statusUpdate"]["status"] == end["status"]


async def test_a_server_that_goes_away_takes_no_new_stream(tmp_path: Path) -> None:
    agent = agent_with(store=SQLiteStore(tmp_path / "tasks.db"))
    async with playing(agent) as going:
        caller = going.caller("rest")
        task = await caller.task("ask what?")
        await agent.aclose()
        with pytest.raises(httpx.TransportError):
            await caller.subscribed(task["id"])
