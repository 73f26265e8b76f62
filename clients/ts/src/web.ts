/** Connections of web pages: gRPC-Web over fetch. Works wherever fetch does. */

import type { Transport } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";

import { Client } from "./client.js";
import { invalidArgument } from "./errors.js";
import { type ClientOptions, interceptorsFor } from "./options.js";
import { Registry } from "./registry.js";

export * from "./index.js";

/** Options of a connection over gRPC-Web. */
export interface WebOptions extends ClientOptions {
  /** Replaces the global `fetch`. */
  fetch?: typeof globalThis.fetch;
}

/**
 * Connects to an agent. Nothing is sent before the first call.
 *
 * @param url - The agent's HTTP port, `http://host:port` or `https://host:port`, with the prefix that a proxy cuts off, if any. A
 *   page of another origin may call where the agent's option `cors_origins` names it.
 * @throws ProtolinkError - INVALID_ARGUMENT: no such URL, or credentials would travel unencrypted to another machine.
 */
export function connect(url: string, options: WebOptions = {}): Client {
  return new Client(transportTo(url, options), options);
}

/** Connects to a registry that has an HTTP port (`Registry(http=...)`), as {@link connect}. */
export function connectRegistry(url: string, options: WebOptions = {}): Registry {
  return new Registry(transportTo(url, options), options);
}

function transportTo(url: string, options: WebOptions): Transport {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed?.protocol !== "http:" && parsed?.protocol !== "https:") {
    throw invalidArgument("url", `${JSON.stringify(url)} must be like https://agent.example.org`);
  }
  if (parsed.username || parsed.password || parsed.search || parsed.hash) {
    throw invalidArgument("url", "must carry no credentials, no query and no fragment");
  }
  return createGrpcWebTransport({
    baseUrl: parsed.href,
    interceptors: interceptorsFor(parsed, options),
    fetch: ending(options.fetch ?? ((input, init) => globalThis.fetch(input, init))),
  });
}

/**
 * A fetch whose responses end when the signal of their request is aborted. Node's own forgets the signal at a garbage collection
 * once it has the headers, and would keep a stream open that is not read.
 */
function ending(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const reader = response.body?.getReader();
    if (!reader) {
      return response;
    }
    const cancel = () => void reader.cancel().catch(() => {}); // it has failed already
    if (init?.signal?.aborted) {
      cancel();
    }
    init?.signal?.addEventListener("abort", cancel);
    const source: UnderlyingDefaultSource<Uint8Array<ArrayBuffer>> = {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) {
          controller.close();
        } else {
          controller.enqueue(value);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    };
    // Nothing is read ahead of its reader.
    const body = new ReadableStream(source, { highWaterMark: 0 });
    const { status, statusText, headers } = response;
    return new Response(body, { status, statusText, headers });
  };
}
