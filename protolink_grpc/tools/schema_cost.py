"""What checking a value against a schema can cost at most, so that a schema from outside cannot keep the event loop busy.

Theory of operation. A schema of a few hundred bytes can demand 2^n checks, by references that each lead to two others, and a
recursive one 2^d on a value of depth d. So the checks are counted before they are made. A subschema applies to the place of its
parent (`allOf`, `$ref`, ...) or to the places inside of that one (`properties`, `items`, ...). From the number of times that each
subschema can be applied to one place at depth k follows the number at depth k + 1. The product with the number of places that the
value has at each depth is a bound of the checks; patterns are counted apart, because each takes time for each character.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from protolink_grpc.models.json_value import MAX_DEPTH, to_json

MAX_SCHEMA_BYTES = 128 * 1024
MAX_SCHEMA_DEPTH = 64
"""Objects and lists inside of each other in the JSON of a schema."""

MAX_SUBSCHEMAS = 2000
MAX_PATTERNS = 100
"""Of `pattern` and `patternProperties` together. A compiled one may have 256 KiB."""

MAX_IN_PLACE = 64
"""`allOf`, `$ref` and the like in a row at one place of a value."""

MAX_CHECKS = 2_000_000
"""Of one value. 50 ns each."""

MAX_PATTERN_CHARS = 100_000
"""Characters times patterns in one value. 5 us each where the pattern is as bad as it can be."""

MAX_LISTED_CHECKS = 10_000
MAX_LISTED_BYTES = 50_000_000
"""Above these bounds the violations of one value are not listed: each costs up to 43 us, and a copy of the value at its place."""

_MAX_STEPS = 200_000
"""Of the count itself, about 0.3 us each."""

_UNSUPPORTED = ("$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties")
"""Keywords whose cost does not follow from the place where they stand."""

_ONE_HERE = ("not", "if", "then", "else")
_SOME_HERE = ("allOf", "anyOf", "oneOf")
_NAMED_HERE = ("dependentSchemas", "dependencies")
_HEAVY = ("uniqueItems", "const", "enum", "format", "minLength", "maxLength")
"""Keywords that look at all of the value at their place."""


class ValueTooLargeError(Exception):
    """A value is too large, or too deep, to be checked. The text is a sentence for its sender."""


@dataclass(slots=True)
class ValueSize:
    """How much of a value there is at each depth: places, and characters of text and of keys."""

    places: list[int] = field(default_factory=list)
    chars: list[int] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.places) + sum(self.chars)


def measure(value: object) -> ValueSize:
    """The size of a JSON value.

    Raises:
        ValueTooLargeError: It is nested deeper than JSON may be here.
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
    """One subschema: what it costs at one place, and where it leads.

    Args:
        here: Subschemas that apply to the same place.
        named: Subschemas of the properties with these names.
        members: Subschemas of properties of any name, and of the names.
        items: Subschemas of items.
        heavy: How many keywords look at all of the value.
    """

    light: int = 1
    heavy: int = 0
    patterns: int = 0
    here: list["_Node"] = field(default_factory=list)
    named: list[tuple[str, "_Node"]] = field(default_factory=list)
    members: list["_Node"] = field(default_factory=list)
    items: list["_Node"] = field(default_factory=list)


_Times = dict[_Node, int]
"""How often each subschema is applied to one place."""


class SchemaCost:
    """The bound of a check by one schema.

    Raises:
        ValueError: The schema is too large, uses a keyword whose cost has no bound, or refers to something outside of itself.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        _check_size(schema)
        self._schema = schema
        self._anchors = _anchors(schema)
        self._nodes: dict[int, _Node] = {}
        self._unread: list[tuple[dict[str, Any], _Node]] = []
        self._patterns = 0
        root = self._node(schema)
        while self._unread:
            self._read(*self._unread.pop())
        _check_nesting(self._nodes.values())
        self._levels = list(_levels(root))
        if self._levels[0] is _TOO_DEEP:
            raise ValueError("demands too many checks of one place")

    def check(self, size: ValueSize) -> None:
        """Raise ValueTooLargeError where the check of such a value could take too long."""
        heavy = sum(level.heavy for level, _ in zip(self._levels, size.places, strict=False))
        light = sum(level.light * places for level, places in zip(self._levels, size.places, strict=False))
        # `propertyNames` looks at text of the level above.
        chars = zip(self._levels, size.chars, [0, *size.chars], strict=False)
        patterns = sum(level.patterns * (own + above) for level, own, above in chars)
        if light + heavy * size.total > MAX_CHECKS or patterns > MAX_PATTERN_CHARS:
            raise ValueTooLargeError("Input is too large or too deep to be checked against this schema")

    def can_list_violations(self, size: ValueSize) -> bool:
        applied = [(level.applied, places) for level, places in zip(self._levels, size.places, strict=False)]
        checks = sum(times * places for times, places in applied)
        return checks <= MAX_LISTED_CHECKS and size.total * sum(times for times, _ in applied) <= MAX_LISTED_BYTES

    def _node(self, schema: object) -> _Node:
        """The node of a subschema; `true` and `false` are counted where they are listed."""
        if not isinstance(schema, dict):
            return _Node(light=0)
        node = self._nodes.get(id(schema))
        if node is None:
            if len(self._nodes) >= MAX_SUBSCHEMAS:
                raise ValueError(f"must have at most {MAX_SUBSCHEMAS} subschemas")
            node = self._nodes[id(schema)] = _Node()
            self._unread.append((schema, node))
        return node

    def _read(self, schema: dict[str, Any], node: _Node) -> None:
        for key in _UNSUPPORTED:
            if key in schema:
                raise ValueError(f"must not use {key}, which is not supported in a schema that is sent")
        if "$id" in schema and schema is not self._schema:
            raise ValueError("must not have $id inside: refer to parts of the schema by #/...")
        by_pattern = _named(schema, "patternProperties")
        node.patterns = ("pattern" in schema) + len(by_pattern)
        self._patterns += node.patterns
        if self._patterns > MAX_PATTERNS:
            raise ValueError(f"must have at most {MAX_PATTERNS} patterns")
        node.light = 1 + sum(len(each) if isinstance(each, list | dict) else 1 for each in schema.values())
        node.heavy = sum(key in schema for key in _HEAVY)
        here = [schema[key] for key in _ONE_HERE if key in schema]
        here += [each for key in _SOME_HERE for each in _listed(schema, key)]
        here += [each for key in _NAMED_HERE for _, each in _named(schema, key)]
        if "$ref" in schema:
            here.append(self._referred(schema["$ref"]))
        members = [each for _, each in by_pattern]
        members += [schema[key] for key in ("additionalProperties", "propertyNames") if key in schema]
        items = [*_listed(schema, "prefixItems"), *(schema[key] for key in ("items", "contains") if key in schema)]
        node.here = [self._node(each) for each in here]
        node.named = [(name, self._node(each)) for name, each in _named(schema, "properties")]
        node.members = [self._node(each) for each in members]
        node.items = [self._node(each) for each in items]

    def _referred(self, reference: object) -> object:
        found: object = None
        if reference == "#":
            found = self._schema
        elif isinstance(reference, str) and reference.startswith("#/"):
            found = _at(self._schema, reference)
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


def _listed(schema: dict[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _named(schema: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    found = schema.get(key)
    return list(found.items()) if isinstance(found, dict) else []


def _anchors(schema: dict[str, Any]) -> dict[str, object]:
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


def _at(schema: object, pointer: str) -> object:
    """What a JSON pointer in a URI fragment leads to, None for nothing."""
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
    """What is applied to one place of a depth at most: subschemas, and the sums of their costs."""

    applied: int
    light: int
    heavy: int
    patterns: int


_TOO_DEEP = _Level(MAX_CHECKS + 1, MAX_CHECKS + 1, 0, 0)
"""No value that reaches this depth is checked."""


def _levels(root: _Node) -> Iterator[_Level]:
    """The cost at each depth, the root first; ends where nothing applies any more."""
    count = _Count()
    kinds = [count.closed({root: 1})]
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
        kinds = count.below(_most(kinds))


def _most(kinds: list[_Times]) -> _Times:
    """A bound for places of any of these kinds."""
    found: _Times = {}
    for each in kinds:
        for node, times in each.items():
            if times > found.get(node, 0):
                found[node] = times
    return found


class _Count:
    """How often each subschema applies to one place, counted from depth to depth.

    Attributes:
        steps: How much work the count itself has been.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._closures: dict[_Node, _Times] = {}

    def closed(self, times: _Times) -> _Times:
        """The same with all that these subschemas apply to their own place."""
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
            known = self._closures[node] = {node: 1, **self.closed(inner)}
        return known

    def below(self, times: _Times) -> list[_Times]:
        """The kinds of places below one with these subschemas: an item, a property of each name, a property of another name."""
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
        return [self.closed(each) for each in (items, members, *named.values())]
