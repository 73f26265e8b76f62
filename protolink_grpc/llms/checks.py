"""Validation of a model's answers: the tools and agents exist, the arguments are valid, the final answer has the requested schema.

Whether an action is allowed is decided by the policy, not here.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from protolink_grpc.errors import InvalidArgumentError, ToolRejectedError
from protolink_grpc.llms.answers import AGENT_TOOL, DELEGATE_TOOL, READ_ARTIFACT, ActionParseError, parse_json
from protolink_grpc.llms.loop_host import ActionCall
from protolink_grpc.llms.port import ModelToolCall, ToolSpec
from protolink_grpc.models.card import AgentCard, AgentSkill
from protolink_grpc.models.json_value import JsonValue, from_json, to_json
from protolink_grpc.tools.rejection import Problem, invalid_arguments_error, make_problem
from protolink_grpc.tools.toolbox import MAX_NAME_CHARS

RESERVED_TOOLS = frozenset((DELEGATE_TOOL, AGENT_TOOL))
INVALID_ARGUMENTS = "invalid_arguments"
"""The code of a rejected call whose target exists. All other codes of this module mean a call without a valid target."""

_CONVERTIBLE = frozenset(("type", "anyOf", "oneOf"))
"""Violations that the tool may repair by converting, for example `"5"` to 5. The tool checks these arguments itself."""


class ActionCheck:
    """Checks calls against the tools and agents of one inference.

    Args:
        agent_name: The calling agent, which cannot delegate to itself.

    Raises:
        InvalidArgumentError: A tool has one of the reserved names.
    """

    def __init__(self, tools: Sequence[ToolSpec], peers: Sequence[AgentCard], agent_name: str = "") -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.peers = {peer.name: peer for peer in peers if peer.name != agent_name}
        self._agent_name = agent_name
        self._compiled: dict[str, Schema | None] = {}
        if taken := (RESERVED_TOOLS | {READ_ARTIFACT}) & self.tools.keys():
            raise InvalidArgumentError(f"the name '{min(taken)}' is reserved for a tool of the runtime", field="tools")

    def check_call(self, call: ModelToolCall, position: str, step: int) -> ActionCall:
        """Check a call and convert it to an action. Raises ToolRejectedError, which names the problem."""
        if call.raw is not None:
            raise _malformed_error(call.name, "arguments: must be one JSON object")
        if call.name == DELEGATE_TOOL:
            name, arguments = self._read_delegation(call.arguments)
        elif call.name == AGENT_TOOL:
            name, arguments = self._read_agent_tool(call.arguments)
        else:
            name, arguments = call.name, call.arguments
            tool = self.tools.get(name)
            if tool is None:
                raise _unknown_error("tool", name, self.tools)
            self._check_arguments(name, arguments, tool.input_schema)
            return ActionCall(position, "tool.call", name, arguments, call.call_id, step)
        return ActionCall(position, "agent.call", name, arguments, call.call_id, step)

    def is_read_only(self, call: ActionCall) -> bool:
        """Whether the action calls a tool that is declared read-only."""
        return call.kind == "tool.call" and self.tools[call.name].read_only

    def _read_delegation(self, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        peer = self._require_peer(DELEGATE_TOOL, arguments)
        prompt = _require_text(DELEGATE_TOOL, arguments, "prompt")
        if peer.capabilities.supports_inference is False:
            skills = sorted(skill.id for skill in peer.skills)
            raise ToolRejectedError(
                f"agent: '{peer.name}' does not answer prompts, it only runs its tools",
                code="no_inference",
                details={"tools": skills},
                suggestion="Call one of its tools." if skills else "Choose another agent.",
            )
        return peer.name, {"action": "infer", "prompt": prompt}

    def _read_agent_tool(self, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        peer = self._require_peer(AGENT_TOOL, arguments)
        tool = _require_text(AGENT_TOOL, arguments, "tool")
        args = arguments.get("args") or {}
        if not isinstance(args, dict):
            raise _malformed_error(AGENT_TOOL, "args: must be an object")
        skills: dict[str, AgentSkill] = {skill.id: skill for skill in peer.skills}
        if tool not in skills:
            raise _unknown_error(f"tool of agent '{peer.name}'", tool, skills)
        self._check_arguments(f"{peer.name}.{tool}", args, skills[tool].input_schema, foreign=True)
        return peer.name, {"action": "tool_call", "tool": tool, "args": args}

    def _check_arguments(
        self, name: str, arguments: dict[str, Any], schema: dict[str, Any], *, foreign: bool = False
    ) -> None:
        problems = _find_missing_or_extra(arguments, schema)
        if not problems:
            if name not in self._compiled:
                self._compiled[name] = _compile_peer_schema(schema) if foreign else _compile_own_schema(to_json(schema))
            compiled = self._compiled[name]
            problems = compiled.problems(arguments) if compiled else []
        if any(each["type"] not in _CONVERTIBLE for each in problems):
            raise invalid_arguments_error(name, problems)

    def _require_peer(self, tool: str, arguments: dict[str, Any]) -> AgentCard:
        name = _require_text(tool, arguments, "agent")
        if name == self._agent_name:
            raise ToolRejectedError(
                f"agent: '{name[:MAX_NAME_CHARS]}' is you", code="self_delegation", suggestion="Do it yourself."
            )
        peer = self.peers.get(name)
        if peer is None:
            raise _unknown_error("agent", name, self.peers)
        return peer


def _require_text(tool: str, arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise _malformed_error(tool, f"{name}: required, a non-empty text")
    return value


def _malformed_error(tool: str, what: str) -> ToolRejectedError:
    return ToolRejectedError(what, code="invalid_action", suggestion=f"Correct the call of '{tool[:MAX_NAME_CHARS]}'.")


def _unknown_error(kind: str, name: str, known: Collection[str]) -> ToolRejectedError:
    near = difflib.get_close_matches(name, known, n=1) if len(name) <= MAX_NAME_CHARS else []
    field = "agent" if kind == "agent" else "tool"
    return ToolRejectedError(
        f"{field}: there is no {kind} named '{name[:MAX_NAME_CHARS]}'",
        code=f"unknown_{field}",
        details={"available": sorted(known)},
        suggestion=f"Did you mean '{near[0]}'?" if near else None,
    )


def _find_missing_or_extra(arguments: dict[str, Any], schema: dict[str, Any]) -> list[Problem]:
    """Missing and unknown arguments at the top level: the most frequent violations, found without a compiled schema."""
    known, required = schema.get("properties"), schema.get("required")
    found: list[Problem] = []
    if isinstance(required, list):
        found += [make_problem(str(key), "Field required", "missing") for key in required if key not in arguments]
    if schema.get("additionalProperties") is False and isinstance(known, dict) and "patternProperties" not in schema:
        for key in arguments.keys() - known.keys():
            found.append(make_problem(key, "Extra inputs are not permitted", "extra_forbidden"))
    return sorted(found, key=lambda each: each["path"])


_ANNOTATIONS = frozenset(("title", "description", "default", "examples", "$schema"))
_TOP = _ANNOTATIONS | {"type", "properties", "required", "additionalProperties"}
_LEAF = _ANNOTATIONS | _CONVERTIBLE | {"items"}


class Schema(Protocol):
    """The used part of `tools.json_schema.JsonSchema`, whose module is loaded only if it is needed."""

    def problems(self, value: object) -> list[Problem]: ...


# Enough for the tools of a few large agents.
@lru_cache(maxsize=512)
def _compile_own_schema(text: str) -> Schema | None:
    """Compile the schema of an own tool. None if `_find_missing_or_extra` checks all of it, or if it is not a valid schema."""
    schema = from_json(text)
    return _compile_schema(schema, bounded=False)


def _compile_peer_schema(schema: dict[str, Any]) -> Schema | None:
    """Compile the schema of a peer's tool. Not cached, because peers change; None also if it is too large: the peer checks it."""
    return _compile_schema(schema, bounded=True)


def _compile_schema(schema: JsonValue, *, bounded: bool) -> Schema | None:
    if not isinstance(schema, dict) or _is_flat(schema):
        return None
    try:
        return _load_json_schema(schema, bounded=bounded)
    except ValueError:
        return None


def _is_flat(schema: dict[str, Any]) -> bool:
    """Whether a schema has only names and plain types: all its violations except missing and extra names are in `_CONVERTIBLE`."""
    fields = schema.get("properties", {})
    return schema.keys() <= _TOP and isinstance(fields, dict) and all(map(_is_plain, fields.values()))


def _is_plain(node: JsonValue) -> bool:
    if not isinstance(node, dict) or not node.keys() <= _LEAF:
        return node is True
    inner = [node["items"]] if "items" in node else []
    for keyword in ("anyOf", "oneOf"):
        choices = node.get(keyword, [])
        inner += choices if isinstance(choices, list) else [False]
    return all(map(_is_plain, inner))


def _load_json_schema(schema: dict[str, Any], *, bounded: bool) -> Schema:
    from protolink_grpc.tools.json_schema import JsonSchema  # loads the validator, which most runs do not need

    return JsonSchema(schema, bounded=bounded)


class OutputCheck:
    """Checks the final answer of an inference against its output schema.

    The schema may come from a caller, so its cost is bounded (`tools.schema_cost`).

    Raises:
        InvalidArgumentError: The schema is not valid, or too large; names `output_schema`.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        try:
            self._schema = _load_json_schema(schema, bounded=True)
        except ValueError as error:
            raise InvalidArgumentError(str(error), field="output_schema") from None

    @classmethod
    def of(cls, schema: JsonValue) -> "OutputCheck | None":
        """The check for the `output_schema` of an infer part; None if the answer is text. Raises InvalidArgumentError."""
        if schema is None:
            return None
        if not isinstance(schema, dict):
            raise InvalidArgumentError("must be a JSON Schema, which is an object", field="output_schema")
        return cls(schema)

    def validate(self, content: JsonValue) -> JsonValue:
        """Return the value that satisfies the schema: the content itself, or the JSON value that the text contains.

        Raises:
            ActionParseError: Neither is valid; names the paths of the problems.
        """
        first_error: ActionParseError | None = None
        for value in self._candidates(content):
            problems = self._schema.problems(value)
            if not problems:
                return value
            if first_error is None:
                listed = "; ".join(f"{_answer_path(each['path'])}: {each['message']}" for each in problems)
                first_error = ActionParseError(f"The answer does not satisfy the output schema: {listed}", value)
        raise first_error or ActionParseError("The answer must be JSON")

    @staticmethod
    def _candidates(content: JsonValue) -> list[JsonValue]:
        if not isinstance(content, str):
            return [content]
        try:
            return [parse_json(content), content]
        except ActionParseError:
            return [content]


def _answer_path(path: str) -> str:
    return f"answer{path}" if not path or path.startswith("[") else f"answer.{path}"
