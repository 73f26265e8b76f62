"""create_llm: names, keys, settings. tests/e2e/test_llm_providers.py tests the calls of providers."""

import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc.errors import InvalidArgumentError, ModelError
from protolink_grpc.llms import pydantic_ai_model
from protolink_grpc.llms.factory import create_llm
from protolink_grpc.llms.mock import MockLLM, ScriptedLLM
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.llms.providers import ALIASES, PROVIDERS
from protolink_grpc.llms.pydantic_ai_model import PydanticAILLM

KEYS = {variable for row in PROVIDERS.values() for variable in row.key_variables}


@pytest.fixture(autouse=True)
def without_keys_and_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in KEYS:
        monkeypatch.delenv(variable, raising=False)

    def refuse(*_: Any) -> None:
        raise AssertionError("a model was made over the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_a_mock_takes_its_settings():
    llm = create_llm("mock", default_response="done")
    assert isinstance(llm, MockLLM)
    assert (llm.provider, llm.model, llm.native_tools) == ("mock", "mock", True)
    assert create_llm("mock:small", native_tools=False).model == "small"


def test_a_script_requires_steps():
    assert isinstance(create_llm("scripted", steps=["a"]), ScriptedLLM)
    with pytest.raises(InvalidArgumentError, match="steps"):
        create_llm("scripted")


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_is_created_without_network_access(name: str):
    llm = create_llm(f"{name}:a-model", base_url="http://127.0.0.1:1", api_key="k")
    assert isinstance(llm, PydanticAILLM)
    assert (llm.provider, llm.model, llm.base_url) == (name, "a-model", "http://127.0.0.1:1")


def test_every_alias_names_a_provider_and_is_not_one_itself():
    assert set(ALIASES.values()) <= set(PROVIDERS)
    assert not set(ALIASES) & set(PROVIDERS)
    assert create_llm("XAI", "grok-4", api_key="k").provider == "grok"


def test_only_the_first_colon_separates_and_the_model_keeps_its_spelling():
    assert create_llm("ollama:Qwen3:8b-Instruct/x").model == "Qwen3:8b-Instruct/x"


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("ollama", "http://localhost:11434/v1"),
        ("llama.cpp", "http://localhost:8080/v1"),
        ("lmstudio", "http://localhost:1234/v1"),
        ("vllm", "http://localhost:8000/v1"),
    ],
)
def test_local_servers_need_no_key_and_have_default_urls(name: str, url: str):
    llm = create_llm(name, "m")
    assert isinstance(llm, PydanticAILLM)
    assert llm.base_url == url


def test_a_server_with_a_single_model_needs_no_model_name():
    assert create_llm("llama.cpp").model == "default"


@pytest.mark.parametrize("name", [name for name, row in PROVIDERS.items() if row.key_variables])
def test_a_missing_key_names_the_variable(name: str, monkeypatch: pytest.MonkeyPatch):
    variable = PROVIDERS[name].key_variables[0]
    with pytest.raises(InvalidArgumentError, match=variable) as caught:
        create_llm(name, "m")
    assert caught.value.field == "api_key"
    monkeypatch.setenv(variable, "from-the-environment")
    assert create_llm(name, "m").model == "m"


def test_the_repr_does_not_contain_the_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
    llm = create_llm("openai", "m")
    assert "sk-hidden" not in repr(llm) + str(llm)


@pytest.mark.parametrize(
    ("arguments", "settings", "field", "said"),
    [
        (("opneai",), {}, "provider", "did you mean 'openai'"),
        (("",), {}, "provider", "unknown provider"),
        (("openai:",), {}, "provider", "must follow the colon"),
        (("openai:a", "b"), {}, "model", "pass it only once"),
        (("openai",), {"api_key": "k"}, "model", "needs a model"),
        (("openai-compatible", "m"), {}, "base_url", "is required"),
        (("ollama", "m"), {"temprature": 1}, "temprature", "did you mean 'temperature'"),
        (("mock",), {"default_respose": "x"}, "default_respose", "did you mean 'default_response'"),
        (("mock",), {"api_key": "k"}, "api_key", "unknown setting of mock"),
        (("ollama", "m"), {"key": "k"}, "key", "unknown setting of ollama"),
    ],
)
def test_errors_name_the_invalid_value_and_suggest_the_closest_valid_one(
    arguments: tuple[str, ...], settings: dict[str, Any], field: str, said: str
):
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        create_llm(*arguments, **settings)
    assert caught.value.field == field


def test_the_metrics_profile_is_set_and_completed():
    llm = create_llm("ollama:small", metrics_profile=LLMModelProfile(context_window=8192))
    assert (llm.profile.context_window, llm.profile.provider, llm.profile.model) == (8192, "ollama", "small")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pydantic_ai_model, "find_spec", lambda _: None)
    with pytest.raises(ModelError, match=r"pip install 'protolink-grpc\[gemini\]'") as caught:
        create_llm("gemini", "m", api_key="k")
    assert caught.value.metadata["extra"] == "gemini"
    assert isinstance(create_llm("mock"), MockLLM)


def test_every_extra_that_an_error_names_can_be_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert {row.extra for row in PROVIDERS.values()} <= set(project["project"]["optional-dependencies"])
