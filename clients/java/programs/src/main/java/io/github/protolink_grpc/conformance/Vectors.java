package io.github.protolink_grpc.conformance;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.OneofDescriptor;
import com.google.protobuf.DiscardUnknownFieldsParser;
import com.google.protobuf.ListValue;
import com.google.protobuf.Message;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import com.google.protobuf.util.JsonFormat;
import io.github.protolink_grpc.client.Tasks;
import io.github.protolink_grpc.v1.Task;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/**
 * The shared vectors, as the generated classes read them; tests/vectors/README.md says what an
 * entry of the index means.
 */
final class Vectors {

  /**
   * Whose JSON form protobuf-java-util does not read as it is: it makes doubles from BigDecimals,
   * which have no minus zero.
   */
  private static final Set<String> JSON_MISREAD = Set.of("doubles.minus_zero");

  private Vectors() {}

  /**
   * Checks every vector of a folder; an AssertionError names the one that is not what its entry
   * says.
   */
  static void check(Path folder) throws IOException {
    ListValue.Builder index = ListValue.newBuilder();
    JsonFormat.parser().merge(Files.readString(folder.resolve("index.json")), index);
    if (index.getValuesCount() == 0) {
      throw new AssertionError("the index is empty");
    }
    for (Value each : index.getValuesList()) {
      Map<String, Value> entry = each.getStructValue().getFieldsMap();
      try {
        check(folder, entry);
      } catch (Exception | AssertionError error) {
        throw new AssertionError(
            "vector " + entry.get("name").getStringValue() + ": " + error.getMessage(), error);
      }
    }
  }

  private static void check(Path folder, Map<String, Value> entry)
      throws ReflectiveOperationException, IOException {
    String simpleName =
        entry.get("message").getStringValue().replaceFirst("^plgrpc\\.v1\\.", "");
    Class<?> type = Class.forName("io.github.protolink_grpc.v1." + simpleName);
    Message empty = (Message) type.getMethod("getDefaultInstance").invoke(null);

    ByteString data =
        ByteString.copyFrom(Files.readAllBytes(folder.resolve(entry.get("file").getStringValue())));
    Message message = empty.getParserForType().parseFrom(data);
    ByteString encoded = message.toByteString();
    if (entry.get("bytes_equal").getBoolValue() && !encoded.equals(data)) {
      throw new AssertionError("its bytes are not the same after a round trip");
    }
    if (!empty.getParserForType().parseFrom(encoded).equals(message)) {
      throw new AssertionError("it is another value after a round trip");
    }

    Message.Builder fromJson = empty.newBuilderForType();
    JsonFormat.parser()
        .merge(Files.readString(folder.resolve(entry.get("json").getStringValue())), fromJson);
    boolean isSame =
        fromJson
            .build()
            .equals(DiscardUnknownFieldsParser.wrap(empty.getParserForType()).parseFrom(data));
    if (isSame == JSON_MISREAD.contains(entry.get("name").getStringValue())) {
      throw new AssertionError(
          isSame ? "its JSON form is read well by now" : "its JSON form is another value");
    }

    for (Map.Entry<String, Value> each :
        entry.get("expect").getStructValue().getFieldsMap().entrySet()) {
      Value found = at(message, List.of(each.getKey().split("\\.")).iterator());
      if (!found.equals(each.getValue())) {
        throw new AssertionError(
            String.format("%s is %.100s, not %.100s", each.getKey(), found, each.getValue()));
      }
    }
    Value output = entry.get("output");
    if (output != null) {
      String found = Tasks.output((Task) message).orElse(null);
      if (!Objects.equals(found, output.hasNullValue() ? null : output.getStringValue())) {
        throw new AssertionError(String.format("the output is %.100s, not %.100s", found, output));
      }
    }
  }

  /** What a path leads to, as the index writes it. */
  private static Value at(Message message, Iterator<String> path) {
    if (!path.hasNext()) {
      return Value.newBuilder().setStructValue(Struct.getDefaultInstance()).build();
    }
    String step = path.next();
    for (OneofDescriptor oneof : message.getDescriptorForType().getRealOneofs()) {
      if (oneof.getName().equals(step)) {
        return message.hasOneof(oneof)
            ? text(message.getOneofFieldDescriptor(oneof).getName())
            : absent();
      }
    }
    FieldDescriptor field = message.getDescriptorForType().findFieldByName(step);
    if (field == null) {
      throw new AssertionError(message.getDescriptorForType().getName() + " has no field " + step);
    }
    if (field.isRepeated()) {
      return atElement(field, (List<?>) message.getField(field), path);
    }
    if (field.hasPresence() && !message.hasField(field)) {
      return absent();
    }
    return atValue(field, message.getField(field), path);
  }

  /** The same from a list or a map on, the latter being a list of entries. */
  private static Value atElement(FieldDescriptor field, List<?> elements, Iterator<String> path) {
    String step = path.next();
    if (step.equals("size") && !path.hasNext()) {
      return number(elements.size());
    }
    if (!field.isMapField()) {
      return atValue(field, elements.get(Integer.parseInt(step)), path);
    }
    FieldDescriptor key = field.getMessageType().findFieldByName("key");
    FieldDescriptor value = field.getMessageType().findFieldByName("value");
    for (Object each : elements) {
      Message entry = (Message) each;
      if (entry.getField(key).toString().equals(step)) {
        return atValue(value, entry.getField(value), path);
      }
    }
    throw new AssertionError(field.getName() + " has no key " + step);
  }

  private static Value atValue(FieldDescriptor field, Object value, Iterator<String> path) {
    if (value instanceof Message message) {
      return at(message, path);
    }
    if (path.hasNext()) {
      throw new AssertionError("a path leads through " + field.getName() + ", which is no message");
    }
    return switch (field.getJavaType()) {
      case STRING, LONG -> text(value.toString());
      case BYTE_STRING ->
          text(Base64.getEncoder().encodeToString(((ByteString) value).toByteArray()));
      case BOOLEAN -> Value.newBuilder().setBoolValue((Boolean) value).build();
      case ENUM -> known((EnumValueDescriptor) value);
      default -> number(((Number) value).doubleValue());
    };
  }

  /** An enum value by its name, an unknown one as its number: those have no place in their type. */
  private static Value known(EnumValueDescriptor value) {
    return value.getIndex() < 0 ? number(value.getNumber()) : text(value.getName());
  }

  private static Value text(String text) {
    return Value.newBuilder().setStringValue(text).build();
  }

  private static Value number(double number) {
    return Value.newBuilder().setNumberValue(number).build();
  }

  private static Value absent() {
    return Value.newBuilder().setNullValueValue(0).build();
  }
}
