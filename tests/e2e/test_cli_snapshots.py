"""`plgrpc snapshot`: the current state of sessions and tasks of a running agent."""

import json
from collections.abc import Iterator

import pytest
from cli_world import Done, plgrpc

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    Approvals,
    Artifact,
    CapabilityPolicy,
    Part,
    SafetyConfig,
    Task,
    Turn,
)


class Clerk(Agent):
    """`pay` calls a tool that needs an approval, `draw` makes an artifact, anything else is done at once."""

    def __init__(self) -> None:
        safety = SafetyConfig(policy=CapabilityPolicy({"pay": "require_approval"}), approvals=Approvals())
        card = AgentCard(name="clerk", description="does as told", url="grpc://127.0.0.1:0")
        super().__init__(card, grace_s=0.1, safety=safety)
        self.tool(capabilities=["pay"])(self.pay)

    async def pay(self, amount: int) -> str:
        """Pay an amount."""
        return f"paid {amount}"

    async def handle_task(self, task: Task) -> Task:
        word = task.messages[-1].text
        if word == "pay":
            await self.call_tool("pay", amount=3)
        if word == "draw":
            task.artifacts.append(Artifact(name="drawing", parts=[Part.text("a line " * 50)]))
        return task.complete(f"{word} done")


@pytest.fixture(scope="module")
def clerk() -> Iterator[Clerk]:
    agent = Clerk()
    agent.start(background=True)
    yield agent
    agent.stop()


@pytest.fixture(scope="module")
def url(clerk: Clerk) -> str:
    return clerk.card.url


@pytest.fixture(scope="module")
def turns(url: str) -> dict[str, Turn]:
    """The turns of the session `trip` by their input: the first one waits for an approval, the others are in the queue.

    `drawn` is that of another session, and has ended.
    """
    chat = AgentClient(url=url).sync.sessions
    chat.create("trip", title="Trip to Athens")
    paying = chat.submit("trip", "pay")
    for event in chat.stream("trip", paying):
        if event.type == "approval.required":
            break
    queued = chat.submit("trip", "a train and a boat " * 10, turn_id="train")
    drawn = chat.submit("gallery", "draw")
    for _ in chat.stream("gallery", drawn):
        pass
    return {"pay": paying, "train": queued, "drawn": drawn}


def snapshot(*arguments: str) -> Done:
    done = plgrpc("snapshot", *arguments)
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 110  # a field is on one line
    return done


def table(done: Done, title: str) -> list[list[str]]:
    """The cells of a printed table, without its heads."""
    text = done.out.partition(f"{title}:\n")[2].partition("\n\n")[0]
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    return [line.split() for line in lines[1:]]


def test_a_session_is_shown_with_the_status_of_its_threads(url: str, turns: dict[str, Turn]) -> None:
    done = snapshot("session", url, "trip")
    assert (done.fields["Session"], done.fields["Title"], done.fields["Turns"]) == ("trip", "Trip to Athens", "2")
    assert done.fields["Unavailable"].startswith("sandbox, ")
    assert table(done, "Threads")[0][:5] == ["default", "blocked", "1", "1", "waits"]
    assert [row[0] for row in table(done, "Newest turns")] == [turns["pay"].turn_id, "train"]
    ((approval, *_, name, kind),) = table(done, "Pending approvals")
    assert (name, kind) == ("pay", "(tool.call)")
    assert approval in snapshot("thread", url, "trip").fields["Reason"]


def test_a_thread_is_shown_with_its_open_tasks(url: str, turns: dict[str, Turn]) -> None:
    done = snapshot("thread", url, "trip")
    assert (done.fields["Thread"], done.fields["Status"]) == ("default", "blocked")
    assert [row[:2] for row in table(done, "Open tasks")] == [
        [turns["pay"].task_id, "waiting_permission"],
        [turns["train"].task_id, "queued"],
    ]


def test_a_queue_is_shown_with_its_inputs_and_its_reason_to_wait(url: str, turns: dict[str, Turn]) -> None:
    done = snapshot("queue", url, "trip", "default")
    ((place, turn, *_, last),) = table(done, "Queue of thread default")
    assert (place, turn, last[-1]) == ("1", "train", "…")
    assert table(done, "Reasons to wait") == [["default", turns["pay"].turn_id, "its", "end"]]


def test_tools_are_shown_with_the_policy_and_their_owner(url: str) -> None:
    assert snapshot("tools", url).out.splitlines()[1].split() == [
        *("pay", "require_approval", "local", "Pay", "an", "amount."),
    ]


def test_an_agent_without_tools_has_a_note() -> None:
    bare = Agent(AgentCard(name="bare", description="has no tools", url="grpc://127.0.0.1:0"))
    bare.start(background=True)
    try:
        assert plgrpc("snapshot", "tools", bare.card.url).err == "note: there are no tools that you can use\n"
    finally:
        bare.stop()


def test_the_artifacts_and_the_evidence_of_a_task_are_shown(url: str, turns: dict[str, Turn]) -> None:
    done = snapshot("artifacts", url, turns["drawn"].task_id)
    assert table(done, "Artifacts")[0][:3] == ["drawing", "result", "350"]
    done = snapshot("evidence", url, turns["pay"].task_id)
    assert done.fields["Policy"] == "1 require_approval"
    assert table(done, "Actions") == [["tool.call", "1", "not", "ended"]]
    assert snapshot("context", url, turns["pay"].task_id).fields["Model call"] == "none"


def test_each_snapshot_is_one_json_document(url: str, turns: dict[str, Turn]) -> None:
    task_id = turns["pay"].task_id
    commands = [["session", url, "trip"], ["thread", url, "trip"], ["queue", url, "trip"], ["tools", url]]
    commands += [[name, url, task_id] for name in ("context", "artifacts", "evidence")]
    for command in commands:
        done = plgrpc("snapshot", *command, "--json")
        assert isinstance(json.loads(done.out), dict)
    session = json.loads(plgrpc("snapshot", *commands[0], "--json").out)
    assert session["pending_approvals"][0]["request"]["task_id"] == task_id
    assert session["threads"][0]["position"] == session["session"]["position"]


def test_a_session_or_thread_that_does_not_exist_is_not_found(url: str, turns: dict[str, Turn]) -> None:
    done = plgrpc("snapshot", "session", url, "nowhere")
    assert (done.code, done.err.splitlines()[0]) == (1, "error: session nowhere not found")
    done = plgrpc("snapshot", "thread", url, "trip", "nowhere")
    assert done.code == 1
    assert "start-thread" in done.err
