"""Output of a command while it waits for a task: pending approvals, and the commands to continue with after Ctrl-C."""

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from protolink_grpc.cli import output
from protolink_grpc.cli.approvals_commands import ARGUMENTS_KEY
from protolink_grpc.cli.describe import time_left
from protolink_grpc.cli.settings import Settings
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import PermissionDeniedError, ProtolinkError
from protolink_grpc.models.events import ApprovalDecided, ApprovalRequired
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.references import References
from protolink_grpc.models.watch import StopAt

LOOK_AFTER_S = 1.0
"""Delay before a command looks for pending approvals, in seconds; most tasks have ended by then."""


@asynccontextmanager
async def show_approvals(
    settings: Settings, agent: str, client: AgentClient, url: str, task_id: str
) -> AsyncIterator[None]:
    """While the body waits for a task, print each approval that the task waits for.

    Args:
        task_id: The task may not exist yet.
    """
    watcher = asyncio.get_running_loop().create_task(_watch(settings, agent, client, url, task_id))
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.wait([watcher])


async def _watch(settings: Settings, agent: str, client: AgentClient, url: str, task_id: str) -> None:
    while True:
        await asyncio.sleep(LOOK_AFTER_S)
        try:
            await _show_all(settings, agent, client, url, task_id)
            return
        except PermissionDeniedError:
            return  # the caller may send tasks but not list approvals
        except ProtolinkError:
            continue  # the command itself reports the error


async def _show_all(settings: Settings, agent: str, client: AgentClient, url: str, task_id: str) -> None:
    """Print the pending approvals, then new ones."""
    waiting: dict[str, ApprovalRequired] = {}
    last, references = 0, References()  # the approval and its action are in two events
    for stop_at in (StopAt.CURRENT, StopAt.TERMINAL):
        watch = client.subscribe(task_id, agent_url=url, after=last, stop_at=stop_at)
        async with aclosing(cast(Any, watch)) as events:
            async for event in events:
                last = event.sequence
                match references.whole(event).payload:
                    case ApprovalRequired() as required if stop_at is StopAt.TERMINAL:
                        show_question(settings, agent, required)
                    case ApprovalRequired(request=request) as required:
                        waiting[request.request_id] = required
                    case ApprovalDecided(decision=decision):
                        waiting.pop(decision.request_id, None)
        if stop_at is StopAt.CURRENT:
            for required in waiting.values():
                show_question(settings, agent, required)


def show_question(settings: Settings, agent: str, required: ApprovalRequired) -> None:
    """Print the action to approve with its arguments, and the commands that answer the approval.

    Text from the agent is on lines of its own, so that it cannot imitate a hint.
    """
    request, action = required.request, required.request.action
    output.note("note", f"task {request.task_id} waits for an approval of {output.one_line(action.name, output.WIDTH)}")
    fields = [
        ("action", f"{action.kind} {action.name}"),
        ("description", action.description),
        ("arguments", to_json(action.payload.get(ARGUMENTS_KEY, action.payload))),
        ("reason", request.policy_decision.reason),
        ("expires", time_left(request.expires_at) if request.expires_at else ""),
    ]
    for label, value in fields:
        if value:
            output.note(f"  {label}", output.one_line(value, 2000))
    etag = ("--etag", required.etag or action.fingerprint)
    for verb in ("approve", "deny"):
        command = settings.command(f"approvals {verb}", agent, request.request_id, *etag)
        output.note("hint", f"{verb} it with:\n{wrap_command(command)}")


def note_task_continues(settings: Settings, agent: str, task_id: str) -> None:
    """Print that the task continues although the command stops waiting."""
    output.note("note", f"task {task_id} continues")
    output.note("hint", f"follow it with: {settings.command('task subscribe', agent, task_id)}")
    output.note("hint", f"cancel it with: {settings.command('task cancel', agent, task_id)}")


def wrap_command(command: str) -> str:
    """Wrap a command to lines of at most `output.WIDTH` columns, if its words allow that, so that it can be pasted into a shell."""
    lines: list[str] = []
    here = ""
    for word in map(shlex.quote, shlex.split(command)):
        if here and len(here) + len(word) + 3 > output.WIDTH:  # a blank, and ` \` at the end
            lines.append(here)
            here = " " * 2
        here += word if not here.strip() else f" {word}"
    return " \\\n".join([*lines, here])
