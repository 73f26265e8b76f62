/** The position of a reader in the log of a task: the events that it has, and whether the stream is complete. */

import { Code } from "@connectrpc/connect";
import { type Delta, type RunEvent, StopAt, TaskState } from "@protolink-grpc/protocol";

import { ProtolinkError } from "./errors.js";

/** The bookkeeping of one reader, through all its connections. */
export class LogPosition {
  /** The task. */
  taskId: string;
  /** Sequence of the last event seen; undefined before the first one of a turn, which may begin anywhere. */
  seen: bigint | undefined;
  /** Whether the last event seen is one with which the stream can end. */
  isSettled = false;
  /** Where it asks to end. */
  readonly stopAt: StopAt;

  constructor(stopAt: StopAt, taskId: string, seen?: bigint) {
    this.stopAt = stopAt;
    this.taskId = taskId;
    this.seen = seen;
  }

  /**
   * Whether nothing is missing, also if the connection breaks now. A turn is complete with its last event. A task that has ended may have
   * been retried: only the agent can end its stream.
   */
  get isComplete(): boolean {
    return this.isSettled && this.stopAt === StopAt.INTERRUPTED;
  }

  /**
   * Takes note of an event.
   *
   * @returns Whether it is news: nothing is shown twice.
   * @throws ProtolinkError - DATA_LOSS: events are missing before it.
   */
  advance(event: RunEvent): boolean {
    if (this.seen !== undefined) {
      if (event.sequence <= this.seen) {
        return false;
      }
      if (event.sequence > this.seen + 1n) {
        const gap = `task ${event.taskId}: event ${event.sequence} came after ${this.seen}`;
        throw new ProtolinkError(gap, Code.DataLoss, { metadata: { task_id: event.taskId } });
      }
    }
    this.taskId = event.taskId;
    this.seen = event.sequence;
    this.isSettled = event.last || (this.stopAt === StopAt.INTERRUPTED && waits(event));
    return true;
  }
}

/** A text that is being produced: how many bytes of it the reader has, and whether the current stream has sent some of it. */
interface TextRead {
  shown: number;
  isSent: boolean;
}

/** What one reader has of the texts that are being produced. A stream that is opened again sends each of them from its beginning. */
export class TextsRead {
  /** By the id of the call and the number of the block. */
  readonly #texts = new Map<string, Map<number, TextRead>>();

  /** Takes note of a stream that is opened. */
  reopen(): void {
    for (const blocks of this.#texts.values()) {
      blocks.forEach((text) => (text.isSent = false));
    }
  }

  /** Takes note of an event: when a model call is retried, or has ended, its earlier pieces are void. */
  pass({ payload }: RunEvent): void {
    if (payload.case === "llmCallStarted" || payload.case === "llmCallCompleted") {
      this.#texts.delete(payload.value.callId);
    }
  }

  /** Shows what the reader does not have of these pieces. Pieces of a later version are left out. */
  show(deltas: readonly Delta[], onDelta: (delta: Delta) => void): void {
    for (const delta of deltas) {
      const rest = this.#rest(delta);
      if (rest) {
        onDelta(rest);
      }
    }
  }

  #rest(delta: Delta): Delta | undefined {
    const { callId, block, piece } = delta;
    if (piece.case === undefined) {
      return undefined;
    }
    const bytes = new TextEncoder().encode(piece.value);
    const offset = Number(delta.offsetBytes);
    const blocks = this.#texts.get(callId) ?? new Map<number, TextRead>();
    const text = blocks.get(block) ?? { shown: 0, isSent: false };
    this.#texts.set(callId, blocks.set(block, text));
    if (text.isSent && offset === 0) {
      text.shown = 0; // it begins again in the middle of a stream
    }
    text.isSent = true;
    const had = text.shown - offset;
    if (had >= bytes.length) {
      return undefined;
    }
    text.shown = offset + bytes.length;
    if (had <= 0) {
      return delta;
    }
    const value = new TextDecoder().decode(bytes.subarray(had));
    return { ...delta, offsetBytes: BigInt(offset + had), piece: { ...piece, value } };
  }
}

/** Whether a task in this state has ended. */
export function hasEnded(state: TaskState): boolean {
  switch (state) {
    case TaskState.COMPLETED:
    case TaskState.CANCELED:
    case TaskState.FAILED:
    case TaskState.REJECTED:
      return true;
    default:
      return false;
  }
}

function waits({ payload }: RunEvent): boolean {
  return (
    payload.case === "taskStatus" &&
    (payload.value.newState === TaskState.INPUT_REQUIRED || payload.value.newState === TaskState.AUTH_REQUIRED)
  );
}
