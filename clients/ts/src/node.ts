/** Connections of Node.js: gRPC over HTTP/2. */

import type { SecureClientSessionOptions } from "node:http2";

import type { Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { Client } from "./client.js";
import { invalidArgument } from "./errors.js";
import { type ClientOptions, interceptorsFor, MAX_MESSAGE_BYTES } from "./options.js";
import { Registry } from "./registry.js";

export * from "./index.js";

/** A peer is asked whether it is still there after so long without a word, while calls are open. */
const PING_INTERVAL_MS = 30_000;
const PING_TIMEOUT_MS = 10_000;

/** What a connection over gRPC can be told. */
export interface NodeOptions extends ClientOptions {
  /**
   * For `grpcs://`: authorities to trust instead of the system's (`ca`), a certificate of one's own (`cert`, `key`), the name that
   * the server's certificate must have (`servername`), as in `tls.connect`.
   */
  tls?: Pick<SecureClientSessionOptions, "ca" | "cert" | "key" | "passphrase" | "servername">;
}

/**
 * Connects to an agent. Nothing is sent before the first call; a connection that breaks is opened again.
 *
 * @param url - `grpc://host:port` in the clear, also without the scheme, or `grpcs://host:port` over TLS.
 * @throws ProtolinkError - INVALID_ARGUMENT: no such URL, or credentials would travel in the clear to another machine.
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
  const session = new Http2SessionManager(
    base,
    { pingIntervalMs: PING_INTERVAL_MS, pingTimeoutMs: PING_TIMEOUT_MS },
    options.tls,
  );
  const transport = createGrpcTransport({
    baseUrl: base.origin,
    sessionManager: session,
    interceptors,
    readMaxBytes: MAX_MESSAGE_BYTES,
    writeMaxBytes: MAX_MESSAGE_BYTES,
  });
  return { transport, close: () => session.abort() };
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
