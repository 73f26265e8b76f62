"""The client of dataclasses in examples/dataclass_client.py, against real agents, and its messages against protobuf's own."""

import asyncio
import functools
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt
import pytest
from cut_wire import Wire
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import event_pb2, task_pb2

from protolink_grpc import Agent, AgentCard, AnyOf, APIKeyAuth, BearerTokenAuth, Principal, RateLimit, Task
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.part import Part

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "gen/betterproto"))

from plgrpc_dataclasses import v1  # noqa: E402  # after the path above, as is the next one

from examples.dataclass_client import CallError, Client, text_input  # noqa: E402

SECRET = "s" * 40
PATIENCE_S = 20.0
"""How long a test waits for what must happen; far more than it takes."""


class Scripted(Agent):
    """Says what it is told, counts, pauses until its gate is open, or waits."""

    gate: threading.Event

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        verb, _, rest = task.messages[-1].text.partition(" ")
        match verb:
            case "count":
                for number in range(int(rest)):
                    yield Artifact(parts=[Part.text(str(number + 1))])
                task.complete("counted")
            case "pause":
                yield Artifact(parts=[Part.text("before")])
                await asyncio.to_thread(self.gate.wait, PATIENCE_S)
                yield Artifact(parts=[Part.text("after")])
                task.complete("went on")
            case "wait":
                await asyncio.Event().wait()
            case _:
                task.complete(rest)


@contextmanager
def serving(**options: Any) -> Iterator[str]:
    """The URL of an agent that runs beside the test."""
    card = AgentCard(name="scripted", description="Does what it is told", url="grpc://127.0.0.1:0")
    agent = Scripted(card, **options)
    agent.start(background=True)
    try:
        yield agent.card.url
    finally:
        agent.stop()


@pytest.fixture
def url() -> Iterator[str]:
    with serving() as found:
        yield found


def output(task: v1.Task) -> str:
    return "".join(part.text or "" for part in task.messages[-1].parts)


def counted(events: list[v1.RunEvent]) -> list[str | None]:
    updates = [event.task_artifact for event in events if event.task_artifact is not None]
    return [each.artifact.parts[0].text for each in updates if each.artifact is not None]


def state_of(client: Client, task_id: str) -> v1.TaskState:
    task = client.agent.get_task(v1.GetTaskRequest(task_id=task_id)).task
    assert task is not None
    return task.state


def cancel(client: Client, task_id: str) -> None:
    client.agent.cancel_task(v1.CancelTaskRequest(task_id=task_id, reason="enough"))


# -- calls -------------------------------------------------------------------------------------------------------------------


def test_a_task_is_sent_and_its_answer_is_a_dataclass(url: str) -> None:
    task = Client(url).send(text_input("echo héllo 世界"))
    assert (task.state, output(task)) == (v1.TaskState.COMPLETED, "héllo 世界")


def test_one_request_id_is_one_task_and_two_tasks_have_two(url: str) -> None:
    client = Client(url)
    first, again = (client.send(text_input("echo x"), request_id="r-1") for _ in range(2))
    assert first.id == again.id
    assert client.send(text_input("echo x")).id != client.send(text_input("echo x")).id


def test_a_stream_shows_every_event_in_order_and_ends(url: str) -> None:
    events = list(Client(url).stream(text_input("count 300")))
    assert [each.sequence for each in events] == list(range(1, len(events) + 1))
    assert counted(events) == [str(number + 1) for number in range(300)]
    assert events[-1].last


async def test_a_stream_that_is_cut_goes_on_without_a_gap_or_a_repeat(
    wire: Callable[[str], Awaitable[Wire]], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, cuts = threading.Event(), list[int]()
    monkeypatch.setattr(Scripted, "gate", gate, raising=False)

    def read(between: Wire, cut: Callable[[], Any]) -> list[v1.RunEvent]:
        events = []
        for event in Client(between.url).stream(text_input("pause")):
            events.append(event)
            if event.event_type == "task.artifact" and not cuts:
                cuts.append(event.sequence)
                cut()
                gate.set()
        return events

    with serving() as url:
        between, loop = await wire(url), asyncio.get_running_loop()
        cut = functools.partial(loop.call_soon_threadsafe, between.cut)
        events = await asyncio.to_thread(read, between, cut)
    assert (between.connections, len(cuts)) == (2, 1)
    assert [each.sequence for each in events] == list(range(1, len(events) + 1))
    assert counted(events) == ["before", "after"]


async def test_a_stream_that_is_cut_before_its_first_event_is_asked_for_again(
    wire: Callable[[str], Awaitable[Wire]],
) -> None:
    with serving() as url:
        between = await wire(url)
        between.cut_after([10])
        events = await asyncio.to_thread(lambda: list(Client(between.url).stream(text_input("count 300"))))
    assert between.connections > 1
    assert counted(events) == [str(number + 1) for number in range(300)]


def test_a_stream_that_is_closed_leaves_its_run_alone(url: str) -> None:
    client = Client(url)
    stream = client.stream(text_input("wait"))
    task_id = next(stream).task_id
    stream.close()  # type: ignore[attr-defined]  # an iterator by its type, a generator in fact
    assert state_of(client, task_id) in (v1.TaskState.SUBMITTED, v1.TaskState.WORKING)
    cancel(client, task_id)


def test_a_cancel_ends_the_stream_of_its_task(url: str) -> None:
    client, states, given = Client(url), [], text_input("wait")
    for event in client.stream(given):
        if event.task_status is not None:
            states.append(event.task_status.new_state)
            if states == [v1.TaskState.WORKING]:
                cancel(client, given.task_id)
    assert states[-1] == v1.TaskState.CANCELED


def test_a_deadline_ends_the_wait_and_not_the_run(url: str) -> None:
    given = text_input("wait")
    with pytest.raises(CallError) as caught:
        Client(url, timeout_s=0.3).send(given)
    assert caught.value.code is StatusCode.DEADLINE_EXCEEDED
    assert state_of(Client(url), given.task_id) == v1.TaskState.WORKING
    cancel(Client(url), given.task_id)


def test_clients_in_several_threads_do_not_mix_their_answers(url: str) -> None:
    client, found = Client(url), dict[int, str]()

    def ask(number: int) -> None:
        found[number] = output(client.send(text_input(f"echo {number}")))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE_S)
    assert found == {number: str(number) for number in range(8)}


# -- errors and credentials --------------------------------------------------------------------------------------------------


def test_an_error_names_its_reason_what_it_is_about_and_the_field(url: str) -> None:
    client = Client(url)
    with pytest.raises(CallError) as missing:
        list(client.stream(v1.TaskInput(task_id="x" * 200)))
    assert (missing.value.code, list(missing.value.fields)) == (StatusCode.INVALID_ARGUMENT, ["input.task_id"])
    done = client.send(text_input("echo x"))
    with pytest.raises(CallError) as finished:
        client.send(text_input("echo more", done.id))
    assert (finished.value.reason, finished.value.metadata["task_id"]) == ("TASK_FINISHED", done.id)


def test_too_many_calls_are_told_when_to_come_back() -> None:
    with serving(rate_limit=RateLimit(0.01, burst=1)) as url:
        client = Client(url)
        client.send(text_input("echo x"))
        with pytest.raises(CallError) as caught:
            client.send(text_input("echo x"))
    assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
    assert caught.value.retry_after_s > 1


def test_a_key_or_a_token_says_who_calls() -> None:
    known = AnyOf(APIKeyAuth({"k-ann": Principal("ann")}), BearerTokenAuth(SECRET, audience="agents"))
    token = jwt.encode({"sub": "ann", "aud": "agents", "exp": 2**31}, SECRET)
    with serving(authenticator=known) as url:
        task = Client(url, {"x-api-key": "k-ann"}).send(text_input("echo x"))
        # The same person, so the same task.
        assert state_of(Client(url, {"authorization": f"Bearer {token}"}), task.id) == v1.TaskState.COMPLETED
        with pytest.raises(CallError) as caught:
            Client(url).send(text_input("echo x"))
    assert (caught.value.code, caught.value.reason) == (StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


@pytest.mark.parametrize("headers", [{"x-api-key": "k"}, {"Authorization": "Bearer t"}, {"cookie": "c"}])
def test_credentials_do_not_leave_this_machine_in_the_clear(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="grpcs://"):
        Client("grpc://agent.example:50051", headers)
    Client("grpcs://agent.example:50051", headers).channel.close()
    Client("localhost:50051", headers).channel.close()
    Client("grpc://agent.example:50051", headers, insecure_ok=True).channel.close()


# -- the messages ------------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))


@given(TEXTS, INT64, TEXTS, TIMES, st.sampled_from(v1.Severity), st.booleans())
def test_protobuf_reads_an_event_as_a_dataclass_wrote_it(
    task_id: str, sequence: int, summary: str, moment: datetime, severity: v1.Severity, final: bool
) -> None:
    event = v1.RunEvent(
        task_id=task_id, sequence=sequence, summary=summary, create_time=moment, severity=severity, last=final
    )
    read = event_pb2.RunEvent.FromString(bytes(event))
    assert (read.task_id, read.sequence, read.summary, read.last) == (task_id, sequence, summary, final)
    assert (read.create_time.ToDatetime(UTC), read.severity) == (moment, int(severity))


@given(st.lists(TEXTS, max_size=4), st.integers(0, 2**33), TEXTS)
def test_a_dataclass_reads_what_protobuf_wrote_and_writes_the_same_bytes(
    texts: list[str], count: int, session_id: str
) -> None:
    message = task_pb2.Message(id="m", role="MESSAGE_ROLE_AGENT", parts=[{"text": text} for text in texts])
    written = task_pb2.Task(id="t", session_id=session_id, messages=[message])
    written.update_time.FromSeconds(count)
    data = written.SerializeToString(deterministic=True)
    read = v1.Task.parse(data)
    assert [part.text for part in read.messages[0].parts] == texts
    assert read.update_time == datetime.fromtimestamp(count, UTC)
    assert bytes(read) == data


@given(st.binary(min_size=1, max_size=20))
def test_fields_that_nobody_knows_survive(value: bytes) -> None:
    strange = b"\xc2\x3e" + bytes([len(value)]) + value  # field 1000, length-delimited
    event = v1.RunEvent.parse(b"\x0a\x01t" + strange)
    assert event.task_id == "t"
    assert bytes(event) == b"\x0a\x01t" + strange


# -- the program -------------------------------------------------------------------------------------------------------------


def test_the_example_shows_the_events_of_one_task_and_its_answer(url: str) -> None:
    program = [sys.executable, "-W", "error", str(ROOT / "examples/dataclass_client.py"), url, "echo hello"]
    ran = subprocess.run(
        program,
        env={"PYTHONPATH": str(ROOT / "gen/betterproto")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["1", "task.submitted"],
        ["2", "task.status"],
        ["3", "task.message"],
        ["4", "task.status"],
    ]
    assert lines[2].endswith("hello")


def test_the_example_of_sessions_shows_the_events_of_the_turn_that_has_waited(url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples/dataclass_sessions.py"), url],
        env={"PYTHONPATH": str(ROOT / "gen/betterproto")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == ["1 task.submitted", "2 task.status", "3 task.message", "4 task.status"]


def test_the_example_is_short() -> None:
    assert len((ROOT / "examples/dataclass_client.py").read_text().splitlines()) <= 200
