package dev.protolink.client;

import dev.protolink.v1.AgentCard;
import dev.protolink.v1.AgentServiceGrpc;
import dev.protolink.v1.Approval;
import dev.protolink.v1.ApprovalDecision;
import dev.protolink.v1.CancelTaskRequest;
import dev.protolink.v1.CancelTaskResponse;
import dev.protolink.v1.ControlServiceGrpc;
import dev.protolink.v1.GetAgentCardRequest;
import dev.protolink.v1.GetAgentCardResponse;
import dev.protolink.v1.GetTaskRequest;
import dev.protolink.v1.GetTaskResponse;
import dev.protolink.v1.ListApprovalsRequest;
import dev.protolink.v1.ListApprovalsResponse;
import dev.protolink.v1.ListTasksRequest;
import dev.protolink.v1.ListTasksResponse;
import dev.protolink.v1.RespondApprovalRequest;
import dev.protolink.v1.RespondApprovalResponse;
import dev.protolink.v1.SendTaskRequest;
import dev.protolink.v1.SendTaskResponse;
import dev.protolink.v1.StreamTaskRequest;
import dev.protolink.v1.SubscribeTaskRequest;
import dev.protolink.v1.Task;
import dev.protolink.v1.WatchApprovalsRequest;
import io.grpc.Channel;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * One agent. What can be repeated safely is repeated while the agent is away: every task that is
 * sent carries a request id, so that a repetition is never a second run.
 *
 * <p>Every method throws {@link ProtolinkException}; a future fails with it. A deadline, like
 * hanging up, ends the wait and not the run: that ends by {@link #cancel}. The deadline and the
 * cancellation of gRPC's {@link io.grpc.Context} count, too.
 */
public final class ProtolinkClient implements AutoCloseable {

  private final Connection connection;

  private ProtolinkClient(Connection connection) {
    this.connection = connection;
  }

  /**
   * Connects to an agent in plaintext or over TLS, without credentials.
   *
   * @param url {@code grpc://host:port}, {@code grpcs://host:port} or {@code host:port}
   * @throws IllegalArgumentException if the URL is none of these
   */
  public static ProtolinkClient connect(String url) {
    return builder(url).build();
  }

  /** The same, with options. */
  public static ClientBuilder<ProtolinkClient> builder(String url) {
    return new ClientBuilder<>(url, ProtolinkClient::new);
  }

  /**
   * This client with another deadline, which bounds each call with its retries and each stream.
   * Closing either closes both.
   */
  public ProtolinkClient withDeadline(Duration deadline) {
    return new ProtolinkClient(connection.withDeadline(deadline));
  }

  /** Who the agent is and what it can do. */
  public AgentCard card() {
    return connection.ask(
        AgentServiceGrpc.getGetAgentCardMethod(),
        GetAgentCardRequest.getDefaultInstance(),
        GetAgentCardResponse::getCard);
  }

  /** Sends a text as a new task: see {@link #send(SendTaskRequest)}. */
  public Task send(String text) {
    return send(Tasks.of(text));
  }

  /**
   * Sends a new task or what is new of one: see {@link #send(SendTaskRequest)} and {@link Tasks}.
   */
  public Task send(Task task) {
    return send(SendTaskRequest.newBuilder().setTask(task).build());
  }

  /**
   * Starts or continues a task, and waits until it ends or waits for somebody. A task that fails is
   * returned, not thrown.
   *
   * @param request without a request id it gets one; give your own to repeat it safely from another
   *     process
   * @return the task with the messages and artifacts of this turn, unless the request names another
   *     view
   */
  public Task send(SendTaskRequest request) {
    return connection.ask(
        AgentServiceGrpc.getSendTaskMethod(), identified(request), SendTaskResponse::getTask);
  }

  /** {@link #send(Task)} without waiting for it. */
  public CompletableFuture<Task> sendAsync(Task task) {
    return sendAsync(SendTaskRequest.newBuilder().setTask(task).build());
  }

  /**
   * {@link #send(SendTaskRequest)} without waiting for it. Canceling the future ends the wait, not
   * the run.
   */
  public CompletableFuture<Task> sendAsync(SendTaskRequest request) {
    return connection.askAsync(
        AgentServiceGrpc.getSendTaskMethod(), identified(request), SendTaskResponse::getTask);
  }

  /** Sends a text as a new task: see {@link #stream(StreamTaskRequest)}. */
  public EventStream stream(String text) {
    return stream(Tasks.of(text));
  }

  /**
   * Sends a new task or what is new of one: see {@link #stream(StreamTaskRequest)} and {@link
   * Tasks}.
   */
  public EventStream stream(Task task) {
    return stream(StreamTaskRequest.newBuilder().setTask(task).build());
  }

  /**
   * Starts or continues a task, and shows the events of this turn as they come, until the task ends
   * or waits for somebody. The request is sent now; the errors come with the reading. Deltas of
   * text that a model produces are not shown.
   *
   * @param request without a request id it gets one; a repetition shows the events of the first
   *     request
   */
  public EventStream stream(StreamTaskRequest request) {
    StreamTaskRequest.Builder turn = request.toBuilder().setDeltas(false);
    if (turn.getRequestId().isEmpty()) {
      turn.setRequestId(newId());
    }
    return started(new EventStream(connection, turn.build()));
  }

  /** Shows all events of a task, from the first one until its end. */
  public EventStream subscribe(String taskId) {
    return subscribe(taskId, 0);
  }

  /** Shows the events of a task after a sequence, stored ones first, until its end. */
  public EventStream subscribe(String taskId, long afterSequence) {
    return subscribe(
        SubscribeTaskRequest.newBuilder()
            .setTaskId(taskId)
            .setAfterSequence(afterSequence)
            .build());
  }

  /**
   * Shows the events of a task from where, and until where, the request says. Deltas are not shown.
   */
  public EventStream subscribe(SubscribeTaskRequest request) {
    return started(new EventStream(connection, request.toBuilder().setDeltas(false).build()));
  }

  /**
   * The whole task as it is now.
   *
   * @throws ProtolinkException with {@link Reason#TASK_NOT_FOUND}
   */
  public Task get(String taskId) {
    return connection.ask(
        AgentServiceGrpc.getGetTaskMethod(), getRequest(taskId), GetTaskResponse::getTask);
  }

  /** {@link #get} without waiting for it. */
  public CompletableFuture<Task> getAsync(String taskId) {
    return connection.askAsync(
        AgentServiceGrpc.getGetTaskMethod(), getRequest(taskId), GetTaskResponse::getTask);
  }

  /** The caller's tasks that match, last changed first; pages are fetched as they are read. */
  public Stream<Task> list(ListTasksRequest filter) {
    return Connection.pages(
            filter.getPageToken(),
            token -> listPage(filter.toBuilder().setPageToken(token).build()),
            ListTasksResponse::getNextPageToken)
        .flatMap(page -> page.getTasksList().stream());
  }

  /** One page of the caller's tasks, with the token of the next one and the number of all. */
  public ListTasksResponse listPage(ListTasksRequest request) {
    return connection.ask(AgentServiceGrpc.getListTasksMethod(), request, Function.identity());
  }

  /**
   * Asks the agent to cancel a task. Canceling twice is the same as once.
   *
   * @param reason why, one sentence; may be empty
   * @return the task afterwards, without its content
   * @throws ProtolinkException with {@link Reason#TASK_NOT_FOUND} or {@link
   *     Reason#TASK_NOT_CANCELABLE}
   */
  public Task cancel(String taskId, String reason) {
    return connection.ask(
        AgentServiceGrpc.getCancelTaskMethod(),
        cancelRequest(taskId, reason),
        CancelTaskResponse::getTask);
  }

  /** {@link #cancel} without waiting for it. */
  public CompletableFuture<Task> cancelAsync(String taskId, String reason) {
    return connection.askAsync(
        AgentServiceGrpc.getCancelTaskMethod(),
        cancelRequest(taskId, reason),
        CancelTaskResponse::getTask);
  }

  /** The approvals that wait for an answer, oldest first; pages are fetched as they are read. */
  public Stream<Approval> approvals() {
    return approvals(ListApprovalsRequest.getDefaultInstance());
  }

  /** The approvals that match, oldest first; pages are fetched as they are read. */
  public Stream<Approval> approvals(ListApprovalsRequest filter) {
    Function<String, ListApprovalsResponse> page =
        token ->
            connection.ask(
                ControlServiceGrpc.getListApprovalsMethod(),
                filter.toBuilder().setPageToken(token).build(),
                Function.identity());
    return Connection.pages(filter.getPageToken(), page, ListApprovalsResponse::getNextPageToken)
        .flatMap(each -> each.getApprovalsList().stream());
  }

  /**
   * Shows approvals as they are asked for and answered, beginning with those that wait. It does not
   * end by itself. What was answered while the connection was cut is not shown; {@link
   * #approvals(ListApprovalsRequest)} knows.
   *
   * @param taskId only those of this task; empty means any
   */
  public ResumingStream<Approval> watchApprovals(String taskId) {
    return started(
        new ApprovalWatch(
            connection, WatchApprovalsRequest.newBuilder().setTaskId(taskId).build()));
  }

  /**
   * Answers an approval. The answer is about the action that the approval shows: if another one
   * waits by now, nothing is approved.
   *
   * @param reason why, one sentence; may be empty
   * @return the approval afterwards, and whether somebody had answered before
   * @throws ProtolinkException with {@link Reason#APPROVAL_NOT_FOUND} or {@link
   *     Reason#APPROVAL_CHANGED}
   */
  public RespondApprovalResponse respond(Approval approval, boolean approved, String reason) {
    return respond(
        ApprovalDecision.newBuilder()
            .setRequestId(approval.getRequest().getRequestId())
            .setFingerprint(approval.getRequest().getAction().getFingerprint())
            .setApproved(approved)
            .setReason(reason)
            .build());
  }

  /** Answers an approval in full, for instance with other arguments. */
  public RespondApprovalResponse respond(ApprovalDecision decision) {
    return connection.ask(
        ControlServiceGrpc.getRespondApprovalMethod(),
        RespondApprovalRequest.newBuilder().setDecision(decision).build(),
        Function.identity());
  }

  /**
   * For generated stubs: methods that this class does not have. Headers go along; retries and
   * deadlines do not.
   */
  public Channel channel() {
    return connection.channel();
  }

  /** Ends the calls and streams under way, and the connection. Runs go on. */
  @Override
  public void close() {
    connection.close();
  }

  private static <S extends ResumingStream<?>> S started(S stream) {
    stream.start();
    return stream;
  }

  private static SendTaskRequest identified(SendTaskRequest request) {
    return request.getRequestId().isEmpty()
        ? request.toBuilder().setRequestId(newId()).build()
        : request;
  }

  private static GetTaskRequest getRequest(String taskId) {
    return GetTaskRequest.newBuilder().setTaskId(taskId).build();
  }

  private static CancelTaskRequest cancelRequest(String taskId, String reason) {
    return CancelTaskRequest.newBuilder().setTaskId(taskId).setReason(reason).build();
  }

  private static String newId() {
    return UUID.randomUUID().toString();
  }
}
