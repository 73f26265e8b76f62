"""Approvals over the death of the requesting process, and between processes that share a store."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import (
    AgentClient,
    ApprovalDecision,
    ApprovalNotFoundError,
    Approvals,
    ApprovalState,
    SQLiteStore,
    Task,
    TaskState,
)
from protolink_grpc.models.action import Approval
from protolink_grpc.models.events import ApprovalDecided
from protolink_grpc.models.watch import StopAt
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.storage.approvals import ApprovalQuery

PATIENCE_S = 30.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

# What the tool does is seen in a file: a line for each time that it ran.
AGENT = """
    import asyncio, sys
    from protolink_grpc import Agent, AgentCapabilities, AgentCard, Approvals, CapabilityPolicy, SQLiteStore

    url, path, ran = sys.argv[1:]
    card = AgentCard(name="hotel", description="books", url=url, capabilities=AgentCapabilities(max_concurrency=8))
    policy = CapabilityPolicy({"booking.write": {"effect": "require_approval", "editable": True}})
    agent = Agent(card, store=SQLiteStore(path), policy=policy, approvals=Approvals(), grace_s=0)

    @agent.tool(capabilities=["booking.write"])
    def book(nights: int) -> str:
        with open(ran, "a") as file:
            print(nights, file=file)
        return f"{nights} nights"

    async def main():
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""

Launch = Callable[..., Awaitable[Any]]
OWNER = "anonymous"
"""The principal of callers without authentication."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def start(launch: Launch, path: Path, ran: Path) -> Callable[[], Awaitable[tuple[Any, AgentClient]]]:
    """Starts the agent in a process of its own, always on the same store; returns it and a client."""

    async def run() -> tuple[Any, AgentClient]:
        program = await launch(AGENT, "grpc://127.0.0.1:0", path, ran)
        return program, AgentClient(url=await program.line())

    return run


Start = Callable[[], Awaitable[tuple[Any, AgentClient]]]


def booking(nights: int) -> Task:
    return Task.create_tool_call("book", {"nights": nights})


async def asked(client: AgentClient, count: int = 1) -> list[Approval]:
    """What waits, once so much does."""
    found: list[Approval] = []
    async with asyncio.timeout(PATIENCE_S), aclosing(client.watch_approvals()) as approvals:
        while len(found) < count:
            found.append(await anext(approvals))
    return found


async def ended(client: AgentClient, task_id: str) -> Task:
    async with asyncio.timeout(PATIENCE_S):
        return await client.wait_task(task_id)


def beside(path: Path) -> TaskService:
    """The agent's service on the same store in this process, which runs nothing."""

    async def refuse(task: Task, run: Any) -> None:
        raise AssertionError("nothing runs here")

    return TaskService("hotel", SQLiteStore(path), refuse, approvals=Approvals())


async def answers(client: AgentClient, task_id: str) -> list[ApprovalDecision]:
    """Every answer in a log."""
    events = [event async for event in client.subscribe(task_id, stop_at=StopAt.CURRENT)]
    return [event.payload.decision for event in events if isinstance(event.payload, ApprovalDecided)]


async def test_a_question_outlives_its_process_and_is_answered_at_the_next_one(start: Start, ran: Path) -> None:
    program, client = await start()
    task = await client.submit_task(None, booking(2))
    (approval,) = await asked(client)
    await program.kill()
    _, client = await start()
    assert (await client.list_approvals()).approvals == [approval]
    answer = await client.respond_approval(None, approval, True, edited_arguments={"nights": 3})
    assert not answer.already_decided
    assert (await ended(client, task.id)).state is TaskState.COMPLETED
    assert ran.read_text() == "3\n"
    assert len(await answers(client, task.id)) == 1


async def test_an_answer_given_while_nothing_runs_is_found_by_the_run_that_takes_over(
    start: Start, path: Path, ran: Path
) -> None:
    program, client = await start()
    tasks = [await client.submit_task(None, booking(nights)) for nights in (1, 2)]
    approvals = {each.request.task_id: each for each in await asked(client, 2)}
    await program.kill()
    service = beside(path)
    await service.store.open()
    for task, approved in zip(tasks, (True, False), strict=True):
        shown = approvals[task.id]
        decision = ApprovalDecision(approved, shown.approval_id, reason="late", fingerprint=shown.etag)
        approval, already = await service.approvals.respond(decision, OWNER)
        assert (approval.state, already) == (ApprovalState.APPROVED if approved else ApprovalState.DENIED, False)
    await service.store.close()
    assert not ran.exists()
    _, client = await start()
    for task in tasks:
        assert (await ended(client, task.id)).is_terminal
        assert [each.reason for each in await answers(client, task.id)] == ["late"]
    assert ran.read_text() == "1\n"


async def test_an_answer_from_another_process_reaches_a_run_that_waits(start: Start, path: Path, ran: Path) -> None:
    _, client = await start()
    task = await client.submit_task(None, booking(2))
    (approval,) = await asked(client)
    service = beside(path)
    await service.store.open()
    async with asyncio.timeout(PATIENCE_S), aclosing(client.watch_approvals()) as watch:
        assert await anext(watch) == approval
        await service.approvals.respond(ApprovalDecision(True, approval.approval_id, fingerprint=approval.etag), OWNER)
        assert (await anext(watch)).state is ApprovalState.APPROVED
    assert (await ended(client, task.id)).state is TaskState.COMPLETED
    await service.store.close()
    assert ran.read_text() == "2\n"


async def test_a_watch_hears_of_questions_that_another_process_asks(start: Start, path: Path) -> None:
    _, client = await start()
    service = beside(path)
    await service.store.open()
    async with asyncio.timeout(PATIENCE_S), aclosing(service.approvals.watch(OWNER)) as watch:
        assert (await anext(watch)).approvals == []
        task = await client.submit_task(None, booking(2))
        (approval,) = (await anext(watch)).approvals
        assert (approval.request.task_id, approval.state) == (task.id, ApprovalState.PENDING)
        await client.cancel_task(None, task.id)
        (approval,) = (await anext(watch)).approvals
        assert approval.state is ApprovalState.WITHDRAWN
    await service.store.close()


async def test_of_answers_that_race_between_processes_exactly_one_counts(start: Start, path: Path, ran: Path) -> None:
    _, client = await start()
    services = [beside(path) for _ in range(3)]
    for service in services:
        await service.store.open()
    for nights in range(1, 6):
        task = await client.submit_task(None, booking(nights))
        (approval,) = await asked(client)
        request_id = approval.request.request_id
        given = await asyncio.gather(
            *(service.approvals.respond(ApprovalDecision(False, request_id), OWNER) for service in services),
            client.respond_approval(None, approval, True),
        )
        already = [each.already_decided if nth == 3 else each[1] for nth, each in enumerate(given)]
        assert already.count(False) == 1
        assert (await ended(client, task.id)).is_terminal
        (counted,) = await answers(client, task.id)
        runs = ran.read_text().splitlines() if ran.exists() else []
        assert (str(nights) in runs) is counted.approved
    for service in services:
        await service.store.close()


async def test_approvals_of_an_agent_are_not_those_of_its_neighbour_on_the_store(start: Start, path: Path) -> None:
    _, client = await start()
    await client.submit_task(None, booking(2))
    (approval,) = await asked(client)
    service = beside(path)
    neighbour = TaskService(
        "other", SQLiteStore(path), service._admission._host.handler, approvals=Approvals(approvers=lambda *_: True)
    )
    await neighbour.store.open()
    every = ApprovalQuery(page_size=1000)
    assert (await neighbour.approvals.page(OWNER, every)).approvals == []
    with pytest.raises(ApprovalNotFoundError):
        await neighbour.approvals.respond(
            ApprovalDecision(True, approval.approval_id, fingerprint=approval.etag), OWNER
        )
    await neighbour.store.close()
