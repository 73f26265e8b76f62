package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;

class ProtolinkExceptionTest {

  private static ProtolinkException decoded(Status.Code code, Message... details) {
    com.google.rpc.Status.Builder status =
        com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("no task t-1");
    for (Message each : details) {
      status.addDetails(Any.pack(each));
    }
    return ProtolinkException.from(
        new ExecutionException(StatusProto.toStatusRuntimeException(status.build())));
  }

  @Test
  void itSaysCodeSentenceReasonAndMetadata() {
    ErrorInfo info =
        ErrorInfo.newBuilder()
            .setReason(Reason.TASK_NOT_FOUND)
            .setDomain("protolink-grpc.github.io")
            .putMetadata("task_id", "t-1")
            .build();
    ProtolinkException error = decoded(Status.Code.NOT_FOUND, info);
    assertEquals(Status.Code.NOT_FOUND, error.code());
    assertEquals(Reason.TASK_NOT_FOUND, error.reason());
    assertEquals(Map.of("task_id", "t-1"), error.metadata());
    assertEquals("NOT_FOUND: no task t-1", error.getMessage());
    assertFalse(error.isRetryable());
  }

  @Test
  void itNamesTheFieldsThatAreWrong() {
    BadRequest.FieldViolation wrong =
        BadRequest.FieldViolation.newBuilder()
            .setField("task.id")
            .setDescription("too long")
            .build();
    ProtolinkException error =
        decoded(
            Status.Code.INVALID_ARGUMENT,
            BadRequest.newBuilder().addFieldViolations(wrong).build());
    assertEquals(
        List.of(new ProtolinkException.Violation("task.id", "too long")), error.violations());
  }

  @Test
  void aReasonOfAnotherDomainIsNotOurs() {
    ErrorInfo info =
        ErrorInfo.newBuilder().setReason("TASK_NOT_FOUND").setDomain("elsewhere.example").build();
    assertEquals("", decoded(Status.Code.NOT_FOUND, info).reason());
    assertEquals("", decoded(Status.Code.UNAVAILABLE, info).reason());
  }

  @Test
  void aFullServerIsRetryableWhereItSaysWhen() {
    RetryInfo info =
        RetryInfo.newBuilder()
            .setRetryDelay(Duration.newBuilder().setSeconds(2).setNanos(500_000_000))
            .build();
    ProtolinkException error = decoded(Status.Code.RESOURCE_EXHAUSTED, info);
    assertEquals(Optional.of(java.time.Duration.ofMillis(2500)), error.retryDelay());
    assertTrue(error.isRetryable());
    assertFalse(decoded(Status.Code.RESOURCE_EXHAUSTED).isRetryable());
    assertTrue(decoded(Status.Code.UNAVAILABLE).isRetryable());
  }

  @Test
  void itSaysTheTaskOnce() {
    ProtolinkException cut = ProtolinkException.from(Status.UNAVAILABLE.asRuntimeException());
    assertEquals("UNAVAILABLE (task t-1)", cut.about("t-1").getMessage());
    assertEquals("t-1", cut.about("t-1").copy().taskId());
    ProtolinkException missing = decoded(Status.Code.NOT_FOUND).about("t-1");
    assertEquals("NOT_FOUND: no task t-1", missing.getMessage());
    assertEquals("", cut.taskId());
  }

  @Test
  void withoutDetailsTheCodeSaysWhatItWas() {
    ProtolinkException error = ProtolinkException.from(Status.UNAVAILABLE.asRuntimeException());
    assertEquals(Status.Code.UNAVAILABLE, error.code());
    assertEquals(Reason.UNAVAILABLE, error.reason());
    assertEquals("UNAVAILABLE", error.getMessage());
    assertEquals("", decoded(Status.Code.ABORTED).reason());
    assertEquals(Status.Code.UNKNOWN, ProtolinkException.from(new IllegalStateException()).code());
  }

  @Test
  void detailsThatAreNoneAreLeftOut() {
    Metadata trailers = new Metadata();
    trailers.put(
        Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER),
        new byte[] {-1});
    ProtolinkException error = ProtolinkException.from(Status.ABORTED.asRuntimeException(trailers));
    assertEquals(Status.Code.ABORTED, error.code());

    Any broken =
        Any.pack(ErrorInfo.getDefaultInstance()).toBuilder()
            .setValue(ByteString.copyFromUtf8("\1"))
            .build();
    com.google.rpc.Status status =
        com.google.rpc.Status.newBuilder().setCode(5).addDetails(broken).build();
    assertEquals(
        "", ProtolinkException.from(StatusProto.toStatusRuntimeException(status)).reason());
  }
}
