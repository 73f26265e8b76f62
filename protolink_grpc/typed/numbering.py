"""The numbers of fields and enum values: kept from the committed file, reserved when removed, never used again.

The committed file is the contract with callers that have stubs. A change that would break them, on the wire or in JSON, is a
breaking change. Sources: protobuf's rules for updating messages; buf's category WIRE_JSON.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

RESERVED_BY_PROTOBUF: Final = range(19_000, 20_000)
"""Numbers of fields that protobuf keeps for itself."""

OPTIONAL: Final = FieldDescriptorProto.LABEL_OPTIONAL


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between the committed file and the new one.

    Args:
        what: Full name of the message, field, enum value or method.
        breaking: Callers with older stubs would fail, or be understood differently.
    """

    kind: Literal["added", "removed", "changed"]
    what: str
    text: str
    breaking: bool = False

    def __str__(self) -> str:
        return f"{self.what} {self.text}"


def assign_numbers(file: FileDescriptorProto, committed: FileDescriptorProto | None) -> list[Change]:
    """Give numbers to all fields and enum values of `file`, and add what the committed file reserves.

    The options of the committed file are kept. Returns the differences; `file` has the new state also where one is breaking.
    """
    changes: list[Change] = []
    known = FileDescriptorProto() if committed is None else committed
    if known.HasField("options"):
        file.options.CopyFrom(known.options)
    _number_messages(file.message_type, known.message_type, file.package, changes)
    _number_enums(file.enum_type, known.enum_type, file.package, changes)
    _compare_services(file, known, changes)
    if committed is not None and known.package != file.package:
        changes.append(Change("changed", file.package, f"was the package {known.package}", breaking=True))
    return changes


def _removals(scope: str, names: Iterable[str]) -> list[Change]:
    """Return the breaking removals of a scope."""
    return [Change("removed", f"{scope}.{name}", "is gone", breaking=True) for name in names]


def _by_name(items: Any) -> dict[str, Any]:
    return {each.name: each for each in items}


def _number_messages(messages: Any, committed: Any, scope: str, changes: list[Change]) -> None:
    known = _by_name(committed)
    for message in messages:
        if message.options.map_entry:
            continue
        name = f"{scope}.{message.name}"
        before: DescriptorProto | None = known.pop(message.name, None)
        if before is None:
            changes.append(Change("added", name, "is new"))
            before = DescriptorProto()
            _number_fields(message, before, name, [])
        else:
            _number_fields(message, before, name, changes)
        _number_messages(message.nested_type, before.nested_type, name, changes)
        _number_enums(message.enum_type, before.enum_type, name, changes)
    changes += _removals(scope, (gone.name for gone in known.values() if not gone.options.map_entry))


def _number_fields(message: DescriptorProto, committed: DescriptorProto, name: str, changes: list[Change]) -> None:
    known = _by_name(committed.field)
    used = {each.number for each in committed.field} | set(_reserved_numbers(committed))
    free = iter(n for n in range(1, 536_870_912) if n not in used and n not in RESERVED_BY_PROTOBUF)
    for field in message.field:
        before = known.pop(field.name, None)
        if before is None:
            field.number = next(free)
            # Older callers do not send it. A field without presence would be its zero value without a word.
            breaks = bool(committed.field) and name.endswith("Request") and _is_plain(field)
            text = "is new and required: give the parameter a default" if breaks else "is new"
            changes.append(Change("added", f"{name}.{field.name}", text, breaking=breaks))
            continue
        field.number = before.number
        if difference := _difference(before, field, message, committed):
            changes.append(Change("changed", f"{name}.{field.name}", difference, breaking=True))
        elif before.proto3_optional != field.proto3_optional:
            breaks = before.proto3_optional
            text = "was optional" if breaks else "is optional now"
            changes.append(Change("changed", f"{name}.{field.name}", text, breaking=breaks))
    changes += [
        Change("removed", f"{name}.{gone.name}", f"is gone; {gone.number} is reserved") for gone in known.values()
    ]
    _reserve(message, committed, known)
    _add_synthetic_oneofs(message)


def _is_plain(field: FieldDescriptorProto) -> bool:
    has_presence = (
        field.proto3_optional or field.HasField("oneof_index") or field.type == FieldDescriptorProto.TYPE_MESSAGE
    )
    return field.label == OPTIONAL and not has_presence


def _reserved_numbers(message: DescriptorProto) -> Iterator[int]:
    for each in message.reserved_range:
        yield from range(each.start, each.end)


def _reserve(message: DescriptorProto, committed: DescriptorProto, gone: Mapping[str, FieldDescriptorProto]) -> None:
    numbers = sorted({*_reserved_numbers(committed), *(each.number for each in gone.values())})
    for number in numbers:
        message.reserved_range.add(start=number, end=number + 1)
    names = {each.name for each in message.field}
    message.reserved_name.extend(sorted({*committed.reserved_name, *gone} - names))


def _difference(
    before: FieldDescriptorProto, now: FieldDescriptorProto, message: DescriptorProto, committed: DescriptorProto
) -> str:
    """Return how the type of a field has changed, as text; empty if it has not."""
    was, is_now = _type_text(before), _type_text(now)
    if was != is_now:
        return f"was {was} and would be {is_now}"
    one = committed.oneof_decl[before.oneof_index].name if _is_in_oneof(before) else ""
    other = message.oneof_decl[now.oneof_index].name if _is_in_oneof(now) else ""
    if one != other:
        return f"was in the oneof {one}" if one else f"would be in the oneof {other}"
    if before.json_name and now.json_name and before.json_name != now.json_name:
        return f"was {before.json_name} in JSON and would be {now.json_name}"
    return ""


def _is_in_oneof(field: FieldDescriptorProto) -> bool:
    return field.HasField("oneof_index") and not field.proto3_optional


def _type_text(field: FieldDescriptorProto) -> str:
    kind = field.type_name.removeprefix(".") or FieldDescriptorProto.Type.Name(field.type)[5:].lower()
    return f"repeated {kind}" if field.label == FieldDescriptorProto.LABEL_REPEATED else kind


def _add_synthetic_oneofs(message: DescriptorProto) -> None:
    """Add the oneof that protobuf's descriptors need for each `optional` field; they come after all others."""
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _number_enums(enums: Any, committed: Any, scope: str, changes: list[Change]) -> None:
    known = _by_name(committed)
    for enum in enums:
        name = f"{scope}.{enum.name}"
        before: EnumDescriptorProto | None = known.pop(enum.name, None)
        if before is None:
            changes.append(Change("added", name, "is new"))
            _number_values(enum, EnumDescriptorProto(), name, [])
        else:
            _number_values(enum, before, name, changes)
    changes += _removals(scope, known)


def _number_values(enum: EnumDescriptorProto, committed: EnumDescriptorProto, name: str, changes: list[Change]) -> None:
    known = _by_name(committed.value)
    reserved = {n for each in committed.reserved_range for n in range(each.start, each.end + 1)}
    used = {each.number for each in committed.value} | reserved
    free = iter(n for n in range(1, 1 << 31) if n not in used)
    for value in enum.value:
        before = known.pop(value.name, None)
        if before is not None:
            value.number = before.number
        elif value.HasField("number"):
            continue  # the zero value
        else:
            value.number = next(free)
            changes.append(Change("added", f"{name}.{value.name}", "is new"))
    changes += [
        Change("removed", f"{name}.{gone.name}", f"is gone; {gone.number} is reserved") for gone in known.values()
    ]
    for number in sorted({*reserved, *(each.number for each in known.values())}):
        enum.reserved_range.add(start=number, end=number)
    names = {each.name for each in enum.value}
    enum.reserved_name.extend(sorted({*committed.reserved_name, *known} - names))


def _compare_services(file: FileDescriptorProto, committed: FileDescriptorProto, changes: list[Change]) -> None:
    known = _by_name(committed.service)
    for service in file.service:
        name = f"{file.package}.{service.name}"
        before: ServiceDescriptorProto | None = known.pop(service.name, None)
        methods = _by_name(before.method) if before is not None else {}
        for method in service.method:
            was = methods.pop(method.name, None)
            if was is None:
                changes.append(Change("added", f"{name}.{method.name}", "is new"))
            elif was.server_streaming != method.server_streaming:
                text = "was a stream" if was.server_streaming else "would be a stream"
                changes.append(Change("changed", f"{name}.{method.name}", text, breaking=True))
        changes += _removals(name, methods)
    changes += _removals(file.package, known)
