"""Authentication, authorization and body limits of every HTTP and WebSocket request.

Routes get the caller and the body from the guard, and raise the errors of `errors`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.types import Receive

from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL, Authenticate, Principal, check_principal_name
from protolink_grpc.auth.rules import Admission
from protolink_grpc.auth.schemes import CERTIFICATE, CertificateName
from protolink_grpc.auth.stream_quota import StreamQuota
from protolink_grpc.edges.http.bounded_wait import BoundedWait, BoundedWaits
from protolink_grpc.edges.http.connections import PEER_CERTIFICATE
from protolink_grpc.edges.http.options import Bounds
from protolink_grpc.errors import (
    ContentTypeNotSupportedError,
    MessageTooLargeError,
    PermissionDeniedError,
    RequestTimeoutError,
    UnauthenticatedError,
)

NO_CALL = "/plgrpc.v1.NoService/NoMethod"
"""The method name for the rate limit of a request without a method; no access rule matches it."""

SMALL_BYTES = 16 << 10
"""Bodies up to this size are read before authentication. It is less than the limit of headers, which are always read."""


class RequestGuard:
    """Guards the requests of one HTTP server.

    Args:
        authenticate: The authenticator; None means that all callers are anonymous.
        admit: Further checks of an authenticated caller; None means none.
    """

    def __init__(
        self, authenticate: Authenticate | None = None, admit: Admission | None = None, bounds: Bounds | None = None
    ) -> None:
        self._authenticate = authenticate
        self._admit = admit
        self.bounds = bounds or Bounds()
        self._waits = BoundedWaits()
        self.stream_quota = StreamQuota(self.bounds.max_streams_per_principal)

    @property
    def is_open(self) -> bool:
        """Whether no credentials are needed."""
        return self._authenticate is None

    async def principal(self, request: HTTPConnection, method: str) -> Principal:
        """Authenticate and authorize the caller of `method`, a full gRPC method name in all protocols.

        Raises:
            UnauthenticatedError: There are no valid credentials.
            PermissionDeniedError, ResourceExhaustedError: The caller may not call it, or not now.
        """
        found = await self.identify(request, method)
        self.admit(method, found)
        return found

    async def identify(self, request: HTTPConnection, method: str = "") -> Principal:
        """Authenticate the caller before the method is known. Raises UnauthenticatedError."""
        if self._authenticate is None:
            return ANONYMOUS_PRINCIPAL
        known = await self._authenticate(method, _metadata_of(request))
        if known is None:
            raise UnauthenticatedError("valid credentials are needed for this method")
        check_principal_name(known.name)
        return known

    def admit(self, method: str, principal: Principal) -> None:
        """Check that the caller may call `method` now. Raises PermissionDeniedError, ResourceExhaustedError."""
        if self._admit is not None:
            self._admit(method, principal)

    def charge(self, principal: Principal) -> None:
        """Count a request without a method for the rate limit. Raises ResourceExhaustedError."""
        if self._admit is not None:
            with suppress(PermissionDeniedError):
                self._admit(NO_CALL, principal)

    async def charge_sender(self, request: HTTPConnection) -> None:
        """Charge a request before its method is known. Unauthenticated callers share the anonymous bucket.

        Raises:
            UnauthenticatedError: The caller is not authenticated.
            ResourceExhaustedError: As `charge`.
        """
        try:
            sender = await self.identify(request)
        except UnauthenticatedError:
            self.charge(ANONYMOUS_PRINCIPAL)
            raise
        self.charge(sender)

    def bounded_wait(self, request: Request) -> BoundedWait:
        """Return the `with` block for a request that waits for a task. The request's body has been read."""
        return BoundedWait(self._waits, request.receive, self.bounds.max_wait_s)

    def reads_body_first(self, request: Request) -> bool:
        """Return whether the body is read before authentication: it is small, or no credentials are needed."""
        if self._authenticate is None:
            return True
        for name, value in request.scope["headers"]:
            if name == b"content-length":
                return value.isdigit() and len(value) <= 5 and int(value) <= SMALL_BYTES
        return False

    async def body(self, request: Request) -> bytes:
        """Read the whole body.

        Raises:
            MessageTooLargeError: It is larger than `max_body_bytes`.
            RequestTimeoutError: It did not arrive in time.
        """
        limit = self.bounds.max_body_bytes
        for name, value in request.scope["headers"]:
            if name == b"content-encoding" and value.strip().lower() != b"identity":
                raise ContentTypeNotSupportedError(
                    "the body must not be encoded", media_type=value.decode("latin-1")[:100]
                )
            if name == b"content-length" and value.isdigit() and (len(value) > 18 or int(value) > limit):
                raise _too_large_error(limit)
        body = _take_arrived_body(request.receive)
        if body is not None:
            if len(body) > limit:
                raise _too_large_error(limit)
            return body
        try:
            async with asyncio.timeout(self.bounds.body_timeout_s):
                return await _read_body(request.receive, limit)
        except TimeoutError:
            raise RequestTimeoutError(
                f"the body did not arrive within {self.bounds.body_timeout_s:g} s",
                body_timeout_s=f"{self.bounds.body_timeout_s:g}",
            ) from None


def _metadata_of(request: HTTPConnection) -> Mapping[str, str]:
    """Return the headers and, under a key that no header can have, the name in the client's certificate."""
    certificate = request.scope.get("state", {}).get(PEER_CERTIFICATE)
    if not certificate:
        return request.headers
    alternatives = [str(value) for _, value in certificate.get("subjectAltName", ())]
    common = [value for names in certificate.get("subject", ()) for key, value in names if key == "commonName"]
    name = next(iter([*alternatives, *common]), "")
    return {**request.headers, CERTIFICATE: CertificateName(name)} if name else request.headers


def _take_arrived_body(receive: Receive) -> bytes | None:
    """Return the body if it has arrived completely, otherwise None. Only the server of this package (`protocol`) knows this."""
    take = getattr(getattr(receive, "__self__", None), "take_arrived_body", None)
    return None if take is None else take()


async def _read_body(receive: Receive, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large_error(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large_error(limit: int) -> MessageTooLargeError:
    return MessageTooLargeError(f"has more than {limit} bytes", field="body", max_bytes=str(limit))
