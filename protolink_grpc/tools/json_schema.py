"""Checks JSON values against a JSON Schema (Draft 2020-12, for tools of other systems also Draft 7). References are never fetched.

Patterns run in a regular expression engine of linear time. `schema_cost` limits the cost of external schemas. Imported only when a
schema is checked, because loading the validator is slow.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from protolink_grpc.tools.rejection import MAX_ERRORS, Problem, join_path, make_problem
from protolink_grpc.tools.schema_cost import SchemaCost, ValueTooLargeError, measure

MAX_PATTERN_BYTES = 256 * 1024
"""Maximum size of one compiled pattern. It determines the time of a match: about 5 us for each character of the text."""

_OPTIONS = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES, dfa_size_limit=MAX_PATTERN_BYTES)
_DRAFT_7 = "http://json-schema.org/draft-07/schema"
_NOT_LINEAR = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<")


class JsonSchema:
    """A compiled schema. It can be used concurrently.

    Args:
        bounded: Whether the size of the schema and the cost of checks are limited, for schemas from callers and peers.
        allow_draft_7: Whether a schema whose `$schema` names Draft 7 is checked by its rules.

    Raises:
        ValueError: The schema is invalid or too large, or refers to another document. The message is a clause that begins with a
            verb and names the place.
    """

    def __init__(self, schema: dict[str, Any], *, bounded: bool = False, allow_draft_7: bool = False) -> None:
        self._cost = SchemaCost(schema) if bounded else None
        is_draft_7 = allow_draft_7 and str(schema.get("$schema", "")).rstrip("#") == _DRAFT_7
        validator = jsonschema_rs.Draft7Validator if is_draft_7 else jsonschema_rs.Draft202012Validator
        try:
            # The retriever is called for references to anything except the schema itself and the meta-schemas.
            self._validator: jsonschema_rs.Draft7Validator | jsonschema_rs.Draft202012Validator = validator(
                schema, validate_formats=True, pattern_options=_OPTIONS, retriever=_refuse_retrieval, mask=""
            )
        except jsonschema_rs.ValidationError as error:
            raise ValueError(_describe_schema_error(schema, error)) from None
        except (ValueError, TypeError) as error:  # nested too deeply, or a string with lone surrogates
            raise ValueError(f"is not valid: {error}") from None

    def problems(self, value: object) -> list[Problem]:
        """The violations of a value, at most `MAX_ERRORS`; empty if it is valid."""
        try:
            size = measure(value)
            if self._cost is not None:
                self._cost.check(size)
            if self._validator.is_valid(value):
                return []
            if self._cost is not None and not self._cost.can_list_violations(size):
                return [
                    make_problem(
                        "", "Input does not satisfy the schema, and is too large to list the violations", "schema"
                    )
                ]
            return self._list_problems(value)
        except ValueTooLargeError as error:
            return [make_problem("", str(error), "too_large")]
        except RecursionError:
            return [make_problem("", "Arguments are nested too deeply", "recursion")]
        except ValueError:  # No valid JSON: a key that is not a string, or a string with lone surrogates.
            return [make_problem("", "Input should be JSON: keys are strings, and strings are valid Unicode", "json")]

    def _list_problems(self, value: object) -> list[Problem]:
        found: list[Problem] = []
        for error in self._validator.iter_errors(value):
            found.extend(each for each in _problems_of(error) if each not in found)
            if len(found) >= MAX_ERRORS:
                break
        return found[:MAX_ERRORS]


def _refuse_retrieval(uri: str) -> NoReturn:
    raise LookupError(uri)


def _describe_schema_error(schema: dict[str, Any], error: jsonschema_rs.ValidationError) -> str:
    path = join_path(error.instance_path)
    at = f"at '{path}'" if path else "at its top"
    match error.kind:
        case Kind.Referencing():
            return f"refers to something that is not part of it: {error.message[:200]}"
        case Kind.Format(format="regex"):
            return f"is not valid {at}: {_describe_pattern_error(str(error.instance))}"
        case _:
            return f"is not valid {at}: must satisfy {_rule(error)}"


def _describe_pattern_error(pattern: str) -> str:
    quoted = f"the pattern {pattern[:100]!r}"
    if _NOT_LINEAR.search(pattern):
        return (
            f"{quoted} uses look-around or a back-reference, which are not supported: patterns must run in linear time"
        )
    return f"{quoted} is not a regular expression, or is too large"


def _problems_of(error: jsonschema_rs.ValidationError) -> Iterator[Problem]:
    """Convert a violation. The library's own message is not used, because it repeats the value."""
    path = list(error.instance_path)
    match error.kind:
        case Kind.Required(property=name):
            yield make_problem(join_path([*path, name]), "Field required", "missing")
        case Kind.AdditionalProperties(unexpected=names):
            for name in names:
                yield make_problem(join_path([*path, name]), "Extra inputs are not permitted", "extra_forbidden")
        case Kind.FalseSchema():
            yield make_problem(join_path(path), "Input is not permitted", "forbidden")
        case kind:
            yield make_problem(join_path(path), f"Input should satisfy {_rule(error)}", kind.name)


def _rule(error: jsonschema_rs.ValidationError) -> str:
    """The keyword with its value, if that is short."""
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
