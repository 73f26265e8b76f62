"""An agent's client made of dataclasses: the stubs of gen/betterproto over grpcio, and nothing of protolink_grpc.

PYTHONPATH=gen/betterproto python examples/dataclass_client.py grpc://127.0.0.1:50051 "Where to?"
"""

import json
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import grpc
from google.rpc import error_details_pb2 as pb
from grpc_status import rpc_status
from protolink_dataclasses import v1

ATTEMPTS = 5  # of one call, and of a stream that shows nothing new
POLICY = {"maxAttempts": ATTEMPTS, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2}
CONFIG = {"methodConfig": [{"name": [{}], "retryPolicy": POLICY | {"retryableStatusCodes": ["UNAVAILABLE"]}}]}
OPTIONS = [
    ("grpc.service_config", json.dumps(CONFIG)),
    ("grpc.per_rpc_retry_buffer_size", 64 << 20),  # a request that does not fit is not repeated
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
]


class CallError(Exception):
    """A call failed: gRPC's `code`, protolink.dev's `reason` and `metadata`, wrong `fields`, and when to try again."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.details())
        self.code: grpc.StatusCode = error.code()
        info, bad, retry = pb.ErrorInfo(), pb.BadRequest(), pb.RetryInfo()
        for detail in getattr(rpc_status.from_call(error), "details", ()):
            any(detail.Unpack(kind) for kind in (info, bad, retry))
        self.reason, self.metadata = info.reason, dict(info.metadata)
        self.fields = {each.field: each.description for each in bad.field_violations}
        self.retry_after_s = retry.retry_delay.ToTimedelta().total_seconds()


@contextmanager
def typed_errors() -> Iterator[None]:
    """What gRPC raises within is a CallError without."""
    try:
        yield
    except grpc.RpcError as error:
        raise CallError(error) from None


@dataclass
class Details(grpc.ClientCallDetails):  # the stubs' methods take a message only: an interceptor adds the rest
    method: str
    timeout: float | None
    metadata: tuple[tuple[str, str | bytes], ...]


class Client(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """One agent or registry. `timeout_s` bounds the wait for one answer, never the run; streams last as long as theirs."""

    def __init__(self, url: str, headers: Mapping[str, str] = {}, timeout_s: float | None = None) -> None:
        where = urlsplit(url if "://" in url else f"grpc://{url}")
        if where.scheme == "grpcs":
            self.channel = grpc.secure_channel(where.netloc, grpc.ssl_channel_credentials(), OPTIONS)
        elif where.hostname in ("127.0.0.1", "::1", "localhost") or {"x-api-key", "authorization"}.isdisjoint(headers):
            self.channel = grpc.insecure_channel(where.netloc, OPTIONS)
        else:
            raise ValueError("credentials would travel in the clear; use grpcs://")
        self._headers, self._timeout_s = tuple(headers.items()), timeout_s
        signed = grpc.intercept_channel(self.channel, self)
        self.agent, self.control = v1.AgentServiceStub(signed), v1.ControlServiceStub(signed)
        self.registry = v1.RegistryServiceStub(signed)

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(Details(details.method, self._timeout_s, self._headers), request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(Details(details.method, None, self._headers), request)

    def send(self, task: v1.Task, request_id: str = "") -> v1.Task:
        """The task when it has ended or waits. It always has a request id: repeated or not, it runs once."""
        with typed_errors():
            done = self.agent.send_task(v1.SendTaskRequest(task=task, request_id=request_id or uuid4().hex))
        return done.task or v1.Task()

    def stream(self, task: v1.Task, request_id: str = "") -> Iterator[v1.RunEvent]:
        """Its events until it has ended or waits, whatever happens to the connection. The run does not end with them."""
        request = v1.StreamTaskRequest(task=task, request_id=request_id or uuid4().hex)
        failures, task_id, after = 0, "", 0
        while True:
            rest = v1.SubscribeTaskRequest(task_id=task_id, after_sequence=after, stop_at=v1.StopAt.INTERRUPTED)
            begun: Iterator[Any] = self.agent.subscribe_task(rest) if task_id else self.agent.stream_task(request)
            try:
                with typed_errors():
                    for event in (each for response in begun for each in response.events):
                        task_id, after, failures = event.task_id, event.sequence, 0
                        yield event
                return
            except CallError as error:
                failures += 1
                if error.code is not grpc.StatusCode.UNAVAILABLE or failures == ATTEMPTS:
                    raise
                time.sleep(random.uniform(0.05, 0.1) * 2**failures)


def said(text: str, task_id: str = "") -> v1.Task:
    return v1.Task(id=task_id, messages=[v1.Message(role=v1.Role.USER, parts=[v1.Part(text=text)])])


if __name__ == "__main__":
    for event in Client(sys.argv[1]).stream(said(sys.argv[2])):
        messages = event.task_messages.messages if event.task_messages else []
        print(event.sequence, event.type, event.summary, *(part.text for each in messages for part in each.parts))
