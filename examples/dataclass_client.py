"""A client made of dataclasses: the stubs in gen/betterproto with grpcio, without protolink_grpc.

PYTHONPATH=gen/betterproto python examples/dataclass_client.py grpc://127.0.0.1:50051 "Where to?"
"""

import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import grpc
from google.rpc import error_details_pb2 as pb
from grpc_status import rpc_status
from plgrpc_dataclasses import v1

OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_reconnect_backoff_ms", 500),
]
LOCAL = ("127.0.0.1", "::1", "localhost")
SECRETS = {"authorization", "proxy-authorization", "x-api-key", "cookie"}
CUTS = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED}
GOES_ON = {v1.TaskState.SUBMITTED, v1.TaskState.WORKING}


class CallError(Exception):
    """A failed call: gRPC's `code`, the agent's `reason` and `metadata`, the invalid `fields`, and the minimum retry delay."""

    def __init__(self, code: grpc.StatusCode, message: str, details: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.code = code
        info, bad, retry = pb.ErrorInfo(), pb.BadRequest(), pb.RetryInfo()
        for detail in details:
            any(detail.Unpack(kind) for kind in (info, bad, retry))
        self.reason, self.metadata = info.reason, dict(info.metadata)
        self.fields = {each.field: each.description for each in bad.field_violations}
        self.retry_after_s = retry.retry_delay.ToTimedelta().total_seconds()
        self.is_cut = code in CUTS and (not info.reason or code is grpc.StatusCode.UNAVAILABLE)

    @classmethod
    def of(cls, error: Any) -> "CallError":
        return cls(error.code(), error.details(), getattr(rpc_status.from_call(error), "details", ()))


@contextmanager
def typed_errors() -> Iterator[None]:
    """Convert gRPC's errors to CallError."""
    try:
        yield
    except grpc.RpcError as error:
        raise CallError.of(error) from None


class Attempts:
    """The attempts of one call or stream: the backoff after an interruption, and when to give up (docs/polyglot.md)."""

    def __init__(self, patience_s: float, timeout_s: float | None = None) -> None:
        self._patience_s, self._ends = patience_s, timeout_s and time.monotonic() + timeout_s
        self.progress()

    def progress(self) -> None:
        """Record an event: the next interruption counts as the first one."""
        self._pause_s, self._first_cut = 0.1, 0.0

    def left_s(self) -> float | None:
        return self._ends and max(0.0, self._ends - time.monotonic())

    def wait_for_retry(self, error: CallError, open_since: float | None = None) -> bool:
        """Wait for the time of the next attempt. Returns False if no further attempt is allowed."""
        now, left_s = time.monotonic(), self.left_s()
        if open_since and now - open_since >= 1 and "failed to connect" not in str(error):
            self._first_cut = 0.0  # it was open: the retry time starts again, and the pauses keep growing
        self._first_cut = self._first_cut or now
        rest_s = self._first_cut + self._patience_s - now
        if not error.is_cut or rest_s <= error.retry_after_s:
            return False
        pause_s = min(max(self._pause_s * random.uniform(0.5, 1), error.retry_after_s), rest_s)
        self._pause_s = min(2 * self._pause_s, 5.0)
        time.sleep(pause_s if left_s is None else min(pause_s, left_s))
        return True


@dataclass
class Details(grpc.ClientCallDetails):  # the stubs' methods only take a message, so an interceptor adds metadata
    method: str
    timeout: float | None
    metadata: tuple[tuple[str, str | bytes], ...]


class Client(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """A client of one agent or registry. `timeout_s` limits the wait for a response, never the run; streams have no timeout.

    Interrupted calls are retried for `patience_s` without progress. `insecure_ok` allows unencrypted credentials.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] = {},
        timeout_s: float | None = None,
        patience_s: float = 60.0,
        insecure_ok: bool = False,
    ) -> None:
        server = urlsplit(url if "://" in url else f"grpc://{url}")
        if server.scheme == "grpcs":
            self.channel = grpc.secure_channel(server.netloc, grpc.ssl_channel_credentials(), OPTIONS)
        elif insecure_ok or server.hostname in LOCAL or SECRETS.isdisjoint(map(str.lower, headers)):
            self.channel = grpc.insecure_channel(server.netloc, OPTIONS)
        else:
            raise ValueError("credentials would be sent unencrypted: use grpcs://")
        self._headers, self._timeout_s, self._patience_s = tuple(headers.items()), timeout_s, patience_s
        self.calls = grpc.intercept_channel(self.channel, self)  # for stubs of typed services
        self.agent, self.control = v1.AgentServiceStub(self.calls), v1.ControlServiceStub(self.calls)
        self.registry = v1.RegistryServiceStub(self.calls)

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        attempts = Attempts(self._patience_s, self._timeout_s)
        headers = tuple({"x-request-id": uuid4().hex, **dict(self._headers)}.items())  # one id for all attempts
        while True:
            call = continuation(Details(details.method, attempts.left_s(), headers), request)
            error = call.exception()  # waits for the response
            if error is None or not attempts.wait_for_retry(CallError.of(error)):
                return call

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(Details(details.method, None, (*(details.metadata or ()), *self._headers)), request)

    def send(self, given: v1.TaskInput, request_id: str = "") -> v1.Task:
        """Send a task and return it when it has ended or waits. The request id makes retries safe: it runs once."""
        with typed_errors():
            done = self.agent.send_task(v1.SendTaskRequest(input=given, request_id=request_id or uuid4().hex))
        return done.task or v1.Task()

    def get(self, task_id: str) -> v1.Task:
        """Return the complete task, by several calls if it is large. `omitted` names fields that are too large for a response."""
        request = v1.GetTaskRequest(task_id=task_id)
        with typed_errors():
            task = self.agent.get_task(request).task or v1.Task()
            while task.first_message or task.first_artifact:
                request = replace(request, before_message=task.first_message, before_artifact=task.first_artifact)
                earlier = self.agent.get_task(request).task or v1.Task()
                if not earlier.messages and not earlier.artifacts:
                    break  # these are the first ones
                task.messages, task.artifacts = earlier.messages + task.messages, earlier.artifacts + task.artifacts
                task.omitted = list(dict.fromkeys(task.omitted + earlier.omitted))
                task.first_message, task.first_artifact = earlier.first_message, earlier.first_artifact
        return task

    def call_tool(self, request: v1.CallToolRequest) -> v1.CallToolResponse:
        """Call a tool and return its output. The request id and the task id make retries safe: it is one task."""
        sent = replace(request, request_id=request.request_id or uuid4().hex, task_id=request.task_id or str(uuid4()))
        with typed_errors():
            return self.control.call_tool(sent)

    def stream(self, given: v1.TaskInput, request_id: str = "") -> Iterator[v1.RunEvent]:
        """Yield the task's events until it has ended or waits, across interruptions. Leaving the stream does not end the run."""
        request = v1.StreamTaskRequest(input=given, request_id=request_id or uuid4().hex)
        attempts, task_id, after, settled = Attempts(self._patience_s), "", 0, False
        while True:
            rest = v1.SubscribeTaskRequest(task_id=task_id, after_sequence=after, stop_at=v1.StopAt.INTERRUPTED)
            responses: Any = self.agent.subscribe_task(rest) if task_id else self.agent.stream_task(request)
            opened = time.monotonic()
            try:
                # Closed when the caller leaves the loop, which ends the call.
                with typed_errors(), closing(responses):
                    for event in (each for response in responses for each in response.events):
                        attempts.progress()
                        if after not in (0, event.sequence - 1):
                            raise CallError(grpc.StatusCode.DATA_LOSS, f"event {event.sequence} came after {after}")
                        task_id, after, status = event.task_id, event.sequence, event.task_status
                        settled = status is not None and status.new_state not in GOES_ON
                        yield event
                if not settled:
                    raise CallError(grpc.StatusCode.UNAVAILABLE, "the stream ended before the task")
            except CallError as error:
                if not settled and not attempts.wait_for_retry(error, opened):
                    raise
            if settled:
                return


def text_input(text: str, task_id: str = "", expected_sequence: int = 0) -> v1.TaskInput:
    """Return an input with one message, for an existing or a new task. The client chooses the id of a new task."""
    message = v1.Message(role=v1.MessageRole.USER, parts=[v1.Part(text=text)])
    target = v1.TaskTarget.CONTINUE if task_id else v1.TaskTarget.CREATE
    return v1.TaskInput(task_id or str(uuid4()), target, expected_sequence, [message])


if __name__ == "__main__":
    for event in Client(sys.argv[1]).stream(text_input(sys.argv[2])):
        messages = event.task_messages.messages if event.task_messages else []
        print(event.sequence, event.event_type, event.summary, *(part.text for each in messages for part in each.parts))
