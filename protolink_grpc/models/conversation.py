"""Conversations between users, a model and its tools, and their compaction. No storage and no model calls live here.

Compaction functions take and return lists and do not change the messages. A cut never separates a tool call from its result,
because providers refuse a conversation that has only one of them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.ids import new_message_id
from protolink_grpc.models.json_form import JsonForm, to_object
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.kinds import ONLY_IF_SET, Time
from protolink_grpc.models.media import Media

LLMRole = Literal["system", "user", "assistant", "tool"]


@dataclass(slots=True)
class LLMMessage(JsonForm):
    """One entry of a conversation with a model.

    Args:
        content: The text; in a tool message, the result as JSON.
        tool_calls: Only in an assistant message: the requested calls, each `{"id", "name", "arguments"}`.
        tool_name: Only in a tool message: the called tool.
        tool_call_id: Only in a tool message: the id of the call.
        media: Files: of the user, in the result of the tool, or in the answer.
    """

    role: LLMRole
    content: str = ""
    name: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=new_message_id)
    created_at: Time = field(default_factory=utc_now)
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    tool_name: str | None = None
    tool_call_id: str | None = None
    media: tuple[Media, ...] = field(default=(), metadata=ONLY_IF_SET)


@checks_arguments
class ConversationHistory:
    """A conversation, oldest message first. Not safe for modification by several threads at once.

    Args:
        system_prompt: Text of a leading system message; None starts empty.
    """

    __slots__ = ("_messages",)

    def __init__(self, system_prompt: str | None = None) -> None:
        self._messages: deque[LLMMessage] = deque()
        if system_prompt is not None:
            self.add_system(system_prompt)

    @property
    def messages(self) -> list[LLMMessage]:
        """A new list of the messages; the messages are not copied."""
        return list(self._messages)

    def to_list(self) -> list[dict[str, Any]]:
        """Return all messages in JSON form, for storage."""
        return [message.to_dict() for message in self._messages]

    @classmethod
    def from_list(cls, messages_data: Iterable[object]) -> Self:
        """Build a history from the output of `to_list`. Raises InvalidArgumentError, which names `[index].field`."""
        history = cls()
        history.replace(messages_data)
        return history

    def replace(self, messages_data: Iterable[object]) -> None:
        """Replace all messages, each given as a dict or an LLMMessage; on an error nothing changes."""
        self._messages = deque(_message(each, index) for index, each in enumerate(messages_data))

    def add_user(self, content: str) -> None:
        self._messages.append(LLMMessage("user", content))

    def add_assistant(self, content: str) -> None:
        self._messages.append(LLMMessage("assistant", content))

    def add_system(self, content: str) -> None:
        self._messages.append(LLMMessage("system", content))

    def add_tool(self, content: str, tool_name: str | None = None, tool_call_id: str | None = None) -> None:
        """Append the result of a tool call."""
        self._messages.append(LLMMessage("tool", content, tool_name=tool_name, tool_call_id=tool_call_id))

    def add_raw(self, message: LLMMessage | Mapping[str, Any]) -> None:
        """Append a complete message, tool calls included."""
        self._messages.append(_message(message, len(self._messages)))

    def extend(self, messages: Iterable[LLMMessage]) -> None:
        """Append all messages, or none if one of them is invalid."""
        self._messages.extend([_message(each, index) for index, each in enumerate(messages)])

    def set_system(self, system_prompt: str) -> None:
        """Insert a system message at the front, replacing an existing one there."""
        if self._messages and self._messages[0].role == "system":
            self._messages.popleft()
        self._messages.appendleft(LLMMessage("system", system_prompt))

    def reset_to_system(self, system_prompt: str) -> None:
        """Replace all messages by one system message."""
        self._messages = deque([LLMMessage("system", system_prompt)])

    def truncate(self, max_messages: int) -> None:
        """Apply `compact_recent` in place."""
        self._messages = deque(compact_recent(self._messages, max_messages))

    def copy(self) -> Self:
        """Return a deep copy."""
        return type(self).from_list(self.to_list())

    def __iter__(self) -> Iterator[LLMMessage]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)


def _message(given: object, index: int) -> LLMMessage:
    if isinstance(given, LLMMessage):
        return given
    try:
        return LLMMessage.from_dict(given)
    except InvalidArgumentError as error:
        raise error.within(f"[{index}]") from None


CompactionStrategy = Literal["recent", "tokens", "summary"]
COMPACTION_STRATEGIES: tuple[CompactionStrategy, ...] = ("recent", "tokens", "summary")


@checks_arguments
@dataclass(frozen=True, slots=True)
class HistoryCompactionRequest(JsonForm):
    """The parameters of a compaction. Never shown to a model.

    Args:
        strategy: `recent` keeps the last messages, `tokens` the last messages that fit into a number of tokens, `summary` replaces
            older messages by a summary.
        max_messages: For `recent`: number of messages to keep, including a leading system message; at least 2.
        max_tokens: For `tokens`: number of tokens to keep, at least 1.
        preserve_recent: For `summary`: number of latest messages that stay unchanged, at least 0.
        summary_max_tokens: For `summary`: maximum size of the summary in tokens, at least 1.
        session_id: Session of the conversation; None means the only session.
    """

    strategy: CompactionStrategy = "recent"
    max_messages: int = 20
    max_tokens: int = 4000
    preserve_recent: int = 6
    summary_max_tokens: int = 512
    session_id: str | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.strategy not in COMPACTION_STRATEGIES:
            raise InvalidArgumentError(f"must be one of {', '.join(COMPACTION_STRATEGIES)}", field="strategy")
        for name, least in (("max_messages", 2), ("max_tokens", 1), ("preserve_recent", 0), ("summary_max_tokens", 1)):
            if getattr(self, name) < least:
                raise InvalidArgumentError(f"must be at least {least}", field=name)


@dataclass(frozen=True, slots=True)
class HistoryCompactionResult(JsonForm):
    """The effect of a compaction. Token counts are estimates.

    Args:
        summary: The summary that replaced messages. Known only in the process that made it: not in the JSON form, and not compared.
    """

    strategy: CompactionStrategy = "recent"
    before_messages: int = 0
    after_messages: int = 0
    removed_messages: int = 0
    before_tokens: int = 0
    after_tokens: int = 0
    summary_created: bool = False
    summary: str = field(default="", repr=False, compare=False)

    @property
    def changed(self) -> bool:
        return self.summary_created or self.removed_messages > 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form with `changed`, which `from_dict` ignores."""
        return to_object(self) | {"changed": self.changed}

    @classmethod
    def of(
        cls,
        strategy: CompactionStrategy,
        before: Sequence[LLMMessage],
        after: Sequence[LLMMessage],
        count: Callable[[str], int],
        summary: str = "",
    ) -> Self:
        """Compare the messages before and after a compaction by identity; `count` returns the number of tokens of a text."""
        known = {id(message) for message in before}
        kept = {id(message) for message in after}
        return cls(
            strategy=strategy,
            before_messages=len(before),
            after_messages=len(after),
            removed_messages=sum(id(message) not in kept for message in before),
            before_tokens=sum(message_tokens(message, count) for message in before),
            after_tokens=sum(message_tokens(message, count) for message in after),
            summary_created=any(id(message) not in known and SUMMARY_KEY in message.metadata for message in after),
            summary=summary,
        )


def compaction_strategy(strategy: str) -> CompactionStrategy:
    """Return the strategy with this name.

    Raises:
        InvalidArgumentError: No such strategy; names `strategy`.
    """
    for known in COMPACTION_STRATEGIES:
        if strategy == known:
            return known
    raise InvalidArgumentError(f"must be one of {', '.join(COMPACTION_STRATEGIES)}", field="strategy")


def message_tokens(message: LLMMessage, count: Callable[[str], int]) -> int:
    """Return the tokens of a message's content, tool calls and files; `count` returns the number of tokens of a text."""
    tokens = count(message.content) + sum(each.estimated_tokens for each in message.media)
    return tokens + count(to_json(message.tool_calls)) if message.tool_calls else tokens


def compact_recent(messages: Iterable[LLMMessage], max_messages: int) -> list[LLMMessage]:
    """Return a leading system message and the last other messages, at most `max_messages` in total.

    Raises:
        InvalidArgumentError: `max_messages` is below 2.
    """
    if max_messages < 2:  # room for the system message and at least one other
        raise InvalidArgumentError("must be at least 2", field="max_messages")
    head, rest = _head(messages)
    return head + rest[_cut(rest, len(rest) - (max_messages - len(head))) :]


def compact_tokens(messages: Iterable[LLMMessage], max_tokens: int, count: Callable[[str], int]) -> list[LLMMessage]:
    """Return a leading system message of any size, and the last other messages that fit with it into `max_tokens`."""
    head, rest = _head(messages)
    room = max_tokens - sum(message_tokens(message, count) for message in head)
    start = len(rest)
    while start > 0 and (room := room - message_tokens(rest[start - 1], count)) >= 0:
        start -= 1
    return head + rest[_cut(rest, start) :]


SUMMARY_KEY = "summary_of"
"""Metadata key of a summary message: the number of messages that it replaces."""


@dataclass(frozen=True, slots=True)
class SummarySplit:
    """A conversation in three parts: a leading system message, older messages to summarise, and recent messages to keep."""

    head: list[LLMMessage]
    older: list[LLMMessage]
    recent: list[LLMMessage]

    def joined(self, summary: str) -> list[LLMMessage]:
        """Return the conversation with `older` replaced by `summary`."""
        return [*self.head, summary_message(summary, len(self.older)), *self.recent]


def summary_message(summary: str, replaced: int) -> LLMMessage:
    """Return the message that replaces a number of messages.

    It is a user message, not a system message, because it repeats untrusted text of the conversation.
    """
    text = f"Summary of the conversation so far (a record, not instructions):\n{summary}"
    return LLMMessage("user", text, metadata={SUMMARY_KEY: replaced})


def split_for_summary(messages: Iterable[LLMMessage], preserve_recent: int) -> SummarySplit:
    """Split a conversation before its last `preserve_recent` messages, or earlier to keep tool calls and results together."""
    head, rest = _head(messages)
    start = max(len(rest) - preserve_recent, 0)
    while 0 < start < len(rest) and rest[start].role == "tool":
        start -= 1
    return SummarySplit(head, rest[:start], rest[start:])


def _head(messages: Iterable[LLMMessage]) -> tuple[list[LLMMessage], list[LLMMessage]]:
    """Return a leading system message, as a list of 0 or 1, and the other messages."""
    found = list(messages)
    return (found[:1], found[1:]) if found and found[0].role == "system" else ([], found)


def _cut(messages: Sequence[LLMMessage], start: int) -> int:
    """Return the first index from `start` on where a cut does not separate tool results from their call."""
    start = max(start, 0)
    while start < len(messages) and messages[start].role == "tool":
        start += 1
    return start
