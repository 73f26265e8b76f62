package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.github.protolink_grpc.v1.AppendTaskProgressRequest;
import io.github.protolink_grpc.v1.CompleteTaskRequest;
import io.github.protolink_grpc.v1.CreateTaskRequest;
import io.github.protolink_grpc.v1.FailTaskRequest;
import io.github.protolink_grpc.v1.Failure;
import io.github.protolink_grpc.v1.GetArtifactsRequest;
import io.github.protolink_grpc.v1.GetContextBoundaryRequest;
import io.github.protolink_grpc.v1.GetEvidenceRequest;
import io.github.protolink_grpc.v1.GetQueueSnapshotRequest;
import io.github.protolink_grpc.v1.GetSessionSnapshotRequest;
import io.github.protolink_grpc.v1.GetTaskSnapshotRequest;
import io.github.protolink_grpc.v1.GetThreadSnapshotRequest;
import io.github.protolink_grpc.v1.GetToolInventoryRequest;
import io.github.protolink_grpc.v1.LinkKind;
import io.github.protolink_grpc.v1.LinkTasksRequest;
import io.github.protolink_grpc.v1.ListTaskSnapshotsRequest;
import io.github.protolink_grpc.v1.MessageRole;
import io.github.protolink_grpc.v1.PauseTaskRequest;
import io.github.protolink_grpc.v1.ResumeTaskRequest;
import io.github.protolink_grpc.v1.RetryTaskRequest;
import io.github.protolink_grpc.v1.SnapshotServiceGrpc;
import io.github.protolink_grpc.v1.StartTaskRequest;
import io.github.protolink_grpc.v1.TaskControlServiceGrpc;
import io.github.protolink_grpc.v1.TaskDescription;
import io.github.protolink_grpc.v1.TaskLink;
import io.github.protolink_grpc.v1.TaskTarget;
import io.github.protolink_grpc.v1.UnlinkTasksRequest;
import io.github.protolink_grpc.v1.UpdateTaskRequest;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.PrototypeMarshaller;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServiceDescriptor;
import io.grpc.Status;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;

class TaskCallsTest {

  /** An agent whose methods return empty snapshots, and whose first answers get lost. */
  private static final class Host {

    private int lost;
    private final List<String> methods = Collections.synchronizedList(new ArrayList<>());
    private final List<Message> requests = Collections.synchronizedList(new ArrayList<>());

    private ServerServiceDefinition of(ServiceDescriptor service) {
      ServerServiceDefinition.Builder definition = ServerServiceDefinition.builder(service);
      for (MethodDescriptor<?, ?> method : service.getMethods()) {
        @SuppressWarnings("unchecked") // each message of gRPC for Java is a Message
        MethodDescriptor<Message, Message> known = (MethodDescriptor<Message, Message>) method;
        definition.addMethod(
            known,
            ServerCalls.asyncUnaryCall((request, observer) -> answer(known, request, observer)));
      }
      return definition.build();
    }

    private void answer(
        MethodDescriptor<Message, Message> method,
        Message request,
        StreamObserver<Message> observer) {
      methods.add(method.getBareMethodName());
      requests.add(request);
      if (lost-- > 0) {
        observer.onError(Status.UNAVAILABLE.asRuntimeException());
        return;
      }
      PrototypeMarshaller<Message> responses =
          (PrototypeMarshaller<Message>) method.getResponseMarshaller();
      Message empty = responses.getMessagePrototype();
      FieldDescriptor field = empty.getDescriptorForType().findFieldByName("snapshot");
      Message.Builder response = empty.newBuilderForType();
      if (field != null) {
        response.setField(field, response.newBuilderForField(field).build());
      }
      observer.onNext(response.build());
      observer.onCompleted();
    }
  }

  @Test
  void eachMethodOfTasksCallsItsOwn() {
    Host host = new Host();
    TaskDescription description = TaskDescription.newBuilder().setTitle("T").build();
    UpdateTaskRequest update =
        UpdateTaskRequest.newBuilder().setTaskId("a").setDescription(description).build();
    TaskLink link =
        TaskLink.newBuilder().setKind(LinkKind.LINK_KIND_BLOCKED_BY).setTarget("b").build();
    try (Served served = Served.of(host.of(TaskControlServiceGrpc.getServiceDescriptor()));
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      TaskCalls tasks = client.tasks();
      tasks.update(update);
      tasks.start("a");
      tasks.startExternal("a");
      tasks.pause("a", "r");
      tasks.resume("a", "r");
      tasks.complete("a", "done");
      tasks.fail("a", "broken");
      tasks.link("a", LinkKind.LINK_KIND_BLOCKED_BY, "b");
      tasks.unlink("a", LinkKind.LINK_KIND_BLOCKED_BY, "b");
      tasks.get("a");
      assertEquals(0, tasks.list(ListTaskSnapshotsRequest.getDefaultInstance()).count());
    }
    List<Message> sent =
        List.of(
            update,
            StartTaskRequest.newBuilder().setTaskId("a").build(),
            StartTaskRequest.newBuilder().setTaskId("a").setExternal(true).build(),
            PauseTaskRequest.newBuilder().setTaskId("a").setReason("r").build(),
            ResumeTaskRequest.newBuilder().setTaskId("a").setReason("r").build(),
            CompleteTaskRequest.newBuilder()
                .setTaskId("a")
                .addMessages(
                    io.github.protolink_grpc.v1.Message.newBuilder()
                        .setRole(MessageRole.MESSAGE_ROLE_AGENT)
                        .addParts(Parts.text("done")))
                .build(),
            FailTaskRequest.newBuilder()
                .setTaskId("a")
                .setFailure(Failure.newBuilder().setMessage("broken"))
                .build(),
            LinkTasksRequest.newBuilder().setTaskId("a").setLink(link).build(),
            UnlinkTasksRequest.newBuilder().setTaskId("a").setLink(link).build(),
            GetTaskSnapshotRequest.newBuilder().setTaskId("a").build(),
            ListTaskSnapshotsRequest.getDefaultInstance());
    assertEquals(sent, host.requests);
    List<String> methods =
        List.of(
            "UpdateTask",
            "StartTask",
            "StartTask",
            "PauseTask",
            "ResumeTask",
            "CompleteTask",
            "FailTask",
            "LinkTasks",
            "UnlinkTasks",
            "GetTaskSnapshot",
            "ListTaskSnapshots");
    assertEquals(methods, host.methods);
  }

  @Test
  void aRepeatedDraftReportOrRetryHasTheSameIds() {
    Host host = new Host();
    try (Served served = Served.of(host.of(TaskControlServiceGrpc.getServiceDescriptor()));
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      host.lost = 1;
      client.tasks().create("later");
      host.lost = 1;
      client.tasks().reportProgress("a", 50, "half");
      host.lost = 1;
      client.tasks().retry("a", "again");
      client.tasks().retry(RetryTaskRequest.newBuilder().setRequestId("mine").build());
    }
    RetryTaskRequest named = (RetryTaskRequest) host.requests.remove(6);
    assertEquals("mine", named.getRequestId());
    assertEquals(6, host.requests.size());
    CreateTaskRequest draft = (CreateTaskRequest) host.requests.get(0);
    assertEquals(TaskTarget.TASK_TARGET_CREATE, draft.getInput().getTarget());
    assertFalse(draft.getInput().getTaskId().isEmpty() || draft.getRequestId().isEmpty());
    assertFalse(((AppendTaskProgressRequest) host.requests.get(2)).getRequestId().isEmpty());
    assertFalse(((RetryTaskRequest) host.requests.get(4)).getRequestId().isEmpty());
    for (int first = 0; first < 6; first += 2) {
      assertEquals(host.requests.get(first), host.requests.get(first + 1));
    }
  }

  @Test
  void eachSnapshotIsRequestedByItsIds() {
    Host host = new Host();
    try (Served served = Served.of(host.of(SnapshotServiceGrpc.getServiceDescriptor()));
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      Snapshots snapshots = client.snapshots();
      snapshots.session("s");
      snapshots.thread("s", "t");
      snapshots.queue("s", "");
      snapshots.tools();
      snapshots.context("a");
      snapshots.artifacts("a");
      snapshots.evidence("a");
    }
    List<Message> sent =
        List.of(
            GetSessionSnapshotRequest.newBuilder().setSessionId("s").build(),
            GetThreadSnapshotRequest.newBuilder().setSessionId("s").setThreadId("t").build(),
            GetQueueSnapshotRequest.newBuilder().setSessionId("s").build(),
            GetToolInventoryRequest.getDefaultInstance(),
            GetContextBoundaryRequest.newBuilder().setTaskId("a").build(),
            GetArtifactsRequest.newBuilder().setTaskId("a").build(),
            GetEvidenceRequest.newBuilder().setTaskId("a").build());
    assertEquals(sent, host.requests);
  }
}
