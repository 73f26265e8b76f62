package dev.protolink.client;

import io.grpc.CallOptions;
import io.grpc.ClientStreamTracer;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * What a server tells, item by item, through cuts of the connection: after one it goes on by itself
 * where it stopped.
 *
 * <p>{@link #hasNext} and {@link #next} wait for the next item. They throw {@link
 * ProtolinkException} when the server refuses, when the deadline or the {@link io.grpc.Context} of
 * the caller ends, when the thread is interrupted, or when a cut is not overcome within {@link
 * ClientBuilder#maxAttempts}; the stream has then ended. One thread reads; any thread may close,
 * which ends the reading without an error. Reading to the end closes, too.
 *
 * @param <T> what it shows
 */
public abstract class ResumingStream<T> implements Iterator<T>, Iterable<T>, AutoCloseable {

  private static final long LONG_NANOS = TimeUnit.MILLISECONDS.toNanos(Backoff.LONGEST_MILLIS);

  final Connection connection;
  final CallOptions options;

  private final Context.CancellableContext context = Context.current().withCancellation();
  private final CountDownLatch closed = new CountDownLatch(1);
  private final Backoff backoff;
  private long beganNanos;
  private volatile boolean isReached;
  private Supplier<List<T>> batches;
  private Iterator<T> batch = Collections.emptyIterator();
  private T next;

  ResumingStream(Connection connection) {
    this.connection = connection;
    this.options = connection.streamOptions().withStreamTracerFactory(new Arrival());
    this.backoff = connection.backoff(options);
  }

  /**
   * Sends the call that goes on after what was accepted. Each batch is what one response holds;
   * null: the server has ended it.
   */
  abstract Supplier<List<T>> open();

  /** Remembers an item. Returns whether it is news: what was shown before a cut may come again. */
  abstract boolean accept(T item);

  /** Whether nothing can follow what was accepted. */
  abstract boolean isComplete();

  /**
   * Whether a server that ends the call in good order has told everything. If not, that is a cut
   * like any other.
   */
  abstract boolean mayEnd();

  /** Sends the first call now instead of at the first reading; errors are left to the reading. */
  final void start() {
    beganNanos = System.nanoTime();
    isReached = false;
    context.run(() -> batches = open());
  }

  @Override
  public final boolean hasNext() {
    try {
      while (next == null && closed.getCount() > 0) {
        if (batch.hasNext()) {
          advance(batch.next());
        } else {
          fetch();
        }
      }
    } catch (RuntimeException e) {
      close();
      throw e;
    }
    return next != null;
  }

  @Override
  public final T next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    T item = next;
    next = null;
    return item;
  }

  /** This stream itself, for loops: it can be read once. */
  @Override
  public final Iterator<T> iterator() {
    return this;
  }

  /**
   * Ends the call. What the server does goes on: to end a task, cancel it. Closing twice changes
   * nothing.
   */
  @Override
  public final void close() {
    closed.countDown();
    context.cancel(null);
  }

  private void advance(T item) {
    if (accept(item)) {
      next = item;
      backoff.reset();
    }
    if (isComplete()) {
      finish();
    }
  }

  private void finish() {
    batch = Collections.emptyIterator();
    close();
  }

  private void fetch() {
    try {
      if (batches == null) {
        start();
      }
      List<T> received = batches.get();
      if (received != null) {
        batch = received.iterator();
      } else if (mayEnd()) {
        finish();
      } else {
        cut(
            ProtolinkException.of(
                Status.Code.UNAVAILABLE, "the server has ended the stream", null));
      }
    } catch (StatusRuntimeException e) {
      cut(ProtolinkException.from(e));
    }
  }

  /** Waits until the stream may be taken up again; throws the error if it may not. */
  private void cut(ProtolinkException error) {
    batches = null;
    if (closed.getCount() == 0) {
      return;
    }
    if (isReached && System.nanoTime() - beganNanos > LONG_NANOS) {
      backoff.reset(); // there was a connection, and nothing to tell
    }
    Duration pause = backoff.after(error).orElseThrow(() -> error);
    try {
      if (!closed.await(pause.toMillis(), TimeUnit.MILLISECONDS)) {
        connection.reconnectNow();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw ProtolinkException.of(Status.Code.CANCELLED, "interrupted while waiting to go on", e);
    }
  }

  /** Notes that a call has gone out to a server. */
  private final class Arrival extends ClientStreamTracer.Factory {
    @Override
    public ClientStreamTracer newClientStreamTracer(
        ClientStreamTracer.StreamInfo info, Metadata headers) {
      return new ClientStreamTracer() {
        @Override
        public void outboundHeaders() {
          isReached = true;
        }
      };
    }
  }
}
