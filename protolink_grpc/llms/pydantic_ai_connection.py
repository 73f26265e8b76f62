"""The connection to one model: pydantic-ai's model with an HTTP client of this package. Loaded with the first call of a model.

All retries of the SDKs are turned off, because `model_call` retries.
"""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from typing import assert_never

import httpx2
from pydantic_ai.models import Model, StreamedResponse

from protolink_grpc.llms.providers import Provider

TIMEOUT = httpx2.Timeout(600.0, connect=5.0)
"""The timeout between two pieces of an answer: a model may take minutes before the first. The caller limits the whole call."""

LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)

NO_KEY = "none"
"""The API key for servers that need none."""


_responses: ContextVar[list[httpx2.Response] | None] = ContextVar("responses", default=None)
"""Collects the responses that start in this context."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A model and its HTTP client, for one event loop."""

    model: Model
    http: httpx2.AsyncClient

    async def open(
        self, stack: AsyncExitStack, stream: AbstractAsyncContextManager[StreamedResponse]
    ) -> StreamedResponse:
        """Open an answer. When `stack` closes, its HTTP responses are closed, also if they were not read to the end.

        The SDKs do not guarantee this: google-genai leaves its response to the garbage collector.
        """
        responses: list[httpx2.Response] = []
        stack.push_async_callback(_close_responses, responses)
        token = _responses.set(responses)
        try:
            return await stack.enter_async_context(stream)
        finally:
            _responses.reset(token)


def connect(provider: Provider, model: str, base_url: str | None, key: str) -> Connection:
    """Create the clients without network access. Importing the SDKs takes up to seconds: call this in a thread."""
    # Without a key the SDKs would take one from the environment and send it to any server.
    key = key or NO_KEY
    # No redirects: they would send the key to another host.
    http = httpx2.AsyncClient(
        timeout=TIMEOUT, limits=LIMITS, follow_redirects=False, event_hooks={"response": [_collect_response]}
    )
    match provider.dialect:
        case "openai":
            return Connection(_openai(provider, model, base_url, key, http), http)
        case "anthropic":
            return Connection(_anthropic(model, base_url, key, http), http)
        case "google":
            return Connection(_google(model, base_url, key, http), http)
        case _:
            assert_never(provider.dialect)


async def _close_responses(responses: list[httpx2.Response]) -> None:
    for response in responses:
        await response.aclose()


async def _collect_response(response: httpx2.Response) -> None:
    collected = _responses.get()
    if collected is not None:
        collected.append(response)


def _openai(provider: Provider, model: str, base_url: str | None, key: str, http: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers import Provider as TheirProvider
    from pydantic_ai.providers.deepseek import DeepSeekProvider
    from pydantic_ai.providers.ollama import OllamaProvider
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
    from pydantic_ai.providers.vllm import VLLMProvider

    client = AsyncOpenAI(api_key=key, base_url=base_url, http_client=http, max_retries=0)
    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=provider.finish_reason)
    theirs: TheirProvider[AsyncOpenAI]
    if provider.name == "openai" and base_url is None:
        return OpenAIChatModel(model, provider=OpenAIProvider(openai_client=client), profile=profile)
    # The SDK takes these two from the environment for every host.
    client.organization = client.project = None
    # Compatible servers know the older name of this setting, and not all know the newer one.
    profile["openai_chat_supports_max_completion_tokens"] = False
    match provider.name:
        case "deepseek":
            theirs = DeepSeekProvider(openai_client=client)
        case "ollama":
            theirs = OllamaProvider(openai_client=client)
        case "vllm":
            theirs = VLLMProvider(openai_client=client)
        case name:
            theirs = OpenAICompatibleProvider(name, openai_client=client)
    return OpenAIChatModel(model, provider=theirs, profile=profile)


def _anthropic(model: str, base_url: str | None, key: str, http: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(api_key=key, base_url=base_url, http_client=http, max_retries=0)
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client))


def _google(model: str, base_url: str | None, key: str, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    # Retries are off by default in this SDK.
    return GoogleModel(model, provider=GoogleProvider(api_key=key, base_url=base_url, http_client=http))
