"""The demo, run as a user runs it; then what its parts promise."""

import asyncio
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import grpc.aio
import psutil
import pytest

from examples.vacation import demo, hotel, places, weather
from examples.vacation.advisor import advise
from examples.vacation.bookings import Bookings
from examples.vacation.coordinator import Coordinator
from examples.vacation.show import event_line
from examples.vacation.trip import Day, Forecast, Offer
from protolink_grpc import (
    Agent,
    AgentClient,
    Message,
    Part,
    Registry,
    SQLiteStore,
    Task,
    TaskState,
    ToolRejectedError,
)

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-W", "error", "-m", "examples.vacation.demo"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
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


def run(cwd: Path, *arguments: str) -> Ran:
    done = subprocess.run(
        [*DEMO, *arguments],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Ran(cwd, done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The demo without any argument, in an empty directory, without a terminal."""
    return run(tmp_path_factory.mktemp("demo"))


# -- the demo, without arguments -----------------------------------------------------------------------------------------


def test_the_demo_needs_no_arguments_and_ends_with_a_booking(ran: Ran) -> None:
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"\| Reference +\| [A-Z2-9]{6} +\|", ran.out)
    assert re.search(r"\| Hotel +\| .*, Santorini +\|", ran.out)


def test_registry_and_agents_are_five_processes_on_five_ports(ran: Ran) -> None:
    found = re.findall(r"^ +(\w+) +grpc://127\.0\.0\.1:(\d+) \(process (\d+)\)$", ran.out, re.MULTILINE)

    assert [name for name, _, _ in found] == ["registry", "weather", "hotel", "advisor", "coordinator"]
    assert len({port for _, port, _ in found}) == len({pid for _, _, pid in found}) == 5


def test_every_event_is_shown_once_and_in_order(ran: Ran) -> None:
    assert [int(line.split()[0]) for line in ran.events] == list(range(1, len(ran.events) + 1))
    assert ran.events[-1].endswith("coordinator  is completed")


def test_the_stream_says_which_agent_does_what(ran: Ran) -> None:
    done = [line.split()[1:3] for line in ran.events if " -> " in line]
    assert done == [
        ["weather", "best_start"],
        ["weather", "forecast"],
        ["hotel", "offers"],
        ["advisor", "advise"],
        ["hotel", "book"],
    ]
    published = [line.split()[-1] for line in ran.events if " publishes " in line]
    assert published == ["forecast", "offers", "advice", "booking"]


def test_piped_output_has_no_escape_codes(ran: Ran) -> None:
    assert "\x1b" not in ran.out


def test_the_log_is_kept_where_the_demo_says(ran: Ran) -> None:
    assert ran.told("Log") == ".demo/run-1/coordinator.db"
    kept = {path.name for path in (ran.cwd / ".demo/run-1").iterdir()}
    assert kept >= {f"{name}.db" for name in ("weather", "hotel", "advisor", "coordinator", "bookings")}


async def test_the_kept_log_replays_from_its_first_event(ran: Ran) -> None:
    store = SQLiteStore(ran.cwd / ran.told("Log"))
    async with Agent(name="coordinator", url="grpc://127.0.0.1:0", store=store) as agent:
        client = AgentClient(url=agent.card.url)
        replayed = [event_line(event) async for event in client.subscribe(ran.told("Task"))]
        tail = [event.sequence async for event in client.subscribe(ran.told("Task"), after=len(replayed) - 2)]

    assert replayed == ran.events
    assert tail == [len(replayed) - 1, len(replayed)]


async def test_the_printed_commands_replay_the_task(ran: Ran) -> None:
    serve, subscribe = (shlex.split(line) for line in ran.out.splitlines() if re.match(r"  \S*protolink ", line))
    server = subprocess.Popen(serve, cwd=ran.cwd, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(60), grpc.aio.insecure_channel(serve[-1].removeprefix("grpc://")) as channel:
            await channel.channel_ready()
        replay = subprocess.run(subscribe, cwd=ran.cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    finally:
        server.terminate()
        server.wait(timeout=30)

    assert (replay.returncode, replay.stderr) == (0, "")
    numbers = re.findall(r"^#(\d+) ", replay.stdout, re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, len(ran.events) + 1))


# -- arguments -----------------------------------------------------------------------------------------------------------


def test_the_arguments_are_what_is_booked(tmp_path: Path) -> None:
    start = date.today() + timedelta(days=200)
    ran = run(
        tmp_path,
        *("--to", "lisbon", "--nights", "3", "--guests", "4", "--budget", "5000", "--from-date", str(start)),
        *("--dir", "kept"),
    )

    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"\| Hotel +\| .*, Lisbon +\|", ran.out)
    assert re.search(rf"\| Stay +\| from {start}, nights: 3 +\|", ran.out)
    assert re.search(r"\| Guests +\| 4, rooms: 2 +\|", ran.out)
    assert (tmp_path / "kept/coordinator.db").exists()
    assert not (tmp_path / ".demo").exists()


def test_a_budget_that_is_too_small_is_an_answer_and_not_a_booking(tmp_path: Path) -> None:
    ran = run(tmp_path, "--budget", "10")

    assert (ran.code, ran.err) == (1, "")
    assert re.search(r"is rejected: EUR 10 is too little: the cheapest hotel in Santorini costs EUR [\d,.]+", ran.out)
    assert "Reference" not in ran.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--to", "Santorinni"], "argument --to: 'Santorinni' is none of Bali, .* did you mean Santorini?"),
        (["--to", ""], "argument --to: '' is none of Bali, "),
        (["--nights", "0"], "argument --nights: '0' is not a whole number from 1 to 30"),
        (["--nights", "2.5"], "argument --nights: '2.5' is not a whole number from 1 to 30"),
        (["--guests", "13"], "argument --guests: '13' is not a whole number from 1 to 12"),
        (["--guests", "two"], "argument --guests: 'two' is not a whole number from 1 to 12"),
        (["--budget", "nan"], "argument --budget: 'nan' is not an amount above zero"),
        (["--budget=-5"], "argument --budget: '-5' is not an amount above zero"),
        (["--from-date", "tomorrow"], "argument --from-date: 'tomorrow' is not a date such as 2030-05-17"),
        (["--from-date", "2020-01-01"], "argument --from-date: 2020-01-01 is not within the two years from today"),
        (["--form-date", "2030-01-01"], "unrecognized arguments: --form-date"),
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


# -- ends ----------------------------------------------------------------------------------------------------------------


def children_in(directory: Path) -> list[psutil.Process]:
    """Living processes that keep their files in `directory`: the mesh, whoever their parent is by now."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("VACATION_DIR") == str(directory):
                found.append(process)
    return found


def is_gone(directory: Path) -> bool:
    psutil.wait_procs(children_in(directory), timeout=20)
    return not children_in(directory)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo that stays up, its files in `tmp_path`."""
    process = subprocess.Popen(
        [*DEMO, "--keep-running", "--dir", str(tmp_path)],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


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
    running: subprocess.Popen[str], tmp_path: Path, number: int, code: int, said: str
) -> None:
    while len(children_in(tmp_path)) < 2:
        assert running.poll() is None
    running.send_signal(number)
    _, err = running.communicate(timeout=30)

    assert (running.returncode, err) == (code, said)
    assert is_gone(tmp_path)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_mesh_that_was_left_up_goes_with_its_demo(
    running: subprocess.Popen[str], tmp_path: Path, number: int, code: int
) -> None:
    read_until(running, "agents list")
    assert len(children_in(tmp_path)) == 5
    running.send_signal(number)
    _, err = running.communicate(timeout=30)

    assert (running.returncode, err) == (code, "")
    assert is_gone(tmp_path)


def test_the_commands_for_a_second_terminal_work_while_the_mesh_is_up(
    running: subprocess.Popen[str], tmp_path: Path
) -> None:
    subscribe = shlex.split(read_until(running, " task subscribe "))
    agents = shlex.split(read_until(running, " agents list "))
    replayed, listed = (
        subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        for command in (subscribe, agents)
    )

    assert (replayed.returncode, listed.returncode) == (0, 0)
    assert "hotel.book" in replayed.stdout
    assert all(name in listed.stdout for name in ("weather", "hotel", "advisor", "coordinator"))


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


@pytest.fixture
async def coordinator() -> AsyncIterator[Coordinator]:
    """A coordinator among real peers, but for a hotel agent whose first choice is taken at the last moment."""

    def book(order_id: str, hotel: str, start: date, nights: int, guests: int) -> dict[str, object]:
        if hotel == "Perissa Sands":
            raise ToolRejectedError("Perissa Sands is sold out", code="sold_out")
        return {"reference": "TESTED", "hotel": hotel, "start": start, "total": 1.0}

    async with contextlib.AsyncExitStack() as stack:
        registry = await stack.enter_async_context(Registry())
        for name, tools in (
            ("weather", [weather.forecast, weather.best_start]),
            ("hotel", [hotel.offers, book]),
            ("advisor", [advise]),
        ):
            peer = Agent(name=name, url="grpc://127.0.0.1:0", registry=registry, tools=tools)
            await stack.enter_async_context(peer)
        yield await stack.enter_async_context(
            Coordinator(name="coordinator", url="grpc://127.0.0.1:0", registry=registry)
        )


def wish(**trip: object) -> Task:
    return Task.create(Message.user("Please book.").add_part(Part.json(trip)))


async def test_a_hotel_that_was_sold_meanwhile_gives_way_to_the_next(coordinator: Coordinator) -> None:
    task = await AgentClient(url=coordinator.card.url).send_task(None, wish(to="Santorini", start=str(SUMMER)))

    names = [artifact.name for artifact in task.artifacts]
    booking = task.artifacts[-1].parts[0].content
    assert (task.state, names) == (TaskState.COMPLETED, ["forecast", "offers", "advice", "booking"])
    assert booking["hotel"] != "Perissa Sands"
    assert "TESTED" in task.messages[-1].text


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


async def test_a_destination_that_no_peer_knows_fails_the_task_with_the_reason(coordinator: Coordinator) -> None:
    task = await AgentClient(url=coordinator.card.url).send_task(None, wish(to="Atlantis"))

    assert task.state is TaskState.FAILED
    assert "'Atlantis' is not a destination we know" in task.metadata["error"]
