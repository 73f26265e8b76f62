package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.protolink_grpc.v1.CreateSessionRequest;
import io.github.protolink_grpc.v1.CreateSessionResponse;
import io.github.protolink_grpc.v1.DeleteSessionRequest;
import io.github.protolink_grpc.v1.DeleteSessionResponse;
import io.github.protolink_grpc.v1.ListSessionsRequest;
import io.github.protolink_grpc.v1.ListSessionsResponse;
import io.github.protolink_grpc.v1.RemoveQueuedTurnRequest;
import io.github.protolink_grpc.v1.RemoveQueuedTurnResponse;
import io.github.protolink_grpc.v1.ResumeThreadRequest;
import io.github.protolink_grpc.v1.ResumeThreadResponse;
import io.github.protolink_grpc.v1.RollbackThreadRequest;
import io.github.protolink_grpc.v1.RollbackThreadResponse;
import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.RuntimeEvent;
import io.github.protolink_grpc.v1.Session;
import io.github.protolink_grpc.v1.SessionEvent;
import io.github.protolink_grpc.v1.SessionSegment;
import io.github.protolink_grpc.v1.SessionServiceGrpc;
import io.github.protolink_grpc.v1.StreamRuntimeEventsRequest;
import io.github.protolink_grpc.v1.StreamRuntimeEventsResponse;
import io.github.protolink_grpc.v1.StreamTurnRequest;
import io.github.protolink_grpc.v1.StreamTurnResponse;
import io.github.protolink_grpc.v1.SubmitTurnRequest;
import io.github.protolink_grpc.v1.SubmitTurnResponse;
import io.github.protolink_grpc.v1.SubscribeSessionRequest;
import io.github.protolink_grpc.v1.SubscribeSessionResponse;
import io.github.protolink_grpc.v1.Thread;
import io.github.protolink_grpc.v1.Turn;
import io.github.protolink_grpc.v1.UpdateQueuedTurnRequest;
import io.github.protolink_grpc.v1.UpdateQueuedTurnResponse;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import org.junit.jupiter.api.Test;

class SessionsTest {

  /** An agent whose answers get lost so often, and whose streams are each cut after their events. */
  private static final class Host extends SessionServiceGrpc.SessionServiceImplBase {

    private int lost;
    private final List<String> ids = Collections.synchronizedList(new ArrayList<>());
    private final List<Long> positions = Collections.synchronizedList(new ArrayList<>());
    private final Deque<List<Long>> turns = new ArrayDeque<>();
    private final Deque<List<SessionSegment>> segments = new ArrayDeque<>();
    private final Deque<List<Long>> runtimeEvents = new ArrayDeque<>();

    private <A> void answer(String id, A answer, StreamObserver<A> observer) {
      ids.add(id);
      if (lost-- > 0) {
        observer.onError(Status.UNAVAILABLE.asRuntimeException());
        return;
      }
      observer.onNext(answer);
      observer.onCompleted();
    }

    @Override
    public void createSession(
        CreateSessionRequest request, StreamObserver<CreateSessionResponse> observer) {
      String id = request.getSessionId();
      Session session = Session.newBuilder().setSessionId(id).build();
      answer(id, CreateSessionResponse.newBuilder().setSession(session).build(), observer);
    }

    @Override
    public void listSessions(
        ListSessionsRequest request, StreamObserver<ListSessionsResponse> observer) {
      String id = request.getPageToken().isEmpty() ? "a" : "b";
      answer(
          id,
          ListSessionsResponse.newBuilder()
              .addSessions(Session.newBuilder().setSessionId(id))
              .setNextPageToken(request.getPageToken().isEmpty() ? "more" : "")
              .build(),
          observer);
    }

    @Override
    public void submitTurn(
        SubmitTurnRequest request, StreamObserver<SubmitTurnResponse> observer) {
      String id = request.getTurnId();
      Turn turn = Turn.newBuilder().setTurnId(id).build();
      answer(id, SubmitTurnResponse.newBuilder().setTurn(turn).build(), observer);
    }

    @Override
    public void removeQueuedTurn(
        RemoveQueuedTurnRequest request, StreamObserver<RemoveQueuedTurnResponse> observer) {
      observer.onError(Status.FAILED_PRECONDITION.asRuntimeException());
    }

    @Override
    public void deleteSession(
        DeleteSessionRequest request, StreamObserver<DeleteSessionResponse> observer) {
      answer(
          request.getSessionId(),
          DeleteSessionResponse.newBuilder().setTurnCount(3).build(),
          observer);
    }

    @Override
    public void updateQueuedTurn(
        UpdateQueuedTurnRequest request, StreamObserver<UpdateQueuedTurnResponse> observer) {
      String text = Parts.text(request.getMessages(0).getPartsList());
      Turn turn = Turn.newBuilder().setTurnId(request.getTurnId()).setReason(text).build();
      answer(text, UpdateQueuedTurnResponse.newBuilder().setTurn(turn).build(), observer);
    }

    @Override
    public void rollbackThread(
        RollbackThreadRequest request, StreamObserver<RollbackThreadResponse> observer) {
      Thread thread = Thread.newBuilder().setTitle(request.getReason()).build();
      answer(
          request.getTurnId(),
          RollbackThreadResponse.newBuilder().setThread(thread).build(),
          observer);
    }

    @Override
    public void resumeThread(
        ResumeThreadRequest request, StreamObserver<ResumeThreadResponse> observer) {
      Turn turn = Turn.newBuilder().setTurnId("a").build();
      answer(
          request.getSessionId(),
          ResumeThreadResponse.newBuilder().addResumed(turn).build(),
          observer);
    }

    @Override
    public void streamRuntimeEvents(
        StreamRuntimeEventsRequest request,
        StreamObserver<StreamRuntimeEventsResponse> observer) {
      positions.add(request.getAfterSequence());
      StreamRuntimeEventsResponse.Builder response = StreamRuntimeEventsResponse.newBuilder();
      for (long sequence : runtimeEvents.remove()) {
        response.addEvents(RuntimeEvent.newBuilder().setSequence(sequence));
      }
      observer.onNext(response.build());
      if (positions.size() < 3) {
        observer.onError(Status.UNAVAILABLE.asRuntimeException());
      } else {
        observer.onCompleted();
      }
    }

    @Override
    public void streamTurn(
        StreamTurnRequest request, StreamObserver<StreamTurnResponse> observer) {
      positions.add(request.getAfterSequence());
      StreamTurnResponse.Builder response = StreamTurnResponse.newBuilder();
      turns.remove().forEach(sequence -> response.addEvents(event(sequence)));
      observer.onNext(response.build());
      observer.onError(Status.UNAVAILABLE.asRuntimeException());
    }

    @Override
    public void subscribeSession(
        SubscribeSessionRequest request, StreamObserver<SubscribeSessionResponse> observer) {
      positions.add(request.getAfterPosition());
      observer.onNext(
          SubscribeSessionResponse.newBuilder().addAllSegments(segments.remove()).build());
      observer.onCompleted(); // which for a session is a cut, too
    }
  }

  private static RunEvent event(long sequence) {
    return RunEvent.newBuilder()
        .setTaskId("t-1")
        .setSequence(sequence)
        .setLast(sequence == 9)
        .build();
  }

  private static SessionSegment own(long first, int count) {
    SessionSegment.Builder segment = SessionSegment.newBuilder().setFirstPosition(first);
    Collections.nCopies(count, SessionEvent.getDefaultInstance()).forEach(segment::addSessionEvents);
    return segment.build();
  }

  private static SessionSegment task(long first, long... sequences) {
    SessionSegment.Builder segment = SessionSegment.newBuilder().setFirstPosition(first);
    Arrays.stream(sequences).forEach(sequence -> segment.addEvents(event(sequence)));
    return segment.build();
  }

  @Test
  void aSubmittedTurnWhoseAnswersGetLostIsOneTurn() {
    Host host = new Host();
    host.lost = 2;
    try (Served served = Served.of(host);
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      String turnId = client.sessions().submit("s", "hello").getTurnId();
      assertFalse(turnId.isEmpty());
      assertEquals(Collections.nCopies(3, turnId), host.ids);
    }
  }

  @Test
  void aNewSessionHasItsIdInEveryAttempt() {
    Host host = new Host();
    host.lost = 1;
    try (Served served = Served.of(host);
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      client.sessions().create(CreateSessionRequest.getDefaultInstance());
      assertEquals(2, host.ids.size());
      assertEquals(1, new HashSet<>(host.ids).size());
    }
  }

  @Test
  void sessionsAreListedPageByPage() {
    try (Served served = Served.of(new Host());
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      ListSessionsRequest all = ListSessionsRequest.getDefaultInstance();
      assertEquals(
          List.of("a", "b"), client.sessions().list(all).map(Session::getSessionId).toList());
    }
  }

  @Test
  void aTurnThatHasLeftTheQueueIsATypedError() {
    try (Served served = Served.of(new Host());
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      ProtolinkException error =
          assertThrows(ProtolinkException.class, () -> client.sessions().remove("s", "t"));
      assertEquals(Status.Code.FAILED_PRECONDITION, error.code());
    }
  }

  @Test
  void theStreamOfATurnResumesAfterItsLastEvent() {
    Host host = new Host();
    host.turns.addAll(List.of(List.of(), List.of(4L, 5L), List.of(5L, 6L, 7L), List.of(8L, 9L)));
    List<Long> shown = new ArrayList<>();
    try (Served served = Served.of(host);
        ProtolinkClient client = ProtolinkClient.connect(served.url());
        EventStream events = client.sessions().stream("s", "t")) {
      events.forEachRemaining(each -> shown.add(each.getSequence()));
    }
    assertEquals(List.of(4L, 5L, 6L, 7L, 8L, 9L), shown);
    assertEquals(List.of(0L, 0L, 5L, 7L), host.positions);
  }

  @Test
  void theStreamOfASessionResumesAfterItsLastPosition() {
    Host host = new Host();
    host.segments.add(List.of());
    host.segments.add(List.of(own(4, 2), task(6, 1)));
    host.segments.add(List.of(task(6, 1, 2)));
    host.segments.add(List.of(task(8, 3), own(9, 1)));
    List<String> shown = new ArrayList<>();
    try (Served served = Served.of(host);
        ProtolinkClient client = ProtolinkClient.connect(served.url());
        ResumingStream<SessionItem> items = client.sessions().subscribe("s", 3)) {
      while (shown.size() < 6) {
        SessionItem item = items.next();
        shown.add(item.position() + (item.event() == null ? "" : " " + item.event().getSequence()));
      }
    }
    assertEquals(List.of("4", "5", "6 1", "7 2", "8 3", "9"), shown);
    assertEquals(List.of(3L, 3L, 6L, 7L), host.positions);
  }

  @Test
  void callsAboutThreadsSendWhatTheyChangeAndReturnIt() {
    Host host = new Host();
    try (Served served = Served.of(host);
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      Sessions sessions = client.sessions();
      assertEquals("another", sessions.replaceInput("s", "a", "another").getReason());
      assertEquals("wrong", sessions.rollBack("s", "b", "wrong").getTitle());
      assertEquals("a", sessions.resume("s").getResumed(0).getTurnId());
      assertEquals(3, sessions.delete("s").getTurnCount());
    }
    assertEquals(List.of("another", "b", "s", "s"), host.ids);
  }

  @Test
  void theStreamOfRuntimeEventsResumesAfterItsLastSequence() {
    Host host = new Host();
    host.runtimeEvents.addAll(List.of(List.of(), List.of(16L, 17L), List.of(17L, 32L)));
    host.runtimeEvents.add(List.of(48L)); // after a stream that ended too early
    StreamRuntimeEventsRequest request =
        StreamRuntimeEventsRequest.newBuilder().setSessionId("s").setAfterSequence(3).build();
    List<Long> shown = new ArrayList<>();
    try (Served served = Served.of(host);
        ProtolinkClient client = ProtolinkClient.connect(served.url());
        ResumingStream<RuntimeEvent> events = client.sessions().runtimeEvents(request)) {
      while (shown.size() < 4) {
        shown.add(events.next().getSequence());
      }
    }
    assertEquals(List.of(16L, 17L, 32L, 48L), shown);
    assertEquals(List.of(3L, 3L, 17L, 32L), host.positions);
  }

  @Test
  void theStreamOfRuntimeEventsEndsWhereItWasAskedTo() {
    Host host = new Host();
    host.runtimeEvents.addAll(List.of(List.of(16L), List.of(), List.of(32L)));
    StreamRuntimeEventsRequest request =
        StreamRuntimeEventsRequest.newBuilder().setSessionId("s").setStopAtEnd(true).build();
    List<Long> shown = new ArrayList<>();
    try (Served served = Served.of(host);
        ProtolinkClient client = ProtolinkClient.connect(served.url());
        ResumingStream<RuntimeEvent> events = client.sessions().runtimeEvents(request)) {
      events.forEachRemaining(each -> shown.add(each.getSequence()));
    }
    assertEquals(List.of(16L, 32L), shown);
    assertEquals(List.of(0L, 16L, 16L), host.positions);
  }
}
