"""Executes the calls of users' methods in runs: the method is the handler of its task, and its actions are in the task's log.

A run that continues a call after a crash calls the method again from its start. Actions of the method are found in the journal, as
for every handler, and responses that are in the log are not published again.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from protolink_grpc.auth.principal import LOCAL, TENANT_MARK, Principal
from protolink_grpc.auth.rules import Admission
from protolink_grpc.errors import InvalidArgumentError, UnimplementedError
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task import Task, stored_metadata
from protolink_grpc.runtime.run import Run
from protolink_grpc.services.call_context import CallContext, invocation_of
from protolink_grpc.services.definition import FIELD, ServiceMethod, UserService
from protolink_grpc.services.recording import (
    SERVICE_CALL,
    TRAILERS,
    encoded_message,
    response_artifact,
    status_failure,
    trailers_to_json,
)
from protolink_grpc.wire.bounds import RequestBounds, RequestReader, run_in_thread


class ServiceCalls:
    """The users' services of one agent, and the execution of their calls.

    Args:
        bounds: The limits of one request.
        access: Checks the caller of a task that was not sent by a call of its method, but with SendTask; None allows all.
    """

    def __init__(self, bounds: RequestBounds, access: Admission | None = None) -> None:
        self._services: dict[str, UserService] = {}
        self._methods: dict[str, ServiceMethod] = {}
        self._bounds = bounds
        self._access = access

    @property
    def services(self) -> Sequence[UserService]:
        return list(self._services.values())

    def add(self, service: UserService) -> None:
        """Add a service.

        Raises:
            InvalidArgumentError: There is a service of this name.
        """
        if service.name in self._services:
            raise InvalidArgumentError(f"two services are named {service.name}", field=FIELD)
        self._services[service.name] = service
        self._methods |= {each.name: each for each in service.methods.values() if each.durable}

    async def execute(self, task: Task, run: Run) -> Task:
        """Execute a call and set the state of its task.

        Raises:
            UnimplementedError: The agent does not serve the method, or does not serve it as a task.
            PermissionDeniedError: The caller may not call the method.
            InvalidArgumentError: The task has no valid request.
            Exception: Any exception of the method.
        """
        name = stored_metadata(task).get(SERVICE_CALL)
        method = self._methods.get(name) if isinstance(name, str) else None
        if method is None or method.behavior is None:
            raise UnimplementedError(f"agent {run.agent_name} does not serve {str(name)[:200]} as a task")
        invocation = invocation_of(run.task_id)
        if invocation is None:
            self._check_access(method, run)
        request = await self._read_request(task, method)
        context = CallContext(invocation, lambda: run.token.is_cancelled)
        try:
            await _call(method, request, context, task, run)
        except grpc.aio.AbortError:
            if context.code() is grpc.StatusCode.OK:  # of another context than this one
                raise
        trailers = trailers_to_json(context.trailers)
        if trailers:
            task.metadata[TRAILERS] = trailers
        else:
            task.metadata.pop(TRAILERS, None)  # of a task that was written by hand
        if context.code() is not grpc.StatusCode.OK:
            return task.fail(status_failure(context.status(method.descriptor.containing_service.full_name, task.id)))
        return task.update_state(TaskState.COMPLETED)

    def _check_access(self, method: ServiceMethod, run: Run) -> None:
        if self._access is not None and run.principal != LOCAL:
            name = run.principal.partition(TENANT_MARK)[0]
            self._access(method.name, Principal(name, frozenset(run.context.scopes)))

    async def _read_request(self, task: Task, method: ServiceMethod) -> Message | AsyncIterator[Message]:
        parts = task.messages[0].parts if task.messages else []
        if not method.reads_stream and len(parts) != 1:
            raise InvalidArgumentError("must have one part, the request of the method", field="message")
        reader = RequestReader(method.descriptor.input_type, self._bounds)
        encoded = [encoded_message(part, method.request_type) for part in parts]
        found = [
            reader.parse(each) if reader.is_light(each) else await run_in_thread(reader.parse_counted, each)
            for each in encoded
        ]
        return _iterate(found) if method.reads_stream else found[0]


async def _iterate(messages: list[Message]) -> AsyncIterator[Message]:
    for each in messages:
        yield each


async def _call(method: ServiceMethod, request: Any, context: CallContext, task: Task, run: Run) -> None:
    """Call a method and publish its responses. A single response is recorded together with the end of the run."""
    behavior: Any = method.behavior
    if not method.streams:
        response = _require_response(method, await behavior(request, context))
        if context.code() is grpc.StatusCode.OK:
            task.add_artifact(response_artifact(task.id, 0, response, method.descriptor.name))
        return
    async with aclosing(behavior(request, context)) as responses:
        index = 0
        async for each in responses:
            artifact = response_artifact(task.id, index, _require_response(method, each), method.descriptor.name)
            index += 1
            if not run.has_artifact(artifact.id):
                await run.artifact(artifact)


def _require_response(method: ServiceMethod, response: object) -> Message:
    """Return a response of a method. Raises TypeError if it is not a message of the method's response type."""
    if not isinstance(response, method.response_type):
        expected = method.response_type.DESCRIPTOR.full_name
        raise TypeError(f"{method.descriptor.full_name} must return a {expected}, not {type(response).__name__}")
    return response
