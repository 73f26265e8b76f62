"""Streams of typed services with dataclass_client.py: `CalculatorStub(resumed_calls(client))`."""

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import grpc
from dataclass_client import Attempts, CallError, Client, Details


def resumed_calls(client: Client, patience_s: float = 60.0) -> grpc.Channel:
    """Return the channel of a client, for stubs of typed services whose streams of responses continue after interruptions."""
    channel: grpc.Channel = grpc.intercept_channel(client.calls, ResumedStreams(patience_s))
    return channel


class ResumedStreams(grpc.UnaryStreamClientInterceptor):
    """After an interruption, makes the call again with the same `x-request-id` and leaves out the responses that were received.

    The repeated call returns all responses, if a task has them in its log: then the headers of the response have `x-task-id`.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Iterator[Any]:
        headers = tuple({"x-request-id": uuid4().hex, **dict(details.metadata or ())}.items())
        attempts, received, is_task = Attempts(self._patience_s), 0, False
        while True:
            opened = time.monotonic()
            call = continuation(Details(details.method, details.timeout, headers), request)
            try:
                for number, response in enumerate(call, 1):
                    if number > received:
                        attempts.progress()
                        received = number
                        yield response
                return
            except grpc.RpcError as error:
                is_task = is_task or "x-task-id" in dict(call.initial_metadata())
                if (received and not is_task) or not attempts.wait_for_retry(CallError.of(error), opened):
                    raise
            finally:
                call.cancel()  # the reader has left, or it has ended
