"""Sessions with dataclass_client.py: PYTHONPATH=gen/betterproto python examples/dataclass_sessions.py grpc://127.0.0.1:50051"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

from dataclass_client import GOES_ON, Attempts, CallError, Client, text_input, typed_errors
from grpc import StatusCode
from plgrpc_dataclasses import v1


class Sessions:
    """The sessions of a caller. `calls` has all methods of SessionService; those with one response are retried."""

    def __init__(self, client: Client) -> None:
        self.calls = v1.SessionServiceStub(client.calls)

    def submit(self, session_id: str, text: str, turn_id: str = "") -> v1.Turn:
        """Submit an input and return its turn. The turn id makes retries safe: it is one turn."""
        given = v1.TaskInput(messages=text_input(text).messages)
        request = v1.SubmitTurnRequest(session_id=session_id, turn_id=turn_id or str(uuid4()), input=given)
        with typed_errors():
            return self.calls.submit_turn(request).turn or v1.Turn()

    def stream(self, session_id: str, turn_id: str) -> Iterator[v1.RunEvent]:
        """Yield the events of a turn, also of one that has not started, until it has ended."""
        request = v1.StreamTurnRequest(session_id=session_id, turn_id=turn_id)
        with closing(resumed(self.calls.stream_turn, request)) as responses:
            for event in (each for response in responses for each in response.events):
                if request.after_sequence not in (0, event.sequence - 1):
                    raise CallError(StatusCode.DATA_LOSS, f"event {event.sequence} came after {request.after_sequence}")
                request.after_sequence, status = event.sequence, event.task_status
                yield event
                if event.last or (status is not None and status.new_state not in GOES_ON):
                    return

    def subscribe(self, session_id: str, after: int = 0) -> Iterator[tuple[int, v1.SessionEvent | v1.RunEvent]]:
        """Yield all events of a session and of its tasks, each with its position. It does not end by itself."""
        request = v1.SubscribeSessionRequest(session_id=session_id, after_position=after)
        with closing(resumed(self.calls.subscribe_session, request)) as responses:
            for segment in (each for response in responses for each in response.segments):
                events = [*segment.session_events, *segment.events]
                for position, event in enumerate(events, segment.first_position):
                    request.after_position = position
                    yield position, event

    def runtime_events(self, session_id: str, after: int = 0, stop_at_end: bool = False) -> Iterator[v1.RuntimeEvent]:
        """Yield the events of a session in the Agent Runtime contract."""
        request = v1.StreamRuntimeEventsRequest(session_id=session_id, after_sequence=after, stop_at_end=stop_at_end)
        with closing(resumed(self.calls.stream_runtime_events, request, may_end=stop_at_end)) as responses:
            for event in (each for response in responses for each in response.events):
                request.after_sequence = event.sequence
                yield event


def resumed(call: Callable[[Any], Any], request: Any, may_end: bool = False) -> Iterator[Any]:
    """Yield the responses of a stream. After an interruption it is opened again; the reader keeps its position in the request."""
    attempts = Attempts(60.0)
    while True:
        opened = time.monotonic()
        try:
            with typed_errors(), closing(call(request)) as responses:
                for response in responses:
                    attempts.progress()
                    yield response
            if may_end:
                return
            raise CallError(StatusCode.UNAVAILABLE, "the stream ended before its last event")
        except CallError as error:
            if not attempts.wait_for_retry(error, opened):
                raise


if __name__ == "__main__":
    sessions, session_id = Sessions(Client(sys.argv[1])), str(uuid4())
    turns = [
        sessions.submit(session_id, text) for text in ("echo one", "echo two")
    ]  # the second one waits for the first
    for event in sessions.stream(session_id, turns[1].turn_id):
        print(event.sequence, event.event_type)
