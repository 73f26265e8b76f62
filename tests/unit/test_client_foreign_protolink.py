"""The client of ProtoLink agents at the level of frames: repeated context, interruptions and refusals."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import errors
from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.http_channel import Sender
from protolink_grpc.compat.protolink.client.agent import ProtolinkAgent, ProtolinkPeer, response_error
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.address import WebAddress


class Scripted(ProtolinkAgent):
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(ProtolinkPeer(Sender(WebAddress.parse("http://there"), ChannelOptions())))
        self.answers = list(answers)
        self.asked: list[tuple[str, Any, str]] = []

    async def _request(self, method: str, path: str, data: Any = None, *, key: str = "") -> Any:
        self.asked.append((path, data, key))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _open_stream(self, path: str, data: Any) -> AsyncGenerator[Any, None]:
        self.asked.append((path, data, ""))
        for answer in self.answers:
            if isinstance(answer, Exception):
                self.answers.remove(answer)
                raise answer
            yield answer


def frame(state: str, *, task: Task | None = None, final: bool = False) -> dict[str, Any]:
    metadata = {} if task is None else {"task": task.to_dict()}
    event = {"type": "task_status_update", "new_state": state, "final": final, "metadata": metadata}
    return {"id": None, "ok": True, "result": event, "final": final}


async def events_of(agent: ProtolinkAgent, task: Task) -> list[TaskState | None]:
    seen: list[TaskState | None] = []
    agent.seen = seen  # type: ignore[attr-defined]  # for those that end with an error
    async for events in agent.stream(task, "r", timeout_s=None):
        seen += [event.state for event in events]
    return seen


async def test_a_turn_brings_all_that_such_an_agent_needs_and_the_caller_only_the_news() -> None:
    asked = Task.create("book").begin().require_input(Message.agent("Which city?"))
    done = Task.from_dict(asked.to_dict()).begin().complete("booked")
    agent = Scripted(asked.to_dict(), done.to_dict())
    await agent.send(Task(id=asked.id, messages=asked.messages[:1]), "r1", wait=True, timeout_s=None)
    news = Task(id=asked.id, state=asked.state, messages=[Message.user("Rome")], metadata={"color": "red"})
    sent = await agent.send(news, "r2", target=TaskTarget.CONTINUE, wait=True, timeout_s=None)
    (_, first, first_key), (_, second, second_key) = agent.asked
    assert (len(first["messages"]), first_key, second_key) == (1, "r1", "r2")
    assert [each["parts"][0]["content"] for each in second["messages"]] == ["book", "Which city?", "Rome"]
    assert (second["state"], second["metadata"]["color"]) == ("input-required", "red")
    assert (sent.task.state, sent.message_count) == (TaskState.COMPLETED, len(done.messages))


async def test_what_this_client_has_lost_is_not_begun_anew() -> None:
    agent = Scripted()
    with pytest.raises(errors.TaskNotFoundError):
        await agent.send(Task.create("go"), "r", target=TaskTarget.CONTINUE, wait=True, timeout_s=None)
    assert agent.asked == []


async def test_a_stream_without_its_last_frame_was_cut() -> None:
    agent = Scripted(frame("working"))
    with pytest.raises(errors.UnavailableError):
        await events_of(agent, Task.create("go"))
    assert agent.seen == [TaskState.SUBMITTED, TaskState.WORKING]  # type: ignore[attr-defined]  # see `events_of`
    with pytest.raises(errors.UncertainExecutionError):
        async for _ in agent.watch("t", 2, StopAt.INTERRUPTED, timeout_s=None):
            pass


@pytest.mark.parametrize(
    ("error", "cls"),
    [
        (errors.UnavailableError("cut"), errors.UncertainExecutionError),
        (errors.UnavailableError("nobody", unreached="true"), errors.UnavailableError),
        (errors.UnavailableError("later", refused="true"), errors.UnavailableError),
        (errors.UnauthenticatedError("who"), errors.UnauthenticatedError),
    ],
    ids=["cut", "unreached", "refused", "stranger"],
)
async def test_only_what_cannot_have_begun_may_be_sent_again(error: Exception, cls: type[Exception]) -> None:
    with pytest.raises(errors.ProtolinkError) as caught:
        await events_of(Scripted(error), Task.create("go"))
    assert type(caught.value) is cls


async def test_a_stream_ends_at_its_last_frame_and_its_task_is_known() -> None:
    task = Task.create("go")
    done = Task.from_dict(task.to_dict()).begin().complete("gone")
    agent = Scripted(frame("working"), frame("completed", task=done, final=True), frame("failed"))
    assert await events_of(agent, task) == [TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED]
    assert (await agent.get(task.id, None)).get_output() == "gone"


async def test_an_agent_without_streams_is_asked_once_and_told_as_one() -> None:
    task = Task.create("go")
    done = Task.from_dict(task.to_dict()).begin().complete("gone")
    agent = Scripted(errors.UnimplementedError("no such route"), done.to_dict())
    assert await events_of(agent, task) == [TaskState.SUBMITTED, None, TaskState.WORKING, TaskState.COMPLETED]
    assert [path for path, _, _ in agent.asked] == ["/tasks/stream", "/tasks/"]


NO_TASK = {"type": "task_status_update", "new_state": "completed", "metadata": {"task": 5}}


@pytest.mark.parametrize(
    "answer", [5, [], {"ok": True, "result": {"type": 5}}, {"ok": True, "result": NO_TASK}], ids=str
)
async def test_a_frame_that_is_none_is_the_agents_fault(answer: Any) -> None:
    with pytest.raises(errors.InvalidAgentResponseError):
        await events_of(Scripted(answer), Task.create("go"))


async def test_a_cancellation_that_it_cannot_do_means_that_there_is_no_such_work() -> None:
    agent = Scripted(errors.RemoteError("500", code="HTTP_500"), errors.RemoteError("418", code="HTTP_418"))
    with pytest.raises(errors.TaskNotFoundError):
        await agent.cancel("t", "", None)
    with pytest.raises(errors.RemoteError):
        await agent.cancel("t", "", None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)
)


@given(JSON)
def test_whatever_a_refusal_is_it_becomes_an_error(found: Any) -> None:
    assert isinstance(response_error(found, "http://there"), errors.ProtolinkError)


@pytest.mark.parametrize(
    ("kind", "message", "cls"),
    [
        ("TaskNotFoundError", "none", errors.TaskNotFoundError),
        ("ValueError", "No endpoint registered for POST /x", errors.UnimplementedError),
        ("ValueError", "bad", errors.RemoteError),
    ],
)
def test_the_kinds_of_refusal_that_matter_are_told_apart(kind: str, message: str, cls: type[Exception]) -> None:
    assert type(response_error({"type": kind, "message": message}, "http://there")) is cls
