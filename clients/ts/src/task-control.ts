/** The control of a caller's tasks: drafts, descriptions, links, pauses, retries, and work outside of the agent. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type CallOptions as ConnectOptions,
  type Client as Stub,
  createClient,
  type Transport,
} from "@connectrpc/connect";
import {
  type Artifact,
  type FailureSchema,
  type LinkKind,
  type Message,
  type TaskDescriptionSchema,
  type TaskLinkSchema,
  TaskControlService,
  type TaskSnapshot,
  TaskSnapshotSchema,
  type TaskStatus,
} from "@protolink-grpc/protocol";

import { type Call, type Caller, type Stream } from "./caller.js";
import { aboutTask } from "./errors.js";
import type { CallOptions } from "./options.js";
import { jsonText } from "./parts.js";
import { agentMessage, type Content, type Input, newTask, randomId } from "./tasks.js";

/** Options of {@link TaskControl.create}. */
export interface DraftOptions extends CallOptions {
  /** What the work is, for people and programs. */
  description?: MessageInitShape<typeof TaskDescriptionSchema>;
  /** At most 100. */
  links?: MessageInitShape<typeof TaskLinkSchema>[];
  /** Identifies the request: the same id is never a second task, from another process either. Default: a new random one. */
  requestId?: string;
}

/** Options of {@link TaskControl.update}. What is not set stays as it is. */
export interface TaskChanges extends CallOptions {
  /** Replaces the description as a whole. */
  description?: MessageInitShape<typeof TaskDescriptionSchema>;
  /** Keys of the metadata that change; null removes a key. */
  metadata?: Record<string, unknown>;
  /** Sequence of the last event of the task that the caller has seen. Default: any. */
  expectedSequence?: bigint;
}

/** Options of {@link TaskControl.start}. */
export interface StartOptions extends CallOptions {
  /** The work is done outside of the agent: no run begins, and `complete` or `fail` ends the task. */
  external?: boolean;
}

/** Options of {@link TaskControl.reportProgress}. */
export interface ProgressOptions extends CallOptions {
  /** In percent, from 0 to 100. Default: unknown. */
  progress?: number;
  /** One sentence for people. */
  message?: string;
  /** Identifies the report, as in {@link DraftOptions}. */
  requestId?: string;
}

/** Options of {@link TaskControl.pause}, `resume` and `link`. */
export interface ReasonOptions extends CallOptions {
  /** Why, one sentence. */
  reason?: string;
}

/** Options of {@link TaskControl.retry}. */
export interface RetryOptions extends ReasonOptions {
  /** Identifies the request, as in {@link DraftOptions}. */
  requestId?: string;
}

/** Options of {@link TaskControl.complete}. */
export interface CompletionOptions extends CallOptions {
  /** Messages to add before the end, in this order. */
  messages?: Message[];
  /** The answer, which is added after them as a message of the agent. */
  message?: Content;
  /** Artifacts to add before the end. */
  artifacts?: Artifact[];
}

/** Options of {@link TaskControl.list}. */
export interface TaskSnapshotFilter extends CallOptions {
  /** With one of these statuses. */
  statuses?: TaskStatus[];
  /** Of this session. */
  sessionId?: string;
  /** Tasks fetched at once, from 1 to 1,000. Default: 50. */
  pageSize?: number;
  /** The `nextPageToken` of an earlier page, to begin with the page after it. Default: the first page. */
  pageToken?: string;
}

/**
 * The control of the caller's tasks with an agent: `tasks` of its `Client`. Each method returns the task after the call.
 *
 * Every method fails with a `ProtolinkError`, with TASK_NOT_FOUND if the caller has no such task, and repeats calls as `Client` does. Agents
 * of other systems have no task control: UNIMPLEMENTED.
 */
export class TaskControl {
  /** The stub of TaskControlService, without retries and with Connect's errors. */
  readonly stub: Stub<typeof TaskControlService>;
  readonly #caller: Caller;

  /** Made by `Client`. */
  constructor(transport: Transport, caller: Caller) {
    this.stub = createClient(TaskControlService, transport);
    this.#caller = caller;
  }

  /**
   * Creates a draft: a task that does not begin before {@link start}. Fails with TASK_ALREADY_EXISTS, with TASK_NOT_FOUND for a link to an
   * unknown task, and with LINK_CYCLE. An error says the `taskId`.
   */
  async create(input: Input, options: DraftOptions = {}): Promise<TaskSnapshot> {
    const { description, links, requestId = randomId() } = options;
    const request = { input: newTask(input), description, links, requestId };
    try {
      return await this.#changed((call) => this.stub.createTask(request, call), options);
    } catch (error) {
      throw aboutTask(error, request.input.taskId);
    }
  }

  /**
   * Changes the description of a task or keys of its metadata. Fails with SEQUENCE_CONFLICT if the last event of the task is not
   * `expectedSequence`, also for a repetition after a response that got lost.
   */
  async update(taskId: string, options: TaskChanges): Promise<TaskSnapshot> {
    const { description, metadata, expectedSequence } = options;
    const request = { taskId, description, metadataJson: metadata && jsonText(metadata), expectedSequence };
    return this.#changed((call) => this.stub.updateTask(request, call), options);
  }

  /** Starts a draft. It waits if other tasks block it. A task that has been started is returned unchanged. Fails with TASK_FINISHED. */
  async start(taskId: string, options: StartOptions = {}): Promise<TaskSnapshot> {
    const request = { taskId, external: options.external };
    return this.#changed((call) => this.stub.startTask(request, call), options);
  }

  /** Adds a progress report to a task that has not ended. Fails with TASK_FINISHED. */
  async reportProgress(taskId: string, options: ProgressOptions): Promise<TaskSnapshot> {
    const { progress, message, requestId = randomId() } = options;
    const request = { taskId, progress, message, requestId };
    return this.#changed((call) => this.stub.appendTaskProgress(request, call), options);
  }

  /**
   * Pauses a task at the next point at which its run can wait. Fails with TASK_FINISHED, and with INVALID_TRANSITION for a draft or a task
   * that waits for input.
   */
  async pause(taskId: string, options: ReasonOptions = {}): Promise<TaskSnapshot> {
    const request = { taskId, reason: options.reason };
    return this.#changed((call) => this.stub.pauseTask(request, call), options);
  }

  /** Ends the pause of a task. A task that is not paused is returned unchanged. Fails with TASK_FINISHED. */
  async resume(taskId: string, options: ReasonOptions = {}): Promise<TaskSnapshot> {
    const request = { taskId, reason: options.reason };
    return this.#changed((call) => this.stub.resumeTask(request, call), options);
  }

  /** Begins the work on an ended task again, with the same input. Fails with INVALID_TRANSITION if the task has not ended. */
  async retry(taskId: string, options: RetryOptions = {}): Promise<TaskSnapshot> {
    const { reason, requestId = randomId() } = options;
    return this.#changed((call) => this.stub.retryTask({ taskId, reason, requestId }, call), options);
  }

  /**
   * Ends a task with success, for work outside of the agent. Fails with TASK_ALREADY_RUNNING for a task that the agent works on, and with
   * TASK_FINISHED for one that has ended in another state.
   */
  async complete(taskId: string, options: CompletionOptions = {}): Promise<TaskSnapshot> {
    const { messages = [], message, artifacts } = options;
    const answer = message === undefined ? [] : [agentMessage(message)];
    const request = { taskId, messages: [...messages, ...answer], artifacts };
    return this.#changed((call) => this.stub.completeTask(request, call), options);
  }

  /** Ends a task with a failure, or with its message. Fails as {@link complete}. */
  async fail(
    taskId: string,
    failure: string | MessageInitShape<typeof FailureSchema>,
    options?: CallOptions,
  ): Promise<TaskSnapshot> {
    const request = { taskId, failure: typeof failure === "string" ? { message: failure } : failure };
    return this.#changed((call) => this.stub.failTask(request, call), options);
  }

  /**
   * Adds a link to a task, or changes the reason of an existing one. Fails with LINK_CYCLE if the other task leads back to this one, with
   * TASK_STARTED for a blocker of a task that has been started, and with TASK_FINISHED.
   *
   * @param target - Id of another task of the caller; an id or a URI for `LinkKind.ARTIFACT` and `LinkKind.EVIDENCE`.
   */
  async link(taskId: string, kind: LinkKind, target: string, options: ReasonOptions = {}): Promise<TaskSnapshot> {
    const request = { taskId, link: { kind, target, reason: options.reason } };
    return this.#changed((call) => this.stub.linkTasks(request, call), options);
  }

  /** Removes a link, if it exists. A started task without any other blocker begins. */
  async unlink(taskId: string, kind: LinkKind, target: string, options?: CallOptions): Promise<TaskSnapshot> {
    const request = { taskId, link: { kind, target } };
    return this.#changed((call) => this.stub.unlinkTasks(request, call), options);
  }

  /** A task with its status in detail, its attempts and its links. */
  async get(taskId: string, options?: CallOptions): Promise<TaskSnapshot> {
    return this.#changed((call) => this.stub.getTaskSnapshot({ taskId }, call), options);
  }

  /** The caller's tasks without attempts and links, last changed first. Pages are fetched as they are needed. */
  list(options: TaskSnapshotFilter = {}): Stream<TaskSnapshot> {
    return this.#caller.stream((call) => this.#pages(options, call), options);
  }

  async #changed(
    attempt: (call: ConnectOptions) => Promise<{ snapshot?: TaskSnapshot }>,
    options?: CallOptions,
  ): Promise<TaskSnapshot> {
    const { snapshot } = await this.#caller.answer(attempt, options);
    return snapshot ?? create(TaskSnapshotSchema);
  }

  async *#pages(options: TaskSnapshotFilter, whole: Call): AsyncGenerator<TaskSnapshot, void, undefined> {
    const { statuses, sessionId, pageSize } = options;
    let { pageToken = "" } = options;
    do {
      const request = { statuses, sessionId, pageSize, pageToken };
      const page = await this.#caller.answer((call) => this.stub.listTaskSnapshots(request, call), options, whole);
      yield* page.snapshots;
      pageToken = page.nextPageToken;
    } while (pageToken);
  }
}
