/** Talks to protolink agents. `connect` is in `@protolink-grpc/client/node` and `@protolink-grpc/client/web`. */

export { Code } from "@connectrpc/connect";
export {
  type ApprovalAnswer,
  type ApprovalFilter,
  Client,
  type SendOptions,
  type StreamOptions,
  type SubscribeOptions,
  type TaskFilter,
} from "./client.js";
export { DOMAIN, type ErrorDetails, ProtolinkError, type Reason, type Violation } from "./errors.js";
export {
  type CallOptions,
  type ClientOptions,
  DEFAULT_MAX_ATTEMPTS,
  DEFAULT_TIMEOUT_MS,
  MAX_MESSAGE_BYTES,
} from "./options.js";
export { type AgentFilter, Registry } from "./registry.js";
export { outputText, taskFrom, type TaskInput, textOf, userMessage } from "./tasks.js";
