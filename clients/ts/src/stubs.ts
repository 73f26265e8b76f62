/** The transport of generated stubs: with the retries, the timeout and the errors of a client. */

import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import {
  type CallOptions as ConnectOptions,
  createContextValues,
  type StreamResponse,
  type Transport,
} from "@connectrpc/connect";
import { createAsyncIterable } from "@connectrpc/connect/protocol";

import { type Call, type Caller, OPENING } from "./caller.js";
import { ProtolinkError } from "./errors.js";
import type { CallOptions } from "./options.js";
import { randomId } from "./tasks.js";

const REQUEST_ID = "x-request-id";
const TASK_ID = "x-task-id";

/** The package of plgrpc's own services, whose request ids are fields of their requests. */
const CONTRACT = "plgrpc.v1.";

/**
 * A transport for generated stubs.
 *
 * A unary call is retried after an interruption. All attempts have one `x-request-id`, so that an agent runs the call once. A stream of
 * responses is opened again in the same way, and responses that were received are left out: if there were none, or if the headers of the
 * response name a task, because the task's log has all of them. Streams of requests are not repeated. Neither are the calls of plgrpc's
 * own services, because they read no request id from a header.
 *
 * @param transport - Makes the attempts.
 */
export function stubTransport(transport: Transport, caller: Caller): Transport {
  return {
    async unary(method, signal, timeoutMs, header, input, contextValues) {
      const isOurs = method.parent.typeName.startsWith(CONTRACT);
      const headers = isOurs ? new Headers(header) : withRequestId(header);
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
      if (method.methodKind === "server_streaming" && !method.parent.typeName.startsWith(CONTRACT)) {
        const headers = withRequestId(header);
        const requests: MessageInitShape<typeof method.input>[] = [];
        for await (const request of input) {
          requests.push(request);
        }
        const open = (call: ConnectOptions) => {
          const values = (contextValues ?? createContextValues()).set(OPENING, call.contextValues!.get(OPENING));
          return transport.stream(method, call.signal, call.timeoutMs, headers, createAsyncIterable(requests), values);
        };
        return resumedStream(open, caller, { signal, timeoutMs });
      }
      try {
        const response = await transport.stream(method, signal, timeoutMs, header, input, contextValues);
        return { ...response, message: withTypedErrors(response, signal) };
      } catch (error) {
        throw typedError(error, signal);
      }
    },
  };
}

function withRequestId(header: HeadersInit | undefined): Headers {
  const headers = new Headers(header);
  if (!headers.has(REQUEST_ID)) {
    headers.set(REQUEST_ID, randomId());
  }
  return headers;
}

/** A stream of responses that continues after interruptions. Its headers are those of its first attempt that was answered. */
async function resumedStream<I extends DescMessage, O extends DescMessage>(
  open: (call: ConnectOptions) => Promise<StreamResponse<I, O>>,
  caller: Caller,
  options: CallOptions,
): Promise<StreamResponse<I, O>> {
  let latest: StreamResponse<I, O> | undefined;
  let received = 0;
  let isTask = false;
  let failure: unknown;
  let noteAnswer = () => {};
  const answered = new Promise<void>((resolve) => (noteAnswer = resolve));

  async function* attempt(call: ConnectOptions) {
    let skip = received;
    try {
      latest = await open(call);
      isTask ||= latest.header.has(TASK_ID);
      noteAnswer();
      for await (const message of latest.message) {
        if (skip > 0) {
          skip -= 1;
        } else {
          yield message;
        }
      }
    } catch (error) {
      if (received === 0 || isTask) {
        throw error;
      }
      failure = typedError(error, options.signal); // a repetition would be another call
    }
  }
  async function* responses(call: Call) {
    const isComplete = () => false;
    const isWhole = () => true;
    for await (const message of call.responses(attempt, isComplete, isWhole)) {
      received += 1;
      call.patience.progress();
      yield message;
    }
    if (failure !== undefined) {
      throw failure;
    }
  }

  const messages = caller.stream(responses, options);
  const first = messages.next();
  first.catch(() => {}); // the reader gets the error
  await Promise.race([answered, first]);
  async function* message() {
    try {
      for (let next = await first; !next.done; next = await messages.next()) {
        yield next.value;
      }
    } finally {
      await messages.return();
    }
  }
  return {
    ...latest!,
    get trailer() {
      return latest!.trailer;
    },
    message: message(),
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
