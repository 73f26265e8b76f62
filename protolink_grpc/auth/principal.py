"""Who calls: the one value that every edge derives from credentials, whatever they are."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from protolink_grpc.errors import UnauthenticatedError

ANONYMOUS = "anonymous"
"""The principal of every caller where nothing authenticates."""

RESERVED = frozenset({ANONYMOUS, "local"})
"""Names that no authenticated caller may have: "local" owns what a process asks of its own agents."""

TENANT_MARK = "#tenant="
"""Stands between a principal and a tenant in the name of an owner; no principal's own name may contain it."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, and what for. `name` owns tasks and registrations."""

    name: str
    scopes: frozenset[str] = frozenset()


NOBODY = Principal(ANONYMOUS)

Authenticate = Callable[[str, Mapping[str, str]], Awaitable[Principal | None]]
"""The hook: full method name (`/package.Service/Method`, also for HTTP) and request metadata, keys in lower case, to a principal;
None for a caller without valid credentials."""


def unreserved(name: str) -> str:
    """The name of an authenticated caller.

    Raises:
        UnauthenticatedError: No caller may be called so.
    """
    if not name or name in RESERVED or TENANT_MARK in name:
        raise UnauthenticatedError(f"{name!r} cannot be the name of an authenticated caller", principal=name)
    return name


def owner_of(principal: str, tenant: str) -> str:
    """Who owns what a principal does in a tenant: another owner in each tenant, so that nothing is seen across them."""
    return f"{principal}{TENANT_MARK}{tenant}" if tenant else principal
