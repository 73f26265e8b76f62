"""What is known about a failure stays with it on its way through agents that delegate to one another."""

from collections.abc import AsyncIterator

import pytest
from delegation_world import Handled, answered, log_of

from protolink_grpc import Agent, Registry, Task, TaskExecutionError, TaskState
from protolink_grpc.client.channel import close_channels
from protolink_grpc.models.events import TaskErrorReported
from protolink_grpc.models.failure import Failure, FailureCategory


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry() as registry:
        yield registry
    await close_channels()


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
