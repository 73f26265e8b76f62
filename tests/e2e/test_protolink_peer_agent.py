"""A real ProtoLink 0.8.3 client and an agent of this package: every request, over each of its transports."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import httpx
import pytest
from protolink.agents import Agent as PeerAgent
from protolink.core.events import RunEvent as PeerEvent
from protolink.llms import create_llm as peer_llm
from protolink.llms.history import ConversationHistory as PeerHistory
from protolink.models import AgentCard as PeerCard
from protolink.models import Message, Task
from protolink.models import TaskState as PeerState
from protolink.state.operations import StateOperationRequest as PeerStateRequest
from protolink.storage import InMemoryStorage as PeerStorage
from protolink.transport.errors import TransportError, TransportRemoteError
from protolink_peer_world import (
    PATIENCE_S,
    TRANSPORTS,
    Held,
    World,
    behind_the_gateway,
    calculator,
    ended,
    events_of,
    our_card,
    peer_client,
)

from protolink_grpc import Agent, Limits, MockLLM, Principal, ScriptedLLM, State, current_run
from protolink_grpc import Task as OurTask
from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL
from protolink_grpc.edges.http.options import Bounds
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import OpenStreams
from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.state import StateOperationRequest
from protolink_grpc.state import InMemoryStorage

Launch = Callable[..., Awaitable[Any]]
STREAMING = ("sse", "websocket")
ODD_TEXT = "one\u2028two\u2029three\x85four\x0bfive \U0001f989"
"""Has everything at which Python's `splitlines` breaks a line."""


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=STREAMING)
def streaming(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
async def world(held: Held) -> AsyncIterator[World]:
    async with behind_the_gateway(calculator(held, llm=MockLLM({"add": "three"}, default_response="hm"))) as found:
        yield found


class Asking(Agent):
    """Wants to know one thing before it answers, and counts how often it is called."""

    calls = 0

    async def handle_task(self, task: OurTask) -> OurTask:
        self.calls += 1
        said = [message.text for message in task.messages if message.role == "user"]
        if len(said) == 1:
            return task.require_input(OurTask.create("which city?").messages[0])
        return task.complete(f"{said[0]} in {said[-1]}")


# -- asking ------------------------------------------------------------------------------------------------------------------


async def test_the_card_names_the_gateway_in_words_that_the_client_knows(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        card = await client.get_agent_card(world.at(transport))
    assert (card.name, card.description, card.tags) == ("calculator", "the calculator", ["t1"])
    assert card.url == world.at(transport)
    assert card.transport == ("websocket" if transport == "websocket" else "sse")
    assert card.capabilities.streaming
    assert card.capabilities.supports_inference
    assert {skill.id for skill in card.skills} == {"add", "hold"}


async def test_a_tool_call_is_answered(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        done = await client.send_task(world.at(transport), Task.create_tool_call("add", {"a": 1, "b": 2}))
    assert done.raise_for_status().get_output() == 3
    assert done.metadata["state_history"][-1]["new_state"] == "completed"


async def test_an_inference_is_answered(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        done = await client.send_infer_task("add 1 and 2", world.at(transport))
        assert await client.peer(world.at(transport)).invoke("add them") == "three"
    assert done.raise_for_status().get_output() == "three"


async def test_a_text_is_answered_by_the_model(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        done = await client.send_task(world.at(transport), Task.create("please add"))
    assert done.raise_for_status().get_output() == "three"


async def test_a_peer_calls_a_tool_by_name(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        assert await client.peer(world.at(transport)).call_tool("add", a=20, b=22) == 42


async def test_an_unknown_tool_is_a_failed_task_that_says_what_to_do(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        done = await client.send_task(world.at(transport), Task.create_tool_call("nope", {}))
    assert done.state is PeerState.FAILED
    error = done.artifacts[-1].parts[-1].as_tool_output().error
    assert (error["status"], error["changes_made"], error["code"]) == ("rejected", False, "unknown_tool")


async def test_the_blocking_client_works_in_a_program(world: World, launch: Launch) -> None:
    program = await launch(
        """
        import sys
        from protolink.client import AgentClient
        from protolink.models import Task

        client = AgentClient("sse", "http://127.0.0.1:1")
        task = Task.create_tool_call("add", {"a": 2, "b": 2})
        print(client.sync.send_task(sys.argv[1], task).get_output(), flush=True)
        task = Task.create_infer(prompt="add")
        print([event["type"] for event in client.sync.send_task_streaming(sys.argv[1], task)][-1], flush=True)
        """,
        world.url,
    )
    assert await program.line() == "4"
    assert await program.line() == "task_status_update"
    assert await program.end() == 0


async def test_many_clients_are_answered_at_once(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        tasks = [Task.create_tool_call("add", {"a": n, "b": 1}) for n in range(30)]
        done = await asyncio.gather(*(client.send_task(world.at(transport), task) for task in tasks))
    assert [task.get_output() for task in done] == list(range(1, 31))


# -- turns and repetitions ---------------------------------------------------------------------------------------------------


async def test_a_task_goes_on_with_the_answer_to_its_question(transport: str) -> None:
    # The client's idempotency key is the id of the task, for both turns.
    agent = Asking(our_card("asking"))
    async with behind_the_gateway(agent) as world, peer_client(transport) as client:
        asked = await client.send_task(world.at(transport), Task.create("the weather"))
        assert asked.state is PeerState.INPUT_REQUIRED
        asked.add_message(Message.user("Bonn"))
        done = await client.send_task(world.at(transport), asked)
    assert done.state is PeerState.COMPLETED
    assert done.get_output() == "the weather in Bonn"
    assert agent.calls == 2


async def test_a_task_that_is_sent_again_is_answered_and_not_run_again(transport: str) -> None:
    agent = Asking(our_card("asking"))
    async with behind_the_gateway(agent) as world, peer_client(transport) as client:
        task = Task.create("the weather")
        first = await client.send_task(world.at(transport), task)
        again = await client.send_task(world.at(transport), task)
    assert first.to_dict() == again.to_dict()
    assert agent.calls == 1


async def test_a_finished_task_takes_no_further_turn(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        done = await client.send_task(world.at(transport), Task.create_tool_call("add", {"a": 1, "b": 2}))
        done.add_message(Message.user("once more"))
        with pytest.raises(TransportRemoteError, match="TASK_FINISHED"):
            await client.send_task(world.at(transport), done)


async def test_states_that_the_client_does_not_know_are_told_in_those_that_it_knows(transport: str) -> None:
    class Picky(Agent):
        async def handle_task(self, task: OurTask) -> OurTask:
            return task.reject("not on Sundays") if "Sunday" in task.messages[-1].text else task.require_auth()

    async with behind_the_gateway(Picky(our_card("picky"))) as world, peer_client(transport) as client:
        refused = await client.send_task(world.at(transport), Task.create("on Sunday"))
        assert (refused.state, refused.metadata["error"]) == (PeerState.FAILED, "not on Sundays")
        waiting = await client.send_task(world.at(transport), Task.create("on Monday"))
        assert waiting.state is PeerState.INPUT_REQUIRED
        if transport != "http":
            told = await events_of(client, world.at(transport), Task.create("on Sunday"))
            assert told[-1]["new_state"] == "failed"
            assert Task.from_dict(told[-1]["metadata"]["task"]).state is PeerState.FAILED


# -- streams -----------------------------------------------------------------------------------------------------------------


async def test_a_stream_ends_with_the_whole_task(world: World, streaming: str) -> None:
    async with peer_client(streaming) as client:
        told = await events_of(client, world.at(streaming), Task.create_tool_call("add", {"a": 1, "b": 2}))
    kinds = [event.get("llm_event_type", event["type"]) for event in told]
    assert kinds[0] == kinds[-1] == "task_status_update"
    assert [kind for kind in kinds if kind.startswith(("tool", "action"))] == [
        "action_requested",
        "tool_start",
        "tool_result",
    ]
    assert "task_artifact_update" in kinds
    assert [event.get("final") for event in told if event["type"] == "task_status_update"] == [False, True]
    assert Task.from_dict(told[-1]["metadata"]["task"]).get_output() == 3


async def test_the_chunks_of_a_stream_are_the_text_of_the_model(streaming: str) -> None:
    agent = Agent(our_card("poet"), llm=MockLLM(default_response=ODD_TEXT))
    async with behind_the_gateway(agent) as world, peer_client(streaming) as client:
        told = await events_of(client, world.at(streaming), Task.create_infer(prompt="a poem"))
    chunks = [event["content"] for event in told if event.get("llm_event_type") == "llm_chunk"]
    assert "".join(chunks) == ODD_TEXT
    final = next(event for event in told if event.get("llm_event_type") == "llm_final")
    assert (final["content"], final["final"], final["step"]) == (ODD_TEXT, True, 1)
    assert Task.from_dict(told[-1]["metadata"]["task"]).get_output() == ODD_TEXT


async def test_the_client_reads_every_event_as_one_of_its_run_events(streaming: str) -> None:
    llm = ScriptedLLM(
        [{"type": "tool_call", "tool": "add", "args": {"a": 1, "b": 2}}, {"type": "final", "content": "3"}]
    )
    async with behind_the_gateway(calculator(llm=llm)) as world, peer_client(streaming) as client:
        told = await events_of(client, world.at(streaming), Task.create_infer(prompt="add"))
    types = [PeerEvent.from_task_event(event).type for event in told]
    assert types[0] == types[-1] == "task.status"
    for expected in ("context.prepared", "llm.call.started", "llm.call.completed", "action.requested"):
        assert expected in types
    assert types.index("action.started") < types.index("action.completed")
    requested = PeerEvent.from_task_event(
        next(each for each in told if each.get("llm_event_type") == "action_requested")
    )
    assert requested.payload["action"]["payload"]["arguments"] == {"a": 1, "b": 2}


async def test_a_stream_of_a_handler_shows_what_it_reports(streaming: str) -> None:
    class Reporting(Agent):
        async def handle_task(self, task: OurTask) -> OurTask:
            run = current_run()
            assert run is not None
            await run.progress(50.0, "half")
            await run.emit({"weather": "fine"})
            return task.complete("done")

    async with behind_the_gateway(Reporting(our_card("reporting"))) as world, peer_client(streaming) as client:
        told = await events_of(client, world.at(streaming), Task.create("go"))
    progress = next(event for event in told if event["type"] == "task_progress")
    assert (progress["progress"], progress["message"]) == (50.0, "half")
    own = next(event for event in told if event["type"] == "custom")
    assert own["payload"] == {"weather": "fine"}
    assert told[-1]["metadata"]["task"]["messages"][-1]["parts"][0]["content"] == "done"


async def test_a_failing_handler_ends_a_stream_with_a_failed_task(streaming: str) -> None:
    class Failing(Agent):
        async def handle_task(self, task: OurTask) -> OurTask:
            raise ValueError("no luck")

    async with behind_the_gateway(Failing(our_card("failing"))) as world, peer_client(streaming) as client:
        told = await events_of(client, world.at(streaming), Task.create("go"))
        done = await client.send_task(world.at(streaming), Task.create("go"))
    assert (told[-1]["new_state"], told[-1]["final"]) == ("failed", True)
    assert "no luck" in told[-1]["metadata"]["error"]
    assert done.state is PeerState.FAILED


async def test_a_stream_that_cannot_begin_is_an_error(world: World, streaming: str) -> None:
    async with peer_client(streaming) as client:
        with pytest.raises(TransportRemoteError, match="INVALID_ARGUMENT"):
            await events_of(client, world.at(streaming), Task())


async def test_a_stream_of_a_continued_task_ends_with_it(streaming: str) -> None:
    async with behind_the_gateway(Asking(our_card("asking"))) as world, peer_client(streaming) as client:
        told = await events_of(client, world.at(streaming), Task.create("the weather"))
        assert (told[-1]["new_state"], told[-1]["final"]) == ("input-required", True)
        task = Task.from_dict(told[-1]["metadata"]["task"])
        task.add_message(Message.user("Bonn"))
        told = await events_of(client, world.at(streaming), task)
    assert Task.from_dict(told[-1]["metadata"]["task"]).get_output() == "the weather in Bonn"


async def test_a_run_goes_on_when_its_stream_is_cut(world: World, held: Held, streaming: str) -> None:
    task = Task.create_tool_call("hold", {})
    async with peer_client(streaming) as client:
        reading = asyncio.create_task(events_of(client, world.at(streaming), task))
        await held.begun.wait()
        await ended(reading)
        held.release.set()
    service = await world.agent._own_service()
    frames = [frame async for batch in service.watch(task.id, ANONYMOUS_PRINCIPAL.name) for frame in batch]
    assert frames
    assert (await service.get(task.id, ANONYMOUS_PRINCIPAL.name)).state == "completed"
    assert held.ends == ["done"]


async def test_a_server_that_goes_away_says_so_in_the_stream(held: Held) -> None:
    streams = OpenStreams()
    async with (
        behind_the_gateway(calculator(held), streams=streams) as world,
        peer_client("sse") as client,
    ):
        reading = asyncio.create_task(events_of(client, world.url, Task.create_tool_call("hold", {})))
        await held.begun.wait()
        streams.drain()
        with pytest.raises(TransportRemoteError, match="shutting down"):
            await reading
        held.release.set()


async def test_an_agent_that_stops_ends_its_streams_with_an_error(held: Held, streaming: str) -> None:
    async with behind_the_gateway(calculator(held, grace_s=0.0)) as world, peer_client(streaming) as client:
        reading = asyncio.create_task(events_of(client, world.at(streaming), Task.create_tool_call("hold", {})))
        await held.begun.wait()
        await world.agent.aclose(grace_s=0.0)
        try:
            told = await reading
        except TransportRemoteError:
            return
        assert told[-1]["final"] is True  # it was recorded as lost before its reader was told


async def test_comments_in_a_quiet_stream_mean_nothing_to_the_client(held: Held) -> None:
    streams = OpenStreams(keepalive_s=0.01)
    async with (
        behind_the_gateway(calculator(held), streams=streams) as world,
        peer_client("sse") as client,
        httpx.AsyncClient(timeout=PATIENCE_S) as bare,
    ):
        reading = asyncio.create_task(events_of(client, world.url, Task.create_tool_call("hold", {})))
        await held.begun.wait()
        # All streams of a server get their comments at the same times, so what one has seen, the other has too.
        body = Task.create_tool_call("hold", {}).to_dict()
        comments = 0
        async with bare.stream("POST", f"{world.url}/tasks/stream", json=body) as response:
            async for line in response.aiter_lines():
                comments += line.startswith(":")
                if comments == 3:
                    held.release.set()
        told = await reading
    assert comments >= 3
    assert told[-1]["new_state"] == "completed"


# -- steering ----------------------------------------------------------------------------------------------------------------


async def test_a_running_task_is_canceled(world: World, held: Held, transport: str) -> None:
    task = Task.create_tool_call("hold", {})
    async with peer_client(transport) as client:
        sending = asyncio.create_task(client.send_task(world.at(transport), task))
        await held.begun.wait()
        canceled = await client.cancel_task(world.at(transport), task.id, reason="enough")
        sent = await sending
    assert canceled.state is sent.state is PeerState.CANCELED
    assert canceled.metadata["cancel_reason"] == "enough"
    assert held.ends == ["canceled"]


async def test_a_streaming_task_is_canceled(world: World, held: Held, streaming: str) -> None:
    task = Task.create_tool_call("hold", {})
    async with peer_client(streaming) as client:
        reading = asyncio.create_task(events_of(client, world.at(streaming), task))
        await held.begun.wait()
        await client.cancel_task(world.at(streaming), task.id, reason="enough")
        told = await reading
    assert (told[-1]["new_state"], told[-1]["metadata"]["cancel_reason"]) == ("canceled", "enough")


async def test_the_cancel_of_an_unknown_task_is_an_error_that_names_it(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        with pytest.raises(TransportRemoteError, match="nope") as refused:
            await client.cancel_task(world.at(transport), "nope")
    if transport != "websocket":
        assert refused.value.status_code == 404
    else:
        assert TaskNotFoundError.__name__ in str(refused.value)


async def test_a_finished_task_cannot_be_canceled(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        done = await client.send_task(world.at(transport), Task.create_tool_call("add", {"a": 1, "b": 2}))
        with pytest.raises(TransportRemoteError, match="TASK_NOT_CANCELABLE"):
            await client.cancel_task(world.at(transport), done.id)


@pytest.fixture
async def remembering() -> AsyncIterator[World]:
    agent = Agent(
        our_card("remembering"),
        llm=MockLLM(),
        state=State(InMemoryStorage(), enabled=("conversation", "tools")),
        limits=Limits(max_concurrency=8),
    )
    async with behind_the_gateway(agent) as world:
        yield world


async def test_memory_is_described_compacted_and_reset(remembering: World, transport: str) -> None:
    url = remembering.at(transport)
    async with peer_client(transport) as client:
        for word in ("one", "two", "three"):
            (await client.send_task(url, Task.create_infer(prompt=word, session_id="s"))).raise_for_status()
        described = await client.describe_state(url, session_id="s", include_data=True)
        conversation = next(store for store in described.stores if store.name == "conversation")
        assert (conversation.exists, conversation.message_count) == (True, 6)

        compacted = await client.compact_state(url, session_id="s", strategy="recent", max_messages=4)
        assert list(compacted.compacted) == ["conversation"]
        history = await client.compact_history(url, session_id="s", strategy="recent", max_messages=2)
        assert (history.before_messages, history.after_messages, history.strategy) == (4, 2, "recent")

        reset = await client.reset_state(url, session_id="s")
        assert list(reset.cleared) == ["conversation"]
        with pytest.raises(TransportRemoteError, match="SESSION_NOT_FOUND"):
            await client.reset_state(url, session_id="elsewhere")


OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "a session": ("describe_state", {"session_id": "s"}),
    "a session with its data": ("describe_state", {"session_id": "s", "include_data": True}),
    "all sessions": ("describe_state", {}),
    "all sessions with their data": ("describe_state", {"include_data": True}),
    "a store that is off": ("describe_state", {"session_id": "s", "stores": ["tools"]}),
    "an unknown session": ("describe_state", {"session_id": "x", "include_data": True}),
    "compacting": ("compact_state", {"session_id": "s", "strategy": "recent", "max_messages": 2}),
    "a reset": ("reset_state", {"session_id": "s", "stores": ["conversation"]}),
    "a reset of everything": ("reset_state", {}),
}
SAID = {"s": ("one", "two", "three"), "r": ("four",)}


def comparable(value: Any, *, named: bool) -> Any:
    """A result without what the two packages count, name or estimate differently.

    Ours has 0 where theirs has no number, sums the messages of all sessions, calls an empty memory not existing, and estimates
    tokens in its own way. Messages have ids and times.
    """
    if isinstance(value, list):
        return [comparable(each, named=named) for each in value]
    if not isinstance(value, dict):
        return value
    if {"role", "content"} <= value.keys():
        return (value["role"], value["content"])
    known = {key: each for key, each in value.items() if key not in ("before_tokens", "after_tokens")}
    if "item_count" in known:
        known["item_count"] = known["item_count"] or 0
        known["message_count"] = (known["message_count"] or 0) if named else None
        known["exists"] = known["exists"] and bool(known["item_count"])
    return {key: comparable(each, named=named) for key, each in known.items()}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_state_operations_answer_what_protolinks_own_agent_answers(operation: str, transport: str) -> None:
    verb, fields = OPERATIONS[operation]
    theirs = PeerAgent(
        PeerCard(name="theirs", description="remembers", url="runtime://theirs"),
        llm=peer_llm("mock"),
        state=["conversation"],
        storage=PeerStorage(),
    )
    ours = Agent(our_card("ours"), llm=MockLLM(), state="conversation")
    async with behind_the_gateway(ours) as world, peer_client(transport) as client:
        memory = ours.state.of(ANONYMOUS_PRINCIPAL.name).conversation  # type: ignore[union-attr]  # it was given a state
        here = ours.state.of("local").conversation  # type: ignore[union-attr]
        for session_id, words in SAID.items():
            history = PeerHistory()
            for word in words:
                history.add_user(word)
                history.add_assistant(f"{word}!")
                turn = [LLMMessage("user", word), LLMMessage("assistant", f"{word}!")]
                for each in (memory, here):
                    assert each is not None
                    await each.remember(session_id, word, turn)
            theirs._state.conversation.save_history(session_id, history)
        named = "session_id" in fields
        expected = comparable((await getattr(theirs, verb)(**fields)).to_dict(), named=named)
        over_the_wire = await getattr(client, verb)(world.at(transport), **fields)
        in_process = await getattr(ours, verb)(**fields)
    assert comparable(over_the_wire.to_dict(), named=named) == expected
    assert comparable(in_process.to_dict(), named=named) == expected


def test_a_state_request_has_protolinks_fields_and_defaults() -> None:
    theirs, ours = PeerStateRequest(), StateOperationRequest()
    assert ours.to_dict() == theirs.to_dict()
    assert StateOperationRequest.from_dict({}).to_dict() == PeerStateRequest.from_dict({}).to_dict()
    assert (
        StateOperationRequest.from_dict({"stores": "tools"}).stores
        == PeerStateRequest.from_dict({"stores": "tools"}).stores
    )
    for name in ("describe_state", "reset_state", "compact_state"):
        known = inspect.signature(getattr(PeerAgent, name)).parameters
        assert list(inspect.signature(getattr(Agent, name)).parameters) == list(known)


async def test_a_strategy_that_does_not_exist_is_the_callers_mistake(remembering: World) -> None:
    async with httpx.AsyncClient() as bare:
        answer = await bare.post(
            f"{remembering.url}/llm/history/compact", json={"strategy": "magic", "session_id": "s"}
        )
    assert answer.status_code == 400
    assert answer.json()["reason"] == "INVALID_ARGUMENT"


async def test_an_agent_without_memory_says_so(world: World, transport: str) -> None:
    async with peer_client(transport) as client:
        with pytest.raises(TransportRemoteError, match="UNIMPLEMENTED"):
            await client.describe_state(world.at(transport))


# -- what the routes say by themselves -----------------------------------------------------------------------------------------


async def test_pages_and_health_are_shown(world: World) -> None:
    async with httpx.AsyncClient() as bare:
        page = await bare.get(f"{world.url}/status")
        assert page.headers["content-type"].startswith("text/html")
        assert "the calculator" in page.text
        assert "add" in page.text
        for path in ("healthz", "readyz"):
            assert (await bare.get(f"{world.url}/{path}")).json()["ready"] is True


async def test_a_request_id_comes_back_with_answers_and_errors(world: World) -> None:
    headers = {"X-Protolink-Request-ID": "abc", "Content-Type": "application/json"}
    async with httpx.AsyncClient(headers=headers) as bare:
        for answer in (
            await bare.get(f"{world.url}/.well-known/agent.json"),
            await bare.post(f"{world.url}/tasks/", content=b"{"),
            await bare.post(f"{world.url}/tasks/stream", json=Task.create_tool_call("add", {"a": 1, "b": 2}).to_dict()),
        ):
            assert answer.headers["x-protolink-request-id"] == "abc"
        long = await bare.get(f"{world.url}/healthz", headers={"X-Protolink-Request-ID": "x" * 200})
    assert long.headers["x-protolink-request-id"] == ""


async def test_frames_of_a_stream_have_the_shape_that_was_promised(world: World) -> None:
    body = Task.create_tool_call("add", {"a": 1, "b": 2}).to_dict()
    async with httpx.AsyncClient() as bare:
        answer = await bare.post(f"{world.url}/tasks/stream", json=body, headers={"X-Protolink-Request-ID": "r1"})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    frames = answer.text.split("\n\n")
    assert frames.pop() == ""
    envelopes = [json.loads(frame.removeprefix("data: ")) for frame in frames]
    assert all(list(each) == ["jsonrpc", "id", "ok", "result", "final"] for each in envelopes)
    assert {(each["jsonrpc"], each["id"], each["ok"]) for each in envelopes} == {("2.0", "r1", True)}
    assert [each["final"] for each in envelopes] == [False] * (len(envelopes) - 1) + [True]


UNREADABLE: dict[str, tuple[bytes, int, str]] = {
    "no JSON": (b"{", 400, "body"),
    "twice": (b'{"id":"a","id":"b"}', 400, "twice"),
    "too deep": (b'{"metadata":' + b"[" * 200 + b"]" * 200 + b"}", 400, "deeper"),
    "too large": (b'{"id":"' + b"x" * 100_000 + b'"}', 413, "bytes"),
}
NO_TASKS: dict[str, tuple[bytes, int, str]] = {
    "nothing": (b"", 400, "object"),
    "no object": (b"[1]", 400, "object"),
    "no such state": (b'{"state":"dreaming"}', 400, "state"),
    "a part without a type": (b'{"messages":[{"parts":[{"content":"x"}]}]}', 400, "messages[0].parts[0].type"),
    "a role of nobody": (b'{"messages":[{"role":"martian","parts":[]}]}', 400, "messages[0].role"),
    "no message": (b"{}", 400, "message"),
    "an id too long": (b'{"id":"' + b"x" * 129 + b'","messages":[{"parts":[]}]}', 400, "id"),
}
SMALL = RequestGuard(bounds=Bounds(max_body_bytes=65_536))


@pytest.mark.parametrize(
    ("path", "name"),
    [("/tasks/", name) for name in UNREADABLE | NO_TASKS] + [("/tasks/stream", name) for name in UNREADABLE],
)
async def test_a_bad_body_is_refused_with_what_is_wrong(path: str, name: str) -> None:
    body, status, said = (UNREADABLE | NO_TASKS)[name]
    async with behind_the_gateway(calculator(), guard=SMALL) as world, httpx.AsyncClient() as bare:
        answer = await bare.post(f"{world.url}{path}", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
        assert said in answer.json()["error"]
        alive = await bare.post(f"{world.url}/tasks/", json=Task.create_tool_call("add", {"a": 1, "b": 1}).to_dict())
        assert alive.json()["state"] == "completed"


@pytest.mark.parametrize("name", NO_TASKS)
async def test_a_stream_of_no_task_is_one_error_frame(world: World, name: str) -> None:
    body, _, said = NO_TASKS[name]
    async with httpx.AsyncClient() as bare:
        headers = {"Content-Type": "application/json"}
        answer = await bare.post(f"{world.url}/tasks/stream", content=body, headers=headers)
    (frame,) = answer.text.removesuffix("\n\n").split("\n\n")
    envelope = json.loads(frame.removeprefix("data: "))
    assert (envelope["ok"], envelope["final"], envelope["error"]["reason"]) == (False, True, "INVALID_ARGUMENT")
    assert said in envelope["error"]["message"]


async def test_a_body_must_say_that_it_is_json(world: World) -> None:
    async with httpx.AsyncClient() as bare:
        for headers in ({"Content-Type": "text/plain"}, {}):
            answer = await bare.post(f"{world.url}/tasks/", content=b"{}", headers=headers)
            assert answer.json()["reason"] == "CONTENT_TYPE_NOT_SUPPORTED"


async def test_an_idempotency_key_without_a_task_id_finds_the_first_task(world: World) -> None:
    body = {"messages": [{"parts": [{"type": "tool_call", "content": {"tool_name": "add", "args": {"a": 1, "b": 1}}}]}]}
    async with httpx.AsyncClient(headers={"Idempotency-Key": "k"}) as bare:
        first = await bare.post(f"{world.url}/tasks/", json=body)
        again = await bare.post(f"{world.url}/tasks/", json=body)
    assert first.json()["state"] == "completed"
    assert first.json()["id"] == again.json()["id"]


# -- who asks ----------------------------------------------------------------------------------------------------------------


async def by_key(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("x-api-key")
    return Principal(name, frozenset({"all"})) if name in ("ann", "bob") else None


def credentials(name: str) -> dict[str, Any]:
    from protolink.security.auth import APIKeyAuth

    return {"authenticator": APIKeyAuth({name: ["all"]}), "credentials": name}


async def test_nobody_gets_in_without_credentials(transport: str) -> None:
    async with behind_the_gateway(calculator(), guard=RequestGuard(by_key)) as world, peer_client(transport) as client:
        # Over WebSocket the handshake fails with 401, which the client's library raises as it is.
        with pytest.raises(Exception, match="401"):
            await client.send_task(world.at(transport), Task.create_tool_call("add", {"a": 1, "b": 2}))


async def test_the_refusal_of_a_stranger_is_json() -> None:
    async with behind_the_gateway(calculator(), guard=RequestGuard(by_key)) as world, httpx.AsyncClient() as bare:
        refused = await bare.post(f"{world.url}/tasks/", json={})
        assert (refused.status_code, refused.json()["reason"]) == (401, "UNAUTHENTICATED")
        assert isinstance(refused.json()["error"], str)
        assert (await bare.get(f"{world.url}/status")).status_code == 401
        for path in ("/healthz", "/.well-known/agent.json"):
            assert (await bare.get(f"{world.url}{path}")).status_code == 200


async def test_a_private_card_takes_credentials() -> None:
    async with (
        behind_the_gateway(calculator(), guard=RequestGuard(by_key), public_card=False) as world,
        httpx.AsyncClient() as bare,
    ):
        assert (await bare.get(f"{world.url}/.well-known/agent.json")).status_code == 401


async def test_credentials_of_the_client_are_understood_and_tasks_are_their_owners(transport: str) -> None:
    agent = Asking(our_card("asking"))
    async with behind_the_gateway(agent, guard=RequestGuard(by_key)) as world:
        async with peer_client(transport, **credentials("ann")) as ann:
            asked = await ann.send_task(world.at(transport), Task.create("the weather"))
        async with peer_client(transport, **credentials("bob")) as bob:
            with pytest.raises(TransportError, match="TASK_NOT_FOUND"):
                await bob.cancel_task(world.at(transport), asked.id)
            asked.add_message(Message.user("Bonn"))
            with pytest.raises(TransportError, match="TASK_NOT_FOUND"):
                await bob.send_task(world.at(transport), asked)
        service = await agent._own_service()
        assert (await service.get(asked.id, "ann")).state == "input-required"
