"""The principal: the authenticated caller, which every edge derives from the credentials."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from protolink_grpc.errors import UnauthenticatedError

ANONYMOUS = "anonymous"
"""The principal of every caller without an authenticator."""

LOCAL = "local"
"""The principal of all calls within the process, which are not authenticated."""

RESERVED = frozenset({ANONYMOUS, LOCAL})
"""Names that no authenticated caller may have."""

TENANT_MARK = "#tenant="
"""Separates a principal and a tenant in the name of an owner. No principal's name may contain it."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller and its scopes. `name` is the owner of its tasks and registrations."""

    name: str
    scopes: frozenset[str] = frozenset()


ANONYMOUS_PRINCIPAL = Principal(ANONYMOUS)

Authenticate = Callable[[str, Mapping[str, str]], Awaitable[Principal | None]]
"""An authentication function.

It returns the principal for a full method name (`/package.Service/Method`, also for HTTP) and the request's metadata with
lower-case keys, or None without valid credentials.
"""


def check_principal_name(name: str) -> str:
    """Return the name of an authenticated caller if it is not reserved.

    Raises:
        UnauthenticatedError: The name is reserved.
    """
    if not name or name in RESERVED or TENANT_MARK in name:
        raise UnauthenticatedError(f"{name!r} cannot be the name of an authenticated caller", principal=name)
    return name


def owner_of(principal: str, tenant: str) -> str:
    """The owner's name for a principal in a tenant. It differs between tenants, so that nothing is visible across them."""
    return f"{principal}{TENANT_MARK}{tenant}" if tenant else principal
