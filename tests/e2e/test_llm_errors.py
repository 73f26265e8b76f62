"""Failures of providers over HTTP: every error names the provider, its URL without secrets, the cause and a remedy."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from cli_world import plgrpc
from llm_servers import CUT, STALL, Answer, error, openai_text, serving

from protolink_grpc import Agent, AgentCard, AgentClient, Message, Task, TaskState
from protolink_grpc.errors import ModelError, ModelRateLimitedError, ModelTimeoutError, ModelUnavailableError
from protolink_grpc.llms import LLM
from protolink_grpc.llms.factory import create_llm
from protolink_grpc.llms.port import ModelRequest
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import LlmCallFailed, RunEvent

KEY = "sk-very-secret-key"
PROVIDERS = ("openai", "anthropic", "ollama")


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment must not see what the tests send."""
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)


async def failure(provider: str, base_url: str, **settings: Any) -> ModelError:
    llm = create_llm(provider, "a-model", base_url=base_url, api_key=KEY, **settings)
    try:
        with pytest.raises(ModelError) as caught:
            await read(llm)
    finally:
        await llm.aclose()
    return caught.value


async def read(llm: LLM) -> None:
    async for _ in llm.generate(ModelRequest("", [LLMMessage("user", "hi")])):
        pass


def page(status: int) -> Answer:
    return Answer(["<html><body>an error page</body></html>"], status, "text/html")


def refusal(status: int, message: str, **headers: str) -> Answer:
    return error(status, {"type": "error", "error": {"type": "an_error", "message": message}}, **headers)


CASES: dict[str, tuple[Callable[[], Answer], type[ModelError], float | None, tuple[str, ...]]] = {
    "wrong key": (
        lambda: refusal(401, f"bad key {KEY}"),
        ModelError,
        None,
        ("refused the API key (HTTP 401)", "api_key="),
    ),
    "no access": (
        lambda: refusal(403, "no"),
        ModelError,
        None,
        ("refused the API key (HTTP 403)", "may use this model"),
    ),
    "unknown model": (
        lambda: refusal(404, "model 'a-model' not found"),
        ModelError,
        None,
        ("does not know the model 'a-model' (HTTP 404: model 'a-model' not found)", "check the name of the model"),
    ),
    "wrong path": (lambda: page(404), ModelError, None, ("does not have the API of", "(HTTP 404)", "correct base_url")),
    "wrong method": (
        lambda: page(405),
        ModelError,
        None,
        ("does not have the API of", "(HTTP 405)", "correct base_url"),
    ),
    "no money": (lambda: refusal(402, "pay"), ModelError, None, ("quota", "(HTTP 402: pay)", "plan and billing")),
    "rate limit": (
        lambda: refusal(429, "slow down", Retry_After="7"),
        ModelRateLimitedError,
        7.0,
        ("limits the rate of requests (HTTP 429: slow down)", "it asks to wait 7 s"),
    ),
    "bug": (
        lambda: refusal(500, "oops"),
        ModelUnavailableError,
        None,
        ("not available now (HTTP 500: oops)", "try again"),
    ),
    "proxy": (lambda: page(502), ModelUnavailableError, None, ("not available now (HTTP 502)", "try again later")),
    "overload": (lambda: refusal(529, "busy"), ModelUnavailableError, None, ("not available now (HTTP 529: busy)",)),
    "cut": (lambda: Answer([CUT]), ModelUnavailableError, None, ("broke before the answer", "(connection closed)")),
    "junk": (
        lambda: Answer(["{not json"], 200, "application/json"),
        ModelUnavailableError,
        None,
        ("could not be read", "does base_url lead to a server that speaks the format"),
    ),
    "web page": (lambda: page(200), ModelUnavailableError, None, ("could not be read", "does base_url lead")),
    "redirect": (
        lambda: Answer([], 302, "text/html", {"Location": "https://elsewhere.example/"}),
        ModelError,
        None,
        ("sends the request to another address (HTTP 302)", "correct base_url"),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_failure_names_the_provider_its_url_the_cause_and_what_to_do(provider: str, case: str):
    make, kind, retry_after_s, texts = CASES[case]
    async with serving(make()) as server:
        host = server.url.removeprefix("http://")
        found = await failure(provider, f"http://me:password@{host}/base?token=secret-token")
    text = str(found)
    assert (type(found), found.retry_after_s) == (kind, retry_after_s)
    assert [each for each in (*texts, provider, server.url) if each not in text] == []
    assert [each for each in (KEY, "password", "secret-token", "<html") if each in text + str(found.metadata)] == []
    assert (found.metadata["provider"], found.metadata["model"]) == (provider, "a-model")
    assert found.metadata["url"] == f"{server.url}/base"


@pytest.mark.parametrize(
    ("provider", "hint"),
    [
        ("openai", "check the network connection of this machine, and base_url"),
        ("anthropic", "check the network connection of this machine, and base_url"),
        ("ollama", "is the model server running (start it with 'ollama serve'), and is base_url right?"),
        ("vllm", "(start it with 'vllm serve a-model')"),
        ("lmstudio", "(start it with 'lms server start')"),
        ("llama.cpp", "(start it with 'llama-server -m <file>.gguf')"),
    ],
)
async def test_a_closed_port_says_how_to_start_the_server(provider: str, hint: str):
    async with serving(openai_text("never")) as gone:
        pass
    found = await failure(provider, gone.url)
    assert isinstance(found, ModelUnavailableError)
    assert str(found).startswith(f"cannot reach {gone.url} (connection refused); ")
    assert hint in str(found)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_unknown_host_is_named(provider: str, monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    found = await failure(provider, "http://no-such-host.invalid/v1")
    assert isinstance(found, ModelUnavailableError)
    assert str(found).startswith("cannot reach http://no-such-host.invalid (unknown host name); ")


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_server_that_hangs_is_a_timeout_that_names_it(provider: str):
    async with serving(Answer([STALL])) as server:
        found = await failure(provider, server.url, timeout_s=0.2)
    assert isinstance(found, ModelTimeoutError)
    assert (
        str(found) == f"no answer from {provider} at {server.url} within 0.2 s; allow more time, or use a faster model"
    )


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY"), ("gemini", "GEMINI_API_KEY")],
)
async def test_a_wrong_key_names_the_environment_variable(provider: str, variable: str):
    async with serving(refusal(401, "no")) as server:
        assert f"with api_key= or {variable}" in str(await failure(provider, server.url))


async def test_an_unknown_model_of_ollama_names_the_command_that_downloads_it():
    async with serving(refusal(404, "model 'a-model' not found")) as server:
        assert "(download it with 'ollama pull a-model')" in str(await failure("ollama", server.url))


@pytest.mark.parametrize(
    ("provider", "hint"),
    [
        ("ollama", "correct base_url, for example http://localhost:11434/v1"),
        ("anthropic", "correct base_url; /v1/messages is added to it"),
    ],
)
async def test_a_wrong_path_shows_a_correct_url(provider: str, hint: str):
    async with serving(Answer(["404 page not found"], 404, "text/plain")) as server:
        assert str(await failure(provider, server.url)).endswith(hint)


def test_the_representation_of_a_model_has_no_secrets():
    llm = create_llm("vllm", "m", base_url="http://me:password@localhost:8000/v1?token=secret", api_key=KEY)
    assert repr(llm) == "PydanticAILLM('vllm', 'm', base_url='http://localhost:8000/v1')"


async def test_a_retry_is_visible_while_its_delay_runs():
    """The delay is longer than the test may take: the event does not wait for its end."""
    async with serving(refusal(429, "slow down", Retry_After="55")) as server:
        llm = create_llm("ollama", "a-model", base_url=server.url)
        async with Agent(AgentCard("clerk", "answers", "grpc://127.0.0.1:0"), llm=llm, grace_s=0.1) as agent:
            client = AgentClient(url=agent.card.url)
            seen: list[RunEvent] = []
            task = Task.create(Message.user("hi"))
            async for event in client.send_task_streaming(None, task):
                if isinstance(event.payload, LlmCallFailed):
                    seen.append(event)
                    replayed = await asyncio.to_thread(plgrpc, "run", "replay", agent.card.url, task.id)
                    watch = ("task", "subscribe", agent.card.url, task.id, "--until", "current")
                    subscribed = await asyncio.to_thread(plgrpc, *watch)
                    await client.cancel_task(None, task.id)
            ended = await client.get_task(task.id)
    (retry,) = seen
    failed = retry.payload
    assert isinstance(failed, LlmCallFailed)
    assert (failed.attempt, failed.will_retry, failed.failure.retry_delay_s) == (1, True, 55.0)
    assert "limits the rate of requests (HTTP 429: slow down)" in failed.failure.message
    assert retry.severity == "warning"
    assert retry.summary.endswith("(attempt 1 of 4; the next one in 55.0 s)")
    for output in (replayed.out, subscribed.out):
        assert "llm.call.failed attempt 1 failed, next attempt in 55.0 s: ollama at http://127.0.0.1" in output
    assert (ended.state, len(server.asked)) == (TaskState.CANCELED, 1)
