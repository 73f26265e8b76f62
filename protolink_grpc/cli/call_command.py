"""`call`: calls one tool of an agent with arguments from the command line and prints only the result."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from protolink_grpc.cli import output
from protolink_grpc.cli.connect import WAIT_S, agent_client, nearest, run, url_of
from protolink_grpc.cli.failure import CommandError, command_error, usage_error
from protolink_grpc.cli.questions import note_task_continues, show_approvals
from protolink_grpc.cli.settings import Settings
from protolink_grpc.errors import DeadlineExceededError, InvalidArgumentError, ToolRejectedError
from protolink_grpc.models.card import AgentSkill
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.models.json_value import from_json

MAX_REFERENCES = 20
"""How many references to other schemas are followed, because references can be circular."""


def call(
    settings: Settings, agent: str, tool: str, arguments: Sequence[str], *, session: str = "", request_id: str = ""
) -> None:
    """Call the tool and print its result.

    Raises:
        CommandError: The tool does not exist, rejects the arguments, or failed.
    """
    parsed, listing = parse_arguments(arguments), settings.command("task list", agent)

    async def work() -> Any:
        url = await url_of(settings, agent)
        client = agent_client(settings, WAIT_S)
        skill = find_skill((await client.get_agent_card(url)).skills, tool, agent)
        coerced = {name: value if raw else coerce(value, name, skill.input_schema) for name, raw, value in parsed}
        task_id = new_task_id()
        try:
            async with show_approvals(settings, agent, client, url, task_id):
                return await client.call_tool(
                    url, tool, coerced, task_id=task_id, session_id=session or None, request_id=request_id or None
                )
        except asyncio.CancelledError:
            if request_id:  # a repeated request returns the task of the first one, whose id is unknown here
                output.note("hint", f"the call may continue there; find its task with: {listing}")
            else:
                note_task_continues(settings, agent, task_id)
            raise
        except ToolRejectedError as error:
            raise _rejection_error(error) from error
        except DeadlineExceededError as error:
            timeout = command_error(error, agent)
            follow = listing if request_id else settings.command("task subscribe", agent, task_id)
            timeout.hint = f"the call continues there and may wait for an approval: {follow}"
            raise timeout from error

    result = run(work(), agent)
    if settings.json:
        output.document(result)
    else:
        for line in output.pretty(result).splitlines() or [""]:
            output.line(line)


def parse_arguments(texts: Sequence[str]) -> list[tuple[str, bool, Any]]:
    """Parse `key=value` and `key:=json` to (key, whether the value is JSON, value).

    Raises:
        CommandError: An argument has another form, a key is repeated, or the text after `:=` is not JSON.
    """
    found: dict[str, tuple[str, bool, Any]] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        raw = key.endswith(":")
        key = key.removesuffix(":") if raw else key
        if not separator or not key:
            raise usage_error(f"{text!r} is not an argument", "write key=value, or key:=JSON")
        if key in found:
            raise usage_error(f"the argument {key} is repeated", "pass a list as JSON: key:='[1, 2]'")
        try:
            found[key] = (key, raw, from_json(value) if raw else value)
        except InvalidArgumentError as error:
            raise usage_error(f"{key}:= {error.detail}", f"text needs no colon: {key}={value}") from None
    return list(found.values())


def find_skill(skills: Sequence[AgentSkill], tool: str, agent: str) -> AgentSkill:
    """Find the skill with that name.

    Raises:
        CommandError: The agent has no such tool. The hint contains the most similar name.
    """
    names = [skill.id for skill in skills]
    for skill in skills:
        if skill.id == tool:
            return skill
    near = nearest(tool, names)
    offer = f"it has: {', '.join(names)}" if names else "its card lists no tools"
    raise CommandError(
        f"{agent} has no tool {tool!r}",
        hint=f"did you mean {near!r}?" if near else offer,
        code="UNKNOWN_TOOL",
        metadata={"tool": tool, "nearest": near},
    )


def coerce(text: str, name: str, schema: dict[str, Any]) -> Any:
    """Convert `text` to a value for the argument `name` of a tool.

    It stays text if the schema allows text or has no type; otherwise it is parsed as JSON. If that fails, it stays text, and the
    agent's own validation reports the argument.
    """
    properties = schema.get("properties")
    wanted = properties.get(name) if isinstance(properties, dict) else None
    if wanted is None:
        wanted = schema.get("additionalProperties")
    kinds = set(_kinds(wanted, schema, 0))
    if not kinds or "string" in kinds:
        return text
    lowered = text.lower() if kinds & {"boolean", "null"} else text
    try:
        return from_json(lowered if lowered in ("true", "false", "null") else text)
    except InvalidArgumentError:
        return text


def _kinds(wanted: Any, schema: dict[str, Any], depth: int) -> Iterator[str]:
    """Yield the names of the JSON types that a schema allows; nothing if it does not restrict them."""
    if not isinstance(wanted, dict) or depth > MAX_REFERENCES:
        return
    kind = wanted.get("type")
    if isinstance(kind, str):
        yield kind
    elif isinstance(kind, list):
        yield from (each for each in kind if isinstance(each, str))
    else:
        values = wanted.get("enum", [wanted["const"]] if "const" in wanted else [])
        yield from ("string" if isinstance(value, str) else "json" for value in values)
    reference = wanted.get("$ref")
    if isinstance(reference, str):
        yield from _kinds(_resolve(reference, schema), schema, depth + 1)
    for word in ("anyOf", "oneOf", "allOf"):
        for each in wanted.get(word, ()):
            yield from _kinds(each, schema, depth + 1)


def _resolve(reference: str, schema: dict[str, Any]) -> Any:
    """Resolve a reference within the schema (`#/$defs/Name`). Returns None for any other reference."""
    here: Any = schema
    for step in reference.removeprefix("#/").split("/") if reference.startswith("#/") else [reference]:
        here = here.get(step) if isinstance(here, dict) else None
    return here


def _rejection_error(error: ToolRejectedError) -> CommandError:
    """Build the error for a rejected call, with the paths of the invalid arguments."""
    problems = error.details.get("errors", [])
    paths = (
        [str(each.get("path", "")) for each in problems if isinstance(each, dict)] if isinstance(problems, list) else []
    )
    rejection = command_error(error)
    if paths:
        rejection.metadata = {**rejection.metadata, "paths": ", ".join(paths)}
    return rejection
