/**
 * Clients of agents that speak {@code plgrpc.v1}: requests that can be retried without a second
 * run, streams that resume after interruptions, typed errors.
 *
 * <p>Messages are the generated ones of {@code io.github.protolink_grpc.v1}; begin at {@link
 * io.github.protolink_grpc.client.ProtolinkClient}. Clients may be shared between threads, a stream
 * is read by one thread and may be closed by any.
 */
package io.github.protolink_grpc.client;
