/** The verbs of an agent. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
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
  type ApprovalDecisionSchema,
  ApprovalState,
  ControlService,
  type RespondApprovalResponse,
  type RunEvent,
  StopAt,
  type StreamTaskResponse,
  type SubscribeTaskResponse,
  type Task,
  TaskSchema,
  type TaskState,
  type TaskView,
  type TextDelta,
} from "@protolink-grpc/protocol";

import { Caller } from "./caller.js";
import { LogPosition } from "./log.js";
import type { CallOptions, ClientOptions } from "./options.js";
import { taskFrom, type TaskInput } from "./tasks.js";

/** What {@link Client.send} can be told. */
export interface SendOptions extends CallOptions {
  /** Identifies the request: the same id is never a second run, from another process either. Default: a new random one. */
  requestId?: string;
  /** How much of the task to return. Default: the latest turn. */
  view?: TaskView;
  /** Whether to return as soon as the agent has accepted the task. Default: when it ends or waits for someone. */
  returnImmediately?: boolean;
}

/** What {@link Client.stream} can be told. */
export interface StreamOptions extends CallOptions {
  /** As in {@link SendOptions}. */
  requestId?: string;
  /**
   * Is given the text that models are producing, piece by piece. It is volatile: place it by `callId` and `offset`, for after a
   * cut what there is of it comes again. The finished text is in an event.
   */
  onDelta?: (delta: TextDelta) => void;
}

/** What {@link Client.subscribe} can be told. */
export interface SubscribeOptions extends CallOptions {
  /** Sequence of the last event that the caller has. Default: 0, from the beginning. */
  after?: bigint;
  /** Where to end. Default: at the task's last event. */
  stopAt?: StopAt;
  /** As in {@link StreamOptions}. */
  onDelta?: (delta: TextDelta) => void;
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
  /** How much of each task. Default: the header. */
  view?: TaskView;
}

/** Which approvals {@link Client.approvals} shows. */
export interface ApprovalFilter {
  /** In one of these states. Default: pending. */
  states?: ApprovalState[];
  /** Of this task. Default: of any. */
  taskId?: string;
}

/** What goes with the answer to an approval: a reason, other arguments, further facts. */
export type ApprovalAnswer = Omit<
  MessageInitShape<typeof ApprovalDecisionSchema>,
  "$typeName" | "requestId" | "approved" | "fingerprint"
>;

/**
 * One agent. Made by `connect` of `@protolink-grpc/client/node` or `/web`.
 *
 * Every method fails with a `ProtolinkError`. Calls are repeated where the agent was not reached, or asks for it; with a request
 * id that is never a second run.
 */
export class Client {
  /** The stub of AgentService, without retries and with Connect's errors. */
  readonly agent: Stub<typeof AgentService>;
  /** The stub of ControlService, as above. */
  readonly control: Stub<typeof ControlService>;
  readonly #caller: Caller;
  readonly #close: () => void;
  readonly #name = randomName();
  #requests = 0;

  /**
   * @param transport - Any Connect transport that speaks gRPC or gRPC-Web.
   * @param close - Releases what the transport holds.
   */
  constructor(transport: Transport, options: Pick<ClientOptions, "timeoutMs" | "maxAttempts"> = {}, close = () => {}) {
    this.agent = createClient(AgentService, transport);
    this.control = createClient(ControlService, transport);
    this.#caller = new Caller(options);
    this.#close = close;
  }

  /** Closes the connection. Calls that are under way, and all later ones, fail with `Code.Canceled`. */
  close(): void {
    this.#caller.close();
    this.#close();
  }

  /** Who the agent is and what it can do. */
  async card(options?: CallOptions): Promise<AgentCard> {
    const { card } = await this.#caller.answer((call) => this.agent.getAgentCard({}, call), options);
    return card ?? create(AgentCardSchema);
  }

  /**
   * Starts or continues a task, and waits until it ends or waits for someone. A task that failed is returned, too: look at its
   * `state`.
   */
  async send(input: TaskInput, options: SendOptions = {}): Promise<Task> {
    const { requestId = this.#newRequestId(), view, returnImmediately } = options;
    const request = { task: taskFrom(input), requestId, view, returnImmediately };
    return taskOf(await this.#caller.answer((call) => this.agent.sendTask(request, call), options));
  }

  /**
   * Starts or continues a task, and yields the events of this turn as they happen, until the task ends or waits for someone.
   * It survives cuts: each event comes once, in order, without a gap. Leaving it early leaves the run alone.
   */
  async *stream(input: TaskInput, options: StreamOptions = {}): AsyncGenerator<RunEvent, void, undefined> {
    const request = {
      task: taskFrom(input),
      requestId: options.requestId ?? this.#newRequestId(),
      deltas: !!options.onDelta,
    };
    const position = new LogPosition(StopAt.INTERRUPTED);
    yield* this.#events(position, options, (call) =>
      position.seen === undefined
        ? this.agent.streamTask(request, call)
        : this.#subscribed(position, StopAt.INTERRUPTED, request.deltas, call),
    );
  }

  /** Yields the events of a task after a sequence: stored ones, then live ones. It survives cuts as {@link stream} does. */
  async *subscribe(taskId: string, options: SubscribeOptions = {}): AsyncGenerator<RunEvent, void, undefined> {
    const { after = 0n, stopAt = StopAt.TERMINAL, onDelta } = options;
    const position = new LogPosition(stopAt, taskId, after);
    yield* this.#events(position, options, (call) => this.#subscribed(position, stopAt, !!onDelta, call));
  }

  /** A task as it is now. Default: all of it. */
  async get(taskId: string, options: CallOptions & { view?: TaskView } = {}): Promise<Task> {
    const request = { taskId, view: options.view };
    return taskOf(await this.#caller.answer((call) => this.agent.getTask(request, call), options));
  }

  /** The caller's tasks, last changed first. Pages are fetched as they are needed. */
  async *list(filter: TaskFilter = {}, options?: CallOptions): AsyncGenerator<Task, void, undefined> {
    const updatedAfter = filter.updatedAfter && timestampFromDate(filter.updatedAfter);
    let pageToken = "";
    do {
      const request = { ...filter, updatedAfter, pageToken };
      const page = await this.#caller.answer((call) => this.agent.listTasks(request, call), options);
      yield* page.tasks;
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** Asks the agent to cancel a task, and returns its header afterwards. */
  async cancel(taskId: string, reason = "", options?: CallOptions): Promise<Task> {
    const request = { taskId, reason, requestId: this.#newRequestId() };
    return taskOf(await this.#caller.answer((call) => this.agent.cancelTask(request, call), options));
  }

  /** Approvals that the caller may answer or has asked for, oldest first. */
  async approvals(filter: ApprovalFilter = {}, options?: CallOptions): Promise<Approval[]> {
    const found: Approval[] = [];
    let pageToken = "";
    do {
      const request = { ...filter, pageToken };
      const page = await this.#caller.answer((call) => this.control.listApprovals(request, call), options);
      found.push(...page.approvals);
      pageToken = page.nextPageToken;
    } while (pageToken);
    return found;
  }

  /**
   * Yields the pending approvals, then every approval that is asked for or answered, until it is left. After a cut it tells what
   * became of those that were pending, and nothing twice.
   */
  async *watchApprovals(
    filter: Pick<ApprovalFilter, "taskId"> = {},
    options?: CallOptions,
  ): AsyncGenerator<Approval, void, undefined> {
    const pending = new Map<string, Approval>();
    let unseen = new Map<string, Approval>();
    const patience = this.#caller.patience();
    const open = (call: ConnectOptions) => {
      unseen = new Map(pending);
      return this.control.watchApprovals(filter, call);
    };
    for await (const { approvals } of this.#caller.responses(open, patience, options)) {
      // A response without approvals says that all pending ones have been shown: others have been decided.
      const decided = approvals.length === 0 && unseen.size > 0 ? await this.#decided(unseen, options) : [];
      for (const approval of [...approvals, ...decided]) {
        const id = approval.request?.requestId ?? "";
        unseen.delete(id);
        if (approval.state === ApprovalState.PENDING) {
          if (pending.has(id)) {
            continue;
          }
          pending.set(id, approval);
        } else {
          pending.delete(id);
        }
        patience.progress();
        yield approval;
      }
    }
  }

  /**
   * Answers an approval. A second answer changes nothing and says so (`alreadyDecided`).
   *
   * @param approval - As {@link approvals} or {@link watchApprovals} shows it: the answer holds for the action that it shows.
   */
  async respond(
    approval: Approval,
    approved: boolean,
    answer: ApprovalAnswer = {},
    options?: CallOptions,
  ): Promise<RespondApprovalResponse> {
    const requestId = approval.request?.requestId ?? "";
    const fingerprint = approval.request?.action?.fingerprint ?? "";
    const request = { decision: { ...answer, requestId, approved, fingerprint } };
    return this.#caller.answer((call) => this.control.respondApproval(request, call), options);
  }

  /** An id that no other request has, here or elsewhere. */
  #newRequestId(): string {
    return `${this.#name}-${++this.#requests}`;
  }

  #subscribed(position: LogPosition, stopAt: StopAt, deltas: boolean, call: ConnectOptions) {
    const request = { taskId: position.taskId, afterSequence: position.seen ?? 0n, stopAt, deltas };
    return this.agent.subscribeTask(request, call);
  }

  async *#events(
    position: LogPosition,
    options: StreamOptions | SubscribeOptions,
    open: (call: ConnectOptions) => AsyncIterable<StreamTaskResponse | SubscribeTaskResponse>,
  ): AsyncGenerator<RunEvent, void, undefined> {
    const patience = this.#caller.patience();
    for await (const response of this.#caller.responses(open, patience, options, () => position.isSettled)) {
      for (const event of response.events) {
        if (position.advance(event)) {
          patience.progress();
          yield event;
        }
      }
      response.deltas.forEach((delta) => options.onDelta?.(delta));
    }
  }

  async #decided(wanted: Map<string, Approval>, options?: CallOptions): Promise<Approval[]> {
    const states = [ApprovalState.APPROVED, ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.WITHDRAWN];
    const tasks = new Set([...wanted.values()].map((each) => each.request?.taskId ?? ""));
    const found = await Promise.all([...tasks].map((taskId) => this.approvals({ states, taskId }, options)));
    return found.flat().filter((each) => wanted.has(each.request?.requestId ?? ""));
  }
}

function taskOf(response: { task?: Task }): Task {
  return response.task ?? create(TaskSchema);
}

/** 128 random bits. Not `crypto.randomUUID`: pages that were not loaded over TLS do not have it. */
function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
