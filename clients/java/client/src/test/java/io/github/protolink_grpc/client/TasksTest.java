package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.github.protolink_grpc.v1.Artifact;
import io.github.protolink_grpc.v1.Failure;
import io.github.protolink_grpc.v1.Message;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.ToolOutput;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class TasksTest {

  private static final Part JSON = Parts.json("{\"a\":1}");

  @Test
  void aNewTaskHasAnIdOfItsOwn() {
    assertNotEquals(Tasks.of("a").getTaskId(), Tasks.of("a").getTaskId());
    assertEquals("", Tasks.messages(Parts.text("more")).getTaskId());
  }

  @Test
  void theOutputIsWhatTheAgentNamesAsTheAnswer() {
    Part failed =
        Part.newBuilder()
            .setToolOutput(ToolOutput.newBuilder().setFailure(Failure.getDefaultInstance()))
            .build();
    Part done =
        Part.newBuilder()
            .setToolOutput(ToolOutput.newBuilder().setResult(Parts.payload("3")))
            .build();
    Task task =
        Task.newBuilder()
            .addMessages(Message.newBuilder().setId("q").addParts(Parts.text("question")))
            .addMessages(Message.newBuilder().setId("m").addParts(Parts.text("said")))
            .addArtifacts(Artifact.newBuilder().setId("a").addParts(JSON).addParts(failed))
            .addArtifacts(Artifact.newBuilder().setId("b").addParts(JSON).addParts(done))
            .addArtifacts(Artifact.newBuilder().setId("c").addParts(failed))
            .build();
    Map<String, Optional<String>> outputs =
        Map.of(
            "m", Optional.of("said"),
            "a", Optional.of("{\"a\":1}"),
            "b", Optional.of("3"),
            "c", Optional.empty(),
            "", Optional.empty());
    outputs.forEach(
        (id, output) ->
            assertEquals(output, Tasks.output(task.toBuilder().setOutputId(id).build()), id));
  }
}
