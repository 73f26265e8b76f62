"""Parsing of model answers: native tool calls, or the JSON contract with repairs for the usual mistakes of small models.

Parsing only; `checks` decides whether a tool exists and its arguments are valid. For every input text the only error is
ActionParseError, and the time is linear in the length of the text. docs/adr/0031 says why no library for broken JSON is used.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from protolink_grpc.llms.port import ModelToolCall
from protolink_grpc.models.events import LlmCallCompleted
from protolink_grpc.models.json_text import JSON_STRING, strip_code_fence, strip_thinking, try_parse_json
from protolink_grpc.models.json_value import JsonValue, to_json

DELEGATE_TOOL = "delegate_to_agent"
"""The tool that sends a prompt to another agent: `{agent, prompt}`. Reserved: no tool of an agent has this name."""

AGENT_TOOL = "call_agent_tool"
"""The tool that calls a tool of another agent: `{agent, tool, args}`. Reserved as well."""

READ_ARTIFACT = "read_context_artifact"
"""The tool that reads a shortened result: `{name, offset, limit}`. Reserved as well."""

RAW_ARGUMENTS = "raw_arguments"
"""Key in the metrics of a completed call: call id -> arguments that are not a JSON object, as the model wrote them."""

FILES = "files"
"""Key in the metrics of a completed call: the number of files in its answer, which are artifacts of the task."""


class ActionParseError(ValueError):
    """An answer without a valid action. The loop handles it and never raises it.

    Args:
        feedback: The problem, as text for the model; names the field if the problem has one.
        parsed_data: The part of the answer that could be parsed.
    """

    def __init__(self, feedback: str, parsed_data: JsonValue = None) -> None:
        super().__init__(feedback)
        self.feedback = feedback
        self.parsed_data = parsed_data


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The final answer of an inference; `content` is never None."""

    content: JsonValue


@dataclass(frozen=True, slots=True)
class RequestedActions:
    """The actions that an answer requests, in order.

    Args:
        calls: Delegations are calls of the two reserved tools.
        thought: The text of the answer beside the calls.
    """

    calls: tuple[ModelToolCall, ...]
    thought: str = ""


def read_native(answer: LlmCallCompleted) -> FinalAnswer | RequestedActions:
    """Parse the answer of a model with native tool calls. Raises ActionParseError if it is empty."""
    if answer.tool_calls:
        raw = answer.metrics.get(RAW_ARGUMENTS) or {}
        calls = (
            ModelToolCall(call.tool_name, call.json_args(), call.call_id, raw.get(call.call_id))
            for call in answer.tool_calls
        )
        return RequestedActions(tuple(calls), answer.text)
    if not answer.text.strip():
        raise ActionParseError("The answer is empty: answer in text, or call a tool")
    return FinalAnswer(answer.text)


def read_action(
    text: str, call_id: str, tools: Collection[str] = (), agents: Collection[str] = ()
) -> FinalAnswer | RequestedActions:
    """Parse the one action of an answer under the JSON contract.

    Mistakes that leave the meaning clear are repaired: a leading `<think>` block, a code fence, text around the object, trailing
    commas, line ends in strings, an action wrapped in its name or in `payload`, `tool(key=value)`, and a missing agent if there
    is only one. An object that is not an action is the final answer itself.

    Args:
        call_id: The id of the call, because the JSON contract has no call ids.
        tools: Names that `tool(key=value)` may call when it is the whole answer.
        agents: Names of the agents for delegation.

    Raises:
        ActionParseError: No action, several actions, or an action with invalid fields.
    """
    body = strip_code_fence(strip_thinking(text))
    value = try_parse_json(body)
    if value is None and (called := _parse_call_syntax(body)) and called[0] in tools:
        return RequestedActions((ModelToolCall(*called, call_id),))
    found = _find_object(body) if value is None else value
    if not isinstance(found, dict):
        raise ActionParseError("Answer with one JSON object", found)
    try:
        return _read_object(_unwrap_action(found), call_id, agents)
    except ActionParseError as error:
        raise ActionParseError(error.feedback, found) from None


def parse_json(text: str) -> JsonValue:
    """Parse a text as one JSON value; a code fence and trailing commas are accepted. Raises ActionParseError."""
    body = strip_code_fence(strip_thinking(text))
    value = try_parse_json(body)
    if value is None and body != "null":
        raise ActionParseError("The answer must be JSON and nothing else")
    return value


def action_dict(call: ModelToolCall) -> dict[str, Any]:
    """Convert a call to an action of the JSON contract."""
    arguments = call.arguments
    if call.name == DELEGATE_TOOL:
        rest = {key: value for key, value in arguments.items() if key in ("agent", "prompt")}
        return {"type": "agent_call", "action": "infer", **rest}
    if call.name == AGENT_TOOL:
        rest = {key: value for key, value in arguments.items() if key in ("agent", "tool", "args")}
        return {"type": "agent_call", "action": "tool_call", **rest}
    return {"type": "tool_call", "tool": call.name, "args": arguments}


def action_text(call: ModelToolCall) -> str:
    """Convert a call to the JSON text of an action, as a model under the JSON contract writes it."""
    return to_json(action_dict(call))


# The object in a text


_STRUCTURE = re.compile(JSON_STRING + r"|[{}]", re.DOTALL)


def _find_object(body: str) -> JsonValue:
    """Find the one JSON object in a text."""
    found = [value for part in _outermost_objects(body) if isinstance(value := try_parse_json(part), dict)]
    if len(found) > 1:
        raise ActionParseError(
            f"Found {len(found)} JSON objects: answer with exactly one action at a time", list(found)
        )
    if not found:
        raise ActionParseError("No JSON object found: answer with one JSON object and nothing else")
    return found[0]


def _outermost_objects(body: str) -> list[str]:
    """The outermost `{...}` of a text. Braces in strings do not count; quotes outside of objects are ordinary text."""
    parts: list[str] = []
    start = body.find("{")
    while start >= 0:
        depth, end = 0, -1
        for token in _STRUCTURE.finditer(body, start):
            depth += {"{": 1, "}": -1}.get(token[0], 0)
            if depth == 0:
                end = token.end()
                break
        if end < 0:  # not closed: no later object can be outermost
            return parts
        parts.append(body[start:end])
        start = body.find("{", end)
    return parts


# The object


def _unwrap_action(found: dict[str, Any]) -> dict[str, Any]:
    """Unwrap an action that is wrapped in its name or in `payload`, and rename common alternative field names."""
    if "type" not in found and len(found) == 1:
        (name, inner), *_ = found.items()
        if name in _READERS:
            found = {"type": name, **inner} if isinstance(inner, dict) else {"type": name, "content": inner}
    payload = found.get("payload")
    if isinstance(payload, dict):
        found = {**{key: value for key, value in found.items() if key != "payload"}, **payload}
    if "type" not in found and found.get("action") in _READERS and "agent" not in found:
        found = {"type": found["action"], **{key: value for key, value in found.items() if key != "action"}}
    if "args" not in found and "arguments" in found:
        found = {("args" if key == "arguments" else key): value for key, value in found.items()}
    return found


def _read_object(found: dict[str, Any], call_id: str, agents: Collection[str]) -> FinalAnswer | RequestedActions:
    kind = found.get("type", _implied_type(found))
    if kind is None:
        return FinalAnswer(found)
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise ActionParseError(f"type: must be one of {', '.join(_READERS)}")
    return read(found, call_id, agents)


def _implied_type(found: dict[str, Any]) -> str | None:
    """The only possible type of an object without `type`, or None."""
    if isinstance(found.get("agent"), str) and ("prompt" in found or "tool" in found):
        return "agent_call"
    return "tool_call" if isinstance(found.get("tool"), str) and "args" in found else None


def _read_final(found: dict[str, Any], call_id: str, agents: Collection[str]) -> FinalAnswer:
    _check_fields(found, ("content",))
    content = found.get("content")
    if content is None or (isinstance(content, str) and not content.strip()):
        raise ActionParseError("content: required, the answer itself")
    return FinalAnswer(content)


def _read_tool_call(found: dict[str, Any], call_id: str, agents: Collection[str]) -> RequestedActions:
    _check_fields(found, ("tool", "args"))
    tool = _require_text(found, "tool")
    if "args" not in found and (called := _parse_call_syntax(tool)):
        return _build_actions(found, ModelToolCall(*called, call_id))
    return _build_actions(found, ModelToolCall(tool, _read_args(found), call_id))


def _read_agent_call(found: dict[str, Any], call_id: str, agents: Collection[str]) -> RequestedActions:
    _check_fields(found, ("agent", "action", "tool", "args", "prompt"))
    agent = next(iter(agents)) if len(agents) == 1 and not found.get("agent") else _require_text(found, "agent")
    action = found.get("action") or ("tool_call" if "tool" in found else "infer")
    if action == "tool_call":
        arguments = {"agent": agent, "tool": _require_text(found, "tool"), "args": _read_args(found)}
        return _build_actions(found, ModelToolCall(AGENT_TOOL, arguments, call_id))
    if action == "infer":
        return _build_actions(
            found, ModelToolCall(DELEGATE_TOOL, {"agent": agent, "prompt": _require_text(found, "prompt")}, call_id)
        )
    raise ActionParseError("action: must be tool_call or infer")


_READERS: dict[str, Callable[[dict[str, Any], str, Collection[str]], FinalAnswer | RequestedActions]] = {
    "final": _read_final,
    "tool_call": _read_tool_call,
    "agent_call": _read_agent_call,
}


def _build_actions(found: dict[str, Any], call: ModelToolCall) -> RequestedActions:
    thought = found.get("thought")
    return RequestedActions((call,), thought if isinstance(thought, str) else "")


def _check_fields(found: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in found:
        if name not in known and name not in ("type", "thought"):
            raise ActionParseError(f"{name[:64]}: unknown field of {found.get('type', 'this action')}")


def _require_text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ActionParseError(f"{name}: required, a non-empty text")
    return value


def _read_args(found: dict[str, Any]) -> dict[str, Any]:
    value = found.get("args")
    if isinstance(value, str):  # some models write the object as a JSON string
        value = try_parse_json(value)
    if value is None and not found.get("args"):
        return {}
    if not isinstance(value, dict):
        raise ActionParseError("args: must be an object")
    return value


# tool(key=value)

_CALL = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]{0,127})\s*+\((.*)\)", re.DOTALL)
_KEY = re.compile(r"\s*+([A-Za-z_]\w{0,127})\s*+=\s*+")
_VALUE = re.compile(r"""("(?:[^"\\]|\\.)*+")|'((?:[^'\\]|\\.)*+)'|([^,'"(){}\[\]\s][^,'"(){}\[\]]*+)""", re.DOTALL)
_WORDS = {"True": True, "False": False, "None": None}


def _parse_call_syntax(text: str) -> tuple[str, dict[str, Any]] | None:
    """Parse `tool(key="text", other=3)`, with plain values only, to name and arguments. None for anything else."""
    call = _CALL.fullmatch(text.strip())
    if call is None:
        return None
    arguments: dict[str, Any] = {}
    rest, at = call[2].rstrip(), 0
    while at < len(rest):
        key = _KEY.match(rest, at)
        value = key and _VALUE.match(rest, key.end())
        if not key or not value or (value.end() < len(rest) and rest[value.end()] != ","):
            return None
        read = _parse_plain_value(value)
        if read is None and value[0].strip() not in ("None", "null"):
            return None
        arguments[key[1]] = read
        at = value.end() + 1
    return call[1], arguments


def _parse_plain_value(found: re.Match[str]) -> JsonValue:
    if found[2] is not None:
        return try_parse_json('"' + re.sub(r"\\'", "'", found[2]).replace('"', '\\"') + '"')
    word = found[0].strip()
    return _WORDS[word] if word in _WORDS else try_parse_json(word)
