/** The client of an agent. */

import { create, type DescService } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  type CallOptions as ConnectOptions,
  type Client as Stub,
  createClient,
  type Transport,
} from "@connectrpc/connect";
import {
  type AgentCard,
  AgentCardSchema,
  AgentService,
  type Approval,
  type ApprovalState,
  ApprovalVerdict,
  type CallToolResponse,
  ControlService,
  type RespondApprovalResponse,
  type RunEvent,
  StopAt,
  type StreamTaskResponse,
  type SubscribeTaskResponse,
  type Task,
  TaskSchema,
  type TaskState,
  TaskView,
  type Tool,
  type Delta,
  DeltaMode,
  type TaskInput,
  TaskTarget,
  WaitFor,
} from "@protolink-grpc/protocol";

import { KnownApprovals } from "./approvals.js";
import { type Call, Caller, type CallerOptions, type Stream } from "./caller.js";
import { aboutTask } from "./errors.js";
import { hasEnded, LogPosition, TextsRead } from "./log.js";
import type { CallOptions } from "./options.js";
import { jsonText, type ToolArguments, toolCall } from "./parts.js";
import { References } from "./references.js";
import { Sessions } from "./sessions.js";
import { Snapshots } from "./snapshots.js";
import { stubTransport } from "./stubs.js";
import { TaskControl } from "./task-control.js";
import { type Input, inputOf, randomId } from "./tasks.js";

/** Options of {@link Client.submit}. */
export interface SubmitOptions extends CallOptions {
  /**
   * The task to continue. It must exist: the call fails with TASK_NOT_FOUND otherwise, and never begins a new one. Default: what the
   * input says. One without an id begins a new task, whose id is made here; one with an id continues that task, unless its `target`
   * is `TaskTarget.CREATE` or `TaskTarget.CREATE_OR_CONTINUE`.
   */
  taskId?: string;
  /**
   * Sequence of the last event of the task that the caller has seen. Where the task has gone on since, the call fails with
   * SEQUENCE_CONFLICT, and nothing is added to the task. Default: any.
   */
  expectedSequence?: bigint;
  /**
   * Identifies the request: the same id is never a second run, from another process either. The first answer counts, whatever else a
   * repetition says. Default: a new random one.
   */
  requestId?: string;
}

/** Options of {@link Client.send}. */
export interface SendOptions extends SubmitOptions {
  /** How much of the task to return. Default: the latest turn. */
  view?: TaskView;
}

/** Options of {@link Client.stream}. */
export interface StreamOptions extends SubmitOptions {
  /**
   * Receives the text that models are producing, piece by piece. No piece comes twice, even after an interruption. If a model call is
   * retried, its text starts again with `offsetBytes` 0. Pieces may be missing; the finished text is in an event.
   */
  onDelta?: (delta: Delta) => void;
}

/** Options of {@link Client.subscribe}. */
export interface SubscribeOptions extends CallOptions {
  /** Sequence of the last event that the caller has. Default: 0, from the beginning. */
  after?: bigint;
  /** Where to end. Default: at the task's last event. */
  stopAt?: StopAt;
  /** As in {@link StreamOptions}. */
  onDelta?: (delta: Delta) => void;
}

/** Which tasks {@link Client.list} shows: those that match all that is set. */
export interface TaskFilter {
  /** In one of these states. */
  states?: TaskState[];
  /** Of this session. */
  sessionId?: string;
  /** Changed after this time. */
  updatedAfter?: Date;
  /** Tasks fetched at once, from 1 to 1,000. Default: 50. */
  pageSize?: number;
  /** The `nextPageToken` of an earlier page, to begin with the page after it. Default: the first page. */
  pageToken?: string;
  /** How much of each task. Default: the header. */
  view?: TaskView;
}

/** Options of {@link Client.callTool}. */
export interface ToolOptions extends CallOptions {
  /** Id of the task that the call becomes. Default: a new random one. */
  taskId?: string;
  /** Identifies the request: the same id is never a second call, from another process either. Default: a new random one. */
  requestId?: string;
  /** Session to run it in. Default: one of its own. */
  sessionId?: string;
}

/** Options of {@link Client.tools}. */
export interface ToolListOptions extends CallOptions {
  /** Tools fetched at once, from 1 to 1,000. Default: 50. */
  pageSize?: number;
  /** The `nextPageToken` of an earlier page, to begin with the page after it. Default: the first page. */
  pageToken?: string;
}

/** Which approvals {@link Client.approvals} shows. */
export interface ApprovalFilter {
  /** In one of these states. Default: pending. */
  states?: ApprovalState[];
  /** Of this task. Default: of any. */
  taskId?: string;
  /** Approvals fetched at once, from 1 to 1,000. Default: 50. */
  pageSize?: number;
  /** The `nextPageToken` of an earlier page, to begin with the page after it. Default: the first page. */
  pageToken?: string;
}

/** What goes with the answer to an approval. */
export interface ApprovalAnswer {
  /** Why, one sentence. */
  reason?: string;
  /** Arguments to run with instead of the requested ones, if `edit` of the approval allows it. They are validated again. */
  editedArguments?: Record<string, unknown>;
  /** Further facts. */
  metadata?: Record<string, unknown>;
}

/**
 * One agent. Made by `connect` of `@protolink-grpc/client/node` or `/web`.
 *
 * Every method fails with a `ProtolinkError`, or with the reason of the caller's own signal. Interrupted calls are retried for
 * `patienceMs`, with the same request id, so that a retry is never a second run.
 */
export class Client {
  /**
   * For generated clients of typed services, as {@link stub} makes them, and for libraries that take a Connect transport. Calls have this
   * client's credentials, headers, timeout and errors. Unary ones are retried under one `x-request-id`, those of plgrpc's own services
   * are not.
   */
  readonly transport: Transport;
  /** The stub of AgentService, without retries and with Connect's errors. */
  readonly agent: Stub<typeof AgentService>;
  /** The stub of ControlService, as above. */
  readonly control: Stub<typeof ControlService>;
  /** The sessions of the caller with the agent: conversations whose inputs wait for each other. */
  readonly sessions: Sessions;
  /** The control of the caller's tasks with the agent: drafts, links, pauses, retries, and work outside of the agent. */
  readonly tasks: TaskControl;
  /** What the caller's sessions, threads and tasks are now. */
  readonly snapshots: Snapshots;
  readonly #caller: Caller;
  readonly #close: () => void;
  readonly #name = randomId();
  #requests = 0;

  /**
   * @param transport - Any Connect transport: for gRPC, gRPC-Web or Connect. Credentials, headers and interceptors are its own.
   * @param close - Releases what the transport holds.
   */
  constructor(transport: Transport, options: CallerOptions = {}, close = () => {}) {
    this.agent = createClient(AgentService, transport);
    this.control = createClient(ControlService, transport);
    this.#caller = new Caller(options);
    this.sessions = new Sessions(transport, this.#caller);
    this.tasks = new TaskControl(transport, this.#caller);
    this.snapshots = new Snapshots(transport, this.#caller);
    this.transport = stubTransport(transport, this.#caller);
    this.#close = close;
  }

  /** Closes the connection. Calls that are under way, and all later ones, fail with `Code.Canceled`. */
  close(): void {
    this.#caller.close();
    this.#close();
  }

  /**
   * A client of one of the agent's typed services, with a method per RPC.
   *
   * A call whose answer got lost is made again under its `x-request-id`, which the agent runs once; `headers` of a call may set one, to
   * repeat a call from another process. The header `x-task-id` of an answer is the id of the task that the call was. A stream of
   * responses that is a task continues after an interruption with the next response.
   *
   * @param service - Generated by `plgrpc gen --lang ts --proto ...`.
   */
  stub<S extends DescService>(service: S): Stub<S> {
    return createClient(service, this.transport);
  }

  /** Who the agent is and what it can do. */
  async card(options?: CallOptions): Promise<AgentCard> {
    const { card } = await this.#caller.answer((call) => this.agent.getAgentCard({}, call), options);
    return card ?? create(AgentCardSchema);
  }

  /**
   * Starts or continues a task, and waits until it ends or waits for someone. A task that failed is returned, too: look at its
   * `state`. An error says the `taskId`, also of a new task: it may run, and can be looked up and canceled.
   */
  async send(input: Input, options: SendOptions = {}): Promise<Task> {
    return this.#send({ ...this.#submission(input, options), view: options.view }, options);
  }

  /** Starts or continues a task, and returns its latest turn as soon as the agent has accepted it. See {@link subscribe}. */
  async submit(input: Input, options: SubmitOptions = {}): Promise<Task> {
    return this.#send({ ...this.#submission(input, options), waitFor: WaitFor.ACCEPTED }, options);
  }

  /**
   * Starts or continues a task, and yields the events of this turn as they happen, until the task ends or waits for someone.
   * It resumes after interruptions: each event comes once, in order, without a gap. Leaving it early leaves the run alone.
   */
  stream(input: Input, options: StreamOptions = {}): Stream<RunEvent> {
    const request = { ...this.#submission(input, options), deltas: deltaMode(options) };
    const position = new LogPosition(StopAt.INTERRUPTED, request.input.taskId);
    return this.#events(position, options, (call) =>
      position.seen === undefined
        ? this.agent.streamTask(request, call)
        : this.#subscribed(position, request.deltas, call),
    );
  }

  /**
   * Yields the events of a task after a sequence: stored ones, then live ones. It resumes after interruptions as {@link stream} does. By
   * default it ends with the task; a retry that the task had before the stream began, or before it was resumed after that end, follows.
   */
  subscribe(taskId: string, options: SubscribeOptions = {}): Stream<RunEvent> {
    const position = new LogPosition(options.stopAt ?? StopAt.TERMINAL, taskId, options.after ?? 0n);
    return this.#events(position, options, (call) => this.#subscribed(position, deltaMode(options), call));
  }

  /**
   * A task as it is now. Default: all of it, by several calls where it is too large for one answer. What is too large by itself is left
   * out: `omitted` names it, and {@link subscribe} has it.
   */
  async get(taskId: string, options: CallOptions & { view?: TaskView } = {}): Promise<Task> {
    const { view = TaskView.FULL } = options;
    const page = async (before: { beforeMessage?: number; beforeArtifact?: number }) =>
      taskOf(await this.#caller.answer((call) => this.agent.getTask({ taskId, view, ...before }, call), options));
    const task = await page({});
    while (view === TaskView.FULL && (task.firstMessage > 0 || task.firstArtifact > 0)) {
      const earlier = await page({ beforeMessage: task.firstMessage, beforeArtifact: task.firstArtifact });
      if (earlier.messages.length === 0 && earlier.artifacts.length === 0) {
        break; // the agent has no more
      }
      task.messages = [...earlier.messages, ...task.messages];
      task.artifacts = [...earlier.artifacts, ...task.artifacts];
      task.omitted = [...new Set([...task.omitted, ...earlier.omitted])];
      task.firstMessage = earlier.firstMessage;
      task.firstArtifact = earlier.firstArtifact;
    }
    return task;
  }

  /** The caller's tasks, last changed first. Pages are fetched as they are needed. */
  list(filter: TaskFilter = {}, options: CallOptions = {}): Stream<Task> {
    return this.#caller.stream((call) => this.#pages(filter, options, call), options);
  }

  /** Asks the agent to cancel a task, and returns its header afterwards. */
  async cancel(taskId: string, reason = "", options?: CallOptions): Promise<Task> {
    const request = { taskId, reason };
    return taskOf(await this.#caller.answer((call) => this.agent.cancelTask(request, call), options));
  }

  /** The agent's tools, ordered by name. */
  async tools(options: ToolListOptions = {}): Promise<Tool[]> {
    const found: Tool[] = [];
    let { pageToken = "" } = options;
    do {
      const request = { pageSize: options.pageSize, pageToken };
      const page = await this.#caller.answer((call) => this.control.listTools(request, call), options);
      found.push(...page.tools);
      pageToken = page.nextPageToken;
    } while (pageToken);
    return found;
  }

  /**
   * Runs one tool of the agent as a task of its own, and waits for its end. A tool that failed is no error: its `output` says so. An
   * error says the `taskId` of the task that the call has become: it may run, and can be looked up and canceled.
   */
  async callTool(toolName: string, args: ToolArguments = {}, options: ToolOptions = {}): Promise<CallToolResponse> {
    const { taskId = randomId(), requestId = this.#newRequestId(), sessionId } = options;
    const call = toolCall(toolName, args);
    const request = { call, requestId, sessionId, taskId };
    try {
      return await this.#caller.answer((each) => this.control.callTool(request, each), options);
    } catch (error) {
      throw aboutTask(error, taskId);
    }
  }

  /** Approvals that the caller may answer or has requested, oldest first. */
  async approvals(filter: ApprovalFilter = {}, options?: CallOptions): Promise<Approval[]> {
    const found: Approval[] = [];
    let { pageToken = "" } = filter;
    do {
      const request = { ...filter, pageToken };
      const page = await this.#caller.answer((call) => this.control.listApprovals(request, call), options);
      found.push(...page.approvals);
      pageToken = page.nextPageToken;
    } while (pageToken);
    return found;
  }

  /**
   * Yields the pending approvals, then every approval that is requested or answered, until it is left. After an interruption it yields
   * those that were requested or answered meanwhile, each once and in its current state.
   */
  watchApprovals(filter: Pick<ApprovalFilter, "taskId"> = {}, options: CallOptions = {}): Stream<Approval> {
    return this.#caller.stream((call) => this.#watchedApprovals(filter, call), options);
  }

  /**
   * Answers an approval. If it has an answer already, nothing changes and the response says so (`alreadyDecided`). After an
   * interruption the answer is repeated with the same request id, so it is never taken for the answer of another approver.
   *
   * @param approval - As {@link approvals} or {@link watchApprovals} shows it: the answer holds for what it shows.
   */
  async respond(
    approval: Approval,
    approved: boolean,
    answer: ApprovalAnswer = {},
    options?: CallOptions,
  ): Promise<RespondApprovalResponse> {
    const { reason, editedArguments, metadata } = answer;
    const request = {
      approvalId: approval.approvalId,
      verdict: approved ? ApprovalVerdict.APPROVE : ApprovalVerdict.DENY,
      etag: approval.etag,
      reason,
      editedArguments: editedArguments && { value: { case: "json" as const, value: jsonText(editedArguments) } },
      metadataJson: metadata && jsonText(metadata),
      requestId: this.#newRequestId(),
    };
    return this.#caller.answer((call) => this.control.respondApproval(request, call), options);
  }

  /** What sends a task. A new one has its id before it is sent. */
  #submission(input: Input, options: SubmitOptions) {
    const { taskId, expectedSequence, requestId = this.#newRequestId() } = options;
    let given = inputOf(input);
    if (taskId) {
      given = { ...given, taskId, target: TaskTarget.CONTINUE };
    } else if (!given.taskId && given.target !== TaskTarget.CONTINUE) {
      given = { ...given, taskId: randomId(), target: given.target || TaskTarget.CREATE };
    }
    if (expectedSequence !== undefined) {
      given = { ...given, expectedSequence };
    }
    return { input: given, requestId };
  }

  async #send(request: Submission, options: CallOptions): Promise<Task> {
    try {
      return taskOf(await this.#caller.answer((call) => this.agent.sendTask(request, call), options));
    } catch (error) {
      throw aboutTask(error, request.input.taskId);
    }
  }

  #events(
    position: LogPosition,
    options: StreamOptions | SubscribeOptions,
    open: (call: ConnectOptions) => AsyncIterable<StreamTaskResponse | SubscribeTaskResponse>,
  ): Stream<RunEvent> {
    return this.#caller.stream((call) => this.#readEvents(call, position, open, options.onDelta), options);
  }

  async *#readEvents(
    call: Call,
    position: LogPosition,
    open: (call: ConnectOptions) => AsyncIterable<StreamTaskResponse | SubscribeTaskResponse>,
    onDelta?: (delta: Delta) => void,
  ): AsyncGenerator<RunEvent, void, undefined> {
    const isWhole = (attempt: ConnectOptions) => this.#isWhole(position, attempt);
    const references = new References();
    const texts = new TextsRead();
    const reopen = (attempt: ConnectOptions) => {
      texts.reopen();
      return open(attempt);
    };
    try {
      for await (const response of call.responses(reopen, () => position.isComplete, isWhole)) {
        for (const event of response.events) {
          if (position.advance(event)) {
            call.patience.progress();
            texts.pass(event);
            yield references.resolve(event);
          }
        }
        if (onDelta) {
          texts.show(response.deltas, onDelta);
        }
      }
    } catch (error) {
      throw aboutTask(error, position.taskId);
    }
  }

  /** Whether a stream of events that the agent has ended shows all that it was opened for. */
  async #isWhole(position: LogPosition, call: ConnectOptions): Promise<boolean> {
    if (position.isSettled || position.stopAt === StopAt.CURRENT) {
      return true;
    }
    if (position.seen === undefined) {
      return false;
    }
    // A reader who has come back after the last event is shown nothing.
    const { task } = await this.agent.getTask({ taskId: position.taskId, view: TaskView.HEADER }, call);
    return task !== undefined && task.sequence <= position.seen && hasEnded(task.state);
  }

  #subscribed({ taskId, seen = 0n, stopAt }: LogPosition, deltas: DeltaMode, call: ConnectOptions) {
    return this.agent.subscribeTask({ taskId, afterSequence: seen, stopAt, deltas }, call);
  }

  async *#pages(filter: TaskFilter, options: CallOptions, whole: Call): AsyncGenerator<Task, void, undefined> {
    const updatedAfter = filter.updatedAfter && timestampFromDate(filter.updatedAfter);
    let { pageToken = "" } = filter;
    do {
      const request = { ...filter, updatedAfter, pageToken };
      const page = await this.#caller.answer((call) => this.agent.listTasks(request, call), options, whole);
      yield* page.tasks;
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  async *#watchedApprovals(
    { taskId }: Pick<ApprovalFilter, "taskId">,
    call: Call,
  ): AsyncGenerator<Approval, void, undefined> {
    const known = new KnownApprovals();
    const open = (attempt: ConnectOptions) => {
      known.begin();
      return this.control.watchApprovals({ taskId, afterRevision: known.revision }, attempt);
    };
    for await (const response of call.responses(open)) {
      if (response.approvals.length > 0) {
        call.patience.stayedOpen(); // a snapshot may have no news
      }
      for (const approval of known.take(response)) {
        call.patience.progress();
        yield approval;
      }
    }
  }

  /** An id that no other request has, here or elsewhere. */
  #newRequestId(): string {
    return `${this.#name}-${++this.#requests}`;
  }
}

/** What starts or continues a task. */
interface Submission {
  input: TaskInput;
  requestId: string;
  view?: TaskView;
  waitFor?: WaitFor;
}

function deltaMode({ onDelta }: StreamOptions | SubscribeOptions): DeltaMode {
  return onDelta ? DeltaMode.ALL : DeltaMode.NONE;
}

function taskOf(response: { task?: Task }): Task {
  return response.task ?? create(TaskSchema);
}
