"""What a model answered, read as an action: native tool calls, or the JSON contract with the repairs that small models need.

Reading only: whether a tool exists and its arguments fit is `checks`' business. Whatever a model writes, the only error that
leaves here is ActionParseError, and the time is linear in the length of the text. Why no library for broken JSON: docs/adr/0031.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.port import ModelToolCall
from protolink_grpc.models.events import LlmCallCompleted
from protolink_grpc.models.json_value import JsonValue, from_json, to_json

DELEGATE_TOOL = "delegate_to_agent"
"""What an agent is asked with: `{agent, prompt}`. Reserved: no tool of an agent has this name."""

AGENT_TOOL = "call_agent_tool"
"""What an agent's tool is called with: `{agent, tool, args}`. Reserved as well."""

RAW_ARGUMENTS = "raw_arguments"
"""In the metrics of a completed call: call id -> arguments that are no JSON object, as the model wrote them."""


class ActionParseError(ValueError):
    """An answer that is no action. Never leaves the loop.

    Args:
        feedback: What is wrong, for the model; names the field where there is one.
        parsed_data: What could be read of it.
    """

    def __init__(self, feedback: str, parsed_data: JsonValue = None) -> None:
        super().__init__(feedback)
        self.feedback = feedback
        self.parsed_data = parsed_data


@dataclass(frozen=True, slots=True)
class Final:
    """The end of the inference; `content` is never None."""

    content: JsonValue


@dataclass(frozen=True, slots=True)
class Calls:
    """Actions to run, in order; delegation goes by the names of the two reserved tools. `thought` is what was said besides."""

    calls: tuple[ModelToolCall, ...]
    thought: str = ""


def read_native(answer: LlmCallCompleted) -> Final | Calls:
    """The answer of a model with native tool calls. Raises ActionParseError when it is empty."""
    if answer.tool_calls:
        raw = answer.metrics.get(RAW_ARGUMENTS) or {}
        calls = (
            ModelToolCall(call.tool_name, call.json_args(), call.call_id, raw.get(call.call_id))
            for call in answer.tool_calls
        )
        return Calls(tuple(calls), answer.text)
    if not answer.text.strip():
        raise ActionParseError("The answer is empty: answer in text, or call a tool")
    return Final(answer.text)


def read_action(text: str, call_id: str, tools: Collection[str] = (), agents: Collection[str] = ()) -> Final | Calls:
    """The one action of an answer under the JSON contract.

    Repairs what does not change its meaning: a leading `<think>` block, a code fence, text around the object, trailing commas,
    line ends in strings, an action wrapped in its name or in `payload`, `tool(key=value)`, a missing agent where there is only
    one. An object that is no action is the final answer itself.

    Args:
        call_id: Given to the call, which has no id of its own here.
        tools: Names that `tool(key=value)` may call when it is the whole answer.
        agents: Names of the agents that can be asked.

    Raises:
        ActionParseError: No action, several, or one whose fields are wrong.
    """
    body = _unfenced(without_thinking(text))
    value = _loads(body)
    if value is None and (called := _shorthand(body)) and called[0] in tools:
        return Calls((ModelToolCall(*called, call_id),))
    found = _only_object(body) if value is None else value
    if not isinstance(found, dict):
        raise ActionParseError("Answer with one JSON object", found)
    try:
        return _read_object(_lifted(found), call_id, agents)
    except ActionParseError as error:
        raise ActionParseError(error.feedback, found) from None


def json_in(text: str) -> JsonValue:
    """The JSON value that a text is, a code fence and trailing commas forgiven. Raises ActionParseError."""
    body = _unfenced(without_thinking(text))
    value = _loads(body)
    if value is None and body != "null":
        raise ActionParseError("The answer must be JSON and nothing else")
    return value


def action_dict(call: ModelToolCall) -> dict[str, Any]:
    """A call in the words of the JSON contract."""
    arguments = call.arguments
    if call.name == DELEGATE_TOOL:
        rest = {key: value for key, value in arguments.items() if key in ("agent", "prompt")}
        return {"type": "agent_call", "action": "infer", **rest}
    if call.name == AGENT_TOOL:
        rest = {key: value for key, value in arguments.items() if key in ("agent", "tool", "args")}
        return {"type": "agent_call", "action": "tool_call", **rest}
    return {"type": "tool_call", "tool": call.name, "args": arguments}


def action_text(call: ModelToolCall) -> str:
    """A call as a model under the JSON contract should have written it."""
    return to_json(action_dict(call))


# The text around the object


def without_thinking(text: str) -> str:
    """The text behind a leading `<think>` block; one that is never closed hides everything."""
    body = text.strip()
    if not body.startswith("<think>"):
        return body
    return body.partition("</think>")[2].strip()


def _unfenced(body: str) -> str:
    if not (body.startswith("```") and body.endswith("```") and "\n" in body):
        return body
    return body.partition("\n")[2][:-3].strip()


def _loads(text: str) -> JsonValue:
    """The value of a JSON text, mended where it must be; None when it is none, and for `null`, which is no answer either."""
    for spelled in (str, _mended):
        try:
            return from_json(spelled(text))
        except InvalidArgumentError:
            continue
    return None


# A string, also one that is never closed: an unmatched quote must not be tried again from each place behind it.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_MENDABLE = re.compile(_STRING + r"|,(?=\s*+[}\]])", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")


def _mended(text: str) -> str:
    """Without trailing commas, and with line ends in strings spelled as JSON wants them."""
    return _MENDABLE.sub(lambda found: "" if found[0] == "," else _CONTROL.sub(_escaped, found[0]), text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


_STRUCTURE = re.compile(_STRING + r"|[{}]", re.DOTALL)


def _only_object(body: str) -> JsonValue:
    """The one JSON object in a text."""
    found = [value for part in _balanced(body) if isinstance(value := _loads(part), dict)]
    if len(found) > 1:
        raise ActionParseError(
            f"Found {len(found)} JSON objects: answer with exactly one action at a time", list(found)
        )
    if not found:
        raise ActionParseError("No JSON object found: answer with one JSON object and nothing else")
    return found[0]


def _balanced(body: str) -> list[str]:
    """The outermost `{...}` of a text, strings respected; quotes outside of objects are prose."""
    parts: list[str] = []
    start = body.find("{")
    while start >= 0:
        depth, end = 0, -1
        for token in _STRUCTURE.finditer(body, start):
            depth += {"{": 1, "}": -1}.get(token[0], 0)
            if depth == 0:
                end = token.end()
                break
        if end < 0:  # never closed: nothing behind it can be outermost
            return parts
        parts.append(body[start:end])
        start = body.find("{", end)
    return parts


# The object


def _lifted(found: dict[str, Any]) -> dict[str, Any]:
    """The action itself, where it is wrapped in its name or in `payload`, with the usual other names of its fields."""
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


def _read_object(found: dict[str, Any], call_id: str, agents: Collection[str]) -> Final | Calls:
    kind = found.get("type", _implied(found))
    if kind is None:
        return Final(found)
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise ActionParseError(f"type: must be one of {', '.join(_READERS)}")
    return read(found, call_id, agents)


def _implied(found: dict[str, Any]) -> str | None:
    """What an object without `type` can only be."""
    if isinstance(found.get("agent"), str) and ("prompt" in found or "tool" in found):
        return "agent_call"
    return "tool_call" if isinstance(found.get("tool"), str) and "args" in found else None


def _final(found: dict[str, Any], call_id: str, agents: Collection[str]) -> Final:
    _only(found, ("content",))
    content = found.get("content")
    if content is None or (isinstance(content, str) and not content.strip()):
        raise ActionParseError("content: required, the answer itself")
    return Final(content)


def _tool_call(found: dict[str, Any], call_id: str, agents: Collection[str]) -> Calls:
    _only(found, ("tool", "args"))
    tool = _text(found, "tool")
    if "args" not in found and (called := _shorthand(tool)):
        return _one(found, ModelToolCall(*called, call_id))
    return _one(found, ModelToolCall(tool, _args(found), call_id))


def _agent_call(found: dict[str, Any], call_id: str, agents: Collection[str]) -> Calls:
    _only(found, ("agent", "action", "tool", "args", "prompt"))
    agent = next(iter(agents)) if len(agents) == 1 and not found.get("agent") else _text(found, "agent")
    action = found.get("action") or ("tool_call" if "tool" in found else "infer")
    if action == "tool_call":
        arguments = {"agent": agent, "tool": _text(found, "tool"), "args": _args(found)}
        return _one(found, ModelToolCall(AGENT_TOOL, arguments, call_id))
    if action == "infer":
        return _one(found, ModelToolCall(DELEGATE_TOOL, {"agent": agent, "prompt": _text(found, "prompt")}, call_id))
    raise ActionParseError("action: must be tool_call or infer")


_READERS: dict[str, Callable[[dict[str, Any], str, Collection[str]], Final | Calls]] = {
    "final": _final,
    "tool_call": _tool_call,
    "agent_call": _agent_call,
}


def _one(found: dict[str, Any], call: ModelToolCall) -> Calls:
    thought = found.get("thought")
    return Calls((call,), thought if isinstance(thought, str) else "")


def _only(found: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in found:
        if name not in known and name not in ("type", "thought"):
            raise ActionParseError(f"{name[:64]}: no field of {found.get('type', 'this action')}")


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ActionParseError(f"{name}: required, a text that is not empty")
    return value


def _args(found: dict[str, Any]) -> dict[str, Any]:
    value = found.get("args")
    if isinstance(value, str):  # JSON inside of JSON, as some models learned it
        value = _loads(value)
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


def _shorthand(text: str) -> tuple[str, dict[str, Any]] | None:
    """Name and arguments of `tool(key="text", other=3)`, with plain values only; None for anything else."""
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
        read = _plain_value(value)
        if read is None and value[0].strip() not in ("None", "null"):
            return None
        arguments[key[1]] = read
        at = value.end() + 1
    return call[1], arguments


def _plain_value(found: re.Match[str]) -> JsonValue:
    if found[2] is not None:
        return _loads('"' + re.sub(r"\\'", "'", found[2]).replace('"', '\\"') + '"')
    word = found[0].strip()
    return _WORDS[word] if word in _WORDS else _loads(word)
