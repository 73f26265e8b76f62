package dev.protolink.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors.CheckedForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.util.function.Supplier;

/**
 * What goes with every call: fixed headers, and a bearer token unless {@code token} is null. No
 * token, no call: it fails with what was thrown.
 */
record CallHeaders(Metadata fixed, Supplier<String> token) implements ClientInterceptor {

  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(
      MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    CallOptions bounded = options.withMaxOutboundMessageSize(ClientBuilder.MAX_MESSAGE_BYTES);
    return new CheckedForwardingClientCall<Q, A>(next.newCall(method, bounded)) {
      @Override
      protected void checkedStart(Listener<A> listener, Metadata headers) {
        headers.merge(fixed);
        if (token != null) {
          headers.put(AUTHORIZATION, "Bearer " + token.get());
        }
        delegate().start(listener, headers);
      }
    };
  }
}
