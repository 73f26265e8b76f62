"""JSON Schema from a Python signature, and arguments checked against it; what runs the function is not here.

pydantic does the checking: the parameters become the fields of one model, made at registration. Its fields carry
neutral names and the parameters' names as aliases, so that a parameter may be called `schema`, `copy` or `_x`.
"""

import copy
import types
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import SchemaSerializer, SchemaValidator, core_schema

from protolink_grpc.models.json_value import plain, to_json
from protolink_grpc.tools.rejection import Problem, invalid_arguments, problem, problems_of
from protolink_grpc.tools.signature import EMPTY, Parameter, ToolSignature, read_signature

_OPAQUE_KEYS = frozenset({"default", "metadata", "expected", "members", "cls"})
"""Keys of a core schema that hold values of the user's, not schemas."""

_JSON_SCALARS = frozenset({str, int, bool, type(None)})
"""Types whose values are their own JSON form; a float may be none."""

_CLASSES = frozenset({"model", "dataclass", "typed-dict"})
"""Types of nodes of a core schema that belong to a class with fields."""


@dataclass(frozen=True, slots=True)
class CheckedArguments:
    """Arguments that a function can be called with.

    Args:
        keywords: Converted to its types, with its defaults filled in.
        shown: The same as JSON, by the names that callers use: what policies, approvers and logs see. A value whose type has no
            JSON form, or hides it, is shown as it was sent.
    """

    keywords: dict[str, Any]
    shown: dict[str, Any]


class ArgumentModel:
    """What one function takes, as a schema to show and as a check to run. Safe to use from several tasks at once.

    Args:
        tool: Name to use in texts.
        fn: The function; its annotations are read once, here.
        input_schema: JSON Schema that replaces the one from the signature. Arguments must satisfy it first and the
            signature after it; parameters with types that no schema can describe then take any value.
        documented: What the docstring says of parameters, by name. A description in an annotation wins, and so does `input_schema`.

    Raises:
        TypeError: A parameter cannot be described or sent; the text names it.
        ValueError: `input_schema` is not a valid schema.
    """

    __slots__ = (
        "_explicit",
        "_hidden",
        "_model",
        "_names",
        "_reserved",
        "_sent_names",
        "_serializer",
        "_validator",
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
        described = _described(tool, signature, lenient=input_schema is not None)
        self.tool = tool
        self.context_names = signature.context_names
        self.result = ResultModel(signature)
        self.input_schema: dict[str, Any]
        self._explicit: Callable[[Mapping[str, Any]], list[Problem]] | None = None
        if input_schema is None:
            self.input_schema = dict(described.shown)
            self.input_schema.setdefault("required", [])
            _describe_properties(self.input_schema, described.parameters, documented)
        else:
            # Loads the validator, which most tools do not need.
            from protolink_grpc.tools.json_schema import JsonSchema

            self.input_schema = copy.deepcopy(dict(input_schema))
            try:
                self._explicit = JsonSchema(self.input_schema).problems
            except ValueError as error:
                raise ValueError(f"Tool '{tool}': input_schema {error}") from None
        self._validator = _validator(described.check)
        self._serializer = SchemaSerializer(described.check)
        self._model = described.model
        self._sent_names = [_sent_as(parameter) for parameter in described.parameters]
        self._hidden = _hidden(described.shown)
        self._names = {f"arg_{index}": parameter.name for index, parameter in enumerate(described.parameters)}
        self._reserved = frozenset(self._names.values()) | frozenset(signature.context_names)

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the function, converted to its types, with its defaults filled in.

        Raises:
            ToolRejectedError: `invalid_arguments`; `details["errors"]` names each path, never a value.
        """
        values, extra = self._valid(arguments)
        return self._keywords(values, extra)

    def check(self, arguments: Mapping[str, Any]) -> CheckedArguments:
        """The same with the form that is shown. Raises like `validate`."""
        values, extra = self._valid(arguments)
        return CheckedArguments(self._keywords(values, extra), self._shown(values, extra, arguments))

    def _valid(self, arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values by field, and what else was sent."""
        found = self._values(arguments)
        if isinstance(found, list):
            # Raised here and not where pydantic raised: that error, its context, would repeat the values.
            raise invalid_arguments(self.tool, found)
        return found

    def _keywords(self, values: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        return {name: values[field] for field, name in self._names.items()} | extra

    def _shown(self, values: dict[str, Any], extra: dict[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
        if all(type(value) in _JSON_SCALARS for value in values.values()) and not extra:
            return dict(zip(self._sent_names, values.values(), strict=True))
        # The serializer of the arguments takes an object of their model; making one this way checks nothing again.
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
            names = [*self._sent_names, *extra]
            shown: dict[str, Any] = plain(dict(zip(names, dumped.values(), strict=True)))
        except Exception:  # A type without a JSON form, or a serializer of the author's that breaks.
            shown = {**plain(dict(sent))}
        for name in self._hidden & sent.keys():
            shown[name] = plain(sent[name])
        return shown

    def _values(self, arguments: Any) -> tuple[dict[str, Any], dict[str, Any]] | list[Problem]:
        """The values, or what is wrong."""
        if not isinstance(arguments, Mapping):
            return [problem("", "Arguments should be an object", "object_type")]
        if self._explicit is not None and (problems := self._explicit(arguments)):
            return problems
        try:
            parsed = self._validator.validate_python(dict(arguments))
        except ValidationError as error:
            return problems_of(error, arguments)
        values, extra = parsed[0], parsed[1] or {}
        if taken := self._reserved & {*extra}:
            return [problem(name, "Extra inputs are not permitted", "extra_forbidden") for name in sorted(taken)]
        return values, extra


class _Generator(GenerateJsonSchema):
    """Schemas for models to read: no titles made from names, and no warning where a default has no JSON form."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's declaration

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        described = super().dataclass_schema(schema)
        # pydantic reads this from the class alone, and `_closed` does not touch a user's class.
        if schema.get("config", {}).get("extra_fields_behavior") == "forbid":
            described["additionalProperties"] = False
        return described


@dataclass(frozen=True, slots=True)
class _Described:
    """Parameters with the core schema that checks them and the JSON Schema that shows them."""

    parameters: tuple[Parameter, ...]
    model: type[BaseModel]
    check: core_schema.CoreSchema
    shown: JsonSchemaValue


def _described(tool: str, signature: ToolSignature, *, lenient: bool) -> _Described:
    _refuse_shared_names(tool, signature.parameters)
    try:
        return _attempt(tool, signature, signature.parameters)
    except Exception:  # pydantic has five kinds for this, and types may bring hooks that raise others.
        kept = tuple(_alone(tool, signature, parameter, lenient=lenient) for parameter in signature.parameters)
    try:
        return _attempt(tool, signature, kept)
    except Exception as error:  # As above. No parameter is to blame: what is left is the type of **kwargs.
        raise TypeError(f"Tool '{tool}': its arguments cannot be described: {_first_line(error)}") from error


def _alone(tool: str, signature: ToolSignature, parameter: Parameter, *, lenient: bool) -> Parameter:
    """The parameter, when it can be described; one that takes anything, or an error that names it, when not."""
    try:
        _attempt(tool, replace(signature, extra=EMPTY), (parameter,))
    except Exception as error:  # As in `_described`.
        if lenient:
            return replace(parameter, annotation=Any)
        text = _first_line(error)
        raise TypeError(f"Tool '{tool}': parameter '{parameter.name}' cannot be described: {text}") from error
    return parameter


def _attempt(tool: str, signature: ToolSignature, parameters: tuple[Parameter, ...]) -> _Described:
    fields: dict[str, Any] = {f"arg_{index}": _field(parameter) for index, parameter in enumerate(parameters)}
    model = create_model(f"{tool}Input", __base__=_base(signature.extra), **fields)
    model.model_rebuild(raise_errors=True, _types_namespace=signature.namespace)
    check: core_schema.CoreSchema = _closed(model.__pydantic_core_schema__, model)
    return _Described(parameters, model, check, _json_schema(check, "validation"))


def _describe_properties(
    schema: JsonSchemaValue, parameters: tuple[Parameter, ...], documented: Mapping[str, str]
) -> None:
    properties: dict[str, Any] = schema.get("properties", {})
    for parameter in parameters:
        sent_as = _sent_as(parameter)
        text = documented.get(parameter.name) or documented.get(sent_as)
        if text:
            properties[sent_as].setdefault("description", text)
    extra = schema.get("additionalProperties")
    others = [text for name, text in documented.items() if name.startswith("**") and text]
    if others and extra is not False:
        schema["additionalProperties"] = {"description": others[0], **(extra if isinstance(extra, dict) else {})}


def _hidden(schema: JsonSchemaValue) -> frozenset[str]:
    """Arguments with a secret of pydantic's in them, which is written as asterisks: no call can be made of these."""
    definitions = "writeOnly" in to_json(schema.get("$defs", {}))
    properties: dict[str, Any] = schema.get("properties", {})
    texts = {name: to_json(each) for name, each in properties.items()}
    return frozenset(name for name, text in texts.items() if "writeOnly" in text or (definitions and "$ref" in text))


def _first_line(error: Exception) -> str:
    """pydantic goes on with advice about its own settings, which are not the tool author's."""
    return str(error).partition("\n")[0]


def _refuse_shared_names(tool: str, parameters: tuple[Parameter, ...]) -> None:
    names = [_sent_as(parameter) for parameter in parameters]
    for name in names:
        if names.count(name) > 1:
            raise TypeError(f"Tool '{tool}': two parameters are sent as '{name}'")


def _validator(schema: Any) -> SchemaValidator:
    """The check of the model's fields, without the model: it answers `(values by field, extra values, ...)`.

    Given the model, pydantic would take the check that it made with the class, which `_closed` has not seen.
    """
    recursive = schema["type"] == "definitions"
    model = schema["schema"] if recursive else schema
    return SchemaValidator({**schema, "schema": model["schema"]} if recursive else model["schema"], model["config"])


def _base(extra: Any) -> type[BaseModel]:
    """The empty model, open exactly when the function takes `**kwargs`."""
    namespace: dict[str, Any] = {
        "__module__": __name__,
        # Built by `_attempt`, which knows the names that forward references mean, and not twice.
        "model_config": ConfigDict(extra="forbid" if extra is EMPTY else "allow", defer_build=True),
    }
    if extra is not EMPTY and extra is not Any:
        namespace["__annotations__"] = {"__pydantic_extra__": dict[str, extra]}
    base: Any = types.new_class("Arguments", (BaseModel,), exec_body=lambda body: body.update(namespace))
    return cast("type[BaseModel]", base)


def _field(parameter: Parameter) -> tuple[Any, Any]:
    annotation, default = parameter.annotation, parameter.default
    alias = _sent_as(parameter)
    if isinstance(default, FieldInfo):  # `n: int = Field(gt=0)` says the same as `Annotated`.
        annotation, default = Annotated[annotation, default], EMPTY
    return annotation, Field(alias=alias) if default is EMPTY else Field(default=default, alias=alias)


def _sent_as(parameter: Parameter) -> str:
    """The alias that the author gave with `Field(alias=...)`, for names that Python reserves, or the name itself."""
    for info in (parameter.default, *reversed(_metadata(parameter.annotation))):
        if isinstance(info, FieldInfo):
            for alias in (info.validation_alias, info.alias):
                if isinstance(alias, str):
                    return alias
    return parameter.name


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _closed(node: Any, own: type[BaseModel]) -> Any:
    """A copy in which plain dataclasses and TypedDicts refuse fields that they do not have, as their constructors do.

    Pydantic's own classes, `own` excepted, keep what their configuration says, for themselves and all inside of them.
    """
    if isinstance(node, list | tuple):
        return type(node)(_closed(item, own) for item in node)
    if not isinstance(node, dict) or (node.get("type") in _CLASSES and _has_config(node.get("cls"), own)):
        return node
    copied = dict(_closed_items(node, own))
    if copied.get("type") in ("dataclass", "typed-dict"):
        # Said twice: the JSON Schema is made from the configuration, the check from the node that lists the fields.
        copied["config"] = {**copied.get("config", {}), "extra_fields_behavior": "forbid"}
        fields = copied
        while fields["type"] not in ("dataclass-args", "typed-dict"):  # Validators may stand in between.
            fields = fields["schema"]
        fields["extra_behavior"] = "forbid"
    return copied


def _has_config(cls: Any, own: type[BaseModel]) -> bool:
    return cls is not own and (hasattr(cls, "model_config") or hasattr(cls, "__pydantic_config__"))


def _closed_items(node: dict[str, Any], own: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if key == "fields" and isinstance(value, dict):  # Keyed by names of fields, which may be any word.
            yield key, {name: _closed(field, own) for name, field in value.items()}
        else:
            yield key, value if key in _OPAQUE_KEYS else _closed(value, own)


def _json_schema(schema: core_schema.CoreSchema, mode: JsonSchemaMode) -> JsonSchemaValue:
    return _Generator(by_alias=True).generate(schema, mode=mode)


class ResultModel:
    """What one function returns, as a schema to show and as a check to run: nothing where it promises nothing.

    That is so without an annotation, for `Any` and `None`, and for types that no schema can describe.

    Attributes:
        output_schema: JSON Schema of the result, empty when nothing is promised.
    """

    __slots__ = ("_adapter", "_type", "output_schema")

    def __init__(self, signature: ToolSignature) -> None:
        self.output_schema: dict[str, Any] = {}
        self._adapter: TypeAdapter[Any] | None = None
        returns = _awaited(signature.returns)
        self._type = getattr(returns, "__name__", None) if isinstance(returns, type) else str(returns)
        if returns is EMPTY:
            return
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(returns)
            adapter.rebuild(raise_errors=True, _types_namespace=signature.namespace)
            self.output_schema = dict(_json_schema(adapter.core_schema, "serialization"))
        except Exception:  # As in `_described`; an output that cannot be described is not promised, which harms nobody.
            return
        if returns not in (Any, None, type(None), object):
            self._adapter = adapter

    def checked(self, result: Any) -> Any:
        """The result where it is of the type; one that pydantic converts to it, `"5"` to 5 or a dict to a model, converted.

        Converting keeps the promise of the schema, and is what is done with arguments. A result that is right as it is stays
        untouched, fields that its type does not have included.

        Raises:
            ValueError: It is of another type; the text names the type and the places.
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
            problems = problems_of(error, result)
            listed = "; ".join(
                f"{each['path']}: {each['message']}" if each["path"] else each["message"] for each in problems
            )
            raise ValueError(f"is not the {self._type} that it promises: {listed}") from error
        return self._adapter.dump_python(converted, by_alias=True, warnings=False)


def _awaited(returns: Any) -> Any:
    """What a function gives in the end that is annotated with the coroutine it returns."""
    return get_args(returns)[-1] if get_origin(returns) in (Awaitable, Coroutine) else returns
