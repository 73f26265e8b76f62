package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.protolink_grpc.v1.FileContent;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.ToolCall;
import io.github.protolink_grpc.v1.ToolOutput;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PartsTest {

  @Test
  void eachKindIsReadAsItWasMade() {
    ToolOutput three = ToolOutput.newBuilder().setResultJson("3").build();
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
    assertEquals("add {\"a\":1}", call.getToolName() + " " + call.getArgsJson());
    List<FileContent> files = Parts.files(parts);
    assertEquals(2, files.size());
    assertEquals("a.png image/png", files.get(0).getName() + " " + files.get(0).getMediaType());
    assertEquals(2, files.get(0).getData().size());
    assertEquals("https://example.org/b", files.get(1).getUri());
  }

  @Test
  void aFileOfThisMachineHasItsNameAndBytes(@TempDir Path folder) throws IOException {
    Path path = Files.writeString(folder.resolve("note.txt"), "héllo");
    FileContent file = Parts.file(path).getFile();
    assertEquals("note.txt", file.getName());
    assertEquals("text/plain", file.getMediaType());
    assertEquals("héllo", file.getData().toStringUtf8());
  }
}
