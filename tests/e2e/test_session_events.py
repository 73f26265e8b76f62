"""The events of a session over HTTP, in the format of the Agent Runtime contract."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from cli_world import plgrpc

from protolink_grpc import Agent, AgentCard, AgentClient, HttpOptions, Message, Principal, ProtolinkError, Task
from protolink_grpc.agentruntime.view import PLACES
from protolink_grpc.auth import AccessRules
from protolink_grpc.client.channel import close_channels
from protolink_grpc.client.session_calls import SessionCalls

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""

ANN, BOB = {"x-name": "ann"}, {"x-name": "bob"}
PATH = "/runtime/v1/sessions/s/events"
TURNS = {"one": "hotel", "two": "ask", "three": "Lyon", "four": "fail"}
"""The input of each turn."""


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("x-name")
    return Principal(name, frozenset({"watch"} - {metadata.get("x-without")})) if name else None


class Clerk(Agent):
    """`ask` asks a question, `fail` fails, anything else is done at once."""

    async def handle_task(self, task: Task) -> Task:
        match task.messages[-1].text:
            case "ask":
                return task.require_input(Message.agent("which?"))
            case "fail":
                raise ValueError("no")
            case text:
                return task.complete(f"{text} done")


@dataclass
class Stream:
    """The events of a session of Ann over HTTP. `url` is the gRPC port, `last` the sequence of the last record."""

    url: str
    sessions: SessionCalls
    http: httpx.AsyncClient
    last: int

    async def read(self, after: int = 0) -> list[tuple[int, dict[str, Any]]]:
        """Return the ids and the records after an id, up to the last one."""
        found: list[tuple[int, dict[str, Any]]] = []
        headers = {"last-event-id": str(after)} if after else {}
        async with asyncio.timeout(WAIT_S), self.http.stream("GET", PATH, headers=headers) as response:
            assert (response.status_code, response.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
            lines = response.aiter_lines()
            event_id = after
            while after < self.last:
                name, _, value = (await anext(lines)).partition(": ")
                if name == "id":
                    event_id = int(value)
                elif name == "data":
                    found.append((event_id, json.loads(value)))
                    after = event_id
        return found


@pytest.fixture
async def stream() -> AsyncIterator[Stream]:
    async with AsyncExitStack() as stack:
        card = AgentCard(name="clerk", description="does as told", url="grpc://127.0.0.1:0")
        rules = AccessRules({"*/SubscribeSession": "watch"})
        clerk = Clerk(card, http=HttpOptions(), authenticator=by_name, access=rules)
        agent = await stack.enter_async_context(clerk)
        sessions = AgentClient(url=agent.card.url, metadata=[*ANN.items()], timeout=WAIT_S).sessions
        await sessions.create("s", title="Trip")
        for turn_id, text in TURNS.items():
            async for _ in sessions.stream("s", await sessions.submit("s", text, turn_id=turn_id)):
                pass
        async with aclosing(sessions.runtime_events("s", stop_at_end=True)) as events:
            *_, last = [record["sequence"] async for record in events]
        http = httpx.AsyncClient(base_url=agent.http_url, headers=ANN, timeout=WAIT_S, trust_env=False)
        yield Stream(agent.card.url, sessions, await stack.enter_async_context(http), last)
        await close_channels()


async def test_a_stream_resumed_after_any_event_has_exactly_the_rest(stream: Stream) -> None:
    whole = await stream.read()
    sequences = [event_id for event_id, _ in whole]
    assert sequences == [record["sequence"] for _, record in whole] == sorted(set(sequences))
    assert (whole[0][1]["type"], whole[-1][1]["type"]) == ("session.created", "snapshot.updated")
    for place, (event_id, _) in enumerate(whole, 1):
        assert await stream.read(event_id) == whole[place:]


async def test_the_three_ways_have_the_same_events(stream: Stream) -> None:
    async with aclosing(stream.sessions.runtime_events("s", stop_at_end=True)) as events:
        typed = [record async for record in events]
    assert [record for _, record in await stream.read()] == typed
    done = await asyncio.to_thread(plgrpc, "session", "export", stream.url, "s", "--header", "x-name=ann")
    assert (done.code, [json.loads(line) for line in done.out.splitlines()]) == (0, typed)


async def test_each_turn_has_one_beginning_and_one_end_around_its_task(stream: Stream) -> None:
    records = [record for _, record in await stream.read()]
    kinds = {turn_id: [each["type"] for each in records if each.get("turnId") == turn_id] for turn_id in TURNS}
    assert {turn_id: (found[0], found[-1]) for turn_id, found in kinds.items()} == {
        "one": ("turn.submitted", "turn.completed"),
        "two": ("turn.submitted", "turn.completed"),
        "three": ("turn.submitted", "turn.completed"),
        "four": ("turn.submitted", "turn.failed"),
    }
    assert all(found.count("turn.started") == 1 for found in kinds.values())
    assert len({each["runtimeId"] for each in records}) == 1
    of_task = {each["turnId"]: each["taskId"] for each in records if "taskId" in each}
    assert of_task["two"] == of_task["three"] != of_task["one"]


@pytest.mark.parametrize("session_id", ["a/b", "../s", "a/events", "50 % off?#", "é"])
async def test_every_id_of_a_session_can_be_in_the_path(stream: Stream, session_id: str) -> None:
    await stream.sessions.create(session_id)
    path = f"/runtime/v1/sessions/{quote(session_id, safe='')}/events"
    async with asyncio.timeout(WAIT_S), stream.http.stream("GET", path) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                assert json.loads(line.removeprefix("data: "))["sessionId"] == session_id
                break


async def test_a_stream_without_new_events_is_open_and_shows_the_next_turn(stream: Stream) -> None:
    headers = {"last-event-id": str(stream.last)}
    async with asyncio.timeout(WAIT_S), stream.http.stream("GET", PATH, headers=headers) as response:
        await stream.sessions.submit("s", "train", turn_id="five")
        found: list[dict[str, Any]] = []
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line[6:]))
                if found[-1]["type"] == "turn.completed":
                    break
    assert (found[0]["type"], found[0]["sequence"]) == ("turn.submitted", (stream.last // PLACES + 1) * PLACES)
    assert {record["turnId"] for record in found if "turnId" in record} == {"five"}


@pytest.mark.parametrize(
    ("path", "headers", "status", "reason"),
    [
        (PATH, BOB, 404, "SESSION_NOT_FOUND"),
        (PATH, {"x-name": ""}, 401, "UNAUTHENTICATED"),
        (PATH, {**ANN, "x-without": "watch"}, 403, "PERMISSION_DENIED"),
        ("/runtime/v1/sessions/other/events", ANN, 404, "SESSION_NOT_FOUND"),
        (PATH, {**ANN, "last-event-id": "99999999"}, 400, "SEQUENCE_OUT_OF_RANGE"),
        (PATH, {**ANN, "last-event-id": "x"}, 400, "INVALID_ARGUMENT"),
    ],
)
async def test_a_request_for_no_stream_of_the_caller_is_refused(
    stream: Stream, path: str, headers: dict[str, str], status: int, reason: str
) -> None:
    response = await stream.http.get(path, headers=headers)
    error = response.json()["error"]
    assert (response.status_code, error["details"][0]["reason"]) == (status, reason)


async def test_the_error_of_a_turn_names_its_id_so_that_it_can_be_submitted_again() -> None:
    with pytest.raises(ProtolinkError) as failed:
        await AgentClient(url="grpc://127.0.0.1:1", timeout=0.5).sessions.submit("s", "hotel")
    await close_channels()
    assert failed.value.metadata["session_id"] == "s"
    assert len(failed.value.metadata["turn_id"]) == 36
