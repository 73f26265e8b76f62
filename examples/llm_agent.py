import asyncio

from protolink_grpc import Agent, Task, create_llm

plan = [{"type": "tool_call", "tool": "forecast", "args": {"city": "Athens"}}, "Leave the umbrella at home."]
agent = Agent(name="guide", llm=create_llm("mock", sequential_responses=plan), system_prompt="You help travellers.")


@agent.tool
def forecast(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


print(asyncio.run(agent.run_task(Task.create("Do I need an umbrella in Athens?"))).get_output())
