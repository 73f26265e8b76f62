"""The facts of a failure are kept by agents that delegate to one another."""

from collections.abc import AsyncIterator

import pytest
from delegation_world import Handled, answered, log_of

from protolink_grpc import (
    Agent,
    Artifact,
    Part,
    Registry,
    Task,
    TaskExecutionError,
    TaskState,
    ToolFailedError,
    UnavailableError,
)
from protolink_grpc.models.events import TaskErrorReported
from protolink_grpc.models.failure import Failure, FailureCategory


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry() as registry:
        yield registry


async def raises(agent: Agent, task: Task) -> Task:
    raise RuntimeError("the roof is gone")


def delegates_to(name: str) -> object:
    async def delegate(agent: Agent, task: Task) -> Task:
        return (await agent.peer(name).run_task(Task.create("go on"))).raise_for_status()

    return delegate


def chain_of(failure: Failure | None) -> list[Failure]:
    found = []
    while failure is not None:
        found.append(failure)
        failure = failure.cause
    return found


async def test_a_chain_of_three_agents_shows_three_levels_of_failure(registry: Registry) -> None:
    async with (
        Handled("c", raises, registry),
        Handled("b", delegates_to("c"), registry),  # type: ignore[arg-type]  # a handler, made above
        Handled("a", delegates_to("b"), registry) as a,  # type: ignore[arg-type]  # as above
    ):
        done = await answered(a)
        assert done.state is TaskState.FAILED
        top, middle, root = chain_of(done.failure)
        assert [each.category for each in (top, middle)] == [FailureCategory.PEER] * 2
        assert [each.origin for each in (top, middle)] == ["b", "c"]
        assert (root.reason, root.category) == ("AGENT_FAILED", FailureCategory.TOOL)
        assert root.message == "RuntimeError: the roof is gone"
        with pytest.raises(TaskExecutionError) as raised:
            done.raise_for_status()
        assert raised.value.failure == done.failure
        (reported,) = [e.payload for e in await log_of(a, done.id) if isinstance(e.payload, TaskErrorReported)]
        assert (reported.failure, reported.effect) == (done.failure, "ends")


async def test_an_exception_that_is_hidden_shows_neither_its_text_nor_a_cause(registry: Registry) -> None:
    async with Handled("a", raises, registry, expose_errors=False) as agent:
        (only,) = chain_of((await answered(agent)).failure)
        assert (only.reason, only.category) == ("INTERNAL", FailureCategory.INTERNAL)
        assert "roof" not in str(only)


@pytest.mark.parametrize("known", [Failure("NO_ROOMS", "full", retryable=True, origin="hotel"), "full"], ids=str)
async def test_what_a_handler_says_about_its_failure_is_what_the_caller_reads(
    known: Failure | str, registry: Registry
) -> None:
    async def fail(agent: Agent, task: Task) -> Task:
        return task.fail(known)

    async with Handled("a", fail, registry) as agent:
        done = await answered(agent)
        assert done.failure == (known if isinstance(known, Failure) else Failure(message=known))
        assert done.metadata["error"] == "full"


@pytest.mark.parametrize("names_it", [True, False])
async def test_an_output_has_the_failure_of_the_action_that_it_names(names_it: bool) -> None:
    agent = Reporting("a", names_it=names_it)

    @agent.tool
    def roof() -> None:
        raise UnavailableError("the roof is gone")

    async with agent:
        failure = (await agent.run_task("go")).failure
    assert failure is not None
    assert failure.message == ("Tool 'roof' failed: UnavailableError: the roof is gone")
    if names_it:
        assert (failure.reason, failure.origin) == ("TOOL_FAILED", "roof")
        assert failure.cause is not None
        assert failure.cause.reason == "UNAVAILABLE"
    else:
        assert (failure.reason, failure.origin, failure.cause) == ("NO_ROOF", "", None)


class Reporting(Agent):
    """Reports the failure of its tool in an artifact, with the tool's own words."""

    def __init__(self, name: str, *, names_it: bool) -> None:
        super().__init__(name)
        self._names_it = names_it

    async def handle_task(self, task: Task) -> Task:
        try:
            await self.call_tool("roof")
        except ToolFailedError as error:
            artifact = Artifact(parts=[Part.error("NO_ROOF", str(error))])
            task.add_artifact(artifact.for_action(error.action_id) if self._names_it else artifact)
        return task


async def test_the_failure_of_a_tool_is_that_of_the_task_that_called_it() -> None:
    agent = Agent("a")

    @agent.tool
    def roof() -> None:
        raise UnavailableError("the roof is gone")

    async with agent:
        failure = (await agent.run_task(Task.create_tool_call("roof", {}))).failure
    assert [each.reason for each in chain_of(failure)] == ["TOOL_FAILED", "UNAVAILABLE"]
    assert failure is not None
    assert (failure.category, failure.origin) == (FailureCategory.TOOL, "roof")
