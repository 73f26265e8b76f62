"""The services that a generated servicer implements, found through public generated code, and the checks of their methods."""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.services.json_schema import has_fields_as_json
from protolink_grpc.tools.tool import NAME
from protolink_grpc.typed.types import snake

F = TypeVar("F", bound=Callable[..., Any])

FIELD: Final = "services"
"""The argument of `Agent` that errors name."""

RESERVED: Final = ("plgrpc.", "grpc.", "lf.a2a.", "a2a.")
"""Beginnings of the names of services that every agent has, or may have."""


@dataclass(frozen=True, slots=True)
class RpcOptions:
    """The settings of one method; see `rpc`."""

    durable: bool = True
    tool: bool | str = True
    capabilities: frozenset[str] = frozenset()


_OPTIONS: Final = "__plgrpc_rpc__"
"""Attribute of a function with the options that `rpc` has set."""


@checks_arguments
def rpc(*, durable: bool = True, tool: bool | str = True, capabilities: Iterable[str] = ()) -> Callable[[F], F]:
    """Set how an agent serves a method of a servicer. A method without this decorator is durable and a tool.

    Args:
        durable: Whether each call is a task, with a log. A method that is not durable is called directly: with authentication,
            access rules, interceptors and limits, but without a log, retries by request id, and `current_run()`.
        tool: Whether a durable unary method is also a tool of the agent. A text is the name of the tool; by default it is the
            name of the method in the spelling of functions, such as `place_order` for `PlaceOrder`.
        capabilities: Capabilities that a call of the tool needs, for policies. Direct callers need the scopes of access rules.
    """
    options = RpcOptions(durable, tool, frozenset((capabilities,) if isinstance(capabilities, str) else capabilities))

    def mark(function: F) -> F:
        setattr(function, _OPTIONS, options)
        return function

    return mark


@dataclass(frozen=True, slots=True)
class ServiceMethod:
    """One method of a user's service.

    Args:
        name: Full name, `/package.Service/Method`.
        behavior: The method of the servicer; None if the servicer does not implement it.
        durable: Whether each call is a task.
        tool: Name of its tool; empty if it is not a tool.
        capabilities: Capabilities that a call of the tool needs.
    """

    name: str
    descriptor: MethodDescriptor
    behavior: Callable[[Any, Any], Any] | None
    request_type: type[Message]
    response_type: type[Message]
    durable: bool
    tool: str
    capabilities: frozenset[str]

    @property
    def streams(self) -> bool:
        """Whether it returns a stream of responses."""
        return self.descriptor.server_streaming

    @property
    def reads_stream(self) -> bool:
        """Whether its request is a stream of messages."""
        return self.descriptor.client_streaming

    @property
    def is_read_only(self) -> bool:
        """Whether the .proto file declares that a call has no effects (`idempotency_level = NO_SIDE_EFFECTS`)."""
        return self._idempotency == MethodOptions.NO_SIDE_EFFECTS

    @property
    def is_idempotent(self) -> bool:
        """Whether the .proto file declares that repeating a call has no further effect."""
        return self._idempotency in (MethodOptions.NO_SIDE_EFFECTS, MethodOptions.IDEMPOTENT)

    @property
    def _idempotency(self) -> int:
        return int(self.descriptor.GetOptions().idempotency_level)


@dataclass(frozen=True, slots=True)
class UserService:
    """A service of a user: its descriptor, and its methods by their names in the .proto file."""

    descriptor: ServiceDescriptor
    methods: Mapping[str, ServiceMethod]

    @property
    def name(self) -> str:
        """The full name, `package.Service`."""
        return str(self.descriptor.full_name)


def services_of(servicer: object) -> list[UserService]:
    """Return the services that a servicer implements: one for each generated class among its bases.

    Raises:
        InvalidArgumentError: It is not an object of a subclass of a generated class; its .proto file is not in the default pool;
            it has the name of a service of this package; or a method has the wrong form. Names the service or the method.
    """
    if inspect.isclass(servicer):
        raise InvalidArgumentError(f"{servicer.__name__} is a class; give an object of it", field=FIELD)
    found = [_read_service(servicer, base, register) for base, register in _generated_bases(type(servicer))]
    if not found:
        raise InvalidArgumentError(
            f"{type(servicer).__name__} is not a servicer: subclass the class that protoc generated, such as OrdersServicer",
            field=FIELD,
        )
    return found


class _Recorder:
    """Stands for a server in generated code that registers a servicer, and records the names of the services."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def add_generic_rpc_handlers(self, handlers: tuple[grpc.GenericRpcHandler, ...]) -> None:
        self.names += [each.service_name() or "" for each in handlers if isinstance(each, grpc.ServiceRpcHandler)]

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Ignored: the generic handler has the name, too."""


def _generated_bases(kind: type) -> Iterator[tuple[type, Callable[[object, Any], None]]]:
    """Yield the generated classes among the bases of a servicer, and the generated function that registers each."""
    for base in kind.__mro__:
        register = getattr(sys.modules.get(base.__module__), f"add_{base.__name__}_to_server", None)
        # A module of the user may have a class of the same name, and import the function.
        if callable(register) and register.__module__ == base.__module__:
            yield base, register


def _read_service(servicer: object, base: type, register: Callable[[object, Any], None]) -> UserService:
    recorder = _Recorder()
    register(servicer, recorder)
    name = recorder.names[0] if recorder.names else ""
    try:
        descriptor = descriptor_pool.Default().FindServiceByName(name)
    except KeyError:
        raise InvalidArgumentError(
            f"the .proto file of {name or base.__name__} is not in the default descriptor pool: import its _pb2 module",
            field=FIELD,
        ) from None
    if name.startswith(RESERVED):
        raise InvalidArgumentError(f"{name} has the name of a service that agents have themselves", field=FIELD)
    methods = {each.name: _read_method(servicer, base, descriptor, each) for each in descriptor.methods}
    return UserService(descriptor, methods)


def _read_method(
    servicer: object, base: type, service: ServiceDescriptor, descriptor: MethodDescriptor
) -> ServiceMethod:
    behavior = getattr(servicer, descriptor.name)
    function = getattr(behavior, "__func__", behavior)
    is_missing = function is getattr(base, descriptor.name)
    options = getattr(function, _OPTIONS, RpcOptions())
    durable = options.durable and not is_missing
    if not is_missing:
        _check_form(f"{type(servicer).__name__}.{descriptor.name}", function, descriptor, durable=durable)
    is_unary = not descriptor.client_streaming and not descriptor.server_streaming
    may_be_tool = durable and is_unary and has_fields_as_json(descriptor.input_type)
    return ServiceMethod(
        f"/{service.full_name}/{descriptor.name}",
        descriptor,
        None if is_missing else behavior,
        GetMessageClass(descriptor.input_type),
        GetMessageClass(descriptor.output_type),
        durable,
        _tool_name(options.tool, descriptor.name) if may_be_tool else "",
        options.capabilities,
    )


def _check_form(name: str, function: Any, descriptor: MethodDescriptor, *, durable: bool) -> None:
    """Raise InvalidArgumentError if a method is not async, or has a form that cannot be durable."""
    written = inspect.unwrap(function)
    if descriptor.server_streaming and not inspect.isasyncgenfunction(written):
        raise InvalidArgumentError(f"{name} must be an async generator: `async def` with `yield`", field=FIELD)
    if not descriptor.server_streaming and not inspect.iscoroutinefunction(written):
        raise InvalidArgumentError(f"{name} must be async: write `async def {descriptor.name}`", field=FIELD)
    if durable and descriptor.client_streaming and descriptor.server_streaming:
        raise InvalidArgumentError(
            f"{name} has streams in both directions, which cannot be repeated from a log: mark it @rpc(durable=False)",
            field=FIELD,
        )


def _tool_name(chosen: bool | str, method: str) -> str:
    if isinstance(chosen, bool):
        return snake(method) if chosen else ""
    if not NAME.fullmatch(chosen):
        raise InvalidArgumentError(f"the tool name {chosen[:128]!r} must match {NAME.pattern}", field=FIELD)
    return chosen
