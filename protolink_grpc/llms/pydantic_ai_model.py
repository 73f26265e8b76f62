"""PydanticAILLM: the providers of `providers.PROVIDERS`, called with pydantic-ai's model layer.

pydantic-ai and the providers' SDKs are optional and take seconds to import. The modules that need them are imported in a thread,
when an agent with the model starts, or with the first call.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from protolink_grpc.errors import ModelError, ModelTimeoutError, ProtolinkError
from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.input_media import Refusal
from protolink_grpc.llms.port import ModelItem, ModelRequest
from protolink_grpc.llms.prices import ModelPrice, find_listed_price
from protolink_grpc.llms.providers import URL_MEDIA, Dialect, Provider
from protolink_grpc.models.media import public_url

_SDKS: dict[Dialect, str] = {"openai": "openai", "anthropic": "anthropic", "google": "google.genai"}


@dataclass(slots=True)
class _LoopConnection:
    """The connection of one event loop: HTTP clients cannot be shared between loops."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Any = None  # a pydantic_ai_connection.Connection; its module is imported later


class PydanticAILLM(LLM):
    """A model of a provider in `providers.PROVIDERS`. Usually created with `create_llm`.

    Args:
        key: The provider's API key; empty if its servers need none.
        temperature: Default for requests without one.
        max_output_tokens: Default for requests without one.
        timeout_s: Default timeout of a call in seconds; None means no timeout.
        native_tools: False for a model without native tool calls: its prompt describes how to write actions as JSON.
        fetches_urls: Whether the server downloads files from the URLs in a prompt. Other files by URL are refused, because nothing
            in this package downloads them. None means that it is known for the provider's own server, and no for `base_url`.
        options: Further settings of pydantic-ai's `ModelSettings`, for example `{"seed": 1}`, passed unchanged.

    Raises:
        ModelError: The provider's extra is not installed.
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
        fetches_urls: bool | None = None,
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
        fetches = provider.fetches_urls and not base_url if fetches_urls is None else fetches_urls
        self._url_media = URL_MEDIA[provider.dialect] if fetches else ()
        self._options = dict(options or {})
        self._listed_price: ModelPrice | None = None
        self._has_searched_price = False
        self._connections: dict[asyncio.AbstractEventLoop, _LoopConnection] = {}
        _require_packages(provider)

    def __repr__(self) -> str:
        base_url = public_url(self.base_url) if self.base_url else None
        return f"PydanticAILLM({self.provider!r}, {self.model!r}, base_url={base_url!r})"

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """As `llms.port.LanguageModel.generate`. Closing the iterator or canceling its task closes the connection."""
        connection = await self._get_connection()
        from protolink_grpc.llms import pydantic_ai_errors as errors
        from protolink_grpc.llms.pydantic_ai_answer import answer

        bound = self._timeout_s if request.timeout_s is None else request.timeout_s
        until = None if bound is None else asyncio.get_running_loop().time() + bound
        try:
            items = answer(connection, self._row, request, self._settings(request), until, url_media=self._url_media)
            async with aclosing(items):
                async for item in items:
                    yield item
        except TimeoutError:
            within = "in time" if bound is None else f"within {bound:g} s"
            at = self._endpoint(connection)
            failed: ProtolinkError = ModelTimeoutError(
                f"no answer from {self.provider} at {at.server} {within}; allow more time, or use a faster model",
                provider=self.provider,
                model=self.model,
                url=at.display_url,
            )
        except ProtolinkError:
            raise
        except errors.KNOWN_ERRORS as error:
            media = [each for message in request.messages for each in message.media]
            failed = errors.to_model_error(error, self._endpoint(connection), media)
        else:
            return
        # Raised outside of the handlers: errors of SDKs contain requests, headers and keys, and must not become its context.
        raise failed

    async def find_price(self) -> ModelPrice | None:
        """Return the price of the profile, or that of the model in the table of `genai-prices`, or None."""
        if self.profile.has_price:
            return self.profile
        if not self._has_searched_price:
            url = (await self._get_connection()).model.base_url or ""
            self._listed_price = await asyncio.to_thread(find_listed_price, url, self.model)
            self._has_searched_price = True
        return self._listed_price

    async def find_media_refusal(self) -> Refusal:
        """As `LLM.find_media_refusal`."""
        profile = (await self._get_connection()).model.profile
        from protolink_grpc.llms.pydantic_ai_prompt import refuse_media

        return lambda media: refuse_media(media, profile, self._row.dialect, self._url_media)

    async def open(self) -> None:
        """As `LLM.open`: import pydantic-ai and the SDK in a thread."""
        await self._get_connection()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        entry = self._connections.pop(asyncio.get_running_loop(), None)
        if entry is not None and entry.connection is not None:
            await entry.connection.http.aclose()

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

    async def _get_connection(self) -> Any:
        loop = asyncio.get_running_loop()
        entry = self._connections.get(loop)
        if entry is None:
            for other in [each for each in self._connections if each.is_closed()]:
                self._connections.pop(other, None)
            entry = self._connections.setdefault(loop, _LoopConnection())
        if entry.connection is None:
            async with entry.lock:
                if entry.connection is None:
                    entry.connection = await asyncio.to_thread(self._connect)
        return entry.connection

    def _connect(self) -> Any:
        # `generate` imports these too, but on the event loop.
        for module in ("pydantic_ai_answer", "pydantic_ai_errors"):
            import_module(f"protolink_grpc.llms.{module}")
        from protolink_grpc.llms.pydantic_ai_connection import connect

        connection = connect(self._row, self.model, self.base_url, self._key)
        if self.profile.context_window is None:
            self.profile = replace(self.profile, context_window=connection.model.context_window)
        return connection


def _require_packages(provider: Provider) -> None:
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
