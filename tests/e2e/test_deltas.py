"""Live text over real connections: pieces, interruptions, slow readers, and its output in the terminal."""

import asyncio
import json
import os
import random
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from cli_world import COMMAND, END_S, Running, environment, plgrpc, running
from plgrpc.v1 import agent_service_pb2 as pb

from protolink_grpc import Agent, AgentCard, AgentClient, Limits, Run, Task, TaskState, current_run
from protolink_grpc.models.events import LlmCallCompleted, LlmCallStarted, RunEvent, TextDelta
from protolink_grpc.storage.port import TaskStore

MakeWire = Callable[[str], Awaitable[Any]]
WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""

PIECES, PIECE = 5_000, 400
"""How much is written while a reader reads nothing: 2 MB, far more than lies on the way to him."""


def letters(seed: int, length: int) -> str:
    """Text of one to four bytes each."""
    return "".join(random.Random(seed).choices("ab \nüß€🦉\x00", k=length))


class Teller(Agent):
    """Tells texts as a model would. A test that reads along says how far it is, and the teller stays at most `ahead` of it.

    Attributes:
        heard: Code points that the reader has.
        told: Set when everything is written and the call not over yet; then the teller waits for `go_on`.
    """

    def __init__(self, store: TaskStore | None = None, *, interval_s: float = 0.001) -> None:
        card = AgentCard(name="teller", description="tells", url="grpc://127.0.0.1:0")
        limits = Limits(max_concurrency=4, delta_interval_s=interval_s)
        super().__init__(card, store=store, limits=limits, grace_s=0.1)
        self.ahead: int | None = None
        self.told, self.go_on = asyncio.Event(), asyncio.Event()
        self.heard = 0
        self._progress = asyncio.Event()

    def hear(self, length: int) -> None:
        self.heard = length
        self._progress.set()

    async def handle_task(self, task: Task) -> Task:
        word, _, rest = task.messages[-1].text.partition(" ")
        run = current_run()
        assert run is not None
        await getattr(self, f"do_{word}")(run, *map(int, rest.split()))
        return task.complete("told")

    async def tell(self, run: Run, text: str, attempt: int = 1, seed: int = 0) -> None:
        await run.emit(LlmCallStarted("call", attempt=attempt, streaming=True))
        await run.flush()
        chance, at = random.Random(seed), 0
        while at < len(text):
            piece = text[at : at + chance.randint(1, 9)]
            run.delta("call", len(text[:at].encode()), piece)
            at += len(piece)
            await asyncio.sleep(0)
            while self.ahead is not None and at - self.heard > self.ahead:
                self._progress.clear()
                async with asyncio.timeout(WAIT_S):
                    await self._progress.wait()

    async def do_tell(self, run: Run, length: int, seed: int) -> None:
        text = letters(seed, length)
        await self.tell(run, text, seed=seed)
        await run.emit(LlmCallCompleted("call", text=text))

    async def do_retry(self, run: Run) -> None:
        await self.tell(run, "wrong text")
        self.told.set()
        await self.go_on.wait()
        self.hear(0)
        await self.tell(run, "wrong way out", attempt=2)
        await run.emit(LlmCallCompleted("call", text="wrong way out"))

    async def do_pile(self, run: Run) -> None:
        await run.emit(LlmCallStarted("call"))
        await run.flush()
        for index in range(PIECES):
            run.delta("call", PIECE * index, "x" * PIECE)
            await asyncio.sleep(0)
        self.told.set()
        await self.go_on.wait()

    async def do_hang(self, run: Run) -> None:
        await self.tell(run, "unfinished")
        self.told.set()
        await asyncio.Event().wait()


@pytest.fixture
async def teller(store: TaskStore) -> AsyncIterator[Teller]:
    async with Teller(store) as teller:
        yield teller


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are taken up again almost at once, so that many cuts cost little time."""
    monkeypatch.setattr("protolink_grpc.client.backoff.FIRST_PAUSE_S", 0.001)


class View:
    """What a reader has been shown of the one call, checked piece by piece."""

    def __init__(self) -> None:
        self.text = ""
        self.pieces = 0
        self.whole: str | None = None
        self.sequences: list[int] = []

    def show(self, event: RunEvent) -> None:
        match event.payload:
            case TextDelta(call_id="call", offset=offset, text=text):
                assert self.whole is None
                assert event.sequence is None
                assert offset == len(self.text.encode())
                assert text
                self.text += text
                self.pieces += 1
                return
            case LlmCallStarted():
                self.text = ""
            case LlmCallCompleted(text=text):
                assert text.startswith(self.text)
                self.whole = text
        assert event.sequence is not None
        self.sequences.append(event.sequence)

    async def read(self, stream: AsyncGenerator[RunEvent, None], teller: Teller | None = None) -> None:
        async with aclosing(stream) as events:
            async for event in events:
                self.show(event)
                if teller is not None:
                    teller.hear(len(self.text))


# -- cuts --------------------------------------------------------------------------------------------------------------------


def budgets(seed: int, cuts: int) -> list[int]:
    """Bytes that each connection carries before it breaks."""
    chance = random.Random(seed)
    return [chance.choice((40, 500, 2_000, 6_000)) for _ in range(cuts)]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("way", ["send_task_streaming", "subscribe"])
async def test_over_many_cuts_the_text_goes_on_without_gap_or_repetition(
    teller: Teller, wire: MakeWire, way: str, seed: int
) -> None:
    between = await wire(teller.card.url)
    between.cut_after(budgets(seed, 12))
    client, task, view = AgentClient(url=between.url), Task.create(f"tell 3000 {seed}"), View()
    teller.ahead = 40
    if way == "subscribe":
        task = await AgentClient(url=teller.card.url).submit_task(None, task)
        await view.read(client.subscribe(task.id, deltas=True), teller)
    else:
        await view.read(client.send_task_streaming(None, task, deltas=True), teller)
    assert view.whole == letters(seed, 3000)
    assert len(view.text) >= 2900
    assert view.pieces > 50
    assert view.sequences == list(range(1, len(view.sequences) + 1))
    assert between.connections > 5


@pytest.mark.usefixtures("impatient")
async def test_a_call_that_is_tried_again_during_a_cut_is_told_from_its_beginning(
    teller: Teller, wire: MakeWire
) -> None:
    between = await wire(teller.card.url)
    stream: Any = AgentClient(url=between.url).send_task_streaming(None, Task.create("retry"), deltas=True)
    view = View()
    async with asyncio.timeout(WAIT_S):
        while view.text != "wrong text":
            view.show(await anext(stream))
        await between.sever()
        teller.ahead = 5  # of the second try, too, the reader is to see something
        teller.go_on.set()
        await between.mend()
        await view.read(stream, teller)
    assert (view.whole, view.text[:5]) == ("wrong way out", "wrong")
    assert len(view.text) >= 8


# -- readers -----------------------------------------------------------------------------------------------------------------


async def test_a_slow_reader_gets_few_big_pieces(stub: Callable[[str], Any], store: TaskStore) -> None:
    async with Teller(store, interval_s=0.0) as teller:
        task = await AgentClient(url=teller.card.url).submit_task(None, Task.create("pile"))
        call = stub(teller.card.url).SubscribeTask(pb.SubscribeTaskRequest(task_id=task.id, deltas=pb.DELTA_MODE_ALL))
        async with asyncio.timeout(WAIT_S):
            await teller.told.wait()
            pieces: list[Any] = []
            while sum(len(piece.text) for piece in pieces) < PIECE * PIECES:
                pieces += (await call.read()).deltas
        call.cancel()
        teller.go_on.set()
    assert {(piece.task_id, piece.call_id) for piece in pieces} == {(task.id, "call")}
    assert [piece.offset_bytes for piece in pieces[1:]] == [
        piece.offset_bytes + len(piece.text) for piece in pieces[:-1]
    ]
    assert len(pieces) < PIECES / 2
    assert max(len(piece.text) for piece in pieces) > 10_000


async def test_callers_in_other_languages_get_deltas_only_when_they_ask_for_them(
    teller: Teller, stub: Callable[[str], Any]
) -> None:
    async def deltas(call: Any) -> list[Any]:
        return [delta async for response in call for delta in response.deltas]

    teller.ahead = None
    submitted = await AgentClient(url=teller.card.url).submit_task(None, Task.create("hang"))
    async with asyncio.timeout(WAIT_S):
        await teller.told.wait()
        far = stub(teller.card.url)
        request = pb.SubscribeTaskRequest(task_id=submitted.id, stop_at=pb.STOP_AT_CURRENT)
        assert await deltas(far.SubscribeTask(request)) == []
        request.deltas = pb.DELTA_MODE_ALL
        (delta,) = await deltas(far.SubscribeTask(request))
    assert (delta.task_id, delta.call_id, delta.offset_bytes, delta.text) == (submitted.id, "call", 0, "unfinished")


async def test_a_canceled_run_ends_its_texts(teller: Teller) -> None:
    client, task, view = AgentClient(url=teller.card.url), Task.create("hang"), View()
    stream: Any = client.send_task_streaming(None, task, deltas=True)
    async with asyncio.timeout(WAIT_S):
        while view.text != "unfinished":
            view.show(await anext(stream))
        canceled = await client.cancel_task(None, task.id)
        await view.read(stream)
    assert canceled.state is TaskState.CANCELED
    late = [event async for event in client.subscribe(task.id, deltas=True)]
    assert [event.sequence for event in late] == view.sequences


async def test_an_agent_runs_its_own_tasks_with_deltas_on_request(store: TaskStore) -> None:
    teller = Teller(store)
    shown, silent = View(), View()
    teller.ahead = 20
    await shown.read(teller.run_task_streaming(Task.create("tell 300 1"), deltas=True), teller)
    teller.ahead = None
    await silent.read(teller.run_task_streaming(Task.create("tell 300 1")))
    await teller.aclose()
    assert shown.whole == silent.whole == letters(1, 300)
    assert len(shown.text) >= 270
    assert silent.pieces == 0


# -- the command line ----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def plain_teller() -> AsyncIterator[Teller]:
    """One with a memory store: the command line knows no other."""
    async with Teller() as teller:
        yield teller


async def test_the_command_line_streams_growing_text_when_it_is_asked_to(plain_teller: Teller) -> None:
    with running("send", plain_teller.card.url, "retry", "--stream", "--deltas") as process:
        begun = await asyncio.to_thread(_until, process, "wrong text")
        plain_teller.go_on.set()
        rest, _ = await asyncio.to_thread(process.communicate)
    before, _, text = begun.rpartition("\n")
    assert before.endswith("teller llm.call.started LLM call started")
    assert text == "wrong text"
    assert rest.startswith("\n#")
    assert "Message:\ntold\n" in rest


def _until(process: Running, words: str) -> str:
    """What the command says up to these words."""
    said = ""
    while not said.endswith(words):
        letter = process.stdout.read(1)
        assert letter, said
        said += letter
    return said


async def test_piped_output_has_deltas_only_where_they_are_asked_for(plain_teller: Teller) -> None:
    task = await AgentClient(url=plain_teller.card.url).submit_task(None, Task.create("hang"))
    async with asyncio.timeout(WAIT_S):
        await plain_teller.told.wait()
    command = ["task", "subscribe", plain_teller.card.url, task.id, "--until", "current"]
    plain = await asyncio.to_thread(plgrpc, *command)
    grown = await asyncio.to_thread(plgrpc, *command, "--deltas")
    document = await asyncio.to_thread(plgrpc, *command, "--deltas", "-o", "json")
    assert "unfinished" not in plain.out
    assert f"\nunfinished\nTask: {task.id}\n" in grown.out
    events = [json.loads(line) for line in document.out.splitlines()]
    assert [event["sequence"] for event in events] == [1, 2, 3, None]
    assert (events[-1]["type"], events[-1]["task_id"]) == ("llm.stream", task.id)
    assert events[-1]["payload"] == {"call_id": "call", "offset": 0, "text": "unfinished"}


async def test_on_a_terminal_text_grows_unless_it_is_not_wanted(plain_teller: Teller) -> None:
    task = await AgentClient(url=plain_teller.card.url).submit_task(None, Task.create("hang"))
    async with asyncio.timeout(WAIT_S):
        await plain_teller.told.wait()
    command = [*COMMAND, "task", "subscribe", plain_teller.card.url, task.id, "--until", "current"]
    assert "\nunfinished\n" in await asyncio.to_thread(_on_terminal, command)
    assert "unfinished" not in await asyncio.to_thread(_on_terminal, [*command, "--no-deltas"])
    assert "unfinished" not in await asyncio.to_thread(_on_terminal, [*command, "-o", "json"])


def _on_terminal(command: list[str]) -> str:
    """What the command shows on a terminal."""
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.DEVNULL, timeout=END_S, env=environment())
        os.close(theirs)
        assert done.returncode == 0
        return _all(ours).replace("\r\n", "\n")
    finally:
        os.close(ours)


def _all(terminal: int) -> str:
    found = b""
    while True:
        try:
            found += os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            return found.decode()
