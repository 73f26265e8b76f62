package io.github.protolink_grpc.client;

import com.google.protobuf.ByteString;
import io.github.protolink_grpc.v1.FileContent;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.ToolCall;
import io.github.protolink_grpc.v1.ToolOutput;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Makes and reads parts, the content of messages and artifacts. JSON is text here, for whichever
 * library of yours reads it.
 */
public final class Parts {

  private Parts() {}

  /** A text for people and models. */
  public static Part text(String text) {
    return Part.newBuilder().setText(text).build();
  }

  /**
   * A JSON value.
   *
   * @param json its text, for instance <code>{"nights": 5}</code>
   */
  public static Part json(String json) {
    return Part.newBuilder().setDataJson(json).build();
  }

  /**
   * A file of this machine: its name, its bytes, and the media type that the system knows for it.
   *
   * @throws IOException if it cannot be read
   */
  public static Part file(Path path) throws IOException {
    String mediaType = Files.probeContentType(path);
    return file(
        String.valueOf(path.getFileName()),
        mediaType == null ? "" : mediaType,
        Files.readAllBytes(path));
  }

  /**
   * A file by value.
   *
   * @param name without directories; may be empty
   * @param mediaType for instance {@code image/png}; empty means {@code application/octet-stream}
   */
  public static Part file(String name, String mediaType, byte[] data) {
    return file(
        FileContent.newBuilder()
            .setName(name)
            .setMediaType(mediaType)
            .setData(ByteString.copyFrom(data)));
  }

  /**
   * A file by reference: the agent may fetch it.
   *
   * @param mediaType for instance {@code image/png}; empty means {@code application/octet-stream}
   */
  public static Part link(String uri, String mediaType) {
    return file(FileContent.newBuilder().setUri(uri).setMediaType(mediaType));
  }

  /**
   * A request to run one tool.
   *
   * @param argsJson its arguments, a JSON object
   */
  public static Part toolCall(String tool, String argsJson) {
    ToolCall call = ToolCall.newBuilder().setToolName(tool).setArgsJson(argsJson).build();
    return Part.newBuilder().setToolCall(call).build();
  }

  /** The texts, joined. */
  public static String text(List<Part> parts) {
    StringBuilder text = new StringBuilder();
    parts.forEach(part -> text.append(part.getText()));
    return text.toString();
  }

  /** The JSON values, each as its text. */
  public static List<String> json(List<Part> parts) {
    return parts.stream().filter(Part::hasDataJson).map(Part::getDataJson).toList();
  }

  /** The files; {@link FileContent#getSourceCase} says whether one is a value or a reference. */
  public static List<FileContent> files(List<Part> parts) {
    return parts.stream().filter(Part::hasFile).map(Part::getFile).toList();
  }

  /** The tools that are to run. */
  public static List<ToolCall> toolCalls(List<Part> parts) {
    return parts.stream().filter(Part::hasToolCall).map(Part::getToolCall).toList();
  }

  /**
   * The outcomes of tools. One that failed has an {@link ToolOutput#getErrorJson error}; the others
   * have a {@link ToolOutput#getResultJson result}.
   */
  public static List<ToolOutput> toolOutputs(List<Part> parts) {
    return parts.stream().filter(Part::hasToolOutput).map(Part::getToolOutput).toList();
  }

  private static Part file(FileContent.Builder file) {
    return Part.newBuilder().setFile(file).build();
  }
}
