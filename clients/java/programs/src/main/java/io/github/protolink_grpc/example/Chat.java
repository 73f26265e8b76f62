package io.github.protolink_grpc.example;

import io.github.protolink_grpc.client.Parts;
import io.github.protolink_grpc.client.ProtolinkClient;
import io.github.protolink_grpc.client.ResumingStream;
import io.github.protolink_grpc.client.SessionItem;
import io.github.protolink_grpc.client.Sessions;
import io.github.protolink_grpc.v1.CreateSessionRequest;
import io.github.protolink_grpc.v1.InterruptTurnRequest;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.SessionEvent;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CancellationException;
import java.util.stream.Collectors;

/**
 * A chat with an agent: each line is a turn, lines wait for each other, and one stream shows
 * everything that happens: {@code clients/java/chat.sh URL [SESSION]}. {@code plgrpc conformance
 * serve} prints the URL of an agent, among others.
 *
 * <p>{@code /stop} interrupts the active turn, {@code /clear} also removes those that wait. That
 * agent understands {@code echo TEXT}, {@code wait} and {@code ask QUESTION}. Started again with
 * the same session, it shows the conversation so far, and continues it.
 */
final class Chat {

  private Chat() {}

  public static void main(String[] args) throws IOException, InterruptedException {
    if (args.length < 1) {
      System.err.println("usage: chat.sh URL [SESSION]");
      System.exit(2);
    }
    try (ProtolinkClient client = ProtolinkClient.connect(args[0])) {
      chat(client.sessions(), args.length > 1 ? args[1] : "");
    }
  }

  private static void chat(Sessions sessions, String given)
      throws IOException, InterruptedException {
    CreateSessionRequest request =
        CreateSessionRequest.newBuilder().setSessionId(given).setTitle("A chat").build();
    String sessionId = sessions.create(request).getSessionId();
    System.out.println("session " + sessionId);
    Thread shower;
    try (ResumingStream<SessionItem> items = sessions.subscribe(sessionId)) {
      shower = new Thread(() -> show(items));
      shower.start();
      BufferedReader lines =
          new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        submit(sessions, sessionId, line);
      }
    }
    shower.join();
  }

  /** Makes a turn of a line, or follows a command. */
  private static void submit(Sessions sessions, String sessionId, String line) {
    if (!line.equals("/stop") && !line.equals("/clear")) {
      sessions.submit(sessionId, line);
      return;
    }
    InterruptTurnRequest request =
        InterruptTurnRequest.newBuilder()
            .setSessionId(sessionId)
            .setReason("the user has stopped it")
            .setClearQueue(line.equals("/clear"))
            .build();
    System.out.println(sessions.interrupt(request).size() + " turns were open");
  }

  /** Prints the events of the session, one line each, until the stream is closed. */
  private static void show(ResumingStream<SessionItem> items) {
    try {
      for (SessionItem item : items) {
        System.out.printf("%4d  %s%n", item.position(), line(item));
      }
    } catch (CancellationException closed) {
      // The chat has ended.
    }
  }

  private static String line(SessionItem item) {
    SessionEvent own = item.sessionEvent();
    if (own == null) {
      return item.event().getEventType() + " " + said(item.event());
    }
    return switch (own.getPayloadCase()) {
      case TURN_SUBMITTED -> "turn submitted, queued: " + own.getTurnSubmitted().getQueued();
      case TURN_ENDED -> "turn ended: " + own.getTurnEnded().getResult();
      default -> own.getPayloadCase().name();
    };
  }

  /** The text of the messages that an event adds, or its summary. */
  private static String said(RunEvent event) {
    if (!event.hasTaskMessages()) {
      return event.getSummary();
    }
    return event.getTaskMessages().getMessagesList().stream()
        .map(message -> Parts.text(message.getPartsList()))
        .collect(Collectors.joining(" "));
  }
}
