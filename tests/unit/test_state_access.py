"""Access to an agent's state: sessions of other principals do not exist, and capabilities are checked first."""

import pytest

from protolink_grpc.errors import (
    ActionDeniedError,
    InvalidArgumentError,
    SessionNotFoundError,
    StoreError,
    UnimplementedError,
)
from protolink_grpc.models.conversation import HistoryCompactionRequest, LLMMessage
from protolink_grpc.models.state import StateOperationRequest
from protolink_grpc.state import ConversationMemory, InMemoryStorage, State, ToolMemory
from protolink_grpc.state.control import StateControl


class Gate:
    """Refuses the denied operations, allows all others, and records the calls."""

    def __init__(self, *denied: str) -> None:
        self.denied = denied
        self.asked: list[tuple[str, str, str]] = []

    async def __call__(self, operation: str, session_id: str, principal: str) -> None:
        self.asked.append((operation, session_id, principal))
        if operation in self.denied:
            raise ActionDeniedError(f"{operation} is denied")


async def summarize(messages: list[LLMMessage], max_tokens: int) -> str:
    return f"{len(messages)} messages in {max_tokens} tokens"


def conversation_of(state: State, principal: str = "ada") -> ConversationMemory:
    conversation = state.of(principal).conversation
    assert conversation is not None
    return conversation


def tools_of(state: State, principal: str = "ada") -> ToolMemory:
    tools = state.of(principal).tools
    assert tools is not None
    return tools


async def remembering(*sessions: str, storage: InMemoryStorage | None = None, principal: str = "ada") -> State:
    state = State(storage, ("conversation", "tools"))
    for session_id in sessions:
        for word in ("one", "two"):
            messages = [LLMMessage("user", f"{session_id} {word}"), LLMMessage("assistant", "yes")]
            await conversation_of(state, principal).remember(session_id, word, messages)
        await tools_of(state, principal).session(session_id).set("key", session_id)
    return state


async def remembering_two(*, mine: tuple[str, ...], theirs: tuple[str, ...]) -> State:
    """Sessions of two principals, ada and bob."""
    storage = InMemoryStorage()
    await remembering(*theirs, storage=storage, principal="bob")
    return await remembering(*mine, storage=storage)


def control(state: State, gate: Gate | None = None) -> StateControl:
    return StateControl(state, gate or Gate(), summarize=summarize)


def asked(session_id: str | None = None, *stores: str, include_data: bool = False) -> StateOperationRequest:
    return StateOperationRequest(session_id, stores, include_data)


# -- describing ----------------------------------------------------------------------------------------------------------


async def test_a_session_is_described_store_by_store() -> None:
    result = await control(await remembering("s")).describe(asked("s", include_data=True), "ada")
    conversation, tools = result.stores
    assert (result.operation, result.session_id) == ("describe", "s")
    assert (conversation.name, conversation.message_count) == ("conversation", 4)
    assert conversation.data[0]["content"] == "s one"
    assert (tools.name, tools.item_count, tools.data) == ("tools", 1, {"key": "s"})
    assert (result.missing, result.errors) == ((), ())


async def test_a_session_of_another_principal_looks_like_a_missing_one() -> None:
    state = await remembering("s")
    foreign, unknown = [
        (await control(state).describe(asked(name, include_data=True), "bob")).to_dict() | {"session_id": None}
        for name in ("s", "unknown")
    ]
    assert foreign == unknown
    assert [store["exists"] for store in foreign["stores"]] == [False, False]


async def test_two_principals_may_have_a_session_of_the_same_name() -> None:
    state = await remembering_two(mine=("s",), theirs=("s",))
    await control(state).reset(asked("s"), "bob")
    result = await control(state).describe(asked("s"), "ada")
    assert [(store.item_count, store.message_count) for store in result.stores] == [(4, 4), (1, 0)]


async def test_without_a_session_all_sessions_of_the_caller_are_described() -> None:
    state = await remembering_two(mine=("s", "a"), theirs=("b", "s"))
    result = await control(state).describe(asked(include_data=True), "ada")
    conversation, tools = result.stores
    assert sorted(conversation.data) == sorted(tools.data) == ["a", "s"]
    assert (conversation.item_count, conversation.message_count, tools.item_count) == (2, 8, 2)


async def test_stores_are_selected_by_name_and_disabled_ones_are_reported() -> None:
    only_tools = control(State(enabled=("tools",)))
    assert [store.name for store in (await only_tools.describe(asked("s", "tools", "tools"), "ada")).stores] == [
        "tools"
    ]
    assert [store.name for store in (await only_tools.describe(asked("s"), "ada")).stores] == ["tools"]
    both = await only_tools.describe(asked("s", "conversation", "tools"), "ada")
    assert [(store.name, store.enabled) for store in both.stores] == [("conversation", False), ("tools", True)]
    assert (both.missing, both.errors, both.stores[0].error) == (("conversation",), (), "state store is not enabled")


@pytest.mark.parametrize("operation", ["describe", "reset", "compact"])
async def test_a_store_that_does_not_exist_is_refused(operation: str) -> None:
    for name, said in (("flow", "Task.flow_state"), ("tool", "did you mean tools")):
        with pytest.raises(InvalidArgumentError, match=said) as caught:
            await getattr(control(await remembering("s")), operation)(asked("s", "conversation", name), "ada")
        assert caught.value.field == "stores"


async def test_a_denied_description_contains_no_session() -> None:
    gate = Gate("state.describe")
    denied = control(await remembering("s"), gate)
    for session_id in ("s", "unknown", None):
        with pytest.raises(ActionDeniedError):
            await denied.describe(asked(session_id), "ada")
    assert gate.asked == [("state.describe", each, "ada") for each in ("s", "unknown", "")]


# -- resetting -----------------------------------------------------------------------------------------------------------


async def test_a_reset_clears_all_stores_of_the_session() -> None:
    state = await remembering("s", "a")
    result = await control(state).reset(asked("s"), "ada")
    assert (result.cleared, result.missing, result.errors) == (("conversation", "tools"), (), ())
    assert result.stores[0].metadata["before"]["message_count"] == 4
    assert result.stores[0].metadata["after"]["message_count"] == 0
    again = await control(state).reset(asked("s"), "ada")
    assert (again.cleared, again.missing) == ((), ())
    assert (await control(state).describe(asked("a"), "ada")).missing == ()


async def test_a_reset_of_one_store_does_not_change_the_other() -> None:
    state = await remembering("s")
    assert (await control(state).reset(asked("s", "tools"), "ada")).cleared == ("tools",)
    assert (await control(state).describe(asked("s"), "ada")).missing == ()


async def test_a_reset_of_everything_clears_only_the_callers_sessions() -> None:
    state = await remembering_two(mine=("s", "a"), theirs=("b", "s"))
    assert (await control(state).reset(asked(), "ada")).cleared == ("conversation", "tools")
    assert await conversation_of(state).session_ids() == await tools_of(state).session_ids() == []
    assert await conversation_of(state, "bob").session_ids() == ["b", "s"]
    assert await tools_of(state, "bob").session_ids() == ["b", "s"]


@pytest.mark.parametrize("session_id", ["s", "unknown"])
@pytest.mark.parametrize("operation", ["reset", "compact"])
async def test_changing_a_session_of_another_principal_fails_with_not_found(operation: str, session_id: str) -> None:
    state, gate = await remembering("s"), Gate()
    with pytest.raises(SessionNotFoundError) as caught:
        await getattr(control(state, gate), operation)(asked(session_id), "bob")
    assert caught.value.metadata == {"session_id": session_id}
    assert gate.asked == []
    assert await conversation_of(state).session_ids() == ["s"]


async def test_a_session_with_tool_values_only_can_be_reset() -> None:
    state = State(enabled=("conversation", "tools"))
    await tools_of(state).session("s").set("key", 1)
    assert (await control(state).reset(asked("s"), "ada")).cleared == ("tools",)
    with pytest.raises(SessionNotFoundError):
        await control(state).compact(StateOperationRequest("s"), "ada")


async def test_a_denied_reset_changes_nothing() -> None:
    state, gate = await remembering("s"), Gate("state.reset")
    for session_id in ("s", None):
        with pytest.raises(ActionDeniedError):
            await control(state, gate).reset(asked(session_id), "ada")
    assert (await control(state).describe(asked("s"), "ada")).missing == ()


class Broken(InMemoryStorage):
    """A storage that fails to replace conversations."""

    async def replace_messages(self, session_id: str, expected_version: int, messages: object) -> bool:
        raise StoreError("the disk is gone")


async def test_a_failing_store_reports_its_error_and_the_others_are_reset() -> None:
    state = await remembering("s", storage=Broken())
    result = await control(state).reset(asked("s"), "ada")
    assert result.errors == ({"store": "conversation", "message": "the disk is gone"},)
    assert (result.cleared, result.missing) == (("tools",), ())


# -- compacting ----------------------------------------------------------------------------------------------------------


async def test_a_compaction_has_both_forms_of_results() -> None:
    state = await remembering("s", "a")
    request = StateOperationRequest("s", strategy="recent", max_messages=2)
    result = await control(state).compact(request, "ada")
    (report,) = result.stores
    assert (report.compacted, report.message_count, result.compacted) == (True, 2, ("conversation",))
    assert result.compaction is not None
    assert result.compaction.removed_messages == 2
    history = HistoryCompactionRequest("summary", preserve_recent=2, summary_max_tokens=77, session_id="a")
    done = await control(state).compact_history(history, "ada")
    assert (done.strategy, done.summary_created, done.after_messages) == ("summary", True, 3)
    assert "2 messages in 77 tokens" in (await conversation_of(state).history("a"))[0].content


@pytest.mark.parametrize("denied", ["state.compact", "llm.history.compact"])
async def test_either_capability_can_be_denied_for_both_forms_of_requests(denied: str) -> None:
    state = await remembering("s")
    with pytest.raises(ActionDeniedError):
        await control(state, Gate(denied)).compact(StateOperationRequest("s", strategy="recent", max_messages=2), "ada")
    with pytest.raises(ActionDeniedError):
        await control(state, Gate(denied)).compact_history(
            HistoryCompactionRequest(max_messages=2, session_id="s"), "ada"
        )
    assert len(await conversation_of(state).history("s")) == 4


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (StateOperationRequest(), "session_id"),
        (StateOperationRequest("s", ("tools",)), "stores"),
        (StateOperationRequest("s", max_messages=1), "max_messages"),
        (StateOperationRequest("s", strategy="tokens", max_tokens=0), "max_tokens"),
    ],
)
async def test_an_invalid_compaction_is_refused(request_: StateOperationRequest, field: str) -> None:
    gate = Gate()
    with pytest.raises(InvalidArgumentError) as caught:
        await control(await remembering("s"), gate).compact(request_, "ada")
    assert caught.value.field == field
    assert gate.asked == []


async def test_a_summary_without_a_model_is_refused() -> None:
    plain = StateControl(await remembering("s"), Gate())
    with pytest.raises(InvalidArgumentError, match="language model"):
        await plain.compact(StateOperationRequest("s", strategy="summary"), "ada")


async def test_an_agent_without_conversations_refuses_compactions() -> None:
    with pytest.raises(UnimplementedError):
        await control(State(enabled=("tools",))).compact(StateOperationRequest("s"), "ada")
