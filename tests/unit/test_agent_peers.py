"""A run that was recovered looks for its task at an A2A agent that is unavailable for a while."""

import asyncio
from typing import Any

import pytest

from protolink_grpc import ProtolinkError, ResourceExhaustedError, Task, UnavailableError
from protolink_grpc.agent.peers import Peers
from protolink_grpc.agent.trust import PeerClients, PeerTrust
from protolink_grpc.models.events import PeerTaskLinked

URL = "http://errands.example"
LINK = PeerTaskLinked("errands", URL, "a2a", "remote", "context")


class Flaky:
    """The client of an A2A agent whose first response is an error."""

    timeout = 10.0

    def __init__(self, error: ProtolinkError) -> None:
        self._error: ProtolinkError | None = error
        self.failed = asyncio.Event()
        self.canceled = asyncio.Queue[str]()

    def a2a_tasks(self, url: str) -> "Flaky":
        return self

    async def adopt(self, task: Task, link: PeerTaskLinked, timeout_s: float) -> bool:
        error, self._error = self._error, None
        if error is not None:
            self.failed.set()
            raise error
        return True

    async def wait_task(self, task_id: str, *, agent_url: str) -> Task:
        return Task(task_id)

    async def cancel_task(self, url: str, task_id: str, *, reason: str) -> None:
        self.canceled.put_nowait(task_id)


def peers_of(client: Any) -> Peers:
    return Peers(PeerClients(client), None, PeerTrust((), False, None))


@pytest.mark.parametrize("error", [UnavailableError("away"), ResourceExhaustedError("too many requests")], ids=repr)
async def test_a_task_is_not_sent_again_while_the_agent_is_unavailable(error: ProtolinkError) -> None:
    peers = peers_of(Flaky(error))
    assert (await peers.run(URL, Task("mine"), known=LINK)).id == "mine"
    await peers.aclose()


async def test_a_cancel_between_two_attempts_reaches_the_agent() -> None:
    client = Flaky(UnavailableError("away"))
    peers = peers_of(client)
    running = asyncio.ensure_future(peers.run(URL, Task("mine"), known=LINK))
    await client.failed.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await client.canceled.get() == "mine"
    await peers.aclose()
