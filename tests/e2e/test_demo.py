"""The vacation demo, run as users run it, with and without a terminal, and the contracts of its parts."""

import asyncio
import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from demo_terminal import ENVIRONMENT, KEYS, Terminal, children_in, is_gone, openai_messages, warm_demo
from llm_servers import Answer, Asked, openai_calls, openai_chunk, openai_text, openai_tool, serving
from rich.console import Console

from examples.mesh import models
from examples.mesh.show import HIDDEN_TYPES, Screen
from examples.vacation import demo, hotel, places, weather
from examples.vacation.advisor import advise
from examples.vacation.bookings import Bookings
from examples.vacation.coordinator import Coordinator
from examples.vacation.planner import Planner
from examples.vacation.show import COLORS, TripLines
from examples.vacation.thinker import PLANNER
from examples.vacation.trip import Day, Forecast, Offer
from protolink_grpc import (
    Agent,
    AgentClient,
    ApprovalRequiredError,
    LlmCallCompleted,
    LlmCallStarted,
    Message,
    ModelError,
    Part,
    Registry,
    RunEvent,
    SQLiteStore,
    Task,
    TaskState,
    TextDelta,
    ToolRejectedError,
)
from protolink_grpc.llms import ModelRequest, ModelResponse

MODULE = "examples.vacation.demo"
DEMO = [sys.executable, "-W", "error", "-m", MODULE]
EVENT = re.compile(r" *(\d+)  (coordinator|weather|hotel|advisor) +\S.*")


@dataclass
class Ran:
    """A run of the demo that has ended."""

    cwd: Path
    code: int
    out: str
    err: str
    events: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.events = [line for line in self.out.splitlines() if EVENT.fullmatch(line)]

    def told(self, name: str) -> str:
        """What the demo prints after `Task` and `Log`."""
        return next(line.split()[1] for line in self.out.splitlines() if line.startswith(f"{name} "))


def run(cwd: Path, *arguments: str, cold: bool = False, **environment: str) -> Ran:
    done = subprocess.run(
        [*(DEMO if cold else warm_demo(MODULE)), *arguments],
        cwd=cwd,
        env=ENVIRONMENT | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Ran(cwd, done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The demo as a script runs it, in an empty directory."""
    return run(tmp_path_factory.mktemp("demo"), "--yes", cold=True)


def told_lines(events: list[RunEvent]) -> list[str]:
    lines = TripLines()
    return [line for event in events if (line := lines.line(event)) is not None]


# -- the demo, as scripts run it -----------------------------------------------------------------------------------------


def test_a_script_that_says_yes_ends_with_a_booking(ran: Ran) -> None:
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"\| Reference +\| [A-Z2-9]{6} +\|", ran.out)
    assert re.search(r"\| Hotel +\| .*, Santorini +\|", ran.out)
    assert "Model of the coordinator: planner (rules in place of a language model, because no API key" in ran.out


def test_registry_and_agents_are_five_processes_on_five_ports(ran: Ran) -> None:
    found = re.findall(r"^ +(\w+) +grpc://127\.0\.0\.1:(\d+) \(process (\d+)\)$", ran.out, re.MULTILINE)

    assert [name for name, _, _ in found] == ["registry", "weather", "hotel", "advisor", "coordinator"]
    assert len({port for _, port, _ in found}) == len({pid for _, _, pid in found}) == 5


async def test_every_event_with_something_to_tell_is_shown_once_and_in_order(ran: Ran) -> None:
    numbers = [int(line.split()[0]) for line in ran.events]
    assert numbers == sorted(set(numbers))
    assert ran.events[-1].endswith("coordinator  is completed")

    logged = await events_in_the_log(ran)
    # A model's text is one line, from the start of its call to its end: the start gives it its number.
    told = {"llm.call.started"} | {event.type for event in logged} - HIDDEN_TYPES - {"llm.call.completed"}
    assert numbers == [event.sequence for event in logged if event.type in told]


def test_the_stream_says_which_agent_does_what(ran: Ran) -> None:
    done = [line.split()[1:3] for line in ran.events if " -> " in line]
    assert done == [
        ["weather", "best_start"],
        ["weather", "forecast"],
        ["hotel", "offers"],
        ["advisor", "advise"],
        ["hotel", "book"],
        ["coordinator", "book"],
    ]
    published = [line.split("publishes ")[1] for line in ran.events if " publishes " in line]
    assert published == ["booking", "the answer"]


def test_the_preview_and_the_approval_come_before_the_booking(ran: Ran) -> None:
    places_of = [
        ran.out.index(words)
        for words in (
            "needs an approval for book",
            "Preview: booking",
            "EUR 489.25 at most",
            "approval: approved",
            "hotel        book",
        )
    ]
    assert places_of == sorted(places_of)


def test_the_report_says_what_the_run_did_and_used(ran: Ran) -> None:
    report = dict(re.findall(r"^\| ([A-Z][a-z ]+?) +\| (.*?) +\|$", ran.out, re.MULTILINE))

    assert (report["State"], report["Model"], report["Steps"]) == ("completed", "vacation planner", "6")
    assert (report["Agent calls"], report["Tool calls"]) == ("5", "1")
    assert re.fullmatch(r"[1-9][\d,]+ in, [1-9]\d+ out", report["Tokens"])
    assert report["Cost"] == "USD 0.0000"
    assert report["Budget"].startswith("6 of 16 steps, 6 of 20 model calls, ")
    assert re.fullmatch(r"approved by anonymous after \d+\.\d s", report["Approvals"])
    assert re.fullmatch(r"\d+\.\d s of work, \d+\.\d s of waiting", report["Time"])
    assert int(report["Events"]) == int(ran.events[-1].split()[0])


def test_the_traces_of_all_agents_are_shown_as_one(tmp_path: Path) -> None:
    traced = run(tmp_path, "--yes", "--trace", "out.jsonl")
    assert traced.code == 0, traced.err
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {record["agent_name"] for record in records} == {"coordinator", "weather", "hotel", "advisor"}
    assert len({record["trace_id"] for record in records}) == 1
    waterfall = traced.out.partition("\ntrace ")[2].splitlines()
    labels = [line[:36].rstrip() for line in waterfall if " |" in line]
    assert labels[0] == "coordinator"
    assert {"    weather", "    hotel", "    advisor", "    approval book"} <= set(labels)
    assert all(len(line) <= 80 for line in waterfall if " |" in line)


def test_piped_output_has_no_escape_codes(ran: Ran) -> None:
    assert "\x1b" not in ran.out


def test_the_log_is_kept_where_the_demo_says(ran: Ran) -> None:
    assert ran.told("Log") == ".demo/run-1/coordinator.db"
    kept = {path.name for path in (ran.cwd / ".demo/run-1").iterdir()}
    assert kept >= {f"{name}.db" for name in ("weather", "hotel", "advisor", "coordinator", "bookings")}


async def events_in_the_log(ran: Ran) -> list[RunEvent]:
    store = SQLiteStore(ran.cwd / ran.told("Log"))
    async with Agent(name="coordinator", url="grpc://127.0.0.1:0", store=store) as agent:
        return [event async for event in AgentClient(url=agent.card.url).subscribe(ran.told("Task"))]


async def test_the_kept_log_replays_from_its_first_event(ran: Ran) -> None:
    logged = await events_in_the_log(ran)

    assert [event.sequence for event in logged] == list(range(1, len(logged) + 1))
    assert told_lines(logged) == ran.events


def printed(ran: Ran) -> list[list[str]]:
    """The commands that the demo prints at its end, by word."""
    return [shlex.split(line) for line in ran.out.splitlines() if re.match(r"  \S*plgrpc ", line)]


def shell(ran: Ran, words: list[str]) -> str:
    """What a command prints, and nothing on stderr."""
    done = subprocess.run(words, cwd=ran.cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


async def test_the_printed_commands_show_and_replay_the_task(ran: Ran) -> None:
    report, replay, serve, subscribe, approvals = printed(ran)
    count = int(ran.events[-1].split()[0])
    server = subprocess.Popen(serve, cwd=ran.cwd, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(60), grpc.aio.insecure_channel(serve[-1].removeprefix("grpc://")) as channel:
            await channel.channel_ready()
        replayed, asked = shell(ran, subscribe), shell(ran, approvals)
    finally:
        server.terminate()
        server.wait(timeout=30)

    numbers = re.findall(r"^#(\d+) ", replayed, re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, count + 1))
    assert re.search(r"approved.*\bbook\b|\bbook\b.*approved", asked)
    assert re.search(r"Steps\W+6\b", shell(ran, report))
    assert len(shell(ran, replay).splitlines()) >= count


# -- arguments -----------------------------------------------------------------------------------------------------------


async def as_openai(asked: Asked) -> Answer:
    """A server of OpenAI's wire format whose model is the planner."""
    answer = [item async for item in Planner().generate(ModelRequest("", openai_messages(asked)))][-1]
    assert isinstance(answer, ModelResponse)
    if not answer.tool_calls:
        return openai_text(answer.text)
    call = answer.tool_calls[0]
    said = openai_chunk({"content": answer.text})
    return openai_calls(said, openai_tool(0, json.dumps(call.arguments), call.call_id, call.name))


SECRET = "sk-very-secret-key"
IN_200_DAYS = date.today() + timedelta(days=200)


@pytest.fixture(scope="module")
def provided(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, list[Asked]]:
    """The demo with a model of a provider and with arguments, and what the provider was asked."""
    trip = ("--to", "lisbon", "--nights", "3", "--guests", "4", "--budget", "5000", "--from-date", str(IN_200_DAYS))

    async def run_it() -> tuple[Ran, list[Asked]]:
        async with serving(as_openai) as server:
            keys = {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": server.url, "NO_PROXY": "127.0.0.1"}
            directory = tmp_path_factory.mktemp("provided")
            return await asyncio.to_thread(run, directory, *trip, "--dir", "kept", "--yes", **keys), server.asked

    return asyncio.run(run_it())


def test_the_arguments_are_what_is_booked(provided: tuple[Ran, list[Asked]]) -> None:
    ran, _ = provided

    assert (ran.code, ran.err) == (0, ""), ran.out
    assert re.search(r"\| Hotel +\| .*, Lisbon +\|", ran.out)
    assert re.search(rf"\| Stay +\| from {IN_200_DAYS}, nights: 3 +\|", ran.out)
    assert re.search(r"\| Guests +\| 4, rooms: 2 +\|", ran.out)
    assert (ran.cwd / "kept/coordinator.db").exists()
    assert not (ran.cwd / ".demo").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--to", "Santorinni"], "argument --to: 'Santorinni' is not one of Bali, .* did you mean Santorini?"),
        (["--to", ""], "argument --to: '' is not one of Bali, "),
        (["--nights", "0"], "argument --nights: '0' is not a whole number from 1 to 30"),
        (["--nights", "2.5"], "argument --nights: '2.5' is not a whole number from 1 to 30"),
        (["--guests", "13"], "argument --guests: '13' is not a whole number from 1 to 12"),
        (["--guests", "two"], "argument --guests: 'two' is not a whole number from 1 to 12"),
        (["--budget", "nan"], "argument --budget: 'nan' is not an amount above zero"),
        (["--budget=-5"], "argument --budget: '-5' is not an amount above zero"),
        (["--from-date", "tomorrow"], "argument --from-date: 'tomorrow' is not a date such as 2030-05-17"),
        (["--from-date", "2020-01-01"], "argument --from-date: 2020-01-01 is not within the two years from today"),
        (["--form-date", "2030-01-01"], "unrecognized arguments: --form-date"),
        (
            ["--model", "opnai:gpt"],
            "argument --model: 'opnai:gpt': provider: unknown provider 'opnai', did you mean 'openai'?",
        ),
        (
            ["--model", "openai-compatible:x"],
            "argument --model: 'openai-compatible:x': base_url: is required",
        ),
    ],
)
def test_a_wrong_value_is_a_clear_error(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as ended:
        demo.main(arguments)

    assert ended.value.code == 2
    assert re.search(complaint.replace("?", r"\?"), capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


def test_the_shell_sees_exit_code_two_for_a_wrong_value(tmp_path: Path) -> None:
    ran = run(tmp_path, "--guests", "0")

    assert (ran.code, ran.out) == (2, "")
    assert "argument --guests: '0' is not a whole number from 1 to 12" in ran.err


def test_without_a_terminal_and_without_yes_nothing_is_booked(tmp_path: Path) -> None:
    ran = run(tmp_path)

    assert (ran.code, ran.err) == (1, "")
    assert "| Price  | EUR 489.25 at most         |" in ran.out
    assert "Not approved: the input is not a terminal. --yes approves the booking." in ran.out
    assert ran.events[-1].endswith("is rejected: the booking was not approved: the input is not a terminal")
    assert "Reference" not in ran.out


# -- a person at a terminal ----------------------------------------------------------------------------------------------


QUESTION = "May the coordinator book this? [y/n] "


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(warm_demo(MODULE), tmp_path)
    yield opened
    opened.close()


def test_a_yes_at_the_terminal_books_and_anything_unclear_is_asked_again(terminal: Terminal) -> None:
    terminal.read_until(QUESTION)
    before = terminal.screen
    terminal.type("maybe\n")
    terminal.read_until(f"{QUESTION}maybe\n{QUESTION}")
    terminal.type("y\n")

    assert terminal.end() == 0
    assert "EUR 489.25 at most" in before
    assert "Reference" not in before
    assert re.search(r"\| Reference +\| [A-Z2-9]{6} +\|", terminal.screen)


def test_a_no_at_the_terminal_ends_without_a_booking_and_says_so(terminal: Terminal) -> None:
    terminal.read_until(QUESTION)
    terminal.type("n\n")

    assert terminal.end() == 1
    assert "Not booked: the booking was not approved: the user declined." in terminal.screen
    assert "Reference" not in terminal.screen


def test_an_answer_from_a_second_terminal_counts(terminal: Terminal) -> None:
    terminal.read_until(QUESTION)
    command = re.findall(r"In a second terminal: (.*)", terminal.screen)[0]
    done = subprocess.run(
        shlex.split(command), cwd=terminal.directory, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert terminal.end() == 0
    assert "Reference" in terminal.screen


def test_ctrl_c_while_the_question_is_open_ends_the_demo_and_its_mesh(terminal: Terminal) -> None:
    terminal.read_until(QUESTION)
    terminal.process.send_signal(signal.SIGINT)

    assert terminal.end() == 130
    assert terminal.screen.endswith("\ninterrupted\n")
    assert is_gone(terminal.directory)


# -- the model -----------------------------------------------------------------------------------------------------------


def test_a_models_text_is_shown_as_it_grows_and_once() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=80), TripLines(), COLORS)
    pieces = ["Let me", " see:\n", "the \x1b[2Jweather."]
    grown = []
    screen.show(RunEvent(payload=LlmCallStarted("c", "p", "m", step=1), sequence=4))
    for piece in pieces:
        screen.show(RunEvent(payload=TextDelta("c", sum(map(len, pieces)), piece)))
        grown.append(out.getvalue())
    screen.show(RunEvent(payload=LlmCallCompleted("c", text="".join(pieces)), sequence=5))

    opening = "  4  coordinator  > "
    assert grown == [f"{opening}Let me", f"{opening}Let me see:", f"{opening}Let me see: the [2Jweather."]
    assert out.getvalue() == f"{grown[-1]}\n"


def test_the_usual_model_is_that_of_the_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in KEYS:
        monkeypatch.delenv(variable, raising=False)
    nothing = models.usual_choice(PLANNER)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    found = models.usual_choice(PLANNER)

    assert nothing.name == "planner"
    assert nothing.why == "rules in place of a language model, because no API key is in the environment"
    assert found.name == f"anthropic:{models.USUAL['anthropic']}"
    assert found.why.startswith("ANTHROPIC_API_KEY is set")
    assert "secret" not in repr(found)


def test_a_key_without_its_package_leaves_the_planner_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModelError("the provider openai needs an extra: pip install 'protolink-grpc[openai]'")

    for variable in KEYS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setattr(models, "create_llm", missing)

    chosen = models.usual_choice(PLANNER)
    assert chosen.name == "planner"
    assert "OPENAI_API_KEY is set, but the provider openai needs an extra" in chosen.why


def test_the_same_demo_runs_with_a_model_of_a_provider(provided: tuple[Ran, list[Asked]]) -> None:
    ran, asked = provided

    assert (ran.code, ran.err) == (0, ""), ran.out
    model = models.USUAL["openai"]
    assert f"Model of the coordinator: openai:{model} (OPENAI_API_KEY is set; --model planner needs no key)." in ran.out
    assert re.search(r"\| Reference +\| [A-Z2-9]{6} +\|", ran.out)
    assert re.search(r"\| Cost +\| unknown +\|", ran.out)
    assert {each.body["model"] for each in asked} == {model}
    kept = b"".join(path.read_bytes() for path in ran.cwd.rglob("*") if path.is_file())
    assert SECRET.encode() not in ran.out.encode() + kept


# -- ends ----------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(command: list[str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*command, "--keep-running", "--yes", "--dir", str(tmp_path)],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo that starts as usual, its files in `tmp_path`."""
    with started(DEMO, tmp_path) as process:
        yield process


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo that stays up, its files in `tmp_path`."""
    with started(warm_demo(MODULE), tmp_path) as process:
        yield process


def read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    found = next((line for line in process.stdout if words in line), None)
    assert found is not None, process.communicate()[1]
    return found


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "interrupted\n"),
        (signal.SIGTERM, 143, "terminated\n"),
        (signal.SIGHUP, 143, "terminated\n"),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_a_signal_while_the_mesh_starts_leaves_no_process_behind(
    starting: subprocess.Popen[str], tmp_path: Path, number: int, code: int, said: str
) -> None:
    while len(children_in(tmp_path)) < 2:
        assert starting.poll() is None
        time.sleep(0.02)  # seen from outside, there is no sign of it to wait for
    starting.send_signal(number)
    _, err = starting.communicate(timeout=30)

    assert (starting.returncode, err) == (code, said)
    assert is_gone(tmp_path)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_mesh_that_was_left_up_goes_with_its_demo(
    running: subprocess.Popen[str], tmp_path: Path, number: int, code: int
) -> None:
    read_until(running, "agents list")
    assert len(children_in(tmp_path)) == 5
    running.send_signal(number)
    _, err = running.communicate(timeout=30)

    assert (running.returncode, err) == (code, "")
    assert is_gone(tmp_path)


def test_a_mesh_that_was_left_up_answers_a_second_terminal_until_sigterm(
    running: subprocess.Popen[str], tmp_path: Path
) -> None:
    subscribe = shlex.split(read_until(running, " task subscribe "))
    agents = shlex.split(read_until(running, " agents list "))
    replayed, listed = (
        subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        for command in (subscribe, agents)
    )

    assert (replayed.returncode, listed.returncode) == (0, 0)
    assert "tool.call 'book'" in replayed.stdout
    assert all(name in listed.stdout for name in ("weather", "hotel", "advisor", "coordinator"))
    running.terminate()
    _, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (0, "")
    assert is_gone(tmp_path)


def test_an_agent_that_dies_is_named_and_ends_the_demo(running: subprocess.Popen[str], tmp_path: Path) -> None:
    pid = int(re.findall(r"process (\d+)", read_until(running, " hotel "))[0])
    read_until(running, "agents list")
    os.kill(pid, signal.SIGKILL)
    _, err = running.communicate(timeout=30)

    assert running.returncode == 1
    assert err.startswith("error: the process of hotel ended with code -9:")
    assert is_gone(tmp_path)


# -- the agents ----------------------------------------------------------------------------------------------------------

SUMMER = date(2031, 7, 7)


def one_room(name: str = "Inn", price: int = 100) -> places.Hotel:
    return places.Hotel(name, 3, price, 1, 2)


def test_one_room_is_sold_once_however_many_ask_at_the_same_time(tmp_path: Path) -> None:
    desks = [Bookings(tmp_path / "bookings.db") for _ in range(2)]
    nights = [(SUMMER + timedelta(days=offset), 1) for offset in range(3)]
    answers: dict[int, str | None] = {}

    def ask(order: int) -> None:
        answers[order] = desks[order % 2].book(f"order-{order}", f"R{order}", "Inn", nights, 1, 300.0)

    threads = [threading.Thread(target=ask, args=(order,)) for order in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [reference is not None for reference in answers.values()].count(True) == 1
    assert [desks[0].booked("Inn", night) for night, _ in nights] == [1, 1, 1]
    for desk in desks:
        desk.close()


def test_a_repeated_order_is_one_booking_also_after_a_restart(tmp_path: Path) -> None:
    nights = [(SUMMER, 5)]
    desk = Bookings(tmp_path / "bookings.db")
    first = desk.book("order", "FIRST", "Inn", nights, 2, 200.0)
    desk.close()
    desk = Bookings(tmp_path / "bookings.db")
    again = desk.book("order", "SECOND", "Inn", nights, 2, 200.0)

    assert (first, again, desk.booked("Inn", SUMMER)) == ("FIRST", "FIRST", 2)
    desk.close()


def test_a_stay_is_booked_for_all_nights_or_for_none(tmp_path: Path) -> None:
    desk = Bookings()
    desk.book("one", "ONE", "Inn", [(SUMMER, 1)], 1, 100.0)
    both = desk.book("two", "TWO", "Inn", [(SUMMER - timedelta(days=1), 1), (SUMMER, 1)], 1, 200.0)

    assert both is None
    assert desk.booked("Inn", SUMMER - timedelta(days=1)) == 0
    desk.close()


def test_a_hotel_that_is_sold_out_is_neither_offered_nor_booked(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Bookings()
    monkeypatch.setattr(hotel, "bookings", desk)
    before = [offer.hotel for offer in hotel.offers("Santorini", SUMMER, 2, 2).offers]
    sold: list[str] = []

    def sell_out() -> None:
        for order in range(11):  # the house has ten rooms
            booking = hotel.book(f"order-{order}", "Caldera Blue", SUMMER, 2, 2)
            sold.append(booking.reference)

    with pytest.raises(ToolRejectedError) as refused:
        sell_out()

    assert refused.value.code == "sold_out"
    assert 1 <= len(set(sold)) == len(sold) <= 10
    assert set(before) - {offer.hotel for offer in hotel.offers("Santorini", SUMMER, 2, 2).offers} == {"Caldera Blue"}
    desk.close()


@pytest.mark.parametrize("name", places.NAMES)
def test_every_destination_has_a_bed_for_the_largest_group(name: str) -> None:
    for offset in range(0, 365, 30):
        assert hotel.offers(name, SUMMER + timedelta(days=offset), 30, 12).offers


def test_offers_stay_within_the_budget_and_name_the_lowest_price() -> None:
    everything = hotel.offers("Lisbon", SUMMER, 4, 2)
    middle = everything.offers[1].total
    affordable = hotel.offers("Lisbon", SUMMER, 4, 2, budget=middle)

    assert affordable.offers == everything.offers[:2]
    assert hotel.offers("Lisbon", SUMMER, 4, 2, budget=1.0).offers == []
    assert hotel.offers("Lisbon", SUMMER, 4, 2, budget=1.0).cheapest == everything.offers[0].total


def test_weekend_nights_cost_more() -> None:
    midweek, weekend = date(2031, 7, 7), date(2031, 7, 11)
    assert (midweek.weekday(), weekend.weekday()) == (0, 4)

    cheap, dear = (hotel.offers("Bali", start, 2, 1).offers[0].total for start in (midweek, weekend))

    assert dear == pytest.approx(1.15 * cheap)


def test_the_forecast_is_the_same_whenever_it_is_asked() -> None:
    assert weather.forecast("kyoto", SUMMER, 10) == weather.forecast("Kyoto", SUMMER, 10)
    assert [day.date for day in weather.forecast("Kyoto", SUMMER, 3).days] == [
        SUMMER + timedelta(days=offset) for offset in range(3)
    ]


def test_the_best_start_is_the_next_month_that_suits_the_place() -> None:
    assert weather.best_start("Santorini", date(2030, 12, 31)) == date(2031, 5, 1)
    assert weather.best_start("Santorini", date(2031, 7, 20)) == date(2031, 8, 1)
    assert weather.best_start("Cape Town", date(2031, 7, 20)) == date(2031, 9, 1)
    for name in places.NAMES:
        assert weather.forecast(name, weather.best_start(name, SUMMER), 30).fit >= 60


def test_an_unknown_destination_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ToolRejectedError) as refused:
        weather.forecast("Barselona", SUMMER, 3)

    assert (refused.value.code, refused.value.suggestion) == ("unknown_destination", "Did you mean Barcelona?")


def test_the_weather_decides_which_extras_count() -> None:
    beach = Offer("Beach", 3, 1, 100.0, ["beach", "pool"])
    spa = Offer("Spa", 3, 1, 100.0, ["spa", "indoor pool"])
    day = Day(SUMMER, 20.0, wet=False)

    fine = advise(Forecast("Lisbon", 95, [day]), [spa, beach])
    bad = advise(Forecast("Lisbon", 20, [day]), [beach, spa])

    assert [each.hotel for each in fine.ranking] == ["Beach", "Spa"]
    assert [each.hotel for each in bad.ranking] == ["Spa", "Beach"]
    assert (fine.weather, bad.weather.split(":")[0]) == ("Good weather: 20 to 20 °C, no wet days.", "Poor weather")


@dataclass
class World:
    """The registry and the peers of a coordinator, real ones but for a hotel agent whose first choice is always taken."""

    registry: Registry
    booked: list[str] = field(default_factory=list)
    forecasts: list[str] = field(default_factory=list)

    def coordinator(self, **options: Any) -> Coordinator:
        return Coordinator(
            name="coordinator", url="grpc://127.0.0.1:0", llm=Planner(), registry=self.registry, **options
        )

    def forecast(self, destination: str, start: date, nights: int) -> Forecast:
        self.forecasts.append(destination)
        return weather.forecast(destination, start, nights)

    def book(
        self, order_id: str, hotel: str, start: date, nights: int, guests: int, at_most: float
    ) -> dict[str, object]:
        if hotel == "Perissa Sands":
            raise ToolRejectedError("Perissa Sands is sold out", code="sold_out")
        self.booked.append(hotel)
        return {"reference": "TESTED", "hotel": hotel, "start": start, "total": at_most}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        world = World(await stack.enter_async_context(Registry()))
        peers: list[tuple[str, list[Any]]] = [
            ("weather", [world.forecast, weather.best_start]),
            ("hotel", [hotel.offers, world.book]),
            ("advisor", [advise]),
        ]
        for name, tools in peers:
            peer = Agent(name=name, url="grpc://127.0.0.1:0", registry=world.registry, tools=tools)
            await stack.enter_async_context(peer)
        yield world


@pytest.fixture
async def coordinator(world: World) -> AsyncIterator[Coordinator]:
    """A coordinator among its peers, and an approver that approves every request."""
    async with world.coordinator() as agent:
        approving = asyncio.create_task(approve_everything(AgentClient(url=agent.card.url)))
        yield agent
        approving.cancel()
        await asyncio.wait([approving])


async def approve_everything(client: AgentClient) -> None:
    async with contextlib.aclosing(client.watch_approvals()) as approvals:
        async for approval in approvals:
            await client.respond_approval(None, approval, True)


def wish(**trip: object) -> Task:
    return Task.create(Message.user("Please book.").add_part(Part.json(trip)))


async def test_a_hotel_that_was_sold_meanwhile_gives_way_to_the_next(coordinator: Coordinator, world: World) -> None:
    client = AgentClient(url=coordinator.card.url)
    task = await client.send_task(None, wish(to="Santorini", start=str(SUMMER)))

    booking = next(artifact for artifact in task.artifacts if artifact.name == "booking").parts[0].content
    asked = (await client.list_approvals(states=["approved"])).approvals
    hotels = [approval.request.action.payload["arguments"]["hotel"] for approval in asked]
    assert task.state is TaskState.COMPLETED
    assert hotels == ["Perissa Sands", booking["hotel"]]
    assert world.booked == [booking["hotel"]] != ["Perissa Sands"]
    assert "TESTED" in task.get_output()


async def test_a_wish_that_cannot_be_read_is_asked_for_again(coordinator: Coordinator) -> None:
    client = AgentClient(url=coordinator.card.url)
    task = await client.send_task(None, Task.create("Something nice, please."))
    asked = task.messages[-1].text
    task = await client.send_task(None, task.add_message(wish(to="Santorini", nights=99).messages[0]))
    again = task.messages[-1].text
    task = await client.send_task(None, task.add_message(wish(to="Santorini", start=str(SUMMER)).messages[0]))

    assert asked.startswith("to: Field required; send the trip as JSON")
    assert again.startswith("nights: Input should be less than or equal to 30")
    assert task.state is TaskState.COMPLETED


async def test_a_destination_that_no_peer_knows_is_rejected_with_the_reason(coordinator: Coordinator) -> None:
    task = await AgentClient(url=coordinator.card.url).send_task(None, wish(to="Atlantis"))

    assert task.state is TaskState.REJECTED
    assert "'Atlantis' is not a known destination" in task.metadata["reject_reason"]


async def test_a_budget_that_is_too_small_is_an_answer_and_not_a_booking(
    coordinator: Coordinator, world: World
) -> None:
    task = await AgentClient(url=coordinator.card.url).send_task(None, wish(to="Santorini", budget=10))

    assert task.state is TaskState.REJECTED
    too_little = r"EUR 10 is too little: the cheapest hotel in Santorini costs EUR [\d,.]+"
    assert re.match(too_little, task.metadata["reject_reason"])
    assert world.booked == []


async def test_a_booking_waits_for_its_approval_through_a_restart(world: World, tmp_path: Path) -> None:
    path = tmp_path / "coordinator.db"
    async with world.coordinator(store=SQLiteStore(path)) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.submit_task(None, wish(to="Lisbon", start=str(SUMMER)))
        async with asyncio.timeout(60), contextlib.aclosing(client.watch_approvals()) as approvals:
            approval = await anext(approvals)
    booked_before = list(world.booked)
    async with world.coordinator(store=SQLiteStore(path)) as agent:
        client = AgentClient(url=agent.card.url)
        await client.respond_approval(None, approval, True)
        async with asyncio.timeout(60):
            ended = await client.wait_task(task.id)

    assert ended.state is TaskState.COMPLETED
    assert booked_before == []
    assert world.booked == [approval.request.action.payload["arguments"]["hotel"]]
    assert world.forecasts == ["Lisbon"]


async def test_nobody_books_past_the_approval_by_calling_the_tool_directly(world: World) -> None:
    async with world.coordinator() as agent:
        order = {"hotel": "Fira Steps", "start": str(SUMMER), "nights": 2, "guests": 2, "at_most": 500.0}
        with pytest.raises(ApprovalRequiredError):
            await agent.call_tool("book", **order)

    assert world.booked == []


def test_a_price_that_has_risen_is_not_booked(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Bookings()
    monkeypatch.setattr(hotel, "bookings", desk)
    offer = hotel.offers("Lisbon", SUMMER, 2, 2).offers[0]

    with pytest.raises(ToolRejectedError) as refused:
        hotel.book("order", offer.hotel, SUMMER, 2, 2, at_most=offer.total - 1)
    booked = hotel.book("order", offer.hotel, SUMMER, 2, 2, at_most=offer.total)

    assert refused.value.code == "too_expensive"
    assert booked.total == offer.total
    desk.close()
