/** The transport of generated stubs: with the retries, the timeout and the errors of a client. */

import type { DescMessage } from "@bufbuild/protobuf";
import type { StreamResponse, Transport } from "@connectrpc/connect";

import type { Caller } from "./caller.js";
import { ProtolinkError } from "./errors.js";
import { randomId } from "./tasks.js";

const REQUEST_ID = "x-request-id";
const TASK_ID = "x-task-id";

/** The package of plgrpc's own services, whose request ids are fields of their requests. */
const CONTRACT = "plgrpc.v1.";

/**
 * A transport for generated stubs.
 *
 * A unary call is retried after an interruption. All attempts have one `x-request-id`, so that an agent runs the call once. Streams
 * are not repeated. Neither are the calls of plgrpc's own services, because they read no request id from a header.
 *
 * @param transport - Makes the attempts.
 */
export function stubTransport(transport: Transport, caller: Caller): Transport {
  return {
    async unary(method, signal, timeoutMs, header, input, contextValues) {
      const headers = new Headers(header);
      const isOurs = method.parent.typeName.startsWith(CONTRACT);
      if (!isOurs && !headers.has(REQUEST_ID)) {
        headers.set(REQUEST_ID, randomId());
      }
      try {
        return await caller.answer(
          (call) => transport.unary(method, call.signal, call.timeoutMs, headers, input, contextValues),
          { signal, timeoutMs, patienceMs: isOurs ? 0 : undefined },
        );
      } catch (error) {
        if (error instanceof ProtolinkError) {
          error.taskId ||= headers.get(TASK_ID) ?? "";
        }
        throw error;
      }
    },

    async stream(method, signal, timeoutMs, header, input, contextValues) {
      try {
        const response = await transport.stream(method, signal, timeoutMs, header, input, contextValues);
        return { ...response, message: withTypedErrors(response, signal) };
      } catch (error) {
        throw typedError(error, signal);
      }
    },
  };
}

async function* withTypedErrors<I extends DescMessage, O extends DescMessage>(
  { message }: StreamResponse<I, O>,
  signal: AbortSignal | undefined,
) {
  try {
    yield* message;
  } catch (error) {
    throw typedError(error, signal);
  }
}

/** What a stream fails with: the reason of the caller's own signal, or a typed error. */
function typedError(error: unknown, signal: AbortSignal | undefined): unknown {
  return signal?.aborted ? signal.reason : ProtolinkError.from(error);
}
