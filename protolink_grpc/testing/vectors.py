"""Checks the shared vectors with the Python classes: decode, encode again, compare with the JSON form and the expected values."""

import base64
import importlib
import json
import os
import pkgutil
from pathlib import Path
from typing import Any, cast

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from plgrpc import v1
from plgrpc.v1 import task_pb2

from protolink_grpc.models.json_value import to_json
from protolink_grpc.wire.tasks import task_from_pb

FILES = tuple(
    importlib.import_module(f"{v1.__name__}.{module.name}").DESCRIPTOR
    for module in pkgutil.iter_modules(v1.__path__)
    if module.name.endswith("_pb2")
)
"""Descriptors of every file of the contract."""

CLASSES: dict[str, type[Message]] = {
    descriptor.full_name: message_factory.GetMessageClass(descriptor)
    for file in FILES
    for descriptor in file.message_types_by_name.values()
}
"""Every top-level message of the contract, by full name."""

_WIDE = {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}


def check_vectors(folder: str | os.PathLike[str]) -> int:
    """Check every vector of a folder and return their number.

    Raises:
        AssertionError: A vector differs from its entry; the message names it.
    """
    index = json.loads(Path(folder, "index.json").read_text(encoding="utf-8"))
    for entry in index:
        try:
            check_vector(Path(folder), entry)
        except Exception as error:
            raise AssertionError(f"vector {entry['name']}: {error}") from error
    return len(index)


def check_vector(folder: Path, entry: dict[str, Any]) -> None:
    """Check one vector. Raises AssertionError, or the error of the classes for invalid bytes."""
    kind, data = CLASSES[entry["message"]], Path(folder, entry["file"]).read_bytes()
    message = kind.FromString(data)
    encoded = message.SerializeToString()
    if entry["bytes_equal"] and encoded != data:
        raise AssertionError("its bytes are not the same after a round trip")
    if kind.FromString(encoded) != message:
        raise AssertionError("it is another value after a round trip")
    from_json = json_format.Parse(Path(folder, entry["json"]).read_text(encoding="utf-8"), kind())
    message.DiscardUnknownFields()
    if from_json != message:
        raise AssertionError("its JSON form is another value")
    for path, wanted in entry["expect"].items():
        found = value_at(message, path)
        if found != wanted or isinstance(found, bool) is not isinstance(wanted, bool):
            raise AssertionError(f"{path} is {found!r:.100}, not {wanted!r:.100}")
    if "output" in entry:
        output = task_from_pb(cast(task_pb2.Task, message)).get_output()
        found_output = output if output is None or isinstance(output, str) else to_json(output)
        if found_output != entry["output"]:
            raise AssertionError(f"the output is {found_output!r:.100}, not {entry['output']!r:.100}")


def value_at(message: Any, path: str) -> Any:
    """The value at a path, in the form of the index. None means a field or oneof that is not set.

    Args:
        path: Field names as in the proto files, list indexes and map keys. The last one may be the name of a oneof, whose value is
            the name of the field that is set.
    """
    field: FieldDescriptor | None = None
    value: Any = message
    steps = path.split(".")
    while steps:
        step = steps.pop(0)
        if field is not None and isinstance(value, str | bytes | int | float):
            raise AssertionError(f"{path} leads through {field.name}, which is a {type(value).__name__}")
        if not isinstance(value, Message):
            if step == "size" and not steps:
                return len(value)
            value = value[int(step)] if step.isdigit() and not hasattr(value, "keys") else value[step]
            continue
        if step in value.DESCRIPTOR.oneofs_by_name and not steps:
            return value.WhichOneof(step)
        # The protobuf implementations have different descriptor classes.
        field = cast(FieldDescriptor, value.DESCRIPTOR.fields_by_name[step])
        if field.has_presence and not value.HasField(step):
            return None
        value = getattr(value, step)
    return _to_json_value(field, value)


def _to_json_value(field: FieldDescriptor | None, value: Any) -> Any:
    if isinstance(value, Message):
        return {}
    if field is None or hasattr(value, "keys"):
        raise AssertionError("a path ends at one value")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    return str(value) if field.cpp_type in _WIDE else value
