"""Chooses the coordinator's model: the planner, or a provider's. This module sends no requests."""

import os
from dataclasses import dataclass

from examples.vacation.planner import Planner
from protolink_grpc import LLM, ModelError, create_llm
from protolink_grpc.llms.providers import PROVIDERS

MODEL = "VACATION_MODEL"
"""Environment variable of the coordinator with the name of its model; the default is the planner."""

PLANNER = "planner"
RULES = "rules in place of a language model"
PACE_S = 0.03
"""Seconds between two words of the planner: the speed of a fast reader."""

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


def thinker(name: str | None = None) -> LLM:
    """Create the model with that name, by default the one in the environment. A provider's name alone means its default model.

    Raises:
        InvalidArgumentError, ModelError: The provider is unknown, its key is missing, or its package is not installed.
    """
    name = name or os.environ.get(MODEL, PLANNER)
    if name == PLANNER:
        return Planner(PACE_S)
    return create_llm(f"{name}:{USUAL[name]}" if name in USUAL else name)


def usual_choice() -> Choice:
    """Return the model of the first provider whose key is set and whose package is installed, otherwise the planner."""
    why = "no API key is in the environment"
    for provider, model in USUAL.items():
        key = next((each for each in PROVIDERS[provider].key_variables if os.environ.get(each)), None)
        if key is None:
            continue
        try:
            thinker(f"{provider}:{model}")
        except ModelError as error:
            why = f"{key} is set, but {error}"
        else:
            return Choice(f"{provider}:{model}", f"{key} is set; --model {PLANNER} needs no key")
    return Choice(PLANNER, f"{RULES}, because {why}")
