/** Calls with everything around them: attempts, deadlines, aborts, typed errors. */

import {
  Code,
  ConnectError,
  type CallOptions as ConnectOptions,
  createContextKey,
  createContextValues,
} from "@connectrpc/connect";

import { isTriedAgain, ProtolinkError } from "./errors.js";
import { type CallOptions, type ClientOptions, DEFAULT_PATIENCE_MS, DEFAULT_TIMEOUT_MS } from "./options.js";
import { Patience } from "./patience.js";

/** A stream that was open for so long counts as progress, even if it showed nothing. */
const STAYED_OPEN_MS = 1_000;

/** The longest time that a timer of JavaScript can have. Deadlines beyond it are left to the server. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The abort reason of a call that ends early: transports send RST_STREAM with CANCEL. Made once: an error is expensive. */
const CANCELED = new ConnectError("canceled by the caller", Code.Canceled);

/**
 * Items as they arrive. Leaving a loop over them, or calling `return()`, ends the call at once, also while the next item is
 * awaited. No request is sent before the first call of `next()`.
 */
export interface Stream<T> extends AsyncIterableIterator<T, void, undefined> {
  next(): Promise<IteratorResult<T, void>>;
  return(): Promise<IteratorResult<T, void>>;
  [Symbol.asyncIterator](): Stream<T>;
}

/** When the current attempt of a stream reached its server, on the clock of `performance.now()`. */
export interface Opening {
  /** Undefined while it has not. */
  since: number | undefined;
}

/**
 * The opening of a stream, for transports that know when they have a connection. For others, where connecting cannot be distinguished
 * from waiting, a stream is open from its beginning.
 */
export const OPENING = createContextKey<Opening>({ since: undefined });

/** How the calls of a client behave. */
export type CallerOptions = Pick<ClientOptions, "timeoutMs" | "patienceMs">;

/** Options of one call, and its own patience. */
type AttemptOptions = CallOptions & Pick<ClientOptions, "patienceMs">;

/** One call with all its attempts. */
export class Call {
  readonly patience: Patience;
  readonly #control = new AbortController();
  readonly #headers: HeadersInit | undefined;
  readonly #timeoutMs: number | undefined;
  readonly #deadline: number | undefined;
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  #reason: unknown;
  #reject: ((reason: unknown) => void) | undefined;
  #lastError: ProtolinkError | undefined;

  /** @param timeoutMs - Bounds the call as a whole; 0 and undefined do not. */
  constructor(patienceMs: number, headers?: HeadersInit, timeoutMs?: number) {
    this.patience = new Patience(patienceMs);
    this.#headers = headers;
    if (timeoutMs) {
      this.#timeoutMs = timeoutMs;
      this.#deadline = performance.now() + timeoutMs;
      if (timeoutMs <= LONGEST_TIMER_MS) {
        this.#timer = setTimeout(() => this.abort(this.#deadlineError()), timeoutMs);
      }
    }
  }

  /** Aborted when the call has ended, for whatever reason. */
  get signal(): AbortSignal {
    return this.#control.signal;
  }

  /** Why the call was aborted. */
  get reason(): unknown {
    return this.#reason;
  }

  /** Ends the call: what it waits for fails with `reason`, at once. */
  abort(reason: unknown): void {
    clearTimeout(this.#timer);
    if (!this.signal.aborted) {
      this.#reason = reason;
      this.#reject?.(reason);
      this.#control.abort(CANCELED);
    }
  }

  /** The answer to a request that may be repeated. */
  async answer<T>(attempt: (options: ConnectOptions) => Promise<T>): Promise<T> {
    for (;;) {
      try {
        const answer = await this.#unlessAborted(attempt(this.#attemptOptions()));
        this.patience.progress();
        return answer;
      } catch (caught) {
        await this.#pauseAfter(caught);
      }
    }
  }

  /**
   * The responses of a stream that is opened again after an interruption. The reader reports progress to {@link patience}.
   *
   * @param open - Opens the stream where the reader is now.
   * @param isComplete - Whether the reader has everything that it requested, so that an interruption is an end.
   * @param isWhole - Whether a stream that the server has ended with OK is complete; otherwise it was interrupted.
   */
  async *responses<T>(
    open: (options: ConnectOptions) => AsyncIterable<T>,
    isComplete: () => boolean = () => false,
    isWhole: (options: ConnectOptions) => boolean | Promise<boolean> = isComplete,
  ): AsyncGenerator<T, void, undefined> {
    for (;;) {
      const opening: Opening = { since: performance.now() };
      try {
        const contextValues = createContextValues().set(OPENING, opening);
        const responses = open({ ...this.#attemptOptions(), contextValues })[Symbol.asyncIterator]();
        for (;;) {
          const { done, value } = await this.#unlessAborted(responses.next());
          if (done) {
            break;
          }
          yield value;
        }
        if (await this.#unlessAborted(Promise.resolve(isWhole(this.#attemptOptions())))) {
          return;
        }
        throw new ProtolinkError("the stream ended before its last event", Code.Unavailable, { reason: "UNAVAILABLE" });
      } catch (caught) {
        if (opening.since !== undefined && performance.now() - opening.since >= STAYED_OPEN_MS) {
          this.patience.stayedOpen();
        }
        if (!this.signal.aborted && isComplete() && isTriedAgain(ProtolinkError.from(caught))) {
          return;
        }
        await this.#pauseAfter(caught);
      }
    }
  }

  #attemptOptions(): ConnectOptions {
    const timeoutMs =
      this.#deadline === undefined ? undefined : Math.max(1, Math.ceil(this.#deadline - performance.now()));
    return { headers: this.#headers, timeoutMs, signal: this.signal };
  }

  /** Waits before the next attempt. Throws why there is none. */
  async #pauseAfter(caught: unknown): Promise<void> {
    if (this.signal.aborted) {
      throw this.#reason;
    }
    this.#lastError = ProtolinkError.from(caught);
    const pauseMs = this.patience.pauseAfter(this.#lastError);
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      await this.#unlessAborted(new Promise<void>((resolve) => (timer = setTimeout(resolve, pauseMs))));
    } finally {
      clearTimeout(timer);
    }
  }

  /** What a promise becomes, or at once the reason of an abort, whether the transport heeds its signal or not. */
  #unlessAborted<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      promise.then(resolve, reject);
      this.#reject = reject;
      if (this.signal.aborted) {
        reject(this.#reason);
      }
    });
  }

  #deadlineError(): ProtolinkError {
    const last = this.#lastError ? `; the last attempt failed: ${this.#lastError.message}` : "";
    const message = `no answer within ${this.#timeoutMs} ms${last}`;
    return new ProtolinkError(message, Code.DeadlineExceeded, { reason: "DEADLINE_EXCEEDED" }, this.#lastError);
  }
}

/** Makes the calls of one client. */
export class Caller {
  readonly #timeoutMs: number;
  readonly #patienceMs: number;
  readonly #underWay = new Set<Call>();
  #isClosed = false;

  constructor({ timeoutMs = DEFAULT_TIMEOUT_MS, patienceMs = DEFAULT_PATIENCE_MS }: CallerOptions) {
    this.#timeoutMs = timeoutMs;
    this.#patienceMs = patienceMs;
  }

  /** Ends all calls that are under way, and lets no further ones begin. They fail with `Code.Canceled`. */
  close(): void {
    this.#isClosed = true;
    this.#underWay.forEach((call) => call.abort(closedError()));
  }

  /**
   * The answer to a request that may be repeated.
   *
   * @param attempt - Sends it, the same one each time.
   * @param options - With the patience of this call, if it is not that of the client.
   * @param parent - The call that this one is a part of, whose end is its end.
   */
  async answer<T>(
    attempt: (options: ConnectOptions) => Promise<T>,
    options: AttemptOptions = {},
    parent?: Call,
  ): Promise<T> {
    const { call, end } = this.#begin(options, options.timeoutMs ?? this.#timeoutMs, parent);
    try {
      return await call.answer(attempt);
    } finally {
      end();
    }
  }

  /**
   * A call that yields items.
   *
   * @param items - Makes the call; it starts with the first call of `next()`.
   */
  stream<T>(
    items: (call: Call) => AsyncGenerator<T, void, undefined>,
    { headers, signal, timeoutMs }: CallOptions = {},
  ): Stream<T> {
    const over: IteratorResult<T, void> = { done: true, value: undefined };
    let begun: { inner: AsyncGenerator<T, void, undefined>; end: () => void } | undefined;
    let isLeft = false;
    const begin = () => {
      const { call, end } = this.#begin({ headers, signal }, timeoutMs);
      return { inner: items(call), end };
    };
    return {
      async next() {
        if (isLeft) {
          return over;
        }
        begun ??= begin();
        try {
          const item = await begun.inner.next();
          if (item.done) {
            begun.end();
          }
          return isLeft ? over : item;
        } catch (error) {
          begun.end();
          if (isLeft) {
            return over;
          }
          throw error;
        }
      },
      async return() {
        isLeft = true;
        begun?.end();
        await begun?.inner.return();
        return over;
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  /** A call that ends with the caller's signal, its parent's end, `close` and `end`. */
  #begin(
    { headers, signal, patienceMs = this.#patienceMs }: AttemptOptions,
    timeoutMs?: number,
    parent?: Call,
  ): { call: Call; end: () => void } {
    const call = new Call(patienceMs, headers, timeoutMs);
    const source = parent?.signal ?? signal;
    const abort = () => call.abort(parent ? parent.reason : signal?.reason);
    if (this.#isClosed) {
      call.abort(closedError());
    } else if (source?.aborted) {
      abort();
    }
    source?.addEventListener("abort", abort);
    this.#underWay.add(call);
    const end = () => {
      source?.removeEventListener("abort", abort);
      this.#underWay.delete(call);
      call.abort(CANCELED);
    };
    return { call, end };
  }
}

function closedError(): ProtolinkError {
  return new ProtolinkError("the client is closed", Code.Canceled);
}
