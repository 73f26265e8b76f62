"""Compatibility of versions of the contract: older and later ones at either end of a connection, each in a process of its own."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemas
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from protolink_grpc import Agent, AgentCard, AgentClient, Artifact, Part, Task, TaskProgress, TaskState
from protolink_grpc.models.events import TaskArtifactUpdated, TaskStatusChanged

HERE = Path(__file__).parent
END_S = 60


@pytest.fixture(scope="module", params=[*schemas.SCHEMAS])
def version(request: pytest.FixtureRequest) -> str:
    """The other end's version of the contract."""
    return str(request.param)


@pytest.fixture(scope="module")
def stubs(version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return schemas.stubs(schemas.SCHEMAS[version](), tmp_path_factory.mktemp("stubs") / version)


class Reporter(Agent):
    """Says how far it is, then answers."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        yield TaskProgress(50.0, "half of it")
        yield Artifact(parts=[Part.text(f"re: {task.messages[-1].text}")])
        task.complete("done")


@contextmanager
def serving(stubs: Path) -> Iterator[str]:
    """The URL of a server that has these stubs and nothing else."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "stub_server.py")],
        env=schemas.environment(stubs),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"grpc://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.communicate(timeout=END_S)


async def test_a_client_of_another_version_works_with_this_server(version: str, stubs: Path) -> None:
    async with Reporter(AgentCard(name="now", description="reports", url="grpc://127.0.0.1:0")) as agent:
        command = [sys.executable, str(HERE / "stub_client.py"), agent.card.url.removeprefix("grpc://")]
        client = await asyncio.create_subprocess_exec(
            *command, env=schemas.environment(stubs), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await asyncio.wait_for(client.communicate(), END_S)
    assert client.returncode == 0, err.decode()
    saw = json.loads(out)
    assert saw["card"] == "now"
    assert saw["sent"] == ["TASK_STATE_COMPLETED", ["re: send"]]
    assert saw["same"], "a request repeated with its id is the same request"
    assert saw["read"] == ["TASK_STATE_COMPLETED", ["re: stream"]]
    events = saw["events"]
    assert [event["sequence"] for event in events] == [*range(1, len(events) + 1)]
    assert [event["final"] for event in events] == [False] * (len(events) - 1) + [True]
    (progress,) = (event for event in events if event["type"] == "task.progress")
    assert progress["kind"] == (None if version == "older" else "task_progress")


async def test_this_client_works_with_a_server_of_another_version(version: str, stubs: Path) -> None:
    with serving(stubs) as url:
        client = AgentClient(url=url)
        assert (await client.get_agent_card()).name == "fixed"
        sent = await client.send_task(None, Task.create("hello"))
        events = [event async for event in client.send_task_streaming(None, Task.create("hello"))]
        read = await client.get_task("t7")
    assert read.id == "t7"
    for task in (sent, read):
        assert task.state is TaskState.COMPLETED
        assert [part.content for artifact in task.artifacts for part in artifact.parts] == ["a fixed answer"]
    unheard = [event for event in events if event.type == "future.kind"]
    assert [(event.summary, event.payload, event.severity) for event in unheard] == (
        [("From the future", None, "info")] if version == "newer" else []
    )
    strange = [event.payload for event in events if event.type == "task.message"]
    assert [
        (message.role, part.type, part.content["fallback_text"])
        for payload in strange
        for message in payload.messages
        for part in message.parts
    ] == ([("unknown-5", "unknown", "A part from the future")] if version == "newer" else [])
    assert [str(event.state) for event in events if event.state and not event.state.is_named] == (
        ["unknown-9"] if version == "newer" else []
    )
    assert [event.sequence for event in events] == [*range(1, 5 + 3 * len(unheard))]
    assert events[-1].final
    assert isinstance(events[-1].payload, TaskStatusChanged)
    assert isinstance(events[-2].payload, TaskArtifactUpdated)


def fields(described: FileDescriptorSet) -> set[tuple[str, str, int]]:
    return {
        (message.name, field.name, field.number)
        for file in described.file
        for message in file.message_type
        for field in message.field
    }


def test_the_versions_differ_where_they_are_meant_to() -> None:
    base, now = fields(schemas.baseline()), fields(schemas.current())
    lost, gained = base - fields(schemas.older()), fields(schemas.newer()) - now
    assert {message for message, _, _ in lost} == {*schemas.TOUCHED, "RunEvent"}
    assert {message for message, _, _ in gained} == {*schemas.TOUCHED, "RunEvent", "FutureKind", "Part"}
    assert fields(schemas.older()) < base <= now < fields(schemas.newer())
