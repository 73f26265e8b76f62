"""Each public function with arguments of wrong types: it works, or its error names the argument."""

import asyncio
import enum
import inspect
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import protolink_grpc
from protolink_grpc import (
    ActionAuthorizer,
    Agent,
    AgentCard,
    AgentClient,
    Artifact,
    BudgetEnforcer,
    BudgetPolicy,
    CancellationToken,
    CapabilityPolicy,
    ConversationHistory,
    InMemoryEventSink,
    InMemoryStorage,
    InvalidArgumentError,
    Message,
    MockLLM,
    Part,
    ProtolinkError,
    RedactionPolicy,
    Registry,
    RegistryClient,
    RunAction,
    RunBudget,
    RunContext,
    RunRecorder,
    ScriptedLLM,
    State,
    Task,
    TaskDescription,
    TaskLink,
    Tool,
)

WRONG = (object(), 5, -1.5, True, None, "nonsense", b"\xff", [], {}, print)


def add(a: int = 1) -> int:
    return a


RIGHT: dict[str, Any] = {
    "agent_url": "runtime://nobody",
    "card": {"name": "a", "description": "b"},
    "context": RunContext(),
    "fn": add,
    "path": ":memory:",
    "task": "hello",
    "url": "runtime://a",
}
"""Arguments for required parameters, by name; the others get a text."""

OBJECTS: dict[str, Callable[[], Any]] = {
    "ActionAuthorizer": ActionAuthorizer,
    "Agent": lambda: Agent("a"),
    "AgentCard": lambda: AgentCard("a", "b", "runtime://a"),
    "AgentClient": lambda: AgentClient("runtime://nobody", timeout=1.0),
    "Artifact": Artifact,
    "BudgetEnforcer": lambda: BudgetEnforcer(RunBudget()),
    "BudgetPolicy": BudgetPolicy,
    "CancellationToken": CancellationToken,
    "CapabilityPolicy": lambda: CapabilityPolicy({}),
    "ConversationHistory": ConversationHistory,
    "InMemoryEventSink": InMemoryEventSink,
    "InMemoryStorage": InMemoryStorage,
    "Message": Message,
    "MockLLM": MockLLM,
    "Part": lambda: Part("text", "x"),
    "RedactionPolicy": RedactionPolicy,
    "Registry": Registry,
    "RegistryClient": lambda: RegistryClient("grpc://127.0.0.1:1"),
    "RunAction": lambda: RunAction("a", "b"),
    "RunBudget": RunBudget,
    "RunContext": RunContext,
    "RunRecorder": RunRecorder,
    "ScriptedLLM": lambda: ScriptedLLM(["x"]),
    "State": lambda: State(InMemoryStorage(), ["tools"]),
    "Task": lambda: Task.create("x"),
    "Tool": lambda: Tool.from_callable(RIGHT["fn"], name="t"),
}

LIVES = {"start", "serve", "run", "stop", "aclose", "sync", "start_background"}
"""Methods that begin or end something that goes on."""

CALLS: dict[str, Callable[[], Any]] = {
    "AgentClient.sessions": lambda: OBJECTS["AgentClient"]().sessions,
    "AgentClient.snapshots": lambda: OBJECTS["AgentClient"]().snapshots,
    "AgentClient.tasks": lambda: OBJECTS["AgentClient"]().tasks,
}
"""The groups of methods of a client, whose classes are not exported."""

NETWORK = {"RegistryClient"}
"""Their methods call a server, of which there is none here; their constructors are walked."""


def functions() -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Each public function, constructor and method by name, and how to get it anew."""
    for name in sorted(protolink_grpc.__all__):
        found = getattr(protolink_grpc, name)
        if not inspect.isclass(found):
            if callable(found):
                yield name, lambda found=found: found
            continue
        if issubclass(found, BaseException | enum.Enum) or inspect.isabstract(found):
            continue
        yield name, lambda found=found: found
        if name not in OBJECTS or name in NETWORK:
            continue
        for method in sorted(dir(found)):
            static = inspect.getattr_static(found, method)
            if method.startswith("_") or method in LIVES:
                continue
            if inspect.isfunction(static) or isinstance(static, classmethod | staticmethod):
                yield f"{name}.{method}", lambda name=name, method=method: getattr(OBJECTS[name](), method)
    for name, make in CALLS.items():
        for method in sorted(name for name in dir(make()) if not name.startswith("_")):
            yield f"{name}.{method}", lambda make=make, method=method: getattr(make(), method)


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(function)
    except ValueError:
        return []
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each for each in signature.parameters.values() if each.kind not in several]


async def called(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    by_place = [each.name for each in parameters(function) if each.kind is each.POSITIONAL_ONLY]
    made = function(*(arguments.pop(name) for name in by_place if name in arguments), **arguments)
    async with asyncio.timeout(2):
        if inspect.isasyncgen(made):
            await anext(made, None)
            await made.aclose()
        elif inspect.isawaitable(made):
            await made


async def error_of(function: Callable[..., Any], arguments: dict[str, Any]) -> Exception | None:
    try:
        await called(function, arguments)
    except Exception as error:
        return error
    return None


def is_about(error: Exception, parameter: str) -> bool:
    """Whether it is an error that a caller can read: one of ours, or one that names the argument or the type of its value."""
    if isinstance(error, ProtolinkError | TimeoutError):
        return True
    if isinstance(error, AttributeError | KeyError):
        return False
    about = (parameter, "is not JSON serializable", "Tool '")
    return not isinstance(error, TypeError) or any(each in str(error) for each in about)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in functions()])
async def test_a_wrong_argument_never_fails_inside(make: Callable[[], Callable[..., Any]]) -> None:
    offered = parameters(make())
    required = {each.name: RIGHT.get(each.name, "x") for each in offered if each.default is each.empty}
    for parameter in offered:
        for wrong in WRONG:
            error = await error_of(make(), {**required, parameter.name: wrong})
            assert error is None or is_about(error, parameter.name), f"{parameter.name}={wrong!r}: {error!r}"


SENTENCES: list[tuple[Callable[[], Any], str]] = [
    (lambda: Agent("a", policy=5), "policy: must be Policy or None, not int"),
    (lambda: Agent("a", store="log.db"), "store: must be TaskStore or None, not str"),
    (lambda: Agent("a", limits={"max_queue": 1}), "limits: must be Limits or None, not dict"),
    (lambda: Agent("a", recovery="later"), "recovery: must be 'auto', 'lost' or 'resume', not 'later'"),
    (lambda: Agent("a", tools=5), "tools: must be Iterable of BaseTool or a function, not int"),
    (lambda: Agent("a", tools=[5]), "tools[0]: must be BaseTool or a function, not int"),
    (lambda: Agent("a", tools=[add, add]), "tools: two tools are named 'add'"),
    (lambda: Agent("a", http=-1), "http: "),
    (lambda: Agent("a", name="b"), "card: is a name, and name is also set"),
    (lambda: Agent("grpc://127.0.0.1:1"), "card: is a URL"),
    (
        lambda: AgentClient("grpc://127.0.0.1:1", url="grpc://127.0.0.1:2"),
        "transport: is a URL, so url must not be given, too",
    ),
    (lambda: Task.create("x", budget=5), "budget: must be RunBudget or None, not int"),
    (lambda: RunBudget(max_steps=-1), "max_steps: must be an integer from 0"),
    (lambda: CapabilityPolicy(5), "rules: must be "),
]


PUBLIC_CLASSES = {
    name: found
    for name in protolink_grpc.__all__
    if isinstance(found := getattr(protolink_grpc, name), type)
    and not issubclass(found, BaseException | enum.Enum)
    and not getattr(found, "_is_protocol", False)
}


@pytest.mark.parametrize("name", sorted(PUBLIC_CLASSES))
def test_a_wrong_name_of_an_argument_is_an_error_that_names_the_public_class(name: str) -> None:
    wrong: dict[str, Any] = {"ulr": 1}
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        PUBLIC_CLASSES[name](**wrong)


TASK = "01a2"

CALL_SENTENCES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda client: client.sessions.submit(5, "x"), "session_id: must be str, not int"),
    (lambda client: client.sessions.submit("s", 5), "message: must be Task, Message or str, not int"),
    (lambda client: client.sessions.submit("s", "x", when_busy="later"), "when_busy: must be one of enqueue, "),
    (lambda client: client.sessions.replace_input("s", "t", [5]), "message[0]: must be Message, not int"),
    (lambda client: client.sessions.roll_back("s", 5), "turn: must be Turn or str, not int"),
    (lambda client: client.sessions.resume("s", thread_id=None), "thread_id: must be str, not None"),
    (lambda client: client.tasks.create(5), "message: must be Task, Message or str, not int"),
    (
        lambda client: client.tasks.create("x", description="red"),
        "description: must be TaskDescription or None, not str",
    ),
    (lambda client: client.tasks.create("x", links=["x"]), "links[0]: must be TaskLink, not str"),
    (lambda client: client.tasks.create("x", links=[TaskLink("likes", "x")]), "links[0].kind: must be one of parent, "),
    (lambda client: client.tasks.update(TASK, metadata="x"), "metadata: must be dict or None, not str"),
    (lambda client: client.tasks.start(None), "task_id: must be str, not None"),
    (lambda client: client.tasks.report_progress(TASK, "half"), "progress: must be float or None, not str"),
    (lambda client: client.tasks.complete(TASK, ["done"]), "messages[0]: must be Message, not str"),
    (lambda client: client.tasks.fail(TASK, None), "failure: must be Failure or str, not None"),
    (lambda client: client.tasks.link(TASK, "likes", "x"), "link.kind: must be one of parent, "),
    (lambda client: client.tasks.list(statuses=["nice"]), "statuses[0]: must be one of draft, "),
    (lambda client: client.tasks.retry(TASK, reason=5), "reason: must be str, not int"),
    (lambda client: client.snapshots.thread("s", 5), "thread_id: must be str, not int"),
    (lambda client: client.snapshots.evidence(5), "task_id: must be str, not int"),
]


@pytest.mark.parametrize(("call", "says"), CALL_SENTENCES, ids=[says for _, says in CALL_SENTENCES])
async def test_the_sentence_of_a_call_names_the_argument(call: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await call(AgentClient("runtime://nobody"))
    assert str(caught.value).startswith(says)
    assert caught.value.field == says.partition(":")[0]


def test_a_text_in_place_of_several_criteria_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="acceptance: must be a tuple of texts, not a text"):
        TaskDescription(acceptance="is blue")  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(("call", "says"), SENTENCES, ids=[says for _, says in SENTENCES])
def test_the_sentence_names_the_argument_and_what_it_must_be(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert str(caught.value).startswith(says)
    assert caught.value.field == says.partition(":")[0]


# What just works


def test_a_text_in_place_of_a_card_is_a_name() -> None:
    card = Agent("calc").card
    assert (card.name, card.description, card.url) == ("calc", "calc", "runtime://calc")


async def test_a_port_in_place_of_an_address_listens_on_this_machine() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with Agent("calc", url="grpc://127.0.0.1:0", http=port) as agent:
        assert f"http://127.0.0.1:{port}" in [each.url.rstrip("/") for each in agent.card.interfaces]
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()


class Echo(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete(task.messages[-1].text)


@pytest.mark.parametrize(
    "given",
    [lambda: "hello", lambda: Message().add_text("hello"), lambda: Task.create("hello")],
    ids=["text", "message", "task"],
)
async def test_a_text_or_a_message_in_place_of_a_task_begins_one(given: Callable[[], Any]) -> None:
    async with Echo("echo", url="grpc://127.0.0.1:0") as agent:
        client = AgentClient(agent.card.url)
        answers = [
            await client.send_task(None, given()),
            await client.wait_task((await client.submit_task(None, given())).id),
            await agent.run_task(given()),
        ]
        assert [answer.messages[-1].text for answer in answers] == ["hello"] * 3
        for stream in (client.send_task_streaming(None, given()), agent.run_task_streaming(given())):
            assert [event async for event in stream][-1].type == "task.status"
    async with Agent("asks", url="grpc://127.0.0.1:0") as asks, Echo("echo", url="grpc://127.0.0.1:0") as agent:
        assert (await asks.call_agent(agent.card.url, given())).messages[-1].text == "hello"
