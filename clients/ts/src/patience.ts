/** How long to wait before the next attempt, when to give up, and how much time a call has left. */

import type { ProtolinkError } from "./errors.js";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** A bound of time for a call with all its attempts. */
export class Deadline {
  readonly #end: number | undefined;

  /** @param timeoutMs - 0 and undefined: no bound. */
  constructor(timeoutMs: number | undefined) {
    this.#end = timeoutMs ? performance.now() + timeoutMs : undefined;
  }

  /** Milliseconds that are left, at least 1; undefined without a bound. */
  get leftMs(): number | undefined {
    return this.#end === undefined ? undefined : Math.max(1, Math.ceil(this.#end - performance.now()));
  }
}

/** The attempts of one call. Those that get further begin the count anew. */
export class Patience {
  #failed = 0;
  readonly #maxAttempts: number;

  /** @param maxAttempts - How often in a row it may fail without getting any further. */
  constructor(maxAttempts: number) {
    this.#maxAttempts = maxAttempts;
  }

  /** The call got further. */
  progress(): void {
    this.#failed = 0;
  }

  /**
   * Waits before the next attempt: 0.1 s, doubling to 5 s, less up to half of it so that clients do not come back all at
   * once; longer where the server asks for it.
   *
   * @throws ProtolinkError - `error` itself, where another attempt is useless, would come too late or one too many.
   */
  async after(error: ProtolinkError, deadline: Deadline, signal: AbortSignal): Promise<void> {
    this.#failed += 1;
    if (!error.isRetryable || this.#failed >= this.#maxAttempts) {
      throw error;
    }
    const backoffMs = Math.min(FIRST_PAUSE_MS * 2 ** (this.#failed - 1), LONGEST_PAUSE_MS);
    const pauseMs = Math.max(backoffMs * (0.5 + Math.random() / 2), error.retryAfterMs ?? 0);
    if (pauseMs >= (deadline.leftMs ?? Infinity)) {
      throw error;
    }
    await pause(pauseMs, signal);
  }
}

/** Ends early, too, when the signal is aborted: the next attempt then fails at once. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(end, signal.aborted ? 0 : ms);
    signal.addEventListener("abort", end);
    function end(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    }
  });
}
