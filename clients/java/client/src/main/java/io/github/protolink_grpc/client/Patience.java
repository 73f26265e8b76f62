package io.github.protolink_grpc.client;

import io.grpc.Deadline;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * The backoff of one call: decides whether an attempt was interrupted (cut), how long to wait
 * before the next one, and when to give up. For one thread at a time.
 */
final class Patience {

  static final Duration FIRST_PAUSE = Duration.ofMillis(100);
  static final Duration LONGEST_PAUSE = Duration.ofSeconds(5);

  /** A stream that was open for this long counts as progress, even without an item. */
  static final Duration LONG_OPEN = Duration.ofSeconds(1);

  private final Duration patience;
  private final Deadline deadline;
  private final LongSupplier nanos;
  private Duration bound = FIRST_PAUSE;
  private boolean isCut;
  private long firstCutNanos;
  private ProtolinkException lastCut;

  /**
   * Of one call with all its attempts.
   *
   * @param patience how long to try again without progress; zero tries nothing again
   * @param deadline of the whole call; null means none
   * @param nanos the clock
   */
  Patience(Duration patience, Deadline deadline, LongSupplier nanos) {
    this.patience = patience;
    this.deadline = deadline;
    this.nanos = nanos;
  }

  /** Something new was received: patience and pauses begin anew. */
  void progress() {
    isCut = false;
    bound = FIRST_PAUSE;
  }

  /**
   * A stream was open for that time. Only the time for retries begins anew: the pauses continue to
   * grow, so that a server that ends every stream is not called in a tight loop.
   */
  void openFor(Duration time) {
    if (time.compareTo(LONG_OPEN) >= 0) {
      isCut = false;
    }
  }

  /**
   * The pause after an attempt that failed so: doubling, with jitter, and not shorter than the
   * server asks for. The last one ends when patience does, or at the deadline: then the next attempt
   * fails with DEADLINE_EXCEEDED.
   *
   * @throws ProtolinkException the same error, if it is the answer of the server, or patience has
   *     run out, or the pause would outlast patience
   */
  Duration pauseAfter(ProtolinkException error) {
    if (!isCut(error)) {
      throw error;
    }
    if (!isCut) {
      isCut = true;
      firstCutNanos = nanos.getAsLong();
    }
    Duration left = patience.minusNanos(nanos.getAsLong() - firstCutNanos);
    if (left.isZero() || left.isNegative()) {
      throw error;
    }
    Duration least = error.retryDelay().orElse(Duration.ZERO);
    Duration pause = longer(least, shorter(left, nextPause()));
    if (pause.compareTo(left) > 0) {
      throw error;
    }
    lastCut = error;
    return deadline == null ? pause : shorter(pause, longer(Duration.ZERO, leftOf(deadline)));
  }

  /** The error of the last attempt after which there was a further one; null if there was none. */
  ProtolinkException lastCut() {
    return lastCut;
  }

  /**
   * Whether a call was interrupted, so that the same request may be sent again: the connection or a
   * proxy ended it, or the server is unavailable.
   */
  static boolean isCut(ProtolinkException error) {
    return switch (error.code()) {
      case UNAVAILABLE -> true;
      case INTERNAL -> !error.hasErrorInfo();
      case UNKNOWN, CANCELLED -> !error.hasErrorInfo() && !failedHere(error);
      default -> false;
    };
  }

  /**
   * Whether gRPC reports what went wrong in this process and not on the connection, for instance a
   * message that is too large or an interceptor that throws.
   */
  private static boolean failedHere(ProtolinkException error) {
    Throwable cause = Status.fromThrowable(error).getCause();
    return cause != null && !(cause instanceof IOException);
  }

  private Duration nextPause() {
    long most = bound.toNanos();
    bound = shorter(bound.multipliedBy(2), LONGEST_PAUSE);
    return Duration.ofNanos(ThreadLocalRandom.current().nextLong(most / 2, most + 1));
  }

  private static Duration leftOf(Deadline deadline) {
    return Duration.ofNanos(deadline.timeRemaining(TimeUnit.NANOSECONDS));
  }

  private static Duration shorter(Duration one, Duration other) {
    return one.compareTo(other) < 0 ? one : other;
  }

  private static Duration longer(Duration one, Duration other) {
    return one.compareTo(other) > 0 ? one : other;
  }
}
