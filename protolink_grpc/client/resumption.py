"""Event streams that survive a broken connection: they are opened again after the last event that was received."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing

from protolink_grpc.client.backoff import Backoff, is_interruption
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.live_text import TextsRead
from protolink_grpc.models.references import References

Batches = AsyncGenerator[list[RunEvent], None]


async def resumed_batches(
    open_stream: Callable[[int], Batches], *, after: int = 0, ends: Collection[TaskState], outage_s: float
) -> Batches:
    """Yield the batches of a stream, each event exactly once and in order, until the agent ends it.

    Args:
        open_stream: Opens the stream after a sequence.
        after: The last sequence that the caller has; 0 means from the beginning.
        ends: States that end the stream. If the connection breaks after one of them, the stream is complete.
        outage_s: How long to try again without progress.

    Raises:
        ProtolinkError: The agent's error, or that of the last attempt.
    """
    ended = False
    backoff, texts, references = Backoff(outage_s, streams=True), TextsRead(), References()
    while True:
        backoff.begin()
        texts.begin_stream()
        try:
            async with aclosing(open_stream(after)) as stream:
                async for events in stream:
                    backoff.reset()
                    batch = []
                    for event in filter(None, map(texts.news, events)):
                        after, ended = event.sequence or after, event.state in ends
                        batch.append(references.whole(event))
                    if batch:
                        yield batch
            return
        except ProtolinkError as error:
            if not is_interruption(error):
                raise
            if ended:
                return
            await backoff.wait_after(error)
