"""A session id has no line break, so that it never names the conversation of a thread: each edge refuses such an id."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import httpx
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from mcp_world import mcp_client

from protolink_grpc import Agent, AgentClient, Task
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.state import ConversationMemory, State

THREAD = "s\nside"
"""The id of the conversation of the thread `side` of the session `s`."""


@asynccontextmanager
async def clerk(**ports: str) -> AsyncIterator[Agent]:
    """An agent that has stored a turn of that thread for callers over the network and for those in this process."""
    async with Agent("clerk", state=State(), **ports) as agent:
        for memory in memories(agent):
            await memory.remember(THREAD, "t", [LLMMessage("user", "hello")])
        yield agent
        for memory in memories(agent):
            assert [message.content for message in await memory.history(THREAD)] == ["hello"]
            assert await memory.session_ids() == ["s"]


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    async with clerk(url="grpc://127.0.0.1:0", http="127.0.0.1:0") as agent:
        yield agent


def memories(agent: Agent) -> list[ConversationMemory]:
    assert agent.state is not None
    found = [agent.state.of(principal).conversation for principal in ("anonymous", "local")]
    return [each for each in found if each is not None]


Call = Callable[[AgentClient], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "send_task": lambda client: client.send_task(None, Task.create("go", session_id=THREAD)),
    "ask": lambda client: client.ask("go", session_id=THREAD),
    "call_tool": lambda client: client.call_tool(None, "length", session_id=THREAD),
    "sessions.create": lambda client: client.sessions.create(THREAD),
    "sessions.submit": lambda client: client.sessions.submit(THREAD, "go"),
    "sessions.start_thread": lambda client: client.sessions.start_thread(THREAD, "other"),
    "describe_state": lambda client: client.describe_state(session_id=THREAD, include_data=True),
    "reset_state": lambda client: client.reset_state(session_id=THREAD),
    "compact_state": lambda client: client.compact_state(session_id=THREAD, max_messages=2),
    "compact_history": lambda client: client.compact_history(None, session_id=THREAD),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("url", ["grpc://127.0.0.1:0", "runtime://clerk"], ids=["grpc", "runtime"])
async def test_the_client_of_python_is_refused(url: str, call: Call) -> None:
    async with clerk(url=url) as agent:
        with pytest.raises(InvalidArgumentError, match=r"session_id: must be 1 to 128 bytes of printable text"):
            await call(AgentClient(url=agent.card.url))


async def test_an_agent_refuses_its_own_program(agent: Agent) -> None:
    for use in (agent.describe_state, agent.reset_state, agent.compact_state):
        with pytest.raises(InvalidArgumentError, match="session_id"):
            await use(THREAD)


TASK = Task.create("go", session_id=THREAD).to_dict()
MESSAGE = {"messageId": "m", "contextId": THREAD, "role": "ROLE_USER", "parts": [{"text": "go"}]}
OLD_MESSAGE = MESSAGE | {"role": "user", "parts": [{"kind": "text", "text": "go"}], "kind": "message"}
BODIES: dict[str, tuple[str, Any]] = {
    "ProtoLink, task": ("/tasks/", TASK),
    "ProtoLink, describe": ("/state/describe", {"session_id": THREAD}),
    "ProtoLink, reset": ("/state/reset", {"session_id": THREAD}),
    "ProtoLink, compact": ("/state/compact", {"session_id": THREAD}),
    "ProtoLink, history": ("/llm/history/compact", {"session_id": THREAD}),
    "A2A, REST": ("/message:send", {"message": MESSAGE}),
    "A2A, JSON-RPC": ("/", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}),
    "A2A 0.3": ("/", {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": OLD_MESSAGE}}),
}


@pytest.mark.parametrize(("path", "body"), BODIES.values(), ids=BODIES)
async def test_the_http_port_refuses_it(agent: Agent, path: str, body: Any) -> None:
    version = "0.3" if "message/send" in str(body) else "1.0"
    async with httpx.AsyncClient(base_url=agent.http_url or "") as http:
        answer = await http.post(path, json=body, headers={"a2a-version": version})
    assert "must be 1 to 128 bytes of printable text" in answer.text
    assert answer.status_code == 400 or answer.json()["error"]["code"] == -32602


async def test_a2a_over_grpc_refuses_it(agent: Agent, channel: Callable[[str], grpc.aio.Channel]) -> None:
    message = a2a_pb2.Message(message_id="m", context_id=THREAD, role=a2a_pb2.ROLE_USER, parts=[{"text": "go"}])
    old = a2a_v0_3_pb2.Message(message_id="m", context_id=THREAD, role=a2a_v0_3_pb2.ROLE_USER, content=[{"text": "go"}])
    requests = {
        "/lf.a2a.v1.A2AService/SendMessage": a2a_pb2.SendMessageRequest(message=message),
        "/a2a.v1.A2AService/SendMessage": a2a_v0_3_pb2.SendMessageRequest(request=old),
    }
    opened = channel(agent.card.url)
    for method, request in requests.items():
        call: Any = opened.unary_unary(method, request_serializer=lambda each: each.SerializeToString())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(request, metadata=[("a2a-version", "1.0" if "lf." in method else "0.3")])
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "context_id" in str(refused.value.details())


async def test_mcp_refuses_it(agent: Agent) -> None:
    from mcp import MCPError

    async with mcp_client(agent.http_url) as client:
        with pytest.raises(MCPError, match="session_id: must be 1 to 128 bytes of printable text"):
            await client.call_tool("send_task", {"message": "go", "session_id": THREAD})
