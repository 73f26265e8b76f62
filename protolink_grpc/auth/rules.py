"""Access rules: which authenticated caller may call which method."""

import re
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import InvalidArgumentError, PermissionDeniedError
from protolink_grpc.models.arguments import checks_arguments

Demand: TypeAlias = str | Iterable[str] | bool
"""A scope, or several that are all required. True allows every caller, False none."""

SENDS_A_TASK = {"/plgrpc.v1.ControlService/CallTool": "/plgrpc.v1.AgentService/SendTask"}
"""Methods with the requirements of another method, because they do the same: calling a tool sends a task."""

MAX_METHODS = 1024
"""Maximum number of methods whose rule is cached: more than any server has."""


class Admission(Protocol):
    """Checks whether a caller may call a method (its full gRPC name) now.

    Raises:
        PermissionDeniedError, ResourceExhaustedError: It may not, or not now.
    """

    def __call__(self, method: str, principal: Principal) -> None: ...


@checks_arguments
class AccessRules:
    """The scopes that methods require. Methods have their full gRPC names on every edge: `/package.Service/Method`.

    Several services have the same operations (both versions of A2A, ProtoLink's protocol): `*/CancelTask` matches all of them. A
    message that registers a webhook also needs the scopes of `*/CreateTaskPushNotificationConfig`, and one that answers an
    approval those of `/plgrpc.v1.ControlService/RespondApproval`.

    `ControlService/CallTool` sends a task, so it has the requirements of `AgentService/SendTask`, unless a pattern names its
    method, such as `*/CallTool`. `/plgrpc.v1.ControlService/*` does not apply to it.

    Args:
        rules: Requirements by pattern. A pattern is a full name in which `*` matches any text within the service or the method:
            `/plgrpc.v1.ControlService/*`, `*/CancelTask`, `*`. If several match, the one with the more specific method applies,
            then the one with the more specific service, then the first.
        default: The requirement of methods that no pattern matches.

    Raises:
        InvalidArgumentError: A pattern can never match; names it.
    """

    def __init__(self, rules: Mapping[str, Demand], default: Demand = True) -> None:
        patterns = [_Pattern(pattern, _read_scopes(demand, f"rules.{pattern}")) for pattern, demand in rules.items()]
        self._patterns = sorted(patterns, key=lambda each: each.rank, reverse=True)
        self._default = _read_scopes(default, "default")
        self._cache: dict[str, frozenset[str] | None] = {}

    def __call__(self, method: str, principal: Principal) -> None:
        try:
            demand = self._cache[method]
        except KeyError:
            demand = self._look_up(method)
        if demand is None:
            raise PermissionDeniedError(f"no caller may call {method}", method=method)
        if not demand <= principal.scopes:
            missing = " ".join(sorted(demand - principal.scopes))
            raise PermissionDeniedError(f"{method} needs the scope {missing}", method=method, scope=missing)

    def _look_up(self, method: str) -> frozenset[str] | None:
        pattern = next((each for each in self._patterns if each.matches(method)), None)
        if method in SENDS_A_TASK and (pattern is None or not pattern.names_method):
            demand = self._look_up(SENDS_A_TASK[method])
        else:
            demand = self._default if pattern is None else pattern.demand
        if len(self._cache) < MAX_METHODS:
            self._cache[method] = demand
        return demand


class _Pattern:
    """A parsed pattern. `rank` orders patterns by how specific they are; `names_method` is whether the method is not just `*`.

    `demand` is None if no caller is allowed.
    """

    def __init__(self, pattern: str, demand: frozenset[str] | None) -> None:
        service, slash, method = ("*", "/", "*") if pattern == "*" else pattern.rpartition("/")
        if not slash or not method or "/" in service[1:] or service[:1] not in ("/", "*"):
            raise InvalidArgumentError(
                "must have the form /package.Service/Method, in which `*` matches any text", field=f"rules.{pattern}"
            )
        self.demand = demand
        self.names_method = bool(method.replace("*", ""))
        self.rank = _rank(method) + _rank(service)
        self._regex = re.compile(f"/{_to_regex(service.removeprefix('/'))}/{_to_regex(method)}")

    def matches(self, method: str) -> bool:
        return self._regex.fullmatch(method) is not None


def _rank(part: str) -> tuple[bool, int]:
    return "*" not in part, len(part.replace("*", ""))


def _to_regex(part: str) -> str:
    return "[^/]*".join(map(re.escape, part.split("*")))


def _read_scopes(demand: Demand, field: str) -> frozenset[str] | None:
    if isinstance(demand, bool):
        return frozenset() if demand else None
    found = frozenset((demand,) if isinstance(demand, str) else demand)
    if not all(isinstance(each, str) and each for each in found):
        raise InvalidArgumentError("must be a scope, a list of scopes, true or false", field=field)
    return found


def admission(*checks: Admission) -> Admission:
    """Combine checks, which are called in this order."""

    def admit(method: str, principal: Principal) -> None:
        for check in checks:
            check(method, principal)

    return admit
