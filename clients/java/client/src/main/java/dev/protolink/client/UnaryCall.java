package dev.protolink.client;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * One question, asked again while that makes sense and there is time. Attempts follow one another,
 * so that nothing is locked.
 */
final class UnaryCall<Q, A, T> implements StreamObserver<A> {

  private final Connection connection;
  private final MethodDescriptor<Q, A> method;
  private final Q request;
  private final Function<A, T> reading;
  private final CompletableFuture<T> answer = new CompletableFuture<>();
  private final Context context = Context.current();
  private final CallOptions options;
  private final Backoff backoff;
  private A received;

  UnaryCall(
      Connection connection, MethodDescriptor<Q, A> method, Q request, Function<A, T> reading) {
    this.connection = connection;
    this.method = method;
    this.request = request;
    this.reading = reading;
    this.options = connection.unaryOptions();
    this.backoff = connection.backoff(options);
  }

  CompletableFuture<T> start() {
    context.run(this::attempt);
    return answer;
  }

  private void attempt() {
    ClientCall<Q, A> call = connection.channel().newCall(method, options);
    answer.whenComplete(
        (value, error) -> {
          if (answer.isCancelled()) {
            call.cancel("the caller has given up", null);
          }
        });
    if (!answer.isDone()) {
      ClientCalls.asyncUnaryCall(call, request, this);
    }
  }

  @Override
  public void onNext(A value) {
    received = value;
  }

  @Override
  public void onCompleted() {
    if (received == null) {
      onError(Status.INTERNAL.withDescription("there was no answer").asRuntimeException());
    } else {
      answer.complete(reading.apply(received));
    }
  }

  @Override
  public void onError(Throwable thrown) {
    ProtolinkException error = ProtolinkException.from(thrown);
    Optional<Duration> pause = backoff.after(error);
    if (pause.isEmpty()) {
      answer.completeExceptionally(error);
      return;
    }
    Executor later =
        CompletableFuture.delayedExecutor(pause.get().toMillis(), TimeUnit.MILLISECONDS);
    later.execute(
        () -> {
          connection.reconnectNow();
          context.run(this::attempt);
        });
  }
}
