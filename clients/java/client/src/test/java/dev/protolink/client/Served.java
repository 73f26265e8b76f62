package dev.protolink.client;

import io.grpc.BindableService;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import java.io.IOException;
import java.io.UncheckedIOException;

/** A service on a free port of this machine. */
record Served(Server server) implements AutoCloseable {

  static Served of(BindableService service) {
    try {
      return new Served(
          Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
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
