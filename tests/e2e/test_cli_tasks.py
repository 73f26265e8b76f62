"""`send`, `card get` and `task ...` against running agents: texts, JSON, exit codes."""

import json
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_world import END_S, Done, World, plgrpc, running

from protolink_grpc import AgentCard, AgentClient, Message, Part, Task
from protolink_grpc.cli.app import main
from protolink_grpc.cli.describe import task_blocks


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World().up() as up:
        yield up


def hinted(done: Done) -> list[str]:
    """The command that the hint shows, without the program's name."""
    (hint,) = [line for line in done.err.splitlines() if line.startswith("hint: ")]
    command = shlex.split(hint.partition("plgrpc ")[2])
    assert command
    return command


def test_a_card_is_shown_as_fields_and_as_the_cards_own_document(world: World) -> None:
    shown = plgrpc("card", "get", world.calc.card.url)
    assert shown.code == 0
    assert shown.fields["Name"] == "calc"
    assert "Skill: add(a, b) Add two integers." in shown.out
    document = plgrpc("card", "get", world.calc.card.url, "-o", "json").document
    assert AgentCard.from_dict(document) == world.calc.card


def test_send_waits_and_prints_the_result_without_escape_codes(world: World) -> None:
    done = plgrpc("send", world.reporter.card.url, "go")
    assert done.code == 0
    assert done.err == ""
    assert done.fields["State"] == "completed"
    assert done.fields["Task"]
    assert done.fields["Session"]
    assert "Message:\ndone\n\nArtifact report:\nall is \\x1b[31mwell\n" in done.out
    assert '"rooms": 3' in done.out
    assert "\x1b" not in done.out + done.err


def test_json_is_exactly_one_document_of_the_task(world: World) -> None:
    done = plgrpc("send", world.reporter.card.url, "go", "-o", "json")
    task = Task.from_dict(done.document)
    assert str(task.state) == "completed"
    assert task.get_last_item() is not None
    assert done.err == ""


def test_the_exit_code_is_0_for_a_failed_task(world: World) -> None:
    done = plgrpc("send", world.failing.card.url, "a room")
    assert done.code == 0
    assert done.fields["State"] == "failed"
    assert done.fields["Reason"] == "no rooms left"
    assert done.err == "warning: the task was not successful: failed, no rooms left\n"


def test_a_failure_that_comes_as_an_error_and_as_a_text_is_printed_once() -> None:
    task = Task.create("do it")
    parts = [Part.error("UNSUPPORTED", "nothing to do"), Part("text", "nothing to do")]
    task.messages.append(Message(role="agent", parts=parts))
    assert list(task_blocks(task)) == [("Message", "UNSUPPORTED: nothing to do")]


def test_the_hint_of_a_waiting_task_works_when_typed_as_shown(world: World) -> None:
    asked = plgrpc("send", "asker", "a room", "--registry", world.registry.url)
    assert asked.code == 0
    assert asked.fields["State"] == "input-required"
    assert "which city?" in asked.out
    answered = plgrpc(*hinted(asked))
    assert answered.code == 0
    assert answered.fields["Task"] == asked.fields["Task"]
    assert answered.fields["State"] == "completed"
    assert "a room in your answer" in answered.out


def test_a_waiting_task_in_json_is_one_document_and_still_has_its_hint(world: World) -> None:
    asked = plgrpc("send", world.asker.card.url, "a room", "-o", "json")
    assert asked.document["state"] == "input-required"
    assert hinted(asked)[:2] == ["send", world.asker.card.url]


def test_text_comes_from_standard_input_and_data_becomes_a_json_part(world: World) -> None:
    done = plgrpc("send", world.asker.card.url, "-", "--data", '{"beds": 2}', "-o", "json", stdin="a room\n")
    parts = done.document["messages"][0]["parts"]
    assert [(part["type"], part["content"]) for part in parts] == [("text", "a room\n"), ("json", {"beds": 2})]


def test_the_same_request_id_is_the_same_task(world: World) -> None:
    command = ["send", world.asker.card.url, "a room", "--request-id", "r-1", "-o", "json"]
    assert plgrpc(*command).document["id"] == plgrpc(*command).document["id"]


def test_async_returns_the_ids_and_the_task_can_be_waited_for(world: World) -> None:
    world.gated.gate.clear()
    sent = plgrpc("send", world.gated.card.url, "go", "--async", "--session", "trip-1")
    assert sent.code == 0
    assert sent.fields["Session"] == "trip-1"
    assert sent.fields["State"] in ("submitted", "working")
    world.gated.gate.set()
    follow = hinted(sent)
    assert follow == ["task", "subscribe", world.gated.card.url, sent.fields["Task"]]
    waited = plgrpc("task", "get", world.gated.card.url, sent.fields["Task"], "--wait", "-o", "json")
    assert waited.document["state"] == "completed"
    assert plgrpc(*follow).fields["State"] == "completed"


def test_a_stream_shows_events_while_they_happen(world: World) -> None:
    world.gated.gate.clear()
    with running("send", "gated", "go", "--stream", registry=world.registry.url) as process:
        seen = [process.stdout.readline() for _ in range(3)]
        # Nothing after this could have been printed before the gate opened.
        world.gated.gate.set()
        rest = process.stdout.read()
        assert process.wait() == 0
    assert [line.split()[0] for line in seen] == ["#1", "#2", "#3"]
    assert seen[0].split()[2:] == ["gated", "task.submitted", "go"]
    assert seen[2].split()[2:] == ["gated", "task.progress", "0%", "begun"]
    assert "State: completed" in rest
    assert "\x1b" not in rest


def test_a_stream_in_json_is_lines_of_events_and_nothing_else(world: World) -> None:
    done = plgrpc("send", world.reporter.card.url, "go", "--stream", "-o", "json")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["final"]
    assert events[-1]["payload"]["new_state"] == "completed"
    assert done.err == ""


def test_a_subscription_replays_a_finished_task_and_resumes_after_a_sequence(world: World) -> None:
    task_id = plgrpc("send", world.reporter.card.url, "go", "-o", "json").document["id"]
    whole = plgrpc("task", "subscribe", world.reporter.card.url, task_id, "-o", "json").out.splitlines()
    tail = plgrpc("task", "subscribe", world.reporter.card.url, task_id, "--after", "3", "-o", "json")
    assert tail.out.splitlines() == whole[3:]
    assert tail.code == 0
    past = plgrpc("task", "subscribe", world.reporter.card.url, task_id, "--after", "99")
    assert past.code == 1
    assert "--after" in past.err


def test_a_subscription_can_end_where_the_log_ends_now(world: World) -> None:
    task_id = plgrpc("send", world.asker.card.url, "a room", "-o", "json").document["id"]
    done = plgrpc("task", "subscribe", world.asker.card.url, task_id, "--until", "current")
    assert done.code == 0
    assert done.fields["State"] == "input-required"
    assert hinted(done)[:2] == ["send", world.asker.card.url]


def test_tasks_are_listed_by_session_and_state_page_by_page(world: World) -> None:
    url = world.asker.card.url
    ids = [plgrpc("send", url, "a room", "--session", "s-list", "-o", "json").document["id"] for _ in range(2)]
    listed = plgrpc("task", "list", url, "--session", "s-list", "--state", "input-required", "-o", "json").document
    assert [task["id"] for task in listed["tasks"]] == ids[::-1]
    assert listed["total_size"] == 2
    first = plgrpc("task", "list", url, "--session", "s-list", "--limit", "1")
    assert first.out.splitlines()[1].startswith(ids[1])
    assert max(map(len, first.out.splitlines())) <= 80
    token = first.err.split()[-1]
    second = plgrpc("task", "list", url, "--session", "s-list", "--limit", "1", "--page-token", token)
    assert second.out.splitlines()[1].startswith(ids[0])
    assert second.err == ""


@pytest.mark.parametrize("text", [[], [""], [" "], ["-"]])
def test_an_empty_message_is_refused(text: list[str]) -> None:
    done = plgrpc("send", "grpc://127.0.0.1:1", *text)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: the message is empty\nhint: pass a text")
    for command in (["session", "submit"], ["task", "create"]):
        target = ["grpc://127.0.0.1:1", *(["trip"] if command[0] == "session" else [])]
        done = plgrpc(*command, *target, *(text or [""]))
        assert (done.code, done.out) == (2, "")
        assert done.err == "error: the input is empty\nhint: pass a text, or - for standard input\n"


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["nonsense"], "--state: nonsense is neither a state nor a status"),
        (["draft", "nonsense"], "draft is a status of a task, and nonsense is neither a state nor a status"),
        (["draft", "working"], "draft is a status of a task, and working is a state"),
        (["working", "draft"], "draft is a status of a task, and working is a state"),
    ],
)
def test_a_name_that_is_not_a_state_and_a_mix_of_states_and_statuses_are_refused(states: list[str], said: str) -> None:
    done = plgrpc("task", "list", "grpc://127.0.0.1:1", *(each for state in states for each in ("--state", state)))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {said}\nhint: ")


def test_a_task_is_canceled_once(world: World) -> None:
    url = world.asker.card.url
    task_id = plgrpc("send", url, "a room", "-o", "json").document["id"]
    canceled = plgrpc("task", "cancel", url, task_id, "--reason", "changed my mind")
    assert canceled.code == 0
    assert canceled.fields["State"] == "canceled"
    assert canceled.fields["Reason"] == "changed my mind"
    refused = plgrpc("send", url, "Athens", "--task", task_id, "-o", "json")
    assert refused.code == 1
    assert refused.out == ""
    assert json.loads(refused.err)["error"]["code"] == "TASK_FINISHED"


def test_an_unknown_task_is_an_error_and_never_a_new_task(world: World) -> None:
    url = world.asker.card.url
    before = plgrpc("task", "list", url, "-o", "json").document["total_size"]
    for command in (("send", url, "hello", "--task", "no-such-task"), ("task", "get", url, "no-such-task")):
        done = plgrpc(*command)
        assert done.code == 1
        assert done.err == (f"error: task no-such-task not found\nhint: plgrpc task list {url} shows your tasks\n")
    assert plgrpc("task", "list", url, "-o", "json").document["total_size"] == before


def test_a_task_belongs_to_its_session(world: World) -> None:
    url = world.asker.card.url
    task_id = plgrpc("send", url, "a room", "--session", "mine", "-o", "json").document["id"]
    assert plgrpc("send", url, "Athens", "--task", task_id, "--session", "other").code == 2
    assert plgrpc("send", url, "Athens", "--task", task_id, "--session", "mine").code == 0


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_a_timeout_has_exit_code_5_and_a_hint_to_follow_the_task(world: World, more: list[str]) -> None:
    world.gated.gate.clear()
    done = plgrpc("send", world.gated.card.url, "go", "--timeout", "1", *more)
    assert done.code == 5
    assert hinted(done)[:3] == ["task", "subscribe", world.gated.card.url]
    world.gated.gate.set()
    assert plgrpc(*hinted(done)).fields["State"] == "completed"


@pytest.mark.parametrize("more", [[], ["--stream"]], ids=["send", "stream"])
def test_ctrl_c_ends_the_wait_with_hints_to_follow_and_cancel_the_task(world: World, more: list[str]) -> None:
    world.gated.gate.clear()
    url, client = world.gated.card.url, AgentClient(url=world.gated.card.url).sync
    known = {each.id for each in client.list_tasks().tasks}
    with running("send", url, "go", *more) as process:
        if more:
            for _ in range(3):
                process.stdout.readline()
        until = time.monotonic() + END_S
        while not (begun := {each.id for each in client.list_tasks(states=["working"]).tasks} - known):
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    (task_id,) = begun
    assert process.returncode == 130
    assert err.splitlines() == [
        f"note: task {task_id} continues",
        f"hint: follow it with: plgrpc task subscribe {url} {task_id}",
        f"hint: cancel it with: plgrpc task cancel {url} {task_id}",
    ]
    world.gated.gate.set()
    assert plgrpc("task", "subscribe", url, task_id).fields["State"] == "completed"


def test_a_task_is_paused_resumed_and_retried(world: World) -> None:
    world.gated.gate.clear()
    url = world.gated.card.url
    task_id = plgrpc("send", url, "go", "--async").fields["Task"]
    paused = plgrpc("task", "pause", url, task_id, "--reason", "lunch")
    assert paused.fields["Task"] == task_id
    assert paused.err == "note: the task pauses before its next action or model call\n"
    assert plgrpc("task", "retry", url, task_id).code == 1
    assert plgrpc("task", "resume", url, task_id).fields["Status"] in ("preparing", "running")
    world.gated.gate.set()
    assert plgrpc("task", "subscribe", url, task_id).fields["State"] == "completed"
    assert plgrpc("task", "pause", url, task_id).code == 1
    retried = plgrpc("task", "retry", url, task_id, "--request-id", "again", "--json").document
    assert (retried["task_id"], retried["retry_count"]) == (task_id, 1)
    again = plgrpc("task", "retry", url, task_id, "--request-id", "again")
    assert hinted(again) == ["task", "subscribe", url, task_id]
    assert plgrpc("task", "subscribe", url, task_id).fields["State"] == "completed"
    assert plgrpc("task", "retry", url, task_id, "--request-id", "again", "-o", "json").document["retry_count"] == 1


def test_a_closed_output_pipe_ends_the_command_quietly(world: World) -> None:
    world.gated.gate.clear()
    with running("send", world.gated.card.url, "go", "--stream") as process:
        process.stdout.readline()
        process.stdout.close()
        world.gated.gate.set()
        assert process.wait() == 141
        assert process.stderr.read() == ""


def test_missing_or_wrong_credentials_have_exit_code_4_and_valid_ones_0(world: World) -> None:
    refused = plgrpc("send", world.locked.card.url, "hello", "-o", "json")
    assert refused.code == 4
    assert refused.out == ""
    error = json.loads(refused.err)["error"]
    assert error["code"] == "UNAUTHENTICATED"
    assert "--header" in error["hint"]
    wrong = plgrpc("card", "get", world.locked.card.url, "--header", "authorization=Bearer bad-secret")
    assert wrong.code == 4
    assert "bad-secret" not in wrong.out + wrong.err
    assert plgrpc("send", world.locked.card.url, "hello", "--header", "authorization=Bearer good").code == 0


def test_a_secret_header_is_not_repeated_in_a_hint(world: World) -> None:
    done = plgrpc("send", world.asker.card.url, "a room", "--header", "x-key=hush")
    assert "hush" not in done.out + done.err
    assert "x-key=..." in done.err


@pytest.mark.parametrize("command", [["send", "{}", "hello"], ["task", "subscribe", "{}", "t"], ["card", "get", "{}"]])
def test_an_unreachable_agent_has_exit_code_3_and_a_hint(command: list[str]) -> None:
    url = "grpc://127.0.0.1:1"
    done = plgrpc(*(each.format(url) for each in command), retries=False)
    assert done.code == 3
    assert done.err.startswith(f"error: {url} is not reachable")
    assert (
        f"hint: check that the server is running and the address is correct; plgrpc doctor {url} checks both\n"
        in done.err
    )
    assert len(done.err.splitlines()) == 2


def test_a_registry_is_reported_as_not_having_the_agent_service(world: World) -> None:
    done = plgrpc("card", "get", world.registry.url)
    assert done.code == 1
    assert f"error: {world.registry.url} does not have this service" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["sned"],
        ["send"],
        ["send", "grpc://127.0.0.1:1"],
        ["send", "grpc://127.0.0.1:1", "hello", "--nonsense"],
        ["send", "grpc://127.0.0.1:1", "hello", "--timeout", "soon"],
        ["send", "grpc://127.0.0.1:1", "hello", "--async", "--stream"],
        ["send", "grpc://127.0.0.1:1", "--data", "{"],
        ["send", "grpc://127.0.0.1:1", "hello", "--header", "no-pair"],
        ["send", "hotel", "hello"],
        ["send", "http://127.0.0.1:80", "hello"],
        ["send", "runtime://hotel", "hello"],
        ["send", "grpc://127.0.0.1", "hello"],
        ["send", "grpcs://127.0.0.1:1", "hello", "--tls-cert", "cert.pem"],
        ["task", "list", "grpc://127.0.0.1:1", "--state", "asleep"],
        ["task", "list", "grpc://127.0.0.1:1", "--since", "yesterday"],
        ["agents", "list"],
        ["agents", "list", "--registry", "hotel"],
    ],
    ids=" ".join,
)
def test_a_usage_error_has_exit_code_2_and_says_what_is_valid(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # In this process, because nothing is sent and there are many.
    monkeypatch.delenv("PLGRPC_REGISTRY", raising=False)
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    assert main(arguments) == 2
    done = capsys.readouterr()
    assert done.out == ""
    error, hint = done.err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")


def test_a_usage_error_in_json_is_one_document() -> None:
    done = plgrpc("send", "grpc://127.0.0.1:1", "--nonsense", "-o", "json")
    assert done.code == 2
    assert json.loads(done.err)["error"]["code"] == "USAGE"


def test_a_missing_certificate_names_its_file(tmp_path: Path) -> None:
    done = plgrpc("card", "get", "grpcs://127.0.0.1:1", "--tls-ca", str(tmp_path / "ca.pem"))
    assert done.code != 0
    assert "ca.pem" in done.err
    assert "Traceback" not in done.err
