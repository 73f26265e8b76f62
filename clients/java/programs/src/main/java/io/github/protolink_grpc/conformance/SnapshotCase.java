package io.github.protolink_grpc.conformance;

import static io.github.protolink_grpc.conformance.Checks.collected;
import static io.github.protolink_grpc.conformance.Checks.expect;
import static io.github.protolink_grpc.conformance.Checks.refused;
import static io.github.protolink_grpc.conformance.Checks.word;

import io.github.protolink_grpc.client.Parts;
import io.github.protolink_grpc.client.ProtolinkClient;
import io.github.protolink_grpc.client.Reason;
import io.github.protolink_grpc.client.Sessions;
import io.github.protolink_grpc.client.Snapshots;
import io.github.protolink_grpc.client.Tasks;
import io.github.protolink_grpc.v1.ActionCount;
import io.github.protolink_grpc.v1.ActionOutcome;
import io.github.protolink_grpc.v1.ArtifactSummary;
import io.github.protolink_grpc.v1.ContextBoundarySnapshot;
import io.github.protolink_grpc.v1.QueuedTurn;
import io.github.protolink_grpc.v1.Session;
import io.github.protolink_grpc.v1.SubmitTurnRequest;
import io.github.protolink_grpc.v1.ThreadSnapshot;
import io.github.protolink_grpc.v1.ThreadStatus;
import io.github.protolink_grpc.v1.Turn;
import java.util.List;

/** What a session, its thread and its queue are, and what tasks have done. */
final class SnapshotCase implements Main.Case {

  private final ProtolinkClient agent;
  private final Snapshots snapshots;
  private final String sessionId = "chat-" + word();

  SnapshotCase(ProtolinkClient agent) {
    this.agent = agent;
    this.snapshots = agent.snapshots();
  }

  @Override
  public void run() {
    readSession();
    readTasks();
    String thread = refused(() -> snapshots.thread(sessionId, "unknown")).reason();
    expect("the reason", thread, Reason.THREAD_NOT_FOUND);
    String session = refused(() -> snapshots.session(sessionId + "-unknown")).reason();
    expect("the reason", session, Reason.SESSION_NOT_FOUND);
    String task = refused(() -> snapshots.evidence(sessionId + "-unknown")).reason();
    expect("the reason", task, Reason.TASK_NOT_FOUND);
  }

  /** Reads a session with an active and a queued turn, and again when the turns have ended. */
  private void readSession() {
    Sessions sessions = agent.sessions();
    submit(sessions, "first", "wait");
    submit(sessions, "second", "echo second");
    Session session = snapshots.session(sessionId).getSession();
    List<String> open = session.getOpenTurnsList().stream().map(Turn::getTurnId).toList();
    expect("the open turns", open, List.of("first", "second"));
    ThreadSnapshot thread = snapshots.thread(sessionId, "");
    expect("the position", thread.getPosition(), session.getPosition());
    expect("the status", thread.getStatus(), ThreadStatus.THREAD_STATUS_RUNNING);
    List<QueuedTurn> queue = snapshots.queue(sessionId, "").getQueuedTurnsList();
    expect("the length of the queue", queue.size(), 1);
    expect("the queued turn", queue.get(0).getTurn().getTurnId(), "second");
    expect("the place", queue.get(0).getPlace(), 1);
    expect("the preview", queue.get(0).getPreview(), "echo second");
    sessions.interrupt(sessionId, "");
    collected(sessions.stream(sessionId, "second"));
    ThreadStatus after = snapshots.thread(sessionId, "").getStatus();
    expect("the status after the last turn", after, ThreadStatus.THREAD_STATUS_COMPLETED);
  }

  /** Reads the tools, the context and evidence of a task, and the artifacts of another. */
  private void readTasks() {
    List<String> tools =
        snapshots.tools().getToolsList().stream().map(each -> each.getTool().getName()).toList();
    expect("the tools", tools, List.of("echo", "hold", "stamp"));
    String spent = agent.send(Tasks.of("spend 3")).getId();
    ContextBoundarySnapshot context = snapshots.context(spent);
    expect("the step of the model call", context.getStep(), 3);
    expect("whether it has a sequence", context.getPreparedSequence() > 0, true);
    long calls =
        snapshots.evidence(spent).getActionsList().stream()
            .filter(each -> each.getKind().equals("tool.call"))
            .filter(each -> each.getOutcome() == ActionOutcome.ACTION_OUTCOME_COMPLETED)
            .mapToLong(ActionCount::getCount)
            .sum();
    expect("the tool calls", calls, 2L);
    String counted = agent.send(Tasks.of("count 3")).getId();
    List<String> previews =
        snapshots.artifacts(counted).getArtifactsList().stream()
            .map(ArtifactSummary::getPreview)
            .toList();
    expect("the artifacts", previews, List.of("1", "2", "3"));
  }

  private void submit(Sessions sessions, String turnId, String text) {
    sessions.submit(
        SubmitTurnRequest.newBuilder()
            .setSessionId(sessionId)
            .setTurnId(turnId)
            .setInput(Tasks.messages(Parts.text(text)))
            .build());
  }
}
