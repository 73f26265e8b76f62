/** Retries: whether a failed call is retried, and after which pause. For all calls, streams and watches. */

import { isTriedAgain, type ProtolinkError } from "./errors.js";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** The backoff of one call. It ends after some time without progress. */
export class Patience {
  readonly #patienceMs: number;
  #pauses = 0;
  /** When the first attempt since the last progress failed, on the clock of `performance.now()`. */
  #cutSince: number | undefined;

  /** @param patienceMs - How long to retry after the first interruption; 0 means no retries. */
  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs;
  }

  /** An answer or an event has arrived: time and pauses begin anew. */
  progress(): void {
    this.#cutSince = undefined;
    this.#pauses = 0;
  }

  /** The connection worked, though nothing new arrived: the time begins anew, and the pauses continue to grow. */
  stayedOpen(): void {
    this.#cutSince = undefined;
  }

  /**
   * The pause before the next attempt, in milliseconds: 0.1 s, doubled each time up to 5 s, times a random factor from 0.5 to 1 so
   * that clients do not return all at once; at least the delay that the server requests.
   *
   * @throws ProtolinkError - `error` itself, if it cannot be retried or the time for retries is over.
   */
  pauseAfter(error: ProtolinkError): number {
    const now = performance.now();
    this.#cutSince ??= now;
    const leftMs = this.#patienceMs - (now - this.#cutSince);
    const leastMs = error.retryAfterMs ?? 0;
    if (!isTriedAgain(error) || leftMs <= 0 || leastMs > leftMs) {
      throw error;
    }
    const backoffMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#pauses++, LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
    // The last attempt is made when the patience ends, not before.
    return Math.max(Math.min(backoffMs, Math.ceil(leftMs)), leastMs);
  }
}
