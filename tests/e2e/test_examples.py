"""Every example runs as its first line says, and prints what it is there to show."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import grpc.aio
import httpx
import pytest
from warm_python import run_python

from examples.tck_agent import build as tck_agent
from protolink_grpc import AgentClient, Task

EXAMPLES = Path(__file__).parents[2] / "examples"

OUTPUT = {
    "call_echo.py": """\
echo offers ['echo']
completed hello hello
failed invalid_arguments
completed hello again
""",
    "streaming.py": """\
1 task.submitted submitted
2 task.status working
3 task.progress mix
4 task.progress knead
-- cut --
5 task.progress bake
6 task.artifact
7 task.message
8 task.status completed
""",
    "chat_queue.py": """\
['roast active', 'salad queued', 'soup queued']
task.submitted
task.status
task.message
task.status
['roast canceled', 'soup completed', 'salad completed']
1 SessionCreated
2 TurnSubmitted roast
5 TurnSubmitted soup
7 TurnSubmitted salad
9 TurnPromoted salad
12 TurnEnded roast
13 TurnStarted salad
17 TurnEnded salad
18 TurnStarted soup
22 TurnEnded soup
""",
    "task_control.py": """\
blocked - other tasks have to end first
blocked - other tasks have to end first
running
completed
the cover: printed
the book: printed
completed ['blocked_by completed']
""",
    "input_required.py": """\
input-required - Where do you want to go?
completed - One ticket to Athens.
""",
    "durable.py": """\
completed 3
completed 4
-- restart --
2 tasks, newest first: [True, False]
1 task.submitted
2 task.status
3 action.requested
4 action.policy
5 action.started
6 action.completed
7 task.artifact
8 task.status
""",
    "images.py": """\
image/png sky.png messages[0].parts[1]
It is a grey sky.
house-1.png image/png 69 bytes
failed messages[0].parts[1]: the model 'mock' of mock does not take image/png; it takes only text (input_media of its profile); \
use a model that takes the file
""",
    "llm_agent.py": """\
Leave the umbrella at home.
""",
    "mcp_tools.py": """\
21 degrees in Athens
ToolRejectedError: Tool 'temperature' arguments were invalid: city: Input should satisfy type "string"
ActionDeniedError: tool.call 'erase' was denied: mcp.destructive: denied by rule 'mcp.destructive'
""",
    "flow.py": """\
flowchart TD
    start((start))
    end_((end))
    n0(["style"])
    n1(["facts"])
    n2{"verdict"}
    n3["publish"]
    n4["reject"]
    start --> n0
    start --> n1
    n2 -->|"print"| n3
    n2 -->|"reject"| n4
    n0 --> n2
    n1 --> n2
    n3 --> end_
    n4 --> end_

completed - printed
rejected - the reviewers do not like it
""",
    "mcp_server.py": """\
['pay', 'send_task', 'get_task', 'cancel_task']
tool.call 'pay': {"amount":5} (pay: approval required by rule 'pay')
paid 5
""",
    "evaluate.py": """\
CASE  PASSED  LOW  FAILED  MEAN
sum      3/3    -       -  1.00
name     3/3    -       -  1.00

SCORER       PASSED  RATE  MEAN  ERRORS
exact_match     6/6  1.00  1.00       -
short           6/6  1.00  1.00       -

Samples: 6: 6 passed, 0 scored too low, 0 failed
Pass rate: 1.00
Usage: 9 model calls, 3 tool calls, 438 tokens in, 33 out

Regressions:
  CASE  BEFORE  NOW  CHANGE
  name     3/3  0/3   clear

Compared: 1 regression, 0 improvements, 1 unchanged
Passed in total: 6/6 before, 3/6 now: may be noise, p=0.09

used the tool: True
""",
    "hooks.py": """\
before_model {'changed': ['tools'], 'removed_tools': ['close']} -
after_tool {'tool': 'account'} "account **** is open"
before_model {'changed': ['tools'], 'removed_tools': ['close']} -
before_complete {'accepted': False} Name your source.
before_model {'changed': ['tools'], 'removed_tools': ['close']} -
before_complete {'accepted': True} -
""",
    "long_conversation.py": """\
2360 tokens were too many, now 1049
5940 tokens were too many, now 1049
the end of the report: Or almost."
""",
    "golden_run.py": """\
run 1: golden
run 2: golden
""",
    "remote_approval.py": """\
working, paid: []
-- restart --
waiting: pay {'to': 'ACME', 'amount': 90.0}
approved by anonymous
completed: The invoice is paid. paid: [80.0]
""",
    "report_and_replay.py": """\
the key is in the report: False
2 model calls, 1 tool call
9 tool.call 'lookup_order'
The order was sent yesterday.
""",
    "runtime_policy_and_approvals.py": """\
1. With an approval
approve publish_record? draft -> published: yes
   6 action.requested   tool.call 'publish_record'
   7 action.policy      records.write: approval required by rule 'records.write'
   8 approval.required  approve tool.call 'publish_record'?
   9 approval.decided   approved by operator
  10 action.started     tool.call 'publish_record'
  11 action.completed   tool.call 'publish_record'
  16 task.status        Task finished with state completed
completed: Record 42 is published. The record is published.
2. The caller allows no writing
   6 action.requested   tool.call 'publish_record'
   7 action.policy      records.write: denied by permission 'records.write'
   8 action.denied      tool.call 'publish_record' was denied: records.write: denied by permission 'records.write'
  11 task.status        Task finished with state failed: tool.call 'publish_record' was denied: \
records.write: denied by permission 'records.write'
failed: tool.call 'publish_record' was denied: records.write: denied by permission 'records.write'. The record is draft.
""",
    "task_cancellation.py": """\
20 %: page 1 of 5
40 %: page 2 of 5
task.status final=True: canceled, Stopped by user
sent: nothing
""",
    "a2a_agent.py": """\
TASK_STATE_WORKING -
TASK_STATE_INPUT_REQUIRED - Where do you want to go?
ticket supports JSONRPC HTTP+JSON GRPC
1 task: TASK_STATE_COMPLETED
after event 4: ['id: 6', 'id: 8']
""",
    "guarded_agent.py": """\
anonymous pays: UNAUTHENTICATED
ann pays: completed 90 paid
bob pays: failed
bob reads ann's task: TASK_NOT_FOUND
bob lists approvals: PERMISSION_DENIED
bob exceeds the rate limit: RESOURCE_EXHAUSTED
/healthz 200
/.well-known/agent-card.json 200
/tasks 401
""",
    "order_service.py": """\
an order of tea costs 4.00
waiting for an approval: charge {'item': 'caviar', 'cents': 9900}
-- restart --
order 1: caviar for 99.00
the same request again: order 1: caviar for 99.00
charged once: [9900]
steps: ['packed', 'sent', 'delivered']
a model may call: ['charge', 'place']
""",
    "typed_mesh.py": """\
total: 42
/acme.calculator.v1.Calculator/Add {'a': '0', 'b': '20'}
acme.calculator.v1.AddResponse {"result": "20"}
/acme.calculator.v1.Calculator/Add {'a': '20', 'b': '15'}
acme.calculator.v1.AddResponse {"result": "35"}
/acme.calculator.v1.Calculator/Add {'a': '35', 'b': '7'}
acme.calculator.v1.AddResponse {"result": "42"}
same request id: 3
same request id: 3
sums: [20, 35, 42, 3]
""",
    "typed_result.py": """\
Weather: 21.5 degrees in Rome
""",
    "typed_stream.py": """\
first reader: The fog comes
second reader: 1 The fog comes
second reader: 2 on little cat feet.
second reader: 3 It sits looking
second reader: 4 over harbor and city
reads: ['fog']
result: 4 lines
""",
    "registry_watch.py": """\
up ferry
up train
for travel: ['ferry', 'train']
by sea: ['ferry']
down train
down ferry
""",
}


@pytest.mark.parametrize("name", sorted(OUTPUT))
def test_an_example_prints_what_it_is_there_to_show(name: str, tmp_path: Path) -> None:
    ran = run_python(str(EXAMPLES / name), cwd=tmp_path, strict=True)

    lines = [line.rstrip() for line in ran.out.splitlines()]
    assert (ran.code, ran.err) == (0, "")
    assert lines == OUTPUT[name].splitlines()


def test_no_example_goes_untested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        *OUTPUT,
        "__init__.py",
        "dataclass_client.py",
        "dataclass_sessions.py",
        "dataclass_streams.py",
        "echo.py",
        "tck_agent.py",
        "traces.py",
    }


def test_the_waterfall_shows_both_agents_in_one_trace(tmp_path: Path) -> None:
    ran = run_python(str(EXAMPLES / "traces.py"), cwd=tmp_path, strict=True)
    assert (ran.code, ran.err) == (0, "")
    answer, traces, _, *spans = ran.out.splitlines()
    assert (answer, traces) == ("table 7", "traces: 1")
    labels = ["front", "  tool ask", "  call runtime://desk", "    desk", "      tool book"]
    assert [line[:36].rstrip() for line in spans] == labels
    assert all("=" in line.partition("|")[2] for line in spans)


@pytest.mark.parametrize("name", ["echo.py", "llm_agent.py"])
def test_a_whole_agent_takes_no_more_than_fifteen_lines(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) <= 15


async def test_the_echo_agent_serves_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = tmp_path / "echo.py"
    # Only its port is another one: 50051 may be taken on this machine.
    script.write_text((EXAMPLES / "echo.py").read_text().replace("50051", str(port)))
    agent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        async with asyncio.timeout(60), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await channel.channel_ready()
        client = AgentClient(url=f"grpc://127.0.0.1:{port}")
        task = await client.send_task(None, Task.create_tool_call("echo", {"text": "hello", "times": 2}))
        assert task.get_output() == "hello hello"
    finally:
        agent.terminate()
        said, _ = agent.communicate(timeout=30)
    assert (agent.returncode, said) == (0, f"echo: grpc://127.0.0.1:{port}, until Ctrl-C\n")


@pytest.mark.parametrize(
    ("said", "states"),
    [
        ("tck-stream-001", ["TASK_STATE_COMPLETED"]),
        ("tck-input-required", ["TASK_STATE_INPUT_REQUIRED"]),
        ("tck-reject-task", ["TASK_STATE_REJECTED"]),
        ("tck-message-response", []),
    ],
)
async def test_the_agent_of_the_official_kit_does_what_a_message_id_says(said: str, states: list[str]) -> None:
    message = {"messageId": f"{said}-1", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
    agent = tck_agent("127.0.0.1", http_port=0, grpc_port=0)
    async with agent, httpx.AsyncClient(base_url=agent.http_url, headers={"A2A-Version": "1.0"}) as http:
        answer = (await http.post("/message:send", json={"message": message})).json()
    assert [answer["task"]["status"]["state"]] == states if states else "message" in answer


async def test_the_agent_of_the_official_v03_kit_requires_credentials_for_the_extended_card_only() -> None:
    message = {"messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "Hello"}]}
    agent = tck_agent("127.0.0.1", http_port=0, grpc_port=0, v03=True)

    async def ask(http: httpx.AsyncClient, method: str, params: dict[str, object], **headers: str) -> dict[str, object]:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await http.post("/", json=call, headers=headers)).json()

    async with agent, httpx.AsyncClient(base_url=agent.http_url) as http:
        card = (await http.get("/.well-known/agent-card.json")).json()
        sent = await ask(http, "message/send", {"message": message})
        refused = await ask(http, "agent/getAuthenticatedExtendedCard", {})
        read = await ask(http, "agent/getAuthenticatedExtendedCard", {}, authorization="Bearer any")
    assert card["supportsAuthenticatedExtendedCard"]
    assert sent["result"]["status"]["state"] == "input-required"
    assert "error" in refused
    assert read["result"]["name"] == "tck"
