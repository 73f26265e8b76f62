"""The hooks of telemetry: their order, their arguments, and that they cannot disturb a run."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from protolink_grpc import Agent, InvalidArgumentError, Part, ScriptedLLM, Task, TaskState
from protolink_grpc.logs import RUN_FIELDS, get_logger
from protolink_grpc.models.redaction import DEFAULT_REDACTION_POLICY
from protolink_grpc.telemetry import MultiTelemetry, RunFieldsFilter, Span, Telemetry
from protolink_grpc.telemetry.base import Telemetry as Base
from protolink_grpc.telemetry.hooks import HOOKS
from protolink_grpc.telemetry.worker import TelemetryWorker

Call = tuple[str, tuple[Any, ...]]


class Recorder(Telemetry):
    """Records each call of a hook."""

    def __init__(self, capture_content: bool = False) -> None:
        self.calls: list[Call] = []
        self.capture_content = capture_content

    def arguments(self, hook: str) -> list[tuple[Any, ...]]:
        return [arguments for name, arguments in self.calls if name == hook]


def recorded(hook: str) -> Callable[..., None]:
    def call(self: Recorder, *arguments: Any) -> None:
        self.calls.append((hook, arguments))

    return call


for hook in HOOKS:
    setattr(Recorder, hook, recorded(hook))


def calculator(telemetry: Telemetry) -> Agent:
    agent = Agent(
        "calculator",
        llm=ScriptedLLM([{"type": "tool_call", "tool": "add", "args": {"a": 1, "b": 2}}, "three"]),
        telemetry=telemetry,
    )

    @agent.tool
    def add(a: int, b: int, api_key: str = "sk-0123456789abcdef") -> dict[str, Any]:
        """Add two numbers."""
        return {"sum": a + b, "api_key": api_key}

    @agent.tool
    def fail() -> None:
        """Fail."""
        raise ValueError("the disk is full")

    return agent


async def run(telemetry: Telemetry, task: Task) -> Task:
    agent = calculator(telemetry)
    try:
        return await agent.run_task(task)
    finally:
        await agent.aclose()


async def test_the_hooks_of_an_inference_are_called_in_the_order_of_the_log() -> None:
    seen = Recorder()
    await run(seen, Task.create_infer(prompt="add 1 and 2"))
    names = [name for name, _ in seen.calls if name not in ("on_llm_event", "on_span")]
    assert names == [
        "on_task_start",
        "on_llm_start",
        "on_llm_end",
        "on_tool_start",
        "on_tool_end",
        "on_llm_start",
        "on_llm_end",
        "on_task_end",
        "flush",
    ]
    assert [span.kind for (span,) in seen.arguments("on_span")] == ["llm", "tool", "llm", "run"]


async def test_the_hooks_get_no_content_unless_they_capture_it() -> None:
    seen = Recorder()
    task = await run(seen, Task.create_infer(prompt="a private question"))
    ((given, name),) = seen.arguments("on_task_start")
    assert (given.id, given.messages, name) == (task.id, [], "calculator")
    ((_, result, _),) = seen.arguments("on_task_end")
    assert (result.state, result.messages, result.artifacts) == (TaskState.COMPLETED, [], [])
    assert seen.arguments("on_tool_start") == [("add", {})]
    assert seen.arguments("on_tool_end") == [("add", None, None)]
    assert {prompt for prompt, _, _ in seen.arguments("on_llm_start")} == {""}
    assert {part.content for (part,) in seen.arguments("on_llm_end")} == {""}
    assert "private" not in repr(seen.calls)


async def test_captured_content_is_redacted() -> None:
    seen = Recorder(capture_content=True)
    await run(seen, Task.create_infer(prompt="add, with the password=hunter2hunter2"))
    assert seen.arguments("on_tool_end") == [("add", {"sum": 3, "api_key": "[REDACTED]"}, None)]
    ((given, _),) = seen.arguments("on_task_start")
    assert given.messages[0].parts[0].content["prompt"] == "add, with the password=[REDACTED]"
    assert "three" in [part.content for (part,) in seen.arguments("on_llm_end")]
    assert "hunter2" not in repr(seen.calls)
    assert "sk-0123456789abcdef" not in repr(seen.calls)


async def test_a_failed_tool_has_its_reason_and_with_content_its_message() -> None:
    for captures in (False, True):
        seen = Recorder(captures)
        await run(seen, Task.create_tool_call("fail"))
        ((name, result, error),) = seen.arguments("on_tool_end")
        assert (name, result) == ("fail", None)
        assert error.startswith("TOOL_FAILED")
        assert ("the disk is full" in error) is captures
        ((_, ended, _),) = seen.arguments("on_task_end")
        assert ended.state is TaskState.FAILED


async def test_async_hooks_share_the_context_of_their_run() -> None:
    started: contextvars.ContextVar[str] = contextvars.ContextVar("started")
    ended: list[tuple[str, str]] = []

    class Stack(Telemetry):
        async def on_task_start(self, task: Task, agent_name: str) -> None:
            await asyncio.sleep(0)
            started.set(task.id)

        def on_task_end(self, task: Task, result: Task, agent_name: str) -> None:
            ended.append((started.get(), result.id))

    agent = calculator(Stack())
    tasks = await asyncio.gather(*(agent.run_task(Task.create_tool_call("add", {"a": 1, "b": n})) for n in range(8)))
    await agent.aclose()
    assert sorted(ended) == sorted((task.id, task.id) for task in tasks)


@pytest.mark.parametrize("error", [ValueError("no collector"), SystemExit(3), asyncio.CancelledError()])
async def test_a_hook_that_fails_is_logged_once_and_the_others_are_called(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Recorder):
        def on_tool_start(self, tool_name: str, args: dict[str, Any]) -> None:
            raise error

    seen = Broken()
    agent = calculator(seen)
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            task = await agent.run_task(Task.create_tool_call("add", {"a": 1, "b": 2}))
            assert task.state is TaskState.COMPLETED
        await agent.aclose()
    assert len(seen.arguments("on_tool_end")) == 2
    (record,) = caplog.records
    assert "on_tool_start of the telemetry Broken failed" in record.getMessage()


async def test_an_async_hook_that_hangs_is_ended_after_its_timeout() -> None:
    class Hanging(Recorder):
        async def on_task_start(self, task: Task, agent_name: str) -> None:
            await asyncio.Event().wait()

    seen = Hanging()
    worker = TelemetryWorker(seen, DEFAULT_REDACTION_POLICY, hook_timeout_s=0.01)
    agent = Agent("a", observers=[worker.observe])
    await agent.run_task(Task.create_tool_call("missing"))
    await agent.aclose()
    await worker.aclose()
    assert len(seen.arguments("on_task_end")) == 1


async def test_a_hook_that_blocks_delays_no_run_and_what_is_lost_is_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release = threading.Event()

    class Blocking(Recorder):
        def on_task_start(self, task: Task, agent_name: str) -> None:
            release.wait()

    seen = Blocking()
    worker = TelemetryWorker(seen, DEFAULT_REDACTION_POLICY, max_queued=4)
    agent = Agent("a", observers=[worker.observe])
    with caplog.at_level(logging.WARNING):
        for _ in range(8):
            await agent.run_task("go")  # returns although the hook of the first one does not
    assert worker.dropped > 0
    lost = [each for each in caplog.records if "its queue of 4 appends is full" in each.getMessage()]
    assert len(lost) == 1
    release.set()
    await agent.aclose()
    await worker.aclose()
    assert seen.arguments("flush") == [()]


async def test_a_hook_that_hangs_does_not_keep_an_agent_from_stopping_and_starting_again() -> None:
    release = threading.Event()

    class Blocking(Recorder):
        def on_task_start(self, task: Task, agent_name: str) -> None:
            release.wait()

    seen = Blocking()
    worker = TelemetryWorker(seen, DEFAULT_REDACTION_POLICY, close_timeout_s=0.01)
    agent = Agent("a", observers=[worker.observe])
    await agent.run_task("go")
    await worker.aclose()
    assert worker.dropped == 0
    await agent.run_task("go")
    await agent.aclose()
    await worker.aclose()
    assert worker.dropped > 0
    release.set()


async def test_an_agent_that_is_started_again_calls_the_hooks_again() -> None:
    seen = Recorder()
    agent = calculator(seen)
    for count in (1, 2):
        await agent.run_task(Task.create_tool_call("add", {"a": 1, "b": 2}))
        await agent.aclose()
        assert len(seen.arguments("on_task_end")) == count


async def test_the_telemetries_of_a_multi_telemetry_do_not_affect_each_other() -> None:
    class Broken(Telemetry):
        def on_span(self, span: Span) -> None:
            raise OSError

    plain, capturing = Recorder(), Recorder(capture_content=True)
    await run(MultiTelemetry([Broken(), plain, capturing]), Task.create_tool_call("add", {"a": 1, "b": 2}))
    assert plain.arguments("on_tool_start") == [("add", {})]
    assert capturing.arguments("on_tool_start")[0][1]["a"] == 1


async def test_called_directly_a_multi_telemetry_calls_all_and_raises_the_failures_together() -> None:
    class Broken(Telemetry):
        def on_llm_end(self, response: Part) -> None:
            raise OSError("no collector")

    seen = Recorder()
    with pytest.raises(ExceptionGroup):
        await MultiTelemetry([Broken(), seen]).on_llm_end(Part.text("x"))
    assert len(seen.arguments("on_llm_end")) == 1


def test_only_a_telemetry_is_accepted() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Agent("a", telemetry=object())  # type: ignore[arg-type]
    assert caught.value.field == "telemetry"
    with pytest.raises(InvalidArgumentError) as caught:
        MultiTelemetry([object()])  # type: ignore[list-item]
    assert caught.value.field == "trackers[0]"


def test_a_thread_is_not_started_before_the_first_task() -> None:
    before = threading.active_count()
    calculator(Recorder())
    assert threading.active_count() == before


def test_each_hook_exists() -> None:
    assert all(callable(getattr(Base, name)) for name in HOOKS)


async def test_records_of_a_tool_have_the_ids_of_its_run_and_span(caplog: pytest.LogCaptureFixture) -> None:
    class Spans(Telemetry):
        def __init__(self) -> None:
            self.ended: dict[str, Span] = {}

        def on_span(self, span: Span) -> None:
            self.ended[span.name] = span

    telemetry, logger = Spans(), logging.getLogger("tools_of_a_user")
    caplog.handler.addFilter(only_run_fields := RunFieldsFilter())
    agent = Agent("clerk", telemetry=telemetry)

    @agent.tool
    async def awaited() -> str:
        """Log on the event loop."""
        logger.warning("awaited")
        return "done"

    @agent.tool
    def threaded() -> str:
        """Log in a thread."""
        logger.warning("threaded")
        return "done"

    for name in ("awaited", "threaded"):
        await agent.run_task(Task.create_tool_call(name))
    await agent.aclose()
    logger.warning("outside")
    caplog.handler.removeFilter(only_run_fields)
    records = {record.getMessage(): record for record in caplog.records}
    for name in ("awaited", "threaded"):
        span, record = telemetry.ended[name], vars(records[name])
        assert [record[each] for each in RUN_FIELDS] == [span.task_id, span.run_id, span.trace_id, span.span_id]
    assert [vars(records["outside"])[each] for each in RUN_FIELDS] == [""] * 4


async def test_records_of_the_package_have_the_ids_of_the_run_without_telemetry(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Logging(Agent):
        async def handle_task(self, task: Task) -> Task:
            get_logger("protolink_grpc.of_a_run").warning("inside")
            return task.complete("done")

    agent = Logging("clerk")
    task = await agent.run_task(Task.create("go"))
    await agent.aclose()
    (record,) = [each for each in caplog.records if each.getMessage() == "inside"]
    assert (vars(record)["task_id"], vars(record)["trace_id"]) == (task.id, task.id.replace("-", ""))
    assert (bool(vars(record)["run_id"]), vars(record)["span_id"]) == (True, "")
