"""Registries in the same process, `runtime://name`: a channel for the generated stubs, without connections."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from protolink_grpc.agent.local_agent import PRINCIPAL
from protolink_grpc.auth.principal import Principal
from protolink_grpc.edges.grpc.binding import Procedure
from protolink_grpc.errors import AgentConflictError, DeadlineExceededError, UnavailableError
from protolink_grpc.wire.codec import BinaryCodec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """A running registry: its event loop, and its methods by full name."""

    loop: asyncio.AbstractEventLoop
    procedures: dict[str, Procedure]


_endpoints: dict[str, _Endpoint] = {}


def announce_registry(url: str, procedures: Sequence[Procedure]) -> None:
    """Make a registry on the running event loop reachable under `runtime://name`.

    Raises:
        AgentConflictError: Another running registry has that URL.
    """
    if url in _endpoints:
        raise AgentConflictError(f"another registry in this process has the URL {url}", url=url)
    _endpoints[url] = _Endpoint(asyncio.get_running_loop(), {each.name: each for each in procedures})


def withdraw_registry(url: str) -> None:
    """Remove the registry's announcement."""
    _endpoints.pop(url, None)


class LocalRegistryChannel:
    """A channel to the registry at a `runtime://` URL, which is looked up at each call. All callers are one principal.

    Metadata is not sent, because calls within the process are not authenticated.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: Any,
    ) -> Callable[..., Awaitable[Any]]:
        """Return a callable for a method with one response."""

        async def call(request: Any, *, timeout: float | None = None, metadata: object = None) -> Any:
            endpoint = self._find()
            responses = _open(endpoint, method, request_serializer(request))
            try:
                async with asyncio.timeout(timeout):
                    return response_deserializer(await _on_loop(endpoint, anext(responses)))
            except TimeoutError:
                raise DeadlineExceededError(f"{self._url} did not answer in time", url=self._url) from None
            finally:
                await _on_loop(endpoint, responses.aclose())

        return call

    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: Any,
    ) -> Callable[..., AsyncGenerator[Any, None]]:
        """Return a callable for a method with a stream of responses. Closing the returned generator ends the stream."""

        async def call(
            request: Any, *, timeout: float | None = None, metadata: object = None
        ) -> AsyncGenerator[Any, None]:
            endpoint = self._find()
            responses = _open(endpoint, method, request_serializer(request))
            try:
                while (response := await _on_loop(endpoint, anext(responses, None))) is not None:
                    yield response_deserializer(response)
            finally:
                if not endpoint.loop.is_closed():
                    await _on_loop(endpoint, responses.aclose())

        return call

    def _find(self) -> _Endpoint:
        endpoint = _endpoints.get(self._url)
        if endpoint is None or endpoint.loop.is_closed():
            raise UnavailableError(f"no registry is running at {self._url} in this process", url=self._url)
        return endpoint


def _open(endpoint: _Endpoint, method: str, request: bytes) -> AsyncGenerator[bytes, None]:
    return endpoint.procedures[method].responses(
        request, Principal(PRINCIPAL), {}, authenticated=False, codec=BinaryCodec(), response_headers={}
    )


async def _on_loop(endpoint: _Endpoint, work: Awaitable[T]) -> T:
    """Wait for a step of a call on the registry's loop. Each step has its own asyncio task, whatever loop the caller is on."""

    async def step() -> T:
        return await work

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(step(), endpoint.loop))
