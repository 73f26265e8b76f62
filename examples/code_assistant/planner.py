"""The planner: an agent with a model and without tools. It reads what it is sent and answers with a plan."""

from typing import Any

from examples.code_assistant.script import PLANNER, create_model
from examples.mesh.process import own_settings, serve
from protolink_grpc import LLM, Agent, AgentCapabilities, AgentCard

INSTRUCTIONS = """\
You plan a change of a small project. You get the goal, the files and the result of the tests.
Answer with at most five short numbered steps: what is wrong, and how to change which file. Write no code."""


def planner(llm: LLM, **options: Any) -> Agent:
    """Create the planner; without delegation, because it works alone."""
    return Agent(
        AgentCard(
            name="planner",
            description="Plans changes of code.",
            url="grpc://127.0.0.1:0",
            tags=["code"],
            capabilities=AgentCapabilities(delegation=False),
        ),
        llm=llm,
        system_prompt=INSTRUCTIONS,
        **options,
    )


if __name__ == "__main__":
    serve(planner(create_model(PLANNER), **own_settings("planner")))
