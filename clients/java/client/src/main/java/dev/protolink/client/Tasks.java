package dev.protolink.client;

import com.google.protobuf.Timestamp;
import dev.protolink.v1.Artifact;
import dev.protolink.v1.Message;
import dev.protolink.v1.Part;
import dev.protolink.v1.Role;
import dev.protolink.v1.Task;
import dev.protolink.v1.ToolCall;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.UUID;

/** Makes and reads tasks. */
public final class Tasks {

  private static final Comparator<Timestamp> BY_TIME =
      Comparator.comparingLong(Timestamp::getSeconds).thenComparingInt(Timestamp::getNanos);

  private Tasks() {}

  /** A new task that says one text. It has an id already, by which it is found after a deadline. */
  public static Task of(String text) {
    return of(Part.newBuilder().setText(text).build());
  }

  /** A new task, with an id, that says one message of these parts. */
  public static Task of(Part... parts) {
    return reply(UUID.randomUUID().toString(), parts);
  }

  /**
   * A new task that runs one tool of the agent.
   *
   * @param argsJson its arguments, a JSON object
   */
  public static Task toolCall(String tool, String argsJson) {
    return of(
        Part.newBuilder()
            .setToolCall(ToolCall.newBuilder().setToolName(tool).setArgsJson(argsJson))
            .build());
  }

  /** One more text to a task that waits for it. */
  public static Task reply(String taskId, String text) {
    return reply(taskId, Part.newBuilder().setText(text).build());
  }

  /** One more message, of these parts, to a task that waits for it. */
  public static Task reply(String taskId, Part... parts) {
    return Task.newBuilder()
        .setId(taskId)
        .addMessages(Message.newBuilder().setRole(Role.ROLE_USER).addAllParts(List.of(parts)))
        .build();
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

  /** The text parts, joined. */
  public static String text(List<Part> parts) {
    StringBuilder text = new StringBuilder();
    parts.forEach(part -> text.append(part.getText()));
    return text.toString();
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
            .filter(
                each -> each.getRole() == Role.ROLE_AGENT || each.getRole() == Role.ROLE_ASSISTANT)
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
      case DATA_JSON -> Optional.of(part.getDataJson());
      case INFER_OUTPUT ->
          Optional.of(
              part.getInferOutput().hasText()
                  ? part.getInferOutput().getText()
                  : part.getInferOutput().getValueJson());
      case TOOL_OUTPUT ->
          Optional.of(part.getToolOutput())
              .filter(each -> each.getErrorJson().isEmpty())
              .map(each -> each.getResultJson());
      default -> Optional.empty();
    };
  }

  private static Optional<String> last(List<String> texts) {
    return texts.isEmpty() ? Optional.empty() : Optional.of(texts.get(texts.size() - 1));
  }
}
