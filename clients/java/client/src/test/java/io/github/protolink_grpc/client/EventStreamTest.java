package io.github.protolink_grpc.client;

import static io.github.protolink_grpc.client.ScriptedAgent.TASK;
import static io.github.protolink_grpc.client.ScriptedAgent.event;
import static io.github.protolink_grpc.client.ScriptedAgent.last;
import static io.github.protolink_grpc.client.ScriptedAgent.question;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.rpc.ErrorInfo;
import io.github.protolink_grpc.v1.AgentServiceGrpc;
import io.github.protolink_grpc.v1.LlmCallStarted;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.StopAt;
import io.github.protolink_grpc.v1.StreamTaskRequest;
import io.github.protolink_grpc.v1.StreamTaskResponse;
import io.github.protolink_grpc.v1.SubscribeTaskRequest;
import io.github.protolink_grpc.v1.SubscribeTaskResponse;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskState;
import io.github.protolink_grpc.v1.TaskTarget;
import io.github.protolink_grpc.v1.Delta;
import io.github.protolink_grpc.v1.DeltaMode;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

class EventStreamTest {

  private static final Status CUT = Status.UNAVAILABLE.withDescription("cut");

  private final ScriptedAgent agent = new ScriptedAgent();
  private final List<Long> seen = new ArrayList<>();

  @Test
  void aCutStreamGoesOnAfterTheLastSequenceSeen() {
    agent.then(CUT, event(1), event(2)).then(CUT, event(3)).then(Status.OK, last(4));
    read(client -> client.stream("hello"));
    assertEquals(List.of(1L, 2L, 3L, 4L), seen);
    SubscribeTaskRequest second = (SubscribeTaskRequest) agent.requests.get(1);
    assertEquals(TASK, second.getTaskId());
    assertEquals(2, second.getAfterSequence());
    assertEquals(StopAt.STOP_AT_INTERRUPTED, second.getStopAt());
  }

  @Test
  void aStreamThatIsCutBeforeItsFirstEventIsTheSameRequestAgain() {
    agent.then(CUT).then(Status.OK, last(1));
    read(client -> client.stream("hello"));
    assertEquals(List.of(1L), seen);
    StreamTaskRequest first = (StreamTaskRequest) agent.requests.get(0);
    assertFalse(first.getRequestId().isEmpty());
    assertEquals(first, agent.requests.get(1));
  }

  @Test
  void noSequenceIsShownTwice() {
    agent.then(CUT, event(1), event(2)).then(Status.OK, event(1), event(2), event(2), last(3));
    read(client -> client.stream("hello"));
    assertEquals(List.of(1L, 2L, 3L), seen);
  }

  @Test
  void aSubscriptionShowsTheRetryOfATaskToo() {
    agent.then(Status.OK, event(1), last(2), event(3), last(4));
    read(client -> client.subscribe(TASK));
    assertEquals(List.of(1L, 2L, 3L, 4L), seen);
  }

  @Test
  void aGapIsAnErrorAfterWhatCameBeforeIt() {
    agent.then(Status.OK, event(1), event(3));
    ProtolinkException error =
        assertThrows(ProtolinkException.class, () -> read(client -> client.stream("hello")));
    assertEquals(Status.Code.DATA_LOSS, error.code());
    assertEquals(List.of(1L), seen);
  }

  @Test
  void aSubscriptionMustBeginRightAfterItsPosition() {
    agent.then(Status.OK, event(7));
    assertThrows(ProtolinkException.class, () -> read(client -> client.subscribe(TASK, 5)));
  }

  @Test
  void aContinuedTaskMayBeginAnywhere() {
    agent.then(Status.OK, event(7), last(8));
    read(client -> client.streamReply(TASK, Parts.text("more")));
    assertEquals(List.of(7L, 8L), seen);
  }

  @Test
  void everyKindOfCutIsOvercome() {
    agent
        .then(Status.INTERNAL, event(1))
        .then(Status.CANCELLED, event(2))
        .then(Status.UNKNOWN, event(3))
        .then(Status.OK, event(4))
        .then(Status.OK, last(5));
    read(client -> client.stream("hello"));
    assertEquals(List.of(1L, 2L, 3L, 4L, 5L), seen);
  }

  @Test
  void withoutPatienceNothingIsTriedAgain() {
    agent.then(CUT, event(1)).then(Status.OK, last(2));
    ProtolinkException error =
        assertThrows(
            ProtolinkException.class, () -> read(Duration.ZERO, client -> client.stream("hello")));
    assertEquals(Status.Code.UNAVAILABLE, error.code());
    assertEquals(List.of(1L), seen);
  }

  @Test
  void aStreamThatShowsOnlyWhatWasSeenMakesNoProgress() {
    AtomicInteger calls = new AtomicInteger();
    AgentServiceGrpc.AgentServiceImplBase stale =
        new AgentServiceGrpc.AgentServiceImplBase() {
          @Override
          public void subscribeTask(
              SubscribeTaskRequest request, StreamObserver<SubscribeTaskResponse> observer) {
            calls.incrementAndGet();
            observer.onNext(SubscribeTaskResponse.newBuilder().addEvents(event(1)).build());
            observer.onError(CUT.asRuntimeException());
          }
        };
    try (Served served = Served.of(stale);
        ProtolinkClient client =
            ProtolinkClient.builder(served.url()).patience(Duration.ofMillis(600)).build();
        EventStream events = client.subscribe(TASK)) {
      assertEquals(1, events.next().getSequence());
      assertThrows(ProtolinkException.class, events::hasNext);
      assertTrue(calls.get() >= 3 && calls.get() <= 8, calls::toString);
    }
  }

  @Test
  void aPositionThatTheLogNoLongerHasIsAnAnswer() {
    ErrorInfo compacted =
        ErrorInfo.newBuilder()
            .setDomain("protolink-grpc.github.io")
            .setReason(Reason.POSITION_COMPACTED)
            .putMetadata("first_sequence", "40")
            .build();
    agent.then(PatienceTest.error(Status.Code.OUT_OF_RANGE, compacted));
    ProtolinkException error =
        assertThrows(ProtolinkException.class, () -> read(client -> client.subscribe(TASK, 3)));
    assertEquals(Reason.POSITION_COMPACTED, error.reason());
    assertEquals("40", error.metadata().get("first_sequence"));
    assertEquals(1, agent.requests.size());
  }

  @Test
  void aTaskThatTheAgentHasForgottenIsAnErrorAndNotBegunAgain() {
    ErrorInfo forgotten =
        ErrorInfo.newBuilder()
            .setReason(Reason.TASK_NOT_FOUND)
            .setDomain("protolink-grpc.github.io")
            .build();
    agent.then(CUT, event(1)).then(PatienceTest.error(Status.Code.NOT_FOUND, forgotten));
    ProtolinkException error =
        assertThrows(ProtolinkException.class, () -> read(client -> client.stream("hello")));
    assertEquals(Reason.TASK_NOT_FOUND, error.reason());
    assertEquals(List.of(1L), seen);
    assertEquals(2, agent.requests.size());
  }

  @Test
  void anErrorThatTimeDoesNotHealEndsAtOnce() {
    agent.then(Status.PERMISSION_DENIED, event(1));
    ProtolinkException error =
        assertThrows(ProtolinkException.class, () -> read(client -> client.stream("hello")));
    assertEquals(Status.Code.PERMISSION_DENIED, error.code());
    assertEquals(1, agent.requests.size());
  }

  @Test
  void aCutAfterTheLastEventOfATurnIsNone() {
    agent.then(CUT, event(1), question(2));
    read(client -> client.stream("hello"));
    assertEquals(List.of(1L, 2L), seen);
    assertEquals(1, agent.requests.size());
  }

  @Test
  void aSubscriptionGoesOnThroughQuestions() {
    agent.then(Status.OK, question(1), event(2), last(3));
    read(client -> client.subscribe(TASK));
    assertEquals(List.of(1L, 2L, 3L), seen);
  }

  @Test
  void aSubscriptionToWhatIsStoredEndsInGoodOrder() {
    agent.then(Status.OK, event(1), event(2));
    SubscribeTaskRequest stored =
        SubscribeTaskRequest.newBuilder()
            .setTaskId(TASK)
            .setStopAt(StopAt.STOP_AT_CURRENT)
            .build();
    read(client -> client.subscribe(stored));
    assertEquals(List.of(1L, 2L), seen);
  }

  @Test
  void aSubscriptionAfterTheLastEventIsEmpty() {
    agent.task = Task.newBuilder().setState(TaskState.TASK_STATE_COMPLETED).setSequence(2).build();
    agent.then(Status.OK);
    read(client -> client.subscribe(TASK, 2));
    assertEquals(List.of(), seen);
  }

  @Test
  void anEmptySubscriptionToATaskThatWorksIsACut() {
    agent.task = Task.newBuilder().setState(TaskState.TASK_STATE_WORKING).setSequence(2).build();
    agent.then(Status.OK).then(Status.OK, last(3));
    read(client -> client.subscribe(TASK, 2));
    assertEquals(List.of(3L), seen);
  }

  @Test
  void aNewTaskHasItsIdBeforeTheAgentKnowsIt() {
    agent.then(Status.OK, last(1));
    read(
        client -> {
          EventStream events = client.stream("hello");
          assertFalse(events.taskId().isEmpty());
          return events;
        });
    StreamTaskRequest sent = (StreamTaskRequest) agent.requests.get(0);
    assertFalse(sent.getInput().getTaskId().isEmpty());
    assertEquals(TaskTarget.TASK_TARGET_CREATE, sent.getInput().getTarget());
    assertEquals(DeltaMode.DELTA_MODE_NONE, sent.getDeltas());
  }

  @Test
  void aReplyNamesATaskThatMustExist() {
    agent.then(Status.OK, last(8));
    read(client -> client.streamReply(TASK, Parts.text("more")));
    StreamTaskRequest sent = (StreamTaskRequest) agent.requests.get(0);
    assertEquals(TASK, sent.getInput().getTaskId());
    assertEquals(TaskTarget.TASK_TARGET_CONTINUE, sent.getInput().getTarget());
  }

  @Test
  void noTextIsShownTwice() {
    StringBuilder text = new StringBuilder();
    DeltaAgent deltas = new DeltaAgent();
    try (Served served = Served.of(deltas);
        ProtolinkClient client = ProtolinkClient.connect(served.url());
        EventStream events =
            client.stream(Tasks.of("hello"), delta -> text.append(delta.getText()))) {
      events.forEachRemaining(event -> seen.add(event.getSequence()));
    }
    assertEquals("tö be 🎉 or not", text.toString());
    assertEquals(List.of(1L, 2L), seen);
  }

  @Test
  void aModelCallThatIsTriedAgainIsShownFromItsBeginning() {
    StringBuilder text = new StringBuilder();
    AgentServiceGrpc.AgentServiceImplBase failing =
        new AgentServiceGrpc.AgentServiceImplBase() {
          @Override
          public void streamTask(
              StreamTaskRequest request, StreamObserver<StreamTaskResponse> observer) {
            for (int attempt = 1; attempt <= 2; attempt++) {
              LlmCallStarted started =
                  LlmCallStarted.newBuilder().setCallId("c").setAttempt(attempt).build();
              RunEvent begun = event(attempt).toBuilder().setLlmCallStarted(started).build();
              observer.onNext(StreamTaskResponse.newBuilder().addEvents(begun).build());
              Delta delta = DeltaAgent.delta(0, "try " + attempt + " ");
              observer.onNext(StreamTaskResponse.newBuilder().addDeltas(delta).build());
            }
            Delta anew = DeltaAgent.delta(0, "anew"); // without an event
            observer.onNext(StreamTaskResponse.newBuilder().addDeltas(anew).build());
            observer.onNext(StreamTaskResponse.newBuilder().addEvents(last(3)).build());
            observer.onCompleted();
          }
        };
    try (Served served = Served.of(failing);
        ProtolinkClient client = ProtolinkClient.connect(served.url());
        EventStream events =
            client.stream(Tasks.of("hello"), delta -> text.append(delta.getText()))) {
      events.forEachRemaining(event -> seen.add(event.getSequence()));
    }
    assertEquals("try 1 try 2 anew", text.toString());
  }

  @Test
  void whatTheCallersFunctionThrowsEndsTheStream() {
    StatusRuntimeException own = CUT.asRuntimeException(); // even if it looks like a cut
    try (Served served = Served.of(new DeltaAgent());
        ProtolinkClient client = ProtolinkClient.connect(served.url());
        EventStream events =
            client.stream(
                Tasks.of("hello"),
                delta -> {
                  throw own;
                })) {
      assertEquals(1, events.next().getSequence());
      assertSame(own, assertThrows(StatusRuntimeException.class, events::hasNext));
    }
  }

  /** Shows text, is cut, and shows it again with more. */
  private static final class DeltaAgent extends AgentServiceGrpc.AgentServiceImplBase {
    @Override
    public void streamTask(StreamTaskRequest request, StreamObserver<StreamTaskResponse> observer) {
      assertEquals(DeltaMode.DELTA_MODE_ALL, request.getDeltas());
      observer.onNext(StreamTaskResponse.newBuilder().addEvents(event(1)).build());
      observer.onNext(
          StreamTaskResponse.newBuilder()
              .addDeltas(delta(0, "tö "))
              .addDeltas(delta(4, "be 🎉"))
              .build());
      observer.onError(CUT.asRuntimeException());
    }

    @Override
    public void subscribeTask(
        SubscribeTaskRequest request, StreamObserver<SubscribeTaskResponse> observer) {
      assertEquals(DeltaMode.DELTA_MODE_ALL, request.getDeltas());
      observer.onNext(
          SubscribeTaskResponse.newBuilder()
              .addDeltas(delta(0, "tö be"))
              .addDeltas(delta(6, " 🎉 or"))
              .addDeltas(delta(14, " not"))
              .build());
      observer.onNext(SubscribeTaskResponse.newBuilder().addEvents(last(2)).build());
      observer.onCompleted();
    }

    private static Delta delta(long offset, String text) {
      return Delta.newBuilder().setCallId("c").setOffsetBytes(offset).setText(text).build();
    }
  }

  @Test
  void closingFromAnotherThreadEndsTheCallAndTheReading() throws Exception {
    try (Quiet quiet = new Quiet()) {
      EventStream events = quiet.client.stream("hello");
      assertEquals(1, events.next().getSequence());
      CompletableFuture<Throwable> reading = quiet.reading(events);
      events.close();
      assertInstanceOf(CancellationException.class, reading.get(5, TimeUnit.SECONDS));
      assertTrue(quiet.canceled.await(5, TimeUnit.SECONDS));
      assertThrows(CancellationException.class, events::hasNext);
    }
  }

  @Test
  void closingEndsAPause() throws Exception {
    try (Quiet quiet = new Quiet()) {
      EventStream events = quiet.client.stream("hello");
      assertEquals(1, events.next().getSequence());
      quiet.cut();
      CompletableFuture<Throwable> ended = new CompletableFuture<>();
      Thread reader =
          new Thread(
              () -> ended.complete(assertThrows(RuntimeException.class, events::hasNext)));
      reader.start();
      while (reader.getState() != Thread.State.WAITING) { // it has the cut: it waits in the pause
        assertFalse(ended.isDone());
        Thread.onSpinWait();
      }
      events.close();
      assertInstanceOf(CancellationException.class, ended.get(1, TimeUnit.SECONDS));
    }
  }

  @Test
  void interruptingTheReaderEndsTheCallAndTheReading() throws Exception {
    try (Quiet quiet = new Quiet();
        EventStream events = quiet.client.stream("hello")) {
      assertEquals(1, events.next().getSequence());
      CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
      Thread reader =
          new Thread(
              () -> {
                try {
                  events.hasNext();
                } catch (CancellationException e) {
                  interrupted.complete(Thread.currentThread().isInterrupted());
                }
              });
      reader.start();
      reader.interrupt();
      assertTrue(interrupted.get(5, TimeUnit.SECONDS));
      assertTrue(quiet.canceled.await(5, TimeUnit.SECONDS));
    }
  }

  @Test
  void aStreamThatIsLeftInABlockIsClosed() throws Exception {
    try (Quiet quiet = new Quiet()) {
      try (EventStream events = quiet.client.stream("hello")) {
        assertEquals(1, events.next().getSequence());
      }
      assertTrue(quiet.canceled.await(5, TimeUnit.SECONDS));
    }
  }

  @Test
  void aStreamThatIsForgottenIsClosed() throws Exception {
    try (Quiet quiet = new Quiet()) {
      assertEquals(1, quiet.client.stream("hello").next().getSequence());
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
      do {
        System.gc();
      } while (!quiet.canceled.await(50, TimeUnit.MILLISECONDS) && System.nanoTime() < end);
      assertEquals(0, quiet.canceled.getCount());
    }
  }

  /** An agent that shows one event and then says nothing, and a client of it. */
  private static final class Quiet extends AgentServiceGrpc.AgentServiceImplBase
      implements AutoCloseable {

    private final CountDownLatch canceled = new CountDownLatch(1);
    private final Served served = Served.of(this);
    private final AttemptEnds ends = new AttemptEnds();
    private final ProtolinkClient client =
        ProtolinkClient.builder(served.url()).intercept(ends).build();
    private volatile StreamObserver<StreamTaskResponse> observer;

    @Override
    public void streamTask(StreamTaskRequest request, StreamObserver<StreamTaskResponse> observer) {
      this.observer = observer;
      Context.current().addListener(context -> canceled.countDown(), Runnable::run);
      observer.onNext(StreamTaskResponse.newBuilder().addEvents(event(1)).build());
    }

    /** Tells the client to wait long before the next attempt; returns once it knows. */
    void cut() throws InterruptedException {
      observer.onError(PatienceTest.error(Status.Code.UNAVAILABLE, PatienceTest.retryAfter(50)));
      ends.await();
    }

    /** What ends the reading of one more event, in another thread. */
    CompletableFuture<Throwable> reading(EventStream events) {
      return CompletableFuture.supplyAsync(events::hasNext)
          .handle((more, error) -> error instanceof CompletionException ? error.getCause() : error);
    }

    @Override
    public void close() {
      client.close();
      served.close();
    }
  }

  private void read(Function<ProtolinkClient, EventStream> begin) {
    read(Duration.ofSeconds(30), begin);
  }

  private void read(Duration patience, Function<ProtolinkClient, EventStream> begin) {
    try (Served served = Served.of(agent);
        ProtolinkClient client = ProtolinkClient.builder(served.url()).patience(patience).build();
        EventStream events = begin.apply(client)) {
      for (RunEvent event : events) {
        seen.add(event.getSequence());
      }
    }
  }
}
