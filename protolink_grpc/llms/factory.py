"""create_llm: creates a model by the name of its provider, without network access and without importing the provider's package."""

import difflib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.mock import MockLLM, ScriptedLLM
from protolink_grpc.llms.prices import Price
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.llms.providers import ALIASES, PROVIDERS, Provider
from protolink_grpc.llms.pydantic_ai_model import PydanticAILLM
from protolink_grpc.models.arguments import checks_arguments

_LOCAL: dict[str, Callable[..., LLM]] = {"mock": MockLLM, "scripted": ScriptedLLM}


@checks_arguments
def create_llm(
    provider: str,
    model: str | None = None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    metrics_profile: LLMModelProfile | None = None,
    input_media: Sequence[str] | None = None,
    prices: Mapping[str, Price] | None = None,
    **settings: Any,
) -> LLM:
    """Create a language model.

    Args:
        provider: `mock`, `scripted`, or one of `providers.PROVIDERS`; also `provider:model`, split at the first colon.
        model: The provider's name of the model, unchanged.
        base_url: URL of another server with the provider's API; None means the provider's server, or the usual local port.
        api_key: None reads the provider's environment variable. A server at `base_url` may need none.
        metrics_profile: Facts about the model. Its provider and model are filled in if they are empty.
        input_media: As in LLMModelProfile; None leaves the profile unchanged.
        prices: Prices by the provider's name of the model. They replace those of the profile and of the table of `genai-prices`,
            which is used for hosted models that have no price here. One mapping can be shared by all models of a program.
        settings: Settings of MockLLM, ScriptedLLM or PydanticAILLM by name.

    Raises:
        InvalidArgumentError: The provider is unknown, or a required argument is missing; names the field.
        ModelError: The provider's extra is not installed.
    """
    name, model = _parse_names(provider, model)
    if name in _LOCAL:
        given = {"base_url": base_url, "api_key": api_key, "model": model}
        llm = _create_local(name, {**settings, **{key: value for key, value in given.items() if value is not None}})
    else:
        llm = _create_remote(PROVIDERS[name], model, base_url, api_key, settings)
    if metrics_profile is not None:
        known = metrics_profile
        llm.configure_metrics(known, provider=known.provider or llm.provider, model=known.model or llm.model)
    if input_media is not None:
        llm.configure_metrics(input_media=tuple(input_media))
    if prices is not None and (price := prices.get(llm.model)) is not None:
        llm.configure_metrics(**price.profile_fields)
    return llm


def _create_local(name: str, settings: dict[str, Any]) -> LLM:
    _check_settings(name, _LOCAL[name], settings)
    return _LOCAL[name](**settings)


def _create_remote(
    row: Provider, model: str | None, base_url: str | None, api_key: str | None, settings: dict[str, Any]
) -> PydanticAILLM:
    name = row.name
    _check_settings(name, PydanticAILLM, settings, hidden=("provider", "key", "model", "base_url"))
    model = model or row.default_model
    if not model:
        raise InvalidArgumentError(
            f"the provider {name} needs a model, as in create_llm('{name}:<model>')", field="model"
        )
    if not base_url and name == "openai-compatible":
        raise InvalidArgumentError("is required, for example 'http://localhost:8000/v1'", field="base_url")
    return PydanticAILLM(row, model, base_url=base_url, key=_find_key(row, base_url, api_key), **settings)


def _parse_names(provider: str, model: str | None) -> tuple[str, str | None]:
    name, colon, rest = provider.partition(":")
    if colon and model is not None:
        raise InvalidArgumentError("is also part of the provider's name; pass it only once", field="model")
    if colon and not rest.strip():
        raise InvalidArgumentError("a model must follow the colon", field="provider")
    name = name.strip().lower()
    name = ALIASES.get(name, name)
    if name not in PROVIDERS and name not in _LOCAL:
        known = [*_LOCAL, *PROVIDERS]
        raise InvalidArgumentError(
            f"unknown provider {name!r}{_suggest(name, [*known, *ALIASES])}; known providers: {', '.join(known)}",
            field="provider",
        )
    return name, rest.strip() if colon else model


def _check_settings(
    name: str, factory: Callable[..., LLM], settings: dict[str, Any], hidden: Iterable[str] = ()
) -> None:
    known = [each for each in inspect.signature(factory).parameters if each not in hidden]
    for setting in settings:
        if setting not in known:
            text = f"unknown setting of {name}{_suggest(setting, known)}; known settings: {', '.join(known)}"
            raise InvalidArgumentError(text, field=setting)
    if name == "scripted" and "steps" not in settings:
        raise InvalidArgumentError("is required", field="steps")


def _find_key(row: Provider, base_url: str | None, api_key: str | None) -> str:
    if api_key is not None:
        return api_key
    for variable in row.key_variables:
        if key := os.environ.get(variable):
            return key
    if row.key_variables and not base_url:
        raise InvalidArgumentError(
            f"the provider {row.name} needs a key: give api_key, or set {row.key_variables[0]}", field="api_key"
        )
    return ""


def _suggest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {near[0]!r}?" if near else ""
