"""An agent whose flow is cut by SIGKILL and continued by the next process: `test_flow_resume` runs this file.

Each plan is a list of deaths: lengths of the log at which a life ends, or "pay", within that function. The last life of a plan
continues to the end and prints what there is to see. The agents that the steps call are in another process, which stays alive.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from mortal_agent import Mortal, die, lines, note

import protolink_grpc.client.grpc_agent  # noqa: F401 -- imported once, for all lives
from protolink_grpc import Agent, AgentClient, Approvals, ApprovalState, Limits, Message, Part, Task, TaskState
from protolink_grpc.flows import Flow, Graph, Parallel, Pipeline, Router, Step, ToolStep

TASK_ID = "the task"
FUNCTIONS = ("polish", "judge", "condition")


def flow_of(peer: str, folder: Path) -> Flow:
    """A graph with a loop, a parallel section and a router."""

    def call(name: str) -> ToolStep:
        return ToolStep(peer, "work", {"name": name, "plan": folder.name}, name=name)

    async def polish(task: Task) -> None:
        note(folder / "ran", "polish")
        task.metadata["polished"] = task.metadata.get("polished", 0) + 1

    async def judge(task: Task) -> None:
        note(folder / "ran", "judge")
        verdict = "print" if task.metadata["polished"] == 2 else "burn"
        task.add_message(Message(role="agent", parts=[Part.text(verdict), Part.route(verdict)]))

    def condition(task: Task) -> str:
        note(folder / "ran", "condition")
        return task.messages[-1].text

    section = Parallel([call("left"), Pipeline([call("right"), Step(polish, idempotent=True)])], name="section")
    graph = Graph().add_node("draft", call("draft")).add_node("section", section)
    graph.add_node("judge", Step(judge, idempotent=True))
    graph.add_node("end", Router({"print": call("print"), "burn": call("burn")}))
    graph.set_entry_point("draft").add_edge("draft", "section").add_edge("section", "judge")
    return graph.add_conditional_edge("judge", condition, {"print": "end", "burn": "draft"})


def payment(folder: Path, death: Any) -> Flow:
    """A function that must not be repeated unasked, and that dies if death is "pay"."""

    async def pay(task: Task) -> None:
        note(folder / "ran", "pay")
        if death == "pay":
            die()
        task.add_message(Message.agent("paid"))

    return Pipeline([pay])


def failing(folder: Path) -> Flow:
    """A branch that fails while another one waits forever, in a function that must not be repeated."""
    begun = asyncio.Event()

    async def wait(task: Task) -> None:
        note(folder / "ran", "wait")
        begun.set()
        await asyncio.Event().wait()

    async def fail(task: Task) -> None:
        await begun.wait()
        task.fail("no paper")

    return Parallel([wait, fail])


def asking(peer: str, folder: Path) -> Flow:
    """A branch that asks, beside one that works, and a step after both."""

    async def ask(task: Task) -> Task:
        note(folder / "ran", "ask")
        return task if task.messages[-1].text == "answer" else task.require_input("which?")

    def call(name: str) -> ToolStep:
        return ToolStep(peer, "work", {"name": name, "plan": folder.name}, name=name)

    return Pipeline([Parallel([call("left"), Step(ask, idempotent=True)]), call("after")])


async def approve_all(client: AgentClient) -> None:
    async for approval in client.watch_approvals():
        if approval.state is ApprovalState.PENDING:
            await client.respond_approval(None, approval, True)


def build_flow(kind: str, peer: str, folder: Path, death: Any) -> Flow:
    if kind == "graph":
        return flow_of(peer, folder)
    if kind == "asking":
        return asking(peer, folder)
    return failing(folder) if kind == "failing" else payment(folder, death)


async def life(kind: str, peer: str, folder: Path, death: Any, *, begins: bool) -> dict[str, Any]:
    """Take the task to its end, if death lets it, and return what there is to see."""
    agent = Agent(
        "mortal",
        url="runtime://mortal",
        flow=build_flow(kind, peer, folder, death),
        approvals=Approvals() if kind == "approved payment" else None,
        store=Mortal(folder / "tasks.db", death if isinstance(death, int) else 0),
        grace_s=0,
        limits=Limits(max_resumes_without_progress=5),  # deaths may come twice at the same point
    )
    async with agent:
        client = AgentClient(url=agent.card.url)
        approving = asyncio.create_task(approve_all(client)) if kind == "approved payment" else None
        if begins:
            await client.submit_task(None, Task(TASK_ID, messages=[Message.user("go")]))
        task = await client.wait_task(TASK_ID)
        if task.state is TaskState.INPUT_REQUIRED:
            task = await client.send_task(None, task.add_message(Message.user("answer")))
        events = [event.to_dict() async for event in client.subscribe(TASK_ID)]
        if approving is not None:
            approving.cancel()
            await asyncio.wait([approving])
    return {"task": task.to_dict(), "events": events, "ran": lines(folder / "ran")}


def lived(kind: str, peer: str, folder: Path, death: Any, *, begins: bool) -> int:
    """Live in a process of its own and return how it ended, as `os.waitpid` says it."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        print(json.dumps(asyncio.run(asyncio.wait_for(life(kind, peer, folder, death, begins=begins), 30))), flush=True)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Follow the plans that come in, and answer each with a line."""
    peer, root = sys.argv[1], Path(sys.argv[2])
    for line in sys.stdin:
        request = json.loads(line)
        for number, plan in request["plans"]:
            folder = root / f"{number}"
            folder.mkdir()
            for nth, death in enumerate([*plan, 0]):
                ended = lived(request["kind"], peer, folder, death, begins=nth == 0)
                if ended != signal.SIGKILL:
                    if ended:
                        print(json.dumps({"plan": plan, "broken": ended}), flush=True)
                    break


if __name__ == "__main__":
    main()
