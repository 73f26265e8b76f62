"""A typed service: the tools of an agent as the methods of a protobuf service, whose .proto file is the contract.

The file is derived from the tools (`plgrpc proto export`), and committed. Serving derives it again and compares: an agent whose
tools have changed since the export does not start. No generated code is needed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.tools.tool import Tool
from protolink_grpc.typed.converters import Converters
from protolink_grpc.typed.layout import RESULT, ServicePlan, ToolContract, lay_out
from protolink_grpc.typed.numbering import Change, assign_numbers
from protolink_grpc.typed.proto_source import compile_proto
from protolink_grpc.typed.proto_text import to_text
from protolink_grpc.typed.types import ANY, NULL, SchemaReader, pascal, snake

HEAD: Final = (
    "The tools of the agent {}, written by `plgrpc proto export`. Change the tools, then export again: numbers stay."
)


@dataclass(frozen=True, slots=True)
class Export:
    """The .proto file of an agent's tools, and how it differs from the committed one.

    Args:
        path: Path of the file below the folder of the protos.
        text: The whole file.
        changes: Empty if the committed file has the same contract; comments are not compared.
    """

    path: str
    text: str
    changes: Sequence[Change]
    plan: ServicePlan


@dataclass(frozen=True, slots=True)
class TypedMethod:
    """One method of a typed service.

    Args:
        tool: Name of the tool.
        read: Converts a request to the tool's arguments. Raises InvalidArgumentError with the path.
        write: Converts a result, as JSON, to a response. Raises InvalidArgumentError with the path.
        streams: Whether the tool's results are a stream.
    """

    name: str
    tool: str
    read: Callable[[Message], dict[str, Any]]
    write: Callable[[Any], Message]
    streams: bool


@dataclass(frozen=True, slots=True)
class TypedService:
    """A typed service that can be served.

    Args:
        descriptor: In a pool of its own, so that generated code of the same file in this process does not matter.
        methods: By name.
    """

    descriptor: ServiceDescriptor
    methods: Mapping[str, TypedMethod]


def export_proto(
    agent_name: str,
    about: str,
    tools: Iterable[Tool],
    package: str,
    committed: FileDescriptorProto | None = None,
    *,
    service: str = "",
    options: Mapping[str, str] = MappingProxyType({}),
) -> Export:
    """Derive the .proto file of an agent's tools.

    Args:
        about: What the agent does.
        committed: The file of an earlier export, whose numbers are kept.
        service: Name of the service; by default that of the committed file, or else the agent's.
        options: Options of the file with a text as value, such as `go_package`, beside those of the committed file.

    Raises:
        TypeError: A tool cannot be expressed in protobuf; names the tool and the parameter.
        InvalidArgumentError: The package or the service has no valid name, or an option does not exist.
    """
    if not service and committed is not None and len(committed.service) == 1:
        service = committed.service[0].name
    service = service or pascal(agent_name)
    parts = package.split(".")
    if not all(part.isidentifier() and part.isascii() for part in parts):
        raise InvalidArgumentError(f"{package!r} is not a protobuf package like acme.calculator.v1", field="package")
    if not (service.isidentifier() and service.isascii()):
        raise InvalidArgumentError(f"{service!r} is not a name of a service; choose one", field="service")
    name = committed.name if committed is not None and committed.name else f"{'/'.join(parts)}/{file_name(service)}"
    plan = lay_out(package, service, name, [contract_of(tool) for tool in tools], about)
    if not plan.methods:
        raise InvalidArgumentError(f"the agent {agent_name} has no tools", field="tools")
    changes = assign_numbers(plan.file, committed)
    for key, value in options.items():
        field = plan.file.options.DESCRIPTOR.fields_by_name.get(key)
        if field is None or field.type != field.TYPE_STRING:
            raise InvalidArgumentError(
                f"{key!r} is not an option of .proto files whose value is a text", field="option"
            )
        setattr(plan.file.options, key, value)
    return Export(name, to_text(plan.file, plan.comments, HEAD.format(agent_name)), changes, plan)


def file_name(service: str) -> str:
    """Return the name of the .proto file of a service."""
    return f"{snake(service)}.proto"


def contract_of(tool: Tool) -> ToolContract:
    """Return what a typed service needs to know of a tool. Raises TypeError as `export_proto`."""
    owner = f"tool '{tool.name}'"
    schema, promised = tool.contract_schemas()
    arguments = SchemaReader(schema, owner).read_object("")
    result, nullable = SchemaReader(promised, owner).read() if promised else (ANY, True)
    kind = None if result == NULL else result
    return ToolContract(tool.name, tool.description, arguments, kind, nullable, streams=tool.streams)


def load_typed_service(source: str | Path, agent_name: str, about: str, tools: Iterable[Tool]) -> TypedService:
    """Build the service of an agent's tools.

    Args:
        source: The committed .proto file, or a package if there is no file.

    Raises:
        InvalidArgumentError: The file is not valid, or the tools differ from it; names each difference.
        TypeError: A tool cannot be expressed in protobuf.
    """
    text = str(source)
    if not text.endswith(".proto"):
        return build_typed_service(export_proto(agent_name, about, tools, text).plan)
    try:
        committed = compile_proto(Path(source))[-1]
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{error.detail}; plgrpc proto export writes it", field="typed") from None
    export = export_proto(agent_name, about, tools, committed.package, committed)
    if export.changes:
        listed = "; ".join(str(each) for each in export.changes)
        raise InvalidArgumentError(
            f"{text} differs from the tools of {agent_name}: {listed}. Run plgrpc proto export", field="typed"
        )
    return build_typed_service(export.plan)


def build_typed_service(plan: ServicePlan) -> TypedService:
    """Build the service of a plan whose fields have numbers."""
    pool = DescriptorPool()
    _add_imports(pool, plan.file)
    pool.AddSerializedFile(plan.file.SerializeToString())
    converters = Converters(pool)
    methods: dict[str, TypedMethod] = {}
    for each in plan.methods:
        write = converters.writer(each.response)
        has_result = bool(each.response.fields)
        methods[each.name] = TypedMethod(
            each.name,
            each.tool,
            converters.reader(each.request),
            _result_writer(write) if has_result else _empty_writer(write),
            each.streams,
        )
    return TypedService(pool.FindServiceByName(plan.service), methods)


def _result_writer(write: Callable[[Any], Message]) -> Callable[[Any], Message]:
    return lambda result: write({RESULT: result})


def _empty_writer(write: Callable[[Any], Message]) -> Callable[[Any], Message]:
    return lambda _: write({})


def _add_imports(pool: DescriptorPool, file: FileDescriptorProto) -> None:
    for known in (duration_pb2, struct_pb2, timestamp_pb2):
        if known.DESCRIPTOR.name in file.dependency:
            pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
