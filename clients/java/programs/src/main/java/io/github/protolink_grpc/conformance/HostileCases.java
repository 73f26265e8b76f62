package io.github.protolink_grpc.conformance;

import static io.github.protolink_grpc.conformance.Checks.CASE;
import static io.github.protolink_grpc.conformance.Checks.collected;
import static io.github.protolink_grpc.conformance.Checks.expect;
import static io.github.protolink_grpc.conformance.Checks.expectCounted;
import static io.github.protolink_grpc.conformance.Checks.given;
import static io.github.protolink_grpc.conformance.Checks.output;
import static io.github.protolink_grpc.conformance.Checks.refused;
import static io.github.protolink_grpc.conformance.Checks.word;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Struct;
import com.google.protobuf.util.JsonFormat;
import io.github.protolink_grpc.client.EventStream;
import io.github.protolink_grpc.client.Parts;
import io.github.protolink_grpc.client.ProtolinkClient;
import io.github.protolink_grpc.client.ProtolinkException;
import io.github.protolink_grpc.client.Reason;
import io.github.protolink_grpc.client.Tasks;
import io.github.protolink_grpc.v1.ActionOutcome;
import io.github.protolink_grpc.v1.Approval;
import io.github.protolink_grpc.v1.ApprovalState;
import io.github.protolink_grpc.v1.ListApprovalsRequest;
import io.github.protolink_grpc.v1.RetryTaskRequest;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskInput;
import io.github.protolink_grpc.v1.TaskState;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/** The cases in which connections break, agents forget, and callers leave early. */
final class HostileCases {

  private static final Duration SHORT = Duration.ofSeconds(2);

  /** The agent by a way on which nothing goes wrong. */
  private final ProtolinkClient agent;

  HostileCases(ProtolinkClient agent) {
    this.agent = agent;
  }

  void addTo(Map<String, Main.Case> cases) {
    cases.put("outage", () -> expectWhole("outage 4000 40 count 100"));
    cases.put("reset", this::reset);
    cases.put("early-ok", () -> expectWhole("early 40 count 100"));
    cases.put("cut-end", this::cutEnd);
    cases.put("idle-cuts", this::idleCuts);
    cases.put("flapping", this::flapping);
    cases.put("retry-bound", this::retryBound);
    cases.put("deadline-in-outage", this::deadlineInOutage);
    cases.put("cancel-in-pause", this::cancelInPause);
    cases.put("decision-in-cut", this::decisionInCut);
    cases.put("forgotten-task", this::forgottenTask);
    cases.put("mistyped", this::mistyped);
    cases.put("expected-sequence", this::expectedSequence);
    cases.put("credentials", this::credentials);
    cases.put("leak", this::leak);
  }

  private static ProtolinkClient hostile() {
    return hostile(Duration.ofSeconds(60));
  }

  private static ProtolinkClient hostile(Duration patience) {
    return ProtolinkClient.builder(given("HOSTILE")).patience(patience).build();
  }

  private static void expectWhole(String text) {
    try (ProtolinkClient client = hostile()) {
      expectCounted(collected(client.withDeadline(CASE).stream(text)));
    }
  }

  private void reset() {
    for (int code : new int[] {8, 2, 0}) {
      expectWhole("reset " + code + " 40 count 100");
    }
  }

  private void cutEnd() {
    RunEvent asked = last(agent.stream("cut-end ask where"));
    String task = asked.getTaskId();
    expect(
        "the end of the first turn",
        asked.getTaskStatus().getNewState(),
        TaskState.TASK_STATE_INPUT_REQUIRED);
    RunEvent ended = last(agent.streamReply(task, Parts.text("there")));
    expect("the end of the second turn", ended.getLast(), true);
    RetryTaskRequest retry =
        RetryTaskRequest.newBuilder().setTaskId(task).setRequestId(word()).build();
    agent.tasks().retry(retry);
    agent.tasks().retry(retry);

    List<RunEvent> events = collected(agent.subscribe(task));
    long end = events.get(events.size() - 1).getSequence();
    List<Long> ends =
        events.stream().filter(RunEvent::getLast).map(RunEvent::getSequence).toList();
    expect("the ends", ends, List.of(ended.getSequence(), end));
    long retries = events.stream().filter(RunEvent::hasTaskRetried).count();
    expect("the number of retries", retries, 1L);
    try (EventStream rest = agent.subscribe(task, end)) {
      expect("whether anything follows the end", rest.hasNext(), false);
    }
  }

  /** The last event of a stream. */
  private static RunEvent last(EventStream stream) {
    RunEvent last = RunEvent.getDefaultInstance();
    try (stream) {
      while (stream.hasNext()) {
        last = stream.next();
      }
    }
    return last;
  }

  private void idleCuts() {
    try (ProtolinkClient client = hostile(SHORT)) {
      EventStream events = client.withDeadline(CASE).stream("idle 5 1100 echo here");
      collected(events);
      Task task = agent.get(events.taskId());
      expect("the state", task.getState(), TaskState.TASK_STATE_COMPLETED);
      expect("the output", output(task), "here");
    }
  }

  private void flapping() throws Exception {
    String word = word();
    TaskInput task = Tasks.of("flap " + word);
    try (ProtolinkClient client = hostile(SHORT);
        EventStream events = client.stream(task)) {
      expectPatience(() -> events.forEachRemaining(event -> {}));
    }
    agent.cancel(task.getTaskId(), "seen");
    expectCalls(word);
  }

  private void retryBound() throws Exception {
    String word = word();
    ProtolinkException error;
    try (ProtolinkClient client = hostile(SHORT)) {
      error = expectPatience(() -> client.send("down " + word));
    }
    expect("the id", agent.get(error.taskId()).getState(), TaskState.TASK_STATE_WORKING);
    agent.cancel(error.taskId(), "seen");
    expectCalls(word);
  }

  private void deadlineInOutage() {
    long began = System.nanoTime();
    try (ProtolinkClient client = hostile()) {
      ProtolinkClient hasty = client.withDeadline(Duration.ofSeconds(1));
      ProtolinkException error = refused(() -> hasty.send("down " + word()));
      expect("the code", error.code(), Status.Code.DEADLINE_EXCEEDED);
      expect("the reason", error.reason(), Reason.DEADLINE_EXCEEDED);
      long tookMillis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
      boolean isInTime = tookMillis >= 950 && tookMillis < 5_000;
      expect("whether it took 1 to 5 s: " + tookMillis, isInTime, true);
      agent.cancel(error.taskId(), "seen");
    }
  }

  private static ProtolinkException expectPatience(Runnable call) {
    long began = System.nanoTime();
    ProtolinkException error = refused(call);
    expect("the code", error.code(), Status.Code.UNAVAILABLE);
    long tookMillis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
    if (tookMillis < 2_000 || tookMillis > 9_000) {
      throw new AssertionError("it gave up after " + tookMillis + " ms, not after 2 to 9 s");
    }
    return error;
  }

  private void expectCalls(String word) throws InvalidProtocolBufferException {
    double calls = calls(word, "calls");
    if (calls < 3 || calls > 20) {
      throw new AssertionError(calls + " calls reached the agent, not from 3 to 20");
    }
    expect("the number of runs", calls(word, "runs"), 1.0);
  }

  private double calls(String word, String count) throws InvalidProtocolBufferException {
    Struct.Builder counts = Struct.newBuilder();
    JsonFormat.parser().merge(output(agent.send("calls " + word)), counts);
    return counts.getFieldsOrThrow(count).getNumberValue();
  }

  private void cancelInPause() throws Exception {
    TaskInput task = Tasks.of("flap " + word());
    try (ProtolinkClient client = hostile()) {
      EventStream events = client.stream(task);
      events.next();
      CompletableFuture<Long> closed = new CompletableFuture<>();
      Executor later = CompletableFuture.delayedExecutor(1, TimeUnit.SECONDS);
      later.execute(
          () -> {
            closed.complete(System.nanoTime());
            events.close();
          });
      try {
        events.forEachRemaining(event -> {});
        throw new AssertionError("the stream ended as if nothing had happened");
      } catch (CancellationException canceled) {
        long tookMillis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - closed.get());
        expect("whether it took less than 500 ms", tookMillis < 500, true);
      }
    } finally {
      agent.cancel(task.getTaskId(), "seen");
    }
  }

  private void decisionInCut() throws Exception {
    try (ProtolinkClient client = hostile()) {
      expectDecided(client, "undecided 5 approve it", agent, true, 0);
      expectDecided(client, "outage 2000 5 approve it", client, false, 500);
    }
  }

  /**
   * Streams a task whose approval is answered while its stream is cut: by {@code approver}, a pause
   * after the stream has shown the question. The stream must show the answer once, and what follows
   * from it.
   */
  private void expectDecided(
      ProtolinkClient client,
      String text,
      ProtolinkClient approver,
      boolean approved,
      long pauseMillis)
      throws Exception {
    List<RunEvent> events = new ArrayList<>();
    try (EventStream stream = client.stream(text)) {
      for (RunEvent event : stream) {
        events.add(event);
        expect("the sequence", event.getSequence(), (long) events.size());
        if (event.hasApprovalRequired()) {
          Thread.sleep(pauseMillis); // by then the connection is closed
          ListApprovalsRequest own =
              ListApprovalsRequest.newBuilder().setTaskId(stream.taskId()).build();
          Approval waiting = agent.approvals(own).findFirst().orElseThrow();
          boolean late = approver.respond(waiting, approved, "").getAlreadyDecided();
          expect("whether another answer was first", late, false);
        }
      }
      expect("the output", output(agent.get(stream.taskId())), approved ? "approved" : "refused");
    }
    List<ApprovalState> answers =
        events.stream()
            .filter(RunEvent::hasApprovalDecided)
            .map(event -> event.getApprovalDecided().getState())
            .toList();
    List<ActionOutcome> ends =
        events.stream()
            .filter(RunEvent::hasActionEnded)
            .map(event -> event.getActionEnded().getOutcome())
            .toList();
    expect(
        "the answers",
        answers,
        List.of(
            approved
                ? ApprovalState.APPROVAL_STATE_APPROVED
                : ApprovalState.APPROVAL_STATE_DENIED));
    expect(
        "the ends of the action",
        ends,
        List.of(
            approved
                ? ActionOutcome.ACTION_OUTCOME_COMPLETED
                : ActionOutcome.ACTION_OUTCOME_DENIED));
  }

  private void forgottenTask() {
    try (ProtolinkClient client = hostile();
        EventStream events = client.stream("forget 5 count 100")) {
      ProtolinkException error = refused(() -> events.forEachRemaining(event -> {}));
      expect("the last sequence", events.sequence(), 5L);
      expectNoTask(error);
    }
  }

  private void mistyped() {
    String missing = "no-such-task";
    expectNoTask(refused(() -> agent.reply(missing, "echo hello")));
    try (EventStream events = agent.streamReply(missing, Parts.text("echo hello"))) {
      expectNoTask(refused(events::hasNext));
    }
  }

  private void expectedSequence() {
    Task asked = agent.send("ask where");
    long last = asked.getSequence();
    TaskInput.Builder reply = Tasks.messages(Parts.text("there")).toBuilder().setTaskId(asked.getId());
    ProtolinkException stale =
        refused(() -> agent.send(reply.setExpectedSequence(last - 1).build()));
    expect("the code", stale.code(), Status.Code.ABORTED);
    expect("the reason", stale.reason(), Reason.SEQUENCE_CONFLICT);
    expect("the last sequence", stale.metadata().get("last_sequence"), Long.toString(last));
    Task done = agent.send(reply.setExpectedSequence(last).build());
    expect("the state", done.getState(), TaskState.TASK_STATE_COMPLETED);
    expect("the output", output(done), "there");
  }

  private static void expectNoTask(ProtolinkException error) {
    expect("the code", error.code(), Status.Code.NOT_FOUND);
    expect("the reason", error.reason(), Reason.TASK_NOT_FOUND);
  }

  private void credentials() {
    String url = "grpc://agent.example:50051";
    expectRefused(ProtolinkClient.builder(url).apiKey("secret")::build);
    expectRefused(ProtolinkClient.builder(url).header("authorization", "Bearer secret")::build);
  }

  private static void expectRefused(Runnable building) {
    try {
      building.run();
    } catch (IllegalStateException refused) {
      expect("whether it repeats the secret", refused.getMessage().contains("secret"), false);
      return;
    }
    throw new AssertionError("credentials would go unencrypted to another machine");
  }

  private void leak() throws Exception {
    String word = word();
    TaskInput task = Tasks.of("hold " + word);
    try (ProtolinkClient client = hostile()) {
      try (EventStream events = client.stream(task)) {
        events.next();
      }
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(5);
      while (calls(word, "open") != 0 && System.nanoTime() < end) {
        Thread.sleep(20); // the agent has no way to tell
      }
      expect("the number of open streams", calls(word, "open"), 0.0);
    } finally {
      agent.cancel(task.getTaskId(), "seen");
    }
  }
}
