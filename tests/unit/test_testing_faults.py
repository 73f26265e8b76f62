"""A scripted agent follows its directives, and has exactly the requested faults. Without a network."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from plgrpc.v1 import event_pb2, session_service_pb2

from protolink_grpc import Cost, Message, RunEvent, SessionItem, Task, TaskNotFoundError, TaskState, UnavailableError
from protolink_grpc.models.action import ApprovalDecision, ApprovalState, BudgetUsage
from protolink_grpc.models.task_metadata import USAGE_KEY
from protolink_grpc.models.watch import StopAt
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.testing import ScriptedAgent
from protolink_grpc.testing.directives import SECOND_CUT
from protolink_grpc.testing.faults import FUTURE_FIELD, FUTURE_KIND, UNKNOWN_EVENT_TYPE, FaultyService
from protolink_grpc.wire.events import unframe
from protolink_grpc.wire.sessions import items_from_pb

names = itertools.count()


@pytest.fixture
async def agent() -> AsyncIterator[ScriptedAgent]:
    async with ScriptedAgent(url=f"runtime://scripted-{next(names)}") as scripted:
        yield scripted


@pytest.fixture
async def service(agent: ScriptedAgent) -> FaultyService:
    return FaultyService(await agent._own_service(), agent._scripts)


def told(text: str, request_id: str = "") -> Submission:
    return Submission.of(Task.create(text), request_id=request_id)


async def seen(stream: object, into: list[event_pb2.RunEvent]) -> list[event_pb2.RunEvent]:
    """Collect the events of a stream, including those before a cut."""
    async with aclosing(stream) as batches:  # type: ignore[type-var]  # whichever of the two streams it is
        async for frames in batches:  # type: ignore[attr-defined]  # as above
            into += [unframe(frame) for frame in frames]
    return into


@pytest.mark.parametrize(
    ("text", "state", "output"),
    [
        ("echo héllo 世界", TaskState.COMPLETED, "héllo 世界"),
        ("count 3", TaskState.COMPLETED, "3"),
        ("whoami", TaskState.COMPLETED, "local"),
        ("header x-any", TaskState.COMPLETED, ""),
        ("fail no luck", TaskState.FAILED, None),
        ("spend 3", TaskState.COMPLETED, "spent 3"),
        ("dance", TaskState.REJECTED, None),
    ],
)
async def test_the_agent_follows_its_directives(
    agent: ScriptedAgent, text: str, state: TaskState, output: str | None
) -> None:
    task = await agent.run_task(Task.create(text))
    assert (task.state, task.get_output()) == (state, output)
    assert agent.received == [text]


async def test_each_model_call_has_a_price_and_all_but_the_last_one_are_followed_by_a_tool_call(
    agent: ScriptedAgent,
) -> None:
    task = await agent.run_task(Task.create("spend 3"))
    usage = BudgetUsage.from_dict(task.metadata[USAGE_KEY])
    assert (usage.llm_calls, usage.tool_calls, usage.costs) == (3, 2, (Cost(300_000, "USD"),))


async def test_the_agent_asks_and_repeats_the_answer(agent: ScriptedAgent) -> None:
    task = await agent.run_task(Task.create("ask Where to?"))
    assert (task.state, task.messages[-1].text) == (TaskState.INPUT_REQUIRED, "Where to?")
    task = await agent.run_task(task.add_message(Message.user("count 3")))
    assert (task.state, task.get_output()) == (TaskState.COMPLETED, "count 3")


async def test_given_answers_precede_directives() -> None:
    answers = {"echo x": "y"}
    async with ScriptedAgent(url="runtime://answering", answers=answers) as agent:
        assert [(await agent.run_task(Task.create(text))).get_output() for text in ("echo x", "echo z")] == ["y", "z"]


@pytest.mark.parametrize("later", [False, True])
async def test_a_function_answers_everything(later: bool) -> None:
    async def shout_later(text: str) -> str:
        return text.upper()

    async with ScriptedAgent(url=f"runtime://shouting-{later}", answers=shout_later if later else str.upper) as agent:
        assert (await agent.run_task(Task.create("wait"))).get_output() == "WAIT"


async def test_a_lost_answer_comes_after_the_work(agent: ScriptedAgent, service: FaultyService) -> None:
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await service.send(told("flaky 2 word", "r-1"), "ann")
    fold = await service.send(told("flaky 2 word", "r-1"), "ann")
    assert fold.to_task().get_output() == "word ran 1 times"
    assert agent.received == ["flaky 2 word"]


async def test_a_retry_without_the_request_id_is_counted_as_a_second_run(service: FaultyService) -> None:
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await service.send(told("flaky 2 word"), "ann")
    assert (await service.send(told("flaky 2 word"), "ann")).to_task().get_output() == "word ran 3 times"


async def test_a_lost_stream_yields_no_events(service: FaultyService) -> None:
    events: list[event_pb2.RunEvent] = []
    with pytest.raises(UnavailableError):
        await seen(service.stream(told("flaky 1 word", "r-1"), "ann"), events)
    assert events == []
    assert (await seen(service.stream(told("flaky 1 word", "r-1"), "ann"), events))[-1].last


async def test_a_stream_is_cut_exactly_twice(service: FaultyService) -> None:
    events: list[event_pb2.RunEvent] = []
    lengths = []
    with pytest.raises(UnavailableError):
        await seen(service.stream(told("cut 40 count 100"), "ann"), events)
    task_id = events[0].task_id
    lengths.append(len(events))
    with pytest.raises(UnavailableError):
        await seen(service.watch(task_id, "ann", after=40, stop_at=StopAt.INTERRUPTED), events)
    lengths.append(len(events))
    await seen(service.watch(task_id, "ann", after=70), events)
    assert lengths == [40, 70]
    assert [event.sequence for event in events] == list(range(1, 104))
    assert len(await seen(service.watch(task_id, "ann"), [])) == 103


async def test_a_stream_ends_early_with_ok_once(service: FaultyService) -> None:
    events = await seen(service.stream(told("early 5 count 10"), "ann"), [])
    assert [event.sequence for event in events] == [1, 2, 3, 4, 5]
    await seen(service.watch(events[0].task_id, "ann", after=5), events)
    assert [event.sequence for event in events] == list(range(1, 14))


@pytest.mark.parametrize("place", [1, 5, 12])
async def test_only_the_first_stream_leaves_an_event_out(service: FaultyService, place: int) -> None:
    events = await seen(service.stream(told(f"gap {place} count 10"), "ann"), [])
    assert [event.sequence for event in events] == [each for each in range(1, 14) if each != place + 1]
    whole = await seen(service.watch(events[0].task_id, "ann"), [])
    assert [event.sequence for event in whole] == list(range(1, 14))


@pytest.mark.parametrize("fault", ["outage 60000 5", "reset 8 5"])
async def test_faults_of_the_proxy_only_cut_the_stream_without_it(service: FaultyService, fault: str) -> None:
    events: list[event_pb2.RunEvent] = []
    with pytest.raises(UnavailableError):
        await seen(service.stream(told(f"{fault} count 10"), "ann"), events)
    await seen(service.watch(events[0].task_id, "ann", after=5), events)
    assert [event.sequence for event in events] == list(range(1, 14))


async def test_a_silent_stream_is_cut_as_often_as_requested_and_then_the_work_is_done(service: FaultyService) -> None:
    events: list[event_pb2.RunEvent] = []
    with pytest.raises(UnavailableError):
        await seen(service.stream(told("idle 2 30 echo here"), "ann"), events)
    task_id, after = events[0].task_id, len(events)
    with pytest.raises(UnavailableError):
        await seen(service.watch(task_id, "ann", after=after), events)
    assert len(events) == after
    assert (await seen(service.watch(task_id, "ann", after=after), events))[-1].last
    assert (await service.get(task_id, "ann")).to_task().get_output() == "here"


async def test_a_flapping_task_is_always_cut_and_counted(agent: ScriptedAgent, service: FaultyService) -> None:
    events: list[event_pb2.RunEvent] = []
    with pytest.raises(UnavailableError):
        await seen(service.stream(told("flap word"), "ann"), events)
    task_id = events[0].task_id
    assert len(events) == 1
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await seen(service.watch(task_id, "ann", after=1), events)
    assert len(events) == 1
    assert await said(agent, "calls word") == {"calls": 4, "runs": 1, "open": 0}
    assert (await service.cancel(task_id, "ann")).to_task().state is TaskState.CANCELED


async def test_a_stream_that_is_open_is_counted_until_it_is_closed(
    agent: ScriptedAgent, service: FaultyService
) -> None:
    stream = service.stream(told("hold word"), "ann")
    task_id = unframe((await anext(stream))[0]).task_id
    assert await said(agent, "calls word") == {"calls": 1, "runs": 1, "open": 1}
    await stream.aclose()
    assert await said(agent, "calls word") == {"calls": 1, "runs": 1, "open": 0}
    assert await said(agent, "calls another") == {"calls": 0, "runs": 0, "open": 0}
    await service.cancel(task_id, "ann")


async def said(agent: ScriptedAgent, text: str) -> dict[str, int]:
    found: dict[str, int] = json.loads((await agent.run_task(Task.create(text))).get_output())
    return found


async def test_a_forgotten_task_is_not_found_after_the_cut(service: FaultyService) -> None:
    events: list[event_pb2.RunEvent] = []
    with pytest.raises(UnavailableError):
        await seen(service.stream(told("forget 5 count 10"), "ann"), events)
    assert len(events) == 5
    task_id = events[0].task_id
    for denied in (service.get, service.head, service.cancel):
        with pytest.raises(TaskNotFoundError):
            await denied(task_id, "ann")
    with pytest.raises(TaskNotFoundError):
        await seen(service.watch(task_id, "ann", after=5), events)


async def test_an_undecided_task_yields_no_events_until_its_approval_is_answered(service: FaultyService) -> None:
    events: list[event_pb2.RunEvent] = []
    with pytest.raises(UnavailableError):
        await seen(service.stream(told("undecided 5 approve it"), "ann"), events)
    task_id = events[0].task_id
    with pytest.raises(UnavailableError):
        await seen(service.watch(task_id, "ann", after=5), events)
    assert [event.WhichOneof("payload") for event in events][4:] == ["approval_required"]
    (waiting,) = (await service.approvals.page("ann")).approvals
    answer = ApprovalDecision(True, waiting.approval_id, fingerprint=waiting.etag)
    with pytest.raises(UnavailableError):
        await service.approvals.respond(answer, "ann", "r-1")
    approval, already_decided = await service.approvals.respond(answer, "ann", "r-1")
    assert (approval.state, already_decided) == (ApprovalState.APPROVED, False)
    await seen(service.watch(task_id, "ann", after=5), events)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert [event.event_type for event in events].count("approval.decided") == 1
    assert events[-1].last


async def test_a_task_that_is_down_works_at_every_other_address(service: FaultyService) -> None:
    turn = await service.submit(told("down word"), "ann")
    assert not (await service.get(turn.task_id, "ann")).is_terminal
    await service.cancel(turn.task_id, "ann")


async def test_a_stream_of_stored_events_is_not_cut(service: FaultyService) -> None:
    fold = await service.send(told("cut 40 count 100"), "ann")
    assert len(await seen(service.watch(fold.task_id, "ann", stop_at=StopAt.CURRENT), [])) == 103


async def test_other_tasks_have_no_faults(service: FaultyService) -> None:
    assert len(await seen(service.stream(told("count 100"), "ann"), [])) == 103


async def test_future_has_an_unknown_payload_and_unknown_fields(service: FaultyService) -> None:
    events = await seen(service.stream(told("future"), "ann"), [])
    (strange,) = [event for event in events if event.event_type == UNKNOWN_EVENT_TYPE]
    assert (strange.summary, strange.WhichOneof("payload")) == ("From the future", None)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert events[-1].last
    # Unknown fields cannot be accessed by name: they are the difference after unknown fields are discarded.
    for event in events:
        whole = event.SerializeToString()
        event.DiscardUnknownFields()
        assert len(whole) > len(event.SerializeToString())
    with pytest.raises(KeyError):
        event_pb2.RunEvent.DESCRIPTOR.fields_by_number[FUTURE_KIND]
    assert FUTURE_FIELD not in event_pb2.RunEvent.DESCRIPTOR.fields_by_number


async def test_a_lost_answer_to_a_submitted_turn_comes_after_its_submission(service: FaultyService) -> None:
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await service.sessions.submit(told("flaky 2 word"), "ann", "chat", turn_id="first")
    turn = await service.sessions.submit(told("flaky 2 word"), "ann", "chat", turn_id="first")
    session, turns, _ = await service.sessions.get("ann", "chat")
    assert (session.turn_count, [each.task_id for each in turns]) == (1, [turn.task_id])


async def test_the_stream_of_a_turn_is_cut_once_and_then_that_of_its_session_once(service: FaultyService) -> None:
    await service.sessions.submit(told("cut 10 count 100"), "ann", "chat", turn_id="first")
    events: list[event_pb2.RunEvent] = []
    with pytest.raises(UnavailableError):
        await seen(service.sessions.stream("ann", "chat", "first"), events)
    assert [event.sequence for event in events] == list(range(1, 11))
    await seen(service.sessions.stream("ann", "chat", "first", after=10), events)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert events[-1].last
    end = (await service.sessions.get("ann", "chat"))[0].position
    items: list[SessionItem] = []
    with pytest.raises(UnavailableError):
        await read_session(service, items, end)
    assert [item.event.sequence for item in items if isinstance(item.event, RunEvent)] == list(range(1, SECOND_CUT + 1))
    await read_session(service, items, end)
    assert [item.position for item in items] == list(range(1, end + 1))


async def read_session(service: FaultyService, into: list[SessionItem], end: int) -> None:
    """Collect the items of a session after the last collected one up to a position, including those before a cut."""
    after = into[-1].position if into else 0
    async with aclosing(service.sessions.watch("ann", "chat", after=after)) as bodies:
        async for body in bodies:
            into += items_from_pb(session_service_pb2.SubscribeSessionResponse.FromString(body))
            if into[-1].position >= end:
                return
