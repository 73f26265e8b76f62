package io.github.protolink_grpc.conformance;

import static io.github.protolink_grpc.conformance.Checks.collected;
import static io.github.protolink_grpc.conformance.Checks.expect;
import static io.github.protolink_grpc.conformance.Checks.output;
import static io.github.protolink_grpc.conformance.Checks.refused;
import static io.github.protolink_grpc.conformance.Checks.word;

import io.github.protolink_grpc.client.EventStream;
import io.github.protolink_grpc.client.ProtolinkClient;
import io.github.protolink_grpc.client.Reason;
import io.github.protolink_grpc.client.TaskCalls;
import io.github.protolink_grpc.client.Tasks;
import io.github.protolink_grpc.v1.CreateTaskRequest;
import io.github.protolink_grpc.v1.LinkKind;
import io.github.protolink_grpc.v1.LinkedTask;
import io.github.protolink_grpc.v1.ListTaskSnapshotsRequest;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.TaskDescription;
import io.github.protolink_grpc.v1.TaskLink;
import io.github.protolink_grpc.v1.TaskSnapshot;
import io.github.protolink_grpc.v1.TaskState;
import io.github.protolink_grpc.v1.TaskStatus;
import io.github.protolink_grpc.v1.UpdateTaskRequest;
import java.util.List;

/** Drafts that block each other, pauses, retries, and work outside of the agent. */
final class TaskCase implements Main.Case {

  private final ProtolinkClient agent;
  private final TaskCalls tasks;

  TaskCase(ProtolinkClient agent) {
    this.agent = agent;
    this.tasks = agent.tasks();
  }

  @Override
  public void run() {
    String word = word();
    CreateTaskRequest draft =
        CreateTaskRequest.newBuilder()
            .setInput(Tasks.of("echo " + word))
            .setDescription(TaskDescription.newBuilder().setTitle("First"))
            .build();
    TaskSnapshot created = tasks.create(draft);
    expect("the status of a draft", created.getStatus(), TaskStatus.TASK_STATUS_DRAFT);
    String first = created.getTaskId();
    String second = blocked("echo second", first);
    String cycle =
        refused(() -> tasks.link(first, LinkKind.LINK_KIND_BLOCKED_BY, second)).reason();
    expect("the reason", cycle, Reason.LINK_CYCLE);
    change(first, second, word);
    tasks.start(first);
    collected(agent.subscribe(second, 0));
    expect("the output", output(agent.get(first)), word);
    expect("the output", output(agent.get(second)), "second");
    pauseAndRetry(first);
    workOutside();
    String unknown = refused(() -> tasks.get(word)).reason();
    expect("the reason", unknown, Reason.TASK_NOT_FOUND);
  }

  /** Starts a task that another one blocks. */
  private String blocked(String text, String blocker) {
    TaskLink link =
        TaskLink.newBuilder()
            .setKind(LinkKind.LINK_KIND_BLOCKED_BY)
            .setTarget(blocker)
            .build();
    CreateTaskRequest draft =
        CreateTaskRequest.newBuilder().setInput(Tasks.of(text)).addLinks(link).build();
    String taskId = tasks.create(draft).getTaskId();
    TaskStatus status = tasks.start(taskId).getStatus();
    expect("the status of a blocked task", status, TaskStatus.TASK_STATUS_BLOCKED);
    return taskId;
  }

  /** Updates a draft, and finds it among the drafts, and not the started task. */
  private void change(String draft, String started, String word) {
    TaskSnapshot updated =
        tasks.update(
            UpdateTaskRequest.newBuilder()
                .setTaskId(draft)
                .setDescription(TaskDescription.newBuilder().setTitle("The first"))
                .setMetadataJson("{\"word\": \"" + word + "\"}")
                .build());
    expect("the title", updated.getDescription().getTitle(), "The first");
    String metadata = updated.getMetadataJson().replace(" ", "");
    expect("the metadata", metadata, "{\"word\":\"" + word + "\"}");
    ListTaskSnapshotsRequest drafts =
        ListTaskSnapshotsRequest.newBuilder().addStatuses(TaskStatus.TASK_STATUS_DRAFT).build();
    List<String> listed = tasks.list(drafts).map(TaskSnapshot::getTaskId).toList();
    expect("whether the draft is listed", listed.contains(draft), true);
    expect("whether the other task is listed", listed.contains(started), false);
  }

  /** Pauses a task whose run has not begun, as another task blocks it; retries it after its end. */
  private void pauseAndRetry(String other) {
    String blocker = tasks.create("wait").getTaskId();
    tasks.start(blocker);
    String late =
        refused(() -> tasks.link(blocker, LinkKind.LINK_KIND_BLOCKED_BY, other)).reason();
    expect("the reason", late, Reason.TASK_STARTED);
    String task = blocked("echo later", blocker);
    tasks.pause(task, "lunch");
    agent.cancel(blocker, "enough");
    try (EventStream events = agent.subscribe(task, 0)) {
      for (RunEvent event : events) {
        if (event.getEventType().equals("task.paused")) {
          break;
        }
      }
    }
    TaskSnapshot paused = tasks.get(task);
    expect("the status of a paused task", paused.getStatus(), TaskStatus.TASK_STATUS_PAUSED);
    expect("the reason of the pause", paused.getStatusReason(), "lunch");
    tasks.resume(task, "");
    collected(agent.subscribe(task, 0));

    long ended = tasks.get(task).getSequence();
    tasks.retry(task, "again");
    boolean hasEnded = false;
    try (EventStream events = agent.subscribe(task, ended)) {
      for (RunEvent event : events) {
        hasEnded = event.getLast();
      }
    }
    expect("whether the retry has ended", hasEnded, true);
    TaskSnapshot retried = tasks.get(task);
    expect("the status", retried.getStatus(), TaskStatus.TASK_STATUS_COMPLETED);
    expect("the runs", retried.getRetryCount() + " " + retried.getAttemptCount(), "1 2");
  }

  /** Starts, reports, completes and fails tasks whose work is done outside of the agent. */
  private void workOutside() {
    String task = tasks.create("by hand").getTaskId();
    TaskSnapshot started = tasks.startExternal(task);
    expect("whether the work is outside", started.getExternal(), true);
    expect("the state", started.getState(), TaskState.TASK_STATE_WORKING);
    TaskSnapshot reported = tasks.reportProgress(task, 50, "half");
    expect("the progress", reported.getProgress().getProgress(), 50.0);
    expect("the message", reported.getProgress().getMessage(), "half");
    String report = "https://example.com/report";
    TaskSnapshot linked = tasks.link(task, LinkKind.LINK_KIND_EVIDENCE, report);
    List<String> targets =
        linked.getLinksList().stream().map(LinkedTask::getLink).map(TaskLink::getTarget).toList();
    expect("the links", targets, List.of(report));
    TaskSnapshot unlinked = tasks.unlink(task, LinkKind.LINK_KIND_EVIDENCE, report);
    expect("the links that are left", unlinked.getLinksCount(), 0);
    TaskSnapshot done = tasks.complete(task, "done");
    expect("the status", done.getStatus(), TaskStatus.TASK_STATUS_COMPLETED);
    expect("the messages", done.getMessageCount(), 2);
    expect("the output", output(agent.get(task)), "done");
    String late = refused(() -> tasks.fail(task, "too late")).reason();
    expect("the reason", late, Reason.TASK_FINISHED);
    String broken = tasks.create("by hand").getTaskId();
    tasks.startExternal(broken);
    TaskSnapshot failed = tasks.fail(broken, "broken");
    expect("the status", failed.getStatus(), TaskStatus.TASK_STATUS_FAILED);
    expect("the failure", failed.getFailure().getMessage(), "broken");
  }
}
