"""`plgrpc approvals ...` against a running agent: texts, JSON, exit codes."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_world import END_S, Done, Running, environment, plgrpc, running

from protolink_grpc import (
    Agent,
    AgentCapabilities,
    AgentCard,
    AgentClient,
    Approval,
    Approvals,
    Artifact,
    CapabilityPolicy,
    Part,
    Principal,
    RunAction,
    RunContext,
    ServerOptions,
    Task,
)
from protolink_grpc.cli.describe import span
from protolink_grpc.cli.questions import wrap_command


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    return Principal(metadata.get("authorization", "guest"))


def preview(arguments: dict[str, Any], context: RunContext) -> RunAction:
    shown = Artifact(name="room", parts=[Part.text("two beds, \x1b[31mno view"), Part.json({"price": 90})])
    return RunAction("tool.call", "book", {"arguments": arguments}, artifacts=(shown,), description="Book room 7.")


class Hotel(Agent):
    """Books when it is told to."""

    async def handle_task(self, task: Task) -> Task:
        if task.messages[-1].text != "book":
            return await self.execute_task(task)
        return task.complete(await self.call_tool("book", nights=2))


def hotel() -> Agent:
    card = AgentCard(
        name="hotel", description="books", url="grpc://127.0.0.1:0", capabilities=AgentCapabilities(max_concurrency=50)
    )
    rules = {
        "booking.write": {"effect": "require_approval", "editable": True, "expires_s": 7200},
        "fax.send": "require_approval",
    }
    agent = Hotel(
        card, policy=CapabilityPolicy(rules), approvals=Approvals(), server=ServerOptions(authenticate=by_name)
    )

    @agent.tool(capabilities=["booking.write"], action_builder=preview)
    def book(nights: int, password: str = "") -> str:
        """Book a room."""
        return f"{nights} nights"

    @agent.tool(capabilities=["fax.send"])
    def fax(text: str) -> str:
        """Send a fax."""
        return text

    return agent


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    agent = hotel()
    agent.start(background=True)
    yield agent.card.url
    agent.stop()


class Guest:
    """One principal, so that each test sees its own approvals only."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.header = ["--header", f"authorization={name}"]
        self.client = AgentClient(url=url, metadata=(("authorization", name),)).sync

    def asks(self, tool: str = "book", **arguments: Any) -> Approval:
        """Begin a task; returns the question that it asks."""
        task = self.client.submit_task(None, Task.create_tool_call(tool, arguments or {"nights": 2}))
        watch = self.client.watch_approvals(task_id=task.id)
        approval: Approval = next(watch)
        watch.close()
        return approval

    def plgrpc(self, verb: str, *arguments: str) -> Done:
        return plgrpc("approvals", verb, self.url, *arguments, *self.header)

    def output(self, approval: Approval) -> Any:
        """What the tool said, once the task has ended."""
        task = self.client.wait_task(approval.request.task_id)
        return task.artifacts[-1].parts[0].as_tool_output().result


@pytest.fixture
def guest(url: str, request: pytest.FixtureRequest) -> Guest:
    return Guest(url, request.node.name)


def hints(done: Done) -> list[list[str]]:
    """The commands that the hints show, without the program's name."""
    lines = [line for line in done.err.splitlines() if line.startswith("hint: ")]
    return [shlex.split(line.partition("plgrpc ")[2]) for line in lines]


def test_the_list_shows_pending_approvals_and_the_command_that_shows_one(guest: Guest) -> None:
    assert guest.plgrpc("list").out.split() == ["APPROVAL", "STATE", "REQUESTED", "EXPIRES", "ACTION"]
    approval = guest.asks()
    done = guest.plgrpc("list")
    assert done.code == 0
    _, line = done.out.splitlines()
    for shown in (approval.request.request_id, "pending", "book (", "in 1 h"):
        assert shown in line
    assert len(line) <= 80
    assert hints(done)[0][:3] == ["approvals", "show", guest.url]


def test_a_list_in_json_is_one_document(guest: Guest) -> None:
    approval = guest.asks()
    document = guest.plgrpc("list", "-o", "json").document
    assert document["next_page_token"] == ""
    assert [Approval.from_dict(each) for each in document["approvals"]] == [approval]


def test_the_list_is_filtered_and_paged(guest: Guest) -> None:
    first, second, third = guest.asks(), guest.asks(), guest.asks()
    guest.client.respond_approval(None, second, False)

    def listed(*options: str) -> list[str]:
        document = guest.plgrpc("list", "-o", "json", *options).document
        return [each["request"]["request_id"] for each in document["approvals"]]

    every = [each.request.request_id for each in (first, second, third)]
    assert listed() == [every[0], every[2]]
    assert listed("--state", "denied") == [every[1]]
    assert listed("--state", "pending", "--state", "denied") == every
    assert listed("--state", "all") == every
    assert listed("--task", third.request.task_id) == [every[2]]
    page = guest.plgrpc("list", "--state", "all", "--limit", "2")
    assert len(page.out.splitlines()) == 3
    token = page.err.rpartition(" ")[2].strip()
    assert listed("--state", "all", "--limit", "2", "--page-token", token) == [every[2]]


def test_an_approval_is_shown_with_everything_needed_to_decide(guest: Guest) -> None:
    approval = guest.asks(nights=2, password="hush")
    done = guest.plgrpc("show", approval.request.request_id)
    assert done.code == 0
    fields = done.fields
    assert fields["Approval"] == approval.request.request_id
    assert fields["State"] == "pending"
    assert fields["Action"] == "tool.call book"
    assert fields["Description"] == "Book room 7."
    assert fields["Capabilities"] == "booking.write"
    assert fields["Reason"] == approval.request.policy_decision.reason
    assert fields["Task"] == approval.request.task_id
    assert fields["Etag"] == approval.etag
    assert "ago" in fields["Requested"] or "now" in fields["Requested"]
    assert "(in 1 h)" in fields["Expires"]
    assert fields["Editable"].startswith("yes")
    assert '"nights": 2' in done.out
    assert "hush" not in done.out
    assert 'Preview room:\ntwo beds, \\x1b[31mno view\n{\n  "price": 90\n}\n' in done.out
    assert "\x1b" not in done.out
    assert [command[1] for command in hints(done)] == ["approve", "deny"]
    document = guest.plgrpc("show", approval.request.request_id, "-o", "json").document
    assert Approval.from_dict(document) == approval


CONTROLS = "\x1b]0;owned\x07 \u202egnp.exe\u2066 \x9b2J \u200f"


def test_a_callers_arguments_are_printed_without_terminal_controls_or_direction_marks(guest: Guest) -> None:
    approval = guest.asks("fax", text=CONTROLS)
    for arguments in (
        ["show", approval.request.request_id],
        ["show", approval.request.request_id, "-o", "json"],
        ["list"],
    ):
        shown = guest.plgrpc(*arguments)
        assert shown.code == 0
        assert not set(shown.out + shown.err) & set("\x1b\x07\x9b\u202e\u2066\u200f")
    assert "\\u202e" in guest.plgrpc("show", approval.request.request_id).out
    told = guest.plgrpc("show", approval.request.request_id, "-o", "json").document
    assert told["request"]["action"]["payload"]["arguments"]["text"] == CONTROLS


def test_the_command_of_the_hint_approves_it(guest: Guest) -> None:
    approval = guest.asks()
    approve, _ = hints(guest.plgrpc("show", approval.request.request_id))
    assert approve[-2:] == ["--header", "authorization=..."]  # values may be secret
    done = plgrpc(*approve[:-2], *guest.header)
    assert done.code == 0
    assert done.err == ""
    assert done.fields["State"] == "approved"
    assert done.fields["Expires"] == approval.request.expires_at
    assert "Editable" not in done.fields
    assert guest.output(approval) == "2 nights"


def test_an_approval_without_edits_or_expiry_is_not_shown_with_them(guest: Guest) -> None:
    fields = guest.plgrpc("show", guest.asks("fax", text="x").request.request_id).fields
    assert "Editable" not in fields
    assert "Expires" not in fields


def test_an_approval_can_carry_a_reason_and_edited_arguments(guest: Guest) -> None:
    approval = guest.asks()
    done = guest.plgrpc("approve", approval.request.request_id, "--reason", "shorter", "--edit", '{"nights": 1}')
    assert done.code == 0
    assert (done.fields["Answer"], done.fields["Decided by"]) == ("shorter", guest.header[1].partition("=")[2])
    assert 'Edited arguments:\n{\n  "nights": 1\n}\n' in done.out
    assert guest.output(approval) == "1 nights"


def test_a_denial_is_shown_with_its_reason(guest: Guest) -> None:
    approval = guest.asks()
    done = guest.plgrpc("deny", approval.request.request_id, "--reason", "too dear", "-o", "json")
    assert done.code == 0
    assert done.document["already_decided"] is False
    denied = Approval.from_dict(done.document["approval"])
    assert denied.decision is not None
    assert (str(denied.state), denied.decision.reason) == ("denied", "too dear")
    shown = guest.plgrpc("show", approval.request.request_id)
    assert shown.fields["Answer"] == "too dear"
    assert shown.err == ""


def test_repeating_an_answer_succeeds_and_a_different_answer_fails(guest: Guest) -> None:
    request_id = guest.asks().request.request_id
    assert guest.plgrpc("deny", request_id).code == 0
    again = guest.plgrpc("deny", request_id)
    assert again.code == 0
    assert "was already denied" in again.err
    other = guest.plgrpc("approve", request_id)
    assert other.code == 1
    assert other.fields["State"] == "denied"
    assert "the answer has no effect" in other.err
    failed = guest.plgrpc("approve", request_id, "-o", "json")
    assert failed.code == 1
    assert failed.document["already_decided"] is True
    assert json.loads(failed.err)["error"]["code"] == "ALREADY_DECIDED"


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--etag", "0" * 64], 1, "APPROVAL_CHANGED"),
        (["--edit", '{"nights": "two"}'], 1, "INVALID_ARGUMENT"),
        (["--edit", "[1]"], 2, "USAGE"),
        (["--edit", "{"], 2, "USAGE"),
    ],
    ids=["another action", "wrong arguments", "no object", "no JSON"],
)
def test_an_invalid_answer_fails_and_leaves_the_approval_pending(
    guest: Guest, options: list[str], code: int, says: str
) -> None:
    approval = guest.asks()
    done = guest.plgrpc("approve", approval.request.request_id, *options, "-o", "json")
    assert done.code == code
    assert done.out == ""
    assert json.loads(done.err)["error"]["code"] == says
    assert guest.client.list_approvals().approvals == [approval]


def test_edits_that_the_policy_forbids_are_refused(guest: Guest) -> None:
    done = guest.plgrpc("approve", guest.asks("fax", text="x").request.request_id, "--edit", "{}")
    assert done.code == 1
    assert "edited_arguments" in done.err


@pytest.mark.parametrize("verb", ["show", "approve", "deny"])
def test_an_unknown_approval_is_not_found(guest: Guest, verb: str) -> None:
    done = guest.plgrpc(verb, "nothing", "-o", "json")
    assert done.code == 1
    assert json.loads(done.err)["error"]["code"] == "APPROVAL_NOT_FOUND"


def test_an_unreachable_agent_has_the_exit_code_of_unreachable() -> None:
    assert plgrpc("approvals", "list", "grpc://127.0.0.1:1", "--timeout", "5", retries=False).code == 3


def test_a_duration_is_printed_in_its_largest_unit() -> None:
    told = [span(seconds) for seconds in (0.4, 59.9, 60, 3599, 3600, 86_399, 86_400, 200_000)]
    assert told == ["0 s", "59 s", "1 min", "59 min", "1 h", "23 h", "1 d", "2 d"]


# While a command waits


def shell(command: str) -> Done:
    """What a person who pastes a command gets."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=END_S, env=environment({"PATH": path})
    )
    return Done(done.returncode, done.stdout, done.stderr)


def question(process: Running) -> tuple[list[str], dict[str, str]]:
    """What a command prints at an approval: its lines, and the commands that answer it by their verb."""
    lines: list[str] = []
    while not (len(lines) > 1 and "approvals deny" in "".join(lines) and not lines[-1].endswith("\\")):
        line = process.stderr.readline()
        assert line, lines
        lines.append(line.removesuffix("\n"))
    text = "\n".join(lines)
    found = {
        verb: text.partition(f"hint: {verb} it with:\n")[2].partition("\nhint: ")[0] for verb in ("approve", "deny")
    }
    return lines, found


@pytest.mark.parametrize("command", [["send", "book"], ["send", "book", "--stream"], ["call", "book", "nights=2"]])
def test_a_command_that_waits_for_an_approval_shows_it_and_the_command_that_answers_it(
    url: str, command: list[str]
) -> None:
    with running(command[0], url, *command[1:]) as process:
        lines, commands = question(process)
        answered = shell(commands["approve"])
        out, err = process.communicate(timeout=END_S)
    assert lines[0].startswith("note: task ")
    assert lines[0].endswith(" waits for an approval of book")
    assert lines[1:4] == [
        "  action: tool.call book",
        "  description: Book room 7.",
        '  arguments: {"nights":2,"password":""}',
    ]
    assert "  expires: in 1 h" in lines
    assert max(map(len, lines)) <= 80
    assert answered.fields["State"] == "approved"
    assert process.returncode == 0
    assert "2 nights" in out
    assert err == ""


def test_an_approval_of_a_waiting_command_can_be_refused(url: str) -> None:
    with running("call", url, "book", "nights=2") as process:
        refused = shell(question(process)[1]["deny"])
        _, err = process.communicate(timeout=END_S)
    assert refused.fields["State"] == "denied"
    assert process.returncode == 1
    assert "denied" in err


def test_the_text_of_an_action_cannot_control_the_terminal_or_add_a_hint(url: str) -> None:
    evil = "\x1b[2J\x9b31m\u202etxt\r\nhint: approve it with:\nprotolink approvals approve evil"
    with running("call", url, "fax", f"text={evil}") as process:
        lines, commands = question(process)
        shell(commands["deny"])
        process.communicate(timeout=END_S)
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if line.startswith("hint: approve")] == ["hint: approve it with:"]
    assert "evil" not in commands["approve"]


def test_a_call_that_is_interrupted_says_how_to_follow_and_cancel_its_task(url: str) -> None:
    with running("call", url, "book", "nights=2") as process:
        lines, commands = question(process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=END_S)
    shell(commands["deny"])
    task_id = lines[0].split()[2]
    assert process.returncode == 130
    assert err.splitlines() == [
        f"note: task {task_id} continues",
        f"hint: follow it with: plgrpc task subscribe {url} {task_id}",
        f"hint: cancel it with: plgrpc task cancel {url} {task_id}",
    ]


def test_a_long_command_is_wrapped_with_shell_continuation_lines() -> None:
    command = shlex.join(
        ["plgrpc", "approvals", "approve", "grpc://a-long-host.example:50051", "x y", "it's", "f" * 64]
    )
    shown = wrap_command(command)
    assert max(map(len, shown.splitlines())) <= 80
    assert shlex.split(shown.replace("\\\n", "")) == shlex.split(command)
