/** Snapshots: the current state of a caller's sessions, threads and tasks. */

import { create } from "@bufbuild/protobuf";
import { type Client as Stub, createClient, type Transport } from "@connectrpc/connect";
import {
  type ArtifactsSnapshot,
  ArtifactsSnapshotSchema,
  type ContextBoundarySnapshot,
  ContextBoundarySnapshotSchema,
  type EvidenceSnapshot,
  EvidenceSnapshotSchema,
  type QueueSnapshot,
  QueueSnapshotSchema,
  type SessionSnapshot,
  SessionSnapshotSchema,
  SnapshotService,
  type ThreadSnapshot,
  ThreadSnapshotSchema,
  type ToolInventorySnapshot,
  ToolInventorySnapshotSchema,
} from "@protolink-grpc/protocol";

import type { Caller } from "./caller.js";
import type { CallOptions } from "./options.js";

/** Options of {@link Snapshots.thread} and {@link Snapshots.queue}. */
export interface ThreadOptions extends CallOptions {
  /** The thread. Default: `default`; of a queue: all threads. */
  threadId?: string;
}

/**
 * The snapshots of an agent: `snapshots` of its `Client`. Each names the position or sequence that it reflects: a stream that starts there
 * misses nothing. A part without a value is in its `gaps`. The snapshot of a task is in `tasks`.
 *
 * Every method fails with a `ProtolinkError`, and repeats calls as `Client` does. Agents of other systems have no snapshots: UNIMPLEMENTED.
 */
export class Snapshots {
  /** The stub of SnapshotService, without retries and with Connect's errors. */
  readonly stub: Stub<typeof SnapshotService>;
  readonly #caller: Caller;

  /** Made by `Client`. */
  constructor(transport: Transport, caller: Caller) {
    this.stub = createClient(SnapshotService, transport);
    this.#caller = caller;
  }

  /** A session with its threads. Fails with SESSION_NOT_FOUND. */
  async session(sessionId: string, options?: CallOptions): Promise<SessionSnapshot> {
    const { snapshot } = await this.#caller.answer(
      (call) => this.stub.getSessionSnapshot({ sessionId }, call),
      options,
    );
    return snapshot ?? create(SessionSnapshotSchema);
  }

  /** A thread with its turns and open tasks. Fails with SESSION_NOT_FOUND or THREAD_NOT_FOUND. */
  async thread(sessionId: string, options: ThreadOptions = {}): Promise<ThreadSnapshot> {
    const request = { sessionId, threadId: options.threadId };
    const { snapshot } = await this.#caller.answer((call) => this.stub.getThreadSnapshot(request, call), options);
    return snapshot ?? create(ThreadSnapshotSchema);
  }

  /** The queues of a session, or of one thread. Fails with SESSION_NOT_FOUND or THREAD_NOT_FOUND. */
  async queue(sessionId: string, options: ThreadOptions = {}): Promise<QueueSnapshot> {
    const request = { sessionId, threadId: options.threadId };
    const { snapshot } = await this.#caller.answer((call) => this.stub.getQueueSnapshot(request, call), options);
    return snapshot ?? create(QueueSnapshotSchema);
  }

  /** The tools that the caller can use now, with the effect of the agent's policy. */
  async tools(options?: CallOptions): Promise<ToolInventorySnapshot> {
    const { snapshot } = await this.#caller.answer((call) => this.stub.getToolInventory({}, call), options);
    return snapshot ?? create(ToolInventorySnapshotSchema);
  }

  /** The context of the latest model call of a task. Fails with TASK_NOT_FOUND. */
  async context(taskId: string, options?: CallOptions): Promise<ContextBoundarySnapshot> {
    const { snapshot } = await this.#caller.answer((call) => this.stub.getContextBoundary({ taskId }, call), options);
    return snapshot ?? create(ContextBoundarySnapshotSchema);
  }

  /** The artifacts of a task without their content. Fails with TASK_NOT_FOUND. */
  async artifacts(taskId: string, options?: CallOptions): Promise<ArtifactsSnapshot> {
    const { snapshot } = await this.#caller.answer((call) => this.stub.getArtifacts({ taskId }, call), options);
    return snapshot ?? create(ArtifactsSnapshotSchema);
  }

  /** The counts of actions, approvals and decisions in the log of a task. Fails with TASK_NOT_FOUND. */
  async evidence(taskId: string, options?: CallOptions): Promise<EvidenceSnapshot> {
    const { snapshot } = await this.#caller.answer((call) => this.stub.getEvidence({ taskId }, call), options);
    return snapshot ?? create(EvidenceSnapshotSchema);
  }
}
