package io.github.protolink_grpc.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientStreamTracer;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Function;

/**
 * The responses of one streaming call, read by one thread; one is fetched ahead. The call ends with
 * the {@link io.grpc.Context} that it was sent in.
 *
 * @param <A> a response
 * @param <T> what it holds several of
 */
final class Responses<A, T> {

  private final ClientCall<?, A> call;
  private final Arrivals<A> arrivals;
  private final Opening opening;
  private final Function<A, List<T>> reading;

  private Responses(
      ClientCall<?, A> call,
      Arrivals<A> arrivals,
      Opening opening,
      Function<A, List<T>> reading) {
    this.call = call;
    this.arrivals = arrivals;
    this.opening = opening;
    this.reading = reading;
  }

  /**
   * Sends a request. Errors of the connection are left to the reading.
   *
   * @param reading the content of a response; called by the thread that reads
   */
  static <Q, A, T> Responses<A, T> of(
      Channel channel,
      MethodDescriptor<Q, A> method,
      Q request,
      CallOptions options,
      Function<A, List<T>> reading) {
    Arrivals<A> arrivals = new Arrivals<>();
    Opening opening = new Opening();
    ClientCall<Q, A> call = channel.newCall(method, options.withStreamTracerFactory(opening));
    call.start(arrivals, new Metadata());
    call.request(1);
    call.sendMessage(request);
    call.halfClose();
    return new Responses<>(call, arrivals, opening, reading);
  }

  /**
   * Waits for the next response.
   *
   * @return what it holds; null if the server has ended the call in good order
   * @throws io.grpc.StatusRuntimeException if the call has ended otherwise
   */
  List<T> next() throws InterruptedException {
    Arrival<A> arrival = arrivals.queue.take();
    if (arrival.response() != null) {
      call.request(1);
      return reading.apply(arrival.response());
    }
    if (!arrival.end().isOk()) {
      throw arrival.end().asRuntimeException(arrival.trailers());
    }
    return null;
  }

  /** How long the call has been open: zero unless it was sent over a connection. */
  Duration openFor() {
    return opening.time();
  }

  /** A response, or the end. */
  private record Arrival<A>(A response, Status end, Metadata trailers) {}

  /** What gRPC holds on to. It does not know the reader, which may be forgotten meanwhile. */
  private static final class Arrivals<A> extends ClientCall.Listener<A> {

    private final BlockingQueue<Arrival<A>> queue = new LinkedBlockingQueue<>();

    @Override
    public void onMessage(A response) {
      queue.add(new Arrival<>(response, null, null));
    }

    @Override
    public void onClose(Status end, Metadata trailers) {
      queue.add(new Arrival<>(null, end, trailers));
    }
  }

  /** Notes when a call went out over a connection. */
  static final class Opening extends ClientStreamTracer.Factory {

    private volatile boolean isReached;
    private volatile long nanos;

    /** How long it has been open since: zero unless it went out. */
    Duration time() {
      return isReached ? Duration.ofNanos(System.nanoTime() - nanos) : Duration.ZERO;
    }

    @Override
    public ClientStreamTracer newClientStreamTracer(
        ClientStreamTracer.StreamInfo info, Metadata headers) {
      return new ClientStreamTracer() {
        @Override
        public void outboundHeaders() {
          nanos = System.nanoTime();
          isReached = true;
        }
      };
    }
  }
}
