package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.rpc.ErrorInfo;
import io.github.protolink_grpc.v1.AgentServiceGrpc;
import io.github.protolink_grpc.v1.SendTaskRequest;
import io.github.protolink_grpc.v1.SendTaskResponse;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskInput;
import io.github.protolink_grpc.v1.TaskTarget;
import io.github.protolink_grpc.v1.WaitFor;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors.CheckedForwardingClientCall;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

class SendTest {

  private static final Duration PATIENT = Duration.ofSeconds(30);
  private static final ErrorInfo OVERLOADED =
      ErrorInfo.newBuilder().setReason("OVERLOADED").build();

  private final ScriptedAgent agent = new ScriptedAgent();

  @Test
  void aRepetitionIsTheSameRequest() {
    agent.then(Status.UNAVAILABLE).then(Status.UNAVAILABLE).then(Status.OK);
    assertEquals(ScriptedAgent.TASK, send(PATIENT));
    SendTaskRequest first = (SendTaskRequest) agent.requests.get(0);
    assertFalse(first.getRequestId().isEmpty());
    assertEquals(first, agent.requests.get(1));
    assertEquals(first, agent.requests.get(2));
  }

  @Test
  void whatIsCutIsTheSameRequestAgain() {
    agent
        .then(Status.INTERNAL)
        .then(Status.UNKNOWN)
        .then(Status.CANCELLED)
        .then(PatienceTest.error(Status.Code.UNAVAILABLE, OVERLOADED))
        .then(Status.OK);
    assertEquals(ScriptedAgent.TASK, send(PATIENT));
    assertEquals(1, Set.copyOf(agent.requests).size());
  }

  @Test
  void anAnswerIsNotTriedAgain() {
    agent.then(PatienceTest.error(Status.Code.INTERNAL, OVERLOADED)).then(Status.OK);
    ProtolinkException error = assertThrows(ProtolinkException.class, () -> send(PATIENT));
    assertEquals(Status.Code.INTERNAL, error.code());
    assertEquals(1, agent.requests.size());
  }

  @Test
  void withoutPatienceNothingIsTriedAgain() {
    agent.then(Status.UNAVAILABLE).then(Status.OK);
    ProtolinkException error = assertThrows(ProtolinkException.class, () -> send(Duration.ZERO));
    assertEquals(Status.Code.UNAVAILABLE, error.code());
  }

  @Test
  void patienceIsATime() {
    AtomicInteger calls = new AtomicInteger();
    AgentServiceGrpc.AgentServiceImplBase down =
        new AgentServiceGrpc.AgentServiceImplBase() {
          @Override
          public void sendTask(SendTaskRequest request, StreamObserver<SendTaskResponse> observer) {
            calls.incrementAndGet();
            observer.onError(Status.UNAVAILABLE.asRuntimeException());
          }
        };
    try (Served served = Served.of(down);
        ProtolinkClient client =
            ProtolinkClient.builder(served.url()).patience(Duration.ofMillis(600)).build()) {
      long began = System.nanoTime();
      assertThrows(ProtolinkException.class, () -> client.send("hello"));
      long tookMillis = Duration.ofNanos(System.nanoTime() - began).toMillis();
      assertTrue(tookMillis >= 600 && tookMillis < 5_000, () -> tookMillis + " ms");
      assertTrue(calls.get() >= 3 && calls.get() <= 8, calls::toString);
    }
  }

  @Test
  void theErrorSaysTheIdThatTheTaskHasGot() {
    agent.then(Status.UNAVAILABLE);
    ProtolinkException error = assertThrows(ProtolinkException.class, () -> send(Duration.ZERO));
    SendTaskRequest sent = (SendTaskRequest) agent.requests.get(0);
    assertFalse(sent.getInput().getTaskId().isEmpty());
    assertEquals(sent.getInput().getTaskId(), error.taskId());
    assertTrue(error.getMessage().contains(error.taskId()), error.getMessage());
  }

  @Test
  void aReplyNamesATaskThatMustExist() {
    agent.then(Status.OK);
    call(PATIENT, client -> client.reply("t-1", "more"));
    SendTaskRequest sent = (SendTaskRequest) agent.requests.get(0);
    assertEquals("t-1", sent.getInput().getTaskId());
    assertEquals(TaskTarget.TASK_TARGET_CONTINUE, sent.getInput().getTarget());
    assertEquals("more", sent.getInput().getMessages(0).getParts(0).getText());
  }

  @Test
  void aTaskIsSubmittedWithoutWaiting() {
    agent.then(Status.OK);
    call(PATIENT, client -> client.submit(Tasks.of("hello")));
    SendTaskRequest sent = (SendTaskRequest) agent.requests.get(0);
    assertEquals(WaitFor.WAIT_FOR_ACCEPTED, sent.getWaitFor());
  }

  @Test
  void anInputSaysWhetherToCreateOrToContinue() {
    TaskInput create = Tasks.of("hello");
    assertEquals(create, sent(create));
    TaskInput anonymous = sent(Tasks.messages(Parts.text("hello")));
    assertEquals(TaskTarget.TASK_TARGET_CREATE, anonymous.getTarget());
    assertFalse(anonymous.getTaskId().isEmpty());
    // With an id and without a target the agent continues the task.
    TaskInput named = TaskInput.newBuilder().setTaskId("t-1").setExpectedSequence(7).build();
    assertEquals(named, sent(named));
    TaskTarget either = TaskTarget.TASK_TARGET_CREATE_OR_CONTINUE;
    TaskInput chosen = named.toBuilder().setTarget(either).build();
    assertEquals(chosen, sent(chosen));
    assertEquals(either, sent(TaskInput.newBuilder().setTarget(either).build()).getTarget());
  }

  private TaskInput sent(TaskInput input) {
    agent.then(Status.OK);
    call(PATIENT, client -> client.send(input));
    return ((SendTaskRequest) agent.requests.get(agent.requests.size() - 1)).getInput();
  }

  @Test
  void whatAnInterceptorThrowsFailsTheCallAtOnce() {
    ClientInterceptor early =
        new ClientInterceptor() {
          @Override
          public <Q, A> ClientCall<Q, A> interceptCall(
              MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
            throw new IllegalStateException("a bug");
          }
        };
    ClientInterceptor late =
        new ClientInterceptor() {
          @Override
          public <Q, A> ClientCall<Q, A> interceptCall(
              MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
            return new CheckedForwardingClientCall<>(next.newCall(method, options)) {
              @Override
              protected void checkedStart(Listener<A> listener, Metadata headers) {
                throw new IllegalStateException("a bug");
              }
            };
          }
        };
    for (ClientInterceptor each : List.of(early, late)) {
      try (ProtolinkClient client =
          ProtolinkClient.builder("127.0.0.1:1").intercept(each).build()) {
        assertTimeoutPreemptively(
            Duration.ofSeconds(5),
            () -> {
              ProtolinkException error =
                  assertThrows(ProtolinkException.class, () -> client.send("hello"));
              assertTrue(error.getMessage().contains("a bug"), error.getMessage());
              assertThrows(ProtolinkException.class, () -> client.stream("hello").hasNext());
            });
      }
    }
  }

  @Test
  void theStackTraceIsTheCallers() {
    agent.then(Status.INVALID_ARGUMENT);
    ProtolinkException error = assertThrows(ProtolinkException.class, () -> send(PATIENT));
    assertTrue(
        Arrays.stream(error.getStackTrace())
            .anyMatch(frame -> frame.getClassName().equals(SendTest.class.getName())));
  }

  @Test
  void aServerThatIsNotThereIsNamed() {
    String url;
    try (Served gone = Served.of(agent)) {
      url = gone.url();
    }
    try (ProtolinkClient client = ProtolinkClient.builder(url).patience(Duration.ZERO).build()) {
      ProtolinkException error = assertThrows(ProtolinkException.class, () -> client.send("hello"));
      assertEquals(Status.Code.UNAVAILABLE, error.code());
      assertTrue(
          error.getMessage().contains(url.substring("grpc://".length())), error.getMessage());
    }
  }

  @Test
  void whereThereIsNoTokenTheCallFails() {
    RuntimeException expired = new IllegalStateException("nobody has signed in");
    try (Served served = Served.of(agent);
        ProtolinkClient client =
            ProtolinkClient.builder(served.url())
                .bearerToken(
                    () -> {
                      throw expired;
                    })
                .build()) {
      ProtolinkException error = assertThrows(ProtolinkException.class, () -> client.send("hello"));
      assertTrue(error.getMessage().contains("nobody has signed in"), error.getMessage());
      assertThrows(ProtolinkException.class, () -> client.stream("hello").hasNext());
      assertEquals(List.of(), agent.requests);
    }
  }

  @Test
  void aClosedClientSendsNothing() {
    ProtolinkClient client = ProtolinkClient.connect("localhost:1");
    client.close();
    assertThrows(CancellationException.class, () -> client.send("hello"));
    assertThrows(CancellationException.class, () -> client.stream("hello").hasNext());
  }

  @Test
  void closingTheClientEndsCallsWithinAPause() throws Exception {
    try (Pausing pausing = new Pausing()) {
      CompletableFuture<?> call = pausing.client.sendAsync(Tasks.of("hello"));
      pausing.await();
      pausing.client.close();
      assertThrows(CancellationException.class, () -> call.get(1, TimeUnit.SECONDS));
    }
  }

  @Test
  void cancelingTheContextEndsCallsWithinAPause() throws Exception {
    try (Pausing pausing = new Pausing();
        Context.CancellableContext context = Context.current().withCancellation()) {
      CompletableFuture<?> call =
          context.call(() -> pausing.client.sendAsync(Tasks.of("hello")));
      pausing.await();
      context.cancel(null);
      assertThrows(CancellationException.class, () -> call.get(1, TimeUnit.SECONDS));
    }
  }

  @Test
  void theDeadlineOfTheContextIsADeadline() throws Exception {
    ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
    try (Pausing pausing = new Pausing();
        Context.CancellableContext context =
            Context.current().withDeadlineAfter(300, TimeUnit.MILLISECONDS, clock)) {
      pausing.isSilent = true;
      ProtolinkException late =
          assertThrows(
              ProtolinkException.class, () -> context.call(() -> pausing.client.send("hello")));
      assertEquals(Status.Code.DEADLINE_EXCEEDED, late.code());
      assertFalse(late.taskId().isEmpty());
    } finally {
      clock.shutdownNow();
    }
  }

  @Test
  void interruptingTheThreadEndsItsCallWithinAPause() throws Exception {
    try (Pausing pausing = new Pausing()) {
      CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
      Thread caller =
          new Thread(
              () -> {
                try {
                  pausing.client.send("hello");
                } catch (CancellationException e) {
                  interrupted.complete(Thread.currentThread().isInterrupted());
                }
              });
      caller.start();
      pausing.await();
      caller.interrupt();
      assertTrue(interrupted.get(1, TimeUnit.SECONDS));
    }
  }

  @Test
  void aServerThatComesBackIsFoundByTheNextAttempt() throws Exception {
    int port;
    try (Served gone = Served.of(agent)) {
      port = gone.server().getPort();
    }
    AttemptEnds ends = new AttemptEnds();
    try (ProtolinkClient client =
        ProtolinkClient.builder("127.0.0.1:" + port).intercept(ends).build()) {
      CompletableFuture<Task> call = client.sendAsync(Tasks.of("hello"));
      ends.await();
      ends.await();
      agent.then(Status.OK);
      try (Served back = Served.of(agent, port)) {
        assertEquals(port, back.server().getPort());
        int failed = ends.more();
        assertEquals(ScriptedAgent.TASK, call.get(10, TimeUnit.SECONDS).getId());
        assertTrue(ends.more() <= failed + 1, () -> ends.more() + " after " + failed);
      }
    }
  }

  /** A client whose calls are not answered, or refused with a pause of a minute. */
  private static final class Pausing extends AgentServiceGrpc.AgentServiceImplBase
      implements AutoCloseable {

    private final AttemptEnds ends = new AttemptEnds();
    private final Served served = Served.of(this);
    private volatile boolean isSilent;
    private final ProtolinkClient client =
        ProtolinkClient.builder(served.url())
            .patience(Duration.ofMinutes(2))
            .intercept(ends)
            .build();

    @Override
    public void sendTask(SendTaskRequest request, StreamObserver<SendTaskResponse> observer) {
      if (!isSilent) {
        observer.onError(
            PatienceTest.error(Status.Code.UNAVAILABLE, PatienceTest.retryAfter(60)));
      }
    }

    /** Returns once the client knows. */
    void await() throws InterruptedException {
      ends.await();
    }

    @Override
    public void close() {
      client.close();
      served.close();
    }
  }

  @Test
  void cancelingTheFutureCancelsTheCall() throws Exception {
    CountDownLatch arrived = new CountDownLatch(1);
    CountDownLatch canceled = new CountDownLatch(1);
    AgentServiceGrpc.AgentServiceImplBase slow =
        new AgentServiceGrpc.AgentServiceImplBase() {
          @Override
          public void sendTask(SendTaskRequest request, StreamObserver<SendTaskResponse> observer) {
            Context.current().addListener(context -> canceled.countDown(), Runnable::run);
            arrived.countDown();
          }
        };
    try (Served served = Served.of(slow);
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      CompletableFuture<?> answer = client.sendAsync(Tasks.of("hello"));
      assertTrue(arrived.await(5, TimeUnit.SECONDS));
      answer.cancel(true);
      assertTrue(canceled.await(5, TimeUnit.SECONDS));
    }
  }

  private String send(Duration patience) {
    return call(patience, client -> client.send("hello")).getId();
  }

  private Task call(Duration patience, Function<ProtolinkClient, Task> call) {
    try (Served served = Served.of(agent);
        ProtolinkClient client =
            ProtolinkClient.builder(served.url()).patience(patience).build()) {
      return call.apply(client);
    }
  }
}
