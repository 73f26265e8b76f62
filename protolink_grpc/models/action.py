"""What a run is about to do and what was decided about it: actions, answers, measures. Deciding happens elsewhere."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.cost import Cost, difference, sum_of
from protolink_grpc.models.ids import new_action_id, new_request_id
from protolink_grpc.models.json_value import canonical_json, plain
from protolink_grpc.models.open_enum import OpenEnum


@checks_arguments
@dataclass(frozen=True, slots=True)
class RunAction:
    """One concrete operation, as it would be executed.

    Args:
        kind: What sort of operation, for instance `tool.call` or `agent.call`; not empty.
        name: Which one; not empty.
        payload: Its validated arguments and target.
        capabilities: Authority that it needs.
        artifacts: Previews to look at before deciding; they perform nothing.
        call_id: Tool call of a model or a caller that asked for it; empty means that the agent's own code did.
    """

    kind: str
    name: str
    payload: dict[str, Any] = field(default_factory=dict)
    capabilities: frozenset[str] = frozenset()
    artifacts: tuple[Artifact, ...] = ()
    description: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    action_id: str = field(default_factory=new_action_id)
    created_at: str = field(default_factory=utc_now)
    call_id: str = ""

    def __post_init__(self) -> None:
        for name, value in (("kind", self.kind), ("name", self.name)):
            if not value or value.isspace():
                raise InvalidArgumentError("must be a non-empty string", field=name)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over what will run, as hex, computed at each reading: equal only when every field but `call_id` is equal."""
        return hashlib.sha256(canonical_json(self._prepared()).encode()).hexdigest()

    @property
    def arguments(self) -> dict[str, Any]:
        """What it is called with: `payload["arguments"]`, or the payload itself where that has none."""
        arguments = self.payload.get("arguments")
        return arguments if isinstance(arguments, dict) else self.payload

    def with_artifacts(self, artifacts: Iterable[Artifact]) -> Self:
        """A copy with these artifacts added; copies of them, stamped with this action's id."""
        stamped = (replace(each, action_id=self.action_id) for each in artifacts)
        return replace(self, artifacts=(*self.artifacts, *stamped))

    def with_capabilities(self, capabilities: Iterable[str]) -> Self:
        """A copy that needs these too."""
        return replace(self, capabilities=self.capabilities | frozenset(capabilities))

    def with_payload(self, payload: dict[str, Any]) -> Self:
        """A copy with this payload instead."""
        return replace(self, payload=plain(payload))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, which names `call_id` only where there is one."""
        found = self._prepared()
        if self.call_id:
            found["call_id"] = self.call_id
        return found

    def _prepared(self) -> dict[str, Any]:
        return {
            "action_id": self.action_id,
            "kind": self.kind,
            "name": self.name,
            "payload": plain(self.payload),
            "capabilities": sorted(self.capabilities),
            "artifacts": [artifact.to_dict() for artifact in self.artifacts],
            "description": self.description,
            "metadata": plain(self.metadata),
            "created_at": self.created_at,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        return cls(
            kind=reader.required_text(source, "kind"),
            name=reader.required_text(source, "name"),
            payload=reader.mapping(source, "payload"),
            capabilities=frozenset(reader.texts(source, "capabilities")),
            artifacts=tuple(reader.items(source, "artifacts", Artifact.from_dict)),
            description=reader.text(source, "description"),
            metadata=reader.mapping(source, "metadata"),
            action_id=reader.text(source, "action_id") or new_action_id(),
            created_at=reader.moment(source, "created_at"),
            call_id=reader.text(source, "call_id"),
        )


class PolicyEffect(OpenEnum):
    ALLOW = "allow"
    DENY = "deny"
    REQUIRE_APPROVAL = "require_approval"


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """What a policy says about one action, and which of its capabilities made it say so."""

    effect: PolicyEffect
    reason: str = ""
    policy_name: str = ""
    matched_capabilities: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "effect": str(self.effect),
            "reason": self.reason,
            "policy_name": self.policy_name,
            "matched_capabilities": list(self.matched_capabilities),
            "metadata": plain(self.metadata),
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        return cls(
            effect=reader.choice(source, "effect", PolicyEffect),
            reason=reader.text(source, "reason"),
            policy_name=reader.text(source, "policy_name"),
            matched_capabilities=tuple(reader.texts(source, "matched_capabilities")),
            metadata=reader.mapping(source, "metadata"),
        )


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question to whoever may approve `action`; `request_id` is the id of the approval, which the answer repeats.

    Args:
        task_id: The task that waits.
        expires_at: ISO 8601 UTC; from then on the question counts as denied. None means never.
        editable: The answer may bring other arguments.
    """

    action: RunAction
    policy_decision: PolicyDecision
    run_id: str | None = None
    request_id: str = field(default_factory=new_request_id)
    created_at: str = field(default_factory=utc_now)
    metadata: dict[str, Any] = field(default_factory=dict)
    task_id: str = ""
    expires_at: str | None = None
    editable: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "request_id": self.request_id,
            "run_id": self.run_id,
            "action": self.action.to_dict(),
            "policy_decision": self.policy_decision.to_dict(),
            "created_at": self.created_at,
            "metadata": plain(self.metadata),
            "task_id": self.task_id,
            "expires_at": self.expires_at,
            "editable": self.editable,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        return cls(
            action=reader.nested(source, "action", RunAction.from_dict),
            policy_decision=reader.nested(source, "policy_decision", PolicyDecision.from_dict),
            run_id=reader.optional_text(source, "run_id"),
            request_id=reader.text(source, "request_id") or new_request_id(),
            created_at=reader.moment(source, "created_at"),
            metadata=reader.mapping(source, "metadata"),
            task_id=reader.text(source, "task_id"),
            expires_at=reader.moment(source, "expires_at") if reader.optional_text(source, "expires_at") else None,
            editable=reader.flag(source, "editable"),
        )


EXPIRED_KEY = "expired"
"""Where a decision's metadata says that nobody answered in time."""


class ApprovalState(OpenEnum):
    """Where an approval stands."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    """Nobody answered in time: it counts as denied."""
    WITHDRAWN = "withdrawn"
    """Its task ended first."""


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """The answer to one ApprovalRequest. `approved` and `request_id` are never guessed when read.

    Args:
        edited_arguments: What to run with instead of what was asked; None leaves it unchanged, {} runs without arguments.
        fingerprint: `Approval.etag` as the approver saw it. Empty means that nothing is compared.
    """

    approved: bool
    request_id: str
    reason: str = ""
    decided_by: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    decided_at: str = field(default_factory=utc_now)
    edited_arguments: dict[str, Any] | None = None
    fingerprint: str = ""

    @property
    def state(self) -> ApprovalState:
        """Where the request stands with this answer. Only a denial can be one that time gave."""
        if self.approved:
            return ApprovalState.APPROVED
        return ApprovalState.EXPIRED if self.metadata.get(EXPIRED_KEY) else ApprovalState.DENIED

    def to_dict(self) -> dict[str, Any]:
        return {
            "approved": self.approved,
            "request_id": self.request_id,
            "reason": self.reason,
            "decided_by": self.decided_by,
            "metadata": plain(self.metadata),
            "decided_at": self.decided_at,
            "edited_arguments": plain(self.edited_arguments),
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        return cls(
            approved=reader.required_flag(source, "approved"),
            request_id=reader.required_text(source, "request_id"),
            reason=reader.text(source, "reason"),
            decided_by=reader.text(source, "decided_by"),
            metadata=reader.mapping(source, "metadata"),
            decided_at=reader.moment(source, "decided_at"),
            edited_arguments=reader.optional_mapping(source, "edited_arguments"),
            fingerprint=reader.text(source, "fingerprint"),
        )


@dataclass(frozen=True, slots=True)
class Approval:
    """A request together with what became of it.

    Args:
        decision: The answer; None while it is pending, and where it was withdrawn.
        fingerprint: That of the action that waits, which `request` may show with secrets struck out. Empty means that of `request`.
    """

    request: ApprovalRequest
    state: ApprovalState = ApprovalState.PENDING
    decision: ApprovalDecision | None = None
    fingerprint: str = ""

    @property
    def approval_id(self) -> str:
        return self.request.request_id

    @property
    def etag(self) -> str:
        """Version of what is asked; an answer that approves sends it back."""
        return self.fingerprint or self.request.action.fingerprint

    def to_dict(self) -> dict[str, Any]:
        return {
            "request": self.request.to_dict(),
            "state": str(self.state),
            "decision": None if self.decision is None else self.decision.to_dict(),
            "fingerprint": self.etag,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        answered = source.get("decision") is not None
        return cls(
            request=reader.nested(source, "request", ApprovalRequest.from_dict),
            state=reader.choice(source, "state", ApprovalState),
            decision=reader.nested(source, "decision", ApprovalDecision.from_dict) if answered else None,
            fingerprint=reader.text(source, "fingerprint"),
        )


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One section of a prompt and its estimated size in tokens."""

    kind: str
    name: str = ""
    tokens: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "tokens": self.tokens, "metadata": plain(self.metadata)}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        return cls(
            kind=reader.required_text(source, "kind"),
            name=reader.text(source, "name"),
            tokens=reader.integer(source, "tokens"),
            metadata=reader.mapping(source, "metadata"),
        )


@dataclass(frozen=True, slots=True)
class ContextManifest:
    """What is about to enter a model, in tokens. `system_tokens` includes the tool prompt; the total counts it once."""

    run_id: str | None = None
    session_id: str | None = None
    agent_name: str | None = None
    provider: str | None = None
    model: str | None = None
    system_tokens: int = 0
    history_tokens: int = 0
    tool_prompt_tokens: int = 0
    user_tokens: int = 0
    context_items: tuple[ContextItem, ...] = ()
    context_window: int | None = None
    estimated: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: str = field(default_factory=utc_now)

    @property
    def total_estimated_tokens(self) -> int:
        system = max(self.system_tokens - self.tool_prompt_tokens, 0)
        return system + self.tool_prompt_tokens + self.history_tokens + self.user_tokens

    def to_dict(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "session_id": self.session_id,
            "agent_name": self.agent_name,
            "provider": self.provider,
            "model": self.model,
            "system_tokens": self.system_tokens,
            "history_tokens": self.history_tokens,
            "tool_prompt_tokens": self.tool_prompt_tokens,
            "user_tokens": self.user_tokens,
            "context_items": [item.to_dict() for item in self.context_items],
            "total_estimated_tokens": self.total_estimated_tokens,
            "context_window": self.context_window,
            "estimated": self.estimated,
            "metadata": plain(self.metadata),
            "created_at": self.created_at,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        return cls(
            run_id=reader.optional_text(source, "run_id"),
            session_id=reader.optional_text(source, "session_id"),
            agent_name=reader.optional_text(source, "agent_name"),
            provider=reader.optional_text(source, "provider"),
            model=reader.optional_text(source, "model"),
            system_tokens=reader.integer(source, "system_tokens"),
            history_tokens=reader.integer(source, "history_tokens"),
            tool_prompt_tokens=reader.integer(source, "tool_prompt_tokens"),
            user_tokens=reader.integer(source, "user_tokens"),
            context_items=tuple(reader.items(source, "context_items", ContextItem.from_dict)),
            context_window=reader.optional_integer(source, "context_window"),
            estimated=reader.flag(source, "estimated", True),
            metadata=reader.mapping(source, "metadata"),
            created_at=reader.moment(source, "created_at"),
        )


class BudgetEffect(OpenEnum):
    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"
    COMPACT = "compact"
    TRUNCATE = "truncate"
    REQUIRE_APPROVAL = "require_approval"


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """What a run has used so far.

    Args:
        costs: Money, one entry a currency, sorted by currency; model calls whose price is not known add nothing.
        cached_input_tokens: Those of `input_tokens` that providers took from their caches.
        reasoning_tokens: Those of `output_tokens` that models used to reason.
    """

    steps: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    runtime_seconds: float = 0.0
    metadata: dict[str, Any] = field(default_factory=dict)
    costs: tuple[Cost, ...] = ()
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def plus(self, other: "BudgetUsage") -> "BudgetUsage":
        """Both together; of metadata that both have, the other's."""
        return BudgetUsage(
            self.steps + other.steps,
            self.llm_calls + other.llm_calls,
            self.tool_calls + other.tool_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.runtime_seconds + other.runtime_seconds,
            self.metadata | other.metadata,
            sum_of(self.costs, other.costs) if self.costs or other.costs else (),
            self.cached_input_tokens + other.cached_input_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    def minus(self, earlier: "BudgetUsage | None") -> "BudgetUsage":
        """What came since `earlier`, nothing below 0; the metadata stays."""
        if earlier is None:
            return self
        return BudgetUsage(
            max(self.steps - earlier.steps, 0),
            max(self.llm_calls - earlier.llm_calls, 0),
            max(self.tool_calls - earlier.tool_calls, 0),
            max(self.input_tokens - earlier.input_tokens, 0),
            max(self.output_tokens - earlier.output_tokens, 0),
            max(self.runtime_seconds - earlier.runtime_seconds, 0.0),
            self.metadata,
            difference(self.costs, earlier.costs) if self.costs else (),
            max(self.cached_input_tokens - earlier.cached_input_tokens, 0),
            max(self.reasoning_tokens - earlier.reasoning_tokens, 0),
        )

    def to_dict(self) -> dict[str, Any]:
        """`costs`, `cached_input_tokens` and `reasoning_tokens` are there only where there are any."""
        found: dict[str, Any] = {
            "steps": self.steps,
            "llm_calls": self.llm_calls,
            "tool_calls": self.tool_calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "runtime_seconds": self.runtime_seconds,
            "metadata": plain(self.metadata),
        }
        if self.costs:
            found["costs"] = [each.to_dict() for each in self.costs]
        if self.cached_input_tokens:
            found["cached_input_tokens"] = self.cached_input_tokens
        if self.reasoning_tokens:
            found["reasoning_tokens"] = self.reasoning_tokens
        return found

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = {} if data is None else reader.as_object(data)
        return cls(
            steps=reader.integer(source, "steps"),
            llm_calls=reader.integer(source, "llm_calls"),
            tool_calls=reader.integer(source, "tool_calls"),
            input_tokens=reader.integer(source, "input_tokens"),
            output_tokens=reader.integer(source, "output_tokens"),
            runtime_seconds=reader.optional_seconds(source, "runtime_seconds") or 0.0,
            metadata=reader.mapping(source, "metadata"),
            costs=sum_of(reader.items(source, "costs", Cost.from_dict)),
            cached_input_tokens=reader.integer(source, "cached_input_tokens"),
            reasoning_tokens=reader.integer(source, "reasoning_tokens"),
        )


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    """What a budget says before the next piece of work; `limit_name` is the field of RunBudget that made it say so."""

    effect: BudgetEffect
    limit_name: str | None = None
    observed: float | None = None
    limit: float | None = None
    message: str = ""
    usage: BudgetUsage = field(default_factory=BudgetUsage)
    metadata: dict[str, Any] = field(default_factory=dict)
    timestamp: str = field(default_factory=utc_now)

    @property
    def allowed(self) -> bool:
        """Work may go on; every effect but allow and warn stops it."""
        return self.effect in (BudgetEffect.ALLOW, BudgetEffect.WARN)

    def to_dict(self) -> dict[str, Any]:
        return {
            "effect": str(self.effect),
            "limit_name": self.limit_name,
            "observed": self.observed,
            "limit": self.limit,
            "message": self.message,
            "usage": self.usage.to_dict(),
            "metadata": plain(self.metadata),
            "timestamp": self.timestamp,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        return cls(
            effect=reader.choice(source, "effect", BudgetEffect),
            limit_name=reader.optional_text(source, "limit_name"),
            observed=reader.optional_amount(source, "observed"),
            limit=reader.optional_amount(source, "limit"),
            message=reader.text(source, "message"),
            usage=reader.nested(source, "usage", BudgetUsage.from_dict),
            metadata=reader.mapping(source, "metadata"),
            timestamp=reader.moment(source, "timestamp"),
        )
