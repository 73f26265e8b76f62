"""Evaluations of agents behind URLs of every scheme."""

from collections.abc import AsyncIterator

import pytest

from protolink_grpc import Agent, AgentClient, EvaluationCase, Task, UnavailableError, evaluate, exact_match, tool_used


class Shouter(Agent):
    async def handle_task(self, task: Task) -> Task:
        text = task.messages[0].text
        return task.fail("out of order") if text == "fail" else task.complete(text.upper())


@pytest.fixture
async def shouter() -> AsyncIterator[Agent]:
    async with Shouter("shouter", url="grpc://127.0.0.1:0", http="127.0.0.1:0") as agent:
        yield agent


CASES = [EvaluationCase("a", "A", "good"), EvaluationCase("fail", "A", "bad")]


@pytest.mark.parametrize("scheme", ["grpc", "http", "ws", "runtime"])
async def test_an_agent_is_evaluated_at_a_url_of_any_scheme(shouter: Agent, scheme: str) -> None:
    urls = {
        "grpc": shouter.card.url,
        "http": shouter.http_url,
        "ws": shouter.http_url.replace("http", "ws", 1),
        "runtime": await shouter.local_url(),
    }
    report = await evaluate(urls[scheme], CASES, samples=2)
    assert report.agent == urls[scheme]
    assert [(sample.passed, sample.agent_failed) for sample in report.samples] == [
        (True, False),
        (True, False),
        (False, True),
        (False, True),
    ]
    assert "out of order" in report.samples[2].reason


async def test_a_client_is_used_with_its_url_and_a_peer_without_reports_is_an_error_of_tool_used(
    shouter: Agent,
) -> None:
    report = await evaluate(AgentClient("a2a", shouter.http_url), CASES[:1], scorers=[exact_match, tool_used("add")])
    exact, tool = report.samples[0].scores
    assert exact.passed
    assert "the agent has no run reports" in tool.error


async def test_the_same_request_ids_find_the_tasks_of_an_agent_that_runs(shouter: Agent) -> None:
    first = await evaluate(shouter.card.url, CASES)
    ids = [sample.task_id for sample in first.samples]
    first.samples.clear()
    await evaluate(shouter.card.url, CASES, report=first)
    assert [sample.task_id for sample in first.samples] == ids


async def test_an_agent_that_cannot_be_reached_ends_the_evaluation() -> None:
    with pytest.raises(UnavailableError):
        await evaluate(AgentClient(url="grpc://127.0.0.1:1", outage_s=0), CASES)
