package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.CallToolRequest;
import io.github.protolink_grpc.v1.CancelTaskRequest;
import io.github.protolink_grpc.v1.GetTaskRequest;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.RespondApprovalRequest;
import io.github.protolink_grpc.v1.SendTaskRequest;
import io.github.protolink_grpc.v1.StreamTaskRequest;
import io.github.protolink_grpc.v1.TaskInput;
import io.github.protolink_grpc.v1.TaskTarget;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskView;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.UUID;

/**
 * Requests that can be repeated: each has a request id and names its task. A new task gets its id
 * here, so that it can be found although its answer was lost.
 */
final class Requests {

  private Requests() {}

  static SendTaskRequest complete(SendTaskRequest request) {
    SendTaskRequest.Builder complete = request.toBuilder();
    if (request.getRequestId().isEmpty()) {
      complete.setRequestId(newId());
    }
    return complete.setInput(named(request.getInput())).build();
  }

  static StreamTaskRequest complete(StreamTaskRequest request) {
    StreamTaskRequest.Builder complete = request.toBuilder();
    if (request.getRequestId().isEmpty()) {
      complete.setRequestId(newId());
    }
    return complete.setInput(named(request.getInput())).build();
  }

  /** The input with an id, if it begins a task and has none. One with an id says it all. */
  private static TaskInput named(TaskInput input) {
    if (!input.getTaskId().isEmpty() || input.getTarget() == TaskTarget.TASK_TARGET_CONTINUE) {
      return input;
    }
    TaskInput.Builder named = input.toBuilder().setTaskId(newId());
    if (input.getTarget() == TaskTarget.TASK_TARGET_UNSPECIFIED) {
      named.setTarget(TaskTarget.TASK_TARGET_CREATE);
    }
    return named.build();
  }

  static RespondApprovalRequest complete(RespondApprovalRequest request) {
    return request.getRequestId().isEmpty()
        ? request.toBuilder().setRequestId(newId()).build()
        : request;
  }

  static SendTaskRequest send(TaskInput input) {
    return SendTaskRequest.newBuilder().setInput(input).build();
  }

  static StreamTaskRequest stream(TaskInput input) {
    return StreamTaskRequest.newBuilder().setInput(input).build();
  }

  static CallToolRequest complete(CallToolRequest request) {
    CallToolRequest.Builder complete = request.toBuilder();
    if (request.getRequestId().isEmpty()) {
      complete.setRequestId(newId());
    }
    if (request.getTaskId().isEmpty()) {
      complete.setTaskId(newId());
    }
    return complete.build();
  }

  static CallToolRequest callTool(String tool, String argsJson) {
    return CallToolRequest.newBuilder()
        .setCall(Parts.toolCall(tool, argsJson).getToolCall())
        .build();
  }

  /** What continues a task that exists. */
  static TaskInput reply(String taskId, Part... parts) {
    return Tasks.messages(parts).toBuilder()
        .setTaskId(taskId)
        .setTarget(TaskTarget.TASK_TARGET_CONTINUE)
        .build();
  }

  static GetTaskRequest get(String taskId, TaskView view) {
    return GetTaskRequest.newBuilder().setTaskId(taskId).setView(view).build();
  }

  /** Whether there is more of a whole task than what an answer shows. */
  static boolean isContinued(GetTaskRequest request, Task task) {
    return request.getView() == TaskView.TASK_VIEW_FULL
        && (task.getFirstMessage() > 0 || task.getFirstArtifact() > 0);
  }

  static boolean isEmpty(Task task) {
    return task.getMessagesCount() == 0 && task.getArtifactsCount() == 0;
  }

  /** The request for what comes before the messages and artifacts of an answer. */
  static GetTaskRequest before(GetTaskRequest request, Task task) {
    return request.toBuilder()
        .setBeforeMessage(task.getFirstMessage())
        .setBeforeArtifact(task.getFirstArtifact())
        .build();
  }

  static Task joined(Task earlier, Task task) {
    Set<String> omitted = new LinkedHashSet<>(task.getOmittedList());
    omitted.addAll(earlier.getOmittedList());
    return task.toBuilder()
        .clearMessages()
        .addAllMessages(earlier.getMessagesList())
        .addAllMessages(task.getMessagesList())
        .clearArtifacts()
        .addAllArtifacts(earlier.getArtifactsList())
        .addAllArtifacts(task.getArtifactsList())
        .clearOmitted()
        .addAllOmitted(omitted)
        .setFirstMessage(earlier.getFirstMessage())
        .setFirstArtifact(earlier.getFirstArtifact())
        .build();
  }

  static CancelTaskRequest cancel(String taskId, String reason) {
    return CancelTaskRequest.newBuilder().setTaskId(taskId).setReason(reason).build();
  }

  static String newId() {
    return UUID.randomUUID().toString();
  }
}
