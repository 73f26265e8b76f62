"""The scheduling class of a server's process: batch for a server, unchanged for a program that embeds an agent."""

import os
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from textwrap import dedent

import pytest

from protolink_grpc import Agent, AgentCard
from protolink_grpc.net.event_loops import SCHEDULING_VARIABLE

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a scheduling class of Linux")


async def output_of(program: str, **environment: str) -> str:
    process = await create_subprocess_exec(
        sys.executable, "-c", dedent(program), stdout=PIPE, env={**os.environ, **environment}
    )
    out, _ = await process.communicate()
    return out.decode().strip()


RUN = """
    import os, threading
    from protolink_grpc import Agent, AgentCard

    class Once(Agent):
        async def serve(self, *, register=True):
            await super().serve(register=register)
            print(os.sched_getscheduler(0) == os.SCHED_BATCH)
            self.stop()

    Once(AgentCard(name="once", description="stops at once", url="grpc://127.0.0.1:0")).run()
"""


async def test_run_schedules_its_process_as_batch_work() -> None:
    assert await output_of(RUN) == "True"


async def test_a_setting_keeps_run_in_the_normal_class() -> None:
    assert await output_of(RUN, **{SCHEDULING_VARIABLE: "0"}) == "False"


async def test_run_in_a_thread_of_a_program_leaves_the_program_alone() -> None:
    program = """
        import os, threading
        from protolink_grpc.net.event_loops import run_server

        async def main():
            print(os.sched_getscheduler(0) == os.SCHED_BATCH)

        thread = threading.Thread(target=lambda: run_server(main()))
        thread.start()
        thread.join()
    """
    assert await output_of(program) == "False"


async def test_an_embedded_agent_leaves_its_process_in_the_class_that_it_has() -> None:
    before = os.sched_getscheduler(0)
    async with Agent(AgentCard(name="guest", description="is embedded", url="grpc://127.0.0.1:0")):
        assert os.sched_getscheduler(0) == before
