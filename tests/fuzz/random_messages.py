"""Protobuf messages with any values, built from their descriptors."""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

json_texts = st.sampled_from(
    ["{}", '{"a":[1,{"b":null}]}', '{"a":18446744073709551617}', '{"a":"\\u0000"}']
) | st.sampled_from(["[]", "null", "{", '{"a":1e999}', '{"a":"\\ud800"}', "[" * 200, '{"a":' * 120 + "1" + "}" * 120])
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: st.text(max_size=8) | st.sampled_from(["allow", "deny", "text", "x" * 200]),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT64: st.integers(0, 2**63 - 1) | st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_INT32: st.integers(0, 2**31 - 1) | st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_DOUBLE: st.floats(0, 1e18) | st.floats(),
    FieldDescriptor.TYPE_ENUM: st.integers(1, 3) | st.integers(-(2**31), 2**31 - 1),
}


def any_value(field: Any) -> st.SearchStrategy[Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of = field.message_type.fields_by_name
        return st.dictionaries(any_value(of["key"]), any_value(of["value"]), max_size=2)
    if field.message_type is not None:
        one: st.SearchStrategy[Any] = any_fields(field.message_type)
    elif field.name.endswith("_json"):
        one = json_texts
    else:
        one = SCALARS[field.type]
    return st.lists(one, max_size=2) if field.is_repeated else one


@st.composite
def any_fields(draw: st.DrawFn, descriptor: Any) -> dict[str, Any]:
    """Arguments of a message's constructor: up to four of its fields, any value of their types, one field of a oneof."""
    if not descriptor.fields:
        return {}
    chosen = draw(st.lists(st.sampled_from(list(descriptor.fields)), max_size=4, unique_by=one_of_its_kind))
    return {field.name: draw(any_value(field)) for field in chosen}


def one_of_its_kind(field: Any) -> str:
    return str((field.containing_oneof or field).full_name)
