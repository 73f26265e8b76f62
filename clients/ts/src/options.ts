/** What a connection is told: who calls, how long calls may take, what else goes with them. */

import type { Interceptor } from "@connectrpc/connect";

import { invalidArgument } from "./errors.js";

/** How long a call with one answer may wait, unless told otherwise: 5 minutes, in milliseconds. */
export const DEFAULT_TIMEOUT_MS = 300_000;

/** Failures in a row, without getting any further, after which a call or stream gives up, unless told otherwise. */
export const DEFAULT_MAX_ATTEMPTS = 5;

/** The largest message in either direction over gRPC: 64 MiB. An agent may accept less. */
export const MAX_MESSAGE_BYTES = 64 << 20;

/** What all connections can be told. */
export interface ClientOptions {
  /** Sent as `authorization: Bearer ...`; a function is asked before each attempt, so that it may renew the token. */
  bearer?: string | (() => string | Promise<string>);
  /** Sent as `x-api-key`. */
  apiKey?: string;
  /** Lets credentials travel in the clear to a host other than this machine. Default: refused. */
  allowInsecureCredentials?: boolean;
  /** Sent with every call. */
  headers?: HeadersInit;
  /**
   * How long a call with one answer may wait, retries included, in milliseconds; 0 waits for ever. It bounds the wait and
   * not the run. Streams are not bounded by it. Default: {@link DEFAULT_TIMEOUT_MS}.
   */
  timeoutMs?: number;
  /** Failures in a row after which a call, or a stream that gets no further, gives up. Default: {@link DEFAULT_MAX_ATTEMPTS}. */
  maxAttempts?: number;
  /** Connect interceptors around every call, for instance for tracing. */
  interceptors?: Interceptor[];
}

/** What one call can be told. */
export interface CallOptions {
  /** Aborts the call; it then fails with `Code.Canceled`. The run goes on: see `Client.cancel`. */
  signal?: AbortSignal;
  /** As in {@link ClientOptions}, for this call; bounds a stream as a whole, too. It then fails with `Code.DeadlineExceeded`. */
  timeoutMs?: number;
  /** Sent with this call. */
  headers?: HeadersInit;
}

/**
 * The interceptors that the options ask for.
 *
 * @param url - Where the calls go, `http:` or `https:`.
 * @throws ProtolinkError - INVALID_ARGUMENT: credentials would travel in the clear to another machine.
 */
export function interceptorsFor(url: URL, options: ClientOptions): Interceptor[] {
  const isSecret = options.bearer !== undefined || options.apiKey !== undefined;
  if (isSecret && url.protocol !== "https:" && !isLoopback(url.hostname) && !options.allowInsecureCredentials) {
    throw invalidArgument(
      "credentials",
      `they would go to ${url.host} in the clear: use TLS, or allow it with allowInsecureCredentials`,
    );
  }
  return [signing(options), ...(options.interceptors ?? [])];
}

function signing({ headers, apiKey, bearer }: ClientOptions): Interceptor {
  const own = [...new Headers(headers)];
  return (next) => async (request) => {
    // What a call brings itself wins.
    for (const [name, value] of own) {
      if (!request.header.has(name)) {
        request.header.set(name, value);
      }
    }
    if (apiKey !== undefined) {
      request.header.set("x-api-key", apiKey);
    }
    if (bearer !== undefined) {
      request.header.set("authorization", `Bearer ${typeof bearer === "string" ? bearer : await bearer()}`);
    }
    return next(request);
  };
}

/** Whether a host, as `URL.hostname` spells it, is this machine. */
function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);
}
