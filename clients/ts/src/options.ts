/** Options of connections and calls: credentials, time limits, headers. */

import type { Interceptor } from "@connectrpc/connect";

import { invalidArgument, type ProtolinkError } from "./errors.js";

/** How long a call with one answer may wait by default: 5 minutes, in milliseconds. */
export const DEFAULT_TIMEOUT_MS = 300_000;

/** How long an interrupted call is retried by default: 1 minute, in milliseconds. */
export const DEFAULT_PATIENCE_MS = 60_000;

/** The largest message in either direction over gRPC: 64 MiB. An agent may accept less. */
export const MAX_MESSAGE_BYTES = 64 << 20;

/** Options of every connection. */
export interface ClientOptions {
  /** Sent as `authorization: Bearer ...`; a function is called before each attempt, so that it may renew the token. */
  bearer?: string | (() => string | Promise<string>);
  /** Sent as `x-api-key`. */
  apiKey?: string;
  /** Lets credentials travel unencrypted to a host other than this machine. Default: refused. */
  insecureOk?: boolean;
  /** Sent with every call. */
  headers?: HeadersInit;
  /**
   * How long a call with one answer may wait, retries included, in milliseconds; 0 waits for ever. It bounds the wait and
   * not the run. Streams are not bounded by it. Default: {@link DEFAULT_TIMEOUT_MS}.
   */
  timeoutMs?: number;
  /**
   * How long an interrupted call, stream or watch is retried without progress, in milliseconds; 0 means no retries. After this time it
   * fails with the last error of the connection. Default: {@link DEFAULT_PATIENCE_MS}.
   */
  patienceMs?: number;
  /** Connect interceptors around every attempt of every call, for instance for tracing. */
  interceptors?: Interceptor[];
}

/** Options of one call. */
export interface CallOptions {
  /** Aborts the call, which then fails with the signal's reason, as `fetch` does. The run continues: see `Client.cancel`. */
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
 * @throws ProtolinkError - INVALID_ARGUMENT: credentials would travel unencrypted to another machine.
 */
export function interceptorsFor(url: URL, options: ClientOptions): Interceptor[] {
  const interceptors = [signing(options), ...(options.interceptors ?? [])];
  if (url.protocol === "https:" || isLoopback(url.hostname) || options.insecureOk) {
    return interceptors;
  }
  if (options.bearer !== undefined || options.apiKey !== undefined) {
    throw insecureError(url);
  }
  requireNoCredentials(new Headers(options.headers), url);
  // Headers of single calls, and those that interceptors add.
  const guarding: Interceptor = (next) => async (request) => {
    requireNoCredentials(request.header, url);
    return next(request);
  };
  return [...interceptors, guarding];
}

/** Headers that say who calls. */
const CREDENTIALS = ["authorization", "proxy-authorization", "x-api-key", "cookie"];

function requireNoCredentials(headers: Headers, url: URL): void {
  if (CREDENTIALS.some((name) => headers.has(name))) {
    throw insecureError(url);
  }
}

function insecureError(url: URL): ProtolinkError {
  return invalidArgument(
    "credentials",
    `they would go to ${url.host} unencrypted: use TLS, or allow it with insecureOk`,
  );
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
