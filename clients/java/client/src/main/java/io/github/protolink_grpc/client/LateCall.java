package io.github.protolink_grpc.client;

import io.grpc.Attributes;
import io.grpc.ClientCall;
import io.grpc.ForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.function.Function;

/** A call whose options depend on its headers, which are known when it is started. */
final class LateCall<Q, A> extends ForwardingClientCall<Q, A> {

  private final Function<Metadata, ClientCall<Q, A>> opening;
  private volatile ClientCall<Q, A> call;
  private volatile boolean isCanceled;

  /** The function makes the call for these headers, and may change them. */
  LateCall(Function<Metadata, ClientCall<Q, A>> opening) {
    this.opening = opening;
  }

  @Override
  public void start(Listener<A> listener, Metadata headers) {
    if (isCanceled) {
      listener.onClose(Status.CANCELLED.withDescription("canceled before start"), new Metadata());
      return;
    }
    call = opening.apply(headers);
    call.start(listener, headers);
  }

  @Override
  protected ClientCall<Q, A> delegate() {
    if (call == null) {
      throw new IllegalStateException("not started");
    }
    return call;
  }

  @Override
  public void cancel(String message, Throwable cause) {
    if (call == null) {
      isCanceled = true;
    } else {
      call.cancel(message, cause);
    }
  }

  @Override
  public boolean isReady() {
    return call != null && call.isReady();
  }

  @Override
  public Attributes getAttributes() {
    return call == null ? Attributes.EMPTY : call.getAttributes();
  }
}
