"""Servers on loopback that speak the providers' wire formats. A script has the answers, and the requests are kept.

They are written on bare sockets: a test decides where a piece of an answer ends and when a connection breaks.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

HOST = "127.0.0.1"

CUT = object()
"""In an answer: break the connection here, in the middle of the body."""

STALL = object()
"""In an answer: say nothing more until the client hangs up."""


@dataclass(slots=True)
class Asked:
    """One request, as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(slots=True)
class Answer:
    """What to send.

    Args:
        pieces: Of the body, each sent on its own; or CUT, or STALL.
    """

    pieces: Sequence[Any]
    status: int = 200
    content_type: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)


Reply = Answer | Callable[[Asked], Answer | Awaitable[Answer]]


@dataclass(slots=True)
class Server:
    """A running server. Each request gets the next of `replies`; the last one stays."""

    url: str
    replies: list[Reply] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client closed its connection before the answer was whole."""
    connections: int = 0
    open_now: int = 0
    open_most: int = 0

    async def reply(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Answer):
            return reply
        made = reply(asked)
        return made if isinstance(made, Answer) else await made


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[Server]:
    """A server with these answers, until the block ends."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            tasks.add(task)
        server.connections += 1
        try:
            while await _exchange(server, reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(connected, HOST, 0, backlog=512)
    server = Server(f"http://{HOST}:{listener.sockets[0].getsockname()[1]}", list(replies))
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _exchange(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """One request and its answer; false when the connection is over."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    server.open_now += 1
    server.open_most = max(server.open_most, server.open_now)
    try:
        answer = await server.reply(Asked(method, path, headers, json.loads(raw) if raw else None))
        return await _send(server, answer, reader, writer)
    finally:
        server.open_now -= 1


async def _send(server: Server, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    headers = {"Content-Type": answer.content_type, "Transfer-Encoding": "chunked", **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    for piece in answer.pieces:
        if piece is CUT:
            await writer.drain()
            return False
        if piece is STALL:
            await writer.drain()
            # A client that waits sends nothing: the next thing that comes is the end of its connection.
            if await reader.read(1) == b"":
                server.hung_up.set()
            return False
        data = piece if isinstance(piece, bytes) else piece.encode()
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()
        # The client's loop is this one: let it read this piece before the next comes.
        await asyncio.sleep(0)
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def error(status: int, body: Any, **headers: str) -> Answer:
    """An error response with a JSON body."""
    return Answer(
        [json.dumps(body)],
        status,
        "application/json",
        {name.replace("_", "-"): value for name, value in headers.items()},
    )


def sse(data: Any, event: str = "") -> str:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {event}\n" if event else "") + f"data: {text}\n\n"


# OpenAI: chat completions


def openai_chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, usage: dict[str, Any] | None = None
) -> str:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    chunk: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "gpt-served",
        "choices": choices,
        "usage": usage,
    }
    return sse(chunk)


def openai_tool(index: int, arguments: str, call_id: str | None = None, name: str | None = None) -> str:
    """A fragment of a tool call."""
    call: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if call_id is not None:
        call |= {"id": call_id, "type": "function"}
    if name is not None:
        call["function"]["name"] = name
    return openai_chunk({"tool_calls": [call]})


OPENAI_USAGE = {
    "prompt_tokens": 31,
    "completion_tokens": 9,
    "total_tokens": 40,
    "prompt_tokens_details": {"cached_tokens": 16, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


def openai_text(*texts: str, finish: str = "stop", usage: dict[str, Any] | None = OPENAI_USAGE) -> Answer:
    """A text, streamed as OpenAI does: the role first, the reason, then the usage without a choice."""
    pieces = [openai_chunk({"role": "assistant", "content": "", "refusal": None})]
    pieces += [openai_chunk({"content": text}) for text in texts]
    pieces.append(openai_chunk({}, finish))
    if usage is not None:
        pieces.append(openai_chunk(usage=usage))
    return Answer([*pieces, sse("[DONE]")])


def openai_calls(*fragments: str) -> Answer:
    """Tool calls, from their fragments."""
    pieces = [openai_chunk({"role": "assistant", "content": None}), *fragments, openai_chunk({}, "tool_calls")]
    return Answer([*pieces, openai_chunk(usage=OPENAI_USAGE), sse("[DONE]")])


# Anthropic: messages


def anthropic_answer(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], stop: str = "end_turn") -> Answer:
    """Content blocks, each with its deltas."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-served",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 25,
            "cache_read_input_tokens": 8,
            "cache_creation_input_tokens": 0,
            "output_tokens": 1,
        },
    }
    pieces = [_anthropic("message_start", message=message), _anthropic("ping")]
    for index, (block, deltas) in enumerate(blocks):
        pieces.append(_anthropic("content_block_start", index=index, content_block=block))
        pieces += [_anthropic("content_block_delta", index=index, delta=delta) for delta in deltas]
        pieces.append(_anthropic("content_block_stop", index=index))
    delta = {"stop_reason": stop, "stop_sequence": None}
    pieces += [_anthropic("message_delta", delta=delta, usage={"output_tokens": 12}), _anthropic("message_stop")]
    return Answer(pieces)


def anthropic_error(kind: str, message: str) -> str:
    """An error within a stream."""
    return _anthropic("error", error={"type": kind, "message": message})


def _anthropic(kind: str, **fields: Any) -> str:
    return sse({"type": kind, **fields}, kind)


# Gemini: streamGenerateContent


def gemini_answer(*contents: list[dict[str, Any]], finish: str = "STOP") -> Answer:
    """Parts of the answer, a list for each event."""
    usage = {"promptTokenCount": 21, "candidatesTokenCount": 6, "totalTokenCount": 27}
    pieces = []
    for number, parts in enumerate(contents, start=1):
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if number == len(contents):
            candidate["finishReason"] = finish
        event = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-served", "responseId": "r1"}
        pieces.append(json.dumps(event))
    return Answer([f"data: {piece}\r\n\r\n" for piece in pieces])
