"""The JSON Schema of a message's JSON form, from its descriptor. Source: protobuf.dev, "ProtoJSON Format".

Fields have the names of the .proto file.
"""

from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_Type = FieldDescriptor

_SIGNED_32: Final = {"type": "integer", "minimum": -(1 << 31), "maximum": (1 << 31) - 1}
_UNSIGNED_32: Final = {"type": "integer", "minimum": 0, "maximum": (1 << 32) - 1}
_INTEGERS_64: Final = frozenset(
    {_Type.TYPE_INT64, _Type.TYPE_SINT64, _Type.TYPE_SFIXED64, _Type.TYPE_UINT64, _Type.TYPE_FIXED64}
)
_SCALARS: Final[dict[int, dict[str, Any]]] = {
    _Type.TYPE_BOOL: {"type": "boolean"},
    _Type.TYPE_STRING: {"type": "string"},
    _Type.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    _Type.TYPE_INT32: _SIGNED_32,
    _Type.TYPE_SINT32: _SIGNED_32,
    _Type.TYPE_SFIXED32: _SIGNED_32,
    _Type.TYPE_UINT32: _UNSIGNED_32,
    _Type.TYPE_FIXED32: _UNSIGNED_32,
}
_WELL_KNOWN: Final[dict[str, dict[str, Any]]] = {
    "google.protobuf.Any": {"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]},
    "google.protobuf.Duration": {"type": "string", "description": 'Seconds, such as "1.5s".'},
    "google.protobuf.FieldMask": {"type": "string", "description": 'Names of fields, such as "name,state".'},
    "google.protobuf.ListValue": {"type": "array"},
    "google.protobuf.NullValue": {"type": "null"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Value": {},
}
_WRAPPERS: Final = "google/protobuf/wrappers.proto"


def message_schema(kind: Descriptor, *, written: bool) -> dict[str, Any]:
    """Return the JSON Schema of a message.

    Args:
        written: The JSON is written by protobuf: integers of 64 bits are strings, and enums may have unknown numbers. Otherwise it
            is what callers send: integers of 64 bits may also be numbers, and other fields are refused.
    """
    if not has_fields_as_json(kind):
        return dict(_WELL_KNOWN.get(kind.full_name, {}))
    reader = _SchemaReader(written)
    schema = reader.read_message(kind)
    if kind.full_name in reader.referenced:
        reader.definitions[kind.full_name] = schema
    return {**schema, "$defs": reader.definitions} if reader.definitions else schema


def has_fields_as_json(kind: Descriptor) -> bool:
    """Return whether the JSON form of a message is the object of its fields."""
    return kind.full_name not in _WELL_KNOWN and kind.file.name != _WRAPPERS


class _SchemaReader:
    """Reads the messages that a message refers to.

    Attributes:
        definitions: The schemas of the messages, by full name.
        referenced: The messages that fields refer to.
    """

    def __init__(self, written: bool) -> None:
        self._written = written
        self.definitions: dict[str, Any] = {}
        self.referenced: set[str] = set()
        self._begun: set[str] = set()

    def read_message(self, kind: Descriptor) -> dict[str, Any]:
        self._begun.add(kind.full_name)
        found: dict[str, Any] = {
            "type": "object",
            "properties": {field.name: self._read_field(field) for field in kind.fields},
            "required": [field.name for field in kind.fields if field.is_required],
        }
        if not self._written:
            found["additionalProperties"] = False
        return found

    def _read_field(self, field: FieldDescriptor) -> dict[str, Any]:
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            return {"type": "object", "additionalProperties": self._read_value(entry.fields_by_name["value"])}
        value = self._read_value(field)
        return {"type": "array", "items": value} if field.is_repeated else value

    def _read_value(self, field: FieldDescriptor) -> dict[str, Any]:
        if field.message_type is not None:
            return self._read_reference(field.message_type)
        if field.enum_type is not None:
            if field.enum_type.full_name in _WELL_KNOWN:
                return _WELL_KNOWN[field.enum_type.full_name]
            names = {"type": "string", "enum": [each.name for each in field.enum_type.values]}
            return {"anyOf": [names, {"type": "integer"}]} if self._written else names
        if field.type in _INTEGERS_64:
            return {"type": "string"} if self._written else {"type": ["integer", "string"]}
        # Numbers that JSON does not have are texts, such as "NaN".
        return _SCALARS.get(field.type) or {"type": ["number", "string"] if self._written else "number"}

    def _read_reference(self, kind: Descriptor) -> dict[str, Any]:
        name = kind.full_name
        if name in _WELL_KNOWN:
            return _WELL_KNOWN[name]
        if kind.file.name == _WRAPPERS:
            return self._read_value(kind.fields_by_name["value"])
        self.referenced.add(name)
        if name not in self._begun:
            self.definitions[name] = self.read_message(kind)
        return {"$ref": f"#/$defs/{name}"}
