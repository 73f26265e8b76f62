package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReadmeTest {

  private static final Pattern BLOCK = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

  /** What the snippets, which are not whole files, take for granted. */
  private static final String AROUND =
      """
      import acme.calculator.v1.*;
      import io.github.protolink_grpc.client.*;
      import io.github.protolink_grpc.v1.*;
      import io.grpc.*;
      import io.grpc.stub.MetadataUtils;
      import java.io.File;
      import java.nio.file.*;
      import java.time.Duration;
      import java.util.concurrent.*;
      class Snippet%d {
        void run(ProtolinkClient client) throws Exception {
          %s
        }
      }
      """;

  @Test
  void everySnippetCompiles(@TempDir Path classes) throws IOException {
    List<JavaFileObject> sources = new ArrayList<>();
    Matcher blocks = BLOCK.matcher(Files.readString(Path.of("../README.md")));
    while (blocks.find()) {
      int number = sources.size();
      String text = blocks.group(1);
      boolean isFile = text.contains("\npublic class ");
      sources.add(
          source(
              isFile ? "Hello" : "Snippet" + number,
              isFile ? text : AROUND.formatted(number, text)));
    }
    assertFalse(sources.isEmpty());
    DiagnosticCollector<JavaFileObject> said = new DiagnosticCollector<>();
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    List<String> options =
        List.of(
            "-d", classes.toString(),
            "-cp", System.getProperty("java.class.path"),
            "-sourcepath", "../programs/src/main/java"); // the stubs of the calculator
    compiler.getTask(null, null, said, options, null, sources).call();
    List<String> errors =
        said.getDiagnostics().stream()
            .filter(each -> each.getKind() == Diagnostic.Kind.ERROR)
            .map(Object::toString)
            .toList();
    assertEquals(List.of(), errors);
  }

  private static JavaFileObject source(String name, String text) {
    return new SimpleJavaFileObject(
        URI.create("string:///" + name + ".java"), JavaFileObject.Kind.SOURCE) {
      @Override
      public CharSequence getCharContent(boolean ignoreEncodingErrors) {
        return text;
      }
    };
  }
}
