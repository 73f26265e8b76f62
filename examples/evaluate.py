"""Evaluate an agent with several samples of each case, change its model, and compare the two evaluations."""

import asyncio

from protolink_grpc import Agent, EvaluationCase, MockLLM, compare_evaluations, evaluate, exact_match, tool_used

CASES = [
    EvaluationCase("What is 1 + 2?", "It is 3.", id="sum"),
    EvaluationCase("Who are you?", "A calculator.", id="name"),
]


def short(sample) -> bool:
    return len(sample.output) < 20


def calculator(who: str) -> Agent:
    call = {"type": "tool_call", "tool": "add", "args": {"a": 1, "b": 2}}
    agent = Agent("calculator", llm=MockLLM({"1 + 2": call, "3": "It is 3.", "Who": who}))

    @agent.tool
    def add(a: int, b: int) -> int:
        return a + b

    return agent


async def main() -> None:
    old = await evaluate(calculator("A calculator."), CASES, scorers=[exact_match, short], samples=3)
    print(old.format())
    new = await evaluate(calculator("I am a large model."), CASES, scorers=[exact_match, short], samples=3)
    print("\n" + compare_evaluations(old, new).format())
    tools = await evaluate(calculator(""), CASES[:1], scorers=[tool_used("add", {"a": 1})])
    print("\nused the tool:", tools.samples[0].passed)


if __name__ == "__main__":
    asyncio.run(main())
