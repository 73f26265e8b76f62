"""The interface of a tool's arguments and result: `schema` implements it with pydantic, `schema_arguments` with a JSON Schema only.

It imports neither, so that an agent without tools does not load pydantic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class CheckedArguments:
    """Checked arguments of a function.

    Args:
        keywords: The keyword arguments, converted to the function's types and completed with its defaults.
        as_json: The same as JSON, with the names that callers use, for policies, approvers and logs. A value whose type has no
            JSON form, or hides it, has the form in which it was sent.
    """

    keywords: dict[str, Any]
    as_json: dict[str, Any]


class ToolResult(Protocol):
    """The result of one function.

    Attributes:
        output_schema: JSON Schema of the result; empty if results are not checked.
    """

    output_schema: dict[str, Any]

    def contract_schema(self) -> dict[str, Any]:
        """Return the schema for typed services: of the result, or of each item of a generator function."""

    def convert(self, result: Any) -> Any:
        """Return the result or item, converted to its declared type.

        Raises:
            ValueError: The result cannot be converted; the message names the type and the paths.
        """


class ToolArguments(Protocol):
    """The arguments of one function.

    Attributes:
        input_schema: JSON Schema of the arguments, an object.
        context_names: Names of the parameters that get the tool's context.
    """

    input_schema: dict[str, Any]

    @property
    def context_names(self) -> Sequence[str]: ...

    @property
    def result(self) -> ToolResult: ...

    def contract_schema(self) -> dict[str, Any]:
        """Return the schema for typed services."""

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of the function.

        Raises:
            ToolRejectedError: `invalid_arguments`; `details["errors"]` names each path, never a value.
        """

    def check(self, arguments: Mapping[str, Any]) -> CheckedArguments:
        """As `validate`, together with the JSON form."""


def item_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of the items of a list; empty if the schema states none."""
    items = schema.get("items")
    if not isinstance(items, dict):
        return {}
    return {**items, **({"$defs": schema["$defs"]} if "$defs" in schema else {})}
