package dev.protolink.client;

import dev.protolink.v1.AgentServiceGrpc;
import dev.protolink.v1.RunEvent;
import dev.protolink.v1.StopAt;
import dev.protolink.v1.StreamTaskRequest;
import dev.protolink.v1.StreamTaskResponse;
import dev.protolink.v1.SubscribeTaskRequest;
import dev.protolink.v1.SubscribeTaskResponse;
import dev.protolink.v1.TaskState;
import io.grpc.Status;
import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;

/**
 * The events of a task in the order of their sequences, each exactly once, without a gap.
 *
 * <p>It ends after the event that ends the task or, where it was asked for so, makes it wait for
 * somebody. Close it when you leave earlier: {@code try (EventStream events = client.stream("..."))
 * { for (RunEvent event : events) ... }}.
 */
public final class EventStream extends ResumingStream<RunEvent> {

  private final StreamTaskRequest turn;
  private final SubscribeTaskRequest.Builder position;
  private boolean isPositioned;
  private boolean isComplete;

  /** The events of a turn that the request begins. */
  EventStream(Connection connection, StreamTaskRequest turn) {
    super(connection);
    this.turn = turn;
    this.position = SubscribeTaskRequest.newBuilder().setStopAt(StopAt.STOP_AT_INTERRUPTED);
  }

  /** The events of a task after a position. */
  EventStream(Connection connection, SubscribeTaskRequest subscription) {
    super(connection);
    this.turn = null;
    this.position = subscription.toBuilder();
    this.isPositioned = true;
  }

  /** Id of the task. Empty before the first event of a stream that began it. */
  public String taskId() {
    return position.getTaskId();
  }

  /**
   * Sequence of the last event shown, from 1; before that, the position that the stream began
   * after.
   */
  public long sequence() {
    return position.getAfterSequence();
  }

  @Override
  Supplier<List<RunEvent>> open() {
    if (!isPositioned) {
      // Nothing was seen of it, and the same request id is the same request.
      Iterator<StreamTaskResponse> responses =
          connection.answers(AgentServiceGrpc.getStreamTaskMethod(), turn, options);
      return () -> responses.hasNext() ? responses.next().getEventsList() : null;
    }
    Iterator<SubscribeTaskResponse> responses =
        connection.answers(AgentServiceGrpc.getSubscribeTaskMethod(), position.build(), options);
    return () -> responses.hasNext() ? responses.next().getEventsList() : null;
  }

  @Override
  boolean accept(RunEvent event) {
    if (isPositioned && event.getSequence() <= sequence()) {
      return false;
    }
    if (isPositioned && event.getSequence() != sequence() + 1) {
      throw ProtolinkException.of(
          Status.Code.DATA_LOSS,
          "task "
              + taskId()
              + " went on with event "
              + event.getSequence()
              + " after "
              + sequence(),
          null);
    }
    isPositioned = true;
    position.setTaskId(event.getTaskId()).setAfterSequence(event.getSequence());
    isComplete =
        event.getFinal() || position.getStopAt() == StopAt.STOP_AT_INTERRUPTED && waits(event);
    return true;
  }

  private static boolean waits(RunEvent event) {
    TaskState state = event.getTaskStatus().getNewState();
    return state == TaskState.TASK_STATE_INPUT_REQUIRED
        || state == TaskState.TASK_STATE_AUTH_REQUIRED;
  }

  @Override
  boolean isComplete() {
    return isComplete;
  }

  @Override
  boolean mayEnd() {
    return true;
  }
}
