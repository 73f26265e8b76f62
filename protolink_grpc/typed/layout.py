"""The messages and methods of a typed service, laid out from the types of its tools. `numbering` gives the fields their numbers.

A field of a JSON object becomes

- a field without presence, if it is required and never null;
- an `optional` field or a message, if it may be missing or null: unset means the default, and null for a required field;
- a `repeated` or `map` field for a list or an object with any keys that is required, or empty by default;
- a `oneof` for a union. A null that differs from the default is a variant of its own.

A list, map or union in a place that cannot have it directly, such as an item of a list, is wrapped in a nested message.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from protolink_grpc.models.json_value import to_camel_case
from protolink_grpc.typed.types import (
    ANY,
    ANY_OBJECT,
    MISSING,
    NULL,
    EnumType,
    FieldType,
    KnownType,
    ListType,
    MapType,
    ObjectType,
    ScalarType,
    TupleType,
    Type,
    UnionType,
    pascal,
    snake,
)

RESULT: Final = "result"
"""The field of a response."""

EXTRA: Final = "additional_properties"
"""The field for further keys of an object."""

_SCALARS: Final = {
    "int64": FieldDescriptorProto.TYPE_INT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}
_IMPORTS: Final = {
    "Timestamp": "google/protobuf/timestamp.proto",
    "Duration": "google/protobuf/duration.proto",
    "Value": "google/protobuf/struct.proto",
    "Struct": "google/protobuf/struct.proto",
    "NullValue": "google/protobuf/struct.proto",
}
_FORM_COMMENTS: Final = {
    "date": "Format: ISO 8601 date.",
    "time": "Format: ISO 8601 time.",
    "uuid": "Format: UUID.",
    "decimal": "Format: decimal number.",
    "utf8": "UTF-8 text.",
}
_VARIANT_NAMES: Final = {"int64": "integer", "double": "number", "bool": "boolean", "string": "text", "bytes": "data"}

Form = Literal["single", "repeated", "map", "oneof"]


@dataclass(frozen=True, slots=True)
class ToolContract:
    """What a typed service needs to know of a tool.

    Args:
        name: Name of the tool.
        arguments: Type of its arguments.
        result: Type of its result, or of each item of a stream; None if it has none.
        result_is_nullable: The result may be null.
        streams: Whether it returns a stream of results.
    """

    name: str
    description: str
    arguments: ObjectType
    result: Type | None
    result_is_nullable: bool = False
    streams: bool = False


@dataclass(slots=True)
class Element:
    """One value in a message: what a field, an item of a list, a value of a map, or a variant holds."""

    type: Type
    proto: int
    type_name: str = ""
    message: "MessagePlan | None" = None


@dataclass(slots=True)
class FieldPlan:
    """How one key of a JSON object is written in a message.

    Args:
        name: Name of the field, or of the oneof.
        variants: Name of each field of a oneof, and what it holds; one entry for the other forms.
        has_presence: Whether an unset field differs from one with the zero value.
    """

    field: FieldType
    form: Form
    name: str
    variants: list[tuple[str, Element]]
    has_presence: bool = False


@dataclass(slots=True)
class MessagePlan:
    """How a JSON value is written in a message.

    Args:
        name: Full name of the message, without a leading dot.
        shape: `object` for an object, `tuple` for a list with a field for each item, `wrapper` for the value of the only field.
        extra: The values of further keys, in the field `EXTRA`.
    """

    name: str
    shape: Literal["object", "tuple", "wrapper"]
    fields: list[FieldPlan] = field(default_factory=list)
    extra: Element | None = None


@dataclass(slots=True)
class MethodPlan:
    """One method of the service."""

    name: str
    tool: str
    request: MessagePlan
    response: MessagePlan
    streams: bool


@dataclass(slots=True)
class ServicePlan:
    """A typed service: its file, still without numbers, and how values are written in its messages.

    Args:
        comments: By the full name of a message, field, enum, enum value, service or method.
    """

    file: FileDescriptorProto
    service: str
    methods: list[MethodPlan]
    comments: dict[str, str]


def lay_out(package: str, service: str, path: str, tools: Sequence[ToolContract], about: str = "") -> ServicePlan:
    """Lay out the file of a typed service.

    Args:
        path: Name of the file, such as `acme/calculator/v1/calculator.proto`.
        about: What the service does, for its comment.

    Raises:
        TypeError: Two tools or fields have the same name in protobuf, or two different types the same name; names both.
    """
    return _Layout(package, path).service(service, tools, about)


class _Layout:
    def __init__(self, package: str, path: str) -> None:
        self.file = FileDescriptorProto(name=path, package=package, syntax="proto3")
        self.comments: dict[str, str] = {}
        self._package = package
        self._objects: dict[int, MessagePlan] = {}
        self._named: dict[str, tuple[Type, MessagePlan | None]] = {}
        self._imports: set[str] = set()

    def service(self, name: str, tools: Sequence[ToolContract], about: str) -> ServicePlan:
        found = ServiceDescriptorProto(name=name)
        methods: dict[str, MethodPlan] = {}
        full = f"{self._package}.{name}"
        self.comments[full] = about or f"{name} has the tools of an agent."
        for tool in tools:
            method = pascal(tool.name)
            if method in methods:
                raise TypeError(
                    f"the tools '{methods[method].tool}' and '{tool.name}' would both be the method {method}"
                )
            methods[method] = self._method(found, method, tool)
            self.comments[f"{full}.{method}"] = tool.description or f"{method} calls the tool `{tool.name}`."
        self.file.service.append(found)
        self.file.dependency.extend(sorted(self._imports))
        return ServicePlan(self.file, full, list(methods.values()), self.comments)

    def _method(self, service: ServiceDescriptorProto, method: str, tool: ToolContract) -> MethodPlan:
        request = self._top_message(
            f"{method}Request", tool.arguments, f"{method}Request has the arguments of {method}."
        )
        result = ObjectType("")
        if tool.result is not None:
            what = "One item of the stream." if tool.streams else "The result."
            result.fields.append(FieldType(RESULT, tool.result, nullable=tool.result_is_nullable, description=what))
        what = f"{method}Response has {'one item' if tool.streams else 'the result'} of {method}."
        response = self._top_message(f"{method}Response", result, what)
        service.method.add(
            name=method,
            input_type=f".{request.name}",
            output_type=f".{response.name}",
            server_streaming=tool.streams or None,
        )
        return MethodPlan(method, tool.name, request, response, tool.streams)

    def _top_message(self, name: str, of: ObjectType, comment: str) -> MessagePlan:
        self._claim(name, of)
        plan = MessagePlan(f"{self._package}.{name}", "object")
        message = self.file.message_type.add(name=name)
        self._named[name] = (of, plan)
        self.comments[plan.name] = comment
        self._fill(message, plan, of)
        return plan

    def _claim(self, name: str, of: Type) -> None:
        known = self._named.get(name)
        if known is not None:
            raise TypeError(f"two different types would both be {self._package}.{name}")
        self._named[name] = (of, None)

    # -- fields ------------------------------------------------------------------------------------------------------------

    def _fill(self, message: DescriptorProto, plan: MessagePlan, of: ObjectType) -> None:
        for each in of.fields:
            plan.fields.append(self._field(message, plan, each))
        if of.extra is not None:
            plan.extra = self._element(of.extra, message, plan.name, "AdditionalProperty")
            self._add_map(message, plan.name, EXTRA, plan.extra)
            self.comments[f"{plan.name}.{EXTRA}"] = "Further keys."
        names: set[str] = set()
        for name in [*(each.name for each in message.field), *(each.name for each in message.oneof_decl)]:
            if name in names:
                raise TypeError(f"two fields of {plan.name} would both be '{name}'")
            names.add(name)

    def _field(self, message: DescriptorProto, plan: MessagePlan, of: FieldType) -> FieldPlan:
        name = snake(of.name)
        if not name:
            raise TypeError(f"'{of.name}' of {plan.name} has no letter or digit that a field's name could have")
        kind, comment = of.type, _field_comment(of)
        adds_null = of.nullable and not of.required and of.default is not None and kind not in (ANY, NULL)
        if adds_null:
            kind = UnionType((*(kind.variants if isinstance(kind, UnionType) else (kind,)), NULL))
        is_plain = not of.nullable and (of.required or of.default in ([], {}))
        if isinstance(kind, ListType) and is_plain:
            element = self._element(kind.item, message, plan.name, f"{pascal(of.name)}Item")
            self._add(message, plan.name, name, of.name, element, comment, repeated=True)
            return FieldPlan(of, "repeated", name, [(name, element)])
        if isinstance(kind, MapType) and is_plain:
            element = self._element(kind.value, message, plan.name, f"{pascal(of.name)}Value")
            self._add_map(message, plan.name, name, element)
            self.comments[f"{plan.name}.{name}"] = comment
            return FieldPlan(of, "map", name, [(name, element)])
        if isinstance(kind, UnionType):
            variants = self._add_oneof(message, plan.name, name, kind, comment)
            return FieldPlan(of, "oneof", name, variants, has_presence=True)
        element = self._element(kind, message, plan.name, pascal(of.name))
        optional = element.message is None and not isinstance(kind, KnownType) and not (of.required and not of.nullable)
        self._add(message, plan.name, name, of.name, element, comment, optional=optional)
        has_presence = optional or element.proto == FieldDescriptorProto.TYPE_MESSAGE
        return FieldPlan(of, "single", name, [(name, element)], has_presence)

    def _add(  # noqa: PLR0917 -- the parts of a field
        self,
        message: DescriptorProto,
        scope: str,
        name: str,
        json_name: str,
        element: Element,
        comment: str,
        *,
        repeated: bool = False,
        optional: bool = False,
    ) -> FieldDescriptorProto:
        label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
        added = message.field.add(name=name, label=label, type=element.proto, type_name=element.type_name or None)
        if snake(json_name) != json_name and to_camel_case(name) != json_name:
            added.json_name = json_name
        if optional:
            added.proto3_optional = True
        self.comments[f"{scope}.{name}"] = comment
        return added

    def _add_oneof(
        self, message: DescriptorProto, scope: str, name: str, kind: UnionType, comment: str
    ) -> list[tuple[str, Element]]:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=name)
        self.comments[f"{scope}.{name}"] = comment
        variants: list[tuple[str, Element]] = []
        for each in kind.variants:
            what = _variant_name(each)
            variant = f"{name}_{snake(what)}"
            if any(variant == other for other, _ in variants):
                raise TypeError(f"two variants of '{name}' of {scope} would both be '{variant}'")
            element = self._element(each, message, scope, f"{pascal(name)}{pascal(what)}")
            self._add(message, scope, variant, variant, element, _variant_comment(each)).oneof_index = index
            variants.append((variant, element))
        return variants

    def _add_map(self, message: DescriptorProto, scope: str, name: str, element: Element) -> None:
        entry = message.nested_type.add(name=f"{pascal(name)}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=FieldDescriptorProto.TYPE_STRING, json_name="key")
        name_of_type = element.type_name or None
        entry.field.add(name="value", number=2, label=1, type=element.proto, type_name=name_of_type, json_name="value")
        message.field.add(
            name=name,
            label=FieldDescriptorProto.LABEL_REPEATED,
            type=FieldDescriptorProto.TYPE_MESSAGE,
            type_name=f".{scope}.{entry.name}",
        )

    # -- elements ----------------------------------------------------------------------------------------------------------

    def _element(self, kind: Type, message: DescriptorProto, scope: str, name: str) -> Element:
        """Return what one value of a type is in a message.

        Args:
            message, scope: The message around it and its full name; types without a name of their own are nested in it.
            name: Name of such a nested type.
        """
        match kind:
            case ScalarType():
                return Element(kind, _SCALARS[kind.proto])
            case KnownType():
                self._imports.add(_IMPORTS[kind.message])
                proto = FieldDescriptorProto.TYPE_ENUM if kind == NULL else FieldDescriptorProto.TYPE_MESSAGE
                return Element(kind, proto, f".google.protobuf.{kind.message}")
            case EnumType():
                return Element(kind, FieldDescriptorProto.TYPE_ENUM, f".{self._enum(kind, message, scope, name)}")
            case ObjectType():
                plan = self._object(kind, message, scope, name)
            case TupleType():
                fields = [FieldType(f"item_{n}", each) for n, each in enumerate(kind.items, 1)]
                plan = self._nested(message, scope, name, "tuple", fields)
            case ListType():
                plan = self._nested(message, scope, name, "wrapper", [FieldType("items", kind)])
            case MapType():
                plan = self._nested(message, scope, name, "wrapper", [FieldType("entries", kind)])
            case UnionType():
                plan = self._nested(message, scope, name, "wrapper", [FieldType("value", kind)])
        return Element(kind, FieldDescriptorProto.TYPE_MESSAGE, f".{plan.name}", plan)

    def _nested(
        self,
        message: DescriptorProto,
        scope: str,
        name: str,
        shape: Literal["tuple", "wrapper"],
        fields: Iterable[FieldType],
    ) -> MessagePlan:
        plan = MessagePlan(f"{scope}.{name}", shape)
        self.comments[plan.name] = "A list with one field for each item." if shape == "tuple" else "A value by itself."
        self._fill(message.nested_type.add(name=name), plan, ObjectType(name, list(fields)))
        return plan

    def _object(self, kind: ObjectType, message: DescriptorProto, scope: str, name: str) -> MessagePlan:
        plan = self._objects.get(id(kind))
        if plan is not None:
            return plan
        if kind.name:
            known = self._named.get(kind.name)
            if known is not None and known[1] is not None and _is_same(known[0], kind, set()):
                self._objects[id(kind)] = known[1]
                return known[1]
            self._claim(kind.name, kind)
            plan, added = (
                MessagePlan(f"{self._package}.{kind.name}", "object"),
                self.file.message_type.add(name=kind.name),
            )
            self._named[kind.name] = (kind, plan)
        else:
            plan, added = MessagePlan(f"{scope}.{name}", "object"), message.nested_type.add(name=name)
        self.comments[plan.name] = kind.description or f"{added.name} is a value of the tools."
        self._objects[id(kind)] = plan  # before its fields, which may refer to it
        self._fill(added, plan, kind)
        return plan

    def _enum(self, kind: EnumType, message: DescriptorProto, scope: str, name: str) -> str:
        if not kind.name:
            self._add_enum(message.enum_type.add(name=name), kind, scope)
            return f"{scope}.{name}"
        known = self._named.get(kind.name)
        if known is None or known[0] != kind:
            self._claim(kind.name, kind)
            self._add_enum(self.file.enum_type.add(name=kind.name), kind, self._package)
        return f"{self._package}.{kind.name}"

    def _add_enum(self, enum: EnumDescriptorProto, kind: EnumType, scope: str) -> None:
        prefix = f"{snake(enum.name).upper()}_"
        self.comments[f"{scope}.{enum.name}"] = f"{enum.name} is one of a fixed set of values."
        enum.value.add(name=f"{prefix}UNSPECIFIED", number=0)
        self.comments[f"{scope}.{enum.name}.{prefix}UNSPECIFIED"] = "Not set."
        for member, value in kind.members:
            enum.value.add(name=prefix + member)
            self.comments[f"{scope}.{enum.name}.{prefix}{member}"] = f"The value {value!r}."


def _is_same(one: Type, other: Type, met: set[tuple[int, int]]) -> bool:
    """Return whether two types are written in the same way."""
    match one, other:
        case ObjectType(), ObjectType():
            if one is other or (id(one), id(other)) in met:
                return True
            met.add((id(one), id(other)))
            if one.name != other.name or len(one.fields) != len(other.fields):
                return False
            if (one.extra is None) != (other.extra is None):
                return False
            if one.extra is not None and other.extra is not None and not _is_same(one.extra, other.extra, met):
                return False
            return all(
                (a.name, a.required, a.nullable) == (b.name, b.required, b.nullable)
                and (a.default is MISSING) == (b.default is MISSING)
                and _is_same(a.type, b.type, met)
                for a, b in zip(one.fields, other.fields, strict=True)
            )
        case ListType(), ListType():
            return _is_same(one.item, other.item, met)
        case MapType(), MapType():
            return _is_same(one.value, other.value, met)
        case (TupleType(items=first), TupleType(items=second)) | (
            UnionType(variants=first),
            UnionType(variants=second),
        ):
            return len(first) == len(second) and all(_is_same(a, b, met) for a, b in zip(first, second, strict=True))
        case _:
            return one == other


def _variant_name(kind: Type) -> str:
    match kind:
        case ScalarType():
            return _VARIANT_NAMES[kind.proto] if kind.proto == "bytes" else kind.form or _VARIANT_NAMES[kind.proto]
        case KnownType():
            return {"Value": "any", "Struct": "object", "NullValue": "null"}.get(kind.message, kind.message)
        case EnumType():
            return kind.name or "constant"
        case ObjectType():
            return kind.name or "object"
        case ListType():
            return "list"
        case MapType():
            return "map"
        case TupleType():
            return "tuple"
        case UnionType():
            return "union"


def _variant_comment(kind: Type) -> str:
    if kind == NULL:
        return "Null."
    text = f"A value of the kind `{_variant_name(kind)}`."
    return (
        f"{text} {_FORM_COMMENTS[kind.form]}" if isinstance(kind, ScalarType) and kind.form in _FORM_COMMENTS else text
    )


def _field_comment(of: FieldType) -> str:
    said = of.description.strip()
    parts = [said if not said or said.endswith((".", "!", "?")) else f"{said}."]
    kind = of.type
    if isinstance(kind, ScalarType) and kind.form in _FORM_COMMENTS:
        parts.append(_FORM_COMMENTS[kind.form])
    if kind == ANY_OBJECT:
        parts.append("A JSON object.")
    parts += of.bounds
    if not of.required:
        parts.append(_default_comment(of))
    elif of.nullable:
        parts.append("Unset means null.")
    return " ".join(part for part in parts if part) or f"The value of `{of.name}`."


def _default_comment(of: FieldType) -> str:
    shown: Any = of.default
    if shown is MISSING:
        return "May be left out."
    if shown is None:
        return "Unset means null."
    if shown == "":
        return "Default: empty."
    text = str(shown).lower() if isinstance(shown, bool) else repr(shown) if not isinstance(shown, str) else shown
    return f"Default: {text[:80]}."
