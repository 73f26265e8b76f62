"""One agent on both of its ports that answers at once, for callers who send anything; and what must be true when they are done."""

import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psutil
import pytest

from protolink_grpc import (
    A2AOptions,
    Agent,
    AgentCapabilities,
    AgentCard,
    Artifact,
    HttpOptions,
    InMemoryStorage,
    PushOptions,
    Task,
)
from protolink_grpc.a2a import push_targets
from protolink_grpc.a2a.push_post import Answer, Post, Poster

PATIENCE_S = 20.0
"""How long what must happen may take; far more than it needs on a busy machine."""

V1 = {"a2a-version": "1.0"}


class Mirror(Agent):
    """Answers with the parts that it got: what was read must be possible to write."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        parts = list(task.messages[-1].parts) if task.messages else []
        yield Artifact(parts=parts, name="mirrored")
        task.complete(f"{len(parts)} parts")


class Hostile:
    """The agent as its callers see it.

    Attributes:
        url: Of its HTTP port.
        port: The same.
        target: Of its gRPC port.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.url = next(each.url for each in agent.card.interfaces if each.url.startswith("http")).rstrip("/")
        self.port = int(self.url.rpartition(":")[2])
        self.target = agent.card.url.removeprefix("grpc://")
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)

    def still_answers(self) -> None:
        """It does what it did before."""
        self.finished_task()

    def finished_task(self) -> str:
        """Id of a task that has ended well."""
        sent = {"message": {"messageId": "well", "role": "ROLE_USER", "parts": [{"text": "well?"}]}}
        answer = self.http.post("/message:send", json=sent, headers=V1)
        assert answer.status_code == 200, answer.text
        task = answer.json()["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        return str(task["id"])

    def comes_to_rest(self, *, websockets: int = 0) -> None:
        """Nothing that somebody began is left: no run, no stream, no WebSocket but the caller's own."""
        deadline = time.monotonic() + PATIENCE_S
        wanted = {
            "protolink_active_tasks": 0,
            "protolink_http_event_streams": 0,
            "protolink_http_websockets": websockets,
        }
        while (found := self.gauges(*wanted)) != wanted:
            assert time.monotonic() < deadline, found
            threading.Event().wait(0.02)  # there is no sign of it to wait for, seen from outside

    def loses_its_callers(self) -> None:
        """Every request but the one that asks is given up."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.gauges("protolink_http_requests_in_flight")) != {"protolink_http_requests_in_flight": 1}:
            assert time.monotonic() < deadline, found
            threading.Event().wait(0.02)  # as above

    def gauges(self, *names: str) -> dict[str, float]:
        lines = (line.partition(" ") for line in self.http.get("/metrics").text.splitlines())
        return {name: float(value) for name, _, value in lines if name in names}

    @contextmanager
    def within(self, most_bytes: int) -> Iterator[None]:
        """What happens here may keep so much memory, at most, when it is over."""
        process = psutil.Process()
        before = process.memory_info().rss
        yield
        assert process.memory_info().rss - before < most_bytes


@contextmanager
def hostile_world() -> Iterator[Hostile]:
    """The agent at work, in a thread of its own. Its webhooks reach nobody, and no name is looked up."""

    async def post(self: Poster, post: Post) -> Answer:
        return Answer(True, "")

    push = PushOptions(allow=("private",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Poster, "post", post)
        patch.setattr(push_targets, "_look_up", lambda host, port: [(0, 0, 0, "", ("127.0.0.1", port))])
        card = AgentCard(
            name="mirror",
            description="shows what it is sent",
            url="grpc://127.0.0.1:0",
            input_formats=["*/*"],
            capabilities=AgentCapabilities(max_concurrency=64),
        )
        agent = Mirror(card, http=HttpOptions(), a2a=A2AOptions(push=push), storage=InMemoryStorage(), grace_s=0.2)
        agent.start(background=True)
        world = Hostile(agent)
        try:
            yield world
        finally:
            world.http.close()
            agent.stop()


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged as our own mistake, whoever logged it."""
    return [
        f"{each.name}: {each.getMessage()} {each.exc_info or ''}"
        for each in caplog.get_records("call")
        if each.levelno >= logging.ERROR
    ]
