"""One suite over every way to reach an agent: gRPC, gRPC-Web behind an `http://` URL, and in process from two loops.

What holds here holds whatever lies between caller and agent. What only one transport has is tested in `e2e`.
"""

import asyncio
import concurrent.futures
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    AgentNotFoundError,
    Artifact,
    DeadlineExceededError,
    InvalidArgumentError,
    Limits,
    Message,
    Part,
    ProtolinkError,
    RunContext,
    StopAt,
    Task,
    TaskExecutionError,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskProgress,
    TaskState,
    ToolContext,
    UnavailableError,
    current_run,
)
from protolink_grpc.models.events import LlmCallCompleted, LlmCallStarted, TextDelta
from protolink_grpc.models.ids import new_uuid

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""


class Gate:
    """Holds a handler, on whatever loop it runs, until the test opens it."""

    def __init__(self) -> None:
        self._reached: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._open: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def hold(self) -> None:
        self._reached.set_result(None)
        await asyncio.shield(asyncio.wrap_future(self._open))

    async def reached(self) -> None:
        async with asyncio.timeout(WAIT_S):
            await asyncio.shield(asyncio.wrap_future(self._reached))

    def open(self) -> None:
        self._open.set_result(None)


class Mumble(Exception):  # the application's own, and a bad one
    def __str__(self) -> str:
        raise ValueError("no text")


class Worker(Agent):
    """Does what the first word of the latest message says. `seen` keeps what it was given."""

    def __init__(self, card: AgentCard, **options: Any) -> None:
        super().__init__(card, **options)
        self.gate = Gate()
        self.seen: list[Task] = []

    async def handle_task(self, task: Task) -> Task:
        self.seen.append(task)
        word, _, rest = str(task.messages[-1].parts[0].content).partition(" ")
        return await getattr(self, f"do_{word}", self.do_echo)(task, rest)

    async def do_echo(self, task: Task, rest: str) -> Task:
        task.add_artifact(Artifact(parts=[Part.json({"echo": rest, "parts": len(task.messages[-1].parts)})]))
        return task.complete(rest)

    async def do_reply(self, task: Task, rest: str) -> Task:
        task.add_message(Message(role="agent", parts=list(task.messages[-1].parts)))
        return task.update_state(TaskState.COMPLETED)

    async def do_ask(self, task: Task, rest: str) -> Task:
        return task.require_input(Message.agent(f"which {rest}?"))

    async def do_login(self, task: Task, rest: str) -> Task:
        return task.require_auth(Message.agent("who are you?"))

    async def do_hold(self, task: Task, rest: str) -> Task:
        await self.gate.hold()
        return task.complete(rest)

    async def do_forever(self, task: Task, rest: str) -> Task:
        await self.gate.hold()
        raise AssertionError("nobody opens this gate")

    async def do_work(self, task: Task, rest: str) -> Task:
        run = current_run()
        assert run is not None
        for step in range(int(rest)):
            await run.emit(TaskProgress(100.0 * step / int(rest), f"step {step}"))
        await run.artifact(Artifact(id="result", parts=[Part.text("one ")]))
        await run.artifact(Artifact(id="result", parts=[Part.text("two")]), append=True, last_chunk=True)
        return task.complete("worked")

    async def do_fail(self, task: Task, rest: str) -> Task:
        return task.fail(rest)

    async def do_reject(self, task: Task, rest: str) -> Task:
        return task.reject(rest)

    async def do_raise(self, task: Task, rest: str) -> Task:
        raise ZeroDivisionError(rest)

    async def do_garble(self, task: Task, rest: str) -> Task:
        raise FileNotFoundError("caf\udce9")  # as a file name of another encoding reads

    async def do_mumble(self, task: Task, rest: str) -> Task:
        raise Mumble

    async def do_refuse(self, task: Task, rest: str) -> Task:
        raise InvalidArgumentError(rest, field="messages")

    async def do_nonsense(self, task: Task, rest: str) -> Any:
        return "no task"

    async def do_tell(self, task: Task, rest: str) -> Task:
        """As a model would: half of the text, a pause, the other half."""
        run = current_run()
        assert run is not None
        half = len(rest) // 2
        await run.emit(LlmCallStarted("call", streaming=True))
        run.delta("call", 0, rest[:half])
        await self.gate.hold()
        run.delta("call", len(rest[:half].encode()), rest[half:])
        await run.emit(LlmCallCompleted("call", text=rest))
        return task.complete(rest)

    async def do_context(self, task: Task, rest: str) -> Task:
        run = current_run()
        assert run is not None
        return task.add_artifact(Artifact(parts=[Part.json({"trace": run.context.trace_id, "who": run.principal})]))


class Link:
    """An agent, and a client that reaches it in the way under test."""

    def __init__(self, agent: Worker, way: str) -> None:
        self.agent = agent
        self.way = way
        self.client = AgentClient(url=agent.card.url, timeout=WAIT_S)

    def hurried(self, timeout: float) -> AgentClient:
        """A client that waits for `timeout` seconds only."""
        return AgentClient(url=self.agent.card.url, timeout=timeout)

    async def stop(self) -> None:
        if self.way == "runtime on another loop":
            await asyncio.to_thread(self.agent.stop)
        else:
            await self.agent.aclose()

    async def send(self, text: str) -> Task:
        return await self.client.send_task(None, Task.create(text))


WAYS = ("grpc", "grpc-web", "runtime", "runtime on another loop")


@pytest.fixture(params=WAYS)
async def link(request: pytest.FixtureRequest) -> AsyncIterator[Link]:
    way: str = request.param
    name = f"worker-{new_uuid()}"
    urls = {"grpc": "grpc://127.0.0.1:0", "grpc-web": "http://127.0.0.1:0"}
    url = urls.get(way, f"runtime://{name}")
    agent = Worker(AgentCard(name=name, description="does as told", url=url, tags=["test"]), grace_s=0.1)
    agent._limits = Limits(max_concurrency=8)
    if way == "runtime on another loop":
        await asyncio.to_thread(agent.start, background=True)
    else:
        await agent.serve()
    link = Link(agent, way)
    yield link
    await link.stop()


# -- sending -----------------------------------------------------------------------------------------------------------------


async def test_a_sent_task_comes_back_completed_with_what_the_agent_added(link: Link) -> None:
    task = Task.create("echo hello")
    done = await link.client.send_task(None, task)
    assert done.id == task.id
    assert done.state is TaskState.COMPLETED
    assert [(message.role, message.text) for message in done.messages] == [("user", "echo hello"), ("agent", "hello")]
    assert done.messages[0] == task.messages[0]
    assert done.artifacts[0].parts == [Part.json({"echo": "hello", "parts": 1})]
    assert [change["new_state"] for change in done.metadata["state_history"]] == ["working", "completed"]


async def test_sending_changes_nothing_about_the_task_that_was_sent(link: Link) -> None:
    task = Task.create("echo hello")
    before = task.to_dict()
    await link.client.send_task(None, task)
    assert task.to_dict() == before


async def test_a_message_is_answered_with_a_message(link: Link) -> None:
    answer = await link.client.send_message(None, "echo good day")
    assert (answer.role, answer.text) == ("agent", "good day")


async def test_a_submitted_task_is_returned_before_its_end_and_can_be_waited_for(link: Link) -> None:
    task = await link.client.submit_task(None, Task.create("hold on"))
    assert task.state in (TaskState.SUBMITTED, TaskState.WORKING)
    await link.agent.gate.reached()
    link.agent.gate.open()
    done = await link.client.wait_task(task.id)
    assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "on")


async def test_metadata_flow_state_and_session_travel_both_ways(link: Link) -> None:
    task = Task.create("echo x", session_id="trip")
    task.metadata["budget"] = {"euro": 2**70, "ratio": 0.1, "list": [None, True, "ü"]}
    task.flow_state["step"] = [1, 2]
    done = await link.client.send_task(None, task)
    assert done.metadata["budget"] == task.metadata["budget"]
    assert done.flow_state == {"step": [1, 2]}
    assert done.session_id == "trip"
    assert link.agent.seen[0].metadata["budget"] == task.metadata["budget"]
    assert link.agent.seen[0].session_id == "trip"


async def test_the_run_context_reaches_the_handler(link: Link) -> None:
    done = await link.client.send_task(None, Task.create("context", context=RunContext(run_id="r", trace_id="t" * 32)))
    assert done.get_output()["trace"] == "t" * 32


# -- streams -----------------------------------------------------------------------------------------------------------------


async def test_a_stream_shows_each_event_once_in_order_and_ends_with_the_task(link: Link) -> None:
    task = Task.create("work 5")
    events = [event async for event in link.client.send_task_streaming(None, task)]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert {event.task_id for event in events} == {task.id}
    assert [event.type for event in events if event.type == "task.progress"] == ["task.progress"] * 5
    assert [event.final for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1].state is TaskState.COMPLETED


async def test_a_streamed_task_reads_like_a_sent_one(link: Link) -> None:
    task = Task.create("work 2")
    async for _ in link.client.send_task_streaming(None, task):
        pass
    done = await link.client.get_task(task.id)
    assert [part.content for part in done.artifacts[0].parts] == ["one ", "two"]
    assert done.messages[-1].text == "worked"


async def test_a_subscription_from_every_sequence_shows_exactly_the_rest(link: Link) -> None:
    task = Task.create("work 4")
    whole = [event async for event in link.client.send_task_streaming(None, task)]
    for after in range(len(whole) + 1):
        assert [event async for event in link.client.subscribe(task.id, after=after)] == whole[after:]


async def test_a_subscription_that_begins_during_the_run_has_no_seam(link: Link) -> None:
    task = await link.client.submit_task(None, Task.create("hold on"))
    await link.agent.gate.reached()
    stream = link.client.subscribe(task.id)
    seen = [await anext(stream), await anext(stream)]
    link.agent.gate.open()
    seen += [event async for event in stream]
    assert [event.sequence for event in seen] == [1, 2, 3, 4]
    assert seen == [event async for event in link.client.subscribe(task.id)]


async def test_a_subscription_to_what_is_stored_now_ends_while_the_run_goes_on(link: Link) -> None:
    task = await link.client.submit_task(None, Task.create("forever"))
    await link.agent.gate.reached()
    events = [event async for event in link.client.subscribe(task.id, stop_at=StopAt.CURRENT)]
    assert [event.type for event in events] == ["task.submitted", "task.status"]
    assert (await link.client.get_task(task.id)).state is TaskState.WORKING


async def test_a_stream_that_is_closed_early_does_not_end_the_run(link: Link) -> None:
    task = Task.create("hold on")
    stream: Any = link.client.send_task_streaming(None, task)
    assert (await anext(stream)).type == "task.submitted"
    await stream.aclose()
    await link.agent.gate.reached()
    link.agent.gate.open()
    assert (await link.client.wait_task(task.id)).state is TaskState.COMPLETED


async def test_a_stream_can_be_closed_after_its_agent_has_gone(link: Link) -> None:
    asked = await link.send("ask city")
    stream: Any = link.client.subscribe(asked.id)
    assert (await anext(stream)).sequence == 1
    await link.stop()
    await stream.aclose()


async def test_many_readers_see_the_same_events(link: Link) -> None:
    task = await link.client.submit_task(None, Task.create("hold on"))
    await link.agent.gate.reached()

    async def read() -> list[Any]:
        return [event async for event in link.client.subscribe(task.id)]

    readers = [asyncio.create_task(read()) for _ in range(10)]
    link.agent.gate.open()
    first, *others = await asyncio.gather(*readers)
    assert len(first) == 4
    assert all(each == first for each in others)


# -- text that grows -----------------------------------------------------------------------------------------------------------


def _pieces(events: list[Any]) -> list[TextDelta]:
    return [event.payload for event in events if isinstance(event.payload, TextDelta)]


@pytest.mark.parametrize("late", [False, True])
async def test_text_under_way_is_shown_on_request_and_is_no_part_of_the_log(link: Link, late: bool) -> None:
    task, text = Task.create("tell für 🦉 und Mensch"), "für 🦉 und Mensch"
    if late:
        await link.client.submit_task(None, task)
        await link.agent.gate.reached()
        stream: Any = link.client.subscribe(task.id, deltas=True)
    else:
        stream = link.client.send_task_streaming(None, task, deltas=True)
    events = [await anext(stream) for _ in range(4)]
    link.agent.gate.open()
    events += [event async for event in stream]
    kinds = [event.type for event in events]
    assert kinds[2:4] == ["llm.call.started", "llm.stream"]
    first, *others = _pieces(events)
    assert first == TextDelta("call", 0, text[: len(text) // 2])
    assert others in ([], [TextDelta("call", len(text[: len(text) // 2].encode()), text[len(text) // 2 :])])
    assert {(event.task_id, event.sequence) for event in events if event.type == "llm.stream"} == {(task.id, None)}
    assert "llm.stream" not in kinds[kinds.index("llm.call.completed") :]
    logged = [event async for event in link.client.subscribe(task.id, deltas=True)]
    assert logged == [event for event in events if event.sequence]
    assert [event.payload.text for event in logged if isinstance(event.payload, LlmCallCompleted)] == [text]


async def test_streams_show_no_text_under_way_unless_they_are_asked_to(link: Link) -> None:
    stream: Any = link.client.send_task_streaming(None, Task.create("tell nothing of it"))
    events = [await anext(stream) for _ in range(3)]
    await link.agent.gate.reached()
    now = [event async for event in link.client.subscribe(events[0].task_id, stop_at=StopAt.CURRENT)]
    link.agent.gate.open()
    events += [event async for event in stream]
    assert _pieces(events + now) == []
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))


# -- continuing --------------------------------------------------------------------------------------------------------------


async def _sent(link: Link, task: Task) -> None:
    await link.client.send_task(None, task)


async def _streamed(link: Link, task: Task) -> None:
    async for _ in link.client.send_task_streaming(None, task):
        pass


def _lose_everything(link: Link) -> None:
    """As after a restart of an agent that keeps its tasks in memory."""
    store: Any = link.agent.store
    store._entries.clear()
    store._owned.clear()
    service: Any = link.agent._service
    service._tasks.warm.clear()


@pytest.mark.parametrize("again", [_sent, _streamed])
@pytest.mark.parametrize("first", [_sent, _streamed])
async def test_a_task_that_the_agent_has_lost_is_not_begun_anew_with_its_last_message(
    link: Link, first: Callable[[Link, Task], Any], again: Callable[[Link, Task], Any]
) -> None:
    task = Task.create("ask city")
    await first(link, task)
    _lose_everything(link)
    with pytest.raises(TaskNotFoundError):
        await again(link, task.add_message(Message.user("echo Rome")))
    assert (await link.client.list_tasks(include_total=True)).total_size == 0


async def test_a_repeated_request_does_not_make_its_own_task_known(link: Link) -> None:
    await link.client.send_task(None, Task.create("ask city"), request_id="same")
    other = Task.create("echo hello")
    assert (await link.client.send_task(None, other, request_id="same")).id != other.id
    assert (await link.client.send_task(None, other)).id == other.id
    streamed = Task.create("echo hello")
    assert {event.task_id async for event in link.client.send_task_streaming(None, streamed, request_id="same")}
    assert (await link.client.send_task(None, streamed)).id == streamed.id


async def _get(client: AgentClient, task: Task) -> Task:
    return await client.get_task(task.id)


async def _wait(client: AgentClient, task: Task) -> Task:
    return await client.wait_task(task.id)


@pytest.mark.parametrize("fetch", [_get, _wait])
async def test_a_long_task_that_was_fetched_is_continued_with_what_is_new(
    link: Link, fetch: Callable[[AgentClient, Task], Any]
) -> None:
    history = [Message.user(f"line {number}") for number in range(999)]
    asked = await link.client.send_task(None, Task(messages=[*history, Message.user("ask city")]))
    client = AgentClient(url=link.agent.card.url, timeout=WAIT_S)
    task = (await fetch(client, asked)).add_message(Message.user("echo Rome"))
    done = await client.send_task(None, task)
    assert [message.text for message in done.messages[999:]] == ["ask city", "which city?", "echo Rome", "Rome"]
    assert done.to_dict() == (await client.get_task(task.id)).to_dict()


async def test_a_long_task_that_was_streamed_is_continued_with_what_is_new(link: Link) -> None:
    task = Task(messages=[*(Message.user(f"line {number}") for number in range(999)), Message.user("ask city")])
    await _streamed(link, task)
    done = await link.client.send_task(None, task.add_message(Message.user("echo Rome")))
    assert [message.text for message in done.messages[999:]] == ["ask city", "which city?", "echo Rome", "Rome"]


async def test_what_a_repeated_stream_did_not_bring_is_sent_with_the_next_turn(link: Link) -> None:
    task = Task.create("ask city")
    for message in ("only in the repetition", "echo Rome"):
        async for _ in link.client.send_task_streaming(None, task, request_id="same"):
            pass
        task.add_message(Message.user(message))
    done = await link.client.send_task(None, task)
    texts = [message.text for message in done.messages]
    assert texts == ["ask city", "which city?", "only in the repetition", "echo Rome", "Rome"]


async def test_a_watch_from_the_end_of_a_waiting_task_shows_its_next_turn(link: Link) -> None:
    asked = await link.send("ask city")
    events = [event async for event in link.client.subscribe(asked.id, stop_at=StopAt.INTERRUPTED)]
    following = link.client.subscribe(asked.id, after=len(events), stop_at=StopAt.INTERRUPTED)
    first = asyncio.ensure_future(anext(following))
    done = await link.client.send_task(None, asked.add_message(Message.user("echo Rome")))
    rest = [await first] + [event async for event in following]
    assert (rest[0].sequence, rest[-1].state, done.state) == (len(events) + 1, TaskState.COMPLETED, done.state)


# -- reading -----------------------------------------------------------------------------------------------------------------


async def test_get_returns_what_send_returned(link: Link) -> None:
    sent = await link.send("echo hello")
    assert (await link.client.get_task(sent.id)).to_dict() == sent.to_dict()


async def test_a_list_shows_the_latest_change_first(link: Link) -> None:
    sent = [await link.send(f"echo {number}") for number in range(3)]
    page = await link.client.list_tasks(include_total=True)
    assert [task.id for task in page.tasks] == [task.id for task in reversed(sent)]
    assert (page.total_size, page.next_page_token) == (3, "")
    first = page.tasks[0]
    assert (first.state, first.message_count, first.artifact_count) == (TaskState.COMPLETED, 2, 1)
    assert first.agent_name == link.agent.card.name


async def test_a_list_can_be_narrowed_by_state_session_and_time(link: Link) -> None:
    failed = await link.send("fail for a reason")
    waiting = await link.send("ask city")
    trip = await link.client.send_task(None, Task.create("echo x", session_id="trip"))
    lists = link.client.list_tasks
    assert [task.id for task in (await lists(states=["failed"])).tasks] == [failed.id]
    assert [task.reason for task in (await lists(states=["failed"])).tasks] == ["for a reason"]
    both = await lists(states=[TaskState.FAILED, TaskState.INPUT_REQUIRED])
    assert {task.id for task in both.tasks} == {failed.id, waiting.id}
    assert [task.id for task in (await lists(session_id="trip")).tasks] == [trip.id]
    when = (await lists(states=["input-required"])).tasks[0].updated_at
    assert [task.id for task in (await lists(updated_after=when)).tasks] == [trip.id]
    assert (await lists(states=["canceled"], include_total=True)).total_size == 0


async def test_pages_show_every_task_once(link: Link) -> None:
    sent = {(await link.send("echo x")).id for _ in range(7)}
    seen: list[str] = []
    token, pages = "", 0
    while True:
        page = await link.client.list_tasks(page_size=3, page_token=token, include_total=True)
        assert page.total_size == 7
        seen += [task.id for task in page.tasks]
        token, pages = page.next_page_token, pages + 1
        if not token:
            break
    assert (pages, len(seen), set(seen)) == (3, 7, sent)


async def test_the_card_is_the_agents_own(link: Link) -> None:
    assert await link.client.get_agent_card() == link.agent.card


# -- cancelling --------------------------------------------------------------------------------------------------------------


async def test_a_running_task_is_canceled_with_its_reason(link: Link) -> None:
    task = await link.client.submit_task(None, Task.create("forever"))
    await link.agent.gate.reached()
    answer = await link.client.cancel_task(None, task.id, reason="no longer needed")
    assert (answer.id, answer.state) == (task.id, TaskState.CANCELED)
    ended = await link.client.get_task(task.id)
    assert (ended.state, ended.metadata["cancel_reason"]) == (TaskState.CANCELED, "no longer needed")
    events = [event async for event in link.client.subscribe(task.id)]
    assert [event.type for event in events[-2:]] == ["task.cancel_requested", "task.status"]


async def test_whoever_waits_for_a_canceled_task_gets_it_back_canceled(link: Link) -> None:
    task = Task.create("forever")
    waiting = asyncio.create_task(link.client.send_task(None, task))
    await link.agent.gate.reached()
    await link.client.cancel_task(None, task.id)
    assert (await waiting).state is TaskState.CANCELED


async def test_a_task_that_waits_for_input_can_be_canceled(link: Link) -> None:
    task = await link.send("ask city")
    assert (await link.client.cancel_task(None, task.id)).state is TaskState.CANCELED


async def test_a_cancel_that_comes_before_its_task_is_refused_and_leaves_nothing_behind(link: Link) -> None:
    task = Task.create("echo x")
    with pytest.raises(TaskNotFoundError) as caught:
        await link.client.cancel_task(None, task.id, reason="too early")
    assert caught.value.metadata == {"task_id": task.id}
    assert (await link.client.send_task(None, task)).state is TaskState.COMPLETED
    with pytest.raises(TaskNotCancelableError):
        await link.client.cancel_task(None, task.id, reason="too late")


@pytest.mark.parametrize("sent", [None, RunContext(run_id="run-1", session_id="s")], ids=["no context", "a context"])
async def test_the_context_of_a_canceled_task_is_canceled_for_the_same_reason(
    link: Link, sent: RunContext | None
) -> None:
    task = await link.client.submit_task(None, Task.create("forever", context=sent))
    await link.agent.gate.reached()
    answers = [await link.client.cancel_task(None, task.id, reason="enough"), await link.client.get_task(task.id)]
    for answer in answers:
        context = RunContext.from_task(answer)
        assert (context.canceled, context.cancel_reason) == (True, "enough")
        (listed,) = (await link.client.list_tasks()).tasks
        assert context.run_id == ("run-1" if sent is not None else listed.run_id)
        assert context.session_id == ("s" if sent is not None else task.id)


async def test_canceling_twice_is_the_same_as_once(link: Link) -> None:
    task = await link.send("ask city")
    await link.client.cancel_task(None, task.id, reason="first")
    await link.client.cancel_task(None, task.id, reason="second")
    assert (await link.client.get_task(task.id)).metadata["cancel_reason"] == "first"


# -- several turns -----------------------------------------------------------------------------------------------------------


async def test_a_task_that_asks_is_continued_by_a_further_message(link: Link) -> None:
    asked = await link.send("ask city")
    assert (asked.state, asked.messages[-1].text) == (TaskState.INPUT_REQUIRED, "which city?")
    done = await link.client.send_task(None, asked.add_message(Message.user("echo Athens")))
    assert (done.id, done.state) == (asked.id, TaskState.COMPLETED)
    assert [message.text for message in done.messages] == ["ask city", "which city?", "echo Athens", "Athens"]
    assert done.to_dict() == (await link.client.get_task(asked.id)).to_dict()


async def test_a_turn_can_be_continued_knowing_nothing_but_the_id(link: Link) -> None:
    asked = await link.send("login")
    assert asked.state is TaskState.AUTH_REQUIRED
    done = await link.client.send_task(None, Task(id=asked.id, messages=[Message.user("echo me")]))
    assert [message.text for message in done.messages] == ["login", "who are you?", "echo me", "me"]
    assert done.to_dict() == (await link.client.get_task(asked.id)).to_dict()


async def test_a_turn_may_bring_several_messages_without_the_earlier_ones(link: Link) -> None:
    asked = await link.send("ask city")
    news = [Message.user("one"), Message.user("echo two")]
    done = await link.client.send_task(None, Task(id=asked.id, messages=news))
    assert [message.text for message in done.messages] == ["ask city", "which city?", "one", "echo two", "two"]


async def test_a_task_that_waits_at_one_agent_can_be_sent_to_another_with_all_it_has(link: Link) -> None:
    asked = await link.send("ask city")
    name = f"other-{new_uuid()}"
    async with Worker(AgentCard(name=name, description="d", url=f"runtime://{name}")) as other:
        await link.client.send_task(other.card.url, asked.add_message(Message.user("echo Athens")))
        given = other.seen[0].messages[:3]
        assert [message.text for message in given] == ["ask city", "which city?", "echo Athens"]


async def test_a_streamed_turn_ends_when_the_task_waits_and_the_next_one_shows_only_its_own_events(link: Link) -> None:
    task = Task.create("ask city")
    first = [event async for event in link.client.send_task_streaming(None, task)]
    assert first[-1].state is TaskState.INPUT_REQUIRED
    task.add_message(Message.user("echo Athens"))
    second = [event async for event in link.client.send_task_streaming(None, task)]
    assert second[0].sequence == len(first) + 1
    assert second[-1].state is TaskState.COMPLETED
    assert first + second == [event async for event in link.client.subscribe(task.id)]
    paused = [event async for event in link.client.subscribe(task.id, stop_at=StopAt.INTERRUPTED)]
    assert paused == first


async def test_waiting_for_a_task_means_its_present_turn_not_an_earlier_one(link: Link) -> None:
    asked = await link.send("ask city")
    await link.client.submit_task(None, Task(id=asked.id, messages=[Message.user("hold on")]))
    await link.agent.gate.reached()
    waiting = asyncio.create_task(link.client.wait_task(asked.id))
    # Each list is a whole round to the agent and back: a wait that ended too early would have ended by then.
    for _ in range(5):
        await link.client.list_tasks()
    assert not waiting.done()
    link.agent.gate.open()
    assert (await waiting).state is TaskState.COMPLETED


# -- the same request --------------------------------------------------------------------------------------------------------


async def test_a_repeated_request_is_answered_by_the_first_run(link: Link) -> None:
    task = Task.create("echo once")
    first = await link.client.send_task(None, task, request_id="order-1")
    again = await link.client.send_task(None, task, request_id="order-1")
    assert again.to_dict() == first.to_dict()
    assert len(link.agent.seen) == 1


async def test_twenty_equal_requests_at_once_are_one_run(link: Link) -> None:
    task = Task.create("hold on")
    sends = [asyncio.create_task(link.client.send_task(None, task, request_id="order-2")) for _ in range(20)]
    await link.agent.gate.reached()
    link.agent.gate.open()
    done = await asyncio.gather(*sends)
    assert {(each.id, each.state) for each in done} == {(task.id, TaskState.COMPLETED)}
    assert len(link.agent.seen) == 1


async def test_a_repeated_streaming_request_shows_the_first_turn_again(link: Link) -> None:
    task = Task.create("work 3")
    first = [event async for event in link.client.send_task_streaming(None, task, request_id="order-3")]
    again = [event async for event in link.client.send_task_streaming(None, task, request_id="order-3")]
    assert again == first
    assert len(link.agent.seen) == 1


# -- deadlines ---------------------------------------------------------------------------------------------------------------


async def test_a_deadline_ends_the_wait_and_not_the_run(link: Link) -> None:
    task = Task.create("hold on")
    with pytest.raises(DeadlineExceededError) as caught:
        await link.hurried(0.2).send_task(None, task)
    assert caught.value.metadata == {"url": link.agent.card.url, "task_id": task.id}
    assert isinstance(caught.value, TimeoutError)
    await link.agent.gate.reached()
    assert (await link.client.get_task(task.id)).state is TaskState.WORKING
    link.agent.gate.open()
    assert (await link.client.wait_task(task.id)).state is TaskState.COMPLETED


async def test_a_caller_that_goes_away_does_not_take_the_run_along(link: Link) -> None:
    task = Task.create("hold on")
    waiting = asyncio.create_task(link.client.send_task(None, task))
    await link.agent.gate.reached()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    link.agent.gate.open()
    assert (await link.client.wait_task(task.id)).state is TaskState.COMPLETED


# -- failures ----------------------------------------------------------------------------------------------------------------


async def test_a_task_that_fails_is_returned_not_raised(link: Link) -> None:
    failed = await link.send("fail out of stock")
    assert (failed.state, failed.metadata["error"]) == (TaskState.FAILED, "out of stock")
    with pytest.raises(TaskExecutionError, match="out of stock"):
        failed.raise_for_status()


async def test_a_rejected_task_keeps_its_reason(link: Link) -> None:
    rejected = await link.send("reject not today")
    assert (rejected.state, rejected.metadata["reject_reason"]) == (TaskState.REJECTED, "not today")


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        ("raise by nothing", "AGENT_FAILED", "ZeroDivisionError: by nothing"),
        ("garble", "AGENT_FAILED", "FileNotFoundError: caf\\udce9"),
        ("mumble", "AGENT_FAILED", "Mumble: (the text of this error cannot be read)"),
        ("refuse too long", "INVALID_ARGUMENT", "messages: too long"),
        ("nonsense", "AGENT_FAILED", "TypeError: the handler must return a Task or None, not str"),
    ],
    ids=["raises", "garbles", "mumbles", "refuses", "returns nonsense"],
)
async def test_a_handler_that_breaks_makes_a_failed_task_with_an_error_part(
    link: Link, caplog: pytest.LogCaptureFixture, text: str, code: str, sentence: str
) -> None:
    # The trace goes to the agent's log, where the garbled text would be more than a test report can carry.
    caplog.set_level(logging.CRITICAL, "protolink_grpc.runtime.controls")
    failed = await link.send(text)
    assert (failed.state, failed.metadata["error"]) == (TaskState.FAILED, sentence)
    assert failed.messages[-1].parts == [Part.error(code, sentence)]
    events = [event async for event in link.client.subscribe(failed.id)]
    assert [event.type for event in events][-3:] == ["task.error", "task.message", "task.status"]
    assert (await link.send("echo still here")).state is TaskState.COMPLETED


async def test_a_message_to_an_agent_that_fails_raises_with_the_task(link: Link) -> None:
    with pytest.raises(TaskExecutionError) as caught:
        await link.client.send_message(None, "fail out of stock")
    assert caught.value.task.state is TaskState.FAILED
    assert caught.value.metadata == {"task_id": caught.value.task.id, "state": "failed"}


# -- errors ------------------------------------------------------------------------------------------------------------------


async def _get_unknown(link: Link) -> Any:
    await link.client.get_task("nobody")


async def _cancel_unknown(link: Link) -> Any:
    await link.client.cancel_task(None, "nobody")


async def _subscribe_unknown(link: Link) -> Any:
    return [event async for event in link.client.subscribe("nobody")]


async def _cancel_finished(link: Link) -> Any:
    await link.client.send_task(None, Task(id="done", messages=[Message.user("echo x")]))
    await link.client.cancel_task(None, "done")


async def _continue_finished(link: Link) -> Any:
    task = Task(id="done", messages=[Message.user("echo x")])
    await link.client.send_task(None, await link.client.send_task(None, task))


async def _continue_working(link: Link) -> Any:
    await link.client.submit_task(None, Task(id="busy", messages=[Message.user("forever")]))
    await link.agent.gate.reached()
    await link.client.send_task(None, Task(id="busy", messages=[Message.user("echo x")]))


async def _stream_to_finished(link: Link) -> Any:
    task = await link.client.send_task(None, Task(id="done", messages=[Message.user("echo x")]))
    return [event async for event in link.client.send_task_streaming(None, task)]


async def _subscribe_behind_the_end(link: Link) -> Any:
    await link.client.send_task(None, Task(id="done", messages=[Message.user("echo x")]))
    return [event async for event in link.client.subscribe("done", after=99)]


async def _subscribe_before_the_beginning(link: Link) -> Any:
    return [event async for event in link.client.subscribe("done", after=-1)]


async def _list_too_much(link: Link) -> Any:
    await link.client.list_tasks(page_size=1001)


async def _list_from_nowhere(link: Link) -> Any:
    await link.client.list_tasks(page_token="junk")


async def _list_since_nonsense(link: Link) -> Any:
    await link.client.list_tasks(updated_after="yesterday")


async def _list_unknown_states(link: Link) -> Any:
    await link.client.list_tasks(states=["happy"])


def _sending(task: Callable[[], Task], request_id: str | None = None) -> Callable[[Link], Any]:
    async def send(link: Link) -> Any:
        await link.client.send_task(None, task(), request_id=request_id)

    return send


def _part(part: Callable[[], Part]) -> Callable[[Link], Any]:
    return _sending(lambda: Task.create(Message(parts=[part()])))


def _nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


ERRORS: dict[str, tuple[Callable[[Link], Any], str, dict[str, str]]] = {
    "get an unknown task": (_get_unknown, "TASK_NOT_FOUND", {"task_id": "nobody"}),
    "cancel an unknown task": (_cancel_unknown, "TASK_NOT_FOUND", {"task_id": "nobody"}),
    "subscribe to an unknown task": (_subscribe_unknown, "TASK_NOT_FOUND", {"task_id": "nobody"}),
    "cancel a finished task": (_cancel_finished, "TASK_NOT_CANCELABLE", {"task_id": "done", "state": "completed"}),
    "continue a finished task": (_continue_finished, "TASK_FINISHED", {"task_id": "done", "state": "completed"}),
    "stream to a finished task": (_stream_to_finished, "TASK_FINISHED", {"task_id": "done", "state": "completed"}),
    "continue a working task": (_continue_working, "TASK_ALREADY_RUNNING", {"task_id": "busy", "state": "working"}),
    "subscribe behind the end": (
        _subscribe_behind_the_end,
        "SEQUENCE_OUT_OF_RANGE",
        {"after_sequence": "99", "last_sequence": "5"},
    ),
    "subscribe before the beginning": (
        _subscribe_before_the_beginning,
        "INVALID_ARGUMENT",
        {"field": "after_sequence"},
    ),
    "list too much": (_list_too_much, "INVALID_ARGUMENT", {"field": "page_size"}),
    "list from nowhere": (_list_from_nowhere, "INVALID_ARGUMENT", {"field": "page_token"}),
    "list since nonsense": (_list_since_nonsense, "INVALID_ARGUMENT", {"field": "updated_after"}),
    "list unknown states": (_list_unknown_states, "INVALID_ARGUMENT", {"field": "states"}),
    "no message": (_sending(Task), "INVALID_ARGUMENT", {"field": "input.messages"}),
    "a long task id": (
        _sending(lambda: Task(id="x" * 129, messages=[Message.user("x")])),
        "INVALID_ARGUMENT",
        {"field": "input.task_id"},
    ),
    "a task id of control characters": (
        _sending(lambda: Task(id="a\nb", messages=[Message.user("x")])),
        "INVALID_ARGUMENT",
        {"field": "input.task_id"},
    ),
    "a long session id": (
        _sending(lambda: Task.create("x", session_id="x" * 129)),
        "INVALID_ARGUMENT",
        {"field": "input.session_id"},
    ),
    "a long message id": (
        _sending(lambda: Task.create(Message(id="x" * 129, parts=[Part.text("x")]))),
        "INVALID_ARGUMENT",
        {"field": "input.messages[0].id"},
    ),
    "a long artifact id": (
        _sending(lambda: Task(messages=[Message.user("x")], artifacts=[Artifact(id="x" * 129)])),
        "INVALID_ARGUMENT",
        {"field": "input.artifacts[0].id"},
    ),
    "a long request id": (_sending(lambda: Task.create("x"), "r" * 129), "INVALID_ARGUMENT", {"field": "request_id"}),
    "too many messages": (
        _sending(lambda: Task(messages=[Message.user("x") for _ in range(1001)])),
        "MESSAGE_TOO_LARGE",
        {"field": "input.messages"},
    ),
    "too many parts": (
        _sending(lambda: Task.create(Message(parts=[Part.text("x")] * 1001))),
        "MESSAGE_TOO_LARGE",
        {"field": "input.messages[0].parts"},
    ),
}


@pytest.mark.parametrize("case", ERRORS)
async def test_a_mistake_is_the_same_error_with_the_same_facts_everywhere(link: Link, case: str) -> None:
    attempt, reason, metadata = ERRORS[case]
    with pytest.raises(ProtolinkError) as caught:
        await attempt(link)
    assert (caught.value.reason, caught.value.metadata) == (reason, metadata)
    assert str(caught.value)
    # The agent goes on.
    assert (await link.send("echo x")).state is TaskState.COMPLETED


@pytest.mark.parametrize(
    "attempt",
    [
        _sending(lambda: Task.create(Message(role="boss", parts=[Part.text("x")]))),
        _part(lambda: Part("", "no type")),
        _part(lambda: Part.json(_nested(1000))),
        _part(lambda: Part.text("\ud800")),
        _sending(lambda: Task(messages=[Message.user("x")], metadata={"run_context": "no object"})),
    ],
    ids=["role", "part without type", "deep json", "lone surrogate", "run context"],
)
async def test_what_cannot_be_written_down_is_the_callers_mistake(link: Link, attempt: Callable[[Link], Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        await attempt(link)
    assert (await link.client.list_tasks(include_total=True)).total_size == 0


async def test_five_megabytes_are_too_large_and_nothing_is_recorded(link: Link) -> None:
    with pytest.raises(ProtolinkError) as caught:
        await link.send("echo " + "x" * 5_000_000)
    assert caught.value.reason == "MESSAGE_TOO_LARGE"
    assert (await link.client.list_tasks(include_total=True)).total_size == 0


async def test_an_agent_that_is_not_there_is_an_error_that_names_its_url(link: Link) -> None:
    urls = {"grpc": "grpc://127.0.0.1:1", "grpc-web": "http://127.0.0.1:1"}
    url = urls.get(link.way, "runtime://nobody")
    with pytest.raises(ProtolinkError) as caught:
        await AgentClient(outage_s=0).send_task(url, Task.create("x"))
    # In process nothing can start later; on a network the agent may start again.
    assert type(caught.value) is (UnavailableError if link.way in urls else AgentNotFoundError)
    assert caught.value.metadata["url"].startswith(url)


# -- content -----------------------------------------------------------------------------------------------------------------


def _contents() -> list[Part]:
    return [
        Part.text("reply"),
        Part.text("Zażółć gęślą jaźń, 日本語, עברית, 👩‍🚀, \u202e, \x00\x07"),
        Part.json(
            {"big": 2**200, "negative": -(2**63) - 1, "exact": 9_007_199_254_740_993, "tiny": 5e-324, "ключ": []}
        ),
        Part.json([None, True, 1.0, "1", {"": {}}]),
        Part.file(data=bytes(range(256)), name="all.bin", media_type="application/x-all"),
        Part.image(uri="https://example.test/a.png"),
        Part.tool_output("call", result={"n": 2**100}),
        Part.error("E", "went wrong", retryable=True),
        Part.status("working", "soon"),
        Part.route("left", "why not", 0.5, {"k": [1]}),
        Part("x-ours", {"any": ["thing", 2**65]}, metadata={"m": 2**65}, media_type="application/x-ours"),
        Part("x-empty"),
    ]


async def test_every_kind_of_content_arrives_and_comes_back_as_it_was(link: Link) -> None:
    # The word that the worker acts on stands in a text part of its own.
    parts = _contents()
    message = Message(parts=[*parts, Part("x-last", 1)])
    done = await link.client.send_task(None, Task.create(message))
    assert link.agent.seen[0].messages[0].parts == message.parts
    assert done.messages[-1].parts == message.parts


async def test_three_megabytes_of_text_make_the_round_trip(link: Link) -> None:
    text = "echo " + "ж" * 1_500_000
    done = await link.send(text)
    assert done.messages[0].text == text
    assert done.messages[-1].text == text.removeprefix("echo ")


# -- isolation ---------------------------------------------------------------------------------------------------------------


def _spoil(task: Task) -> None:
    """Change whatever can be changed in place."""
    for message in list(task.messages):
        message.role = "system"
        for part in message.parts:
            if isinstance(part.content, dict):
                part.content["spoiled"] = True
            else:
                part.content = "spoiled"
        message.parts.append(Part.text("spoiled"))
    for artifact in list(task.artifacts):
        artifact.metadata["spoiled"] = True
        artifact.parts.clear()
    task.messages.append(Message.user("spoiled"))
    task.metadata["spoiled"] = True
    for value in task.metadata.values():
        if isinstance(value, dict):
            value["spoiled"] = True
    task.flow_state["spoiled"] = True


def _rich(text: str) -> Task:
    task = Task.create(Message(parts=[Part.text(text), Part.json({"deep": {"list": [1]}})]))
    task.metadata["nested"] = {"a": [1]}
    task.flow_state["nested"] = {"b": [2]}
    return task


async def test_what_a_caller_does_to_its_task_afterwards_is_not_seen_by_the_agent(link: Link) -> None:
    task = _rich("hold on")
    sent = task.to_dict()
    waiting = asyncio.create_task(link.client.send_task(None, task))
    await link.agent.gate.reached()
    _spoil(task)
    known = await link.client.get_task(task.id)
    assert known.to_dict()["messages"] == sent["messages"]
    assert (known.metadata["nested"], known.flow_state) == ({"a": [1]}, {"nested": {"b": [2]}})
    assert link.agent.seen[0].to_dict()["messages"] == sent["messages"]
    link.agent.gate.open()
    await waiting


async def test_what_a_caller_does_to_an_answer_is_not_seen_by_anybody(link: Link) -> None:
    done = await link.client.send_task(None, _rich("echo hello"))
    before = (await link.client.get_task(done.id)).to_dict()
    _spoil(done)
    again = await link.client.get_task(done.id)
    assert again.to_dict() == before
    _spoil(again)
    assert (await link.client.get_task(done.id)).to_dict() == before


async def test_what_an_agent_does_to_a_task_afterwards_is_not_seen_by_the_caller(link: Link) -> None:
    done = await link.client.send_task(None, _rich("echo hello"))
    before = done.to_dict()
    _spoil(link.agent.seen[0])
    assert done.to_dict() == before
    assert (await link.client.get_task(done.id)).to_dict() == before


async def test_what_a_reader_does_to_an_event_is_not_seen_by_the_next_reader(link: Link) -> None:
    done = await link.client.send_task(None, _rich("echo hello"))
    before = [repr(event.payload) async for event in link.client.subscribe(done.id)]
    async for event in link.client.subscribe(done.id):
        payload: Any = event.payload
        for message in getattr(payload, "messages", ()):
            message.parts.clear()
        if hasattr(payload, "task"):
            _spoil(payload.task)
    assert [repr(event.payload) async for event in link.client.subscribe(done.id)] == before


async def test_a_changed_card_is_not_the_agents_card(link: Link) -> None:
    card = await link.client.get_agent_card()
    card.tags.append("spoiled")
    card.capabilities.streaming = not card.capabilities.streaming
    assert await link.client.get_agent_card() == link.agent.card
    assert link.agent.card.tags == ["test"]


# -- tools -------------------------------------------------------------------------------------------------------------------


async def test_a_tool_call_is_run_and_reported(link: Link) -> None:
    async def power(base: int, exponent: int, context: ToolContext) -> int:
        await context.progress(50, "half way")
        return int(base**exponent)

    link.agent.add_tool(power)
    link.agent.handle_task = link.agent.execute_task  # type: ignore[method-assign]  # the default behavior, on this one
    done = await link.client.send_task(None, Task.create_tool_call("power", {"base": 7, "exponent": 40}))
    assert done.get_output() == 7**40
    types = [event.type async for event in link.client.subscribe(done.id)]
    action = ["action.requested", "action.policy", "action.started", "task.progress", "action.completed"]
    assert types[2:7] == action
    wrong = await link.client.send_task(None, Task.create_tool_call("powr"))
    assert wrong.state is TaskState.FAILED
    output = wrong.artifacts[0].parts[0].as_tool_output()
    assert output.error["code"] == "unknown_tool"
    assert "'power'" in output.error["suggestion"]


# -- progress ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reporter", ["run", "tool", "event"])
@pytest.mark.parametrize(
    ("percent", "allowed"),
    [
        (0, True),
        (0.5, True),
        (100, True),
        (None, True),
        (-0.1, False),
        (100.1, False),
        (float("nan"), False),
        ("50", False),
        (True, False),
    ],
)
async def test_progress_is_a_percentage_wherever_it_is_reported(
    link: Link, reporter: str, percent: Any, allowed: bool
) -> None:
    async def step(context: ToolContext) -> str:
        await context.progress(percent, "half way")
        return "done"

    async def handle(task: Task) -> Task:
        run = current_run()
        assert run is not None
        if reporter == "tool":
            return await link.agent.execute_task(task)
        await (run.progress(percent, "half way") if reporter == "run" else run.emit(TaskProgress(percent, "half way")))
        return task.complete("done")

    link.agent.add_tool(step)
    link.agent.handle_task = handle  # type: ignore[method-assign]  # on this one
    events = [event async for event in link.client.send_task_streaming(None, Task.create_tool_call("step"))]
    told = [event.payload.progress for event in events if isinstance(event.payload, TaskProgress)]
    assert told == ([percent] if allowed else [])
    assert events[-1].state is (TaskState.COMPLETED if allowed else TaskState.FAILED)
    if not allowed:
        assert "progress: must be a percentage from 0 to 100, or None" in str(events)
