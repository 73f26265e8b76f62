package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.CallToolRequest;
import io.github.protolink_grpc.v1.CancelTaskRequest;
import io.github.protolink_grpc.v1.GetTaskRequest;
import io.github.protolink_grpc.v1.SendTaskRequest;
import io.github.protolink_grpc.v1.StreamTaskRequest;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskView;
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
    if (taskId(request).isEmpty()) {
      complete.getTaskBuilder().setId(newId());
    }
    return complete.build();
  }

  static StreamTaskRequest complete(StreamTaskRequest request) {
    StreamTaskRequest.Builder complete = request.toBuilder();
    if (request.getRequestId().isEmpty()) {
      complete.setRequestId(newId());
    }
    if (taskId(request).isEmpty()) {
      complete.getTaskBuilder().setId(newId());
    }
    return complete.build();
  }

  /** The task that it continues or begins; empty if that has no id yet. */
  static String taskId(SendTaskRequest request) {
    return request.getTaskId().isEmpty() ? request.getTask().getId() : request.getTaskId();
  }

  /** The same of a stream. */
  static String taskId(StreamTaskRequest request) {
    return request.getTaskId().isEmpty() ? request.getTask().getId() : request.getTaskId();
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

  static SendTaskRequest send(Task task) {
    return SendTaskRequest.newBuilder().setTask(task).build();
  }

  static StreamTaskRequest stream(Task task) {
    return StreamTaskRequest.newBuilder().setTask(task).build();
  }

  static GetTaskRequest get(String taskId, TaskView view) {
    return GetTaskRequest.newBuilder().setTaskId(taskId).setView(view).build();
  }

  static CancelTaskRequest cancel(String taskId, String reason) {
    return CancelTaskRequest.newBuilder()
        .setTaskId(taskId)
        .setReason(reason)
        .setRequestId(newId())
        .build();
  }

  static String newId() {
    return UUID.randomUUID().toString();
  }
}
