"""`plgrpc session`: conversations with a queue, against a running agent."""

import asyncio
import concurrent.futures
import json
import shlex
import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import pytest
from cli_world import Done, Running, plgrpc, running

from protolink_grpc import Agent, AgentCard, AgentClient, Message, Principal, Registry, ServerOptions, Task
from protolink_grpc.cli.app import main
from protolink_grpc.cli.session_text import EVENT_TYPES
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.session import SessionPayload


class Clerk(Agent):
    """`hold NAME` works until the test opens NAME, `ask NAME` asks a question, anything else is done at once."""

    def __init__(self, card: AgentCard, **more: Any) -> None:
        super().__init__(card, grace_s=0.1, **more)
        self.open: defaultdict[str, concurrent.futures.Future[None]] = defaultdict(concurrent.futures.Future)

    async def handle_task(self, task: Task) -> Task:
        word, _, name = task.messages[-1].text.partition(" ")
        if word == "hold":
            await asyncio.shield(asyncio.wrap_future(self.open[name]))
        if word == "ask":
            return task.require_input(Message.agent(f"which {name}?"))
        return task.complete(f"{name or word} done")

    def release(self, name: str) -> None:
        self.open[name].set_result(None)


@pytest.fixture(scope="module")
def clerk() -> Iterator[Clerk]:
    agent = Clerk(AgentCard(name="clerk", description="does as told", url="grpc://127.0.0.1:0"))
    agent.start(background=True)
    yield agent
    for each in agent.open.values():
        if not each.done():
            each.set_result(None)
    agent.stop()


@pytest.fixture
def url(clerk: Clerk) -> str:
    return clerk.card.url


def hinted(done: Done) -> list[str]:
    """The command that the hint shows, without the program's name."""
    (hint,) = [line for line in done.err.splitlines() if line.startswith("hint: ")]
    return shlex.split(hint.partition("plgrpc ")[2])


def submit(url: str, session: str, text: str, *more: str) -> Done:
    done = plgrpc("session", "submit", url, session, text, *more)
    assert done.code == 0
    return done


def queue_of(url: str, session: str) -> list[str]:
    """The ids of the queued turns in the order of the queue, as `session show` prints them."""
    shown = plgrpc("session", "show", url, session).out.partition("Queue of thread default:\n")[2]
    return [line.split()[1] for line in shown.partition("\n\n")[0].splitlines()[1:]]


def busy(url: str, session: str) -> None:
    """Make the thread `default` of a session busy with the turn `first`, which the test opens, and queue two more."""
    submit(url, session, f"hold {session}", "--turn-id", "first")
    submit(url, session, "two", "--turn-id", "second")
    submit(url, session, "three", "--turn-id", "third")


def ends_of(lines: list[str]) -> list[str]:
    """What `session watch` printed about the ends of turns: turn and result."""
    return [" ".join(line.split()[4:6]) for line in lines if line.split()[3] == "turn.ended"]


def read_until(process: Running, word: str, times: int = 1) -> list[str]:
    """The lines that a command prints until as many of them contain a word."""
    lines: list[str] = []
    while times:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        lines.append(line.rstrip("\n"))
        times -= word in line
    return lines


# -- submit ----------------------------------------------------------------------------------------------------------------


def test_a_submitted_turn_is_printed_and_its_hint_follows_its_task(url: str) -> None:
    done = submit(url, "plain", "find a hotel", "--turn-id", "hotel")
    assert (done.fields["Turn"], done.fields["Thread"], done.fields["State"]) == ("hotel", "default", "active")
    assert hinted(done) == ["task", "subscribe", url, done.fields["Task"]]
    assert plgrpc(*hinted(done)).fields["State"] == "completed"
    again = submit(url, "plain", "find a hotel", "--turn-id", "hotel")
    assert (again.fields["Task"], again.fields["State"]) == (done.fields["Task"], "completed")
    assert hinted(again) == ["task", "get", url, done.fields["Task"]]


def test_follow_prints_the_events_of_the_turn_and_its_answer(url: str) -> None:
    done = submit(url, "followed", "find a hotel", "--follow")
    assert done.err == ""
    events = [line.split()[3] for line in done.out.splitlines() if line.startswith("#")]
    assert events[0] == "task.submitted"
    assert done.fields["State"] == "completed"
    assert "Message:\na hotel done\n" in done.out


def test_follow_in_json_is_lines_of_events_and_nothing_else(url: str) -> None:
    done = submit(url, "followed-json", "find a hotel", "--follow", "--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["payload"]["new_state"] == "completed"
    assert done.err == ""


def test_the_text_of_a_turn_comes_from_standard_input(url: str) -> None:
    done = plgrpc("session", "submit", url, "piped", "-", "--follow", stdin="find a bed")
    assert "a bed done" in done.out


def test_the_hint_of_a_question_works_when_typed_as_shown(url: str) -> None:
    asked = submit(url, "asked", "ask city", "--follow")
    assert asked.fields["State"] == "input-required"
    assert "which city?" in asked.out
    assert hinted(asked) == ["session", "submit", url, "asked", "your answer"]
    answered = plgrpc(*hinted(asked), "--follow")
    assert answered.fields["Task"] == asked.fields["Task"]
    assert answered.fields["State"] == "completed"


def test_a_busy_thread_refuses_a_turn_if_its_policy_is_reject(clerk: Clerk, url: str) -> None:
    submit(url, "rejecting", "hold rejecting")
    done = plgrpc("session", "submit", url, "rejecting", "more", "--when-busy", "reject", "--json")
    assert done.code == 1
    error = json.loads(done.err)["error"]
    assert error["code"] == "THREAD_BUSY"
    assert "--when-busy enqueue" in error["hint"]
    clerk.release("rejecting")


def test_a_timeout_while_following_has_exit_code_5_and_a_hint_to_follow_the_task(clerk: Clerk, url: str) -> None:
    done = plgrpc("session", "submit", url, "slow", "hold slow", "--follow", "--timeout", "3")
    assert done.code == 5
    assert hinted(done) == ["task", "subscribe", url, done.fields["Task"]]
    clerk.release("slow")
    assert plgrpc(*hinted(done)).fields["State"] == "completed"


def test_ctrl_c_while_following_prints_how_to_follow_and_cancel_the_task(clerk: Clerk, url: str) -> None:
    with running("session", "submit", url, "left", "hold left", "--turn-id", "left", "--follow") as process:
        read_until(process, "task.submitted")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    (turn,) = AgentClient(url=url).sync.sessions.get("left").turns
    assert err.splitlines() == [
        f"note: task {turn.task_id} continues",
        f"hint: follow it with: plgrpc task subscribe {url} {turn.task_id}",
        f"hint: cancel it with: plgrpc task cancel {url} {turn.task_id}",
    ]
    clerk.release("left")


# -- the queue -------------------------------------------------------------------------------------------------------------


def test_the_queue_is_shown_in_its_order_which_promote_and_remove_change(clerk: Clerk, url: str) -> None:
    busy(url, "queued")
    assert queue_of(url, "queued") == ["second", "third"]
    assert plgrpc("session", "promote", url, "queued", "third").fields["State"] == "queued"
    assert queue_of(url, "queued") == ["third", "second"]
    removed = plgrpc("session", "remove", url, "queued", "second")
    assert (removed.code, removed.fields["State"]) == (0, "canceled")
    assert queue_of(url, "queued") == ["third"]
    refused = plgrpc("session", "promote", url, "queued", "second")
    assert refused.code == 1
    assert refused.err == (
        f"error: turn second is canceled, not queued\nhint: plgrpc session show {url} queued shows its queue\n"
    )
    clerk.release("queued")


def test_an_interrupt_cancels_the_active_turn_and_the_queue_if_requested(clerk: Clerk, url: str) -> None:
    busy(url, "stopped")
    done = plgrpc("session", "interrupt", url, "stopped", "--reason", "too slow", "--clear-queue")
    assert done.code == 0
    assert {line.split()[0] for line in done.out.splitlines()[1:]} == {"first", "second", "third"}
    again = plgrpc("session", "interrupt", url, "stopped", "--json")
    until_idle = [turn["turn_id"] for turn in again.document["turns"]]
    assert until_idle in ([], ["first"])  # it may still be stopping
    with running("session", "watch", url, "stopped") as process:
        ended = ends_of(read_until(process, "turn.ended", 3))
    assert sorted(ended) == ["first canceled", "second canceled", "third canceled"]
    idle = plgrpc("session", "interrupt", url, "stopped")
    assert (idle.code, idle.out, idle.err) == (0, "", "note: there was no active turn\n")


def test_one_turn_is_interrupted_and_the_next_one_starts(url: str) -> None:
    busy(url, "skipped")
    assert plgrpc("session", "interrupt", url, "skipped", "--turn", "first").code == 0
    with running("session", "watch", url, "skipped") as process:
        ended = ends_of(read_until(process, "turn.ended", 3))
    assert ended == ["first canceled", "second completed", "third completed"]
    late = plgrpc("session", "interrupt", url, "skipped", "--turn", "first")
    assert (late.code, late.err) == (0, "note: turn first has already ended\n")


# -- list, show, update, start-thread --------------------------------------------------------------------------------------


def test_sessions_are_listed_with_their_titles_and_archived_ones_on_request(url: str) -> None:
    for name in ("l-one", "l-two"):
        submit(url, name, "hello", "--follow")
    changed = plgrpc("session", "update", url, "l-one", "--title", "Trip to Athens")
    assert changed.fields["Title"] == "Trip to Athens"
    listed = plgrpc("session", "list", url)
    assert listed.out.splitlines()[0].split() == ["SESSION", "TURNS", "CHANGED", "TITLE"]
    (row,) = [line for line in listed.out.splitlines() if line.startswith("l-one ")]
    assert row.split()[1] == "1"
    assert row.endswith("Trip to Athens")
    assert plgrpc("session", "update", url, "l-two", "--archive").fields["Archived"] == "yes"
    known = [each["session_id"] for each in plgrpc("session", "list", url, "--json").document["sessions"]]
    every = [each["session_id"] for each in plgrpc("session", "list", url, "--archived", "--json").document["sessions"]]
    assert known[0] == "l-one"
    assert "l-two" not in known
    assert every[:2] == ["l-two", "l-one"]
    assert "Archived" not in plgrpc("session", "update", url, "l-two", "--unarchive").fields


def test_sessions_are_listed_page_by_page(url: str) -> None:
    for name in ("p-one", "p-two"):
        submit(url, name, "hello", "--follow")
    first = plgrpc("session", "list", url, "--limit", "1")
    assert first.out.splitlines()[1].startswith("p-two")
    second = plgrpc("session", "list", url, "--limit", "1", "--page-token", first.err.split()[-1])
    assert second.out.splitlines()[1].startswith("p-one")


def test_a_session_is_shown_with_threads_results_and_times_within_80_columns(url: str) -> None:
    side = plgrpc("session", "start-thread", url, "shown", "side", "--title", "On the side " * 10)
    assert (side.code, side.fields["Thread"]) == (0, "side")
    submit(url, "shown", "hello", "--follow")
    submit(url, "shown", "ask city", "--thread", "side", "--turn-id", "question", "--follow")
    shown = plgrpc("session", "show", url, "shown")
    assert (shown.code, shown.err) == (0, "")
    assert shown.fields["Turns"] == "2"
    assert max(map(len, shown.out.splitlines())) <= 80
    threads, default, aside = shown.out.split("\n\n")[1:]
    assert [line.split()[0] for line in threads.splitlines()] == ["Threads:", "THREAD", "default", "side"]
    assert default.splitlines()[0] == "Turns of thread default:"
    assert default.splitlines()[1].split() == ["TURN", "SUBMITTED", "TOOK", "STATE"]
    assert default.splitlines()[2].split()[-1] == "completed"
    assert default.splitlines()[2].split()[-2] in ("ms", "s")
    turn, *_, state = aside.splitlines()[2].split()
    assert (turn, state) == ("question", "input-required")
    only = plgrpc("session", "show", url, "shown", "--thread", "side")
    assert "Turns of thread default" not in only.out
    assert "Turns of thread side" in only.out


def test_long_titles_and_reasons_are_shortened_to_80_columns(url: str) -> None:
    session, turn = new_uuid(), new_uuid()
    submit(url, session, "hold long", "--turn-id", turn)
    assert plgrpc("session", "interrupt", url, session, "--reason", "much too slow " * 10).code == 0
    with running("session", "watch", url, session) as process:
        read_until(process, "turn.ended")
    plgrpc("session", "update", url, session, "--title", "A trip to Athens " * 10, "--archive")
    shown = plgrpc("session", "show", url, session).out.partition("\n\n")[2].splitlines()
    listed = plgrpc("session", "list", url, "--archived").out.splitlines()
    assert f"{turn}  " in shown[-1]
    assert " canceled: much" in shown[-1]
    assert max(map(len, shown + listed)) <= 80


def test_the_turns_of_a_session_are_shown_page_by_page_and_as_one_document(url: str) -> None:
    for name in ("one", "two", "three"):
        submit(url, "pages", name, "--turn-id", name, "--follow")
    newest = plgrpc("session", "show", url, "pages", "--page-size", "2", "--json").document
    assert [turn["turn_id"] for turn in newest["turns"]] == ["two", "three"]
    assert newest["session"]["turn_count"] == 3
    assert {turn["result"] for turn in newest["turns"]} == {"completed"}
    hint = plgrpc("session", "show", url, "pages", "--page-size", "2").err
    token = hint.split()[-1]
    assert token == newest["next_page_token"]
    older = plgrpc("session", "show", url, "pages", "--page-size", "2", "--page-token", token, "--json").document
    assert [turn["turn_id"] for turn in older["turns"]] == ["one"]


# -- watch -----------------------------------------------------------------------------------------------------------------


def test_a_watch_prints_positions_without_gaps_and_ctrl_c_prints_how_to_continue(url: str) -> None:
    submit(url, "watched", "find a hotel", "--turn-id", "hotel")
    with running("session", "watch", url, "watched") as process:
        lines = read_until(process, "turn.ended")
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate()
    assert (process.returncode, rest) == (130, "")
    assert [line.split()[0] for line in lines] == [f"#{at}" for at in range(1, len(lines) + 1)]
    assert [line.split()[2:4] for line in lines[:3]] == [
        ["-", "session.created"],
        ["hotel", "turn.submitted"],
        ["hotel", "task.submitted"],
    ]
    assert err == f"hint: continue it with: plgrpc session watch {url} watched --after {len(lines)}\n"
    submit(url, "watched", "more", "--turn-id", "more")
    with running(*shlex.split(err.partition("plgrpc ")[2])) as process:
        following = read_until(process, "turn.ended")
    assert following[0].split()[0] == f"#{len(lines) + 1}"
    assert following[0].split()[2:5] == ["more", "turn.submitted", "more"]


def test_a_watch_shows_which_turn_an_event_of_a_task_belongs_to(url: str) -> None:
    done = submit(url, "labels", "find a hotel", "--turn-id", "hotel", "--follow")
    long = submit(url, "labels", "find a train", "--follow")
    submitted = [each.position for each in AgentClient(url=url).sync.sessions.get("labels").turns]
    with running("session", "watch", url, "labels", "--after", str(submitted[0])) as process:
        lines = read_until(process, "turn.ended", 2)
    assert done.fields["Turn"] == "hotel"
    assert lines[0].split()[2:4] == ["hotel", "task.submitted"]
    assert lines[-1].split()[2] == f"…{long.fields['Turn'][-8:]}"
    assert lines[-1].split()[4] == long.fields["Turn"]


def test_a_watch_in_json_has_the_position_of_each_event(url: str) -> None:
    submit(url, "lines", "find a hotel", "--turn-id", "hotel")
    with running("session", "watch", url, "lines", "-o", "json") as process:
        items = [json.loads(line) for line in read_until(process, "turn.ended")]
    assert [item["position"] for item in items] == list(range(1, len(items) + 1))
    assert items[1]["session_event"]["type"] == "turn.submitted"
    assert items[1]["session_event"]["payload"]["turn_id"] == "hotel"
    assert items[2]["event"]["type"] == "task.submitted"
    assert items[-1]["session_event"]["payload"]["result"] == "completed"


def test_a_watch_with_a_timeout_ends_with_exit_code_5_and_prints_how_to_continue(url: str) -> None:
    submit(url, "timed", "hello", "--follow")
    done = plgrpc("session", "watch", url, "timed", "--timeout", "3")
    assert done.code == 5
    last = int(done.out.splitlines()[-1].split()[0].removeprefix("#"))
    assert hinted(done) == ["session", "watch", url, "timed", "--after", str(last)]


def test_a_watch_after_a_position_that_does_not_exist_is_an_error(url: str) -> None:
    submit(url, "ahead", "hello", "--follow")
    done = plgrpc("session", "watch", url, "ahead", "--after", "999")
    assert done.code == 1
    assert (
        "hint: --after takes the position of an earlier line (for an export, its sequence); 0 is the beginning\n"
        in done.err
    )


def test_every_event_of_a_session_has_a_type_in_the_terminal() -> None:
    assert set(EVENT_TYPES) == set(get_args(SessionPayload))


# -- errors ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["show", "{}", "nowhere"],
        ["watch", "{}", "nowhere"],
        ["export", "{}", "nowhere"],
        ["interrupt", "{}", "nowhere"],
        ["promote", "{}", "nowhere", "t"],
        ["remove", "{}", "nowhere", "t"],
        ["update", "{}", "nowhere", "--archive"],
    ],
    ids=lambda command: command[0],
)
def test_an_unknown_session_is_an_error_with_a_hint_to_those_that_exist(url: str, command: list[str]) -> None:
    done = plgrpc("session", *(each.format(url) for each in command))
    assert done.code == 1
    assert done.err == (
        f"error: session nowhere not found\nhint: plgrpc session list {url} --archived shows your sessions\n"
    )


def test_an_unknown_turn_or_thread_is_an_error_with_a_hint_to_those_that_exist(url: str) -> None:
    submit(url, "known", "hello", "--follow")
    for verb in (["promote", url, "known", "t"], ["remove", url, "known", "t"]):
        done = plgrpc("session", *verb)
        assert done.code == 1
        assert done.err == (
            f"error: session known has no turn t\nhint: plgrpc session show {url} known shows its turns\n"
        )
    for more in (["submit", url, "known", "hello"], ["interrupt", url, "known"], ["show", url, "known"]):
        done = plgrpc("session", *more, "--thread", "side")
        assert done.code == 1
        assert "thread side" in done.err.splitlines()[0]
        assert done.err.splitlines()[1] == (
            f"hint: plgrpc session show {url} known shows its threads; "
            f"start this one with: plgrpc session start-thread {url} known side"
        )


def test_a_server_without_sessions_is_named() -> None:
    registry = Registry()
    registry.start(background=True)
    try:
        done = plgrpc("session", "list", registry.url)
    finally:
        registry.stop()
    assert done.code == 1
    assert done.err == (
        f"error: {registry.url} does not have this service\n"
        "hint: agents of other systems have no sessions and snapshots; "
        f"plgrpc doctor {registry.url} shows the services at this address\n"
    )


# -- export ----------------------------------------------------------------------------------------------------------------


def test_an_export_has_the_records_so_far_and_continues_after_any_of_them(url: str) -> None:
    submit(url, "exported", "find a hotel", "--turn-id", "hotel", "--follow")
    whole = [json.loads(line) for line in plgrpc("session", "export", url, "exported").out.splitlines()]
    assert (whole[0]["type"], whole[-1]["type"]) == ("session.created", "snapshot.updated")
    assert len({record["runtimeId"] for record in whole}) == 1
    submit(url, "exported", "and a train", "--turn-id", "train", "--follow")
    last = whole[-1]["sequence"]
    rest = [
        json.loads(line) for line in plgrpc("session", "export", url, "exported", "--after", str(last)).out.splitlines()
    ]
    assert whole + rest == [json.loads(line) for line in plgrpc("session", "export", url, "exported").out.splitlines()]
    assert {record["turnId"] for record in rest if "turnId" in record} == {"train"}


def test_an_export_after_a_record_that_does_not_exist_is_refused(url: str) -> None:
    submit(url, "short", "find a hotel", "--follow")
    done = plgrpc("session", "export", url, "short", "--after", "999999")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: session short has no record 999999: its last position is ")


async def _known(method: str, metadata: Mapping[str, str]) -> Principal | None:
    return Principal("anna") if metadata.get("authorization") == "Bearer good" else None


def test_sessions_need_the_credentials_of_the_agent() -> None:
    card = AgentCard(name="locked", description="locked", url="grpc://127.0.0.1:0")
    agent = Clerk(card, server=ServerOptions(authenticate=_known))
    agent.start(background=True)
    try:
        refused = plgrpc("session", "submit", agent.card.url, "s", "hello")
        assert refused.code == 4
        assert "--header" in refused.err
        good = ("--header", "authorization=Bearer good")
        done = plgrpc("session", "submit", agent.card.url, "s", "hello", *good)
        assert done.code == 0
        assert "good" not in done.err
        assert "authorization=..." in done.err
        assert plgrpc("session", "show", agent.card.url, "s", *good).fields["Turns"] == "1"
    finally:
        agent.stop()


@pytest.mark.parametrize(
    "arguments",
    [
        ["submit", "grpc://127.0.0.1:1", "s"],
        ["submit", "grpc://127.0.0.1:1", "s", "hello", "--when-busy", "sometimes"],
        ["watch", "grpc://127.0.0.1:1", "s", "--after", "-1"],
        ["interrupt", "grpc://127.0.0.1:1", "s", "--turn", "t", "--clear-queue"],
        ["update", "grpc://127.0.0.1:1", "s"],
        ["list", "http://127.0.0.1:1"],
    ],
    ids=" ".join,
)
def test_a_usage_error_has_exit_code_2_and_a_hint(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLGRPC_REGISTRY", raising=False)
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    assert main(["session", *arguments]) == 2
    done = capsys.readouterr()
    assert done.out == ""
    error, hint = done.err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("verb", ["show", "watch", "export"])
def test_an_unreachable_agent_has_exit_code_3(verb: str) -> None:
    done = plgrpc("session", verb, "grpc://127.0.0.1:1", "s", retries=False)
    assert done.code == 3
    assert done.err.startswith("error: grpc://127.0.0.1:1 is not reachable")


# -- what a thread remembers -----------------------------------------------------------------------------------------------


def test_a_thread_goes_back_to_before_a_turn_and_the_table_of_turns_says_so(url: str) -> None:
    for turn in ("one", "two"):
        submit(url, "back", turn, "--turn-id", turn, "--follow")
    done = plgrpc("session", "rollback", url, "back", "two", "--reason", "wrong")
    assert (done.code, done.out.splitlines()[0]) == (0, "Thread: default")
    assert "Rollbacks: 1" in done.out
    rows = [line for line in plgrpc("session", "show", url, "back").out.splitlines() if line.startswith(("one", "two"))]
    assert [row.partition("completed")[2] for row in rows] == ["", ", rolled back"]
    unknown = plgrpc("session", "rollback", url, "back", "three")
    assert (unknown.code, hinted(unknown)[:4]) == (1, ["session", "show", url, "back"])


@pytest.mark.parametrize(
    ("reason", "state"), [("", "canceled, rolled back"), ("wrong", "canceled, rolled back: wrong")]
)
def test_the_table_of_turns_names_the_reason_of_a_rollback_once(url: str, reason: str, state: str) -> None:
    session = f"undo{reason}"
    submit(url, session, "hold undo", "--turn-id", "one")
    plgrpc("session", "rollback", url, session, "one", *(("--reason", reason) if reason else ()))
    [row] = [line for line in plgrpc("session", "show", url, session).out.splitlines() if line.startswith("one")]
    assert row.endswith(f"  {state}")
    shown = plgrpc("snapshot", "session", url, session).out.splitlines()
    assert [row for row in shown if row.startswith("one") and row.endswith(f"  {state}")]


def test_a_thread_begins_where_another_one_was(url: str) -> None:
    submit(url, "fork", "one", "--turn-id", "one", "--follow")
    done = plgrpc("session", "start-thread", url, "fork", "side", "--from-thread", "default")
    assert (done.code, "From: default one" in done.out) == (0, True)
    assert plgrpc("session", "start-thread", url, "fork", "--from-turn", "one").code == 2


def test_the_input_of_a_queued_turn_is_replaced(url: str, clerk: Clerk) -> None:
    busy(url, "edit")
    done = plgrpc("session", "edit", url, "edit", "second", "better")
    assert (done.code, done.out.splitlines()[0]) == (0, "Turn: second")
    clerk.release("edit")
    answer = plgrpc("session", "submit", url, "edit", "ignored", "--turn-id", "second", "--follow")
    assert "better done" in answer.out


def test_a_resumed_thread_is_shown_with_what_it_waits_for(url: str, clerk: Clerk) -> None:
    busy(url, "rest")
    lines = plgrpc("session", "resume", url, "rest").out.splitlines()
    assert [line.split() for line in lines] == [
        ["TURN", "STATE"],
        ["first", "active"],
        ["second", "queued"],
        ["third", "queued"],
    ]
    clerk.release("rest")


def test_a_session_is_deleted_only_when_that_is_confirmed(url: str) -> None:
    submit(url, "gone", "one", "--follow")
    refused = plgrpc("session", "delete", url, "gone")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    done = plgrpc("session", "delete", url, "gone", "--yes")
    assert [line.split(":")[0] for line in done.out.splitlines()] == ["Deleted", "Threads", "Turns", "Tasks", "Events"]
    assert plgrpc("session", "show", url, "gone").code == 1
