package io.github.protolink_grpc.client;

import io.grpc.Channel;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * A call with one response, retried after interruptions while there is time. Attempts follow one
 * another, so no lock is needed.
 */
final class UnaryCall<Q, A, T> implements StreamObserver<A> {

  private final Channel channel;
  private final Operation operation;
  private final MethodDescriptor<Q, A> method;
  private final Q request;
  private final Function<A, T> reading;
  private final CompletableFuture<T> answer = new CompletableFuture<>();
  private A received;

  UnaryCall(
      Channel channel,
      Operation operation,
      MethodDescriptor<Q, A> method,
      Q request,
      Function<A, T> reading) {
    this.channel = channel;
    this.operation = operation;
    this.method = method;
    this.request = request;
    this.reading = reading;
  }

  /** Sends it. The future fails with a ProtolinkException, or is canceled. */
  CompletableFuture<T> start() {
    answer.whenComplete((value, error) -> operation.finish());
    operation.ended.thenRun(this::cancel);
    attempt();
    return answer;
  }

  private void cancel() {
    if (!answer.isDone()) {
      answer.completeExceptionally(operation.cancellation());
    }
  }

  private void attempt() {
    if (answer.isDone()) {
      return;
    }
    received = null;
    operation.run(
        () -> {
          try {
            ClientCalls.asyncUnaryCall(channel.newCall(method, operation.options), request, this);
          } catch (RuntimeException thrown) {
            // Not by the connection but by something in this process, such as an interceptor.
            answer.completeExceptionally(operation.error(thrown));
          }
        });
  }

  @Override
  public void onNext(A value) {
    received = value;
  }

  @Override
  public void onCompleted() {
    if (received == null) {
      onError(Status.INTERNAL.withDescription("there was no answer").asRuntimeException());
      return;
    }
    try {
      answer.complete(reading.apply(received));
    } catch (RuntimeException thrown) {
      answer.completeExceptionally(operation.error(thrown));
    }
  }

  @Override
  public void onError(Throwable thrown) {
    RuntimeException error = operation.error(thrown);
    try {
      if (!(error instanceof ProtolinkException failure)) {
        throw error;
      }
      operation.pauseAfter(failure).thenRun(this::attempt);
    } catch (RuntimeException last) {
      answer.completeExceptionally(last);
    }
  }
}
