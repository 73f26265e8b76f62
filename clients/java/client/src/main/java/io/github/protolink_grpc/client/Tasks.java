package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.Artifact;
import io.github.protolink_grpc.v1.Message;
import io.github.protolink_grpc.v1.MessageRole;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskInput;
import io.github.protolink_grpc.v1.TaskState;
import io.github.protolink_grpc.v1.TaskTarget;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/** Makes and reads tasks. */
public final class Tasks {

  private Tasks() {}

  /** A new task that says one text. It has an id already, by which it is found after a deadline. */
  public static TaskInput of(String text) {
    return of(Parts.text(text));
  }

  /** A new task, with an id, that says one message of these parts: see {@link Parts}. */
  public static TaskInput of(Part... parts) {
    return messages(parts).toBuilder()
        .setTaskId(Requests.newId())
        .setTarget(TaskTarget.TASK_TARGET_CREATE)
        .build();
  }

  /**
   * A new task that runs one tool of the agent.
   *
   * @param argsJson its arguments, a JSON object
   */
  public static TaskInput toolCall(String tool, String argsJson) {
    return of(Parts.toolCall(tool, argsJson));
  }

  /**
   * One message of these parts, without an id. With a {@code task_id} it continues that task, as
   * {@link ProtolinkClient#reply} does; without one it begins a task.
   */
  public static TaskInput messages(Part... parts) {
    return TaskInput.newBuilder()
        .addMessages(
            Message.newBuilder()
                .setRole(MessageRole.MESSAGE_ROLE_USER)
                .addAllParts(List.of(parts)))
        .build();
  }

  /** Whether a task in this state has ended. */
  public static boolean isTerminal(TaskState state) {
    return switch (state) {
      case TASK_STATE_COMPLETED, TASK_STATE_CANCELED -> true;
      case TASK_STATE_FAILED, TASK_STATE_REJECTED -> true;
      default -> false;
    };
  }

  /**
   * What the task is for, as text; of tools and structured answers, the JSON text. Empty: there is
   * none (yet).
   *
   * <p>It is the last part that is output in the message or artifact that the agent names as the
   * answer.
   */
  public static Optional<String> output(Task task) {
    String id = task.getOutputId();
    return id.isEmpty() ? Optional.empty() : answer(task, id).flatMap(Tasks::partOutput);
  }

  private static Optional<List<Part>> answer(Task task, String id) {
    Stream<List<Part>> said =
        task.getMessagesList().stream().filter(each -> each.getId().equals(id)).map(Message::getPartsList);
    Stream<List<Part>> made =
        task.getArtifactsList().stream().filter(each -> each.getId().equals(id)).map(Artifact::getPartsList);
    return Stream.concat(said, made).findFirst();
  }

  private static Optional<String> partOutput(List<Part> parts) {
    return last(parts.stream().flatMap(part -> output(part).stream()).toList());
  }

  private static Optional<String> output(Part part) {
    return switch (part.getContentCase()) {
      case TEXT -> Optional.of(part.getText());
      case DATA -> Optional.of(Parts.text(part.getData()));
      case INFER_OUTPUT ->
          Optional.of(
              part.getInferOutput().hasText()
                  ? part.getInferOutput().getText()
                  : Parts.text(part.getInferOutput().getValue()));
      case TOOL_OUTPUT ->
          Optional.of(part.getToolOutput())
              .filter(each -> !each.hasFailure())
              .map(each -> Parts.text(each.getResult()));
      default -> Optional.empty();
    };
  }

  private static Optional<String> last(List<String> texts) {
    return texts.isEmpty() ? Optional.empty() : Optional.of(texts.get(texts.size() - 1));
  }
}
