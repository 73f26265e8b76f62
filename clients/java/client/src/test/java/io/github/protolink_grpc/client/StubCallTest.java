package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.util.concurrent.ListenableFuture;
import com.google.rpc.ErrorInfo;
import io.github.protolink_grpc.v1.AgentServiceGrpc;
import io.github.protolink_grpc.v1.SendTaskRequest;
import io.github.protolink_grpc.v1.SubscribeTaskRequest;
import io.github.protolink_grpc.v1.Task;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.ForwardingServerCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Calls of a service that is not plgrpc's own, as generated stubs make them. */
class StubCallTest {

  private static final Duration LONG = Duration.ofSeconds(20);
  private static final Task REQUEST = Task.newBuilder().setId("echoed").build();
  private static final MethodDescriptor<Task, Task> ECHO =
      MethodDescriptor.<Task, Task>newBuilder()
          .setType(MethodDescriptor.MethodType.UNARY)
          .setFullMethodName("acme.echo.v1.Echo/Echo")
          .setRequestMarshaller(ProtoUtils.marshaller(Task.getDefaultInstance()))
          .setResponseMarshaller(ProtoUtils.marshaller(Task.getDefaultInstance()))
          .build();

  private static final MethodDescriptor<Task, Task> COUNT =
      ECHO.toBuilder()
          .setType(MethodDescriptor.MethodType.SERVER_STREAMING)
          .setFullMethodName("acme.echo.v1.Echo/Count")
          .build();

  /** The responses of one call of COUNT, from 1 on, and how it ends. */
  private record Counted(int upTo, Status end) {}

  private final Deque<Counted> streams = new ArrayDeque<>();
  private String taskId = "t-1";
  private final Deque<StatusRuntimeException> failures = new ArrayDeque<>();
  private final List<Metadata> headers = new CopyOnWriteArrayList<>();
  private final CountDownLatch called = new CountDownLatch(1);
  private boolean answers = true;

  private Served echo() {
    ServerServiceDefinition echo =
        ServerServiceDefinition.builder("acme.echo.v1.Echo")
            .addMethod(ECHO, ServerCalls.asyncUnaryCall(this::answer))
            .addMethod(COUNT, ServerCalls.asyncServerStreamingCall(this::count))
            .build();
    return Served.of(() -> ServerInterceptors.intercept(echo, new Listening()));
  }

  private void answer(Task request, StreamObserver<Task> observer) {
    called.countDown();
    if (!failures.isEmpty()) {
      observer.onError(failures.remove());
    } else if (answers) {
      observer.onNext(request);
      observer.onCompleted();
    }
  }

  private void count(Task request, StreamObserver<Task> observer) {
    called.countDown();
    Counted counted = streams.remove();
    for (int number = 1; number <= counted.upTo(); number++) {
      observer.onNext(Task.newBuilder().setId("" + number).build());
    }
    if (counted.end() == null) {
      return; // it stays open
    }
    if (counted.end().isOk()) {
      observer.onCompleted();
    } else {
      observer.onError(counted.end().asRuntimeException());
    }
  }

  private static List<String> numbers(int upTo) {
    return IntStream.rangeClosed(1, upTo).mapToObj(Integer::toString).toList();
  }

  /** Reads responses into a list until the stream ends. */
  private static void read(Channel channel, List<String> numbers) {
    Iterator<Task> responses =
        ClientCalls.blockingServerStreamingCall(channel, COUNT, CallOptions.DEFAULT, REQUEST);
    responses.forEachRemaining(response -> numbers.add(response.getId()));
  }

  /** Remembers the headers of calls. */
  private final class Listening implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata received, ServerCallHandler<Q, A> next) {
      headers.add(received);
      Metadata answered = new Metadata();
      if (!taskId.isEmpty()) {
        answered.put(ProtolinkException.TASK_ID, taskId);
      }
      return next.startCall(
          new ForwardingServerCall.SimpleForwardingServerCall<>(call) {
            @Override
            public void sendHeaders(Metadata sent) {
              sent.merge(answered);
              super.sendHeaders(sent);
            }
          },
          received);
    }
  }

  private List<String> sent(String name) {
    return headers.stream().map(each -> each.get(CallerCredentials.key(name))).toList();
  }

  private static Task call(Channel channel) {
    return ClientCalls.blockingUnaryCall(channel, ECHO, CallOptions.DEFAULT, REQUEST);
  }

  private static Channel with(Channel channel, String name, String value) {
    Metadata header = new Metadata();
    header.put(CallerCredentials.key(name), value);
    return ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(header));
  }

  @Test
  void aCallIsRetriedUnderOneRequestId() {
    failures.add(Status.UNAVAILABLE.asRuntimeException());
    failures.add(Status.UNKNOWN.asRuntimeException());
    try (Served server = echo();
        ProtolinkClient client =
            ProtolinkClient.builder(server.url()).apiKey("k").header("x-tenant", "acme").build()) {
      assertEquals(REQUEST, call(client.channel()));
    }
    assertEquals(3, headers.size());
    assertEquals(1, Set.copyOf(sent("x-request-id")).size());
    assertEquals(List.of("k", "k", "k"), sent("x-api-key"));
    assertEquals(List.of("acme", "acme", "acme"), sent("x-tenant"));
  }

  @Test
  void aFutureIsRetriedToo() throws Exception {
    failures.add(Status.UNAVAILABLE.asRuntimeException());
    try (Served server = echo();
        ProtolinkClient client = ProtolinkClient.connect(server.url())) {
      ListenableFuture<Task> future =
          ClientCalls.futureUnaryCall(
              client.channel().newCall(ECHO, CallOptions.DEFAULT), REQUEST);
      assertEquals(REQUEST, future.get(LONG.toSeconds(), TimeUnit.SECONDS));
    }
    assertEquals(2, headers.size());
  }

  @Test
  void eachCallHasARequestIdOfItsOwnUnlessItsCallerHasChosenOne() {
    try (Served server = echo();
        ProtolinkClient client = ProtolinkClient.connect(server.url())) {
      call(client.channel());
      call(client.channel());
      call(with(client.channel(), "x-request-id", "mine"));
    }
    assertNotEquals(sent("x-request-id").get(0), sent("x-request-id").get(1));
    assertEquals("mine", sent("x-request-id").get(2));
  }

  @Test
  void anAnswerOfTheAgentIsNotRetriedAndNamesItsTask() {
    ErrorInfo info =
        ErrorInfo.newBuilder()
            .setReason(Reason.TOOL_REJECTED)
            .setDomain("protolink-grpc.github.io")
            .putMetadata("task_id", "t-1")
            .build();
    failures.add(
        (StatusRuntimeException)
            PatienceTest.error(Status.Code.INVALID_ARGUMENT, info).getCause());
    try (Served server = echo();
        ProtolinkClient client = ProtolinkClient.connect(server.url())) {
      StatusRuntimeException thrown =
          assertThrows(StatusRuntimeException.class, () -> call(client.channel()));
      ProtolinkException error = ProtolinkException.from(thrown);
      assertEquals(Reason.TOOL_REJECTED, error.reason());
      assertEquals("t-1", error.taskId());
    }
    assertEquals(1, headers.size());
  }

  @Test
  void withoutPatienceACutIsTheErrorOfTheStub() {
    failures.add(Status.UNAVAILABLE.withDescription("cut").asRuntimeException());
    try (Served server = echo();
        ProtolinkClient client =
            ProtolinkClient.builder(server.url()).patience(Duration.ZERO).build()) {
      StatusRuntimeException thrown =
          assertThrows(StatusRuntimeException.class, () -> call(client.channel()));
      assertEquals("cut", thrown.getStatus().getDescription());
    }
    assertEquals(1, headers.size());
  }

  @Test
  void theDeadlineOfTheClientBoundsACallWhoseErrorNamesTheChosenTask() {
    answers = false;
    try (Served server = echo();
        ProtolinkClient client =
            ProtolinkClient.builder(server.url()).deadline(Duration.ofMillis(200)).build()) {
      StatusRuntimeException thrown =
          assertThrows(
              StatusRuntimeException.class,
              () -> call(with(client.channel(), "x-task-id", "t-2")));
      ProtolinkException error = ProtolinkException.from(thrown);
      assertEquals(Status.Code.DEADLINE_EXCEEDED, error.code());
      assertEquals("t-2", error.taskId());
    }
  }

  @Test
  void theDeadlineOfTheContextBoundsACallInAPause() {
    ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    Context.CancellableContext context =
        Context.current()
            .withDeadlineAfter(
                300,
                TimeUnit.MILLISECONDS,
                timer);
    for (int i = 0; i < 100; i++) {
      failures.add(Status.UNAVAILABLE.asRuntimeException());
    }
    try (Served server = echo();
        ProtolinkClient client = ProtolinkClient.connect(server.url())) {
      assertTimeoutPreemptively(
          LONG,
          () ->
              context.run(
                  () ->
                      assertThrows(StatusRuntimeException.class, () -> call(client.channel()))));
    } finally {
      context.cancel(null);
      timer.shutdownNow();
    }
  }

  @Test
  void whatAnInterceptorThrowsIsTheErrorOfTheStubAndIsNotRetried() {
    AtomicInteger attempts = new AtomicInteger();
    ClientInterceptor failing =
        new ClientInterceptor() {
          @Override
          public <Q, A> ClientCall<Q, A> interceptCall(
              MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
            if (attempts.incrementAndGet() == 2) {
              throw new IllegalStateException("thrown here");
            }
            return next.newCall(method, options);
          }
        };
    failures.add(Status.UNAVAILABLE.asRuntimeException());
    try (Served server = echo();
        ProtolinkClient client = ProtolinkClient.builder(server.url()).intercept(failing).build()) {
      StatusRuntimeException thrown =
          assertTimeoutPreemptively(
              LONG,
              () -> assertThrows(StatusRuntimeException.class, () -> call(client.channel())));
      assertEquals("thrown here", thrown.getStatus().getDescription());
    }
    assertEquals(2, attempts.get());
  }

  @Test
  void cancelingAFutureAndClosingTheClientEndACall() throws Exception {
    answers = false;
    try (Served server = echo()) {
      ProtolinkClient client = ProtolinkClient.connect(server.url());
      ListenableFuture<Task> canceled =
          ClientCalls.futureUnaryCall(
              client.channel().newCall(ECHO, CallOptions.DEFAULT), REQUEST);
      assertTrue(called.await(LONG.toSeconds(), TimeUnit.SECONDS));
      canceled.cancel(true);
      assertThrows(CancellationException.class, canceled::get);
      ListenableFuture<Task> open =
          ClientCalls.futureUnaryCall(
              client.channel().newCall(ECHO, CallOptions.DEFAULT), REQUEST);
      client.close();
      ExecutionException ended =
          assertThrows(
              ExecutionException.class, () -> open.get(LONG.toSeconds(), TimeUnit.SECONDS));
      assertEquals(Status.Code.CANCELLED, Status.fromThrowable(ended.getCause()).getCode());
    }
  }

  @Test
  void aStreamOfATaskContinuesAfterInterruptionsAndShowsEachResponseOnce() {
    streams.add(new Counted(0, Status.UNAVAILABLE));
    streams.add(new Counted(3, Status.UNAVAILABLE));
    streams.add(new Counted(2, Status.INTERNAL));
    streams.add(new Counted(5, Status.UNAVAILABLE));
    streams.add(new Counted(7, Status.OK));
    List<String> received = new ArrayList<>();
    try (Served server = echo();
        ProtolinkClient client = ProtolinkClient.connect(server.url())) {
      read(client.channel(), received);
    }
    assertEquals(numbers(7), received);
    assertEquals(5, headers.size());
    assertEquals(1, Set.copyOf(sent("x-request-id")).size());
  }

  @Test
  void aStreamWithoutATaskIsRepeatedUntilItsFirstResponseOnly() {
    taskId = "";
    streams.add(new Counted(0, Status.UNAVAILABLE));
    streams.add(new Counted(2, Status.UNAVAILABLE.withDescription("cut")));
    List<String> received = new ArrayList<>();
    try (Served server = echo();
        ProtolinkClient client = ProtolinkClient.connect(server.url())) {
      StatusRuntimeException thrown =
          assertThrows(StatusRuntimeException.class, () -> read(client.channel(), received));
      assertEquals("cut", thrown.getStatus().getDescription());
    }
    assertEquals(numbers(2), received);
  }

  @Test
  void anErrorOfTheAgentEndsAStreamAfterTheResponsesBeforeIt() {
    streams.add(new Counted(2, Status.INVALID_ARGUMENT));
    List<String> received = new ArrayList<>();
    try (Served server = echo();
        ProtolinkClient client = ProtolinkClient.connect(server.url())) {
      StatusRuntimeException thrown =
          assertThrows(StatusRuntimeException.class, () -> read(client.channel(), received));
      assertEquals(Status.Code.INVALID_ARGUMENT, thrown.getStatus().getCode());
    }
    assertEquals(numbers(2), received);
  }

  @Test
  void aStreamGivesUpWhenThePatienceHasRunOut() {
    streams.add(new Counted(3, Status.UNAVAILABLE));
    for (int i = 0; i < 100; i++) {
      streams.add(new Counted(1, Status.UNAVAILABLE));
    }
    List<String> received = new ArrayList<>();
    try (Served server = echo();
        ProtolinkClient client =
            ProtolinkClient.builder(server.url()).patience(Duration.ofMillis(300)).build()) {
      assertThrows(StatusRuntimeException.class, () -> read(client.channel(), received));
    }
    assertEquals(numbers(3), received);
    assertTrue(headers.size() < 10, "calls: " + headers.size());
  }

  @Test
  void theReaderOfAStreamSetsThePace() throws Exception {
    streams.add(new Counted(3, Status.UNAVAILABLE));
    streams.add(new Counted(9, Status.OK));
    List<String> received = new CopyOnWriteArrayList<>();
    CountDownLatch done = new CountDownLatch(1);
    try (Served server = echo();
        ProtolinkClient client = ProtolinkClient.connect(server.url())) {
      ClientCalls.asyncServerStreamingCall(
          client.channel().newCall(COUNT, CallOptions.DEFAULT),
          REQUEST,
          new ClientResponseObserver<Task, Task>() {
            private ClientCallStreamObserver<Task> requests;

            @Override
            public void beforeStart(ClientCallStreamObserver<Task> requests) {
              this.requests = requests;
              requests.disableAutoRequestWithInitial(1);
            }

            @Override
            public void onNext(Task response) {
              received.add(response.getId());
              if (received.size() == 5) {
                requests.cancel("enough", null); // the others were not asked for
              } else {
                requests.request(1);
              }
            }

            @Override
            public void onError(Throwable thrown) {
              done.countDown();
            }

            @Override
            public void onCompleted() {
              done.countDown();
            }
          });
      assertTrue(done.await(LONG.toSeconds(), TimeUnit.SECONDS));
    }
    assertEquals(numbers(5), received);
  }

  @Test
  void closingTheClientEndsAStream() throws Exception {
    streams.add(new Counted(1, null));
    try (Served server = echo()) {
      ProtolinkClient client = ProtolinkClient.connect(server.url());
      Iterator<Task> responses =
          ClientCalls.blockingServerStreamingCall(
              client.channel(), COUNT, CallOptions.DEFAULT, REQUEST);
      assertEquals("1", responses.next().getId());
      client.close();
      StatusRuntimeException ended =
          assertTimeoutPreemptively(
              LONG, () -> assertThrows(StatusRuntimeException.class, responses::hasNext));
      assertEquals(Status.Code.CANCELLED, ended.getStatus().getCode());
    }
  }

  @Test
  void callsOfTheContractsOwnServicesAndStreamsAreMadeOnce() {
    ScriptedAgent agent =
        new ScriptedAgent().then(Status.UNAVAILABLE).then(Status.UNAVAILABLE).then(Status.OK);
    try (Served server = Served.of(agent);
        ProtolinkClient client = ProtolinkClient.connect(server.url())) {
      AgentServiceGrpc.AgentServiceBlockingStub stub =
          AgentServiceGrpc.newBlockingStub(client.channel());
      assertThrows(
          StatusRuntimeException.class, () -> stub.sendTask(SendTaskRequest.getDefaultInstance()));
      assertThrows(
          StatusRuntimeException.class,
          () -> stub.subscribeTask(SubscribeTaskRequest.getDefaultInstance()).hasNext());
    }
    assertEquals(2, agent.requests.size());
  }
}
