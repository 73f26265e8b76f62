"""Values of tools: by key, limited, for each session."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.state import InMemoryStorage, SessionMemory, ToolMemory
from protolink_grpc.state import tool_memory as module
from protolink_grpc.state.tool_memory import BOUNDS, MAX_KEY_BYTES
from protolink_grpc.storage.agent_storage import ItemBounds


@pytest.fixture
def tools() -> ToolMemory:
    storage = InMemoryStorage()
    return ToolMemory(lambda: storage)


@pytest.fixture
def memory(tools: ToolMemory) -> SessionMemory:
    return tools.session("s")


async def test_a_value_is_stored_for_its_session_only(tools: ToolMemory, memory: SessionMemory) -> None:
    await memory.set("city", {"name": "Łódź"})
    assert await tools.session("s").get("city") == {"name": "Łódź"}
    assert await tools.session("r").get("city") is None
    assert await tools.session("r").get("city", "nowhere") == "nowhere"


async def test_the_last_write_wins(memory: SessionMemory) -> None:
    await memory.set("b", 1)
    await memory.set("a", None)
    await memory.set("b", 2)
    assert await memory.all() == {"a": None, "b": 2}
    assert await memory.get("a", "default") is None


async def test_a_deleted_key_is_gone(memory: SessionMemory) -> None:
    await memory.set("a", 1)
    assert await memory.delete("a")
    assert not await memory.delete("a")
    assert await memory.all() == {}


async def test_values_are_copies(memory: SessionMemory) -> None:
    value = {"list": [1]}
    await memory.set("a", value)
    value["list"].append(2)
    (await memory.get("a"))["list"].append(3)
    assert await memory.get("a") == {"list": [1]}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_json_value_is_preserved(value: Any) -> None:
    async def work() -> None:
        storage = InMemoryStorage()
        memory = SessionMemory(lambda: storage, "s")
        await memory.set("key", value)
        assert await memory.get("key") == value

    asyncio.run(work())


@pytest.mark.parametrize("key", ["", "x" * (MAX_KEY_BYTES + 1), "é" * 129, "half \ud800"])
async def test_an_invalid_key_is_refused(memory: SessionMemory, key: str) -> None:
    for use in (memory.get(key), memory.set(key, 1), memory.delete(key)):
        with pytest.raises(InvalidArgumentError) as caught:
            await use
        assert caught.value.field == "key"


async def test_the_longest_key_is_allowed(memory: SessionMemory) -> None:
    await memory.set("é" * 128, 1)


async def test_keys_and_bytes_of_a_session_are_limited(memory: SessionMemory) -> None:
    with pytest.raises(MessageTooLargeError):
        await memory.set("a", "x" * BOUNDS.max_bytes)
    for index in range(BOUNDS.max_items):
        await memory.set(str(index), index)
    with pytest.raises(MessageTooLargeError):
        await memory.set("one more", 1)
    await memory.set("0", "another")
    assert len(await memory.all()) == BOUNDS.max_items


async def test_a_value_without_a_json_form_is_refused(memory: SessionMemory) -> None:
    with pytest.raises(TypeError):
        await memory.set("a", object())
    assert await memory.all() == {}


async def test_sessions_are_described_and_reset(tools: ToolMemory) -> None:
    for session_id in ("a", "b"):
        await tools.session(session_id).set("key", session_id)
    report = await tools.describe("a", True)
    assert (report.name, report.exists, report.item_count, report.data) == ("tools", True, 1, {"key": "a"})
    assert (await tools.describe(None, True)).data == {"a": {"key": "a"}, "b": {"key": "b"}}
    done = await tools.reset("a")
    assert (done.cleared, done.exists, done.metadata["before"]["item_count"]) == (True, False, 1)
    assert not await tools.knows("a")
    assert await tools.session_ids() == ["b"]
    assert (await tools.reset("b")).cleared
    assert not (await tools.reset()).cleared


async def test_too_large_content_leaves_sessions_out(tools: ToolMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    for session_id in ("a", "b"):
        await tools.session(session_id).set("key", "x" * 50)
    monkeypatch.setattr(module, "BOUNDS", ItemBounds(10, 80))
    report = await tools.describe(None, True)
    assert list(report.data) == ["a"]
    assert report.metadata == {"truncated": True}
