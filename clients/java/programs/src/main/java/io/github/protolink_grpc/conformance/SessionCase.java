package io.github.protolink_grpc.conformance;

import static io.github.protolink_grpc.conformance.Checks.collected;
import static io.github.protolink_grpc.conformance.Checks.expect;
import static io.github.protolink_grpc.conformance.Checks.expectCounted;
import static io.github.protolink_grpc.conformance.Checks.expectWhole;
import static io.github.protolink_grpc.conformance.Checks.output;
import static io.github.protolink_grpc.conformance.Checks.refused;
import static io.github.protolink_grpc.conformance.Checks.word;

import io.github.protolink_grpc.client.EventStream;
import io.github.protolink_grpc.client.ProtolinkClient;
import io.github.protolink_grpc.client.Reason;
import io.github.protolink_grpc.client.ResumingStream;
import io.github.protolink_grpc.client.SessionItem;
import io.github.protolink_grpc.client.Sessions;
import io.github.protolink_grpc.v1.GetSessionResponse;
import io.github.protolink_grpc.v1.Message;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.ResumeThreadResponse;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.RuntimeEvent;
import io.github.protolink_grpc.v1.StartThreadRequest;
import io.github.protolink_grpc.v1.StreamRuntimeEventsRequest;
import io.github.protolink_grpc.v1.SubmitTurnRequest;
import io.github.protolink_grpc.v1.TaskInput;
import io.github.protolink_grpc.v1.TaskState;
import io.github.protolink_grpc.v1.Thread;
import io.github.protolink_grpc.v1.Turn;
import io.github.protolink_grpc.v1.TurnState;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;

/** Turns that are submitted once, and streams of a turn and of its session that are cut. */
final class SessionCase implements Main.Case {

  private final ProtolinkClient agent;
  private final Sessions sessions;
  private final String sessionId = "chat-" + word();

  SessionCase(ProtolinkClient agent) {
    this.agent = agent;
    this.sessions = agent.sessions();
  }

  @Override
  public void run() {
    String word = word();
    Turn first = submit("first", "wait");
    Turn second = submit("second", "flaky 2 " + word);
    Turn third = submit("third", "cut 40 count 100");
    expect("the first state", first.getState(), TurnState.TURN_STATE_ACTIVE);
    expect("the second state", second.getState(), TurnState.TURN_STATE_QUEUED);
    expect("the third state", third.getState(), TurnState.TURN_STATE_QUEUED);
    Turn again = submit("second", "echo other");
    expect("the task of the repeated turn", again.getTaskId(), second.getTaskId());

    try (EventStream stream = sessions.stream(sessionId, "third")) {
      List<RunEvent> events = new ArrayList<>();
      for (RunEvent event : stream) {
        if (event.getSequence() == 1) {
          List<Turn> interrupted = sessions.interrupt(sessionId, "enough");
          expect("the interrupted turns", ids(interrupted), List.of("first"));
        }
        events.add(event);
      }
      expectWhole(events);
      expectCounted(events);
    }
    GetSessionResponse page = sessions.get(sessionId);
    expect("the turns", ids(page.getTurnsList()), List.of("first", "second", "third"));
    List<TaskState> results = page.getTurnsList().stream().map(Turn::getResult).toList();
    TaskState completed = TaskState.TASK_STATE_COMPLETED;
    expect("the results", results, List.of(TaskState.TASK_STATE_CANCELED, completed, completed));
    expect("the output", output(agent.get(second.getTaskId())), word + " ran 1 times");

    long end = page.getSession().getPosition();
    List<SessionItem> rest = read(end / 2, end); // this stream is cut
    List<SessionItem> whole = read(0, end);
    List<Long> positions = whole.stream().map(SessionItem::position).toList();
    expect("the positions", positions, LongStream.rangeClosed(1, end).boxed().toList());
    expect("whether the rest is exact", rest.equals(whole.subList((int) (end / 2), (int) end)), true);

    String late = refused(() -> sessions.remove(sessionId, "third")).reason();
    expect("the reason", late, Reason.TURN_NOT_QUEUED);
    String unknown = refused(() -> sessions.get(sessionId + "-unknown")).reason();
    expect("the reason", unknown, Reason.SESSION_NOT_FOUND);
    change();
  }

  /** Edits, rolls back, branches, resumes, exports and deletes the session. */
  private void change() {
    submit("fourth", "wait");
    Turn fifth = submit("fifth", "echo five");
    sessions.replaceInput(sessionId, "fifth", "echo six");
    sessions.interrupt(sessionId, "");
    collected(sessions.stream(sessionId, "fifth"));
    expect("the replaced input", output(agent.get(fifth.getTaskId())), "six");
    for (int attempt = 1; attempt <= 2; attempt++) { // the repetition changes nothing
      int count = sessions.rollBack(sessionId, "fourth", "wrong").getRollbackCount();
      expect("the number of rollbacks", count, 1);
    }
    List<Turn> rolledBack =
        sessions.get(sessionId).getTurnsList().stream().filter(Turn::getRolledBack).toList();
    expect("the turns that are rolled back", ids(rolledBack), List.of("fourth", "fifth"));
    Thread branch =
        sessions.startThread(
            StartThreadRequest.newBuilder()
                .setSessionId(sessionId)
                .setFromThreadId("default")
                .setFromTurnId("second")
                .build());
    String origin = branch.getFromThreadId() + " " + branch.getFromTurnId();
    expect("the branch", origin, "default second");
    expect("the open turns", sessions.resume(sessionId), ResumeThreadResponse.getDefaultInstance());
    readRuntimeEvents();
    expect("the deleted turns", sessions.delete(sessionId).getTurnCount(), 5L);
    String deleted = refused(() -> sessions.get(sessionId)).reason();
    expect("the reason", deleted, Reason.SESSION_NOT_FOUND);
    String gone = refused(() -> agent.get(fifth.getTaskId())).reason();
    expect("the reason", gone, Reason.TASK_NOT_FOUND);
  }

  /** Reads the session as events of the Agent Runtime contract: all, and the second half. */
  private void readRuntimeEvents() {
    List<RuntimeEvent> whole = runtimeEvents(0);
    int middle = whole.size() / 2;
    List<RuntimeEvent> rest = runtimeEvents(whole.get(middle - 1).getSequence());
    boolean isExact = rest.equals(whole.subList(middle, whole.size()));
    expect("whether the rest of the runtime events is exact", isExact, true);
    List<String> started =
        whole.stream()
            .filter(event -> event.getType().equals("turn.started"))
            .map(RuntimeEvent::getTurnId)
            .sorted()
            .toList();
    List<String> all = List.of("fifth", "first", "fourth", "second", "third");
    expect("the started turns", started, all);
  }

  private List<RuntimeEvent> runtimeEvents(long after) {
    List<RuntimeEvent> events = new ArrayList<>();
    StreamRuntimeEventsRequest request =
        StreamRuntimeEventsRequest.newBuilder()
            .setSessionId(sessionId)
            .setAfterSequence(after)
            .setStopAtEnd(true)
            .build();
    try (ResumingStream<RuntimeEvent> stream = sessions.runtimeEvents(request)) {
      stream.forEachRemaining(events::add);
    }
    return events;
  }

  private Turn submit(String turnId, String text) {
    Message message = Message.newBuilder().addParts(Part.newBuilder().setText(text)).build();
    return sessions.submit(
        SubmitTurnRequest.newBuilder()
            .setSessionId(sessionId)
            .setTurnId(turnId)
            .setInput(TaskInput.newBuilder().addMessages(message))
            .build());
  }

  private static List<String> ids(List<Turn> turns) {
    return turns.stream().map(Turn::getTurnId).toList();
  }

  private List<SessionItem> read(long after, long end) {
    List<SessionItem> items = new ArrayList<>();
    try (ResumingStream<SessionItem> stream = sessions.subscribe(sessionId, after)) {
      for (SessionItem item : stream) {
        items.add(item);
        if (item.position() >= end) {
          break;
        }
      }
    }
    return items;
  }
}
