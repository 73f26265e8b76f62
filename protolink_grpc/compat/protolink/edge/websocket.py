"""ProtoLink's protocol over WebSocket: JSON frames, with concurrent requests on one connection that are answered out of order.

Theory of operation. One asyncio task reads frames and starts a task for each request. A lock serializes their writes: one
frame, or the frames of one batch of a stream. Requests that wait for runs and all other requests have separate limits, so that
a cancel never waits behind the work that it cancels. A request over its limit is refused at once instead of queued.

Memory does not grow with a slow reader: a stream fetches its next batch when the last one has been sent, a response waits in
its task, and errors are written by the reader of frames, which reads no further frames meanwhile. A peer that accepts no data
for `write_timeout_s` is disconnected. The server detects dead peers by pings.

When the connection ends, the waiting requests end and the runs continue. Control requests are completed: a cancel takes effect
even if its sender has disconnected.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL, Principal
from protolink_grpc.compat.protolink.edge.events import is_last
from protolink_grpc.compat.protolink.edge.shapes import Fields, error_json
from protolink_grpc.compat.protolink.edge.verbs import Stream, Verb, VerbCall
from protolink_grpc.edges.http.bounded_wait import BoundedWait
from protolink_grpc.edges.http.connections import TEXTS
from protolink_grpc.edges.http.json_body import JSON, is_complex, read_json, write_json
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    ProtolinkError,
    ResourceExhaustedError,
)
from protolink_grpc.models import reader
from protolink_grpc.net.internal_errors import public_error

Table = Mapping[tuple[str, str], Verb]

TOO_BIG, GOING_AWAY = 1009, 1001
"""Close codes. Source: RFC 6455 section 7.4.1."""

CONTROL_GRACE_S = 15.0
"""How long control requests may continue after their sender has disconnected, in seconds. A cancel waits 10 s for its run."""


MAX_ID = 1024
"""Maximum length of a request's id. It is repeated in each frame of a stream, so a long one would multiply the traffic."""


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """Limits of a connection, and the web pages that may open one.

    Args:
        max_work: Maximum number of sent or streamed tasks that are not settled. ProtoLink's clients have at most 100.
        max_steering: Maximum number of other requests without a response.
        write_timeout_s: How long the peer may take to accept a frame, or the frames of a batch.
        allowed_origins: Origins of pages that may connect, for instance `https://console.example`; `*` means any. Other origins are
            refused, because browsers would let any page use an agent on this machine.
        path: Path of the WebSocket.
    """

    max_work: int = 100
    max_steering: int = 32
    write_timeout_s: float = 30.0
    allowed_origins: frozenset[str] = frozenset()
    path: str = "/"


def limits_of_port(options: HttpOptions) -> SocketLimits:
    """Return the limits on an HTTP port. All origins are allowed here, because the port's middleware checks them."""
    return SocketLimits(write_timeout_s=options.write_timeout_s, allowed_origins=frozenset({"*"}))


def socket_route(guard: RequestGuard, verbs: Sequence[Verb], limits: SocketLimits) -> WebSocketRoute:
    """Create the WebSocket route. Credentials are those of the handshake and are checked again for each request."""
    table = {(verb.method, verb.path): verb for verb in verbs}

    async def endpoint(websocket: WebSocket) -> None:
        try:
            principal = await _admit(websocket, guard, limits)
            slot = guard.stream_quota.take(principal)
        except ProtolinkError as error:
            await _deny(websocket, error)
            return
        try:
            await websocket.accept()
            await _Connection(websocket, guard, table, limits, principal).serve()
        finally:
            slot.release()

    return WebSocketRoute(limits.path, endpoint)


async def _admit(websocket: WebSocket, guard: RequestGuard, limits: SocketLimits) -> Principal:
    origin = websocket.headers.get("origin")
    if origin is not None and limits.allowed_origins.isdisjoint((origin, "*")):
        raise PermissionDeniedError("pages of this origin may not connect", origin=origin[:200])
    return await guard.identify(websocket)


async def _deny(websocket: WebSocket, error: ProtolinkError) -> None:
    body = write_json({"error": str(error), "reason": error.reason})
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(Response(body, error.rule.http, media_type=JSON))
    else:
        await websocket.close()  # before the handshake: the server answers it with 403


class _Connection:
    def __init__(
        self, websocket: WebSocket, guard: RequestGuard, table: Table, limits: SocketLimits, principal: Principal
    ) -> None:
        self._websocket = websocket
        self._guard = guard
        self._table = table
        self._limits = limits
        self._principal = principal
        self._max_bytes = guard.bounds.max_body_bytes
        self._writes_batches = TEXTS in websocket.scope.get("extensions", {})
        self._writing = asyncio.Lock()
        self._closed = asyncio.Event()
        self._work: set[asyncio.Task[None]] = set()
        self._steering: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Answer frames until the connection ends."""
        loop = asyncio.get_running_loop()
        reading, closed = loop.create_task(self._read()), loop.create_task(self._closed.wait())
        try:
            await asyncio.wait({reading, closed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel_all([reading, closed, *self._work])
            if self._steering:
                await asyncio.wait(self._steering, timeout=CONTROL_GRACE_S)
                await _cancel_all(list(self._steering))
        if not reading.cancelled():
            reading.result()

    async def _read(self) -> None:
        try:
            while True:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                text = message.get("text")
                raw: bytes = message.get("bytes") or b"" if text is None else text.encode("utf-8", "replace")
                if len(raw) > self._max_bytes:
                    await self._websocket.close(TOO_BIG, f"a frame has at most {self._max_bytes} bytes")
                    return
                await self._take(raw)
        except (WebSocketDisconnect, RuntimeError):
            # The server and Starlette raise RuntimeError if the peer has just closed the connection.
            return

    async def _take(self, raw: bytes) -> None:
        """Start the request of a frame, or refuse it."""
        try:
            frame = await read_json(raw, max_complexity=self._guard.bounds.max_complexity, field="frame")
        except InvalidArgumentError as error:
            await self._refuse(None, "JSONDecodeError", str(error))
            return
        if not isinstance(frame, dict):
            await self._refuse(None, "ValueError", "a frame must be a JSON object")
            return
        request_id, method, path = frame.get("id"), frame.get("method"), frame.get("path")
        if not _is_id(request_id):
            request_id = None
        if request_id is None or not (isinstance(method, str) and method and isinstance(path, str) and path):
            await self._refuse(request_id, "ValueError", "Missing required fields: id/method/path")
            return
        verb = self._table.get((method.upper(), path))
        if verb is None:
            what = f"{method.upper()} {path}"[:200]
            await self._refuse(request_id, "ValueError", f"No endpoint registered for {what}")
            return
        await self._start(request_id, verb, frame, is_complex(raw))

    async def _start(self, request_id: Any, verb: Verb, frame: Fields, many: bool) -> None:
        tasks, most = (
            (self._work, self._limits.max_work) if verb.is_work else (self._steering, self._limits.max_steering)
        )
        if len(tasks) >= most:
            error = ResourceExhaustedError(
                f"{most} requests wait on this connection; that is the limit", max_requests=str(most)
            )
            await self._send(_error(request_id, verb, error))
            return
        task = asyncio.get_running_loop().create_task(self._answer(request_id, verb, frame, many))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _answer(self, request_id: Any, verb: Verb, frame: Fields, many: bool) -> None:
        try:
            try:
                call = await self._read_call(verb, frame, many)
                if verb.stream is not None:
                    await self._stream(request_id, verb.stream, call)
                elif verb.answer is not None:
                    bound = self._guard.bounds.max_wait_s if verb.is_work else None
                    # A disconnect is noticed by the reader of frames.
                    with BoundedWait(None, self._websocket.receive, bound):
                        result = await verb.answer(call)
                    await self._send({"id": request_id, "ok": True, "result": result})
            except (WebSocketDisconnect, asyncio.CancelledError):
                raise
            except Exception as error:  # the peer waits for a response with this id in any case
                await self._send(_error(request_id, verb, public_error(error, verb.path)))
        except WebSocketDisconnect:
            return

    async def _read_call(self, verb: Verb, frame: Fields, many: bool) -> VerbCall:
        principal = ANONYMOUS_PRINCIPAL if verb.is_open else await self._guard.principal(self._websocket, verb.rpc)
        return VerbCall(
            principal,
            frame.get("data"),
            reader.mapping(frame, "params"),
            reader.text(frame, "idempotency_key"),
            socket=True,
            is_complex=many,
        )

    async def _stream(self, request_id: Any, stream: Stream, call: VerbCall) -> None:
        slot = self._guard.stream_quota.take(call.principal)
        try:
            async with aclosing(stream(call)) as batches:
                async for events in batches:
                    frames = [
                        {"id": request_id, "ok": True, "result": each, "final": is_last(each), "stream": True}
                        for each in events
                    ]
                    await self._send(*frames)
        finally:
            slot.release()

    async def _refuse(self, request_id: Any, kind: str, message: str) -> None:
        """Answer an invalid request with ProtoLink's error. It counts as a request for the rate limit."""
        error: Fields = {"message": message, "type": kind}
        try:
            self._guard.charge(self._principal)
        except ResourceExhaustedError as refusal:
            error = error_json(refusal)
        await self._send({"id": request_id, "ok": False, "error": error})

    async def _send(self, *envelopes: Fields) -> None:
        """Write frames, in one write if the server supports it.

        Raises:
            WebSocketDisconnect: The connection has ended.
        """
        texts = [write_json(each) for each in envelopes]
        async with self._writing:
            if self._closed.is_set():
                raise WebSocketDisconnect(GOING_AWAY)
            try:
                async with asyncio.timeout(self._limits.write_timeout_s):
                    if self._writes_batches and len(texts) > 1:
                        await self._websocket.send({"type": "websocket.send", TEXTS: texts})
                    else:
                        for text in texts:
                            await self._websocket.send_text(text.decode())
            except (TimeoutError, RuntimeError):  # as in `_read`
                self._closed.set()
                raise WebSocketDisconnect(GOING_AWAY) from None
            except WebSocketDisconnect:
                self._closed.set()
                raise


def _is_id(value: object) -> bool:
    """Return whether a value is an id: a short non-empty string or a number other than zero."""
    return isinstance(value, str | int) and not isinstance(value, bool) and 0 < len(str(value or "")) <= MAX_ID


def _error(request_id: Any, verb: Verb, error: ProtolinkError) -> Fields:
    envelope: Fields = {"id": request_id, "ok": False, "error": error_json(error)}
    return envelope | {"final": True} if verb.stream is not None else envelope


async def _cancel_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved so that it is not logged: it was sent as a response, or the peer has disconnected
