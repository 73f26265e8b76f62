package io.github.protolink_grpc.client;

import io.grpc.CallOptions;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;

/**
 * One call of a client with all its attempts: what bounds it, and what ends it early. That is the
 * caller, the {@link Context} that it was begun in, or the end of the client.
 */
final class Operation {

  final CallOptions options;
  final Patience patience;
  final CompletableFuture<Void> ended = new CompletableFuture<>();

  private final Transport transport;
  private final String taskId;
  private final Context.CancellableContext context = Context.current().withCancellation();

  /**
   * Begins now.
   *
   * @param taskId the task that it is about; empty means none
   */
  Operation(Transport transport, CallOptions options, Duration patience, String taskId) {
    this.transport = transport;
    this.options = options;
    this.taskId = taskId;
    Deadline own = options.getDeadline();
    Deadline outer = context.getDeadline();
    Deadline first = own != null && outer != null ? own.minimum(outer) : own != null ? own : outer;
    this.patience = new Patience(patience, first, System::nanoTime);
    context.addListener(canceled -> ended.complete(null), Runnable::run);
  }

  /** Runs something as a part of this: calls that it begins end when this is ended. */
  void run(Runnable part) {
    context.run(part);
  }

  /** As {@link #run}. */
  <T> T call(Part<T> part) throws InterruptedException {
    Context previous = context.attach();
    try {
      return part.call();
    } finally {
      context.detach(previous);
    }
  }

  /** Something that may wait. */
  interface Part<T> {
    T call() throws InterruptedException;
  }

  /** Ends the attempt under way and every pause. Later calls change nothing. */
  void cancel(String why) {
    context.cancel(new CancellationException(why));
  }

  /** Lets go of what belongs to it: nothing follows. */
  void finish() {
    context.cancel(null);
  }

  boolean isEnded() {
    return context.isCancelled();
  }

  /**
   * The error of a failed attempt: a {@link ProtolinkException}, which may be an interruption, or a
   * {@link CancellationException} if this was ended early.
   */
  RuntimeException error(Throwable thrown) {
    if (isEnded()) {
      return cancellation();
    }
    ProtolinkException error =
        thrown instanceof ProtolinkException known ? known : ProtolinkException.from(thrown);
    ProtolinkException last = patience.lastCut();
    if (error.code() == Status.Code.DEADLINE_EXCEEDED && !error.hasErrorInfo() && last != null) {
      String message = "no answer before the deadline; the last attempt failed: ";
      error = ProtolinkException.of(error.code(), message + last.getMessage(), thrown);
    }
    return error.about(taskId);
  }

  /** Why this was ended early. */
  RuntimeException cancellation() {
    Throwable cause = context.cancellationCause();
    if (cause instanceof TimeoutException) {
      return ProtolinkException.of(
              Status.Code.DEADLINE_EXCEEDED, "the deadline of the context has passed", cause)
          .about(taskId);
    }
    String why = cause instanceof CancellationException ? cause.getMessage() : "the context ended";
    CancellationException error = new CancellationException(why);
    error.initCause(cause);
    return error;
  }

  /**
   * Completes when the next attempt may begin.
   *
   * @throws ProtolinkException the same error, if there is to be none
   */
  CompletableFuture<Void> pauseAfter(ProtolinkException error) {
    return transport.pause(patience.pauseAfter(error));
  }

  /** Waits for a pause or the end of this, whichever comes first. */
  void await(CompletableFuture<Void> pause) throws InterruptedException {
    try {
      CompletableFuture.anyOf(pause, ended).get();
    } catch (ExecutionException e) {
      throw new IllegalStateException(e.getCause()); // neither ever fails
    }
  }

  /** Ends this because the thread that waits for it is interrupted. */
  RuntimeException interrupted() {
    cancel("interrupted while waiting for the agent");
    Thread.currentThread().interrupt();
    return cancellation();
  }
}
