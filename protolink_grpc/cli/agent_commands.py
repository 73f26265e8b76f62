"""`card get` and `send`."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from protolink_grpc.cli import output
from protolink_grpc.cli.connect import QUICK_S, WAIT_S, agent_client, run, url_of, within
from protolink_grpc.cli.describe import event_line, task_blocks, task_fields
from protolink_grpc.cli.failure import usage_error
from protolink_grpc.cli.questions import note_task_continues, show_approvals, show_question
from protolink_grpc.cli.settings import Settings
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.events import ApprovalRequired, RunEvent, TextDelta
from protolink_grpc.models.json_value import from_json
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task
from protolink_grpc.wire.cards import features_of


def get_card(settings: Settings, agent: str) -> None:
    """Print the agent's card."""

    async def work() -> AgentCard:
        return await agent_client(settings, QUICK_S).get_agent_card(await url_of(settings, agent))

    card = run(work(), agent)
    if settings.json:
        output.document(card.to_dict())
    else:
        show_card(card)


def show_card(card: AgentCard) -> None:
    for label, value in (
        ("Name", card.name),
        ("Description", card.description),
        ("URL", card.url),
        ("Version", card.version),
        ("Protocol", card.protocol_version),
        ("Role", card.role),
        ("Tags", ", ".join(card.tags)),
        ("Features", ", ".join(features_of(card))),
        ("Max concurrency", str(card.capabilities.max_concurrency or "")),
        ("Security", ", ".join(card.security_schemes or {})),
        ("Metadata", ", ".join(f"{key}={value}" for key, value in card.metadata.items())),
        ("Other URLs", ", ".join(each.url for each in card.interfaces)),
    ):
        output.field(label, value)
    for skill in card.skills:
        names = skill.input_schema.get("properties", {})
        arguments = ", ".join(names) if isinstance(names, dict) else ""
        output.field("Skill", f"{skill.id}({arguments}) {skill.description}")


@dataclass(frozen=True, slots=True)
class Sending:
    """The arguments of `send`.

    Args:
        text: The message; `-` reads it from standard input, None sends data only.
        data: JSON texts, each of which becomes a part.
        task_id: The task to continue; empty starts a new one.
        deltas: Whether a stream shows text while a model produces it; None means only on a terminal.
    """

    text: str | None = None
    data: Sequence[str] = ()
    task_id: str = ""
    session: str = ""
    request_id: str = ""
    wait: bool = True
    stream: bool = False
    deltas: bool | None = None


def send(settings: Settings, agent: str, sending: Sending) -> None:
    """Send a message and print the task when it ends or waits, or its events as they happen."""
    if sending.stream and not sending.wait:
        raise usage_error("--stream and --async exclude each other", "plgrpc task subscribe follows a task later")
    task = Task.create(_message(sending), session_id=sending.session or None)
    settled = run(_send(settings, agent, sending, task), agent)
    if not settings.json:
        show_task(settled)
    elif not sending.stream:
        output.document(settled.to_dict())
    advise(settings, agent, settled)


async def _send(settings: Settings, agent: str, sending: Sending, task: Task) -> Task:
    url = await url_of(settings, agent)
    client = agent_client(settings, WAIT_S)
    if sending.task_id:
        await _continue(client, url, sending, task)
    request_id = sending.request_id or None
    if not sending.wait:
        return await client.submit_task(url, task, request_id=request_id)
    try:
        if sending.stream:
            printer = EventPrinter(settings, sending.deltas, agent=agent)
            return await _stream(settings, client, url, task, request_id, printer)
        async with show_approvals(settings, agent, client, url, task.id):
            return await client.send_task(url, task, request_id=request_id)
    except asyncio.CancelledError:
        note_task_continues(settings, agent, task.id)
        raise


async def _continue(client: AgentClient, url: str, sending: Sending, task: Task) -> None:
    """Make `task` the next turn of the named task. An unknown id is an error and never starts a new task."""
    existing = await client.get_task(sending.task_id, agent_url=url)
    if sending.session and sending.session != existing.session_id:
        raise usage_error(
            f"task {existing.id} is not in session {sending.session}", "leave out --session: the task has a session"
        )
    task.id = existing.id


async def _stream(  # noqa: PLR0917 -- the parts of one stream
    settings: Settings, client: AgentClient, url: str, task: Task, request_id: str | None, printer: "EventPrinter"
) -> Task:
    # A stream retries during an outage, so check first that the agent is reachable at all.
    await client.get_agent_card(url)
    async with within(settings.timeout_s, "the task", task_id=task.id, url=url):
        # A repeated request id returns the events of the earlier task, which has another id.
        stream = cast(Any, client.send_task_streaming(url, task, request_id=request_id, deltas=printer.deltas))
        async with aclosing(stream) as events:
            async for event in events:
                task.id = event.task_id or task.id
                printer.show(event)
        printer.end()
    return await client.get_task(task.id, agent_url=url)


class EventPrinter:
    """Prints events as lines, and the text of a model while it is produced.

    Args:
        deltas: Whether to show such text; None means only on a terminal.
        agent: The agent as typed, for the commands that answer an approval; empty for a past log.
    """

    def __init__(self, settings: Settings, deltas: bool | None = None, *, agent: str = "") -> None:
        self._settings = settings
        self._agent = agent
        self.deltas = (not settings.json and sys.stdout.isatty()) if deltas is None else deltas
        self._json = settings.json
        self._call_id = ""

    def show(self, event: RunEvent) -> None:
        if self._json:
            output.json_line(event.to_dict())
        elif isinstance(event.payload, TextDelta):
            self._grow(event.payload)
        else:
            self.end()
            output.line(event_line(event), word=str(event.state or ""))
        if self._agent and isinstance(event.payload, ApprovalRequired):
            show_question(self._settings, self._agent, event.payload)

    def _grow(self, delta: TextDelta) -> None:
        if delta.call_id != self._call_id or not delta.offset:
            self.end()
            self._call_id = delta.call_id
        output.piece(delta.text)

    def end(self) -> None:
        """End the current line of text, so that other output starts on its own line."""
        if self._call_id:
            self._call_id = ""
            output.line()


def _message(sending: Sending) -> Message:
    parts = []
    if sending.text is not None:
        text = sys.stdin.read() if sending.text == "-" else sending.text
        if text.strip():
            parts.append(Part.text(text))
    parts += [Part.json(_json(text)) for text in sending.data]
    if not parts:
        raise usage_error("the message is empty", "pass a text, - for standard input, or --data JSON")
    return Message(role="user", parts=parts)


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except InvalidArgumentError as error:
        raise usage_error(f"--data {error.detail}", """quote it for the shell: --data '{"nights": 5}'""") from None


def show_task(task: Task) -> None:
    """Print a task as text: its state, then its results."""
    for label, value in task_fields(task):
        output.field(label, value)
    for label, content in task_blocks(task):
        output.block(label, content)


def advise(settings: Settings, agent: str, task: Task, *, answer: str = "") -> None:
    """Print the next step for a task that waits or works, and a warning for one that was not successful, to standard error.

    Args:
        answer: The command that continues the task; by default `send`.
    """
    if task.state in INTERRUPTED:
        missing = "input" if task.state is TaskState.INPUT_REQUIRED else "credentials"
        output.note("warning", f"the task waits for {missing}")
        answer = answer or settings.command("send", agent, "--task", task.id, "your answer")
        output.note("hint", f"continue it with: {answer}")
    elif task.state in TERMINAL and task.state is not TaskState.COMPLETED:
        reason = task.reason
        output.note("warning", f"the task was not successful: {task.state}" + (f", {reason}" if reason else ""))
    elif task.state not in TERMINAL:
        output.note("hint", f"follow it with: {settings.command('task subscribe', agent, task.id)}")
