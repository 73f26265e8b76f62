"""Who may look at an agent's memory, make it smaller, or make it forget. What that means for a store is the module's business.

A session belongs to a principal, because its memory does. To anyone else it does not exist: it is described as empty, and cannot be
found to change it.
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

Authorize = Callable[[str, str, str], Awaitable[None]]
"""Operation (`state.describe`, `state.reset`, `state.compact`, `llm.history.compact`), session or "", principal; raises
ActionDeniedError."""

Summarize = Callable[[list[LLMMessage], int], Awaitable[str]]
"""Puts messages into words, in at most so many tokens."""

Module = ConversationMemory | ToolMemory


class StateControl:
    """The control plane of one agent's memory.

    Args:
        authorize: Asked after it is clear that the session is the caller's, and before anything is shown or changed.
        summarize: Needed for the compaction strategy `summary`.
        count: Tokens of a text.
    """

    def __init__(
        self,
        state: State,
        authorize: Authorize,
        *,
        summarize: Summarize | None = None,
        count: Callable[[str], int] = estimated_tokens,
    ) -> None:
        self._state = state
        self._authorize = authorize
        self._summarize = summarize
        self._count = count

    async def describe(self, request: StateOperationRequest, principal: str) -> StateOperationResult:
        """What is remembered of a session, or of all sessions of the caller.

        Raises:
            InvalidArgumentError: A store that does not exist.
            ActionDeniedError: As `authorize` says.
        """
        stores, session_id = self._stores(request), request.session_id or None
        await self._authorize("state.describe", session_id or "", principal)
        own = self._state.of(principal)

        async def describe(module: Module) -> StateStoreReport:
            return await module.describe(session_id, request.include_data)

        reports = [await _each(own, store, describe) for store in stores]
        return StateOperationResult("describe", session_id, tuple(reports))

    async def reset(self, request: StateOperationRequest, principal: str) -> StateOperationResult:
        """Forget a session, or all sessions of the caller. A store that fails says so in its report; the others go on.

        Raises:
            InvalidArgumentError: A store that does not exist.
            SessionNotFoundError: Nothing is known of the session, or it is not the caller's.
            ActionDeniedError: As `authorize` says.
            StoreError: Whether there is such a session cannot be read.
        """
        stores, session_id = self._stores(request), request.session_id or None
        own = self._state.of(principal)
        if session_id is not None:
            await _check_known(session_id, own.conversation, own.tools)
        await self._authorize("state.reset", session_id or "", principal)

        async def reset(module: Module) -> StateStoreReport:
            return await module.reset(session_id)

        reports = [await _each(own, store, reset) for store in stores]
        return StateOperationResult("reset", session_id, tuple(reports))

    async def compact(self, request: StateOperationRequest, principal: str) -> StateOperationResult:
        """Make the conversation of a session smaller.

        It is the history of the agent's language model too, so both capabilities are asked for, whichever way the request came.

        Raises:
            InvalidArgumentError: No session, a store that cannot be compacted, or bounds that make no sense.
            SessionNotFoundError: Nothing is known of the session, or it is not the caller's.
            ActionDeniedError: As `authorize` says.
            UnimplementedError: The agent keeps no conversations.
        """
        if any(check_module(store, "stores") != ConversationMemory.name for store in request.stores):
            raise InvalidArgumentError("only conversation can be compacted", field="stores")
        if not request.session_id:
            raise InvalidArgumentError("name the session to compact", field="session_id")
        compaction, session_id = request.compaction, request.session_id
        conversation = self._state.of(principal).conversation
        if conversation is None:
            raise UnimplementedError("this agent keeps no conversations: 'conversation' is not in its state")
        await _check_known(session_id, conversation)
        for operation in ("state.compact", "llm.history.compact"):
            await self._authorize(operation, session_id, principal)
        before = await conversation.describe(session_id)
        done = await conversation.compact(session_id, compaction, self._summary(compaction), count=self._count)
        report = await conversation.describe(session_id)
        return StateOperationResult("compact", session_id, (report.compacted_since(before, done),))

    async def compact_history(self, request: HistoryCompactionRequest, principal: str) -> HistoryCompactionResult:
        """`compact`, told as what became of the history."""
        done = await self.compact(StateOperationRequest.of_compaction(request), principal)
        if done.compaction is None:
            raise AssertionError("a compaction reports what it did")
        return done.compaction

    def _stores(self, request: StateOperationRequest) -> Sequence[str]:
        """The stores that are meant, each once: those that are named, or those that the agent has."""
        own = [name for name in MODULES if name in self._state.enabled]
        return list(dict.fromkeys(check_module(name, "stores") for name in request.stores or own))

    def _summary(self, compaction: HistoryCompactionRequest) -> Callable[[list[LLMMessage]], Awaitable[str]] | None:
        summarize = self._summarize
        if summarize is None:
            return None
        return lambda messages: summarize(messages, compaction.summary_max_tokens)


def kept(control: StateControl | None) -> StateControl:
    """The control of an agent's state.

    Raises:
        UnimplementedError: It remembers nothing.
    """
    if control is None:
        raise UnimplementedError("this agent keeps no state: it was given neither storage nor state")
    return control


async def _check_known(session_id: str, *modules: Module | None) -> None:
    for module in modules:
        if module is not None and await module.knows(session_id):
            return
    raise SessionNotFoundError(f"nothing is remembered of session {session_id}", session_id=session_id)


async def _each(
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
