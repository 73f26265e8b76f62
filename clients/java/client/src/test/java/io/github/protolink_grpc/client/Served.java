package io.github.protolink_grpc.client;

import io.grpc.BindableService;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import java.io.IOException;
import java.io.UncheckedIOException;

/** A service on a free port of this machine. */
record Served(Server server) implements AutoCloseable {

  static Served of(BindableService service) {
    return of(service, 0);
  }

  static Served of(ServerServiceDefinition service) {
    return of(() -> service);
  }

  static Served of(BindableService service, int port) {
    try {
      return new Served(
          Grpc.newServerBuilderForPort(port, InsecureServerCredentials.create())
              .addService(service)
              .build()
              .start());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  String url() {
    return "grpc://127.0.0.1:" + server.getPort();
  }

  @Override
  public void close() {
    server.shutdownNow();
  }
}
