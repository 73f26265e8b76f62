"""ProtoJSON of messages whose types are in a pool of their own, and the paths in its errors."""

from typing import Any

import pytest
from google.protobuf import empty_pb2, json_format, struct_pb2, timestamp_pb2, wrappers_pb2
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import agent_service_pb2
from shop_world import POOL, SCALARS, Order

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.wire.proto_json import message_from_json, message_to_json

INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
UINT32 = st.integers(0, 2**32 - 1)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "double": st.floats(allow_nan=False),  # not equal to itself
    # json_format cannot read the largest floats that it writes.
    "float": st.floats(-(2.0**120), 2.0**120, width=32),
    **dict.fromkeys(("int64", "sfixed64", "sint64"), INT64),
    **dict.fromkeys(("uint64", "fixed64"), UINT64),
    **dict.fromkeys(("int32", "sfixed32", "sint32"), INT32),
    **dict.fromkeys(("uint32", "fixed32"), UINT32),
    "bool": st.booleans(),
    "string": TEXT,
    "bytes": st.binary(max_size=20),
    "color": st.integers(0, 3),
    "numbers": st.lists(INT32, max_size=3),
    "colors": st.lists(st.integers(0, 3), max_size=3),
    "prices": st.dictionaries(TEXT, INT64, max_size=3),
    "card": TEXT,
    "wrapped": st.builds(lambda value: {"value": value}, INT64),
    "time": st.builds(lambda value: {"seconds": value}, st.integers(-(2**33), 2**33)),
    "duration": st.builds(lambda value: {"seconds": value}, st.integers(-(2**33), 2**33)),
    "value": st.builds(lambda value: {"string_value": value}, TEXT),
}

FLAT = st.fixed_dictionaries({}, optional=VALUES)
NESTED = st.builds(
    lambda own, inner, more: own | inner | {"orders": more[:2], "by_number": dict(enumerate(more))},
    FLAT,
    st.fixed_dictionaries({}, optional={"inner_order": FLAT}),
    st.lists(FLAT, max_size=3),
)


def order_of(values: dict[str, Any]) -> Any:
    by_number = values.pop("by_number", {})
    order = Order(**values)
    for number, inner in by_number.items():
        order.by_number[number].CopyFrom(Order(**inner))
    return order


def read(value: object) -> Any:
    order = Order()
    message_from_json(value, order)
    return order


@given(NESTED)
def test_any_message_is_the_same_after_its_json(values: dict[str, Any]) -> None:
    order = order_of(values)
    assert read(from_json(to_json(message_to_json(order)))).SerializeToString(
        deterministic=True
    ) == order.SerializeToString(deterministic=True)


@given(NESTED)
def test_names_of_the_proto_file_are_accepted_too(values: dict[str, Any]) -> None:
    order = order_of(values)
    text = json_format.MessageToJson(order, preserving_proto_field_name=True, descriptor_pool=POOL)
    assert read(from_json(text)).SerializeToString(deterministic=True) == order.SerializeToString(deterministic=True)


def test_integers_of_64_bits_are_strings_and_accepted_as_numbers() -> None:
    assert message_to_json(Order(int64=2**62, int32=7)) == {"int64": str(2**62), "int32": 7}
    assert read({"int64": 2**62}).int64 == read({"int64": str(2**62)}).int64 == 2**62


def test_well_known_types_have_their_own_json() -> None:
    value = {
        "time": "2026-01-31T12:00:00Z",
        "duration": "1.500s",
        "mask": "name,state",
        "any": {"@type": "type.example/shop.v1.Order", "string": "inside"},
        "struct": {"a": [1, None]},
        "value": None,
        "list": ["x"],
        "wrapped": "5",
        "times": ["1970-01-01T00:00:01Z"],
    }
    assert message_to_json(read(value)) == value | {"struct": {"a": [1.0, None]}}


@pytest.mark.parametrize(
    ("message", "value"),
    [
        (wrappers_pb2.StringValue(value="x"), "x"),
        (wrappers_pb2.Int64Value(value=5), "5"),
        (struct_pb2.ListValue(values=[{"bool_value": True}]), [True]),
        (timestamp_pb2.Timestamp(seconds=1), "1970-01-01T00:00:01Z"),
        (empty_pb2.Empty(), {}),
    ],
)
def test_a_well_known_type_can_be_a_whole_message(message: Any, value: Any) -> None:
    found = type(message)()
    message_from_json(value, found)
    assert (found, message_to_json(found)) == (message, value)


def test_a_whole_message_of_a_well_known_type_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="body: must be an integer of 64 bits"):
        message_from_json({}, wrappers_pb2.Int64Value())
    message_from_json({"unknown": 1}, empty_pb2.Empty())


def test_unknown_fields_are_ignored_at_every_depth() -> None:
    order = read({"new": 1, "innerOrder": {"new": []}, "orders": [{"new": {}}], "byNumber": {"5": {"new": 1}}})
    assert order == Order(inner_order={}, orders=[{}], by_number={5: Order()})


def test_null_means_that_a_field_is_not_set() -> None:
    assert read({"string": None, "innerOrder": None, "orders": None, "card": "x", "gift": None}) == Order(card="x")


INTEGER, UNSIGNED = "must be an integer of 64 bits", "must be an unsigned integer of 32 bits"
COLORS = "must be one of COLOR_UNSPECIFIED, COLOR_RED"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "body: must be a JSON object"),
        ([], "body: must be a JSON object"),
        ("string", "body: must be a JSON object"),
        ({"string": 5}, "string: must be a string"),
        ({"bool": "true"}, "bool: must be true or false"),
        ({"double": "much"}, "double: must be a number"),
        ({"bytes": 5}, "bytes: must be bytes as a base64 string"),
        ({"bytes": "a"}, "bytes: must be bytes as a base64 string"),
        ({"int64": "9223372036854775808"}, f"int64: {INTEGER}"),
        ({"int64": 1.5}, f"int64: {INTEGER}"),
        ({"int64": [1]}, f"int64: {INTEGER}"),
        ({"int64": True}, f"int64: {INTEGER}"),
        ({"uint32": -1}, f"uint32: {UNSIGNED}"),
        ({"color": "COLOR_BLUE"}, f"color: {COLORS}"),
        ({"color": {}}, f"color: {COLORS}"),
        ({"innerOrder": "x"}, "inner_order: must be a JSON object"),
        ({"innerOrder": ["string"]}, "inner_order: must be a JSON object"),
        ({"innerOrder": {"uint32": -1}}, f"inner_order.uint32: {UNSIGNED}"),
        ({"inner_order": {"gift": {"int64": "x"}}}, f"inner_order.gift.int64: {INTEGER}"),
        ({"orders": {}}, "orders: must be a JSON array"),
        ({"orders": [{}, None]}, "orders[1]: must be a JSON object"),
        ({"orders": [{}, {"color": "x"}]}, f"orders[1].color: {COLORS}"),
        ({"numbers": 5}, "numbers: must be a JSON array"),
        ({"numbers": [1, "x"]}, "numbers[1]: must be an integer of 32 bits"),
        ({"colors": ["COLOR_RED", None]}, f"colors[1]: {COLORS}"),
        ({"string": "fine", "numbers": [None], "double": 1}, "numbers[0]: must be an integer of 32 bits"),
        ({"byNumber": []}, "by_number: must be a JSON object"),
        ({"byNumber": {"5": 1}}, "by_number.5: must be a JSON object"),
        ({"byNumber": {"5": {"uint32": -1}}}, f"by_number.5.uint32: {UNSIGNED}"),
        ({"prices": ["x"]}, "prices: must be a JSON object"),
        ({"prices": 5}, "prices: must be a JSON object"),
        ({"time": 5}, 'time: must be a time like "2026-01-31T12:00:00Z"'),
        ({"times": ["soon"]}, 'times[0]: must be a time like "2026-01-31T12:00:00Z"'),
        ({"duration": "1.5"}, 'duration: must be a duration like "1.5s"'),
        ({"mask": 5}, 'mask: must be field names like "name,state"'),
        ({"any": "x"}, "any: must be a message with its type in @type"),
        ({"any": {"@type": "x/shop.v1.Nothing"}}, "any: must be a message with its type in @type"),
        ({"struct": "x"}, "struct: must be a JSON object"),
        ({"list": {}}, "list: must be a JSON array"),
        ({"wrapped": "x"}, f"wrapped: {INTEGER}"),
        ({"innerOrder": {}, "inner_order": {}}, "inner_order: must not be set twice"),
        ({"card": "x", "gift": {}}, "gift: must not be set together with card"),
        ({"gift": {}, "card": "x"}, "card: must not be set together with gift"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_path_of_its_field(value: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read(value)
    assert str(caught.value) == message
    assert caught.value.field == message.partition(":")[0]


def test_the_key_and_the_value_of_a_map_are_named() -> None:
    for value, path in (({"byNumber": {"x": {}}}, "by_number.x"), ({"prices": {"a": 1, "b": "x"}}, "prices.b")):
        with pytest.raises(InvalidArgumentError) as caught:
            read(value)
        assert caught.value.field == path


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
NAMES = [field.json_name for field in Order.DESCRIPTOR.fields]


@given(st.dictionaries(st.sampled_from(NAMES), JSON_VALUES, max_size=4), st.sampled_from(NAMES))
def test_any_json_is_a_message_or_an_error_that_names_a_field(value: dict[str, Any], outer: str) -> None:
    for each in (value, {outer: value}, {outer: [value]}, {outer: {"1": value}}):
        found = {field.name for field in Order.DESCRIPTOR.fields}
        try:
            read(each)
        except InvalidArgumentError as error:
            found = {error.field.partition(".")[0].partition("[")[0]}
        assert found <= set(Order.DESCRIPTOR.fields_by_name)


@given(st.sampled_from(sorted(SCALARS)), JSON_VALUES)
def test_a_scalar_is_read_as_json_format_reads_it(name: str, value: Any) -> None:
    try:
        expected = json_format.ParseDict({name: value}, Order())
    except json_format.ParseError:
        with pytest.raises(InvalidArgumentError):
            read({name: value})
    else:
        assert read({name: value}) == expected


def test_a_long_list_of_names_is_cut() -> None:
    with pytest.raises(InvalidArgumentError, match="STOP_AT_UNSPECIFIED, STOP_AT"):
        message_from_json({"stopAt": "x"}, agent_service_pb2.SubscribeTaskRequest())
