"""The conformance program of the Python client: `plgrpc conformance run -- python -m protolink_grpc.testing.conformance`.

It uses only the public client and its environment variables. Programs in other languages do the same in the same order.
"""

import asyncio
import json
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from protolink_grpc.auth import APIKey, BearerToken
from protolink_grpc.client import AgentClient, RegistryClient
from protolink_grpc.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    LinkCycleError,
    ProtolinkError,
    RemoteError,
    SequenceConflictError,
    SessionNotFoundError,
    TaskFinishedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskStartedError,
    ThreadNotFoundError,
    ToolRejectedError,
    TurnNotQueuedError,
    UnauthenticatedError,
    UnavailableError,
)
from protolink_grpc.models.action import BudgetUsage, PolicyEffect
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.cost import Cost
from protolink_grpc.models.events import (
    ActionEnded,
    ActionRequested,
    ApprovalDecided,
    ApprovalRequired,
    RunEvent,
    TaskArtifactUpdated,
    TaskMessagesAdded,
    TaskProgress,
    TaskStatusChanged,
)
from protolink_grpc.models.failure import FailureCategory
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.session import SessionItem, ThreadResumption, TurnState
from protolink_grpc.models.snapshot import ThreadStatus
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_control import LinkKind, TaskDescription, TaskLink, TaskStatus
from protolink_grpc.models.tool import ToolDescription
from protolink_grpc.net.event_loops import run
from protolink_grpc.testing.cases import CASES
from protolink_grpc.testing.vectors import check_vectors
from protolink_grpc.wire.registry import AgentChangeKind, AgentFilter, InstanceState, InstanceStatus

CASE_S = 60.0
"""Timeout of one case, in seconds."""


class SkipError(Exception):
    """A case cannot be run here; the message is the reason."""


@dataclass(frozen=True, slots=True)
class World:
    """The addresses and credentials of the agents under test."""

    agent: AgentClient
    hostile_url: str
    guarded_url: str
    api_key: str
    bearer: str
    registry: RegistryClient
    calculator: AgentClient
    vectors: str

    @classmethod
    def from_environment(cls) -> "World":
        """Read the environment variables that `plgrpc conformance run` sets."""
        names = ("HOSTILE", "GUARDED", "API_KEY", "BEARER", "VECTORS")
        given = {name: os.environ.get(f"PLGRPC_{name}", "") for name in names}
        return cls(
            AgentClient(url=os.environ["PLGRPC_AGENT"]),
            given["HOSTILE"],
            given["GUARDED"],
            given["API_KEY"],
            given["BEARER"],
            RegistryClient(os.environ["PLGRPC_REGISTRY"]),
            AgentClient(url=os.environ["PLGRPC_CALCULATOR"]),
            given["VECTORS"],
        )

    @property
    def hostile(self) -> AgentClient:
        """A client of the same agent behind the proxy that breaks connections."""
        return AgentClient(url=self.hostile_url)

    @property
    def impatient(self) -> AgentClient:
        """A client of the hostile address with a short retry time."""
        return AgentClient(url=self.hostile_url, outage_s=2.0)

    async def calls(self, word: str) -> dict[str, int]:
        """The number of calls about the task with that word."""
        task = await self.agent.send_task(None, Task.create(f"calls {word}"))
        found: dict[str, int] = json.loads(task.get_output())
        return found


def expect(what: str, found: object, wanted: object) -> None:
    """Raise AssertionError with both values if they differ."""
    if found != wanted:
        raise AssertionError(f"{what} is {found!r:.200}, not {wanted!r:.200}")


def text_of(artifact: Artifact) -> str:
    return "".join(str(part.content) for part in artifact.parts if part.type == "text")


async def collect(events: AsyncIterator[RunEvent]) -> list[RunEvent]:
    """Collect the events of a stream, which must have sequences without a gap and end with the final event."""
    found = [event async for event in events]
    expect("the list of sequences", [event.sequence for event in found], list(range(1, len(found) + 1)))
    expect("whether the last event is final", found[-1].final, True)
    return found


def expect_counted(events: list[RunEvent], upto: int) -> None:
    artifacts = [event.payload.artifact for event in events if isinstance(event.payload, TaskArtifactUpdated)]
    expect("the list of artifacts", [text_of(each) for each in artifacts], [str(n + 1) for n in range(upto)])


@asynccontextmanager
async def expect_refusal(kind: type[ProtolinkError]) -> AsyncIterator[list[Any]]:
    """Check that the block raises that error, which is then in the yielded list."""
    caught: list[Any] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
        return
    raise AssertionError(f"no call was refused with {kind.reason}")


async def unary(world: World) -> None:
    task = await world.agent.send_task(None, Task.create("echo héllo 世界"))
    expect("the state", task.state, TaskState.COMPLETED)
    expect("the output", task.get_output(), "héllo 世界")


async def stream(world: World) -> None:
    expect_counted(await collect(world.agent.send_task_streaming(None, Task.create("count 100"))), 100)


async def resume(world: World) -> None:
    expect_counted(await collect(world.agent.send_task_streaming(None, Task.create("cut 40 count 100"))), 100)


async def cancel(world: World) -> None:
    task, began = Task.create("wait"), asyncio.Event()

    async def watch() -> list[RunEvent]:
        events = []
        async for event in world.agent.send_task_streaming(None, task):
            events.append(event)
            if event.state is TaskState.WORKING:
                began.set()
        return events

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        await began.wait()
        await world.agent.cancel_task(None, task.id, reason="enough")
    expect("the last state of the stream", watching.result()[-1].state, TaskState.CANCELED)
    now = await world.agent.get_task(task.id)
    expect("the state", now.state, TaskState.CANCELED)
    expect("the reason", now.cancel_reason, "enough")


async def deadline(world: World) -> None:
    task, began = Task.create("wait"), time.monotonic()
    hasty = AgentClient(url=world.agent.url, timeout=0.3)
    async with expect_refusal(DeadlineExceededError):
        await hasty.send_task(None, task)
    if time.monotonic() - began > 3:
        raise AssertionError("the deadline was noticed after more than 3 s")
    expect("the state", (await world.agent.get_task(task.id)).state, TaskState.WORKING)
    await world.agent.cancel_task(None, task.id, reason="seen")


async def errors(world: World) -> None:
    unknown = str(uuid.uuid4())
    async with expect_refusal(TaskNotFoundError) as missing:
        await world.agent.get_task(unknown)
    expect("metadata task_id", missing[0].metadata.get("task_id"), unknown)
    long = Task.create("echo too long")
    long.id = "x" * 200
    async with expect_refusal(InvalidArgumentError) as refused:
        await world.agent.send_task(None, long)
    expect("the field", refused[0].field, "input.task_id")
    done = await world.agent.send_task(None, Task.create("echo done"))
    async with expect_refusal(TaskNotCancelableError):
        await world.agent.cancel_task(None, done.id)


async def metadata(world: World) -> None:
    for who in (APIKey(world.api_key), BearerToken(world.bearer)):
        client = AgentClient(url=world.guarded_url, credentials=who)
        task = await client.send_task(None, Task.create("whoami"))
        expect("the principal", task.get_output(), "conformance")
    async with expect_refusal(UnauthenticatedError):
        await AgentClient(url=world.guarded_url).send_task(None, Task.create("whoami"))
    client = AgentClient(url=world.agent.url, metadata=[("x-conformance", "hello")])
    task = await client.send_task(None, Task.create("header x-conformance"))
    expect("what was received", task.get_output(), "hello")


async def retry(world: World) -> None:
    token = uuid.uuid4().hex
    task = await world.agent.send_task(None, Task.create(f"flaky 2 {token}"))
    expect("the output", task.get_output(), f"{token} ran 1 times")
    token, request = uuid.uuid4().hex, uuid.uuid4().hex
    first, second = [
        await world.agent.send_task(None, Task.create(f"count-runs {token}"), request_id=request) for _ in range(2)
    ]
    expect("the second id", second.id, first.id)
    for task in (first, second):
        expect("the output", task.get_output(), f"{token} ran 1 times")


async def large(world: World) -> None:
    text = "0123456789" * 300_000
    task = await world.agent.send_task(None, Task.create(f"echo {text}"))
    if task.get_output() != text:
        raise AssertionError("the output is not the sent text")


async def approval(world: World) -> None:
    for approved, output in ((True, "approved"), (False, "refused")):
        task, events = Task.create("approve it"), list[RunEvent]()
        async for event in world.agent.send_task_streaming(None, task):
            events.append(event)
            if event.type == "approval.required":
                (waiting,) = (await world.agent.list_approvals(task_id=task.id)).approvals
                await world.agent.respond_approval(None, waiting, approved)
        expect("the last state of the stream", events[-1].state, TaskState.COMPLETED)
        messages = [
            each for event in events if isinstance(event.payload, TaskMessagesAdded) for each in event.payload.messages
        ]
        expect("the output", messages[-1].text, output)


async def budget(world: World) -> None:
    usage = await expect_spent(world, "spend 9", RunBudget(max_cost=Cost(200_000, "USD")), "max_cost")
    expect("the number of model calls", usage.llm_calls, 2)
    expect("the costs", usage.costs, (Cost(200_000, "USD"),))
    usage = await expect_spent(world, "spend 9", RunBudget(max_tool_calls=2), "max_tool_calls")
    expect("the number of tool calls", usage.tool_calls, 2)
    usage = await expect_spent(world, "ponder", RunBudget(max_runtime_seconds=0.3), "max_runtime_seconds")
    expect("whether the run had its time", 0.3 <= usage.runtime_seconds < 5, True)
    task = Task.create("spend 2", budget=RunBudget(max_cost=Cost(200_000, "USD")))
    expect("the output", (await world.agent.send_task(None, task)).get_output(), "spent 2")


async def expect_spent(world: World, text: str, limits: RunBudget, limit: str) -> BudgetUsage:
    """Check that the run of the text fails because of that limit. Returns its usage, which the log and the task must agree on."""
    events = await collect(world.agent.send_task_streaming(None, Task.create(text, budget=limits)))
    task, last = await world.agent.get_task(events[-1].task_id), events[-1].payload
    if not isinstance(last, TaskStatusChanged) or last.failure is None or last.usage is None:
        raise AssertionError(f"the last event has no failure or no usage: {last!r:.200}")
    expect("the state", task.state, TaskState.FAILED)
    expect("the failure of the task", task.failure, last.failure)
    expect("the usage of the task", task.usage, last.usage)
    failure = last.failure
    expect("the reason", (failure.reason, failure.category), ("BUDGET_EXCEEDED", FailureCategory.LIMIT))
    expect("whether the same work may succeed later", failure.retryable, False)
    expect("the limit", (failure.details or {}).get("limit_name"), limit)
    return last.usage


async def registry(world: World) -> None:
    found = await world.registry.get("conformance")
    expect("the URL by name", found.card.url, world.agent.url)
    tagged = await world.registry.list_agents(AgentFilter(tags=["scripted"]))
    expect("the names by tag", [each.card.name for each in tagged], ["conformance"])
    name = f"temp-{uuid.uuid4().hex[:8]}"
    card = AgentCard(name=name, description="Comes and goes.", url=f"grpc://{name}.invalid:1")
    complete = asyncio.Event()
    async with aclosing(world.registry.watch(complete=complete)) as changes:
        expect("the first agent", (await anext(changes)).agent.card.name, "conformance")
        following = asyncio.ensure_future(anext(changes))
        await complete.wait()
        await world.registry.register(card)
        up = await following
        expect("the change", (up.kind, up.agent.card.name), (AgentChangeKind.UP, name))
        for running in (0, 1):  # the second one reports another load, which a watch does not yield
            await world.registry.heartbeat(card.url, InstanceStatus(InstanceState.DRAINING, running))
        draining = await anext(changes)
        expect("the state", (draining.kind, draining.agent.state), (AgentChangeKind.UP, InstanceState.DRAINING))
        await world.registry.unregister(card.url)
        down = await anext(changes)
        expect("the change", (down.kind, down.agent.card.name), (AgentChangeKind.DOWN, name))


async def unknown_event(world: World) -> None:
    events = await collect(world.agent.send_task_streaming(None, Task.create("future")))
    (strange,) = [event for event in events if event.type == "example.unheard_of"]
    expect("the summary", strange.summary, "From the future")
    expect("the payload", strange.payload, None)


async def unknown_part(world: World) -> None:
    events = await collect(world.agent.send_task_streaming(None, Task.create("future")))
    (part,) = [
        part
        for event in events
        if isinstance(event.payload, TaskArtifactUpdated)
        for part in event.payload.artifact.parts
    ]
    expect("the type", part.type, "unknown")
    expect("the text to show", part.content["fallback_text"], "A part from the future")


async def unknown_enum(world: World) -> None:
    events = await collect(world.agent.send_task_streaming(None, Task.create("future")))
    states = [str(event.state) for event in events if event.state is not None]
    expect("the states", states, ["submitted", "unknown-77", "completed"])


async def missing_event(world: World) -> None:
    task, sequences = Task.create("gap 5 count 10"), []
    async with expect_refusal(RemoteError) as gap:
        async for event in world.agent.send_task_streaming(None, task):
            sequences.append(event.sequence)  # noqa: PERF401 -- those before the error count
    expect("the code and the task", (gap[0].code, gap[0].metadata.get("task_id")), ("DATA_LOSS", task.id))
    expect("the events before the gap", sequences, [1, 2, 3, 4, 5])
    rest = [event.sequence async for event in world.agent.subscribe(task.id, after=5)]
    expect("the events after them", rest, list(range(6, 14)))


async def outage(world: World) -> None:
    await expect_survived(world, "outage 4000 40 count 100")


async def reset(world: World) -> None:
    for code in (8, 2, 0):
        await expect_survived(world, f"reset {code} 40 count 100")


async def early_ok(world: World) -> None:
    await expect_survived(world, "early 40 count 100")


async def cut_end(world: World) -> None:
    agent, task, key = world.agent, Task.create("cut-end ask where"), str(uuid.uuid4())
    question = [event async for event in agent.send_task_streaming(None, task)]
    expect("the end of the first turn", question[-1].state, TaskState.INPUT_REQUIRED)
    answer = [event async for event in agent.send_task_streaming(None, "there", task_id=task.id)]
    expect("the end of the second turn", (answer[-1].state, answer[-1].final), (TaskState.COMPLETED, True))
    for _ in range(2):
        await agent.tasks.retry(task.id, reason="again", request_id=key)
    events = await collect(agent.subscribe(task.id))
    ends = [event.sequence for event in events if event.final]
    expect("the ends", ends, [answer[-1].sequence, events[-1].sequence])
    expect("the retries", sum(event.type == "task.retried" for event in events), 1)
    expect("what follows the end", [event async for event in agent.subscribe(task.id, after=len(events))], [])


async def expect_survived(world: World, text: str) -> None:
    """Check that the stream of that task is complete in spite of its fault."""
    expect_counted(await collect(world.hostile.send_task_streaming(None, Task.create(text))), 100)


async def idle_cuts(world: World) -> None:
    task = Task.create("idle 5 1100 echo here")
    events = [event async for event in world.impatient.send_task_streaming(None, task)]
    expect("the last state of the stream", events[-1].state, TaskState.COMPLETED)
    expect("the output", (await world.agent.get_task(task.id)).get_output(), "here")


async def flapping(world: World) -> None:
    word = uuid.uuid4().hex
    task, began = Task.create(f"flap {word}"), time.monotonic()
    async with expect_refusal(UnavailableError):
        async for _ in world.impatient.send_task_streaming(None, task):
            pass
    await expect_given_up(world, task.id, word, time.monotonic() - began)


async def retry_bound(world: World) -> None:
    word = uuid.uuid4().hex
    task, began = Task.create(f"down {word}"), time.monotonic()
    async with expect_refusal(UnavailableError) as refused:
        await world.impatient.send_task(None, task)
    expect("metadata task_id", refused[0].metadata.get("task_id"), task.id)
    await expect_given_up(world, task.id, word, time.monotonic() - began)


async def deadline_in_outage(world: World) -> None:
    hasty = AgentClient(url=world.hostile.url, timeout=1.0)
    task, began = Task.create(f"down {uuid.uuid4().hex}"), time.monotonic()
    async with expect_refusal(DeadlineExceededError) as late:
        await hasty.send_task(None, task)
    after_s = time.monotonic() - began
    expect(f"whether it took 1 to 5 s: {after_s:.2f}", 0.95 <= after_s < 5, True)
    expect("metadata task_id", late[0].metadata.get("task_id"), task.id)
    await world.agent.cancel_task(None, task.id)


async def expect_given_up(world: World, task_id: str, word: str, after_s: float) -> None:
    """Check that the client gave up in time, after a moderate number of calls, and cancel the task, which is still working."""
    expect("the state", (await world.agent.get_task(task_id)).state, TaskState.WORKING)
    await world.agent.cancel_task(None, task_id)
    calls = await world.calls(word)
    expect("the number of runs", calls["runs"], 1)
    if not 2 <= after_s <= 9:
        raise AssertionError(f"it ended after {after_s:.1f} s")
    if not 3 <= calls["calls"] <= 20:
        raise AssertionError(f"there were {calls['calls']} calls")


async def cancel_in_pause(world: World) -> None:
    task, began = Task.create(f"flap {uuid.uuid4().hex}"), asyncio.Event()

    async def watch() -> None:
        async for _ in world.hostile.send_task_streaming(None, task):
            began.set()

    watching = asyncio.ensure_future(watch())
    await began.wait()
    await asyncio.sleep(1)  # the call is in a retry pause by then
    expect("whether the stream has ended by itself", watching.done(), False)
    watching.cancel()
    await asyncio.wait([watching], timeout=0.5)
    expect("whether it was canceled at once", watching.done() and watching.cancelled(), True)
    await world.agent.cancel_task(None, task.id)


async def decision_in_cut(world: World) -> None:
    await expect_decided(world, "undecided 5 approve it", world.agent, True)
    await expect_decided(world, "outage 2000 5 approve it", world.hostile, False, pause_s=0.5)


async def expect_decided(world: World, text: str, approver: AgentClient, approved: bool, pause_s: float = 0) -> None:
    """Check that the task's stream has the answer once, and the end of the action.

    Args:
        approver: The client that answers the approval while the stream of another client is interrupted.
        pause_s: Seconds between the request for the approval and the answer; by then the connection is closed.
    """
    task, events = Task.create(text), list[RunEvent]()
    async for event in world.hostile.send_task_streaming(None, task):
        events.append(event)
        if isinstance(event.payload, ApprovalRequired):
            (waiting,) = (await world.agent.list_approvals(task_id=task.id)).approvals
            await asyncio.sleep(pause_s)
            answer = await approver.respond_approval(None, waiting, approved)
            expect("whether another answer was first", answer.already_decided, False)
    expect("the list of sequences", [event.sequence for event in events], list(range(1, len(events) + 1)))
    answers = [event.payload for event in events if isinstance(event.payload, ApprovalDecided)]
    expect("the answers", [each.decision.approved for each in answers], [approved])
    ends = [event.payload.outcome for event in events if isinstance(event.payload, ActionEnded)]
    expect("the ends of the action", ends, ["completed" if approved else "denied"])
    done = await world.agent.get_task(task.id)
    expect("the output", done.get_output(), "approved" if approved else "refused")


async def forgotten_task(world: World) -> None:
    seen = []
    async with expect_refusal(TaskNotFoundError):
        async for event in world.hostile.send_task_streaming(None, Task.create("forget 5 count 100")):
            seen.append(event.sequence)  # noqa: PERF401 -- those before the error count
    expect("the list of sequences", seen, [1, 2, 3, 4, 5])


async def mistyped(world: World) -> None:
    async with expect_refusal(TaskNotFoundError):
        await world.agent.send_task(None, "echo lost", task_id="no-such-task")
    async with expect_refusal(TaskNotFoundError):
        async for _ in world.agent.send_task_streaming(None, "echo lost", task_id="no-such-task"):
            pass


async def expected_sequence(world: World) -> None:
    agent = world.agent
    events = [event async for event in agent.send_task_streaming(None, "ask where")]
    task_id, last = events[-1].task_id, events[-1].sequence or 0
    async with expect_refusal(SequenceConflictError) as refused:
        await agent.send_task(None, "there", task_id=task_id, expected_sequence=last - 1)
    expect("metadata last_sequence", refused[0].metadata.get("last_sequence"), str(last))
    done = await agent.send_task(None, "there", task_id=task_id, expected_sequence=last)
    expect("the state", done.state, TaskState.COMPLETED)
    expect("the output", done.get_output(), "there")


async def credentials(_world: World) -> None:
    elsewhere, secret = "grpc://agent.example:50051", "never-sent"
    for client in (
        AgentClient(url=elsewhere, credentials=APIKey(secret)),
        AgentClient(url=elsewhere, metadata=[("authorization", secret)]),
    ):
        async with expect_refusal(InvalidArgumentError) as refused:
            await client.get_agent_card()
        expect("whether the sentence has the secret", secret in str(refused[0]), False)


async def leak(world: World) -> None:
    word = uuid.uuid4().hex
    task = Task.create(f"hold {word}")
    async with aclosing(world.hostile.send_task_streaming(None, task)) as events:
        await anext(events)
    async with asyncio.timeout(5):
        while (await world.calls(word))["open"]:  # noqa: ASYNC110 -- what another process has open cannot be awaited
            await asyncio.sleep(0.05)
    await world.agent.cancel_task(None, task.id)


async def vectors(world: World) -> None:
    if not world.vectors:
        raise SkipError("there is no folder of vectors")
    check_vectors(world.vectors)


async def tool(world: World) -> None:
    found: list[ToolDescription] = []
    page = await world.agent.list_tools(page_size=2)
    found += page.tools
    while page.next_page_token:
        page = await world.agent.list_tools(page_size=2, page_token=page.next_page_token)
        found += page.tools
    expect("the tools", [each.name for each in found], ["echo", "hold", "stamp"])
    expect("the hints of echo", (found[0].title, found[0].read_only, found[1].read_only), ("Echo", True, False))
    expect("the arguments of echo", found[0].input_schema.get("required"), ["text"])
    task_id = str(uuid.uuid4())
    expect("the result", await world.agent.call_tool(None, "echo", {"text": "hi"}, task_id=task_id), "hi")
    expect("the state", (await world.agent.get_task(task_id)).state, TaskState.COMPLETED)
    hasty = AgentClient(url=world.agent.url, timeout=0.3)
    async with expect_refusal(DeadlineExceededError) as late:
        await hasty.call_tool(None, "hold")
    task_id = late[0].metadata["task_id"]
    expect("the state", (await world.agent.get_task(task_id)).state, TaskState.WORKING)
    await world.agent.cancel_task(None, task_id, reason="seen")


async def typed_call(world: World) -> None:
    # Made by protoc, as those of `plgrpc gen --lang python`.
    messages, services = grpc.protos_and_services("protolink_grpc/testing/calculator.proto")
    calculator: Any = world.calculator.stub(services.CalculatorStub)
    lost, word = (("x-lost-answers", "2"),), uuid.uuid4().hex

    async def accumulate(amount: int, *headers: tuple[str, str]) -> int:
        request = messages.AccumulateRequest(name=word, amount=amount)
        total: int = (await calculator.Accumulate(request, metadata=headers)).result.value
        return total

    expect("the sum", (await calculator.Add(messages.AddRequest(a=20, b=22), metadata=lost)).result, 42)
    expect("the sum with a default", (await calculator.Add(messages.AddRequest(a=40))).result, 42)
    expect("the total", await accumulate(42, *lost), 42)
    expect("the total afterwards", await accumulate(0), 42)
    request_id = ("x-request-id", uuid.uuid4().hex)
    totals = [await accumulate(1, request_id, *lost), await accumulate(1, request_id)]
    expect("the totals of one request", totals, [43, 43])
    async with expect_refusal(ToolRejectedError) as rejected:
        await calculator.Accumulate(messages.AccumulateRequest(amount=1))
    expect("the fields", [each["path"] for each in rejected[0].details["errors"]], ["name"])
    async with expect_refusal(ToolRejectedError) as rejected:
        await calculator.Divide(messages.DivideRequest(dividend=1))
    expect("the fields", [each["path"] for each in rejected[0].details["errors"]], ["divisor"])
    task_id = rejected[0].metadata["task_id"]
    expect("the id of the task of the error", (await world.calculator.get_task(task_id)).id, task_id)


async def typed_stream(world: World) -> None:
    messages, services = grpc.protos_and_services("protolink_grpc/testing/calculator.proto")
    calculator: Any = world.calculator.stub(services.CalculatorStub)
    word, request_id = uuid.uuid4().hex, ("x-request-id", uuid.uuid4().hex)

    async def count(name: str, times: int, *headers: tuple[str, str]) -> list[int]:
        request = messages.CountRequest(name=name, times=times)
        return [response.result async for response in calculator.Count(request, metadata=headers)]

    expect("the totals", await count(word, 50, ("x-cut-after", "20 10 30")), list(range(1, 51)))
    totals = [await count(word, 10, request_id, ("x-cut-after", "3")), await count(word, 10, request_id)]
    expect("the totals of one request", totals, [list(range(51, 61))] * 2)
    total = (await calculator.Accumulate(messages.AccumulateRequest(name=word))).result.value
    expect("the total afterwards", total, 60)
    async with expect_refusal(ToolRejectedError) as rejected:
        await count("", 1)
    expect("the fields", [each["path"] for each in rejected[0].details["errors"]], ["name"])


async def references(world: World) -> None:
    events = await collect(world.agent.send_task_streaming(None, Task.create("cut 5 spend 3")))
    expect("the arguments", arguments_of(events), [{"text": "1"}, {"text": "2"}])
    task_id = events[0].task_id
    (first, *_) = [event.sequence or 0 for event in events if event.type == "llm.call.completed"]
    rest = [event async for event in world.agent.subscribe(task_id, after=first)]
    expect("the arguments of a log from its middle", arguments_of(rest), [None, {"text": "2"}])
    task_id = str(uuid.uuid4())
    await world.agent.call_tool(None, "echo", {"text": "hi"}, task_id=task_id)
    whole = [event async for event in world.agent.subscribe(task_id)]
    expect("the arguments of a tool that was called", arguments_of(whole), [{"text": "hi"}])
    async for event in world.agent.send_task_streaming(None, Task.create("approve it")):
        if isinstance(event.payload, ApprovalRequired):
            request = event.payload.request
            expect("the action of the approval", request.action.name, "stamp")
            expect("the verdict", request.policy_decision.effect, PolicyEffect.REQUIRE_APPROVAL)
            await world.agent.cancel_task(None, event.task_id, reason="seen")


def arguments_of(events: list[RunEvent]) -> list[object]:
    """The arguments of each requested action; None if they are left out."""
    requested = [event.payload for event in events if isinstance(event.payload, ActionRequested)]
    return [None if each.abridged else each.action.arguments for each in requested]


async def sessions(world: World) -> None:
    chat, session_id, word = world.agent.sessions, f"chat-{uuid.uuid4().hex}", uuid.uuid4().hex
    texts = {"first": "wait", "second": f"flaky 2 {word}", "third": "cut 40 count 100"}
    turns = [await chat.submit(session_id, text, turn_id=turn_id) for turn_id, text in texts.items()]
    expect("the states", [turn.state for turn in turns], [TurnState.ACTIVE, TurnState.QUEUED, TurnState.QUEUED])
    again = await chat.submit(session_id, "echo other", turn_id="second")
    expect("the task of the repeated turn", again.task_id, turns[1].task_id)

    async def interrupt_and_stream() -> AsyncIterator[RunEvent]:
        async for event in chat.stream(session_id, "third"):
            if event.sequence == 1:
                interrupted = await chat.interrupt(session_id, reason="enough")
                expect("the interrupted turns", [turn.turn_id for turn in interrupted], ["first"])
            yield event

    expect_counted(await collect(interrupt_and_stream()), 100)
    page = await chat.get(session_id)
    expect("the turns", [turn.turn_id for turn in page.turns], list(texts))
    results = [TaskState.CANCELED, TaskState.COMPLETED, TaskState.COMPLETED]
    expect("the results", [turn.result for turn in page.turns], results)
    expect("the output", (await world.agent.get_task(turns[1].task_id)).get_output(), f"{word} ran 1 times")
    end = page.session.position
    rest = await read_session(world, session_id, end // 2, end)  # this stream is cut
    whole = await read_session(world, session_id, 0, end)
    expect("the list of positions", [item.position for item in whole], list(range(1, end + 1)))
    expect("whether the rest is exact", rest == whole[end // 2 :], True)
    async with expect_refusal(TurnNotQueuedError):
        await chat.remove(session_id, "third")
    async with expect_refusal(SessionNotFoundError):
        await chat.get(f"{session_id}-unknown")
    await change_session(world, session_id)


async def change_session(world: World, session_id: str) -> None:
    """Edit, roll back, branch, resume, export and delete a session with the turns `first`, `second` and `third`."""
    chat = world.agent.sessions
    await chat.submit(session_id, "wait", turn_id="fourth")
    fifth = await chat.submit(session_id, "echo five", turn_id="fifth")
    await chat.replace_input(session_id, "fifth", "echo six")
    await chat.interrupt(session_id)
    await collect(chat.stream(session_id, "fifth"))
    expect("the replaced input", (await world.agent.get_task(fifth.task_id)).get_output(), "six")
    for attempt in ("roll_back", "repeated roll_back"):
        expect(f"rollbacks after {attempt}", (await chat.roll_back(session_id, "fourth")).rollback_count, 1)
    rolled_back = [turn.turn_id for turn in (await chat.get(session_id)).turns if turn.rolled_back]
    expect("the turns that are rolled back", rolled_back, ["fourth", "fifth"])
    branch = await chat.start_thread(session_id, "side", from_thread="default", from_turn="second")
    expect("the branch", (branch.from_thread_id, branch.from_turn_id), ("default", "second"))
    expect("what the thread waits for", await chat.resume(session_id), ThreadResumption())

    whole = [event async for event in chat.runtime_events(session_id, stop_at_end=True)]
    middle = len(whole) // 2
    after = whole[middle - 1]["sequence"]
    rest = [event async for event in chat.runtime_events(session_id, after=after, stop_at_end=True)]
    expect("whether the rest of the runtime events is exact", rest == whole[middle:], True)
    started = [event["turnId"] for event in whole if event["type"] == "turn.started"]
    expect("the started turns", sorted(started), sorted(["first", "second", "third", "fourth", "fifth"]))
    expect("the deleted turns", (await chat.delete(session_id)).turn_count, 5)
    async with expect_refusal(SessionNotFoundError):
        await chat.get(session_id)
    async with expect_refusal(TaskNotFoundError):
        await world.agent.get_task(fifth.task_id)


async def tasks(world: World) -> None:
    control, word = world.agent.tasks, uuid.uuid4().hex
    first = await control.create(f"echo {word}", description=TaskDescription(title="First"))
    second = await control.create("echo second", links=[TaskLink(LinkKind.BLOCKED_BY, first.task_id)])
    expect("the statuses of drafts", [first.status, second.status], [TaskStatus.DRAFT] * 2)
    expect("the status of a blocked task", (await control.start(second.task_id)).status, TaskStatus.BLOCKED)
    async with expect_refusal(LinkCycleError):
        await control.link(first.task_id, LinkKind.BLOCKED_BY, second.task_id)
    updated = await control.update(
        first.task_id, description=TaskDescription(title="The first"), metadata={"word": word}
    )
    expect("the changes", (updated.description, updated.metadata), (TaskDescription(title="The first"), {"word": word}))
    drafts = [draft.task_id for draft in (await control.list(statuses=[TaskStatus.DRAFT])).snapshots]
    expect("whether the draft is listed", (first.task_id in drafts, second.task_id in drafts), (True, False))
    await control.start(first.task_id)
    await collect(world.agent.subscribe(second.task_id))
    expect("the outputs", [await output_of(world, each.task_id) for each in (first, second)], [word, "second"])
    await pause_and_retry(world, first.task_id)
    await work_outside(world)
    async with expect_refusal(TaskNotFoundError):
        await control.get(str(uuid.uuid4()))


async def pause_and_retry(world: World, other: str) -> None:
    """Pause a task whose run has not begun, because another task blocks it; retry it after its end. `other` is any other task."""
    control = world.agent.tasks
    blocker = await control.create("wait")
    await control.start(blocker.task_id)
    async with expect_refusal(TaskStartedError):
        await control.link(blocker.task_id, LinkKind.BLOCKED_BY, other)
    task = await control.create("echo later", links=[TaskLink(LinkKind.BLOCKED_BY, blocker.task_id)])
    await control.start(task.task_id)
    await control.pause(task.task_id, reason="lunch")
    await world.agent.cancel_task(None, blocker.task_id, reason="enough")
    async with aclosing(world.agent.subscribe(task.task_id)) as events:
        async for event in events:
            if event.type == "task.paused":
                break
    paused = await control.get(task.task_id)
    expect("the status of a paused task", (paused.status, paused.status_reason), (TaskStatus.PAUSED, "lunch"))
    await control.resume(task.task_id)
    await collect(world.agent.subscribe(task.task_id))
    ended = await control.get(task.task_id)
    await control.retry(task.task_id, reason="again")
    again = [event async for event in world.agent.subscribe(task.task_id, after=ended.sequence)]
    expect("whether the retry has ended", again[-1].final, True)
    retried = await control.get(task.task_id)
    expect("the runs", (retried.status, retried.retry_count, retried.attempt_count), (TaskStatus.COMPLETED, 1, 2))


async def work_outside(world: World) -> None:
    """Start, report, complete and fail tasks whose work is done outside of the agent."""
    control = world.agent.tasks
    external = await control.create("by hand")
    started = await control.start(external.task_id, external=True)
    expect("the external work", (started.external, started.state), (True, TaskState.WORKING))
    report = (await control.report_progress(external.task_id, 50, "half")).progress
    expect("the progress", report, TaskProgress(50, "half"))
    evidence = ("evidence", "https://example.com/report")
    linked = await control.link(external.task_id, *evidence, reason="the report")
    expect("the links", [(each.link.kind, each.link.target) for each in linked.links], [evidence])
    expect("the links that are left", (await control.unlink(external.task_id, *evidence)).links, ())
    done = await control.complete(external.task_id, [Message.agent("done")])
    expect("the completed task", (done.status, done.message_count), (TaskStatus.COMPLETED, 2))
    expect("the output of the completed task", await output_of(world, external.task_id), "done")
    async with expect_refusal(TaskFinishedError):
        await control.fail(external.task_id, "too late")
    broken = await control.create("by hand")
    await control.start(broken.task_id, external=True)
    failed = await control.fail(broken.task_id, "broken")
    expect("the failed task", (failed.status, failed.failure and failed.failure.message), (TaskStatus.FAILED, "broken"))


async def snapshots(world: World) -> None:
    reader, session_id = world.agent.snapshots, f"chat-{uuid.uuid4().hex}"
    await world.agent.sessions.submit(session_id, "wait", turn_id="first")
    second = await world.agent.sessions.submit(session_id, "echo second", turn_id="second")
    session, thread = await reader.session(session_id), await reader.thread(session_id)
    expect("the open turns", [turn.turn_id for turn in session.session.open_turns], ["first", "second"])
    expect("the position", thread.position, session.session.position)
    expect("the status of the thread", thread.status, ThreadStatus.RUNNING)
    queued = (await reader.queue(session_id)).queued_turns
    expect(
        "the queue", [(each.turn.turn_id, each.place, each.preview) for each in queued], [("second", 1, "echo second")]
    )
    await world.agent.sessions.interrupt(session_id)
    await collect(world.agent.sessions.stream(session_id, second))
    thread = await reader.thread(session_id)
    expect("the status after the last turn", thread.status, ThreadStatus.COMPLETED)

    expect("the tools", [each.tool.name for each in (await reader.tools()).tools], ["echo", "hold", "stamp"])
    spent = (await world.agent.send_task(None, Task.create("spend 3"))).id
    context = await reader.context(spent)
    expect("the model call", (context.prepared_sequence > 0, context.step), (True, 3))
    actions = [(each.kind, each.outcome, each.count) for each in (await reader.evidence(spent)).actions]
    expect("the tool calls", ("tool.call", "completed", 2) in actions, True)
    counted = (await world.agent.send_task(None, Task.create("count 3"))).id
    artifacts = (await reader.artifacts(counted)).artifacts
    expect("the artifacts", [each.preview for each in artifacts], ["1", "2", "3"])
    async with expect_refusal(ThreadNotFoundError):
        await reader.thread(session_id, "unknown")
    async with expect_refusal(SessionNotFoundError):
        await reader.session(f"{session_id}-unknown")
    async with expect_refusal(TaskNotFoundError):
        await reader.evidence(f"{session_id}-unknown")


async def output_of(world: World, task_id: str) -> object:
    return (await world.agent.get_task(task_id)).get_output()


async def read_session(world: World, session_id: str, after: int, end: int) -> list[SessionItem]:
    """Read the events of a session after a position up to another one."""
    found = []
    async with aclosing(world.agent.sessions.subscribe(session_id, after=after)) as items:
        async for item in items:
            found.append(item)
            if item.position >= end:
                break
    return found


PROGRAM: dict[str, Callable[[World], Awaitable[None]]] = {
    "unary": unary,
    "stream": stream,
    "resume": resume,
    "cancel": cancel,
    "deadline": deadline,
    "errors": errors,
    "metadata": metadata,
    "retry": retry,
    "large": large,
    "approval": approval,
    "budget": budget,
    "registry": registry,
    "tool": tool,
    "typed-call": typed_call,
    "typed-stream": typed_stream,
    "references": references,
    "sessions": sessions,
    "tasks": tasks,
    "snapshots": snapshots,
    "unknown-event": unknown_event,
    "unknown-part": unknown_part,
    "unknown-enum": unknown_enum,
    "missing-event": missing_event,
    "outage": outage,
    "reset": reset,
    "early-ok": early_ok,
    "cut-end": cut_end,
    "idle-cuts": idle_cuts,
    "flapping": flapping,
    "retry-bound": retry_bound,
    "deadline-in-outage": deadline_in_outage,
    "cancel-in-pause": cancel_in_pause,
    "decision-in-cut": decision_in_cut,
    "forgotten-task": forgotten_task,
    "mistyped": mistyped,
    "expected-sequence": expected_sequence,
    "credentials": credentials,
    "leak": leak,
    "vectors": vectors,
}


async def main() -> int:
    """Run every case. Returns 1 if one failed."""
    world, failed = World.from_environment(), 0
    for name in CASES:
        line = await outcome(name, PROGRAM[name], world)
        failed += line.startswith("FAIL")
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return 1 if failed else 0


async def outcome(name: str, case: Callable[[World], Awaitable[None]], world: World) -> str:
    """Run one case and return the line that reports it."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(CASE_S):
            await case(world)
    except SkipError as error:
        return f"SKIP {name}: {error}"
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return f"FAIL {name}: {text.removeprefix('AssertionError: ')}"
    return f"PASS {name} {round(1000 * (time.monotonic() - began))}ms"


if __name__ == "__main__":
    sys.exit(run(main()))
