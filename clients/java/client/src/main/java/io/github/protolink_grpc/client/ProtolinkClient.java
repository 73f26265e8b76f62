package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.AgentCard;
import io.github.protolink_grpc.v1.AgentServiceGrpc;
import io.github.protolink_grpc.v1.Approval;
import io.github.protolink_grpc.v1.ApprovalVerdict;
import io.github.protolink_grpc.v1.CallToolRequest;
import io.github.protolink_grpc.v1.CallToolResponse;
import io.github.protolink_grpc.v1.CancelTaskResponse;
import io.github.protolink_grpc.v1.ControlServiceGrpc;
import io.github.protolink_grpc.v1.GetAgentCardRequest;
import io.github.protolink_grpc.v1.GetAgentCardResponse;
import io.github.protolink_grpc.v1.GetTaskRequest;
import io.github.protolink_grpc.v1.GetTaskResponse;
import io.github.protolink_grpc.v1.ListApprovalsRequest;
import io.github.protolink_grpc.v1.ListApprovalsResponse;
import io.github.protolink_grpc.v1.ListTasksRequest;
import io.github.protolink_grpc.v1.ListTasksResponse;
import io.github.protolink_grpc.v1.ListToolsRequest;
import io.github.protolink_grpc.v1.ListToolsResponse;
import io.github.protolink_grpc.v1.Part;
import io.github.protolink_grpc.v1.Payload;
import io.github.protolink_grpc.v1.RespondApprovalRequest;
import io.github.protolink_grpc.v1.RespondApprovalResponse;
import io.github.protolink_grpc.v1.SendTaskRequest;
import io.github.protolink_grpc.v1.SendTaskResponse;
import io.github.protolink_grpc.v1.StreamTaskRequest;
import io.github.protolink_grpc.v1.SubscribeTaskRequest;
import io.github.protolink_grpc.v1.Task;
import io.github.protolink_grpc.v1.TaskInput;
import io.github.protolink_grpc.v1.TaskView;
import io.github.protolink_grpc.v1.Tool;
import io.github.protolink_grpc.v1.WaitFor;
import io.github.protolink_grpc.v1.Delta;
import io.github.protolink_grpc.v1.WatchApprovalsRequest;
import io.grpc.Channel;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * A client of one agent. Interrupted calls are retried for {@link ClientBuilder#patience}: every task
 * that is sent carries a request id, so that a retry is never a second run. For use by any thread.
 *
 * <p>Every method throws {@link ProtolinkException}; a future fails with it. A method whose thread
 * is interrupted ends at once with {@link java.util.concurrent.CancellationException}, as calls do
 * whose future or {@link io.grpc.Context} is canceled or whose client is closed. A deadline, like
 * all these, ends the wait and not the run: that ends by {@link #cancel}. The deadline of the
 * Context counts, too.
 */
public final class ProtolinkClient implements AutoCloseable {

  private final Connection connection;

  private ProtolinkClient(Connection connection) {
    this.connection = connection;
  }

  /**
   * Connects to an agent unencrypted or over TLS, without credentials.
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
   * Over a channel of your own, for instance one with another transport. Closing the client ends
   * its calls and leaves the channel open. Where the channel leads to another machine unencrypted,
   * a call with credentials fails before they are sent.
   */
  public static ClientBuilder<ProtolinkClient> builder(Channel channel) {
    return new ClientBuilder<>(channel, ProtolinkClient::new);
  }

  /**
   * This client with another deadline, which bounds each call with its retries and each stream.
   * Closing either closes both.
   */
  public ProtolinkClient withDeadline(Duration deadline) {
    return new ProtolinkClient(connection.withDeadline(deadline));
  }

  /**
   * This client with one more header, which takes the place of the builder's of that name. Closing
   * either closes both.
   *
   * @throws IllegalArgumentException if a header cannot carry it
   */
  public ProtolinkClient withHeader(String name, String value) {
    return new ProtolinkClient(connection.withHeader(name, value));
  }

  /** Who the agent is and what it can do. */
  public AgentCard card() {
    return connection.ask(
        AgentServiceGrpc.getGetAgentCardMethod(),
        GetAgentCardRequest.getDefaultInstance(),
        "",
        GetAgentCardResponse::getCard);
  }

  /** Sends a text as a new task: see {@link #send(SendTaskRequest)}. */
  public Task send(String text) {
    return send(Tasks.of(text));
  }

  /** Begins or continues a task: see {@link #send(SendTaskRequest)} and {@link Tasks}. */
  public Task send(TaskInput input) {
    return send(Requests.send(input));
  }

  /**
   * Starts or continues a task, and waits until it ends or waits for input. A task that fails is
   * returned, not thrown.
   *
   * @param request its input continues the task of its {@code task_id}, which must exist, unless
   *     its {@code target} says otherwise; without an id it begins a task, which gets one. With an
   *     {@code expected_sequence} it continues a task only where that is its last event. Without a
   *     request id it gets one; give your own to repeat it safely from another process.
   * @return the task with the messages and artifacts of this turn, unless the request names another
   *     view
   * @throws ProtolinkException whose {@link ProtolinkException#taskId} says by which id the task
   *     can be found
   */
  public Task send(SendTaskRequest request) {
    SendTaskRequest complete = Requests.complete(request);
    return connection.ask(
        AgentServiceGrpc.getSendTaskMethod(),
        complete,
        complete.getInput().getTaskId(),
        SendTaskResponse::getTask);
  }

  /** {@link #send(TaskInput)} without waiting for it. */
  public CompletableFuture<Task> sendAsync(TaskInput input) {
    return sendAsync(Requests.send(input));
  }

  /**
   * {@link #send(SendTaskRequest)} without waiting for it. Canceling the future ends the wait, not
   * the run.
   */
  public CompletableFuture<Task> sendAsync(SendTaskRequest request) {
    SendTaskRequest complete = Requests.complete(request);
    return connection.askAsync(
        AgentServiceGrpc.getSendTaskMethod(),
        complete,
        complete.getInput().getTaskId(),
        SendTaskResponse::getTask);
  }

  /** Sends a text as a new task: see {@link #submit(TaskInput)}. */
  public Task submit(String text) {
    return submit(Tasks.of(text));
  }

  /**
   * Begins or continues a task and returns as soon as the agent has accepted it: {@link #get} and
   * {@link #subscribe(String)} tell what becomes of it.
   */
  public Task submit(TaskInput input) {
    return send(
        SendTaskRequest.newBuilder()
            .setInput(input)
            .setWaitFor(WaitFor.WAIT_FOR_ACCEPTED)
            .build());
  }

  /** Answers a task that waits for a text: see {@link #reply(String, Part...)}. */
  public Task reply(String taskId, String text) {
    return reply(taskId, Parts.text(text));
  }

  /**
   * Adds a message to a task that waits for it, and waits like {@link #send(SendTaskRequest)}.
   *
   * @param taskId a task that exists
   * @throws ProtolinkException with {@link Reason#TASK_NOT_FOUND} or {@link Reason#TASK_FINISHED}
   */
  public Task reply(String taskId, Part... parts) {
    return send(Requests.reply(taskId, parts));
  }

  /** {@link #reply(String, Part...)} without waiting for it. */
  public CompletableFuture<Task> replyAsync(String taskId, Part... parts) {
    return sendAsync(Requests.reply(taskId, parts));
  }

  /** {@link #reply(String, Part...)} that shows the events of the turn. */
  public EventStream streamReply(String taskId, Part... parts) {
    return stream(Requests.reply(taskId, parts));
  }

  /** Sends a text as a new task: see {@link #stream(StreamTaskRequest)}. */
  public EventStream stream(String text) {
    return stream(Tasks.of(text));
  }

  /** Begins or continues a task: see {@link #stream(StreamTaskRequest)} and {@link Tasks}. */
  public EventStream stream(TaskInput input) {
    return stream(Requests.stream(input));
  }

  /**
   * Starts or continues a task, and shows the events of this turn as they come, until the task ends
   * or waits for input. The request is sent now; the errors come with the reading.
   *
   * @param request as in {@link #send(SendTaskRequest)}; a repetition shows the events of the first
   *     request
   */
  public EventStream stream(StreamTaskRequest request) {
    return stream(request, null);
  }

  /** {@link #stream(StreamTaskRequest, Consumer)} of an input. */
  public EventStream stream(TaskInput input, Consumer<Delta> onDelta) {
    return stream(Requests.stream(input), onDelta);
  }

  /**
   * {@link #stream(StreamTaskRequest)} that also shows the text that models produce, piece by
   * piece, while they do. No piece is shown twice, even after an interruption; the text of a model
   * call that is retried begins at offset 0 again. Pieces may be missing; the finished text is in
   * an event.
   *
   * @param onDelta called by the thread that reads the events, between them; what it throws ends
   *     the stream
   */
  public EventStream stream(StreamTaskRequest request, Consumer<Delta> onDelta) {
    return started(new EventStream(connection, Requests.complete(request), onDelta));
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

  /** Shows the events of a task from where, and until where, the request says. */
  public EventStream subscribe(SubscribeTaskRequest request) {
    return subscribe(request, null);
  }

  /** The same with text of models: see {@link #stream(StreamTaskRequest, Consumer)}. */
  public EventStream subscribe(SubscribeTaskRequest request, Consumer<Delta> onDelta) {
    return started(new EventStream(connection, request, onDelta));
  }

  /**
   * The whole task as it is now.
   *
   * @throws ProtolinkException with {@link Reason#TASK_NOT_FOUND}
   */
  public Task get(String taskId) {
    return get(taskId, TaskView.TASK_VIEW_FULL);
  }

  /**
   * As much of the task as the view says; a header is cheap however large the task is.
   *
   * <p>A whole task that is too large for one answer is got by several calls. Of a view of the
   * latest turn, the newest messages and artifacts are shown, as many as fit. What is too large by
   * itself is left out: {@code omitted} names it, and {@link #subscribe(String)} has it.
   */
  public Task get(String taskId, TaskView view) {
    GetTaskRequest request = Requests.get(taskId, view);
    Task task = page(request);
    while (Requests.isContinued(request, task)) {
      Task earlier = page(Requests.before(request, task));
      if (Requests.isEmpty(earlier)) {
        break; // the agent has no more
      }
      task = Requests.joined(earlier, task);
    }
    return task;
  }

  private Task page(GetTaskRequest request) {
    return connection.ask(
        AgentServiceGrpc.getGetTaskMethod(),
        request,
        request.getTaskId(),
        GetTaskResponse::getTask);
  }

  /** {@link #get(String)} without waiting for it. */
  public CompletableFuture<Task> getAsync(String taskId) {
    return getAsync(taskId, TaskView.TASK_VIEW_FULL);
  }

  /** {@link #get(String, TaskView)} without waiting for it. */
  public CompletableFuture<Task> getAsync(String taskId, TaskView view) {
    GetTaskRequest request = Requests.get(taskId, view);
    return pageAsync(request).thenCompose(task -> withEarlier(request, task));
  }

  private CompletableFuture<Task> withEarlier(GetTaskRequest request, Task task) {
    if (!Requests.isContinued(request, task)) {
      return CompletableFuture.completedFuture(task);
    }
    return pageAsync(Requests.before(request, task))
        .thenCompose(
            earlier ->
                Requests.isEmpty(earlier)
                    ? CompletableFuture.completedFuture(task)
                    : withEarlier(request, Requests.joined(earlier, task)));
  }

  private CompletableFuture<Task> pageAsync(GetTaskRequest request) {
    return connection.askAsync(
        AgentServiceGrpc.getGetTaskMethod(),
        request,
        request.getTaskId(),
        GetTaskResponse::getTask);
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
    return connection.ask(AgentServiceGrpc.getListTasksMethod(), request, "", Function.identity());
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
        Requests.cancel(taskId, reason),
        taskId,
        CancelTaskResponse::getTask);
  }

  /** {@link #cancel} without waiting for it. */
  public CompletableFuture<Task> cancelAsync(String taskId, String reason) {
    return connection.askAsync(
        AgentServiceGrpc.getCancelTaskMethod(),
        Requests.cancel(taskId, reason),
        taskId,
        CancelTaskResponse::getTask);
  }

  /** The agent's tools, ordered by name; pages are fetched as they are read. */
  public Stream<Tool> tools() {
    return tools(ListToolsRequest.getDefaultInstance());
  }

  /** {@link #tools()} with a size of the pages, or from a page on. */
  public Stream<Tool> tools(ListToolsRequest request) {
    return Connection.pages(
            request.getPageToken(),
            token ->
                connection.ask(
                    ControlServiceGrpc.getListToolsMethod(),
                    request.toBuilder().setPageToken(token).build(),
                    "",
                    Function.identity()),
            ListToolsResponse::getNextPageToken)
        .flatMap(page -> page.getToolsList().stream());
  }

  /** Runs a tool with arguments, a JSON object: see {@link #callTool(CallToolRequest)}. */
  public CallToolResponse callTool(String tool, String argsJson) {
    return callTool(Requests.callTool(tool, argsJson));
  }

  /**
   * Runs one tool of the agent as a task of its own, and waits for its end. A tool that failed is
   * returned, not thrown: its output says so.
   *
   * @param request without a task id or a request id it gets one
   * @throws ProtolinkException whose {@link ProtolinkException#taskId} says by which id the task of
   *     the call can be found
   */
  public CallToolResponse callTool(CallToolRequest request) {
    CallToolRequest complete = Requests.complete(request);
    return connection.ask(
        ControlServiceGrpc.getCallToolMethod(),
        complete,
        complete.getTaskId(),
        Function.identity());
  }

  /** {@link #callTool(CallToolRequest)} without waiting for it. */
  public CompletableFuture<CallToolResponse> callToolAsync(CallToolRequest request) {
    CallToolRequest complete = Requests.complete(request);
    return connection.askAsync(
        ControlServiceGrpc.getCallToolMethod(),
        complete,
        complete.getTaskId(),
        Function.identity());
  }

  /** The approvals that wait for an answer, oldest first; pages are fetched as they are read. */
  public Stream<Approval> approvals() {
    return approvals(ListApprovalsRequest.getDefaultInstance());
  }

  /** The approvals that match, oldest first; pages are fetched as they are read. */
  public Stream<Approval> approvals(ListApprovalsRequest filter) {
    return approvals(connection, filter);
  }

  static Stream<Approval> approvals(Connection connection, ListApprovalsRequest filter) {
    Function<String, ListApprovalsResponse> page =
        token ->
            connection.ask(
                ControlServiceGrpc.getListApprovalsMethod(),
                filter.toBuilder().setPageToken(token).build(),
                filter.getTaskId(),
                Function.identity());
    return Connection.pages(filter.getPageToken(), page, ListApprovalsResponse::getNextPageToken)
        .flatMap(each -> each.getApprovalsList().stream());
  }

  /** Shows all approvals: see {@link #watchApprovals(String)}. */
  public ResumingStream<Approval> watchApprovals() {
    return watchApprovals("");
  }

  /**
   * Returns the pending approvals, then each approval when it is requested or answered. It does not
   * end by itself. After an interruption it returns those that were requested or answered
   * meanwhile, each in its current state.
   *
   * @param taskId only those of this task; empty means any
   */
  public ResumingStream<Approval> watchApprovals(String taskId) {
    return started(
        new ApprovalWatch(
            connection, WatchApprovalsRequest.newBuilder().setTaskId(taskId).build()));
  }

  /**
   * Answers an approval. The answer is about what the approval shows: if something else is asked by
   * now, nothing is approved. After an interruption it is repeated with the same request id, so it
   * is never taken for the answer of another approver.
   *
   * @param reason why, one sentence; may be empty
   * @return the approval afterwards, and whether it had an answer before
   * @throws ProtolinkException with {@link Reason#APPROVAL_NOT_FOUND} or {@link
   *     Reason#APPROVAL_CHANGED}
   */
  public RespondApprovalResponse respond(Approval approval, boolean approved, String reason) {
    return respond(answer(approval, approved, reason).build());
  }

  /**
   * Approves an action with other arguments than the agent has shown.
   *
   * @param approval one whose {@code edit} is {@code APPROVAL_EDIT_ARGUMENTS}
   * @param argumentsJson all arguments, a JSON object like the one under {@code arguments} in the
   *     action's {@code payload}; the agent checks them again
   * @param reason why, one sentence; may be empty
   * @throws ProtolinkException as {@link #respond(Approval, boolean, String)}, or with {@link
   *     Reason#INVALID_ARGUMENT}
   */
  public RespondApprovalResponse approveEdited(
      Approval approval, String argumentsJson, String reason) {
    return respond(
        answer(approval, true, reason)
            .setEditedArguments(Payload.newBuilder().setJson(argumentsJson))
            .build());
  }

  private static RespondApprovalRequest.Builder answer(
      Approval approval, boolean approved, String reason) {
    return RespondApprovalRequest.newBuilder()
        .setApprovalId(approval.getApprovalId())
        .setEtag(approval.getEtag())
        .setVerdict(
            approved
                ? ApprovalVerdict.APPROVAL_VERDICT_APPROVE
                : ApprovalVerdict.APPROVAL_VERDICT_DENY)
        .setReason(reason);
  }

  /** Answers an approval in full. A request without a request id gets one. */
  public RespondApprovalResponse respond(RespondApprovalRequest answer) {
    return connection.ask(
        ControlServiceGrpc.getRespondApprovalMethod(),
        Requests.complete(answer),
        "",
        Function.identity());
  }

  /** The sessions of the caller with the agent: conversations whose inputs wait for each other. */
  public Sessions sessions() {
    return new Sessions(connection);
  }

  /** The control of the caller's tasks: drafts, links, pauses, retries, and work outside. */
  public TaskCalls tasks() {
    return new TaskCalls(connection);
  }

  /** What the caller's sessions, threads and tasks are now. */
  public Snapshots snapshots() {
    return new Snapshots(connection);
  }

  /**
   * For generated stubs: those of the agent's typed services, and the contract's own for methods
   * that this class does not have. Calls have this client's headers, credentials and deadline; a
   * stub may have a deadline of its own. {@link ProtolinkException#from} reads their errors, with
   * the task's id.
   *
   * <p>A call with one answer is retried after an interruption, as those of this class are. All
   * attempts have one header {@code x-request-id}, so that an agent runs the call once; a caller
   * may set it, to repeat the call from another process. The header {@code x-task-id} of the answer
   * is the id of the task that the call was. A stream of responses that is a task continues after an
   * interruption with the next response; other streams are repeated only before their first
   * response. Calls with several requests are not repeated. Neither are those of plgrpc's own
   * services, whose request ids are fields of their requests.
   */
  public Channel channel() {
    return connection.stubChannel();
  }

  /** Ends the calls and streams under way, and the connection. Runs continue. */
  @Override
  public void close() {
    connection.transport().close();
  }

  private static <S extends ResumingStream<?>> S started(S stream) {
    stream.start();
    return stream;
  }
}
