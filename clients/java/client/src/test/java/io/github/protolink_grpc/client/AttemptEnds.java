package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** Tells a test when the client has learned how an attempt ended. */
final class AttemptEnds implements ClientInterceptor {

  private final Semaphore ends = new Semaphore(0);

  /** Waits for one more end. */
  void await() throws InterruptedException {
    assertTrue(ends.tryAcquire(5, TimeUnit.SECONDS));
  }

  /** How many ends nobody has waited for. */
  int more() {
    return ends.availablePermits();
  }

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(
      MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
      @Override
      public void start(Listener<A> listener, Metadata headers) {
        super.start(
            new SimpleForwardingClientCallListener<>(listener) {
              @Override
              public void onClose(Status status, Metadata trailers) {
                super.onClose(status, trailers);
                ends.release();
              }
            },
            headers);
      }
    };
  }
}
