/**
 * Calls agents that speak {@code protolink.v1}: one request one run however often it is repeated,
 * streams that survive cuts, typed errors.
 *
 * <p>Messages are the generated ones of {@code dev.protolink.v1}; begin at {@link
 * dev.protolink.client.ProtolinkClient}. Clients may be shared between threads, a stream is read by
 * one thread and may be closed by any.
 */
package dev.protolink.client;
