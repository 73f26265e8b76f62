package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.Message;
import io.github.protolink_grpc.v1.Payload;
import io.github.protolink_grpc.v1.PolicyDecision;
import io.github.protolink_grpc.v1.RunAction;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.TaskState;
import io.github.protolink_grpc.v1.ToolCall;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Resolves what the events of one log refer to. An event leaves out a value that an earlier event
 * of the log has: the arguments of an action that a tool call requested, and the action and the
 * verdict of an approval.
 *
 * <p>{@link EventStream} resolves the arguments itself. Use an instance of your own to look up
 * actions and verdicts while you read a stream, or to read events from elsewhere. Pass each event
 * of the log to {@link #resolve}, in order.
 *
 * <p>A log that is read from its beginning, or from the beginning of a turn, is resolved
 * completely. If it is read from the middle, what refers to an event before that stays as it is:
 * {@link #isAbridged} reports it, and {@link #action} does not know the action.
 *
 * <p>Not safe for use by several threads at the same time.
 */
public final class References {

  /** JSON text of the arguments of the tool calls that no action has named yet, by call id. */
  private final Map<String, String> calls = new HashMap<>();

  private final Map<String, RunAction> actions = new HashMap<>();
  private final Map<String, PolicyDecision> verdicts = new HashMap<>();

  /**
   * Notes the next event of the log.
   *
   * @return the event with its arguments put back; the event itself if it leaves nothing out
   */
  public RunEvent resolve(RunEvent event) {
    switch (event.getPayloadCase()) {
      case TASK_SUBMITTED -> noteMessages(event.getTaskSubmitted().getTask().getMessagesList());
      case TASK_MESSAGES -> noteMessages(event.getTaskMessages().getMessagesList());
      case LLM_CALL_COMPLETED -> noteCalls(event.getLlmCallCompleted().getToolCallsList());
      case TASK_STATUS -> noteState(event.getTaskStatus().getNewState());
      case ACTION_REQUESTED -> {
        return requested(event);
      }
      case ACTION_POLICY -> {
        if (actions.containsKey(event.getActionId())) {
          verdicts.put(event.getActionId(), event.getActionPolicy().getDecision());
        }
      }
      case ACTION_ENDED -> {
        actions.remove(event.getActionId());
        verdicts.remove(event.getActionId());
      }
      default -> {}
    }
    return event;
  }

  /**
   * The action of that id, as it was requested; {@link RunEvent#getActionId} names it. Empty for an
   * action that has ended, or that was requested before the first event that was read.
   */
  public Optional<RunAction> action(String actionId) {
    return Optional.ofNullable(actions.get(actionId));
  }

  /**
   * The last decision of the policy about the action of that id. Empty where there is none, or the
   * action is not known.
   */
  public Optional<PolicyDecision> verdict(String actionId) {
    return Optional.ofNullable(verdicts.get(actionId));
  }

  /** Whether the event requests an action whose arguments are in an earlier event of the log. */
  public static boolean isAbridged(RunEvent event) {
    RunAction action = event.getActionRequested().getAction();
    return !action.getCallId().isEmpty() && !action.hasPayload();
  }

  private RunEvent requested(RunEvent event) {
    RunEvent resolved = event;
    String arguments = calls.remove(event.getActionRequested().getAction().getCallId());
    if (arguments != null && isAbridged(event)) {
      RunEvent.Builder whole = event.toBuilder();
      whole
          .getActionRequestedBuilder()
          .getActionBuilder()
          .setPayload(Parts.payload("{\"arguments\":" + arguments + "}"));
      resolved = whole.build();
    }
    actions.put(event.getActionId(), resolved.getActionRequested().getAction());
    verdicts.remove(event.getActionId());
    return resolved;
  }

  private void noteMessages(List<Message> messages) {
    messages.forEach(each -> noteCalls(Parts.toolCalls(each.getPartsList())));
  }

  private void noteCalls(List<ToolCall> made) {
    for (ToolCall call : made) {
      Payload arguments = call.getArguments();
      calls.remove(call.getCallId());
      if (!call.getCallId().isEmpty() && !call.hasArguments()) {
        calls.put(call.getCallId(), "{}");
      } else if (!call.getCallId().isEmpty()
          && arguments.hasJson()
          && arguments.getEncoding().isEmpty()) {
        calls.put(call.getCallId(), arguments.getJson()); // an action has no other arguments
      }
    }
  }

  private void noteState(TaskState state) {
    boolean waits =
        state == TaskState.TASK_STATE_INPUT_REQUIRED || state == TaskState.TASK_STATE_AUTH_REQUIRED;
    if (waits || Tasks.isTerminal(state)) {
      calls.clear();
      actions.clear();
      verdicts.clear();
    }
  }
}
