"""The agent for A2A's official compatibility kit: the prefix of a message's id selects the behavior.

    python -m examples.tck_agent                 # gRPC on 50051, JSON-RPC and REST on 9999

docs/conformance.md describes how to run the kit, and its results.
"""

import argparse
import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from protolink_grpc import (
    A2AOptions,
    Agent,
    AgentCard,
    Artifact,
    Extension,
    HttpOptions,
    Part,
    Principal,
    PushOptions,
    Task,
    UnauthenticatedError,
)
from protolink_grpc.models.events import TaskArtifactUpdated

LONG_S = 6.0
"""How long the long-running task works, in seconds: the kit subscribes to it meanwhile."""

REQUIRED = Extension("urn:a2a:tck:required-extension", "Required by the kit's extension tests", required=True)


def message_id(task: Task) -> str:
    """Return the caller's id of the latest message. The log has another id if the caller repeats an id."""
    message = task.messages[-1]
    own = (message.metadata or {}).get("a2a", {})
    return str(own.get("message_id", message.id))


def text(words: str) -> Artifact:
    return Artifact(parts=[Part("text", words)])


def file_by_value() -> Artifact:
    return Artifact(parts=[Part.file(b"Generated file content", name="output.txt", media_type="text/plain")])


def file_by_reference() -> Artifact:
    return Artifact(parts=[Part.file(uri="https://example.com/output.txt", name="output.txt", media_type="text/plain")])


def chunks() -> list[Any]:
    first = Artifact(parts=[Part("text", "chunk-1 ")])
    last = Artifact(id=first.id, parts=[Part("text", "chunk-2")])
    return [TaskArtifactUpdated(first), TaskArtifactUpdated(last, append=True, last_chunk=True)]


# Longer prefixes first: `file-url` begins with `file`.
OUTPUTS: dict[str, Callable[[], list[Any]]] = {
    "tck-artifact-text": lambda: [text("Generated text content")],
    "tck-artifact-file-url": lambda: [file_by_reference()],
    "tck-artifact-file": lambda: [file_by_value()],
    "tck-artifact-data": lambda: [Artifact(parts=[Part("json", {"key": "value", "count": 42})])],
    "tck-stream-001": lambda: [text("Stream hello from TCK")],
    "tck-stream-003": lambda: [text("Stream task lifecycle")],
    "tck-stream-ordering-001": lambda: [text("Ordered output")],
    "tck-stream-artifact-text": lambda: [text("Streamed text content")],
    "tck-stream-artifact-file": lambda: [file_by_value()],
    "tck-stream-artifact-chunked": chunks,
}


class TckAgent(Agent):
    """Selects its behavior by the message's id. The response to other messages is a greeting.

    Attributes:
        keeps_tasks_open: The greeting also requests further input.
    """

    keeps_tasks_open = False

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        id_of_message = message_id(task)
        for prefix, build_outputs in OUTPUTS.items():
            if id_of_message.startswith(prefix):
                for output in build_outputs():
                    yield output
                return
        if id_of_message.startswith("tck-message-response"):
            task.metadata["a2a"] = {"reply": "message"}
            task.complete("Direct message response")
        elif id_of_message.startswith("tck-input-required"):
            task.require_input("What else?")
        elif id_of_message.startswith("tck-reject-task"):
            task.reject("rejected")
        elif id_of_message.startswith("test-resubscribe-message-id"):
            await asyncio.sleep(LONG_S)
        elif self.keeps_tasks_open:
            task.require_input("Hello from TCK. What else?")
        else:
            task.complete("Hello from TCK")


async def accept_kit(method: str, metadata: Mapping[str, str]) -> Principal:
    """Authenticate every caller, because the kit for v1.0 reads the extended card without credentials."""
    return Principal("kit")


async def accept_kit_v03(method: str, metadata: Mapping[str, str]) -> Principal:
    """Authenticate every caller, but require credentials for a card: the kit for v0.3 expects that refusal."""
    if method.endswith("AgentCard") and "authorization" not in metadata:
        raise UnauthenticatedError("the extended card requires authentication")
    return Principal("kit")


def build(host: str, http_port: int, grpc_port: int, *, extension: bool = False, v03: bool = False) -> TckAgent:
    card = AgentCard(
        name="tck",
        description="Runs the A2A compatibility kit's cases",
        url=f"grpc://{host}:{grpc_port}",
        input_formats=["*/*"],
        output_formats=["text/plain", "application/json"],
    )
    agent = TckAgent(
        card,
        authenticator=accept_kit_v03 if v03 else accept_kit,
        http=HttpOptions(listen=f"{host}:{http_port}"),
        a2a=A2AOptions(
            # The kit's webhooks are on this machine.
            push=PushOptions(allow=("private",)),
            extended_card=card,
            extensions=(REQUIRED,) if extension else (),
            # With message replies, a stream would be empty until it is clear that the answer is a task.
            message_replies=not v03,
            dual_card=v03,
        ),
    )
    agent.keeps_tasks_open = v03
    return agent


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--http-port", type=int, default=9999)
    parser.add_argument("--grpc-port", type=int, default=50051)
    parser.add_argument("--required-extension", action="store_true", help="require the kit's own extension")
    parser.add_argument("--v03", action="store_true", help="behavior for the kit's v0.3 branch: old card, open tasks")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    agent = build(args.host, args.http_port, args.grpc_port, extension=args.required_extension, v03=args.v03)
    async with agent:
        print(f"A2A at http://{args.host}:{args.http_port} and {agent.card.url}; Ctrl-C ends it", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
