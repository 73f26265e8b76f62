/** Calls with everything around them: attempts, deadlines, aborts, typed errors. */

import { Code, type CallOptions as ConnectOptions } from "@connectrpc/connect";

import { ProtolinkError } from "./errors.js";
import { type CallOptions, type ClientOptions, DEFAULT_MAX_ATTEMPTS, DEFAULT_TIMEOUT_MS } from "./options.js";
import { Deadline, Patience } from "./patience.js";

/** Why a signal is aborted whose call has ended, or was left. Made once: an error costs more than the rest of it. */
const LEFT = new ProtolinkError("the reader has left", Code.Canceled);

/** Makes the calls of one client. */
export class Caller {
  readonly #timeoutMs: number;
  readonly #maxAttempts: number;
  readonly #underWay = new Set<AbortController>();
  #isClosed = false;

  constructor(options: Pick<ClientOptions, "timeoutMs" | "maxAttempts">) {
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#maxAttempts = options.maxAttempts ?? DEFAULT_MAX_ATTEMPTS;
  }

  /** Ends all calls that are under way, and lets no further ones begin. They fail with `Code.Canceled`. */
  close(): void {
    this.#isClosed = true;
    this.#underWay.forEach((call) => call.abort(closed()));
  }

  /** Counts the attempts of one call. */
  patience(): Patience {
    return new Patience(this.#maxAttempts);
  }

  /**
   * The one answer to a request that may be repeated.
   *
   * @param attempt - Sends it, the same one each time.
   */
  async answer<T>(attempt: (options: ConnectOptions) => Promise<T>, options: CallOptions = {}): Promise<T> {
    const deadline = new Deadline(options.timeoutMs ?? this.#timeoutMs);
    const patience = this.patience();
    const { signal, end } = this.#begin(options.signal);
    try {
      for (;;) {
        try {
          return await attempt({ headers: options.headers, timeoutMs: deadline.leftMs, signal });
        } catch (caught) {
          await patience.after(ProtolinkError.from(caught, signal), deadline, signal);
        }
      }
    } finally {
      end();
    }
  }

  /**
   * The responses of a stream that is opened again after a cut. It ends when the server ends it; leaving it cancels the call.
   *
   * @param open - Opens the stream where the reader is now.
   * @param patience - Is told of progress by the reader, who knows what is news.
   * @param isSettled - Whether the reader has all that was asked for, so that a cut is as good as an end.
   */
  async *responses<T>(
    open: (options: ConnectOptions) => AsyncIterable<T>,
    patience: Patience,
    options: CallOptions = {},
    isSettled = () => false,
  ): AsyncGenerator<T, void, undefined> {
    const deadline = new Deadline(options.timeoutMs);
    const { signal, end } = this.#begin(options.signal);
    try {
      for (;;) {
        try {
          yield* open({ headers: options.headers, timeoutMs: deadline.leftMs, signal });
          return;
        } catch (caught) {
          const error = ProtolinkError.from(caught, signal);
          if (error.isRetryable && isSettled()) {
            return;
          }
          await patience.after(error, deadline, signal);
        }
      }
    } finally {
      end();
    }
  }

  /** A signal for one call, aborted by the caller's own, by `close` and by `end`. */
  #begin(signal?: AbortSignal): { signal: AbortSignal; end: () => void } {
    const call = new AbortController();
    const abort = () => call.abort(signal?.reason);
    if (this.#isClosed) {
      call.abort(closed());
    } else if (signal?.aborted) {
      abort();
    }
    signal?.addEventListener("abort", abort);
    this.#underWay.add(call);
    const end = () => {
      signal?.removeEventListener("abort", abort);
      this.#underWay.delete(call);
      call.abort(LEFT);
    };
    return { signal: call.signal, end };
  }
}

function closed(): ProtolinkError {
  return new ProtolinkError("the client is closed", Code.Canceled);
}
