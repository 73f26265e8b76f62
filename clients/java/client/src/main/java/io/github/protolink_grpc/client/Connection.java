package io.github.protolink_grpc.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Deadline;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * A transport with the deadline and the retries of its calls. Both clients are thin layers over it.
 *
 * @param channel the transport's, with the interceptors around it
 * @param deadline of calls with one answer, and of streams where {@code boundsStreams}
 * @param patience how long to retry without progress
 */
record Connection(
    Transport transport,
    Channel channel,
    Duration deadline,
    boolean boundsStreams,
    Duration patience) {

  /** The same with another deadline, which is one of streams, too. */
  Connection withDeadline(Duration other) {
    return new Connection(transport, channel, ClientBuilder.positive(other), true, patience);
  }

  /** The same for parts of a call that does its own repeating. */
  Connection withoutPatience() {
    return new Connection(transport, channel, deadline, boundsStreams, Duration.ZERO);
  }

  /** The same with one more header. */
  Connection withHeader(String name, String value) {
    Metadata header = new Metadata();
    header.put(CallerCredentials.key(name), CallerCredentials.visible(value));
    Channel with =
        ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(header));
    return new Connection(transport, with, deadline, boundsStreams, patience);
  }

  /** A call with one answer that begins now. */
  Operation beginCall(String taskId) {
    return begin(bounded(), taskId);
  }

  /** A stream that begins now. */
  Operation beginStream(String taskId) {
    return begin(boundsStreams ? bounded() : CallOptions.DEFAULT, taskId);
  }

  /** A call with these options that begins now. */
  Operation begin(CallOptions options, String taskId) {
    return transport.add(new Operation(transport, options, patience, taskId));
  }

  private CallOptions bounded() {
    return bounded(CallOptions.DEFAULT, true);
  }

  /** These options with the deadline, unless they have one, or are of a stream that has none. */
  CallOptions bounded(CallOptions options, boolean isUnary) {
    return options.getDeadline() != null || !isUnary && !boundsStreams
        ? options
        : options.withDeadline(Deadline.after(deadline.toNanos(), TimeUnit.NANOSECONDS));
  }

  /** The channel of generated stubs. */
  Channel stubChannel() {
    return ClientInterceptors.intercept(channel, new StubCalls(this));
  }

  /**
   * What {@code reading} makes of the one answer. Canceling the future cancels the call.
   *
   * @param taskId the task that it is about, for errors; empty means none
   */
  <Q, A, T> CompletableFuture<T> askAsync(
      MethodDescriptor<Q, A> method, Q request, String taskId, Function<A, T> reading) {
    return new UnaryCall<>(channel, beginCall(taskId), method, request, reading).start();
  }

  /** The same, awaited. */
  <Q, A, T> T ask(MethodDescriptor<Q, A> method, Q request, String taskId, Function<A, T> reading) {
    Operation operation = beginCall(taskId);
    CompletableFuture<T> answer =
        new UnaryCall<>(channel, operation, method, request, reading).start();
    try {
      return answer.get();
    } catch (InterruptedException e) {
      throw operation.interrupted();
    } catch (ExecutionException e) {
      // Made anew, so that the stack trace is the caller's and not that of one of gRPC's threads.
      throw ((ProtolinkException) e.getCause()).copy();
    }
  }

  /** Pages from the one of a token on; each but the first is fetched when it is read. */
  static <P> Stream<P> pages(
      String firstToken, Function<String, P> page, Function<P, String> nextToken) {
    return Stream.iterate(
        page.apply(firstToken),
        Objects::nonNull,
        last -> nextToken.apply(last).isEmpty() ? null : page.apply(nextToken.apply(last)));
  }
}
