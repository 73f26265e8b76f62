"""An agent dies at any point of a run and is started again: no finished work is repeated, and none is left out."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import AgentClient, Message, Part, Task, TaskState
from protolink_grpc.models.action import Approval

PATIENCE_S = 30.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

Launch = Callable[..., Awaitable[Any]]
Seen = dict[str, Any]

PROGRAM = Path(__file__).with_name("mortal_agent.py")
TOOLS = ("look", "book", "mail")
AROUND = [*([f"{when} {tool}"] for tool in TOOLS for when in ("before", "after")), ["before the end"]]
"""Deaths right before and right after what a tool does, and before the append that ends the run."""


class Graveyard:
    """Programs that follow plans, as many as there are processors to be had."""

    def __init__(self, programs: list[Any]) -> None:
        self._programs = programs

    async def __call__(self, kind: str, plans: list[list[Any]], recovery: str = "auto") -> list[Seen]:
        """What there is to see at the end of each plan."""
        count = len(self._programs)
        shares = [plans[first::count] for first in range(count)]
        found = await asyncio.gather(
            *(self._follow(each, kind, share, recovery) for each, share in zip(self._programs, shares, strict=True))
        )
        return [seen for share in found for seen in share]

    @staticmethod
    async def _follow(program: Any, kind: str, plans: list[list[Any]], recovery: str) -> list[Seen]:
        program.say(json.dumps({"kind": kind, "plans": plans, "recovery": recovery}))
        return [json.loads(await program.line()) for _ in plans]


@pytest.fixture
async def lives(launch: Launch, tmp_path: Path) -> Graveyard:
    return Graveyard([await launch(PROGRAM, tmp_path) for _ in range(2)])


# Readings


def events_of(seen: Seen, *types: str) -> list[dict[str, Any]]:
    return [event for event in seen["events"] if event["type"] in types]


def deaths(seen: Seen) -> list[int]:
    """After which event each life but the last ended."""
    begins = [event["sequence"] for event in events_of(seen, "task.status") if event["payload"]["attempt"]]
    return [sequence - 1 for sequence in begins if sequence > 2]


def tool_of(seen: Seen) -> dict[str, str]:
    """The name of each action by its id."""
    requested = events_of(seen, "action.requested")
    return {event["action_id"]: event["payload"]["action"]["name"] for event in requested}


def under_way(seen: Seen, end: int) -> set[str]:
    """Tools that had begun, and not ended, after that event."""
    names, found = tool_of(seen), set[str]()
    for event in seen["events"][:end]:
        if event["type"] == "action.started":
            found.add(names[event["action_id"]])
        elif event["type"].startswith("action.") and event["type"] not in ("action.requested", "action.policy"):
            found.discard(names[event["action_id"]])
    return found


def said(task: dict[str, Any]) -> Any:
    """What a task says, without the names and times that are new in every run."""
    messages = [(each["role"], [part["content"] for part in each["parts"]]) for each in task["messages"]]
    outputs = [part["content"] for artifact in task["artifacts"] for part in artifact["parts"]]
    new = ("state_history", "budget_usage", "run_context", "run_id")
    kept = {key: value for key, value in task["metadata"].items() if key not in new}
    return task["state"], messages, outputs, kept


# What must hold, wherever a process died


def check_log(seen: Seen) -> None:
    assert [event["sequence"] for event in seen["events"]] == list(range(1, len(seen["events"]) + 1))
    assert [event["final"] for event in seen["events"]].index(True) == len(seen["events"]) - 1


def check_tools(seen: Seen) -> None:
    runs = Counter(line.split()[0] for line in seen["ran"])
    for name in ("book", "mail"):
        assert runs[name] <= 1
    # An action has one identity, however often it begins.
    assert len({line.split()[1] for line in seen["ran"]}) == len(runs)
    names, ended = tool_of(seen), set[str]()
    begun: Counter[str] = Counter()
    for event in events_of(seen, "action.started", "action.completed"):
        name = names[event["action_id"]]
        assert name not in ended
        if event["type"] == "action.completed":
            ended.add(name)
        else:
            begun[name] += 1
    # Each run was announced, and what is finished was not begun again.
    assert all(runs[name] <= begun[name] for name in TOOLS)


def check_questions(seen: Seen) -> None:
    asked = [line for line in seen["asked"] if line.startswith("uncertain")]
    expected = [f"uncertain {name}" for end in deaths(seen) for name in sorted(under_way(seen, end) - {"look"})]
    if len(deaths(seen)) < 2:
        assert asked == expected
    else:  # a question that is open when its process dies is not asked again, and may have been seen or not
        assert set(asked) <= set(expected)
    required = [event["payload"]["request"] for event in events_of(seen, "approval.required")]
    assert [each["action"]["name"] for each in required if not each.get("uncertain")] == ["book"]
    names = tool_of(seen)
    begun = Counter(names[event["action_id"]] for event in events_of(seen, "action.started"))
    repeated = Counter(each["action"]["name"] for each in required if each.get("uncertain"))
    # Each start asks at most once whether it may be repeated.
    assert all(count <= begun[name] for name, count in repeated.items())


def check_model(seen: Seen) -> None:
    asked: Counter[str] = Counter(seen["thought"])
    for event in events_of(seen, "llm.call.completed"):
        finished = [end for end in deaths(seen) if event["sequence"] <= end]
        later = len(deaths(seen)) - len(finished)
        assert 1 <= asked[str(event["payload"]["step"])] <= 1 + later


def check_end(seen: Seen, whole: Seen) -> None:
    task, usage, expected = seen["task"], seen["task"]["metadata"], whole["task"]["metadata"]["budget_usage"]
    if task["state"] == "failed":
        # The approver was asked, saw that it had happened, and denied the repetition.
        assert "its outcome is unknown" in task["metadata"]["error"]
        assert task["messages"][-1]["parts"][-1]["content"]["code"] == "UNCERTAIN_EXECUTION"
        uncertain = next(line.split()[1] for line in seen["asked"] if line.startswith("uncertain"))
        assert any(line.startswith(uncertain) for line in seen["ran"])
        return
    assert said(task) == said(whole["task"])
    used = usage["budget_usage"]
    assert {key: used[key] for key in ("tool_calls", "steps", "output_tokens")} == {
        key: expected[key] for key in ("tool_calls", "steps", "output_tokens")
    }
    # A call of a model that was cut off was paid for.
    assert 0 <= used["llm_calls"] - expected["llm_calls"] <= len(deaths(seen))


def check(seen: Seen, whole: Seen) -> None:
    assert "broken" not in seen, seen
    check_log(seen)
    check_tools(seen)
    check_questions(seen)
    check_model(seen)
    check_end(seen, whole)


KINDS = pytest.mark.parametrize(
    ("kind", "recovery"), [("model", "auto"), ("parts", "auto"), ("handler", "resume")], ids=lambda each: str(each)
)


@KINDS
async def test_a_run_that_dies_at_any_point_is_finished_by_the_next_process(
    lives: Graveyard, kind: str, recovery: str
) -> None:
    (whole,) = await lives(kind, [[]], recovery)
    plans: list[list[Any]] = [*([end] for end in range(1, len(whole["events"]))), *AROUND]
    died = await lives(kind, plans, recovery)
    assert whole["task"]["state"] == "completed"
    assert [line.split()[0] for line in whole["ran"]] == list(TOOLS)
    assert whole["asked"] == ["new book"]
    for seen in died:
        check(seen, whole)
    # Each death is in the log; but for one before the run began, and those in its last append, which is done or not.
    last = len(whole["events"]) - (2 if kind == "handler" else 1)
    assert {end for seen in died for end in deaths(seen)} == set(range(2, last + 1))
    # Both outcomes of an uncertain call were there: repeated where it had not happened, given up where it had.
    states = Counter(seen["task"]["state"] for seen in died if any("uncertain" in line for line in seen["asked"]))
    assert states["completed"] >= 2
    assert states["failed"] >= 2


async def test_a_run_that_dies_again_while_it_catches_up_is_finished_all_the_same(lives: Graveyard) -> None:
    (whole,) = await lives("model", [[]])
    plans: list[list[Any]] = [[end, end + 1 + end % 3, end + 3 + end % 5] for end in range(2, len(whole["events"]), 4)]
    plans += [[first, "before book", "after mail"] for first in (8, "after look")]
    died = await lives("model", plans)
    for seen in died:
        check(seen, whole)
    assert max(len(deaths(seen)) for seen in died) == 3


async def test_what_a_handler_asks_for_in_a_message_of_its_own_is_not_done_twice_either(lives: Graveyard) -> None:
    (whole,) = await lives("rewriting", [[]], "resume")
    completed = [event["sequence"] for event in events_of(whole, "action.completed")]
    for seen in await lives("rewriting", [*([end] for end in completed), *AROUND], "resume"):
        check_log(seen)
        check_tools(seen)
        check_questions(seen)
        names = list(tool_of(seen).values())
        assert len(names) == len(set(names))


async def test_a_question_that_expires_while_nothing_runs_counts_as_no(lives: Graveyard) -> None:
    (whole,) = await lives("expiring", [[]])
    waiting = [event["type"] for event in whole["events"]].index("approval.required") + 1
    (seen,) = await lives("expiring", [[waiting]])
    check_log(seen)
    assert [line.split()[0] for line in seen["ran"]] == ["look"]
    assert seen["task"]["state"] == "failed"
    assert "the approval expired" in seen["task"]["metadata"]["error"]
    (answer,) = events_of(seen, "approval.decided")
    assert answer["payload"]["decision"]["expired"] is True
    assert deaths(seen) == [waiting]


@pytest.mark.parametrize(("kind", "recovery"), [("failing", "auto"), ("failing handler", "resume")])
async def test_the_failure_of_a_tool_keeps_its_origin_and_cause_though_the_process_dies(
    lives: Graveyard, kind: str, recovery: str
) -> None:
    def failure_in(seen: Seen) -> dict[str, Any]:
        found = seen["events"][-1]["payload"]["failure"]
        return {key: found[key] for key in ("reason", "message", "category", "origin", "retryable", "cause")}

    (whole,) = await lives(kind, [[]], recovery)
    known = failure_in(whole)
    assert (known["reason"], known["category"], known["origin"]) == ("TOOL_FAILED", "tool", "look")
    assert (known["cause"]["reason"], known["cause"]["message"]) == ("UNAVAILABLE", "the office is closed")
    (ended,) = [event["sequence"] for event in events_of(whole, "action.failed")]
    died = await lives(kind, [[end] for end in range(ended, len(whole["events"]))], recovery)
    assert deaths(died[0]) == [ended]
    assert [failure_in(seen) for seen in died] == [known] * len(died)
    assert [len(seen["ran"]) for seen in died] == [1] * len(died)


async def test_a_run_that_waits_goes_on_though_others_would_be_lost(lives: Graveyard) -> None:
    (whole,) = await lives("parts", [[]], "lost")
    types = [event["type"] for event in whole["events"]]
    waiting, begun = types.index("approval.required") + 1, types.index("action.started") + 1
    went_on, lost = await lives("parts", [[waiting], [begun]], "lost")
    check(went_on, whole)
    assert went_on["task"]["state"] == "completed"
    assert lost["task"]["state"] == "failed"
    assert lost["task"]["metadata"]["error"].startswith("run lost: the process")
    assert lost["ran"] == []


# Several processes that serve at the same time, or one after the other

SERVED = """
    import sys
    from protolink_grpc import Agent, Approvals, CapabilityPolicy, Limits, SQLiteStore

    class Announced(Agent):
        async def serve(self, *, register=True):
            await super().serve(register=register)
            print(self.card.url, flush=True)

    path, ran = sys.argv[1:]
    agent = Announced(
        name="hotel",
        description="books",
        url="grpc://127.0.0.1:0",
        store=SQLiteStore(path),
        policy=CapabilityPolicy({"booking.write": "ask"}),
        approvals=Approvals(),
        limits=Limits(lease_ttl_s=0.6),
        grace_s=20.0,
    )

    def noted(word):
        with open(ran, "a") as file:
            print(word, file=file)
        return word

    @agent.tool
    def look() -> str:
        return noted("look")

    @agent.tool(capabilities=["booking.write"])
    def book() -> str:
        return noted("book")

    agent.run()
"""


def trip() -> Task:
    return Task.create(Message(role="user", parts=[Part.tool_call("look", {}), Part.tool_call("book", {})]))


async def question(client: AgentClient) -> Approval:
    async with asyncio.timeout(PATIENCE_S), aclosing(client.watch_approvals()) as approvals:
        return await anext(approvals)


async def finish(client: AgentClient, task_id: str, approval: Approval, ran: Path) -> None:
    """Answer, and see that the run goes on from there."""
    assert not (await client.respond_approval(None, approval, True)).already_decided
    async with asyncio.timeout(PATIENCE_S):
        task = await client.wait_task(task_id)
    assert (task.state, task.get_output()) == (TaskState.COMPLETED, "book")
    assert ran.read_text().splitlines() == ["look", "book"]


async def test_a_stop_on_purpose_waits_for_no_person_and_the_next_start_does(launch: Launch, tmp_path: Path) -> None:
    path, ran = tmp_path / "tasks.db", tmp_path / "ran"
    program = await launch(SERVED, path, ran)
    client = AgentClient(url=await program.line())
    task = await client.submit_task(None, trip())
    request_id = await question(client)
    program.signal(signal.SIGTERM)
    # Well within the grace that a run at work would get.
    async with asyncio.timeout(15):
        assert await program.end() == 0
    client = AgentClient(url=await (await launch(SERVED, path, ran)).line())
    assert await question(client) == request_id
    await finish(client, task.id, request_id, ran)


@pytest.mark.parametrize("orderly", [True, False], ids=["stopped", "killed"])
async def test_another_replica_on_the_same_store_goes_on_with_a_run_that_waits(
    launch: Launch, tmp_path: Path, orderly: bool
) -> None:
    path, ran = tmp_path / "tasks.db", tmp_path / "ran"
    first, second = await launch(SERVED, path, ran), await launch(SERVED, path, ran)
    client, other = AgentClient(url=await first.line()), AgentClient(url=await second.line())
    task = await client.submit_task(None, trip())
    request_id = await question(client)
    if orderly:
        first.signal(signal.SIGTERM)
        assert await first.end() == 0
    else:
        await first.kill()
    async with asyncio.timeout(PATIENCE_S):
        async for event in other.subscribe(task.id):
            if event.state is TaskState.WORKING and event.sequence != 2:
                break  # the other one has taken it over
    await finish(other, task.id, request_id, ran)
