"""What a user can configure about an agent, in groups, and the one adapter for settings that are given by their flat names.

What a setting does is decided where it is used.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypedDict

from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.auth.credentials import Credentials
from protolink_grpc.auth.principal import Authenticate
from protolink_grpc.auth.rate import RateLimit
from protolink_grpc.auth.rules import Admission
from protolink_grpc.edges.grpc.app import ServerOptions
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.errors import InvalidArgumentError, UnimplementedError
from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.loop_host import InferSettings
from protolink_grpc.models.arguments import checks_fields
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.policy.capabilities import Policy
from protolink_grpc.reports import RunStore
from protolink_grpc.runtime.actions.approvals import ApprovalHandler, Approvals
from protolink_grpc.runtime.recovery import Recovery
from protolink_grpc.runtime.service import Limits
from protolink_grpc.state import State, Storage
from protolink_grpc.tools.runner import MAX_WORKERS


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The language model of an agent.

    Args:
        llm: Answers infer parts and what users say: what `create_llm` makes, or its argument, for instance "openai:gpt-4o".
        system_prompt: Instructions to it.
        infer: Bounds and manners of the inference loop.
    """

    llm: LLM | str | None = None
    system_prompt: str | None = None
    infer: InferSettings | None = None


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """What an agent remembers between tasks.

    Args:
        storage: Where it remembers; with it and without `state`, it remembers conversations.
        state: What it remembers: names of modules (`conversation`, `tools`), or a State. Without both, nothing.
    """

    storage: Storage | None = None
    state: State | Iterable[str] | str | None = None


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConfig:
    """How tools run, and how the card shows them.

    Args:
        tool_timeout_s: Limit of one tool call where the tool has none of its own.
        max_sync_workers: Threads for tools that are not async, started when they are needed; further calls wait for one.
        skills: "auto" advertises every tool as a skill; "fixed" leaves the card's skills alone.
    """

    tool_timeout_s: float | None = None
    max_sync_workers: int = MAX_WORKERS
    skills: Literal["auto", "fixed"] = "auto"


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyConfig:
    """What the actions of an agent may do, and what others see of them.

    Args:
        policy: What the agent's actions may do; by default everything that the caller's permissions allow.
        approval_handler: Answers, in this process, what policy wants approved.
        approvals: Lets others answer, over ControlService, also after a restart. With neither, such an action fails.
        budget: Limits of each task, which callers can only lower.
        redaction: What is struck out of approvals and reports that are shown; passwords, keys and tokens by default.
        expose_errors: Whether callers see the text of exceptions that this agent's code raises.
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
    """How an agent is reached, and by whom.

    Args:
        http: Where to listen for HTTP, too: `host:port`, a port of 127.0.0.1, or HttpOptions. It serves A2A, ProtoLink's routes
            and WebSocket, health and metrics. An agent whose URL is `http://` listens there and on no gRPC port.
        a2a: How it behaves as an A2A agent, over gRPC and HTTP; False makes it none.
        authenticator: Who calls, on every edge: APIKeyAuth, BasicAuth, BearerTokenAuth, or a hook of one's own.
        access: What an identified caller may call, by method; AccessRules for instance.
        rate_limit: How often each principal may call.
        server: How the gRPC server behaves.
        tls: Certificates, for `grpcs://` and `https://` URLs and for calls to peers.
        listen: Where to listen when others reach the agent elsewhere than there, for instance `grpc://0.0.0.0:50051` behind the
            card's `grpc://agent.example:50051`. Without a scheme it has the card's; the card's port 0 becomes the port taken.
        grace_s: How long `stop` lets runs finish.
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


@checks_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """How an agent calls its peers and its registry.

    Args:
        credentials: What the agent shows to the peers that it trusts: see `trusted_peers` and `trust_registry`. By default that is
            no peer, because the URL of one may come from a model, a caller or a registry.
        trusted_peers: URLs, of which scheme, host and port count (`grpcs://bank.example:443`), and names in the registry. Peers
            there are sent `credentials` and `metadata`. A name needs a registry that authenticates registrations and is reached
            over TLS, on this machine, or in this process.
        trust_registry: Every agent in that registry is trusted like one in `trusted_peers`.
        metadata: Pairs sent with every call to trusted peers and to the registry, for instance credentials. A RegistryClient or
            Registry that is passed in sends its own.
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
    """How runs are bounded, recovered and kept.

    Args:
        limits: Bounds of the runtime: runs that work and wait, bytes that they hold. By default 100 runs work at once and 1,000 may
            wait; the card's `max_concurrency` is advertised and bounds nothing.
        recovery: What becomes of runs that a dead process left behind: "lost" fails them, "resume" goes on with them, "auto" does
            so unless the agent has a handler of its own. See `Recovery`.
        run_store: A SQLiteRunStore, a view over the agent's store, which is then the file of `run_store`. Or a RunStore of your own
            beside `store`: its `save_task` and `save_report` are called after each run, see `RunStore`.
    """

    limits: Limits | None = None
    recovery: Recovery = "auto"
    run_store: RunStore | None = None


class FlatSettings(TypedDict, total=False):
    """The settings of all groups by their own names, as ProtoLink's documents write them, and the names that only ProtoLink has.

    Each has the type that it has in its group. `llm`, `system_prompt`, `storage` and `state` are parameters of `Agent`.
    """

    infer: InferSettings | None
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
    credentials: Credentials | None
    trusted_peers: Iterable[str]
    trust_registry: bool
    metadata: Sequence[tuple[str, str]]
    lease_ttl_s: float
    limits: Limits | None
    recovery: Recovery
    run_store: RunStore | None

    verbosity: Any
    context_policy: Any
    discovery_ttl: Any
    durability: Any
    execution_version: Any
    expose_chat: Any
    expose_tool_results: Any
    hooks: Any
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
    """Everything that is configured about one agent besides its card, tools, store and registry."""

    model: ModelConfig = field(default_factory=ModelConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    tooling: ToolConfig = field(default_factory=ToolConfig)
    safety: SafetyConfig = field(default_factory=SafetyConfig)
    serving: ServingConfig = field(default_factory=ServingConfig)
    peering: PeerConfig = field(default_factory=PeerConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)

    def with_flat(self, given: Mapping[str, Any]) -> "AgentConfig":
        """These settings, and those that are given by their flat names.

        Raises:
            TypeError: No agent has a setting of that name.
            UnimplementedError: A setting of ProtoLink's belongs to a part that does not exist yet; None is accepted.
            InvalidArgumentError: A setting is of a wrong kind, or its group has another value for it; names the setting.
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

LATER: Final = FlatSettings.__annotations__.keys() - GROUP_OF.keys() - MEANINGLESS | {"telemetry"}
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
