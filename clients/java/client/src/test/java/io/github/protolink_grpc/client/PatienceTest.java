package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Deadline;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class PatienceTest {

  private static final ProtolinkException CUT = error(Status.Code.UNAVAILABLE);
  private static final ErrorInfo INFO = ErrorInfo.newBuilder().setReason("ANY").build();

  private long now;
  private final Patience patience = patience(Duration.ofSeconds(60), null);

  private Patience patience(Duration patience, Deadline deadline) {
    return new Patience(patience, deadline, () -> now);
  }

  static ProtolinkException error(Status.Code code, Message... details) {
    com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder().setCode(code.value());
    for (Message each : details) {
      status.addDetails(Any.pack(each));
    }
    return ProtolinkException.from(StatusProto.toStatusRuntimeException(status.build()));
  }

  static RetryInfo retryAfter(long seconds) {
    return RetryInfo.newBuilder()
        .setRetryDelay(com.google.protobuf.Duration.newBuilder().setSeconds(seconds))
        .build();
  }

  private void pass(Duration time) {
    now += time.toNanos();
  }

  private static void assertBetween(long leastMillis, long mostMillis, Duration pause) {
    assertTrue(
        pause.toMillis() >= leastMillis && pause.toMillis() <= mostMillis, pause::toString);
  }

  @ParameterizedTest
  @EnumSource(
      value = Status.Code.class,
      names = {"UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED"})
  void theseCodesWithoutErrorInfoAreCuts(Status.Code code) {
    assertTrue(Patience.isCut(error(code)));
    assertEquals(code == Status.Code.UNAVAILABLE, Patience.isCut(error(code, INFO)));
  }

  @ParameterizedTest
  @EnumSource(
      value = Status.Code.class,
      mode = EnumSource.Mode.EXCLUDE,
      names = {"OK", "UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED"})
  void otherCodesAreNone(Status.Code code) {
    assertFalse(Patience.isCut(error(code)));
    assertFalse(Patience.isCut(error(code, retryAfter(1))));
  }

  @Test
  void whatFailsInThisProcessIsNoCut() {
    Status failed = Status.CANCELLED.withCause(new IllegalArgumentException("too large"));
    assertFalse(Patience.isCut(ProtolinkException.from(failed.asRuntimeException())));
    assertFalse(Patience.isCut(ProtolinkException.from(new IllegalStateException("a bug"))));
    Status closed = Status.UNKNOWN.withCause(new ClosedChannelException());
    assertTrue(Patience.isCut(ProtolinkException.from(closed.asRuntimeException())));
  }

  @Test
  void pausesDoubleUpToFiveSeconds() {
    for (long bound : new long[] {100, 200, 400, 800, 1600, 3200, 5000, 5000}) {
      assertBetween(bound / 2, bound, patience.pauseAfter(CUT));
    }
  }

  @Test
  void progressBeginsPausesAndPatienceAnew() {
    patience.pauseAfter(CUT);
    patience.pauseAfter(CUT);
    pass(Duration.ofSeconds(60));
    patience.progress();
    assertBetween(50, 100, patience.pauseAfter(CUT));
  }

  @Test
  void aStreamThatWasOpenForASecondBeginsPatienceAnewAndNotThePauses() {
    patience.pauseAfter(CUT);
    patience.pauseAfter(CUT);
    pass(Duration.ofSeconds(60));
    patience.openFor(Duration.ofSeconds(1));
    assertBetween(200, 400, patience.pauseAfter(CUT));
    pass(Duration.ofSeconds(60));
    patience.openFor(Duration.ofMillis(999));
    assertThrows(ProtolinkException.class, () -> patience.pauseAfter(CUT));
  }

  @Test
  void patienceCountsFromTheFirstCutAndTheLastPauseEndsWithIt() {
    pass(Duration.ofHours(1));
    patience.pauseAfter(CUT);
    pass(Duration.ofMillis(59_990));
    assertEquals(Duration.ofMillis(10), patience.pauseAfter(CUT));
    pass(Duration.ofMillis(10));
    assertSame(CUT, assertThrows(ProtolinkException.class, () -> patience.pauseAfter(CUT)));
  }

  @Test
  void zeroTriesNothingAgain() {
    Patience none = patience(Duration.ZERO, null);
    assertThrows(ProtolinkException.class, () -> none.pauseAfter(CUT));
  }

  @Test
  void theServersDelayIsTheLeastPause() {
    assertEquals(
        Duration.ofSeconds(7),
        patience.pauseAfter(error(Status.Code.UNAVAILABLE, INFO, retryAfter(7))));
  }

  @Test
  void aDelayThatOutlastsPatienceIsNotWaitedFor() {
    for (long seconds : new long[] {61, 315_576_000_000L}) {
      ProtolinkException later = error(Status.Code.UNAVAILABLE, retryAfter(seconds));
      assertThrows(ProtolinkException.class, () -> patience.pauseAfter(later));
    }
  }

  @Test
  void aPauseEndsAtTheDeadline() {
    Patience hasty =
        patience(Duration.ofSeconds(60), Deadline.after(40, TimeUnit.MILLISECONDS));
    assertTrue(hasty.pauseAfter(CUT).compareTo(Duration.ofMillis(40)) <= 0);
    Patience late =
        patience(Duration.ofSeconds(60), Deadline.after(-1, TimeUnit.MILLISECONDS));
    assertEquals(Duration.ZERO, late.pauseAfter(CUT));
  }
}
