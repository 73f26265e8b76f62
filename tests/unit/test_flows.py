"""Flows in one process: order, stops, branches, routes, graphs, and what they inherit from their caller."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    Artifact,
    CapabilityPolicy,
    InvalidArgumentError,
    Message,
    MockLLM,
    Part,
    RunBudget,
    RunContext,
    RunEvent,
    Task,
    TaskExecutionError,
    TaskState,
    current_run,
)
from protolink_grpc.flows import Flow, Graph, Parallel, Pipeline, RepeatUntil, Router, Step, ToolStep
from protolink_grpc.llms import Media, ModelResponse
from protolink_grpc.models.events import ActionRequested

PATIENCE_S = 30.0


class Echo(Agent):
    """Answers with its name and the latest text."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, url=f"runtime://{name}", **settings)
        self.tasks: list[Task] = []
        self.contexts: list[RunContext] = []

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        self.tasks.append(task)
        self.contexts.append(run.context)
        return task.complete(f"{self.card.name}({task.messages[-1].text})")


class Asking(Agent):
    """Asks a question, and completes with the answer."""

    def __init__(self, name: str, *, auth: bool = False) -> None:
        super().__init__(name, url=f"runtime://{name}")
        self.auth = auth

    async def handle_task(self, task: Task) -> Task:
        if not any(message.text.startswith("answer") for message in task.messages):
            return task.require_auth("who?") if self.auth else task.require_input("which?")
        return task.complete(f"{self.card.name} got {task.messages[-1].text}")


class Stopping(Agent):
    """Ends with a state."""

    def __init__(self, name: str, stop: Callable[[Task], Any]) -> None:
        super().__init__(name, url=f"runtime://{name}")
        self.stop_task = stop

    async def handle_task(self, task: Task) -> Task:
        self.stop_task(task)
        return task


async def shout(task: Task) -> None:
    task.add_message(Message.agent(task.messages[-1].text.upper()))


def says(text: str) -> Callable[[Task], Any]:
    async def speak(task: Task) -> None:
        task.add_message(Message.agent(text))

    return speak


def texts(task: Task) -> list[str]:
    return [message.text for message in task.messages if message.role == "agent"]


async def events_of(agent: Agent, task: Task | str) -> list[RunEvent]:
    return [event async for event in agent.run_task_streaming(Task.create(task) if isinstance(task, str) else task)]


def workflow(events: list[RunEvent], kind: str) -> list[str]:
    """The paths of the events of one type."""
    found = [event.payload for event in events if event.type == f"workflow.{kind}"]
    return [str(each["path"]) for each in found if isinstance(each, dict)]


# -- Pipelines -----------------------------------------------------------------------------------------------------------


async def test_each_step_receives_the_results_of_those_before_it() -> None:
    one, two = Echo("one"), Echo("two")
    done = await Pipeline([one, shout, two]).execute(Task.create("hello"))
    assert done.state is TaskState.COMPLETED
    assert texts(done) == ["one(hello)", "ONE(HELLO)", "two(ONE(HELLO))"]
    assert [message.text for message in two.tasks[0].messages[:4]] == [
        "hello",
        "one(hello)",
        "ONE(HELLO)",
        "ONE(HELLO)",
    ]
    assert two.tasks[0].messages[3].parts[0].type == "infer"


async def test_an_image_of_one_step_reaches_the_models_of_the_next_steps_that_take_images() -> None:
    painted = MockLLM(sequential_responses=[ModelResponse(files=(Media("image/png", b"png", name="house.png"),))])
    seen, read = MockLLM(default_response="a house", input_media=["image/*"]), MockLLM(input_media=[])
    steps = [Agent(name, url=f"runtime://{name}", llm=llm) for name, llm in (("a", painted), ("b", seen), ("c", read))]
    done = await Pipeline(steps).execute(Task.create("Draw a house"))
    assert done.state is TaskState.COMPLETED
    message = seen.requests[0].messages[-1]
    assert message.content == "house.png (image/png)"
    assert [(each.name, each.data) for each in message.media] == [("house.png", b"png")]
    assert read.requests[0].messages[-1].content == "a house"
    assert read.requests[0].messages[-1].media == ()


async def test_an_agent_with_a_flow_is_the_flow() -> None:
    agent = Agent("writer", flow=Pipeline().add_step(Echo("one")).add_step(shout))
    done = await agent.run_task("hello")
    assert texts(done) == ["one(hello)", "ONE(HELLO)"]
    assert done.artifacts == []


async def test_a_task_is_not_changed_by_the_flow_that_executes_it() -> None:
    task = Task.create("hello")
    done = await Pipeline([shout]).execute(task)
    assert (task.state, len(task.messages), done.id) == (TaskState.SUBMITTED, 1, task.id)


async def test_invoke_returns_the_output_of_the_last_step() -> None:
    assert await Pipeline([says("draft"), says("final")]).invoke("write") == "final"
    with pytest.raises(TaskExecutionError, match="out of paper"):
        await Pipeline([Stopping("printer", lambda task: task.fail("out of paper"))]).invoke("print")


def test_a_flow_has_synchronous_methods() -> None:
    flow = Pipeline([says("done")])
    assert flow.sync.invoke("go") == "done"
    assert texts(flow.sync.execute(Task.create("go"))) == ["done"]
    flow.sync.close()


async def test_a_function_may_return_another_task_and_need_not_be_async() -> None:
    def other(task: Task) -> Task:
        return Task(messages=[Message.agent("from a thread")], metadata={"seen": len(task.messages)})

    done = await Pipeline([other]).execute(Task.create("hello"))
    assert texts(done) == ["from a thread"]
    assert done.metadata["seen"] == 1


async def test_artifacts_and_metadata_of_steps_are_those_of_the_task() -> None:
    async def produce(task: Task) -> None:
        task.add_artifact(Artifact(id="report", parts=[Part.text("draft")]))
        task.metadata["words"] = 1

    async def revise(task: Task) -> None:
        task.artifacts[0].parts[0] = Part.text("final")
        task.metadata["words"] += 1

    done = await Pipeline([produce, revise]).execute(Task.create("write"))
    assert [(each.id, each.parts[0].content) for each in done.artifacts] == [("report", "final")]
    assert done.metadata["words"] == 2


async def test_a_step_may_produce_as_much_as_several_events_hold() -> None:
    async def produce(task: Task) -> None:
        for number in range(3):
            task.add_artifact(Artifact(id=f"image-{number}", parts=[Part.text("x" * (3 << 20))]))

    agent = Agent("flow", flow=Pipeline([produce, shout]))
    done = await agent.run_task("go")
    assert (done.state, [each.id for each in done.artifacts]) == (
        TaskState.COMPLETED,
        ["image-0", "image-1", "image-2"],
    )


async def test_a_function_may_remove_metadata() -> None:
    async def remove(task: Task) -> None:
        del task.metadata["draft"]
        task.metadata["kept"] = 2

    task = Task.create("go")
    task.metadata.update({"draft": 1, "kept": 1})
    done = await Pipeline([remove, Echo("one")]).execute(task)
    assert {key: done.metadata.get(key) for key in ("draft", "kept")} == {"draft": None, "kept": 2}


async def test_an_exception_of_a_function_fails_the_flow_and_names_the_step() -> None:
    async def broken(task: Task) -> None:
        raise LookupError("no such page")

    done = await Pipeline([broken, shout]).execute(Task.create("hello"))
    assert done.state is TaskState.FAILED
    assert done.reason == "step 'broken' failed: LookupError: no such page"
    wrong = await Pipeline([lambda task: 7]).execute(Task.create("hello"))
    assert "must return a Task or None, not int" in wrong.reason


async def test_a_pipeline_may_be_limited() -> None:
    done = await Pipeline([shout, shout], max_steps=1).execute(Task.create("hello"))
    assert (done.state, texts(done)) == (TaskState.FAILED, ["HELLO"])
    assert "more than 1 steps" in done.reason


def test_what_cannot_be_a_step_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="not int"):
        Pipeline([7])  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError, match="needs a step"):
        Agent("empty", flow=Pipeline())


# -- Tools ---------------------------------------------------------------------------------------------------------------


async def test_a_tool_step_calls_a_tool_with_arguments_computed_from_the_task() -> None:
    clerk = Agent("clerk", url="runtime://clerk")

    @clerk.tool
    def add(a: int, b: int) -> int:
        return a + b

    step = ToolStep(clerk, "add", lambda task: {"a": int(task.messages[-1].text), "b": 2})
    done = await Pipeline([step]).execute(Task.create("40"))
    assert done.state is TaskState.COMPLETED
    assert done.get_output() == 42
    assert len(done.messages) == 1
    failed = await Pipeline([ToolStep(clerk, "add", {"a": 1})]).execute(Task.create("40"))
    assert failed.state is TaskState.FAILED
    assert "b" in failed.reason


# -- Stops ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("auth", [False, True])
async def test_an_answer_to_a_waiting_flow_continues_the_step_that_asked(auth: bool) -> None:
    first, flow = Echo("first"), None
    flow = Pipeline([first, Asking("asking", auth=auth), shout])
    waiting = await flow.execute(Task.create("hello"))
    assert waiting.state is (TaskState.AUTH_REQUIRED if auth else TaskState.INPUT_REQUIRED)
    assert texts(waiting)[-1] == ("who?" if auth else "which?")
    done = await flow.execute(waiting.add_message(Message.user("answer 7")))
    assert done.state is TaskState.COMPLETED
    assert texts(done)[-2:] == ["asking got answer 7", "ASKING GOT ANSWER 7"]
    assert len(first.tasks) == 1


async def test_a_function_that_asks_is_called_again_with_the_answer() -> None:
    calls: list[str] = []

    async def ask_twice(task: Task) -> Task:
        calls.append(task.messages[-1].text)
        return task.complete("thanks") if len(calls) == 3 else task.require_input(f"question {len(calls)}")

    flow = Pipeline([ask_twice, shout])
    task = await flow.execute(Task.create("hello"))
    for answer in ("one", "two"):
        assert task.state is TaskState.INPUT_REQUIRED
        task = await flow.execute(task.add_message(Message.user(answer)))
    assert (task.state, calls) == (TaskState.COMPLETED, ["hello", "one", "two"])
    assert texts(task) == ["question 1", "question 2", "thanks", "THANKS"]


@pytest.mark.parametrize(
    ("stop", "state"),
    [
        (lambda task: task.fail("no paper"), TaskState.FAILED),
        (lambda task: task.reject("no paper"), TaskState.REJECTED),
        (lambda task: task.cancel("no paper"), TaskState.CANCELED),
    ],
)
async def test_a_step_that_does_not_complete_ends_the_flow_with_its_reason(stop: Any, state: TaskState) -> None:
    after = Echo("after")
    for flow in (Pipeline([Stopping("stopping", stop), after]), Pipeline([Step(lambda task: stop(task)), after])):
        done = await flow.execute(Task.create("print"))
        assert (done.state, done.reason, after.tasks) == (state, "no paper", [])


class Hanging(Agent):
    """Works until it is canceled."""

    def __init__(self, name: str) -> None:
        super().__init__(name, url=f"runtime://{name}")
        self.begun, self.canceled = asyncio.Event(), asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.canceled.set()
        return task


async def test_canceling_a_flow_cancels_every_branch() -> None:
    hanging = [Hanging("left"), Hanging("right")]
    agent = Agent("flow", flow=Pipeline([Parallel([Pipeline([each]) for each in hanging])]))
    task = Task.create("go")
    running = asyncio.ensure_future(agent.run_task(task))
    async with asyncio.timeout(PATIENCE_S):
        for each in hanging:
            await each.begun.wait()
        await agent.cancel_task(task.id, "enough")
        done = await running
        for each in hanging:
            await each.canceled.wait()
    assert (done.state, done.reason) == (TaskState.CANCELED, "enough")


async def test_canceling_the_call_of_execute_cancels_the_flow() -> None:
    hanging = Hanging("hanging")
    running = asyncio.ensure_future(Pipeline([hanging]).execute(Task.create("go")))
    async with asyncio.timeout(PATIENCE_S):
        await hanging.begun.wait()
        running.cancel()
        await hanging.canceled.wait()
    with pytest.raises(asyncio.CancelledError):
        await running


# -- Branches ------------------------------------------------------------------------------------------------------------


async def test_branches_are_merged_in_their_order_whichever_ends_first() -> None:
    slow_may_end = asyncio.Event()

    async def slow(task: Task) -> None:
        await slow_may_end.wait()
        task.add_message(Message.agent("slow"))
        task.metadata["last"] = "slow"

    async def fast(task: Task) -> None:
        assert len(task.messages) == 1
        task.add_message(Message.agent("fast"))
        task.metadata["last"] = "fast"
        slow_may_end.set()

    done = await Parallel([slow, fast]).execute(Task.create("go"))
    assert (done.state, texts(done)) == (TaskState.COMPLETED, ["slow", "fast"])
    assert done.metadata["last"] == "fast"


async def test_branches_do_not_see_each_others_changes() -> None:
    both = asyncio.Barrier(2)

    async def branch(task: Task) -> None:
        task.metadata.setdefault("list", []).append(1)
        task.messages[0].parts[0] = Part.text("changed")
        await both.wait()
        assert task.metadata["list"] == [1]
        task.add_artifact(Artifact(id="one", parts=[Part.text("same")]))

    done = await Parallel([branch, branch]).execute(Task.create("go"))
    assert (done.state, done.messages[0].text, len(done.artifacts)) == (TaskState.COMPLETED, "go", 1)


async def test_what_a_branch_does_not_change_keeps_the_changes_of_the_others() -> None:
    async def prepare(task: Task) -> None:
        task.add_artifact(Artifact(id="text", parts=[Part.text("draft")]))
        task.metadata.update({"both": 0, "first": 0, "gone": 0})

    async def first(task: Task) -> None:
        task.artifacts[0].parts[0] = Part.text("final")
        task.metadata.update({"both": 1, "first": 1, "new": 1})
        del task.metadata["gone"]

    async def second(task: Task) -> None:
        task.metadata["both"] = 2

    done = await Pipeline([prepare, Parallel([first, second])]).execute(Task.create("go"))
    assert done.artifacts[0].parts[0].content == "final"
    kept = {key: done.metadata.get(key) for key in ("both", "first", "new", "gone")}
    assert kept == {"both": 2, "first": 1, "new": 1, "gone": None}


async def test_a_branch_that_fails_cancels_the_others() -> None:
    hanging = Hanging("hanging")

    async def fail_later(task: Task) -> None:
        await hanging.begun.wait()
        task.fail("no paper")

    agent = Agent("flow", flow=Parallel([Pipeline([hanging, shout]), fail_later]))
    async with asyncio.timeout(PATIENCE_S):
        events = await events_of(agent, "go")
        await hanging.canceled.wait()
    (ended,) = [event.payload for event in events if event.type == "workflow.node.failed"]
    assert isinstance(ended, dict)
    assert (events[-1].state, ended["path"], ended["reason"]) == (TaskState.FAILED, "1:fail_later", "no paper")
    assert workflow(events, "node.abandoned") == ["0:pipeline/0:hanging", "0:pipeline"]


async def test_failures_of_branches_can_be_collected() -> None:
    branches = [Stopping("printer", lambda task: task.fail("no paper")), says("fine")]
    done = await Parallel(branches, on_error="collect").execute(Task.create("go"))
    assert (done.state, texts(done)) == (TaskState.COMPLETED, ["fine"])
    assert done.metadata["branch_errors"] == {"printer": {"state": "failed", "reason": "no paper"}}
    twice = await Parallel([*branches, branches[0]], on_error="collect").execute(Task.create("go"))
    assert list(twice.metadata["branch_errors"]) == ["0:printer", "2:printer"]
    worst = await Parallel(branches[:1], on_error="collect").execute(Task.create("go"))
    assert (worst.state, worst.reason) == (TaskState.FAILED, "no paper")


async def test_branches_that_ask_are_answered_one_after_the_other() -> None:
    ran: list[str] = []

    async def once(task: Task) -> None:
        ran.append("once")

    flow = Pipeline([Parallel([Asking("a"), once, Pipeline([shout, Asking("b")])]), says("end")])
    task = await flow.execute(Task.create("go"))
    assert texts(task) == ["which?", "GO", "which?"]
    task = await flow.execute(task.add_message(Message.user("answer 1")))
    assert task.state is TaskState.INPUT_REQUIRED
    assert texts(task)[3:] == ["a got answer 1"]
    task = await flow.execute(task.add_message(Message.user("answer 2")))
    assert (task.state, texts(task)[4:]) == (TaskState.COMPLETED, ["b got answer 2", "end"])
    assert ran == ["once"]


# -- Routes --------------------------------------------------------------------------------------------------------------


def routed(message: Message, **settings: Any) -> Flow:
    async def write(task: Task) -> None:
        task.add_message(message)

    routes = {"edit": says("edited"), "print": says("printed")}
    return Pipeline([write, Router(routes, "Edit what is bad.", **settings)])


@pytest.mark.parametrize(
    "parts",
    [
        [Part.route("print", reason="fine")],
        [Part.decision("print")],
        [Part.route("edit"), Part.text("x"), Part.route("print")],
        [Part.text("[ROUTE: edit]"), Part.route("print")],
        [Part.json({"route_key": "print"})],
        [Part.text('{"route": "print"}')],
        [Part.text("It is fine. [ROUTE: print]")],
        [Part.text("[ROUTE: edit] or rather [ROUTE:print]")],
    ],
)
async def test_the_output_before_a_router_chooses_the_route(parts: list[Part]) -> None:
    done = await routed(Message(role="agent", parts=parts)).execute(Task.create("go"))
    assert (done.state, texts(done)[-1]) == (TaskState.COMPLETED, "printed")
    assert [each["route_key"] for each in done.metadata["route_decisions"]] == ["print"]


async def test_a_tag_is_removed_from_the_text_and_becomes_a_part() -> None:
    done = await routed(Message.agent("It is fine. [ROUTE: print]")).execute(Task.create("go"))
    assert [part.type for part in done.messages[1].parts] == ["text", "route"]
    assert done.messages[1].text == "It is fine."


@pytest.mark.parametrize("message", [Message.agent("fine"), Message.route("burn")])
async def test_an_error_of_a_router_names_the_keys(message: Message) -> None:
    done = await routed(message).execute(Task.create("go"))
    assert done.state is TaskState.FAILED
    assert "the routes are: edit, print" in done.reason


async def test_a_function_chooses_if_the_output_does_not() -> None:
    asked: list[str] = []

    def choose(task: Task) -> str:
        asked.append(task.messages[-1].text)
        return "edit"

    assert texts(await routed(Message.agent("fine"), choose=choose).execute(Task.create("go")))[-1] == "edited"
    assert texts(await routed(Message.route("print"), choose=choose).execute(Task.create("go")))[-1] == "printed"
    assert asked == ["fine"]


async def test_a_router_may_be_the_first_step() -> None:
    task = Task(messages=[Message(parts=[Part.route("a")])])
    assert texts(await Router({"a": says("went to a")}, "").execute(task)) == ["went to a"]


# -- Prompts -------------------------------------------------------------------------------------------------------------


async def prompts(flow: Flow, *agents: Echo) -> list[str]:
    await flow.execute(Task.create("go"))
    return [str(agent.tasks[0].flow_state["prompt"]) for agent in agents]


async def test_an_agent_is_told_who_receives_its_output() -> None:
    one, two = Echo("one"), Echo("two", description="checks facts")
    first, last = await prompts(Pipeline([one, two]), one, two)
    assert "two: checks facts" in first
    assert "last step" in last


async def test_an_agent_before_a_router_is_told_the_routes() -> None:
    one = Echo("one")
    flow = Pipeline(
        [one, Pipeline([Router({"edit": shout, "print": shout}, "Edit what is bad.", choose=lambda _: "edit")])]
    )
    (prompt,) = await prompts(flow, one)
    assert "- edit: shout" in prompt
    assert "- print: shout" in prompt
    assert "Edit what is bad." in prompt
    assert "[ROUTE: edit]" in prompt


async def test_an_agent_before_branches_is_told_all_of_them() -> None:
    one, two = Echo("one"), Echo("two")
    first, second = await prompts(Pipeline([one, Parallel([two, shout])]), one, two)
    assert "- two" in first
    assert "- shout" in first
    assert "last step" in second


async def test_the_prompt_of_a_flow_does_not_become_a_part_of_its_task() -> None:
    done = await Pipeline([Echo("one"), Echo("two")]).execute(Task.create("go"))
    assert "prompt" not in done.flow_state


# -- Graphs --------------------------------------------------------------------------------------------------------------


def review(limit: int = 2, **settings: Any) -> Graph:
    """A draft that is revised until it has so many words."""

    async def revise(task: Task) -> None:
        task.add_message(Message.agent(f"{task.messages[-1].text} more"))

    graph = (
        Graph(**settings).add_node("draft", says("words")).add_node("revise", revise).add_node("print", says("printed"))
    )
    graph.add_edge("draft", "revise").add_edge("print", "__END__").set_entry_point("draft")
    return graph.add_conditional_edge(
        "revise",
        lambda task: "good" if task.messages[-1].text.count("more") >= limit else "bad",
        {"good": "print", "bad": "revise"},
    )


async def test_a_graph_follows_its_edges_and_loops() -> None:
    done = await review().execute(Task.create("go"))
    assert texts(done) == ["words", "words more", "words more more", "printed"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"max_iterations": 5}, "executed 5 nodes without reaching its end"),
        ({"max_node_visits": 3}, "executed node 'revise' 3 times"),
        ({"max_node_visits": {"revise": 3}}, "executed node 'revise' 3 times"),
    ],
)
async def test_a_graph_that_does_not_end_is_stopped(settings: dict[str, Any], reason: str) -> None:
    done = await review(100, **settings).execute(Task.create("go"))
    assert done.state is TaskState.FAILED
    assert reason in done.reason


async def test_a_condition_with_an_unknown_key_is_an_error_that_names_the_keys() -> None:
    graph = (
        Graph()
        .add_node("a", shout)
        .set_entry_point("a")
        .add_conditional_edge("a", lambda _: "left", {"right": "__END__"})
    )
    done = await graph.execute(Task.create("go"))
    assert "the condition of node 'a' returned 'left'; the keys are: right" in done.reason


def test_a_graph_is_checked_while_it_is_built() -> None:
    graph = Graph().add_node("a", shout).add_node("b", shout)
    with pytest.raises(InvalidArgumentError, match="the nodes are: a, b"):
        graph.add_edge("a", "c")
    with pytest.raises(InvalidArgumentError, match="the nodes are: a, b"):
        graph.add_conditional_edge("a", lambda _: "x", {"x": "c"})
    with pytest.raises(InvalidArgumentError, match="taken"):
        graph.add_node("a", shout)
    with pytest.raises(InvalidArgumentError, match="entry point"):
        Pipeline([graph])
    graph.set_entry_point("a")
    with pytest.raises(InvalidArgumentError, match="no way leads from 'a' to: b"):
        Agent("graph", flow=graph)
    graph.add_edge("a", "b")
    with pytest.raises(InvalidArgumentError, match="already has an edge"):
        graph.add_conditional_edge("a", lambda _: "x", {"x": "b"})
    graph.check()


async def test_a_step_is_repeated_until_its_checks_pass() -> None:
    async def count(task: Task) -> None:
        task.metadata["count"] = task.metadata.get("count", 0) + 1

    async def enough(task: Task) -> bool:
        return bool(task.metadata["count"] == 3)

    done = await RepeatUntil(count, enough, max_attempts=3).execute(Task.create("go"))
    assert (done.state, done.metadata["count"]) == (TaskState.COMPLETED, 3)
    failed = await RepeatUntil(count, [enough], max_attempts=2).execute(Task.create("go"))
    assert (failed.state, failed.metadata["count"]) == (TaskState.FAILED, 2)
    assert "does not pass: enough" in failed.reason
    stopped = await RepeatUntil(Step(lambda task: task.fail("no")), enough, max_attempts=9).execute(Task.create("go"))
    assert stopped.reason == "no"


# -- Inheritance ---------------------------------------------------------------------------------------------------------


async def test_steps_inherit_session_trace_and_permissions() -> None:
    agents = [Echo("one"), Echo("two"), Echo("three")]
    flow = Pipeline([agents[0], Parallel([agents[1], Router({"x": agents[2]}, "", choose=lambda _: "x")])])
    context = RunContext(session_id="session", trace_id="trace", permissions={"deny": ["mail.send"]})
    agent = Agent("flow", flow=flow)
    done = await agent.run_task(Task.create("go", context=context))
    assert done.state is TaskState.COMPLETED
    for each in agents:
        (own,) = each.contexts
        assert (own.session_id, own.trace_id) == ("session", "trace")
        assert own.permissions
        assert own.agent_chain == ["flow", each.card.name]
        assert own.parent_run_id == done.context.run_id if done.context is not None else False


async def test_branches_share_one_budget() -> None:
    counting = Agent("counting", url="runtime://counting")
    calls: list[int] = []

    @counting.tool
    def count(number: int) -> int:
        calls.append(number)
        return number

    steps = [Pipeline([ToolStep(counting, "count", {"number": number}) for number in (1, 2)]) for _ in range(2)]
    flow = Parallel(steps, on_error="collect")
    done = await Agent("flow", flow=flow).run_task(Task.create("go", budget=RunBudget(max_tool_calls=3)))
    assert len(calls) == 3
    assert done.usage is not None
    assert done.usage.tool_calls == 3
    assert len(done.metadata["branch_errors"]) == 1


async def test_a_policy_of_the_agent_applies_to_the_steps() -> None:
    agent = Agent("flow", flow=Pipeline([Echo("one")]), policy=CapabilityPolicy({"agent.delegate": "deny"}))
    done = await agent.run_task("go")
    assert done.state is TaskState.FAILED
    assert "denied" in done.reason


async def test_a_flow_in_a_handler_is_a_part_of_its_run() -> None:
    class Front(Agent):
        async def handle_task(self, task: Task) -> Task:
            return await Pipeline([shout, Echo("one")], name="inner").execute(task)

    agent = Front("front", url="runtime://front")
    events = await events_of(agent, Task.create("go"))
    assert workflow(events, "node.completed") == ["inner~1/0:shout", "inner~1/1:one", "inner~1"]
    assert events[-1].state is TaskState.COMPLETED
    requested = [event.payload.action.kind for event in events if isinstance(event.payload, ActionRequested)]
    assert requested == ["flow.step", "agent.call"]


async def test_the_model_of_an_agent_in_a_flow_receives_the_output_before_it() -> None:
    writer = Agent("writer", url="runtime://writer", llm=MockLLM(response_callback=lambda request: "a poem"))
    done = await Pipeline([writer, shout]).execute(Task.create_infer(prompt="write"))
    assert done.state is TaskState.COMPLETED


# -- Events and pictures -------------------------------------------------------------------------------------------------


async def test_the_events_of_a_flow_name_its_nodes() -> None:
    flow = Pipeline([shout, Parallel([shout, says("x")]), review()])
    events = await events_of(Agent("flow", flow=flow), "go")
    started, completed = workflow(events, "node.started"), workflow(events, "node.completed")
    assert started[:2] == ["0:shout", "1:parallel"]
    assert sorted(started) == sorted(completed)
    assert {"1:parallel/0:shout", "2:graph/revise", "2:graph/revise#2"} <= set(started)
    assert workflow(events, "decided") == ["2:graph/revise", "2:graph/revise#2"]
    assert (workflow(events, "started"), workflow(events, "ended")) == ([""], [""])


def test_a_flow_describes_itself_as_data_and_as_a_picture() -> None:
    flow = Pipeline([Echo("one"), Parallel([shout, "two"]), Router({"a": shout, "b": review()}, "")], name="all")
    data = flow.describe().to_dict()
    assert [node["id"] for node in data["nodes"]] == [
        "0:one",
        "1:parallel/0:shout",
        "1:parallel/1:two",
        "2:router",
        "2:router/a",
        "2:router/b/draft",
        "2:router/b/revise",
        "2:router/b/print",
    ]
    ways = {(edge["source"], edge["target"], edge["label"]) for edge in data["edges"]}
    assert ("__START__", "0:one", "") in ways
    assert ("1:parallel/1:two", "2:router", "") in ways
    assert ("2:router", "2:router/a", "a") in ways
    assert ("2:router/b/revise", "2:router/b/revise", "bad") in ways
    assert ("2:router/b/print", "__END__", "") in ways
    picture = flow.describe().to_mermaid()
    assert picture.startswith("flowchart TD\n")
    assert 'n3{"router"}' in picture
    assert 'n3 -->|"a"| n4' in picture


def test_the_path_of_a_node_has_no_slash_of_its_name() -> None:
    flow = Pipeline(["https://facts.example/a2a", Step(shout, name="to upper/case")])
    nodes = flow.describe().to_dict()["nodes"]
    assert [(node["id"], node["target"]) for node in nodes] == [
        ("0:facts.example-a2a", "https://facts.example/a2a"),
        ("1:to upper-case", ""),
    ]


async def test_a_tool_that_executes_a_flow_uses_its_own_agent() -> None:
    inner = Pipeline([Echo("one")], name="inner")
    worker = Agent("worker", url="runtime://worker")

    @worker.tool
    async def work() -> str:
        return (await inner.execute(Task.create("go"))).messages[-1].text

    front = Agent(
        "front", flow=Pipeline([ToolStep(worker, "work")]), policy=CapabilityPolicy({"agent.delegate": "allow"})
    )
    done = await front.run_task("begin")
    assert (done.state, done.get_output()) == (TaskState.COMPLETED, "one(go)")
