"""The conversations of an agent, session by session: what a turn reads before it begins and adds when it has succeeded."""

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
from protolink_grpc.models.state import StateStoreReport
from protolink_grpc.storage.agent_storage import Storage

Summarize = Callable[[list[LLMMessage]], Awaitable[str]]

ATTEMPTS = 100
"""How often a change of a whole conversation is tried while others add to it; each failure is somebody else's success."""

DATA_MESSAGES, DATA_BYTES = 1000, 1 << 20
"""Bounds of the content in a report: messages of one session, and bytes of JSON in all. Callers receive 4 MiB by default."""


def estimated_tokens(text: str) -> int:
    """About four characters are a token. Source: the rule of thumb that OpenAI gives for English text."""
    return -(-len(text) // 4)


@dataclass(frozen=True, slots=True)
class _Summary:
    """A summary of the first messages of a conversation."""

    split: SummarySplit
    text: str

    def applied_to(self, messages: Sequence[LLMMessage]) -> list[LLMMessage] | None:
        """The conversation with the summary in it; None where it no longer begins with what was summarised."""
        begun = len(self.split.head) + len(self.split.older)
        known = [message.id for message in (*self.split.head, *self.split.older)]
        if [message.id for message in messages[:begun]] != known:
            return None
        return SummarySplit(self.split.head, self.split.older, list(messages[begun:])).joined(self.text)


def check_window(window: int | None) -> int | None:
    """The window itself.

    Raises:
        InvalidArgumentError: It would show nothing.
    """
    if window is not None and window < 1:
        raise InvalidArgumentError("must be at least 1", field="window")
    return window


class ConversationMemory:
    """What was said in each session of one principal. Any number of tasks, on any loop and in any process, may use one session at
    a time.

    Args:
        storage: Says where it lies, asked at each use.
        window: How many messages a turn gets to see, latest whole turns; None means all. Older ones stay stored.
    """

    name = "conversation"

    def __init__(self, storage: Callable[[], Storage], window: int | None = None) -> None:
        self._storage = storage
        self.window = check_window(window)

    async def history(self, session_id: str, *, limit: int | None = None) -> list[LLMMessage]:
        """The messages of a session, oldest first: those of the window, or of `limit` where it is given."""
        return (await self._storage().load_messages(session_id, self.window if limit is None else limit)).messages

    async def remember(self, session_id: str, turn_id: str, messages: Sequence[LLMMessage]) -> bool:
        """Add a turn that has succeeded, all of it or nothing; kept when this returns.

        Returns:
            Whether it was added. A turn that the session has had changes nothing, so that a repetition after a crash is safe.
        """
        return await self._storage().append_messages(session_id, turn_id, messages)

    async def session_ids(self) -> list[str]:
        """The sessions that have messages."""
        return list(await self._storage().sessions())

    async def knows(self, session_id: str) -> bool:
        """Whether there is such a session; one that was reset is known and empty."""
        return (await self._storage().load_messages(session_id, 1)).version > 0

    async def describe(self, session_id: str | None = None, include_data: bool = False) -> StateStoreReport:
        """What is remembered of a session, or of all.

        The content is the session's messages, or those of each session by its id; where it is too much, the latest messages of the
        first sessions are in it, and `metadata["truncated"]` says so.
        """
        counts = await self._storage().sessions(session_id)
        messages = sum(counts.values())
        items = len(counts) if session_id is None else messages
        report = StateStoreReport(self.name, exists=bool(counts), item_count=items, message_count=messages)
        if session_id is not None:
            report.metadata["session_scoped"] = True
        if include_data:
            contents = await self._contents(counts)
            report.data = contents if session_id is None else contents.get(session_id)
            if sum(map(len, contents.values())) < report.message_count:
                report.metadata["truncated"] = True
        return report

    async def _contents(self, counts: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
        contents: dict[str, list[dict[str, Any]]] = {}
        room = DATA_BYTES
        for session_id in counts:
            if room <= 0:
                break
            latest: list[dict[str, Any]] = []
            for message in reversed((await self._storage().load_messages(session_id, DATA_MESSAGES)).messages):
                shown = message.to_dict()
                room -= len(to_json(shown).encode())
                if room < 0:
                    break
                latest.append(shown)
            contents[session_id] = latest[::-1]
        return contents

    async def reset(self, session_id: str | None = None) -> StateStoreReport:
        """Forget what was said in a session, or in all. A turn that ends later is remembered."""
        before = await self.describe(session_id)
        for each in [session_id] if session_id is not None else await self.session_ids():
            await self._empty(each)
        return (await self.describe(session_id)).cleared_since(before)

    async def _empty(self, session_id: str) -> None:
        for _ in range(ATTEMPTS):
            known = await self._storage().load_messages(session_id, 1)
            if not known.message_count or await self._storage().replace_messages(session_id, known.version, ()):
                return
        raise _changing(session_id)

    async def compact(
        self,
        session_id: str,
        request: HistoryCompactionRequest,
        summarize: Summarize | None = None,
        *,
        count: Callable[[str], int] = estimated_tokens,
    ) -> HistoryCompactionResult:
        """Make a conversation smaller. Turns that end meanwhile are neither lost nor summarised.

        Args:
            summarize: Puts messages into words, for the strategy `summary`; not asked again when others only added turns.
            count: Tokens of a text.

        Raises:
            InvalidArgumentError: A summary without `summarize`.
            ModelError: What `summarize` raises, or its text is empty; nothing has changed.
            SequenceConflictError: The conversation did not stand still; nothing has changed.
        """
        if request.strategy == "summary" and summarize is None:
            raise InvalidArgumentError("summary needs a language model, and this agent has none", field="strategy")
        summary: _Summary | None = None
        for _ in range(ATTEMPTS):
            known = await self._storage().load_messages(session_id)
            if request.strategy == "summary" and summarize is not None:
                after = None if summary is None else summary.applied_to(known.messages)
                if after is None:
                    summary = await _summary(known.messages, request, summarize)
                    if summary is not None:
                        continue  # it took its time: look again
                    after = known.messages
            else:
                after = _shortened(known.messages, request, count)
            result = HistoryCompactionResult.of(request.strategy, known.messages, after, count)
            if not result.changed or await self._storage().replace_messages(session_id, known.version, after):
                return result
        raise _changing(session_id)


async def _summary(
    messages: list[LLMMessage], request: HistoryCompactionRequest, summarize: Summarize
) -> _Summary | None:
    """A summary of all but the latest messages; None where there is nothing but an earlier summary."""
    split = split_for_summary(messages, request.preserve_recent)
    if all(SUMMARY_KEY in message.metadata for message in split.older):
        return None
    text = await summarize(split.older)
    if not text.strip():
        raise ModelError("the model gave an empty summary")
    return _Summary(split, text)


def _shortened(
    messages: list[LLMMessage], request: HistoryCompactionRequest, count: Callable[[str], int]
) -> list[LLMMessage]:
    if request.strategy == "tokens":
        return compact_tokens(messages, request.max_tokens, count)
    return compact_recent(messages, request.max_messages)


def _changing(session_id: str) -> SequenceConflictError:
    return SequenceConflictError("the conversation changes all the time; try again later", session_id=session_id)
