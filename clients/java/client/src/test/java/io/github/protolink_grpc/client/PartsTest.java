package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.Timestamp;
import io.github.protolink_grpc.v1.FileContent;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.Payload;
import io.github.protolink_grpc.v1.ToolCall;
import io.github.protolink_grpc.v1.ToolOutput;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PartsTest {

  @Test
  void eachKindIsReadAsItWasMade() {
    ToolOutput three = ToolOutput.newBuilder().setResult(Parts.payload("3")).build();
    List<Part> parts =
        List.of(
            Parts.text("to "),
            Parts.json("{\"a\":1}"),
            Parts.file("a.png", "image/png", new byte[] {1, 2}),
            Parts.link("https://example.org/b", ""),
            Parts.toolCall("add", "{\"a\":1}"),
            Part.newBuilder().setToolOutput(three).build(),
            Parts.text("be"));
    assertEquals("to be", Parts.text(parts));
    assertEquals(List.of("{\"a\":1}"), Parts.json(parts));
    assertEquals(List.of(three), Parts.toolOutputs(parts));
    ToolCall call = Parts.toolCalls(parts).get(0);
    assertEquals("add {\"a\":1}", call.getToolName() + " " + call.getArguments().getJson());
    List<FileContent> files = Parts.files(parts);
    assertEquals(2, files.size());
    assertEquals("a.png image/png", files.get(0).getName() + " " + files.get(0).getContent().getMediaType());
    assertEquals(2, files.get(0).getContent().getData().size());
    assertEquals("https://example.org/b", files.get(1).getContent().getRef().getUri());
  }

  @Test
  void aProtobufMessageIsReadAsTheTypeThatItIs() throws IOException {
    Timestamp when = Timestamp.newBuilder().setSeconds(7).build();
    Payload sent = Parts.message(when).getData();
    assertEquals("google.protobuf.Timestamp", sent.getMessage().getTypeName());
    assertEquals(Optional.of(when), Parts.message(sent, Timestamp.getDefaultInstance()));
    assertEquals(Optional.empty(), Parts.message(sent, Payload.getDefaultInstance()));
    Payload encoded = sent.toBuilder().setEncoding("aes").setPreview("noon").build();
    assertEquals(Optional.empty(), Parts.message(encoded, Timestamp.getDefaultInstance()));
    assertEquals("noon", Parts.text(encoded));
    Part call = Parts.toolCall("wait", Parts.payload(when));
    assertEquals(sent, call.getToolCall().getArguments());
  }

  @Test
  void aFileOfThisMachineHasItsNameAndBytes(@TempDir Path folder) throws IOException {
    Path path = Files.writeString(folder.resolve("note.txt"), "héllo");
    FileContent file = Parts.file(path).getFile();
    assertEquals("note.txt", file.getName());
    assertEquals("text/plain", file.getContent().getMediaType());
    assertEquals("héllo", file.getContent().getData().toStringUtf8());
  }
}
