/** Connections of Node.js: gRPC over HTTP/2. */

import type { SecureClientSessionOptions } from "node:http2";

import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { type Opening, OPENING } from "./caller.js";
import { Client } from "./client.js";
import { invalidArgument } from "./errors.js";
import { type ClientOptions, interceptorsFor, MAX_MESSAGE_BYTES } from "./options.js";
import { Registry } from "./registry.js";

export * from "./index.js";

/** Time without a frame after which HTTP/2 pings the server, while calls are open. */
const PING_INTERVAL_MS = 30_000;
const PING_TIMEOUT_MS = 10_000;

/** How long opening a connection may take by default. Source: the MIN_CONNECT_TIMEOUT of gRPC. */
const DEFAULT_CONNECT_TIMEOUT_MS = 20_000;

/** Options of a connection over gRPC. */
export interface NodeOptions extends ClientOptions {
  /**
   * For `grpcs://`: authorities to trust instead of the system's (`ca`), a certificate of one's own (`cert`, `key`), the name that
   * the server's certificate must have (`servername`), as in `tls.connect`.
   */
  tls?: Pick<SecureClientSessionOptions, "ca" | "cert" | "key" | "passphrase" | "servername">;
  /** Timeout of an attempt to connect, TLS included, in milliseconds. It counts as an interruption. Default: 20 s. */
  connectTimeoutMs?: number;
}

/**
 * Connects to an agent. Nothing is sent before the first call; a connection that breaks is opened again.
 *
 * @param url - `grpc://host:port` without TLS, also without the scheme, or `grpcs://host:port` over TLS.
 * @throws ProtolinkError - INVALID_ARGUMENT: no such URL, or credentials would travel unencrypted to another machine.
 */
export function connect(url: string, options: NodeOptions = {}): Client {
  const { transport, close } = open(url, options);
  return new Client(transport, options, close);
}

/** Connects to a registry, as {@link connect}. */
export function connectRegistry(url: string, options: NodeOptions = {}): Registry {
  const { transport, close } = open(url, options);
  return new Registry(transport, options, close);
}

function open(url: string, options: NodeOptions): { transport: Transport; close: () => void } {
  const base = baseUrl(url);
  const interceptors = interceptorsFor(base, options);
  const session = new Session(base, options);
  const transport = createGrpcTransport({
    baseUrl: base.origin,
    sessionManager: session,
    interceptors: [...interceptors, noteOpening],
    readMaxBytes: MAX_MESSAGE_BYTES,
    writeMaxBytes: MAX_MESSAGE_BYTES,
  });
  return { transport, close: () => session.abort() };
}

/** One connection at a time, opened within a bound: a host that drops packets would be waited for for minutes. */
class Session extends Http2SessionManager {
  readonly #connectTimeoutMs: number;

  constructor(base: URL, { tls, connectTimeoutMs = DEFAULT_CONNECT_TIMEOUT_MS }: NodeOptions) {
    super(base, { pingIntervalMs: PING_INTERVAL_MS, pingTimeoutMs: PING_TIMEOUT_MS }, tls);
    this.#connectTimeoutMs = connectTimeoutMs;
  }

  override async request(...request: Parameters<Http2SessionManager["request"]>) {
    if (this.state() === "open" || this.state() === "idle") {
      return super.request(...request);
    }
    const timer = setTimeout(() => {
      if (this.state() === "connecting") {
        this.abort(new ConnectError(`no connection within ${this.#connectTimeoutMs} ms`, Code.Unavailable));
      }
    }, this.#connectTimeoutMs);
    try {
      return await super.request(...request);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Notes when a stream has a connection: its request is read when there is one, and no sooner. */
const noteOpening: Interceptor = (next) => (request) => {
  if (!request.stream) {
    return next(request);
  }
  const opening = request.contextValues.get(OPENING);
  opening.since = undefined;
  return next({ ...request, message: noted(request.message, opening) });
};

async function* noted<T>(messages: AsyncIterable<T>, opening: Opening): AsyncGenerator<T, void, undefined> {
  opening.since = performance.now();
  yield* messages;
}

/**
 * Where the calls of a gRPC URL go, as a URL of HTTP.
 *
 * @throws ProtolinkError - INVALID_ARGUMENT: another scheme, no port, or parts that such a URL does not have.
 */
export function baseUrl(url: string): URL {
  const parsed = parse(url.includes("://") ? url : `grpc://${url}`);
  if (parsed?.protocol !== "grpc:" && parsed?.protocol !== "grpcs:") {
    throw invalidArgument("url", `${JSON.stringify(url)} must be like grpc://127.0.0.1:50051 or grpcs://host:443`);
  }
  const { protocol, hostname, port, username, password, pathname, search, hash } = parsed;
  if (!hostname || !port) {
    throw invalidArgument("url", `${JSON.stringify(url)} must name a host and a port`);
  }
  if (username || password || !["", "/"].includes(pathname) || search || hash) {
    // The text is not repeated: it may have a password in it.
    throw invalidArgument("url", "must consist of scheme, host and port only");
  }
  return new URL(`${protocol === "grpcs:" ? "https" : "http"}://${hostname}:${port}`);
}

function parse(url: string): URL | undefined {
  return URL.canParse(url) ? new URL(url) : undefined;
}
