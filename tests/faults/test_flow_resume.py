"""A flow is killed at each event of its log and continued by the next process: no step runs twice, and none is left out."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("mortal_flow.py")
FUNCTIONS = {"polish", "judge", "condition"}

PEER = """
    import asyncio, sys
    from protolink_grpc import Agent

    agent = Agent("peer", url="grpc://127.0.0.1:0")

    @agent.tool
    def work(name: str, plan: str) -> str:
        with open(sys.argv[1], "a") as file:
            print(plan, name, file=file)
        return f"{name} done"

    async def main():
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""

Seen = dict[str, Any]


class Lives:
    """Two programs that follow plans."""

    def __init__(self, programs: list[Any], worked: Path) -> None:
        self._programs = programs
        self._worked = worked
        self._count = 0

    async def __call__(self, kind: str, plans: list[list[Any]]) -> list[Seen]:
        """Return what there is to see at the end of each plan, with the work of the peer under `worked`."""
        numbered = [(self._count + index, plan) for index, plan in enumerate(plans)]
        self._count += len(plans)
        shares = [numbered[first :: len(self._programs)] for first in range(len(self._programs))]
        pairs = zip(self._programs, shares, strict=True)
        found = await asyncio.gather(*(self._follow(program, kind, share) for program, share in pairs))
        seen = {number: each for share in found for number, each in share}
        for line in self._worked.read_text().splitlines() if self._worked.exists() else ():
            plan, name = line.split()
            if int(plan) in seen:
                seen[int(plan)].setdefault("worked", []).append(name)
        return [seen[number] for number, _ in numbered]

    @staticmethod
    async def _follow(program: Any, kind: str, share: list[tuple[int, list[Any]]]) -> list[tuple[int, Seen]]:
        program.say(json.dumps({"kind": kind, "plans": share}))
        return [(number, json.loads(await program.line())) for number, _ in share]


@pytest.fixture
async def lives(launch: Callable[..., Awaitable[Any]], tmp_path: Path) -> Lives:
    worked = tmp_path / "worked"
    peer = await launch(PEER, worked)
    url = await peer.line()
    return Lives([await launch(PROGRAM, url, tmp_path) for _ in range(2)], worked)


def said(task: dict[str, Any]) -> Any:
    """What a task says, without ids and times."""
    messages = [(each["role"], [part["content"] for part in each["parts"]]) for each in task["messages"]]
    outputs = [part["content"]["result"] for artifact in task["artifacts"] for part in artifact["parts"]]
    kept = {key: task["metadata"][key] for key in ("polished", "route_decisions")}
    return task["state"], messages, outputs, kept


def under_way(seen: Seen) -> Counter[str]:
    """How often a function was under way when a process died."""
    events, found = seen["events"], Counter[str]()
    names = {
        each["action_id"]: each["payload"]["action"]["name"] for each in events if each["type"] == "action.requested"
    }
    running: set[str] = set()
    since_judge = False
    for event in events:
        match event["type"]:
            case "action.started":
                running.add(names[event["action_id"]])
            case "action.completed":
                running.discard(names[event["action_id"]])
                since_judge = names[event["action_id"]] == "judge"
            case "workflow.decided":
                since_judge = False
            case "task.status" if event["payload"]["attempt"]:
                found.update(running & FUNCTIONS)
                found.update(["condition"] if since_judge else [])
                running.clear()
    return found


def check(seen: Seen, whole: Seen) -> None:
    assert "broken" not in seen, seen
    assert said(seen["task"]) == said(whole["task"])
    assert [event["sequence"] for event in seen["events"]] == list(range(1, len(seen["events"]) + 1))
    # Each step at the peer was done exactly once.
    assert Counter(seen["worked"]) == Counter(whole["worked"])
    # A function was repeated only if its process died while it ran.
    repeated = Counter(seen["ran"]) - Counter(whole["ran"])
    assert not Counter(whole["ran"]) - Counter(seen["ran"])
    assert not repeated - under_way(seen)
    # Each node begins and ends once in the events, too.
    for kind in ("started", "completed"):
        nodes = [each["payload"]["path"] for each in seen["events"] if each["type"] == f"workflow.node.{kind}"]
        assert len(nodes) == len(set(nodes))


@pytest.mark.timeout(300)
async def test_a_flow_that_dies_at_any_event_is_finished_and_no_step_runs_twice(lives: Lives) -> None:
    (whole,) = await lives("graph", [[]])
    assert whole["task"]["state"] == "completed"
    assert Counter(whole["worked"]) == {"draft": 2, "left": 2, "right": 2, "print": 1}
    assert Counter(whole["ran"]) == {"polish": 2, "judge": 2, "condition": 2}
    count = len(whole["events"])
    for seen in await lives("graph", [*([end] for end in range(1, count)), [9, 20, 41], [15, 16, 17]]):
        check(seen, whole)


async def test_a_function_that_was_cut_is_repeated_only_if_a_person_approves(lives: Lives) -> None:
    (alone,) = await lives("payment", [["pay"]])
    assert (alone["task"]["state"], alone["ran"]) == ("failed", ["pay"])
    assert "was started and its outcome is unknown" in alone["task"]["metadata"]["error"]
    (approved,) = await lives("approved payment", [["pay"]])
    assert (approved["task"]["state"], approved["ran"]) == ("completed", ["pay", "pay"])


async def test_a_flow_that_dies_while_it_asks_or_after_its_answer_is_finished_too(lives: Lives) -> None:
    (whole,) = await lives("asking", [[]])
    assert (whole["task"]["state"], whole["ran"]) == ("completed", ["ask", "ask"])
    for seen in await lives("asking", [[end] for end in range(1, len(whole["events"]))]):
        assert seen["task"]["state"] == "completed"
        assert Counter(seen["worked"]) == {"left": 1, "after": 1}
        assert 2 <= len(seen["ran"]) <= 3
        texts = [[part["content"] for part in each["parts"]] for each in seen["task"]["messages"]]
        # A death between the answer and the begin of its run, which are one append, has it sent once more.
        assert texts in ([["go"], ["which?"], ["answer"]], [["go"], ["which?"], ["answer"], ["answer"]])


async def test_a_branch_that_was_abandoned_does_not_begin_again(lives: Lives) -> None:
    (whole,) = await lives("failing", [[]])
    assert (whole["task"]["state"], whole["ran"]) == ("failed", ["wait"])
    failed = next(event["sequence"] for event in whole["events"] if event["type"] == "workflow.node.failed")
    for seen in await lives("failing", [[end] for end in range(failed, len(whole["events"]))]):
        assert (seen["task"]["state"], seen["task"]["metadata"]["error"], seen["ran"]) == (
            "failed",
            "no paper",
            ["wait"],
        )
