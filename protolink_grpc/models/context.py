"""What travels with a run besides its work: identity, limits, permissions. Nothing here enforces anything.

A RunContext is kept in `task.metadata["run_context"]`; the keys of `_MIRRORED` repeat its parts for older readers.
"""

from dataclasses import InitVar, dataclass, field, fields, replace
from typing import Any, Protocol, Self, TypeVar

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.cost import Cost
from protolink_grpc.models.ids import new_run_id
from protolink_grpc.models.json_value import plain

CONTEXT_KEY = "run_context"


class TaskLike(Protocol):
    """What a context needs of a Task. A Protocol only because Task imports this module, so it cannot be named here."""

    id: str
    metadata: dict[str, Any]


T = TypeVar("T", bound=TaskLike)


@dataclass(frozen=True, slots=True)
class RunBudget:
    """Limits of a run; None means no limit, 0 forbids.

    Args:
        max_cost: Money that its model calls may cost, as far as their prices are known; costs in another currency do not count.
        max_cost_usd: The same in dollars: `max_cost_usd=0.50` is `max_cost=Cost(500_000, "USD")`.

    Raises:
        InvalidArgumentError: A limit is negative, or no number of its kind; names it.
    """

    max_steps: int | None = None
    max_llm_calls: int | None = None
    max_tool_calls: int | None = None
    max_runtime_seconds: float | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    max_cost: Cost | None = None
    max_cost_usd: InitVar[float | None] = None

    def __post_init__(self, max_cost_usd: float | None) -> None:
        for name in _COUNTS:
            limit = getattr(self, name)
            if limit is not None:
                reader.check_integer(limit, name)
        reader.check_seconds(self.max_runtime_seconds, "max_runtime_seconds")
        if not isinstance(self.metadata, dict):
            raise InvalidArgumentError("must be an object", field="metadata")
        if not isinstance(self.max_cost, Cost | None):
            raise InvalidArgumentError("must be a Cost", field="max_cost")
        if max_cost_usd is not None:
            if self.max_cost is not None:
                raise InvalidArgumentError("says the same as max_cost; give one of them", field="max_cost_usd")
            object.__setattr__(self, "max_cost", _dollars(max_cost_usd))

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "max_steps": self.max_steps,
            "max_llm_calls": self.max_llm_calls,
            "max_tool_calls": self.max_tool_calls,
            "max_runtime_seconds": self.max_runtime_seconds,
            "max_input_tokens": self.max_input_tokens,
            "max_output_tokens": self.max_output_tokens,
            "metadata": plain(self.metadata),
        }
        if self.max_cost is not None:
            found["max_cost"] = self.max_cost.to_dict()
        return found

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """The budget of a JSON object, None for no limits; keys that are no limit of ours go into `metadata`.

        Money is an object with `micros` and `currency` in `max_cost`, or a number of dollars in `max_cost_usd`.
        """
        source = {} if data is None else reader.as_object(data)
        unknown = {key: reader.copied(value, key) for key, value in source.items() if key not in _BUDGET_KEYS}
        return cls(
            max_steps=reader.optional_integer(source, "max_steps"),
            max_llm_calls=reader.optional_integer(source, "max_llm_calls"),
            max_tool_calls=reader.optional_integer(source, "max_tool_calls"),
            max_runtime_seconds=reader.optional_seconds(source, "max_runtime_seconds"),
            max_input_tokens=reader.optional_integer(source, "max_input_tokens"),
            max_output_tokens=reader.optional_integer(source, "max_output_tokens"),
            metadata=unknown | reader.mapping(source, "metadata"),
            max_cost=None if source.get("max_cost") is None else reader.nested(source, "max_cost", Cost.from_dict),
            max_cost_usd=source.get("max_cost_usd"),
        )


def _dollars(units: float) -> Cost:
    reader.check_amount(units, "max_cost_usd")
    try:
        return Cost.of(units)
    except InvalidArgumentError:
        raise InvalidArgumentError("is too much", field="max_cost_usd") from None


_COUNTS = ("max_steps", "max_llm_calls", "max_tool_calls", "max_input_tokens", "max_output_tokens")
_BUDGET_KEYS = frozenset((*(each.name for each in fields(RunBudget)), "max_cost_usd"))


@checks_arguments
@dataclass(frozen=True, slots=True)
class RunContext:
    """The envelope of one run.

    Args:
        run_id: One attempt at a task: 1 to 128 bytes of printable text where a caller chooses it. A task never has two runs of one
            id; two tasks may share one, which then are found together by it.
        session_id: Groups runs that share a conversation.
        trace_id: Correlates telemetry, across runs and agents.
        workspace_uri: Boundary of the run: a folder, a dataset, an account.
        parent_run_id: The run that delegated this one.
        agent_chain: Names of the agents that handled the run, oldest first.
        permissions: Capability rules; they can narrow what the agent allows, never widen it.
        budget: Limits of the run.
        canceled: A snapshot; the live signal is elsewhere.
        metadata: What the application sends along.
        cancel_reason: One sentence.
        created_at: ISO 8601 UTC.
        principal: Who asked for the run, and `scopes`, sorted, what the credentials allow: said by the server, whatever a caller
            puts here. None before a server has seen it.
    """

    run_id: str = field(default_factory=new_run_id)
    session_id: str | None = None
    trace_id: str | None = None
    workspace_uri: str | None = None
    parent_run_id: str | None = None
    agent_chain: list[str] = field(default_factory=list)
    permissions: dict[str, Any] = field(default_factory=dict)
    budget: RunBudget = field(default_factory=RunBudget)
    canceled: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    cancel_reason: str | None = None
    created_at: str = field(default_factory=utc_now)
    principal: str | None = None
    scopes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "run_id": self.run_id,
            "session_id": self.session_id,
            "trace_id": self.trace_id,
            "workspace_uri": self.workspace_uri,
            "parent_run_id": self.parent_run_id,
            "agent_chain": list(self.agent_chain),
            "permissions": plain(self.permissions) if self.permissions else {},
            "budget": self.budget.to_dict(),
            "canceled": self.canceled,
            "cancel_reason": self.cancel_reason,
            "metadata": plain(self.metadata) if self.metadata else {},
            "created_at": self.created_at,
        }
        if self.principal is not None:
            found["principal"] = self.principal
        if self.scopes:
            found["scopes"] = list(self.scopes)
        return found

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """The context of a JSON object; a missing run_id is made, unknown keys are skipped.

        Raises:
            InvalidArgumentError: A value of the wrong kind; names its path.
        """
        source = reader.as_object(data)
        return cls(
            run_id=reader.text(source, "run_id") or new_run_id(),
            session_id=reader.optional_text(source, "session_id"),
            trace_id=reader.optional_text(source, "trace_id"),
            workspace_uri=reader.optional_text(source, "workspace_uri"),
            parent_run_id=reader.optional_text(source, "parent_run_id"),
            agent_chain=reader.texts(source, "agent_chain"),
            permissions=reader.mapping(source, "permissions"),
            budget=reader.nested(source, "budget", RunBudget.from_dict),
            canceled=reader.flag(source, "canceled"),
            metadata=reader.mapping(source, "metadata"),
            cancel_reason=reader.optional_text(source, "cancel_reason"),
            created_at=reader.moment(source, "created_at"),
            principal=reader.optional_text(source, "principal"),
            scopes=tuple(reader.texts(source, "scopes")),
        )

    def copy(self, **overrides: Any) -> Self:
        """A deep copy with other values for the named fields."""
        own: dict[str, Any] = {
            "agent_chain": list(self.agent_chain),
            "permissions": plain(self.permissions),
            "budget": replace(self.budget, metadata=plain(self.budget.metadata)),
            "metadata": plain(self.metadata),
        }
        return replace(self, **(own | overrides))

    def child(self, run_id: str | None = None, agent_name: str | None = None) -> Self:
        """The context of a run that this one delegates: a new identity under the same limits.

        A child of a canceled run is canceled.
        """
        made = self.copy(run_id=run_id or new_run_id(), parent_run_id=self.run_id, created_at=utc_now())
        return made.with_agent(agent_name) if agent_name else made

    def with_agent(self, name: str) -> Self:
        """A copy whose chain ends with `name`."""
        if self.agent_chain and self.agent_chain[-1] == name:
            return self.copy()
        return self.copy(agent_chain=[*self.agent_chain, name])

    def cancel(self, reason: str | None = None) -> Self:
        """A canceled copy; without a reason, an earlier one stays."""
        return self.copy(canceled=True, cancel_reason=reason or self.cancel_reason)

    def attach_to_task(self, task: T) -> T:
        """Write the context, and its parts that older readers look for, into the metadata of `task`; returns `task`."""
        found = self.to_dict()
        task.metadata[CONTEXT_KEY] = found
        for key in _MIRRORED:
            if found[key]:
                task.metadata[key] = found[key]
        return task

    @classmethod
    def from_task(cls, task: TaskLike) -> Self:
        """The context of `task`, completed from the loose metadata keys of older callers.

        Without a context the run is named after the task. Loose keys fill gaps, `canceled` holds wherever it is set;
        those of an unexpected kind belong to the application and are skipped.

        Raises:
            InvalidArgumentError: `metadata["run_context"]` is not one; names its path.
        """
        written = task.metadata.get(CONTEXT_KEY)
        if written is None:
            context = cls(run_id=task.id)
        else:
            try:
                context = cls.from_dict(written)
            except InvalidArgumentError as error:
                raise error.within(f"metadata.{CONTEXT_KEY}") from None
        return context._with_loose_keys(task.metadata)

    @classmethod
    def ensure_task_context(
        cls, task: TaskLike, default_session_id: str | None = None, agent_name: str | None = None
    ) -> Self:
        """The context of `task`, given a session (its own id if none) and `agent_name` in its chain, and attached."""
        context = cls.from_task(task)
        if not context.session_id:
            context = context.copy(session_id=default_session_id or task.id)
        if agent_name:
            context = context.with_agent(agent_name)
        context.attach_to_task(task)
        return context

    def _with_loose_keys(self, metadata: dict[str, Any]) -> Self:
        found: dict[str, Any] = {}
        for name, keys in _LOOSE_TEXT.items():
            value = next((metadata[key] for key in keys if _is_text(metadata.get(key))), None)
            if value and not getattr(self, name):
                found[name] = value
        if not self.agent_chain and _is_text(metadata.get("parent_agent")):
            found["agent_chain"] = [metadata["parent_agent"]]
        if not self.permissions and isinstance(metadata.get("permissions"), dict):
            found["permissions"] = plain(metadata["permissions"])
        budget = _loose_budget(metadata)
        if budget is not None and self.budget == RunBudget():
            found["budget"] = budget
        if metadata.get("canceled") is True or metadata.get("cancelled") is True:
            found["canceled"] = True
        return self.copy(**found) if found else self


def attach_plain_context(
    metadata: dict[str, Any], run_id: str, session_id: str, agent_chain: list[str], created_at: str
) -> None:
    """`RunContext.attach_to_task` for a context with nothing but these, in a tenth of the time: every answer has one.

    Args:
        metadata: Of the task; takes over `agent_chain`.
    """
    metadata[CONTEXT_KEY] = {
        "run_id": run_id,
        "session_id": session_id,
        "trace_id": None,
        "workspace_uri": None,
        "parent_run_id": None,
        "agent_chain": agent_chain,
        "permissions": {},
        "budget": {**_NO_BUDGET, "metadata": {}},
        "canceled": False,
        "cancel_reason": None,
        "metadata": {},
        "created_at": created_at,
    }
    metadata["run_id"] = run_id
    metadata["session_id"] = session_id


_NO_BUDGET = RunBudget().to_dict()

_MIRRORED = ("run_id", "session_id", "trace_id", "workspace_uri", "parent_run_id", "canceled", "cancel_reason")

_LOOSE_TEXT = {
    "session_id": ("session_id",),
    "trace_id": ("trace_id",),
    "workspace_uri": ("workspace_uri", "workspace"),
    "parent_run_id": ("parent_run_id",),
    "cancel_reason": ("cancel_reason", "cancellation_reason"),
}


_LOOSE_BUDGETS = ("budget", "budgets")


def check_loose_budget(metadata: dict[str, Any]) -> None:
    """Refuse a loose budget with a number that is no limit: skipped as somebody else's, it would limit nothing.

    Raises:
        InvalidArgumentError: Names the limit.
    """
    for key in _LOOSE_BUDGETS:
        if key not in metadata:
            continue
        found = metadata[key]
        limits = {name: found[name] for name in _BUDGET_KEYS & found.keys()} if isinstance(found, dict) else {}
        numbers = {name: value for name, value in limits.items() if isinstance(value, int | float)}
        if isinstance(limits.get("max_cost"), dict):
            numbers["max_cost"] = limits["max_cost"]
        try:
            RunBudget.from_dict(numbers)
        except InvalidArgumentError as error:
            raise error.within(f"input.metadata_json.{key}") from None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _loose_budget(metadata: dict[str, Any]) -> RunBudget | None:
    for key in _LOOSE_BUDGETS:
        if isinstance(metadata.get(key), dict):
            try:
                return RunBudget.from_dict(metadata[key])
            except InvalidArgumentError:
                continue  # an application's own budget
    return None
