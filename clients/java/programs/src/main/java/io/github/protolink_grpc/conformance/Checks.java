package io.github.protolink_grpc.conformance;

import io.github.protolink_grpc.client.EventStream;
import io.github.protolink_grpc.client.Parts;
import io.github.protolink_grpc.client.ProtolinkException;
import io.github.protolink_grpc.client.Tasks;
import io.github.protolink_grpc.v1.AgentChange;
import io.github.protolink_grpc.v1.AgentChangeKind;
import io.github.protolink_grpc.v1.RegisteredAgent;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.Task;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/** What the cases have in common. What is not as it should be raises an AssertionError. */
final class Checks {

  /** How long one case may take. */
  static final Duration CASE = Duration.ofSeconds(60);

  private Checks() {}

  static String given(String name) {
    return Objects.requireNonNull(
        System.getenv("PLGRPC_" + name), "PLGRPC_" + name + " is not set");
  }

  static String word() {
    return UUID.randomUUID().toString().replace("-", "");
  }

  static String output(Task task) {
    return Tasks.output(task).orElse("(nothing)");
  }

  static void expect(String what, Object found, Object wanted) {
    if (!Objects.equals(found, wanted)) {
      throw new AssertionError(String.format("%s is %.200s, not %.200s", what, found, wanted));
    }
  }

  static void expectChange(AgentChange change, AgentChangeKind kind, String name) {
    RegisteredAgent agent = change.getAgent();
    expect("the change", change.getKind() + " " + agent.getCard().getName(), kind + " " + name);
  }

  static ProtolinkException refused(Runnable call) {
    try {
      call.run();
    } catch (ProtolinkException error) {
      return error;
    }
    throw new AssertionError("nothing was refused");
  }

  /** All events of a stream that must number them without a gap and end with the last one. */
  static List<RunEvent> collected(EventStream stream) {
    List<RunEvent> events = new ArrayList<>();
    try (stream) {
      stream.forEachRemaining(events::add);
    }
    expectWhole(events);
    return events;
  }

  static void expectWhole(List<RunEvent> events) {
    List<Long> sequences = events.stream().map(RunEvent::getSequence).toList();
    expect(
        "the list of sequences",
        sequences,
        LongStream.rangeClosed(1, events.size()).boxed().toList());
    expect("whether the last event is final", events.get(events.size() - 1).getLast(), true);
  }

  static void expectCounted(List<RunEvent> events) {
    List<String> texts =
        events.stream()
            .filter(RunEvent::hasTaskArtifact)
            .map(event -> Parts.text(event.getTaskArtifact().getArtifact().getPartsList()))
            .toList();
    expect(
        "the artifacts", texts, IntStream.rangeClosed(1, 100).mapToObj(Integer::toString).toList());
  }
}
