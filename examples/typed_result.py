"""A typed answer: the model gets the JSON Schema of a class and corrects its answer, and the caller gets an instance."""

import asyncio

from pydantic import BaseModel, Field

from protolink_grpc import Agent, AgentClient, MockLLM, RunBudget


class Weather(BaseModel):
    city: str
    degrees: float = Field(ge=-90, le=60)


async def main() -> None:
    # In a real agent: llm="openai:gpt-5". The first answer of this one is wrong, so the model corrects it.
    llm = MockLLM(sequential_responses=['{"city": "Rome", "degrees": "hot"}', '{"city": "Rome", "degrees": 21.5}'])
    async with Agent("station", url="grpc://127.0.0.1:0", llm=llm) as agent:
        client = AgentClient(url=agent.card.url)
        weather = await client.ask("How warm is it in Rome?", output_type=Weather, budget=RunBudget(max_llm_calls=3))
        print(f"{type(weather).__name__}: {weather.degrees} degrees in {weather.city}")


if __name__ == "__main__":
    asyncio.run(main())
