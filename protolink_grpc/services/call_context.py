"""The context that a user's method receives instead of gRPC's: the part that is the same on every port, and after a crash."""

import contextvars
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import grpc
import grpc.aio
from google.rpc import status_pb2

from protolink_grpc.errors import UnimplementedError, UnsupportedOperationError
from protolink_grpc.services.recording import MetadataPair, build_status, check_trailers


@dataclass(frozen=True, slots=True)
class Invocation:
    """The call that a method answers: values, because a run may outlive its call, and gRPC's context must not be used after that.

    Args:
        task_id: The task of the call; empty for a method that is not durable.
        metadata: The metadata of the request; over HTTP its headers.
        peer: The address of the caller; empty over HTTP.
        deadline_s: The deadline of the call on the monotonic clock, in seconds; None without one.
    """

    task_id: str
    metadata: tuple[MetadataPair, ...]
    peer: str = ""
    deadline_s: float | None = None

    @classmethod
    def of(cls, task_id: str, context: "grpc.aio.ServicerContext[Any, Any]") -> Self:
        """Return the invocation of an open call over gRPC."""
        left = context.time_remaining()
        return cls(
            task_id,
            tuple(context.invocation_metadata() or ()),
            context.peer(),
            None if left is None else time.monotonic() + left,
        )


_invocation: ContextVar[Invocation | None] = contextvars.ContextVar("plgrpc_invocation", default=None)


def set_invocation(invocation: Invocation) -> None:
    """Set the call of the asyncio task, for the run that it starts. It is never reset: each call has its own asyncio task."""
    _invocation.set(invocation)


def invocation_of(task_id: str) -> Invocation | None:
    """Return the call that started the run of this task; None if another process has started the task."""
    found = _invocation.get()
    return found if found is not None and found.task_id == task_id else None


class CallAbortedError(grpc.aio.AbortError):
    """Ends a method with a status, as `abort` does in gRPC."""


class CallContext(grpc.aio.ServicerContext[Any, Any]):
    """The context of one call.

    Args:
        invocation: The open call; None if a run continues the call after a crash.
        is_canceled: Whether the call is canceled.
    """

    def __init__(self, invocation: Invocation | None, is_canceled: Callable[[], bool]) -> None:
        self._invocation = invocation
        self._is_canceled = is_canceled
        self._code = grpc.StatusCode.OK
        self._details = ""
        self._trailers: tuple[MetadataPair, ...] = ()

    async def abort(
        self,
        code: grpc.StatusCode,
        details: str = "",
        trailing_metadata: grpc.aio.Metadata | Sequence[MetadataPair] = (),
    ) -> NoReturn:
        """End the call with a status. A repeated call gets the same status.

        Raises:
            AbortError: Always, to end the method.
            ValueError: The code is OK, or the trailing metadata are not valid.
        """
        if code is grpc.StatusCode.OK:
            raise ValueError("abort needs a code other than OK")
        self._code, self._details = code, details
        if trailing_metadata:
            self.set_trailing_metadata(trailing_metadata)
        raise CallAbortedError(details)

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """As `abort`, with the status of `grpc_status.rpc_status.to_status`."""
        await self.abort(status.code, status.details, tuple(status.trailing_metadata or ()))

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the code with which the method ends. With another code than OK, its response is not sent."""
        self._code = code

    def set_details(self, details: str) -> None:
        self._details = details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def status(self, service: str, task_id: str = "") -> status_pb2.Status:
        """Return the status of a call that ended with another code than OK; see `build_status`."""
        return build_status(self._code, self._details, self._trailers, service, task_id)

    def set_trailing_metadata(self, trailing_metadata: grpc.aio.Metadata | Sequence[MetadataPair]) -> None:
        """Set the trailing metadata of the response. They are recorded, and a repeated call gets them, too.

        Raises:
            ValueError: They are no valid metadata.
        """
        trailers = tuple(trailing_metadata)
        check_trailers(trailers)
        self._trailers = trailers

    def trailing_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata(*self._trailers)

    @property
    def trailers(self) -> tuple[MetadataPair, ...]:
        """The trailing metadata as pairs."""
        return self._trailers

    def invocation_metadata(self) -> grpc.aio.Metadata:
        """Return the metadata of the call that started the run. They are not recorded, because they may contain credentials.

        Raises:
            UnsupportedOperationError: The run continues a call after a crash, or a tool call: a method must not work with other
                values than at first. What it needs belongs into the request.
        """
        invocation = self._invocation
        if invocation is None:
            raise UnsupportedOperationError(
                "this run has no call with metadata: it continues one after a crash, or is a call of a tool"
            )
        return grpc.aio.Metadata(*invocation.metadata)

    def peer(self) -> str:
        """Return the address of the caller; empty over HTTP and after a crash."""
        return "" if self._invocation is None else self._invocation.peer

    def time_remaining(self) -> float | None:  # type: ignore[override]  # None without a deadline, as in grpcio itself
        """Return the seconds until the deadline of the call, which limits the wait and not the run; None without a deadline."""
        deadline_s = None if self._invocation is None else self._invocation.deadline_s
        return None if deadline_s is None else max(0.0, deadline_s - time.monotonic())

    def cancelled(self) -> bool:
        """Whether the task is canceled. A caller that disconnects does not cancel it."""
        return self._is_canceled()

    def done(self) -> bool:
        return self._is_canceled()

    async def read(self) -> Any:
        self._refuse("read", "use the request, or iterate over the requests")

    async def write(self, message: Any) -> None:
        self._refuse("write", "yield the responses")

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        self._refuse("send_initial_metadata", "the initial metadata name the task; use set_trailing_metadata")

    def add_done_callback(self, callback: Any) -> None:
        self._refuse("add_done_callback", "use try and finally")

    def set_compression(self, compression: Any) -> None:
        self._refuse("set_compression")

    def disable_next_message_compression(self) -> None:
        self._refuse("disable_next_message_compression")

    def peer_identities(self) -> Any:
        self._refuse("peer_identities", "current_run().principal is the authenticated caller")

    def peer_identity_key(self) -> Any:
        self._refuse("peer_identity_key", "current_run().principal is the authenticated caller")

    def auth_context(self) -> Any:
        self._refuse("auth_context", "current_run().principal is the authenticated caller")

    def _refuse(self, name: str, instead: str = "") -> NoReturn:
        hint = f": {instead}" if instead else ""
        raise UnimplementedError(f"context.{name} is not available in a method that an agent serves{hint}")
