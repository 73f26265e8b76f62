package io.github.protolink_grpc.conformance;

import static io.github.protolink_grpc.conformance.Checks.CASE;
import static io.github.protolink_grpc.conformance.Checks.collected;
import static io.github.protolink_grpc.conformance.Checks.expect;
import static io.github.protolink_grpc.conformance.Checks.expectChange;
import static io.github.protolink_grpc.conformance.Checks.expectCounted;
import static io.github.protolink_grpc.conformance.Checks.given;
import static io.github.protolink_grpc.conformance.Checks.output;
import static io.github.protolink_grpc.conformance.Checks.refused;
import static io.github.protolink_grpc.conformance.Checks.word;

import com.google.protobuf.Struct;
import com.google.protobuf.util.Durations;
import com.google.protobuf.util.JsonFormat;
import io.github.protolink_grpc.client.EventStream;
import io.github.protolink_grpc.client.Parts;
import io.github.protolink_grpc.client.ProtolinkClient;
import io.github.protolink_grpc.client.ProtolinkException;
import io.github.protolink_grpc.client.Reason;
import io.github.protolink_grpc.client.References;
import io.github.protolink_grpc.client.RegistryClient;
import io.github.protolink_grpc.client.ResumingStream;
import io.github.protolink_grpc.client.Tasks;
import io.github.protolink_grpc.v1.AgentCard;
import io.github.protolink_grpc.v1.AgentChange;
import io.github.protolink_grpc.v1.AgentChangeKind;
import io.github.protolink_grpc.v1.AgentFilter;
import io.github.protolink_grpc.v1.AgentInterface;
import io.github.protolink_grpc.v1.Approval;
import io.github.protolink_grpc.v1.Budget;
import io.github.protolink_grpc.v1.CallToolResponse;
import io.github.protolink_grpc.v1.Cost;
import io.github.protolink_grpc.v1.DeregisterAgentRequest;
import io.github.protolink_grpc.v1.Failure;
import io.github.protolink_grpc.v1.FailureCategory;
import io.github.protolink_grpc.v1.InstanceState;
import io.github.protolink_grpc.v1.ListApprovalsRequest;
import io.github.protolink_grpc.v1.ListToolsRequest;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.PolicyEffect;
import io.github.protolink_grpc.v1.RegisterAgentRequest;
import io.github.protolink_grpc.v1.RegistryServiceGrpc;
import io.github.protolink_grpc.v1.RenewLeaseRequest;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.RunOptions;
import io.github.protolink_grpc.v1.SendTaskRequest;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskInput;
import io.github.protolink_grpc.v1.TaskState;
import io.github.protolink_grpc.v1.Tool;
import io.github.protolink_grpc.v1.Usage;
import io.github.protolink_grpc.v1.RegistryServiceGrpc.RegistryServiceBlockingStub;
import io.grpc.Status;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/**
 * The conformance program of the Java client: {@code plgrpc conformance run --
 * clients/java/conformance.sh}. It knows the public client and the environment that it is started
 * with; programs in other languages do the same things in the same order.
 */
final class Main {

  private final ProtolinkClient agent;
  private final RegistryClient registry;

  /** One case; returns normally if it passes. */
  interface Case {
    void run() throws Exception;
  }

  /** A case that cannot be run here; the message says why. */
  private static final class Skip extends RuntimeException {
    private static final long serialVersionUID = 1;

    Skip(String why) {
      super(why);
    }
  }

  private Main(ProtolinkClient agent, RegistryClient registry) {
    this.agent = agent;
    this.registry = registry;
  }

  public static void main(String[] args) {
    int failed = 0;
    try (ProtolinkClient agent = ProtolinkClient.connect(given("AGENT")).withDeadline(CASE);
        RegistryClient registry =
            RegistryClient.builder(given("REGISTRY")).deadline(CASE).build()) {
      PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
      for (Map.Entry<String, Case> each : new Main(agent, registry).cases().entrySet()) {
        String line = outcome(each.getKey(), each.getValue());
        failed += line.startsWith("FAIL") ? 1 : 0;
        out.println(line);
      }
    }
    System.exit(failed == 0 ? 0 : 1);
  }

  private Map<String, Case> cases() {
    Map<String, Case> cases = new LinkedHashMap<>();
    cases.put("unary", this::unary);
    cases.put("stream", this::stream);
    cases.put("resume", this::resume);
    cases.put("cancel", this::cancel);
    cases.put("deadline", this::deadline);
    cases.put("errors", this::errors);
    cases.put("metadata", this::metadata);
    cases.put("retry", this::retry);
    cases.put("large", this::large);
    cases.put("approval", this::approval);
    cases.put("budget", this::budget);
    cases.put("registry", this::registry);
    cases.put("tool", this::tool);
    cases.put("typed-call", new TypedCase());
    cases.put("typed-stream", TypedCase::stream);
    cases.put("references", this::references);
    cases.put("sessions", new SessionCase(agent));
    cases.put("tasks", new TaskCase(agent));
    cases.put("snapshots", new SnapshotCase(agent));
    cases.put("unknown-event", this::unknownEvent);
    cases.put("unknown-part", this::unknownPart);
    cases.put("unknown-enum", this::unknownEnum);
    cases.put("missing-event", this::missingEvent);
    new HostileCases(agent).addTo(cases);
    cases.put("vectors", this::vectors);
    return cases;
  }

  private static String outcome(String name, Case each) {
    long began = System.nanoTime();
    try {
      each.run();
    } catch (Skip skip) {
      return "SKIP " + name + ": " + skip.getMessage();
    } catch (Exception | AssertionError error) {
      String kind = error instanceof AssertionError ? "" : error.getClass().getSimpleName() + ": ";
      return "FAIL " + name + ": " + (kind + error.getMessage()).replaceAll("\\s+", " ").strip();
    }
    return "PASS " + name + " " + Math.round((System.nanoTime() - began) / 1e6) + "ms";
  }

  // -- cases -------------------------------------------------------------------------------------

  private void unary() {
    Task task = agent.send("echo héllo 世界");
    expect("the state", task.getState(), TaskState.TASK_STATE_COMPLETED);
    expect("the output", output(task), "héllo 世界");
  }

  private void stream() {
    expectCounted(collected(agent.stream("count 100")));
  }

  private void resume() {
    expectCounted(collected(agent.stream("cut 40 count 100")));
  }

  private void cancel() {
    List<RunEvent> events = new ArrayList<>();
    try (EventStream stream = agent.stream("wait")) {
      for (RunEvent event : stream) {
        events.add(event);
        if (event.getTaskStatus().getNewState() == TaskState.TASK_STATE_WORKING) {
          agent.cancelAsync(stream.taskId(), "enough").join();
        }
      }
      RunEvent last = events.get(events.size() - 1);
      expect("the last state", last.getTaskStatus().getNewState(), TaskState.TASK_STATE_CANCELED);
      Task now = agent.getAsync(stream.taskId()).join();
      expect("the state", now.getState(), TaskState.TASK_STATE_CANCELED);
      expect("the reason", now.getCancelReason(), "enough");
    }
  }

  private void deadline() {
    TaskInput task = Tasks.of("wait");
    long began = System.nanoTime();
    ProtolinkException late = refused(() -> agent.withDeadline(Duration.ofMillis(300)).send(task));
    expect("the code", late.code(), Status.Code.DEADLINE_EXCEEDED);
    expect("whether it took less than 3 s", System.nanoTime() - began < 3_000_000_000L, true);
    expect("the state", agent.get(task.getTaskId()).getState(), TaskState.TASK_STATE_WORKING);
    agent.cancel(task.getTaskId(), "seen");
  }

  private void errors() {
    String unknown = UUID.randomUUID().toString();
    ProtolinkException missing = refused(() -> agent.get(unknown));
    expect("the code", missing.code(), Status.Code.NOT_FOUND);
    expect("the reason", missing.reason(), Reason.TASK_NOT_FOUND);
    expect("metadata task_id", missing.metadata().get("task_id"), unknown);

    TaskInput tooLong =
        Tasks.of("echo too long").toBuilder().setTaskId("x".repeat(200)).build();
    ProtolinkException invalid = refused(() -> agent.send(tooLong));
    expect("the code", invalid.code(), Status.Code.INVALID_ARGUMENT);
    List<String> fields =
        invalid.violations().stream().map(ProtolinkException.Violation::field).toList();
    expect("the fields", fields, List.of("input.task_id"));

    String done = agent.send("echo done").getId();
    ProtolinkException finished = refused(() -> agent.cancel(done, ""));
    expect("the code", finished.code(), Status.Code.FAILED_PRECONDITION);
    expect("the reason", finished.reason(), Reason.TASK_NOT_CANCELABLE);
  }

  private void metadata() {
    String url = given("GUARDED");
    try (ProtolinkClient byKey = ProtolinkClient.builder(url).apiKey(given("API_KEY")).build();
        ProtolinkClient byToken =
            ProtolinkClient.builder(url).bearerToken(given("BEARER")).build();
        ProtolinkClient anonymous = ProtolinkClient.connect(url);
        ProtolinkClient withHeader =
            ProtolinkClient.builder(given("AGENT")).header("x-conformance", "hello").build()) {
      expect("the principal by key", output(byKey.send("whoami")), "conformance");
      expect("the principal by token", output(byToken.send("whoami")), "conformance");
      ProtolinkException refused = refused(() -> anonymous.send("whoami"));
      expect("the code", refused.code(), Status.Code.UNAUTHENTICATED);
      expect("the reason", refused.reason(), Reason.UNAUTHENTICATED);
      expect("what was received", output(withHeader.send("header x-conformance")), "hello");
    }
  }

  private void retry() {
    String token = word();
    expect("the output", output(agent.send("flaky 2 " + token)), token + " ran 1 times");

    String other = word();
    String requestId = word();
    List<Task> answers =
        IntStream.range(0, 2)
            .mapToObj(n -> SendTaskRequest.newBuilder().setInput(Tasks.of("count-runs " + other)))
            .map(request -> agent.sendAsync(request.setRequestId(requestId).build()).join())
            .toList();
    expect("the second id", answers.get(1).getId(), answers.get(0).getId());
    answers.forEach(each -> expect("the output", output(each), other + " ran 1 times"));
  }

  private void tool() {
    ListToolsRequest twoAtOnce = ListToolsRequest.newBuilder().setPageSize(2).build();
    List<Tool> tools = agent.tools(twoAtOnce).toList();
    expect(
        "the tools", tools.stream().map(Tool::getName).toList(), List.of("echo", "hold", "stamp"));
    expect("the title of echo", tools.get(0).getTitle(), "Echo");
    expect("whether echo is read-only", tools.get(0).getReadOnly(), true);
    CallToolResponse called = agent.callTool("echo", "{\"text\": \"hi\"}");
    expect("the result", called.getOutput().getResult().getJson(), "\"hi\"");
    TaskState done = agent.get(called.getTaskId()).getState();
    expect("the state", done, TaskState.TASK_STATE_COMPLETED);
    ProtolinkException late =
        refused(() -> agent.withDeadline(Duration.ofMillis(300)).callTool("hold", "{}"));
    expect("the code", late.code(), Status.Code.DEADLINE_EXCEEDED);
    expect("the state", agent.get(late.taskId()).getState(), TaskState.TASK_STATE_WORKING);
    agent.cancel(late.taskId(), "seen");
  }

  private void references() {
    List<RunEvent> events = collected(agent.stream("cut 5 spend 3"));
    String one = "{\"arguments\":{\"text\":\"1\"}}";
    String two = "{\"arguments\":{\"text\":\"2\"}}";
    expect("the arguments", argumentsOf(events), List.of(one, two));
    RunEvent first = events.stream().filter(RunEvent::hasLlmCallCompleted).findFirst().orElseThrow();
    List<RunEvent> rest = new ArrayList<>();
    try (EventStream stream = agent.subscribe(first.getTaskId(), first.getSequence())) {
      stream.forEachRemaining(rest::add);
    }
    expect("the arguments of a log from its middle", argumentsOf(rest), List.of("abridged", two));
    CallToolResponse called = agent.callTool("echo", "{\"text\":\"hi\"}");
    List<RunEvent> whole = collected(agent.subscribe(called.getTaskId()));
    expect(
        "the arguments of a tool that was called",
        argumentsOf(whole),
        List.of("{\"arguments\":{\"text\":\"hi\"}}"));

    References known = new References();
    try (EventStream stream = agent.stream("approve it")) {
      for (RunEvent event : stream) {
        known.resolve(event);
        if (event.hasApprovalRequired()) {
          String id = event.getActionId();
          expect("the action", known.action(id).orElseThrow().getName(), "stamp");
          PolicyEffect effect = known.verdict(id).orElseThrow().getEffect();
          expect("the verdict", effect, PolicyEffect.POLICY_EFFECT_REQUIRE_APPROVAL);
          agent.cancel(event.getTaskId(), "seen");
        }
      }
    }
  }

  /** The payload of each action that is requested, or {@code abridged} where it is left out. */
  private static List<String> argumentsOf(List<RunEvent> events) {
    return events.stream()
        .filter(RunEvent::hasActionRequested)
        .map(
            event ->
                References.isAbridged(event)
                    ? "abridged"
                    : Parts.text(event.getActionRequested().getAction().getPayload()))
        .toList();
  }

  private void large() {
    String text = "0123456789".repeat(300_000);
    expect(
        "whether the text came back whole", output(agent.send("echo " + text)).equals(text), true);
  }

  private void approval() {
    for (boolean approved : new boolean[] {true, false}) {
      List<RunEvent> events = new ArrayList<>();
      try (EventStream stream = agent.stream("approve it")) {
        for (RunEvent event : stream) {
          events.add(event);
          if (event.hasApprovalRequired()) {
            ListApprovalsRequest own =
                ListApprovalsRequest.newBuilder().setTaskId(stream.taskId()).build();
            List<Approval> waiting = agent.approvals(own).toList();
            expect("the number of approvals", waiting.size(), 1);
            try (ResumingStream<Approval> watch = agent.watchApprovals(stream.taskId())) {
              expect("the approval that is watched", watch.next(), waiting.get(0));
              agent.respond(waiting.get(0), approved, "");
            }
          }
        }
        RunEvent last = events.get(events.size() - 1);
        expect(
            "the last state", last.getTaskStatus().getNewState(), TaskState.TASK_STATE_COMPLETED);
        expect("the output", output(agent.get(stream.taskId())), approved ? "approved" : "refused");
      }
    }
  }

  private void budget() throws Exception {
    Cost price = Cost.newBuilder().setMicros(200_000).setCurrency("USD").build();
    Budget money = Budget.newBuilder().setMaxCost(price).build();
    Usage paid = spent("spend 9", money, "max_cost");
    expect("the costs", paid.getCostsList(), List.of(price));
    expect("the number of model calls", paid.getLlmCalls(), 2L);
    Budget calls = Budget.newBuilder().setMaxToolCalls(2).build();
    Usage called = spent("spend 9", calls, "max_tool_calls");
    expect("the number of tool calls", called.getToolCalls(), 2L);
    Budget time = Budget.newBuilder().setMaxRuntime(Durations.fromMillis(300)).build();
    Usage used = spent("ponder", time, "max_runtime_seconds");
    long tookMillis = Durations.toMillis(used.getRuntime());
    expect("whether the run had its time", tookMillis >= 300 && tookMillis < 5_000, true);
    expect("the output", output(agent.send(limited("spend 2", money))), "spent 2");
  }

  private static TaskInput limited(String text, Budget budget) {
    RunOptions options = RunOptions.newBuilder().setBudget(budget).build();
    return Tasks.of(text).toBuilder().setOptions(options).build();
  }

  /**
   * Runs a text that must fail because of one limit of its budget.
   *
   * @return what the run has used, as its log and the task say
   */
  private Usage spent(String text, Budget budget, String limit) throws Exception {
    List<RunEvent> events = collected(agent.stream(limited(text, budget)));
    RunEvent last = events.get(events.size() - 1);
    Task task = agent.get(last.getTaskId());
    Failure failure = last.getTaskStatus().getFailure();
    Usage usage = last.getTaskStatus().getUsage();
    expect("the state", task.getState(), TaskState.TASK_STATE_FAILED);
    expect("the failure of the task", task.getFailure(), failure);
    expect("the usage of the task", task.getUsage(), usage);
    expect("the reason", failure.getReason(), Reason.BUDGET_EXCEEDED);
    expect("the category", failure.getCategory(), FailureCategory.FAILURE_CATEGORY_LIMIT);
    expect("whether the same work may succeed later", failure.getRetryable(), false);
    Struct.Builder details = Struct.newBuilder();
    JsonFormat.parser().merge(Parts.text(failure.getDetails()), details);
    expect("the limit", details.getFieldsOrThrow("limit_name").getStringValue(), limit);
    return usage;
  }

  private void registry() {
    expect(
        "the URL by name",
        RegistryClient.url(registry.lookup("conformance").getCard()),
        given("AGENT"));
    List<String> tagged = registry.byTag("scripted").map(each -> each.getCard().getName()).toList();
    expect("the names by tag", tagged, List.of("conformance"));

    String name = "temp-" + word().substring(0, 8);
    AgentCard card =
        AgentCard.newBuilder()
            .setName(name)
            .setDescription("Comes and goes.")
            .addInterfaces(
                AgentInterface.newBuilder()
                    .setUrl("grpc://" + name + ".invalid:1")
                    .setTransport("grpc"))
            .build();
    RegistryServiceBlockingStub stub = RegistryServiceGrpc.newBlockingStub(registry.channel());
    try (ResumingStream<AgentChange> watch = registry.watch(AgentFilter.getDefaultInstance())) {
      expectChange(watch.next(), AgentChangeKind.AGENT_CHANGE_KIND_UP, "conformance");
      String lease =
          stub.registerAgent(RegisterAgentRequest.newBuilder().setCard(card).build()).getLeaseId();
      expectChange(watch.next(), AgentChangeKind.AGENT_CHANGE_KIND_UP, name);
      // The second heartbeat reports another load, which a watch does not show.
      for (int running = 0; running < 2; running++) {
        stub.renewLease(
            RenewLeaseRequest.newBuilder()
                .setLeaseId(lease)
                .setState(InstanceState.INSTANCE_STATE_DRAINING)
                .setRunning(running)
                .build());
      }
      AgentChange draining = watch.next();
      expectChange(draining, AgentChangeKind.AGENT_CHANGE_KIND_UP, name);
      expect(
          "the state", draining.getAgent().getState(), InstanceState.INSTANCE_STATE_DRAINING);
      stub.deregisterAgent(DeregisterAgentRequest.newBuilder().setLeaseId(lease).build());
      expectChange(watch.next(), AgentChangeKind.AGENT_CHANGE_KIND_DOWN, name);
    }
  }

  private void unknownEvent() {
    List<RunEvent> strange =
        collected(agent.stream("future")).stream()
            .filter(event -> event.getEventType().equals("example.unheard_of"))
            .toList();
    expect("the number of strange events", strange.size(), 1);
    expect("the summary", strange.get(0).getSummary(), "From the future");
    expect("the payload", strange.get(0).getPayloadCase(), RunEvent.PayloadCase.PAYLOAD_NOT_SET);
  }

  private void unknownPart() {
    List<Part> parts =
        collected(agent.stream("future")).stream()
            .filter(RunEvent::hasTaskArtifact)
            .flatMap(event -> event.getTaskArtifact().getArtifact().getPartsList().stream())
            .toList();
    expect("the number of parts", parts.size(), 1);
    expect("the content", parts.get(0).getContentCase(), Part.ContentCase.CONTENT_NOT_SET);
    expect("the text to show", parts.get(0).getFallbackText(), "A part from the future");
  }

  private void unknownEnum() {
    List<Integer> states =
        collected(agent.stream("future")).stream()
            .filter(RunEvent::hasTaskStatus)
            .map(event -> event.getTaskStatus().getNewStateValue())
            .toList();
    expect("the states", states, List.of(77, TaskState.TASK_STATE_COMPLETED_VALUE));
  }

  private void missingEvent() {
    try (EventStream events = agent.stream("gap 5 count 10")) {
      ProtolinkException gap = refused(() -> events.forEachRemaining(event -> {}));
      expect("the code", gap.code(), Status.Code.DATA_LOSS);
      expect("the task of the error", gap.taskId(), events.taskId());
      expect("the last event before the gap", events.sequence(), 5L);
      try (EventStream rest = agent.subscribe(events.taskId(), events.sequence())) {
        List<Long> following = new ArrayList<>();
        rest.forEachRemaining(event -> following.add(event.getSequence()));
        expect("the events after it", following, LongStream.rangeClosed(6, 13).boxed().toList());
      }
    }
  }

  private void vectors() throws Exception {
    String folder = System.getenv("PLGRPC_VECTORS");
    if (folder == null || folder.isEmpty()) {
      throw new Skip("there is no folder of vectors");
    }
    Vectors.check(Path.of(folder));
  }
}
