package io.github.protolink_grpc.client;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.lang.ref.Cleaner;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CancellationException;

/**
 * The items of a stream. After an interruption, the stream continues after the last item.
 *
 * <p>{@link #hasNext} and {@link #next} wait for the next item. They throw {@link
 * ProtolinkException} when the server refuses, when the deadline passes, or when an interruption
 * lasts longer than {@link ClientBuilder#patience}. They throw {@link CancellationException} when
 * the caller ends the stream before its end: by {@link #close} from any thread, by interrupting the
 * thread that reads, by closing the client, or by canceling the {@link io.grpc.Context} that it was
 * begun in.
 *
 * <p>For one reading thread. Reading to the end closes the stream. Close it if you stop earlier:
 * {@code try (EventStream events = client.stream("...")) { ... }}. If a stream is neither read to its
 * end nor closed, its call ends when the stream is garbage-collected.
 *
 * @param <T> an item
 */
public abstract class ResumingStream<T> implements Iterator<T>, Iterable<T>, AutoCloseable {

  private static final Cleaner CLEANER = Cleaner.create();

  final Connection connection;
  final Operation operation;

  private Responses<?, T> responses;
  private Iterator<T> batch = Collections.emptyIterator();
  private T next;
  private boolean isDone;
  private RuntimeException failure;

  ResumingStream(Connection connection, String taskId) {
    this.connection = connection;
    this.operation = connection.beginStream(taskId);
    CLEANER.register(this, new Forgotten(operation));
  }

  /** Must not know the stream, which would then never be forgotten. */
  private record Forgotten(Operation operation) implements Runnable {
    @Override
    public void run() {
      operation.finish();
    }
  }

  /** Opens the stream after the last accepted item. */
  abstract Responses<?, T> open();

  /** Called before the items of each response. */
  void received() {}

  /** Takes note of an item. Returns whether it is new: earlier ones may be sent again. */
  abstract boolean accept(T item);

  /** Returns the item that the caller gets for an accepted one. */
  T shown(T item) {
    return item;
  }

  /** Whether nothing is missing, also if the connection breaks now. */
  boolean isComplete() {
    return false;
  }

  /**
   * Whether the stream was complete when the server ended it without an error. If not, it was
   * interrupted.
   */
  boolean isWhole() {
    return false;
  }

  /** Sends the first call now instead of at the first reading; errors are left to the reading. */
  final void start() {
    try {
      reopen();
    } catch (RuntimeException e) {
      fail(e);
    }
  }

  @Override
  public final boolean hasNext() {
    if (failure != null) {
      throw failure;
    }
    try {
      while (next == null && !isDone) {
        advance();
      }
      return next != null;
    } catch (InterruptedException e) {
      throw fail(operation.interrupted());
    } catch (RuntimeException e) {
      throw fail(e);
    }
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
   * Ends the call, and not the task: to end a task, cancel it. Closing twice, or after the last
   * item, changes nothing.
   */
  @Override
  public final void close() {
    operation.cancel("the stream was closed");
  }

  private RuntimeException fail(RuntimeException error) {
    failure = error;
    operation.finish();
    return error;
  }

  private void advance() throws InterruptedException {
    if (operation.isEnded()) {
      throw operation.cancellation();
    }
    if (batch.hasNext()) {
      take(batch.next());
    } else {
      fetch();
    }
  }

  private void take(T item) {
    if (accept(item)) {
      next = shown(item);
      operation.patience.progress();
    }
  }

  private void finish() {
    isDone = true;
    operation.finish();
  }

  private void reopen() {
    operation.run(
        () -> {
          try {
            responses = open();
          } catch (RuntimeException thrown) {
            // Not by the connection but by something in this process, such as an interceptor.
            throw operation.error(thrown);
          }
        });
  }

  private void fetch() throws InterruptedException {
    if (responses == null) {
      reopen();
    }
    try {
      batch = operation.call(this::nextBatch);
    } catch (StatusRuntimeException | ProtolinkException thrown) {
      pauseAfter(thrown);
      return;
    }
    received();
  }

  private Iterator<T> nextBatch() throws InterruptedException {
    List<T> received = responses.next();
    if (received != null) {
      return received.iterator();
    }
    if (!isWhole()) {
      throw ProtolinkException.of(
          Status.Code.UNAVAILABLE, "the stream ended before its last event", null);
    }
    finish();
    return Collections.emptyIterator();
  }

  /** Waits for the time of the next attempt; throws the error if none is allowed. */
  private void pauseAfter(RuntimeException thrown) throws InterruptedException {
    operation.patience.openFor(responses.openFor());
    responses = null;
    RuntimeException error = operation.error(thrown);
    if (!(error instanceof ProtolinkException cut)) {
      throw error;
    }
    if (isComplete() && Patience.isCut(cut)) {
      finish();
      return;
    }
    operation.await(operation.pauseAfter(cut));
  }
}
