"""Checks JSON values against a JSON Schema (Draft 2020-12); never fetches a reference.

Patterns run in a regular expression engine whose time is linear in the text. What a schema from outside of this program may cost is
bounded in `schema_cost`. Imported only where a schema is checked, because loading the validator takes a while.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from protolink_grpc.tools.rejection import MAX_ERRORS, Problem, join_path, problem
from protolink_grpc.tools.schema_cost import SchemaCost, ValueTooLargeError, measure

MAX_PATTERN_BYTES = 256 * 1024
"""Bound of one compiled pattern. The time of a match grows with it: about 5 us for each character of the text at this size."""

_OPTIONS = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES, dfa_size_limit=MAX_PATTERN_BYTES)
_NOT_LINEAR = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<")


class JsonSchema:
    """One schema, compiled. Safe to use from several tasks at once.

    Args:
        bounded: The schema is from outside of this program: its size and what a check of a value may cost are bounded.

    Raises:
        ValueError: The schema is not valid, refers to something outside of itself, or is too large; one clause that begins with
            a verb and names the place.
    """

    def __init__(self, schema: dict[str, Any], *, bounded: bool = False) -> None:
        self._cost = SchemaCost(schema) if bounded else None
        try:
            # A reference to anything but the schema itself and the meta-schemas asks the retriever.
            self._validator = jsonschema_rs.Draft202012Validator(
                schema, validate_formats=True, pattern_options=_OPTIONS, retriever=_refuse_retrieval, mask=""
            )
        except jsonschema_rs.ValidationError as error:
            raise ValueError(_schema_error(schema, error)) from None
        except (ValueError, TypeError) as error:  # nested too deeply, or text that is not Unicode
            raise ValueError(f"is not valid: {error}") from None

    def problems(self, value: object) -> list[Problem]:
        """Each violation, at most `MAX_ERRORS`; empty when the value is right."""
        try:
            size = measure(value)
            if self._cost is not None:
                self._cost.check(size)
            if self._validator.is_valid(value):
                return []
            if self._cost is not None and not self._cost.can_list_violations(size):
                return [problem("", "Input does not satisfy the schema, and is too large to list why", "schema")]
            return self._listed(value)
        except ValueTooLargeError as error:
            return [problem("", str(error), "too_large")]
        except RecursionError:
            return [problem("", "Arguments are nested too deeply", "recursion")]
        except ValueError:  # What JSON cannot say: a key that is no text, text that is not Unicode.
            return [problem("", "Input should be JSON: keys are text, and text is valid Unicode", "json")]

    def _listed(self, value: object) -> list[Problem]:
        found: list[Problem] = []
        for error in self._validator.iter_errors(value):
            found.extend(each for each in _problems_of(error) if each not in found)
            if len(found) >= MAX_ERRORS:
                break
        return found[:MAX_ERRORS]


def _refuse_retrieval(uri: str) -> NoReturn:
    raise LookupError(uri)


def _schema_error(schema: dict[str, Any], error: jsonschema_rs.ValidationError) -> str:
    path = join_path(error.instance_path)
    at = f"at '{path}'" if path else "at its top"
    match error.kind:
        case Kind.Referencing():
            return f"refers to something that is not part of it: {error.message[:200]}"
        case Kind.Format(format="regex"):
            return f"is not valid {at}: {_pattern_error(str(error.instance))}"
        case _:
            return f"is not valid {at}: must satisfy {_rule(error)}"


def _pattern_error(pattern: str) -> str:
    shown = f"the pattern {pattern[:100]!r}"
    if _NOT_LINEAR.search(pattern):
        return (
            f"{shown} uses look-around or a back-reference, which are not supported: patterns must run in linear time"
        )
    return f"{shown} is not a regular expression, or is too large"


def _problems_of(error: jsonschema_rs.ValidationError) -> Iterator[Problem]:
    """The violation in our words: the library's own sentence repeats the value."""
    path = list(error.instance_path)
    match error.kind:
        case Kind.Required(property=name):
            yield problem(join_path([*path, name]), "Field required", "missing")
        case Kind.AdditionalProperties(unexpected=names):
            for name in names:
                yield problem(join_path([*path, name]), "Extra inputs are not permitted", "extra_forbidden")
        case Kind.FalseSchema():
            yield problem(join_path(path), "Input is not permitted", "forbidden")
        case kind:
            yield problem(join_path(path), f"Input should satisfy {_rule(error)}", kind.name)


def _rule(error: jsonschema_rs.ValidationError) -> str:
    """The keyword with what it demands, where that is short: a caller has the schema."""
    match error.kind:
        case Kind.Type(types=types):
            return f"type {json.dumps(types[0] if len(types) == 1 else types)}"
        case Kind.Enum(options=value) | Kind.Constant(expected_value=value):
            plain = not isinstance(value, dict) and not any(
                isinstance(each, dict) for each in (value if isinstance(value, list) else ())
            )
            return f"{error.kind.name} {json.dumps(value)}" if plain else error.kind.name
        case Kind.Pattern(pattern=value) | Kind.Format(format=value):
            return f"{error.kind.name} {json.dumps(value)}"
        case Kind.MultipleOf(multiple_of=number):
            return f"{error.kind.name} {number}"
        case kind if "limit" in (demands := kind.as_dict()):
            return f"{kind.name} {demands['limit']}"
        case kind:
            return kind.name
