"""The reviewer: an agent with a model and without tools. It reads a change and accepts or refuses it."""

from typing import Any

from examples.code_assistant.script import REVIEWER, create_model
from examples.mesh.process import own_settings, serve
from protolink_grpc import LLM, Agent, AgentCapabilities, AgentCard

INSTRUCTIONS = """\
You review a change of a small project. You get the goal, the result of the tests and the diff.
Refuse a change that misses the goal, is wrong, or changes tests to make them pass. Give the reason in one short sentence."""


def reviewer(llm: LLM, **options: Any) -> Agent:
    """Create the reviewer; without delegation, because it works alone."""
    return Agent(
        AgentCard(
            name="reviewer",
            description="Reviews changes of code.",
            url="grpc://127.0.0.1:0",
            tags=["code"],
            capabilities=AgentCapabilities(delegation=False),
        ),
        llm=llm,
        system_prompt=INSTRUCTIONS,
        **options,
    )


if __name__ == "__main__":
    serve(reviewer(create_model(REVIEWER), **own_settings("reviewer")))
