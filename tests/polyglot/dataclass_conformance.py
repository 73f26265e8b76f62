"""The conformance program of the dataclass client: examples/dataclass_client.py and the stubs of gen/betterproto only.

It runs the cases in the order of `plgrpc conformance`, each in a thread that it can leave behind.
"""

import base64
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "gen/betterproto"), str(ROOT / "examples")]

import betterproto2  # noqa: E402  # after the paths above, as are the others
from calculator_dataclasses.acme.calculator import v1 as calculator_v1  # noqa: E402
from dataclass_client import CallError, Client, text_input, typed_errors  # noqa: E402
from dataclass_sessions import Sessions, resumed  # noqa: E402
from dataclass_streams import resumed_calls  # noqa: E402
from grpc import StatusCode  # noqa: E402
from plgrpc_dataclasses import v1  # noqa: E402

CASE_S = 60.0
"""How long one case may take."""

DEVIATIONS = {
    "time.last": "nanoseconds: a datetime ends at microseconds",
    "time.leap_day": "nanoseconds: a datetime ends at microseconds",
    "wire.last_arm_counts": "two arms of a oneof in one message: both stay set",
    "wire.merged": "a message in two pieces: the last one replaces the first",
}
"""Vectors that betterproto2 0.10 reads otherwise, and how. One that it reads well must leave this list."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SkipError(Exception):
    """A case that cannot be run here, or not whole; says why."""


class World:
    """Where the stage is: what `plgrpc conformance run` has set."""

    def __init__(self) -> None:
        self.url = os.environ["PLGRPC_AGENT"]
        self.agent = Client(self.url)
        self.hostile_url = os.environ.get("PLGRPC_HOSTILE", "")
        self.guarded = os.environ.get("PLGRPC_GUARDED", "")
        self.api_key = os.environ.get("PLGRPC_API_KEY", "")
        self.bearer = os.environ.get("PLGRPC_BEARER", "")
        self.registry = Client(os.environ["PLGRPC_REGISTRY"]).registry
        self.calculator_url = os.environ.get("PLGRPC_CALCULATOR", "")
        self.vectors = os.environ.get("PLGRPC_VECTORS", "")


def expect(what: str, found: object, wanted: object) -> None:
    """Raises AssertionError, with both values, where they differ."""
    if found != wanted:
        raise AssertionError(f"{what} is {found!r:.200}, not {wanted!r:.200}")


def output(task: v1.Task) -> str:
    """The text of its last message."""
    return text_of(task.messages[-1].parts)


def text_of(parts: list[v1.Part]) -> str:
    return "".join(part.text or "" for part in parts)


def get(world: World, task_id: str) -> v1.Task:
    return world.agent.get(task_id)


def stop(world: World, task_id: str, reason: str) -> None:
    with typed_errors():
        world.agent.agent.cancel_task(v1.CancelTaskRequest(task_id=task_id, reason=reason))


def collected(events: Iterator[v1.RunEvent]) -> list[v1.RunEvent]:
    """All events of a stream that must number them without a gap and end with the last one."""
    found = list(events)
    expect("the list of sequences", [event.sequence for event in found], list(range(1, len(found) + 1)))
    expect("whether the last event is final", found[-1].last, True)
    return found


def expect_counted(events: list[v1.RunEvent], upto: int) -> None:
    updates = [event.task_artifact for event in events if event.task_artifact is not None]
    found = [text_of(each.artifact.parts) for each in updates if each.artifact is not None]
    expect("the list of artifacts", found, [str(number + 1) for number in range(upto)])


@contextmanager
def refused_with(code: StatusCode, reason: str) -> Iterator[list[CallError]]:
    """The block must raise that error; it is in the list afterwards."""
    caught: list[CallError] = []
    try:
        yield caught
    except CallError as error:
        expect("the error", (error.code, error.reason), (code, reason))
        caught.append(error)
        return
    raise AssertionError(f"nothing was refused with {reason}")


def unary(world: World) -> None:
    task = world.agent.send(text_input("echo héllo 世界"))
    expect("the state", task.state, v1.TaskState.COMPLETED)
    expect("the output", output(task), "héllo 世界")


def stream(world: World) -> None:
    expect_counted(collected(world.agent.stream(text_input("count 100"))), 100)


def resume(world: World) -> None:
    expect_counted(collected(world.agent.stream(text_input("cut 40 count 100"))), 100)


def cancel(world: World) -> None:
    given, states = text_input("wait"), []
    task_id = given.task_id
    for event in world.agent.stream(given):
        if event.task_status is not None:
            states.append(event.task_status.new_state)
            if event.task_status.new_state == v1.TaskState.WORKING:
                stop(world, task_id, "enough")
    expect("the last state of the stream", states[-1], v1.TaskState.CANCELED)
    now = get(world, task_id)
    expect("the state", now.state, v1.TaskState.CANCELED)
    expect("the reason", now.cancel_reason, "enough")


def deadline(world: World) -> None:
    given, began = text_input("wait"), time.monotonic()
    task_id = given.task_id
    try:
        Client(world.url, timeout_s=0.3).send(given)
    except CallError as error:
        expect("the code", error.code, StatusCode.DEADLINE_EXCEEDED)
    else:
        raise AssertionError("nothing was refused with DEADLINE_EXCEEDED")
    if time.monotonic() - began > 3:
        raise AssertionError("the deadline was noticed after more than 3 s")
    expect("the state", get(world, task_id).state, v1.TaskState.WORKING)
    stop(world, task_id, "seen")


def errors(world: World) -> None:
    unknown_id = str(uuid.uuid4())
    with refused_with(StatusCode.NOT_FOUND, "TASK_NOT_FOUND") as missing:
        get(world, unknown_id)
    expect("metadata task_id", missing[0].metadata.get("task_id"), unknown_id)
    with refused_with(StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT") as refused:
        world.agent.send(text_input("echo too long", "x" * 200))
    expect("the fields", list(refused[0].fields), ["input.task_id"])
    done = world.agent.send(text_input("echo done"))
    with refused_with(StatusCode.FAILED_PRECONDITION, "TASK_NOT_CANCELABLE"):
        stop(world, done.id, "too late")


def metadata(world: World) -> None:
    for headers in ({"x-api-key": world.api_key}, {"authorization": f"Bearer {world.bearer}"}):
        task = Client(world.guarded, headers).send(text_input("whoami"))
        expect("the principal", output(task), "conformance")
    with refused_with(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"):
        Client(world.guarded).send(text_input("whoami"))
    task = Client(world.url, {"x-conformance": "hello"}).send(text_input("header x-conformance"))
    expect("what was received", output(task), "hello")


def retry(world: World) -> None:
    token = uuid.uuid4().hex
    expect("the output", output(world.agent.send(text_input(f"flaky 2 {token}"))), f"{token} ran 1 times")
    token, request_id = uuid.uuid4().hex, uuid.uuid4().hex
    first, second = (world.agent.send(text_input(f"count-runs {token}"), request_id) for _ in range(2))
    expect("the second id", second.id, first.id)
    for task in (first, second):
        expect("the output", output(task), f"{token} ran 1 times")


def large(world: World) -> None:
    text = "0123456789" * 300_000
    if output(world.agent.send(text_input(f"echo {text}"))) != text:
        raise AssertionError("the text did not come back whole")


def approval(world: World) -> None:
    for approved, answer in ((True, "approved"), (False, "refused")):
        events = []
        for event in world.agent.stream(text_input("approve it")):
            events.append(event)
            if event.event_type == "approval.required":
                respond(world, event.task_id, approved=approved)
        status, messages = events[-1].task_status, [each.task_messages for each in events if each.task_messages]
        expect("the last state of the stream", status and status.new_state, v1.TaskState.COMPLETED)
        expect("the output", text_of(messages[-1].messages[-1].parts), answer)


def respond(world: World, task_id: str, *, approved: bool, approver: Client | None = None) -> None:
    """Answer the one approval of a task; no other answer may have been first."""
    with typed_errors():
        (waiting,) = world.agent.control.list_approvals(v1.ListApprovalsRequest(task_id=task_id)).approvals
        verdict = v1.ApprovalVerdict.APPROVE if approved else v1.ApprovalVerdict.DENY
        answer = v1.RespondApprovalRequest(
            approval_id=waiting.approval_id, verdict=verdict, etag=waiting.etag, request_id=uuid.uuid4().hex
        )
        response = (approver or world.agent).control.respond_approval(answer)
    expect("whether another answer was first", response.already_decided, False)


def budget(world: World) -> None:
    price = v1.Cost(micros=200_000, currency="USD")
    usage = expect_spent(world, "spend 9", v1.Budget(max_cost=price), "max_cost")
    expect("the costs", usage.costs, [price])
    expect("the number of model calls", usage.llm_calls, 2)
    usage = expect_spent(world, "spend 9", v1.Budget(max_tool_calls=2), "max_tool_calls")
    expect("the number of tool calls", usage.tool_calls, 2)
    limit = timedelta(milliseconds=300)
    usage = expect_spent(world, "ponder", v1.Budget(max_runtime=limit), "max_runtime_seconds")
    expect("whether the run had its time", limit <= (usage.runtime or timedelta()) < timedelta(seconds=5), True)
    task = limited("spend 2", v1.Budget(max_cost=price))
    done = world.agent.send(task).artifacts[-1].parts[-1].infer_output
    expect("the output", done and done.text, "spent 2")


def limited(text: str, limits: v1.Budget) -> v1.TaskInput:
    return replace(text_input(text), options=v1.RunOptions(budget=limits))


def expect_spent(world: World, text: str, limits: v1.Budget, limit: str) -> v1.Usage:
    """The run of the text must end as failed because of that limit; returns what it has used, as its log and the task say."""
    last = collected(world.agent.stream(limited(text, limits)))[-1]
    task, status = get(world, last.task_id), last.task_status
    if status is None or status.failure is None or status.failure.details is None or status.usage is None:
        raise AssertionError(f"the last event has no failure or no usage: {last!r:.200}")
    expect("the state", task.state, v1.TaskState.FAILED)
    expect("the failure of the task", task.failure, status.failure)
    expect("the usage of the task", task.usage, status.usage)
    failure = status.failure
    expect("the reason", (failure.reason, failure.category), ("BUDGET_EXCEEDED", v1.FailureCategory.LIMIT))
    expect("whether the same work may succeed later", failure.retryable, False)
    expect("the limit", json.loads(status.failure.details.json or "{}").get("limit_name"), limit)
    return status.usage


def registry(world: World) -> None:
    with typed_errors():
        found = world.registry.get_agent(v1.GetAgentRequest(name="conformance")).agent
        expect("the URL by name", found and found.card and found.card.interfaces[0].url, world.url)
        expect("the state", found and found.state, v1.InstanceState.UP)
        tagged = world.registry.list_agents(v1.ListAgentsRequest(filter=v1.AgentFilter(tags=["scripted"])))
        expect("the names by tag", [each.card and each.card.name for each in tagged.agents], ["conformance"])
        expect_watched(world.registry, f"temp-{uuid.uuid4().hex[:8]}")


def tool(world: World) -> None:
    names: list[str] = []
    page = v1.ListToolsResponse(next_page_token="")
    while not names or page.next_page_token:
        with typed_errors():
            page = world.agent.control.list_tools(v1.ListToolsRequest(page_size=2, page_token=page.next_page_token))
        names += [f"{each.name} {each.read_only}" for each in page.tools]
    expect("the tools", names, ["echo True", "hold False", "stamp False"])
    echo = v1.ToolCall(tool_name="echo", arguments=v1.Payload(json='{"text": "hi"}'))
    called = world.agent.call_tool(v1.CallToolRequest(call=echo))
    expect("the result", called.output and called.output.result and called.output.result.json, '"hi"')
    expect("the state", get(world, called.task_id).state, v1.TaskState.COMPLETED)
    held = v1.CallToolRequest(call=v1.ToolCall(tool_name="hold"), task_id=str(uuid.uuid4()))
    try:
        Client(world.url, timeout_s=0.3).call_tool(held)
    except CallError as error:
        expect("the code", error.code, StatusCode.DEADLINE_EXCEEDED)
    else:
        raise AssertionError("nothing was refused with DEADLINE_EXCEEDED")
    expect("the state", get(world, held.task_id).state, v1.TaskState.WORKING)
    stop(world, held.task_id, "seen")


def typed_call(world: World) -> None:
    # The stubs of betterproto take no metadata of a single call, so that headers need a client of their own.
    lost, request_id, word = {"x-lost-answers": "2"}, {"x-request-id": uuid.uuid4().hex}, uuid.uuid4().hex

    def stub(headers: dict[str, str]) -> calculator_v1.CalculatorStub:
        return calculator_v1.CalculatorStub(Client(world.calculator_url, headers).calls)

    def accumulate(amount: int, headers: dict[str, str]) -> int | None:
        total = stub(headers).accumulate(calculator_v1.AccumulateRequest(name=word, amount=amount)).result
        return total and total.value

    expect("the sum", stub(lost).add(calculator_v1.AddRequest(a=20, b=22)).result, 42)
    expect("the sum with a default", stub({}).add(calculator_v1.AddRequest(a=40)).result, 42)
    expect("the total", accumulate(42, lost), 42)
    expect("the total afterwards", accumulate(0, {}), 42)
    totals = [accumulate(1, lost | request_id), accumulate(1, request_id)]
    expect("the totals of one request", totals, [43, 43])
    with refused_with(StatusCode.INVALID_ARGUMENT, "TOOL_REJECTED") as rejected, typed_errors():
        stub({}).accumulate(calculator_v1.AccumulateRequest(amount=1))
    expect("the fields", list(rejected[0].fields), ["name"])
    with refused_with(StatusCode.INVALID_ARGUMENT, "TOOL_REJECTED") as rejected, typed_errors():
        stub({}).divide(calculator_v1.DivideRequest(dividend=1.0))
    expect("the fields", list(rejected[0].fields), ["divisor"])
    with typed_errors():
        task = (
            Client(world.calculator_url).agent.get_task(v1.GetTaskRequest(task_id=rejected[0].metadata["task_id"])).task
        )
    expect("whether the error names a task", task is not None, True)


def typed_stream(world: World) -> None:
    request_id, word = {"x-request-id": uuid.uuid4().hex}, uuid.uuid4().hex

    def count(name: str, times: int, headers: dict[str, str]) -> list[int]:
        stub = calculator_v1.CalculatorStub(resumed_calls(Client(world.calculator_url, headers)))
        return [response.result for response in stub.count(calculator_v1.CountRequest(name=name, times=times))]

    expect("the totals", count(word, 50, {"x-cut-after": "20 10 30"}), list(range(1, 51)))
    totals = [count(word, 10, request_id | {"x-cut-after": "3"}), count(word, 10, request_id)]
    expect("the totals of one request", totals, [list(range(51, 61))] * 2)
    calculator = calculator_v1.CalculatorStub(Client(world.calculator_url).calls)
    total = calculator.accumulate(calculator_v1.AccumulateRequest(name=word)).result
    expect("the total afterwards", total and total.value, 60)
    with refused_with(StatusCode.INVALID_ARGUMENT, "TOOL_REJECTED") as rejected, typed_errors():
        count("", 1, {})
    expect("the fields", list(rejected[0].fields), ["name"])


def references(_world: World) -> None:
    raise SkipError("the example shows events as they are sent: an action has its arguments in an earlier event")


def sessions(world: World) -> None:
    chat, session_id, word = Sessions(world.agent), f"chat-{uuid.uuid4().hex}", uuid.uuid4().hex
    texts = {"first": "wait", "second": f"flaky 2 {word}", "third": "cut 40 count 100"}
    turns = [chat.submit(session_id, text, turn_id) for turn_id, text in texts.items()]
    states = [v1.TurnState.ACTIVE, v1.TurnState.QUEUED, v1.TurnState.QUEUED]
    expect("the states", [turn.state for turn in turns], states)
    again = chat.submit(session_id, "echo other", "second")
    expect("the task of the repeated turn", again.task_id, turns[1].task_id)
    events = []
    for event in chat.stream(session_id, "third"):
        if event.sequence == 1:
            interrupted = chat.calls.interrupt_turn(v1.InterruptTurnRequest(session_id=session_id, reason="enough"))
            expect("the interrupted turns", [turn.turn_id for turn in interrupted.turns], ["first"])
        events.append(event)
    expect_counted(collected(iter(events)), 100)
    page = chat.calls.get_session(v1.GetSessionRequest(session_id=session_id))
    results = [v1.TaskState.CANCELED, v1.TaskState.COMPLETED, v1.TaskState.COMPLETED]
    expect("the results", [turn.result for turn in page.turns], results)
    expect("the output", output(get(world, turns[1].task_id)), f"{word} ran 1 times")
    end = page.session.position if page.session else 0
    rest = read_session(chat, session_id, end // 2, end)  # this stream is cut
    all_items = read_session(chat, session_id, 0, end)
    expect("the list of positions", [position for position, _ in all_items], list(range(1, end + 1)))
    expect("whether the rest is exact", rest == all_items[end // 2 :], True)
    with refused_with(StatusCode.FAILED_PRECONDITION, "TURN_NOT_QUEUED"), typed_errors():
        chat.calls.remove_queued_turn(v1.RemoveQueuedTurnRequest(session_id=session_id, turn_id="third"))
    with refused_with(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"), typed_errors():
        chat.calls.get_session(v1.GetSessionRequest(session_id=f"{session_id}-unknown"))
    change_session(world, chat, session_id)


def change_session(world: World, chat: Sessions, session_id: str) -> None:
    """Edit, roll back, branch, resume, export and delete a session with the turns `first`, `second` and `third`."""
    chat.submit(session_id, "wait", "fourth")
    fifth = chat.submit(session_id, "echo five", "fifth")
    messages = text_input("echo six").messages
    chat.calls.update_queued_turn(v1.UpdateQueuedTurnRequest(session_id=session_id, turn_id="fifth", messages=messages))
    chat.calls.interrupt_turn(v1.InterruptTurnRequest(session_id=session_id))
    collected(chat.stream(session_id, "fifth"))
    expect("the replaced input", output(get(world, fifth.task_id)), "six")
    for _ in range(2):  # the repetition changes nothing
        thread = chat.calls.rollback_thread(v1.RollbackThreadRequest(session_id=session_id, turn_id="fourth")).thread
        expect("the number of rollbacks", thread and thread.rollback_count, 1)
    turns = chat.calls.get_session(v1.GetSessionRequest(session_id=session_id)).turns
    expect("the turns that are rolled back", [each.turn_id for each in turns if each.rolled_back], ["fourth", "fifth"])
    request = v1.StartThreadRequest(
        session_id=session_id, thread_id="side", from_thread_id="default", from_turn_id="second"
    )
    branch = chat.calls.start_thread(request).thread
    expect("the branch", branch and (branch.from_thread_id, branch.from_turn_id), ("default", "second"))
    resumed = chat.calls.resume_thread(v1.ResumeThreadRequest(session_id=session_id))
    expect("what the thread waits for", resumed, v1.ResumeThreadResponse())
    whole = list(chat.runtime_events(session_id, stop_at_end=True))
    middle = len(whole) // 2
    rest = list(chat.runtime_events(session_id, whole[middle - 1].sequence, stop_at_end=True))
    expect("whether the rest of the runtime events is exact", rest == whole[middle:], True)
    deleted = chat.calls.delete_session(v1.DeleteSessionRequest(session_id=session_id))
    expect("the deleted turns", deleted.turn_count, 5)
    with refused_with(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"), typed_errors():
        chat.calls.get_session(v1.GetSessionRequest(session_id=session_id))
    with refused_with(StatusCode.NOT_FOUND, "TASK_NOT_FOUND"):
        get(world, fifth.task_id)


def read_session(chat: Sessions, session_id: str, after: int, end: int) -> list[tuple[int, Any]]:
    """The events of a session after a position, up to another one."""
    found: list[tuple[int, Any]] = []
    with closing(chat.subscribe(session_id, after)) as items:
        for item in items:
            found.append(item)
            if item[0] >= end:
                break
    return found


def tasks(world: World) -> None:
    stub, word = v1.TaskControlServiceStub(world.agent.calls), uuid.uuid4().hex
    first = draft(stub, f"echo {word}", description=v1.TaskDescription(title="First"))
    blocker = v1.TaskLink(kind=v1.LinkKind.BLOCKED_BY, target=first.task_id)
    second = draft(stub, "echo second", links=[blocker])
    expect("the statuses of drafts", [first.status, second.status], [v1.TaskStatus.DRAFT] * 2)
    blocked = stub.start_task(v1.StartTaskRequest(task_id=second.task_id)).snapshot
    expect("the status of a blocked task", blocked and blocked.status, v1.TaskStatus.BLOCKED)
    cycle = v1.TaskLink(kind=v1.LinkKind.BLOCKED_BY, target=second.task_id)
    with refused_with(StatusCode.FAILED_PRECONDITION, "LINK_CYCLE"), typed_errors():
        stub.link_tasks(v1.LinkTasksRequest(task_id=first.task_id, link=cycle))
    request = v1.UpdateTaskRequest(
        task_id=first.task_id,
        description=v1.TaskDescription(title="The first"),
        metadata_json=json.dumps({"word": word}),
    )
    updated = stub.update_task(request).snapshot or v1.TaskSnapshot()
    expect("the description", updated.description, v1.TaskDescription(title="The first"))
    expect("the metadata", json.loads(updated.metadata_json), {"word": word})
    drafts = stub.list_task_snapshots(v1.ListTaskSnapshotsRequest(statuses=[v1.TaskStatus.DRAFT])).snapshots
    listed = {each.task_id for each in drafts}
    expect("whether the draft is listed", (first.task_id in listed, second.task_id in listed), (True, False))
    stub.start_task(v1.StartTaskRequest(task_id=first.task_id))
    collected(subscribed(world, second.task_id))
    expect("the outputs", [output(get(world, each.task_id)) for each in (first, second)], [word, "second"])
    pause_and_retry(world, stub, first.task_id)
    work_outside(world, stub)
    with refused_with(StatusCode.NOT_FOUND, "TASK_NOT_FOUND"), typed_errors():
        stub.get_task_snapshot(v1.GetTaskSnapshotRequest(task_id=str(uuid.uuid4())))


def draft(stub: v1.TaskControlServiceStub, text: str, **more: Any) -> v1.TaskSnapshot:
    request = v1.CreateTaskRequest(input=text_input(text), request_id=uuid.uuid4().hex, **more)
    return stub.create_task(request).snapshot or v1.TaskSnapshot()


def snapshot_of(stub: v1.TaskControlServiceStub, task_id: str) -> v1.TaskSnapshot:
    return stub.get_task_snapshot(v1.GetTaskSnapshotRequest(task_id=task_id)).snapshot or v1.TaskSnapshot()


def subscribed(world: World, task_id: str, after: int = 0) -> Iterator[v1.RunEvent]:
    """The events of a task after a sequence, up to its end. Only the agent ends the stream: a retry may follow an end."""
    request = v1.SubscribeTaskRequest(task_id=task_id, after_sequence=after)
    with closing(resumed(world.agent.agent.subscribe_task, request, may_end=True)) as responses:
        for event in (each for response in responses for each in response.events):
            request.after_sequence = event.sequence
            yield event


def pause_and_retry(world: World, stub: v1.TaskControlServiceStub, other: str) -> None:
    """Pause a task whose run has not begun, because another task blocks it; retry it after its end."""
    blocker = draft(stub, "wait")
    stub.start_task(v1.StartTaskRequest(task_id=blocker.task_id))
    late = v1.TaskLink(kind=v1.LinkKind.BLOCKED_BY, target=other)
    with refused_with(StatusCode.FAILED_PRECONDITION, "TASK_STARTED"), typed_errors():
        stub.link_tasks(v1.LinkTasksRequest(task_id=blocker.task_id, link=late))
    task_id = draft(
        stub, "echo later", links=[v1.TaskLink(kind=v1.LinkKind.BLOCKED_BY, target=blocker.task_id)]
    ).task_id
    stub.start_task(v1.StartTaskRequest(task_id=task_id))
    stub.pause_task(v1.PauseTaskRequest(task_id=task_id, reason="lunch"))
    stop(world, blocker.task_id, "enough")
    next(event for event in subscribed(world, task_id) if event.event_type == "task.paused")
    paused = snapshot_of(stub, task_id)
    expect("the status of a paused task", (paused.status, paused.status_reason), (v1.TaskStatus.PAUSED, "lunch"))
    stub.resume_task(v1.ResumeTaskRequest(task_id=task_id))
    collected(subscribed(world, task_id))
    ended = snapshot_of(stub, task_id)
    stub.retry_task(v1.RetryTaskRequest(task_id=task_id, reason="again", request_id=uuid.uuid4().hex))
    expect("whether the retry has ended", [*subscribed(world, task_id, ended.sequence)][-1].last, True)
    retried = snapshot_of(stub, task_id)
    runs = (retried.status, retried.retry_count, retried.attempt_count)
    expect("the runs", runs, (v1.TaskStatus.COMPLETED, 1, 2))


def work_outside(world: World, stub: v1.TaskControlServiceStub) -> None:
    """Start, report, complete and fail tasks whose work is done outside of the agent."""
    task_id = draft(stub, "by hand").task_id
    started = stub.start_task(v1.StartTaskRequest(task_id=task_id, external=True)).snapshot
    expect("the work", started and (started.external, started.state), (True, v1.TaskState.WORKING))
    half = v1.AppendTaskProgressRequest(task_id=task_id, progress=50, message="half", request_id=uuid.uuid4().hex)
    reported = stub.append_task_progress(half).snapshot
    expect("the progress", reported and reported.progress, v1.TaskProgress(progress=50, message="half"))
    evidence = v1.TaskLink(kind=v1.LinkKind.EVIDENCE, target="https://example.com/report")
    linked = stub.link_tasks(v1.LinkTasksRequest(task_id=task_id, link=evidence)).snapshot or v1.TaskSnapshot()
    expect("the links", [each.link and each.link.target for each in linked.links], [evidence.target])
    unlinked = stub.unlink_tasks(v1.UnlinkTasksRequest(task_id=task_id, link=evidence)).snapshot
    expect("the links that are left", unlinked and unlinked.links, [])
    answer = v1.Message(role=v1.MessageRole.AGENT, parts=[v1.Part(text="done")])
    completion = v1.CompleteTaskRequest(task_id=task_id, messages=[answer])
    done = stub.complete_task(completion).snapshot
    expect("the completed task", done and (done.status, done.message_count), (v1.TaskStatus.COMPLETED, 2))
    expect("the output", output(get(world, task_id)), "done")
    with refused_with(StatusCode.FAILED_PRECONDITION, "TASK_FINISHED"), typed_errors():
        stub.fail_task(v1.FailTaskRequest(task_id=task_id, failure=v1.Failure(message="too late")))
    broken = draft(stub, "by hand").task_id
    stub.start_task(v1.StartTaskRequest(task_id=broken, external=True))
    failed = stub.fail_task(v1.FailTaskRequest(task_id=broken, failure=v1.Failure(message="broken"))).snapshot
    found = failed and (failed.status, failed.failure and failed.failure.message)
    expect("the failed task", found, (v1.TaskStatus.FAILED, "broken"))


def snapshots(world: World) -> None:
    stub, chat = v1.SnapshotServiceStub(world.agent.calls), Sessions(world.agent)
    session_id = f"chat-{uuid.uuid4().hex}"
    chat.submit(session_id, "wait", "first")
    chat.submit(session_id, "echo second", "second")
    found = stub.get_session_snapshot(v1.GetSessionSnapshotRequest(session_id=session_id)).snapshot
    session = (found and found.session) or v1.Session()
    expect("the open turns", [turn.turn_id for turn in session.open_turns], ["first", "second"])
    whole_thread = v1.GetThreadSnapshotRequest(session_id=session_id)
    thread = stub.get_thread_snapshot(whole_thread).snapshot or v1.ThreadSnapshot()
    expect("the thread", (thread.position, thread.status), (session.position, v1.ThreadStatus.RUNNING))
    queue = stub.get_queue_snapshot(v1.GetQueueSnapshotRequest(session_id=session_id)).snapshot or v1.QueueSnapshot()
    queued = [(each.turn and each.turn.turn_id, each.place, each.preview) for each in queue.queued_turns]
    expect("the queue", queued, [("second", 1, "echo second")])
    chat.calls.interrupt_turn(v1.InterruptTurnRequest(session_id=session_id))
    collected(chat.stream(session_id, "second"))
    thread = stub.get_thread_snapshot(whole_thread).snapshot or v1.ThreadSnapshot()
    expect("the status after the last turn", thread.status, v1.ThreadStatus.COMPLETED)

    inventory = stub.get_tool_inventory(v1.GetToolInventoryRequest()).snapshot or v1.ToolInventorySnapshot()
    names = [each.tool and each.tool.name for each in inventory.tools]
    expect("the tools", names, ["echo", "hold", "stamp"])
    spent = world.agent.send(text_input("spend 3")).id
    boundary = stub.get_context_boundary(v1.GetContextBoundaryRequest(task_id=spent)).snapshot
    expect("the model call", boundary and (boundary.prepared_sequence > 0, boundary.step), (True, 3))
    evidence = stub.get_evidence(v1.GetEvidenceRequest(task_id=spent)).snapshot or v1.EvidenceSnapshot()
    calls = v1.ActionCount(kind="tool.call", outcome=v1.ActionOutcome.COMPLETED, count=2)
    expect("the tool calls", calls in evidence.actions, True)
    counted = world.agent.send(text_input("count 3")).id
    artifacts = stub.get_artifacts(v1.GetArtifactsRequest(task_id=counted)).snapshot or v1.ArtifactsSnapshot()
    expect("the artifacts", [each.preview for each in artifacts.artifacts], ["1", "2", "3"])
    unknown = f"{session_id}-unknown"
    with refused_with(StatusCode.NOT_FOUND, "THREAD_NOT_FOUND"), typed_errors():
        stub.get_thread_snapshot(v1.GetThreadSnapshotRequest(session_id=session_id, thread_id="unknown"))
    with refused_with(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"), typed_errors():
        stub.get_session_snapshot(v1.GetSessionSnapshotRequest(session_id=unknown))
    with refused_with(StatusCode.NOT_FOUND, "TASK_NOT_FOUND"), typed_errors():
        stub.get_evidence(v1.GetEvidenceRequest(task_id=unknown))


def expect_watched(registry: v1.RegistryServiceStub, name: str) -> None:
    watch = registry.watch_agents(v1.WatchAgentsRequest(filter=v1.AgentFilter(name=name)))
    first = next(watch)
    expect("what is there at first", first.changes, [])
    expect("whether that was all", first.position and (first.position.reset, first.position.caught_up), (True, True))
    where = v1.AgentInterface(url=f"grpc://{name}.invalid:1", transport="grpc")
    card = v1.AgentCard(name=name, description="Comes and goes.", interfaces=[where])
    lease = registry.register_agent(v1.RegisterAgentRequest(card=card))
    expect("the change", next_change(watch), (v1.AgentChangeKind.UP, name, v1.InstanceState.UP))
    for running in (0, 1):  # the second one reports another load, which a watch does not show
        draining = v1.InstanceState.DRAINING
        registry.renew_lease(v1.RenewLeaseRequest(lease_id=lease.lease_id, state=draining, running=running))
    expect("the change", next_change(watch), (v1.AgentChangeKind.UP, name, draining))
    registry.deregister_agent(v1.DeregisterAgentRequest(lease_id=lease.lease_id))
    expect("the change", next_change(watch), (v1.AgentChangeKind.DOWN, name, draining))
    del watch  # which cancels the call


def next_change(watch: Iterator[v1.WatchAgentsResponse]) -> tuple[v1.AgentChangeKind, str, v1.InstanceState]:
    (change,) = next(response.changes for response in watch if response.changes)
    agent = change.agent or v1.RegisteredAgent()
    return change.kind, agent.card.name if agent.card else "", agent.state


def unknown_event(world: World) -> None:
    events = collected(world.agent.stream(text_input("future")))
    (strange,) = [event for event in events if event.event_type == "example.unheard_of"]
    expect("the summary", strange.summary, "From the future")
    expect("the payload", betterproto2.which_one_of(strange, "payload"), ("", None))


def unknown_part(world: World) -> None:
    events = collected(world.agent.stream(text_input("future")))
    (part,) = [part for event in events if event.task_artifact for part in event.task_artifact.artifact.parts]
    expect("the content", betterproto2.which_one_of(part, "content"), ("", None))
    expect("the text to show", part.fallback_text, "A part from the future")


def unknown_enum(world: World) -> None:
    events = collected(world.agent.stream(text_input("future")))
    expect(
        "the states",
        [int(event.task_status.new_state) for event in events if event.task_status],
        [77, v1.TaskState.COMPLETED],
    )


def missing_event(world: World) -> None:
    given, sequences = text_input("gap 5 count 10"), []
    with refused_with(StatusCode.DATA_LOSS, ""):
        for event in world.agent.stream(given):
            sequences.append(event.sequence)  # noqa: PERF401 -- those before the error count
    expect("the events before the gap", sequences, [1, 2, 3, 4, 5])
    request = v1.SubscribeTaskRequest(task_id=given.task_id, after_sequence=5, stop_at=v1.StopAt.TERMINAL)
    with closing(resumed(world.agent.agent.subscribe_task, request, may_end=True)) as responses:
        rest = [event.sequence for response in responses for event in response.events]
    expect("the events after them", rest, list(range(6, 14)))


def outage(world: World) -> None:
    expect_survived(world, "outage 4000 40 count 100")


def reset(world: World) -> None:
    for code in (8, 2, 0):
        expect_survived(world, f"reset {code} 40 count 100")


def early_ok(world: World) -> None:
    expect_survived(world, "early 40 count 100")


def cut_end(world: World) -> None:
    stub = v1.TaskControlServiceStub(world.agent.calls)
    asked = [*world.agent.stream(text_input("cut-end ask where"))][-1]
    state = asked.task_status and asked.task_status.new_state
    expect("the end of the first turn", state, v1.TaskState.INPUT_REQUIRED)
    ended = [*world.agent.stream(text_input("there", asked.task_id))][-1]
    expect("the end of the second turn", ended.last, True)
    retry = v1.RetryTaskRequest(task_id=asked.task_id, reason="again", request_id=uuid.uuid4().hex)
    for _ in range(2):
        stub.retry_task(retry)
    events = collected(subscribed(world, asked.task_id))
    ends = [event.sequence for event in events if event.last]
    expect("the ends", ends, [ended.sequence, events[-1].sequence])
    expect("the number of retries", sum(event.event_type == "task.retried" for event in events), 1)
    expect("what follows the end", [*subscribed(world, asked.task_id, len(events))], [])


def expect_survived(world: World, text: str) -> None:
    """What breaks the stream of that task must not be seen in it."""
    expect_counted(collected(Client(world.hostile_url).stream(text_input(text))), 100)


def idle_cuts(world: World) -> None:
    task = text_input("idle 5 1100 echo here")
    status = list(impatient(world).stream(task))[-1].task_status
    expect("the last state of the stream", status and status.new_state, v1.TaskState.COMPLETED)
    expect("the output", output(get(world, task.task_id)), "here")


def impatient(world: World) -> Client:
    """A client of the hostile address that soon gives up."""
    return Client(world.hostile_url, patience_s=2.0)


def flapping(world: World) -> None:
    word = uuid.uuid4().hex
    task, began = text_input(f"flap {word}"), time.monotonic()
    with refused_with(StatusCode.UNAVAILABLE, ""):
        list(impatient(world).stream(task))
    expect_given_up(world, task.task_id, word, time.monotonic() - began)


def retry_bound(world: World) -> None:
    word = uuid.uuid4().hex
    task, began = text_input(f"down {word}"), time.monotonic()
    with refused_with(StatusCode.UNAVAILABLE, ""):
        impatient(world).send(task)
    expect_given_up(world, task.task_id, word, time.monotonic() - began)


def deadline_in_outage(world: World) -> None:
    task, began = text_input(f"down {uuid.uuid4().hex}"), time.monotonic()
    with refused_with(StatusCode.DEADLINE_EXCEEDED, ""):
        Client(world.hostile_url, timeout_s=1.0).send(task)
    after_s = time.monotonic() - began
    expect(f"whether it took 1 to 5 s: {after_s:.2f}", 0.95 <= after_s < 5, True)
    stop(world, task.task_id, "seen")


def expect_given_up(world: World, task_id: str, word: str, after_s: float) -> None:
    """The client must have given up in time, after a decent number of calls; the task works on, until it is canceled here."""
    expect("the state", get(world, task_id).state, v1.TaskState.WORKING)
    stop(world, task_id, "seen")
    calls = calls_of(world, word)
    expect("the number of runs", calls["runs"], 1)
    if not 2 <= after_s <= 9:
        raise AssertionError(f"it ended after {after_s:.1f} s")
    if not 3 <= calls["calls"] <= 20:
        raise AssertionError(f"there were {calls['calls']} calls")


def calls_of(world: World, word: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(output(world.agent.send(text_input(f"calls {word}"))))
    return found


def cancel_in_pause(_world: World) -> None:
    raise SkipError("the example blocks its thread in a pause: what would cancel it there is another thread")


def decision_in_cut(world: World) -> None:
    expect_decided(world, "undecided 5 approve it", world.agent, approved=True)
    expect_decided(world, "outage 2000 5 approve it", Client(world.hostile_url), approved=False, pause_s=0.5)


def expect_decided(world: World, text: str, approver: Client, *, approved: bool, pause_s: float = 0) -> None:
    """The task's stream must show the answer once, and what follows from it.

    Args:
        approver: Answers the approval, while the stream of another client is cut.
        pause_s: How long after the stream has shown the question; by then the connection is closed.
    """
    events = []
    for event in Client(world.hostile_url).stream(text_input(text)):
        events.append(event)
        if event.approval_required is not None:
            time.sleep(pause_s)
            respond(world, event.task_id, approved=approved, approver=approver)
    expect("the list of sequences", [event.sequence for event in events], list(range(1, len(events) + 1)))
    answer = v1.ApprovalState.APPROVED if approved else v1.ApprovalState.DENIED
    expect("the answers", [each.approval_decided.state for each in events if each.approval_decided], [answer])
    end = v1.ActionOutcome.COMPLETED if approved else v1.ActionOutcome.DENIED
    expect("the ends of the action", [each.action_ended.outcome for each in events if each.action_ended], [end])
    expect("the output", output(get(world, events[0].task_id)), "approved" if approved else "refused")


def forgotten_task(world: World) -> None:
    seen = []
    with refused_with(StatusCode.NOT_FOUND, "TASK_NOT_FOUND"):
        for event in Client(world.hostile_url).stream(text_input("forget 5 count 100")):
            seen.append(event.sequence)  # noqa: PERF401 -- those before the error count
    expect("the list of sequences", seen, [1, 2, 3, 4, 5])


def mistyped(world: World) -> None:
    with refused_with(StatusCode.NOT_FOUND, "TASK_NOT_FOUND"):
        world.agent.send(text_input("echo lost", "no-such-task"))
    with refused_with(StatusCode.NOT_FOUND, "TASK_NOT_FOUND"):
        list(world.agent.stream(text_input("echo lost", "no-such-task")))


def expected_sequence(world: World) -> None:
    asked = world.agent.send(text_input("ask where"))
    with refused_with(StatusCode.ABORTED, "SEQUENCE_CONFLICT") as refused:
        world.agent.send(text_input("there", asked.id, asked.sequence - 1))
    expect("metadata last_sequence", refused[0].metadata.get("last_sequence"), str(asked.sequence))
    done = world.agent.send(text_input("there", asked.id, asked.sequence))
    expect("the state", done.state, v1.TaskState.COMPLETED)
    expect("the output", output(done), "there")


def credentials(_world: World) -> None:
    for header in ("x-api-key", "authorization"):
        try:
            Client("grpc://agent.example:50051", {header: "never-sent"})
        except ValueError as error:
            expect("whether the sentence has the secret", "never-sent" in str(error), False)
        else:
            raise AssertionError(f"{header} would go unencrypted")


def leak(world: World) -> None:
    word = uuid.uuid4().hex
    task = text_input(f"hold {word}")
    for _ in Client(world.hostile_url).stream(task):
        break
    ends = time.monotonic() + 5
    while calls_of(world, word)["open"]:
        expect("whether the stream is still open after 5 s", time.monotonic() > ends, False)
        time.sleep(0.05)  # what another process has open cannot be waited for
    stop(world, task.task_id, "seen")


def vectors(world: World) -> None:
    if not world.vectors:
        raise SkipError("there is no folder of vectors")
    folder = Path(world.vectors)
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    for entry in index:
        try:
            check_vector(folder, entry)
        except Exception as error:
            if entry["name"] not in DEVIATIONS:
                raise AssertionError(f"vector {entry['name']}: {error}") from error
        else:
            expect(f"whether {entry['name']} is read otherwise", entry["name"] in DEVIATIONS, False)
    deviating = [entry["name"] for entry in index if entry["name"] in DEVIATIONS]
    if deviating:
        reasons = "; ".join(sorted({DEVIATIONS[name] for name in deviating}))
        raise SkipError(f"{len(index) - len(deviating)} of {len(index)} hold; betterproto2 differs in {reasons}")


def check_vector(folder: Path, entry: dict[str, Any]) -> None:
    """Check one vector. Raises AssertionError, or what the classes raise for bytes that are none."""
    kind: type[betterproto2.Message] = getattr(v1, entry["message"].rpartition(".")[2])
    data = (folder / entry["file"]).read_bytes()
    message = kind.parse(data)
    if entry["bytes_equal"] and bytes(message) != data:
        raise AssertionError("its bytes are not the same after a round trip")
    if kind.parse(bytes(message)) != message:
        raise AssertionError("it is another value after a round trip")
    if kind.from_json((folder / entry["json"]).read_text(encoding="utf-8")) != message:
        raise AssertionError("its JSON form is another value")
    for path, wanted in entry["expect"].items():
        found = value_at(message, path)
        if found != wanted or isinstance(found, bool) is not isinstance(wanted, bool):
            raise AssertionError(f"{path} is {found!r:.100}, not {wanted!r:.100}")


def value_at(message: Any, path: str) -> Any:
    """What a path of the index leads to, as the index writes it."""
    value, wide, steps = message, False, path.split(".")
    while steps:
        step = steps.pop(0)
        about: Any = getattr(value, "_betterproto", None)
        if about is not None:
            if step in about.oneof_field_by_group and step not in about.meta_by_field_name:
                return betterproto2.which_one_of(value, step)[0] or None
            wide = about.meta_by_field_name[step].proto_type in (betterproto2.TYPE_INT64, betterproto2.TYPE_UINT64)
            value = getattr(value, step)
            if value is None:
                return None
        elif isinstance(value, list | dict):
            if step == "size" and not steps:
                return len(value)
            value = value[int(step)] if isinstance(value, list) else value[step]
        else:
            return time_field(value, step)
    return written(value, wide=wide)


def time_field(value: datetime | timedelta, field: str) -> Any:
    """Of a Timestamp or a Duration, which are values of Python's here."""
    span = value - EPOCH if isinstance(value, datetime) else value
    micros = span // timedelta(microseconds=1)
    seconds = micros // 1_000_000
    if isinstance(value, timedelta) and seconds < 0 and micros % 1_000_000:
        seconds += 1  # both fields of a Duration have the same sign
    return str(seconds) if field == "seconds" else (micros - seconds * 1_000_000) * 1000


def written(value: Any, *, wide: bool) -> Any:
    match value:
        case betterproto2.Message() | datetime() | timedelta():
            return {}
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case betterproto2.Enum():
            # An unknown one has no name, and its proto_name is an error.
            return (value.proto_name or value.name) if value.name else value.value
        case _:
            return str(value) if wide else value


PROGRAM: tuple[Callable[[World], None], ...] = (
    unary,
    stream,
    resume,
    cancel,
    deadline,
    errors,
    metadata,
    retry,
    large,
    approval,
    budget,
    registry,
    tool,
    typed_call,
    typed_stream,
    references,
    sessions,
    tasks,
    snapshots,
    unknown_event,
    unknown_part,
    unknown_enum,
    missing_event,
    outage,
    reset,
    early_ok,
    cut_end,
    idle_cuts,
    flapping,
    retry_bound,
    deadline_in_outage,
    cancel_in_pause,
    decision_in_cut,
    forgotten_task,
    mistyped,
    expected_sequence,
    credentials,
    leak,
    vectors,
)


def main() -> int:
    """Run every case; 1 where one of them failed."""
    world, failed = World(), 0
    for case in PROGRAM:
        line = outcome(case, world)
        failed += line.startswith("FAIL")
        print(line, flush=True)
    return 1 if failed else 0


def outcome(case: Callable[[World], None], world: World) -> str:
    """The line that reports one case."""
    lines: list[str] = []
    thread = threading.Thread(target=lambda: lines.append(attempt(case, world)), daemon=True)
    thread.start()
    thread.join(CASE_S)
    return lines[0] if lines else f"FAIL {name_of(case)}: it takes longer than {CASE_S:g} s"


def name_of(case: Callable[[World], None]) -> str:
    return case.__name__.replace("_", "-")


def attempt(case: Callable[[World], None], world: World) -> str:
    name, began = name_of(case), time.monotonic()
    try:
        case(world)
    except SkipError as error:
        return f"SKIP {name}: {error}"
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return f"FAIL {name}: {said.removeprefix('AssertionError: ')}"
    return f"PASS {name} {round(1000 * (time.monotonic() - began))}ms"


if __name__ == "__main__":
    sys.exit(main())
