"""Loads agents and functions that a command names as `module:attribute`."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from protolink_grpc.agent import Agent
from protolink_grpc.cli.connect import nearest
from protolink_grpc.cli.failure import CommandError, usage_error


def load_agent(target: str) -> Agent:
    """Load the agent at `module:attribute`: an Agent, a subclass of Agent, or a function that returns an Agent.

    Raises:
        CommandError: The module or the attribute does not exist, or the attribute is of another type.
    """
    return _as_agent(load_attribute(target), target)


def load_attribute(target: str) -> Any:
    """Load the attribute at `module:attribute`.

    Raises:
        CommandError: The module or the attribute does not exist.
    """
    module_name, separator, attribute = target.partition(":")
    if not separator or not module_name or not attribute:
        raise usage_error(f"{target!r} is not module:attribute", "for instance examples.weather:agent")
    return _find_attribute(_import_module(module_name), attribute, target)


def _import_module(name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            hint = f"{name.removesuffix('.py').replace('/', '.')} without .py" if name.endswith(".py") else ""
            hint = hint or f"Python searched {os.getcwd()} and its installed packages"
            raise CommandError(f"module {error.name!r} not found", hint=hint, code="MODULE_NOT_FOUND") from error
        raise _import_error(name, error) from error
    except Exception as error:
        raise _import_error(name, error) from error


def _import_error(name: str, error: Exception) -> CommandError:
    text = f"importing {name} failed: {type(error).__name__}: {error}"
    return CommandError(text, hint="--debug shows the traceback", code="MODULE_FAILED")


def _find_attribute(module: ModuleType, path: str, target: str) -> Any:
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            near = nearest(name, [each for each in dir(found) if not each.startswith("_")]) or _agents_of(found)
            hint = f"did you mean {near!r}?" if near else ""
            raise CommandError(f"{target.partition(':')[0]} has no {name!r}", hint=hint, code="ATTRIBUTE_NOT_FOUND")
        found = getattr(found, name)
    return found


def _agents_of(module: Any) -> str:
    """Return the name of the first agent in a module, for a hint."""
    return next((name for name, value in vars(module).items() if isinstance(value, Agent)), "")


def _as_agent(found: Any, target: str) -> Agent:
    if callable(found) and not isinstance(found, Agent):
        found = _call_factory(found, target)
    if isinstance(found, Agent):
        return found
    kind = type(found).__name__
    raise CommandError(
        f"{target} is not an Agent but {kind}",
        hint="pass an Agent, a subclass of Agent, or a function that returns an Agent",
    )


def _call_factory(factory: Callable[[], Any], target: str) -> Any:
    if inspect.isclass(factory) and not issubclass(factory, Agent):
        raise CommandError(f"{target} is a class, but not a subclass of Agent", hint="derive it from Agent")
    missing = _required_arguments(factory)
    if missing:
        hint = "write a function without arguments that creates the agent, and pass that function"
        raise CommandError(f"{target} needs arguments: {', '.join(missing)}", hint=hint)
    try:
        return factory()
    except Exception as error:
        raise CommandError(
            f"{target}() failed: {type(error).__name__}: {error}", hint="--debug shows the traceback"
        ) from error


def _required_arguments(factory: Callable[..., Any]) -> list[str]:
    positional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        each.name
        for each in inspect.signature(factory).parameters.values()
        if each.default is inspect.Parameter.empty and each.kind not in positional
    ]
