"""Chooses the model of a demo: an offline one, or a provider's. This module sends no requests."""

import os
from dataclasses import dataclass

from protolink_grpc import LLM, ModelError, create_llm
from protolink_grpc.llms.providers import PROVIDERS

MODEL = "DEMO_MODEL"
"""Environment variable of the agents with the name of their model; the default is the demo's offline model."""

PACE_S = 0.03
"""Seconds between two words of an offline model: the speed of a fast reader."""

USUAL = {
    "openai": "gpt-5-mini",
    "anthropic": "claude-haiku-4-5",
    "gemini": "gemini-2.5-flash",
    "deepseek": "deepseek-chat",
    "grok": "grok-4-fast-non-reasoning",
}
"""The default models of providers: inexpensive ones that call tools well. `--model` selects any other."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A model's name, and why it was chosen."""

    name: str
    why: str


def provider_model(name: str) -> LLM:
    """Create the model of a provider. A provider's name alone means its default model.

    Raises:
        InvalidArgumentError, ModelError: The provider is unknown, its key is missing, or its package is not installed.
    """
    return create_llm(f"{name}:{USUAL[name]}" if name in USUAL else name)


def usual_choice(offline: Choice) -> Choice:
    """Return the model of the first provider whose key is set and whose package is installed, otherwise the offline one."""
    why = "no API key is in the environment"
    for provider, model in USUAL.items():
        key = next((each for each in PROVIDERS[provider].key_variables if os.environ.get(each)), None)
        if key is None:
            continue
        try:
            provider_model(f"{provider}:{model}")
        except ModelError as error:
            why = f"{key} is set, but {error}"
        else:
            return Choice(f"{provider}:{model}", f"{key} is set; --model {offline.name} needs no key")
    return Choice(offline.name, f"{offline.why}, because {why}")
