"""ProtoLink's transport objects, given to agents and clients."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    AgentClient,
    Artifact,
    BearerToken,
    InMemoryEventSink,
    InvalidArgumentError,
    Message,
    Principal,
    RunRecorder,
    RunReplay,
    Task,
    UnauthenticatedError,
    assert_run_events,
    create_llm,
)
from protolink_grpc.agents import Agent as DocumentedAgent
from protolink_grpc.errors import DeadlineExceededError
from protolink_grpc.transport import (
    GRPCTransport,
    HTTPTransport,
    RuntimeTransport,
    SSEJSONRPCTransport,
    TaskArtifactUpdateEvent,
    TaskLLMStreamEvent,
    TaskProgressEvent,
    TaskStatusUpdateEvent,
    Transport,
    WebSocketTransport,
)

URLS = {
    HTTPTransport: "http://127.0.0.1:0",
    SSEJSONRPCTransport: "http://127.0.0.1:0",
    WebSocketTransport: "ws://127.0.0.1:0",
    RuntimeTransport: "runtime://carried",
    GRPCTransport: "grpc://127.0.0.1:0",
}
EVENTS = (TaskStatusUpdateEvent, TaskArtifactUpdateEvent, TaskProgressEvent, TaskLLMStreamEvent)


@pytest.fixture(params=URLS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[Transport]:
    return request.param


def agent_at(transport: Transport, **settings: Any) -> Agent:
    return Agent("carried", transport, llm=create_llm("mock", default_response="done"), **settings)


async def test_an_agent_listens_at_the_url_of_its_transport(kind: type[Transport]) -> None:
    transport = kind(URLS[kind])
    async with agent_at(transport) as agent:
        assert transport.is_running
        assert agent.card.transport == kind.transport_type
        answer = await AgentClient(kind(agent.card.url)).send_message(None, Message.user("hello"))
    assert answer.parts[0].content == "done"
    assert not transport.is_running


async def test_start_and_stop_are_those_of_the_agent(kind: type[Transport]) -> None:
    transport = kind(URLS[kind])
    agent = agent_at(transport)
    await transport.start()
    assert agent.is_running
    assert transport.is_running
    await transport.stop()
    assert not agent.is_running


async def test_a_stream_has_the_events_of_protolink_and_ends_with_the_task(kind: type[Transport]) -> None:
    async with agent_at(kind(URLS[kind])) as agent:
        client = AgentClient(kind(agent.card.url))
        task = Task.create_infer(prompt="Produce a result")
        events: list[Any] = [event async for event in client.send_task_streaming(agent.card.url, task)]
    assert {type(event) for event in events} == {TaskStatusUpdateEvent, TaskArtifactUpdateEvent, TaskLLMStreamEvent}
    *others, last = events
    assert [event.final for event in others if isinstance(event, TaskStatusUpdateEvent)] == [False]
    assert (last.new_state, last.final, last.task.id, last.task.get_output()) == ("completed", True, task.id, "done")
    final = [event.content for event in others if isinstance(event, TaskLLMStreamEvent) and event.final]
    assert final == ["done"]
    assert all(type(event).from_dict(event.to_dict()) == event for event in events)


async def test_subscribe_yields_the_events_as_json(kind: type[Transport]) -> None:
    async with agent_at(kind(URLS[kind])) as agent:
        transport = kind(agent.card.url)
        task = Task.create_infer(prompt="Produce a result")
        events = [event async for event in transport.subscribe(agent.card.url, task)]
    assert events[0]["type"] == "task_status_update"
    assert Task.from_dict(events[-1]["metadata"]["task"]).get_output() == "done"


class Streaming(Agent):
    """Yields ProtoLink's events."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        task.begin()
        yield TaskStatusUpdateEvent(task_id=task.id, previous_state="submitted", new_state="working")
        yield TaskProgressEvent(task_id=task.id, progress=50, message="Halfway")
        yield TaskLLMStreamEvent(task_id=task.id, llm_event_type="thought", content="It is nearly done.")
        artifact = Artifact(name="result").add_text("42")
        task.add_artifact(artifact)
        yield TaskArtifactUpdateEvent(task_id=task.id, artifact=artifact)
        task.complete("Done")
        yield TaskStatusUpdateEvent(task_id=task.id, previous_state="working", new_state="completed", final=True)


async def test_a_handler_may_yield_the_events_of_protolink() -> None:
    agent = Streaming("streaming")
    events = [event async for event in agent.run_task_streaming("Work")]
    done = await agent.get_task(events[-1].task_id)
    await agent.aclose()
    types = [
        "task.submitted",
        "task.status",
        "task.progress",
        "llm.stream",
        "task.artifact",
        "task.message",
        "task.status",
    ]
    assert [event.type for event in events] == types
    assert ([each.name for each in done.artifacts], done.messages[-1].text) == (["result"], "Done")


async def test_recorders_and_sinks_read_the_events_of_protolink() -> None:
    recorder, sink = RunRecorder(), InMemoryEventSink()
    async with agent_at(RuntimeTransport("runtime://carried")) as agent:
        client = AgentClient(RuntimeTransport(agent.card.url))
        async for event in client.send_task_streaming(None, Task.create_infer(prompt="Produce a result")):
            await recorder.record_task_event(event)
            await sink.emit_task_event(event)
    assert_run_events(RunReplay(recorder.to_report()), ["context.prepared", "llm.call.started", "llm.call.completed"])
    assert sink.to_list()[-1]["final"]


class Asking(Agent):
    """Asks for more input once."""

    async def handle_task(self, task: Task) -> Task:
        if len(task.messages) == 1:
            return task.require_input("Which one?")
        return task.complete(f"You chose {task.messages[-1].text}")


async def test_a_task_that_was_sent_over_a_runtime_transport_is_brought_up_to_date() -> None:
    async with Asking("asking", RuntimeTransport("runtime://asking")) as agent:
        client, task = AgentClient(RuntimeTransport(agent.card.url)), Task.create("Choose")
        answer = await client.send_task(None, task)
        assert task == answer
        assert (task.state.value, task.messages[-1].text) == ("input-required", "Which one?")
        answer.messages[0].parts[0].content = "changed"
        assert task.messages[0].text == "Choose"
        task.add_message(Message.user("the second"))
        async for _ in client.send_task_streaming(None, task):
            pass
        assert (task.state.value, task.get_output()) == ("completed", "You chose the second")

        direct = Task.create("Choose")
        await agent.run_task(direct)
        assert direct.state.value == "input-required"


async def test_a_task_of_an_agent_with_a_runtime_transport_is_brought_up_to_date() -> None:
    caller = Agent("caller", RuntimeTransport("runtime://caller"))
    async with caller, Asking("asking", RuntimeTransport("runtime://asking")):
        task = Task.create("Choose")
        await caller.call_agent("runtime://asking", task)
    assert task.messages[-1].text == "Which one?"


class Forwarding(Agent):
    """Sends its own task to another agent, and answers itself."""

    async def handle_task(self, task: Task) -> Task:
        answer = await self.call_agent("runtime://asking", task)
        assert task.state.value == "working"
        return task.complete(f"The answer was: {answer.messages[-1].text}")


async def test_the_task_of_a_handler_is_changed_only_by_the_handler() -> None:
    forwarding = Forwarding("forwarding", RuntimeTransport("runtime://forwarding"))
    async with forwarding, Asking("asking", RuntimeTransport("runtime://asking")):
        done = await forwarding.run_task("Choose")
    assert done.get_output() == "The answer was: Which one?"


async def test_a_task_that_was_sent_over_another_transport_is_not_modified() -> None:
    async with Asking("asking", GRPCTransport("grpc://127.0.0.1:0")) as agent:
        task = Task.create("Choose")
        await AgentClient(GRPCTransport(agent.card.url)).send_task(None, task)
    assert (task.state.value, len(task.messages)) == ("submitted", 1)


async def test_a_client_without_an_object_yields_run_events() -> None:
    async with agent_at(RuntimeTransport("runtime://carried")) as agent:
        client = AgentClient("runtime")
        events = [event async for event in client.send_task_streaming(agent.card.url, "hello")]
    assert events[-1].type == "task.status"


@pytest.mark.parametrize("alias", ["sse", "json-rpc", "sse-json-rpc"])
async def test_the_aliases_of_server_sent_events(alias: str) -> None:
    async with Agent(
        "carried", alias, url="http://127.0.0.1:0", llm=create_llm("mock", default_response="done")
    ) as agent:
        assert agent.card.transport == "sse"
        assert (await AgentClient(alias).send_message(agent.card.url, "hello")).parts[0].content == "done"


async def test_the_timeout_of_a_transport_applies_to_the_next_call() -> None:
    transport = RuntimeTransport("runtime://carried", timeout=30)
    client = AgentClient(transport)
    transport.timeout = 0.0
    async with agent_at(RuntimeTransport("runtime://carried")):
        with pytest.raises(DeadlineExceededError):
            await client.send_message(None, "hello")
    client.timeout = 5.0
    assert (client.timeout, transport.timeout) == (5.0, 5.0)


async def one_token(method: str, metadata: Mapping[str, str]) -> Principal | None:
    return Principal("ada") if metadata.get("authorization") == "Bearer secret" else None


async def test_callers_are_authenticated_with_the_credentials_of_their_transport(kind: type[Transport]) -> None:
    if kind is RuntimeTransport:
        pytest.skip("calls within the process have no credentials")
    async with agent_at(kind(URLS[kind], authenticator=one_token)) as agent:
        transport = kind(agent.card.url)
        client = AgentClient(transport)
        with pytest.raises(UnauthenticatedError):
            await client.send_message(None, "hello")
        assert client.is_anonymous
        await transport.authenticate("secret")
        assert not client.is_anonymous
        assert (await client.send_message(None, "hello")).parts[0].content == "done"
        client = AgentClient(kind(agent.card.url, credentials="secret"))
        assert (await client.send_message(None, "hello")).parts[0].content == "done"


def test_a_url_of_another_protocol_is_refused(kind: type[Transport]) -> None:
    with pytest.raises(InvalidArgumentError, match=f"is not a URL of {kind.__name__}"):
        kind("ftp://127.0.0.1:1")


def test_a_card_with_another_url_than_its_transport_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="transport: has the URL http"):
        Agent("carried", HTTPTransport("http://127.0.0.1:1"), url="http://127.0.0.1:2")


def test_a_client_with_a_transport_object_has_no_other_credentials() -> None:
    with pytest.raises(InvalidArgumentError, match="transport: has its own certificates and credentials"):
        AgentClient(HTTPTransport("http://127.0.0.1:1"), credentials=BearerToken("secret"))


def test_the_documented_module_has_the_same_agent() -> None:
    assert DocumentedAgent is Agent
