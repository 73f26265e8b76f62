"""An agent on both of its ports for callers that send arbitrary requests, and the checks after their requests.

It is a process of its own, so that its memory and its log are measured without those of the tools that call it.
"""

import logging
import multiprocessing
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import httpx
import psutil

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
from protolink_grpc.a2a.push_post import Notification, Poster, PostResult

START_S = 60.0
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

    def __init__(self, process: psutil.Process, pipe: Connection) -> None:
        self._process = process
        self._pipe = pipe
        assert pipe.poll(START_S), "the agent did not start"
        self.url, self.target = pipe.recv()
        self.port = int(self.url.rpartition(":")[2])
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)

    def complaints(self) -> list[str]:
        """The errors of its own that it has logged since the last call, from any logger."""
        self._pipe.send("complaints")
        assert self._pipe.poll(PATIENCE_S), "the agent's process does not answer"
        found: list[str] = self._pipe.recv()
        return found

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
        """Nothing that a caller began is left: no run, no stream, no WebSocket except the caller's own."""
        deadline = time.monotonic() + PATIENCE_S
        wanted = {
            "plgrpc_active_tasks": 0,
            "plgrpc_http_event_streams": 0,
            "plgrpc_http_websockets": websockets,
        }
        while (found := self.gauges(*wanted)) != wanted:
            assert time.monotonic() < deadline, found
            threading.Event().wait(0.02)  # there is no sign of it to wait for, seen from outside

    def loses_its_callers(self) -> None:
        """Every request but the one that asks is given up."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.gauges("plgrpc_http_requests_in_flight")) != {"plgrpc_http_requests_in_flight": 1}:
            assert time.monotonic() < deadline, found
            threading.Event().wait(0.02)  # as above

    def gauges(self, *names: str) -> dict[str, float]:
        lines = (line.partition(" ") for line in self.http.get("/metrics").text.splitlines())
        return {name: float(value) for name, _, value in lines if name in names}

    @contextmanager
    def within(self, most_bytes: int) -> Iterator[None]:
        """The agent may keep so much more memory, at most, when what happens here is over."""
        before = self._process.memory_info().rss
        yield
        assert self._process.memory_info().rss - before < most_bytes


@contextmanager
def hostile_world() -> Iterator[Hostile]:
    """The running agent. Its webhooks are not sent, and no name is resolved."""
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        world = Hostile(psutil.Process(process.pid), pipe)
        try:
            yield world
        finally:
            world.http.close()
            pipe.close()
        process.join(PATIENCE_S)
        assert process.exitcode == 0
    finally:
        process.kill()


class _Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(f"{record.name}: {self.format(record)}")


def _serve(pipe: Connection) -> None:
    """Run the agent until the other end of the pipe is closed."""

    async def post(self: Poster, post: Notification) -> PostResult:
        return PostResult(True, "")

    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)
    Poster.post = post  # type: ignore[method-assign]
    push_targets._resolve_by_system = lambda host, port: [(0, 0, 0, "", ("127.0.0.1", port))]
    card = AgentCard(
        name="mirror",
        description="shows what it is sent",
        url="grpc://127.0.0.1:0",
        input_formats=["*/*"],
        capabilities=AgentCapabilities(max_concurrency=64),
    )
    options = A2AOptions(push=PushOptions(allow=("private",)))
    agent = Mirror(card, http=HttpOptions(), a2a=options, storage=InMemoryStorage(), grace_s=0.2)
    agent.start(background=True)
    try:
        url = next(each.url for each in agent.card.interfaces if each.url.startswith("http")).rstrip("/")
        pipe.send((url, agent.card.url.removeprefix("grpc://")))
        while True:
            pipe.recv()
            pipe.send(complaints.found)
            complaints.found.clear()
    except EOFError:
        agent.stop()
