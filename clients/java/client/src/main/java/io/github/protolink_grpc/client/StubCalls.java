package io.github.protolink_grpc.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.MethodDescriptor;

/**
 * Makes the calls of generated stubs: with the deadline of a client and, if they have one request,
 * with its retries.
 */
final class StubCalls implements ClientInterceptor {

  /** Of plgrpc's own services, whose request ids are fields of their requests. */
  private static final String CONTRACT = "plgrpc.v1.";

  private final Connection connection;

  StubCalls(Connection connection) {
    this.connection = connection;
  }

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(
      MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    boolean isUnary = method.getType() == MethodDescriptor.MethodType.UNARY;
    boolean hasOneRequest = method.getType().clientSendsOneMessage();
    CallOptions bounded = connection.bounded(options, isUnary);
    String service = method.getServiceName();
    boolean isRepeatable = hasOneRequest && service != null && !service.startsWith(CONTRACT);
    return isRepeatable
        ? new StubCall<>(connection, next, method, bounded)
        : next.newCall(method, bounded);
  }
}
