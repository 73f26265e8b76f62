"""One WebSocket with many requests, over a real connection, in ProtoLink's frames."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from protolink.models import Task
from protolink_peer_world import PATIENCE_S, Held, World, behind_the_gateway, calculator
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from protolink_grpc import Agent, Principal, current_run
from protolink_grpc import Task as OurTask
from protolink_grpc.compat.protolink.edge.websocket import SocketLimits
from protolink_grpc.edges.http.options import Bounds
from protolink_grpc.edges.http.request_guard import RequestGuard


@asynccontextmanager
async def dialed(world: World, **options: Any) -> AsyncIterator[ClientConnection]:
    async with asyncio.timeout(PATIENCE_S), connect(world.at("websocket"), **options) as connection:
        yield connection


async def ask(connection: ClientConnection, request_id: str, path: str, data: Any = None, method: str = "POST") -> None:
    await connection.send(json.dumps({"id": request_id, "method": method, "path": path, "data": data}))


async def answer(connection: ClientConnection) -> dict[str, Any]:
    found = json.loads(await connection.recv())
    assert isinstance(found, dict)
    return found


def add(a: int) -> dict[str, Any]:
    return Task.create_tool_call("add", {"a": a, "b": 1}).to_dict()


def result_of(found: dict[str, Any]) -> Any:
    return Task.from_dict(found["result"]).get_output()


async def test_fifty_requests_and_a_cancel_in_the_middle_on_one_connection() -> None:
    held = Held()
    async with behind_the_gateway(calculator(held)) as world, dialed(world) as connection:
        waiting = Task.create_tool_call("hold", {})
        await ask(connection, "held", "/tasks/", waiting.to_dict())
        await held.begun.wait()
        for number in range(25):
            await ask(connection, str(number), "/tasks/", add(number))
        await ask(connection, "cancel", "/tasks/cancel", {"id": waiting.id, "metadata": {"reason": "enough"}})
        for number in range(25, 50):
            await ask(connection, str(number), "/tasks/", add(number))
        found = {each["id"]: each for each in [await answer(connection) for _ in range(52)]}
    assert all(each["ok"] for each in found.values())
    assert [result_of(found[str(number)]) for number in range(50)] == list(range(1, 51))
    assert found["held"]["result"]["state"] == found["cancel"]["result"]["state"] == "canceled"
    assert found["cancel"]["result"]["metadata"]["cancel_reason"] == "enough"


async def test_a_cancel_passes_work_that_fills_the_connection() -> None:
    held = Held()
    limits = SocketLimits(max_work=3)
    async with behind_the_gateway(calculator(held), socket=limits) as world, dialed(world) as connection:
        tasks = [Task.create_tool_call("hold", {}) for _ in range(4)]
        for task in tasks:
            await ask(connection, task.id, "/tasks/", task.to_dict())
        refused = await answer(connection)
        assert (refused["id"], refused["error"]["reason"]) == (tasks[3].id, "RESOURCE_EXHAUSTED")
        await held.begun.wait()
        await ask(connection, "cancel", "/tasks/cancel", {"id": tasks[0].id})
        found = {each["id"]: each for each in (await answer(connection), await answer(connection))}
        assert found["cancel"]["result"]["state"] == found[tasks[0].id]["result"]["state"] == "canceled"
        held.release.set()


async def test_streams_on_one_connection_are_interleaved() -> None:
    held = Held()
    async with behind_the_gateway(calculator(held)) as world, dialed(world) as connection:
        for request_id in ("a", "b"):
            await ask(connection, request_id, "/tasks/stream", Task.create_tool_call("hold", {}).to_dict())
        seen: list[dict[str, Any]] = []
        while {each["id"] for each in seen} != {"a", "b"}:
            seen.append(await answer(connection))
        held.release.set()
        while sum(each["final"] for each in seen) < 2:
            seen.append(await answer(connection))
    for request_id in ("a", "b"):
        own = [each for each in seen if each["id"] == request_id]
        assert all(each["stream"] for each in own)
        assert [each["final"] for each in own] == [False] * (len(own) - 1) + [True]
        assert own[-1]["result"]["metadata"]["task"]["state"] == "completed"


async def test_a_peer_that_does_not_answer_pings_is_given_up_and_its_run_goes_on() -> None:
    held = Held()
    config = {"ws_ping_interval": 0.05, "ws_ping_timeout": 0.05}
    async with behind_the_gateway(calculator(held), config=config) as world:
        task = Task.create_tool_call("hold", {})
        async with dialed(world) as connection:
            await ask(connection, "1", "/tasks/", task.to_dict())
            await held.begun.wait()
            connection.transport.pause_reading()  # what a dead peer does: nothing
            serving = next(each for each in asyncio.all_tasks() if "run_asgi" in str(each.get_coro()))
            await asyncio.wait([serving])
            connection.transport.resume_reading()
            with pytest.raises(ConnectionClosed):
                await connection.recv()
        held.release.set()
        assert await end_of(world, task.id) == "completed"


async def end_of(world: World, task_id: str) -> str:
    """The state in which a task has settled, when it has."""
    service = await world.agent._own_service()
    return (await service.settled(service.turn_after(task_id, 0))).state


async def test_a_frame_over_the_servers_bound_closes_the_connection_and_not_the_server() -> None:
    guard = RequestGuard(bounds=Bounds(max_body_bytes=1000))
    async with behind_the_gateway(calculator(), guard=guard) as world:
        async with dialed(world) as connection:
            await ask(connection, "1", "/tasks/", {"id": "x" * 1000})
            with pytest.raises(ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        async with dialed(world) as connection:
            await ask(connection, "1", "/tasks/", add(1))
            assert result_of(await answer(connection)) == 2


async def test_a_slow_reader_of_a_long_stream_gets_all_of_it() -> None:
    class Talkative(Agent):
        async def handle_task(self, task: OurTask) -> OurTask:
            run = current_run()
            assert run is not None
            for percent in range(100):
                await run.progress(float(percent), "x" * 10_000)
            return task.complete("done")

    agent = Talkative({"name": "talkative", "description": "talks", "url": "runtime://talkative"})
    async with behind_the_gateway(agent) as world, dialed(world, max_queue=1) as connection:
        await ask(connection, "s", "/tasks/stream", Task.create("talk").to_dict())
        first = await answer(connection)
        await end_of(world, first["result"]["task_id"])
        seen = [first]
        while not seen[-1]["final"]:
            seen.append(await answer(connection))
    progress = [each["result"]["progress"] for each in seen if each["result"]["type"] == "task_progress"]
    assert progress == [float(percent) for percent in range(100)]


async def by_key(method: str, metadata: Any) -> Principal | None:
    return Principal("ann") if metadata.get("x-api-key") == "k" else None


@pytest.mark.parametrize(
    ("headers", "status"), [({}, 401), ({"X-API-Key": "no"}, 401), ({"Origin": "http://evil.example"}, 403)]
)
async def test_a_handshake_is_refused_with_the_reason(headers: dict[str, str], status: int) -> None:
    async with behind_the_gateway(calculator(), guard=RequestGuard(by_key)) as world:
        with pytest.raises(InvalidStatus) as refused:
            async with dialed(world, additional_headers=headers):
                pass
    assert refused.value.response.status_code == status
    assert "error" in json.loads(refused.value.response.body)


async def test_health_and_status_are_told_over_the_connection_too() -> None:
    async with behind_the_gateway(calculator()) as world, dialed(world) as connection:
        await ask(connection, "1", "/healthz", method="GET")
        assert (await answer(connection))["result"]["ready"] is True
        await ask(connection, "2", "/status", method="GET")
        assert "the calculator" in (await answer(connection))["result"]
