package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.AgentServiceGrpc;
import io.github.protolink_grpc.v1.GetTaskResponse;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.SessionServiceGrpc;
import io.github.protolink_grpc.v1.StopAt;
import io.github.protolink_grpc.v1.StreamTaskRequest;
import io.github.protolink_grpc.v1.StreamTaskResponse;
import io.github.protolink_grpc.v1.StreamTurnRequest;
import io.github.protolink_grpc.v1.StreamTurnResponse;
import io.github.protolink_grpc.v1.SubscribeTaskRequest;
import io.github.protolink_grpc.v1.SubscribeTaskResponse;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskState;
import io.github.protolink_grpc.v1.TaskView;
import io.github.protolink_grpc.v1.Delta;
import io.github.protolink_grpc.v1.DeltaMode;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * The events of a task in the order of their sequences, each exactly once, without a gap.
 *
 * <p>It ends after the event that ends the task or, if requested, makes it wait for input. Close it
 * when you leave earlier: {@code try (EventStream events = client.stream("..."))
 * { for (RunEvent event : events) ... }}.
 */
public final class EventStream extends ResumingStream<RunEvent> {

  private final StreamTaskRequest turn;
  private final StreamTurnRequest.Builder sessionTurn;
  private final SubscribeTaskRequest.Builder position;
  private final Deltas deltas;
  private final List<Delta> unshown = new ArrayList<>();
  private final References references = new References();
  private boolean isPositioned;
  private boolean hasShown;
  private boolean isSettled;

  /**
   * The events of a turn that the request begins.
   *
   * @param onDelta is shown the text that is being produced; null: nothing
   */
  EventStream(Connection connection, StreamTaskRequest turn, Consumer<Delta> onDelta) {
    super(connection, turn.getInput().getTaskId());
    this.turn = turn.toBuilder().setDeltas(deltaMode(onDelta)).build();
    this.sessionTurn = null;
    this.position =
        SubscribeTaskRequest.newBuilder()
            .setTaskId(turn.getInput().getTaskId())
            .setStopAt(StopAt.STOP_AT_INTERRUPTED)
            .setDeltas(deltaMode(onDelta));
    this.deltas = new Deltas(onDelta);
  }

  /** The events of a task after a position. */
  EventStream(
      Connection connection, SubscribeTaskRequest subscription, Consumer<Delta> onDelta) {
    super(connection, subscription.getTaskId());
    this.turn = null;
    this.sessionTurn = null;
    this.position = subscription.toBuilder().setDeltas(deltaMode(onDelta));
    this.deltas = new Deltas(onDelta);
    this.isPositioned = true;
  }

  /** The events of a turn of a session. */
  EventStream(Connection connection, StreamTurnRequest turn, Consumer<Delta> onDelta) {
    super(connection, "");
    this.turn = null;
    this.sessionTurn = turn.toBuilder().setDeltas(deltaMode(onDelta));
    this.position =
        SubscribeTaskRequest.newBuilder().setStopAt(StopAt.STOP_AT_INTERRUPTED);
    this.deltas = new Deltas(onDelta);
  }

  private static DeltaMode deltaMode(Consumer<Delta> onDelta) {
    return onDelta == null ? DeltaMode.DELTA_MODE_NONE : DeltaMode.DELTA_MODE_ALL;
  }

  /**
   * Id of the task. A new task has it before the agent knows the task; the task of a session's turn
   * has it after the first event.
   */
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
  Responses<?, RunEvent> open() {
    hasShown = false;
    deltas.reopened();
    if (sessionTurn != null) {
      return Responses.of(
          connection.channel(),
          SessionServiceGrpc.getStreamTurnMethod(),
          sessionTurn.setAfterSequence(sequence()).build(),
          operation.options,
          this::read);
    }
    if (!isPositioned) {
      // Nothing was seen of it, and the same request id is the same request.
      return Responses.of(
          connection.channel(),
          AgentServiceGrpc.getStreamTaskMethod(),
          turn,
          operation.options,
          this::read);
    }
    return Responses.of(
        connection.channel(),
        AgentServiceGrpc.getSubscribeTaskMethod(),
        position.build(),
        operation.options,
        this::read);
  }

  private List<RunEvent> read(StreamTaskResponse response) {
    unshown.addAll(response.getDeltasList());
    return response.getEventsList();
  }

  private List<RunEvent> read(StreamTurnResponse response) {
    unshown.addAll(response.getDeltasList());
    return response.getEventsList();
  }

  private List<RunEvent> read(SubscribeTaskResponse response) {
    unshown.addAll(response.getDeltasList());
    return response.getEventsList();
  }

  @Override
  void received() {
    unshown.forEach(deltas::show);
    unshown.clear();
  }

  @Override
  boolean accept(RunEvent event) {
    if (isPositioned && event.getSequence() <= sequence()) {
      return false;
    }
    if (isPositioned && event.getSequence() != sequence() + 1) {
      throw ProtolinkException.of(
              Status.Code.DATA_LOSS,
              "task " + taskId() + ": event " + event.getSequence() + " came after " + sequence(),
              null)
          .about(taskId());
    }
    isPositioned = true;
    hasShown = true;
    position.setTaskId(event.getTaskId()).setAfterSequence(event.getSequence());
    deltas.forget(event.getLlmCallStarted().getCallId()); // perhaps another attempt
    deltas.forget(event.getLlmCallCompleted().getCallId());
    isSettled =
        event.getLast() || position.getStopAt() == StopAt.STOP_AT_INTERRUPTED && waits(event);
    return true;
  }

  @Override
  RunEvent shown(RunEvent event) {
    return references.resolve(event);
  }

  private static boolean waits(RunEvent event) {
    TaskState state = event.getTaskStatus().getNewState();
    return state == TaskState.TASK_STATE_INPUT_REQUIRED
        || state == TaskState.TASK_STATE_AUTH_REQUIRED;
  }

  /**
   * A turn is complete with its last event. A task that has ended may have been retried: only the
   * agent can end its stream.
   */
  @Override
  boolean isComplete() {
    return isSettled && position.getStopAt() == StopAt.STOP_AT_INTERRUPTED;
  }

  @Override
  boolean isWhole() {
    if (isSettled || position.getStopAt() == StopAt.STOP_AT_CURRENT) {
      return true;
    }
    // A subscription after the last event has no events, and neither has an interrupted one.
    return isPositioned && !hasShown && isAtEnd();
  }

  private boolean isAtEnd() {
    Task task =
        connection
            .withoutPatience()
            .ask(
                AgentServiceGrpc.getGetTaskMethod(),
                Requests.get(taskId(), TaskView.TASK_VIEW_HEADER),
                taskId(),
                GetTaskResponse::getTask);
    return Tasks.isTerminal(task.getState()) && task.getSequence() <= sequence();
  }
}
