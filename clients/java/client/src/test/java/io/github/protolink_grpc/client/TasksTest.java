package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import com.google.protobuf.Timestamp;
import io.github.protolink_grpc.v1.Artifact;
import io.github.protolink_grpc.v1.Failure;
import io.github.protolink_grpc.v1.Message;
import io.github.protolink_grpc.v1.MessageRole;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.ToolOutput;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class TasksTest {

  private static final Part JSON = Parts.json("{\"a\":1}");

  @Test
  void aNewTaskHasAnIdOfItsOwn() {
    assertNotEquals(Tasks.of("a").getTaskId(), Tasks.of("a").getTaskId());
    assertEquals("", Tasks.messages(Parts.text("more")).getTaskId());
  }

  private static Task asked(String text) {
    return Task.newBuilder().addAllMessages(Tasks.of(text).getMessagesList()).build();
  }

  @Test
  void whatTheCallerSaidIsNoOutput() {
    assertEquals(Optional.empty(), Tasks.output(asked("hello")));
  }

  @Test
  void theNewestOfMessagesAndArtifactsIsTheOutput() {
    Task task = asked("hello").toBuilder().addMessages(said(2, "there")).build();
    assertEquals(Optional.of("there"), Tasks.output(task));
    assertEquals(
        Optional.of("there"),
        Tasks.output(task.toBuilder().addArtifacts(made(1, "result")).build()));
    assertEquals(
        Optional.of("{\"a\":1}"), Tasks.output(task.toBuilder().addArtifacts(made(3, "")).build()));
    assertEquals(
        Optional.of("there"),
        Tasks.output(task.toBuilder().addArtifacts(made(3, "preview")).build()));
  }

  @Test
  void aFailedToolHasNoOutput() {
    Part failed =
        Part.newBuilder()
            .setToolOutput(ToolOutput.newBuilder().setFailure(Failure.getDefaultInstance()))
            .build();
    Part done =
        Part.newBuilder()
            .setToolOutput(ToolOutput.newBuilder().setResult(Parts.payload("3")))
            .build();
    assertEquals(
        Optional.of("3"), Tasks.output(Task.newBuilder().addArtifacts(made(done, failed)).build()));
    assertEquals(
        Optional.empty(), Tasks.output(Task.newBuilder().addArtifacts(made(failed)).build()));
  }

  private static Message said(int second, String text) {
    return Message.newBuilder()
        .setRole(MessageRole.MESSAGE_ROLE_AGENT)
        .addParts(Part.newBuilder().setText(text))
        .setCreateTime(Timestamp.newBuilder().setSeconds(second))
        .build();
  }

  private static Artifact made(int second, String kind) {
    return made(JSON).toBuilder()
        .setKind(kind)
        .setCreateTime(Timestamp.newBuilder().setSeconds(second))
        .build();
  }

  private static Artifact made(Part... parts) {
    return Artifact.newBuilder().addAllParts(List.of(parts)).build();
  }
}
