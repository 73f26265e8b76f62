"""The servers for conformance programs, and the judge, as developers of clients use them."""

import json
import os
import select
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_status import rpc_status
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import agent_service_pb2_grpc, part_pb2, task_input_pb2, task_pb2
from warm_python import Ended, run_python

from protolink_grpc import AgentClient, RegistryClient, Task, UnavailableError
from protolink_grpc.testing import ScriptedAgent, open_stage
from protolink_grpc.testing.cases import CASES

COMMAND = [sys.executable, "-m", "protolink_grpc.cli", "conformance"]
END_S = 60
"""How long a command may take; far more than it needs."""


def told(text: str) -> task_input_pb2.TaskInput:
    return task_input_pb2.TaskInput(
        messages=[task_pb2.Message(role=task_pb2.MESSAGE_ROLE_USER, parts=[part_pb2.Part(text=text)])]
    )


def bare(url: str) -> agent_service_pb2_grpc.AgentServiceStub:
    """A stub that repeats nothing by itself."""
    options = [("grpc.enable_retries", 0), ("grpc.initial_reconnect_backoff_ms", 100)]
    channel = grpc.aio.insecure_channel(url.removeprefix("grpc://"), options)
    return agent_service_pb2_grpc.AgentServiceStub(channel)


async def test_a_bare_client_sees_the_cut_as_unavailable_after_what_was_sent() -> None:
    async with ScriptedAgent() as agent:
        responses = bare(agent.card.url).StreamTask(pb.StreamTaskRequest(input=told("cut 40 count 100")))
        shown: list[int] = []

        async def follow() -> None:
            async for response in responses:
                shown.extend(event.sequence for event in response.events)

        with pytest.raises(grpc.aio.AioRpcError) as cut:
            await follow()
        assert (shown, cut.value.code()) == (list(range(1, 41)), grpc.StatusCode.UNAVAILABLE)


async def test_a_bare_client_sees_the_answer_lost() -> None:
    async with ScriptedAgent() as agent:
        with pytest.raises(grpc.aio.AioRpcError) as lost:
            await bare(agent.card.url).SendTask(pb.SendTaskRequest(input=told("flaky 1 word"), request_id="r-1"))
        assert lost.value.code() is grpc.StatusCode.UNAVAILABLE
        again = await bare(agent.card.url).SendTask(pb.SendTaskRequest(input=told("flaky 1 word"), request_id="r-1"))
        assert again.task.messages[-1].parts[0].text == "word ran 1 times"


@pytest.mark.parametrize(
    ("code", "status"),
    [(0, grpc.StatusCode.INTERNAL), (2, grpc.StatusCode.INTERNAL), (8, grpc.StatusCode.CANCELLED)],
)
async def test_a_bare_client_sees_a_reset_stream_and_the_connection_goes_on(code: int, status: grpc.StatusCode) -> None:
    async with open_stage("") as stage:
        stub = bare(stage.hostile)
        for _ in range(3):
            shown, error = await broken(stub, f"reset {code} 40 count 100")
            assert (shown, error.code(), rpc_status.from_call(error)) == (list(range(1, 41)), status, None)


async def test_a_bare_client_sees_an_outage_and_its_end() -> None:
    async with open_stage("") as stage:
        stub = bare(stage.hostile)
        shown, error = await broken(stub, "outage 300 40 count 100")
        assert (shown, error.code()) == (list(range(1, 41)), grpc.StatusCode.UNAVAILABLE)
        with pytest.raises(grpc.aio.AioRpcError) as away:
            await stub.GetAgentCard(pb.GetAgentCardRequest())
        assert away.value.code() is grpc.StatusCode.UNAVAILABLE
        await stub.GetAgentCard(pb.GetAgentCardRequest(), wait_for_ready=True, timeout=END_S)


async def test_a_task_is_down_at_the_hostile_address_only() -> None:
    async with open_stage("") as stage:
        request = pb.SendTaskRequest(input=told("down word"), request_id="r-1")
        request.input.task_id, request.input.target = "t-1", task_input_pb2.TASK_TARGET_CREATE
        hostile, agent, read = bare(stage.hostile), bare(stage.agent), pb.GetTaskRequest(task_id="t-1")
        calls: list[tuple[Any, Any]] = [
            (hostile.SendTask, request),
            (hostile.SendTask, request),
            (hostile.GetTask, read),
        ]
        for method, message in calls:
            with pytest.raises(grpc.aio.AioRpcError) as cut:
                await method(message)
            assert (cut.value.code(), rpc_status.from_call(cut.value)) == (grpc.StatusCode.UNAVAILABLE, None)
        assert (await agent.GetTask(read)).task.state == task_pb2.TASK_STATE_WORKING
        await hostile.CancelTask(pb.CancelTaskRequest(task_id="t-1"))
        said = await agent.SendTask(pb.SendTaskRequest(input=told("calls word")))
        assert json.loads(said.task.messages[-1].parts[0].text) == {"calls": 2, "runs": 1, "open": 0}


async def test_a_bare_client_sees_the_connection_close_after_a_typed_call_whose_answer_gets_lost() -> None:
    messages, services = grpc.protos_and_services("protolink_grpc/testing/calculator.proto")
    async with open_stage("") as stage, grpc.aio.insecure_channel(stage.calculator.removeprefix("grpc://")) as channel:
        call: Any = services.CalculatorStub(channel).Accumulate
        request = messages.AccumulateRequest(name="total", amount=42)
        headers = (("x-request-id", "r-1"), ("x-lost-answers", "2"))
        for _ in range(2):
            with pytest.raises(grpc.aio.AioRpcError) as lost:
                await call(request, metadata=headers, wait_for_ready=True)
            assert (lost.value.code(), rpc_status.from_call(lost.value)) == (grpc.StatusCode.UNAVAILABLE, None)
        again = await call(request, metadata=headers, wait_for_ready=True)
        other = await call(request)
        assert (again.result.value, other.result.value) == (42, 84)


async def broken(stub: agent_service_pb2_grpc.AgentServiceStub, text: str) -> tuple[list[int], grpc.aio.AioRpcError]:
    """The sequences that a stream shows before it breaks, and how it does."""
    shown: list[int] = []
    try:
        async for response in stub.StreamTask(pb.StreamTaskRequest(input=told(text))):
            shown.extend(event.sequence for event in response.events)
    except grpc.aio.AioRpcError as error:
        return shown, error
    raise AssertionError("nothing broke it")


async def test_it_says_no_header_that_is_a_secret() -> None:
    async with ScriptedAgent() as agent:
        sent = [("x-api-key", "secret"), ("authorization", "Bearer secret"), ("x-harmless", "hello")]
        client = AgentClient(url=agent.card.url, metadata=sent)
        said = [(await client.send_task(None, Task.create(f"header {name}"))).get_output() for name, _ in sent]
        assert said == ["", "", "hello"]


async def test_it_stands_in_for_a_peer_that_fails() -> None:
    async with ScriptedAgent(name="hotel", url="grpc://127.0.0.1:0", answers={"a room": "room 7"}) as hotel:
        client = AgentClient(url=hotel.card.url, outage_s=0)
        assert (await client.send_message(None, "a room")).text == "room 7"
        assert hotel.received == ["a room"]
    with pytest.raises(UnavailableError):
        await client.send_message(None, "a room")


async def test_two_stages_stand_beside_each_other() -> None:
    async with open_stage() as one, open_stage() as other:
        assert one.agent != other.agent
        assert one.api_key != other.api_key
        found = await RegistryClient(one.registry).get("conformance")
        assert found.card.url == one.agent


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("PLGRPC_")}


def test_serve_says_where_and_ends_with_its_input(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "serve", "--vectors", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as serving:
        assert serving.stdout is not None
        told = json.loads(serving.stdout.readline())
        assert set(told) == {
            "agent",
            "hostile",
            "guarded",
            "api_key",
            "bearer",
            "registry",
            "http",
            "calculator",
            "vectors",
        }
        assert told["agent"].startswith("grpc://127.0.0.1:")
        assert told["http"].startswith("http://127.0.0.1:")
        assert told["vectors"] == str(tmp_path)
        serving.communicate(timeout=END_S)
        assert serving.returncode == 0


def test_serve_in_the_background_of_a_terminal_goes_on(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        f"""
        import os, pty, subprocess, sys, time
        session, terminal = pty.fork()
        if session:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(session, 0)[1]))
        # Here is who has a terminal; the command gets a group of its own, as shells give it for a `&`.
        with subprocess.Popen({[*COMMAND, "serve"]!r}, process_group=0, stdout=subprocess.PIPE) as serving:
            serving.stdout.readline()
            time.sleep(0.5)  # a reader there is stopped at once; no event tells that one was not
            _, status = os.waitpid(serving.pid, os.WUNTRACED | os.WNOHANG)
            serving.kill()
        os._exit(3 if os.WIFSTOPPED(status) else 0)
        """,
    )
    done = subprocess.run([sys.executable, path], env=environment(), timeout=END_S, check=False)
    assert done.returncode == 0


def ran(*command: str, options: tuple[str, ...] = ()) -> Ended:
    arguments = ("-m", "protolink_grpc.cli", "conformance", "run", *options, "--", *command)
    return run_python(*arguments, env=environment(), within_s=END_S)


def program(tmp_path: Path, text: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def test_run_passes_output_and_stage_through(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        f"""
        import os, sys
        names = ("AGENT", "HOSTILE", "GUARDED", "API_KEY", "BEARER", "REGISTRY", "HTTP", "VECTORS")
        print("given", all(os.environ.get(f"PLGRPC_{{name}}") for name in names), sys.argv[1:])
        for case in {CASES!r}:
            print("PASS", case, "1ms")
        """,
    )
    done = ran(sys.executable, path, "--flag", "-x")
    assert done.out.splitlines()[0] == "given True ['--flag', '-x']"
    assert (done.code, done.err) == (0, "")


def test_run_fails_with_a_program_that_says_nothing(tmp_path: Path) -> None:
    done = ran(sys.executable, program(tmp_path, "print('hello')"))
    assert (done.code, done.out) == (1, "hello\n")
    assert "conformance: unary was not reported" in done.err


def test_run_ends_a_program_that_does_not_end(tmp_path: Path) -> None:
    path = program(tmp_path, "import time\nprint('PASS unary 1ms', flush=True)\ntime.sleep(600)")
    done = ran(sys.executable, path, options=("--timeout", "2"))
    assert done.code == 1
    assert "it took longer than 2 s and was ended" in done.err


def test_run_ends_what_a_program_has_left_behind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "open")
    reader = os.open(tmp_path / "open", os.O_RDONLY | os.O_NONBLOCK)
    path = program(
        tmp_path,
        f"""
        import os, subprocess, sys
        held = os.open({str(tmp_path / "open")!r}, os.O_WRONLY)
        os.write(held, b"begun")
        lasting = [sys.executable, "-c", "import time; time.sleep({END_S})"]
        subprocess.Popen(lasting, pass_fds=[held], stderr=subprocess.DEVNULL)
        """,
    )
    try:
        # The time is for the program to begin, on a busy machine too.
        assert ran(sys.executable, path, options=("--timeout", "5")).code == 1
        assert os.read(reader, 9) == b"begun"
        # Nothing more is written: the port can be used again when no process has it open.
        assert select.select([reader], [], [], END_S / 6)[0]
    finally:
        os.close(reader)


def test_run_names_a_program_that_is_not_there() -> None:
    done = ran("no-such-program-anywhere")
    assert done.code == 2
    assert "program 'no-such-program-anywhere' not found" in done.err


def test_run_says_of_a_file_that_it_cannot_be_run(tmp_path: Path) -> None:
    path = program(tmp_path, "")
    done = ran(path)
    assert done.code == 2
    assert f"{path!r} is not an executable file" in done.err


def test_run_names_the_vectors_so_that_they_are_found_from_everywhere() -> None:
    told = "import os; print(os.environ['PLGRPC_VECTORS'])"
    assert ran(sys.executable, "-c", told, options=("--vectors", ".")).out == f"{Path.cwd()}\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--timeout", "0"), "--timeout must be greater than 0"),
        (("--vectors", "/no/such/folder"), "folder '/no/such/folder' not found"),
    ],
)
def test_run_refuses_options_that_cannot_be_meant(options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = ran(sys.executable, program(tmp_path, "print('started')"), options=options)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
