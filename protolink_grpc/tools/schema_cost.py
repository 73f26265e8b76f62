"""An upper bound for the cost of checking a value against a schema, so that an external schema cannot block the event loop.

Theory of operation. A schema of a few hundred bytes can require 2^n checks, if each reference leads to two others, and a recursive
one 2^d for a value of depth d. Therefore the checks are counted before the value is checked. A subschema applies to the same place
as its parent (`allOf`, `$ref`, ...) or to the places inside of it (`properties`, `items`, ...). The number of times that each
subschema applies to one place at depth k determines the number at depth k + 1. Multiplied with the number of places of the value
at each depth, it is an upper bound of the checks. Patterns are counted separately, because their time depends on the characters.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from protolink_grpc.models.json_value import MAX_DEPTH, to_json

MAX_SCHEMA_BYTES = 128 * 1024
MAX_SCHEMA_DEPTH = 64
"""Maximum nesting of objects and lists in the JSON of a schema."""

MAX_SUBSCHEMAS = 2000
MAX_PATTERNS = 100
"""Maximum number of `pattern` and `patternProperties` together. A compiled pattern may have 256 KiB."""

MAX_IN_PLACE = 64
"""Maximum nesting of `allOf`, `$ref` and similar keywords at one place of a value."""

MAX_CHECKS = 2_000_000
"""Maximum number of checks of one value. A check takes 50 ns."""

MAX_PATTERN_CHARS = 100_000
"""Maximum of characters times patterns in one value. With the slowest patterns each takes 5 us."""

MAX_LISTED_CHECKS = 10_000
MAX_LISTED_BYTES = 50_000_000
"""Above these limits the violations of a value are not listed. Each takes up to 43 us and copies the value at its place."""

_MAX_STEPS = 200_000
"""Maximum number of steps of the count itself. A step takes about 0.3 us."""

_UNSUPPORTED = ("$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties")
"""Keywords whose cost does not depend on their place only."""

_ONE_HERE = ("not", "if", "then", "else")
_SOME_HERE = ("allOf", "anyOf", "oneOf")
_NAMED_HERE = ("dependentSchemas", "dependencies")
_HEAVY = ("uniqueItems", "const", "enum", "format", "minLength", "maxLength")
"""Keywords that read the whole value at their place."""


class ValueTooLargeError(Exception):
    """A value is too large or too deep to be checked. The message is for the sender."""


@dataclass(slots=True)
class ValueSize:
    """The size of a value at each depth: places, and characters of strings and keys."""

    places: list[int] = field(default_factory=list)
    chars: list[int] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.places) + sum(self.chars)


def measure(value: object) -> ValueSize:
    """Measure a JSON value.

    Raises:
        ValueTooLargeError: It is nested deeper than `MAX_DEPTH`.
    """
    size = ValueSize()
    level: list[Any] = [value]
    while level:
        if len(size.places) > MAX_DEPTH:
            raise ValueTooLargeError("Arguments are nested too deeply")
        chars = 0
        inner: list[Any] = []
        for each in level:
            if isinstance(each, str):
                chars += len(each)
            elif isinstance(each, dict):
                chars += sum(len(key) for key in each if isinstance(key, str))
                inner.extend(each.values())
            elif isinstance(each, list | tuple):
                inner.extend(each)
        size.places.append(len(level))
        size.chars.append(chars)
        level = inner
    return size


@dataclass(slots=True, eq=False)
class _Node:
    """One subschema: its cost at one place, and the subschemas that it applies.

    Args:
        here: Subschemas that apply to the same place.
        named: Subschemas of the properties with these names.
        members: Subschemas of properties with any name, and of the names.
        items: Subschemas of items.
        light: The number of keywords and entries, each of constant time.
        heavy: The number of keywords that read the whole value.
        patterns: The number of patterns.
    """

    light: int = 1
    heavy: int = 0
    patterns: int = 0
    here: list["_Node"] = field(default_factory=list)
    named: list[tuple[str, "_Node"]] = field(default_factory=list)
    members: list["_Node"] = field(default_factory=list)
    items: list["_Node"] = field(default_factory=list)


_Times = dict[_Node, int]
"""The number of times that each subschema is applied to one place."""


class SchemaCost:
    """The cost of checks against one schema.

    Raises:
        ValueError: The schema is too large, uses a keyword with unlimited cost, or refers to another document.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        _check_size(schema)
        self._schema = schema
        self._anchors = _find_anchors(schema)
        self._nodes: dict[int, _Node] = {}
        self._pending: list[tuple[dict[str, Any], _Node]] = []
        self._patterns = 0
        root = self._node(schema)
        while self._pending:
            self._read(*self._pending.pop())
        _check_nesting(self._nodes.values())
        self._levels = list(_levels(root))
        if self._levels[0] is _TOO_DEEP:
            raise ValueError("requires too many checks of one place")

    def check(self, size: ValueSize) -> None:
        """Raise ValueTooLargeError if the check of a value of this size could take too long."""
        heavy = sum(level.heavy for level, _ in zip(self._levels, size.places, strict=False))
        light = sum(level.light * places for level, places in zip(self._levels, size.places, strict=False))
        # `propertyNames` reads text of the level above.
        chars = zip(self._levels, size.chars, [0, *size.chars], strict=False)
        patterns = sum(level.patterns * (own + above) for level, own, above in chars)
        if light + heavy * size.total > MAX_CHECKS or patterns > MAX_PATTERN_CHARS:
            raise ValueTooLargeError("Input is too large or too deep to be checked against this schema")

    def can_list_violations(self, size: ValueSize) -> bool:
        applied = [(level.applied, places) for level, places in zip(self._levels, size.places, strict=False)]
        checks = sum(times * places for times, places in applied)
        return checks <= MAX_LISTED_CHECKS and size.total * sum(times for times, _ in applied) <= MAX_LISTED_BYTES

    def _node(self, schema: object) -> _Node:
        """The node of a subschema. `true` and `false` are counted in the node of their parent."""
        if not isinstance(schema, dict):
            return _Node(light=0)
        node = self._nodes.get(id(schema))
        if node is None:
            if len(self._nodes) >= MAX_SUBSCHEMAS:
                raise ValueError(f"must have at most {MAX_SUBSCHEMAS} subschemas")
            node = self._nodes[id(schema)] = _Node()
            self._pending.append((schema, node))
        return node

    def _read(self, schema: dict[str, Any], node: _Node) -> None:
        for key in _UNSUPPORTED:
            if key in schema:
                raise ValueError(f"must not use {key}, which is not supported in schemas from callers and peers")
        if "$id" in schema and schema is not self._schema:
            raise ValueError("must not have $id in subschemas: refer to parts of the schema with #/...")
        by_pattern = _items_at(schema, "patternProperties")
        node.patterns = ("pattern" in schema) + len(by_pattern)
        self._patterns += node.patterns
        if self._patterns > MAX_PATTERNS:
            raise ValueError(f"must have at most {MAX_PATTERNS} patterns")
        node.light = 1 + sum(len(each) if isinstance(each, list | dict) else 1 for each in schema.values())
        node.heavy = sum(key in schema for key in _HEAVY)
        here = [schema[key] for key in _ONE_HERE if key in schema]
        here += [each for key in _SOME_HERE for each in _list_at(schema, key)]
        here += [each for key in _NAMED_HERE for _, each in _items_at(schema, key)]
        if "$ref" in schema:
            here.append(self._resolve_reference(schema["$ref"]))
        members = [each for _, each in by_pattern]
        members += [schema[key] for key in ("additionalProperties", "propertyNames") if key in schema]
        # Draft 7 has a list of schemas in `items`, and `additionalItems` for the rest.
        items = [*_list_at(schema, "prefixItems"), *_list_at(schema, "items")]
        items += [schema[key] for key in ("items", "contains", "additionalItems") if key in schema]
        node.here = [self._node(each) for each in here]
        node.named = [(name, self._node(each)) for name, each in _items_at(schema, "properties")]
        node.members = [self._node(each) for each in members]
        node.items = [self._node(each) for each in items]

    def _resolve_reference(self, reference: object) -> object:
        found: object = None
        if reference == "#":
            found = self._schema
        elif isinstance(reference, str) and reference.startswith("#/"):
            found = _resolve_pointer(self._schema, reference)
        elif isinstance(reference, str) and reference.startswith("#"):
            found = self._anchors.get(reference[1:])
        if found is None:
            raise ValueError(f"refers to '{str(reference)[:200]}', which is not part of it")
        return found


def _check_size(schema: dict[str, Any]) -> None:
    try:
        depth = len(measure(schema).places) - 1
    except ValueTooLargeError:
        depth = MAX_DEPTH
    if depth > MAX_SCHEMA_DEPTH:
        raise ValueError(f"must be nested at most {MAX_SCHEMA_DEPTH} levels deep")
    try:
        size = len(to_json(schema).encode())
    except (TypeError, ValueError) as error:
        raise ValueError(f"must be a JSON object: {error}") from None
    if size > MAX_SCHEMA_BYTES:
        raise ValueError(f"must have at most {MAX_SCHEMA_BYTES} bytes as JSON, has {size}")


def _list_at(schema: dict[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _items_at(schema: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    found = schema.get(key)
    return list(found.items()) if isinstance(found, dict) else []


def _find_anchors(schema: dict[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {}
    left: list[object] = [schema]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            if isinstance(anchor := each.get("$anchor"), str):
                found[anchor] = each
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)
    return found


def _resolve_pointer(schema: object, pointer: str) -> object:
    """The target of a JSON pointer in a URI fragment, or None."""
    found = schema
    for step in unquote(pointer).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and len(key) < _INDEX_DIGITS and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


_INDEX_DIGITS = 7


def _check_nesting(nodes: Iterable[_Node]) -> None:
    heights: dict[_Node, int] = {}

    def visit(node: _Node, depth: int) -> int:
        height = heights.get(node)
        if height is None and depth <= MAX_IN_PLACE:
            height = heights[node] = 1 + max((visit(each, depth + 1) for each in node.here), default=0)
        if height is None or depth + height > MAX_IN_PLACE:
            raise ValueError(
                f"must not nest more than {MAX_IN_PLACE} subschemas at one place, nor refer to itself there"
            )
        return height

    for each in nodes:
        visit(each, 0)


@dataclass(frozen=True, slots=True)
class _Level:
    """The maximum cost of one place at a depth: the number of applied subschemas, and the sums of their costs."""

    applied: int
    light: int
    heavy: int
    patterns: int


_TOO_DEEP = _Level(MAX_CHECKS + 1, MAX_CHECKS + 1, 0, 0)
"""The level of a schema that is too expensive: values of this depth are not checked."""


def _levels(root: _Node) -> Iterator[_Level]:
    """The cost at each depth, the root first, up to the last depth with a subschema."""
    count = _Count()
    kinds = [count.close({root: 1})]
    for _ in range(MAX_DEPTH + 1):
        kinds = [each for each in kinds if each]
        if not kinds:
            return
        level = _Level(
            max(sum(each.values()) for each in kinds),
            max(sum(node.light * times for node, times in each.items()) for each in kinds),
            max(sum(node.heavy * times for node, times in each.items()) for each in kinds),
            max(sum(node.patterns * times for node, times in each.items()) for each in kinds),
        )
        if level.light > MAX_CHECKS or count.steps > _MAX_STEPS:
            yield _TOO_DEEP
            return
        yield level
        kinds = count.descend(_maximum(kinds))


def _maximum(kinds: list[_Times]) -> _Times:
    """The maximum over all kinds of places."""
    found: _Times = {}
    for each in kinds:
        for node, times in each.items():
            if times > found.get(node, 0):
                found[node] = times
    return found


class _Count:
    """Counts from depth to depth the number of times that each subschema applies to one place.

    Attributes:
        steps: The number of steps of the count itself.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._closures: dict[_Node, _Times] = {}

    def close(self, times: _Times) -> _Times:
        """Add the subschemas that these apply to the same place."""
        found: _Times = {}
        for node, count in times.items():
            closure = self._closure(node)
            self.steps += len(closure)
            if self.steps > _MAX_STEPS:
                return found
            for each, inside in closure.items():
                found[each] = found.get(each, 0) + count * inside
        return found

    def _closure(self, node: _Node) -> _Times:
        known = self._closures.get(node)
        if known is None:
            inner: _Times = {}
            for each in node.here:
                inner[each] = inner.get(each, 0) + 1
            known = self._closures[node] = {node: 1, **self.close(inner)}
        return known

    def descend(self, times: _Times) -> list[_Times]:
        """The kinds of places inside of one with these subschemas: items, properties of each name, properties of other names."""
        items: _Times = {}
        members: _Times = {}
        named: dict[str, _Times] = {}
        for node, count in times.items():
            for into, children in ((items, node.items), (members, node.members)):
                for each in children:
                    into[each] = into.get(each, 0) + count
            for name, each in node.named:
                here = named.setdefault(name, {})
                here[each] = here.get(each, 0) + count
            self.steps += 1 + len(node.items) + len(node.members) + len(node.named)
        for here in named.values():
            for each, count in members.items():
                here[each] = here.get(each, 0) + count
            self.steps += len(members)
        return [self.close(each) for each in (items, members, *named.values())]
