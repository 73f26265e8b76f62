import json
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import MAX_DEPTH, canonical_json, from_json, normalize, plain, to_json

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


def nest(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def same(left: object, right: object) -> bool:
    """Equal in value and type: 1, 1.0 and True are three values."""
    return json.dumps(left) == json.dumps(right)


@given(VALUES)
def test_every_json_value_survives_its_text(value: object):
    assert same(from_json(to_json(value)), value)


@given(VALUES)
def test_a_plain_copy_is_equal_and_has_the_same_text(value: object):
    assert same(plain(value), value)
    assert same(normalize(plain(value)), normalize(value))


@given(st.integers(min_value=2**62, max_value=2**200), st.booleans())
def test_long_integers_keep_every_digit(number: int, negative: bool):
    value = {"n": -number if negative else number, "s": str(number)}
    assert from_json(to_json(value)) == value


@pytest.mark.parametrize("text", ["18446744073709551616", b"18446744073709551616"])
def test_integers_beyond_64_bits_are_read_as_integers(text: str | bytes):
    assert from_json(text) == 2**64
    assert isinstance(from_json(text), int)


@pytest.mark.parametrize(
    "junk", ["", "{", "[1,]", "nul", "NaN", "1 2", b"\xff\xfe", "\ud800", '"\\ud800"', "1e999", "9" * 5000]
)
def test_junk_is_refused_and_the_field_is_named(junk: str | bytes):
    with pytest.raises(InvalidArgumentError) as caught:
        from_json(junk, field="args_json")
    assert caught.value.metadata["field"] == "args_json"


def test_depth_is_limited_in_both_directions():
    assert from_json(to_json(nest(MAX_DEPTH))) == nest(MAX_DEPTH)
    for refuse in (
        lambda: from_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)),
        lambda: from_json('{"a":' * 50 + "[" * 51 + "]" * 51 + "}" * 50),
        lambda: to_json(nest(MAX_DEPTH + 1)),
        lambda: plain(nest(MAX_DEPTH + 1)),
        lambda: from_json("[" * 100_000 + "]" * 100_000),
    ):
        with pytest.raises(InvalidArgumentError):
            refuse()


def test_a_refused_depth_names_the_field():
    with pytest.raises(InvalidArgumentError) as caught:
        from_json("[" * 200 + "]" * 200, field="payload")
    assert caught.value.field == "payload"


@pytest.mark.parametrize("item", ["[", "]", '"[', '\\"[', "\\", "[]", '"', "{" * 200])
def test_brackets_inside_text_are_not_depth(item: str):
    value = [item, {"k": [item] * 150}, item]
    assert from_json(to_json(value)) == value


def test_brackets_inside_text_do_not_hide_depth():
    inside = "[]]]"
    deep = '["' + inside + '",'
    with pytest.raises(InvalidArgumentError):
        from_json(deep * 101 + "0" + "]" * 101)


@given(VALUES, st.integers(min_value=90, max_value=110))
def test_depth_is_counted_exactly(value: object, levels: int):
    def depth(each: object) -> int:
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else None
        return 0 if inner is None else 1 + max((depth(item) for item in inner), default=0)

    text = "[" * levels + to_json(value) + "]" * levels
    if levels + depth(value) <= MAX_DEPTH:
        from_json(text)
    else:
        with pytest.raises(InvalidArgumentError):
            from_json(text)


class Color(Enum):
    RED = "red"


class Level(StrEnum):
    HIGH = "high"


@dataclass
class Point:
    x: int
    raw: bytes


class WithToDict:
    def to_dict(self) -> dict[str, object]:
        return {"at": date(2026, 1, 2)}


class WithModelDump:
    def model_dump(self) -> dict[str, object]:
        return {"tags": {"b", "a"}}


@dataclass
class DataclassWithToDict:
    hidden: int = 1

    def to_dict(self) -> dict[str, object]:
        return {"shown": self.hidden}


Pair = namedtuple("Pair", "left right")

RETURNED = [
    ((1, 2), [1, 2]),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"b", "a"}), ["a", "b"]),
    (b"\x00\xff", "AP8="),
    (bytearray(b"a"), "YQ=="),
    (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2026-01-02T03:04:05.000006+00:00"),
    (date(2026, 1, 2), "2026-01-02"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Color.RED, "red"),
    (Level.HIGH, "high"),
    (Decimal("1.10"), "1.10"),
    (Point(1, b"a"), {"x": 1, "raw": "YQ=="}),
    (WithToDict(), {"at": "2026-01-02"}),
    (WithModelDump(), {"tags": ["a", "b"]}),
    (DataclassWithToDict(), {"shown": 1}),
    (Pair(1, (2,)), [1, [2]]),
    (MappingProxyType({"a": Color.RED}), {"a": "red"}),
    (float("nan"), None),
    ([float("inf")], [None]),
    (
        {1: "a", None: "b", False: "c", 2.5: "d", Color.RED: "e", UUID(int=1): "f", date(2026, 1, 2): "g"},
        {"1": "a", "null": "b", "false": "c", "2.5": "d", "red": "e", str(UUID(int=1)): "f", "2026-01-02": "g"},
    ),
]


@pytest.mark.parametrize(("value", "expected"), RETURNED)
def test_what_tools_return_becomes_json(value: object, expected: object):
    assert normalize(value) == expected
    assert plain(value) == expected


@pytest.mark.parametrize(("value", "expected"), RETURNED)
def test_a_long_integer_beside_it_changes_nothing(value: object, expected: object):
    assert normalize([value, 2**70]) == [expected, 2**70]


@pytest.mark.parametrize("value", [object(), [object()], Point, WithToDict, print, {"f": lambda: 0}])
def test_other_types_are_refused_by_name(value: object):
    with pytest.raises(TypeError, match=r"object|type|function|builtin"):
        to_json(value)


def test_a_circle_is_refused():
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(InvalidArgumentError):
        to_json(circle)


def test_an_object_that_becomes_itself_is_refused():
    class Same:
        def to_dict(self) -> object:
            return self

    with pytest.raises(InvalidArgumentError):
        to_json(Same())


def test_text_that_is_not_unicode_is_refused():
    with pytest.raises(InvalidArgumentError):
        to_json({"name": "\ud800"})


def test_an_error_of_the_value_itself_comes_through():
    class Broken:
        def to_dict(self) -> object:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        to_json(Broken())


def test_a_plain_copy_shares_nothing():
    source = {"a": [{"b": 1}]}
    copy = plain(source)
    copy["a"][0]["b"] = 2
    assert source == {"a": [{"b": 1}]}


def test_canonical_text_does_not_depend_on_the_order_of_keys():
    assert canonical_json({"b": 1, "a": {"d": 1, "c": 2}}) == canonical_json({"a": {"c": 2, "d": 1}, "b": 1})
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"é","b":1}'
