"""Reads a Python signature with its annotations resolved, and refuses what cannot be called by keyword.

No schema is made here, and nothing is called.
"""

import functools
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from protolink_grpc.models.typed_dict import readable
from protolink_grpc.tools.context import ToolContext

EMPTY: Any = inspect.Parameter.empty
"""Marks an absent default or annotation, as `inspect` does; None would be a value."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument that a caller may send.

    Args:
        annotation: The resolved type, `Any` where the signature says nothing.
        default: `EMPTY` when the argument is required.
    """

    name: str
    annotation: Any
    default: Any


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """What a tool's function takes and returns.

    Args:
        parameters: In the order of the signature, without those that the runtime fills.
        context_names: Parameters that take the `ToolContext`.
        extra: Type of the values of `**kwargs`, `EMPTY` when there is none.
        returns: `EMPTY` when absent or not resolvable.
        namespace: Local names of the functions around the tool's, for forward references inside its types.
    """

    parameters: tuple[Parameter, ...]
    context_names: tuple[str, ...]
    extra: Any
    returns: Any
    namespace: dict[str, Any]


def read_signature(tool: str, fn: Callable[..., Any]) -> ToolSignature:
    """The signature of `fn`.

    Raises:
        TypeError: A parameter cannot be sent by name, or its annotation cannot be resolved; the text names both.
    """
    try:
        signature = inspect.signature(fn)
    except ValueError as error:
        raise TypeError(f"Tool '{tool}': {error}") from error
    namespace = _enclosing_names(fn)
    parameters: list[Parameter] = []
    context_names: list[str] = []
    extra = EMPTY
    for name, parameter in signature.parameters.items():
        hint = _parameter_hint(tool, fn, parameter, namespace)
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = hint
        elif _takes_context(hint):
            context_names.append(name)
        else:
            parameters.append(Parameter(name, hint, parameter.default))
    returns = _return_hint(fn, signature.return_annotation, namespace)
    return ToolSignature(tuple(parameters), tuple(context_names), extra, returns, namespace)


def _parameter_hint(tool: str, fn: Callable[..., Any], parameter: inspect.Parameter, namespace: dict[str, Any]) -> Any:
    if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        kind = "variadic" if stars else "positional-only"
        raise TypeError(f"Tool '{tool}': parameter '{stars}{parameter.name}' is {kind}; tools are called by name")
    if parameter.annotation is EMPTY:
        return Any
    try:
        return _resolved(fn, parameter.annotation, namespace)
    except Exception as error:  # An annotation is an expression: evaluating it may raise anything.
        raise TypeError(
            f"Tool '{tool}': the annotation of parameter '{parameter.name}' cannot be resolved: {error}"
        ) from error


def _return_hint(fn: Callable[..., Any], annotation: Any, namespace: dict[str, Any]) -> Any:
    if annotation is EMPTY:
        return EMPTY
    try:
        return _resolved(fn, annotation, namespace)
    except Exception:  # As above; an output that cannot be described is not promised, which harms nobody.
        return EMPTY


def _resolved(fn: Callable[..., Any], annotation: Any, namespace: dict[str, Any]) -> Any:
    # One annotation at a time, because get_type_hints does not say which one it failed on.
    holder = types.SimpleNamespace(__annotations__={"hint": annotation})
    module_names = getattr(underlying(fn), "__globals__", {})
    hint = get_type_hints(holder, module_names, namespace, include_extras=True)["hint"]
    return readable(hint, namespace)


def underlying(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function written by a person, under partials, decorators that used `wraps`, and callable objects."""
    fn = without_partials(fn)
    unwrapped: Callable[..., Any] = inspect.unwrap(fn if inspect.isroutine(fn) else type(fn).__call__)
    return unwrapped


def without_partials(fn: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _takes_context(hint: Any) -> bool:
    if hint is ToolContext:
        return True
    origin = get_origin(hint)
    if origin is Annotated:
        return _takes_context(get_args(hint)[0])
    return origin in (Union, types.UnionType) and any(_takes_context(arg) for arg in get_args(hint))


def _enclosing_names(fn: Callable[..., Any]) -> dict[str, Any]:
    """Local names of the functions that define `fn` and still run: a string annotation may mean one of them."""
    names: dict[str, Any] = {}
    wanted = getattr(underlying(fn), "__code__", None)
    frame = inspect.currentframe()
    while frame is not None:
        # A function's code is a constant of the code around it, so this finds the definer at any call depth.
        if any(constant is wanted for constant in frame.f_code.co_consts) and frame.f_locals is not frame.f_globals:
            names = {**frame.f_locals, **names}
            wanted = frame.f_code
        frame = frame.f_back
    return names
