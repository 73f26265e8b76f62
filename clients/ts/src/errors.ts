/** Errors of calls: those that an agent answered, and those without an answer. */

import { BinaryReader } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import type { ErrorReason } from "@protolink-grpc/protocol";

/** The domain of the reasons of plgrpc, in `google.rpc.ErrorInfo`. */
export const DOMAIN = "protolink-grpc.github.io";

const ERROR_INFO = "google.rpc.ErrorInfo";

/** What went wrong, for programs. The enum `ErrorReason` says what each reason means; a later agent may send others. */
export type Reason = Exclude<keyof typeof ErrorReason, "UNSPECIFIED"> | (string & {});

/** What a code without a reason means: one that was made on the way, by a proxy, or here. */
const IMPLIED: Partial<Record<Code, Reason>> = {
  [Code.DeadlineExceeded]: "DEADLINE_EXCEEDED",
  [Code.InvalidArgument]: "INVALID_ARGUMENT",
  [Code.PermissionDenied]: "PERMISSION_DENIED",
  [Code.ResourceExhausted]: "RESOURCE_EXHAUSTED",
  [Code.Unauthenticated]: "UNAUTHENTICATED",
  [Code.Unavailable]: "UNAVAILABLE",
  [Code.Unimplemented]: "UNIMPLEMENTED",
};

/** One field of a request that is wrong. */
export interface Violation {
  /** Path of the field, for instance `input.task_id`. */
  readonly field: string;
  /** What is wrong with it, one sentence. */
  readonly description: string;
}

/** What an error says besides its code and its sentence. */
export interface ErrorDetails {
  /** See {@link ProtolinkError.reason}. */
  reason?: Reason;
  /** See {@link ProtolinkError.metadata}. */
  metadata?: Record<string, string>;
  /** See {@link ProtolinkError.violations}. */
  violations?: Violation[];
  /** See {@link ProtolinkError.retryAfterMs}. */
  retryAfterMs?: number;
  /** See {@link ProtolinkError.isRetryable}. Default: whether the code is UNAVAILABLE. */
  isRetryable?: boolean;
}

/**
 * The one error of this package: every promise and every iterator fails with it, unless the caller's own signal was aborted.
 *
 * `code` is gRPC's, `reason` says more; nothing else needs to be read to decide what to do.
 */
export class ProtolinkError extends Error {
  override readonly name = "ProtolinkError";
  /** The gRPC code. `Code.Unavailable` also where the agent was not reached, or the connection broke. */
  readonly code: Code;
  /**
   * The reason in the domain `protolink-grpc.github.io`. If the status has no reason, that of its code. Empty if the code says too little,
   * or if the reason is one of another system.
   */
  readonly reason: Reason;
  /** The facts of the sentence, by name, for instance `task_id`. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The fields of the request that are wrong. */
  readonly violations: readonly Violation[];
  /** How long to wait before the same request may succeed, in milliseconds; undefined where nothing was said. */
  readonly retryAfterMs: number | undefined;
  /**
   * Whether the same request, with the same request id, may succeed a little later: the agent is unavailable, the connection failed
   * (UNAVAILABLE, INTERNAL, UNKNOWN or CANCELED without `google.rpc.ErrorInfo`, which is in every answer of an agent), or the agent is
   * full and requests a delay (RESOURCE_EXHAUSTED with `retryAfterMs`). The client retries all of these except the last one.
   */
  readonly isRetryable: boolean;
  /** The task that the call was about, also one that this client has just named; empty where there is none. */
  taskId: string;

  constructor(message: string, code: Code, details: ErrorDetails = {}, cause?: unknown) {
    super(message, { cause });
    this.code = code;
    this.reason = details.reason ?? "";
    this.metadata = details.metadata ?? {};
    this.violations = details.violations ?? [];
    this.retryAfterMs = details.retryAfterMs;
    this.isRetryable = details.isRetryable ?? code === Code.Unavailable;
    this.taskId = this.metadata["task_id"] ?? "";
  }

  /**
   * What a failed call of a Connect client means. Calls of your own over the stubs can be read with it, too.
   *
   * @param signal - The signal of the call, which distinguishes an abort by the caller from a reset connection.
   */
  static from(caught: unknown, signal?: AbortSignal): ProtolinkError {
    if (caught instanceof ProtolinkError) {
      return caught;
    }
    if (signal?.aborted) {
      const { reason } = signal;
      return reason instanceof ProtolinkError ? reason : aborted(reason);
    }
    const error = ConnectError.from(caught);
    if (error.cause instanceof ProtolinkError) {
      return error.cause; // thrown by an interceptor
    }
    const code = isBroken(error) ? Code.Unavailable : error.code;
    const details = { reason: IMPLIED[code], ...detailsOf(error) };
    const isFull = code === Code.ResourceExhausted && details.retryAfterMs !== undefined;
    details.isRetryable = isFull || isCut(error, code);
    return new ProtolinkError(error.rawMessage || Code[code], code, details, error);
  }
}

/** Whether the client retries a call that failed with this error. */
export function isTriedAgain(error: ProtolinkError): boolean {
  return error.isRetryable && error.code !== Code.ResourceExhausted;
}

/** Adds the task of a call to its error. */
export function aboutTask(error: unknown, taskId: string): unknown {
  if (error instanceof ProtolinkError) {
    error.taskId ||= taskId;
  }
  return error;
}

/** The error of a call that its caller has aborted. */
function aborted(reason: unknown): ProtolinkError {
  return new ProtolinkError("the caller has aborted the call", Code.Canceled, {}, reason);
}

/** The error of an argument that is refused before a request is sent. */
export function invalidArgument(field: string, description: string): ProtolinkError {
  const details = { reason: "INVALID_ARGUMENT", metadata: { field }, violations: [{ field, description }] };
  return new ProtolinkError(`${field}: ${description}`, Code.InvalidArgument, details);
}

/** Codes of interruptions, if the status has no reason of the agent. */
const CUT: readonly Code[] = [Code.Unavailable, Code.Internal, Code.Unknown, Code.Canceled];

/** Whether the call was interrupted, by the connection or by a proxy. */
function isCut(error: ConnectError, code: Code): boolean {
  if (code === Code.Unavailable) {
    return true;
  }
  const hasReason = error.details.some((detail) => "type" in detail && detail.type === ERROR_INFO);
  return CUT.includes(code) && !hasReason && !isThrownHere(error);
}

/**
 * Whether the connection failed. The transports word that in many ways; what they have in common is that no headers came
 * with it, as they do with every answer of a server or proxy.
 */
function isBroken(error: ConnectError): boolean {
  if (hasHeaders(error) || isThrownHere(error)) {
    return false;
  }
  switch (error.code) {
    case Code.Aborted:
    case Code.Canceled:
    case Code.Internal:
    case Code.Unknown:
      return true;
    case Code.DataLoss:
    case Code.InvalidArgument: // a message that stops in the middle
      return error.rawMessage.startsWith("protocol error");
    default:
      return false;
  }
}

/** Whether it is a mistake on this side: a message that cannot be encoded, an interceptor that throws. */
function isThrownHere(error: ConnectError): boolean {
  const { cause } = error;
  // Errors of Node's connections have a code, those of fetch are TypeErrors.
  return !hasHeaders(error) && cause instanceof Error && !(cause instanceof TypeError) && !("code" in cause);
}

function hasHeaders(error: ConnectError): boolean {
  return !error.metadata.keys().next().done;
}

function detailsOf(error: ConnectError): ErrorDetails {
  const details: ErrorDetails = {};
  for (const detail of error.details) {
    // Details that come from a server are bytes; there is no generated class for google.rpc on npm.
    if (!("type" in detail)) {
      continue;
    }
    try {
      read(detail.type, detail.value, details);
    } catch {
      // The bytes are not a status: the code and the message are used without details.
    }
  }
  return details;
}

function read(type: string, bytes: Uint8Array, into: ErrorDetails): void {
  switch (type) {
    case ERROR_INFO: {
      const info = fieldsOf(bytes);
      const isOurs = text(info, 2) === DOMAIN;
      into.reason = isOurs ? text(info, 1) : "";
      if (isOurs) {
        into.metadata = Object.fromEntries(messages(info, 3).map((entry) => [text(entry, 1), text(entry, 2)]));
      }
      break;
    }
    case "google.rpc.BadRequest":
      into.violations = messages(fieldsOf(bytes), 1).map((each) => ({
        field: text(each, 1),
        description: text(each, 2),
      }));
      break;
    case "google.rpc.RetryInfo": {
      const delay = messages(fieldsOf(bytes), 1)[0];
      into.retryAfterMs = delay ? integer(delay, 1) * 1000 + integer(delay, 2) / 1e6 : 0;
      break;
    }
  }
}

/** The values of a message by field number, the lengths of those that have one taken off. */
type Fields = Map<number, (Uint8Array | number)[]>;

function fieldsOf(bytes: Uint8Array): Fields {
  const reader = new BinaryReader(bytes);
  const fields: Fields = new Map();
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    const values = fields.get(number) ?? [];
    fields.set(number, values);
    if (wireType === 2) {
      values.push(reader.bytes());
    } else if (wireType === 0) {
      values.push(Number(reader.int64()));
    } else {
      reader.skip(wireType, number);
    }
  }
  return fields;
}

function messages(fields: Fields, number: number): Fields[] {
  return (fields.get(number) ?? []).filter((value) => value instanceof Uint8Array).map(fieldsOf);
}

function text(fields: Fields, number: number): string {
  const value = fields.get(number)?.at(-1);
  return value instanceof Uint8Array ? new TextDecoder().decode(value) : "";
}

function integer(fields: Fields, number: number): number {
  const value = fields.get(number)?.at(-1);
  return typeof value === "number" ? value : 0;
}
