"""`task get`, `task list`, `task cancel`, `task subscribe`."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, Final, cast

from protolink_grpc.cli import output
from protolink_grpc.cli.agent_commands import EventPrinter, advise, show_task
from protolink_grpc.cli.connect import QUICK_S, WAIT_S, agent_client, run, url_of, within
from protolink_grpc.cli.describe import session_cell, task_fields, time_ago
from protolink_grpc.cli.failure import CommandError, usage_error
from protolink_grpc.cli.questions import note_task_continues, show_approvals
from protolink_grpc.cli.settings import Settings
from protolink_grpc.client.port import TaskList
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.lifecycle import TERMINAL, TaskState
from protolink_grpc.models.snapshot import TaskSnapshotPage
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_control import TaskStatus
from protolink_grpc.models.watch import StopAt

_STATES: Final = frozenset(map(str, TaskState))
_STATUSES: Final = frozenset(map(str, TaskStatus))


def get(settings: Settings, agent: str, task_id: str, *, wait: bool) -> None:
    """Print a task. With `wait`, first wait until it ends or waits for input."""

    async def work() -> Task:
        url = await url_of(settings, agent)
        client = agent_client(settings, QUICK_S)
        if not wait:
            return await client.get_task(task_id, agent_url=url)
        try:
            async with (
                within(settings.timeout_s or WAIT_S, f"task {task_id}", task_id=task_id, url=url),
                show_approvals(settings, agent, client, url, task_id),
            ):
                return await client.wait_task(task_id, agent_url=url)
        except asyncio.CancelledError:
            note_task_continues(settings, agent, task_id)
            raise

    task = run(work(), agent)
    if settings.json:
        output.document(task.to_dict())
        return
    show_task(task)
    if wait:
        advise(settings, agent, task)


def list_tasks(  # noqa: PLR0917 -- one per option
    settings: Settings, agent: str, states: Sequence[str], session: str, since: str, limit: int, page_token: str
) -> None:
    """Print one page of the caller's tasks, most recently changed first.

    Args:
        states: States, or statuses if one of them is not a state.
    """
    if states and not set(states) <= _STATES and set(states) <= _STATUSES:
        _list_statuses(settings, agent, states, session, since, limit, page_token)
        return
    for each in states:
        if each not in _STATES:
            raise _state_error(each, states)
    if since:
        try:
            micros_from_iso(since, field="--since")
        except InvalidArgumentError as error:
            raise usage_error(str(error), "for instance --since 2026-01-31T12:00:00Z") from None

    async def work() -> TaskList:
        return await agent_client(settings, QUICK_S).list_tasks(
            agent_url=await url_of(settings, agent),
            states=[TaskState(state) for state in states],
            session_id=session,
            updated_after=since,
            page_size=limit,
            page_token=page_token,
            include_total=True,
        )

    page = run(work(), agent)
    if settings.json:
        tasks = [asdict(task) | {"state": str(task.state)} for task in page.tasks]
        output.document({"tasks": tasks, "next_page_token": page.next_page_token, "total_size": page.total_size})
        return
    heads = ("TASK", "STATE", "UPDATED", "SESSION", "REASON")
    rows = [
        (task.id, str(task.state), time_ago(task.updated_at), session_cell(task.id, task.session_id), task.reason)
        for task in page.tasks
    ]
    output.columns_with_values(heads, rows)
    if page.next_page_token:
        output.note("hint", f"{page.total_size} tasks in total; the next page: --page-token {page.next_page_token}")


def _state_error(name: str, states: Sequence[str]) -> CommandError:
    """Build the error for a name that is not a state, or that is a status beside a state."""
    if name in _STATUSES:
        state = next(each for each in states if each not in _STATUSES)
        what = "is a state" if state in _STATES else "is neither a state nor a status"
        return usage_error(f"{name} is a status of a task, and {state} {what}", "list states and statuses separately")
    return usage_error(
        f"--state: {name} is neither a state nor a status",
        f"states: {', '.join(sorted(_STATES))}; statuses: {', '.join(sorted(_STATUSES))}",
    )


def _list_statuses(  # noqa: PLR0917 -- one per option
    settings: Settings, agent: str, statuses: Sequence[str], session: str, since: str, limit: int, page_token: str
) -> None:
    """Print one page of the tasks with these statuses."""
    if since:
        raise usage_error("--since excludes statuses", "--since takes states, for instance --state submitted")

    async def work() -> TaskSnapshotPage:
        return await agent_client(settings, QUICK_S).tasks.list(
            statuses=statuses,
            session_id=session,
            page_size=limit,
            page_token=page_token,
            agent_url=await url_of(settings, agent),
        )

    page = run(work(), agent)
    if settings.json:
        output.document({"tasks": [asdict(each) for each in page.snapshots], "next_page_token": page.next_page_token})
        return
    rows = [
        (
            each.task_id,
            str(each.status),
            time_ago(each.updated_at or ""),
            "" if each.description is None else each.description.title,
        )
        for each in page.snapshots
    ]
    output.columns(("TASK", "STATUS", "CHANGED", "TITLE"), rows)
    if page.next_page_token:
        output.note("hint", f"there may be more; the next page: --page-token {page.next_page_token}")


def cancel(settings: Settings, agent: str, task_id: str, reason: str) -> None:
    """Cancel a task and print it."""

    async def work() -> Task:
        url = await url_of(settings, agent)
        client = agent_client(settings, QUICK_S)
        await client.cancel_task(url, task_id, reason=reason or None)
        return await client.get_task(task_id, agent_url=url)

    task = run(work(), agent)
    if settings.json:
        output.document(task.to_dict())
    else:
        for label, value in task_fields(task):
            output.field(label, value)


def subscribe(settings: Settings, agent: str, task_id: str, *, after: int, stop_at: str, deltas: bool | None) -> None:
    """Print a task's events after a sequence: stored ones, then new ones."""
    printer = EventPrinter(settings, deltas)

    async def work() -> Task | None:
        url = await url_of(settings, agent)
        client = agent_client(settings, QUICK_S)
        # A stream retries during an outage, so check first that the agent is reachable at all.
        await client.get_agent_card(url)
        async with within(settings.timeout_s, f"task {task_id}", task_id=task_id, url=url):
            watch = client.subscribe(
                task_id, agent_url=url, after=after, stop_at=StopAt(stop_at), deltas=printer.deltas
            )
            async with aclosing(cast(Any, watch)) as events:
                async for event in events:
                    printer.show(event)
            printer.end()
        return None if settings.json else await client.get_task(task_id, agent_url=url)

    task = run(work(), agent)
    if task is None:
        return
    for label, value in task_fields(task):
        output.field(label, value)
    if task.state not in TERMINAL:
        advise(settings, agent, task)
