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
 * A call of a generated stub with one request, retried after interruptions while there is time. All
 * attempts have one {@code x-request-id}, so that an agent runs the call once.
 *
 * <p>The one answer of a call is delivered when the call has succeeded. The responses of a stream
 * are delivered as they arrive. After an interruption, the call is retried if there were none, or
 * if the headers name a task, because its log has all of them. The repeated call returns them from
 * the first one, and those that were delivered are left out.
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
  private final boolean isStream;
  private final AtomicBoolean isClosed = new AtomicBoolean();
  private volatile Operation operation;
  private volatile boolean isCanceled;
  private Listener<A> listener;
  private Metadata headers;
  private Q request;

  // Of streams. `call`, `wanted` and `received` change under the lock of this: the stub requests
  // messages from any thread.
  private ClientCall<Q, A> call;
  private long wanted;
  private long received;
  private boolean isTask;
  private boolean hasHeaders;

  StubCall(
      Connection connection, Channel channel, MethodDescriptor<Q, A> method, CallOptions options) {
    this.connection = connection;
    this.channel = channel;
    this.method = method;
    this.options = options;
    this.executor = Objects.requireNonNullElse(options.getExecutor(), Runnable::run);
    this.isStream = !method.getType().serverSendsOneMessage();
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
    if (!isStream) {
      return; // each attempt asks for the one answer
    }
    ClientCall<Q, A> current;
    synchronized (this) {
      wanted += numMessages;
      current = call;
    }
    if (current != null) {
      current.request(numMessages);
    }
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
    Metadata own = new Metadata();
    own.merge(headers); // what is below may change them
    Responses.Opening opening = new Responses.Opening();
    ClientCall<Q, A> attempt =
        channel.newCall(method, isStream ? options.withStreamTracerFactory(opening) : options);
    if (isStream) {
      attempt.start(new Responding(opening), own);
      long asked;
      synchronized (this) {
        call = attempt;
        asked = received + wanted; // it begins with those that the stub has
      }
      if (asked > 0) {
        attempt.request((int) Math.min(asked, Integer.MAX_VALUE));
      }
    } else {
      attempt.start(new Answering(), own);
      attempt.request(2); // as gRPC's stubs do: a second message would be an error
    }
    attempt.sendMessage(request);
    attempt.halfClose();
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

  /** Makes the next attempt after one that failed, or ends the call with its status. */
  private void pauseAfter(Status status, Metadata trailers) {
    try {
      ProtolinkException failure = ProtolinkException.from(status.asRuntimeException(trailers));
      operation.pauseAfter(failure).thenRun(this::attempt);
    } catch (ProtolinkException last) {
      close(status, trailers);
    }
  }

  /** Keeps what an attempt is answered until it is known whether it is the last one. */
  private final class Answering extends Listener<A> {

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
      if (!status.isOk()) {
        pauseAfter(status, trailers);
        return;
      }
      listener.onHeaders(answerHeaders);
      if (answer != null) {
        listener.onMessage(answer);
      }
      close(status, trailers);
    }
  }

  /** Delivers the responses of an attempt that no earlier one has delivered. */
  private final class Responding extends Listener<A> {

    private final Responses.Opening opening;
    private long repeated;

    Responding(Responses.Opening opening) {
      this.opening = opening;
      this.repeated = received;
    }

    @Override
    public void onHeaders(Metadata headers) {
      isTask |= headers.containsKey(ProtolinkException.TASK_ID);
      if (!hasHeaders) {
        hasHeaders = true;
        listener.onHeaders(headers);
      }
    }

    @Override
    public void onMessage(A message) {
      if (repeated > 0) {
        repeated--;
        return;
      }
      synchronized (StubCall.this) {
        received++;
        wanted--;
      }
      operation.patience.progress();
      listener.onMessage(message);
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      if (isClosed.get() || operation.isEnded()) {
        return; // its end tells the stub
      }
      synchronized (StubCall.this) {
        call = null;
      }
      if (status.isOk() || received > 0 && !isTask) {
        close(status, trailers);
        return;
      }
      operation.patience.openFor(opening.time());
      pauseAfter(status, trailers);
    }
  }
}
