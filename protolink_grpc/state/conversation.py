"""The conversations of an agent by session. A turn reads the conversation when it starts and is added when it has succeeded."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from protolink_grpc.errors import InvalidArgumentError, ModelError, SequenceConflictError
from protolink_grpc.models.conversation import (
    SUMMARY_KEY,
    HistoryCompactionRequest,
    HistoryCompactionResult,
    LLMMessage,
    SummarySplit,
    compact_recent,
    compact_tokens,
    split_for_summary,
)
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.session import split_conversation_id
from protolink_grpc.models.state import StateStoreReport
from protolink_grpc.storage.agent_storage import Conversation, Storage

OMITTED_KEY = "omitted_bytes"
"""Key in a message of a report for the size in bytes of a message that is too large."""

Summarize = Callable[[list[LLMMessage]], Awaitable[str]]

ATTEMPTS = 100
"""How often a change of a whole conversation is attempted while other writers add to it."""

DATA_MESSAGES, DATA_BYTES = 1000, (1 << 20) - 4096
"""Limits of the content in a report: messages of one session, and bytes of the JSON of all messages. With names and separators, the
content fits into a response, which has at most 1 MiB of it (see `wire.state`)."""


def estimated_tokens(text: str) -> int:
    """Estimate tokens: about four characters each. Source: OpenAI's rule of thumb for English text."""
    return -(-len(text) // 4)


@dataclass(frozen=True, slots=True)
class _Summary:
    """A summary of the first messages of a conversation."""

    split: SummarySplit
    text: str

    def applied_to(self, messages: Sequence[LLMMessage]) -> list[LLMMessage] | None:
        """Replace the summarized messages by the summary. Returns None if the conversation no longer begins with them."""
        length = len(self.split.head) + len(self.split.older)
        stored = [message.id for message in (*self.split.head, *self.split.older)]
        if [message.id for message in messages[:length]] != stored:
            return None
        return SummarySplit(self.split.head, self.split.older, list(messages[length:])).joined(self.text)


def check_window(window: int | None) -> int | None:
    """Return the window if it is valid.

    Raises:
        InvalidArgumentError: It is smaller than 1.
    """
    if window is not None and window < 1:
        raise InvalidArgumentError("must be at least 1", field="window")
    return window


class ConversationMemory:
    """The conversations of one principal. Tasks on any event loop and in any process may use a session concurrently.

    Args:
        storage: Returns the storage; called at each use.
        window: Maximum number of messages that a turn reads, in whole turns; None means all. Older ones stay stored.
    """

    name = "conversation"

    def __init__(self, storage: Callable[[], Storage], window: int | None = None) -> None:
        self._storage = storage
        self.window = check_window(window)

    async def history(self, session_id: str, *, limit: int | None = None) -> list[LLMMessage]:
        """Return the messages of a session, oldest first: those of the window, or of `limit` if it is given."""
        return (await self._storage().load_messages(session_id, self.window if limit is None else limit)).messages

    async def read(self, session_id: str) -> Conversation:
        """Return the messages of the window, oldest first, and the number of all messages of the session."""
        return await self._storage().load_messages(session_id, self.window)

    async def remember(self, session_id: str, turn_id: str, messages: Sequence[LLMMessage]) -> bool:
        """Add a successful turn atomically. It is stored when this returns.

        Returns:
            Whether it was added. A turn that the session already has is not added again, so repeating after a crash is safe.
        """
        return await self._storage().append_messages(session_id, turn_id, messages)

    async def exists(self, session_id: str) -> bool:
        """Whether there is a conversation with this id; it may be empty."""
        return (await self._storage().load_messages(session_id, 1)).version > 0

    async def branch(self, source_id: str, session_id: str, leaves_out: Callable[[str], bool]) -> bool:
        """Create a conversation as a copy of another one without some turns, atomically. An existing one is not changed.

        Args:
            leaves_out: Returns whether the turn with an id is left out: the ids that were given to `remember`. It may be called in
                another thread, and more than once.

        Returns:
            Whether the conversation was created. Repeating after a crash is safe.

        Raises:
            UnsupportedOperationError: A turn to leave out was compacted. Nothing has changed.
            UnimplementedError: The storage has no branches.
        """
        return await self._storage().branch_messages(source_id, session_id, leaves_out)

    async def session_ids(self) -> list[str]:
        """Return the ids of the sessions with messages, also of those that have messages only in threads."""
        found = await self._storage().sessions()
        return list(dict.fromkeys(split_conversation_id(each)[0] for each in found))

    async def knows(self, session_id: str) -> bool:
        """Whether the session, or one of its threads, has a conversation. One that was reset exists and is empty."""
        return bool(await self._storage().conversations(session_id))

    async def describe(self, session_id: str | None = None, include_data: bool = False) -> StateStoreReport:
        """Describe a session with its threads, or all sessions.

        The content is the session's messages, or the messages of each session by its id. Those of a thread have its id as
        `thread_id`, and follow those of the session; `metadata["threads"]` has their number by thread. If the content exceeds the
        limits, it contains the latest messages of the first conversations, and `metadata["truncated"]` is set. A message that is
        larger than the limit has its size as `omitted_bytes` in place of its content.
        """
        counts = await self._counts(session_id)
        messages = sum(counts.values())
        sessions = {split_conversation_id(each)[0] for each in counts}
        items = len(sessions) if session_id is None else messages
        report = StateStoreReport(self.name, exists=bool(counts), item_count=items, message_count=messages)
        if session_id is not None:
            report.metadata["session_scoped"] = True
            if set(counts) - {session_id}:
                report.metadata["threads"] = _counts_by_thread(counts)
        if include_data:
            contents = await self._contents(counts)
            report.data = contents if session_id is None else contents.get(session_id)
            shown = [each for messages in contents.values() for each in messages]
            if len(shown) < report.message_count or any(OMITTED_KEY in each for each in shown):
                report.metadata["truncated"] = True
        return report

    async def _counts(self, session_id: str | None) -> dict[str, int]:
        """Return the message counts of the conversations with messages, of a session or of all, by id."""
        if session_id is None:
            return await self._storage().sessions()
        return {each: count for each, count in (await self._storage().conversations(session_id)).items() if count}

    async def _contents(self, counts: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
        contents: dict[str, list[dict[str, Any]]] = {}
        room = DATA_BYTES
        for each in counts:
            if room <= 0:
                break
            session_id, thread_id = split_conversation_id(each)
            thread = {} if each == session_id else {"thread_id": thread_id}
            latest: list[dict[str, Any]] = []
            for message in reversed((await self._storage().load_messages(each, DATA_MESSAGES)).messages):
                data = message.to_dict() | thread
                size = len(to_json(data).encode())
                if size > DATA_BYTES:
                    data = {"role": message.role, "content": "", OMITTED_KEY: size} | thread
                    size = len(to_json(data).encode())
                room -= size + 2
                if room < 0:
                    break
                latest.append(data)
            contents.setdefault(session_id, []).extend(latest[::-1])
        return contents

    async def reset(self, session_id: str | None = None) -> StateStoreReport:
        """Delete the messages of a session with its threads, or of all. A turn that ends later is added."""
        before = await self.describe(session_id)
        for each in await self._counts(session_id):
            await self._empty(each)
        return (await self.describe(session_id)).cleared_since(before)

    async def delete(self, session_id: str) -> int:
        """Delete the conversations of a session and of its threads. Nothing of them stays known, not even the ids of turns.

        Returns:
            The number of deleted messages.
        """
        found = await self._storage().conversations(session_id)
        for each in found:
            await self._storage().delete_session(each)
        return sum(found.values())

    async def _empty(self, session_id: str) -> None:
        for _ in range(ATTEMPTS):
            stored = await self._storage().load_messages(session_id, 1)
            if not stored.message_count or await self._storage().replace_messages(session_id, stored.version, ()):
                return
        raise _conflict_error(session_id)

    async def compact(
        self,
        session_id: str,
        request: HistoryCompactionRequest,
        summarize: Summarize | None = None,
        *,
        count: Callable[[str], int] = estimated_tokens,
    ) -> HistoryCompactionResult:
        """Compact a conversation, without those of the session's threads. Turns that end meanwhile are neither lost nor summarized.

        Args:
            summarize: Summarizes messages, for the strategy `summary`. It is not called again if other writers only added turns.
            count: Counts the tokens of a text.

        Raises:
            InvalidArgumentError: The strategy is `summary` and `summarize` is None.
            ModelError: From `summarize`, or the summary is empty. Nothing has changed.
            SequenceConflictError: Other writers kept changing the conversation. Nothing has changed.
        """
        if request.strategy == "summary" and summarize is None:
            raise InvalidArgumentError("summary requires a language model, and this agent has none", field="strategy")
        summary: _Summary | None = None
        for _ in range(ATTEMPTS):
            stored = await self._storage().load_messages(session_id)
            if request.strategy == "summary" and summarize is not None:
                after = None if summary is None else summary.applied_to(stored.messages)
                if after is None:
                    summary = await _summarize(stored.messages, request, summarize)
                    if summary is not None:
                        continue  # it takes long, so the conversation may have changed
                    after = stored.messages
            else:
                after = _shorten(stored.messages, request, count)
            text = "" if summary is None else summary.text
            result = HistoryCompactionResult.of(request.strategy, stored.messages, after, count, text)
            if not result.changed or await self._storage().replace_messages(session_id, stored.version, after):
                return result
        raise _conflict_error(session_id)


def _counts_by_thread(counts: dict[str, int]) -> dict[str, int]:
    by_thread: dict[str, int] = {}
    for each, count in counts.items():
        thread_id = split_conversation_id(each)[1]
        by_thread[thread_id] = by_thread.get(thread_id, 0) + count
    return by_thread


async def _summarize(
    messages: list[LLMMessage], request: HistoryCompactionRequest, summarize: Summarize
) -> _Summary | None:
    """Summarize all but the latest messages. Returns None if there is only an earlier summary."""
    split = split_for_summary(messages, request.preserve_recent)
    if all(SUMMARY_KEY in message.metadata for message in split.older):
        return None
    text = await summarize(split.older)
    if not text.strip():
        raise ModelError("the model returned an empty summary")
    return _Summary(split, text)


def _shorten(
    messages: list[LLMMessage], request: HistoryCompactionRequest, count: Callable[[str], int]
) -> list[LLMMessage]:
    if request.strategy == "tokens":
        return compact_tokens(messages, request.max_tokens, count)
    return compact_recent(messages, request.max_messages)


def _conflict_error(session_id: str) -> SequenceConflictError:
    return SequenceConflictError("other writers keep changing the conversation; try again later", session_id=session_id)
