"""The agent of the cases `typed-call` and `typed-stream`: a calculator with a typed service, whose responses get lost on request.

`calculator.proto` is the export of its tools, and `calculator_pb2` and `calculator_pb2_grpc` are generated from it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from protolink_grpc.agent import Agent
from protolink_grpc.agent.identity import ANY_PORT
from protolink_grpc.edges.grpc.app import ServerOptions
from protolink_grpc.edges.grpc.call import Call
from protolink_grpc.errors import ToolRejectedError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.testing.hostile_proxy import HostileProxy

PROTO: Final = Path(__file__).with_name("calculator.proto")
"""The contract of its typed service."""

LOST_ANSWERS: Final = "x-lost-answers"
"""Metadata of a call: how many responses to its `x-request-id` get lost, each with its connection, after the tool has run."""


CUT_AFTER: Final = "x-cut-after"
"""Metadata of a stream, such as `5 3`: after how many responses its connection breaks, for each call with its `x-request-id`."""


@dataclass
class Total:
    """A running total."""

    name: str
    value: int


def make_calculator(proxy: HostileProxy | None = None, **settings: Any) -> Agent:
    """Create the calculator.

    Args:
        proxy: The proxy whose connections are closed when a response gets lost or a stream is cut; without it, neither happens.
        settings: As Agent.
    """
    lost: Counter[str] = Counter()
    totals: Counter[str] = Counter()

    @asynccontextmanager
    async def lose_answers(call: Call) -> AsyncIterator[None]:
        yield
        request_id = call.metadata.get("x-request-id", "")
        if proxy is None or call.context is None or lost[request_id] >= int(call.metadata.get(LOST_ANSWERS, "0")):
            return
        lost[request_id] += 1
        proxy.close_connection(call.context.peer())

    cuts: dict[str, Iterator[str]] = {}

    @asynccontextmanager
    async def cut_streams(call: Call) -> AsyncIterator[None]:
        if proxy is not None and call.context is not None and (requested := call.metadata.get(CUT_AFTER)):
            numbers = cuts.setdefault(call.metadata.get("x-request-id", ""), iter(requested.split()))
            if messages := next(numbers, ""):
                proxy.close_connection_after(call.context.peer(), int(messages))
        yield

    url = settings.pop("url", ANY_PORT)
    card = AgentCard(name="calculator", description="Adds numbers.", url=url, tags=["scripted"])
    agent = Agent(
        card, **{"typed": PROTO, "server": ServerOptions(interceptors=(lose_answers, cut_streams)), **settings}
    )

    @agent.tool
    def add(a: int, b: int = 2) -> int:
        """Add two integers."""
        return a + b

    @agent.tool
    def accumulate(name: Annotated[str, Field(min_length=1)], amount: int) -> Total:
        """Add an amount to the running total of that name. A call that ran twice would count twice."""
        totals[name] += amount
        return Total(name, totals[name])

    @agent.tool
    def count(name: Annotated[str, Field(min_length=1)], times: int) -> Iterator[int]:
        """Add 1 to the running total of that name, so many times, and yield the total each time."""
        for _ in range(times):
            totals[name] += 1
            yield totals[name]

    @agent.tool
    def divide(dividend: float, divisor: float) -> float:
        """Divide two numbers."""
        if not divisor:
            problem = {"path": "divisor", "message": "must not be 0"}
            raise ToolRejectedError("cannot divide by 0", code="invalid_arguments", details={"errors": [problem]})
        return dividend / divisor

    return agent
