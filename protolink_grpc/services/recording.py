"""How a call of a user's method is recorded in the log of its task.

The task's metadata has the method's name. The first message has one part for each request message, and each response message is an
artifact. A status that the method chose is in the failure of the task. So a repeated call is answered from the log.
"""

import binascii
import hashlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.failure import MAX_REASON, Failure, category_of_code
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message as TaskMessage
from protolink_grpc.models.part import Part
from protolink_grpc.models.payload import Payload, TypedMessage
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.net.response_headers import NAME
from protolink_grpc.runtime.submission import Submission

SERVICE_CALL: Final = "plgrpc.service_call"
"""Metadata key of a task that is a call of a user's method: the method's full name, `/package.Service/Method`."""

TRAILERS: Final = "plgrpc.trailing_metadata"
"""Metadata key with the trailing metadata of the response: pairs of key and value; binary values are base64."""

STATUS_TYPE: Final = status_pb2.Status.DESCRIPTOR.full_name

MetadataPair = tuple[str, str | bytes]


def message_part(message: Message) -> Part:
    """Return a message of a user's service as a part. Required fields of proto2 are not checked, as everywhere on the ports."""
    return Part("json", Payload(TypedMessage(message.DESCRIPTOR.full_name, message.SerializePartialToString())))


def request_message(requests: Iterable[Message]) -> TaskMessage:
    """Return the requests of a call as the message of its task."""
    return TaskMessage(role="user", parts=[message_part(each) for each in requests])


def encoded_message(part: Part, kind: type[Message]) -> bytes:
    """Return the encoded message of a part. Raises InvalidArgumentError if the part has no message of that type."""
    content = part.content
    value = content.value if isinstance(content, Payload) else None
    name = kind.DESCRIPTOR.full_name
    if not isinstance(value, TypedMessage) or value.type_name != name:
        raise InvalidArgumentError(f"must be a message of the type {name}", field="part")
    return value.value


def call_submission(
    method: str,
    requests: Iterable[Message],
    *,
    task_id: str,
    request_id: str,
    session_id: str,
    scopes: frozenset[str],
    context: RunContext | None,
) -> Submission:
    """Return the request for the task of a call.

    Args:
        method: Full name, `/package.Service/Method`.
        scopes: Scopes of the caller's credentials.
    """
    return Submission(
        messages=[request_message(requests)],
        target=TaskTarget.CREATE,
        metadata={SERVICE_CALL: method},
        task_id=task_id,
        request_id=request_id,
        session_id=session_id,
        scopes=scopes,
        context=context,
    )


def recorded_response(fold: TaskFold, kind: type[Message]) -> bytes | None:
    """Return the encoded single response of a task; None if it has none."""
    artifact = fold.artifact(response_id(fold.task_id, 0)) if fold.state is TaskState.COMPLETED else None
    return None if artifact is None else encoded_message(artifact.parts[0], kind)


def response_id(task_id: str, index: int) -> str:
    """Return the id of the artifact with a response, counted from 0. It is the same in every run of the task."""
    return hashlib.sha256(f"{task_id}/response/{index}".encode()).hexdigest()[:32]


def response_artifact(task_id: str, index: int, message: Message, method: str) -> Artifact:
    """Return a response as an artifact of its task."""
    return Artifact(id=response_id(task_id, index), parts=[message_part(message)], name=method)


def status_failure(status: status_pb2.Status) -> Failure:
    """Return the failure of a task whose method ended the call with a status."""
    code = code_pb2.Code.Name(status.code)
    details = Payload(TypedMessage(STATUS_TYPE, status.SerializeToString()))
    return Failure(code, status.message, category_of_code(code), details=details)


def recorded_status(failure: object) -> status_pb2.Status | None:
    """Return the status that `status_failure` has recorded; None for any other failure."""
    details = failure.details if isinstance(failure, Failure) else None
    value = details.value if isinstance(details, Payload) else None
    if not isinstance(value, TypedMessage) or value.type_name != STATUS_TYPE:
        return None
    try:
        return status_pb2.Status.FromString(value.value)
    except DecodeError:
        return None


def build_status(
    code: grpc.StatusCode, details: str, trailers: Sequence[MetadataPair], service: str, task_id: str = ""
) -> status_pb2.Status:
    """Return the status with which a method ends its call.

    The trailing metadata may have a whole `google.rpc.Status`, as `grpc_status` writes it. Otherwise the status gets an ErrorInfo
    with the domain `service`, by which clients recognize a status of the method, and the id of the task.
    """
    number = int(code.value[0])
    for key, value in trailers:
        if key == STATUS_TRAILER and isinstance(value, bytes):
            given = status_pb2.Status.FromString(value)
            if given.code == number:
                return given
    status = status_pb2.Status(code=number, message=details[:MAX_REASON])
    metadata = {"task_id": task_id} if task_id else {}
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=code.name, domain=service, metadata=metadata))
    return status


STATUS_TRAILER: Final = "grpc-status-details-bin"
"""Key of the trailing metadata with the whole status. Source: gRPC's richer error model."""


def trailers_to_json(trailers: Sequence[MetadataPair]) -> list[list[str]]:
    """Return trailing metadata as JSON, without the status."""
    return [
        [key, b64encode(value).decode() if isinstance(value, bytes) else value]
        for key, value in trailers
        if key != STATUS_TRAILER
    ]


def recorded_trailers(metadata: Mapping[str, Any]) -> list[MetadataPair]:
    """Return the trailing metadata that a method has set, from the metadata of its task.

    Entries that no method can have set are left out: the task may have been written by hand.
    """
    pairs = metadata.get(TRAILERS)
    found = (_trailer_from_json(pair) for pair in pairs) if isinstance(pairs, list) else ()
    return [each for each in found if each is not None]


def _trailer_from_json(pair: object) -> MetadataPair | None:
    match pair:
        case [str(key), str(value)]:
            try:
                read = key, binascii.a2b_base64(value, strict_mode=True) if key.endswith("-bin") else value
                check_trailers([read])
            except ValueError:
                return None
            return read
    return None


def check_trailers(trailers: Iterable[MetadataPair]) -> None:
    """Check trailing metadata before it is recorded: a response with metadata that gRPC refuses could never be sent.

    Raises:
        ValueError: A key is not lower-case, or the value of a key is not printable ASCII, or bytes for a key with `-bin`.
    """
    for key, value in trailers:
        if not NAME.fullmatch(key):
            raise ValueError(f"{key!r} is not a lower-case key of metadata")
        if key.endswith("-bin"):
            if not isinstance(value, bytes):
                raise ValueError(f"the value of {key} must be bytes")
        elif not isinstance(value, str) or not (value.isascii() and value.isprintable()):
            raise ValueError(f"the value of {key} must be printable ASCII text")
