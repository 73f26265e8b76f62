"""A process is killed while it deletes many tasks: each of them is whole or gone, and a repetition deletes the rest."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc.models.action import ApprovalState
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.storage.approvals import APPROVALS, ApprovalRow
from protolink_grpc.storage.port import Append, TaskHead
from protolink_grpc.storage.records import Put, Records
from protolink_grpc.storage.session_log import Opening, SessionAppend
from protolink_grpc.storage.session_rows import ENDED_TURNS, ENTRIES, HEADS, owner_of
from protolink_grpc.storage.sqlite.store import SQLiteStore
from protolink_grpc.storage.webhooks import WEBHOOKS, PushRow, put_webhook

TASKS, EVENTS = 60, 40
"""Tasks per round, and events of each: about 40 KiB, so that a deletion writes many pages."""

ROUNDS = 6
OWNER = owner_of("agent", "ada")
WHOLE = {"log": EVENTS, "request": 1, "approval": 1, "webhook": 1, "entry": 1, "turn": 1}

PROGRAM = """
    import asyncio, itertools, os, signal, sys
    from protolink_grpc import SQLiteStore

    async def main(path, size, fatal, *ids):
        store, size, fatal, calls = SQLiteStore(path), int(size), int(fatal), itertools.count(1)

        def die_at_last(_):
            # Within the transaction, which may already contain other deletions.
            if next(calls) == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

        async def delete(some):
            assert (await store.delete(some, records=die_at_last)).tasks == len(some)
            print(" ".join(some), flush=True)

        await store.open()
        print("ready", flush=True)
        sys.stdin.readline()
        await asyncio.gather(*(delete(ids[at : at + size]) for at in range(0, len(ids), size)))
        await store.close()

    asyncio.run(main(*sys.argv[1:]))
"""


async def fill(store: SQLiteStore, ids: list[str]) -> None:
    """Store ended tasks of five sessions, each with an approval, a webhook, a request id and a turn."""

    async def add(number: int, task_id: str) -> None:
        session_id = f"s{number % 5}"
        head = TaskHead(
            task_id, "ada", "agent", session_id, TaskState.COMPLETED, EVENTS, "run", 1_000, 1_000, "worker", 1
        )
        approval = ApprovalRow(task_id, "agent", "ada", task_id, ApprovalState.WITHDRAWN, 1_000, 1, 2)
        turn = SessionAppend(OWNER, session_id, task_id, 1, EVENTS, 1_000, Opening(), end=(TaskState.COMPLETED, ""))
        frames = [b"event" * 200] * EVENTS
        await store.append(Append(head, frames, 0, 0, task_id, [Put(APPROVALS, approval)], turn))
        hook = PushRow("agent", "ada", task_id, "hook", b"body", 0, 1_000)
        await store.change(lambda records: put_webhook(records, hook))

    await asyncio.gather(*(add(number, task_id) for number, task_id in enumerate(ids)))


async def parts(store: SQLiteStore, task_id: str) -> dict[str, int]:
    """What the store has of a task: the number of events and records; empty if there is nothing."""
    found = {"log": 0, "request": int(await store.request("agent", "ada", task_id) is not None)}
    while frames := await store.read(task_id, found["log"], 1000):
        found["log"] += len(frames)

    def query(records: Records) -> dict[str, int]:
        numbers = [head.number for head in records.select(HEADS, {"owner": OWNER})]
        of_task = {"task_id": task_id}
        return {
            "approval": int(records.get(APPROVALS, "agent", task_id) is not None),
            "webhook": len(records.select(WEBHOOKS, {"agent_name": "agent", **of_task})),
            "entry": sum(len(records.select(ENTRIES, {"session": number, **of_task})) for number in numbers),
            "turn": sum(len(records.select(ENDED_TURNS, {"session": number, **of_task})) for number in numbers),
        }

    found |= await store.view(query)
    head = await store.head(task_id)
    assert head is None or (head.state, head.sequence) == (TaskState.COMPLETED, EVENTS)
    return found if head is not None or any(found.values()) else {}


async def check(path: Path, ids: list[str], reported: set[str]) -> int:
    """Check the tasks after the death of the process, delete those that are left, and return their number."""
    store = SQLiteStore(path)
    await store.open()
    found = {task_id: await parts(store, task_id) for task_id in ids}
    for task_id, each in found.items():
        assert each in ({}, WHOLE), f"task {task_id} is neither whole nor gone: {each}"
        assert not (each and task_id in reported), f"task {task_id} was deleted and is there again"
    left = sum(bool(each) for each in found.values())
    assert (await store.delete(ids)).tasks == left
    assert [await parts(store, task_id) for task_id in ids] == [{}] * TASKS
    assert await store.view(lambda records: records.select(HEADS, {"owner": OWNER})) == []
    await store.close()
    return left


@pytest.mark.timeout(300)
@pytest.mark.parametrize("within", [True, False], ids=["within a transaction", "at any time"])
async def test_a_killed_deletion_leaves_each_task_whole_or_gone(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]], within: bool
) -> None:
    chance = random.Random(7)
    path = tmp_path / "tasks.db"
    for number in range(ROUNDS):
        ids = [f"{number}-{index}" for index in range(TASKS)]
        store = SQLiteStore(path)
        await store.open()
        await fill(store, ids)
        await store.close()
        size = 1 if number % 2 else 6
        fatal = chance.randrange(1, TASKS // size + 1) if within else 0
        program = await launch(PROGRAM, path, size, fatal, *ids)
        assert await program.line() == "ready"
        program.say("go")
        reported: set[str] = set()
        if not within:
            for _ in range(chance.randrange(4)):
                reported.update((await program.line()).split())
            program.signal(signal.SIGKILL)
        await program.end()
        reported.update((await program.rest()).split())
        left = await check(path, ids, reported)
        assert left or not within
