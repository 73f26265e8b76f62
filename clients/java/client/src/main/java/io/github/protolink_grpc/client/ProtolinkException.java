package io.github.protolink_grpc.client;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A call failed. Unchecked, as gRPC's own exceptions are: most callers let it rise, and iterators
 * could not declare it.
 *
 * <p>To tell errors apart, compare {@link #reason()} with one of {@link Reason}; where that is
 * empty, {@link #code()} says what it was.
 */
public final class ProtolinkException extends RuntimeException {

  private static final long serialVersionUID = 1;
  private static final String DOMAIN = "protolink-grpc.github.io";

  /** The header in which an answer names its task, and a caller may choose one. */
  static final Metadata.Key<String> TASK_ID = CallerCredentials.key("x-task-id");

  private final com.google.rpc.Status status;
  private final String taskId;

  /**
   * One field of the request that is wrong.
   *
   * @param field path of the field as the proto files spell it, for instance {@code input.task_id}
   * @param description what is wrong with it, one sentence
   */
  public record Violation(String field, String description) {}

  private ProtolinkException(com.google.rpc.Status status, String taskId, Throwable cause) {
    super(sentence(status, taskId), cause);
    this.status = status;
    this.taskId = taskId;
  }

  /** An error that arises on this side. */
  static ProtolinkException of(Status.Code code, String message, Throwable cause) {
    return new ProtolinkException(
        com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage(message).build(),
        "",
        cause);
  }

  /** The same error of a call about a task; empty means that only the server may name one. */
  ProtolinkException about(String taskId) {
    if (taskId.isEmpty() || taskId.equals(this.taskId)) {
      return this;
    }
    ProtolinkException error = new ProtolinkException(status, taskId, getCause());
    error.setStackTrace(getStackTrace());
    return error;
  }

  /** The same error with the stack trace of this thread. */
  ProtolinkException copy() {
    return new ProtolinkException(status, taskId, getCause());
  }

  /** Whether the status says why in a {@code google.rpc.ErrorInfo}, of whatever domain. */
  boolean hasErrorInfo() {
    return status.getDetailsList().stream().anyMatch(each -> each.is(ErrorInfo.class));
  }

  /**
   * What a failed call of a generated stub means.
   *
   * @param thrown a {@code StatusException} or {@code StatusRuntimeException}, or something that
   *     one of them has caused; anything else becomes {@code UNKNOWN}
   */
  public static ProtolinkException from(Throwable thrown) {
    Status grpc = Status.fromThrowable(thrown);
    com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder();
    try {
      com.google.rpc.Status detailed = StatusProto.fromThrowable(thrown);
      if (detailed != null) {
        status.mergeFrom(detailed);
      }
    } catch (IllegalArgumentException malformed) {
      // Details that are none: code and sentence say something even so.
    }
    if (status.getMessage().isEmpty() && grpc.getDescription() != null) {
      status.setMessage(grpc.getDescription());
    }
    if (grpc.getCause() != null) {
      status.setMessage(ofThisSide(grpc));
    }
    com.google.rpc.Status read = status.setCode(grpc.getCode().value()).build();
    return new ProtolinkException(read, taskOf(read, thrown), thrown);
  }

  /** The task that the server names, or that a stub's caller has chosen. */
  private static String taskOf(com.google.rpc.Status status, Throwable thrown) {
    String named = info(status).getMetadataOrDefault("task_id", "");
    Metadata trailers = Status.trailersFromThrowable(thrown);
    String chosen = trailers == null ? null : trailers.get(TASK_ID);
    return named.isEmpty() && chosen != null ? chosen : named;
  }

  /** The gRPC code. */
  public Status.Code code() {
    return Status.fromCodeValue(status.getCode()).getCode();
  }

  /**
   * Why, for machines: one of {@link Reason}, or a newer one. If the status has no reason, because
   * gRPC itself or something on the way has failed the call, the code decides. Empty if the code
   * says too little, or if the reason is one of another system.
   */
  public String reason() {
    return hasErrorInfo() ? info().getReason() : impliedBy(code());
  }

  private static String impliedBy(Status.Code code) {
    return switch (code) {
      case INVALID_ARGUMENT -> Reason.INVALID_ARGUMENT;
      case UNAUTHENTICATED -> Reason.UNAUTHENTICATED;
      case PERMISSION_DENIED -> Reason.PERMISSION_DENIED;
      case RESOURCE_EXHAUSTED -> Reason.RESOURCE_EXHAUSTED;
      case DEADLINE_EXCEEDED -> Reason.DEADLINE_EXCEEDED;
      case UNAVAILABLE -> Reason.UNAVAILABLE;
      case UNIMPLEMENTED -> Reason.UNIMPLEMENTED;
      default -> "";
    };
  }

  /**
   * Id of the task that the failed call was about, also where the call began it: by this id the
   * task is found and canceled after a deadline. Empty: the call was about none.
   */
  public String taskId() {
    return taskId;
  }

  /** The values in the message, for machines, for instance {@code task_id}. May be empty. */
  public Map<String, String> metadata() {
    return info().getMetadataMap();
  }

  /**
   * The fields of the request that are wrong. Empty unless the code is {@code INVALID_ARGUMENT}.
   */
  public List<Violation> violations() {
    return detail(status, BadRequest.getDefaultInstance()).getFieldViolationsList().stream()
        .map(each -> new Violation(each.getField(), each.getDescription()))
        .toList();
  }

  /** How long to wait before the same request makes sense again, where the server says so. */
  public Optional<Duration> retryDelay() {
    RetryInfo info = detail(status, RetryInfo.getDefaultInstance());
    return info.hasRetryDelay()
        ? Optional.of(
            Duration.ofSeconds(info.getRetryDelay().getSeconds(), info.getRetryDelay().getNanos()))
        : Optional.empty();
  }

  /**
   * Whether the same request, with the same request id, may succeed later: the call was
   * interrupted, and the client's retries did not succeed, or the agent is full and requests a
   * delay.
   */
  public boolean isRetryable() {
    return Patience.isCut(this)
        || code() == Status.Code.RESOURCE_EXHAUSTED && retryDelay().isPresent();
  }

  private ErrorInfo info() {
    return info(status);
  }

  private static ErrorInfo info(com.google.rpc.Status status) {
    ErrorInfo info = detail(status, ErrorInfo.getDefaultInstance());
    return info.getDomain().equals(DOMAIN) ? info : ErrorInfo.getDefaultInstance();
  }

  /** The detail of that type, or {@code absent} where there is none that can be read. */
  private static <M extends Message> M detail(com.google.rpc.Status status, M absent) {
    @SuppressWarnings("unchecked") // the class of an M
    Class<M> type = (Class<M>) absent.getClass();
    for (com.google.protobuf.Any each : status.getDetailsList()) {
      try {
        if (each.is(type)) {
          return each.unpack(type);
        }
      } catch (InvalidProtocolBufferException malformed) {
        return absent;
      }
    }
    return absent;
  }

  private static String sentence(com.google.rpc.Status status, String taskId) {
    Status.Code code = Status.fromCodeValue(status.getCode()).getCode();
    String message = status.getMessage();
    String sentence = message.isEmpty() ? code.name() : code + ": " + message;
    return sentence.contains(taskId) ? sentence : sentence + " (task " + taskId + ")";
  }

  /**
   * What gRPC says that did not come from the server. Of one that it cannot reach it says "io
   * exception"; only the causes name the server and the trouble.
   */
  private static String ofThisSide(Status grpc) {
    List<String> said = new ArrayList<>();
    if (grpc.getDescription() != null) {
      grpc.getDescription().lines().findFirst().ifPresent(said::add);
    }
    for (Throwable cause = grpc.getCause(); cause != null; cause = cause.getCause()) {
      String message = cause.getMessage();
      if (message != null && said.stream().noneMatch(each -> each.contains(message))) {
        said.add(message);
      }
    }
    return String.join(": ", said);
  }
}
