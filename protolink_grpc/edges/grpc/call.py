"""What a servicer may know about the call that it answers, and what an interceptor may add to it."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc.aio

from protolink_grpc.auth.principal import ANONYMOUS
from protolink_grpc.net.tracing import WAITING_RUNS, receive_waiting_runs

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(slots=True)
class Call:
    """One RPC under way. `principal` is who makes it, as far as is known; `authenticated` says that somebody has looked.

    `context` is None for a call that did not come through gRPC's own server; its metadata is in `headers` then.
    """

    method: str
    context: "grpc.aio.ServicerContext[Any, Any] | None"
    principal: str = ANONYMOUS
    scopes: frozenset[str] = frozenset()
    authenticated: bool = False
    headers: Mapping[str, str] | None = None

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata of the request; binary entries are left out, of repeated ones the last counts."""
        if self.headers is not None:
            return self.headers
        pairs = self.context.invocation_metadata() or () if self.context is not None else ()
        return {key: value for key, value in pairs if isinstance(value, str)}


_call: ContextVar[Call | None] = ContextVar("plgrpc_call", default=None)


def enter(call: Call) -> None:
    """Make this the call of the running task. Each RPC, each HTTP request too, has a task of its own: nothing has to be undone."""
    _call.set(call)


def current_call() -> Call | None:
    """The RPC that the running task answers; None where no interceptor looks at calls."""
    return _call.get()


def caller_scopes() -> frozenset[str]:
    """What the credentials of that RPC allow."""
    call = _call.get()
    return NO_SCOPES if call is None else call.scopes


NO_SCOPES: frozenset[str] = frozenset()


def caller() -> str:
    """The principal of the RPC that the running task answers; anonymous where no interceptor looks at calls."""
    call = _call.get()
    return ANONYMOUS if call is None else call.principal


def take_waiting_runs(context: "Context | None") -> None:
    """Make the runs that the caller says to wait those of the running task, for calls that begin a run."""
    value = ""
    if context is not None:
        for key, each in context.invocation_metadata() or ():
            if key == WAITING_RUNS:
                value = str(each)
    else:
        call = _call.get()
        value = call.metadata.get(WAITING_RUNS, "") if call is not None else ""
    receive_waiting_runs(value)
