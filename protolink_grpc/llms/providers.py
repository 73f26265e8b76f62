"""The table of providers: wire format, URL and environment variables of each. This module makes no requests."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Dialect = Literal["openai", "anthropic", "google"]
"""The wire formats: chat completions, messages, generateContent."""

WithSchema = Literal["always", "without_tools", "never"]
"""When a provider can enforce a JSON Schema; many reject a schema together with tools."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider.

    Args:
        extra: The extra of this package that must be installed.
        key_variables: Environment variables for the API key, the usual one first. Empty if servers need no key.
        base_url: None means the default of the provider's SDK, including its environment variable.
        default_model: For servers that serve only the model they were started with; empty if the caller must name a model.
        schema: When an output schema is sent to the provider.
        finish_reason: Whether every complete stream has a finish reason; then a stream without one was cut off.
        start: The command that starts a local server; `{model}` is replaced. Empty for services.
        pull: The command that downloads a missing model.
        fetches_urls: Whether the provider's own servers download files from URLs in prompts.
    """

    name: str
    dialect: Dialect
    extra: str
    key_variables: tuple[str, ...] = ()
    base_url: str | None = None
    default_model: str = ""
    schema: WithSchema = "without_tools"
    finish_reason: bool = True
    fetches_urls: bool = False
    start: str = ""
    pull: str = ""


URL_MEDIA: MappingProxyType[Dialect, tuple[str, ...]] = MappingProxyType(
    {"openai": ("image/*",), "anthropic": ("image/*", "application/pdf"), "google": ()}
)
"""Media types that can be sent by URL. pydantic-ai would download all others itself, in this process."""

_ROWS = (
    Provider("openai", "openai", "openai", ("OPENAI_API_KEY",), schema="always", fetches_urls=True),
    Provider("anthropic", "anthropic", "anthropic", ("ANTHROPIC_API_KEY",), schema="always", fetches_urls=True),
    Provider("gemini", "google", "gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    Provider("deepseek", "openai", "deepseek", ("DEEPSEEK_API_KEY",), "https://api.deepseek.com", schema="never"),
    Provider("grok", "openai", "grok", ("XAI_API_KEY", "GROK_API_KEY"), "https://api.x.ai/v1", fetches_urls=True),
    Provider(
        "huggingface",
        "openai",
        "huggingface",
        ("HF_TOKEN", "HUGGINGFACE_API_KEY"),
        "https://router.huggingface.co/v1",
        schema="never",  # depends on the server behind the router
    ),
    Provider(
        "ollama",
        "openai",
        "ollama",
        (),
        "http://localhost:11434/v1",
        start="ollama serve",
        pull="ollama pull {model}",
    ),
    Provider(
        "llama.cpp",
        "openai",
        "llama-cpp",
        (),
        "http://localhost:8080/v1",
        default_model="default",
        start="llama-server -m <file>.gguf",
    ),
    Provider(
        "lmstudio",
        "openai",
        "lmstudio",
        (),
        "http://localhost:1234/v1",
        start="lms server start",
        pull="lms get {model}",
    ),
    Provider("vllm", "openai", "vllm", (), "http://localhost:8000/v1", start="vllm serve {model}"),
    Provider("openai-compatible", "openai", "openai", (), schema="never", finish_reason=False),
)

PROVIDERS: MappingProxyType[str, Provider] = MappingProxyType({row.name: row for row in _ROWS})

ALIASES: MappingProxyType[str, str] = MappingProxyType(
    {
        "claude": "anthropic",
        "google": "gemini",
        "hf": "huggingface",
        "llama.cpp-server": "llama.cpp",
        "llamacpp": "llama.cpp",
        "lm-studio": "lmstudio",
        "openai_compatible": "openai-compatible",
        "xai": "grok",
    }
)
