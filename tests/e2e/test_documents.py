"""Every Python block of the documents runs as printed, with `protolink` replaced by `protolink_grpc`.

A *scene* surrounds a block: it provides the names that the block uses and does not define, and checks the result. Servers in scenes
are real, and models are mock LLMs. The ports of this machine that a block names are replaced by free ones.
"""

import __future__

import abc
import ast
import asyncio
import contextlib
import dataclasses
import enum
import inspect
import io
import json
import re
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from documents import FOLDER, NAMES, Block, are_required, blocks_of, read_document
from ports import free_port

import protolink_grpc
from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    Artifact,
    CapabilityPolicy,
    Message,
    Part,
    RunContext,
    ScriptedLLM,
    Task,
    create_llm,
    models,
)
from protolink_grpc.llms import ModelRequest

BLOCKS = {
    "agentruntime-llms-full": 1,
    "protolink-models": 72,
    "protolink-runtime": 12,
    "protolink-transport": 11,
    "protolink-whitepaper": 5,
}
"""The number of blocks in each document."""

RAISES = {"protolink-models:368": (ValueError, "submitted -> completed")}
"""Blocks that show an error."""

Names = dict[str, Any]
Scene = Callable[[Names], AsyncGenerator[None, None]]
SCENES: dict[str, Scene] = {}


def scene(*ids: str) -> Callable[[Scene], Scene]:
    """Register the scene of the blocks with these ids."""

    def register(play: Scene) -> Scene:
        SCENES.update(dict.fromkeys(ids, play))
        return play

    return register


def all_blocks() -> list[Block]:
    return [block for name in NAMES for block in blocks_of(name)] if FOLDER.is_dir() else []


def test_the_documents_are_there() -> None:
    if not FOLDER.is_dir() and not are_required():
        pytest.skip(
            "the documents are not part of the project; put them into ../shared/reference/seeds to run their blocks"
        )
    assert Counter(block.document for block in all_blocks()) == BLOCKS


needs_documents = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="test_the_documents_are_there reports missing documents"
)


CODE = re.compile(
    r"from [\w.]+ import |import \w+$|(async )?def \w+\(|class \w+[(:]|@\w[\w.]*(\(|$)|(async )?for \w+ in .*:$"
    r"|assert |print\(|await "
)


@needs_documents
def test_every_line_that_looks_like_code_is_in_a_block() -> None:
    for name in NAMES:
        blocks = blocks_of(name)
        covered = {number for block in blocks for number in range(block.line, block.line + block.code.count("\n"))}
        code = {number: line for number, line in enumerate(read_document(name).splitlines(), 1) if CODE.match(line)}
        assert {number: line for number, line in code.items() if number not in covered} == {}, name
        assert code or name == "agentruntime-llms-full"  # the one document without Python


@needs_documents
def test_scenes_and_exceptions_belong_to_blocks() -> None:
    ids = {block.id for block in all_blocks()}
    assert (SCENES.keys() | RAISES.keys() | NOT_HERE.keys() | READERS.keys()) - ids == set()


# -- Kinds of blocks -----------------------------------------------------------------------------------------------------


def is_declaration(block: Block) -> bool:
    """Whether a block shows only how a class is declared."""
    body = ast.parse(block.code).body
    return len(body) == 1 and isinstance(body[0], ast.ClassDef)


def is_json(block: Block) -> bool:
    """Whether a block is a value on the wire."""
    try:
        json.loads(block.code.removeprefix("data: "))
    except ValueError:
        return False
    return True


def is_program(block: Block) -> bool:
    return not is_declaration(block) and not is_json(block)


def params(wanted: Callable[[Block], bool]) -> list[Any]:
    return [pytest.param(block, id=block.id) for block in all_blocks() if wanted(block)]


# -- Programs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", params(is_program))
async def test_a_program_runs_and_prints_what_its_comments_say(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some programs write files
    names: Names = {"__name__": "__main__"}
    if block.document == "protolink-models":  # its fragments belong to a program that imports the models
        names |= {name: getattr(models, name) for name in models.__all__}
        names |= {"Any": Any, "task": Task.create(Message.user("Hello")).begin()}
    async with contextlib.asynccontextmanager(SCENES.get(block.id, nothing_around))(names):
        printed = await run(block, names)
        expected = comments_of_prints(block.code)
        for line, comment in zip(printed.splitlines(), expected, strict=False):
            if comment is not None:
                assert line == str(eval(comment, names))


async def nothing_around(names: Names) -> AsyncGenerator[None, None]:
    yield


async def run(block: Block, names: Names) -> str:
    """Run a block and return what it prints."""
    code = re.sub(r"^(from|import) protolink\b", r"\1 protolink_grpc", block.code, flags=re.MULTILINE)
    for port, free in names.pop("ports", {}).items():
        assert f"localhost:{port}" in code
        code = code.replace(f"localhost:{port}", f"localhost:{free}")
    error, message = RAISES.get(block.id, (None, ""))
    outcome = pytest.raises(error, match=message) if error is not None else contextlib.nullcontext()
    with contextlib.redirect_stdout(io.StringIO()) as printed, outcome:
        done = eval(compile(code, block.id, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), names)
        if inspect.isawaitable(done):
            await done
    return printed.getvalue()


def comments_of_prints(code: str) -> list[str | None]:
    """Return the value behind each call of print, in Python's form, or None if its comment is in words."""
    comments = [line.partition("  # ")[2] for line in code.splitlines() if line.startswith("print(")]
    return [each if re.fullmatch(r'"[^"]*"|\d+|TaskState\.\w+', each) else None for each in comments]


# -- Declarations --------------------------------------------------------------------------------------------------------

NOT_HERE = {
    "protolink-models:884": "EndpointSpec is how ProtoLink's servers describe routes to its transports",
    "protolink-transport:103": "BackendInterface is how ProtoLink's HTTP transport calls its servers",
}
"""Classes of ProtoLink that this package does not have: docs/protolink.md gives the reasons."""

DEFAULTS = {
    ("AgentCard", "transport"): "grpc",
    ("LLMMessage", "tool_calls"): [],
}
"""Defaults that differ on purpose: docs/protolink.md gives the reasons."""


def declared(block: Block) -> Any:
    """Return the class that a block declares. Annotations are not evaluated."""
    names: Names = {
        "__name__": __name__,
        "protolink_version": models.PROTOCOL_VERSION,
        "ABC": abc.ABC,
        "Enum": enum.Enum,
        "abstractmethod": abc.abstractmethod,
        "dataclass": dataclasses.dataclass,
        "deque": deque,
        "field": dataclasses.field,
        **{name: getattr(models, name) for name in models.__all__},
    }
    flags = __future__.annotations.compiler_flag
    exec(compile(block.code, block.id, "exec", flags=flags, dont_inherit=True), names)
    tree = ast.parse(block.code).body[0]
    assert isinstance(tree, ast.ClassDef)
    return names[tree.name]


@pytest.mark.parametrize("block", params(is_declaration))
def test_a_declared_class_can_be_used_as_declared(block: Block) -> None:
    shown = declared(block)
    if block.id in NOT_HERE:
        return
    ours = getattr(protolink_grpc, shown.__name__)
    if issubclass(shown, enum.Enum):
        assert {each.name: ours(each.value).name for each in shown} == {each.name: each.name for each in shown}
        return
    if not dataclasses.is_dataclass(shown):
        assert inspect.signature(ours).parameters.keys() >= inspect.signature(shown).parameters.keys()
        return
    fields = dataclasses.fields(shown)
    required = {each.name: "text" for each in fields if default_of(each) is dataclasses.MISSING}
    made = ours(**required | ({"url": "http://127.0.0.1:8000"} if "url" in required else {}))
    for each in fields:
        expected = DEFAULTS.get((shown.__name__, each.name), default_of(each))
        if each.name in required or each.name in ("id", "timestamp", "created_at"):
            assert hasattr(made, each.name)
        else:
            assert getattr(made, each.name) == expected, each.name


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return the default of a field, or MISSING. Ids and times are made by names that only ProtoLink has, and are not made."""
    if field.name in ("id", "timestamp", "created_at") and field.default_factory is not dataclasses.MISSING:
        return None
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


# -- Values on the wire --------------------------------------------------------------------------------------------------

READERS: dict[str, Any] = {
    "protolink-transport:146": Task,
    "protolink-transport:184": Message,
    "protolink-transport:200": Part,
    "protolink-transport:207": Artifact,
}


@pytest.mark.parametrize("block", params(lambda block: is_json(block) and block.id in READERS))
def test_a_value_on_the_wire_is_read_and_written(block: Block) -> None:
    value = json.loads(block.code)
    assert READERS[block.id].from_dict(value).to_dict().items() >= value.items()


def block_of(block_id: str) -> Block:
    (found,) = [block for block in all_blocks() if block.id == block_id]
    return found


@needs_documents
async def test_a_frame_of_server_sent_events_has_the_keys_of_the_shown_frame() -> None:
    shown = json.loads(block_of("protolink-transport:443").code.removeprefix("data: "))
    async with (
        mock_agent("streamer", http="127.0.0.1:0") as agent,
        httpx.AsyncClient(base_url=agent.http_url) as client,
    ):
        task = Task.create_infer(prompt="Explain")
        lines = (await client.post("/tasks/stream", json=task.to_dict())).text.splitlines()
    frames = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    frame = next(each for each in frames if each["result"]["type"] == shown["result"]["type"])
    assert frame.keys() == shown.keys()
    assert {key: frame[key] for key in ("jsonrpc", "ok", "final")} == {"jsonrpc": "2.0", "ok": True, "final": False}


@needs_documents
async def test_an_event_of_the_agent_runtime_contract_has_the_keys_of_the_shown_event() -> None:
    shown = json.loads(block_of("agentruntime-llms-full:284").code)
    agent = mock_agent("reader")

    @agent.tool
    def read_file(path: str) -> str:
        return "text"

    async with agent:
        client = AgentClient("runtime")
        task = await client.send_task(
            agent.card.url, Task.create_tool_call("read_file", {"path": "README.md"}, session_id="s")
        )
        lines = [json.loads(line) async for line in client.export_task(agent.card.url, task.id, format="agentruntime")]
    event = next(each for each in lines if each["type"] == shown["type"])
    assert shown.keys() <= event.keys()
    assert event["payload"] == {**shown["payload"], "kind": "tool.call"}


@needs_documents
def test_every_value_on_the_wire_is_compared() -> None:
    compared = READERS.keys() | {"protolink-transport:443", "agentruntime-llms-full:284"}
    assert {block.id for block in all_blocks() if is_json(block)} == compared


# -- Scenes --------------------------------------------------------------------------------------------------------------


async def never(request: ModelRequest) -> str:
    """A model that works until it is canceled."""
    await asyncio.Event().wait()
    return ""


def mock_agent(name: str, **settings: Any) -> Agent:
    return Agent(
        AgentCard(name, name, f"runtime://{name}"), llm=create_llm("mock", default_response="done"), **settings
    )


@scene("protolink-models:706", "protolink-models:869")
async def images(names: Names) -> AsyncGenerator[None, None]:
    names["image_data"] = names["chart_image_data"] = "aGVsbG8="
    yield
    made = names["msg"] if "msg" in names else names["artifact"]
    assert made.parts[-1].to_dict() == {"type": "image", "content": "aGVsbG8="}
    assert type(made).from_dict(made.to_dict()) == made


@scene("protolink-models:500")
async def prompt_of_a_task(names: Names) -> AsyncGenerator[None, None]:
    yield
    assert names["task"].get_last_part().type == "infer"


@scene("protolink-runtime:60")
async def context_of_a_task(names: Names) -> AsyncGenerator[None, None]:
    yield
    assert RunContext.from_task(names["task"]) == names["context"]


@scene("protolink-runtime:108")
async def manifest_of_a_prompt(names: Names) -> AsyncGenerator[None, None]:
    yield
    assert (names["manifest"].run_id, names["manifest"].context_window) == ("run_budgeted", 8192)


@scene("protolink-runtime:191")
async def agent_with_much_to_do(names: Names) -> AsyncGenerator[None, None]:
    """The agent of the block has no model, so here each agent gets one that works until it is canceled."""

    class Busy(Agent):
        def __init__(self, card: AgentCard) -> None:
            super().__init__(card, llm=ScriptedLLM([never]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protolink_grpc, "Agent", Busy)
        yield
    assert names["result"].metadata["cancel_reason"] == "Stopped by user"
    await names["agent"].aclose()


@scene("protolink-runtime:212")
async def busy_agent_elsewhere(names: Names) -> AsyncGenerator[None, None]:
    started = asyncio.Event()

    async def work(request: ModelRequest) -> str:
        started.set()
        return await never(request)

    async with Agent("worker", url="grpc://127.0.0.1:0", llm=ScriptedLLM([work])) as agent:
        names |= {"Task": Task, "asyncio": asyncio, "task_started": started}
        names |= {"client": AgentClient(), "agent_url": agent.card.url}
        yield
    assert names["canceled"].state.value == names["result"].state.value == "canceled"


@scene("protolink-runtime:274")
async def action_with_a_preview(names: Names) -> AsyncGenerator[None, None]:
    yield
    assert [each.action_id for each in names["action"].artifacts] == [names["action"].action_id]


@scene("protolink-runtime:302")
async def records_to_write(names: Names) -> AsyncGenerator[None, None]:
    names["card"] = AgentCard(name="records", description="Keeps records", url="runtime://records")
    yield
    agent, written = names["agent"], []

    @agent.tool(capabilities=["records.write"])
    async def write(text: str) -> None:
        written.append(text)

    await agent.call_tool("write", text="approved")
    assert written == ["approved"]


@scene("protolink-runtime:336")
async def approved_publication(names: Names) -> AsyncGenerator[None, None]:
    seen: list[Any] = []

    async def approve(request: Any, context: RunContext) -> bool:
        seen.append(request.action)
        return True

    policy = CapabilityPolicy({"records.write": "require_approval"})
    names["agent"] = agent = mock_agent("publisher", policy=policy, approval_handler=approve)
    yield
    published = await agent.call_tool_in_context("publish_record", RunContext(), record_id="42")
    assert published == {"record_id": "42", "status": "published"}
    assert [artifact.parts[0].content for artifact in seen[0].artifacts] == [{"record_id": "42"}]


@scene("protolink-runtime:371", "protolink-runtime:441", "protolink-whitepaper:506")
async def run_to_record(names: Names) -> AsyncGenerator[None, None]:
    names["agent"] = agent = mock_agent("recorded")
    names["task"] = task = Task.create_infer(prompt="Produce a result")
    names["context"] = RunContext.from_task(task)
    yield
    await agent.aclose()


@scene("protolink-runtime:480")
async def runs_in_a_file(names: Names) -> AsyncGenerator[None, None]:
    names["llm"] = create_llm("mock", default_response="a summary")
    yield
    assert [record.task_id for record in names["recent"]] == [names["record"].task_id] == [names["task"].id]
    await names["agent"].aclose()


@scene("protolink-runtime:522")
async def golden_run(names: Names) -> AsyncGenerator[None, None]:
    yield
    types = [each["type"] for each in names["snapshot"]]
    assert [each for each in types if each.startswith("llm")] == ["llm.call.started", "llm.call.completed"]
    await names["agent"].aclose()


@scene("protolink-transport:124")
async def transports_over_http(names: Names) -> AsyncGenerator[None, None]:
    yield
    assert (names["transport"].url, names["transport"].timeout) == ("http://localhost:8000", 360.0)


@scene("protolink-transport:225")
async def echo_over_http(names: Names) -> AsyncGenerator[None, None]:
    yield
    async with names["EchoAgent"](free_port()) as agent:
        answer = await AgentClient(transport="http").send_message(agent.card.url, Message.user("hello"))
    assert answer.parts[0].content == "echo: hello"


@scene("protolink-transport:250")
async def call_of_an_agent_over_http(names: Names) -> AsyncGenerator[None, None]:
    class Echo(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.complete(f"echo: {task.get_last_part_content()}")

    names["ports"] = {8021: free_port()}
    yield
    async with (
        Echo("echo", url=f"http://127.0.0.1:{free_port()}") as echo,
        names["CallerAgent"](echo.card.url) as caller,
    ):
        names["caller_agent"] = caller
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            await names["call_remote"](echo.card.url)
        forwarded = await AgentClient(transport="http").send_task(caller.card.url, Message.user("hi"))
    assert printed.getvalue() == "Response: echo: Hello over HTTP!\n"
    assert forwarded.get_output() == "echo: hi"


@scene("protolink-transport:321")
async def agents_of_one_process(names: Names) -> AsyncGenerator[None, None]:
    started: list[Agent] = []

    def recorded(kind: Callable[..., Agent]) -> Callable[..., Agent]:
        def make(**settings: Any) -> Agent:
            started.append(kind(**settings))
            return started[-1]

        return make

    yield
    names |= {kind: recorded(names[kind]) for kind in ("Agent", "TranslatorAgent")}
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            await names["main"]()
    finally:
        for agent in started:
            await asyncio.to_thread(agent.stop)
    assert printed.getvalue() == "Translated: Hello!\n"


@scene("protolink-transport:428", "protolink-whitepaper:411")
async def streaming_agent(names: Names) -> AsyncGenerator[None, None]:
    port = free_port()
    llm = create_llm("mock", default_response="done")
    async with Agent("streamer", url=f"http://localhost:{port}", transport="sse", llm=llm):
        names["ports"] = {8010: port}
        yield


@scene("protolink-whitepaper:164")
async def researcher_with_traces(names: Names) -> AsyncGenerator[None, None]:
    yield
    agent = names["agent"]
    answer = await agent.run_task(Task.create("What is new?", session_id="monday"))
    (module,) = (await agent.describe_state(session_id="monday")).stores
    await agent.aclose()
    assert (answer.get_output(), module.message_count) == ("ready", 2)
    assert Path("researcher.db").exists()
    assert Path("traces.jsonl").stat().st_size > 0


@scene("protolink-whitepaper:262")
async def hotel(names: Names) -> AsyncGenerator[None, None]:
    names["agent"] = agent = mock_agent("hotel")
    yield
    booked = await agent.call_tool("book_hotel", booking={"location": "Athens", "guests": 2})
    assert booked == {"location": "Athens", "status": "confirmed"}
    (skill,) = agent.card.skills
    assert skill.examples == [{"booking": {"location": "Athens", "guests": 2}}]


@scene("protolink-whitepaper:458")
async def route_of_a_draft(names: Names) -> AsyncGenerator[None, None]:
    names["task"] = task = Task.create(Message.user("Write"))
    yield
    assert task.messages[-1].parts[-1].content.route_key == "editor"
