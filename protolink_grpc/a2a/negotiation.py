"""Checks before an operation: version, extensions, tenant and media types that caller and agent must agree on."""

from collections.abc import Iterable, Sequence

from protolink_grpc.a2a.content import PART_MEDIA_TYPE
from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.a2a.values import V03, V1, CallerInfo, Extension
from protolink_grpc.auth.principal import owner_of
from protolink_grpc.errors import (
    ContentTypeNotSupportedError,
    ExtensionRequiredError,
    InvalidArgumentError,
    VersionNotSupportedError,
)
from protolink_grpc.models.part import FileContent, Part
from protolink_grpc.wire.tasks import check_id


def owner_of_request(caller: CallerInfo, tenant: str, options: A2AOptions) -> str:
    """Check the extensions and the tenant of a request, and return the owner of the tasks that it may concern.

    Raises:
        ExtensionRequiredError: The request does not name a required extension.
        InvalidArgumentError: The tenant is invalid, or not one of the agent's tenants.
    """
    check_extensions(caller, options.extensions)
    if not tenant:
        return caller.principal.name
    check_id(tenant, "tenant")
    if options.tenants is not None and tenant not in options.tenants:
        raise InvalidArgumentError("is not a tenant of this agent", field="tenant")
    return owner_of(caller.principal.name, tenant)


def require_id(value: str, field: str = "id") -> str:
    """Return a valid id. Raises InvalidArgumentError if it is empty or invalid."""
    if not value:
        raise InvalidArgumentError("must not be empty", field=field)
    return check_id(value, field)


def check_version(caller: CallerInfo, wanted: str, served: Sequence[str] = (V1, V03)) -> None:
    """Check that the request has version `wanted`. Only major and minor count; a request without a version has 0.3.

    Raises:
        VersionNotSupportedError: The request has another version.
    """
    given = (caller.version or V03)[:100]  # bounded, because the error message repeats it
    if given != wanted and ".".join(given.split(".")[:2]) != wanted:
        raise VersionNotSupportedError(
            f"this method belongs to A2A {wanted}, but the request has the version {given}"
            + ("" if caller.version else ", because A2A-Version is missing")
            + f": send A2A-Version: {wanted}",
            version=given,
            supported=", ".join(served),
        )


def check_extensions(caller: CallerInfo, extensions: Iterable[Extension]) -> None:
    """Check that the request names all required extensions. Raises ExtensionRequiredError if one is missing."""
    for extension in extensions:
        if extension.required and extension.uri not in caller.extensions:
            raise ExtensionRequiredError(
                f"this agent requires the extension {extension.uri}: add it to A2A-Extensions", extension=extension.uri
            )


def check_media_types(parts: Sequence[Part], accepted: Sequence[str]) -> None:
    """Check that the card accepts the media types of the parts.

    Raises:
        ContentTypeNotSupportedError: It does not accept one; names the part and the accepted media types.
    """
    if "*/*" in accepted:
        return
    for index, part in enumerate(parts):
        given = media_type_of(part)
        if given and given not in accepted and not _is_accepted(given, accepted):
            raise ContentTypeNotSupportedError(
                f"message.parts[{index}] has the media type {given}, but this agent accepts {', '.join(accepted)}",
                field=f"message.parts[{index}]",
                media_type=given,
                accepted=", ".join(accepted),
            )


def media_type_of(part: Part) -> str:
    """Return the media type of a part, without parameters; empty for this package's own part types without one."""
    content = part.content
    if part.media_type:
        given = part.media_type
    elif part.type == "text":
        return "text/plain"
    elif part.type == "json":
        return "application/json"
    elif isinstance(content, FileContent):
        given = content.media_type
    else:
        return ""
    return given.partition(";")[0].strip().lower()


def _is_accepted(given: str, accepted: Sequence[str]) -> bool:
    kind = given.partition("/")[0]
    plain = [each.partition(";")[0].strip().lower() for each in accepted]
    return given == PART_MEDIA_TYPE or given in plain or "*/*" in plain or f"{kind}/*" in plain
