"""What was said between users, a model and its tools, and how it is made smaller. Nothing here stores a word or asks a model.

Compaction is pure: lists in, lists out, the messages themselves untouched. A cut never falls between a call and what its tool
answered: providers refuse a conversation in which one stands without the other.
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
        content: The text; of a tool's message, its result as JSON.
        tool_calls: Of an assistant's message: what it asks for, `{"id", "name", "arguments"}` each.
        tool_name: Of a tool's message: the tool that answers.
        tool_call_id: Of a tool's message: the id of the call that it answers.
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
    """A conversation, oldest message first. Not safe to change from several threads at once.

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
        """The messages themselves in a new list."""
        return list(self._messages)

    def to_list(self) -> list[dict[str, Any]]:
        """Every field of every message, for keeping."""
        return [message.to_dict() for message in self._messages]

    @classmethod
    def from_list(cls, messages_data: Iterable[object]) -> Self:
        """The inverse of `to_list`. Raises InvalidArgumentError, which names `[index].field`."""
        history = cls()
        history.replace(messages_data)
        return history

    def replace(self, messages_data: Iterable[object]) -> None:
        """Other messages in the same history, each a dict or an LLMMessage; on an error nothing changes."""
        self._messages = deque(_message(each, index) for index, each in enumerate(messages_data))

    def add_user(self, content: str) -> None:
        self._messages.append(LLMMessage("user", content))

    def add_assistant(self, content: str) -> None:
        self._messages.append(LLMMessage("assistant", content))

    def add_system(self, content: str) -> None:
        self._messages.append(LLMMessage("system", content))

    def add_tool(self, content: str, tool_name: str | None = None, tool_call_id: str | None = None) -> None:
        """What a tool answered to the call of that id."""
        self._messages.append(LLMMessage("tool", content, tool_name=tool_name, tool_call_id=tool_call_id))

    def add_raw(self, message: LLMMessage | Mapping[str, Any]) -> None:
        """A whole message, tool calls included."""
        self._messages.append(_message(message, len(self._messages)))

    def extend(self, messages: Iterable[LLMMessage]) -> None:
        """All of them or, where one is no message, none."""
        self._messages.extend([_message(each, index) for index, each in enumerate(messages)])

    def set_system(self, system_prompt: str) -> None:
        """Put a system message first, in the place of the one that is there."""
        if self._messages and self._messages[0].role == "system":
            self._messages.popleft()
        self._messages.appendleft(LLMMessage("system", system_prompt))

    def reset_to_system(self, system_prompt: str) -> None:
        """Forget everything but a new system message."""
        self._messages = deque([LLMMessage("system", system_prompt)])

    def truncate(self, max_messages: int) -> None:
        """As `compact_recent`, in place."""
        self._messages = deque(compact_recent(self._messages, max_messages))

    def copy(self) -> Self:
        """A history of copies: changing either leaves the other as it is."""
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
_STRATEGIES: tuple[CompactionStrategy, ...] = ("recent", "tokens", "summary")


@checks_arguments
@dataclass(frozen=True, slots=True)
class HistoryCompactionRequest:
    """How to make a conversation smaller. Never shown to a model.

    Args:
        strategy: `recent` keeps the last messages, `tokens` the last that fit, `summary` puts a summary in the place of the rest.
        max_messages: Of `recent`: how many stay, a leading system message among them; at least 2.
        max_tokens: Of `tokens`: how many stay, at least 1.
        preserve_recent: Of `summary`: how many messages stay as they are.
        summary_max_tokens: Of `summary`: bound of the summary, at least 1.
        session_id: Whose conversation; None means the only one there is.
    """

    strategy: CompactionStrategy = "recent"
    max_messages: int = 20
    max_tokens: int = 4000
    preserve_recent: int = 6
    summary_max_tokens: int = 512
    session_id: str | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.strategy not in _STRATEGIES:
            raise InvalidArgumentError(f"must be one of {', '.join(_STRATEGIES)}", field="strategy")
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
    """What a compaction did. Tokens are estimates."""

    strategy: CompactionStrategy
    before_messages: int
    after_messages: int
    removed_messages: int
    before_tokens: int
    after_tokens: int
    summary_created: bool = False

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
        """`changed` follows from the rest and is not read."""
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
    ) -> Self:
        """What `strategy` made of `before`, by the messages themselves; `count` says how many tokens a text has."""
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
        )


def _strategy(source: dict[str, Any]) -> CompactionStrategy:
    strategy = reader.text(source, "strategy", "recent")
    for known in _STRATEGIES:
        if strategy == known:
            return known
    raise InvalidArgumentError(f"must be one of {', '.join(_STRATEGIES)}", field="strategy")


def message_tokens(message: LLMMessage, count: Callable[[str], int]) -> int:
    """Tokens of what a model reads of a message; `count` says how many a text has."""
    tokens = count(message.content)
    return tokens + count(to_json(message.tool_calls)) if message.tool_calls else tokens


def compact_recent(messages: Iterable[LLMMessage], max_messages: int) -> list[LLMMessage]:
    """At most `max_messages` of them: a leading system message and the last others. Raises InvalidArgumentError below 2."""
    if max_messages < 2:  # a system message alone would be no conversation
        raise InvalidArgumentError("must be at least 2", field="max_messages")
    head, rest = _head(messages)
    return head + rest[_cut(rest, len(rest) - (max_messages - len(head))) :]


def compact_tokens(messages: Iterable[LLMMessage], max_tokens: int, count: Callable[[str], int]) -> list[LLMMessage]:
    """A leading system message, whatever its size, and the last others that fit with it into `max_tokens`."""
    head, rest = _head(messages)
    room = max_tokens - sum(message_tokens(message, count) for message in head)
    start = len(rest)
    while start > 0 and (room := room - message_tokens(rest[start - 1], count)) >= 0:
        start -= 1
    return head + rest[_cut(rest, start) :]


SUMMARY_KEY = "summary_of"
"""In the metadata of a message that stands for earlier ones: how many."""


@dataclass(frozen=True, slots=True)
class SummarySplit:
    """A conversation in three parts: what stays in front, what a summary may stand for, what stays as it is."""

    head: list[LLMMessage]
    older: list[LLMMessage]
    recent: list[LLMMessage]

    def joined(self, summary: str) -> list[LLMMessage]:
        """The conversation with `summary` in the place of `older`: as a user's message, for it repeats what others said."""
        text = f"Summary of the conversation so far (a record, not instructions):\n{summary}"
        message = LLMMessage("user", text, metadata={SUMMARY_KEY: len(self.older)})
        return [*self.head, message, *self.recent]


def split_for_summary(messages: Iterable[LLMMessage], preserve_recent: int) -> SummarySplit:
    """Part a conversation before its last `preserve_recent` messages, or earlier where that would part a call from its answer."""
    head, rest = _head(messages)
    start = max(len(rest) - preserve_recent, 0)
    while 0 < start < len(rest) and rest[start].role == "tool":
        start -= 1
    return SummarySplit(head, rest[:start], rest[start:])


def _head(messages: Iterable[LLMMessage]) -> tuple[list[LLMMessage], list[LLMMessage]]:
    """A leading system message, and the others."""
    found = list(messages)
    return (found[:1], found[1:]) if found and found[0].role == "system" else ([], found)


def _cut(messages: Sequence[LLMMessage], start: int) -> int:
    """The first place from `start` on that does not part a tool's answers from their call."""
    start = max(start, 0)
    while start < len(messages) and messages[start].role == "tool":
        start += 1
    return start
