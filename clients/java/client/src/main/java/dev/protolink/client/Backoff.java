package dev.protolink.client;

import io.grpc.CallOptions;
import io.grpc.Deadline;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** How long to wait before the next attempt, and when to give up. For one thread at a time. */
final class Backoff {

  private static final long FIRST_MILLIS = 100;
  static final long LONGEST_MILLIS = 5_000;

  private final int maxAttempts;
  private final Deadline deadline;
  private final BooleanSupplier isClosed;
  private int failures;

  /** Of what is called with these options; a pause that would outlast their deadline is none. */
  Backoff(int maxAttempts, CallOptions options, BooleanSupplier isClosed) {
    this.maxAttempts = maxAttempts;
    this.deadline = options.getDeadline();
    this.isClosed = isClosed;
  }

  /** Something new was learnt: the count begins again. */
  void reset() {
    failures = 0;
  }

  /**
   * The pause after an attempt that failed so: doubling, with jitter, and not shorter than the
   * server asks for. Empty: give up, because the error is none that time heals, the client is
   * closed, or the attempts or the time are used up.
   */
  Optional<Duration> after(ProtolinkException error) {
    failures++;
    if (!error.isRetryable() || failures >= maxAttempts || isClosed.getAsBoolean()) {
      return Optional.empty();
    }
    long bound = Math.min(LONGEST_MILLIS, FIRST_MILLIS << Math.min(failures - 1, 10));
    Duration own = Duration.ofMillis(ThreadLocalRandom.current().nextLong(bound / 2, bound + 1));
    Duration pause = error.retryDelay().filter(asked -> asked.compareTo(own) > 0).orElse(own);
    return Optional.of(pause).filter(this::isInTime);
  }

  private boolean isInTime(Duration pause) {
    return deadline == null || deadline.timeRemaining(TimeUnit.MILLISECONDS) > pause.toMillis();
  }
}
