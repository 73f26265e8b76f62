package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.AgentServiceGrpc;
import io.github.protolink_grpc.v1.GetTaskRequest;
import io.github.protolink_grpc.v1.GetTaskResponse;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.SendTaskRequest;
import io.github.protolink_grpc.v1.SendTaskResponse;
import io.github.protolink_grpc.v1.StreamTaskRequest;
import io.github.protolink_grpc.v1.StreamTaskResponse;
import io.github.protolink_grpc.v1.SubscribeTaskRequest;
import io.github.protolink_grpc.v1.SubscribeTaskResponse;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskState;
import io.github.protolink_grpc.v1.TaskStatusChanged;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Answers the next call with the next answer of a list, and remembers what it was asked. */
final class ScriptedAgent extends AgentServiceGrpc.AgentServiceImplBase {

  static final String TASK = "t-1";

  final List<Object> requests = new CopyOnWriteArrayList<>();
  /** What GetTask answers. */
  volatile Task task = Task.getDefaultInstance();

  private final Deque<Answer> answers = new ArrayDeque<>();

  /** Events, and an error unless the status is OK. */
  record Answer(RuntimeException error, List<RunEvent> events) {}

  ScriptedAgent then(Status end, RunEvent... events) {
    return then(end.isOk() ? null : end.asRuntimeException(), events);
  }

  ScriptedAgent then(RuntimeException error, RunEvent... events) {
    answers.add(new Answer(error, List.of(events)));
    return this;
  }

  static RunEvent event(long sequence) {
    return RunEvent.newBuilder().setTaskId(TASK).setSequence(sequence).build();
  }

  static RunEvent last(long sequence) {
    return event(sequence).toBuilder().setLast(true).build();
  }

  static RunEvent question(long sequence) {
    TaskState state = TaskState.TASK_STATE_INPUT_REQUIRED;
    return event(sequence).toBuilder()
        .setTaskStatus(TaskStatusChanged.newBuilder().setNewState(state))
        .build();
  }

  @Override
  public void sendTask(SendTaskRequest request, StreamObserver<SendTaskResponse> observer) {
    answer(
        request,
        observer,
        SendTaskResponse.newBuilder().setTask(Task.newBuilder().setId(TASK)).build());
  }

  @Override
  public void streamTask(StreamTaskRequest request, StreamObserver<StreamTaskResponse> observer) {
    List<RunEvent> events = answers.element().events();
    answer(request, observer, StreamTaskResponse.newBuilder().addAllEvents(events).build());
  }

  @Override
  public void subscribeTask(
      SubscribeTaskRequest request, StreamObserver<SubscribeTaskResponse> observer) {
    List<RunEvent> events = answers.element().events();
    answer(request, observer, SubscribeTaskResponse.newBuilder().addAllEvents(events).build());
  }

  @Override
  public void getTask(GetTaskRequest request, StreamObserver<GetTaskResponse> observer) {
    observer.onNext(GetTaskResponse.newBuilder().setTask(task).build());
    observer.onCompleted();
  }

  private <A> void answer(Object request, StreamObserver<A> observer, A response) {
    requests.add(request);
    Answer answer = answers.remove();
    boolean isUnary = response instanceof SendTaskResponse;
    if (isUnary ? answer.error() == null : !answer.events().isEmpty()) {
      observer.onNext(response);
    }
    if (answer.error() == null) {
      observer.onCompleted();
    } else {
      observer.onError(answer.error());
    }
  }
}
