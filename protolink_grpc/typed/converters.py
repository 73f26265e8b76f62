"""Converts the messages of a typed service to JSON values and back, compiled once for each message.

A request becomes the arguments that a caller would send as JSON, and the tool validates them. A result, which the log has as
JSON, becomes a response. Integers keep all their digits. Times have microseconds.
"""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.compiled import compile_function
from protolink_grpc.typed.field_values import (
    SCALAR_WRITERS,
    Read,
    WellKnownWriters,
    Write,
    class_of,
    convert_within,
    enum_reader,
    enum_writer,
    may_be,
    reader_of,
    require_list,
    require_object,
    write_decimal,
)
from protolink_grpc.typed.layout import EXTRA, Element, FieldPlan, MessagePlan
from protolink_grpc.typed.types import (
    ANY,
    NULL,
    EnumType,
    KnownType,
    ScalarType,
    snake,
)


class Converters:
    """The conversions of all messages of one file.

    Args:
        pool: Has the file and its imports. It may be a pool of its own, whose classes differ from those of generated code.
    """

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool
        self._well_known = WellKnownWriters(pool)
        self._readers: dict[str, Read] = {}
        self._writers: dict[str, Write] = {}

    def reader(self, plan: MessagePlan) -> Read:
        """Return the function from a message to JSON.

        It raises InvalidArgumentError, with the path, for a value that JSON cannot have or an enum does not know. A required key
        whose field is unset is left out, so that the tool's check names it.
        """
        return self._compiled(self._readers, plan, self._compile_reader)

    def writer(self, plan: MessagePlan) -> Write:
        """Return the function from JSON to a message.

        It raises InvalidArgumentError, with the path, for a value that does not fit.
        """
        return self._compiled(self._writers, plan, self._compile_writer)

    @staticmethod
    def _compiled(
        known: dict[str, Callable[[Any], Any]], plan: MessagePlan, compile_one: Callable[[MessagePlan], Any]
    ) -> Callable[[Any], Any]:
        if plan.name not in known:

            def convert(value: Any) -> Any:
                return known[plan.name](value)

            known[plan.name] = convert  # for a recursive message, whose functions refer to its own
            known[plan.name] = compile_one(plan)
        return known[plan.name]

    # -- from messages to JSON ---------------------------------------------------------------------------------------------

    def _compile_reader(self, plan: MessagePlan) -> Read:
        read = self._compile_object_reader(plan)
        if plan.shape == "object":
            return read
        if plan.shape == "wrapper":
            name = plan.fields[0].field.name
            return lambda message: read(message).get(name)
        names = [each.field.name for each in plan.fields]

        def read_tuple(message: Any) -> list[Any]:
            found = read(message)
            return [found.get(name) for name in names]

        return read_tuple

    def _compile_object_reader(self, plan: MessagePlan) -> Read:
        scope: dict[str, Any] = {"within": convert_within}
        lines = ["found = {}"]
        for number, each in enumerate(plan.fields):
            scope[f"read_{number}"], scope[f"key_{number}"] = self._field_reader(each), each.field.name
            lines += self._reading_lines(each, number)
        if plan.extra is not None:
            scope["read_extra"] = self._element_reader(plan.extra)
            lines.append(f"for key, value in message.{EXTRA}.items(): found[key] = read_extra(value)")
        lines.append("return found")
        return compile_function(f"read_{plan.name.replace('.', '_')}", "message", lines, scope)

    @staticmethod
    def _reading_lines(each: FieldPlan, number: int) -> list[str]:
        """Return the lines that add one key; names of fields may be Python's keywords, so they are passed as texts."""
        name = repr(each.name)
        unset = each.field.required and each.field.nullable
        value = f"getattr(message, {name})"
        if each.form == "oneof":
            lines = [f"case = message.WhichOneof({name})", "if case is not None:"]
            lines.append(f"    found[key_{number}] = within(key_{number}, read_{number}[case], getattr(message, case))")
        elif each.form == "single" and each.has_presence:
            lines = [f"if message.HasField({name}):"]
            lines.append(f"    found[key_{number}] = within(key_{number}, read_{number}, {value})")
        elif each.form == "single" and isinstance(each.field.type, EnumType):
            return [f"if {value}: found[key_{number}] = within(key_{number}, read_{number}, {value})"]
        elif each.form == "single" and each.field.type in _UNCHANGED:
            return [f"found[key_{number}] = {value}"]
        else:
            return [f"found[key_{number}] = within(key_{number}, read_{number}, {value})"]
        if unset:
            lines += ["else:", f"    found[key_{number}] = None"]
        return lines

    def _field_reader(self, plan: FieldPlan) -> Any:
        if plan.form == "oneof":
            return {name: self._element_reader(element) for name, element in plan.variants}
        read = self._element_reader(plan.variants[0][1])
        if plan.form == "repeated":
            return lambda items: [convert_within(index, read, item) for index, item in enumerate(items)]
        if plan.form == "map":
            return lambda entries: {key: convert_within(key, read, value) for key, value in entries.items()}
        return read

    def _element_reader(self, element: Element) -> Read:
        if element.message is not None:
            return self.reader(element.message)
        if isinstance(element.type, EnumType):
            return enum_reader(self._enum_values(element))
        return reader_of(element.type)

    def _enum_values(self, element: Element) -> dict[int, Any]:
        """Return the JSON value of each number of an enum."""
        enum = self._pool.FindEnumTypeByName(element.type_name.removeprefix("."))
        prefix = f"{snake(enum.name).upper()}_"
        members = element.type.members if isinstance(element.type, EnumType) else ()
        return {enum.values_by_name[f"{prefix}{member}"].number: value for member, value in members}

    # -- from JSON to messages ---------------------------------------------------------------------------------------------

    def _compile_writer(self, plan: MessagePlan) -> Write:
        make = class_of(self._pool, plan.name)
        fields = {each.field.name: (each, self._field_writer(each)) for each in plan.fields}
        extra = None if plan.extra is None else self._element_writer(plan.extra)

        def write_object(value: Any) -> Message:
            if not isinstance(value, dict):
                raise InvalidArgumentError("must be an object", field="")
            given: dict[str, Any] = {}
            others: dict[str, Any] = {}
            for key, item in value.items():
                known = fields.get(key)
                if known is None:
                    if extra is not None:
                        others[key] = convert_within(key, extra, item)
                    continue
                each, write = known
                if item is None and not _takes_null(each):
                    if not each.field.nullable:
                        raise InvalidArgumentError("must not be null", field=key)
                    continue
                written = convert_within(key, write, item)
                given |= written if each.form == "oneof" else {each.name: written}
            if others:
                given[EXTRA] = others
            message: Message = make(**given)
            return message

        if plan.shape == "object":
            return write_object
        if plan.shape == "wrapper":
            name = plan.fields[0].field.name

            def write_wrapped(value: Any) -> Message:
                try:
                    return write_object({name: value})
                except InvalidArgumentError as error:
                    raise InvalidArgumentError(error.detail, field=error.field.removeprefix(name)) from None

            return write_wrapped
        names = [each.field.name for each in plan.fields]

        def write_tuple(value: Any) -> Message:
            if not isinstance(value, list | tuple) or len(value) != len(names):
                raise InvalidArgumentError(f"must be a list of {len(names)} items", field="")
            return write_object(dict(zip(names, value, strict=True)))

        return write_tuple

    def _field_writer(self, plan: FieldPlan) -> Write:
        if plan.form == "oneof":
            return self._variant_writer(plan.variants)
        write = self._element_writer(plan.variants[0][1])
        if plan.form == "repeated":
            return lambda items: [convert_within(index, write, item) for index, item in enumerate(require_list(items))]
        if plan.form == "map":
            return lambda entries: {
                key: convert_within(key, write, value) for key, value in require_object(entries).items()
            }
        return write

    def _variant_writer(self, variants: list[tuple[str, Element]]) -> Write:
        writers = [(name, element.type, self._element_writer(element)) for name, element in variants]

        def write(value: Any) -> dict[str, Any]:
            for name, kind, write_one in writers:
                if may_be(kind, value):
                    try:
                        return {name: write_one(value)}
                    except InvalidArgumentError:
                        continue  # it only looked like this variant
            raise InvalidArgumentError("fits no variant of the union", field="")

        return write

    def _element_writer(self, element: Element) -> Write:
        if element.message is not None:
            return self.writer(element.message)
        match element.type:
            case EnumType():
                return enum_writer(self._enum_values(element))
            case KnownType(message=name):
                return self._well_known.writer(name)
            case ScalarType(form="decimal"):
                return write_decimal
            case ScalarType(proto=proto):
                return SCALAR_WRITERS[proto]
            case _:
                raise TypeError(f"{element.type} has no value")


_UNCHANGED: Final = frozenset({ScalarType("int64"), ScalarType("bool"), ScalarType("string")})


def _takes_null(plan: FieldPlan) -> bool:
    return any(element.type in (NULL, ANY) for _, element in plan.variants) and plan.form in ("single", "oneof")
