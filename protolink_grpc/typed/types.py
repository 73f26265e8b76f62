"""The types of a JSON Schema that protobuf can express, as a tree. `layout` gives them fields and numbers.

A tool's JSON Schemas are the description of its arguments and its result, so typed services are derived from them: from Python's
type hints, from a schema that an author wrote, and from the schema of a tool that another process provides.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MISSING: Final = object()
"""The default of a field without a default; None is a default."""

MAX_DEPTH: Final = 64
"""Maximum number of schemas within each other, definitions not counted."""


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A value of one protobuf scalar.

    Args:
        proto: int64, double, bool, string or bytes.
        form: How a string is written, such as `date` or `uuid`; empty means any text.
    """

    proto: str
    form: str = ""


@dataclass(frozen=True, slots=True)
class KnownType:
    """A value of a well-known message.

    Args:
        message: Timestamp, Duration, Value (any JSON value), Struct (any JSON object) or NullValue.
    """

    message: str


@dataclass(frozen=True, slots=True)
class EnumType:
    """One of several constants.

    Args:
        name: Name of the class; empty means that the field names the type.
        members: Names in upper case and JSON values, in the order of the schema.
    """

    name: str
    members: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ListType:
    item: "Type"


@dataclass(frozen=True, slots=True)
class MapType:
    """A JSON object with any keys."""

    value: "Type"


@dataclass(frozen=True, slots=True)
class TupleType:
    items: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class UnionType:
    """One of several types, without null: the field says whether it may be null."""

    variants: tuple["Type", ...]


@dataclass(slots=True, eq=False)
class ObjectType:
    """A JSON object with known keys. Recursive types refer to the same object.

    Args:
        name: Name of the class; empty means that the field names the type.
        extra: Type of further keys; None means that there are none.
    """

    name: str
    fields: list["FieldType"] = field(default_factory=list)
    extra: "Type | None" = None
    description: str = ""


Type = ScalarType | KnownType | EnumType | ListType | MapType | TupleType | UnionType | ObjectType


@dataclass(frozen=True, slots=True)
class FieldType:
    """One key of an object.

    Args:
        name: The key in JSON.
        type: Its type without null.
        required: The key must be there.
        nullable: Its value may be null.
        default: The value of a missing key, or `MISSING`.
        bounds: Sentences about allowed values, for comments.
    """

    name: str
    type: Type
    required: bool = True
    nullable: bool = False
    default: Any = MISSING
    description: str = ""
    bounds: tuple[str, ...] = ()


ANY: Final = KnownType("Value")
ANY_OBJECT: Final = KnownType("Struct")
NULL: Final = KnownType("NullValue")

UTF8: Final = "utf8"
"""The form of bytes that JSON arguments have as the text that they encode, and not as base64. Results always have base64."""

_STRINGS: Final[Mapping[str, Type]] = {
    "date-time": KnownType("Timestamp"),
    "duration": KnownType("Duration"),
    "base64": ScalarType("bytes"),
    "base64url": ScalarType("bytes"),
    "binary": ScalarType("bytes", UTF8),
    "date": ScalarType("string", "date"),
    "time": ScalarType("string", "time"),
    "uuid": ScalarType("string", "uuid"),
    "decimal": ScalarType("string", "decimal"),
}
"""Types of strings by their `format`; other formats are texts."""

_SCALARS: Final[Mapping[str, Type]] = {
    "integer": ScalarType("int64"),
    "number": ScalarType("double"),
    "boolean": ScalarType("bool"),
    "null": NULL,
}

_BOUNDS: Final[Mapping[str, str]] = {
    "minimum": "At least {}.",
    "exclusiveMinimum": "More than {}.",
    "maximum": "At most {}.",
    "exclusiveMaximum": "Less than {}.",
    "minLength": "At least {} characters.",
    "maxLength": "At most {} characters.",
    "minItems": "At least {} items.",
    "maxItems": "At most {} items.",
    "multipleOf": "A multiple of {}.",
    "pattern": "Matches `{}`.",
}
"""Sentences for the keywords that limit a value."""


class SchemaReader:
    """Reads the types of one JSON Schema.

    Args:
        schema: With its definitions under `$defs`.
        owner: What has the schema, for errors, such as `tool 'add'`.
    """

    def __init__(self, schema: Mapping[str, Any], owner: str) -> None:
        self._definitions: Mapping[str, Any] = schema.get("$defs", {})
        self._known: dict[str, Type] = {}
        self._owner = owner
        self._schema = schema

    def read_object(self, name: str) -> ObjectType:
        """Return the type of the whole schema, which must be that of an object; `name` replaces its title.

        Raises:
            TypeError: A part of it cannot be expressed in protobuf; names the path.
        """
        found = ObjectType(name, description=self._schema.get("description", ""))
        self._fill(found, self._schema, "", 0)
        return found

    def read(self) -> tuple[Type, bool]:
        """Return the type of the whole schema, and whether its value may be null. Raises as `read_object`."""
        return self._read(self._schema, "", 0)

    def _error(self, path: str, problem: str) -> TypeError:
        where = f"'{path}' of {self._owner}" if path else f"the result of {self._owner}"
        return TypeError(f"{where} {problem}")

    def _read(self, schema: Any, path: str, depth: int) -> tuple[Type, bool]:
        if depth > MAX_DEPTH:
            raise self._error(path, f"is nested more than {MAX_DEPTH} levels deep")
        if schema is True or schema == {}:
            return ANY, True
        if not isinstance(schema, Mapping):
            raise self._error(path, "allows no value")
        if "$ref" in schema:
            return self._read_reference(schema["$ref"], path, depth)
        for keyword in ("not", "patternProperties", "if", "dependentSchemas"):
            if keyword in schema:
                raise self._error(path, f"has the keyword '{keyword}', which protobuf cannot express")
        if len(schema.get("allOf", ())) == 1:
            return self._read({**schema["allOf"][0]}, path, depth + 1)
        if "allOf" in schema:
            raise self._error(path, "combines schemas with 'allOf', which protobuf cannot express")
        if schema.get("format") == "decimal":
            return _STRINGS["decimal"], False
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return self._read_union(schema[keyword], path, depth)
        if "const" in schema or "enum" in schema:
            return self._read_enum(schema, path)
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._read_union([{**schema, "type": each} for each in kind], path, depth)
        return self._read_kind(kind, schema, path, depth)

    def _read_kind(self, kind: Any, schema: Mapping[str, Any], path: str, depth: int) -> tuple[Type, bool]:
        match kind:
            case "null":
                return NULL, True
            case "integer" | "number" | "boolean":
                return _SCALARS[kind], False
            case "string":
                form = schema.get("contentEncoding") or schema.get("format", "")
                return _STRINGS.get(form, ScalarType("string")), False
            case "array":
                return self._read_array(schema, path, depth), False
            case "object":
                return self._read_map_or_object(schema, path, depth), False
            case None:
                return ANY, True
            case _:
                raise self._error(path, f"has the type {kind!r}, which is unknown")

    def _read_reference(self, reference: str, path: str, depth: int) -> tuple[Type, bool]:
        name = reference.removeprefix("#/$defs/")
        if name == reference or name not in self._definitions:
            raise self._error(path, f"refers to {reference!r}, which is not a definition of its schema")
        known = self._known.get(name)
        if known is None:
            schema = self._definitions[name]
            if isinstance(schema, Mapping) and schema.get("type") == "object" and "properties" in schema:
                known = self._known[name] = ObjectType(_type_name(name), description=schema.get("description", ""))
                self._fill(known, schema, path, depth + 1)
            else:
                if isinstance(schema, Mapping) and ("enum" in schema or "const" in schema):
                    schema = {**schema, "title": name}
                found, nullable = self._read(schema, path, depth + 1)
                self._known[name] = found
                return found, nullable
        return known, False

    def _read_union(self, schemas: Any, path: str, depth: int) -> tuple[Type, bool]:
        variants: list[Type] = []
        nullable = False
        for schema in schemas:
            variant, may_be_null = self._read(schema, path, depth + 1)
            nullable = nullable or may_be_null
            more = variant.variants if isinstance(variant, UnionType) else (variant,)
            variants += [each for each in more if each != NULL and each not in variants]
        if ANY in variants:
            return ANY, True
        if not variants:
            return NULL, True
        return (variants[0] if len(variants) == 1 else UnionType(tuple(variants))), nullable

    def _read_enum(self, schema: Mapping[str, Any], path: str) -> tuple[Type, bool]:
        values = list(schema["enum"]) if "enum" in schema else [schema["const"]]
        nullable = None in values
        values = [value for value in values if value is not None]
        if not values:
            return NULL, True
        if any(not isinstance(value, str | int) or isinstance(value, bool) for value in values):
            raise self._error(path, "has constants that are neither texts nor integers, which an enum cannot have")
        names = schema.get("x-enum-varnames") or [_member_name(value) for value in values]
        names = [_member_name(name) for name in names]
        if len(set(names)) != len(values):
            raise self._error(path, f"has constants with equal names in an enum: {', '.join(names)}")
        return EnumType(_type_name(schema.get("title", "")), tuple(zip(names, values, strict=True))), nullable

    def _read_array(self, schema: Mapping[str, Any], path: str, depth: int) -> Type:
        if "prefixItems" in schema:
            if schema.get("items", False) is not False and schema.get("maxItems") != len(schema["prefixItems"]):
                raise self._error(path, "is a tuple with further items, which protobuf cannot express")
            items = []
            for index, each in enumerate(schema["prefixItems"]):
                item, nullable = self._read(each, f"{path}[{index}]", depth + 1)
                items.append(self._not_null(item, nullable=nullable))
            return TupleType(tuple(items))
        item, nullable = self._read(schema.get("items", {}), f"{path}[]", depth + 1)
        return ListType(self._not_null(item, nullable=nullable))

    @staticmethod
    def _not_null(item: Type, *, nullable: bool) -> Type:
        """Return the type of an item. A null among items is a variant of a union, because items have no presence."""
        if not nullable or item in (ANY, NULL):
            return item
        return UnionType((*(item.variants if isinstance(item, UnionType) else (item,)), NULL))

    def _read_map_or_object(self, schema: Mapping[str, Any], path: str, depth: int) -> Type:
        extra = schema.get("additionalProperties", True)
        if not schema.get("properties"):
            if extra is True or extra == {}:
                return ANY_OBJECT
            if extra is False:
                return ObjectType(_type_name(schema.get("title", "")), description=schema.get("description", ""))
            value, nullable = self._read(extra, f"{path}.*", depth + 1)
            return MapType(self._not_null(value, nullable=nullable))
        found = ObjectType(_type_name(schema.get("title", "")), description=schema.get("description", ""))
        self._fill(found, schema, path, depth + 1)
        return found

    def _fill(self, found: ObjectType, schema: Mapping[str, Any], path: str, depth: int) -> None:
        required = set(schema.get("required", ()))
        for name, each in schema.get("properties", {}).items():
            where = f"{path}.{name}" if path else name
            kind, nullable = self._read(each, where, depth + 1)
            described = each if isinstance(each, Mapping) else {}
            found.fields.append(
                FieldType(
                    name,
                    kind,
                    required=name in required,
                    nullable=nullable,
                    default=described.get("default", MISSING),
                    description=described.get("description", ""),
                    bounds=_bounds(described),
                )
            )
        extra = schema.get("additionalProperties")
        if extra is True or isinstance(extra, Mapping):
            value, nullable = self._read(extra, f"{path}.*", depth + 1)
            found.extra = self._not_null(value, nullable=nullable)


def _bounds(schema: Mapping[str, Any]) -> tuple[str, ...]:
    variants = [each for each in schema.get("anyOf", ()) if isinstance(each, Mapping) and each.get("type") != "null"]
    limits = variants[0] if len(variants) == 1 else schema
    if "prefixItems" in limits:
        return ()
    return tuple(text.format(limits[keyword]) for keyword, text in _BOUNDS.items() if keyword in limits)


def _type_name(title: str) -> str:
    """Return the name of a message or enum: `Trip[int]` becomes `TripInt`."""
    return pascal(title)


def pascal(name: str) -> str:
    """Return a name in the spelling of messages, services and methods: `get_weather` becomes `GetWeather`."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    return f"T{joined}" if joined[:1].isdigit() else joined


def snake(name: str) -> str:
    """Return a name in the spelling of fields: `maxSize` and `max-size` become `max_size`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    joined = "_".join(re.findall(r"[A-Za-z0-9]+", spaced)).lower()
    return f"f_{joined}" if joined[:1].isdigit() else joined


def _member_name(value: str | int) -> str:
    if isinstance(value, int):
        return f"MINUS_{-value}" if value < 0 else f"VALUE_{value}"
    return snake(value).upper().removeprefix("F_") or "EMPTY"
