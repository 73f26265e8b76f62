"""Measures our Python client: `python -m bench.python_client URL SECONDS`. `bench/clients` runs it and those in other languages."""

import asyncio
import json
import sys
import time

from bench.clients import BYTES, IN_FLIGHT
from protolink_grpc import AgentClient, Message, Part, Task
from protolink_grpc.net.event_loops import run

EVENTS = 20_000
"""Number of artifacts of the stream; each is an event."""


def _task(text: str) -> Task:
    return Task(messages=[Message(role="user", parts=[Part.text(text)])])


async def measure(url: str, seconds: float) -> dict[str, float]:
    client, text = AgentClient(), "x" * BYTES
    await client.send_task(url, _task(text))
    done, began = 0, time.perf_counter()

    async def send() -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            await client.send_task(url, _task(text))
            done += 1

    await asyncio.gather(*(send() for _ in range(IN_FLIGHT)))
    requests_per_s = done / (time.perf_counter() - began)
    events, began = 0, time.perf_counter()
    async for _ in client.send_task_streaming(url, _task(f"make {EVENTS}")):
        events += 1
    events_per_s = events / (time.perf_counter() - began)
    return {"requests_per_s": requests_per_s, "events_per_s": events_per_s, "events": events}


if __name__ == "__main__":
    print(json.dumps(run(measure(sys.argv[1], float(sys.argv[2])))))
