/**
 * Calls agents that speak {@code plgrpc.v1}: one request one run however often it is repeated,
 * streams that survive cuts, typed errors.
 *
 * <p>Messages are the generated ones of {@code io.github.protolink_grpc.v1}; begin at {@link
 * io.github.protolink_grpc.client.ProtolinkClient}. Clients may be shared between threads, a stream
 * is read by one thread and may be closed by any.
 */
package io.github.protolink_grpc.client;
