"""The operations of ProtoLink's requests: repetitions, turns, and refusals."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from protolink_grpc.auth.principal import Principal
from protolink_grpc.compat.protolink.edge.shapes import task_json
from protolink_grpc.compat.protolink.edge.verbs import AgentVerbs, TableRow, VerbCall, page, submission_of
from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError, TaskNotFoundError
from protolink_grpc.models import AgentCard, Message, Task
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.storage.memory import MemoryStore

ANN, BOB = Principal("ann", frozenset({"pay"})), Principal("bob")
PATIENCE_S = 10.0


def body(message: str = "m1", **fields: Any) -> dict[str, Any]:
    return Task(id="t", messages=[Message(message, "user").add_text("hi")]).to_dict() | fields


def asked(data: Any, key: str = "t", principal: Principal = ANN) -> VerbCall:
    return VerbCall(principal, data, key=key)


def test_the_same_words_under_the_same_key_are_the_same_request() -> None:
    first, again = submission_of(asked(body())), submission_of(asked(dict(reversed(body().items()))))
    assert first.request_id == again.request_id != ""


@pytest.mark.parametrize(
    "other",
    [
        asked(body("m2")),
        asked(body(), key="u"),
        asked(body(id="u")),
        asked(body(messages=[])),
        asked(body(artifacts=[{"id": "a", "parts": []}])),
    ],
)
def test_other_words_or_another_key_are_another_request(other: VerbCall) -> None:
    assert submission_of(other).request_id != submission_of(asked(body())).request_id


def test_what_a_sender_changes_about_its_own_run_makes_no_other_request() -> None:
    assert submission_of(asked(body(metadata={"x": 1}))).request_id == submission_of(asked(body())).request_id


def test_without_a_key_nothing_is_a_repetition() -> None:
    assert submission_of(asked(body(), key="")).request_id == ""


def test_messages_without_ids_are_known_by_what_they_say() -> None:
    long = {"parts": [{"type": "json", "content": 2**70}]}
    longer = {"parts": [{"type": "json", "content": 2**70 + 1}]}
    ids = [submission_of(asked(body(messages=[each]))).request_id for each in (long, longer, long)]
    assert ids[0] == ids[2] != ids[1]


def test_the_scopes_of_a_caller_are_those_of_its_credentials() -> None:
    context = {"run_id": "r", "principal": "root", "scopes": ["everything"]}
    submission = submission_of(asked(body(metadata={"run_context": context})))
    submission.set_caller("ann")
    assert submission.context is not None
    assert (submission.context.principal, submission.context.scopes) == ("ann", ("pay",))


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (body(id="x" * 129), "id"),
        (body(id="a\nb"), "id"),
        (body(metadata={"session_id": "s" * 129}), "metadata.session_id"),
        (body(messages=[{"id": "x" * 129, "parts": []}]), "messages[0].id"),
        (body(messages=[{"parts": []}] * 1001), "messages"),
        (body(artifacts=[{"parts": []}] * 1001), "artifacts"),
        (body(messages=[{"parts": [{"type": "text", "content": "x"}] * 1001}]), "messages[0].parts"),
    ],
)
def test_more_than_the_contract_allows_is_refused_with_its_place(data: Any, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        submission_of(asked(data))
    assert refused.value.metadata["field"] == field
    assert isinstance(refused.value, MessageTooLargeError) == field.endswith(("messages", "artifacts", "parts"))


class Clerk:
    """Asks for a second message, then answers."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, task: Task, run: Run) -> Task:
        self.calls += 1
        return task.complete("both") if len(task.messages) > 2 else task.require_input(Message.agent("and?"))


@pytest.fixture
async def clerk() -> Clerk:
    return Clerk()


@pytest.fixture
async def verbs(clerk: Clerk) -> AsyncIterator[AgentVerbs]:
    service = TaskService("clerk", MemoryStore(), clerk, limits=Limits(max_concurrency=4))
    await service.start()
    card = AgentCard(name="clerk", description="<asks>", url="grpc://clerk:1")
    async with asyncio.timeout(PATIENCE_S):
        yield AgentVerbs(service, lambda: card, None, public_url=lambda: "http://gateway")
    await service.stop(0)


async def test_a_second_turn_under_the_key_of_the_first_is_not_swallowed(verbs: AgentVerbs, clerk: Clerk) -> None:
    first = await verbs.send(asked(body()))
    assert first["state"] == "input-required"
    again = await verbs.send(asked(body()))
    assert (again["state"], clerk.calls) == ("input-required", 1)
    more = Task.from_dict(first).add_message(Message.user("and that"))
    second = await verbs.send(asked(more.to_dict()))
    assert (second["state"], clerk.calls) == ("completed", 2)
    repeated = await verbs.send(asked(more.to_dict()))
    assert (repeated, clerk.calls) == (second, 2)


async def test_somebody_elses_task_does_not_exist(verbs: AgentVerbs) -> None:
    await verbs.send(asked(body()))
    for work in (verbs.send, verbs.cancel):
        with pytest.raises(TaskNotFoundError):
            await work(asked(body(), principal=BOB))


async def test_a_stream_ends_after_the_event_that_has_the_task(verbs: AgentVerbs) -> None:
    shown = [each async for batch in verbs.stream(asked(body())) for each in batch]
    assert shown[-1]["metadata"]["task"]["state"] == shown[-1]["new_state"] == "input-required"
    assert not any("task" in each["metadata"] for each in shown[:-1])


async def test_the_task_of_a_streams_last_event_is_that_of_the_log() -> None:
    async def finish(task: Task, run: Run) -> Task:
        return task.complete("done")

    store = MemoryStore()
    service = TaskService("clerk", store, finish)
    await service.start()
    verbs = AgentVerbs(service, lambda: AgentCard("clerk", "", ""), None, public_url=lambda: "http://gateway")
    shown = [each async for batch in verbs.stream(asked(body())) for each in batch]
    read = task_json(await service.get(shown[-1]["task_id"], asked(body()).principal.name))
    assert shown[-1]["metadata"]["task"] == read
    await service.stop(0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"id": "t", "metadata": {"reason": "enough"}}, "enough"),
        ({"task_id": "t", "reason": "enough"}, "enough"),
        ({"id": "t", "reason": 7}, "7"),
        ({"id": "t"}, None),
    ],
)
async def test_a_cancel_is_understood_however_it_is_spelled(verbs: AgentVerbs, data: Any, reason: str | None) -> None:
    await verbs.send(asked(body()))
    canceled = await verbs.cancel(asked(data))
    assert (canceled["state"], canceled["metadata"].get("cancel_reason")) == ("canceled", reason)


@pytest.mark.parametrize("data", [None, [], {}, {"id": ""}, {"id": 7}, {"id": "t", "metadata": 1}])
async def test_a_cancel_of_nothing_is_the_callers_mistake(verbs: AgentVerbs, data: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        await verbs.cancel(asked(data))


async def test_a_page_shows_what_is_in_a_card_as_text(verbs: AgentVerbs) -> None:
    shown = await verbs.status(asked(None))
    assert "&lt;asks&gt;" in shown
    assert "<asks>" not in shown
    assert "&amp;" in page("t", "a", TableRow("A", "B"), [TableRow("x & y", "")])


def test_each_path_has_one_verb_and_each_verb_one_way_to_answer(verbs: AgentVerbs) -> None:
    table = verbs.table(dict)
    assert len({(verb.method, verb.path) for verb in table}) == len(table)
    assert all((verb.answer is None) != (verb.stream is None) for verb in table)
    assert {verb.path for verb in table if verb.is_open} == {"/healthz", "/readyz", "/.well-known/agent.json"}
    assert {verb.path for verb in table if verb.is_work} == {"/tasks/", "/tasks/stream"}
