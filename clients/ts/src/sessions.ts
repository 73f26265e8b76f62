/** The sessions of a caller with an agent: conversations whose inputs wait for each other. */

import { create } from "@bufbuild/protobuf";
import {
  type CallOptions as ConnectOptions,
  type Client as Stub,
  createClient,
  type Transport,
} from "@connectrpc/connect";
import {
  type DeleteSessionResponse,
  type Delta,
  DeltaMode,
  type ResumeThreadResponse,
  type RunEvent,
  type RuntimeEvent,
  type Session,
  type SessionEvent,
  SessionSchema,
  SessionService,
  StopAt,
  type SubscribeSessionResponse,
  type Thread,
  ThreadSchema,
  type Turn,
  TurnSchema,
  type WhenBusy,
} from "@protolink-grpc/protocol";

import { type Call, type Caller, type Stream } from "./caller.js";
import { hasEnded, LogPosition, TextsRead } from "./log.js";
import type { CallOptions } from "./options.js";
import { jsonText } from "./parts.js";
import { References } from "./references.js";
import { type Input, inputOf, randomId } from "./tasks.js";

/** Options of {@link Sessions.create}. */
export interface NewSession extends CallOptions {
  /** Id of the session. Default: a new random one. */
  sessionId?: string;
  /** For people. */
  title?: string;
  /** Facts of the owner. */
  metadata?: Record<string, unknown>;
}

/** Options of {@link Sessions.update}. What is not set stays as it is. */
export interface SessionChanges extends CallOptions {
  /** For people. */
  title?: string;
  /** Facts of the owner; they replace all earlier ones. */
  metadata?: Record<string, unknown>;
  /** Whether the owner has put the session aside. */
  archived?: boolean;
}

/** Options of {@link Sessions.get}. */
export interface TurnWindow extends CallOptions {
  /** Only turns of this thread. Default: of all. */
  threadId?: string;
  /** Maximum number of turns, from 1 to 1,000. Default: 50. */
  pageSize?: number;
  /** The `nextPageToken` of an earlier page, for older turns. Default: the newest turns. */
  pageToken?: string;
}

/** A session and some of its turns. */
export interface SessionPage {
  /** The session, with its threads and its open turns. */
  session: Session;
  /** The newest turns of the window, oldest first. */
  turns: Turn[];
  /** For the turns before these; empty if there are none. */
  nextPageToken: string;
}

/** Options of {@link Sessions.list}. */
export interface SessionFilter extends CallOptions {
  /** Also archived sessions. */
  includeArchived?: boolean;
  /** Sessions fetched at once, from 1 to 1,000. Default: 50. */
  pageSize?: number;
  /** The `nextPageToken` of an earlier page, to begin with the page after it. Default: the first page. */
  pageToken?: string;
}

/** Options of {@link Sessions.startThread}. */
export interface NewThread extends CallOptions {
  /** Id of the thread. Default: a new random one. */
  threadId?: string;
  /** For people. */
  title?: string;
  /** The thread whose conversation the new one begins with. Default: none, the conversation is empty. */
  fromThreadId?: string;
  /** The last turn of `fromThreadId` to include. Default: the last one that has ended. */
  fromTurnId?: string;
}

/** Options of {@link Sessions.submit}. */
export interface TurnOptions extends CallOptions {
  /** The thread. Default: `default`, which always exists. */
  threadId?: string;
  /** Identifies the turn: the same id is never a second turn, from another process either. Default: a new random one. */
  turnId?: string;
  /** What happens if the thread has an active turn. Default: the new turn waits. */
  whenBusy?: WhenBusy;
}

/** Options of {@link Sessions.stream}. */
export interface TurnStreamOptions extends CallOptions {
  /** As in `Client.stream`. */
  onDelta?: (delta: Delta) => void;
}

/** Options of {@link Sessions.interrupt}. */
export interface InterruptOptions extends CallOptions {
  /** The thread. Default: `default`. Ignored with `turnId`. */
  threadId?: string;
  /** Only this turn; it may also be queued. Default: all active turns of the thread. */
  turnId?: string;
  /** Why, one sentence. */
  reason?: string;
  /** Also remove the queued turns of the thread. */
  clearQueue?: boolean;
}

/** Options of {@link Sessions.rollBack}. */
export interface RollbackOptions extends CallOptions {
  /** Why, one sentence. */
  reason?: string;
}

/** Options of {@link Sessions.resume}. */
export interface ResumeOptions extends CallOptions {
  /** The thread. Default: `default`. */
  threadId?: string;
  /** Why, one sentence. */
  reason?: string;
}

/** Options of {@link Sessions.subscribe}. */
export interface SessionSubscription extends CallOptions {
  /** Position of the last event that the caller has. Default: 0, from the beginning. */
  after?: bigint;
}

/** Options of {@link Sessions.runtimeEvents}. */
export interface RuntimeEventOptions extends CallOptions {
  /** `sequence` of the last event that the caller has. Default: 0, from the beginning. */
  after?: bigint;
  /** End the stream after the last event that exists at the time of the call. */
  stopAtEnd?: boolean;
}

/** An event of a session itself, or of one of its tasks. One of the two is set. */
export type SessionItem = {
  /** Among all events of the session and of its tasks, from 1. */
  position: bigint;
} & ({ event: RunEvent; sessionEvent?: undefined } | { event?: undefined; sessionEvent: SessionEvent });

/**
 * The sessions of the caller with an agent: `sessions` of its `Client`. A session has threads, and a thread has turns: inputs that run
 * one after the other.
 *
 * Every method fails with a `ProtolinkError`, and repeats calls as `Client` does. Agents of other systems have no sessions:
 * UNIMPLEMENTED.
 */
export class Sessions {
  /** The stub of SessionService, without retries and with Connect's errors. */
  readonly stub: Stub<typeof SessionService>;
  readonly #caller: Caller;

  /** Made by `Client`. */
  constructor(transport: Transport, caller: Caller) {
    this.stub = createClient(SessionService, transport);
    this.#caller = caller;
  }

  /** Creates a session, or returns the existing one with that id unchanged. */
  async create(options: NewSession = {}): Promise<Session> {
    const { sessionId = randomId(), title, metadata } = options;
    const request = { sessionId, title, metadataJson: metadata && jsonText(metadata) };
    return sessionOf(await this.#caller.answer((call) => this.stub.createSession(request, call), options));
  }

  /** Changes a session. Fails with SESSION_NOT_FOUND. */
  async update(sessionId: string, options: SessionChanges): Promise<Session> {
    const { title, metadata, archived } = options;
    const request = { sessionId, title, metadataJson: metadata && jsonText(metadata), archived };
    return sessionOf(await this.#caller.answer((call) => this.stub.updateSession(request, call), options));
  }

  /** A session and its newest turns, of one thread or of all. Fails with SESSION_NOT_FOUND. */
  async get(sessionId: string, options: TurnWindow = {}): Promise<SessionPage> {
    const { threadId, pageSize, pageToken } = options;
    const request = { sessionId, threadId, pageSize, pageToken };
    const response = await this.#caller.answer((call) => this.stub.getSession(request, call), options);
    return { session: sessionOf(response), turns: response.turns, nextPageToken: response.nextPageToken };
  }

  /** The caller's sessions without their threads and turns, last changed first. Pages are fetched as they are needed. */
  list(options: SessionFilter = {}): Stream<Session> {
    return this.#caller.stream((call) => this.#pages(options, call), options);
  }

  /**
   * Deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored state of the agent for the session. Open
   * turns are canceled first. Fails with SESSION_NOT_FOUND, also for a repetition after a response that got lost, and with THREAD_BUSY if
   * a run does not stop in time: repeat the call then.
   */
  async delete(sessionId: string, options?: CallOptions): Promise<DeleteSessionResponse> {
    return this.#caller.answer((call) => this.stub.deleteSession({ sessionId }, call), options);
  }

  /**
   * Starts a thread, or returns the existing one. The session is created if necessary. The conversation of the thread is empty, or with
   * `fromThreadId` that of another thread up to a turn. Fails with THREAD_NOT_FOUND or TURN_NOT_FOUND if that does not exist.
   */
  async startThread(sessionId: string, options: NewThread = {}): Promise<Thread> {
    const { threadId = randomId(), title, fromThreadId, fromTurnId } = options;
    const request = { sessionId, threadId, title, fromThreadId, fromTurnId };
    return threadOf(await this.#caller.answer((call) => this.stub.startThread(request, call), options));
  }

  /**
   * Submits an input to a thread, and returns its turn as soon as it is in the agent's log. If the last task of the thread waits for
   * input, the turn continues it. The session is created if necessary. An interrupted call is retried with the same turn id, so that
   * an input is never two turns.
   *
   * Fails with THREAD_BUSY if the policy is `WhenBusy.REJECT` and the thread has an active turn, and with THREAD_NOT_FOUND for a thread
   * that was not started.
   *
   * @param input - Names neither a task nor a session.
   */
  async submit(sessionId: string, input: Input, options: TurnOptions = {}): Promise<Turn> {
    const { threadId, turnId = randomId(), whenBusy } = options;
    const request = { sessionId, threadId, turnId, input: inputOf(input), whenBusy };
    return turnOf(await this.#caller.answer((call) => this.stub.submitTurn(request, call), options));
  }

  /**
   * Yields the events of a turn, also of one that has not started, until the turn has ended. It resumes after interruptions: each event
   * comes once, in order, without a gap. Fails with SESSION_NOT_FOUND or TURN_NOT_FOUND.
   */
  stream(sessionId: string, turnId: string, options: TurnStreamOptions = {}): Stream<RunEvent> {
    return this.#caller.stream((call) => this.#events(sessionId, turnId, call, options.onDelta), options);
  }

  /**
   * Cancels the active turns of a thread and its task that waits for input, or one turn. Returns the turns that were open, as they are
   * after the call: none if there was nothing to interrupt. Fails with SESSION_NOT_FOUND or TURN_NOT_FOUND.
   *
   * Without `turnId` it interrupts what is active when the request arrives. If the response gets lost, the repetition may also interrupt
   * a turn that has started meanwhile.
   */
  async interrupt(sessionId: string, options: InterruptOptions = {}): Promise<Turn[]> {
    const { threadId, turnId, reason, clearQueue } = options;
    const request = { sessionId, threadId, turnId, reason, clearQueue };
    return (await this.#caller.answer((call) => this.stub.interruptTurn(request, call), options)).turns;
  }

  /** Puts a queued turn at the front of its thread's queue. Fails with TURN_NOT_QUEUED if it has started or ended, or TURN_NOT_FOUND. */
  async promote(sessionId: string, turnId: string, options?: CallOptions): Promise<Turn> {
    const request = { sessionId, turnId };
    return turnOf(await this.#caller.answer((call) => this.stub.promoteQueuedTurn(request, call), options));
  }

  /** Removes a turn from the queue: its task is canceled. Fails as {@link promote}. */
  async remove(sessionId: string, turnId: string, options?: CallOptions): Promise<Turn> {
    const request = { sessionId, turnId };
    return turnOf(await this.#caller.answer((call) => this.stub.removeQueuedTurn(request, call), options));
  }

  /** Replaces the messages of a queued turn. Other fields of the input are ignored. Fails as {@link promote}. */
  async replaceInput(sessionId: string, turnId: string, input: Input, options?: CallOptions): Promise<Turn> {
    const request = { sessionId, turnId, messages: inputOf(input).messages };
    return turnOf(await this.#caller.answer((call) => this.stub.updateQueuedTurn(request, call), options));
  }

  /**
   * Takes a turn and all later ones out of the conversation of their thread, and returns the thread. Active turns among them are canceled.
   * Nothing is deleted: `rolledBack` marks them. Repeating the call changes nothing. Fails with SESSION_NOT_FOUND or TURN_NOT_FOUND, and
   * with INVALID_ARGUMENT for a turn that waits in the queue.
   */
  async rollBack(sessionId: string, turnId: string, options: RollbackOptions = {}): Promise<Thread> {
    const request = { sessionId, turnId, reason: options.reason };
    return threadOf(await this.#caller.answer((call) => this.stub.rollbackThread(request, call), options));
  }

  /**
   * Ends the pauses of the active turns of a thread, and returns what the thread still waits for. A thread continues by itself after a
   * restart of the agent. Fails with SESSION_NOT_FOUND or THREAD_NOT_FOUND.
   */
  async resume(sessionId: string, options: ResumeOptions = {}): Promise<ResumeThreadResponse> {
    const { threadId, reason } = options;
    return this.#caller.answer((call) => this.stub.resumeThread({ sessionId, threadId, reason }, call), options);
  }

  /**
   * Yields everything that happens in a session after a position, in the order of positions: stored events, then live ones, until it is
   * left. It resumes after interruptions as {@link stream} does. Fails with SESSION_NOT_FOUND, or with SEQUENCE_OUT_OF_RANGE for a
   * position that the session does not have.
   */
  subscribe(sessionId: string, options: SessionSubscription = {}): Stream<SessionItem> {
    return this.#caller.stream((call) => this.#items(sessionId, options.after ?? 0n, call), options);
  }

  /**
   * Yields what {@link subscribe} yields as events of the Agent Runtime contract. Sequences ascend, with gaps. It resumes after
   * interruptions as {@link stream} does. Fails as `subscribe`.
   */
  runtimeEvents(sessionId: string, options: RuntimeEventOptions = {}): Stream<RuntimeEvent> {
    return this.#caller.stream((call) => this.#runtimeEvents(sessionId, options, call), options);
  }

  async *#pages(options: SessionFilter, whole: Call): AsyncGenerator<Session, void, undefined> {
    const { includeArchived, pageSize } = options;
    let { pageToken = "" } = options;
    do {
      const request = { includeArchived, pageSize, pageToken };
      const page = await this.#caller.answer((call) => this.stub.listSessions(request, call), options, whole);
      yield* page.sessions;
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  async *#events(
    sessionId: string,
    turnId: string,
    call: Call,
    onDelta?: (delta: Delta) => void,
  ): AsyncGenerator<RunEvent, void, undefined> {
    const position = new LogPosition(StopAt.INTERRUPTED, "");
    const references = new References();
    const texts = new TextsRead();
    const deltas = onDelta ? DeltaMode.ALL : DeltaMode.NONE;
    const open = (attempt: ConnectOptions) => {
      texts.reopen();
      return this.stub.streamTurn({ sessionId, turnId, afterSequence: position.seen, deltas }, attempt);
    };
    for await (const response of call.responses(open, () => position.isComplete)) {
      for (const event of response.events) {
        if (position.advance(event)) {
          call.patience.progress();
          texts.pass(event);
          yield references.resolve(event);
        }
      }
      if (onDelta) {
        texts.show(response.deltas, onDelta);
      }
    }
  }

  async *#items(sessionId: string, after: bigint, call: Call): AsyncGenerator<SessionItem, void, undefined> {
    const position = new SessionPosition(after);
    const open = (attempt: ConnectOptions) =>
      this.stub.subscribeSession({ sessionId, afterPosition: position.seen }, attempt);
    for await (const response of call.responses(open)) {
      for (const item of position.take(response)) {
        call.patience.progress();
        yield item;
      }
    }
  }

  async *#runtimeEvents(
    sessionId: string,
    { after = 0n, stopAtEnd = false }: RuntimeEventOptions,
    call: Call,
  ): AsyncGenerator<RuntimeEvent, void, undefined> {
    let seen = after;
    const open = (attempt: ConnectOptions) =>
      this.stub.streamRuntimeEvents({ sessionId, afterSequence: seen, stopAtEnd }, attempt);
    const isComplete = () => false;
    const isWhole = () => stopAtEnd;
    for await (const { events } of call.responses(open, isComplete, isWhole)) {
      for (const event of events) {
        if (event.sequence > seen) {
          seen = event.sequence;
          call.patience.progress();
          yield event;
        }
      }
    }
  }
}

/** What the reader of a session has, through all its connections. */
class SessionPosition {
  /** Position of the last event seen. */
  seen: bigint;
  /** By task; of those that have not ended. */
  readonly #references = new Map<string, References>();

  constructor(seen: bigint) {
    this.seen = seen;
  }

  /** Yields what is news in a response. Positions may be missing: a memory store drops the events of old tasks. */
  *take(response: SubscribeSessionResponse): Generator<SessionItem, void, undefined> {
    for (const { events, sessionEvents, firstPosition } of response.segments) {
      let position = firstPosition;
      for (const sessionEvent of sessionEvents) {
        if (this.#advance(position)) {
          yield { position, sessionEvent };
        }
        position += 1n;
      }
      for (const event of events) {
        if (this.#advance(position)) {
          yield { position, event: this.#resolve(event) };
        }
        position += 1n;
      }
    }
  }

  #advance(position: bigint): boolean {
    if (position <= this.seen) {
      return false;
    }
    this.seen = position;
    return true;
  }

  #resolve(event: RunEvent): RunEvent {
    const { taskId, payload } = event;
    const known = this.#references.get(taskId) ?? new References();
    this.#references.set(taskId, known);
    if (payload.case === "taskStatus" && hasEnded(payload.value.newState)) {
      this.#references.delete(taskId);
    }
    return known.resolve(event);
  }
}

function sessionOf({ session }: { session?: Session }): Session {
  return session ?? create(SessionSchema);
}

function threadOf({ thread }: { thread?: Thread }): Thread {
  return thread ?? create(ThreadSchema);
}

function turnOf({ turn }: { turn?: Turn }): Turn {
  return turn ?? create(TurnSchema);
}
