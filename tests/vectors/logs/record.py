"""Records logs of real agents: `python tests/vectors/logs/record.py NAME...` writes NAME.binpb and NAME.json.

Without names it records those that there are no files of.

A recorded log is never recorded again: it stands for the files that users have. ../README.md says how logs are used.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc
from google.protobuf import json_format
from plgrpc.v1 import agent_service_pb2, agent_service_pb2_grpc, task_pb2

from protolink_grpc import (
    Agent,
    AgentClient,
    Approvals,
    Artifact,
    CapabilityPolicy,
    Message,
    Part,
    RunEvent,
    SQLiteStore,
    Task,
    TaskProgress,
    create_llm,
)

HERE = Path(__file__).parent
ADDRESS = "127.0.0.1:0"


def card(name: str) -> dict[str, str]:
    return {"name": name, "description": f"plays the {name}", "url": f"grpc://{ADDRESS}"}


class Talker(Agent):
    """Answers by the first word that it is told."""

    async def handle_task(self, task: Task) -> Task:
        word, _, rest = str(task.get_last_part_content()).partition(" ")
        match word:
            case "ask":
                return task.require_input("Which day?")
            case "break":
                raise RuntimeError("the printer is on fire")
            case "wait":
                await asyncio.Event().wait()
            case "die" if os.environ.pop("PLGRPC_RECORD_DIES", ""):
                os._exit(9)
            case "work":
                task.add_artifact(
                    Artifact("report", [Part.text("page 1"), Part.json({"pages": [1, 2]})], {"draft": True})
                )
                task.metadata["topic"] = rest
                task.flow_state["step"] = 2
        task.add_message(Message.agent(f"You said: {rest or word}"))
        return task


class Counter(Agent):
    """Shows its work while it works."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[object]:
        yield TaskProgress(50, "half of it")
        yield RunEvent(type="count.begun", payload={"to": 2})
        yield Artifact("numbers", [Part.text("1")])
        yield Message.agent("counted")


def clerk(expires_s: float | None = None, **options: object) -> Agent:
    """Has a model, and asks before it pays."""
    more = {} if expires_s is None else {"expires_s": expires_s}
    steps = [{"type": "tool_call", "tool": "pay", "args": {"amount": 90, "to": "Zoë"}}, "The invoice is paid."]
    policy = CapabilityPolicy({"payments.write": {"effect": "require_approval", "editable": True, **more}})
    llm = create_llm("scripted", steps=steps)
    agent = Agent(card("clerk"), llm=llm, policy=policy, approvals=Approvals(), **options)  # type: ignore[arg-type]

    @agent.tool(capabilities=["payments.write"])
    def pay(amount: float, to: str) -> dict[str, object]:
        """Pay an invoice."""
        return {"paid": amount, "to": to}

    return agent


async def record_answered(client: AgentClient, _agent: Agent) -> str:
    sent = Task.create("work 世界")
    return (await client.send_task(None, sent)).id


async def record_two_turns(client: AgentClient, _agent: Agent) -> str:
    asked = await client.send_task(None, Task.create("ask"))
    asked.add_message(Message.user("on Friday"))
    return (await client.send_task(None, asked)).id


async def record_failed(client: AgentClient, _agent: Agent) -> str:
    return (await client.send_task(None, Task.create("break"))).id


async def record_canceled(client: AgentClient, _agent: Agent) -> str:
    task = await client.submit_task(None, Task.create("wait"))
    async for event in client.subscribe(task.id):
        if event.type == "task.status" and event.sequence and event.sequence > 1:
            break
    return (await client.cancel_task(None, task.id, reason="no longer needed")).id


async def record_streamed(client: AgentClient, _agent: Agent) -> str:
    events = [event async for event in client.send_task_streaming(None, Task.create("go"))]
    return events[-1].task_id


async def record_approved(client: AgentClient, _agent: Agent) -> str:
    task = await client.submit_task(None, Task.create_infer(prompt="Pay the invoice of 90."))
    async for approval in client.watch_approvals():
        await client.respond_approval(None, approval, True, edited_arguments={"amount": 80, "to": "Zoë"})
        break
    return (await client.wait_task(task.id)).id


async def record_denied(client: AgentClient, _agent: Agent) -> str:
    task = await client.submit_task(None, Task.create_tool_call("pay", {"amount": 1, "to": "me"}))
    async for approval in client.watch_approvals():
        await client.respond_approval(None, approval, False, reason="not today")
        break
    return (await client.wait_task(task.id)).id


async def record_recovered(client: AgentClient, _agent: Agent) -> str:
    return (await client.wait_task("recovered")).id


def dies() -> None:
    """A process that begins a task and dies in it."""

    async def run() -> None:
        agent = Talker(card("talker"), store=SQLiteStore(sys.argv[2]), recovery="resume")
        async with agent:
            task = Task.create("die")
            task.id = "recovered"
            await AgentClient(url=agent.card.url).send_task(None, task)

    asyncio.run(run())


Recorder = Callable[[AgentClient, Agent], Awaitable[str]]

LOGS: dict[str, tuple[Callable[..., Agent], Recorder]] = {
    "answered": (lambda **more: Talker(card("talker"), **more), record_answered),
    "two_turns": (lambda **more: Talker(card("talker"), **more), record_two_turns),
    "failed": (lambda **more: Talker(card("talker"), **more), record_failed),
    "canceled": (lambda **more: Talker(card("talker"), **more), record_canceled),
    "streamed": (lambda **more: Counter(card("counter"), **more), record_streamed),
    "approved": (clerk, record_approved),
    "denied": (clerk, record_denied),
    "approval_denied": (clerk, record_denied),
    "approval_expires": (lambda **more: clerk(expires_s=3600, **more), record_approved),
    "recovered": (lambda **more: Talker(card("talker"), recovery="resume", **more), record_recovered),
}


async def record(name: str, folder: Path) -> None:
    make, play = LOGS[name]
    if name == "recovered":
        command = [sys.executable, __file__, "--die", str(folder / "store.db")]
        subprocess.run(command, env={**os.environ, "PLGRPC_RECORD_DIES": "1"}, check=False)
    agent = make(store=SQLiteStore(str(folder / "store.db")))
    async with agent:
        task_id = await play(AgentClient(url=agent.card.url), agent)
        async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
            stub = agent_service_pb2_grpc.AgentServiceStub(channel)
            stop = agent_service_pb2.STOP_AT_CURRENT
            request = agent_service_pb2.SubscribeTaskRequest(task_id=task_id, stop_at=stop)
            log = agent_service_pb2.SubscribeTaskResponse()
            async for response in stub.SubscribeTask(request):
                log.events.extend(response.events)
            answer = await stub.GetTask(agent_service_pb2.GetTaskRequest(task_id=task_id, view=task_pb2.TASK_VIEW_FULL))
    Path(HERE, f"{name}.binpb").write_bytes(log.SerializeToString())
    text = json_format.MessageToJson(answer.task, indent=2, sort_keys=True)
    Path(HERE, f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{name}: {len(log.events)} events, {log.ByteSize()} bytes")


def main() -> None:
    if sys.argv[1:2] == ["--die"]:
        dies()
    for name in sys.argv[1:] or [name for name in LOGS if not Path(HERE, f"{name}.binpb").exists()]:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(record(name, Path(folder)))


if __name__ == "__main__":
    main()
