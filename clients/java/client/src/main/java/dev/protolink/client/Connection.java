package dev.protolink.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Deadline;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import java.time.Duration;
import java.util.Iterator;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Stream;

/** One channel, and the bounds of what is asked over it. Both clients are thin layers over this. */
final class Connection implements AutoCloseable {

  private static final Duration CLOSING = Duration.ofSeconds(5);

  private final ManagedChannel managed;
  private final Channel channel;
  private final Duration deadline;
  private final boolean boundsStreams;
  private final int maxAttempts;

  Connection(ManagedChannel managed, CallHeaders headers, Duration deadline, int maxAttempts) {
    this(managed, ClientInterceptors.intercept(managed, headers), deadline, false, maxAttempts);
  }

  private Connection(
      ManagedChannel managed,
      Channel channel,
      Duration deadline,
      boolean boundsStreams,
      int maxAttempts) {
    this.managed = managed;
    this.channel = channel;
    this.deadline = deadline;
    this.boundsStreams = boundsStreams;
    this.maxAttempts = maxAttempts;
  }

  /** The same channel with another bound, which is one of streams, too. */
  Connection withDeadline(Duration other) {
    return new Connection(managed, channel, ClientBuilder.positive(other), true, maxAttempts);
  }

  Channel channel() {
    return channel;
  }

  Backoff backoff(CallOptions options) {
    return new Backoff(maxAttempts, options, managed::isShutdown);
  }

  /** The options of a call with one answer that begins now. */
  CallOptions unaryOptions() {
    return CallOptions.DEFAULT.withDeadline(
        Deadline.after(deadline.toNanos(), TimeUnit.NANOSECONDS));
  }

  /** The options of a stream that begins now. */
  CallOptions streamOptions() {
    return boundsStreams ? unaryOptions() : CallOptions.DEFAULT;
  }

  /**
   * Makes the next attempt connect at once: gRPC's own pauses grow to minutes while a server is
   * away.
   */
  void reconnectNow() {
    managed.resetConnectBackoff();
  }

  /** What {@code reading} makes of the one answer. Canceling the future cancels the call. */
  <Q, A, T> CompletableFuture<T> askAsync(
      MethodDescriptor<Q, A> method, Q request, Function<A, T> reading) {
    return new UnaryCall<>(this, method, request, reading).start();
  }

  /** The same, awaited. */
  <Q, A, T> T ask(MethodDescriptor<Q, A> method, Q request, Function<A, T> reading) {
    CompletableFuture<T> answer = askAsync(method, request, reading);
    try {
      return answer.get();
    } catch (InterruptedException e) {
      answer.cancel(true);
      Thread.currentThread().interrupt();
      throw ProtolinkException.of(
          Status.Code.CANCELLED, "interrupted while waiting for an answer", e);
    } catch (ExecutionException e) {
      // Made anew from what gRPC has thrown, so that the stack trace is the caller's and not that
      // of one of gRPC's threads.
      throw ProtolinkException.from(e.getCause().getCause());
    }
  }

  /** The answers of one call, which is sent now. The iterator throws StatusRuntimeException. */
  <Q, A> Iterator<A> answers(MethodDescriptor<Q, A> method, Q request, CallOptions options) {
    return ClientCalls.blockingServerStreamingCall(channel, method, options, request);
  }

  /** Pages from the one of a token on; each but the first is fetched when it is read. */
  static <P> Stream<P> pages(
      String firstToken, Function<String, P> page, Function<P, String> nextToken) {
    return Stream.iterate(
        page.apply(firstToken),
        Objects::nonNull,
        last -> nextToken.apply(last).isEmpty() ? null : page.apply(nextToken.apply(last)));
  }

  /** Ends what is under way, and waits a moment for it. */
  @Override
  public void close() {
    try {
      managed.shutdownNow().awaitTermination(CLOSING.toMillis(), TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
