"""Lossless conversion of JSON values to `google.protobuf.Value` and back.

Numbers of a Value are doubles, and a protobuf parser fails at about 30 nested objects. A value that this would change is sent as an
approximation, together with its exact JSON text in the metadata, under `MARK`, key "exact". A reader uses the exact text only if
encoding it again gives the message it came with.
"""

from math import copysign, isfinite
from typing import Any, Final

from google.protobuf import struct_pb2

from protolink_grpc.a2a.marks import MARK, Metadata
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import MAX_COMPLEXITY, from_json, plain, to_json

EXACT: Final = "exact"

_LARGEST = 2**53
"""Every integer up to this one is exact as a double. Source: IEEE 754, binary64."""

_LEVELS = 24
"""Maximum nesting of containers that are sent as containers. Protobuf allows 100 levels: an object takes three, and up to eight
levels surround it."""


def put_value(target: struct_pb2.Value, value: Any, levels: int = _LEVELS) -> bool:
    """Set `target` and return whether it represents `value` exactly."""
    kind = type(value)
    if kind is str:
        target.string_value = value
    elif value is None:
        target.null_value = struct_pb2.NULL_VALUE
    elif kind is bool:
        target.bool_value = value
    elif kind is int:
        return _put_integer(target, value)
    elif kind is float:
        target.number_value = value
    elif kind is dict or kind is list:
        return _put_container(target, value, levels)
    else:
        return put_value(target, plain(value), levels)
    return True


def _put_integer(target: struct_pb2.Value, value: int) -> bool:
    if -_LARGEST <= value <= _LARGEST:
        target.number_value = value
        return True
    try:
        target.number_value = value
    except OverflowError:  # more than 308 digits
        target.string_value = to_json(value)
    return False


def _put_container(target: struct_pb2.Value, value: Any, levels: int) -> bool:
    if levels == 0:
        target.string_value = to_json(value)
        return False
    if type(value) is dict:
        target.struct_value.SetInParent()  # sets an empty object, too
        return put_fields(target.struct_value, value, levels - 1)
    target.list_value.SetInParent()
    add = target.list_value.values.add
    exact = True
    for item in value:
        exact = put_value(add(), item, levels - 1) and exact
    return exact


def put_fields(target: struct_pb2.Struct, value: dict[str, Any], levels: int = _LEVELS) -> bool:
    """Set the fields of `target` and return whether they represent `value` exactly."""
    fields = target.fields
    exact = True
    for key, item in value.items():
        exact = put_value(fields[key], item, levels) and exact
    return exact


def value_of(found: struct_pb2.Value) -> Any:
    """Return the JSON value. A whole number becomes an int if it is in the range where doubles are exact (2**53).

    Raises:
        InvalidArgumentError: The value is not set, or a number is not finite.
    """
    match found.WhichOneof("kind"):
        case "string_value":
            return found.string_value
        case "number_value":
            return _to_number(found.number_value)
        case "bool_value":
            return found.bool_value
        case "null_value":
            return None
        case "struct_value":
            return fields_of(found.struct_value)
        case "list_value":
            return [value_of(item) for item in found.list_value.values]
        case _:
            raise InvalidArgumentError("must be a JSON value")


def _to_number(found: float) -> int | float:
    if not isfinite(found):
        raise InvalidArgumentError("must be a finite number")
    if not found.is_integer() or not -_LARGEST <= found <= _LARGEST:
        return found
    return int(found) if found or copysign(1, found) > 0 else found  # negative zero has no int


def fields_of(found: struct_pb2.Struct) -> dict[str, Any]:
    """Return the JSON object. Raises as `value_of`."""
    return {key: value_of(item) for key, item in found.fields.items()}


def put_exact(target: struct_pb2.Struct, whole: dict[str, Any]) -> None:
    """Add the exact JSON text of `whole` to the metadata `target`."""
    target.fields[MARK].struct_value.fields[EXACT].string_value = to_json(whole)


def exact_of(metadata: Metadata | None) -> dict[str, Any] | None:
    """Return the exact values that the metadata contain; None if there are none or they are malformed."""
    mark = metadata.get(MARK) if metadata else None
    text = mark.get(EXACT) if type(mark) is dict else None
    if type(text) is not str:
        return None
    try:
        whole = from_json(text, max_complexity=MAX_COMPLEXITY)
    except InvalidArgumentError:
        return None
    return whole if type(whole) is dict and type(whole.get("metadata", {})) is dict else None


def put_metadata(target: struct_pb2.Struct, metadata: Metadata) -> None:
    """Set the metadata of a task, a message or an artifact, with the exact text if it is needed."""
    if not put_fields(target, metadata) or _read_exact(target, metadata) is not None:
        put_exact(target, {"metadata": metadata})


def metadata_of(found: struct_pb2.Struct) -> Metadata:
    """Return the metadata of a task, a message or an artifact. The inverse of `put_metadata`. Raises as `value_of`."""
    metadata = fields_of(found)
    verified = _read_exact(found, metadata)
    return metadata if verified is None else verified


def _read_exact(found: struct_pb2.Struct, metadata: Metadata) -> Metadata | None:
    """Return the exact metadata sent with `found`, whose approximate value is `metadata`.

    None if there are none, or if encoding them again does not give `found`.
    """
    whole = exact_of(metadata)
    if whole is None or whole.keys() != {"metadata"}:
        return None
    exact: Metadata = whole["metadata"]
    again = struct_pb2.Struct()
    put_metadata(again, exact)
    return exact if again == found else None
