"""A service of a user, whose types are in a descriptor pool of their own and in no generated module."""

from collections.abc import AsyncIterator
from typing import Any

from google.protobuf import any_pb2, duration_pb2, field_mask_pb2, struct_pb2, text_format, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from protolink_grpc.edges.grpc.call import current_call
from protolink_grpc.errors import ResourceExhaustedError, TaskNotFoundError

DEPENDENCIES = (any_pb2, duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)

SCALARS = {
    name: f"TYPE_{name.upper()}"
    for name in (
        *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes"),
        *("uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
    )
}
"""Fields of an order by name, with their types."""

WELL_KNOWN = {
    "time": "Timestamp",
    "duration": "Duration",
    "mask": "FieldMask",
    "any": "Any",
    "struct": "Struct",
    "value": "Value",
    "list": "ListValue",
    "wrapped": "Int64Value",
}


def _field(number: int, name: str, kind: str, type_name: str = "", *, label: str = "OPTIONAL", more: str = "") -> str:
    named = f'type_name: "{type_name}"' if type_name else ""
    return f'field {{ name: "{name}" number: {number} label: LABEL_{label} type: {kind} {named} {more} }}'


def _map(name: str, key: str, value: str) -> str:
    fields = _field(1, "key", key) + value
    return f'nested_type {{ name: "{name}" {fields} options {{ map_entry: true }} }}'


_FIELDS = [
    *(_field(number, name, kind) for number, (name, kind) in enumerate(SCALARS.items(), 1)),
    *(
        _field(number, name, "TYPE_MESSAGE", f".google.protobuf.{kind}")
        for number, (name, kind) in enumerate(WELL_KNOWN.items(), 21)
    ),
    _field(31, "color", "TYPE_ENUM", ".shop.v1.Color"),
    _field(32, "inner_order", "TYPE_MESSAGE", ".shop.v1.Order"),
    _field(33, "orders", "TYPE_MESSAGE", ".shop.v1.Order", label="REPEATED"),
    _field(34, "numbers", "TYPE_INT32", label="REPEATED"),
    _field(35, "colors", "TYPE_ENUM", ".shop.v1.Color", label="REPEATED"),
    _field(36, "by_number", "TYPE_MESSAGE", ".shop.v1.Order.ByNumberEntry", label="REPEATED"),
    _field(37, "prices", "TYPE_MESSAGE", ".shop.v1.Order.PricesEntry", label="REPEATED"),
    _field(38, "card", "TYPE_STRING", more="oneof_index: 0"),
    _field(39, "gift", "TYPE_MESSAGE", ".shop.v1.Order", more="oneof_index: 0"),
    _field(40, "times", "TYPE_MESSAGE", ".google.protobuf.Timestamp", label="REPEATED"),
    _map("ByNumberEntry", "TYPE_INT32", _field(2, "value", "TYPE_MESSAGE", ".shop.v1.Order")),
    _map("PricesEntry", "TYPE_STRING", _field(2, "value", "TYPE_INT64")),
    'oneof_decl { name: "payment" }',
]

FILE = f"""
name: "shop/v1/shop.proto" package: "shop.v1" syntax: "proto3"
{" ".join(f'dependency: "{each.DESCRIPTOR.name}"' for each in DEPENDENCIES)}
enum_type {{
  name: "Color"
  value {{ name: "COLOR_UNSPECIFIED" number: 0 }}
  value {{ name: "COLOR_RED" number: 1 }}
}}
message_type {{ name: "Order" {" ".join(_FIELDS)} }}
service {{
  name: "ShopService"
  method {{ name: "Place" input_type: ".shop.v1.Order" output_type: ".shop.v1.Order" }}
  method {{ name: "Watch" input_type: ".shop.v1.Order" output_type: ".shop.v1.Order" server_streaming: true }}
}}
"""

POOL = DescriptorPool()
for _each in DEPENDENCIES:
    POOL.AddSerializedFile(_each.DESCRIPTOR.serialized_pb)
POOL.AddSerializedFile(text_format.Parse(FILE, FileDescriptorProto()).SerializeToString())

SERVICE = POOL.FindServiceByName("shop.v1.ShopService")
Order: type[Any] = GetMessageClass(POOL.FindMessageTypeByName("shop.v1.Order"))


class ShopServicer:
    """Returns what was ordered, with the headers and errors that `string` names."""

    async def Place(self, request: Any, context: None) -> Message:
        call = current_call()
        assert call is not None
        if request.string == "bad header":
            call.response_headers["X-Upper"] = "no"
        call.response_headers["x-task-id"] = "t-1"
        match request.string:
            case "missing":
                raise TaskNotFoundError("there is no such order")
            case "full":
                raise ResourceExhaustedError("come back later", retry_after_s=2.5)
            case "break":
                raise RuntimeError("secret")
        return request

    async def Watch(self, request: Any, context: None) -> AsyncIterator[Message | bytes]:
        """Yields `int32` orders, then fails if `string` says so."""
        call = current_call()
        assert call is not None
        call.response_headers["x-task-id"] = "t-1"
        for number in range(request.int32):
            order = Order(int64=number)
            yield order if number % 2 else order.SerializeToString()
        call.response_headers["x-cost"] = "7"
        if request.string == "break":
            raise RuntimeError("secret")
