/** Where a reader is in the log of a task: what it has seen, and whether anything is still to come. */

import { Code } from "@connectrpc/connect";
import { type RunEvent, StopAt, TaskState } from "@protolink-grpc/protocol";

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
