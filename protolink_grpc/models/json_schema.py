"""JSON Schemas of applications: a schema, or a type that pydantic describes. Validation lives elsewhere."""

from collections.abc import Mapping
from typing import Any, TypeAlias, get_origin

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import plain

SchemaLike: TypeAlias = Mapping[str, Any] | type[Any]
"""A JSON Schema, or a type that pydantic describes: a model, a dataclass, a TypedDict, `list[Model]`, and so on."""


def json_schema_of(given: Any, *, field: str) -> dict[str, Any]:
    """Return the schema itself, or the schema of the type.

    Raises:
        InvalidArgumentError: It is neither, or no schema can describe the type; names `field`.
    """
    if isinstance(given, Mapping):
        try:
            schema: dict[str, Any] = plain(dict(given))
        except (TypeError, InvalidArgumentError) as error:
            raise InvalidArgumentError(f"must be JSON: {error}", field=field) from None
        return schema
    if not isinstance(given, type) and get_origin(given) is None:
        kind = type(given).__name__
        raise InvalidArgumentError(
            f"must be a JSON Schema or a type, such as a pydantic model, a dataclass or a TypedDict, not {kind}",
            field=field,
        )
    # Both take a while to load, and clients that send a schema do not need them.
    from pydantic import TypeAdapter

    from protolink_grpc.models.typed_dict import readable

    try:
        return TypeAdapter(readable(given, {})).json_schema()
    except Exception as error:  # pydantic has several kinds for this, and a type may bring hooks that raise others.
        reason = str(error).partition("\n")[0]
        name = getattr(given, "__name__", str(given))
        raise InvalidArgumentError(f"no JSON Schema can describe {name}: {reason}", field=field) from error
