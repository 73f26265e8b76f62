"""State: modules, principals and storages."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError, StoreError
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.state import ConversationMemory, InMemoryStorage, SQLiteStorage, State


def conversation(state: State, principal: str = "ada") -> ConversationMemory:
    found = state.of(principal).conversation
    assert found is not None
    return found


async def spoken(state: State, principal: str = "ada") -> list[str]:
    return [message.content for message in await conversation(state, principal).history("s")]


async def speak(state: State, word: str) -> None:
    await conversation(state).remember("s", word, [LLMMessage("user", word)])


def test_only_conversation_is_enabled_by_default() -> None:
    assert State().of("ada").conversation is not None
    assert State().of("ada").tools is None


@pytest.mark.parametrize("enabled", ["tools", ("tools",), ["tools", "tools"]])
def test_modules_are_enabled_by_name(enabled: str | list[str]) -> None:
    state = State(enabled=enabled)
    assert state.of("ada").tools is not None
    assert state.of("ada").conversation is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("task", "a task's state is its log"),
        ("flow", "Task.flow_state"),
        ("conversations", "did you mean conversation?"),
        ("", "is not one of conversation, tools"),
    ],
)
def test_other_modules_are_refused_by_name(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        State(enabled=["conversation", name])
    assert isinstance(caught.value, InvalidArgumentError)
    assert caught.value.field == "enabled"


async def test_agents_with_the_same_name_share_no_state_by_default() -> None:
    first, second = State().bind("twin"), State(InMemoryStorage()).bind("twin")
    await speak(first, "one")
    assert await spoken(second) == []


async def test_agents_with_different_names_may_share_a_storage_without_sharing_state(tmp_path: Path) -> None:
    for storage in (InMemoryStorage(), SQLiteStorage(tmp_path / "state.db")):
        first, second = State(storage).bind("one"), State(storage).bind("two")
        await speak(first, "hello")
        assert await spoken(second) == []
        assert await spoken(State(storage).bind("one")) == ["hello"]
        await storage.close()


async def test_replicas_of_one_agent_share_their_state_in_one_file(tmp_path: Path) -> None:
    first = State(SQLiteStorage(tmp_path / "state.db")).bind("agent")
    second = State(SQLiteStorage(tmp_path / "state.db")).bind("agent")
    await speak(first, "one")
    await speak(second, "two")
    assert await spoken(first) == ["one", "two"]
    await first.close()
    await second.close()


async def test_a_given_namespace_is_kept() -> None:
    first = State(InMemoryStorage("test_a_namespace")).bind("one")
    second = State(InMemoryStorage("test_a_namespace")).bind("two")
    await speak(first, "hello")
    assert await spoken(second) == ["hello"]
    assert await spoken(State(InMemoryStorage("test_another_namespace"))) == []


async def test_every_module_uses_a_replaced_storage() -> None:
    state = State(enabled=("conversation", "tools")).bind("agent")
    tools = state.of("ada").tools
    assert tools is not None
    memory = tools.session("s")
    await speak(state, "one")
    await memory.set("key", 1)
    old, state.storage = state.storage, InMemoryStorage()
    assert await spoken(state) == []
    assert await memory.all() == {}
    assert state.storage.namespace == "agent"
    state.storage = old
    assert await spoken(state) == ["one"]
    assert await memory.all() == {"key": 1}


def test_a_window_of_zero_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="window"):
        State(window=0)


async def test_principals_with_the_same_session_id_share_no_state(tmp_path: Path) -> None:
    for storage in (InMemoryStorage(), SQLiteStorage(tmp_path / "state.db")):
        state = State(storage).bind("agent")
        await speak(state, "hello")
        assert await spoken(state) == ["hello"]
        assert await spoken(state, "bob") == []
        await storage.close()


@given(
    pairs=st.lists(st.tuples(st.text(":0123ab", max_size=6), st.text(":0123ab", min_size=1, max_size=6)), unique=True)
)
def test_different_namespaces_and_principals_never_share_state(pairs: list[tuple[str, str]]) -> None:
    storage = InMemoryStorage()
    places = {storage.within(namespace).of(principal).namespace for namespace, principal in pairs}
    assert len(places) == len(pairs)


@pytest.mark.parametrize("principal", ["", "half \ud800"])
async def test_state_without_a_principal_is_refused(principal: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await conversation(State(), principal).history("s")
    assert caught.value.field == "principal"


def test_a_state_belongs_to_one_agent() -> None:
    state = State().bind("one")
    assert state.bind("one") is state
    with pytest.raises(InvalidArgumentError, match="belongs to the agent one"):
        state.bind("two")


async def test_a_broken_storage_fails_when_it_is_opened(tmp_path: Path) -> None:
    state = State(SQLiteStorage(tmp_path / "missing" / "state.db")).bind("agent")
    with pytest.raises(StoreError):
        await state.open()
    await state.close()
