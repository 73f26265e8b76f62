"""The client of a2a-sdk against agents of this package, over each transport and in both versions, on real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import count
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.card_resolver import parse_agent_card
from a2a.client.errors import A2AClientError
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.compat.v0_3 import types as v03
from a2a.helpers import proto_helpers as made
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf.json_format import ParseDict
from interop_stage import DEMANDED, OFFERED, PATIENCE_S, World, token

pytestmark = pytest.mark.asyncio(loop_scope="module")

WAYS = [(binding, version) for version in ("1.0", "0.3") for binding in ("GRPC", "JSONRPC", "HTTP+JSON")]
NAMES = count(1)


class Tokens(CredentialService):
    """The token of one principal, for any scheme."""

    def __init__(self, name: str) -> None:
        self._token = token(name)

    async def get_credentials(self, security_scheme_name: str, context: ClientCallContext | None) -> str | None:
        return self._token


def channel(url: str) -> grpc.aio.Channel:
    """To the address that the card names, as it is."""
    return grpc.aio.insecure_channel(url, [("grpc.use_local_subchannel_pool", 1)])


async def resolved(world: World, way: tuple[str, str]) -> pb.AgentCard:
    """The card as the SDK reads it, with this one way to reach the agent."""
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, world.url).get_agent_card()
    ways = [x for x in card.supported_interfaces if (x.protocol_binding, x.protocol_version) == way]
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(ways)
    return card


def client_of(card: pb.AgentCard, name: str | None = None, **config: Any) -> Client:
    """A client of an agent, which takes what the agent prefers.

    Args:
        name: The principal; None sends no credentials.
    """
    settings = ClientConfig(
        grpc_channel_factory=channel, supported_protocol_bindings=["JSONRPC", "HTTP+JSON", "GRPC"], **config
    )
    return ClientFactory(settings).create(card, [AuthInterceptor(Tokens(name))] if name else [])


Connect = Callable[..., Any]
"""Opens a client to an agent, by the test's way: `connect(world, name, **config)`."""


@pytest.fixture(params=WAYS, ids=[f"{binding.lower()}-{version}" for binding, version in WAYS])
def way(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Binding and version."""
    found: tuple[str, str] = request.param
    return found


@pytest.fixture
def connect(way: tuple[str, str]) -> Connect:
    @asynccontextmanager
    async def opened(world: World, name: str | None = None, **config: Any) -> AsyncIterator[Client]:
        async with client_of(await resolved(world, way), name, **config) as client:
            yield client

    return opened


@pytest.fixture
def somebody() -> str:
    """A principal that owns nothing yet."""
    return f"user-{next(NAMES)}"


def request(text: str, *parts: pb.Part, task: pb.Task | None = None, **fields: Any) -> pb.SendMessageRequest:
    message = made.new_text_message(text, role=pb.ROLE_USER, **fields)
    message.parts.extend(parts)
    if task is not None:
        message.task_id, message.context_id = task.id, task.context_id
    return pb.SendMessageRequest(message=message)


async def events(client: Client, asked: pb.SendMessageRequest, **more: Any) -> list[pb.StreamResponse]:
    async with asyncio.timeout(PATIENCE_S):
        return [event async for event in client.send_message(asked, **more)]


async def send(client: Client, text: str, *parts: pb.Part, **fields: Any) -> pb.Task:
    """The task that a message without a stream leads to."""
    (event,) = await events(client, request(text, *parts, **fields))
    return event.task


def said(status: pb.TaskStatus) -> str:
    return made.get_message_text(status.message)


def ended(found: list[pb.StreamResponse]) -> pb.TaskStatus:
    """The status at the end of a stream: of its last update, or of the task that had ended when the stream began."""
    last = found[-1]
    return last.task.status if last.HasField("task") else last.status_update.status


def kinds(found: list[pb.StreamResponse]) -> list[str]:
    return [event.WhichOneof("payload") or "" for event in found]


# -- sending -------------------------------------------------------------------------------------------------------------


async def test_a_blocking_send_answers_with_the_finished_task(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody, streaming=False) as client:
        task = await send(client, "hello")
        assert (task.status.state, said(task.status)) == (pb.TASK_STATE_COMPLETED, "did: hello")
        assert task.id
        assert task.context_id
        assert [made.get_message_text(each) for each in task.history] == ["hello"]


async def test_parts_of_every_kind_come_back_as_they_were(full: World, connect: Connect, somebody: str) -> None:
    # v0.3 writes data as an object and has no media type for text; both are sent as v0.3 can say them.
    parts = [
        made.new_text_part("plain"),
        made.new_data_part({"n": 1.5, "list": [True, None, "x"]}),
        made.new_raw_part(b"\x00\x01\xff", media_type="image/png", filename="dot.png"),
        made.new_url_part("https://example.com/a.png", media_type="image/png", filename="a.png"),
    ]
    async with connect(full, somebody, streaming=False) as client:
        (artifact,) = (await send(client, "echo", *parts)).artifacts
    assert [each.WhichOneof("content") for each in artifact.parts] == ["text", "data", "raw", "url"]
    assert artifact.parts[0].text == "plain"
    assert artifact.parts[1].data == parts[1].data
    assert artifact.parts[2:] == parts[2:]


async def test_a_stream_shows_the_task_first_and_its_end_last(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody) as client:
        found = await events(client, request("count"))
        task = await client.get_task(pb.GetTaskRequest(id=found[0].task.id))
    assert kinds(found)[0] == "task"
    assert "task" not in kinds(found)[1:]
    assert found[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
    updates = [event.artifact_update for event in found if event.HasField("artifact_update")]
    assert [made.get_artifact_text(each.artifact) for each in updates] == ["one", "two ", "and a half"]
    assert [(each.append, each.last_chunk) for each in updates[1:]] == [(False, False), (True, True)]
    assert {event.status_update.task_id for event in found if event.HasField("status_update")} == {task.id}
    assert ["".join(made.get_text_parts(each.parts)) for each in task.artifacts] == ["one", "two and a half"]


async def test_a_stream_is_not_taken_from_an_agent_that_has_none(bare: World, connect: Connect) -> None:
    async with connect(bare) as client:
        (event,) = await events(client, request("hello"))
        assert event.task.status.state == pb.TASK_STATE_COMPLETED


async def test_an_immediate_answer_does_not_wait_for_the_work(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody, streaming=False, polling=True) as client:
        task = await send(client, f"hold {somebody}")
        assert task.status.state in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING)
        await send(client, f"release {somebody}")
        async with asyncio.timeout(PATIENCE_S):
            while task.status.state != pb.TASK_STATE_COMPLETED:  # what a client that polls does
                task = await client.get_task(pb.GetTaskRequest(id=task.id))
        assert said(task.status) == "let go"


async def test_a_task_that_asks_goes_on_with_the_answer(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody, streaming=False) as client:
        asked = await send(client, "ask")
        assert (asked.status.state, said(asked.status)) == (pb.TASK_STATE_INPUT_REQUIRED, "Which city?")
        done = await send(client, "Lisbon", task=asked)
        assert (done.id, done.context_id) == (asked.id, asked.context_id)
        assert (done.status.state, said(done.status)) == (pb.TASK_STATE_COMPLETED, "did: Lisbon")


async def test_a_stream_of_a_task_that_asks_ends_with_the_question(
    full: World, connect: Connect, somebody: str
) -> None:
    async with connect(full, somebody) as client:
        found = await events(client, request("ask"))
        assert found[-1].status_update.status.state == pb.TASK_STATE_INPUT_REQUIRED
        answered = await events(client, request("Lisbon", task=found[0].task))
        assert answered[0].task.id == found[0].task.id
        assert ended(answered).state == pb.TASK_STATE_COMPLETED, answered


async def test_a_task_id_alone_is_enough_to_go_on(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody, streaming=False) as client:
        asked = await send(client, "ask")
        done = await send(client, "Lisbon", task_id=asked.id)
        assert (done.context_id, done.status.state) == (asked.context_id, pb.TASK_STATE_COMPLETED)


async def test_tasks_of_one_context_share_it(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody, streaming=False) as client:
        first = await send(client, "one")
        second = await send(client, "two", context_id=first.context_id)
        assert second.id != first.id
        assert second.context_id == first.context_id


@pytest.mark.parametrize(
    ("text", "state", "words"),
    [
        ("fail", pb.TASK_STATE_FAILED, "out of paper"),
        ("refuse", pb.TASK_STATE_REJECTED, "not today"),
        ("login", pb.TASK_STATE_AUTH_REQUIRED, "Sign in first"),
    ],
)
async def test_other_ends_have_their_states_and_say_why(
    full: World, connect: Connect, somebody: str, text: str, state: int, words: str
) -> None:
    async with connect(full, somebody, streaming=False) as client:
        task = await send(client, text)
        assert task.status.state == state
        assert words in said(task.status)


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_agent_may_answer_with_a_message(speaking: World, connect: Connect, streaming: bool) -> None:
    async with connect(speaking, streaming=streaming) as client:
        (event,) = await events(client, request("say good morning"))
        assert event.WhichOneof("payload") == "message"
        assert made.get_message_text(event.message) == "good morning"
        assert event.message.role == pb.ROLE_AGENT


# -- tasks ---------------------------------------------------------------------------------------------------------------


async def test_a_task_is_read_with_as_much_history_as_is_asked_for(
    full: World, connect: Connect, way: tuple[str, str], somebody: str
) -> None:
    async with connect(full, somebody, streaming=False) as client:
        task = await send(client, "ask")
        await send(client, "Lisbon", task=task)
        whole = await client.get_task(pb.GetTaskRequest(id=task.id))
        assert [made.get_message_text(each) for each in whole.history] == ["ask", "Which city?", "Lisbon"]
        last = await client.get_task(pb.GetTaskRequest(id=task.id, history_length=1))
        assert [made.get_message_text(each) for each in last.history] == ["Lisbon"]
        none = await client.get_task(pb.GetTaskRequest(id=task.id, history_length=0))
        assert len(none.history) == (0 if way[1] == "1.0" else 3)  # in v0.3, 0 is the default and means all


async def test_tasks_are_listed_page_by_page(
    full: World, connect: Connect, way: tuple[str, str], somebody: str
) -> None:
    async with connect(full, somebody, streaming=False) as client:
        if way[1] == "0.3":
            with pytest.raises(NotImplementedError):  # v0.3 has no such operation
                await client.list_tasks(pb.ListTasksRequest())
            return
        first = await send(client, "count")
        ids = [first.id, (await send(client, "ask", context_id=first.context_id)).id, (await send(client, "three")).id]
        page = await client.list_tasks(pb.ListTasksRequest(page_size=2))
        rest = await client.list_tasks(pb.ListTasksRequest(page_size=2, page_token=page.next_page_token))
        assert [each.id for each in (*page.tasks, *rest.tasks)] == ids[::-1]
        assert (page.total_size, page.page_size, rest.next_page_token) == (3, 2, "")
        asking = await client.list_tasks(pb.ListTasksRequest(status=pb.TASK_STATE_INPUT_REQUIRED))
        assert [each.id for each in asking.tasks] == [ids[1]]
        shared = pb.ListTasksRequest(context_id=first.context_id, include_artifacts=True, history_length=5)
        found = (await client.list_tasks(shared)).tasks
        assert [each.id for each in found] == [ids[1], ids[0]]
        assert len(found[1].artifacts) == 2
        assert made.get_message_text(found[1].history[0]) == "count"


async def test_a_working_task_can_be_canceled(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody, streaming=False, polling=True) as client:
        task = await send(client, f"hold {somebody}")
        canceled = await client.cancel_task(pb.CancelTaskRequest(id=task.id))
        assert (canceled.id, canceled.status.state) == (task.id, pb.TASK_STATE_CANCELED)
        read = await client.get_task(pb.GetTaskRequest(id=task.id))
        assert read.status.state == pb.TASK_STATE_CANCELED


async def test_a_subscription_shows_the_task_and_then_the_rest(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody) as client, connect(full, somebody, streaming=False, polling=True) as other:
        task = await send(other, f"hold {somebody}")
        asked = pb.SubscribeToTaskRequest(id=task.id)
        async with asyncio.timeout(PATIENCE_S), aclosing(client.subscribe(asked)) as stream:
            first = await anext(stream)
            assert first.task.id == task.id
            await send(other, f"release {somebody}")
            rest = [event async for event in stream]
        assert "task" not in kinds(rest)
        assert said(rest[-1].status_update.status) == "let go"
        assert rest[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_a_client_that_hangs_up_finds_its_task_again(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody) as client:
        async with asyncio.timeout(PATIENCE_S), aclosing(client.send_message(request(f"hold {somebody}"))) as stream:
            task_id = (await anext(stream)).task.id
        asked = pb.SubscribeToTaskRequest(id=task_id)
        async with asyncio.timeout(PATIENCE_S), aclosing(client.subscribe(asked)) as stream:
            assert (await anext(stream)).task.status.state in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING)
            await events(client, request(f"release {somebody}"))
            assert [event async for event in stream][-1].status_update.status.state == pb.TASK_STATE_COMPLETED


# -- push notifications --------------------------------------------------------------------------------------------------


class Receiver:
    """A webhook: every body that is posted, with its headers in lower case."""

    def __init__(self) -> None:
        self.got: asyncio.Queue[tuple[dict[str, str], Any]] = asyncio.Queue()
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                pairs = (line.split(": ", 1) for line in head.strip().split("\r\n")[1:])
                headers = {name.lower(): value for name, value in pairs}
                body = await reader.readexactly(int(headers["content-length"]))
                self.got.put_nowait((headers, json.loads(body)))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the sender hangs up when it wants to
        finally:
            writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Receiver"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        async with server:
            yield self

    async def next(self) -> tuple[dict[str, str], Any]:
        async with asyncio.timeout(PATIENCE_S):
            return await self.got.get()


def webhook(url: str, **fields: Any) -> pb.TaskPushNotificationConfig:
    return pb.TaskPushNotificationConfig(url=url, token="t-1", **fields)


async def test_push_configs_are_set_read_listed_and_deleted(
    full: World, connect: Connect, way: tuple[str, str], somebody: str
) -> None:
    async with connect(full, somebody, streaming=False) as client:
        task = await send(client, "ask")
        given = webhook("http://127.0.0.1:9/hook", task_id=task.id, id="c-1")
        given.authentication.scheme, given.authentication.credentials = "Bearer", "for-the-hook"
        made_config = await client.create_task_push_notification_config(given)
        assert (made_config.task_id, made_config.id, made_config.url) == (task.id, "c-1", given.url)
        asked = pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="c-1")
        read = await client.get_task_push_notification_config(asked)
        assert (read.url, read.token, read.authentication.scheme) == (given.url, "t-1", "Bearer")
        if way == ("HTTP+JSON", "0.3"):
            return  # this client has neither of the two
        listed = await client.list_task_push_notification_configs(
            pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        assert [each.id for each in listed.configs] == ["c-1"]
        gone = pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="c-1")
        await client.delete_task_push_notification_config(gone)
        await client.delete_task_push_notification_config(gone)  # what is gone is gone
        with pytest.raises(errors.TaskNotFoundError):
            await client.get_task_push_notification_config(asked)


async def test_a_webhook_hears_in_its_own_version_how_the_task_ended(
    full: World, connect: Connect, way: tuple[str, str], somebody: str
) -> None:
    async with Receiver().listening() as receiver:
        config = webhook(receiver.url)
        config.authentication.scheme, config.authentication.credentials = "Bearer", "for-the-hook"
        async with connect(full, somebody, streaming=False, push_notification_config=config) as client:
            task = await send(client, "hello")
        state = 0
        while state != pb.TASK_STATE_COMPLETED:
            headers, body = await receiver.next()
            assert headers["authorization"] == "Bearer for-the-hook"
            assert headers["x-a2a-notification-token"] == "t-1"
            if way[1] == "0.3":
                heard = v03.Task.model_validate(body)
                assert heard.id == task.id
                state = pb.TASK_STATE_COMPLETED if heard.status.state is v03.TaskState.completed else 0
            else:
                update = ParseDict(body, pb.StreamResponse())
                state = (update.task if update.HasField("task") else update.status_update).status.state


# -- cards ---------------------------------------------------------------------------------------------------------------


async def test_the_card_says_what_the_agent_can_do(full: World) -> None:
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, full.url).get_agent_card()
    assert (card.name, card.capabilities.streaming, card.capabilities.push_notifications) == ("errands", True, True)
    assert [(x.protocol_binding, x.protocol_version) for x in card.supported_interfaces][:3] == [
        ("JSONRPC", "1.0"),
        ("HTTP+JSON", "1.0"),
        ("GRPC", "1.0"),
    ]
    (scheme,) = card.security_schemes.values()
    assert scheme.http_auth_security_scheme.scheme == "bearer"


async def test_a_factory_that_knows_only_the_url_gets_an_answer(bare: World) -> None:
    client = await ClientFactory().create_from_url(bare.url)
    async with client:
        (event,) = await events(client, request("hello"))
        assert said(event.task.status) == "did: hello"


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_what_v03_says_in_the_dual_card_is_enough(full: World, binding: str, somebody: str) -> None:
    async with httpx.AsyncClient() as http:
        shown = (await http.get(f"{full.url}/.well-known/agent-card.json")).json()
    for name in ("supportedInterfaces", "securityRequirements"):
        del shown[name]
    shown["securitySchemes"] = {
        name: {key: each for key, each in scheme.items() if not key.endswith("SecurityScheme")}
        for name, scheme in shown["securitySchemes"].items()
    }
    shown["additionalInterfaces"] = [x for x in shown["additionalInterfaces"] if x["transport"] == binding]
    shown["url"], shown["preferredTransport"] = shown["additionalInterfaces"][0]["url"], binding
    async with client_of(parse_agent_card(shown), somebody) as client:
        found = await events(client, request("count"))
        assert found[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_the_extended_card_is_for_callers_with_credentials(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody) as client:
        shown = await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())
        assert shown.description == f"knows {somebody}"
    async with connect(full) as client:
        with pytest.raises(errors.A2AError):
            await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())


# -- extensions ----------------------------------------------------------------------------------------------------------


def with_extensions(*uris: str) -> ClientCallContext:
    return ClientCallContext(service_parameters=ServiceParametersFactory.create([with_a2a_extensions(list(uris))]))


async def test_an_offered_extension_may_be_named(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody) as client:
        found = await events(client, request("hello"), context=with_extensions(OFFERED, "urn:example:unknown"))
        assert found[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_a_demanded_extension_must_be_named(demanding: World, connect: Connect, way: tuple[str, str]) -> None:
    # v0.3 has no code for this error, and its JSON-RPC knows errors by code.
    expected = errors.InternalError if way == ("JSONRPC", "0.3") else errors.ExtensionSupportRequiredError
    async with connect(demanding, streaming=False) as client:
        with pytest.raises(expected, match=DEMANDED):
            await events(client, request("hello"))
        (event,) = await events(client, request("hello"), context=with_extensions(DEMANDED))
        assert event.task.status.state == pb.TASK_STATE_COMPLETED


# -- errors --------------------------------------------------------------------------------------------------------------


async def test_an_unknown_task_is_not_found_by_any_operation(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody, streaming=False) as client, connect(full, somebody) as streaming:
        for attempt in (
            client.get_task(pb.GetTaskRequest(id="no-such-task")),
            client.cancel_task(pb.CancelTaskRequest(id="no-such-task")),
            events(client, request("hello", task_id="no-such-task")),
            events(streaming, request("hello", task_id="no-such-task")),
            client.create_task_push_notification_config(webhook("http://127.0.0.1:9/", task_id="no-such-task")),
        ):
            with pytest.raises(errors.TaskNotFoundError, match="no-such-task"):
                await attempt
        with pytest.raises(errors.TaskNotFoundError, match="no-such-task"):
            await anext(aiter(streaming.subscribe(pb.SubscribeToTaskRequest(id="no-such-task"))))


async def test_the_task_of_somebody_else_is_not_found(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody, streaming=False) as owner, connect(full, "mallory", streaming=False) as other:
        task = await send(owner, "ask")
        for attempt in (
            other.get_task(pb.GetTaskRequest(id=task.id)),
            other.cancel_task(pb.CancelTaskRequest(id=task.id)),
            events(other, request("Lisbon", task=task)),
        ):
            with pytest.raises(errors.TaskNotFoundError):
                await attempt


async def test_a_task_that_has_ended_takes_nothing_more(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody, streaming=False) as client, connect(full, somebody) as streaming:
        task = await send(client, "hello")
        with pytest.raises(errors.TaskNotCancelableError):
            await client.cancel_task(pb.CancelTaskRequest(id=task.id))
        with pytest.raises(errors.UnsupportedOperationError):
            await events(client, request("more", task=task))
        with pytest.raises(errors.UnsupportedOperationError):
            await events(streaming, request("more", task=task))
        with pytest.raises(errors.UnsupportedOperationError):
            await anext(aiter(streaming.subscribe(pb.SubscribeToTaskRequest(id=task.id))))


async def test_what_the_agent_cannot_do_is_refused_by_name(bare: World, connect: Connect) -> None:
    async with connect(bare) as client:
        task = await send(client, "ask")
        with pytest.raises(errors.PushNotificationNotSupportedError):
            await client.create_task_push_notification_config(webhook("http://127.0.0.1:9/", task_id=task.id))
        with pytest.raises(errors.PushNotificationNotSupportedError):
            await client.get_task_push_notification_config(
                pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="c-1")
            )


async def test_a_media_type_that_the_card_does_not_name_is_refused(
    full: World, connect: Connect, somebody: str
) -> None:
    async with connect(full, somebody, streaming=False) as client:
        with pytest.raises(errors.ContentTypeNotSupportedError, match="video/mp4"):
            await send(client, "echo", made.new_raw_part(b"\x00", media_type="video/mp4"))


async def test_a_context_that_is_not_the_tasks_is_refused(full: World, connect: Connect, somebody: str) -> None:
    async with connect(full, somebody, streaming=False) as client:
        task = await send(client, "ask")
        with pytest.raises(errors.InvalidParamsError, match="belongs to another context"):
            await send(client, "Lisbon", task_id=task.id, context_id="another")


async def test_an_extended_card_that_is_not_there_for_a_caller_is_an_error(full: World, connect: Connect) -> None:
    async with connect(full, "stranger") as client:
        with pytest.raises(errors.ExtendedAgentCardNotConfiguredError, match="no extended card"):
            await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())


async def test_nobody_gets_in_without_credentials(full: World, connect: Connect) -> None:
    async with connect(full, streaming=False) as client, connect(full) as streaming:
        for attempt in (
            client.get_task(pb.GetTaskRequest(id="any")),
            events(client, request("hello")),
            events(streaming, request("hello")),
        ):
            with pytest.raises(A2AClientError):
                await attempt


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_version_that_we_do_not_speak_is_refused(full: World, binding: str, somebody: str) -> None:
    # Over gRPC this client cannot say another version than its own.
    async with client_of(await resolved(full, (binding, "1.0")), somebody, streaming=False) as client:
        future = ClientCallContext(service_parameters={"A2A-Version": "9.9"})
        with pytest.raises(errors.VersionNotSupportedError, match=r"9\.9"):
            await events(client, request("hello"), context=future)
