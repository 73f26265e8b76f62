"""Versions of the contract as Python stubs: the baseline, an older one, the current one, and a possible later one."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from protolink_grpc.testing.vectors import FILES

BASELINE = Path(__file__).resolve().parents[2] / "proto/baseline.binpb"
PACKAGE = "plgrpc.v1"

TOUCHED = (
    "AgentCard",
    "Artifact",
    "GetTaskRequest",
    "Message",
    "RunContext",
    "SendTaskRequest",
    "StreamTaskRequest",
    "Task",
    "TaskStatusChanged",
    "TaskSubmitted",
)
"""Messages that lose their last field in the older contract, and gain one in the newer."""
LOST_KIND = "task_progress"
"""Kind of event that the older contract does not have."""
NEW_FIELD, NEW_KIND, NEW_PART = "future_note", "future_kind", "future_part"
NEW_VALUES = {"Severity": "SEVERITY_FUTURE", "TaskState": "TASK_STATE_FUTURE", "MessageRole": "MESSAGE_ROLE_FUTURE"}


def baseline() -> FileDescriptorSet:
    return FileDescriptorSet.FromString(BASELINE.read_bytes())


def older() -> FileDescriptorSet:
    """The baseline without what was added last."""
    described = baseline()
    for message in _messages(described):
        if message.name in TOUCHED:
            _drop(message, max(message.field, key=lambda field: field.number))
        if message.name == "RunEvent":
            _drop(message, next(field for field in message.field if field.name == LOST_KIND))
    return described


def current() -> FileDescriptorSet:
    """The contract of this version. Files come after those that they import."""
    found: dict[str, FileDescriptorProto] = {}

    def add(file: FileDescriptor) -> None:
        for each in file.dependencies:
            add(each)
        if file.name not in found:
            found[file.name] = FileDescriptorProto.FromString(file.serialized_pb)

    for file in FILES:
        add(file)
    return FileDescriptorSet(file=list(found.values()))


def newer() -> FileDescriptorSet:
    """The current contract with further fields, and with kinds of events and parts and values of enums that are unknown."""
    described = current()
    for file in _ours(described):
        for message in file.message_type:
            if message.name in TOUCHED:
                _add(message, NEW_FIELD, FieldDescriptorProto.TYPE_STRING)
            if message.name == "RunEvent":
                kind = _add(message, NEW_KIND, FieldDescriptorProto.TYPE_MESSAGE)
                kind.type_name, kind.oneof_index = f".{PACKAGE}.FutureKind", _payload(message)
            if message.name == "Part":
                kind = _add(message, NEW_PART, FieldDescriptorProto.TYPE_STRING)
                kind.oneof_index = 0
                # What belongs to a oneof must stand together.
                message.field.sort(key=lambda field: not field.HasField("oneof_index"))
        if file.name.endswith("/event.proto"):
            _add(file.message_type.add(name="FutureKind"), NEW_FIELD, FieldDescriptorProto.TYPE_STRING)
        for enum in file.enum_type:
            if enum.name in NEW_VALUES:
                enum.value.add(name=NEW_VALUES[enum.name], number=_next(enum))
    return described


SCHEMAS: dict[str, Callable[[], FileDescriptorSet]] = {"baseline": baseline, "older": older, "newer": newer}


def stubs(described: FileDescriptorSet, place: Path) -> Path:
    """Generate `plgrpc.v1` into `place`, for a process of its own: two versions of a message cannot be in one."""
    place.mkdir(parents=True)
    (place / "contract.binpb").write_bytes(described.SerializeToString())
    names = [file.name for file in _ours(described)]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--descriptor_set_in={place / 'contract.binpb'}"]
    subprocess.run([*command, f"--python_out={place}", f"--grpc_python_out={place}", *names], check=True, timeout=60)
    # Packages, so that they come before the installed `plgrpc`.
    for name in ("plgrpc/__init__.py", "plgrpc/v1/__init__.py"):
        (place / name).touch()
    return place


def environment(place: Path) -> dict[str, str]:
    """What a process needs that is to find these stubs."""
    return os.environ | {"PYTHONPATH": str(place)}


def _ours(described: FileDescriptorSet) -> Iterator[FileDescriptorProto]:
    return (file for file in described.file if file.package == PACKAGE)


def _messages(described: FileDescriptorSet) -> Iterator[DescriptorProto]:
    return (message for file in _ours(described) for message in file.message_type)


def _payload(message: DescriptorProto) -> int:
    return next(index for index, oneof in enumerate(message.oneof_decl) if oneof.name == "payload")


def _next(numbered: EnumDescriptorProto) -> int:
    return max(value.number for value in numbered.value) + 1


def _add(message: DescriptorProto, name: str, kind: FieldDescriptorProto.Type.ValueType) -> FieldDescriptorProto:
    number = max((field.number for field in message.field), default=0) + 1
    return message.field.add(
        name=name, json_name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL
    )


def _drop(message: DescriptorProto, field: FieldDescriptorProto) -> None:
    """Remove a field; the oneof that stands for its explicit presence goes with it."""
    oneof = field.oneof_index if field.proto3_optional else None
    message.field.remove(field)
    if oneof is None:
        return
    del message.oneof_decl[oneof]
    for other in message.field:
        if other.HasField("oneof_index") and other.oneof_index > oneof:
            other.oneof_index -= 1
