"""One model of one provider, connected: pydantic-ai's model over an HTTP client of our own. Loaded with the first call of a model.

Retries are switched off everywhere below: whoever calls a model decides about them.
"""

import ssl
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import assert_never

import httpx2
from pydantic_ai.models import Model, StreamedResponse

from protolink_grpc.llms.providers import Provider

TIMEOUT = httpx2.Timeout(600.0, connect=5.0)
"""Between two pieces of an answer. A model may think for minutes before the first; the bound of a whole call is the caller's."""

LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)

NO_KEY = "none"
"""What servers that need no key get."""


_heard: ContextVar[list[httpx2.Response] | None] = ContextVar("heard", default=None)
"""Where responses are noted that begin in this context."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A model and the client that it speaks through, of one event loop."""

    model: Model
    http: httpx2.AsyncClient

    async def open(
        self, stack: AsyncExitStack, stream: AbstractAsyncContextManager[StreamedResponse]
    ) -> StreamedResponse:
        """Begin an answer that ends with `stack`: whatever is not read by then is given up, and its connection closed.

        The SDKs alone do not do that: google-genai leaves what it reads from to the garbage collector.
        """
        responses: list[httpx2.Response] = []
        stack.push_async_callback(_hang_up, responses)
        token = _heard.set(responses)
        try:
            return await stack.enter_async_context(stream)
        finally:
            _heard.reset(token)


def connect(provider: Provider, model: str, base_url: str | None, key: str) -> Connection:
    """Make the clients. Imports SDKs, which takes up to seconds, and reads certificates: call it on a thread. No network."""
    # Given none, the SDKs would look for a key in the environment, and send it to whatever server this is.
    key = key or NO_KEY
    # Without redirects: they would take the key to another host.
    http = httpx2.AsyncClient(timeout=TIMEOUT, limits=LIMITS, follow_redirects=False, event_hooks={"response": [_note]})
    match provider.dialect:
        case "openai":
            return Connection(_openai(provider, model, base_url, key, http), http)
        case "anthropic":
            return Connection(_anthropic(model, base_url, key, http), http)
        case "google":
            return Connection(_google(model, base_url, key, http), http)
        case _:
            assert_never(provider.dialect)


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that clients trust, read once: it takes longer than everything else about a client."""
    return httpx2.create_ssl_context()


async def _hang_up(responses: list[httpx2.Response]) -> None:
    for response in responses:
        await response.aclose()


async def _note(response: httpx2.Response) -> None:
    heard = _heard.get()
    if heard is not None:
        heard.append(response)


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
    # Servers that copy the API know the older name of the bound, and not all of them the newer.
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

    # Retries are off in this SDK unless they are asked for.
    return GoogleModel(model, provider=GoogleProvider(api_key=key, base_url=base_url, http_client=http))
