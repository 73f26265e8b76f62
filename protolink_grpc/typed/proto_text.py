"""Writes a file descriptor as the text of a .proto file, in the layout of `buf format`."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileOptions,
    ServiceDescriptorProto,
)

WIDTH: Final = 110
"""Maximum length of a line of a comment, in characters."""

OPTIONAL, REPEATED = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED


def to_text(file: FileDescriptorProto, comments: Mapping[str, str], head: str) -> str:
    """Return the text of a file.

    Args:
        comments: By the full name of a message, field, oneof, enum, enum value, service or method.
        head: The comment of the file.
    """
    return _Writer(file, comments).text(head)


class _Writer:
    def __init__(self, file: FileDescriptorProto, comments: Mapping[str, str]) -> None:
        self._file = file
        self._comments = comments
        self._lines: list[str] = []
        self._indent = 0

    def text(self, head: str) -> str:
        file = self._file
        self._comment(head)
        self._line('syntax = "proto3";')
        self._line("")
        self._line(f"package {file.package};")
        if file.dependency:
            self._line("")
            for each in sorted(file.dependency):
                self._line(f'import "{each}";')
        if options := list(_options(file.options)):
            self._line("")
            for name, value in options:
                self._line(f"option {name} = {value};")
        for service in file.service:
            self._line("")
            self._service(service, f"{file.package}.{service.name}")
        for message in file.message_type:
            self._line("")
            self._message(message, f"{file.package}.{message.name}")
        for enum in file.enum_type:
            self._line("")
            self._enum(enum, f"{file.package}.{enum.name}")
        return "\n".join(self._lines) + "\n"

    def _line(self, text: str) -> None:
        self._lines.append(f"{'  ' * self._indent}{text}" if text else "")

    def _comment(self, text: str) -> None:
        width = WIDTH - 2 * self._indent
        for paragraph in text.strip().splitlines():
            for line in textwrap.wrap(paragraph.strip(), width, break_long_words=False, break_on_hyphens=False) or [""]:
                self._line(f"// {line}".rstrip())

    def _block(self, head: str, items: Iterable[Any]) -> None:
        """Write a block whose items are functions that write a line or another block."""
        steps = list(items)
        if not steps:
            self._line(f"{head} {{}}")
            return
        self._line(f"{head} {{")
        self._indent += 1
        for step in steps:
            step()
        self._indent -= 1
        self._line("}")

    def _service(self, service: ServiceDescriptorProto, name: str) -> None:
        self._comment(self._comments.get(name, ""))
        steps = []
        for method in service.method:

            def write(method: Any = method) -> None:
                self._comment(self._comments.get(f"{name}.{method.name}", ""))
                returns = self._type_name(method.output_type, self._file.package)
                takes = self._type_name(method.input_type, self._file.package)
                stream = "stream " if method.server_streaming else ""
                self._line(f"rpc {method.name}({takes}) returns ({stream}{returns});")

            steps.append(write)
        self._block(f"service {service.name}", steps)

    def _message(self, message: DescriptorProto, name: str) -> None:
        self._comment(self._comments.get(name, ""))
        entries = {f".{name}.{each.name}": each for each in message.nested_type if each.options.map_entry}
        steps: list[Any] = []
        if message.reserved_range:
            numbers = ", ".join(str(each.start) for each in message.reserved_range)
            steps.append(lambda: self._line(f"reserved {numbers};"))
        if message.reserved_name:
            names = ", ".join(f'"{each}"' for each in message.reserved_name)
            steps.append(lambda: self._line(f"reserved {names};"))
        nested = [each for each in message.nested_type if not each.options.map_entry]
        steps += [lambda inner=inner: self._message(inner, f"{name}.{inner.name}") for inner in nested]
        steps += [lambda enum=enum: self._enum(enum, f"{name}.{enum.name}") for enum in message.enum_type]
        written: set[int] = set()
        for field in message.field:
            index = field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else -1
            if index < 0:
                steps.append(lambda field=field: self._field(field, name, entries))
            elif index not in written:
                written.add(index)
                steps.append(lambda index=index: self._oneof(message, index, name))
        self._block(f"message {message.name}", steps)

    def _oneof(self, message: DescriptorProto, index: int, name: str) -> None:
        oneof = message.oneof_decl[index]
        self._comment(self._comments.get(f"{name}.{oneof.name}", ""))
        fields = [each for each in message.field if each.HasField("oneof_index") and each.oneof_index == index]
        self._block(f"oneof {oneof.name}", [lambda field=field: self._field(field, name, {}) for field in fields])

    def _field(self, field: FieldDescriptorProto, scope: str, entries: Mapping[str, DescriptorProto]) -> None:
        self._comment(self._comments.get(f"{scope}.{field.name}", ""))
        entry = entries.get(field.type_name)
        if entry is not None:
            key, value = (self._type(each, scope) for each in entry.field)
            kind = f"map<{key}, {value}>"
        else:
            label = "repeated " if field.label == REPEATED else "optional " if field.proto3_optional else ""
            kind = label + self._type(field, scope)
        options = f' [json_name = "{field.json_name}"]' if field.HasField("json_name") else ""
        self._line(f"{kind} {field.name} = {field.number}{options};")

    def _type(self, field: FieldDescriptorProto, scope: str) -> str:
        if field.type_name:
            return self._type_name(field.type_name, scope)
        return FieldDescriptorProto.Type.Name(field.type)[5:].lower()

    def _type_name(self, name: str, scope: str) -> str:
        """Return the shortest name that means the type inside of `scope`."""
        full = name.removeprefix(".")
        for outer in (scope, self._file.package):
            if full.startswith(f"{outer}."):
                return full[len(outer) + 1 :]
        return full

    def _enum(self, enum: EnumDescriptorProto, name: str) -> None:
        self._comment(self._comments.get(name, ""))
        steps: list[Any] = []
        if enum.reserved_range:
            numbers = ", ".join(str(each.start) for each in enum.reserved_range)
            steps.append(lambda: self._line(f"reserved {numbers};"))
        if enum.reserved_name:
            names = ", ".join(f'"{each}"' for each in enum.reserved_name)
            steps.append(lambda: self._line(f"reserved {names};"))
        for value in enum.value:

            def write(value: Any = value) -> None:
                self._comment(self._comments.get(f"{name}.{value.name}", ""))
                self._line(f"{value.name} = {value.number};")

            steps.append(write)
        self._block(f"enum {enum.name}", steps)


def _options(options: FileOptions) -> Iterable[tuple[str, str]]:
    for field, value in options.ListFields():
        if field.type == field.TYPE_STRING:
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            yield field.name, f'"{escaped}"'
        elif field.type == field.TYPE_BOOL:
            yield field.name, str(value).lower()
        elif field.enum_type is not None and not field.is_repeated:
            yield field.name, field.enum_type.values_by_number[value].name
