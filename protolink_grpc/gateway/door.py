"""What every HTTP and WebSocket request passes: who asks, may it, how much of it is read, and what an error looks like.

Routes stay free of it: they ask the door for the caller and for the body, and raise the errors of `errors`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.types import Receive

from protolink_grpc.a2a.values import Asked
from protolink_grpc.auth.principal import NOBODY, Authenticate, Principal, unreserved
from protolink_grpc.auth.rules import Admission
from protolink_grpc.auth.schemes import CERTIFICATE, CertificateName
from protolink_grpc.auth.shares import Shares
from protolink_grpc.errors import (
    ContentTypeNotSupportedError,
    InvalidArgumentError,
    MessageTooLargeError,
    PermissionDeniedError,
    RequestTimeoutError,
    UnauthenticatedError,
    VersionNotSupportedError,
)
from protolink_grpc.gateway.connections import PEER_CERTIFICATE
from protolink_grpc.gateway.options import Bounds
from protolink_grpc.gateway.waiting import Waiting, Waits
from protolink_grpc.wire.tracing import WAITING_RUNS, receive_waiting_runs

_WAITING_RUNS = WAITING_RUNS.encode()

NO_CALL = "/plgrpc.v1.NoService/NoMethod"
"""What rates are told of a request that is no call; no rule is about it."""

SMALL_BYTES = 16 << 10
"""Bodies up to this are read before it is asked who sends them. It is less than a head may have, which is read of everybody."""


class Door:
    """The way into one HTTP server.

    Args:
        authenticate: Who calls; None lets everybody in as anonymous.
        admit: Further checks of an identified caller; None means none.
    """

    def __init__(
        self, authenticate: Authenticate | None = None, admit: Admission | None = None, bounds: Bounds | None = None
    ) -> None:
        self._authenticate = authenticate
        self._admit = admit
        self.bounds = bounds or Bounds()
        self._waits = Waits()
        self.shares = Shares(self.bounds.max_streams_per_principal)

    @property
    def is_open(self) -> bool:
        """Nobody needs credentials."""
        return self._authenticate is None

    async def principal(self, request: HTTPConnection, method: str) -> Principal:
        """Who calls `method`, a full gRPC method name also where the request is no gRPC.

        Raises:
            UnauthenticatedError: No valid credentials.
            PermissionDeniedError, ResourceExhaustedError: Known, and may not, or not now.
        """
        found = await self.identify(request, method)
        self.admit(method, found)
        return found

    async def identify(self, request: HTTPConnection, method: str = "") -> Principal:
        """Who calls, before it is known what for. Raises UnauthenticatedError."""
        if self._authenticate is None:
            return NOBODY
        known = await self._authenticate(method, _shown(request))
        if known is None:
            raise UnauthenticatedError("valid credentials are needed for this method")
        unreserved(known.name)
        return known

    def admit(self, method: str, principal: Principal) -> None:
        """Pass when that caller may call `method` now. Raises PermissionDeniedError, ResourceExhaustedError."""
        if self._admit is not None:
            self._admit(method, principal)

    def charge(self, principal: Principal) -> None:
        """Let a request that is no call cost its sender what a call costs. Raises ResourceExhaustedError."""
        if self._admit is not None:
            with suppress(PermissionDeniedError):
                self._admit(NO_CALL, principal)

    async def charge_sender(self, request: HTTPConnection) -> None:
        """The same before it is known who that is. Strangers share the bucket of everybody anonymous.

        Raises:
            UnauthenticatedError: It is a stranger.
            ResourceExhaustedError: As `charge`.
        """
        try:
            sender = await self.identify(request)
        except UnauthenticatedError:
            self.charge(NOBODY)
            raise
        self.charge(sender)

    def waiting(self, request: Request) -> Waiting:
        """Around what waits for a task on behalf of that request, its body read."""
        return Waiting(self._waits, request.receive, self.bounds.max_wait_s)

    async def admitted(self, request: HTTPConnection, method: str, asked: Asked) -> Asked:
        """The caller of a request that is for `method`, as its body says: who was identified without it is looked at again.

        Raises:
            UnauthenticatedError, PermissionDeniedError, ResourceExhaustedError: As `principal`.
        """
        if self._authenticate is None:
            self.admit(method, asked.principal)
            return asked
        return replace(asked, principal=await self.principal(request, method))

    async def asked(self, request: HTTPConnection, method: str = "") -> Asked:
        """The caller of an A2A operation with its service parameters; with a method, as `principal`, else as `identify`."""
        principal = await (self.principal(request, method) if method else self.identify(request))
        version, named, key, waiting_runs = "", b"", "", ""
        # As bytes: starlette looks a header up by decoding all of them.
        for name, value in request.scope["headers"]:
            if name == b"a2a-version":
                said = value.decode("latin-1").strip()
                if version and said != version:
                    raise VersionNotSupportedError("A2A-Version is there twice, with two values")
                version = said
            elif name in (b"a2a-extensions", b"x-a2a-extensions"):
                named = b"%b,%b" % (named, value) if named else value
            elif name == _WAITING_RUNS:
                waiting_runs = value.decode("latin-1")
            elif name == b"idempotency-key":
                said = value.decode("latin-1").strip()
                if key and said != key:
                    raise InvalidArgumentError("is there twice, with two values", field="Idempotency-Key")
                key = said
        receive_waiting_runs(waiting_runs)
        if not version and request.scope["query_string"]:
            version = request.query_params.get("A2A-Version", "")
        extensions = _names(named) if named else NO_EXTENSIONS
        return Asked(principal, self._authenticate is not None, version, extensions, key)

    def reads_first(self, request: Request) -> bool:
        """Whether the body is read before it is known who sends it: nobody has to be known, or it is small."""
        if self._authenticate is None:
            return True
        for name, value in request.scope["headers"]:
            if name == b"content-length":
                return value.isdigit() and len(value) <= 5 and int(value) <= SMALL_BYTES
        return False

    async def body(self, request: Request) -> bytes:
        """The whole body.

        Raises:
            MessageTooLargeError: It has more than `max_body_bytes`.
            RequestTimeoutError: It did not arrive in time.
        """
        limit = self.bounds.max_body_bytes
        for name, value in request.scope["headers"]:
            if name == b"content-encoding" and value.strip().lower() != b"identity":
                raise ContentTypeNotSupportedError(
                    "the body must not be encoded", media_type=value.decode("latin-1")[:100]
                )
            if name == b"content-length" and value.isdigit() and (len(value) > 18 or int(value) > limit):
                raise _too_large(limit)
        try:
            async with asyncio.timeout(self.bounds.body_timeout_s):
                return await _read(request.receive, limit)
        except TimeoutError:
            raise RequestTimeoutError(
                f"the body did not arrive within {self.bounds.body_timeout_s:g} s",
                body_timeout_s=f"{self.bounds.body_timeout_s:g}",
            ) from None


def _shown(request: HTTPConnection) -> Mapping[str, str]:
    """The headers, with the name in the client's certificate where it has shown one; no header can look like it."""
    certificate = request.scope.get("state", {}).get(PEER_CERTIFICATE)
    if not certificate:
        return request.headers
    alternatives = [str(value) for _, value in certificate.get("subjectAltName", ())]
    common = [value for names in certificate.get("subject", ()) for key, value in names if key == "commonName"]
    name = next(iter([*alternatives, *common]), "")
    return {**request.headers, CERTIFICATE: CertificateName(name)} if name else request.headers


async def _read(receive: Receive, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


NO_EXTENSIONS: frozenset[str] = frozenset()


def _names(header: bytes) -> frozenset[str]:
    """The members of a header with a comma list."""
    return frozenset(filter(None, (each.strip() for each in header.decode("latin-1").split(","))))


def _too_large(limit: int) -> MessageTooLargeError:
    return MessageTooLargeError(f"has more than {limit} bytes", field="body", max_bytes=str(limit))
