"""Access over real gRPC: credentials of clients, authenticators, access rules and rate limits of servers."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc.aio
import jwt
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from plgrpc.v1 import agent_service_pb2 as pb

from protolink_grpc import Agent, AgentCard, Message, Registry, RegistryClient, ServerOptions, Task
from protolink_grpc.auth import (
    AccessRules,
    AnyOf,
    APIKey,
    APIKeyAuth,
    Basic,
    BasicAuth,
    BearerToken,
    BearerTokenAuth,
    Credentials,
    Principal,
    RateLimit,
    admission,
)
from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.grpc_agent import GrpcAgent
from protolink_grpc.client.port import ApprovalFilter
from protolink_grpc.edges.grpc.interceptors.authorization import authorization
from protolink_grpc.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    PermissionDeniedError,
    ResourceExhaustedError,
    TaskNotFoundError,
    UnauthenticatedError,
)
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.address import Address

SECRET = "s" * 40
ANYBODY = AnyOf(
    APIKeyAuth({"k-reader": ["read"], "k-ann": Principal("ann", frozenset({"read", "use", "pay"}))}),
    BasicAuth({"bob": "word"}, scopes={"bob": ["read", "use"]}),
    BearerTokenAuth(SECRET, audience="agents"),
)
RULES = AccessRules({"*": "read", "*/SendTask": "use", "*/StreamTask": "use", "*/CancelTask": False})


class Worker(Agent):
    """Echoes."""

    async def handle_task(self, task: Task) -> Task:
        return task.complete(task.messages[-1].text)


def worker(*, credentials: Any = ANYBODY, admit: Any = RULES, **options: Any) -> Worker:
    server = ServerOptions(authenticate=credentials, interceptors=(authorization(admit),))
    card = AgentCard(name="worker", description="echoes", url="grpc://127.0.0.1:0")
    return Worker(card, server=server, a2a=False, grace_s=0.1, **options)


def client(agent: Agent, credentials: Credentials | None = None, **options: Any) -> GrpcAgent:
    return GrpcAgent(Address.parse(agent.card.url), ChannelOptions(credentials=credentials, **options))


def token(**changes: Any) -> str:
    claims = {"sub": "carl", "aud": "agents", "exp": int(time.time()) + 600, "scope": "read use", **changes}
    return jwt.encode(claims, SECRET)


async def send(agent: GrpcAgent, text: str = "hello") -> Task:
    return (await agent.send(Task(messages=[Message.user(text)]), "", wait=True, timeout_s=10)).task


@pytest.fixture
async def guarded() -> AsyncIterator[Worker]:
    async with worker() as agent:
        yield agent


# -- who calls ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "credentials",
    [
        APIKey("k-ann"),
        Basic("bob", "word"),
        BearerToken(lambda url: token()),
        BearerToken(token()),
    ],
    ids=["key", "basic", "token source", "token"],
)
async def test_each_credential_opens_calls_and_streams(guarded: Worker, credentials: Credentials) -> None:
    agent = client(guarded, credentials)
    done = await send(agent)
    assert done.messages[-1].text == "hello"
    task = Task(messages=[Message.user("again")])
    events = [event async for batch in agent.stream(task, "", timeout_s=10) for event in batch]
    assert [event.sequence for event in events] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "credentials",
    [
        None,
        APIKey("k-anna"),
        APIKey("k-ann", header="X-Other"),
        Basic("bob", "Word"),
        Basic("eve", "word"),
        BearerToken("k-ann"),
        BearerToken(token(exp=int(time.time()) - 1)),
        BearerToken(token(aud="others")),
        BearerToken(jwt.encode({"sub": "ann", "exp": 2**31}, "t" * 40)),
        BearerToken(token(sub="local")),
        BearerToken(token(sub="anonymous")),
    ],
    ids=[
        "none", "wrong key", "wrong header", "wrong password", "unknown user", "key as token", "expired token",
        "token for others", "token of others", "reserved", "nobody's",
    ],
)  # fmt: skip
async def test_without_valid_credentials_every_method_is_unauthenticated(
    guarded: Worker, credentials: Credentials | None
) -> None:
    agent = client(guarded, credentials)

    async def drain(stream: Any) -> None:
        async for _ in stream:
            pass

    for attempt in (
        agent.card(10),
        send(agent),
        agent.get("x", 10),
        agent.cancel("x", "", 10),
        agent.list_approvals(ApprovalFilter(), 10),
        drain(agent.stream(Task(messages=[Message.user("x")]), "", timeout_s=10)),
        drain(agent.watch("x", 0, StopAt.CURRENT, timeout_s=10)),
    ):
        with pytest.raises(UnauthenticatedError) as caught:
            await attempt
        for secret in ("k-ann", "word", "Word"):
            assert secret not in str(caught.value)


async def test_a_task_of_one_principal_does_not_exist_for_another(guarded: Worker) -> None:
    done = await send(client(guarded, APIKey("k-ann")))
    with pytest.raises(TaskNotFoundError):
        await client(guarded, Basic("bob", "word")).get(done.id, 10)
    assert (await client(guarded, APIKey("k-ann")).get(done.id, 10)).id == done.id


async def test_health_and_reflection_are_open(guarded: Worker, channel: Callable[[str], grpc.aio.Channel]) -> None:
    opened = channel(guarded.card.url)
    answer = await health_pb2_grpc.HealthStub(opened).Check(health_pb2.HealthCheckRequest(service=""))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    ask = reflection_pb2_grpc.ServerReflectionStub(opened).ServerReflectionInfo()
    await ask.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    assert (await ask.read()).list_services_response.service
    await ask.done_writing()


async def test_an_api_key_in_authorization_counts_over_grpc_too(guarded: Worker) -> None:
    agent = client(guarded, metadata=(("authorization", "ApiKey k-ann"),))
    assert (await send(agent)).messages[-1].text == "hello"


# -- what they may call ------------------------------------------------------------------------------------------------------


async def test_a_missing_scope_is_permission_denied_and_named(guarded: Worker) -> None:
    reader = client(guarded, APIKey("k-reader"))
    assert (await reader.card(10)).name == "worker"
    with pytest.raises(PermissionDeniedError) as caught:
        await send(reader)
    assert caught.value.metadata == {"method": "/plgrpc.v1.AgentService/SendTask", "scope": "use"}
    assert guarded.active_task_ids == []


async def test_a_closed_method_is_closed_for_everybody(guarded: Worker) -> None:
    with pytest.raises(PermissionDeniedError, match=r"no caller may call .*CancelTask"):
        await client(guarded, APIKey("k-ann")).cancel("x", "", 10)


async def test_streams_are_refused_before_their_first_event(guarded: Worker) -> None:
    stream = client(guarded, APIKey("k-reader")).stream(Task(messages=[Message.user("x")]), "", timeout_s=10)
    with pytest.raises(PermissionDeniedError):
        await anext(stream)


async def test_too_many_calls_are_refused_with_retry_info(stub: Callable[[str], Any]) -> None:
    admit = admission(RULES, RateLimit(0.01, burst=2))
    async with worker(admit=admit) as agent:
        ann, bob = client(agent, APIKey("k-ann")), client(agent, Basic("bob", "word"))
        await send(ann)
        await send(ann)
        with pytest.raises(ResourceExhaustedError) as caught:
            await send(ann)
        assert 0 < caught.value.retry_after_s <= 100
        assert (await send(bob)).messages[-1].text == "hello", "another caller has a bucket of its own"

        with pytest.raises(grpc.aio.AioRpcError) as raw:
            await stub(agent.card.url).GetAgentCard(pb.GetAgentCardRequest(), metadata=(("x-api-key", "k-ann"),))
        assert raw.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        status = rpc_status.from_call(raw.value)
        assert status is not None
        kinds = {detail.type_url.rpartition(".")[2]: detail for detail in status.details}
        retry = error_details_pb2.RetryInfo()
        kinds["RetryInfo"].Unpack(retry)
        assert retry.retry_delay.ToMilliseconds() > 0


async def test_who_is_refused_takes_nothing_from_the_rate() -> None:
    async with worker(admit=admission(RateLimit(0.01, burst=1))) as agent:
        for _ in range(5):
            with pytest.raises(UnauthenticatedError):
                await send(client(agent, APIKey("wrong")))
        assert (await send(client(agent, APIKey("k-ann")))).messages[-1].text == "hello"


# -- clients that renew their credentials -------------------------------------------------------------------------------------


class Renewable:
    """Shows one key after another."""

    def __init__(self, *keys: str) -> None:
        self._keys = list(keys)
        self.refused: list[Mapping[str, str] | None] = []
        self.urls: set[str] = set()

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        self.urls.add(audience_url)
        return {"X-API-Key": self._keys[0]}

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        self.refused.append(refused)
        del self._keys[0]
        return bool(self._keys)


async def test_refused_credentials_are_renewed_once_and_the_call_repeated(guarded: Worker) -> None:
    credentials = Renewable("old", "k-ann")
    assert (await send(client(guarded, credentials))).messages[-1].text == "hello"
    assert credentials.refused == [{"X-API-Key": "old"}]
    assert credentials.urls == {guarded.card.url}


async def test_a_stream_is_repeated_with_new_credentials_too(guarded: Worker) -> None:
    agent = client(guarded, Renewable("old", "k-ann"))
    task = Task(messages=[Message.user("x")])
    events = [event async for batch in agent.stream(task, "", timeout_s=10) for event in batch]
    assert [event.sequence for event in events] == [1, 2, 3, 4]


async def test_a_second_refusal_is_final(guarded: Worker) -> None:
    for call in (
        lambda agent: send(agent),
        lambda agent: anext(agent.stream(Task(messages=[Message.user("x")]), "", timeout_s=10)),
    ):
        credentials = Renewable("old", "older", "k-ann")
        with pytest.raises(UnauthenticatedError):
            await call(client(guarded, credentials))
        assert len(credentials.refused) == 1


async def test_another_error_renews_nothing(guarded: Worker) -> None:
    credentials = Renewable("k-reader", "k-ann")
    with pytest.raises(PermissionDeniedError):
        await send(client(guarded, credentials))
    assert credentials.refused == []


async def test_credentials_that_do_not_come_count_towards_the_time_of_a_call(guarded: Worker) -> None:
    never = asyncio.Event()

    async def source(url: str) -> str:
        await never.wait()
        return "late"

    agent = client(guarded, BearerToken(source))
    with pytest.raises(DeadlineExceededError, match="were not available in time"):
        await agent.card(0.05)
    with pytest.raises(DeadlineExceededError):
        await anext(agent.stream(Task(messages=[Message.user("x")]), "", timeout_s=0.05))


async def test_credentials_are_not_sent_in_the_clear_to_another_machine() -> None:
    agent = GrpcAgent(Address.parse("grpc://agents.test:50051"), ChannelOptions(credentials=APIKey("k-ann")))
    with pytest.raises(InvalidArgumentError, match="unencrypted"):
        await agent.card(1)


# -- the registry ------------------------------------------------------------------------------------------------------------


async def test_a_registry_client_shows_its_credentials_on_calls_and_watches() -> None:
    options = ServerOptions(authenticate=ANYBODY)
    async with Registry(url="grpc://127.0.0.1:0", server=options) as registry:
        ann = RegistryClient(registry.url, credentials=Renewable("old", "k-ann"))
        await ann.register(AgentCard(name="a", description="d", url="grpc://127.0.0.1:9"))
        assert [card.name for card in await ann.discover()] == ["a"]
        changes = RegistryClient(registry.url, credentials=APIKey("k-reader")).watch()
        assert (await anext(changes)).agent.card.name == "a"
        await changes.aclose()
        with pytest.raises(UnauthenticatedError):
            await RegistryClient(registry.url, credentials=APIKey("wrong")).discover()
        with pytest.raises(UnauthenticatedError):
            await RegistryClient(registry.url).discover()
