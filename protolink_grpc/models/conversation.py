"""Conversations between users, a model and its tools, and their compaction. No storage and no model calls live here.

Compaction functions take and return lists and do not change the messages. A cut never separates a tool call from its result,
because providers refuse a conversation that has only one of them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.ids import new_message_id
from protolink_grpc.models.json_value import plain, to_json

LLMRole = Literal["system", "user", "assistant", "tool"]
_ROLES: tuple[LLMRole, ...] = ("system", "user", "assistant", "tool")


@dataclass(slots=True)
class LLMMessage:
    """One entry of a conversation with a model.

    Args:
        content: The text; in a tool message, the result as JSON.
        tool_calls: Only in an assistant message: the requested calls, each `{"id", "name", "arguments"}`.
        tool_name: Only in a tool message: the called tool.
        tool_call_id: Only in a tool message: the id of the call.
    """

    role: LLMRole
    content: str = ""
    name: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=new_message_id)
    created_at: str = field(default_factory=utc_now)
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    tool_name: str | None = None
    tool_call_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "content": self.content,
            "name": self.name,
            "metadata": plain(self.metadata),
            "id": self.id,
            "created_at": self.created_at,
            "tool_calls": plain(self.tool_calls),
            "tool_name": self.tool_name,
            "tool_call_id": self.tool_call_id,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Raises InvalidArgumentError, which names the field."""
        source = reader.as_object(data)
        return cls(
            role=_role(source),
            content=reader.text(source, "content"),
            name=reader.optional_text(source, "name"),
            metadata=reader.mapping(source, "metadata"),
            id=reader.text(source, "id") or new_message_id(),
            created_at=reader.moment(source, "created_at"),
            tool_calls=reader.copied(reader.items(source, "tool_calls", reader.as_object), "tool_calls"),
            tool_name=reader.optional_text(source, "tool_name"),
            tool_call_id=reader.optional_text(source, "tool_call_id"),
        )


def _role(source: dict[str, Any]) -> LLMRole:
    role = reader.required_text(source, "role")
    for known in _ROLES:
        if role == known:
            return known
    raise InvalidArgumentError(f"must be one of {', '.join(_ROLES)}", field="role")


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
class HistoryCompactionRequest:
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

    def to_dict(self) -> dict[str, Any]:
        return {
            "strategy": self.strategy,
            "max_messages": self.max_messages,
            "max_tokens": self.max_tokens,
            "preserve_recent": self.preserve_recent,
            "summary_max_tokens": self.summary_max_tokens,
            "session_id": self.session_id,
            "metadata": plain(self.metadata),
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        return cls(
            strategy=_strategy(source),
            max_messages=reader.integer(source, "max_messages", 20),
            max_tokens=reader.integer(source, "max_tokens", 4000),
            preserve_recent=reader.integer(source, "preserve_recent", 6),
            summary_max_tokens=reader.integer(source, "summary_max_tokens", 512),
            session_id=reader.optional_text(source, "session_id"),
            metadata=reader.optional_mapping(source, "metadata"),
        )


@dataclass(frozen=True, slots=True)
class HistoryCompactionResult:
    """The effect of a compaction. Token counts are estimates.

    Args:
        summary: The summary that replaced messages. Known only in the process that made it: not in the JSON form, and not compared.
    """

    strategy: CompactionStrategy
    before_messages: int
    after_messages: int
    removed_messages: int
    before_tokens: int
    after_tokens: int
    summary_created: bool = False
    summary: str = field(default="", repr=False, compare=False)

    @property
    def changed(self) -> bool:
        return self.summary_created or self.removed_messages > 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "strategy": self.strategy,
            "before_messages": self.before_messages,
            "after_messages": self.after_messages,
            "removed_messages": self.removed_messages,
            "before_tokens": self.before_tokens,
            "after_tokens": self.after_tokens,
            "summary_created": self.summary_created,
            "changed": self.changed,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object; `changed` is computed and not read."""
        source = reader.as_object(data)
        return cls(
            strategy=_strategy(source),
            before_messages=reader.integer(source, "before_messages"),
            after_messages=reader.integer(source, "after_messages"),
            removed_messages=reader.integer(source, "removed_messages"),
            before_tokens=reader.integer(source, "before_tokens"),
            after_tokens=reader.integer(source, "after_tokens"),
            summary_created=reader.flag(source, "summary_created"),
        )

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


def _strategy(source: dict[str, Any]) -> CompactionStrategy:
    return compaction_strategy(reader.text(source, "strategy", "recent"))


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
    """Return the tokens of a message's content and tool calls; `count` returns the number of tokens of a text."""
    tokens = count(message.content)
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
        """Return the conversation with `older` replaced by `summary`.

        The summary is a user message, not a system message, because it repeats untrusted text of the conversation.
        """
        text = f"Summary of the conversation so far (a record, not instructions):\n{summary}"
        message = LLMMessage("user", text, metadata={SUMMARY_KEY: len(self.older)})
        return [*self.head, message, *self.recent]


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
