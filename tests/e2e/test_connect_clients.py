"""The Connect protocol with curl and buf: the commands of docs/http.md, and the output of buf for errors and streams."""

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scripted_agent import Scripted, serving

from protolink_grpc import HttpOptions

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs/http.md").read_text().partition("\n## Connect\n")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"^```bash\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)

PATIENCE_S = 60.0
"""How long a program may take; far more than it needs on a busy machine."""

BIN = Path(sys.executable).parent
"""Where the package buf-bin puts buf."""


@pytest.fixture
async def agent() -> AsyncIterator[Scripted]:
    async with serving() as found:
        yield found


async def run(*command: str) -> tuple[int, str, str]:
    """The status and the output of a program, while the agent in this process answers it."""
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "NO_PROXY": "127.0.0.1"}
    program = shutil.which(command[0], path=environment["PATH"])
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    process = await asyncio.create_subprocess_exec(
        program,
        *command[1:],
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        out, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()


async def documented(agent: Scripted, number: int) -> str:
    """The output of the commands in a block of the document."""
    text = COMMANDS[number].replace("http://127.0.0.1:8080", agent.http_url)
    for each in ("curl", "buf"):
        if re.search(rf"^{each} ", text, re.MULTILINE):
            await run(each, "--version")
    status, out, error = await run("bash", "-ec", text)
    assert (status, error) == (0, "")
    return out


async def test_the_calls_of_the_document_print_what_it_says(agent: Scripted) -> None:
    sent = await documented(agent, 0)
    assert sent.count('"state":"TASK_STATE_COMPLETED"') == 2
    assert sent.count('"messages":') == 1


async def test_the_stream_of_the_document_shows_events(agent: Scripted) -> None:
    events = json.loads(await documented(agent, 1))["events"]
    assert [int(each["sequence"]) for each in events] == list(range(1, len(events) + 1))


async def test_the_error_of_the_document_has_its_status_and_its_reason(agent: Scripted) -> None:
    assert len(COMMANDS) == 3
    head, _, body = (await documented(agent, 2)).replace("\r\n", "\n").partition("\n\n")
    assert head.startswith("HTTP/1.1 404")
    error = json.loads(body)
    assert (error["code"], error["details"][0]["debug"]["reason"]) == ("not_found", "TASK_NOT_FOUND")


async def buf(agent: Scripted, method: str, request: Any, *options: str) -> tuple[int, str, str]:
    url = f"{agent.http_url}/plgrpc.v1.AgentService/{method}"
    common = ("--schema", "proto", "--protocol", "connect", "--data", json.dumps(request))
    return await run("buf", "curl", *common, *options, url)


def said(text: str) -> dict[str, Any]:
    return {"input": {"messages": [{"role": "MESSAGE_ROLE_USER", "parts": [{"text": text}]}]}}


async def test_buf_calls_a_unary_method(agent: Scripted) -> None:
    status, out, error = await buf(agent, "SendTask", said("echo hello"))
    assert (status, error) == (0, "")
    assert json.loads(out)["task"]["messages"][-1]["parts"] == [{"text": "hello"}]


async def test_buf_reads_a_stream_to_its_end(agent: Scripted) -> None:
    status, out, error = await buf(agent, "StreamTask", said("count 300"))
    assert (status, error) == (0, "")
    decoder, messages = json.JSONDecoder(), []
    while out.strip():
        message, end = decoder.raw_decode(out.lstrip())
        messages.append(message)
        out = out.lstrip()[end:]
    events = [event for each in messages for event in each.get("events", ())]
    assert [int(each["sequence"]) for each in events] == list(range(1, len(events) + 1))
    assert events[-1]["last"]


@pytest.mark.parametrize("method", ["GetTask", "SubscribeTask"])
async def test_buf_decodes_the_details_of_an_error(agent: Scripted, method: str) -> None:
    status, out, error = await buf(agent, method, {"taskId": "unknown"})
    assert (status != 0, out) == (True, "")
    found = json.loads(error)
    assert (found["code"], found["message"]) == ("not_found", "task unknown not found")
    (detail,) = found["details"]
    assert detail["debug"]["metadata"] == {"task_id": "unknown"}


async def test_buf_shows_that_the_server_waits_no_longer() -> None:
    async with serving(HttpOptions(max_wait_s=0.2)) as agent:
        status, out, error = await buf(agent, "SendTask", said("wait"))
    assert (status != 0, out, json.loads(error)["code"]) == (True, "", "deadline_exceeded")
