"""The bounds of one agent in one process."""

from dataclasses import dataclass

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments


@checks_arguments
@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one agent in one process.

    A request that would exceed one of the first four is refused with RESOURCE_EXHAUSTED and a retry hint.

    Args:
        max_concurrency: Maximum number of runs that work at the same time; at least 1. The value in the agent's card is only
            shown to callers.
        max_queue: Maximum number of further runs that wait for a slot or for an approval.
        max_task_bytes: Maximum encoded bytes of all tasks that work or wait. Their objects in memory take two to three times
            as much.
        principal_share: Part of `max_queue`, `max_task_bytes`, `warm_bytes` and `max_live_text_bytes` that one principal may use;
            more than 0, at most 1. All anonymous callers are one principal: use 1.0 if there are no other callers.
        warm_tasks: Maximum number of tasks kept in memory without a run: tasks that wait for input, so that their next turn does
            not read their log, and tasks that ended while a caller streamed them, until that caller reads them.
        warm_bytes: Maximum encoded bytes of these tasks. The least recently used ones are dropped first.
        max_live_text_bytes: Maximum bytes of all texts that models are producing; text beyond is not shown live.
        batch_events: Maximum number of events in one batch of a watch.
        cancel_wait_s: How long a cancel waits for the end of the run before it returns the task as it is.
        lease_ttl_s: How long the lease of this process is valid without a renewal; then other processes take over its tasks.
        max_resumes_without_progress: How often in a row a run is resumed if its process died before the run made progress; then
            its task fails, because the run may be what crashes the process. Orderly stops do not count. At least 1.
        blocked_loop_s: How long the event loop may be blocked before the stack of its thread is logged, once; 0 disables this.
        delta_interval_s: Minimum time between two batches of live text to one reader; the first piece is sent at once.

    Raises:
        InvalidArgumentError: A bound is out of range; names the field.
    """

    max_concurrency: int = 100
    max_queue: int = 1000
    max_task_bytes: int = 256 << 20
    principal_share: float = 0.5
    warm_tasks: int = 1000
    warm_bytes: int = 64 << 20
    max_live_text_bytes: int = 16 << 20
    batch_events: int = 256
    cancel_wait_s: float = 10.0
    lease_ttl_s: float = 15.0
    max_resumes_without_progress: int = 1
    blocked_loop_s: float = 10.0
    delta_interval_s: float = 0.025

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:
                raise InvalidArgumentError(f"must be at least {least}", field=f"limits.{name}")
        if not 0 < self.principal_share <= 1:
            raise InvalidArgumentError("must be more than 0 and at most 1", field="limits.principal_share")
        if not self.lease_ttl_s > 0:
            raise InvalidArgumentError("must be more than 0", field="limits.lease_ttl_s")


_LEAST = {
    "max_concurrency": 1,
    "max_queue": 0,
    "max_task_bytes": 1,
    "warm_tasks": 0,
    "warm_bytes": 0,
    "max_live_text_bytes": 0,
    "batch_events": 1,
    "cancel_wait_s": 0,
    "delta_interval_s": 0,
}
