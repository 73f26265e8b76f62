"""A run that was recovered looks for its task at an A2A agent that is unavailable for a while, has lost it, or has moved."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from protolink_grpc import (
    AgentCard,
    AgentNotFoundError,
    PermissionDeniedError,
    ProtolinkError,
    ResourceExhaustedError,
    Task,
    TaskNotFoundError,
    UnavailableError,
)
from protolink_grpc.agent.peer_tasks import PeerTasks
from protolink_grpc.agent.peers import Peers
from protolink_grpc.agent.trust import PeerClients, PeerTrust
from protolink_grpc.errors import InternalError, RemoteError
from protolink_grpc.models.events import PeerTaskLinked
from protolink_grpc.wire.registry import AgentFilter, RegisteredAgent

URL = "http://errands.example"
LINK = PeerTaskLinked("errands", URL, "a2a", "remote", "context")


class Flaky:
    """The client of an A2A agent whose first response may be an error, and which cannot be reached for new tasks."""

    timeout = 10.0

    def __init__(self, error: ProtolinkError | None = None) -> None:
        self._error = error
        self.failed = asyncio.Event()
        self.connecting = asyncio.Event()
        self.refusals: list[ProtolinkError] = []
        self.canceled = asyncio.Queue[str]()

    def a2a_tasks(self, url: str) -> "Flaky":
        return self

    async def protocol(self, url: str) -> str:
        return "a2a"

    async def connect(self, url: str) -> None:
        self.connecting.set()
        self.failed.set()
        await asyncio.Event().wait()

    async def adopt(self, task: Task, link: PeerTaskLinked, timeout_s: float) -> bool:
        error, self._error = self._error, None
        if error is not None:
            self.failed.set()
            raise error
        return True

    async def wait_task(self, task_id: str, *, agent_url: str) -> Task:
        return Task(task_id)

    async def cancel_task(self, url: str, task_id: str, *, reason: str) -> None:
        if self.refusals:
            raise self.refusals.pop()
        self.canceled.put_nowait(task_id)


class Moved:
    """A registry that does not know the URL of any agent."""

    url = "https://registry.example"

    async def get(self, name_or_url: str) -> Any:
        raise AgentNotFoundError(name_or_url)


def peers_of(client: Any) -> PeerTasks:
    return PeerTasks(Peers(PeerClients(client), None, PeerTrust((), False, None)))


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("away"),
        ResourceExhaustedError("too many requests"),
        InternalError("broken"),
        RemoteError("broken", code="INTERNAL"),
        RemoteError("broken", code="HTTP_500"),
    ],
    ids=repr,
)
async def test_a_task_is_not_sent_again_while_the_agent_is_unavailable(error: ProtolinkError) -> None:
    peers = peers_of(Flaky(error))
    assert (await peers.run(URL, Task("mine"), known=LINK)).id == "mine"
    await peers.aclose()


async def test_a_refused_read_of_a_task_does_not_send_it_again() -> None:
    peers = peers_of(Flaky(PermissionDeniedError("not yours")))
    with pytest.raises(PermissionDeniedError):
        await peers.run(URL, Task("mine"), known=LINK)
    await peers.aclose()


@pytest.mark.parametrize("error", [TaskNotFoundError("gone"), RemoteError("gone", code="NOT_FOUND")], ids=repr)
async def test_a_task_that_the_agent_does_not_have_is_sent_again(error: ProtolinkError) -> None:
    client = Flaky(error)
    peers = peers_of(client)
    running = asyncio.ensure_future(peers.run(URL, Task("mine"), known=LINK))
    await client.connecting.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await peers.aclose()


async def test_a_cancel_is_repeated_while_the_agent_fails() -> None:
    client = Flaky()
    client.refusals = [InternalError("broken"), UnavailableError("away")]
    peers = peers_of(client)
    await peers.cancel_recorded(LINK, "no longer needed")
    assert client.canceled.get_nowait() == "remote"
    await peers.aclose()


async def test_a_cancel_between_two_attempts_reaches_the_agent() -> None:
    client = Flaky(UnavailableError("away"))
    peers = peers_of(client)
    running = asyncio.ensure_future(peers.run(URL, Task("mine"), known=LINK))
    await client.failed.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await client.canceled.get() == "remote"
    await peers.aclose()


async def test_a_cancel_before_the_work_is_sent_again_reaches_the_agent() -> None:
    client = Flaky()
    peers = peers_of(client)
    running = asyncio.ensure_future(peers.run(URL, Task("mine"), known=replace(LINK, protocol="plgrpc")))
    await client.failed.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await client.canceled.get() == "remote"
    await peers.aclose()


async def test_a_cancel_while_the_ids_of_a_found_task_are_recorded_reaches_the_agent() -> None:
    client, noting = Flaky(), asyncio.Event()

    async def note(link: PeerTaskLinked) -> None:
        noting.set()
        await asyncio.Event().wait()

    peers = peers_of(client)
    running = asyncio.ensure_future(peers.run(URL, Task("mine"), known=LINK, note=note))
    await noting.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await client.canceled.get() == "remote"
    await peers.aclose()


async def test_the_credentials_for_a_name_are_not_sent_to_a_url_that_the_name_has_left() -> None:
    with_credentials: Any = Flaky(AssertionError("no request"))  # type: ignore[arg-type]
    plain: Any = Flaky()
    registry: Any = Moved()
    trust = PeerTrust(["errands"], False, registry)
    peers = PeerTasks(Peers(PeerClients(with_credentials, plain), registry, trust))
    assert (await peers.run("errands", Task("mine"), known=LINK)).id == "mine"
    await peers.aclose()


class Restarting(Flaky):
    """The client of two instances of an agent, of which the first one cannot be reached for a while."""

    def __init__(self, attempts: int) -> None:
        super().__init__()
        self._attempts = attempts
        self.sent: list[str] = []

    def has_begun(self, url: str, task_id: str) -> bool:
        return False

    async def protocol(self, url: str) -> str:
        return "plgrpc"

    async def connect(self, url: str) -> None:
        if url == URL and self._attempts:
            self._attempts -= 1
            raise UnavailableError("it starts", url=url)

    async def send_task(self, url: str, task: Task, **_: Any) -> Task:
        self.sent.append(url)
        return task


class TwoInstances:
    """A registry with two instances of an agent."""

    url = "https://registry.example"

    async def get(self, name_or_url: str) -> RegisteredAgent:
        url = name_or_url if "://" in name_or_url else URL
        return RegisteredAgent(AgentCard(name="errands", description="runs errands", url=url), 1, 0.0, 0.0)

    async def list_agents(self, wanted: AgentFilter) -> list[RegisteredAgent]:
        return [await self.get(URL), await self.get("http://other.example")]


@pytest.mark.parametrize("target", [URL, "errands"])
async def test_a_recovered_run_waits_for_the_instance_that_may_have_its_task(target: str) -> None:
    client: Any = Restarting(2)
    registry: Any = TwoInstances()
    peers = PeerTasks(Peers(PeerClients(client), registry, PeerTrust((), False, None)))
    assert (await peers.run(target, Task("mine"), known=replace(LINK, protocol="plgrpc"))).id == "mine"
    assert client.sent == [URL]
    await peers.aclose()
