package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.github.protolink_grpc.v1.ActionEnded;
import io.github.protolink_grpc.v1.ActionPolicyEvaluated;
import io.github.protolink_grpc.v1.ActionRequested;
import io.github.protolink_grpc.v1.LlmCallCompleted;
import io.github.protolink_grpc.v1.Message;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.Payload;
import io.github.protolink_grpc.v1.PolicyDecision;
import io.github.protolink_grpc.v1.RunAction;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskMessagesAdded;
import io.github.protolink_grpc.v1.TaskState;
import io.github.protolink_grpc.v1.TaskStatusChanged;
import io.github.protolink_grpc.v1.TaskSubmitted;
import io.github.protolink_grpc.v1.ToolCall;
import java.util.List;
import org.junit.jupiter.api.Test;

class ReferencesTest {

  private static ToolCall.Builder call() {
    return ToolCall.newBuilder().setCallId("c");
  }

  private static RunEvent called(ToolCall.Builder... calls) {
    LlmCallCompleted.Builder answer = LlmCallCompleted.newBuilder();
    List.of(calls).forEach(answer::addToolCalls);
    return RunEvent.newBuilder().setLlmCallCompleted(answer).build();
  }

  private static RunEvent requested(RunAction.Builder action) {
    action.setActionId("a").setName("echo");
    return RunEvent.newBuilder()
        .setActionId("a")
        .setActionRequested(ActionRequested.newBuilder().setAction(action))
        .build();
  }

  private static RunEvent requested(String callId) {
    return requested(RunAction.newBuilder().setCallId(callId));
  }

  private static RunEvent status(TaskState state) {
    return RunEvent.newBuilder()
        .setTaskStatus(TaskStatusChanged.newBuilder().setNewState(state))
        .build();
  }

  @Test
  void argumentsThatAnEventLeavesOutArePutBack() {
    Message said =
        Message.newBuilder().addParts(Part.newBuilder().setToolCall(call())).build();
    Task.Builder task = Task.newBuilder().addMessages(said);
    RunEvent submitted =
        RunEvent.newBuilder().setTaskSubmitted(TaskSubmitted.newBuilder().setTask(task)).build();
    RunEvent added =
        RunEvent.newBuilder()
            .setTaskMessages(TaskMessagesAdded.newBuilder().addMessages(said))
            .build();
    RunEvent model = called(call().setArguments(Parts.payload("{\"n\":1}")));
    expectPutBack("{\"arguments\":{}}", submitted);
    expectPutBack("{\"arguments\":{\"n\":1}}", submitted, added, model); // the last one counts
  }

  private static void expectPutBack(String wanted, RunEvent... before) {
    References references = new References();
    List.of(before).forEach(references::resolve);
    RunEvent event = requested("c");
    RunEvent resolved = references.resolve(event);
    assertTrue(References.isAbridged(event));
    assertFalse(References.isAbridged(resolved));
    assertEquals(wanted, resolved.getActionRequested().getAction().getPayload().getJson());
    assertEquals(wanted, references.action("a").orElseThrow().getPayload().getJson());
    assertTrue(References.isAbridged(references.resolve(requested("c")))); // named once before
  }

  @Test
  void whatWasBeforeTheFirstEventStaysAsItIs() {
    References references = new References();
    assertTrue(References.isAbridged(references.resolve(requested("c"))));
    assertTrue(references.action("a").isPresent());
    assertTrue(references.action("b").isEmpty());
    Payload bytes = Payload.newBuilder().setData(ByteString.copyFromUtf8("x")).build();
    references.resolve(
        called(call().setArguments(Parts.payload("{}")), call().setArguments(bytes)));
    assertTrue(References.isAbridged(references.resolve(requested("c"))));
    RunAction.Builder whole = RunAction.newBuilder().setCallId("c");
    for (RunEvent event :
        List.of(requested(whole.setPayload(Parts.payload("{}"))), requested(""))) {
      assertSame(event, references.resolve(event));
      assertFalse(References.isAbridged(event));
    }
  }

  @Test
  void actionsAndCallsAreForgottenWhenTheyAreOver() {
    PolicyDecision verdict = PolicyDecision.newBuilder().setReason("so").build();
    RunEvent judged =
        RunEvent.newBuilder()
            .setActionId("a")
            .setActionPolicy(ActionPolicyEvaluated.newBuilder().setDecision(verdict))
            .build();
    RunEvent ended =
        RunEvent.newBuilder()
            .setActionId("a")
            .setActionEnded(ActionEnded.getDefaultInstance())
            .build();
    RunEvent asks = status(TaskState.TASK_STATE_INPUT_REQUIRED);
    for (RunEvent last : List.of(ended, asks)) {
      References references = new References();
      List.of(judged, requested(""), judged, called(call())).forEach(references::resolve);
      assertEquals(verdict, references.verdict("a").orElseThrow());
      references.resolve(last);
      assertTrue(references.action("a").isEmpty());
      assertTrue(references.verdict("a").isEmpty());
      assertEquals(last == asks, References.isAbridged(references.resolve(requested("c"))));
    }
  }
}
