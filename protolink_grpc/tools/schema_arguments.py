"""Arguments that a function takes as one JSON object, checked against a JSON Schema of another system, and never converted."""

import copy
from collections.abc import Mapping
from typing import Any

from protolink_grpc.models.json_value import plain
from protolink_grpc.tools.arguments import CheckedArguments
from protolink_grpc.tools.rejection import invalid_arguments_error


class SchemaArguments:
    """The arguments of `fn(arguments, context)`. It can be used concurrently.

    Args:
        tool: The tool's name for error messages.
        input_schema: JSON Schema of the arguments. Its size and the cost of a check are limited, because others write it.
        output_schema: JSON Schema of the result, which is not checked here; empty if there is none.

    Raises:
        ValueError: `input_schema` is invalid, too large or too expensive; the message names the tool.
    """

    __slots__ = ("_schema", "input_schema", "result", "tool")

    context_names = ("context",)

    def __init__(self, tool: str, input_schema: Mapping[str, Any], output_schema: Mapping[str, Any]) -> None:
        # Loads the validator, which most tools do not need.
        from protolink_grpc.tools.json_schema import JsonSchema

        self.tool = tool
        self.input_schema: dict[str, Any] = copy.deepcopy(dict(input_schema))
        self.result = SchemaResult(copy.deepcopy(dict(output_schema)))
        try:
            self._schema = JsonSchema(self.input_schema, bounded=True, allow_draft_7=True)
        except ValueError as error:
            raise ValueError(f"Tool '{tool}': input_schema {error}") from None

    def contract_schema(self) -> dict[str, Any]:
        return self.input_schema

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of the function.

        Raises:
            ToolRejectedError: `invalid_arguments`; `details["errors"]` names each path, never a value.
        """
        value = dict(arguments)
        if problems := self._schema.problems(value):
            raise invalid_arguments_error(self.tool, problems)
        return {"arguments": plain(value)}

    def check(self, arguments: Mapping[str, Any]) -> CheckedArguments:
        """As `validate`, together with the JSON form."""
        keywords = self.validate(arguments)
        return CheckedArguments(keywords, plain(keywords["arguments"]))


class SchemaResult:
    """The result of such a function. Its sender has checked it."""

    __slots__ = ("output_schema",)

    def __init__(self, output_schema: dict[str, Any]) -> None:
        self.output_schema = output_schema

    def contract_schema(self) -> dict[str, Any]:
        return self.output_schema

    def convert(self, result: Any) -> Any:
        """Return the result unchanged."""
        return result
