package io.github.protolink_grpc.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A call of a generated stub with one request and one answer, made again while it is cut and there
 * is time. All attempts have one {@code x-request-id}, so that an agent runs the call once.
 *
 * <p>Attempts follow one another, and only the last one reaches the stub. The stub's listener is
 * called by the executor of the call: a blocking stub waits for work there.
 */
final class StubCall<Q, A> extends ClientCall<Q, A> {

  private static final Metadata.Key<String> REQUEST_ID = CallerCredentials.key("x-request-id");

  private final Connection connection;
  private final Channel channel;
  private final MethodDescriptor<Q, A> method;
  private final CallOptions options;
  private final Executor executor;
  private final AtomicBoolean isClosed = new AtomicBoolean();
  private volatile Operation operation;
  private volatile boolean isCanceled;
  private Listener<A> listener;
  private Metadata headers;
  private Q request;

  StubCall(
      Connection connection, Channel channel, MethodDescriptor<Q, A> method, CallOptions options) {
    this.connection = connection;
    this.channel = channel;
    this.method = method;
    this.options = options;
    this.executor = Objects.requireNonNullElse(options.getExecutor(), Runnable::run);
  }

  @Override
  public void start(Listener<A> listener, Metadata headers) {
    this.listener = listener;
    this.headers = headers;
    if (!headers.containsKey(REQUEST_ID)) {
      headers.put(REQUEST_ID, UUID.randomUUID().toString());
    }
    operation = connection.begin(options, "");
    operation.ended.thenRun(this::end);
    if (isCanceled) {
      operation.cancel("canceled before it was started");
    }
  }

  @Override
  public void sendMessage(Q message) {
    request = message;
  }

  @Override
  public void halfClose() {
    attempt();
  }

  @Override
  public void request(int numMessages) {
    // There is one answer, and it is small: each attempt asks for it.
  }

  @Override
  public void cancel(String message, Throwable cause) {
    isCanceled = true;
    if (operation != null) {
      operation.cancel(Objects.requireNonNullElse(message, "canceled by the caller"));
    }
  }

  /** Tells the stub that the call has ended early, if it has not ended by itself. */
  private void end() {
    if (!isClosed.get()) {
      Status status = statusOf(operation.cancellation());
      executor.execute(() -> close(status, new Metadata()));
    }
  }

  private void attempt() {
    if (isClosed.get()) {
      return;
    }
    try {
      operation.run(this::send);
    } catch (RuntimeException thrown) {
      // Not by the connection but by something in this process, such as an interceptor.
      Status status = Status.UNKNOWN.withDescription(thrown.getMessage()).withCause(thrown);
      executor.execute(() -> close(status, new Metadata()));
    }
  }

  private void send() {
    ClientCall<Q, A> call = channel.newCall(method, options);
    Metadata own = new Metadata();
    own.merge(headers); // what is below may change them
    call.start(new Attempt(), own);
    call.request(2); // as gRPC's stubs do: a second message would be an error
    call.sendMessage(request);
    call.halfClose();
  }

  /** Ends the call for the stub, the first time. */
  private void close(Status status, Metadata trailers) {
    if (isClosed.compareAndSet(false, true)) {
      if (!status.isOk()) {
        nameTask(trailers);
      }
      listener.onClose(status, trailers);
      operation.finish();
    }
  }

  /** Adds the task that the caller has chosen, which the error would not name otherwise. */
  private void nameTask(Metadata trailers) {
    String chosen = headers.get(ProtolinkException.TASK_ID);
    if (chosen != null && !trailers.containsKey(ProtolinkException.TASK_ID)) {
      trailers.put(ProtolinkException.TASK_ID, chosen);
    }
  }

  private static Status statusOf(RuntimeException ending) {
    return ending instanceof ProtolinkException late
        ? late.code().toStatus().withDescription("the deadline of the context has passed")
        : Status.CANCELLED.withDescription(ending.getMessage()).withCause(ending);
  }

  /** Keeps what an attempt is answered until it is known whether it is the last one. */
  private final class Attempt extends Listener<A> {

    private Metadata answerHeaders = new Metadata();
    private A answer;

    @Override
    public void onHeaders(Metadata received) {
      answerHeaders = received;
    }

    @Override
    public void onMessage(A message) {
      answer = message;
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      if (isClosed.get() || operation.isEnded()) {
        return; // its end tells the stub
      }
      if (status.isOk()) {
        listener.onHeaders(answerHeaders);
        if (answer != null) {
          listener.onMessage(answer);
        }
        close(status, trailers);
        return;
      }
      try {
        ProtolinkException failure =
            ProtolinkException.from(status.asRuntimeException(trailers));
        operation.pauseAfter(failure).thenRun(StubCall.this::attempt);
      } catch (ProtolinkException last) {
        close(status, trailers);
      }
    }
  }
}
