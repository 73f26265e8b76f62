package dev.protolink.client;

import static dev.protolink.client.ScriptedAgent.TASK;
import static dev.protolink.client.ScriptedAgent.event;
import static dev.protolink.client.ScriptedAgent.last;
import static dev.protolink.client.ScriptedAgent.question;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import dev.protolink.v1.AgentServiceGrpc;
import dev.protolink.v1.RunEvent;
import dev.protolink.v1.StopAt;
import dev.protolink.v1.StreamTaskRequest;
import dev.protolink.v1.StreamTaskResponse;
import dev.protolink.v1.SubscribeTaskRequest;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
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
    read(client -> client.stream(Tasks.reply(TASK, "more")));
    assertEquals(List.of(7L, 8L), seen);
  }

  @Test
  void attemptsWithoutProgressAreCountedAndProgressBeginsAnew() {
    agent.then(CUT, event(1)).then(CUT).then(CUT, event(2)).then(CUT).then(CUT, event(2));
    ProtolinkException error =
        assertThrows(ProtolinkException.class, () -> read(client -> client.stream("hello")));
    assertEquals(Status.Code.UNAVAILABLE, error.code());
    assertEquals(List.of(1L, 2L), seen);
    assertEquals(5, agent.requests.size());
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
  void aCleanEndWithoutAFinalEventIsAnEnd() {
    agent.then(Status.OK, event(1), event(2));
    read(client -> client.stream("hello"));
    assertEquals(List.of(1L, 2L), seen);
  }

  @Test
  void closingFromAnotherThreadEndsTheCallAndTheReading() throws Exception {
    CountDownLatch canceled = new CountDownLatch(1);
    AgentServiceGrpc.AgentServiceImplBase quiet =
        new AgentServiceGrpc.AgentServiceImplBase() {
          @Override
          public void streamTask(
              StreamTaskRequest request, StreamObserver<StreamTaskResponse> observer) {
            Context.current().addListener(context -> canceled.countDown(), Runnable::run);
            observer.onNext(StreamTaskResponse.newBuilder().addEvents(event(1)).build());
          }
        };
    try (Served served = Served.of(quiet);
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      EventStream events = client.stream("hello");
      assertEquals(1, events.next().getSequence());
      CompletableFuture<Boolean> more = CompletableFuture.supplyAsync(events::hasNext);
      events.close();
      assertTimeoutPreemptively(
          Duration.ofSeconds(5),
          () -> {
            assertFalse(more.get());
            canceled.await();
          });
    }
  }

  private void read(Function<ProtolinkClient, EventStream> begin) {
    try (Served served = Served.of(agent);
        ProtolinkClient client = ProtolinkClient.builder(served.url()).maxAttempts(3).build();
        EventStream events = begin.apply(client)) {
      for (RunEvent event : events) {
        seen.add(event.getSequence());
      }
    }
  }
}
