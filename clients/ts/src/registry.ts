/** The registry: where agents are found. */

import { create } from "@bufbuild/protobuf";
import {
  type CallOptions as ConnectOptions,
  type Client as Stub,
  createClient,
  type Transport,
} from "@connectrpc/connect";
import {
  type AgentCard,
  AgentChangeKind,
  AgentChangeSchema,
  type AgentChange,
  type RegisteredAgent,
  RegisteredAgentSchema,
  RegistryService,
  type WatchAgentsResponse,
} from "@protolink-grpc/protocol";

import { type Call, Caller, type CallerOptions, type Stream } from "./caller.js";
import type { CallOptions } from "./options.js";

/** Which agents: those that match all that is set. */
export interface AgentFilter {
  /** Exactly this name. */
  name?: string;
  /** Exactly this role. */
  role?: string;
  /** All of these tags. */
  tags?: string[];
  /** Skills with all of these ids. */
  skills?: string[];
  /** All of these features, for instance `streaming`: words of `AgentCard.features`. */
  features?: string[];
  /** All of this metadata. */
  metadata?: Record<string, string>;
}

/**
 * One registry. Made by `connectRegistry`.
 *
 * Every method fails with a `ProtolinkError`, and repeats calls as `Client` does.
 */
export class Registry {
  /** The stub of RegistryService, without retries and with Connect's errors. */
  readonly stub: Stub<typeof RegistryService>;
  readonly #caller: Caller;
  readonly #close: () => void;

  /**
   * @param transport - Any Connect transport: for gRPC, gRPC-Web or Connect.
   * @param close - Releases what the transport holds.
   */
  constructor(transport: Transport, options: CallerOptions = {}, close = () => {}) {
    this.stub = createClient(RegistryService, transport);
    this.#caller = new Caller(options);
    this.#close = close;
  }

  /** Closes the connection. Calls that are under way, and all later ones, fail with `Code.Canceled`. */
  close(): void {
    this.#caller.close();
    this.#close();
  }

  /**
   * The agent of a name or URL; `urlOf` says where to call it. Of several instances with one name it is one that is not draining, if
   * there is any. Fails with AGENT_NOT_FOUND, or AGENT_AMBIGUOUS.
   */
  async lookup(nameOrUrl: string, options?: CallOptions): Promise<RegisteredAgent> {
    const target = { case: nameOrUrl.includes("://") ? ("url" as const) : ("name" as const), value: nameOrUrl };
    const { agent } = await this.#caller.answer((call) => this.stub.getAgent({ target }, call), options);
    return agent ?? create(RegisteredAgentSchema);
  }

  /** All agents that match, sorted by name and URL. */
  async list(filter: AgentFilter = {}, options?: CallOptions): Promise<RegisteredAgent[]> {
    const found: RegisteredAgent[] = [];
    let pageToken = "";
    do {
      const request = { filter, pageSize: 1000, pageToken };
      const page = await this.#caller.answer((call) => this.stub.listAgents(request, call), options);
      found.push(...page.agents);
      pageToken = page.nextPageToken;
    } while (pageToken);
    return found;
  }

  /**
   * Yields the agents that match, as changes of kind `UP`, then every change, until it is left. It resumes after interruptions and
   * restarts of the registry: what changed meanwhile comes afterwards, agents that went away included.
   */
  watch(filter: AgentFilter = {}, options?: CallOptions): Stream<AgentChange> {
    return this.#caller.stream((call) => this.#changes(filter, call), options);
  }

  async *#changes(filter: AgentFilter, call: Call): AsyncGenerator<AgentChange, void, undefined> {
    const known = new KnownAgents();
    const open = (attempt: ConnectOptions) => this.stub.watchAgents({ filter, afterRevision: known.revision }, attempt);
    for await (const response of call.responses(open)) {
      if (response.changes.length > 0) {
        call.patience.stayedOpen(); // a snapshot may have no news
      }
      for (const change of known.take(response)) {
        call.patience.progress();
        yield change;
      }
    }
  }
}

/** Where the agent of a card is called: the URL of its first interface, empty where it has none. */
export function urlOf(card: AgentCard | undefined): string {
  return card?.interfaces[0]?.url ?? "";
}

/** What a watcher knows, through all its connections. */
export class KnownAgents {
  /** Revision up to which it is informed; 0 before the first one. */
  revision = 0n;
  readonly #agents = new Map<string, RegisteredAgent>();
  #snapshot: Set<string> | undefined;

  /** Takes note of a response, and returns what is news in it. */
  take(response: WatchAgentsResponse): AgentChange[] {
    const { revision = 0n, reset } = response.position ?? {};
    if (reset) {
      this.#snapshot = new Set();
    }
    const news = response.changes.filter((change) => this.#isNews(change));
    if (this.#snapshot && revision) {
      // The snapshot is complete: an agent that is not in it is gone.
      for (const [url, agent] of this.#agents) {
        if (!this.#snapshot.has(url)) {
          this.#agents.delete(url);
          news.push(create(AgentChangeSchema, { kind: AgentChangeKind.DOWN, agent, revision }));
        }
      }
      this.#snapshot = undefined;
    }
    this.revision = revision || this.revision;
    return news;
  }

  #isNews({ kind, agent }: AgentChange): boolean {
    const url = urlOf(agent?.card);
    if (kind !== AgentChangeKind.UP || !agent) {
      this.#agents.delete(url);
      return true;
    }
    const before = this.#agents.get(url);
    this.#agents.set(url, agent);
    this.#snapshot?.add(url);
    return before === undefined || before.revision !== agent.revision;
  }
}
