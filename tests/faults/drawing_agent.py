"""An agent whose model gets an image and writes one: `test_model_files` runs this file twice, and the first run kills itself.

The model's first answer has a file and a tool call. With the argument `dies`, its second call is a SIGKILL.
"""

import asyncio
import base64
import json
import os
import signal
import sys

from protolink_grpc import Agent, AgentCard, Artifact, Message, Part, SQLiteStore, Task
from protolink_grpc.llms import Media, MockLLM, ModelResponse, ModelToolCall
from protolink_grpc.models.lifecycle import TERMINAL

FIRST = ModelResponse("Let me look.", (ModelToolCall("shoot", {}, "c1"),), files=(Media("image/png", b"<drawn>"),))


def answer(_: str) -> object:
    if len(llm.requests) + answered == 1:
        return FIRST
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return ModelResponse("Done.", files=(Media("image/gif", b"<last>"),))


answered = 0 if sys.argv[2] == "dies" else 1
llm = MockLLM(response_callback=answer, input_media=("image/*", "application/pdf"))
store = SQLiteStore(sys.argv[1])
agent = Agent(AgentCard("painter", "draws", "grpc://127.0.0.1:0"), llm=llm, store=store, state="conversation")


@agent.tool(idempotent=True)
def shoot() -> dict[str, object]:
    """Takes a picture."""
    return Part.image(b"<shot>", name="shot.png").to_dict()


CONTENTS = ("given", "pages", "drawn", "last", "shot")


def count_copies(log: bytes, content: bytes) -> int:
    """Count the copies of a file in a log: its bytes, or base64 in the JSON of a result."""
    return log.count(content) + log.count(base64.b64encode(content))


async def main() -> None:
    async with agent:
        if sys.argv[2] == "dies":
            task = Task.create(Message.user("Draw this").add_part(Part.image(b"<given>", name="given.png")))
            task.id, message = "the task", task.messages.pop()
            task.add_artifact(Artifact(parts=[Part.file(b"<pages>", media_type="application/pdf")])).add_message(
                message
            )
            await agent.run_task(task)
        task = await agent.get_task("the task")
        while task.state not in TERMINAL:
            await asyncio.sleep(0.01)
            task = await agent.get_task("the task")
        files = [
            [(each.role, media.to_dict()) for each in asked.messages for media in each.media] for asked in llm.requests
        ]
        history = await agent.state.of("local").conversation.history("the task")
        log = b"".join(await store.read("the task", 0, 1000))
        print(
            json.dumps(
                {
                    "state": str(task.state),
                    "output": task.get_output(),
                    "artifacts": [each.to_dict() for each in task.artifacts],
                    "requests": files,
                    "history": [[each.role, [media.media_type for media in each.media]] for each in history],
                    "copies": {each: count_copies(log, f"<{each}>".encode()) for each in CONTENTS},
                }
            )
        )


asyncio.run(main())
