"""Type checks of the arguments of public functions against their annotations, with an error that names the argument.

Only the type of a value and of the items of a list or tuple is checked; the function checks its range.
"""

import collections.abc
import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from protolink_grpc.errors import InvalidArgumentError

T = TypeVar("T", bound=type[Any])
F = TypeVar("F", bound=Callable[..., Any])

_Test = Callable[[Any], bool]
_Rule = tuple[frozenset[type], _Test]
"""The check of an argument: classes whose direct instances are accepted, and a test for all other values."""


@overload
def checks_arguments(target: T) -> T: ...
@overload
def checks_arguments(target: F) -> F: ...
def checks_arguments(target: Any) -> Any:
    """Decorate a function, or a class with its constructor and all of its public methods.

    A call with an argument of another kind than its annotation raises InvalidArgumentError, which names the argument. Annotations
    that cannot be resolved, and those of `*args` and `**kwargs`, are not checked.
    """
    if not isinstance(target, type):
        return _with_check(target)
    # A data class without `__post_init__` only stores its arguments, so its constructor is not checked.
    stores = dataclasses.is_dataclass(target) and not hasattr(target, "__post_init__") and "__init__" in vars(target)
    for name, member in list(vars(target).items()):
        if name.startswith("_") and (name != "__init__" or stores):
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(target, name, type(member)(_with_check(member.__func__)))
        elif inspect.isfunction(member):
            setattr(target, name, _with_check(member))
    return target


def checks_fields(target: T) -> T:
    """Decorate a data class whose constructor checks its values, as `checks_arguments` does for a function."""
    target.__init__ = _with_check(target.__init__)
    return target


def _with_check(function: Callable[..., Any]) -> Callable[..., Any]:
    if all(name == "return" or annotation in (Any, object) for name, annotation in function.__annotations__.items()):
        return function
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    by_name: dict[str, _Rule] = {}
    by_place: list[_Rule] = []

    def read_annotations() -> None:
        # Annotations may name classes that are defined later, so they are resolved at the first call.
        by_name.update({name: (_plain_kinds(hint), _test(hint)) for name, hint in _hints(function)})
        by_place.extend(by_name.get(name, _NO_RULE) for name in (*names, ""))

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not by_place:
            read_annotations()
        for value, (kinds, test) in zip(args, by_place, strict=False):
            if value.__class__ not in kinds and test is not _anything and not test(value):
                raise _argument_error(names, args, by_place, function)
        for name, value in kwargs.items():
            kinds, test = by_name.get(name, _NO_RULE)
            if value.__class__ not in kinds and not test(value):
                raise _error(name, function, value)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wait(*args: Any, **kwargs: Any) -> Any:
            check(args, kwargs)
            return await function(*args, **kwargs)

        return wait

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        return function(*args, **kwargs)

    return call


def _argument_error(
    names: Sequence[str], args: Sequence[Any], rules: Sequence["_Rule"], function: Callable[..., Any]
) -> InvalidArgumentError:
    """Return the error of the first positional argument with a wrong type."""
    found = zip(names, args, rules, strict=False)
    name, value = next((name, value) for name, value, (_, test) in found if not test(value))
    return _error(name, function, value)


def _error(name: str, function: Callable[..., Any], value: Any) -> InvalidArgumentError:
    return _kind_error(name, dict(_hints(function))[name], value)


def _kind_error(name: str, hint: Any, value: Any) -> InvalidArgumentError:
    for each in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        item = _item_hint(each)
        if item is not None and isinstance(value, list | tuple) and isinstance(value, get_origin(each)):
            test = _test(item)
            for index, one in enumerate(value):
                if not test(one):
                    return _kind_error(f"{name}[{index}]", item, one)
    kinds = list(dict.fromkeys(_names(hint)))
    listed = " or ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)
    kind = "None" if value is None else value if isinstance(value, type) else type(value).__name__
    found = repr(value)[:50] if _is_literal(hint) and isinstance(value, str) else f"{kind}"
    return InvalidArgumentError(f"must be {listed}, not {found}{_missing(hint, value)}", field=name)


def _missing(hint: Any, value: Any) -> str:
    """Return the end of an error message that names the first missing member, if exactly one protocol is expected; else ""."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    wanted = [each for each in kinds if each is not type(None)]
    if value is None or isinstance(value, type) or len(wanted) != 1 or not getattr(wanted[0], "_is_protocol", False):
        return ""
    return f", which has no {next(name for name in _members(wanted[0]) if not hasattr(value, name))}"


def _hints(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """The annotations of the parameters that can be resolved."""
    for name, annotation in function.__annotations__.items():
        holder = types.SimpleNamespace(__annotations__={"hint": annotation})
        try:
            hint = get_type_hints(holder, function.__globals__)["hint"]
        except Exception:  # noqa: S112 -- an annotation is an expression, and may name what is not imported here
            continue
        if name != "return":
            yield name, hint


def _anything(_: Any) -> bool:
    return True


_NO_RULE: "_Rule" = (frozenset(), _anything)


def _plain_kinds(hint: Any) -> frozenset[type]:
    """Return the classes whose direct instances are accepted without a further test: the common case, cheap to check."""
    if hint is None:
        return frozenset((type(None),))
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return frozenset().union(*map(_plain_kinds, get_args(hint)))
    if isinstance(origin, type) and origin is not type:
        # `_container` tests the items of lists and tuples only.
        kinds = (dict, set, frozenset, *((list, tuple) if _item_hint(hint) in (None, Any, object) else ()))
        return frozenset(kind for kind in kinds if issubclass(kind, origin))
    if isinstance(hint, type) and origin is None and hint is not object and not getattr(hint, "_is_protocol", False):
        return frozenset((hint, int)) if hint is float else frozenset((hint,))
    return frozenset()


def _test(hint: Any) -> _Test:
    """Return a test of whether a value has the annotated type; `_anything` if this cannot be checked."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        return lambda value: value is None
    if isinstance(hint, TypeVar):
        return _anything if hint.__bound__ is None else _test(hint.__bound__)
    if origin is Annotated:
        return _test(args[0])
    if origin in (Union, types.UnionType):
        return _any_of([_test(each) for each in args])
    if origin is Literal:
        return lambda value: isinstance(value, str | int | None) and value in args
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        return callable
    if origin is type:
        return lambda value: isinstance(value, type) or get_origin(value) is not None
    if isinstance(origin, type):
        return _container(hint)
    if not isinstance(hint, type) or hint in (Any, object):
        return _anything
    if getattr(hint, "_is_protocol", False):
        return _implements(hint)
    if hint is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return lambda value: isinstance(value, int | float) and not isinstance(value, bool)
    return lambda value: isinstance(value, hint)


def _any_of(tests: list[_Test]) -> _Test:
    if _anything in tests:
        return _anything
    return lambda value: any(test(value) for test in tests)


def _container(hint: Any) -> _Test:
    origin, item = get_origin(hint), _item_hint(hint)
    each = _anything if item is None else _test(item)

    def test(value: Any) -> bool:
        if not isinstance(value, origin):
            return False
        # A str is an iterable of its characters: it passes only if the items may be str.
        return each is _anything or not isinstance(value, list | tuple | str | bytes) or all(map(each, value))

    return test


def _item_hint(hint: Any) -> Any:
    """Return the annotation of a container's items; None if they have several annotations, or if it is not a container."""
    args = get_args(hint)
    is_container = isinstance(get_origin(hint), type) and (len(args) == 1 or args[1:] == (...,))
    return args[0] if is_container else None


def _implements(protocol: type[Any]) -> _Test:
    """Return a test of whether a value has all members of a protocol; signatures are not checked."""
    wanted = _members(protocol)
    return lambda value: not isinstance(value, type) and all(hasattr(value, name) for name in wanted)


def _members(protocol: type[Any]) -> list[str]:
    return [
        name
        for kind in protocol.__mro__
        if getattr(kind, "_is_protocol", False) and kind.__module__ != "typing"
        for name in (*vars(kind), *vars(kind).get("__annotations__", {}))
        if name == "__call__" or not name.startswith("_")
    ]


def _names(hint: Any) -> Iterator[str]:
    origin, args = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        yield "None"
    elif origin is Annotated:
        yield from _names(args[0])
    elif origin in (Union, types.UnionType):
        for each in args:
            yield from _names(each)
    elif origin is Literal:
        yield from map(repr, args)
    elif origin is collections.abc.Callable:
        yield "a function"
    elif isinstance(origin, type) and args and origin is not type:
        yield f"{origin.__name__} of {' or '.join(_names(args[0]))}" if len(args) == 1 else origin.__name__
    else:
        yield getattr(hint, "__name__", str(hint))


def _is_literal(hint: Any) -> bool:
    return get_origin(hint) is Literal or any(_is_literal(each) for each in get_args(hint))
