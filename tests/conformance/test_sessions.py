"""Sessions over every way to reach an agent of this package: the queue of a thread, and the stream of a session."""

import asyncio
import concurrent.futures
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

import pytest
from valid_logs import violations_of

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    InvalidArgumentError,
    Message,
    ResourceExhaustedError,
    RunEvent,
    SequenceOutOfRangeError,
    SessionNotFoundError,
    Task,
    TaskState,
    ThreadBusyError,
    ThreadNotFoundError,
    Turn,
    TurnNotFoundError,
    TurnNotQueuedError,
    TurnState,
)
from protolink_grpc.client.channel import close_channels
from protolink_grpc.client.http_channel import close_http_channels
from protolink_grpc.edges.grpc import session_servicer
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.session import SessionItem
from protolink_grpc.runtime.session_watch import SessionWatcher
from protolink_grpc.storage import session_log

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""


class Clerk(Agent):
    """`hold NAME` works until the test opens NAME, `ask NAME` asks a question, anything else is done at once."""

    def __init__(self, card: AgentCard) -> None:
        super().__init__(card, grace_s=0.1)
        self.open: defaultdict[str, concurrent.futures.Future[None]] = defaultdict(concurrent.futures.Future)
        self.done: list[str] = []

    async def handle_task(self, task: Task) -> Task:
        word, _, name = task.messages[-1].text.partition(" ")
        if word == "hold":
            await asyncio.shield(asyncio.wrap_future(self.open[name]))
        if word == "ask":
            return task.require_input(Message.agent(f"which {name}?"))
        self.done.append(task.messages[-1].text)
        if word == "fail":
            return task.fail("no" * 1000)
        return task.complete(f"{name or word} done")


class Link:
    """An agent, and a client that reaches it in the way under test."""

    def __init__(self, agent: Clerk) -> None:
        self.agent = agent
        self.sessions = AgentClient(url=agent.card.url, timeout=WAIT_S).sessions
        self.client = AgentClient(url=agent.card.url, timeout=WAIT_S)

    async def end_of(self, session_id: str, turn: Turn) -> list[RunEvent]:
        """The events of a turn, after its end."""
        async with asyncio.timeout(WAIT_S):
            return [event async for event in self.sessions.stream(session_id, turn)]

    async def states(self, session_id: str) -> dict[str, str]:
        """The result of each turn, or its state, by id."""
        page = await self.sessions.get(session_id)
        return {turn.turn_id: str(turn.result or turn.state) for turn in page.turns}

    async def everything(self, session_id: str, turns: int, after: int = 0) -> list[SessionItem]:
        """The session's stream after a position, until as many turns have ended."""
        found: list[SessionItem] = []
        async with asyncio.timeout(WAIT_S), aclosing(self.sessions.subscribe(session_id, after=after)) as items:
            async for item in items:
                found.append(item)
                turns -= kind_of(item) == "TurnEnded"
                if not turns:
                    return found
        raise AssertionError("the stream ended")

    async def violations(self) -> dict[str, list[str]]:
        """The rules of the Agent Runtime contract that the sessions violate, by session."""
        found: dict[str, list[str]] = {}
        async with asyncio.timeout(WAIT_S):
            for session in (await self.sessions.list(include_archived=True)).sessions:
                page = await self.sessions.get(session.session_id)
                stream = self.sessions.runtime_events(session.session_id, stop_at_end=True)
                async with aclosing(stream) as records:
                    violations = violations_of([record async for record in records], asdict(page))
                if violations:
                    found[session.session_id] = violations
        return found


def kind_of(item: SessionItem) -> str:
    """The type of a task's event, or the class of a session's."""
    if isinstance(item.event, RunEvent):
        return item.event.type
    return type(item.event.payload).__name__


@pytest.fixture(params=["grpc", "grpc-web", "runtime", "runtime on another loop"])
async def link(request: pytest.FixtureRequest) -> AsyncIterator[Link]:
    way: str = request.param
    name = f"clerk-{new_uuid()}"
    urls = {"grpc": "grpc://127.0.0.1:0", "grpc-web": "http://127.0.0.1:0"}
    agent = Clerk(AgentCard(name=name, description="does as told", url=urls.get(way, f"runtime://{name}")))
    if way == "runtime on another loop":
        await asyncio.to_thread(agent.start, background=True)
    else:
        await agent.serve()
    link = Link(agent)
    yield link
    assert await link.violations() == {}
    for each in agent.open.values():
        if not each.done():
            each.set_result(None)
    if way == "runtime on another loop":
        await asyncio.to_thread(agent.stop)
    else:
        await agent.aclose()
    await close_channels()
    await close_http_channels()


# -- sessions --------------------------------------------------------------------------------------------------------------


async def test_a_session_keeps_what_its_owner_sets_and_creating_it_again_changes_nothing(link: Link) -> None:
    made = await link.sessions.create("s", title="Trip", metadata={"vip": True})
    again = await link.sessions.create("s", title="Other")
    assert again == made
    assert (made.title, made.metadata, made.archived, made.position) == ("Trip", {"vip": True}, False, 1)
    changed = await link.sessions.update("s", archived=True)
    assert (changed.title, changed.metadata, changed.archived, changed.position) == ("Trip", {"vip": True}, True, 2)
    assert (await link.sessions.update("s", metadata={})).metadata == {}


async def test_an_update_without_a_change_adds_no_event(link: Link) -> None:
    made = await link.sessions.create("s", title="Trip")
    assert (await link.sessions.update("s", title="Trip")).position == made.position


async def test_sessions_are_listed_in_pages_last_changed_first_without_archived_ones(link: Link) -> None:
    for name in ("a", "b", "c", "d"):
        await link.sessions.create(name)
    await link.sessions.update("b", archived=True)
    await link.sessions.update("a", title="late")
    first = await link.sessions.list(page_size=2)
    rest = await link.sessions.list(page_size=2, page_token=first.next_page_token)
    assert [each.session_id for each in (*first.sessions, *rest.sessions)] == ["a", "d", "c"]
    assert not rest.next_page_token
    every = await link.sessions.list(include_archived=True)
    assert sorted(each.session_id for each in every.sessions) == ["a", "b", "c", "d"]


async def test_an_unknown_session_or_turn_is_not_found(link: Link) -> None:
    with pytest.raises(SessionNotFoundError):
        await link.sessions.get("nowhere")
    with pytest.raises(SessionNotFoundError):
        await link.sessions.update("nowhere", title="x")
    with pytest.raises(SessionNotFoundError):
        await anext(link.sessions.subscribe("nowhere"))
    await link.sessions.create("s")
    with pytest.raises(TurnNotFoundError):
        await link.sessions.remove("s", "nothing")
    with pytest.raises(TurnNotFoundError):
        await anext(link.sessions.stream("s", "nothing"))
    with pytest.raises(SequenceOutOfRangeError):
        await anext(link.sessions.subscribe("s", after=9))


async def test_a_title_has_a_bound(link: Link) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        await link.sessions.create("s", title="x" * 1001)
    assert refused.value.metadata["field"] == "title"


async def test_metadata_has_a_bound(link: Link) -> None:
    large = {"note": "x" * (64 << 10)}
    with pytest.raises(InvalidArgumentError) as refused:
        await link.sessions.create("s", metadata=large)
    assert refused.value.metadata["field"] == "metadata_json"
    await link.sessions.create("s")
    with pytest.raises(InvalidArgumentError):
        await link.sessions.update("s", metadata=large)


async def test_a_session_has_a_bounded_number_of_threads(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_log, "MAX_THREADS", 2)
    for name in ("a", "b", "b"):
        await link.sessions.start_thread("s", name)
    with pytest.raises(ResourceExhaustedError):
        await link.sessions.start_thread("s", "c")


async def test_sessions_with_large_metadata_are_listed_completely_in_several_pages(link: Link) -> None:
    for number in range(24):
        await link.sessions.create(str(number), metadata={"note": "x" * 60_000})
    found: list[str] = []
    token, pages = "", 0
    while not pages or token:
        page = await link.sessions.list(page_size=1000, page_token=token)
        found += [each.session_id for each in page.sessions]
        token, pages = page.next_page_token, pages + 1
    assert found == [str(number) for number in reversed(range(24))]


async def test_turns_with_long_reasons_are_read_completely_in_several_pages(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_servicer, "PAGE_BYTES", 20_000)
    turns = [await link.sessions.submit("s", f"fail {number}") for number in range(12)]
    await link.end_of("s", turns[-1])
    found: list[str] = []
    token, pages = "", 0
    while not pages or token:
        page = await link.sessions.get("s", page_size=1000, page_token=token)
        found = [*(each.turn_id for each in page.turns), *found]
        token, pages = page.next_page_token, pages + 1
        assert pages <= 12
    assert found == [each.turn_id for each in turns]
    assert (pages > 1) == link.agent.card.url.startswith(("grpc:", "http:"))


async def test_a_page_token_of_another_list_is_refused(link: Link) -> None:
    for name in ("a", "b"):
        await link.sessions.create(name)
    for text in ("one", "two"):
        await link.end_of("s", await link.sessions.submit("s", text))
    of_sessions = (await link.sessions.list(page_size=1)).next_page_token
    of_turns = (await link.sessions.get("s", page_size=1)).next_page_token
    for call in (link.sessions.get("s", page_token=of_sessions), link.sessions.list(page_token=of_turns)):
        with pytest.raises(InvalidArgumentError) as refused:
            await call
        assert refused.value.metadata["field"] == "page_token"


async def test_the_reason_of_an_interrupt_has_a_bound(link: Link) -> None:
    await link.sessions.submit("s", "hold one")
    with pytest.raises(InvalidArgumentError) as refused:
        await link.sessions.interrupt("s", reason="x" * 1001)
    assert refused.value.metadata["field"] == "reason"


# -- turns -----------------------------------------------------------------------------------------------------------------


async def test_turns_of_a_thread_run_one_after_the_other(link: Link) -> None:
    first = await link.sessions.submit("s", "hold one")
    second = await link.sessions.submit("s", "two")
    third = await link.sessions.submit("s", "three")
    assert [each.state for each in (first, second, third)] == [TurnState.ACTIVE, TurnState.QUEUED, TurnState.QUEUED]
    assert (await link.client.get_task(second.task_id)).state is TaskState.SUBMITTED
    link.agent.open["one"].set_result(None)
    events = await link.end_of("s", third)
    assert events[-1].state is TaskState.COMPLETED
    assert link.agent.done == ["hold one", "two", "three"]
    page = await link.sessions.get("s")
    assert [each.result for each in page.turns] == [TaskState.COMPLETED] * 3
    assert page.session.open_turns == ()


async def test_a_repeated_turn_id_is_the_same_turn(link: Link) -> None:
    first = await link.sessions.submit("s", "hold one", turn_id="t")
    again = await link.sessions.submit("s", "something else", turn_id="t")
    assert again == first
    assert (await link.sessions.get("s")).session.turn_count == 1


async def test_turns_submitted_at_once_are_all_accepted_and_run_in_some_order(link: Link) -> None:
    turns = await asyncio.gather(*(link.sessions.submit("s", f"say {number}") for number in range(20)))
    for each in turns:
        await link.end_of("s", each)
    assert sorted(link.agent.done) == sorted(f"say {number}" for number in range(20))


async def test_a_busy_thread_rejects_a_turn_that_must_not_wait(link: Link) -> None:
    busy = await link.sessions.submit("s", "hold one")
    with pytest.raises(ThreadBusyError) as refused:
        await link.sessions.submit("s", "two", when_busy="reject")
    assert refused.value.metadata["turn_id"] == busy.turn_id
    assert refused.value.metadata["policy"] == "reject"
    link.agent.open["one"].set_result(None)
    await link.end_of("s", busy)
    accepted = await link.sessions.submit("s", "two", when_busy="reject")
    assert (await link.end_of("s", accepted))[-1].state is TaskState.COMPLETED


async def test_an_interrupting_turn_ends_the_active_one_and_goes_before_the_queue(link: Link) -> None:
    active = await link.sessions.submit("s", "hold one", turn_id="active")
    await link.sessions.submit("s", "queued", turn_id="queued")
    urgent = await link.sessions.submit("s", "urgent", turn_id="urgent", when_busy="interrupt")
    await link.end_of("s", active)
    await link.end_of("s", urgent)
    await link.end_of("s", await link.sessions.submit("s", "last", turn_id="last"))
    assert await link.states("s") == {
        "active": "canceled",
        "queued": "completed",
        "urgent": "completed",
        "last": "completed",
    }
    assert link.agent.done == ["urgent", "queued", "last"]


async def test_a_turn_can_start_beside_the_active_one(link: Link) -> None:
    await link.sessions.submit("s", "hold one")
    beside = await link.sessions.submit("s", "two", when_busy="start")
    await link.end_of("s", beside)
    assert link.agent.done == ["two"]


async def test_an_unknown_policy_is_refused(link: Link) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        await link.sessions.submit("s", "one", when_busy="panic")
    assert refused.value.metadata["field"] == "when_busy"


async def test_a_queue_has_a_bound(link: Link) -> None:
    await link.sessions.submit("s", "hold one")
    for number in range(100):
        await link.sessions.submit("s", f"say {number}")
    with pytest.raises(ResourceExhaustedError):
        await link.sessions.submit("s", "one too many")


async def test_a_promoted_turn_runs_first(link: Link) -> None:
    active = await link.sessions.submit("s", "hold one")
    turns = [await link.sessions.submit("s", f"say {number}") for number in range(3)]
    await link.sessions.promote("s", turns[2])
    opened = (await link.sessions.get("s")).session.open_turns
    assert [each.turn_id for each in opened] == [
        active.turn_id, turns[2].turn_id, turns[0].turn_id, turns[1].turn_id
    ]  # fmt: skip
    link.agent.open["one"].set_result(None)
    await link.end_of("s", turns[1])
    assert link.agent.done == ["hold one", "say 2", "say 0", "say 1"]


async def test_a_removed_turn_never_runs(link: Link) -> None:
    active = await link.sessions.submit("s", "hold one")
    turn = await link.sessions.submit("s", "two")
    removed = await link.sessions.remove("s", turn)
    assert (removed.state, removed.result) == (TurnState.ENDED, TaskState.CANCELED)
    assert (await link.client.get_task(turn.task_id)).state is TaskState.CANCELED
    link.agent.open["one"].set_result(None)
    await link.end_of("s", active)
    with pytest.raises(TurnNotQueuedError) as refused:
        await link.sessions.remove("s", active)
    assert refused.value.metadata["state"] == "completed"
    assert link.agent.done == ["hold one"]


async def test_an_interrupt_ends_the_active_turn_and_the_queue_continues(link: Link) -> None:
    await link.sessions.submit("s", "hold one", turn_id="one")
    second = await link.sessions.submit("s", "two", turn_id="two")
    ended = await link.sessions.interrupt("s", reason="enough")
    assert [(each.turn_id, each.result) for each in ended] == [("one", TaskState.CANCELED)]
    await link.end_of("s", second)
    assert await link.sessions.interrupt("s") == ()


async def test_an_interrupt_can_clear_the_queue(link: Link) -> None:
    await link.sessions.submit("s", "hold one", turn_id="one")
    await link.sessions.submit("s", "two", turn_id="two")
    await link.sessions.interrupt("s", clear_queue=True)
    assert await link.states("s") == {"one": "canceled", "two": "canceled"}
    assert link.agent.done == []


async def test_a_turn_answers_the_question_of_the_task_before_it(link: Link) -> None:
    asked = await link.sessions.submit("s", "ask color")
    await link.end_of("s", asked)
    answered = await link.sessions.submit("s", "blue")
    await link.end_of("s", answered)
    assert answered.task_id == asked.task_id
    page = await link.sessions.get("s")
    assert [each.result for each in page.turns] == [TaskState.INPUT_REQUIRED, TaskState.COMPLETED]
    assert (await link.end_of("s", asked))[0].sequence == 1


async def test_a_queue_waits_for_an_answer_and_continues_when_the_question_is_withdrawn(link: Link) -> None:
    asked = await link.sessions.submit("s", "hold ask")
    queued = await link.sessions.submit("s", "queued")
    link.agent.open["ask"].set_result(None)
    await link.end_of("s", queued)
    question = await link.sessions.submit("s", "ask color")
    await link.end_of("s", question)
    await link.client.cancel_task(None, question.task_id)
    after = await link.sessions.submit("s", "after")
    await link.end_of("s", after)
    assert after.task_id != question.task_id
    assert asked.task_id != queued.task_id


async def test_threads_have_queues_of_their_own(link: Link) -> None:
    await link.sessions.start_thread("s", "side", title="Side")
    main = await link.sessions.submit("s", "hold main")
    side = await link.sessions.submit("s", "quick", thread_id="side")
    await link.end_of("s", side)
    session = (await link.sessions.get("s")).session
    assert [(each.thread_id, each.title) for each in session.threads] == [("default", ""), ("side", "Side")]
    assert [each.turn_id for each in session.open_turns] == [main.turn_id]
    only = await link.sessions.get("s", thread_id="side")
    assert [each.turn_id for each in only.turns] == [side.turn_id]
    with pytest.raises(ThreadNotFoundError):
        await link.sessions.submit("s", "x", thread_id="nowhere")


async def test_turns_are_read_in_pages_newest_first(link: Link) -> None:
    turns = [await link.sessions.submit("s", f"say {number}") for number in range(7)]
    for each in turns:
        await link.end_of("s", each)
    found: list[str] = []
    token = ""
    while True:
        page = await link.sessions.get("s", page_size=3, page_token=token)
        found = [*(each.turn_id for each in page.turns), *found]
        token = page.next_page_token
        if not token:
            break
    assert found == [each.turn_id for each in turns]


# -- the stream ------------------------------------------------------------------------------------------------------------


async def test_the_stream_has_every_event_of_the_session_and_its_tasks_in_one_order(link: Link) -> None:
    first = await link.sessions.submit("s", "hold one")
    second = await link.sessions.submit("s", "two")
    link.agent.open["one"].set_result(None)
    items = await link.everything("s", turns=2)
    assert [item.position for item in items] == list(range(1, len(items) + 1))
    for turn in (first, second):
        of_task = [item.event for item in items if isinstance(item.event, RunEvent)]
        shown = [event.to_dict() for event in of_task if event.task_id == turn.task_id]
        assert shown == [event.to_dict() for event in await link.end_of("s", turn)]
    own = [kind_of(item) for item in items if not isinstance(item.event, RunEvent)]
    assert own == ["SessionCreated", "TurnSubmitted", "TurnSubmitted", "TurnEnded", "TurnStarted", "TurnEnded"]
    assert (await link.sessions.get("s")).session.position == len(items)


async def test_a_reader_that_continues_at_any_position_gets_exactly_the_rest(link: Link) -> None:
    await link.end_of("s", await link.sessions.submit("s", "one"))
    await link.end_of("s", await link.sessions.submit("s", "two"))
    items = await link.everything("s", turns=2)
    for number in range(len(items) - 1):
        ends = sum(kind_of(item) == "TurnEnded" for item in items[number:])
        rest = await link.everything("s", turns=ends, after=number)
        assert [item.position for item in rest] == [item.position for item in items[number:]]


async def test_a_task_sent_with_a_session_is_a_turn_of_its_default_thread(link: Link) -> None:
    sent = await link.client.send_task(None, Task.create("plain", session_id="s"))
    page = await link.sessions.get("s")
    assert [(each.task_id, each.thread_id, each.result) for each in page.turns] == [
        (sent.id, "default", TaskState.COMPLETED)
    ]


async def test_a_task_without_a_session_makes_none(link: Link) -> None:
    await link.client.send_task(None, "plain")
    assert (await link.sessions.list()).sessions == ()


# -- the contract's events -------------------------------------------------------------------------------------------------


async def runtime_events(link: Link, *, after: int = 0) -> list[dict[str, Any]]:
    """The events of the session `s` in the contract's JSON, after a sequence and up to the end."""
    async with asyncio.timeout(WAIT_S):
        return [each async for each in link.sessions.runtime_events("s", after=after, stop_at_end=True)]


async def test_the_contracts_events_of_a_session_end_at_its_end_and_continue_after_each_sequence(link: Link) -> None:
    await link.end_of("s", await link.sessions.submit("s", "hotel"))
    found = await runtime_events(link)
    assert [each["type"] for each in found if each["type"].startswith("turn.")] == [
        "turn.submitted",
        "turn.started",
        "turn.completed",
    ]
    assert {each["sessionId"] for each in found} == {"s"}
    for index, event in enumerate(found):
        assert await runtime_events(link, after=event["sequence"]) == found[index + 1 :]


async def test_the_contracts_events_of_a_long_session_continue_without_its_begin(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    watch = SessionWatcher.watch

    def noted(watcher: SessionWatcher, owner: str, session_id: str, after: int) -> AsyncGenerator[bytes, None]:
        read.append(after)
        return watch(watcher, owner, session_id, after)

    first = await link.sessions.submit("s", "hotel")
    await link.end_of("s", first)
    for text in ("train", "ask city", "car"):
        await link.end_of("s", await link.sessions.submit("s", text, when_busy="start"))
    page = await link.sessions.get("s")
    found = await runtime_events(link)
    monkeypatch.setattr(SessionWatcher, "watch", noted)
    waits = next(turn for turn in page.turns if turn.result is TaskState.INPUT_REQUIRED)
    assert await runtime_events(link, after=found[-3]["sequence"]) == found[-2:]
    assert read == [waits.position - 1]

    # An older task continues, so that its events are needed.
    rest: list[dict[str, Any]] = []
    read.clear()
    async with (
        asyncio.timeout(WAIT_S),
        aclosing(link.sessions.runtime_events("s", after=found[-2]["sequence"])) as events,
    ):
        async for event in events:
            if not rest:
                await link.client.tasks.retry(first.task_id)
            rest.append(event)
            if event["type"] == "snapshot.updated" and len(rest) > 1:
                break
    assert read == [waits.position - 1, 0]
    assert found[:-1] + rest == await runtime_events(link)


async def test_without_a_stop_the_contracts_events_go_on_with_the_session(link: Link) -> None:
    await link.sessions.create("s")
    seen: list[str] = []
    async with asyncio.timeout(WAIT_S), aclosing(link.sessions.runtime_events("s")) as events:
        async for event in events:
            seen.append(event["type"])
            if event["type"] == "thread.started":
                await link.sessions.submit("s", "hotel")
            if event["type"] == "turn.completed":
                break
    assert "turn.submitted" in seen


async def test_the_contracts_events_after_a_sequence_that_does_not_exist_are_refused(link: Link) -> None:
    await link.sessions.create("s")
    for after in (1 << 20, -1):
        with pytest.raises(SequenceOutOfRangeError):
            await runtime_events(link, after=after)
    with pytest.raises(SessionNotFoundError):
        await anext(link.sessions.runtime_events("other", stop_at_end=True))
