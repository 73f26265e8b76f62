"""Describes, resets and compacts an agent's state, with access control.

A session belongs to a principal. For anyone else it does not exist: it is described as empty, and changing it fails with not found.
"""

from collections.abc import Awaitable, Callable, Sequence

from protolink_grpc.errors import (
    InvalidArgumentError,
    SessionNotFoundError,
    StoreError,
    UnimplementedError,
    UnsupportedOperationError,
)
from protolink_grpc.models.conversation import HistoryCompactionRequest, HistoryCompactionResult, LLMMessage
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.state import NOT_ENABLED, StateOperationRequest, StateOperationResult, StateStoreReport
from protolink_grpc.state.conversation import ConversationMemory, estimated_tokens
from protolink_grpc.state.state import MODULES, PrincipalState, State, check_module
from protolink_grpc.state.tool_memory import ToolMemory
from protolink_grpc.wire.tasks import check_id

Authorize = Callable[[str, str, str], Awaitable[None]]
"""Called with the operation (`state.describe`, `state.reset`, `state.compact`, `llm.history.compact`), the session or "", and the
principal. Raises ActionDeniedError to refuse."""

Summarize = Callable[[list[LLMMessage], int], Awaitable[str]]
"""Summarizes messages in at most that many tokens."""

FindConversation = Callable[[str, str, ConversationMemory], Awaitable[str]]
"""Returns the id of the current conversation of a session, by the principal, the session and the principal's conversations."""

Module = ConversationMemory | ToolMemory


class StateControl:
    """The control operations on one agent's state.

    Args:
        authorize: Called after the session's owner has been checked, and before anything is returned or changed.
        find_conversation: None means that the conversation of a session has the session's id.
        summarize: Required for the compaction strategy `summary`.
        count: Counts the tokens of a text.
    """

    def __init__(
        self,
        state: State,
        authorize: Authorize,
        *,
        find_conversation: FindConversation | None = None,
        summarize: Summarize | None = None,
        count: Callable[[str], int] = estimated_tokens,
    ) -> None:
        self._state = state
        self._authorize = authorize
        self._find_conversation = find_conversation
        self._summarize = summarize
        self._count = count

    async def describe(self, request: StateOperationRequest, principal: str) -> StateOperationResult:
        """Describe a session with its threads, or all sessions of the caller.

        Raises:
            InvalidArgumentError: A store does not exist, or the session id is invalid.
            ActionDeniedError: `authorize` refused.
        """
        stores, session_id = self._stores(request), _session_id(request)
        await self._authorize("state.describe", session_id or "", principal)
        own = self._state.of(principal)

        async def describe(module: Module) -> StateStoreReport:
            return await module.describe(session_id, request.include_data)

        reports = [await _run(own, store, describe) for store in stores]
        return StateOperationResult("describe", session_id, tuple(reports))

    async def reset(self, request: StateOperationRequest, principal: str) -> StateOperationResult:
        """Reset a session with its threads, or all sessions of the caller.

        A failing store has the error in its report; the others are reset.

        Raises:
            InvalidArgumentError: A store does not exist, or the session id is invalid.
            SessionNotFoundError: The caller has no such session.
            ActionDeniedError: `authorize` refused.
            StoreError: Reading the session failed.
        """
        stores, session_id = self._stores(request), _session_id(request)
        own = self._state.of(principal)
        if session_id is not None:
            await _check_session(session_id, own.conversation, own.tools)
        await self._authorize("state.reset", session_id or "", principal)

        async def reset(module: Module) -> StateStoreReport:
            return await module.reset(session_id)

        reports = [await _run(own, store, reset) for store in stores]
        return StateOperationResult("reset", session_id, tuple(reports))

    async def check_delete(self, session_id: str, principal: str) -> None:
        """Check that the state of a session may be deleted. Raises ActionDeniedError if `authorize` refuses."""
        await self._authorize("state.reset", session_id, principal)

    async def delete(self, session_id: str, principal: str) -> dict[str, int]:
        """Delete the state of a session and of its threads, and return the number of messages and items by store.

        Raises:
            StoreError: A store failed; the others may be deleted. The call can be repeated.
        """
        own, found = self._state.of(principal), dict[str, int]()
        if own.conversation is not None:
            found[own.conversation.name] = await own.conversation.delete(session_id)
        if own.tools is not None:
            found[own.tools.name] = (await own.tools.describe(session_id)).item_count
            await own.tools.reset(session_id)
        return found

    async def compact(self, request: StateOperationRequest, principal: str) -> StateOperationResult:
        """Compact the conversation of a session, without those of its threads.

        Both capabilities are checked (`state.compact` and `llm.history.compact`), because the conversation is also the model's
        history.

        Raises:
            InvalidArgumentError: The session is missing, a store cannot be compacted, or the limits are invalid.
            SessionNotFoundError: The caller has no such session.
            ActionDeniedError: `authorize` refused.
            UnimplementedError: The agent stores no conversations.
        """
        if any(check_module(store, "stores") != ConversationMemory.name for store in request.stores):
            raise InvalidArgumentError("only conversation can be compacted", field="stores")
        compaction, session_id = request.compaction, _session_id(request)
        if session_id is None:
            raise InvalidArgumentError("is required", field="session_id")
        conversation = self._state.of(principal).conversation
        if conversation is None:
            raise UnimplementedError("this agent has no conversations: 'conversation' is not in its state")
        await _check_session(session_id, conversation)
        for operation in ("state.compact", "llm.history.compact"):
            await self._authorize(operation, session_id, principal)
        before = await conversation.describe(session_id)
        find = self._find_conversation
        current = session_id if find is None else await find(principal, session_id, conversation)
        result = await conversation.compact(current, compaction, self._summarizer(compaction), count=self._count)
        report = await conversation.describe(session_id)
        return StateOperationResult("compact", session_id, (report.compacted_since(before, result),))

    async def compact_history(self, request: HistoryCompactionRequest, principal: str) -> HistoryCompactionResult:
        """As `compact`, with the result in the form for histories."""
        result = await self.compact(StateOperationRequest.of_compaction(request), principal)
        if result.compaction is None:
            raise AssertionError("compact returned no result of the compaction")
        return result.compaction

    def _stores(self, request: StateOperationRequest) -> Sequence[str]:
        """The requested stores without duplicates, or all stores of the agent."""
        own = [name for name in MODULES if name in self._state.enabled]
        return list(dict.fromkeys(check_module(name, "stores") for name in request.stores or own))

    def _summarizer(self, compaction: HistoryCompactionRequest) -> Callable[[list[LLMMessage]], Awaitable[str]] | None:
        summarize = self._summarize
        if summarize is None:
            return None
        return lambda messages: summarize(messages, compaction.summary_max_tokens)


def require_state(control: StateControl | None) -> StateControl:
    """Return the control of an agent's state.

    Raises:
        UnimplementedError: The agent has no state.
    """
    if control is None:
        raise UnimplementedError("this agent has no state: set storage or state")
    return control


def _session_id(request: StateOperationRequest) -> str | None:
    # A line break would address the conversation of a thread.
    return check_id(request.session_id, "session_id") if request.session_id else None


async def _check_session(session_id: str, *modules: Module | None) -> None:
    for module in modules:
        if module is not None and await module.knows(session_id):
            return
    raise SessionNotFoundError(f"session {session_id} not found", session_id=session_id)


async def _run(
    own: PrincipalState, name: str, work: Callable[[Module], Awaitable[StateStoreReport]]
) -> StateStoreReport:
    module = own.conversation if name == ConversationMemory.name else own.tools
    if module is None:
        failure = Failure.of(UnsupportedOperationError.reason, NOT_ENABLED)
        return StateStoreReport(name, enabled=False, error=NOT_ENABLED, failure=failure)
    try:
        return await work(module)
    except StoreError as error:
        return StateStoreReport(name, error=str(error), failure=Failure.from_error(error))
