"""Event streams that survive a broken connection: they are opened again after the last event that was received."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from typing import TypeVar

from protolink_grpc.client.backoff import Backoff, is_interruption
from protolink_grpc.errors import ProtolinkError, RemoteError
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.live_text import TextsRead
from protolink_grpc.models.references import References

Batches = AsyncGenerator[list[RunEvent], None]
T = TypeVar("T")


async def resumed_batches(
    open_stream: Callable[[int], Batches], *, after: int | None, ends: Collection[TaskState], outage_s: float
) -> Batches:
    """Yield the batches of a stream, each event exactly once and in order, until the agent ends it.

    Args:
        open_stream: Opens the stream after a sequence, or where the agent chooses: then it gets 0.
        after: The last sequence that the caller has; 0 means from the beginning, and None that the agent chooses.
        ends: States with which the stream is complete, whether the agent or a broken connection ends it. In any other state, only
            the agent can end it: a task that has ended may have been retried.
        outage_s: How long to try again without progress.

    Raises:
        ProtolinkError: The agent's error, or that of the last attempt.
        RemoteError: An event is missing: its `code` is DATA_LOSS. The events before it have been yielded.
    """
    ended = False
    backoff, texts, references = Backoff(outage_s, streams=True), TextsRead(), References()
    while True:
        backoff.begin()
        texts.begin_stream()
        try:
            async with aclosing(open_stream(after or 0)) as stream:
                async for events in stream:
                    backoff.reset()
                    batch, gap = [], None
                    for event in filter(None, map(texts.news, events)):
                        sequence = event.sequence
                        if sequence:  # a live text has none
                            if after is not None and sequence != after + 1:
                                if sequence <= after:
                                    continue
                                gap = _gap_error(event, after)
                                break
                            after, ended = sequence, event.state in ends
                        batch.append(references.whole(event))
                    if batch:
                        yield batch
                    if gap is not None:
                        raise gap
            return
        except ProtolinkError as error:
            if not is_interruption(error):
                raise
            if ended:
                return
            await backoff.wait_after(error)


def _gap_error(event: RunEvent, after: int) -> RemoteError:
    message = f"task {event.task_id}: event {event.sequence} came after {after}"
    return RemoteError(message, code="DATA_LOSS", task_id=event.task_id)


async def resumed_items(
    open_stream: Callable[[int], AsyncGenerator[list[T], None]],
    position_of: Callable[[T], int],
    *,
    after: int,
    outage_s: float,
) -> AsyncGenerator[T, None]:
    """Yield the items of a stream, each exactly once and in order, until the agent ends it.

    Args:
        open_stream: Opens the stream after a position.
        position_of: Returns the position of an item.
        after: Position of the last item that the caller has; 0 means from the beginning.
        outage_s: How long to try again without progress.

    Raises:
        ProtolinkError: The agent's error, or that of the last attempt.
    """
    backoff = Backoff(outage_s, streams=True)
    while True:
        backoff.begin()
        try:
            async with aclosing(open_stream(after)) as batches:
                async for items in batches:
                    backoff.reset()
                    for item in items:
                        after = position_of(item)
                        yield item
            return
        except ProtolinkError as error:
            if not is_interruption(error):
                raise
            await backoff.wait_after(error)
