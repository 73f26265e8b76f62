"""What a client asks of A2A by name: webhooks, at our own agents and at those of other systems, and a binding."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_world import plgrpc
from foreign_world import GRPC, JSONRPC, REST, a2a_server, listening, serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from protolink_grpc import (
    A2AOptions,
    Agent,
    AgentClient,
    DeliveryState,
    InvalidArgumentError,
    Message,
    PushConfig,
    PushNotSupportedError,
    PushOptions,
    SQLiteStore,
    Task,
    TaskNotFoundError,
    TaskSnapshot,
    TaskState,
)
from protolink_grpc.errors import UnimplementedError
from protolink_grpc.storage.port import TaskStore

PATIENCE_S = 20.0
"""How long a test waits for what must happen; far more than it takes."""


class Asking(Agent):
    """Asks once, then is done."""

    async def handle_task(self, task: Task) -> Task:
        if len(task.messages) == 1:
            return task.require_input(Message.agent("which one?"))
        return task.complete("that one")


def asking(store: TaskStore | None = None, push: PushOptions | None = None, **a2a: Any) -> Asking:
    options = A2AOptions(push=push or PushOptions(allow=("private",)), **a2a)
    return Asking(name="asking", url="grpc://127.0.0.1:0", http="127.0.0.1:0", a2a=options, store=store)


@asynccontextmanager
async def hook(statuses: Sequence[int] = ()) -> AsyncIterator[tuple[str, "asyncio.Queue[dict[str, str]]"]]:
    """A receiver of notifications that answers with these statuses, then with 200, and the headers of what it gets."""
    posts: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    answers = list(statuses)

    async def take(request: Request) -> Response:
        await request.body()
        posts.put_nowait(dict(request.headers))
        return Response(status_code=answers.pop(0) if answers else 200)

    bound, port = listening()
    async with serving(Starlette(routes=[Route("/hook", take, methods=["POST"])]), bound):
        yield f"http://127.0.0.1:{port}/hook", posts


@pytest.mark.parametrize("interface", ["grpc", "http", "a2a"])
async def test_a_webhook_is_set_read_listed_told_and_deleted(interface: str) -> None:
    async with asking() as agent, hook() as (url, posts):
        client = AgentClient(
            "a2a" if interface == "a2a" else "grpc", agent.card.url if interface == "grpc" else agent.http_url
        )
        asked = await client.send_task(None, Task.create("choose"))
        config = PushConfig(url, id="mine", token="t-1", scheme="Bearer", credentials="secret")
        known = await client.set_push_config(None, asked.id, config)
        assert (known.id, known.task_id, known.url, known.token) == ("mine", asked.id, url, "t-1")
        unnamed = await client.set_push_config(None, asked.id, PushConfig(url))
        assert unnamed.id not in ("", "mine")
        assert await client.get_push_config(None, asked.id, "mine") == known
        assert {each.id for each in await client.list_push_configs(None, asked.id)} == {"mine", unnamed.id}
        await client.delete_push_config(None, asked.id, unnamed.id)
        assert await client.list_push_configs(None, asked.id) == [known]
        done = await client.send_task(None, asked.add_message(Message.user("the red one")))
        assert done.state is TaskState.COMPLETED
        async with asyncio.timeout(PATIENCE_S):
            headers = await posts.get()
        assert (headers["authorization"], headers["x-a2a-notification-token"]) == ("Bearer secret", "t-1")
        with pytest.raises(TaskNotFoundError):
            await client.get_push_config(None, asked.id, "no-such")


def test_webhooks_are_registered_by_code_that_does_not_await() -> None:
    agent = asking()
    agent.start(background=True)
    try:
        client = AgentClient(url=agent.card.url).sync
        asked = client.send_task(None, Task.create("choose"))
        client.set_push_config(None, asked.id, PushConfig("http://127.0.0.1:9/hook", id="mine"))
        assert [each.id for each in client.list_push_configs(None, asked.id)] == ["mine"]
        assert client.get_push_config(None, asked.id, "mine").url == "http://127.0.0.1:9/hook"
        client.delete_push_config(None, asked.id, "mine")
        assert client.list_push_configs(None, asked.id) == []
    finally:
        agent.stop()


@pytest.mark.parametrize("interface", ["grpc", "http"])
async def test_an_agent_without_notifications_says_so(interface: str) -> None:
    async with Asking(name="asking", url="grpc://127.0.0.1:0", http="127.0.0.1:0") as agent:
        client = AgentClient(url=agent.card.url if interface == "grpc" else agent.http_url)
        asked = await client.send_task(None, Task.create("choose"))
        with pytest.raises(PushNotSupportedError):
            await client.set_push_config(None, asked.id, PushConfig("http://127.0.0.1:9/hook"))


async def test_a_webhook_that_may_not_be_called_is_the_callers_mistake() -> None:
    options = A2AOptions(push=PushOptions())
    async with Asking(name="asking", url="grpc://127.0.0.1:0", a2a=options) as agent:
        client = AgentClient(url=agent.card.url)
        asked = await client.send_task(None, Task.create("choose"))
        with pytest.raises(InvalidArgumentError):
            await client.set_push_config(None, asked.id, PushConfig("http://127.0.0.1:9/hook"))


@pytest.mark.parametrize("url", ["runtime://asking", "grpc"])
async def test_an_agent_without_a2a_has_no_webhooks(url: str) -> None:
    own = "grpc://127.0.0.1:0" if url == "grpc" else url
    async with Asking(name="asking", url=own, a2a=False) as agent:
        client = AgentClient(url=agent.card.url)
        asked = await client.send_task(None, Task.create("choose"))
        with pytest.raises(UnimplementedError):
            await client.list_push_configs(None, asked.id)


@pytest.mark.parametrize(("binding", "version"), [(b, v) for v in ("1.0", "0.3") for b in (JSONRPC, REST, GRPC)])
async def test_webhooks_of_another_systems_agent(binding: str, version: str) -> None:
    async with a2a_server(binding, version=version, push=True) as server, hook() as (url, _):
        client = AgentClient()
        asked = await client.send_task(server.url, Task.create("book"))
        known = await client.set_push_config(server.url, asked.id, PushConfig(url, id="mine", token="t-1"))
        assert (known.id, known.task_id, known.url) == ("mine", asked.id, url)
        assert (await client.get_push_config(server.url, asked.id, "mine")).url == url
        if (binding, version) == (REST, "0.3"):
            with pytest.raises(UnimplementedError, match=r"not supported in v0\.3 REST"):
                await client.list_push_configs(server.url, asked.id)
            return
        assert [each.id for each in await client.list_push_configs(server.url, asked.id)] == ["mine"]
        await client.delete_push_config(server.url, asked.id, "mine")
        assert await client.list_push_configs(server.url, asked.id) == []


# -- deliveries that are given up ----------------------------------------------------------------------------------------------


async def delivery(client: AgentClient, task_id: str, state: DeliveryState) -> TaskSnapshot:
    """The snapshot of a task once its delivery has this state."""
    async with asyncio.timeout(PATIENCE_S):
        while (found := await client.tasks.get(task_id)).delivery is not state:
            await asyncio.sleep(0.01)  # no event tells that a delivery was given up
    return found


async def failed(agent: Asking, url: str) -> str:
    """A task of which a notification was given up."""
    client = AgentClient(url=agent.card.url)
    asked = await client.send_task(None, Task.create("choose", session_id="trip"))
    assert (await client.tasks.get(asked.id)).delivery is DeliveryState.NOT_APPLICABLE
    await client.set_push_config(None, asked.id, PushConfig(url, id="mine", token="sesame"))
    await client.send_task(None, asked.add_message(Message.user("the red one")))
    found = await delivery(client, asked.id, DeliveryState.FAILED)
    assert found.gaps == ()
    assert "sesame" not in found.delivery_error
    return asked.id


@pytest.mark.parametrize(
    ("status", "give_up_s", "cause"), [(410, 3600.0, "HTTP 410"), (500, 0.0, "HTTP 500")], ids=["refused", "exhausted"]
)
async def test_a_delivery_that_was_given_up_is_failed_also_after_a_restart_until_its_webhook_is_deleted(
    status: int, give_up_s: float, cause: str, tmp_path: Path
) -> None:
    push = PushOptions(allow=("private",), give_up_s=give_up_s)
    async with hook([status] * 100) as (url, _):
        async with asking(SQLiteStore(tmp_path / "tasks.db"), push) as agent:
            task_id = await failed(agent, url + "?key=sesame")
        async with asking(SQLiteStore(tmp_path / "tasks.db"), push) as agent:
            client = AgentClient(url=agent.card.url)
            found = await client.tasks.get(task_id)
            assert (found.delivery, found.gaps) == (DeliveryState.FAILED, ())
            assert re.fullmatch(rf"{cause}: webhook mine, event \d+, given up since 20[^ ]+", found.delivery_error)
            done = await asyncio.to_thread(plgrpc, "task", "show", agent.card.url, task_id)
            assert f"Delivery: failed: {cause}: webhook mine" in done.out
            [listed] = (await client.tasks.list()).snapshots
            assert listed.delivery is DeliveryState.FAILED
            await client.delete_push_config(None, task_id, "mine")
            deleted = await client.tasks.get(task_id)
            assert (deleted.delivery, deleted.delivery_error) == (DeliveryState.NOT_APPLICABLE, "")
            await client.sessions.delete("trip")
            with pytest.raises(TaskNotFoundError):
                await client.tasks.get(task_id)


async def test_later_events_are_delivered_and_the_delivery_stays_failed() -> None:
    async with hook([410]) as (url, posts), asking() as agent:
        client = AgentClient(url=agent.card.url)
        task_id = await failed(agent, url)
        assert posts.qsize() > 1  # the first one was refused, and all others were accepted
        await client.set_push_config(None, task_id, PushConfig(url, id="mine"))
        assert (await client.tasks.get(task_id)).delivery is DeliveryState.DELIVERED  # a replaced webhook begins anew


# -- bindings on request -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", [JSONRPC, REST, GRPC])
async def test_a_client_speaks_the_binding_that_it_was_told(binding: Any) -> None:
    async with a2a_server(JSONRPC, REST, GRPC) as server:
        done = await AgentClient(binding=binding).send_task(server.url, Task.create("sweep"))
        assert done.get_output() == "did: sweep"
        paths = {request["path"] for request in server.requests} - {"/.well-known/agent-card.json"}
        assert paths == {JSONRPC: {"/rpc"}, REST: {"/rest/message:stream"}, GRPC: set()}[binding]


@pytest.mark.parametrize("binding", [JSONRPC, REST, GRPC])
async def test_a_binding_is_spoken_to_our_own_agents_too(binding: Any) -> None:
    async with asking() as agent:
        asked = await AgentClient(url=agent.http_url, binding=binding).send_task(None, Task.create("choose"))
        assert (asked.state, "a2a" in asked.metadata) == (TaskState.INPUT_REQUIRED, True)


async def test_a_binding_that_an_agent_does_not_have_is_named() -> None:
    async with a2a_server(JSONRPC) as server:
        with pytest.raises(UnimplementedError, match="GRPC"):
            await AgentClient(binding="GRPC").send_task(server.url, Task.create("sweep"))


@pytest.mark.parametrize(
    ("transport", "binding"), [("grpc", "SOAP"), ("grpc", "grpc"), ("http", "JSONRPC"), ("runtime", "GRPC")]
)
def test_a_binding_that_is_none_or_contradicts_the_transport_is_refused(transport: str, binding: Any) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        AgentClient(transport, binding=binding)
    assert refused.value.field == "binding"


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:1", "runtime://nobody"])
async def test_a_binding_needs_a_url_that_has_a_card(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="http://") as refused:
        await AgentClient(url=url, binding="JSONRPC").get_agent_card()
    assert refused.value.field == "binding"
