"""JSON values as `google.protobuf.Value` and back, exactly.

A Value's numbers are doubles and a protobuf parser stops at some 30 objects inside of each other. What that would change is sent as
near as it gets, and its exact JSON text goes with it: in the metadata, under `MARK`, key "exact". It is believed only where it
gives the very values that it came with.
"""

from math import copysign, isfinite
from typing import Any, Final

from google.protobuf import struct_pb2

from protolink_grpc.a2a.marks import MARK, Metadata
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import MAX_COMPLEXITY, from_json, plain, to_json

EXACT: Final = "exact"

_LARGEST = 2**53
"""Every integer up to here is a double. Source: IEEE 754, binary64."""

_LEVELS = 24
"""Containers inside of each other that are sent as such. Protobuf stops at 100 levels; an object takes three, eight surround it."""


def put_value(target: struct_pb2.Value, value: Any, levels: int = _LEVELS) -> bool:
    """Set `target`; whether a reader of it gets exactly `value`."""
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
        target.struct_value.SetInParent()  # an empty one, too
        return put_fields(target.struct_value, value, levels - 1)
    target.list_value.SetInParent()
    add = target.list_value.values.add
    exact = True
    for item in value:
        exact = put_value(add(), item, levels - 1) and exact
    return exact


def put_fields(target: struct_pb2.Struct, value: dict[str, Any], levels: int = _LEVELS) -> bool:
    """Set the fields of `target`; whether a reader of it gets exactly `value`."""
    fields = target.fields
    exact = True
    for key, item in value.items():
        exact = put_value(fields[key], item, levels) and exact
    return exact


def value_of(found: struct_pb2.Value) -> Any:
    """The JSON value; a whole number is an int as long as every int of its size is a double.

    Raises:
        InvalidArgumentError: No value, or a number that is not finite.
    """
    match found.WhichOneof("kind"):
        case "string_value":
            return found.string_value
        case "number_value":
            return _number(found.number_value)
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


def _number(found: float) -> int | float:
    if not isfinite(found):
        raise InvalidArgumentError("must be a finite number")
    if not found.is_integer() or not -_LARGEST <= found <= _LARGEST:
        return found
    return int(found) if found or copysign(1, found) > 0 else found  # no integer is a negative zero


def fields_of(found: struct_pb2.Struct) -> dict[str, Any]:
    """The JSON object. Raises as `value_of`."""
    return {key: value_of(item) for key, item in found.fields.items()}


def put_exact(target: struct_pb2.Struct, whole: dict[str, Any]) -> None:
    """Send `whole` along, in the metadata `target`."""
    target.fields[MARK].struct_value.fields[EXACT].string_value = to_json(whole)


def exact_of(metadata: Metadata | None) -> dict[str, Any] | None:
    """What these metadata say that the whole is; None when they say nothing of use."""
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
    """Set the metadata of a task, a message or an artifact, exactly."""
    if not put_fields(target, metadata) or _believed(target, metadata) is not None:
        put_exact(target, {"metadata": metadata})


def metadata_of(found: struct_pb2.Struct) -> Metadata:
    """The inverse of `put_metadata`. Raises as `value_of`."""
    metadata = fields_of(found)
    believed = _believed(found, metadata)
    return metadata if believed is None else believed


def _believed(found: struct_pb2.Struct, metadata: Metadata) -> Metadata | None:
    """The exact metadata that come with `found`, which reads `metadata`; None where there are none, or where they are others."""
    whole = exact_of(metadata)
    if whole is None or whole.keys() != {"metadata"}:
        return None
    exact: Metadata = whole["metadata"]
    again = struct_pb2.Struct()
    put_metadata(again, exact)
    return exact if again == found else None
