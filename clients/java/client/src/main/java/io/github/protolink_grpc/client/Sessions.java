package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.CreateSessionRequest;
import io.github.protolink_grpc.v1.CreateSessionResponse;
import io.github.protolink_grpc.v1.DeleteSessionRequest;
import io.github.protolink_grpc.v1.DeleteSessionResponse;
import io.github.protolink_grpc.v1.Delta;
import io.github.protolink_grpc.v1.GetSessionRequest;
import io.github.protolink_grpc.v1.GetSessionResponse;
import io.github.protolink_grpc.v1.InterruptTurnRequest;
import io.github.protolink_grpc.v1.InterruptTurnResponse;
import io.github.protolink_grpc.v1.ListSessionsRequest;
import io.github.protolink_grpc.v1.ListSessionsResponse;
import io.github.protolink_grpc.v1.PromoteQueuedTurnRequest;
import io.github.protolink_grpc.v1.PromoteQueuedTurnResponse;
import io.github.protolink_grpc.v1.RemoveQueuedTurnRequest;
import io.github.protolink_grpc.v1.RemoveQueuedTurnResponse;
import io.github.protolink_grpc.v1.ResumeThreadRequest;
import io.github.protolink_grpc.v1.ResumeThreadResponse;
import io.github.protolink_grpc.v1.RollbackThreadRequest;
import io.github.protolink_grpc.v1.RollbackThreadResponse;
import io.github.protolink_grpc.v1.RuntimeEvent;
import io.github.protolink_grpc.v1.Session;
import io.github.protolink_grpc.v1.SessionServiceGrpc;
import io.github.protolink_grpc.v1.StartThreadRequest;
import io.github.protolink_grpc.v1.StartThreadResponse;
import io.github.protolink_grpc.v1.StreamRuntimeEventsRequest;
import io.github.protolink_grpc.v1.StreamTurnRequest;
import io.github.protolink_grpc.v1.SubmitTurnRequest;
import io.github.protolink_grpc.v1.SubmitTurnResponse;
import io.github.protolink_grpc.v1.SubscribeSessionRequest;
import io.github.protolink_grpc.v1.TaskInput;
import io.github.protolink_grpc.v1.Thread;
import io.github.protolink_grpc.v1.Turn;
import io.github.protolink_grpc.v1.UpdateQueuedTurnRequest;
import io.github.protolink_grpc.v1.UpdateQueuedTurnResponse;
import io.github.protolink_grpc.v1.UpdateSessionRequest;
import io.github.protolink_grpc.v1.UpdateSessionResponse;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * The sessions of the caller with an agent: {@link ProtolinkClient#sessions}. A session has
 * threads, and a thread has turns: inputs that run one after the other.
 *
 * <p>Every method throws {@link ProtolinkException}, and repeats calls as {@link ProtolinkClient}
 * does. Agents of other systems have no sessions: {@link Reason#UNIMPLEMENTED}.
 */
public final class Sessions {

  private final Connection connection;

  Sessions(Connection connection) {
    this.connection = connection;
  }

  /**
   * Creates a session, or returns the existing one with that id unchanged.
   *
   * @param request without a session id it gets one
   */
  public Session create(CreateSessionRequest request) {
    return connection.ask(
        SessionServiceGrpc.getCreateSessionMethod(),
        request.getSessionId().isEmpty()
            ? request.toBuilder().setSessionId(Requests.newId()).build()
            : request,
        "",
        CreateSessionResponse::getSession);
  }

  /**
   * Changes the fields of a session that are set.
   *
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND}
   */
  public Session update(UpdateSessionRequest request) {
    return connection.ask(
        SessionServiceGrpc.getUpdateSessionMethod(),
        request,
        "",
        UpdateSessionResponse::getSession);
  }

  /** A session and its newest turns: see {@link #get(GetSessionRequest)}. */
  public GetSessionResponse get(String sessionId) {
    return get(GetSessionRequest.newBuilder().setSessionId(sessionId).build());
  }

  /**
   * A session and its newest turns, of one thread or of all, oldest first. The token of the page
   * requests the turns before these.
   *
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND}
   */
  public GetSessionResponse get(GetSessionRequest request) {
    return connection.ask(
        SessionServiceGrpc.getGetSessionMethod(), request, "", Function.identity());
  }

  /**
   * The caller's sessions without their threads and turns, last changed first; pages are fetched as
   * they are read.
   */
  public Stream<Session> list(ListSessionsRequest filter) {
    Function<String, ListSessionsResponse> page =
        token ->
            connection.ask(
                SessionServiceGrpc.getListSessionsMethod(),
                filter.toBuilder().setPageToken(token).build(),
                "",
                Function.identity());
    return Connection.pages(filter.getPageToken(), page, ListSessionsResponse::getNextPageToken)
        .flatMap(each -> each.getSessionsList().stream());
  }

  /**
   * Deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored
   * state of the agent for the session. Open turns are canceled first.
   *
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND}, also for a repetition after a
   *     response that got lost; with {@link Reason#THREAD_BUSY} if a run does not stop in time:
   *     repeat the call then
   */
  public DeleteSessionResponse delete(String sessionId) {
    return connection.ask(
        SessionServiceGrpc.getDeleteSessionMethod(),
        DeleteSessionRequest.newBuilder().setSessionId(sessionId).build(),
        "",
        Function.identity());
  }

  /**
   * Starts a thread, or returns the existing one with that id unchanged. The session is created if
   * necessary. The conversation of the thread is empty, or with {@code from_thread_id} that of
   * another thread, up to and with the turn {@code from_turn_id}; without it, up to the last turn
   * that has ended.
   *
   * @param request without a thread id it gets one
   * @throws ProtolinkException with {@link Reason#THREAD_NOT_FOUND} or {@link
   *     Reason#TURN_NOT_FOUND}: there is no such thread or turn to branch from
   */
  public Thread startThread(StartThreadRequest request) {
    return connection.ask(
        SessionServiceGrpc.getStartThreadMethod(),
        request.getThreadId().isEmpty()
            ? request.toBuilder().setThreadId(Requests.newId()).build()
            : request,
        "",
        StartThreadResponse::getThread);
  }

  /** Submits a text to the thread {@code default}: see {@link #submit(SubmitTurnRequest)}. */
  public Turn submit(String sessionId, String text) {
    TaskInput input = Tasks.messages(Parts.text(text));
    return submit(SubmitTurnRequest.newBuilder().setSessionId(sessionId).setInput(input).build());
  }

  /**
   * Submits an input to a thread, and returns its turn as soon as it is in the agent's log. If the
   * last task of the thread waits for input, the turn continues it. The session is created if
   * necessary. An interrupted call is retried with the same turn id, so that an input is never two
   * turns.
   *
   * @param request without a turn id it gets one; its input names neither a task nor a session
   * @throws ProtolinkException with {@link Reason#THREAD_BUSY} or {@link Reason#THREAD_NOT_FOUND}
   */
  public Turn submit(SubmitTurnRequest request) {
    return connection.ask(
        SessionServiceGrpc.getSubmitTurnMethod(),
        request.getTurnId().isEmpty()
            ? request.toBuilder().setTurnId(Requests.newId()).build()
            : request,
        "",
        SubmitTurnResponse::getTurn);
  }

  /** Shows the events of a turn: see {@link #stream(String, String, Consumer)}. */
  public EventStream stream(String sessionId, String turnId) {
    return stream(sessionId, turnId, null);
  }

  /**
   * Shows the events of a turn, also of one that has not started, until the turn has ended.
   *
   * @param onDelta as in {@link ProtolinkClient#stream(io.github.protolink_grpc.v1.TaskInput,
   *     Consumer)}; null: no text of models
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND} or {@link
   *     Reason#TURN_NOT_FOUND}, at the first reading
   */
  public EventStream stream(String sessionId, String turnId, Consumer<Delta> onDelta) {
    StreamTurnRequest turn =
        StreamTurnRequest.newBuilder().setSessionId(sessionId).setTurnId(turnId).build();
    EventStream stream = new EventStream(connection, turn, onDelta);
    stream.start();
    return stream;
  }

  /** Interrupts the thread {@code default}: see {@link #interrupt(InterruptTurnRequest)}. */
  public List<Turn> interrupt(String sessionId, String reason) {
    return interrupt(
        InterruptTurnRequest.newBuilder().setSessionId(sessionId).setReason(reason).build());
  }

  /**
   * Cancels the active turns of a thread and its task that waits for input, or one turn.
   *
   * <p>A request that names no turn interrupts what is active when it arrives. If its response gets
   * lost, the repetition may also interrupt a turn that has started meanwhile.
   *
   * @return the turns that were open, as they are after the call; empty if there were none
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND} or {@link
   *     Reason#TURN_NOT_FOUND}
   */
  public List<Turn> interrupt(InterruptTurnRequest request) {
    return connection.ask(
        SessionServiceGrpc.getInterruptTurnMethod(),
        request,
        "",
        InterruptTurnResponse::getTurnsList);
  }

  /**
   * Puts a queued turn at the front of its thread's queue.
   *
   * @throws ProtolinkException with {@link Reason#TURN_NOT_QUEUED} or {@link
   *     Reason#TURN_NOT_FOUND}
   */
  public Turn promote(String sessionId, String turnId) {
    return connection.ask(
        SessionServiceGrpc.getPromoteQueuedTurnMethod(),
        PromoteQueuedTurnRequest.newBuilder().setSessionId(sessionId).setTurnId(turnId).build(),
        "",
        PromoteQueuedTurnResponse::getTurn);
  }

  /** Removes a turn from the queue: its task is canceled. Throws as {@link #promote}. */
  public Turn remove(String sessionId, String turnId) {
    return connection.ask(
        SessionServiceGrpc.getRemoveQueuedTurnMethod(),
        RemoveQueuedTurnRequest.newBuilder().setSessionId(sessionId).setTurnId(turnId).build(),
        "",
        RemoveQueuedTurnResponse::getTurn);
  }

  /** Replaces the input of a queued turn: see {@link #replaceInput(UpdateQueuedTurnRequest)}. */
  public Turn replaceInput(String sessionId, String turnId, String text) {
    return replaceInput(
        UpdateQueuedTurnRequest.newBuilder()
            .setSessionId(sessionId)
            .setTurnId(turnId)
            .addAllMessages(Tasks.messages(Parts.text(text)).getMessagesList())
            .build());
  }

  /** Replaces the messages of a queued turn. Throws as {@link #promote}. */
  public Turn replaceInput(UpdateQueuedTurnRequest request) {
    return connection.ask(
        SessionServiceGrpc.getUpdateQueuedTurnMethod(),
        request,
        "",
        UpdateQueuedTurnResponse::getTurn);
  }

  /**
   * Takes a turn and all later ones out of the conversation of their thread, and returns the
   * thread. Active turns among them are canceled. Nothing is deleted: {@link Turn#getRolledBack}
   * marks them. Repeating the call changes nothing.
   *
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND} or {@link
   *     Reason#TURN_NOT_FOUND}; with {@link Reason#INVALID_ARGUMENT} for a turn that waits in the
   *     queue
   */
  public Thread rollBack(String sessionId, String turnId, String reason) {
    return connection.ask(
        SessionServiceGrpc.getRollbackThreadMethod(),
        RollbackThreadRequest.newBuilder()
            .setSessionId(sessionId)
            .setTurnId(turnId)
            .setReason(reason)
            .build(),
        "",
        RollbackThreadResponse::getThread);
  }

  /** Resumes the thread {@code default}: see {@link #resume(ResumeThreadRequest)}. */
  public ResumeThreadResponse resume(String sessionId) {
    return resume(ResumeThreadRequest.newBuilder().setSessionId(sessionId).build());
  }

  /**
   * Ends the pauses of the active turns of a thread, and returns what the thread still waits for. A
   * thread continues by itself after a restart of the agent.
   *
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND} or {@link
   *     Reason#THREAD_NOT_FOUND}
   */
  public ResumeThreadResponse resume(ResumeThreadRequest request) {
    return connection.ask(
        SessionServiceGrpc.getResumeThreadMethod(), request, "", Function.identity());
  }

  /** Shows everything that happens in a session: see {@link #subscribe(String, long)}. */
  public ResumingStream<SessionItem> subscribe(String sessionId) {
    return subscribe(sessionId, 0);
  }

  /**
   * Shows everything that happens in a session after a position, in the order of positions: stored
   * events, then those that come. It does not end by itself.
   *
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND} or {@link
   *     Reason#SEQUENCE_OUT_OF_RANGE}, at the first reading
   */
  public ResumingStream<SessionItem> subscribe(String sessionId, long afterPosition) {
    SessionStream stream =
        new SessionStream(
            connection,
            SubscribeSessionRequest.newBuilder()
                .setSessionId(sessionId)
                .setAfterPosition(afterPosition)
                .build());
    stream.start();
    return stream;
  }

  /** Shows all of a session: see {@link #runtimeEvents(StreamRuntimeEventsRequest)}. */
  public ResumingStream<RuntimeEvent> runtimeEvents(String sessionId) {
    return runtimeEvents(StreamRuntimeEventsRequest.newBuilder().setSessionId(sessionId).build());
  }

  /**
   * Shows what {@link #subscribe(String, long)} shows, as events of the Agent Runtime contract.
   * Sequences ascend, with gaps. With {@code stop_at_end} the stream ends after the last event that
   * exists at the time of the call; otherwise it does not end by itself. Throws as {@code
   * subscribe}.
   */
  public ResumingStream<RuntimeEvent> runtimeEvents(StreamRuntimeEventsRequest request) {
    RuntimeEventStream stream = new RuntimeEventStream(connection, request);
    stream.start();
    return stream;
  }
}
