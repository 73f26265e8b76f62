package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.AppendTaskProgressRequest;
import io.github.protolink_grpc.v1.AppendTaskProgressResponse;
import io.github.protolink_grpc.v1.CompleteTaskRequest;
import io.github.protolink_grpc.v1.CompleteTaskResponse;
import io.github.protolink_grpc.v1.CreateTaskRequest;
import io.github.protolink_grpc.v1.CreateTaskResponse;
import io.github.protolink_grpc.v1.FailTaskRequest;
import io.github.protolink_grpc.v1.FailTaskResponse;
import io.github.protolink_grpc.v1.Failure;
import io.github.protolink_grpc.v1.GetTaskSnapshotRequest;
import io.github.protolink_grpc.v1.GetTaskSnapshotResponse;
import io.github.protolink_grpc.v1.LinkKind;
import io.github.protolink_grpc.v1.LinkTasksRequest;
import io.github.protolink_grpc.v1.LinkTasksResponse;
import io.github.protolink_grpc.v1.ListTaskSnapshotsRequest;
import io.github.protolink_grpc.v1.ListTaskSnapshotsResponse;
import io.github.protolink_grpc.v1.Message;
import io.github.protolink_grpc.v1.MessageRole;
import io.github.protolink_grpc.v1.PauseTaskRequest;
import io.github.protolink_grpc.v1.PauseTaskResponse;
import io.github.protolink_grpc.v1.ResumeTaskRequest;
import io.github.protolink_grpc.v1.ResumeTaskResponse;
import io.github.protolink_grpc.v1.RetryTaskRequest;
import io.github.protolink_grpc.v1.RetryTaskResponse;
import io.github.protolink_grpc.v1.StartTaskRequest;
import io.github.protolink_grpc.v1.StartTaskResponse;
import io.github.protolink_grpc.v1.TaskControlServiceGrpc;
import io.github.protolink_grpc.v1.TaskInput;
import io.github.protolink_grpc.v1.TaskLink;
import io.github.protolink_grpc.v1.TaskSnapshot;
import io.github.protolink_grpc.v1.TaskTarget;
import io.github.protolink_grpc.v1.UnlinkTasksRequest;
import io.github.protolink_grpc.v1.UnlinkTasksResponse;
import io.github.protolink_grpc.v1.UpdateTaskRequest;
import io.github.protolink_grpc.v1.UpdateTaskResponse;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * The control of the caller's tasks with an agent: {@link ProtolinkClient#tasks}. Drafts,
 * descriptions, links, pauses and retries of tasks, and work outside of the agent. Each method
 * returns the task after the call.
 *
 * <p>Every method throws {@link ProtolinkException}, with {@link Reason#TASK_NOT_FOUND} if the
 * caller has no such task, and repeats calls as {@link ProtolinkClient} does. Agents of other
 * systems have no task control: {@link Reason#UNIMPLEMENTED}.
 */
public final class TaskCalls {

  private final Connection connection;

  TaskCalls(Connection connection) {
    this.connection = connection;
  }

  /** Creates a draft with a text as its input: see {@link #create(CreateTaskRequest)}. */
  public TaskSnapshot create(String text) {
    return create(CreateTaskRequest.newBuilder().setInput(Tasks.of(text)).build());
  }

  /**
   * Creates a draft: a task that does not begin before {@link #start}.
   *
   * @param request without ids of its own it gets them, so that a repetition is never a second task
   * @throws ProtolinkException with {@link Reason#TASK_ALREADY_EXISTS}; with {@link
   *     Reason#TASK_NOT_FOUND} for a link to an unknown task; with {@link Reason#LINK_CYCLE}
   */
  public TaskSnapshot create(CreateTaskRequest request) {
    CreateTaskRequest.Builder draft = request.toBuilder();
    draft.setRequestId(idOr(draft.getRequestId()));
    if (draft.hasInput()) {
      TaskInput.Builder input = draft.getInputBuilder();
      input.setTaskId(idOr(input.getTaskId()));
      if (input.getTarget() == TaskTarget.TASK_TARGET_UNSPECIFIED) {
        input.setTarget(TaskTarget.TASK_TARGET_CREATE);
      }
    }
    return connection.ask(
        TaskControlServiceGrpc.getCreateTaskMethod(),
        draft.build(),
        draft.getInput().getTaskId(),
        CreateTaskResponse::getSnapshot);
  }

  /**
   * Changes the description of a task, as a whole, or keys of its metadata.
   *
   * @throws ProtolinkException with {@link Reason#SEQUENCE_CONFLICT} if the last event of the task
   *     is not {@code expected_sequence}, also for a repetition after a response that got lost
   */
  public TaskSnapshot update(UpdateTaskRequest request) {
    return connection.ask(
        TaskControlServiceGrpc.getUpdateTaskMethod(),
        request,
        request.getTaskId(),
        UpdateTaskResponse::getSnapshot);
  }

  /**
   * Starts a draft. If other tasks block it, it starts when they have ended. A task that has been
   * started is returned unchanged.
   *
   * @throws ProtolinkException with {@link Reason#TASK_FINISHED}
   */
  public TaskSnapshot start(String taskId) {
    return start(StartTaskRequest.newBuilder().setTaskId(taskId));
  }

  /**
   * Starts a draft whose work is done outside of the agent: no run begins, and {@link #complete} or
   * {@link #fail} ends the task. Otherwise as {@link #start}.
   */
  public TaskSnapshot startExternal(String taskId) {
    return start(StartTaskRequest.newBuilder().setTaskId(taskId).setExternal(true));
  }

  private TaskSnapshot start(StartTaskRequest.Builder request) {
    return connection.ask(
        TaskControlServiceGrpc.getStartTaskMethod(),
        request.build(),
        request.getTaskId(),
        StartTaskResponse::getSnapshot);
  }

  /** Adds a report: see {@link #reportProgress(AppendTaskProgressRequest)}. */
  public TaskSnapshot reportProgress(String taskId, double percent, String message) {
    return reportProgress(
        AppendTaskProgressRequest.newBuilder()
            .setTaskId(taskId)
            .setProgress(percent)
            .setMessage(message)
            .build());
  }

  /**
   * Adds a progress report to a task that has not ended.
   *
   * @param request without a request id it gets one
   * @throws ProtolinkException with {@link Reason#TASK_FINISHED}
   */
  public TaskSnapshot reportProgress(AppendTaskProgressRequest request) {
    return connection.ask(
        TaskControlServiceGrpc.getAppendTaskProgressMethod(),
        request.toBuilder().setRequestId(idOr(request.getRequestId())).build(),
        request.getTaskId(),
        AppendTaskProgressResponse::getSnapshot);
  }

  /**
   * Pauses a task at the next point at which its run can wait. A pause survives restarts of the
   * agent.
   *
   * @param reason one sentence; may be empty
   * @throws ProtolinkException with {@link Reason#TASK_FINISHED}; with {@link
   *     Reason#INVALID_TRANSITION} for a draft or a task that waits for input
   */
  public TaskSnapshot pause(String taskId, String reason) {
    return connection.ask(
        TaskControlServiceGrpc.getPauseTaskMethod(),
        PauseTaskRequest.newBuilder().setTaskId(taskId).setReason(reason).build(),
        taskId,
        PauseTaskResponse::getSnapshot);
  }

  /**
   * Ends the pause of a task. A task that is not paused is returned unchanged.
   *
   * @param reason one sentence; may be empty
   * @throws ProtolinkException with {@link Reason#TASK_FINISHED}
   */
  public TaskSnapshot resume(String taskId, String reason) {
    return connection.ask(
        TaskControlServiceGrpc.getResumeTaskMethod(),
        ResumeTaskRequest.newBuilder().setTaskId(taskId).setReason(reason).build(),
        taskId,
        ResumeTaskResponse::getSnapshot);
  }

  /**
   * Begins the work on an ended task again: see {@link #retry(RetryTaskRequest)}.
   *
   * @param reason one sentence; may be empty
   */
  public TaskSnapshot retry(String taskId, String reason) {
    return retry(RetryTaskRequest.newBuilder().setTaskId(taskId).setReason(reason).build());
  }

  /**
   * Begins the work on an ended task again, with the same input.
   *
   * @param request without a request id it gets one, so that a repetition is never a second retry
   * @throws ProtolinkException with {@link Reason#INVALID_TRANSITION} if the task has not ended
   */
  public TaskSnapshot retry(RetryTaskRequest request) {
    return connection.ask(
        TaskControlServiceGrpc.getRetryTaskMethod(),
        request.toBuilder().setRequestId(idOr(request.getRequestId())).build(),
        request.getTaskId(),
        RetryTaskResponse::getSnapshot);
  }

  /**
   * Ends a task with success, and with an answer, which is added as a message of the agent: see
   * {@link #complete(CompleteTaskRequest)}.
   */
  public TaskSnapshot complete(String taskId, String answer) {
    return complete(
        CompleteTaskRequest.newBuilder()
            .setTaskId(taskId)
            .addMessages(
                Message.newBuilder()
                    .setRole(MessageRole.MESSAGE_ROLE_AGENT)
                    .addParts(Parts.text(answer)))
            .build());
  }

  /**
   * Ends a task with success, for work outside of the agent. The messages and artifacts are added
   * before the end.
   *
   * @throws ProtolinkException with {@link Reason#TASK_ALREADY_RUNNING} for a task that the agent
   *     works on; with {@link Reason#TASK_FINISHED} for one that has ended in another state
   */
  public TaskSnapshot complete(CompleteTaskRequest request) {
    return connection.ask(
        TaskControlServiceGrpc.getCompleteTaskMethod(),
        request,
        request.getTaskId(),
        CompleteTaskResponse::getSnapshot);
  }

  /** Ends a task with a failure: see {@link #fail(String, Failure)}. */
  public TaskSnapshot fail(String taskId, String message) {
    return fail(taskId, Failure.newBuilder().setMessage(message).build());
  }

  /**
   * Ends a task with a failure. Throws as {@link #complete(CompleteTaskRequest)}.
   *
   * @param failure its message is required
   */
  public TaskSnapshot fail(String taskId, Failure failure) {
    return connection.ask(
        TaskControlServiceGrpc.getFailTaskMethod(),
        FailTaskRequest.newBuilder().setTaskId(taskId).setFailure(failure).build(),
        taskId,
        FailTaskResponse::getSnapshot);
  }

  /** Adds a link without a reason: see {@link #link(String, TaskLink)}. */
  public TaskSnapshot link(String taskId, LinkKind kind, String target) {
    return link(taskId, TaskLink.newBuilder().setKind(kind).setTarget(target).build());
  }

  /**
   * Adds a link to a task, or changes the reason of an existing one.
   *
   * @throws ProtolinkException with {@link Reason#LINK_CYCLE} if the other task leads back to this
   *     one; with {@link Reason#TASK_STARTED} for a blocker of a task that has been started; with
   *     {@link Reason#TASK_FINISHED}
   */
  public TaskSnapshot link(String taskId, TaskLink link) {
    return connection.ask(
        TaskControlServiceGrpc.getLinkTasksMethod(),
        LinkTasksRequest.newBuilder().setTaskId(taskId).setLink(link).build(),
        taskId,
        LinkTasksResponse::getSnapshot);
  }

  /** Removes a link, if it exists. A started task without any other blocker begins. */
  public TaskSnapshot unlink(String taskId, LinkKind kind, String target) {
    TaskLink link = TaskLink.newBuilder().setKind(kind).setTarget(target).build();
    return connection.ask(
        TaskControlServiceGrpc.getUnlinkTasksMethod(),
        UnlinkTasksRequest.newBuilder().setTaskId(taskId).setLink(link).build(),
        taskId,
        UnlinkTasksResponse::getSnapshot);
  }

  /** A task with its status in detail, its attempts and its links. */
  public TaskSnapshot get(String taskId) {
    return connection.ask(
        TaskControlServiceGrpc.getGetTaskSnapshotMethod(),
        GetTaskSnapshotRequest.newBuilder().setTaskId(taskId).build(),
        taskId,
        GetTaskSnapshotResponse::getSnapshot);
  }

  /**
   * The caller's tasks without attempts and links, last changed first; pages are fetched as they
   * are read.
   */
  public Stream<TaskSnapshot> list(ListTaskSnapshotsRequest filter) {
    Function<String, ListTaskSnapshotsResponse> page =
        token ->
            connection.ask(
                TaskControlServiceGrpc.getListTaskSnapshotsMethod(),
                filter.toBuilder().setPageToken(token).build(),
                "",
                Function.identity());
    return Connection.pages(
            filter.getPageToken(), page, ListTaskSnapshotsResponse::getNextPageToken)
        .flatMap(each -> each.getSnapshotsList().stream());
  }

  private static String idOr(String given) {
    return given.isEmpty() ? Requests.newId() : given;
  }
}
