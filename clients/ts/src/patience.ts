/** Whether a failed call is tried again, and after which pause. All calls, streams and watches ask here. */

import { isTriedAgain, type ProtolinkError } from "./errors.js";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** Reconnect backoff of one call. It runs out when the call has got no further for some time. */
export class Patience {
  readonly #patienceMs: number;
  #pauses = 0;
  /** When the first attempt since the last progress failed, on the clock of `performance.now()`. */
  #cutSince: number | undefined;

  /** @param patienceMs - How long to try again after the first cut; 0 tries nothing again. */
  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs;
  }

  /** An answer or an event has arrived: time and pauses begin anew. */
  progress(): void {
    this.#cutSince = undefined;
    this.#pauses = 0;
  }

  /** The connection worked, though nothing new arrived: the time begins anew, the pauses go on growing. */
  stayedOpen(): void {
    this.#cutSince = undefined;
  }

  /**
   * The pause before the next attempt, in milliseconds: 0.1 s, doubled each time up to 5 s, times a random factor from 0.5 to 1 so
   * that clients do not return all at once; at least what the server asks for.
   *
   * @throws ProtolinkError - `error` itself, where another attempt is useless or the patience has run out.
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
