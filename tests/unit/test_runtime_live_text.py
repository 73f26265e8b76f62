"""Live text between a model and its readers: every reader sees a prefix of the text of a call."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from plgrpc.v1 import agent_service_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError, UnavailableError
from protolink_grpc.models.events import LlmCallCompleted, LlmCallStarted, Payload, RunEvent, TaskProgress, TextDelta
from protolink_grpc.models.live_text import TextsRead
from protolink_grpc.models.message import Message
from protolink_grpc.models.task import Task
from protolink_grpc.models.watch import StopAt
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.live_text import MAX_PULL, SEAL, LiveTexts, TextReader
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.wire.events import (
    EventEncoder,
    delta_frame,
    delta_from_frame,
    event_from_frame,
    is_delta,
    turn_of_call,
)

PATIENCE_S = 10.0
"""Bound of what must happen soon; reached only by a failure."""

ENCODER = EventEncoder(task_id="t", run_id="r", session_id="s", agent_name="a")


def started(sequence: int, call_id: str = "c", attempt: int = 1) -> bytes:
    return ENCODER.frame(LlmCallStarted(call_id, attempt=attempt, streaming=True), sequence, 0)


def completed(sequence: int, call_id: str = "c", text: str = "") -> bytes:
    return ENCODER.frame(LlmCallCompleted(call_id, text=text), sequence, 0)


def size(text: str) -> int:
    return len(text.encode(errors="replace"))


def said(deltas: list[TextDelta]) -> str:
    """The text of deltas that follow each other from the beginning."""
    text = ""
    for delta in deltas:
        assert delta.offset == size(text)
        text += delta.text
    return text


# -- frames ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("response", [pb.StreamTaskResponse, pb.SubscribeTaskResponse])
def test_delta_frames_are_the_deltas_of_both_responses(response: Any) -> None:
    event, delta = started(1), delta_frame("t", TextDelta("c", 7, "für 🦉" * 100))
    parsed = response.FromString(event + delta + delta)
    assert [each.sequence for each in parsed.events] == [1]
    assert [(each.task_id, each.call_id, each.offset_bytes, each.text) for each in parsed.deltas] == [
        ("t", "c", 7, "für 🦉" * 100)
    ] * 2
    assert [is_delta(frame) for frame in (event, delta)] == [False, True]


def test_a_delta_reads_as_an_event_without_a_sequence() -> None:
    event = delta_from_frame(delta_frame("t", TextDelta("c", 3, "x")))
    assert (event.type, event.task_id, event.sequence, event.state) == ("llm.stream", "t", None, None)
    assert event.payload == TextDelta("c", 3, "x")


def test_a_negative_offset_is_refused() -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        delta_from_frame(delta_frame("t", TextDelta("c", -1, "x")))
    assert refused.value.metadata["field"] == "offset_bytes"


def test_only_the_events_of_model_calls_begin_and_end_texts() -> None:
    chance = "".join(map(chr, range(256))) * 2  # any two bytes may look like a tag
    others: list[Payload] = [TaskProgress(1.0, chance), TaskProgress(None, "ª\x01²\x01º\x01Â\x01Ê\x01Ò\x01")]
    assert [turn_of_call(ENCODER.frame(each, 5, 0)) for each in others] == [None, None]
    assert turn_of_call(started(3, "x")) == ("x", 3)
    assert turn_of_call(completed(4, "y")) == ("y", 4)
    assert turn_of_call(ENCODER.frame(LlmCallStarted("z"), 5, 0, type="my.own")) == ("z", 5)


# -- one text, several readers ------------------------------------------------------------------------------------------------


def test_a_text_continues_only_where_it_ends() -> None:
    texts = LiveTexts()
    texts.write("t", "c", 0, "añ🦉", after=0)
    for offset in (1, 3, 8, 9):
        with pytest.raises(InvalidArgumentError, match="7 bytes"):
            texts.write("t", "c", offset, "x", after=0)
    with pytest.raises(InvalidArgumentError, match="0 bytes"):
        texts.write("t", "another", 7, "x", after=0)
    texts.write("t", "c", 7, "x", after=0)
    assert said(texts.reader("t").pull(0, 0.0)) == "añ🦉x"


def test_a_text_for_which_there_is_no_room_ends_early_and_frees_what_it_had() -> None:
    texts = LiveTexts(interval_s=0.0, max_bytes=10, principal_share=0.5)
    texts.write("t", "c", 0, "abcd", after=0, principal="ann")
    texts.write("t", "c", 4, "ef", after=0, principal="ann")
    # Nothing of it is shown behind a gap, and its writer goes on as if it were.
    texts.write("t", "c", 6, "g", after=0, principal="ann")
    with pytest.raises(InvalidArgumentError, match="7 bytes"):
        texts.write("t", "c", 4, "x", after=0, principal="ann")
    assert said(texts.reader("t").pull(0, 0.0)) == "abcd"
    texts.write("u", "c", 0, "12345", after=0, principal="bob")
    assert (said(texts.reader("u").pull(0, 0.0)), texts.size) == ("12345", 9)
    texts.write("t", "c", 0, "again", after=0, principal="ann")
    assert (said(texts.reader("t").pull(0, 0.0)), texts.size) == ("again", 10)
    texts.end("t", "c")
    texts.drop("u")
    assert (texts.size, texts._size_of) == (0, {})


def test_a_slow_reader_gets_one_big_piece_and_a_late_one_all_from_the_beginning() -> None:
    texts = LiveTexts(interval_s=0.0)
    fast, slow = texts.reader("t"), texts.reader("t")
    text, seen = "", []
    for index in range(200):
        texts.write("t", "c", len(text), f"{index} ", after=1)
        text += f"{index} "
        seen += fast.pull(1, float(index))
    assert len(seen) == 200
    assert said(seen) == text
    assert slow.pull(1, 0.0) == texts.reader("t").pull(5, 0.0) == [TextDelta("c", 0, text)]


def test_pieces_are_coalesced_for_each_reader_after_the_first() -> None:
    texts = LiveTexts(interval_s=0.025)
    reader, late = texts.reader("t"), texts.reader("t")
    seen = []
    for token in range(1000):  # a thousand a second
        texts.write("t", "c", 2 * token, "ab", after=0)
        seen += reader.pull(0, token / 1000)
        if token == 30:
            assert late.pull(0, 0.030) == [TextDelta("c", 0, "ab" * 31)]
    assert seen[0] == TextDelta("c", 0, "ab")
    assert len(seen) == 40
    assert said(seen + reader.pull(0, 2.0)) == "ab" * 1000


def test_a_text_is_shown_only_to_readers_that_have_the_beginning_of_its_call() -> None:
    texts = LiveTexts()
    texts.write("t", "c", 0, "x", after=3)
    reader = texts.reader("t")
    assert reader.pull(2, 0.0) == []
    assert reader.pull(3, 0.0) == [TextDelta("c", 0, "x")]


def test_another_try_of_a_call_voids_its_text_for_those_that_have_seen_it_begin() -> None:
    texts = LiveTexts(interval_s=0.0)
    reader = texts.reader("t")
    reader.note_sent([started(1)])
    texts.write("t", "c", 0, "first", after=1)
    assert said(reader.pull(1, 0.0)) == "first"
    reader.note_sent([started(2, attempt=2)])
    # The writer has not come so far yet: what it has is the old text.
    assert reader.pull(2, 1.0) == []
    texts.write("t", "c", 0, "sec", after=2)
    assert reader.pull(2, 2.0) == [TextDelta("c", 0, "sec")]
    texts.write("t", "c", 3, "ond", after=2)
    assert reader.pull(2, 3.0) == [TextDelta("c", 3, "ond")]


def test_nothing_of_a_call_follows_its_completion_even_where_nobody_freed_it() -> None:
    texts = LiveTexts(interval_s=0.0)
    reader = texts.reader("t")
    texts.write("t", "c", 0, "x", after=1)
    assert said(reader.pull(1, 0.0)) == "x"
    texts.write("t", "c", 1, "y", after=1)
    reader.note_sent([completed(2)])
    texts.write("t", "c", 2, "z", after=1)
    assert reader.pull(2, 1.0) == []


def test_an_ended_text_and_a_dropped_task_are_freed() -> None:
    texts = LiveTexts()
    for call_id in "ab":
        texts.write("t", call_id, 0, "x", after=0)
    texts.end("t", "a")
    texts.end("t", "unknown")
    assert list(texts.of("t")) == ["b"]
    texts.end("t", "b")
    assert texts._calls == {}
    texts.write("t", "c", 0, "x", after=0)
    texts.drop("t")
    texts.drop("t")
    assert texts._calls == {}


def test_many_small_pieces_are_put_together_without_any_reader() -> None:
    texts = LiveTexts()
    for offset in range(10 * SEAL):
        texts.write("t", "c", offset, "x", after=0)
    assert len(texts.of("t")["c"]._pieces) == 10


def test_a_huge_text_comes_in_bounded_batches_without_pauses() -> None:
    texts = LiveTexts(interval_s=60.0)
    text = "🦉" * (MAX_PULL // 2 + 5)
    texts.write("t", "c", 0, text, after=0)
    texts.write("t", "d", 0, "x" * 10, after=0)
    reader = texts.reader("t")
    batches = [reader.pull(0, 0.0) for _ in range(4)]
    assert said([delta for batch in batches for delta in batch if delta.call_id == "c"]) == text
    assert [sum(size(delta.text) for delta in batch) for batch in batches] == [MAX_PULL, MAX_PULL, 30, 0]


def test_what_utf_8_cannot_hold_is_replaced_one_for_one() -> None:
    texts = LiveTexts()
    texts.write("t", "c", 0, "a\ud83d\ude00ü", after=0)
    texts.write("t", "c", 5, "!", after=0)
    (delta,) = texts.reader("t").pull(0, 0.0)
    assert delta_from_frame(delta_frame("t", delta)).payload == TextDelta("c", 0, "a??ü!")


# -- streams that are taken up again ---------------------------------------------------------------------------------------------


def told(read: TextsRead, offset: int, text: str, call_id: str = "c") -> Any:
    event = read.news(RunEvent(payload=TextDelta(call_id, offset, text)))
    return event and event.payload


def test_a_stream_that_is_taken_up_again_repeats_nothing() -> None:
    read = TextsRead()
    assert told(read, 0, "abc") == TextDelta("c", 0, "abc")
    assert told(read, 3, "d") == TextDelta("c", 3, "d")
    read.begin_stream()
    assert told(read, 0, "ab") is None
    assert told(read, 2, "cdef") == TextDelta("c", 4, "ef")
    assert told(read, 6, "g") == TextDelta("c", 6, "g")


def test_another_try_is_told_from_its_beginning_also_after_a_cut() -> None:
    read = TextsRead()
    assert told(read, 0, "abc") == TextDelta("c", 0, "abc")
    read.begin_stream()
    again = RunEvent(payload=LlmCallStarted("c", attempt=2), sequence=7)
    assert read.news(again) is again
    assert told(read, 0, "ax") == TextDelta("c", 0, "ax")
    # Without a word of the log, in the middle of a stream: the writer began again.
    assert told(read, 0, "b") == TextDelta("c", 0, "b")
    assert told(read, 1, "c") == TextDelta("c", 1, "c")


def test_a_finished_call_is_forgotten() -> None:
    read = TextsRead()
    told(read, 0, "abc")
    read.news(RunEvent(payload=LlmCallCompleted("c")))
    assert (read._shown, read._told) == ({}, {})


# -- the invariant, whatever happens ------------------------------------------------------------------------------------------


class Caller:
    """A caller with its stream. What it is shown is checked piece by piece."""

    def __init__(self, world: "World", seen: int) -> None:
        self.world = world
        self.seen = seen
        self.read = TextsRead()
        self.views: dict[str, str] = {}
        self.over: set[str] = set()
        self.open()

    def open(self) -> None:
        self.at = self.seen
        self.stream: TextReader = self.world.texts.reader("t")
        self.read.begin_stream()

    def take_events(self, count: int, *, lost: bool) -> None:
        frames = self.world.log[self.at : self.at + count]
        self.at += len(frames)
        self.stream.note_sent(frames)
        for frame in [] if lost else frames:
            event = self.read.news(event_from_frame(frame))
            assert event is not None
            assert event.sequence == self.seen + 1
            self.seen += 1
            match event.payload:
                case LlmCallStarted(call_id=call_id):
                    self.views[call_id] = ""
                case LlmCallCompleted(call_id=call_id, text=text):
                    assert text.startswith(self.views.get(call_id, ""))
                    self.over.add(call_id)

    def take_deltas(self, *, lost: bool) -> None:
        for piece in self.stream.pull(self.at, self.world.now):
            event = None if lost else self.read.news(delta_from_frame(delta_frame("t", piece)))
            if event is None:
                continue
            delta = event.payload
            assert isinstance(delta, TextDelta)
            assert delta.text
            assert delta.call_id not in self.over
            view = self.views.get(delta.call_id, "")
            assert delta.offset == size(view)
            self.views[delta.call_id] = view + delta.text
            assert self.world.produced(delta.call_id, self.seen).startswith(view + delta.text)


class World(RuleBasedStateMachine):
    """One task, its log, two model calls with retries, and callers that come, dawdle, lose their streams and go on."""

    CALLS = ("one", "two")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.texts = LiveTexts(interval_s=1.0)
        self.log: list[bytes] = []
        self.pending: list[Payload] = []
        self.tries: dict[str, list[str]] = {}
        self.done: set[str] = set()
        self.callers = [Caller(self, 0)]

    def produced(self, call_id: str, seen: int) -> str:
        """The text of the try that a caller knows of who has seen the log so far."""
        begun = [event_from_frame(frame).payload for frame in self.log[:seen]]
        number = sum(isinstance(each, LlmCallStarted) and each.call_id == call_id for each in begun)
        return self.tries[call_id][number - 1]

    def emit(self, fact: LlmCallStarted | LlmCallCompleted) -> None:
        """As a run does it: the text ends at once, the event is in the log some time later."""
        self.pending.append(fact)
        self.texts.end("t", fact.call_id)

    def startable(self) -> list[str]:
        return [call_id for call_id in self.CALLS if call_id not in self.done]

    def under_way(self) -> list[str]:
        return [call_id for call_id in self.tries if call_id not in self.done]

    @precondition(lambda self: self.pending)
    @rule()
    def flush(self) -> None:
        for fact in self.pending:
            self.log.append(ENCODER.frame(fact, len(self.log) + 1, 0))
        self.pending = []

    @precondition(lambda self: self.startable())
    @rule(data=st.data(), at_once=st.booleans())
    def start(self, data: st.DataObject, at_once: bool) -> None:
        call_id = data.draw(st.sampled_from(self.startable()))
        tries = self.tries.setdefault(call_id, [])
        tries.append("")
        self.emit(LlmCallStarted(call_id, attempt=len(tries)))
        if at_once:
            self.flush()

    @precondition(lambda self: self.under_way())
    @rule(data=st.data(), text=st.text(max_size=5))
    def write(self, data: st.DataObject, text: str) -> None:
        call_id = data.draw(st.sampled_from(self.under_way()))
        so_far = self.tries[call_id][-1]
        self.texts.write("t", call_id, size(so_far), text, after=len(self.log) + len(self.pending))
        self.tries[call_id][-1] += text

    @precondition(lambda self: self.under_way())
    @rule(data=st.data(), tidy=st.booleans())
    def complete(self, data: st.DataObject, tidy: bool) -> None:
        call_id = data.draw(st.sampled_from(self.under_way()))
        self.done.add(call_id)
        fact = LlmCallCompleted(call_id, text=self.tries[call_id][-1])
        if tidy:
            self.emit(fact)
        else:  # recorded, and the text is not freed
            self.flush()
            self.log.append(ENCODER.frame(fact, len(self.log) + 1, 0))

    @rule(seconds=st.sampled_from([0.3, 1.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(who=st.integers(0, 2), count=st.integers(0, 3), lost=st.booleans())
    def take(self, who: int, count: int, lost: bool) -> None:
        """A response of events and one of deltas; with `lost` they never arrive, and the stream is taken up again."""
        caller = self.callers[who % len(self.callers)]
        caller.take_events(count, lost=lost)
        caller.take_deltas(lost=lost)
        if lost:
            caller.open()

    # A reader that joins after an end which no reader has seen, and whose text was not freed, cannot know of it.
    @precondition(lambda self: len(self.callers) < 3 and not self.done & self.texts.of("t").keys())
    @rule(late=st.booleans())
    def join(self, late: bool) -> None:
        self.callers.append(Caller(self, len(self.log) if late else 0))

    def teardown(self) -> None:
        self.flush()
        for caller in self.callers:
            self.now += 1.0
            caller.take_events(len(self.log), lost=False)
            caller.take_deltas(lost=False)
            for call_id in self.under_way():
                assert caller.views.get(call_id, "") == self.tries[call_id][-1]


World.TestCase.settings = settings(stateful_step_count=50)
test_every_view_is_a_beginning_of_the_text = World.TestCase


# -- from a run to its watchers -----------------------------------------------------------------------------------------------


class Bench:
    """A service whose handler is the test's own."""

    def __init__(self, service: TaskService, store: "CountingStore") -> None:
        self.service = service
        self.store = store

    async def submit(self) -> str:
        return (await self.service.submit(Submission(messages=[Message.user("go")]), "me")).task_id

    def watch(self, task_id: str, **more: Any) -> AsyncGenerator[list[bytes], None]:
        return self.service.watch(task_id, "me", **{"deltas": True} | more)

    async def all_of(self, task_id: str, **more: Any) -> list[RunEvent]:
        async with asyncio.timeout(PATIENCE_S), aclosing(self.watch(task_id, **more)) as batches:
            return [opened(frame) async for frames in batches for frame in frames]


class CountingStore(MemoryStore):
    """Counts the reads."""

    reads = 0

    async def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        self.reads += 1
        return await super().read(task_id, after, limit)


def opened(frame: bytes) -> RunEvent:
    return delta_from_frame(frame) if is_delta(frame) else event_from_frame(frame)


@asynccontextmanager
async def bench(handler: Callable[[Run], Awaitable[None]], interval_s: float = 0.0) -> AsyncIterator[Bench]:
    async def handle(task: Task, run: Run) -> None:
        await handler(run)

    store = CountingStore()
    service = TaskService("agent", store, handle, limits=Limits(max_concurrency=8, delta_interval_s=interval_s))
    await service.start()
    try:
        yield Bench(service, store)
    finally:
        await service.stop(0.0)


def deltas_of(events: list[RunEvent]) -> list[TextDelta]:
    return [event.payload for event in events if isinstance(event.payload, TextDelta)]


async def steps(count: int = 20) -> None:
    """Let everything that can go on go on."""
    for _ in range(count):
        await asyncio.sleep(0)


async def generate(run: Run, pieces: list[str], call_id: str = "c") -> None:
    """As the inference loop does: begin, tell, end."""
    await run.emit(LlmCallStarted(call_id, streaming=True))
    text = ""
    for piece in pieces:
        run.delta(call_id, size(text), piece)
        text += piece
        await asyncio.sleep(0)
    await run.emit(LlmCallCompleted(call_id, text=text))


async def test_a_reader_sees_the_text_between_the_beginning_and_the_end_of_its_call() -> None:
    pieces = [f"{index} 🦉 " for index in range(50)]
    ready = asyncio.Event()

    async def handler(run: Run) -> None:
        await ready.wait()
        await generate(run, pieces)

    async with bench(handler) as here:
        task_id = await here.submit()
        reading = asyncio.create_task(here.all_of(task_id))
        await steps()
        ready.set()
        events = await reading
    kinds = [event.type for event in events]
    first, last = kinds.index("llm.call.started"), kinds.index("llm.call.completed")
    shown = deltas_of(events)
    assert shown == deltas_of(events[first:last])
    assert len(shown) > 10
    assert "".join(pieces).startswith(said(shown))
    assert [event.sequence for event in events if event.sequence] == list(range(1, 6))


async def test_a_stream_without_deltas_shows_none_and_its_reader_is_not_woken_by_them() -> None:
    ready = asyncio.Event()
    looked: list[int] = []

    async def handler(run: Run) -> None:
        await run.emit(LlmCallStarted("c"))
        await run.flush()
        await ready.wait()
        looked.append(here.store.reads)
        for offset in range(100):
            run.delta("c", offset, "x")
            await asyncio.sleep(0)
        looked.append(here.store.reads)

    async with bench(handler) as here:
        task_id = await here.submit()
        reading = asyncio.create_task(here.all_of(task_id, deltas=False))
        await steps()
        assert here.service._texts._waiting == {}
        ready.set()
        events = await reading
    assert deltas_of(events) == []
    assert looked[0] == looked[1] > 0


async def test_however_many_pieces_come_in_an_interval_there_is_one_message() -> None:
    ready = asyncio.Event()

    async def handler(run: Run) -> None:
        await run.emit(LlmCallStarted("c"))
        await run.flush()
        await ready.wait()
        await steps()
        for offset in range(1000):
            run.delta("c", offset, "x")
            await asyncio.sleep(0)
        await run.emit(LlmCallCompleted("c", text="x" * 1000))

    async with bench(handler, interval_s=3600.0) as here:
        task_id = await here.submit()
        reading = asyncio.create_task(here.all_of(task_id))
        await steps()
        ready.set()
        (first,) = deltas_of(await reading)
    assert (first.offset, len(first.text) < 5) == (0, True)


async def test_one_that_joins_late_first_gets_the_text_so_far_of_the_calls_under_way() -> None:
    go_on = asyncio.Event()

    async def handler(run: Run) -> None:
        await generate(run, ["over"], "before")
        for call_id in ("one", "two"):
            await run.emit(LlmCallStarted(call_id))
            run.delta(call_id, 0, call_id)
        await run.flush()
        await go_on.wait()
        run.delta("two", 3, "!")
        await steps()

    async with bench(handler) as here:
        task_id = await here.submit()
        await steps()
        now = await here.all_of(task_id, stop_at=StopAt.CURRENT)
        async with asyncio.timeout(PATIENCE_S), aclosing(here.watch(task_id, after=now[-3].sequence)) as batches:
            late = [opened(frame) for frame in await anext(batches)]
            go_on.set()
            late += [opened(frame) async for frames in batches for frame in frames]
    so_far = [("one", 0, "one"), ("two", 0, "two")]
    assert [(each.call_id, each.offset, each.text) for each in deltas_of(now)] == so_far
    assert [(each.call_id, each.offset, each.text) for each in deltas_of(late[:2])] == so_far
    assert [(each.call_id, each.offset, each.text) for each in deltas_of(late[2:])] == [("two", 3, "!")]


async def test_a_retried_call_is_told_again_from_its_beginning() -> None:
    ready = asyncio.Event()

    async def handler(run: Run) -> None:
        await ready.wait()
        for attempt, text in ((1, "first"), (2, "again")):
            await run.emit(LlmCallStarted("c", attempt=attempt))
            await run.flush()
            for offset, letter in enumerate(text):
                run.delta("c", offset, letter)
                await steps()
        await run.emit(LlmCallCompleted("c", text="again"))

    async with bench(handler) as here:
        task_id = await here.submit()
        reading = asyncio.create_task(here.all_of(task_id))
        await steps()
        ready.set()
        shown = deltas_of(await reading)
    assert said(shown[:5]) == "first"
    assert said(shown[5:]) == "again"


@pytest.mark.parametrize("canceled", [True, False])
async def test_the_end_of_a_run_drops_its_texts_and_what_comes_after_it_goes_nowhere(canceled: bool) -> None:
    runs: list[Run] = []

    async def handler(run: Run) -> None:
        runs.append(run)
        await run.emit(LlmCallStarted("c"))
        run.delta("c", 0, "unfinished")
        await run.flush()
        if not canceled:
            raise ZeroDivisionError
        await asyncio.Event().wait()

    async with bench(handler) as here:
        task_id = await here.submit()
        await steps()
        if canceled:
            assert list(here.service._texts.of(task_id)) == ["c"]
            await here.service.cancel(task_id, "me")
        events = await here.all_of(task_id)
        assert here.service._texts._calls == {}
        runs[0].delta("c", 10, "too late")
        runs[0].end_delta("c")
        assert here.service._texts._calls == {}
    assert deltas_of(events) == []


async def test_emitting_the_end_of_a_call_frees_its_text() -> None:
    done = asyncio.Event()

    async def handler(run: Run) -> None:
        await generate(run, ["x"])
        assert here.service._texts._calls == {}
        run.delta("d", 0, "x")
        run.end_delta("d")
        assert here.service._texts._calls == {}
        done.set()

    async with bench(handler) as here:
        await here.submit()
        async with asyncio.timeout(PATIENCE_S):
            await done.wait()


async def test_wrong_offsets_are_the_handlers_own_fault() -> None:
    async def handler(run: Run) -> None:
        run.delta("c", 1, "x")

    async with bench(handler) as here:
        events = await here.all_of(await here.submit())
    assert any(event.type == "task.error" for event in events)


async def test_a_watch_that_is_closed_leaves_nothing_behind() -> None:
    go_on = asyncio.Event()

    async def handler(run: Run) -> None:
        await run.emit(LlmCallStarted("c"))
        await run.flush()
        for offset in range(5):
            run.delta("c", offset, "x")
            await steps(5)
        await go_on.wait()

    async with bench(handler, interval_s=3600.0) as here:
        task_id = await here.submit()
        await steps(3)
        before = asyncio.all_tasks()
        readers = [asyncio.create_task(here.all_of(task_id)) for _ in range(5)]
        await steps(100)
        assert len(asyncio.all_tasks() - before) == 10  # one for the growth of the log each, however many pieces came
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
        assert asyncio.all_tasks() <= before
        assert (here.service._texts._waiting, here.store._waiters.keys()) == ({}, [])
        go_on.set()


async def test_readers_of_deltas_are_told_when_the_service_stops() -> None:
    async def handler(run: Run) -> None:
        await asyncio.Event().wait()

    async with bench(handler) as here:
        task_id = await here.submit()
        reading = asyncio.create_task(here.all_of(task_id, after=2))
        await steps()
        # As for the store of another agent: this one's tasks stay open.
        here.service._stopped = True
        await here.store.close()
        with pytest.raises(UnavailableError):
            await reading


@pytest.mark.parametrize("interval_s", [0.0, 0.001])
async def test_no_piece_waits_for_the_next_one(interval_s: float) -> None:
    """The writer continues only when all readers have all text: a lost wakeup would stop it forever."""
    views, told = [""] * 4, [0]
    everybody = asyncio.Condition()

    async def handler(run: Run) -> None:
        await run.emit(LlmCallStarted("c"))
        await run.flush()
        for offset in range(100):
            run.delta("c", offset, chr(97 + offset % 26))
            told[0] += 1
            if offset % 7 == 0:
                await run.emit(TaskProgress(None, "the log grows, too"))
            async with asyncio.timeout(PATIENCE_S), everybody:
                await everybody.wait_for(lambda: all(len(view) == told[0] for view in views))

    async with bench(handler, interval_s) as here:
        task_id = await here.submit()

        async def read(index: int) -> None:
            async for frames in here.watch(task_id):
                await steps(index)
                for delta in deltas_of([opened(frame) for frame in frames]):
                    assert delta.offset == len(views[index])
                    async with everybody:
                        views[index] += delta.text
                        everybody.notify_all()

        await asyncio.gather(*map(read, range(4)))
    assert {len(view) for view in views} == {100}
