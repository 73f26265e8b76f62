"""Questions with typed answers: to agents over each interface, to peers in a run, and to the agent's own model."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_world import JSONRPC, REST, a2a_server
from pydantic import BaseModel

from protolink_grpc import (
    Agent,
    AgentClient,
    Cost,
    InferSettings,
    InvalidArgumentError,
    Message,
    Part,
    Price,
    Registry,
    RunBudget,
    ScriptedLLM,
    StopAt,
    Task,
    TaskState,
)
from protolink_grpc.errors import InvalidAgentResponseError, TaskExecutionError, UnsupportedOperationError
from protolink_grpc.llms import ModelResponse, ModelUsage
from protolink_grpc.models.events import ActionEnded, LlmCallCompleted

PATIENCE_S = 30.0
"""How long something that must happen may take; far more than it needs on a busy machine."""


class Weather(BaseModel):
    city: str
    degrees: float


ROME = Weather(city="Rome", degrees=21.5)
ROME_JSON = ROME.model_dump_json()


def station(*steps: Any, **settings: Any) -> Agent:
    llm = ScriptedLLM(steps or [ROME_JSON])
    return Agent(name="station", url="grpc://127.0.0.1:0", http="127.0.0.1:0", llm=llm, **settings)


def client_of(agent: Agent, interface: str) -> AgentClient:
    match interface:
        case "grpc":
            return AgentClient(url=agent.card.url)
        case "http":
            return AgentClient(url=agent.http_url)
        case "a2a":
            return AgentClient("a2a", agent.http_url)
        case "protolink":
            return AgentClient("http", agent.http_url)
    raise ValueError(interface)


class Asking(Agent):
    """Asks for a city."""

    async def handle_task(self, task: Task) -> Task:
        if len([message for message in task.messages if message.role == "user"]) == 1:
            return task.require_input(Message.agent("Which city?"))
        return task.complete(f"It is warm in {task.messages[-1].text}.")


class Ending(Agent):
    """Ends a task in the way that its text names."""

    async def handle_task(self, task: Task) -> Task:
        match task.messages[-1].text:
            case "fail":
                return task.fail("no reading")
            case "reject":
                return task.reject("not today")
            case "silent":
                return task
            case "parts":
                parts = [each for text in ("one", "two") for each in Message.agent(text).parts]
                task.add_message(Message(role="agent", parts=parts))
                return task
        return task.complete("just a text")


# -- clients -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interface", ["grpc", "http", "a2a", "protolink"])
async def test_a_client_gets_an_instance_and_the_model_the_schema(interface: str) -> None:
    agent = station('{"city": "Rome"}', ROME_JSON)
    async with agent:
        answer = await client_of(agent, interface).ask("How warm is Rome?", output_type=Weather)
    assert answer == ROME
    assert isinstance(agent.llm, ScriptedLLM)
    first, second = agent.llm.requests
    assert first.output_schema == Weather.model_json_schema()
    assert "degrees" in second.messages[-1].content  # the correction names the field


@pytest.mark.parametrize("interface", ["grpc", "http", "a2a", "protolink"])
async def test_without_a_type_the_answer_is_text(interface: str) -> None:
    async with station("It is warm.") as agent:
        assert await client_of(agent, interface).ask("How warm is Rome?") == "It is warm."


async def test_corrections_end_at_the_bound_of_the_agent_and_the_task_has_the_reason() -> None:
    async with station(*["warm"] * 9, infer=InferSettings(max_parse_failures=2)) as agent:
        with pytest.raises(TaskExecutionError, match="answer: ") as failed:
            await AgentClient(url=agent.card.url).ask("How warm is Rome?", output_type=Weather)
        assert failed.value.failure.reason == "INFER_PARSE_FAILED"
        assert isinstance(agent.llm, ScriptedLLM)
        assert len(agent.llm.requests) == 2


@pytest.mark.parametrize(
    ("kind", "said", "answer"),
    [(int, "21", 21), (list[Weather], f"[{ROME_JSON}]", [ROME]), (Weather | None, "null", None), (bool, "true", True)],
    ids=str,
)
async def test_an_answer_may_be_of_any_type_with_a_schema(kind: Any, said: str, answer: Any) -> None:
    async with station(said) as agent:
        assert await AgentClient(url=agent.card.url).ask("?", output_type=kind) == answer


async def test_the_synchronous_client_returns_the_same_instance() -> None:
    async with station() as agent:
        client = AgentClient(url=agent.card.url).sync
        answer = await asyncio.to_thread(client.ask, "How warm is Rome?", output_type=Weather)
    assert answer == ROME


async def test_a_type_without_a_schema_is_refused_before_anything_is_sent() -> None:
    client = AgentClient(url="grpc://127.0.0.1:1")
    with pytest.raises(InvalidArgumentError, match="output_type: no JSON Schema can describe Event"):
        await client.ask("?", output_type=asyncio.Event)


async def test_the_task_of_a_question_has_its_session_and_budget() -> None:
    async with station() as agent:
        client = AgentClient(url=agent.card.url)
        await client.ask("?", output_type=Weather, session_id="s1", budget=RunBudget(max_steps=3), request_id="r1")
        (task,) = (await client.list_tasks(session_id="s1")).tasks
        found = await client.get_task(task.id)
        assert found.context is not None
        assert found.context.budget.max_steps == 3
        # The same request is the same task.
        again = await client.ask("?", output_type=Weather, session_id="s1", request_id="r1")
        assert again == ROME
        assert len((await client.list_tasks()).tasks) == 1


@pytest.mark.parametrize(
    ("text", "state", "message"),
    [
        ("fail", "failed", "failed: no reading"),
        ("reject", "rejected", "was rejected: not today"),
        ("silent", "", "ended without an answer"),
    ],
)
async def test_a_task_without_success_is_a_typed_error_with_the_task(text: str, state: str, message: str) -> None:
    async with Ending(name="ending", url="grpc://127.0.0.1:0") as agent:
        with pytest.raises(TaskExecutionError, match=message) as failed:
            await AgentClient(url=agent.card.url).ask(text)
    assert failed.value.metadata.get("state", "") == state
    assert failed.value.task.id == failed.value.metadata["task_id"]


async def test_an_answer_with_several_texts_is_all_of_them() -> None:
    async with Ending(name="ending", url="grpc://127.0.0.1:0") as agent:
        assert await AgentClient(url=agent.card.url).ask("parts") == "one\ntwo"


async def test_an_agent_that_ignores_the_schema_is_a_clear_error() -> None:
    async with Ending(name="ending", url="grpc://127.0.0.1:0") as agent:
        with pytest.raises(InvalidAgentResponseError, match="the answer is not a valid Weather: answer: ") as refused:
            await AgentClient(url=agent.card.url).ask("text", output_type=Weather)
    assert refused.value.metadata["task_id"]


async def test_a_question_of_the_agent_is_an_error_with_which_the_caller_goes_on() -> None:
    async with Asking(name="asking", url="grpc://127.0.0.1:0") as agent:
        client = AgentClient(url=agent.card.url)
        with pytest.raises(TaskExecutionError, match=r"waits for input: Which city\?$") as waiting:
            await client.ask("How warm is it?")
        task = waiting.value.task
        assert (task.state, waiting.value.metadata["state"]) == (TaskState.INPUT_REQUIRED, "input-required")
        assert await client.ask("Rome", task_id=task.id) == "It is warm in Rome."


@pytest.mark.parametrize("binding", [JSONRPC, REST])
async def test_an_agent_of_another_system_gets_the_schema_as_an_instruction(binding: str) -> None:
    async with a2a_server(binding) as server:
        client = AgentClient(url=server.url)
        with pytest.raises(InvalidAgentResponseError, match="not a valid Weather"):
            await client.ask("How warm is Rome?", output_type=Weather)
        (message,) = server.errands.heard
        question, instruction = (part.text for part in message.parts)
        assert question == "How warm is Rome?"
        assert instruction.startswith("Answer with JSON, and nothing else")
        assert '"degrees"' in instruction
        assert await client.ask("come") == "did: come"


# -- peers -----------------------------------------------------------------------------------------------------------------------


async def test_a_question_to_a_peer_is_an_action_of_the_run_and_counts_in_its_budget() -> None:
    async with Registry() as registry:
        boss = Agent(name="boss", url="grpc://127.0.0.1:0", registry=registry)

        @boss.tool
        async def warm() -> float:
            """Ask the station."""
            answer: Weather = await boss.peer("station").ask("How warm is Rome?", output_type=Weather)
            return answer.degrees

        async with station(registry=registry), boss:
            client = AgentClient(url=boss.card.url)
            done = await client.send_task(None, Task.create_tool_call("warm", {}))
            log = [event.payload async for event in client.subscribe(done.id, stop_at=StopAt.CURRENT)]
        assert done.get_output() == 21.5
        assert [each.name for each in log if isinstance(each, ActionEnded)] == ["station", "warm"]
        assert done.usage is not None
        assert done.usage.llm_calls == 1


async def test_a_tool_in_a_thread_asks_a_peer_without_await() -> None:
    async with Registry() as registry:
        boss = Agent(name="boss", url="grpc://127.0.0.1:0", registry=registry)

        @boss.tool
        def warm() -> float:
            """Ask the station."""
            return boss.peer("station").ask_sync("How warm is Rome?", output_type=Weather).degrees

        async with station(registry=registry), boss:
            done = await AgentClient(url=boss.card.url).send_task(None, Task.create_tool_call("warm", {}))
        assert done.get_output() == 21.5


# -- money --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interface", ["grpc", "http"])
async def test_a_question_with_a_limit_of_its_cost_is_answered_and_the_cost_is_in_usage_and_report(
    interface: str,
) -> None:
    agent = station(ModelResponse(ROME_JSON, usage=ModelUsage(1000, 100, {}, 400)))
    assert agent.llm is not None
    agent.llm.configure_metrics(**Price(2, 10, cached_input=1).profile_fields)
    async with agent:
        client = client_of(agent, interface)
        assert await client.ask("?", output_type=Weather, budget=RunBudget(max_cost_usd=0.5), session_id="s") == ROME
        (task,) = (await client.list_tasks(session_id="s")).tasks
        done, report = await client.get_task(task.id), await client.get_run_report(None, task.id)
    assert done.usage is not None
    assert done.usage.costs == (Cost(600 * 2 + 400 + 100 * 10, "USD"),)
    assert (report.totals.cost_micros, report.totals.currency) == (2600, "USD")


@pytest.mark.parametrize("interface", ["grpc", "http", "a2a"])
async def test_a_limit_of_the_cost_with_a_model_of_unknown_price_fails_the_run_and_names_the_limit(
    interface: str,
) -> None:
    async with station() as agent:
        with pytest.raises(
            TaskExecutionError, match=r"max_cost: the budget limits the cost to 0\.5 USD, but the price of"
        ):
            await client_of(agent, interface).ask("?", output_type=Weather, budget=RunBudget(max_cost_usd=0.5))
        assert isinstance(agent.llm, ScriptedLLM)
        assert agent.llm.requests == []


async def test_a_peer_with_a_model_of_unknown_price_does_not_work_under_the_limit_of_its_caller() -> None:
    async with Registry() as registry:
        boss = Agent(name="boss", url="grpc://127.0.0.1:0", registry=registry)

        @boss.tool
        async def warm() -> str:
            """Ask the station."""
            return await boss.peer("station").ask("How warm is Rome?")

        async with station(registry=registry) as peer, boss:
            task = Task.create_tool_call("warm", {}, budget=RunBudget(max_cost_usd=0.5))
            done = await AgentClient(url=boss.card.url).send_task(None, task)
            assert isinstance(peer.llm, ScriptedLLM)
            assert peer.llm.requests == []
    assert done.state is TaskState.FAILED
    assert "max_cost" in done.reason


# -- the agent itself -----------------------------------------------------------------------------------------------------------


async def test_an_agent_answers_code_of_its_process_without_a_server() -> None:
    agent = Agent(name="station", llm=ScriptedLLM([ROME_JSON]))
    assert await agent.ask("How warm is Rome?", output_type=Weather, session_id="s") == ROME
    await agent.aclose()


class Forecaster(Agent):
    """Asks its own model within its run."""

    async def handle_task(self, task: Task) -> Task:
        picture = Part.image(b"\x89PNG", name="sky.png")
        question = Message(parts=[Part.text("How warm is Rome?"), picture])
        weather = await self.ask(question, output_type=Weather)
        words = await self.ask(f"Describe {weather.degrees} degrees.")
        return task.complete(words)


async def test_a_handler_asks_the_model_of_its_agent_as_a_part_of_its_run() -> None:
    def reply(request: Any) -> str:
        return ROME_JSON if request.output_schema else "Warm."

    async with Forecaster(name="forecaster", url="grpc://127.0.0.1:0", llm=ScriptedLLM([reply])) as agent:
        client = AgentClient(url=agent.card.url)
        done = await client.send_task(None, "go")
        log = [event.payload async for event in client.subscribe(done.id, stop_at=StopAt.CURRENT)]
        live = [event.type async for event in client.send_task_streaming(None, "go", deltas=True)]
        assert isinstance(agent.llm, ScriptedLLM)
        assert [len(request.messages[-1].media) for request in agent.llm.requests[:2]] == [1, 0]
        with pytest.raises(TaskExecutionError) as over:
            await client.ask("go", budget=RunBudget(max_llm_calls=1))
    assert "llm.stream" not in live
    assert (done.get_output(), done.artifacts) == ("Warm.", [])
    assert done.usage is not None
    assert done.usage.llm_calls == len([each for each in log if isinstance(each, LlmCallCompleted)]) == 2
    assert over.value.failure.reason == "BUDGET_EXCEEDED"


async def test_a_question_in_a_run_takes_no_context_of_its_own_and_needs_a_model() -> None:
    found: list[Exception] = []

    class Wrong(Agent):
        async def handle_task(self, task: Task) -> Task:
            for more in ({"budget": RunBudget()}, {}):
                try:
                    await self.ask("?", **more)  # type: ignore[call-overload]  # what is tested
                except Exception as error:
                    found.append(error)
            return task.complete("done")

    async with Wrong(name="wrong", url="grpc://127.0.0.1:0") as agent:
        await AgentClient(url=agent.card.url).send_task(None, "go")
    assert [type(each) for each in found] == [InvalidArgumentError, UnsupportedOperationError]
    assert str(found[0]) == "budget: is that of the run"


PROGRAM = """
    import asyncio, sys
    from pydantic import BaseModel
    from protolink_grpc import Agent, ScriptedLLM, SQLiteStore, current_run

    class Weather(BaseModel):
        city: str
        degrees: float

    class Forecaster(Agent):
        async def handle_task(self, task):
            weather = await self.ask("How warm is Rome?", output_type=Weather)
            peer = await self.peer(sys.argv[2]).ask("How warm is Rome?", output_type=Weather)
            await current_run().flush()
            print("asked", flush=True)
            if sys.argv[3] == "stop":
                await asyncio.Event().wait()
            return task.complete(f"{weather.degrees} {peer.degrees} {type(weather).__name__}")

    async def main():
        llm = ScriptedLLM(['{"city": "Rome", "degrees": %s}' % sys.argv[4]])
        llm.configure_metrics(input_cost_per_million=1000.0, output_cost_per_million=2000.0)
        store = SQLiteStore(sys.argv[1])
        agent = Forecaster(name="forecaster", url="grpc://127.0.0.1:0", store=store, llm=llm, recovery="resume")
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_a_recovered_run_gets_the_answers_that_the_killed_one_got(
    launch: Callable[..., Awaitable[Any]], tmp_path: Path
) -> None:
    path = tmp_path / "tasks.db"
    async with station(ROME_JSON, ROME_JSON) as peer:
        program = await launch(PROGRAM, path, peer.card.url, "stop", "1.0")
        client = AgentClient(url=await program.line())
        task = await client.submit_task(None, Task.create("go"))
        assert await program.line() == "asked"
        await program.kill()
        program = await launch(PROGRAM, path, peer.card.url, "go", "2.0")
        client = AgentClient(url=await program.line())
        async with asyncio.timeout(PATIENCE_S):
            done = await client.wait_task(task.id)
        assert done.get_output() == "1.0 21.5 Weather"
        log = [event.payload async for event in client.subscribe(task.id)]
        (paid,) = [each.cost for each in log if isinstance(each, LlmCallCompleted)]
        assert done.usage is not None
        assert (done.usage.llm_calls, done.usage.costs) == (2, (paid,))
        assert isinstance(peer.llm, ScriptedLLM)
        assert len(peer.llm.requests) == 1
