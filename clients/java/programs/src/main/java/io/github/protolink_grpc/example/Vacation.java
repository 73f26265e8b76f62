package io.github.protolink_grpc.example;

import io.github.protolink_grpc.client.EventStream;
import io.github.protolink_grpc.client.Parts;
import io.github.protolink_grpc.client.ProtolinkClient;
import io.github.protolink_grpc.client.ProtolinkException;
import io.github.protolink_grpc.client.RegistryClient;
import io.github.protolink_grpc.client.Tasks;
import io.github.protolink_grpc.v1.Approval;
import io.github.protolink_grpc.v1.ListApprovalsRequest;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.RunEvent;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * Asks the coordinator of the vacation mesh for a trip, and prints the events of the task as they
 * come, one line each.
 *
 * <p>Start the mesh with {@code make demo ARGS="--yes --keep-running"}: it prints the URL of its
 * registry.
 */
final class Vacation {

  private final String registryUrl;
  private String place = "Santorini";
  private int nights = 5;
  private boolean saysYes;

  private Vacation(Iterator<String> arguments) {
    registryUrl = arguments.next();
    while (arguments.hasNext()) {
      switch (arguments.next()) {
        case "--to" -> place = arguments.next();
        case "--nights" -> nights = Integer.parseInt(arguments.next());
        case "--yes" -> saysYes = true;
        default -> throw new IllegalArgumentException("there is no such option");
      }
    }
  }

  public static void main(String[] arguments) {
    Vacation vacation;
    try {
      vacation = new Vacation(List.of(arguments).iterator());
    } catch (RuntimeException wrong) {
      System.err.println("usage: example.sh REGISTRY_URL [--to PLACE] [--nights N] [--yes]");
      System.exit(2);
      return;
    }
    try {
      vacation.run();
    } catch (ProtolinkException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }

  private void run() {
    String url;
    try (RegistryClient registry = RegistryClient.connect(registryUrl)) {
      url = RegistryClient.url(registry.lookup("coordinator").getCard());
    }
    Part said = Parts.text("Book " + nights + " nights in " + place + " for 2.");
    String to = place.replace("\\", "\\\\").replace("\"", "\\\"");
    Part trip =
        Parts.json("{\"to\": \"" + to + "\", \"nights\": " + nights + ", \"guests\": 2}");
    try (ProtolinkClient coordinator = ProtolinkClient.connect(url);
        EventStream events = coordinator.stream(Tasks.of(said, trip))) {
      for (RunEvent event : events) {
        System.out.printf(
            "%3d  %-12s %-20s %s%n",
            event.getSequence(), event.getAgentName(), event.getEventType(), line(event));
        if (event.hasApprovalRequired()) {
          answer(coordinator, url, events.taskId());
        }
      }
      Optional<String> output = Tasks.output(coordinator.get(events.taskId()));
      System.out.println(output.orElse("The coordinator gave no answer."));
    }
  }

  private void answer(ProtolinkClient coordinator, String url, String taskId) {
    ListApprovalsRequest own = ListApprovalsRequest.newBuilder().setTaskId(taskId).build();
    for (Approval approval : coordinator.approvals(own).toList()) {
      if (saysYes) {
        coordinator.respond(approval, true, "--yes");
      } else {
        System.out.println(
            "To answer: plgrpc approvals approve "
                + url
                + " "
                + approval.getApprovalId());
      }
    }
  }

  /**
   * What people read of an event. A kind that this program does not know has a type and a summary,
   * too.
   */
  private static String line(RunEvent event) {
    String said =
        switch (event.getPayloadCase()) {
          case TASK_STATUS ->
              event
                  .getTaskStatus()
                  .getNewState()
                  .name()
                  .replace("TASK_STATE_", "")
                  .toLowerCase(Locale.ROOT);
          case TASK_PROGRESS -> event.getTaskProgress().getMessage();
          case TASK_ARTIFACT -> event.getTaskArtifact().getArtifact().getName();
          case LLM_CALL_COMPLETED -> event.getLlmCallCompleted().getText();
          case ACTION_REQUESTED ->
              event.getActionRequested().getAction().getName()
                  + " "
                  + event.getActionRequested().getAction().getPayload().getJson();
          case ACTION_ENDED ->
              event.getActionEnded().getName() + " " + event.getActionEnded().getResult().getJson();
          default -> event.getSummary();
        };
    String plain = (said.isEmpty() ? event.getSummary() : said).replaceAll("[\\s\\p{Cntrl}]+", " ");
    return plain.length() > 100 ? plain.substring(0, 99) + "…" : plain;
  }
}
