"""Push notifications: configs over every binding, and the deliveries. Numbers are those of the list of requirements."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from a2a_stage import PATIENCE_S, World, numbered
from a2a_wires import V1_NAMES, Caller, Json, Refused, message
from a2a_wires_v03 import event_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

URL = "http://127.0.0.1:9/hook"


@dataclass
class Receiver:
    """A webhook. `got` has the headers and the body of each request."""

    url: str = ""
    got: list[tuple[dict[str, str], Json]] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                pairs = (line.split(": ", 1) for line in head.strip().split("\r\n")[1:])
                headers = {name.lower(): value for name, value in pairs}
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                async with self.news:
                    self.got.append((headers | {":": head.split("\r\n")[0]}, body))
                    self.news.notify_all()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the sender is done
        finally:
            writer.close()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S), self.news:
            await self.news.wait_for(lambda: len(self.got) >= count)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        server.close()


# -- 16 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["set", "get", "list", "delete", "send"])
async def test_an_agent_without_notifications_refuses_everything_about_them(
    bare: World, binding: str, operation: str
) -> None:
    """16."""
    caller = bare.caller(binding, "-")
    task = await caller.task("done")
    asking = {
        "set": lambda: caller.set_push(task["id"], URL),
        "get": lambda: caller.get_push(task["id"], "c"),
        "list": lambda: caller.list_push(task["id"]),
        "delete": lambda: caller.delete_push(task["id"], "c"),
        "send": lambda: caller.send("hello", configuration={"taskPushNotificationConfig": {"url": URL}}),
    }
    with pytest.raises(Refused) as refused:
        await asking[operation]()
    assert refused.value.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
    assert refused.value.code == caller.expected("PUSH_NOTIFICATION_NOT_SUPPORTED")


# -- 17 ------------------------------------------------------------------------------------------------------------------


async def test_a_config_is_returned_with_its_id_and_can_be_read_again(caller: Caller) -> None:
    """17."""
    task = await caller.task("ask what?")
    made = await caller.set_push(task["id"], URL, token="t", authentication={"scheme": "Bearer", "credentials": "c"})
    assert made["id"]
    assert (made["taskId"], made["url"], made["token"]) == (task["id"], URL, "t")
    assert await caller.get_push(task["id"], made["id"]) == made
    assert (await caller.list_push(task["id"]))["configs"] == [made]


async def test_a_config_has_the_id_that_its_owner_gives_it_and_is_replaced_under_it(caller: Caller) -> None:
    """17."""
    task = await caller.task("ask what?")
    await caller.set_push(task["id"], URL, id="mine")
    made = await caller.set_push(task["id"], f"{URL}/2", id="mine")
    assert made["id"] == "mine"
    assert [each["url"] for each in (await caller.list_push(task["id"]))["configs"]] == [f"{URL}/2"]


async def test_a_finished_task_takes_a_config_too(caller: Caller) -> None:
    """17: the official kit wants it."""
    task = await caller.task("done")
    made = await caller.set_push(task["id"], URL)
    assert await caller.get_push(task["id"], made["id"]) == made


async def test_an_unknown_config_is_not_found_and_deleting_it_is_no_error(caller: Caller) -> None:
    """17: deleting is idempotent and permanent."""
    task = await caller.task("ask what?")
    made = await caller.set_push(task["id"], URL)
    for _ in range(2):
        await caller.delete_push(task["id"], made["id"])
        with pytest.raises(Refused) as refused:
            await caller.get_push(task["id"], made["id"])
        assert refused.value.reason == "TASK_NOT_FOUND"
    assert (await caller.list_push(task["id"]))["configs"] == []
    await caller.delete_push(task["id"], "never-there")


async def test_configs_of_an_unknown_task_are_not_found(caller: Caller) -> None:
    """17."""
    asking = [
        caller.set_push("no-such-task", URL),
        caller.get_push("no-such-task", "c"),
        caller.list_push("no-such-task"),
        caller.delete_push("no-such-task", "c"),
    ]
    for each in asking:
        with pytest.raises(Refused) as refused:
            await each
        assert refused.value.reason == "TASK_NOT_FOUND"
        assert refused.value.code == caller.expected("TASK_NOT_FOUND")


@pytest.mark.parametrize("binding", [*V1_NAMES, "grpc-0.3", "rest-0.3"])
async def test_configs_come_in_pages(world: World, binding: str) -> None:
    """17. v0.3's JSON-RPC has no pages, and shows all."""
    caller = world.caller(binding)
    task = await caller.task("ask what?")
    # v0.3 knows a config without an id as the default one.
    ids = [(await caller.set_push(task["id"], f"{URL}/{number}", id=f"c{number}"))["id"] for number in range(5)]
    found, token, sizes = [], "", []
    while True:
        page = await caller.list_push(task["id"], pageSize=2, **({"pageToken": token} if token else {}))
        found += [each["id"] for each in page["configs"]]
        sizes.append(len(page["configs"]))
        token = page["nextPageToken"]
        if not token:
            break
    assert sizes == [2, 2, 1]
    assert found == ids


async def test_older_json_shows_all_configs_at_once(world: World) -> None:
    """17."""
    caller = world.caller("jsonrpc-0.3")
    task = await caller.task("ask what?")
    # v0.3 knows a config without an id as the default one.
    ids = [(await caller.set_push(task["id"], f"{URL}/{number}", id=f"c{number}"))["id"] for number in range(5)]
    assert [each["id"] for each in (await caller.list_push(task["id"]))["configs"]] == ids


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest", "ftp://127.0.0.1/", "nowhere", "http://"])
async def test_a_url_that_must_not_be_called_is_refused(caller: Caller, url: str) -> None:
    """18: when the config is made, not when the first notification is due."""
    task = await caller.task("ask what?")
    with pytest.raises(Refused) as refused:
        await caller.set_push(task["id"], url)
    assert refused.value.code == caller.expected("INVALID_ARGUMENT")
    with pytest.raises(Refused):
        await caller.send("hello", configuration={"taskPushNotificationConfig": {"url": url}})


# -- 18 ------------------------------------------------------------------------------------------------------------------


async def test_a_receiver_gets_what_happens_in_order_with_its_credentials(caller: Caller) -> None:
    """18: for a config that comes with the message."""
    async with receiving() as receiver:
        config = {
            "url": receiver.url,
            "token": "secret-token",
            "authentication": {"scheme": "Bearer", "credentials": "secret"},
        }
        task = await caller.task("many", configuration={"taskPushNotificationConfig": config})
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        # What was due has been sent before the answer came.
        assert receiver.got
        headers, last = receiver.got[-1]
        assert headers[":"] == "POST /hook HTTP/1.1"
        assert headers["authorization"] == "Bearer secret"
        assert headers["x-a2a-notification-token"] == "secret-token"
        if not caller.is_v1:
            assert event_in(last)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            return
        assert headers["content-type"].split(";")[0] in ("application/a2a+json", "application/json")
        bodies = [body for _, body in receiver.got]
        assert all(len(body) == 1 for body in bodies)
        names = [body["artifactUpdate"]["artifact"]["name"] for body in bodies if "artifactUpdate" in body]
        assert names == ["n1", "n2", "n3"]
        assert last["statusUpdate"]["status"] == task["status"]


async def test_a_receiver_that_is_named_amid_the_work_gets_what_happens_from_then_on(
    world: World, caller: Caller
) -> None:
    """18: for a config that is made later."""
    text, script = world.stage.script()
    async with receiving() as receiver:
        task = await caller.begin(text)
        await script.does(numbered(1))
        await caller.set_push(task["id"], receiver.url)
        await script.does(numbered(2))
        await receiver.until(1)
        script.ends()
        await receiver.until(2)
        bodies = [body for _, body in receiver.got]
        if caller.is_v1:
            names = [body["artifactUpdate"]["artifact"]["name"] for body in bodies if "artifactUpdate" in body]
            assert names == ["n2"]
        else:
            assert [each["name"] for each in event_in(bodies[0])["task"]["artifacts"]] == ["n1", "n2"]


async def test_a_deleted_config_is_told_nothing_more(caller: Caller) -> None:
    """17 and 18."""
    async with receiving() as gone, receiving() as kept:
        task = await caller.task("ask what?")
        config = await caller.set_push(task["id"], gone.url, id="gone")
        await caller.set_push(task["id"], kept.url, id="kept")
        await caller.delete_push(task["id"], config["id"])
        await caller.send(message("this", taskId=task["id"]))
        await kept.until(1)
        assert gone.got == []


async def test_configs_show_no_credentials_to_others(world: World, caller: Caller, binding: str) -> None:
    """33: a config is its owner's."""
    task = await caller.task("ask what?")
    made = await caller.set_push(task["id"], URL, authentication={"scheme": "Bearer", "credentials": "hush"})
    for ask in (
        lambda other: other.get_push(task["id"], made["id"]),
        lambda other: other.list_push(task["id"]),
    ):
        with pytest.raises(Refused) as refused:
            await ask(world.caller(binding))
        assert "hush" not in refused.value.message
        assert refused.value.reason == "TASK_NOT_FOUND"
