"""Values of the action gate: actions, policy decisions, approvals, prompt sizes and budgets. The decisions are made elsewhere."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, TypeGuard

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.cost import Cost, difference, sum_of
from protolink_grpc.models.ids import new_action_id, new_request_id
from protolink_grpc.models.json_form import JsonForm, read_fields, to_object
from protolink_grpc.models.json_value import plain, sorted_json
from protolink_grpc.models.kinds import ONLY_IF_SET, REQUIRED, Amount, Count, Name, Seconds, Time
from protolink_grpc.models.open_enum import OpenEnum


@checks_arguments
@dataclass(frozen=True, slots=True)
class RunAction(JsonForm):
    """One concrete operation, ready to be executed.

    Args:
        kind: Kind of operation, for instance `tool.call` or `agent.call`; not blank.
        name: Name of the tool or agent; not blank.
        payload: Validated arguments and target.
        capabilities: Capabilities that the policy must allow.
        artifacts: Previews for the approver; they perform nothing.
        call_id: Tool call of a model or a caller that requested the action; empty means that the agent's own code did.
    """

    kind: Name
    name: Name
    payload: dict[str, Any] = field(default_factory=dict)
    capabilities: frozenset[str] = frozenset()
    artifacts: tuple[Artifact, ...] = ()
    description: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    action_id: str = field(default_factory=new_action_id)
    created_at: Time = field(default_factory=utc_now)
    call_id: str = field(default="", metadata=ONLY_IF_SET)

    def __post_init__(self) -> None:
        for name, value in (("kind", self.kind), ("name", self.name)):
            if not value or value.isspace():
                raise InvalidArgumentError("must be a non-empty string", field=name)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; `call_id` is omitted if it is empty."""
        return {"action_id": self.action_id} | to_object(self)  # `action_id` is the first key

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all fields except `call_id`, as hex; computed on each access. Equal only if all these fields are equal."""
        prepared = to_object(self)
        prepared.pop("call_id", None)
        return hashlib.sha256(sorted_json(prepared).encode()).hexdigest()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call: `payload["arguments"]`, or the payload itself if that key holds no dict."""
        arguments = self.payload.get("arguments")
        return arguments if isinstance(arguments, dict) else self.payload

    def with_artifacts(self, artifacts: Iterable[Artifact]) -> Self:
        """Return a copy of the action with copies of these artifacts added, whose `action_id` is set to this action's id."""
        stamped = (replace(each, action_id=self.action_id) for each in artifacts)
        return replace(self, artifacts=(*self.artifacts, *stamped))

    def with_capabilities(self, capabilities: Iterable[str]) -> Self:
        """Return a copy that also needs these capabilities."""
        return replace(self, capabilities=self.capabilities | frozenset(capabilities))

    def with_payload(self, payload: dict[str, Any]) -> Self:
        """Return a copy of the action with a deep copy of this payload."""
        return replace(self, payload=plain(payload))


class PolicyEffect(OpenEnum):
    ALLOW = "allow"
    DENY = "deny"
    REQUIRE_APPROVAL = "require_approval"


MAX_EXPIRES_S: Final = 1e9
"""Maximum lifetime of an approval: about thirty years, so that its end still has a date."""


def is_lifetime(value: object) -> TypeGuard[float]:
    """Whether the value is a number of seconds above 0, at most MAX_EXPIRES_S."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_EXPIRES_S


@dataclass(frozen=True, slots=True)
class PolicyDecision(JsonForm):
    """The decision of a policy about one action.

    Args:
        matched_capabilities: The capabilities that caused it.
        metadata: Facts. The keys `editable`, `expires_s`, `sources` and `rule` are also read by the properties of these names; the
            contract has fields for them.
    """

    effect: PolicyEffect
    reason: str = ""
    policy_name: str = ""
    matched_capabilities: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def editable(self) -> bool:
        """Whether the approver may change the arguments."""
        return self.metadata.get("editable") is True

    @property
    def expires_s(self) -> float | None:
        """Seconds until an undecided approval expires, above 0, at most MAX_EXPIRES_S; None means that the policy sets no time."""
        seconds = self.metadata.get("expires_s")
        return seconds if is_lifetime(seconds) else None

    @property
    def sources(self) -> tuple[str, ...]:
        """What the decision is based on: `policy` (the agent's policy) and `context` (the run's permissions)."""
        sources = self.metadata.get("sources")
        return tuple(map(str, sources)) if isinstance(sources, list | tuple) else ()

    @property
    def rule(self) -> str:
        """The rule with this effect, as written in the policy or the context, or `default`; empty if no single rule decided."""
        rule = self.metadata.get("rule")
        return rule if isinstance(rule, str) else ""


@dataclass(frozen=True, slots=True)
class ApprovalRequest(JsonForm):
    """A request for a person's decision about `action`. `request_id` is the id of the approval; the answer repeats it.

    Args:
        task_id: The waiting task.
        expires_at: ISO 8601 UTC; from this time on the request counts as denied. None means that it does not expire.
        editable: The answer may replace the arguments.
        uncertain: An earlier run began the action, and its outcome is not known: to approve means to run it again.
    """

    action: RunAction
    policy_decision: PolicyDecision
    run_id: str | None = None
    request_id: str = field(default_factory=new_request_id)
    created_at: Time = field(default_factory=utc_now)
    metadata: dict[str, Any] = field(default_factory=dict)
    task_id: str = ""
    expires_at: Time | None = None
    editable: bool = False
    uncertain: bool = field(default=False, metadata=ONLY_IF_SET)


class ApprovalState(OpenEnum):
    """The state of an approval."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    """No answer arrived in time; the request counts as denied."""
    WITHDRAWN = "withdrawn"
    """The task ended before an answer arrived."""


@dataclass(frozen=True, slots=True)
class ApprovalDecision(JsonForm):
    """The answer to one ApprovalRequest. `approved` and `request_id` have no defaults in JSON.

    Args:
        edited_arguments: Replacement of the requested arguments; None leaves them unchanged, {} runs without arguments.
        fingerprint: `Approval.etag` as shown to the approver. Empty means that it is not compared.
        expired: No answer arrived in time. Only the runtime sets it.
    """

    approved: bool
    request_id: Name
    reason: str = ""
    decided_by: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    decided_at: Time = field(default_factory=utc_now)
    edited_arguments: dict[str, Any] | None = None
    fingerprint: str = ""
    expired: bool = field(default=False, metadata=ONLY_IF_SET)

    @property
    def state(self) -> ApprovalState:
        """State of the approval after this answer: approved, denied, or expired for a denial because of the time."""
        if self.approved:
            return ApprovalState.APPROVED
        return ApprovalState.EXPIRED if self.expired else ApprovalState.DENIED


@dataclass(frozen=True, slots=True)
class Approval(JsonForm):
    """A request for approval with its state and answer.

    Args:
        decision: The answer; None while the request is pending, and if it was withdrawn.
        fingerprint: Fingerprint of the original action, if the action in `request` is redacted. Empty means that of the action in
            `request`.
    """

    request: ApprovalRequest
    state: ApprovalState = field(default=ApprovalState.PENDING, metadata=REQUIRED)
    decision: ApprovalDecision | None = None
    fingerprint: str = ""

    @property
    def approval_id(self) -> str:
        return self.request.request_id

    @property
    def etag(self) -> str:
        """Version of the requested action; an approving answer sends it back."""
        return self.fingerprint or self.request.action.fingerprint

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; its `fingerprint` is the etag."""
        return to_object(self) | {"fingerprint": self.etag}


@dataclass(frozen=True, slots=True)
class ContextItem(JsonForm):
    """One section of a prompt and its estimated size in tokens."""

    kind: Name
    name: str = ""
    tokens: Count = 0
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OmittedContext(JsonForm):
    """Something that a prompt leaves out.

    Args:
        kind: `message`, `turn`, `tool_result`, `file`, `part`, `artifact`, ...
        ref: Id of a message, a tool call, a model call or an artifact, or `<message id>/<index of the part>`; empty if it has none.
        reason: `context_window`, `too_large`, `unsupported`, `hook`, `limit`, ...
        tokens: Estimated tokens that are left out; None if unknown.
    """

    kind: Name
    ref: str = ""
    reason: str = ""
    tokens: Count | None = None


MAX_OMITTED: Final = 100
"""Maximum number of `OmittedItems.items`."""


@dataclass(frozen=True, slots=True)
class OmittedItems(JsonForm):
    """The things that a prompt leaves out.

    Args:
        items: The newest ones, oldest first, at most MAX_OMITTED.
        count: Number of all of them.
    """

    items: tuple[OmittedContext, ...] = ()
    count: Count = 0


PURPOSE = "purpose"


@dataclass(frozen=True, slots=True)
class ContextManifest(JsonForm):
    """Size of a prompt in tokens, before it is sent. `system_tokens` includes the tool prompt; the total counts it once.

    The key `purpose` of `metadata` is set for a prompt outside of the agent's inference, such as a summary of its conversation.
    Such a prompt offers no tools and leaves nothing out.
    """

    run_id: str | None = None
    session_id: str | None = None
    agent_name: str | None = None
    provider: str | None = None
    model: str | None = None
    system_tokens: Count = 0
    history_tokens: Count = 0
    tool_prompt_tokens: Count = 0
    user_tokens: Count = 0
    context_items: tuple[ContextItem, ...] = ()
    context_window: Count | None = None
    estimated: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: Time = field(default_factory=utc_now)

    @property
    def purpose(self) -> str:
        """Of a prompt outside of the agent's inference; empty for one of the inference."""
        found = self.metadata.get(PURPOSE)
        return found if isinstance(found, str) else ""

    @property
    def total_estimated_tokens(self) -> int:
        system = max(self.system_tokens - self.tool_prompt_tokens, 0)
        return system + self.tool_prompt_tokens + self.history_tokens + self.user_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form with the computed total, which `from_dict` ignores."""
        return to_object(self) | {"total_estimated_tokens": self.total_estimated_tokens}


class BudgetEffect(OpenEnum):
    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"
    COMPACT = "compact"
    TRUNCATE = "truncate"
    REQUIRE_APPROVAL = "require_approval"


@dataclass(frozen=True, slots=True)
class BudgetUsage(JsonForm):
    """The resources that a run has used so far.

    Args:
        costs: One entry per currency, sorted by currency; model calls with an unknown price add nothing.
        cached_input_tokens: Part of `input_tokens` that providers read from their caches.
        reasoning_tokens: Part of `output_tokens` that models used for reasoning.
    """

    steps: Count = 0
    llm_calls: Count = 0
    tool_calls: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    runtime_seconds: Seconds = 0.0
    metadata: dict[str, Any] = field(default_factory=dict)
    costs: tuple[Cost, ...] = field(default=(), metadata=ONLY_IF_SET)
    cached_input_tokens: Count = field(default=0, metadata=ONLY_IF_SET)
    reasoning_tokens: Count = field(default=0, metadata=ONLY_IF_SET)

    def plus(self, other: "BudgetUsage") -> "BudgetUsage":
        """Return the sum; for metadata keys in both, the value of `other` wins."""
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
        """Return the increase since `earlier`, each amount at least 0, with the metadata of this usage."""
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

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object; None is an empty usage. Costs in the same currency are added up."""
        found = read_fields(cls, {} if data is None else data)
        return cls(**found | {"costs": sum_of(found.get("costs", ()))})


@dataclass(frozen=True, slots=True)
class BudgetDecision(JsonForm):
    """The decision of a budget before the next step of a run. `limit_name` is the field of RunBudget that caused it."""

    effect: BudgetEffect
    limit_name: str | None = None
    observed: Amount | None = None
    limit: Amount | None = None
    message: str = ""
    usage: BudgetUsage = field(default_factory=BudgetUsage)
    metadata: dict[str, Any] = field(default_factory=dict)
    timestamp: Time = field(default_factory=utc_now)

    @property
    def allowed(self) -> bool:
        """Whether the run may continue: true for allow and warn only."""
        return self.effect in (BudgetEffect.ALLOW, BudgetEffect.WARN)
