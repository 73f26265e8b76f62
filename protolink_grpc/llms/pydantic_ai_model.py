"""PydanticAILLM: every provider of the table through pydantic-ai's model layer. Calls, errors and clients are its neighbours'.

pydantic-ai and the providers' SDKs are optional and slow to import: they are loaded with the first call, on a thread.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from protolink_grpc.errors import ModelError, ModelTimeoutError, ProtolinkError
from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.port import ModelItem, ModelRequest
from protolink_grpc.llms.providers import Dialect, Provider

_SDKS: dict[Dialect, str] = {"openai": "openai", "anthropic": "anthropic", "google": "google.genai"}


@dataclass(slots=True)
class _Place:
    """What belongs to one event loop: an HTTP client is of no use on another."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Any = None  # a pydantic_ai_connection.Connection, whose module is not imported here


class PydanticAILLM(LLM):
    """A model of a provider in `providers.PROVIDERS`. Usually made by `create_llm`.

    Args:
        key: The provider's key; empty where its servers need none.
        temperature: For requests that name none.
        max_output_tokens: For requests that name none.
        timeout_s: Bound of a call in seconds for requests that name none; None means none.
        native_tools: False for a model without native tool calls: it is told how to write actions as JSON.
        options: Further settings of pydantic-ai's `ModelSettings`, for instance `{"seed": 1}`, sent as they are.

    Raises:
        ModelError: The extra that the provider needs is not installed.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        *,
        base_url: str | None = None,
        key: str = "",
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        timeout_s: float | None = None,
        native_tools: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(provider.name, model)
        self.native_tools = native_tools
        self.base_url = base_url or provider.base_url
        self._row = provider
        self._key = key
        self._temperature = temperature
        self._max_output_tokens = max_output_tokens
        self._timeout_s = timeout_s
        self._options = dict(options or {})
        self._places: dict[asyncio.AbstractEventLoop, _Place] = {}
        _require(provider)

    def __repr__(self) -> str:
        return f"PydanticAILLM({self.provider!r}, {self.model!r}, base_url={self.base_url!r})"

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """As `llms.port.LanguageModel.generate`. Closing the iterator, or canceling who waits for it, closes the connection."""
        connection = await self._connected()
        from protolink_grpc.llms import pydantic_ai_errors as errors
        from protolink_grpc.llms.pydantic_ai_answer import answer

        bound = self._timeout_s if request.timeout_s is None else request.timeout_s
        until = None if bound is None else asyncio.get_running_loop().time() + bound
        try:
            async with aclosing(answer(connection, self._row, request, self._settings(request), until)) as items:
                async for item in items:
                    yield item
        except TimeoutError:
            within = "in time" if bound is None else f"within {bound:g} s"
            at = self._endpoint(connection)
            failed: ProtolinkError = ModelTimeoutError(
                f"no answer from {self.provider} at {at.server} {within}; allow more time, or use a faster model",
                provider=self.provider,
                model=self.model,
                url=at.shown,
            )
        except ProtolinkError:
            raise
        except errors.Known as error:
            failed = errors.failure(error, self._endpoint(connection))
        else:
            return
        # Outside of the handlers: what the SDKs raise holds requests, headers and keys, and must not hang on to our error.
        raise failed

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        place = self._places.pop(asyncio.get_running_loop(), None)
        if place is not None and place.connection is not None:
            await place.connection.http.aclose()

    def _endpoint(self, connection: Any) -> Any:
        from protolink_grpc.llms.pydantic_ai_errors import Endpoint

        return Endpoint(self._row, self.model, connection.model.base_url or self.base_url or "", self._key)

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        temperature = self._temperature if request.temperature is None else request.temperature
        bound = self._max_output_tokens if request.max_output_tokens is None else request.max_output_tokens
        settings = dict(self._options)
        if temperature is not None:
            settings["temperature"] = temperature
        if bound is not None:
            settings["max_tokens"] = bound
        return settings

    async def _connected(self) -> Any:
        loop = asyncio.get_running_loop()
        place = self._places.get(loop)
        if place is None:
            for other in [each for each in self._places if each.is_closed()]:
                self._places.pop(other, None)
            place = self._places.setdefault(loop, _Place())
        if place.connection is None:
            async with place.lock:
                if place.connection is None:
                    place.connection = await asyncio.to_thread(self._connect)
        return place.connection

    def _connect(self) -> Any:
        # `generate` imports these too, but on the event loop.
        for neighbour in ("pydantic_ai_answer", "pydantic_ai_errors"):
            import_module(f"protolink_grpc.llms.{neighbour}")
        from protolink_grpc.llms.pydantic_ai_connection import connect

        return connect(self._row, self.model, self.base_url, self._key)


def _require(provider: Provider) -> None:
    for package in ("pydantic_ai", _SDKS[provider.dialect]):
        try:
            found = find_spec(package) is not None
        except ModuleNotFoundError:  # the parent of a dotted name is missing
            found = False
        if not found:
            raise ModelError(
                f"the provider {provider.name} needs an extra: pip install 'protolink-grpc[{provider.extra}]'",
                provider=provider.name,
                extra=provider.extra,
            )
