"""The context of a run: identity, limits, permissions. Limits and permissions are enforced elsewhere.

`Task.context` has it. In ProtoLink's JSON it is `metadata["run_context"]`, with parts of it under keys of their own.
"""

from dataclasses import InitVar, dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Protocol, Self, TypeVar

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.cost import Cost
from protolink_grpc.models.ids import new_run_id
from protolink_grpc.models.json_form import JsonForm, read_fields
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.kinds import ONLY_IF_SET, Count, Seconds, Time

CONTEXT_KEY = "run_context"


class TaskLike(Protocol):
    """The fields of Task that a context needs. It is a Protocol because Task imports this module."""

    id: str
    metadata: dict[str, Any]
    context: "RunContext | None"
    session_id: str | None
    cancel_reason: str


T = TypeVar("T", bound=TaskLike)


@dataclass(frozen=True, slots=True)
class RunBudget(JsonForm):
    """Limits of a run; None means no limit, 0 forbids.

    Args:
        max_cost: Cost of the run's model calls. A model whose price in this currency is unknown is not called; costs of delegated
            work in another currency do not count.
        max_cost_usd: The same in US dollars: `max_cost_usd=0.50` is `max_cost=Cost(500_000, "USD")`.

    Raises:
        InvalidArgumentError: A limit is negative or of the wrong type; names it.
    """

    max_steps: Count | None = None
    max_llm_calls: Count | None = None
    max_tool_calls: Count | None = None
    max_runtime_seconds: Seconds | None = None
    max_input_tokens: Count | None = None
    max_output_tokens: Count | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    max_cost: Cost | None = field(default=None, metadata=ONLY_IF_SET)
    max_cost_usd: InitVar[float | None] = None

    def __post_init__(self, max_cost_usd: float | None) -> None:
        for name, limit in zip(_COUNTS, _counts_in(self), strict=True):
            if limit is not None:
                reader.check_integer(limit, name)
        if self.max_runtime_seconds is not None:
            reader.check_seconds(self.max_runtime_seconds, "max_runtime_seconds")
        if not isinstance(self.metadata, dict):
            raise InvalidArgumentError("must be an object", field="metadata")
        if not isinstance(self.max_cost, Cost | None):
            raise InvalidArgumentError("must be a Cost", field="max_cost")
        if max_cost_usd is not None:
            if self.max_cost is not None:
                raise InvalidArgumentError("is the same limit as max_cost; give one of them", field="max_cost_usd")
            object.__setattr__(self, "max_cost", _dollars(max_cost_usd))

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object; None means no limits. Unknown keys go into `metadata`.

        The cost limit is an object with `micros` and `currency` in `max_cost`, or a number of US dollars in `max_cost_usd`.
        """
        source = {} if data is None else reader.as_object(data)
        unknown = {key: reader.copy_value(value, key) for key, value in source.items() if key not in _BUDGET_KEYS}
        found = read_fields(cls, source)
        found["metadata"] = unknown | found.get("metadata", {})
        return cls(**found, max_cost_usd=source.get("max_cost_usd"))


def _dollars(units: float) -> Cost:
    reader.check_amount(units, "max_cost_usd")
    try:
        return Cost.of(units)
    except InvalidArgumentError:
        raise InvalidArgumentError("is too much", field="max_cost_usd") from None


_COUNTS = ("max_steps", "max_llm_calls", "max_tool_calls", "max_input_tokens", "max_output_tokens")
_counts_in = attrgetter(*_COUNTS)
_BUDGET_KEYS = frozenset((*(each.name for each in fields(RunBudget)), "max_cost_usd"))


@checks_arguments
@dataclass(frozen=True, slots=True)
class RunContext(JsonForm):
    """The context of one run.

    Args:
        run_id: Id of one execution of a turn; 1 to 128 bytes of printable text if a caller chooses it. Run ids are unique within a
            task; two tasks may share one, and a search by it finds both.
        session_id: Groups runs that share a conversation.
        trace_id: Correlates telemetry across runs and agents.
        workspace_uri: Boundary of the run: a folder, a dataset, an account.
        parent_run_id: The run that delegated this one.
        agent_chain: Names of the agents that handled the run, oldest first.
        permissions: Capability rules; they can narrow what the agent allows, never widen it.
        budget: Limits of the run.
        canceled: A snapshot, not the live cancellation signal.
        metadata: Values of the application.
        cancel_reason: One sentence.
        created_at: ISO 8601 UTC.
        principal: The authenticated caller of the run. The server sets it and overwrites any value of the caller; None before a
            server has received the context.
        scopes: Scopes of the principal's credentials, sorted; set by the server like `principal`.
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
    created_at: Time = field(default_factory=utc_now)
    principal: str | None = field(default=None, metadata=ONLY_IF_SET)
    scopes: tuple[str, ...] = field(default=(), metadata=ONLY_IF_SET)

    def copy(self, **overrides: Any) -> Self:
        """Return a deep copy with the named fields replaced."""
        own: dict[str, Any] = {
            "agent_chain": list(self.agent_chain),
            "permissions": plain(self.permissions),
            "budget": replace(self.budget, metadata=plain(self.budget.metadata)),
            "metadata": plain(self.metadata),
        }
        return replace(self, **(own | overrides))

    def child(self, run_id: str | None = None, agent_name: str | None = None) -> Self:
        """Return the context of a delegated run: a new run id, the same limits.

        The child of a canceled context is canceled.
        """
        made = self.copy(run_id=run_id or new_run_id(), parent_run_id=self.run_id, created_at=utc_now())
        return made.with_agent(agent_name) if agent_name else made

    def with_agent(self, name: str) -> Self:
        """Return a copy whose `agent_chain` ends with `name`."""
        if self.agent_chain and self.agent_chain[-1] == name:
            return self.copy()
        return self.copy(agent_chain=[*self.agent_chain, name])

    def cancel(self, reason: str | None = None) -> Self:
        """Return a canceled copy; without a new reason, it keeps the earlier one."""
        return self.copy(canceled=True, cancel_reason=reason or self.cancel_reason)

    def attach_to_task(self, task: T) -> T:
        """Make a copy of this context the one of `task`, with its session, and return `task`.

        The metadata of `task` loses its keys for the same facts: a context, and ProtoLink's keys for parts of it.
        """
        task.context = self.copy()
        if self.session_id:
            task.session_id = self.session_id
        for key in (CONTEXT_KEY, *(name for name in _MIRRORED if getattr(self, name))):
            task.metadata.pop(key, None)
        return task

    @classmethod
    def from_task(cls, task: TaskLike) -> Self:
        """Return the context of `task`, completed from the top-level metadata keys of older callers; read only.

        A context that the user has written into the metadata, as ProtoLink's scripts do, comes before `task.context`. If the task
        has no context, the run id is the task id. The keys of older callers only fill gaps, except that `canceled` applies if it is
        set anywhere. Keys whose values have an unexpected type belong to the application and are ignored.

        Raises:
            InvalidArgumentError: `metadata["run_context"]` is not a context; names its path.
        """
        own = dict(task.metadata)
        context: Any = task.context or cls(run_id=task.id)
        if CONTEXT_KEY in own:
            try:
                context = cls.from_dict(own[CONTEXT_KEY])
            except InvalidArgumentError as error:
                raise error.within(f"metadata.{CONTEXT_KEY}") from None
        for key, value in (("session_id", task.session_id), ("cancel_reason", task.cancel_reason)):
            if value:
                own.setdefault(key, value)
        found: Self = context.with_loose_keys(own) if own else context
        return found

    @classmethod
    def ensure_task_context(
        cls, task: TaskLike, default_session_id: str | None = None, agent_name: str | None = None
    ) -> Self:
        """Return the context of `task` with a session and with `agent_name` at the end of its chain, after attaching it to `task`.

        A context without a session gets `default_session_id`, or the task id if that is not set.
        """
        context = cls.from_task(task)
        if not context.session_id:
            context = context.copy(session_id=default_session_id or task.id)
        if agent_name:
            context = context.with_agent(agent_name)
        context.attach_to_task(task)
        return context

    def with_loose_keys(self, metadata: dict[str, Any]) -> Self:
        """Return the context, completed from the top-level metadata keys of older callers; see `from_task`."""
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


_MIRRORED = ("run_id", "session_id", "trace_id", "workspace_uri", "parent_run_id", "canceled", "cancel_reason")
"""Fields of a context that ProtoLink repeats under keys of their own."""

_LOOSE_TEXT = {
    "session_id": ("session_id",),
    "trace_id": ("trace_id",),
    "workspace_uri": ("workspace_uri", "workspace"),
    "parent_run_id": ("parent_run_id",),
    "cancel_reason": ("cancel_reason", "cancellation_reason"),
}


_LOOSE_BUDGETS = ("budget", "budgets")


def check_loose_budget(metadata: dict[str, Any], field: str) -> None:
    """Refuse an invalid number in a top-level budget. `from_task` would ignore that whole budget and the run would be unlimited.

    Raises:
        InvalidArgumentError: A limit is invalid; names its path below `field`.
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
            raise error.within(f"{field}.{key}") from None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _loose_budget(metadata: dict[str, Any]) -> RunBudget | None:
    for key in _LOOSE_BUDGETS:
        if isinstance(metadata.get(key), dict):
            try:
                return RunBudget.from_dict(metadata[key])
            except InvalidArgumentError:
                continue  # a budget of the application in another format
    return None
