"""The credentials that an agent sends to its peers, over real sockets, for each source of a peer's URL."""

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from delegation_world import answered, call, said_last, thinking

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentConflictError,
    InvalidArgumentError,
    Message,
    Principal,
    Registry,
    RegistryClient,
    Task,
    TaskState,
    UnauthenticatedError,
)
from protolink_grpc.auth import APIKey, APIKeyAuth

SECRET = "the-agents-own-key"
REGISTRY_KEYS = APIKeyAuth({"k-bank": Principal("bank"), "k-eve": Principal("eve"), "k-asker": Principal("asker")})


class Peer(Agent):
    """Keeps the headers of all calls, and answers those with the key alone, unless it is open."""

    def __init__(
        self, name: str = "bank", url: str = "grpc://127.0.0.1:0", *, is_open: bool = False, **options: Any
    ) -> None:
        self.seen: list[Mapping[str, str]] = []
        self._is_open = is_open
        super().__init__(AgentCard(name, "d", url), authenticator=self._authenticate, grace_s=0.1, **options)

    async def _authenticate(self, method: str, metadata: Mapping[str, str]) -> Principal | None:
        self.seen.append(dict(metadata))
        return Principal("asker") if self._is_open or metadata.get("x-api-key") == SECRET else None

    @property
    def saw_a_secret(self) -> bool:
        assert self.seen
        text = repr(self.seen)
        return SECRET in text or "k-asker" in text

    async def handle_task(self, task: Task) -> Task:
        if task.messages[-1].text == "ask":
            return task.require_input(Message.agent(self.card.url))
        return await self.execute_task(task) if not task.messages[-1].text else task.complete(self.card.url)


def asker(**options: Any) -> Agent:
    return Agent(name="asker", credentials=APIKey(SECRET), grace_s=0.1, **options)


def at(registry: Registry, who: str) -> RegistryClient:
    return RegistryClient(registry.url, credentials=APIKey(f"k-{who}"))


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry(authenticator=REGISTRY_KEYS) as registry:
        yield registry


# -- withheld ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:0", "http://127.0.0.1:0"])
async def test_a_url_that_the_configuration_does_not_name_gets_no_credentials(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even on this machine, and not even when it stands in the code: it may come from a task or a model."""
    async with Peer(url=url) as peer, asker(trusted_peers=["grpc://127.0.0.1:1"]) as agent:
        with caplog.at_level(logging.WARNING, "protolink_grpc.agent.trust"):
            for _ in range(3):
                with pytest.raises(UnauthenticatedError, match="no credentials were sent") as caught:
                    await agent.call_agent(peer.card.url, Task.create("hello"))
        assert f"add '{peer.card.url}' to its trusted_peers" in str(caught.value)
        if url.startswith("grpc"):  # over HTTP the card is public
            with pytest.raises(UnauthenticatedError, match="trusted_peers"):
                await agent.peer(peer.card.url).card()
        with pytest.raises(UnauthenticatedError, match="trusted_peers"):
            async for _ in agent.peer(peer.card).run_task_streaming(Task.create("hello")):
                pass
        assert not peer.saw_a_secret
        lines = [each.getMessage() for each in caplog.records]
        assert lines == [
            f"asker sends no credentials to {peer.card.url}, because it is not in the agent's trusted_peers"
        ]


async def test_metadata_is_withheld_like_credentials() -> None:
    async with Peer(is_open=True) as peer, Agent(name="asker", metadata=[("x-team", SECRET)]) as agent:
        assert (await agent.call_agent(peer.card.url, Task.create("hello"))).state is TaskState.COMPLETED
        assert not peer.saw_a_secret


async def test_a_url_in_a_callers_task_gets_no_credentials() -> None:
    class Forwarder(Agent):
        async def handle_task(self, task: Task) -> Task:
            return await self.call_agent(task.metadata["next"], Task.create("hello"))

    async with Peer(is_open=True) as evil, Forwarder(name="f", credentials=APIKey(SECRET)) as forwarder:
        await forwarder.run_task(Task(messages=[Message.user("go")], metadata={"next": evil.card.url}))
        assert not evil.saw_a_secret


async def test_a_peer_that_a_model_chooses_from_a_registry_gets_no_credentials(registry: Registry) -> None:
    def work() -> str:
        return "done"

    async with (
        Peer("evil", is_open=True, registry=at(registry, "eve"), tools=[work]) as evil,
        thinking(
            "planner",
            at(registry, "asker"),
            call("evil", "work"),
            {"type": "final", "content": "all done"},
            credentials=APIKey(SECRET),
            trusted_peers=["bank"],
        ) as planner,
    ):
        await answered(planner)
        assert "done" in said_last(planner)
        assert not evil.saw_a_secret


async def test_a_cards_address_in_a_registry_gets_no_credentials_by_itself(registry: Registry) -> None:
    async with Peer(is_open=True, registry=at(registry, "eve")) as peer, asker(registry=at(registry, "asker")) as agent:
        (card,) = await agent.discover_agents({"name": "bank"})
        await agent.peer(card).send_message("hello")
        await agent.peer("bank").send_message("hello")
        assert not peer.saw_a_secret


# -- sent --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:0", "http://127.0.0.1:0"])
async def test_a_server_that_the_configuration_names_gets_the_credentials_however_its_url_is_spelled(url: str) -> None:
    async with Peer(url=url) as peer:
        scheme, _, rest = peer.card.url.partition("://")
        spelled = f"{scheme.upper()}://{rest.replace('127.0.0.1', '127.1')}/"
        async with asker(trusted_peers=[spelled]) as agent:
            assert (await agent.call_agent(peer.card.url, Task.create("hello"))).state is TaskState.COMPLETED
            assert (await agent.call_agent(spelled, Task.create("hello"))).state is TaskState.COMPLETED


@pytest.mark.parametrize(
    "trusted", [{"trusted_peers": ["bank"]}, {"trust_registry": True}], ids=["a name", "the registry"]
)
async def test_a_trusted_registrys_peer_gets_the_credentials_by_name_and_by_url(
    registry: Registry, trusted: dict[str, Any]
) -> None:
    async with Peer(registry=at(registry, "bank")) as peer, asker(registry=at(registry, "asker"), **trusted) as agent:
        for target in ("bank", peer.card.url):
            assert (await agent.peer(target).send_message("hello")).text == peer.card.url
        (card,) = await agent.discover_agents({"name": "bank"})
        assert (await agent.peer(card).send_message("hello")).text == peer.card.url
        async for _ in agent.peer("bank").run_task_streaming(Task.create("hello")):
            pass


async def test_a_trusted_name_is_not_the_right_of_another_agent_in_the_registry(registry: Registry) -> None:
    async with (
        Peer("bank", registry=at(registry, "bank")) as bank,
        Peer("evil", is_open=True, registry=at(registry, "eve")) as evil,
        asker(registry=at(registry, "asker"), trusted_peers=["bank"]) as agent,
    ):
        with pytest.raises(AgentConflictError):
            await at(registry, "eve").register(AgentCard("bank", "d", evil.card.url))
        for target in ("evil", evil.card.url):
            await agent.peer(target).send_message("hello")
        assert (await agent.peer("bank").send_message("hello")).text == bank.card.url
        assert not evil.saw_a_secret


async def test_a_url_is_trusted_by_the_registry_only_while_it_is_registered(registry: Registry) -> None:
    async with asker(registry=at(registry, "asker"), trust_registry=True) as agent, Peer(is_open=True) as peer:
        owner = at(registry, "bank")
        await owner.register(peer.card)
        await agent.peer(peer.card.url).send_message("hello")
        assert peer.saw_a_secret
        peer.seen.clear()
        await owner.unregister(peer.card.url)
        await agent.peer(peer.card.url).send_message("hello")
        assert not peer.saw_a_secret


# -- the registry's own ------------------------------------------------------------------------------------------------------


async def test_the_registry_and_the_peers_get_their_own_credentials_and_no_others() -> None:
    seen: list[Mapping[str, str]] = []

    async def authenticate(method: str, metadata: Mapping[str, str]) -> Principal | None:
        seen.append(dict(metadata))
        return await REGISTRY_KEYS(method, metadata)

    async with (
        Registry(authenticator=authenticate) as registry,
        Peer(registry=at(registry, "bank")) as peer,
        asker(registry=at(registry, "asker"), trusted_peers=[peer.card.url]) as agent,
    ):
        await agent.peer("bank").send_message("hello")
    assert SECRET not in repr(seen)
    assert "k-asker" in repr(seen)
    assert "k-asker" not in repr(peer.seen)


@pytest.mark.parametrize("trusted", [{"trusted_peers": ["bank"]}, {"trust_registry": True}])
@pytest.mark.parametrize(
    ("registry", "why"),
    [
        ("grpc://registry.example:50051", "not reached over TLS"),
        (RegistryClient("grpc://registry.example:50051"), "not reached over TLS"),
        (Registry(), "does not authenticate"),
    ],
)
def test_a_registry_whose_answers_can_be_forged_is_not_trusted(
    registry: "str | RegistryClient | Registry", why: str, trusted: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgumentError, match=why) as caught:
        asker(registry=registry, **trusted)
    assert caught.value.field in trusted


def test_a_registry_over_tls_and_a_list_of_servers_are_trusted_as_they_are() -> None:
    asker(registry="grpcs://registry.example:50051", trust_registry=True)
    asker(registry="grpc://registry.example:50051", trusted_peers=["grpcs://bank.example:1"])


@pytest.mark.parametrize("peers", ["grpc://bank:1", ["ftp://bank"], ["runtime://bank"], ["grpc://bank"]])
def test_a_trusted_peer_that_is_no_url_is_refused(peers: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        asker(trusted_peers=peers)
    assert str(caught.value.field).startswith("trusted_peers")


# -- instances of one name ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("follows", [False, True], ids=["asks the registry", "follows the registry"])
async def test_a_conversation_goes_on_at_the_instance_where_it_began(registry: Registry, follows: bool) -> None:
    async with (
        Peer(is_open=True, registry=at(registry, "bank")) as first,
        Agent(name="asker", registry=at(registry, "asker"), grace_s=0.1) as agent,
    ):
        if follows:
            assert [card.name for card in await agent._peers.cards()] == ["asker", "bank"][1:]
        waiting = await agent.call_agent("bank", Task.create("ask"))
        async with Peer(is_open=True, registry=at(registry, "bank")) as second:
            assert (await at(registry, "eve").get("bank")).card.url == second.card.url
            done = await agent.call_agent("bank", waiting.add_message(Message.user("go on")))
            assert done.get_last_part_content() == first.card.url
        again = Task.create("hello")
        assert (await agent.call_agent("bank", again)).get_last_part_content() == first.card.url


async def test_instances_of_one_service_are_one_peer_to_a_model(registry: Registry) -> None:
    async with (
        Peer(is_open=True, registry=at(registry, "bank")),
        Peer(is_open=True, registry=at(registry, "bank")),
        Agent(name="asker", registry=at(registry, "asker"), grace_s=0.1) as agent,
    ):
        assert [card.name for card in await agent._peers.cards()] == ["bank"]
