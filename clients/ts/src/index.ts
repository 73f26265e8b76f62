/** Talks to plgrpc agents. `connect` is in `@protolink-grpc/client/node` and `@protolink-grpc/client/web`. */

export { Code } from "@connectrpc/connect";
export { type CallerOptions, type Stream } from "./caller.js";
export {
  type ApprovalAnswer,
  type ApprovalFilter,
  Client,
  type SendOptions,
  type StreamOptions,
  type SubmitOptions,
  type SubscribeOptions,
  type TaskFilter,
  type ToolListOptions,
  type ToolOptions,
} from "./client.js";
export { DOMAIN, type ErrorDetails, ProtolinkError, type Reason, type Violation } from "./errors.js";
export {
  type CallOptions,
  type ClientOptions,
  DEFAULT_PATIENCE_MS,
  DEFAULT_TIMEOUT_MS,
  MAX_MESSAGE_BYTES,
} from "./options.js";
export {
  type FileInput,
  filePart,
  filesOf,
  type HasParts,
  jsonOf,
  jsonPart,
  jsonPayload,
  messageOf,
  messagePart,
  messagePayload,
  payloadText,
  textOf,
  textPart,
  type ToolArguments,
  toolCallPart,
  type ToolCallRead,
  toolCallsOf,
  type ToolOutputRead,
  toolOutputsOf,
} from "./parts.js";
export { isAbridged, References } from "./references.js";
export { type AgentFilter, Registry, urlOf } from "./registry.js";
export {
  type InterruptOptions,
  type NewSession,
  type NewThread,
  type ResumeOptions,
  type RollbackOptions,
  type RuntimeEventOptions,
  type SessionChanges,
  type SessionFilter,
  type SessionItem,
  type SessionPage,
  Sessions,
  type SessionSubscription,
  type TurnOptions,
  type TurnStreamOptions,
  type TurnWindow,
} from "./sessions.js";
export { Snapshots, type ThreadOptions } from "./snapshots.js";
export {
  type CompletionOptions,
  type DraftOptions,
  type ProgressOptions,
  type ReasonOptions,
  type RetryOptions,
  type StartOptions,
  type TaskChanges,
  TaskControl,
  type TaskSnapshotFilter,
} from "./task-control.js";
export { agentMessage, type Content, type Input, newTask, outputText, userMessage } from "./tasks.js";
