"""A user's service on the ports of an agent: a durable method is a task of its own, any other is called directly.

`task_call` has the metadata of a call, and `services/recording` how it is recorded.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.rpc import status_pb2

from protolink_grpc.edges.grpc.binding import Behavior
from protolink_grpc.edges.grpc.call import (
    Context,
    caller,
    caller_scopes,
    current_call,
    set_response_headers,
    set_trailers,
)
from protolink_grpc.edges.grpc.task_call import TaskCall, read_task_call
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, RemoteError, UnimplementedError
from protolink_grpc.models.ended_task import ended_error
from protolink_grpc.models.events import TaskArtifactUpdated
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.watch import StopAt
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.services.call_context import CallContext, Invocation, set_invocation
from protolink_grpc.services.definition import ServiceMethod, UserService
from protolink_grpc.services.recording import (
    SERVICE_CALL,
    MetadataPair,
    call_submission,
    encoded_message,
    recorded_response,
    recorded_status,
    recorded_trailers,
    response_id,
    status_failure,
)
from protolink_grpc.wire.bounds import RequestBounds
from protolink_grpc.wire.events import event_from_frame
from protolink_grpc.wire.status import to_status
from protolink_grpc.wire.typed_calls import REQUEST_ID, TASK_ID


class ServiceServicer:
    """The methods of a user's service; the class has an attribute for each, as `binding` expects.

    Args:
        bounds: The limits of one request: of all its messages together if it is a stream.
    """

    def __init__(self, user_service: UserService, service: TaskService, bounds: RequestBounds) -> None:
        self._service = service
        self._bounds = bounds
        methods = user_service.methods.values()
        self.waiting_methods = frozenset(each.name for each in methods if each.durable and not each.streams)
        for each in methods:
            setattr(self, each.descriptor.name, self._behavior(each))

    @staticmethod
    def to_status(error: ProtolinkError) -> status_pb2.Status:
        """Return the status that a method has chosen, or that of the error."""
        return recorded_status(error.failure) or to_status(error)

    def _behavior(self, method: ServiceMethod) -> Behavior:
        if method.behavior is None:
            return _refuse_stream(method) if method.streams else _refuse(method)
        if not method.durable:
            return _direct_stream(method) if method.streams else _direct(method)
        return self._durable_stream(method) if method.streams else self._durable(method)

    def _durable(self, method: ServiceMethod) -> Behavior:
        async def call(request: Any, context: "Context | None") -> bytes:
            named = read_task_call(context)
            fold = await self._service.send(await self._submission(method, request, named, context), caller())
            _check_method(fold, method)
            await set_response_headers(context, named.response_headers(fold))
            _check_outcome(fold, recorded_trailers(fold.metadata), context)
            response = recorded_response(fold, method.response_type)
            if response is None:
                raise ended_error(fold)
            return response

        return call

    def _durable_stream(self, method: ServiceMethod) -> Behavior:
        async def stream(request: Any, context: "Context | None") -> AsyncIterator[bytes]:
            named = read_task_call(context)
            service, principal = self._service, caller()
            submission = await self._submission(method, request, named, context)
            turn = await service.submit(submission, principal, waits=True)
            if named.request_id:
                _check_method(await service.get(turn.task_id, principal), method)
            await set_response_headers(context, {TASK_ID: turn.task_id})
            watch = service.watch(turn.task_id, principal, after=turn.after_sequence, stop_at=StopAt.INTERRUPTED)
            index = 0
            async with aclosing(watch) as batches:
                async for frames in batches:
                    for frame in frames:
                        payload = event_from_frame(frame).payload
                        if not isinstance(payload, TaskArtifactUpdated):
                            continue
                        if payload.artifact.id == response_id(turn.task_id, index):
                            yield encoded_message(payload.artifact.parts[0], method.response_type)
                            index += 1
            fold = await service.get_after(turn, principal)
            # The usage is known after the responses, so it is in the trailing metadata.
            _check_outcome(fold, [*recorded_trailers(fold.metadata), *named.usage(fold).items()], context)

        return stream

    async def _submission(
        self, method: ServiceMethod, request: Any, named: TaskCall, context: "Context | None"
    ) -> Submission:
        """Return a call as the submission of its task. A stream of requests is read to its end.

        Raises:
            MessageTooLargeError: The requests of a stream have too many bytes.
        """
        requests = await self._read_all(request) if method.reads_stream else [request]
        task_id = named.task_id or new_task_id()
        set_invocation(_invocation(task_id, context))
        return call_submission(
            method.name,
            requests,
            task_id=task_id,
            request_id=named.request_id,
            session_id=named.session_id,
            scopes=caller_scopes(),
            context=named.context,
        )

    async def _read_all(self, requests: AsyncIterator[Message]) -> list[Message]:
        found: list[Message] = []
        size = 0
        async for each in requests:
            size += each.ByteSize() + MESSAGE_BYTES
            self._bounds.check_size(size)
            found.append(each)
        return found


MESSAGE_BYTES = 64
"""Bytes that are counted for each message of a stream beside its own, so that empty messages are bounded, too."""


def _invocation(task_id: str, context: "Context | None") -> Invocation:
    if context is not None:
        return Invocation.of(task_id, context)
    call = current_call()
    return Invocation(task_id, tuple(call.metadata.items()) if call is not None else ())


def _check_method(fold: TaskFold, method: ServiceMethod) -> None:
    """Raise InvalidArgumentError if the request id of the call belongs to another task than a call of the method."""
    if fold.metadata.get(SERVICE_CALL) != method.name:
        raise InvalidArgumentError("was used for another request", field=REQUEST_ID)


def _check_outcome(fold: TaskFold, trailers: Sequence[MetadataPair], context: "Context | None") -> None:
    """Set the trailing metadata, and raise the error of a task that did not complete."""
    if trailers:
        set_trailers(context, trailers)
    if fold.failure is not None and recorded_status(fold.failure) is not None:
        raise _status_error(fold.failure, task_id=fold.task_id)
    if fold.state is not TaskState.COMPLETED:
        raise ended_error(fold)


def _direct(method: ServiceMethod) -> Behavior:
    behavior: Any = method.behavior

    async def call(request: Any, context: "Context | None") -> Any:
        if context is not None:
            return await behavior(request, context)
        own = CallContext(_invocation("", None), lambda: False)
        response = None
        with suppress(grpc.aio.AbortError):
            response = await behavior(request, own)
        _finish(own, method)
        return response

    return call


def _direct_stream(method: ServiceMethod) -> Behavior:
    behavior: Any = method.behavior

    async def stream(request: Any, context: "Context | None") -> AsyncIterator[Any]:
        own = None if context is not None else CallContext(_invocation("", None), lambda: False)
        async with aclosing(behavior(request, context or own)) as responses:
            try:
                async for response in responses:
                    yield response
            except grpc.aio.AbortError:
                if own is None:
                    raise
        if own is not None:
            _finish(own, method)

    return stream


def _finish(context: CallContext, method: ServiceMethod) -> None:
    """Send the trailing metadata of a call over HTTP, and raise its status if that is not OK."""
    set_trailers(None, context.trailers)
    if context.code() is not grpc.StatusCode.OK:
        raise _status_error(status_failure(context.status(method.descriptor.containing_service.full_name)))


def _status_error(failure: Failure, **metadata: str) -> RemoteError:
    """Return the error whose status is that of a failure with a recorded status; see `ServiceServicer.to_status`."""
    error = RemoteError(failure.message, **metadata)
    error.failure = failure
    return error


def _refuse(method: ServiceMethod) -> Behavior:
    async def call(request: Any, context: "Context | None") -> Any:
        raise UnimplementedError(f"{method.name} is not implemented")

    return call


def _refuse_stream(method: ServiceMethod) -> Behavior:
    refuse = _refuse(method)

    async def stream(request: Any, context: "Context | None") -> AsyncIterator[Any]:
        yield await refuse(request, context)

    return stream
