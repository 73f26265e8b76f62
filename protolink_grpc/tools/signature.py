"""Reads a Python signature, resolves its annotations, and refuses parameters that cannot be passed by keyword.

It creates no schemas and calls nothing.
"""

import functools
import inspect
import types
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from protolink_grpc.models.typed_dict import readable
from protolink_grpc.tools.context import ToolContext

EMPTY: Any = inspect.Parameter.empty
"""Means that a default or annotation is missing, as in `inspect`. None would be a value."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument that a caller may send.

    Args:
        annotation: The resolved type, or `Any` without an annotation.
        default: `EMPTY` if the argument is required.
    """

    name: str
    annotation: Any
    default: Any


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """The parameters and the result of a tool's function.

    Args:
        parameters: In the order of the signature, without those that get the `ToolContext`.
        context_names: Parameters that get the `ToolContext`.
        extra: Type of the values of `**kwargs`; `EMPTY` without `**kwargs`.
        returns: The type of the result; `EMPTY` if it is missing or cannot be resolved.
        namespace: Local names of the enclosing functions, for forward references in types.
    """

    parameters: tuple[Parameter, ...]
    context_names: tuple[str, ...]
    extra: Any
    returns: Any
    namespace: dict[str, Any]


def read_signature(tool: str, fn: Callable[..., Any]) -> ToolSignature:
    """Read the signature of `fn`.

    Raises:
        TypeError: A parameter cannot be passed by name, or its annotation cannot be resolved. The message names the parameter.
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
        elif _is_context(hint):
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
        return _resolve(fn, parameter.annotation, namespace)
    except Exception as error:  # An annotation is an expression, which may raise any exception.
        raise TypeError(
            f"Tool '{tool}': the annotation of parameter '{parameter.name}' cannot be resolved: {error}"
        ) from error


def _return_hint(fn: Callable[..., Any], annotation: Any, namespace: dict[str, Any]) -> Any:
    if annotation is EMPTY:
        return EMPTY
    try:
        return _resolve(fn, annotation, namespace)
    except Exception:  # As above. A result without a type is not checked.
        return EMPTY


def _resolve(fn: Callable[..., Any], annotation: Any, namespace: dict[str, Any]) -> Any:
    # One annotation at a time, because the errors of get_type_hints do not name the parameter.
    holder = types.SimpleNamespace(__annotations__={"hint": annotation})
    module_names = getattr(unwrap_function(fn), "__globals__", {})
    hint = get_type_hints(holder, module_names, namespace, include_extras=True)["hint"]
    return readable(hint, namespace)


def unwrap_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The original function inside of partials, decorators with `wraps` and callable objects."""
    fn = strip_partials(fn)
    unwrapped: Callable[..., Any] = inspect.unwrap(fn if inspect.isroutine(fn) else type(fn).__call__)
    return unwrapped


def is_generator_function(fn: Callable[..., Any]) -> bool:
    """Return whether `fn`, or the function in its partials, is a sync or async generator function."""
    return is_any(inspect.isgeneratorfunction, fn) or is_any(inspect.isasyncgenfunction, fn)


def is_any(test: Callable[[Any], bool], fn: Callable[..., Any]) -> bool:
    """Return whether `test` holds for `fn` without its partials, or for the `__call__` of an object."""
    fn = strip_partials(fn)
    return test(fn) or test(type(fn).__call__)


def item_type(tool: str, returns: Any) -> Any:
    """Return the type of the items of a generator function with this return annotation; `EMPTY` if it has none.

    Raises:
        TypeError: The annotation is not an iterator or a generator.
    """
    if returns is EMPTY:
        return EMPTY
    if get_origin(returns) is Annotated:
        returns = get_args(returns)[0]
    if (get_origin(returns) or returns) not in _ITERATORS:
        raise TypeError(
            f"Tool '{tool}': a generator returns an Iterator or an AsyncIterator of its items, not {returns}"
        )
    return (get_args(returns) or (Any,))[0]


_ITERATORS: Final = (AsyncIterator, AsyncIterable, AsyncGenerator, Iterator, Iterable, Generator)
"""Return annotations of generator functions. The first argument of each is the type of the items."""


def strip_partials(fn: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _is_context(hint: Any) -> bool:
    if hint is ToolContext:
        return True
    origin = get_origin(hint)
    if origin is Annotated:
        return _is_context(get_args(hint)[0])
    return origin in (Union, types.UnionType) and any(_is_context(arg) for arg in get_args(hint))


def _enclosing_names(fn: Callable[..., Any]) -> dict[str, Any]:
    """Local names of the enclosing functions that still run. String annotations may refer to them."""
    names: dict[str, Any] = {}
    code = getattr(unwrap_function(fn), "__code__", None)
    frame = inspect.currentframe()
    while frame is not None:
        # A function's code is a constant of the enclosing code, so this finds the enclosing function at any call depth.
        if any(constant is code for constant in frame.f_code.co_consts) and frame.f_locals is not frame.f_globals:
            names = {**frame.f_locals, **names}
            code = frame.f_code
        frame = frame.f_back
    return names
