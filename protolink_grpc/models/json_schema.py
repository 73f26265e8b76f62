"""JSON Schemas of applications: a schema, or a type that pydantic describes. `OutputType` also converts answers to such a type."""

from collections.abc import Mapping
from typing import Any, Generic, TypeAlias, TypeVar, get_origin

from typing_extensions import TypeAliasType

from protolink_grpc.errors import InvalidAgentResponseError, InvalidArgumentError
from protolink_grpc.models.json_text import strip_code_fence, strip_thinking, try_parse_json
from protolink_grpc.models.json_value import JsonValue, plain, to_json

SchemaLike: TypeAlias = Mapping[str, Any] | type[Any]
"""A JSON Schema, or a type that pydantic describes: a model, a dataclass, a TypedDict, `list[Model]`, and so on."""

T = TypeVar("T")

MAX_PROBLEMS = 5
"""Maximum number of problems that an error about an answer lists."""


def json_schema_of(given: Any, *, field: str) -> dict[str, Any]:
    """Return the schema itself, or the schema of the type.

    Raises:
        InvalidArgumentError: It is neither, or no schema can describe the type; names `field`.
    """
    if not isinstance(given, Mapping):
        return OutputType[Any](given, field=field).schema
    try:
        schema: dict[str, Any] = plain(dict(given))
    except (TypeError, InvalidArgumentError) as error:
        raise InvalidArgumentError(f"must be JSON: {error}", field=field) from None
    return schema


class OutputType(Generic[T]):
    """A type of answers: its JSON Schema, and the conversion of JSON values to it.

    Args:
        kind: A type that pydantic describes: a model, a dataclass, a TypedDict, an Enum, `int`, `list[Model]`, a Literal, a union.
        field: The name of the argument, for errors.

    Attributes:
        name: The name of the type, for people.
        schema: The JSON Schema of the values that `convert` accepts.

    Raises:
        InvalidArgumentError: It is not a type, or no schema can describe it; names `field` and the type.
    """

    def __init__(self, kind: Any, *, field: str = "output_type") -> None:
        if not _is_type(kind):
            found = type(kind).__name__
            raise InvalidArgumentError(
                f"must be {'' if field == 'output_type' else 'a JSON Schema or '}a type, such as a pydantic model, a dataclass "
                f"or a TypedDict, not {found}",
                field=field,
            )
        # Both take a while to load, and clients without typed results do not need them.
        from pydantic import TypeAdapter

        from protolink_grpc.models.typed_dict import readable

        self.name = kind.__name__ if isinstance(kind, type) and get_origin(kind) is None else str(kind)
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(readable(kind, {}))
            self.schema: dict[str, Any] = self._adapter.json_schema()
        except Exception as error:  # pydantic has several kinds for this, and a type may bring hooks that raise others.
            reason = str(error).partition("\n")[0]
            raise InvalidArgumentError(f"no JSON Schema can describe {self.name}: {reason}", field=field) from error

    def convert(self, value: JsonValue, **metadata: str) -> T:
        """Return a JSON value as an instance of the type. A text may also contain the value as JSON, for instance in a code fence.

        Args:
            metadata: Added to the metadata of the error.

        Raises:
            InvalidAgentResponseError: It is not valid; names the paths of the problems. `metadata["field"]` is the first path.
        """
        try:
            return self._validate(value, metadata)
        except InvalidAgentResponseError:
            found = try_parse_json(strip_code_fence(strip_thinking(value))) if isinstance(value, str) else None
            if found is None:
                raise
        return self._validate(found, metadata)

    def _validate(self, value: JsonValue, metadata: dict[str, str]) -> T:
        from pydantic import ValidationError

        try:
            # As JSON, because a strict model accepts the JSON form of a date, but not a text as a date.
            return self._adapter.validate_json(to_json(value))
        except ValidationError as error:
            problems = [
                (_path(each["loc"]), each["msg"]) for each in error.errors(include_url=False, include_input=False)
            ]
        listed = "; ".join(f"{path}: {message}" for path, message in problems[:MAX_PROBLEMS])
        more = f"; and {len(problems) - MAX_PROBLEMS} more" if len(problems) > MAX_PROBLEMS else ""
        raise InvalidAgentResponseError(
            f"the answer is not a valid {self.name}: {listed}{more}",
            field=problems[0][0],
            output_type=self.name,
            **metadata,
        )


def _is_type(kind: Any) -> bool:
    is_alias = isinstance(kind, TypeAliasType) or hasattr(kind, "__supertype__")  # `type Name = ...` and NewType
    return isinstance(kind, type) or get_origin(kind) is not None or is_alias


def _path(location: tuple[int | str, ...]) -> str:
    """Return the path of a value in an answer: `answer.days[2].high`."""
    return "answer" + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in location)
