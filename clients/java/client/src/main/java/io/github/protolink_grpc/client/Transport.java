package io.github.protolink_grpc.client;

import io.grpc.Channel;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** A channel, and the calls that one client and those derived from it have under way on it. */
final class Transport implements AutoCloseable {

  private static final Duration CLOSING = Duration.ofSeconds(5);

  /** How long to wait for a new connection before an attempt that would fail without one. */
  private static final Duration CONNECTING = Duration.ofMillis(500);

  private final Channel channel;
  private final boolean isOwned;
  private final Set<Operation> operations = ConcurrentHashMap.newKeySet();
  private volatile boolean isClosed;

  /**
   * Takes a channel.
   *
   * @param isOwned whether closing this closes the channel, too
   */
  Transport(Channel channel, boolean isOwned) {
    this.channel = channel;
    this.isOwned = isOwned;
  }

  Channel channel() {
    return channel;
  }

  /** Ends the operation when this is closed. */
  Operation add(Operation operation) {
    operations.add(operation);
    operation.ended.thenRun(() -> operations.remove(operation));
    if (isClosed) {
      operation.cancel("the client is closed");
    }
    return operation;
  }

  /** Completes after that time, once there is a connection or it is clear that there is none. */
  CompletableFuture<Void> pause(Duration time) {
    return CompletableFuture.runAsync(
            () -> {}, CompletableFuture.delayedExecutor(time.toNanos(), TimeUnit.NANOSECONDS))
        .thenCompose(passed -> reconnected());
  }

  /**
   * gRPC's own pauses between connections grow to minutes while a server is away, and until one
   * succeeds each call fails with the error of the one before.
   */
  private CompletableFuture<Void> reconnected() {
    if (!(channel instanceof ManagedChannel managed) || !isFailing(managed)) {
      return CompletableFuture.completedFuture(null);
    }
    CompletableFuture<Void> changed = new CompletableFuture<>();
    managed.resetConnectBackoff();
    managed.notifyWhenStateChanged(
        ConnectivityState.TRANSIENT_FAILURE, () -> changed.complete(null));
    return changed.completeOnTimeout(null, CONNECTING.toMillis(), TimeUnit.MILLISECONDS);
  }

  private static boolean isFailing(ManagedChannel channel) {
    try {
      return channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE;
    } catch (UnsupportedOperationException e) {
      return false; // a channel of the caller's own need not say
    }
  }

  /** Ends what is under way, and waits a moment for the connection to end. */
  @Override
  public void close() {
    isClosed = true;
    operations.forEach(each -> each.cancel("the client is closed"));
    if (isOwned && channel instanceof ManagedChannel managed) {
      try {
        managed.shutdownNow().awaitTermination(CLOSING.toMillis(), TimeUnit.MILLISECONDS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
