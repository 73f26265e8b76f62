"""Makes `typing.TypedDict` readable for pydantic on Python 3.11; nothing else is changed, nothing is validated.

pydantic refuses that class below Python 3.12 because it lost facts there that later versions keep. What is lost can be
read from the resolved annotations, so an equal class of `typing_extensions` is built from those.
"""

import collections.abc
import functools
import operator
import sys
import types
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import typing_extensions

_MAKE: Any = typing_extensions.TypedDict
"""Untyped, because a type checker follows the functional form only with literal names."""


def readable(hint: Any, namespace: dict[str, Any]) -> Any:
    """The same type with each TypedDict in it, at any depth, in the form that pydantic reads."""
    if sys.version_info >= (3, 12):
        return hint
    return _convert(hint, namespace, {})


def _convert(hint: Any, namespace: dict[str, Any], seen: dict[Any, Any]) -> Any:
    if is_typeddict(hint) and type(hint).__module__ == "typing":
        return seen.get(hint) or _clone(hint, namespace, seen)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (None, Literal, collections.abc.Callable):
        return hint
    if origin is Annotated:
        inner = _convert(args[0], namespace, seen)
        return hint if inner is args[0] else Annotated[(inner, *hint.__metadata__)]
    converted = tuple(_convert(arg, namespace, seen) for arg in args)
    if all(new is old for new, old in zip(converted, args, strict=True)):
        return hint
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, converted)
    return hint.copy_with(converted) if hasattr(hint, "copy_with") else origin[converted]


def _clone(cls: Any, namespace: dict[str, Any], seen: dict[Any, Any]) -> Any:
    clone = seen[cls] = _MAKE(cls.__name__, {})
    clone.__module__, clone.__doc__ = cls.__module__, cls.__doc__
    if hasattr(cls, "__pydantic_config__"):
        clone.__pydantic_config__ = cls.__pydantic_config__
    # Filled after it is in `seen`, because a recursive class meets itself here.
    for key, hint in get_type_hints(cls, localns=namespace, include_extras=True).items():
        qualifier = get_origin(hint)
        if qualifier in (Required, NotRequired):
            hint = get_args(hint)[0]  # noqa: PLW2901 - the qualifier is put back below
        else:
            qualifier = Required if key in cls.__required_keys__ else NotRequired
        clone.__annotations__[key] = qualifier[_convert(hint, namespace, seen)]
    return clone
