"""Derives a JSON Schema from a Python signature, and checks arguments against it. It does not call the function.

pydantic checks the arguments: at registration the parameters become the fields of one model. The fields have neutral names, and
the parameters' names as aliases, so that a parameter may be named `schema`, `copy` or `_x`.
"""

import copy
import types
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import ErrorDetails, SchemaSerializer, SchemaValidator, core_schema

from protolink_grpc.models.json_value import plain, to_json
from protolink_grpc.tools.arguments import CheckedArguments, item_schema
from protolink_grpc.tools.rejection import (
    MAX_ERRORS,
    Problem,
    invalid_arguments_error,
    join_path,
    make_problem,
    mask_values,
)
from protolink_grpc.tools.signature import (
    EMPTY,
    Parameter,
    ToolSignature,
    is_generator_function,
    item_type,
    read_signature,
)

_OPAQUE_KEYS = frozenset({"default", "metadata", "expected", "members", "cls"})
"""Keys of a core schema whose values are the user's objects, not schemas."""

_JSON_SCALARS = frozenset({str, int, bool, type(None)})
"""Types whose values are valid JSON. Float is not among them because of NaN and infinity."""

_CLASSES = frozenset({"model", "dataclass", "typed-dict"})
"""Node types of a core schema for classes with fields."""

MAX_FOUND = 1000
"""The number of violations that are converted. Each takes about 10 us, and a request may contain a million."""


class ArgumentModel:
    """The parameters of one function: their JSON Schema, and the check of arguments. It can be used concurrently.

    Args:
        tool: The tool's name for error messages.
        fn: The function. Its annotations are read once, here.
        input_schema: JSON Schema that replaces the derived one. Arguments must satisfy it first, and then the signature;
            parameters with types that no schema can describe then accept any value.
        documented: Descriptions of parameters from the docstring, by name. Those of annotations and `input_schema` have priority.

    Raises:
        TypeError: A parameter cannot be described or sent; the message names it.
        ValueError: `input_schema` is not a valid schema.
    """

    __slots__ = (
        "_documented",
        "_explicit",
        "_model",
        "_names",
        "_reserved",
        "_schemas",
        "_secret_names",
        "_serializer",
        "_validator",
        "_wire_names",
        "context_names",
        "input_schema",
        "result",
        "tool",
    )

    def __init__(
        self,
        tool: str,
        fn: Callable[..., Any],
        input_schema: Mapping[str, Any] | None = None,
        documented: Mapping[str, str] = types.MappingProxyType({}),
    ) -> None:
        signature = read_signature(tool, fn)
        self._schemas = schemas = _build_schemas(tool, signature, lenient=input_schema is not None)
        self._documented = documented
        self.tool = tool
        self.context_names = signature.context_names
        self.result = ResultModel(tool, signature, streams=is_generator_function(fn))
        self.input_schema: dict[str, Any]
        self._explicit: Callable[[Mapping[str, Any]], list[Problem]] | None = None
        if input_schema is None:
            self.input_schema = dict(schemas.input_schema)
            self.input_schema.setdefault("required", [])
            _describe_properties(self.input_schema, schemas.parameters, documented)
        else:
            # Loads the validator, which most tools do not need.
            from protolink_grpc.tools.json_schema import JsonSchema

            self.input_schema = copy.deepcopy(dict(input_schema))
            try:
                self._explicit = JsonSchema(self.input_schema).problems
            except ValueError as error:
                raise ValueError(f"Tool '{tool}': input_schema {error}") from None
        self._validator = _build_validator(schemas.check)
        self._serializer = SchemaSerializer(schemas.check)
        self._model = schemas.model
        self._wire_names = [_wire_name(parameter) for parameter in schemas.parameters]
        self._secret_names = _secret_names(schemas.input_schema)
        self._names = {f"arg_{index}": parameter.name for index, parameter in enumerate(schemas.parameters)}
        self._reserved = frozenset(self._names.values()) | frozenset(signature.context_names)

    def contract_schema(self) -> dict[str, Any]:
        """Return `input_schema` with the forms of decimals and the names of enum members, for typed services."""
        if self._explicit is not None:
            return self.input_schema
        schema = dict(_ContractGenerator(by_alias=True).generate(self._schemas.check, mode="validation"))
        _describe_properties(schema, self._schemas.parameters, self._documented)
        return schema

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert arguments to the function's keyword arguments, completed with its defaults.

        Raises:
            ToolRejectedError: `invalid_arguments`; `details["errors"]` names each path, never a value.
        """
        values, extra = self._validate(arguments)
        return self._to_keywords(values, extra)

    def check(self, arguments: Mapping[str, Any]) -> CheckedArguments:
        """As `validate`, together with the JSON form."""
        values, extra = self._validate(arguments)
        return CheckedArguments(self._to_keywords(values, extra), self._to_json(values, extra, arguments))

    def _validate(self, arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values by field, and the extra arguments."""
        found = self._try_validate(arguments)
        if isinstance(found, list):
            # Raised outside of the handler of pydantic's error, which contains the values and would become its context.
            raise invalid_arguments_error(self.tool, found)
        return found

    def _to_keywords(self, values: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        return {name: values[field] for field, name in self._names.items()} | extra

    def _to_json(self, values: dict[str, Any], extra: dict[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
        if not extra and _JSON_SCALARS.issuperset(map(type, values.values())):
            return dict(zip(self._wire_names, values.values(), strict=True))
        # The serializer requires an object of the model. Creating it this way does not validate the values again.
        arguments = self._model.__new__(self._model)
        for name, value in (
            ("__dict__", values),
            ("__pydantic_extra__", extra or None),
            ("__pydantic_fields_set__", set()),
            ("__pydantic_private__", None),
        ):
            object.__setattr__(arguments, name, value)
        try:
            dumped = self._serializer.to_python(arguments, mode="json", by_alias=True, warnings=False)
            names = [*self._wire_names, *extra]
            as_json: dict[str, Any] = plain(dict(zip(names, dumped.values(), strict=True)))
        except Exception:  # A type without a JSON form, or a failing serializer of the tool's author.
            as_json = {**plain(dict(sent))}
        for name in self._secret_names & sent.keys():
            as_json[name] = plain(sent[name])
        return as_json

    def _try_validate(self, arguments: Any) -> tuple[dict[str, Any], dict[str, Any]] | list[Problem]:
        """The values by field and the extra arguments, or the problems."""
        if type(arguments) is not dict and not isinstance(arguments, Mapping):
            return [make_problem("", "Arguments should be an object", "object_type")]
        if self._explicit is not None and (problems := self._explicit(arguments)):
            return problems
        try:
            parsed = self._validator.validate_python(dict(arguments))
        except ValidationError as error:
            return _problems_of(error, arguments)
        values, extra = parsed[0], parsed[1] or {}
        if taken := self._reserved & {*extra}:
            return [make_problem(name, "Extra inputs are not permitted", "extra_forbidden") for name in sorted(taken)]
        return values, extra


class _Generator(GenerateJsonSchema):
    """Generates schemas without titles that are derived from names, and without warnings about defaults that have no JSON form."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's declaration

    has_base64 = True
    """Whether bytes are base64 in JSON: everywhere but in classes of pydantic with another configuration."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        if not self.has_base64:
            return super().bytes_schema(schema)
        json_schema: JsonSchemaValue = {"type": "string", "format": "base64"}
        self.update_with_validations(json_schema, schema, self.ValidationsMapping.bytes)
        return json_schema

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        before, self.has_base64 = self.has_base64, _has_base64(schema)
        try:
            return super().model_schema(schema)
        finally:
            self.has_base64 = before

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        json_schema = super().dataclass_schema(schema)
        # pydantic reads this only from the class, which `_forbid_extra_fields` does not change.
        if schema.get("config", {}).get("extra_fields_behavior") == "forbid":
            json_schema["additionalProperties"] = False
        return json_schema


class _ContractGenerator(_Generator):
    """Generates the schemas for typed services. Models do not get them, because providers refuse keywords that they do not know."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return {**super().decimal_schema(schema), "format": "decimal"}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        # The names of the members, with the keyword of OpenAPI's code generators.
        return {**super().enum_schema(schema), "x-enum-varnames": [member.name for member in schema["members"]]}


def _has_base64(schema: Any) -> bool:
    return bool(schema.get("config", {}).get("val_json_bytes") == "base64")


@dataclass(frozen=True, slots=True)
class _ArgumentSchemas:
    """Parameters with the core schema for the check and the JSON Schema for callers."""

    parameters: tuple[Parameter, ...]
    model: type[BaseModel]
    check: core_schema.CoreSchema
    input_schema: JsonSchemaValue


def _build_schemas(tool: str, signature: ToolSignature, *, lenient: bool) -> _ArgumentSchemas:
    _check_wire_names(tool, signature.parameters)
    try:
        return _build_once(tool, signature, signature.parameters)
    except Exception:  # pydantic has five exceptions for this, and hooks of types may raise others.
        parameters = tuple(
            _check_parameter(tool, signature, parameter, lenient=lenient) for parameter in signature.parameters
        )
    try:
        return _build_once(tool, signature, parameters)
    except Exception as error:  # As above. All parameters are valid, so the type of **kwargs is the cause.
        raise TypeError(f"Tool '{tool}': its arguments cannot be described: {_first_line(error)}") from error


def _check_parameter(tool: str, signature: ToolSignature, parameter: Parameter, *, lenient: bool) -> Parameter:
    """Return the parameter if it can be described. Otherwise return one of any type if `lenient`, or raise TypeError."""
    try:
        _build_once(tool, replace(signature, extra=EMPTY), (parameter,))
    except Exception as error:  # As in `_build_schemas`.
        if lenient:
            return replace(parameter, annotation=Any)
        text = _first_line(error)
        raise TypeError(f"Tool '{tool}': parameter '{parameter.name}' cannot be described: {text}") from error
    return parameter


def _build_once(tool: str, signature: ToolSignature, parameters: tuple[Parameter, ...]) -> _ArgumentSchemas:
    fields: dict[str, Any] = {f"arg_{index}": _to_field(parameter) for index, parameter in enumerate(parameters)}
    model = create_model(f"{tool}Input", __base__=_base_model(signature.extra), **fields)
    model.model_rebuild(raise_errors=True, _types_namespace=signature.namespace)
    check: core_schema.CoreSchema = _forbid_extra_fields(model.__pydantic_core_schema__, model)
    return _ArgumentSchemas(parameters, model, check, _json_schema(check, "validation"))


def _describe_properties(
    schema: JsonSchemaValue, parameters: tuple[Parameter, ...], documented: Mapping[str, str]
) -> None:
    properties: dict[str, Any] = schema.get("properties", {})
    for parameter in parameters:
        wire_name = _wire_name(parameter)
        text = documented.get(parameter.name) or documented.get(wire_name)
        if text:
            properties[wire_name].setdefault("description", text)
    extra = schema.get("additionalProperties")
    others = [text for name, text in documented.items() if name.startswith("**") and text]
    if others and extra is not False:
        schema["additionalProperties"] = {"description": others[0], **(extra if isinstance(extra, dict) else {})}


def _secret_names(schema: JsonSchemaValue) -> frozenset[str]:
    """Arguments that contain a pydantic secret. Their JSON form is asterisks, which cannot be used for a call."""
    definitions = "writeOnly" in to_json(schema.get("$defs", {}))
    properties: dict[str, Any] = schema.get("properties", {})
    texts = {name: to_json(each) for name, each in properties.items()}
    return frozenset(name for name, text in texts.items() if "writeOnly" in text or (definitions and "$ref" in text))


def _first_line(error: Exception) -> str:
    """The first line of a message. The further lines of pydantic are advice about its own settings."""
    return str(error).partition("\n")[0]


def _check_wire_names(tool: str, parameters: tuple[Parameter, ...]) -> None:
    names = [_wire_name(parameter) for parameter in parameters]
    for name in names:
        if names.count(name) > 1:
            raise TypeError(f"Tool '{tool}': two parameters are sent as '{name}'")


def _build_validator(schema: Any) -> SchemaValidator:
    """Build the validator of the model's fields, without the model. It returns `(values by field, extra values, ...)`.

    For the model itself, pydantic would use the validator that it built with the class, in which extra fields are not forbidden.
    """
    recursive = schema["type"] == "definitions"
    model = schema["schema"] if recursive else schema
    return SchemaValidator({**schema, "schema": model["schema"]} if recursive else model["schema"], model["config"])


def _base_model(extra: Any) -> type[BaseModel]:
    """The empty model. It allows extra fields if the function has `**kwargs`."""
    namespace: dict[str, Any] = {
        "__module__": __name__,
        # Built once, by `_build_once`, which knows the namespace of forward references.
        "model_config": ConfigDict(
            extra="forbid" if extra is EMPTY else "allow",
            defer_build=True,
            # As in results: bytes are rarely text.
            val_json_bytes="base64",
            ser_json_bytes="base64",
        ),
    }
    if extra is not EMPTY and extra is not Any:
        namespace["__annotations__"] = {"__pydantic_extra__": dict[str, extra]}
    base: Any = types.new_class("Arguments", (BaseModel,), exec_body=lambda body: body.update(namespace))
    return cast("type[BaseModel]", base)


def _to_field(parameter: Parameter) -> tuple[Any, Any]:
    annotation, default = parameter.annotation, parameter.default
    alias = _wire_name(parameter)
    if isinstance(default, FieldInfo):  # `n: int = Field(gt=0)` means the same as `Annotated`.
        annotation, default = Annotated[annotation, default], EMPTY
    return annotation, Field(alias=alias) if default is EMPTY else Field(default=default, alias=alias)


def _wire_name(parameter: Parameter) -> str:
    """The name that callers use: the alias of `Field(alias=...)`, for names that Python reserves, or the name itself."""
    for info in (parameter.default, *reversed(_metadata(parameter.annotation))):
        if isinstance(info, FieldInfo):
            for alias in (info.validation_alias, info.alias):
                if isinstance(alias, str):
                    return alias
    return parameter.name


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _forbid_extra_fields(node: Any, own: type[BaseModel]) -> Any:
    """Copy a core schema so that plain dataclasses and TypedDicts forbid extra fields, as their constructors do.

    Pydantic's own classes, except `own`, and everything inside of them keep their configuration.
    """
    if isinstance(node, list | tuple):
        return type(node)(_forbid_extra_fields(item, own) for item in node)
    if not isinstance(node, dict) or (node.get("type") in _CLASSES and _has_config(node.get("cls"), own)):
        return node
    copied = dict(_forbid_in_items(node, own))
    if copied.get("type") in ("dataclass", "typed-dict"):
        # Set twice: the JSON Schema uses the configuration, the validator the node that lists the fields.
        copied["config"] = {**copied.get("config", {}), "extra_fields_behavior": "forbid", "val_json_bytes": "base64"}
        fields = copied
        while fields["type"] not in ("dataclass-args", "typed-dict"):  # Validators may be in between.
            fields = fields["schema"]
        fields["extra_behavior"] = "forbid"
    return copied


def _has_config(cls: Any, own: type[BaseModel]) -> bool:
    return cls is not own and (hasattr(cls, "model_config") or hasattr(cls, "__pydantic_config__"))


def _forbid_in_items(node: dict[str, Any], own: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if key == "fields" and isinstance(value, dict):  # The keys are names of fields.
            yield key, {name: _forbid_extra_fields(field, own) for name, field in value.items()}
        else:
            yield key, value if key in _OPAQUE_KEYS else _forbid_extra_fields(value, own)


def _json_schema(schema: core_schema.CoreSchema, mode: JsonSchemaMode) -> JsonSchemaValue:
    return _Generator(by_alias=True).generate(schema, mode=mode)


class ResultModel:
    """The result of one function: its JSON Schema, and the check of results.

    Results are not checked without an annotation, for `Any` and `None`, and for types that no schema can describe. The result of a
    generator function is the list of its items, and each item is checked.

    Args:
        streams: The function is a generator function.

    Attributes:
        output_schema: JSON Schema of the result; empty if results are not checked.

    Raises:
        TypeError: The return annotation of a generator function is not an iterator.
    """

    __slots__ = ("_adapter", "_streams", "_type", "output_schema")

    def __init__(self, tool: str, signature: ToolSignature, *, streams: bool = False) -> None:
        self.output_schema: dict[str, Any] = {}
        self._adapter: TypeAdapter[Any] | None = None
        self._streams = streams
        returns = item_type(tool, signature.returns) if streams else _unwrap_awaitable(signature.returns)
        self._type = getattr(returns, "__name__", None) if isinstance(returns, type) else str(returns)
        if returns is EMPTY:
            return
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(returns)
            adapter.rebuild(raise_errors=True, _types_namespace=signature.namespace)
            whole = _list_schema(adapter.core_schema) if streams else adapter.core_schema
            self.output_schema = dict(_json_schema(whole, "serialization"))
        except Exception:  # As in `_build_schemas`. A result without a schema is not checked.
            return
        if returns not in (Any, None, type(None), object):
            self._adapter = adapter

    def contract_schema(self) -> dict[str, Any]:
        """Return `output_schema`, or the schema of each item, as `ArgumentModel.contract_schema` does."""
        if self._adapter is None:
            return item_schema(self.output_schema) if self._streams else self.output_schema
        return dict(_ContractGenerator(by_alias=True).generate(self._adapter.core_schema, mode="serialization"))

    def convert(self, result: Any) -> Any:
        """Return the result or item, converted to its declared type if necessary, for example `"5"` to 5 or a dict to a model.

        A result that already has the type is returned unchanged, including extra fields.

        Raises:
            ValueError: The result cannot be converted; the message names the type and the paths.
        """
        if self._adapter is None:
            return result
        try:
            self._adapter.validate_python(result, strict=True)
            return result
        except ValidationError:
            pass  # It may be convertible.
        try:
            converted = self._adapter.validate_python(result)
        except ValidationError as error:
            problems = _problems_of(error, result)
            listed = "; ".join(
                f"{each['path']}: {each['message']}" if each["path"] else each["message"] for each in problems
            )
            raise ValueError(f"is not of its declared type {self._type}: {listed}") from error
        return self._adapter.dump_python(converted, by_alias=True, warnings=False)


def _list_schema(item: core_schema.CoreSchema) -> core_schema.CoreSchema:
    """Return the core schema of a list of these items. Definitions stay outermost."""
    if item["type"] != "definitions":
        return core_schema.list_schema(item)
    return core_schema.definitions_schema(core_schema.list_schema(item["schema"]), item["definitions"])


def _unwrap_awaitable(returns: Any) -> Any:
    """The result type of a function that is annotated with an awaitable."""
    return get_args(returns)[-1] if get_origin(returns) in (Awaitable, Coroutine) else returns


def _problems_of(error: ValidationError, value: object) -> list[Problem]:
    """Convert the violations that pydantic found, in its order, at most `MAX_ERRORS`. Of more than `MAX_FOUND` only the number."""
    if error.error_count() > MAX_FOUND:
        return [make_problem("", f"{error.error_count()} values are invalid, too many to list", "too_many_errors")]
    details = error.errors(include_url=False)[:MAX_ERRORS]
    return [make_problem(_path(d, value), _message(d), d["type"]) for d in details]


def _path(detail: ErrorDetails, value: object) -> str:
    """The path of the invalid value, without the names of union members that pydantic adds."""
    parts: list[str | int] = []
    here: Any = value
    location = detail["loc"]
    for depth, step in enumerate(location, start=1):
        if isinstance(step, int):
            here = here[step] if isinstance(here, list) and step < len(here) else None
            parts.append(step)
        elif isinstance(here, Mapping) and step in here:
            here = here[step]
            parts.append(step)
        elif depth == len(location) and detail["type"].startswith("missing"):
            parts.append(step)
    return join_path(parts)


def _message(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "union_tag_invalid":  # pydantic's own message, which repeats the value.
            return f"Input tag does not match any of the expected tags: {detail['ctx']['expected_tags']}"
        case "value_error" | "assertion_error":  # A message of a validator's author, which often contains the value.
            return mask_values(detail["msg"], detail["input"])
        case _:
            return detail["msg"]
