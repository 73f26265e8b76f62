"""The services of servicers, the context of their methods, and the JSON Schemas of their messages."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import grpc
import grpc.aio
import orders_world
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status
from hypothesis import given
from hypothesis import strategies as st
from orders_world import OrdersServicer, pb, pb_grpc

from protolink_grpc import InvalidArgumentError, UnimplementedError, rpc
from protolink_grpc.errors import UnsupportedOperationError
from protolink_grpc.services.call_context import CallContext, Invocation
from protolink_grpc.services.definition import services_of
from protolink_grpc.services.json_schema import message_schema
from protolink_grpc.services.recording import (
    encoded_message,
    message_part,
    recorded_status,
    recorded_trailers,
    request_message,
    status_failure,
    trailers_to_json,
)
from protolink_grpc.tools.json_schema import JsonSchema


def test_a_servicer_has_the_methods_of_its_descriptor() -> None:
    (service,) = services_of(OrdersServicer())
    found = {name: (each.durable, each.tool) for name, each in service.methods.items()}
    assert found == {
        "Place": (True, "place"),
        "Follow": (True, ""),
        "Total": (True, ""),
        "Price": (False, ""),
        "Prices": (False, ""),
        "Forget": (False, ""),
    }
    assert service.methods["Forget"].behavior is None
    assert service.methods["Price"].is_read_only
    assert not service.methods["Place"].is_idempotent


def test_a_class_with_the_name_of_its_generated_base_is_no_second_service(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OrdersServicer.__name__ == pb_grpc.OrdersServicer.__name__
    imported = pb_grpc.add_OrdersServicer_to_server
    monkeypatch.setattr(orders_world, imported.__name__, imported, raising=False)
    assert len(services_of(OrdersServicer())) == 1


@pytest.fixture
def generated() -> Iterator[ModuleType]:
    """A module as older versions of protoc generate it, whose service may have any name."""
    module = ModuleType("odd_pb2_grpc")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def servicer_of(module: ModuleType, name: str) -> object:
    class OddServicer:
        async def Place(self, request: Any, context: Any) -> Any: ...

    OddServicer.__module__ = module.__name__

    def add_OddServicer_to_server(servicer: Any, server: Any) -> None:
        handlers = {"Place": grpc.unary_unary_rpc_method_handler(servicer.Place)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))

    add_OddServicer_to_server.__module__ = module.__name__
    module.add_OddServicer_to_server = add_OddServicer_to_server  # type: ignore[attr-defined]  # as in generated code
    return type("Odd", (OddServicer,), {"__module__": __name__})()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("acme.unknown.v1.Orders", "acme.unknown.v1.Orders is not in the default descriptor pool"),
        ("plgrpc.v1.AgentService", "plgrpc.v1.AgentService has the name of a service that agents have themselves"),
        ("grpc.health.v1.Health", "grpc.health.v1.Health has the name"),
    ],
)
def test_a_service_without_a_usable_descriptor_is_refused(generated: ModuleType, name: str, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text) as error:
        services_of(servicer_of(generated, name))
    assert error.value.field == "services"


def test_a_name_of_a_tool_is_checked() -> None:
    class Named(OrdersServicer):
        @rpc(tool="no name")
        async def Place(self, request: Any, context: Any) -> Any: ...

    with pytest.raises(InvalidArgumentError, match="no name"):
        services_of(Named())


# -- the context ---------------------------------------------------------------------------------------------------------------


def context(invocation: Invocation | None = None) -> CallContext:
    return CallContext(invocation, lambda: False)


async def test_abort_sets_the_status_and_ends_the_method() -> None:
    own = context()
    with pytest.raises(grpc.aio.AbortError):
        await own.abort(grpc.StatusCode.NOT_FOUND, "no such item", (("x-near", "tea"),))
    assert (own.code(), own.details(), own.trailers) == (
        grpc.StatusCode.NOT_FOUND,
        "no such item",
        (("x-near", "tea"),),
    )
    with pytest.raises(ValueError, match="OK"):
        await own.abort(grpc.StatusCode.OK)


async def test_a_whole_status_is_kept() -> None:
    whole = status_pb2.Status(code=code_pb2.INVALID_ARGUMENT, message="bad")
    whole.details.add().Pack(error_details_pb2.BadRequest(field_violations=[{"field": "item"}]))
    own = context()
    with pytest.raises(grpc.aio.AbortError):
        await own.abort_with_status(rpc_status.to_status(whole))
    assert own.status("acme.v1.Orders") == whole
    assert recorded_status(status_failure(whole)) == whole


def test_metadata_belong_to_an_open_call() -> None:
    over_http = context(Invocation("t1", (("x-tenant", "acme"),)))
    assert dict(over_http.invocation_metadata()) == {"x-tenant": "acme"}
    assert (over_http.peer(), over_http.time_remaining()) == ("", None)
    with pytest.raises(UnsupportedOperationError, match="after a crash"):
        context().invocation_metadata()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("add_done_callback", (print,)), ("set_compression", (1,)), ("auth_context", ()), ("peer_identities", ())],
)
def test_the_rest_of_grpcs_context_is_refused_clearly(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(UnimplementedError, match=rf"context\.{name} is not available"):
        getattr(context(), name)(*arguments)


@pytest.mark.parametrize(("name", "arguments"), [("read", ()), ("write", (1,)), ("send_initial_metadata", ((),))])
async def test_the_streams_of_grpcs_context_are_refused_clearly(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(UnimplementedError, match=rf"context\.{name} is not available"):
        await getattr(context(), name)(*arguments)


def test_every_method_of_grpcs_context_is_decided_here() -> None:
    public = {name for name in dir(grpc.aio.ServicerContext) if not name.startswith("_")}
    assert public <= vars(CallContext).keys()


# -- recording -----------------------------------------------------------------------------------------------------------------


def test_trailing_metadata_survive_the_log() -> None:
    pairs = [("x-cost", "7"), ("x-seal-bin", b"\x00\xff"), ("grpc-status-details-bin", b"x")]
    assert recorded_trailers({"plgrpc.trailing_metadata": trailers_to_json(pairs)}) == pairs[:2]
    assert recorded_trailers({}) == []


@pytest.mark.parametrize(
    "pairs", [5, [5], [["a"]], [["A", "b"]], [["a", "\n"]], [["a-bin", "?"]], [["a", 5]], {"a": "b"}]
)
def test_trailing_metadata_that_no_method_set_is_left_out(pairs: Any) -> None:
    assert recorded_trailers({"plgrpc.trailing_metadata": pairs}) == []


@pytest.mark.parametrize("pair", [("A", "b"), ("a", "\n"), ("a", "\u00e4"), ("a", b"b"), ("a-bin", "b"), ("", "b")])
async def test_metadata_that_grpc_would_refuse_is_refused_before_it_is_recorded(pair: Any) -> None:
    with pytest.raises(ValueError, match=r"key|value"):
        context().set_trailing_metadata((pair,))
    with pytest.raises(ValueError, match=r"key|value"):
        await context().abort(grpc.StatusCode.ABORTED, "", (pair,))


def test_a_part_of_another_type_is_no_request() -> None:
    part = message_part(pb.PriceRequest(item="tea"))
    assert encoded_message(part, pb.PriceRequest) == pb.PriceRequest(item="tea").SerializeToString()
    with pytest.raises(InvalidArgumentError, match=r"acme\.orders\.v1\.PlaceRequest"):
        encoded_message(part, pb.PlaceRequest)
    assert len(request_message([pb.PriceRequest(), pb.PriceRequest()]).parts) == 2


# -- JSON Schemas --------------------------------------------------------------------------------------------------------------

THINGS = st.fixed_dictionaries(
    {},
    optional={
        "long": st.integers(-(1 << 63), (1 << 63) - 1),
        "small": st.integers(0, (1 << 32) - 1),
        "real": st.floats(allow_nan=False, allow_infinity=False),
        "data": st.sampled_from(["", "AAE="]),
        "color": st.sampled_from(["COLOR_UNSPECIFIED", "COLOR_RED"]),
        "texts": st.lists(st.text()),
        "children": st.dictionaries(st.text(), st.just({"small": 1, "children": {}})),
        "when": st.just("2026-01-31T12:00:00Z"),
        "wrapped": st.integers(-(1 << 63), (1 << 63) - 1),
        "left": st.text(),
        "free": st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.none()),
    },
)
SENT = JsonSchema(message_schema(pb.Thing.DESCRIPTOR, written=False))
WRITTEN = JsonSchema(message_schema(pb.Thing.DESCRIPTOR, written=True))


@given(THINGS)
def test_a_message_satisfies_its_schemas(thing: dict[str, Any]) -> None:
    assert SENT.problems(thing) == []
    message = ParseDict(thing, pb.Thing())
    assert WRITTEN.problems(MessageToDict(message, preserving_proto_field_name=True)) == []


@pytest.mark.parametrize("thing", [{"color": "RED"}, {"small": -1}, {"other": 1}, {"children": {"a": {"other": 1}}}])
def test_what_is_no_message_does_not_satisfy_the_schema(thing: dict[str, Any]) -> None:
    assert SENT.problems(thing) != []


@pytest.mark.parametrize("value", [{"real": float("nan")}, {"color": 7}, {"long": -5}])
def test_values_that_protobuf_writes_in_another_form_satisfy_its_schema(value: dict[str, Any]) -> None:
    assert WRITTEN.problems(MessageToDict(pb.Thing(**value), preserving_proto_field_name=True)) == []
