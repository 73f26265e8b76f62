/** The values that the events of a log refer to. */

import { create } from "@bufbuild/protobuf";
import {
  type Message,
  PayloadSchema,
  type PolicyDecision,
  type RunAction,
  type RunEvent,
  TaskState,
  type ToolCall,
} from "@protolink-grpc/protocol";

interface KnownAction {
  action: RunAction;
  verdict?: PolicyDecision;
}

/**
 * Resolves what the events of one log refer to. An event leaves out a value that an earlier event of the log has: the arguments of an
 * action that a tool call requested, and the action and the verdict of an approval.
 *
 * `Client.stream` and `Client.subscribe` resolve the arguments themselves. Use one of your own to look up actions and verdicts while
 * you read a stream, or to read events from elsewhere. Pass each event of the log to {@link resolve}, in order.
 *
 * A log that is read from its beginning, or from the beginning of a turn, is resolved completely. If it is read from the middle, what
 * refers to an event before that stays as it is: {@link isAbridged} reports it, and {@link action} does not know the action.
 */
export class References {
  /** JSON text of the arguments of the tool calls that no action has named yet, by call id. */
  readonly #calls = new Map<string, string>();
  readonly #actions = new Map<string, KnownAction>();

  /**
   * Notes the next event of the log.
   *
   * @returns The event with its arguments put back. An event that leaves nothing out is returned as it is; any other is copied.
   */
  resolve(event: RunEvent): RunEvent {
    const { payload, actionId } = event;
    switch (payload.case) {
      case "taskSubmitted":
        this.#noteMessages(payload.value.task?.messages ?? []);
        break;
      case "taskMessages":
        this.#noteMessages(payload.value.messages);
        break;
      case "llmCallCompleted":
        this.#noteCalls(payload.value.toolCalls);
        break;
      case "taskStatus":
        if (isAtRest(payload.value.newState)) {
          this.#calls.clear();
          this.#actions.clear();
        }
        break;
      case "actionRequested":
        return this.#requested(event);
      case "actionPolicy": {
        const known = this.#actions.get(actionId);
        if (known) {
          known.verdict = payload.value.decision;
        }
        break;
      }
      case "actionEnded":
        this.#actions.delete(actionId);
    }
    return event;
  }

  /**
   * The action of that id, as it was requested: `actionId` of an event names it. Undefined for an action that has ended, or that was
   * requested before the first event that was read.
   */
  action(actionId: string): RunAction | undefined {
    return this.#actions.get(actionId)?.action;
  }

  /** The last decision of the policy about the action of that id. Undefined where there is none, or the action is not known. */
  verdict(actionId: string): PolicyDecision | undefined {
    return this.#actions.get(actionId)?.verdict;
  }

  #requested(event: RunEvent): RunEvent {
    const { payload, actionId } = event;
    if (payload.case !== "actionRequested" || !payload.value.action) {
      return event;
    }
    let { action } = payload.value;
    const args = this.#calls.get(action.callId);
    this.#calls.delete(action.callId);
    const isPutBack = args !== undefined && isAbridged(event);
    if (isPutBack) {
      const json = `{"arguments":${args}}`;
      action = { ...action, payload: create(PayloadSchema, { value: { case: "json", value: json } }) };
    }
    this.#actions.set(actionId, { action });
    return isPutBack ? { ...event, payload: { ...payload, value: { ...payload.value, action } } } : event;
  }

  #noteMessages(messages: Message[]): void {
    for (const { parts } of messages) {
      this.#noteCalls(parts.flatMap(({ content }) => (content.case === "toolCall" ? [content.value] : [])));
    }
  }

  #noteCalls(calls: ToolCall[]): void {
    for (const { callId, arguments: args } of calls) {
      if (!callId) {
        continue;
      }
      this.#calls.delete(callId);
      if (!args) {
        this.#calls.set(callId, "{}");
      } else if (args.value.case === "json" && !args.encoding) {
        this.#calls.set(callId, args.value.value); // an action has no other arguments
      }
    }
  }
}

/** Whether the event requests an action whose arguments are in an earlier event of the log. */
export function isAbridged({ payload }: RunEvent): boolean {
  const action = payload.case === "actionRequested" ? payload.value.action : undefined;
  return action !== undefined && action.callId !== "" && action.payload === undefined;
}

/** Whether the task has ended or waits for input. */
function isAtRest(state: TaskState): boolean {
  switch (state) {
    case TaskState.COMPLETED:
    case TaskState.CANCELED:
    case TaskState.FAILED:
    case TaskState.REJECTED:
    case TaskState.INPUT_REQUIRED:
    case TaskState.AUTH_REQUIRED:
      return true;
    default:
      return false;
  }
}
