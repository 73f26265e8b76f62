"""Rate limits."""

import time
from collections.abc import Callable

from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import InvalidArgumentError, ResourceExhaustedError
from protolink_grpc.models.arguments import checks_arguments

MAX_PRINCIPALS = 10_000
"""Maximum number of principals with a bucket. Beyond it, the least recently active ones get a full bucket again."""


@checks_arguments
class RateLimit:
    """A token bucket for each principal: `burst` calls at once, then `per_second`. All anonymous callers share one.

    A bucket is one number: the time at which it will be full again (generic cell rate algorithm). It is not thread-safe.

    Args:
        burst: At least 1; the default is the number of calls in one second.
        clock: Monotonic seconds.
    """

    def __init__(
        self, per_second: float, burst: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not 0 < per_second < float("inf"):
            raise InvalidArgumentError("must be a number above 0", field="per_second")
        size = max(1, int(per_second)) if burst is None else burst
        if size < 1:
            raise InvalidArgumentError("must be at least 1", field="burst")
        self._interval_s = 1 / per_second
        # A small tolerance, because sums of intervals are not exact, and the last call of a burst must not be refused for that.
        self._tolerance_s = (size - 1 + 1e-6) * self._interval_s
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def __call__(self, method: str, principal: Principal) -> None:
        now, name = self._clock(), principal.name
        full_at = max(self._full_at.pop(name, now), now)
        wait_s = full_at - now - self._tolerance_s
        if wait_s > 0:
            self._full_at[name] = full_at
            raise ResourceExhaustedError(
                f"too many calls: try again in {wait_s:.3g} s", retry_after_s=wait_s, principal=name
            )
        # Moved to the end, so that the dict is in the order of the last calls.
        self._full_at[name] = full_at + self._interval_s
        if len(self._full_at) > MAX_PRINCIPALS:
            del self._full_at[next(iter(self._full_at))]
