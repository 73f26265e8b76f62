"""The settings of an agent in groups, and the adapter for settings that are given by their flat names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypedDict

from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.auth.credentials import Credentials
from protolink_grpc.auth.principal import Authenticate
from protolink_grpc.auth.rate import RateLimit
from protolink_grpc.auth.rules import Admission
from protolink_grpc.compat.protolink.transports import Transport
from protolink_grpc.edges.grpc.app import ServerOptions
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.errors import InvalidArgumentError, UnimplementedError
from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.context_policy import ContextSetting
from protolink_grpc.llms.hooks import AgentHooks
from protolink_grpc.llms.loop_host import InferSettings
from protolink_grpc.models.arguments import checks_fields
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.policy.capabilities import Policy
from protolink_grpc.reports import RunStore
from protolink_grpc.runtime.actions.approval_answers import ApprovalHandler
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.log import AppendObserver
from protolink_grpc.runtime.recovery import Recovery
from protolink_grpc.state import State, Storage
from protolink_grpc.telemetry.base import Telemetry
from protolink_grpc.tools.runner import MAX_WORKERS


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The language model of an agent.

    Args:
        llm: The model for `infer` parts and user messages: a result of `create_llm`, or its argument, such as "openai:gpt-4o".
        system_prompt: Instructions for the model.
        infer: Limits and options of the inference loop.
        context_policy: Limits of the model's prompts; "auto" follows the model's context window. None means no limits.
        hooks: Functions that see and change the calls of the model, the results of tools, and the final answer.
    """

    llm: LLM | str | None = None
    system_prompt: str | None = None
    infer: InferSettings | None = None
    context_policy: ContextSetting = "auto"
    hooks: AgentHooks | None = None


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """The state of an agent across tasks.

    Args:
        storage: The storage of the state. Without `state`, conversations are stored in it.
        state: Names of modules (`conversation`, `tools`), or a State. Without both, the agent remembers nothing.
    """

    storage: Storage | None = None
    state: State | Iterable[str] | str | None = None


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConfig:
    """How tools run, and how the card lists them.

    Args:
        tool_timeout_s: Default timeout of a tool call, in seconds.
        max_sync_workers: Maximum number of threads for tools that are not async. Further calls wait for a thread.
        skills: "auto" lists every tool as a skill; "fixed" does not change the card's skills.
    """

    tool_timeout_s: float | None = None
    max_sync_workers: int = MAX_WORKERS
    skills: Literal["auto", "fixed"] = "auto"


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyConfig:
    """Policy, approvals and budget of actions, and redaction of their output.

    Args:
        policy: Decides about the agent's actions; by default everything is allowed that the caller's permissions allow.
        approval_handler: Answers approvals in this process.
        approvals: Lets others answer approvals over ControlService, also after a restart. Without both, an action that needs an
            approval fails.
        budget: Limits of each task, which callers can only reduce.
        redaction: What is removed from approvals and reports when they are shown; by default passwords, keys and tokens.
        expose_errors: Whether callers see the text of exceptions that the agent's code raises.
    """

    policy: Policy | None = None
    approval_handler: ApprovalHandler | None = None
    approvals: Approvals | None = None
    budget: RunBudget | None = None
    redaction: RedactionPolicy | None = None
    expose_errors: bool = True


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ServingConfig:
    """The ports of an agent, authentication and access.

    Args:
        http: Address of an additional HTTP port: `host:port`, a port of 127.0.0.1, or HttpOptions. It serves A2A, ProtoLink's
            routes and WebSocket, Connect, gRPC-Web, health and metrics. An agent with an `http://` URL has only this port and no
            gRPC port.
        a2a: Options of A2A over gRPC and HTTP; False turns A2A off.
        authenticator: Authenticates callers on every port: APIKeyAuth, BasicAuth, BearerTokenAuth, or your own function.
        access: Decides which caller may call which method, for instance AccessRules.
        rate_limit: Limits the calls of each principal.
        server: Options of the gRPC server.
        tls: Certificates for `grpcs://` and `https://` URLs and for calls to peers.
        listen: The address to listen on if it differs from the card's URL, for instance `grpc://0.0.0.0:50051` behind the card's
            `grpc://agent.example:50051`. Without a scheme it has the card's. The card's port 0 is replaced by the actual port.
        grace_s: How long `stop` waits for runs, in seconds.
        typed: Serve the tools as a protobuf service of their own: the .proto file that `plgrpc proto export` has written, or only
            a package such as `acme.calculator.v1`.
    """

    http: HttpOptions | str | int | None = None
    a2a: A2AOptions | bool = True
    authenticator: Authenticate | None = None
    access: Admission | None = None
    rate_limit: RateLimit | None = None
    server: ServerOptions | None = None
    tls: TLSConfig | None = None
    listen: str | None = None
    grace_s: float = 5.0
    typed: str | Path | None = None


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """How an agent calls its peers and its registry.

    Args:
        credentials: Credentials for trusted peers: see `trusted_peers` and `trust_registry`. By default no peer is trusted,
            because a peer's URL may come from a model, a caller or a registry.
        trusted_peers: URLs, compared by scheme, host and port (`grpcs://bank.example:443`), and names in the registry. These peers
            receive `credentials` and `metadata`. A name requires a registry that authenticates registrations and is reached over
            TLS, on this machine, or in this process.
        trust_registry: Trust every agent in the registry.
        metadata: Pairs sent with every call to trusted peers and to the registry. A given RegistryClient or Registry sends its own.
        lease_ttl_s: Length of the lease in the registry.
    """

    credentials: Credentials | None = None
    trusted_peers: Iterable[str] = ()
    trust_registry: bool = False
    metadata: Sequence[tuple[str, str]] = ()
    lease_ttl_s: float = 30.0


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """Limits, recovery and storage of runs.

    Args:
        limits: Limits of working and waiting runs and of their memory. By default 100 runs work concurrently and 1,000 may wait.
            The card's `max_concurrency` is only a hint for callers.
        recovery: What happens to runs of a process that has died: "lost" fails them, "resume" continues them, "auto" continues them
            unless the agent has its own handler. See `Recovery`.
        run_store: A SQLiteRunStore, whose file is then the agent's store; or your own RunStore in addition to `store`, whose
            `save_task` and `save_report` are called after each run, see `RunStore`.
        observers: Functions that are called with all that this agent commits to the logs of its tasks, for telemetry. See
            `AppendObserver`.
        telemetry: Receives the agent's runs, model calls and actions through hooks that cannot disturb them. See `Telemetry`.
    """

    limits: Limits | None = None
    recovery: Recovery = "auto"
    run_store: RunStore | None = None
    observers: Sequence[AppendObserver] = ()
    telemetry: Telemetry | None = None


class FlatSettings(TypedDict, total=False):
    """The settings of all groups by their own names, as in ProtoLink's documentation, and the names that only ProtoLink has.

    Each has the type of its group. `llm`, `system_prompt`, `storage`, `state` and `telemetry` are parameters of `Agent`.
    """

    infer: InferSettings | None
    context_policy: ContextSetting
    hooks: AgentHooks | None
    tool_timeout_s: float | None
    max_sync_workers: int
    skills: Literal["auto", "fixed"]
    policy: Policy | None
    approval_handler: ApprovalHandler | None
    approvals: Approvals | None
    budget: RunBudget | None
    redaction: RedactionPolicy | None
    expose_errors: bool
    http: HttpOptions | str | int | None
    a2a: A2AOptions | bool
    authenticator: Authenticate | None
    access: Admission | None
    rate_limit: RateLimit | None
    server: ServerOptions | None
    tls: TLSConfig | None
    listen: str | None
    grace_s: float
    typed: str | Path | None
    credentials: Credentials | None
    trusted_peers: Iterable[str]
    trust_registry: bool
    metadata: Sequence[tuple[str, str]]
    lease_ttl_s: float
    limits: Limits | None
    recovery: Recovery
    run_store: RunStore | None
    observers: Sequence[AppendObserver]

    verbosity: Any
    discovery_ttl: Any
    durability: Any
    execution_version: Any
    expose_chat: Any
    expose_tool_results: Any
    knowledge: Any
    llm_factory: Any
    logger: Any
    override_system_prompt: Any
    registry_heartbeat_interval: Any
    retrieval: Any
    subagent_limits: Any
    subagents: Any
    sync_execution: Any
    yield_after_steps: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The settings of an agent, except for its card, tools, store and registry."""

    model: ModelConfig = field(default_factory=ModelConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    tooling: ToolConfig = field(default_factory=ToolConfig)
    safety: SafetyConfig = field(default_factory=SafetyConfig)
    serving: ServingConfig = field(default_factory=ServingConfig)
    peering: PeerConfig = field(default_factory=PeerConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)

    def with_flat(self, given: Mapping[str, Any]) -> "AgentConfig":
        """Return these settings with those that are given by their flat names.

        Raises:
            TypeError: The setting does not exist.
            UnimplementedError: A setting of ProtoLink is not implemented yet; None is accepted.
            InvalidArgumentError: A setting has a wrong type, or its group has another value; names the setting.
        """
        changes: dict[str, dict[str, Any]] = {}
        for name, value in given.items():
            group = GROUP_OF.get(name)
            if group is None:
                _check_later(name, value)
            elif value is not _default_of(group, name):
                if getattr(getattr(self, group), name) is not _default_of(group, name):
                    raise InvalidArgumentError(f"is given twice: once more in {group}=", field=name)
                changes.setdefault(group, {})[name] = value
        return replace(self, **{group: replace(getattr(self, group), **own) for group, own in changes.items()})

    def with_transport(self, transport: Transport) -> "AgentConfig":
        """Return these settings with those of a transport object. Raises InvalidArgumentError for a setting that is given twice."""
        given = {"authenticator": transport.authenticator, "tls": transport.tls}
        return self.with_flat({name: value for name, value in given.items() if value is not None})


GROUPS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {
        "model": ModelConfig,
        "memory": MemoryConfig,
        "tooling": ToolConfig,
        "safety": SafetyConfig,
        "serving": ServingConfig,
        "peering": PeerConfig,
        "runtime": RuntimeConfig,
    }
)
"""The groups by the names that they have in AgentConfig and among the arguments of `Agent`."""

_FIELDS: Final[Mapping[str, tuple[str, Field[Any]]]] = MappingProxyType(
    {each.name: (group, each) for group, kind in GROUPS.items() for each in fields(kind)}
)

GROUP_OF: Final[Mapping[str, str]] = MappingProxyType({name: group for name, (group, _) in _FIELDS.items()})
"""The group of each setting; no two groups have a setting of the same name."""

MEANINGLESS: Final = frozenset({"verbosity"})
"""Names of ProtoLink's that are accepted and ignored: nothing depends on how much an agent prints."""

LATER: Final = FlatSettings.__annotations__.keys() - GROUP_OF.keys() - MEANINGLESS
"""Names of ProtoLink's that this version does not implement. Accepting and ignoring a policy would be worse than refusing it."""


def _default_of(group: str, name: str) -> Any:
    found = _FIELDS[name][1].default
    if found is MISSING:
        raise AssertionError(f"{group}.{name} has no default")
    return found


def _check_later(name: str, value: object) -> None:
    if name not in LATER | MEANINGLESS:
        raise TypeError(f"Agent() got an unexpected keyword argument {name!r}")
    if name in LATER and value is not None:
        raise UnimplementedError(f"Agent({name}=...) is not implemented by this version", argument=name)
