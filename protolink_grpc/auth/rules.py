"""What an identified caller may call: scopes by method, and checks put together."""

import re
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import InvalidArgumentError, PermissionDeniedError
from protolink_grpc.models.arguments import checks_arguments

Demand: TypeAlias = str | Iterable[str] | bool
"""A scope, or several that are all needed; True lets every identified caller in, False nobody."""

SENDS_A_TASK = {"/plgrpc.v1.ControlService/CallTool": "/plgrpc.v1.AgentService/SendTask"}
"""Methods that need what another one needs, because they do the same: a tool that is called is a task that is sent."""

MAX_METHODS = 1024
"""Methods whose rule is remembered: more than any server has."""


class Admission(Protocol):
    """Whether an identified caller may call a method, a full gRPC name, now.

    Raises:
        PermissionDeniedError, ResourceExhaustedError: It may not, or not now.
    """

    def __call__(self, method: str, principal: Principal) -> None: ...


@checks_arguments
class AccessRules:
    """Scopes that methods demand. Methods have full gRPC names on every edge: `/package.Service/Method`.

    The same work may be asked for by several services (both versions of A2A, ProtoLink's own): `*/CancelTask` means all of them. A
    message that registers a webhook, or that answers an approval, needs the right to `*/CreateTaskPushNotificationConfig`, or to
    `/plgrpc.v1.ControlService/RespondApproval`, too.

    `ControlService/CallTool` sends a task, so it needs what `AgentService/SendTask` needs, unless a pattern names its method, such
    as `*/CallTool`. `/plgrpc.v1.ControlService/*` alone does not.

    Args:
        rules: Pattern -> Demand. A pattern is a full name, in which `*` stands for any text within the service or the method:
            `/plgrpc.v1.ControlService/*`, `*/CancelTask`, `*`. Of several that match, the one that says more of the method
            counts, then the one that says more of the service, then the first.
        default: For methods that no pattern matches.

    Raises:
        InvalidArgumentError: A pattern that can never match; names it.
    """

    def __init__(self, rules: Mapping[str, Demand], default: Demand = True) -> None:
        patterns = [_Pattern(pattern, _scopes(demand, f"rules.{pattern}")) for pattern, demand in rules.items()]
        self._patterns = sorted(patterns, key=lambda each: each.rank, reverse=True)
        self._default = _scopes(default, "default")
        self._found: dict[str, frozenset[str] | None] = {}

    def __call__(self, method: str, principal: Principal) -> None:
        try:
            demand = self._found[method]
        except KeyError:
            demand = self._look_up(method)
        if demand is None:
            raise PermissionDeniedError(f"{method} is closed", method=method)
        if not demand <= principal.scopes:
            missing = " ".join(sorted(demand - principal.scopes))
            raise PermissionDeniedError(f"{method} needs the scope {missing}", method=method, scope=missing)

    def _look_up(self, method: str) -> frozenset[str] | None:
        pattern = next((each for each in self._patterns if each.matches(method)), None)
        if method in SENDS_A_TASK and (pattern is None or not pattern.names_method):
            demand = self._look_up(SENDS_A_TASK[method])
        else:
            demand = self._default if pattern is None else pattern.demand
        if len(self._found) < MAX_METHODS:
            self._found[method] = demand
        return demand


class _Pattern:
    """`rank` orders patterns by how much they say, `names_method` is whether the method is more than `*`.

    `demand` is None where nobody may.
    """

    def __init__(self, pattern: str, demand: frozenset[str] | None) -> None:
        service, slash, method = ("*", "/", "*") if pattern == "*" else pattern.rpartition("/")
        if not slash or not method or "/" in service[1:] or service[:1] not in ("/", "*"):
            raise InvalidArgumentError(
                "must look like /package.Service/Method; `*` may stand for parts of it", field=f"rules.{pattern}"
            )
        self.demand = demand
        self.names_method = bool(method.replace("*", ""))
        self.rank = _rank(method) + _rank(service)
        self._regex = re.compile(f"/{_expression(service.removeprefix('/'))}/{_expression(method)}")

    def matches(self, method: str) -> bool:
        return self._regex.fullmatch(method) is not None


def _rank(part: str) -> tuple[bool, int]:
    return "*" not in part, len(part.replace("*", ""))


def _expression(part: str) -> str:
    return "[^/]*".join(map(re.escape, part.split("*")))


def _scopes(demand: Demand, field: str) -> frozenset[str] | None:
    if isinstance(demand, bool):
        return frozenset() if demand else None
    found = frozenset((demand,) if isinstance(demand, str) else demand)
    if not all(isinstance(each, str) and each for each in found):
        raise InvalidArgumentError("must be a scope, several, true or false", field=field)
    return found


def admission(*checks: Admission) -> Admission:
    """All of them, in this order; the first that raises decides."""

    def admit(method: str, principal: Principal) -> None:
        for check in checks:
            check(method, principal)

    return admit
