"""Requests and results of operations on an agent's memory. No storage lives here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from protolink_grpc.models import reader
from protolink_grpc.models.conversation import CompactionStrategy, HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.json_form import JsonForm, read_fields, to_object
from protolink_grpc.models.kinds import Name

StateOperation = Literal["describe", "reset", "compact"]
COMPACTION_KEY = "compaction"
"""Metadata key of a report's HistoryCompactionResult."""

NOT_ENABLED = "state store is not enabled"
"""The error in the report of a store that the agent does not have, in ProtoLink's words."""


@dataclass(frozen=True, slots=True)
class StateOperationRequest(JsonForm):
    """The stores of an agent's memory to operate on, and the parameters of the operation.

    Args:
        session_id: None means all sessions of the caller, where the operation allows it.
        stores: For instance `("conversation",)`; empty means all stores of the agent, for compact the conversation.
        include_data: For describe: return the content too.
        strategy, max_messages, max_tokens, preserve_recent, summary_max_tokens: For compact, as in HistoryCompactionRequest.
        metadata: For the application itself; it stays in the process.
    """

    session_id: str | None = None
    stores: tuple[str, ...] = ()
    include_data: bool = False
    strategy: CompactionStrategy = "tokens"
    max_messages: int = 20
    max_tokens: int = 4000
    preserve_recent: int = 6
    summary_max_tokens: int = 512
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, request: "StateOperationRequest | HistoryCompactionRequest | Mapping[str, Any] | str | None", **fields: Any
    ) -> "StateOperationRequest":
        """Build a request from a request, its JSON object, or a session id; `fields` that are not None replace its values.

        Raises:
            InvalidArgumentError: A field is wrong; names it.
        """
        if isinstance(request, HistoryCompactionRequest):
            base = cls.of_compaction(request)
        elif isinstance(request, StateOperationRequest):
            base = request
        elif isinstance(request, str):
            base = cls(request)
        else:
            base = cls.from_dict({} if request is None else request)
        given = {name: value for name, value in fields.items() if value is not None}
        return cls.from_dict({**base.to_dict(), **given}) if given else base

    @classmethod
    def of_compaction(cls, request: HistoryCompactionRequest) -> Self:
        """Build the operation on the conversation with the same parameters."""
        return cls(
            session_id=request.session_id,
            stores=("conversation",),
            strategy=request.strategy,
            max_messages=request.max_messages,
            max_tokens=request.max_tokens,
            preserve_recent=request.preserve_recent,
            summary_max_tokens=request.summary_max_tokens,
            metadata=dict(request.metadata or {}),
        )

    @property
    def compaction(self) -> HistoryCompactionRequest:
        """The parameters of a compaction. Raises InvalidArgumentError if they are out of bounds."""
        return HistoryCompactionRequest(
            self.strategy,
            self.max_messages,
            self.max_tokens,
            self.preserve_recent,
            self.summary_max_tokens,
            self.session_id,
            self.metadata,
        )

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object, in which `stores` may be one name.

        Raises:
            InvalidArgumentError: A value of the wrong kind, or out of the bounds of HistoryCompactionRequest; names the field.
        """
        source = reader.as_object(data)
        stores = source.get("stores")
        found = read_fields(cls, source | {"stores": [stores]} if isinstance(stores, str) else source)
        request = cls(**found | {"session_id": found.get("session_id") or None})
        _ = request.compaction  # raises for bounds
        return request


@dataclass(slots=True)
class StateStoreReport(JsonForm):
    """The content of one store in the requested scope, or the effect of an operation on it.

    Args:
        enabled: The agent has such a store.
        exists: The store has content, after the operation.
        item_count: For `conversation` the messages of a session, or the number of sessions; for `tools` the items.
        message_count: Messages of the session, or of all sessions.
        cleared: The store had content and was emptied.
        compacted: The content was made smaller.
        data: The content, any JSON value; None if it was not requested.
        metadata: `session_scoped` if the request has a session; `threads` with the number of messages by thread, if the session has
            conversations of threads; `truncated` if data was cut. After a reset or a compaction the reports `before` and
            `after`, and the HistoryCompactionResult of a compaction as `compaction`.
        error: Error message, one sentence; None means success.
        failure: The whole failure. Not in the JSON form, and not compared.
        compaction: The result of a compaction in this process. Not in the JSON form, and not compared.
    """

    name: Name
    enabled: bool = True
    exists: bool = False
    item_count: int = 0
    message_count: int = 0
    cleared: bool = False
    compacted: bool = False
    data: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    failure: Failure | None = field(default=None, repr=False, compare=False)
    compaction: HistoryCompactionResult | None = field(default=None, repr=False, compare=False)

    def cleared_since(self, before: Self) -> Self:
        """Complete this report of the content after a reset by the report `before` it."""
        self.metadata = {"before": before.to_dict(), "after": self.to_dict()}
        self.cleared = before.exists
        return self

    def compacted_since(self, before: Self, done: HistoryCompactionResult) -> Self:
        """Complete this report of the content after a compaction by the report `before` it and its result."""
        self.metadata = {"before": before.to_dict(), "after": self.to_dict(), COMPACTION_KEY: done.to_dict()}
        self.compacted, self.compaction = done.changed, done
        return self


@dataclass(slots=True)
class StateOperationResult(JsonForm):
    """The result of an operation, with one report per store, in ProtoLink's format; the tuples of names are computed."""

    operation: StateOperation
    session_id: str | None = None
    stores: tuple[StateStoreReport, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def cleared(self) -> tuple[str, ...]:
        return tuple(store.name for store in self.stores if store.cleared)

    @property
    def compacted(self) -> tuple[str, ...]:
        return tuple(store.name for store in self.stores if store.compacted)

    @property
    def missing(self) -> tuple[str, ...]:
        """The requested stores that the agent does not have."""
        return tuple(store.name for store in self.stores if not store.enabled)

    @property
    def errors(self) -> tuple[dict[str, str], ...]:
        """The errors of stores that the agent has."""
        return tuple(
            {"store": store.name, "message": store.error}
            for store in self.stores
            if store.enabled and store.error is not None
        )

    @property
    def compaction(self) -> HistoryCompactionResult | None:
        """What a compaction did to the conversation."""
        found = next(
            (each for each in self.stores if each.name == "conversation" and COMPACTION_KEY in each.metadata), None
        )
        if found is None or found.compaction is not None:
            return None if found is None else found.compaction
        return HistoryCompactionResult.from_dict(found.metadata[COMPACTION_KEY])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form with the computed names, which `from_dict` ignores."""
        return to_object(self) | {
            "cleared": list(self.cleared),
            "compacted": list(self.compacted),
            "missing": list(self.missing),
            "errors": list(self.errors),
        }
