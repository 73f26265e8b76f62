package io.github.protolink_grpc.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import io.github.protolink_grpc.v1.FileContent;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.Payload;
import io.github.protolink_grpc.v1.PayloadRef;
import io.github.protolink_grpc.v1.ToolCall;
import io.github.protolink_grpc.v1.ToolOutput;
import io.github.protolink_grpc.v1.TypedMessage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

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
    return Part.newBuilder().setData(payload(json)).build();
  }

  /** A protobuf message of any type. */
  public static Part message(Message message) {
    return Part.newBuilder().setData(payload(message)).build();
  }

  /**
   * A JSON value as a payload.
   *
   * @param json its text
   */
  public static Payload payload(String json) {
    return Payload.newBuilder().setJson(json).build();
  }

  /** A protobuf message of any type as a payload. */
  public static Payload payload(Message message) {
    TypedMessage typed =
        TypedMessage.newBuilder()
            .setTypeName(message.getDescriptorForType().getFullName())
            .setValue(message.toByteString())
            .build();
    return Payload.newBuilder().setMessage(typed).build();
  }

  /**
   * The protobuf message of a payload; empty where it has another form, a codec or another type.
   *
   * @param type the default instance of its type
   * @throws InvalidProtocolBufferException if its bytes are no such message
   */
  public static <T extends Message> Optional<T> message(Payload payload, T type)
      throws InvalidProtocolBufferException {
    TypedMessage typed = payload.getMessage();
    String name = type.getDescriptorForType().getFullName();
    if (!payload.getEncoding().isEmpty() || !typed.getTypeName().equals(name)) {
      return Optional.empty();
    }
    @SuppressWarnings("unchecked") // the parser of a message makes messages of its type
    T read = (T) type.getParserForType().parseFrom(typed.getValue());
    return Optional.of(read);
  }

  /** The JSON text of a payload; of any other its preview, which may be empty. */
  public static String text(Payload payload) {
    return payload.hasJson() ? payload.getJson() : payload.getPreview();
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
        name, Payload.newBuilder().setMediaType(mediaType).setData(ByteString.copyFrom(data)));
  }

  /**
   * A file by reference: the agent may fetch it.
   *
   * @param mediaType for instance {@code image/png}; empty means {@code application/octet-stream}
   */
  public static Part link(String uri, String mediaType) {
    PayloadRef ref = PayloadRef.newBuilder().setUri(uri).build();
    return file("", Payload.newBuilder().setMediaType(mediaType).setRef(ref));
  }

  /**
   * A request to run one tool.
   *
   * @param argsJson its arguments, a JSON object
   */
  public static Part toolCall(String tool, String argsJson) {
    return toolCall(tool, payload(argsJson));
  }

  /**
   * A request to run one tool.
   *
   * @param arguments its arguments, see {@link #payload(Message)}
   */
  public static Part toolCall(String tool, Payload arguments) {
    ToolCall call = ToolCall.newBuilder().setToolName(tool).setArguments(arguments).build();
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
    return parts.stream()
        .filter(part -> part.getData().hasJson())
        .map(part -> part.getData().getJson())
        .toList();
  }

  /**
   * The files; {@link Payload#getValueCase} of their content says whether one is a value or a
   * reference.
   */
  public static List<FileContent> files(List<Part> parts) {
    return parts.stream().filter(Part::hasFile).map(Part::getFile).toList();
  }

  /** The tools that are to run. */
  public static List<ToolCall> toolCalls(List<Part> parts) {
    return parts.stream().filter(Part::hasToolCall).map(Part::getToolCall).toList();
  }

  /**
   * The outcomes of tools. One that failed has a {@link ToolOutput#getFailure failure}; the others
   * have a {@link ToolOutput#getResult result}.
   */
  public static List<ToolOutput> toolOutputs(List<Part> parts) {
    return parts.stream().filter(Part::hasToolOutput).map(Part::getToolOutput).toList();
  }

  private static Part file(String name, Payload.Builder content) {
    FileContent file = FileContent.newBuilder().setName(name).setContent(content).build();
    return Part.newBuilder().setFile(file).build();
  }
}
