"""Checks arguments against a JSON Schema that the author of a tool wrote (Draft 2020-12); never fetches a reference.

Imported only when a tool brings such a schema: loading `jsonschema` takes about as long as loading everything else.
"""

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # ships no type information
from referencing import Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaRegistry, SchemaResource

from protolink_grpc.tools.rejection import MAX_ERRORS, Problem, join_path, problem

_METASCHEMAS: SchemaRegistry = REGISTRY
"""All that a schema may refer to besides itself. The default registry opens URLs; a schema may come from a stranger."""

_DURATION = re.compile(r"P(?!$)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?)")
_HOSTNAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.I)
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_TIME = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _is_date_time(text: str) -> bool:
    return bool(_DATE_TIME.fullmatch(text)) and datetime.datetime.fromisoformat(text.upper()) is not None


def _is_time(text: str) -> bool:
    return bool(_TIME.fullmatch(text)) and datetime.time.fromisoformat(text.upper()) is not None


def _is_uri(text: str) -> bool:
    return bool(urlsplit(text).scheme) and text.isascii() and not re.search(r'[\s<>"{}|\\^`]', text)


def _format_checker() -> FormatChecker:
    # Without its optional packages jsonschema lets these five pass unread, or reads `time` as an old draft did.
    checker = FormatChecker()
    for name, check in {
        "date-time": _is_date_time,
        "time": _is_time,
        "uri": _is_uri,
        "duration": lambda text: bool(_DURATION.fullmatch(text)),
        "hostname": lambda text: bool(_HOSTNAME.fullmatch(text)),
    }.items():
        # A format says nothing about values that are not text; `type` does. The default binds this round's check.
        checker.checks(name, raises=ValueError)(lambda value, check=check: not isinstance(value, str) or check(value))
    return checker


class JsonSchema:
    """One schema, compiled. Safe to use from several tasks at once.

    Raises:
        ValueError: The schema is not valid, or refers to something outside of itself.
    """

    def __init__(self, tool: str, schema: dict[str, Any]) -> None:
        try:
            Draft202012Validator.check_schema(schema)
            resource: SchemaResource = Resource.from_contents(schema, default_specification=DRAFT202012)
            _check_references(resource, _METASCHEMAS.resolver_with_root(resource))
        except SchemaError as error:
            raise ValueError(f"Tool '{tool}': input_schema is not valid: {error.message}") from error
        except Unresolvable as error:
            raise ValueError(f"Tool '{tool}': input_schema refers to '{error.ref}', which is not part of it") from error
        self._validator = Draft202012Validator(schema, registry=_METASCHEMAS, format_checker=_format_checker())

    def problems(self, arguments: Mapping[str, Any]) -> list[Problem]:
        """Each violation, at most `MAX_ERRORS`; empty when the arguments are right."""
        found: list[Problem] = []
        try:
            for error in self._validator.iter_errors(dict(arguments)):
                found.extend(p for p in _problems_of(error) if p not in found)
                if len(found) >= MAX_ERRORS:
                    break
        except RecursionError:  # A recursive schema follows the arguments down as far as they go.
            found.append(problem("", "Arguments are nested too deeply", "recursion"))
        return found[:MAX_ERRORS]


def _check_references(resource: SchemaResource, resolver: Any) -> None:
    # `resolver` is a referencing Resolver, a class without a public name.
    contents = resource.contents
    if isinstance(contents, dict):
        for keyword in ("$ref", "$dynamicRef"):
            if keyword in contents:
                resolver.lookup(contents[keyword])
    for inner in resource.subresources():
        _check_references(inner, resolver.in_subresource(inner))


def _problems_of(error: ValidationError) -> Iterator[Problem]:
    """The violation in our words: the library's own sentence repeats the value."""
    path: list[str | int] = list(error.absolute_path)
    keyword = str(error.validator)
    # Any: the stubs let these be unset, which they are only before the error is complete.
    value: Any = error.validator_value
    schema: Any = error.schema
    sent: Any = error.instance
    match keyword:
        case "required":
            for name in value:
                if name not in sent:
                    yield problem(join_path([*path, name]), "Field required", "missing")
        case "additionalProperties" if value is False:
            known = schema.get("properties", {})
            patterns = schema.get("patternProperties", {})
            for name in sent:
                if name not in known and not any(re.search(pattern, name) for pattern in patterns):
                    yield problem(join_path([*path, name]), "Extra inputs are not permitted", "extra_forbidden")
        case "None":  # The schema `false`, for which the library does not know the path.
            yield problem(join_path(path), "Input is not permitted", "forbidden")
        case _:
            yield problem(join_path(path), f"Input should satisfy {_rule(keyword, value)}", keyword)


def _rule(keyword: str, value: Any) -> str:
    # Objects are whole subschemas: their keyword is enough, and the caller has the schema.
    inner = value if isinstance(value, list) else [value]
    return keyword if any(isinstance(item, dict) for item in inner) else f"{keyword} {json.dumps(value)}"
