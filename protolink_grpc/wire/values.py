"""Converts users' values and failures between the models and `plgrpc.v1`, for the network and for the log.

In the models, plain JSON has no wrapper; every other value is a `Payload`.
"""

from typing import Any, Final

from google.protobuf.message import DecodeError
from plgrpc.v1 import failure_pb2, payload_pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.payload import Payload, PayloadRef, TypedMessage, UnknownForm
from protolink_grpc.wire.compile import Codec, register_conversion

SHA256_BYTES: Final = 32
MAX_PREVIEW_BYTES: Final = 1024
"""Source: the comments of payload.proto."""


def payload_to_pb(value: Any) -> payload_pb2.Payload:
    """Convert a user's value. Raises TypeError or InvalidArgumentError as `to_json`."""
    if not isinstance(value, Payload):
        return payload_pb2.Payload(json=to_json(value))
    found = value.value
    if isinstance(found, UnknownForm):
        kept = _unknown_to_pb(found)
        if kept is None:  # JSON of a user that looks like such a form
            return payload_pb2.Payload(json=to_json(value.to_dict()))
        out = kept
    else:
        out = payload_pb2.Payload()
        match found:
            case TypedMessage():
                out.message.type_name, out.message.value = found.type_name, found.value
            case PayloadRef():
                out.ref.uri, out.ref.size_bytes, out.ref.sha256 = found.uri, found.size_bytes, found.sha256
            case bytes():
                out.data = found
            case _:
                out.json = to_json(found)
    out.media_type, out.encoding, out.preview = value.media_type, value.encoding, value.preview
    return out


def _unknown_to_pb(form: UnknownForm) -> payload_pb2.Payload | None:
    """Return the original message; None if the bytes are not a payload of an unknown form."""
    try:
        out = payload_pb2.Payload.FromString(form.encoded)
    except DecodeError:
        return None
    return out if out.WhichOneof("value") is None else None


def payload_from_pb(pb: payload_pb2.Payload, field: str = "") -> Any:
    """Return plain JSON as its value, and anything else as a Payload. An empty message is a Payload, too: check its presence first.

    Raises:
        InvalidArgumentError: Not JSON, or too deep; names the path below `field`.
    """
    kind = pb.WhichOneof("value")
    if kind == "json":
        json = from_json(pb.json, field=f"{field}.json" if field else "json")
        if not (pb.media_type or pb.encoding or pb.preview):
            return json
        value: Any = json
    elif kind == "message":
        value = TypedMessage(pb.message.type_name, pb.message.value)
    elif kind == "data":
        value = pb.data
    elif kind == "ref":
        value = PayloadRef(pb.ref.uri, pb.ref.size_bytes, pb.ref.sha256)
    else:
        value = UnknownForm(pb.SerializeToString())
    return Payload(value, pb.media_type, pb.encoding, pb.preview)


def check_payload(pb: payload_pb2.Payload, field: str) -> None:
    """Check that the payload of a request has a form of this version, within the bounds of the contract.

    Raises:
        InvalidArgumentError: It does not; names the path below `field`.
    """
    match pb.WhichOneof("value"):
        case None:
            raise InvalidArgumentError("must carry a value of a known form", field=field)
        case "message" if not pb.message.type_name:
            raise InvalidArgumentError("must not be empty", field=f"{field}.message.type_name")
        case "ref":
            if not pb.ref.uri:
                raise InvalidArgumentError("must not be empty", field=f"{field}.ref.uri")
            if pb.ref.size_bytes < 0:
                raise InvalidArgumentError("must not be negative", field=f"{field}.ref.size_bytes")
            if len(pb.ref.sha256) not in (0, SHA256_BYTES):
                raise InvalidArgumentError(f"must be {SHA256_BYTES} bytes", field=f"{field}.ref.sha256")
    if len(pb.preview) > MAX_PREVIEW_BYTES or len(pb.preview.encode()) > MAX_PREVIEW_BYTES:
        raise InvalidArgumentError(f"must be at most {MAX_PREVIEW_BYTES} bytes", field=f"{field}.preview")


def object_from_pb(pb: payload_pb2.Payload, field: str = "") -> dict[str, Any]:
    """Return the JSON object of a payload; {} for an empty message.

    Raises:
        InvalidArgumentError: The payload has another value; names the path below `field`.
    """
    if not pb.ByteSize():
        return {}
    value = payload_from_pb(pb, field)
    if not isinstance(value, dict):
        raise InvalidArgumentError(
            "must be a JSON object", field=".".join(filter(None, (field, "json" if pb.HasField("json") else "")))
        )
    return value


register_conversion(Any, payload_pb2.Payload, payload_to_pb, payload_from_pb)
register_conversion(dict[str, Any], payload_pb2.Payload, payload_to_pb, object_from_pb)

FAILURE: Final = Codec(Failure, failure_pb2.Failure, Failure.bounded, retry_delay_s="retry_delay")
