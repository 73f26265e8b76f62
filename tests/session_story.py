"""One session that uses all features of sessions. It can be repeated after a crash: all calls have the same ids.

Three threads, one of them a branch of another; inputs that wait, join another one and are replaced; an approval, an interruption, a
failure and its retry, rollbacks, and a task that is delegated to an agent in another process.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from valid_logs import violations_of

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    Approvals,
    CapabilityPolicy,
    ModelError,
    Registry,
    RunEvent,
    ScriptedLLM,
    Storage,
    Task,
    Turn,
    TurnNotQueuedError,
)
from protolink_grpc.agent.local_agent import PRINCIPAL
from protolink_grpc.llms.port import RUNTIME_KEY, ModelRequest
from protolink_grpc.models.session import SessionItem, SessionPage, TurnEnded, TurnSubmitted
from protolink_grpc.reports import SessionExport
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.wire.sessions import items_from_bytes

AGENT, SESSION = "desk", "s"

ENDS = {
    "plan": ["default", "completed"],
    "book": ["default", "completed"],
    "draft": ["default", "completed"],
    "hotel": ["default", "completed", "rolled back"],
    "delegate": ["branch", "completed"],
    "endless": ["side", "canceled"],
    "after": ["side", "completed"],
    "broken": ["side", "failed"],
    "(retry)": ["side", "completed"],
    "then": ["default", "completed"],
    "slow": ["default", "canceled", "rolled back"],
    "instead": ["default", "completed"],
}
"""How each turn ends, in the order of their submissions. The input `train` joins the turn `hotel`."""

MEMORIES = {
    "default": ["plan", "book", "better draft", "then", "instead"],
    "branch": ["plan", "delegate"],
    "side": ["after", "broken"],
}
"""The questions that each thread remembers at the end."""


class Story:
    """An agent and the story of its session.

    Args:
        folder: For what tools and people have done, so that it outlives a crash.
        registry: Where the model finds the agent `child`, which gets the delegated task.
    """

    def __init__(self, folder: Path, store: TaskStore, storage: Storage, registry: Registry | str) -> None:
        self._folder = folder
        self._began: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.seen_by_model: list[list[tuple[str, str]]] = []
        self.agent = Agent(
            name=AGENT,
            description="plans trips",
            url=f"runtime://{AGENT}",
            registry=registry,
            llm=ScriptedLLM([self._act, self._answer]),
            state=["conversation"],
            store=store,
            storage=storage,
            policy=CapabilityPolicy({"money.spend": "require_approval"}),
            approvals=Approvals(),
            grace_s=0,
        )
        self.agent.tool(capabilities=["money.spend"], idempotent=True)(self.book)
        client = AgentClient(url=self.agent.card.url)
        self.client, self.sessions = client, client.sessions

    async def book(self) -> str:
        """Book the trip."""
        return "booked"

    # -- the model -------------------------------------------------------------------------------------------------------

    async def _act(self, request: ModelRequest) -> Any:
        """Do what the question says, or answer it."""
        self.seen_by_model.append(_said(request))
        match question := _questions(request)[-1]:
            case "book":
                return {"type": "tool_call", "tool": "book", "args": {}}
            case "delegate":
                prompt = f"rooms for {self._folder.name:>20}"  # each prompt has as many tokens
                return {"type": "agent_call", "agent": "child", "action": "infer", "prompt": prompt}
            case "endless" | "slow":
                self._began[question].set()
                await asyncio.Event().wait()
            case "broken" if not self._repaired.exists():
                raise ModelError("broken")
        return self._answer(request)

    @staticmethod
    def _answer(request: ModelRequest) -> str:
        return f"A TO {_questions(request)[-1]}"

    @property
    def _repaired(self) -> Path:
        return self._folder / "repaired"

    # -- the story -------------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        await self.sessions.create(SESSION, title="trip", metadata={"vip": True})

    async def tell(self) -> None:
        """Tell the story to its end. What an earlier process has done is not done again."""
        await self._wait_in_the_queue()
        await self.sessions.start_thread(SESSION, "branch", from_thread="default", from_turn="plan")
        await self._end(await self._submit("delegate", "branch"))
        await self.sessions.start_thread(SESSION, "side", title="aside")
        await self._interrupt_and_retry()
        await self.sessions.roll_back(SESSION, "hotel", reason="too expensive")
        await self._end(await self._submit("then"))
        slow = await self._submit("slow")
        await self._begin(slow)
        instead = await self._submit("instead", when_busy="rollback")
        for turn in (slow, instead):
            await self._end(turn)

    async def _wait_in_the_queue(self) -> None:
        await self._end(await self._submit("plan"))
        book = await self._submit("book")
        draft, hotel = await self._submit("draft"), await self._submit("hotel")
        assert (await self._submit("train", when_busy="merge")).turn_id == hotel.turn_id
        better = Task.create_infer(prompt="better draft").messages[0]
        with suppress(TurnNotQueuedError):  # in another life it may have left the queue
            await self.sessions.replace_input(SESSION, draft, better)
        await self._approve(book)
        for turn in (book, draft, hotel):
            await self._end(turn)

    async def _interrupt_and_retry(self) -> None:
        endless, after = await self._submit("endless", "side"), await self._submit("after", "side")
        if await self._begin(endless):
            await self.sessions.interrupt(SESSION, thread_id="side", reason="enough")
        for turn in (endless, after):
            await self._end(turn)
        broken = await self._submit("broken", "side")
        await self._end(broken)
        self._repaired.touch()
        await self.client.tasks.retry(broken.task_id, reason="repaired", request_id="retry")
        await self.client.wait_task(broken.task_id)

    async def _submit(self, text: str, thread_id: str = "default", **options: Any) -> Turn:
        task = Task.create_infer(prompt=text)
        return await self.sessions.submit(SESSION, task, turn_id=text, thread_id=thread_id, **options)

    async def _approve(self, turn: Turn) -> None:
        """Approve the action of a turn, once it needs that."""
        async with aclosing(self.sessions.stream(SESSION, turn)) as events:
            async for event in events:
                if event.type == "approval.required":
                    for each in (await self.client.list_approvals(task_id=turn.task_id)).approvals:
                        await self.client.respond_approval(None, each, True, reason="fine")
                    return

    async def _end(self, turn: Turn) -> None:
        async with aclosing(self.sessions.stream(SESSION, turn)) as events:
            async for _ in events:
                pass

    async def _begin(self, turn: Turn) -> bool:
        """Wait until a turn works on its question, or has ended. Returns whether it still works."""
        waits = [asyncio.ensure_future(each) for each in (self._began[turn.turn_id].wait(), self._end(turn))]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        has_ended = waits[1].done()
        for each in waits:
            each.cancel()
        await asyncio.wait(waits)
        return not has_ended

    # -- what there is to see --------------------------------------------------------------------------------------------

    async def read_models(self) -> dict[str, Any]:
        """The session and its snapshots, without what differs by nature."""
        snapshots = self.client.snapshots
        page = await self.sessions.get(SESSION)
        names = _names(page)
        models: dict[str, Any] = {
            "session": asdict(page),
            "snapshot": asdict(await snapshots.session(SESSION)),
            "queue": asdict(await snapshots.queue(SESSION)),
            "tools": asdict(await snapshots.tools()),
        }
        for thread in page.session.threads:
            models[thread.thread_id] = asdict(await snapshots.thread(SESSION, thread.thread_id))
        for turn in page.turns:
            name = names[turn.turn_id]
            models[f"artifacts of {name}"] = asdict(await snapshots.artifacts(turn.task_id))
            task = await self.client.tasks.get(turn.task_id)
            models[f"task of {name}"] = asdict(replace(task, gaps=()))  # one says that a process died
        names |= {turn.task_id: f"task of {names[turn.turn_id]}" for turn in page.turns}
        return cast("dict[str, Any]", _normalize(models, names))

    async def memories(self) -> dict[str, list[tuple[str, str]]]:
        """What the model sees of the earlier turns in each thread. This adds a turn to each."""
        found = {}
        for thread_id in MEMORIES:
            await self._end(await self._submit(f"probe {thread_id}", thread_id))
            found[thread_id] = self.seen_by_model[-1][:-1]
        return found

    async def follow(self, notes: Path, until: int = 0) -> None:
        """Note the position and the kind of each event of the session, with a reader of its own for each event.

        Args:
            notes: A file. It says where the next reader continues, also in another process.
            until: Position of the last event; 0 means never.
        """
        after = len(notes.read_text().splitlines()) if notes.exists() else 0
        with notes.open("a", buffering=1) as file:
            while not until or after < until:
                async with aclosing(self.sessions.subscribe(SESSION, after=after)) as items:
                    item = await anext(items)
                print(item.position, _kind(item), file=file)
                after = item.position


@asynccontextmanager
async def child(registry: Registry | str, url: str = "grpc://127.0.0.1:0") -> AsyncIterator[Agent]:
    """The agent that gets the delegated task."""
    card = AgentCard(name="child", description="knows rooms", url=url)
    async with Agent(card, registry=registry, llm=ScriptedLLM(["three rooms"])) as agent:
        yield agent


async def read_stored(store: TaskStore) -> tuple[SessionPage, list[SessionItem]]:
    """The session and its events as they are in an open store, where nothing has to run. Raises SessionNotFoundError."""

    async def refuse(task: Task, run: Any) -> None:
        raise AssertionError("nothing runs here")

    sessions = TaskService(AGENT, store, refuse).sessions
    session, turns, _ = await sessions.get(PRINCIPAL, SESSION)
    items: list[SessionItem] = []
    async with aclosing(sessions.watch(PRINCIPAL, SESSION)) as bodies:
        async for body in bodies:
            items += items_from_bytes(body)
            if items[-1].position >= session.position:
                break
    return SessionPage(session, tuple(turns)), items


def check_stored(page: SessionPage, items: list[SessionItem]) -> list[dict[str, Any]]:
    """Check that the log of a session is whole and its export valid; return the export."""
    assert [item.position for item in items] == list(range(1, len(items) + 1))
    of_tasks: dict[str, list[int]] = {}
    for item in items:
        if isinstance(item.event, RunEvent):
            of_tasks.setdefault(item.event.task_id, []).append(item.event.sequence or 0)
    for sequences in of_tasks.values():
        assert sequences == list(range(1, len(sequences) + 1))
    records = list(SessionExport(SESSION, AGENT).records(items))
    violations = violations_of(records, asdict(page))
    assert not violations, violations
    return records


def check_end(page: SessionPage, items: list[SessionItem]) -> None:
    """Check that each input has come to one end."""
    names = _names(page)
    assert list(names.values()) == list(ENDS), names
    ends = {
        names[turn.turn_id]: [turn.thread_id, str(turn.result), *(["rolled back"] if turn.rolled_back else [])]
        for turn in page.turns
    }
    assert ends == ENDS, ends
    assert page.session.open_turns == ()
    facts = [item.event.payload for item in items if not isinstance(item.event, RunEvent)]
    for kind in (TurnSubmitted, TurnEnded):
        assert sorted(names[each.turn_id] for each in facts if isinstance(each, kind)) == sorted(ENDS)


def kinds_of(items: list[SessionItem]) -> list[str]:
    return [f"{item.position} {_kind(item)}" for item in items]


def _kind(item: SessionItem) -> str:
    if isinstance(item.event, RunEvent):
        return f"{item.event.task_id} {item.event.sequence} {item.event.type}"
    return type(item.event.payload).__name__


def _said(request: ModelRequest) -> list[tuple[str, str]]:
    """The role and the text of each message of a conversation."""
    of_conversation = (each for each in request.messages if each.role != "system" and RUNTIME_KEY not in each.metadata)
    return [(each.role, str(each.content)) for each in of_conversation]


def _questions(request: ModelRequest) -> list[str]:
    return [text for role, text in _said(request) if role == "user"]


def _names(page: SessionPage) -> dict[str, str]:
    """The name of each turn in this story by its id."""
    return {turn.turn_id: turn.turn_id if turn.turn_id in ENDS else "(retry)" for turn in page.turns}


BY_NATURE = frozenset(
    {
        "position",
        "sequence",
        "prepared_sequence",
        "after_sequence",
        "created_at",
        "updated_at",
        "ended_at",
        "snapshot_at",
        "started_at",
        "run_id",
        "attempts",
        "attempt_count",
        "usage",
    }
)
"""Fields that differ after a death: a run that continues is another run, adds events to the logs, and repeats model calls."""


NEW_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}")


OF_LOG = re.compile(r"events after \d+")
"""In reasons: a sequence."""


def _normalize(value: Any, names: dict[str, str]) -> Any:
    """Return a value without what differs by nature, and with names instead of new ids. `names` learns those of further ids."""
    if isinstance(value, dict):
        return {key: _normalize(each, names) for key, each in value.items() if key not in BY_NATURE}
    if isinstance(value, list | tuple):
        return [_normalize(each, names) for each in value]
    if isinstance(value, str):
        value = NEW_ID.sub(lambda found: names.setdefault(found[0], f"id {len(names)}"), value)
        return OF_LOG.sub("events", value)
    return value
