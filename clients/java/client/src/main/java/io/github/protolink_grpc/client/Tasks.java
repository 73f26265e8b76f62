package io.github.protolink_grpc.client;

import com.google.protobuf.Timestamp;
import io.github.protolink_grpc.v1.Artifact;
import io.github.protolink_grpc.v1.Message;
import io.github.protolink_grpc.v1.MessageRole;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskInput;
import io.github.protolink_grpc.v1.TaskState;
import io.github.protolink_grpc.v1.TaskTarget;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/** Makes and reads tasks. */
public final class Tasks {

  private static final Comparator<Timestamp> BY_TIME =
      Comparator.comparingLong(Timestamp::getSeconds).thenComparingInt(Timestamp::getNanos);

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
   * What the task is for: its newest result, as text; of tools and structured answers, the JSON
   * text. Empty: there is none (yet).
   *
   * <p>Looks at the messages of agents and models and at the artifacts of kind {@code result}, the
   * newest first. In each, the last part that is output counts.
   */
  public static Optional<String> output(Task task) {
    Optional<String> said = messageOutput(task.getMessagesList());
    Optional<String> made = artifactOutput(task.getArtifactsList());
    return isMessageNewest(task) ? said.or(() -> made) : made.or(() -> said);
  }

  private static boolean isMessageNewest(Task task) {
    int messages = task.getMessagesCount();
    int artifacts = task.getArtifactsCount();
    if (messages == 0 || artifacts == 0) {
      return artifacts == 0;
    }
    Timestamp said = task.getMessages(messages - 1).getCreateTime();
    return BY_TIME.compare(said, task.getArtifacts(artifacts - 1).getCreateTime()) > 0;
  }

  private static Optional<String> messageOutput(List<Message> messages) {
    return last(
        messages.stream()
            .filter(each -> each.getRole() == MessageRole.MESSAGE_ROLE_AGENT)
            .flatMap(each -> partOutput(each.getPartsList()).stream())
            .toList());
  }

  private static Optional<String> artifactOutput(List<Artifact> artifacts) {
    return last(
        artifacts.stream()
            .filter(each -> each.getKind().isEmpty() || each.getKind().equals("result"))
            .flatMap(each -> partOutput(each.getPartsList()).stream())
            .toList());
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
