"""Images for a model, and from a model."""

import asyncio
import struct
import zlib

from protolink_grpc import Agent, Message, MockLLM, Part, Task
from protolink_grpc.llms import Media, ModelResponse


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


header, pixel = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0), zlib.compress(b"\0\x80\x80\x80")
png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")

drawing = ModelResponse("A house.", files=(Media("image/png", png, name="house-1.png"),))
artist = MockLLM(sequential_responses=["It is a grey sky.", drawing], input_media=["image/*"])


async def main() -> None:
    agent = Agent("artist", llm=artist)
    question = Message.user("What is this?").add_part(Part.image(png, name="sky.png"))
    seen = await agent.run_task(Task.create(question))
    (image,) = artist.requests[0].messages[-1].media
    print(image.media_type, image.name, image.part)
    print(seen.get_output())

    drawn = (await agent.run_task(Task.create(Message.user("Draw a house")))).artifacts[0]
    print(drawn.name, drawn.media_type, len(drawn.parts[0].content.data), "bytes")

    reader = Agent("reader", llm=MockLLM(input_media=()))
    refused = await reader.run_task(Task.create(question))
    print(refused.state, refused.failure.message)


asyncio.run(main())
