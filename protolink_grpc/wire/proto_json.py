"""ProtoJSON, the JSON encoding of protobuf messages, with errors that name the field. Source: protobuf.dev, "ProtoJSON Format".

`json_format` converts scalar values and the well-known types. The walk over the messages is here, because the errors of
`json_format` do not contain the whole path of a field, and because it accepts a text where a message is expected.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from protolink_grpc.errors import InvalidArgumentError

MAX_NAMES: Final = 20
"""Maximum number of enum names in an error."""

_Type = FieldDescriptor
_SCALARS: Final = {
    _Type.TYPE_BOOL: "true or false",
    _Type.TYPE_STRING: "a string",
    _Type.TYPE_BYTES: "bytes as a base64 string",
    **dict.fromkeys((_Type.TYPE_DOUBLE, _Type.TYPE_FLOAT), "a number"),
    **dict.fromkeys((_Type.TYPE_INT32, _Type.TYPE_SINT32, _Type.TYPE_SFIXED32), "an integer of 32 bits"),
    **dict.fromkeys((_Type.TYPE_UINT32, _Type.TYPE_FIXED32), "an unsigned integer of 32 bits"),
    **dict.fromkeys((_Type.TYPE_INT64, _Type.TYPE_SINT64, _Type.TYPE_SFIXED64), "an integer of 64 bits"),
    **dict.fromkeys((_Type.TYPE_UINT64, _Type.TYPE_FIXED64), "an unsigned integer of 64 bits"),
}
_WELL_KNOWN: Final = {
    "google.protobuf.Any": "a message with its type in @type",
    "google.protobuf.Duration": 'a duration like "1.5s"',
    "google.protobuf.FieldMask": 'field names like "name,state"',
    "google.protobuf.ListValue": "a JSON array",
    "google.protobuf.Struct": "a JSON object",
    "google.protobuf.Timestamp": 'a time like "2026-01-31T12:00:00Z"',
    "google.protobuf.Value": "a JSON value",
}
"""Messages with a JSON form of their own; the wrappers of scalars are others."""


def message_from_json(value: object, message: Message, *, path: str = "") -> None:
    """Set the fields of an empty message from a JSON value.

    Unknown fields are ignored, as in the binary encoding. Unknown names of enum values are refused.

    Args:
        value: As `models.json_value.from_json` returns it.
        path: The path of the message in the request, with the field names of the proto file.

    Raises:
        InvalidArgumentError: A value does not fit its field; names the field, or `body` for the whole message.
    """
    kind: Any = message.DESCRIPTOR
    if not _is_plain(kind):
        _parse_well_known(value, message, kind, path or "body")
        return
    fields = _fields_by_name(kind)
    found: dict[str, str] = {}
    scalars: dict[str, Any] = {}
    for name, item in _require_object(value, path or "body").items():
        field = fields.get(name)
        if field is None or (item is None and not _accepts_null(field)):
            continue
        at = f"{path}.{field.name}" if path else field.name
        _check_alone(field, at, found)
        if field.type == _Type.TYPE_STRING and isinstance(item, str) and not field.is_repeated:
            setattr(message, field.name, item)  # a shortcut for the most frequent case
        elif not _has_plain_values(field):
            scalars[name] = item
        elif field.is_repeated:
            _read_messages(item, message, field, at)
        else:
            child = getattr(message, field.name)
            child.SetInParent()
            message_from_json(item, child, path=at)
    if scalars:
        _read_scalars(scalars, message, path)


def message_to_json(message: Message) -> Any:
    """Return the JSON value of a message: an object, except for some well-known types.

    Fields with their default value are absent, and integers of 64 bits are strings.
    """
    return MessageToDict(message, descriptor_pool=_pool(message))


def _pool(message: Message) -> Any:
    """Return the pool with the types of an Any in the message."""
    return message.DESCRIPTOR.file.pool


@lru_cache(maxsize=1024)
def _fields_by_name(kind: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Return the fields of a message by their JSON names and by their names in the proto file."""
    return {field.name: field for field in kind.fields} | {field.json_name: field for field in kind.fields}


def _accepts_null(field: FieldDescriptor) -> bool:
    """Return whether null is a value of the field. For all others it means that the field is not set."""
    kind = field.message_type or field.enum_type
    return kind is not None and kind.full_name in ("google.protobuf.Value", "google.protobuf.NullValue")


def _has_plain_values(field: FieldDescriptor) -> bool:
    """Return whether the values of the field are messages without a JSON form of their own."""
    entry = _map_entry(field)
    kind = field.message_type if entry is None else entry.fields_by_name["value"].message_type
    return kind is not None and _is_plain(kind)


def _is_plain(kind: Descriptor) -> bool:
    """Return whether the JSON form of a message is the object of its fields."""
    return kind.full_name not in _WELL_KNOWN and not _is_wrapper(kind)


def _is_wrapper(kind: Descriptor) -> bool:
    return kind.file.name == "google/protobuf/wrappers.proto"


def _check_alone(field: FieldDescriptor, at: str, found: dict[str, str]) -> None:
    """Check that neither the field nor another one of its oneof has been found before."""
    group = field.full_name if field.containing_oneof is None else field.containing_oneof.full_name
    earlier = found.get(group)
    if earlier is not None:
        raise InvalidArgumentError(
            "must not be set twice" if earlier == field.name else f"must not be set together with {earlier}", field=at
        )
    found[group] = field.name


def _read_messages(value: object, message: Message, field: FieldDescriptor, at: str) -> None:
    """Set a repeated field of messages, or a map with messages as values."""
    entries = getattr(message, field.name)
    if _map_entry(field) is not None:
        for key, item in _require_object(value, at).items():
            message_from_json(item, entries[_convert_map_key(key, message, field, at)], path=f"{at}.{key}")
    else:
        for index, item in enumerate(_require_array(value, at)):
            message_from_json(item, entries.add(), path=f"{at}[{index}]")


def _convert_map_key(key: str, message: Message, field: FieldDescriptor, at: str) -> Any:
    """Convert the key of a map entry, which is always a string in JSON."""
    entry = type(message)()
    _parse_one(field, {key: {}}, entry, f"{at}.{key}")
    return next(iter(getattr(entry, field.name)))


def _read_scalars(values: dict[str, Any], message: Message, path: str) -> None:
    """Set fields whose values `json_format` converts: all at once, and one by one to find the invalid one."""
    try:
        _parse(values, message)
    except _PARSE_ERRORS:
        for name, item in values.items():
            field = _fields_by_name(message.DESCRIPTOR)[name]
            _check_value(field, item, type(message)(), f"{path}.{field.name}" if path else field.name)
        raise InvalidArgumentError("is not valid ProtoJSON", field=path or "body") from None


def _check_value(field: FieldDescriptor, value: object, scratch: Message, at: str) -> None:
    """Parse a value of a field into `scratch`, each of its elements alone."""
    if _map_entry(field) is not None:
        for key, item in _require_object(value, at).items():
            _parse_one(field, {key: item}, scratch, f"{at}.{key}")
    elif field.is_repeated:
        for index, item in enumerate(_require_array(value, at)):
            _parse_one(field, [item], scratch, f"{at}[{index}]")
    else:
        _parse_one(field, value, scratch, at)


def _require_object(value: object, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be a JSON object", field=at)
    return value


def _require_array(value: object, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidArgumentError("must be a JSON array", field=at)
    return value


def _parse_well_known(value: object, message: Message, kind: Descriptor, at: str) -> None:
    try:
        _parse(value, message)
    except _PARSE_ERRORS:
        raise InvalidArgumentError(f"must be {_describe_message(kind)}", field=at) from None


def _parse_one(field: FieldDescriptor, value: object, scratch: Message, at: str) -> None:
    try:
        _parse({field.name: value}, scratch)
    except _PARSE_ERRORS:
        raise InvalidArgumentError(f"must be {_describe_values(field)}", field=at) from None


def _parse(value: Any, message: Message) -> None:
    ParseDict(value, message, descriptor_pool=_pool(message))


_PARSE_ERRORS: Final = (ParseError, ValueError, TypeError, AttributeError, KeyError, OverflowError)
"""`ParseDict` raises more than ParseError for values of an unexpected type."""


def _describe_values(field: FieldDescriptor) -> str:
    """Describe a value of a field, or an element of a repeated field."""
    entry = _map_entry(field)
    if entry is not None:
        key, value = (entry.fields_by_name[name] for name in ("key", "value"))
        return f"{_describe_values(value)}, and its key {_SCALARS[key.type]}"
    if field.enum_type is not None:
        names = [each.name for each in field.enum_type.values]
        return "one of " + ", ".join([*names[:MAX_NAMES], *(["..."] if len(names) > MAX_NAMES else [])])
    return _SCALARS[field.type] if field.message_type is None else _describe_message(field.message_type)


def _describe_message(kind: Descriptor) -> str:
    if _is_wrapper(kind):
        return _SCALARS[kind.fields_by_name["value"].type]
    return _WELL_KNOWN.get(kind.full_name, "a JSON object")


def _map_entry(field: FieldDescriptor) -> Descriptor | None:
    """Return the type of the entries of a map; None for other fields."""
    kind = field.message_type
    return kind if kind is not None and kind.GetOptions().map_entry else None
