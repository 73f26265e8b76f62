import assert from "node:assert/strict";
import { test } from "node:test";

import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import {
  type RunEventSchema,
  type SessionSegmentSchema,
  SessionService,
  TaskState,
  TurnState,
  WhenBusy,
} from "@protolink-grpc/protocol";

import { Client, type ProtolinkError, type SessionItem, type Sessions, textOf } from "../src/index.js";

function sessionsOf(service: Partial<ServiceImpl<typeof SessionService>>): Sessions {
  const transport = createRouterTransport((router) => {
    router.service(SessionService, service);
  });
  return new Client(transport, { patienceMs: 5_000 }).sessions;
}

function event(sequence: number, more: MessageInitShape<typeof RunEventSchema> = {}) {
  return { taskId: "t-1", sequence: BigInt(sequence), ...more };
}

function segment(firstPosition: number, more: MessageInitShape<typeof SessionSegmentSchema>) {
  return { firstPosition: BigInt(firstPosition), ...more };
}

const waits = { payload: { case: "taskStatus", value: { newState: TaskState.INPUT_REQUIRED } } } as const;
const cut = () => new ConnectError("cut", Code.Unavailable);

async function upTo(items: AsyncIterable<SessionItem>, last: bigint): Promise<SessionItem[]> {
  const found: SessionItem[] = [];
  for await (const item of items) {
    found.push(item);
    if (item.position === last) {
      break;
    }
  }
  return found;
}

test("a submitted turn whose answers get lost is one turn", async () => {
  const asked: unknown[] = [];
  const sessions = sessionsOf({
    submitTurn({ sessionId, threadId, turnId, whenBusy, input }) {
      asked.push([sessionId, threadId, turnId, whenBusy, input?.messages.length]);
      if (asked.length < 3) {
        throw cut();
      }
      return { turn: { turnId, state: TurnState.QUEUED } };
    },
  });
  const { turnId, state } = await sessions.submit("s", "hello", { threadId: "side", whenBusy: WhenBusy.REJECT });
  assert.match(turnId, /^[0-9a-f-]{36}$/);
  assert.equal(state, TurnState.QUEUED);
  assert.deepEqual(asked, Array(3).fill(["s", "side", turnId, WhenBusy.REJECT, 1]));
  assert.equal((await sessions.submit("s", "hello", { turnId: "mine" })).turnId, "mine");
});

test("new sessions and threads have their ids in every attempt", async () => {
  const asked: string[] = [];
  const lostOnce = (id: string) => {
    asked.push(id);
    if (asked.length % 2 === 1) {
      throw cut();
    }
  };
  const sessions = sessionsOf({
    createSession({ sessionId, metadataJson }) {
      lostOnce(sessionId);
      return { session: { sessionId, metadataJson } };
    },
    startThread({ threadId }) {
      lostOnce(threadId);
      return { thread: { threadId } };
    },
  });
  const { sessionId, metadataJson } = await sessions.create({ metadata: { tenant: "acme" } });
  const { threadId } = await sessions.startThread(sessionId);
  assert.equal(metadataJson, '{"tenant":"acme"}');
  assert.ok(sessionId && threadId);
  assert.deepEqual(asked, [sessionId, sessionId, threadId, threadId]);
});

test("an update sends only what is set", async () => {
  const asked: unknown[] = [];
  const sessions = sessionsOf({
    updateSession({ title, metadataJson, archived }) {
      asked.push([title, metadataJson, archived]);
      return { session: {} };
    },
  });
  await sessions.update("s", { title: "" });
  await sessions.update("s", { metadata: {}, archived: false });
  assert.deepEqual(asked, [
    ["", undefined, undefined],
    [undefined, "{}", false],
  ]);
});

test("sessions are listed page by page, and turns one page at a time", async () => {
  const sessions = sessionsOf({
    listSessions: ({ pageToken }) =>
      pageToken ? { sessions: [{ sessionId: "b" }] } : { sessions: [{ sessionId: "a" }], nextPageToken: "more" },
    getSession: ({ sessionId, pageToken }) => ({
      session: { sessionId },
      turns: [{ turnId: pageToken || "newest" }],
      nextPageToken: pageToken ? "" : "older",
    }),
  });
  const ids: string[] = [];
  for await (const { sessionId } of sessions.list({ includeArchived: true })) {
    ids.push(sessionId);
  }
  assert.deepEqual(ids, ["a", "b"]);
  const page = await sessions.get("s");
  assert.deepEqual([page.session.sessionId, page.turns[0]?.turnId], ["s", "newest"]);
  assert.equal((await sessions.get("s", { pageToken: page.nextPageToken })).turns[0]?.turnId, "older");
});

test("calls about turns return turns, or fail with typed errors", async () => {
  const sessions = sessionsOf({
    interruptTurn: ({ clearQueue, reason }) => ({ turns: [{ turnId: `${clearQueue} ${reason}` }] }),
    promoteQueuedTurn: ({ turnId }) => ({ turn: { turnId } }),
    removeQueuedTurn() {
      throw new ConnectError("it has started", Code.FailedPrecondition);
    },
  });
  const interrupted = await sessions.interrupt("s", { clearQueue: true, reason: "enough" });
  assert.deepEqual(
    interrupted.map(({ turnId }) => turnId),
    ["true enough"],
  );
  assert.equal((await sessions.promote("s", "a")).turnId, "a");
  await assert.rejects(sessions.remove("s", "a"), ({ code }: ProtolinkError) => code === Code.FailedPrecondition);
});

test("calls about threads send what they change, and return it", async () => {
  const asked: unknown[] = [];
  const sessions = sessionsOf({
    updateQueuedTurn({ turnId, messages }) {
      asked.push([turnId, messages.map(textOf)]);
      return { turn: { turnId } };
    },
    rollbackThread({ turnId, reason }) {
      asked.push([turnId, reason]);
      if (asked.length === 2) {
        throw cut();
      }
      return { thread: { rollbackCount: 1 } };
    },
    resumeThread: ({ threadId }) => ({ resumed: [{ turnId: threadId }] }),
    startThread: ({ fromThreadId, fromTurnId }) => ({ thread: { fromThreadId, fromTurnId } }),
    deleteSession: () => ({ turnCount: 3n }),
  });
  assert.equal((await sessions.replaceInput("s", "a", "another")).turnId, "a");
  assert.equal((await sessions.rollBack("s", "b", { reason: "wrong" })).rollbackCount, 1);
  assert.deepEqual(asked, [
    ["a", ["another"]],
    ["b", "wrong"],
    ["b", "wrong"],
  ]);
  assert.equal((await sessions.resume("s", { threadId: "side" })).resumed[0]?.turnId, "side");
  const branch = await sessions.startThread("s", { fromThreadId: "default", fromTurnId: "a" });
  assert.deepEqual([branch.fromThreadId, branch.fromTurnId], ["default", "a"]);
  assert.equal((await sessions.delete("s")).turnCount, 3n);
});

test("the stream of runtime events resumes after its last sequence, and ends where it was asked to", async () => {
  for (const stopAtEnd of [false, true]) {
    const asked: bigint[] = [];
    const sessions = sessionsOf({
      async *streamRuntimeEvents({ afterSequence }) {
        asked.push(afterSequence);
        if (asked.length === 2) {
          yield { events: [{ sequence: 16n }, { sequence: 17n }] };
        } else if (asked.length === 3) {
          yield { events: [{ sequence: 17n }, { sequence: 32n }] };
          return;
        }
        if (asked.length === 4) {
          yield { events: [{ sequence: 48n }] };
        }
        throw cut();
      },
    });
    const found: number[] = [];
    for await (const { sequence } of sessions.runtimeEvents("s", { after: 3n, stopAtEnd })) {
      found.push(Number(sequence));
      if (sequence === 48n) {
        break;
      }
    }
    // Without `stopAtEnd`, the third stream has ended too early.
    assert.deepEqual(found, stopAtEnd ? [16, 17, 32] : [16, 17, 32, 48]);
    assert.deepEqual(asked, stopAtEnd ? [3n, 3n, 17n] : [3n, 3n, 17n, 32n]);
  }
});

test("the stream of a turn resumes after its last event, and ends with the turn", async () => {
  const asked: bigint[] = [];
  const sessions = sessionsOf({
    async *streamTurn({ afterSequence }) {
      asked.push(afterSequence);
      if (asked.length === 2) {
        yield { events: [event(7), event(8)] };
      } else if (asked.length === 3) {
        yield { events: [event(8), event(9)] };
        return;
      } else if (asked.length === 4) {
        yield { events: [event(10, waits)] };
      }
      throw cut();
    },
  });
  const found: number[] = [];
  for await (const { sequence } of sessions.stream("s", "t")) {
    found.push(Number(sequence));
  }
  assert.deepEqual(found, [7, 8, 9, 10]);
  assert.deepEqual(asked, [0n, 0n, 8n, 9n]);
});

test("the stream of a session resumes after its last position", async () => {
  const asked: bigint[] = [];
  const sessions = sessionsOf({
    async *subscribeSession({ afterPosition }) {
      asked.push(afterPosition);
      if (asked.length === 2) {
        yield { segments: [segment(4, { sessionEvents: [{}, {}] }), segment(6, { events: [event(1)] })] };
      } else if (asked.length === 3) {
        yield { segments: [segment(6, { events: [event(1), event(2)] })] };
        return;
      } else if (asked.length === 4) {
        yield { segments: [segment(8, { events: [event(3)] }), segment(9, { sessionEvents: [{}] })] };
      }
      throw cut();
    },
  });
  const found = await upTo(sessions.subscribe("s", { after: 3n }), 9n);
  assert.deepEqual(
    found.map(({ position, event, sessionEvent }) => [
      Number(position),
      event && Number(event.sequence),
      !!sessionEvent,
    ]),
    [
      [4, undefined, true],
      [5, undefined, true],
      [6, 1, false],
      [7, 2, false],
      [8, 3, false],
      [9, undefined, true],
    ],
  );
  assert.deepEqual(asked, [3n, 3n, 6n, 7n]);
});

test("the stream of a session has the arguments of its actions, also after a cut", async () => {
  type Payload = MessageInitShape<typeof RunEventSchema>["payload"];
  const args = { value: { case: "json", value: '{"a":1}' } } as const;
  const asks: Payload = { case: "llmCallCompleted", value: { toolCalls: [{ callId: "c", arguments: args }] } };
  const requested: Payload = { case: "actionRequested", value: { action: { callId: "c" } } };
  const sessions = sessionsOf({
    async *subscribeSession({ afterPosition }) {
      const payload = afterPosition ? requested : asks;
      yield { segments: [segment(Number(afterPosition) + 1, { events: [event(1, { payload })] })] };
      throw cut();
    },
  });
  const [, second] = await upTo(sessions.subscribe("s"), 2n);
  const payload = second?.event?.payload;
  assert.ok(payload?.case === "actionRequested");
  assert.equal(payload.value.action?.payload?.value.value, '{"arguments":{"a":1}}');
});

test("an abort ends the stream of a session at once", async () => {
  const leaving = new AbortController();
  const sessions = sessionsOf({
    async *subscribeSession(_, { signal }) {
      yield { segments: [segment(1, { sessionEvents: [{}] })] };
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
  });
  const items = sessions.subscribe("s", { signal: leaving.signal });
  assert.equal((await items.next()).value?.position, 1n);
  const following = items.next();
  leaving.abort();
  await assert.rejects(following, { name: "AbortError" });
});
