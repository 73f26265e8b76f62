import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import {
  AgentService,
  ApprovalSchema,
  ApprovalState,
  ApprovalVerdict,
  ControlService,
  type RunEventSchema,
  StopAt,
  TaskSchema,
  TaskState,
  DeltaMode,
  TaskTarget,
  WaitFor,
} from "@protolink-grpc/protocol";

import {
  type CallerOptions,
  Client,
  newTask,
  outputText,
  ProtolinkError,
  type SendOptions,
  type StreamOptions,
  userMessage,
} from "../src/index.js";

type Agent = Partial<ServiceImpl<typeof AgentService>>;

function clientOf(
  agent: Agent,
  control: Partial<ServiceImpl<typeof ControlService>> = {},
  options: CallerOptions = {},
): Client {
  const transport = createRouterTransport((router) => {
    router.service(AgentService, agent);
    router.service(ControlService, control);
  });
  return new Client(transport, options);
}

function event(sequence: number, more: MessageInitShape<typeof RunEventSchema> = {}) {
  return { taskId: "t-1", sequence: BigInt(sequence), ...more };
}

const waits = { payload: { case: "taskStatus", value: { newState: TaskState.INPUT_REQUIRED } } } as const;
const cut = () => new ConnectError("cut", Code.Unavailable);
const hasCode = (code: Code) => (error: ProtolinkError) => error.code === code;

async function sequences(events: AsyncIterable<{ sequence: bigint }>): Promise<number[]> {
  const found: number[] = [];
  for await (const { sequence } of events) {
    found.push(Number(sequence));
  }
  return found;
}

test("a stream goes on after each cut, shows nothing twice and asks for what is missing", async () => {
  const asked: unknown[] = [];
  const client = clientOf({
    async *streamTask(request) {
      asked.push(request.requestId);
      if (asked.length === 2) {
        yield { events: [event(7), event(8)] };
      }
      throw cut();
    },
    async *subscribeTask({ afterSequence, taskId, stopAt }) {
      asked.push([taskId, afterSequence, stopAt]);
      yield { events: [event(8), event(9)] };
      if (afterSequence === 9n) {
        yield { events: [event(10, { last: true })] };
      }
      throw cut();
    },
  });
  assert.deepEqual(await sequences(client.stream("x", { requestId: "r-1" })), [7, 8, 9, 10]);
  const after = (sequence: bigint) => ["t-1", sequence, StopAt.INTERRUPTED];
  assert.deepEqual(asked, ["r-1", "r-1", after(8n), after(9n)]);
});

test("a stream whose task waits has ended, be its end cut off", async () => {
  const client = clientOf({
    async *streamTask() {
      yield { events: [event(1), event(2, waits)] };
      throw cut();
    },
  });
  assert.deepEqual(await sequences(client.stream("x")), [1, 2]);
});

test("a subscription that was cut after the end of its task learns from the agent whether a retry has followed", async () => {
  const asked: bigint[] = [];
  let isRetried = true;
  const client = clientOf({
    async *subscribeTask({ afterSequence }) {
      asked.push(afterSequence);
      if (afterSequence === 0n) {
        yield { events: [event(1), event(2, { last: true })] };
        throw cut();
      }
      if (isRetried) {
        yield { events: [event(3), event(4, { last: true })] };
      }
    },
  });
  assert.deepEqual(await sequences(client.subscribe("t-1")), [1, 2, 3, 4]);
  isRetried = false;
  assert.deepEqual(await sequences(client.subscribe("t-1")), [1, 2]);
  assert.deepEqual(await sequences(client.subscribe("t-1", { stopAt: StopAt.INTERRUPTED })), [1, 2]);
  assert.deepEqual(asked, [0n, 2n, 0n, 2n, 0n]);
});

test("a subscription passes over a task that waits, unless its options say to stop there", async () => {
  const stops: StopAt[] = [];
  const client = clientOf({
    async *subscribeTask({ afterSequence, stopAt }) {
      stops.push(stopAt);
      if (afterSequence === 0n) {
        yield { events: [event(1), event(2, waits)] };
        throw cut();
      }
      yield { events: [event(3, { last: true })] };
    },
  });
  assert.deepEqual(await sequences(client.subscribe("t-1")), [1, 2, 3]);
  assert.deepEqual(await sequences(client.subscribe("t-1", { stopAt: StopAt.INTERRUPTED })), [1, 2]);
  assert.deepEqual(stops, [StopAt.TERMINAL, StopAt.TERMINAL, StopAt.INTERRUPTED]);
});

test("a gap is an error", async () => {
  const client = clientOf({
    async *subscribeTask() {
      yield { events: [event(1), event(3)] };
    },
  });
  await assert.rejects(sequences(client.subscribe("t-1")), hasCode(Code.DataLoss));
  await assert.rejects(sequences(client.subscribe("t-1", { after: 1n })), hasCode(Code.DataLoss));
});

test("a stream that ends with OK before its last event was cut", async () => {
  const asked: unknown[] = [];
  const client = clientOf({
    async *streamTask({ input, requestId }) {
      asked.push([input?.taskId, requestId]);
      if (asked.length === 2) {
        yield { events: [event(1), event(2)] };
      }
    },
    async *subscribeTask({ afterSequence }) {
      asked.push(afterSequence);
      yield { events: [event(3, { last: true })] };
    },
    getTask: () => ({ task: { sequence: 2n, state: TaskState.WORKING } }),
  });
  assert.deepEqual(await sequences(client.stream({ taskId: "t-1" }, { requestId: "r-1" })), [1, 2, 3]);
  assert.deepEqual(asked, [["t-1", "r-1"], ["t-1", "r-1"], 2n]);
});

test("a subscription of a reader who has seen everything ends, and one to what is stored ends where that does", async () => {
  let state = TaskState.COMPLETED;
  let calls = 0;
  const client = clientOf(
    {
      async *subscribeTask({ afterSequence }) {
        calls += 1;
        yield { position: { revision: afterSequence, caughtUp: true } };
      },
      getTask: () => ({ task: { sequence: 7n, state } }),
    },
    {},
    { patienceMs: 0 },
  );
  assert.deepEqual(await sequences(client.subscribe("t-1", { after: 7n })), []);
  await assert.rejects(sequences(client.subscribe("t-1", { after: 6n })), hasCode(Code.Unavailable));
  state = TaskState.INPUT_REQUIRED;
  await assert.rejects(
    sequences(client.subscribe("t-1", { after: 7n, stopAt: StopAt.INTERRUPTED })),
    hasCode(Code.Unavailable),
  );
  await assert.rejects(sequences(client.subscribe("t-1", { after: 7n })), hasCode(Code.Unavailable));
  assert.deepEqual(await sequences(client.subscribe("t-1", { stopAt: StopAt.CURRENT })), []);
  assert.equal(calls, 5);
});

test("a task that the agent has forgotten is that error, never a new run", async () => {
  let runs = 0;
  const client = clientOf({
    async *streamTask() {
      runs += 1;
      yield { events: [event(1)] };
      throw cut();
    },
    async *subscribeTask() {
      throw new ConnectError("no such task", Code.NotFound);
    },
  });
  await assert.rejects(sequences(client.stream("x")), hasCode(Code.NotFound));
  assert.equal(runs, 1);
});

test("a position that the log no longer has is an answer, not a cut", async () => {
  let calls = 0;
  const client = clientOf({
    async *subscribeTask() {
      calls += 1;
      throw new ConnectError("the log begins with event 40", Code.OutOfRange);
    },
  });
  await assert.rejects(sequences(client.subscribe("t-1", { after: 3n })), hasCode(Code.OutOfRange));
  assert.equal(calls, 1);
});

test("a stream without progress ends with the error when the patience has run out, and does not spin", async () => {
  let calls = 0;
  const client = clientOf(
    {
      async *subscribeTask({ afterSequence }) {
        calls += 1;
        if (afterSequence < 3n) {
          yield { events: [event(Number(afterSequence) + 1)] };
        }
        yield { position: { revision: afterSequence, caughtUp: true } }; // which is no progress
        throw cut();
      },
    },
    {},
    { patienceMs: 400 },
  );
  const began = performance.now();
  await assert.rejects(sequences(client.subscribe("t-1")), hasCode(Code.Unavailable));
  assert.ok(performance.now() - began >= 400);
  assert.ok(calls >= 5 && calls <= 9, `${calls} calls`);
});

test("a quiet stream that stays open for a second is progress, however often it is cut", async () => {
  let calls = 0;
  const client = clientOf(
    {
      async *subscribeTask(_, { signal }) {
        calls += 1;
        if (calls === 4) {
          yield { events: [event(1, { last: true })] };
          return;
        }
        await setTimeout(1_010, undefined, { signal });
        throw cut();
      },
    },
    {},
    { patienceMs: 500 },
  );
  assert.deepEqual(await sequences(client.subscribe("t-1")), [1]);
});

test("a call is repeated after a cut, and not after the agent's own answer", async () => {
  const cutCodes = [Code.Unavailable, Code.Internal, Code.Unknown, Code.Canceled];
  let codes: Code[] = [];
  let calls = 0;
  const client = clientOf({
    getTask() {
      calls += 1;
      const code = codes.shift();
      if (code !== undefined) {
        throw new ConnectError("no", code);
      }
      return { task: { id: "t-1" } };
    },
  });
  for (const code of cutCodes) {
    codes = [code];
    assert.equal((await client.get("t-1")).id, "t-1", Code[code]);
  }
  assert.equal(calls, 2 * cutCodes.length);
  calls = 0;
  codes = [Code.ResourceExhausted, Code.DeadlineExceeded, Code.NotFound, Code.Aborted];
  for (const code of [...codes]) {
    await assert.rejects(client.get("t-1"), hasCode(code), Code[code]);
  }
  assert.equal(calls, 4);
});

test("without patience nothing is tried again", async () => {
  let calls = 0;
  const agent: Agent = {
    getTask() {
      calls += 1;
      throw cut();
    },
  };
  await assert.rejects(clientOf(agent, {}, { patienceMs: 0 }).get("t-1"), hasCode(Code.Unavailable));
  assert.equal(calls, 1);
});

test("a repeated request is the same request, and two requests are not", async () => {
  const ids: string[] = [];
  const client = clientOf({
    sendTask({ requestId }) {
      ids.push(requestId);
      if (ids.length === 1) {
        throw cut();
      }
      return { task: { id: "t-1" } };
    },
  });
  await client.send("x");
  await client.send("x");
  assert.equal(ids[0], ids[1]);
  assert.notEqual(ids[1], ids[2]);
});

test("a new task has its id before it is sent, the same in each attempt, and errors say it", async () => {
  const ids: string[] = [];
  const refusing = (id = "") => {
    ids.push(id);
    throw ids.length % 2 ? cut() : new ConnectError("no", Code.FailedPrecondition);
  };
  const client = clientOf({
    sendTask: ({ input }) => refusing(input?.taskId),
    async *streamTask({ input }) {
      refusing(input?.taskId);
    },
  });
  const isRefused = ({ code, taskId }: ProtolinkError) => code === Code.FailedPrecondition && taskId === ids.at(-1);
  await assert.rejects(client.send("x"), isRefused);
  await assert.rejects(sequences(client.stream("x")), isRefused);
  assert.match(ids[0]!, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(ids[0], ids[1]);
  assert.equal(ids[2], ids[3]);
  assert.notEqual(ids[0], ids[2]);
  const own = { taskId: "my-own", messages: [] };
  await assert.rejects(client.send(own), isRefused);
  assert.equal(ids.at(-1), "my-own");
});

test("the input says whether a task is created or continued", async () => {
  const asked: unknown[] = [];
  const client = clientOf({
    sendTask({ input, waitFor }) {
      asked.push([input?.taskId, input?.target, input?.expectedSequence, input?.messages.length, waitFor]);
      return { task: { id: input?.taskId } };
    },
    async *streamTask({ input, deltas }) {
      asked.push([input?.taskId, input?.target, input?.expectedSequence, input?.messages.length, deltas]);
      yield { events: [event(9, { last: true })] };
    },
  });
  const taskId = "t-1";
  await client.send("x", { taskId });
  await client.submit(["x", "y"], { taskId });
  await sequences(client.stream("x", { taskId, expectedSequence: 7n }));
  await sequences(client.stream("x", { taskId, onDelta: () => {} }));
  await client.send({ taskId });
  await client.send({ taskId, target: TaskTarget.CREATE_OR_CONTINUE });
  await client.send(newTask({ taskId }));
  const { CREATE, CONTINUE, CREATE_OR_CONTINUE, UNSPECIFIED } = TaskTarget;
  assert.deepEqual(asked, [
    [taskId, CONTINUE, 0n, 1, WaitFor.UNSPECIFIED],
    [taskId, CONTINUE, 0n, 1, WaitFor.ACCEPTED],
    [taskId, CONTINUE, 7n, 1, DeltaMode.NONE],
    [taskId, CONTINUE, 0n, 1, DeltaMode.ALL],
    [taskId, UNSPECIFIED, 0n, 0, WaitFor.UNSPECIFIED], // read as continue
    [taskId, CREATE_OR_CONTINUE, 0n, 0, WaitFor.UNSPECIFIED],
    [taskId, CREATE, 0n, 0, WaitFor.UNSPECIFIED],
  ]);
  const { id } = await client.send("x");
  assert.ok(id);
  assert.deepEqual(asked.at(-1), [id, CREATE, 0n, 1, WaitFor.UNSPECIFIED]);
});

test("a deadline bounds all attempts and pauses together, and says why it was not kept", async () => {
  const client = clientOf({
    sendTask() {
      throw cut();
    },
    async *subscribeTask() {
      throw cut();
    },
  });
  const isLate = ({ code, reason, taskId, message }: ProtolinkError) =>
    code === Code.DeadlineExceeded && reason === "DEADLINE_EXCEEDED" && taskId === "t-1" && message.endsWith(": cut");
  const began = performance.now();
  await assert.rejects(client.send({ taskId: "t-1" }, { timeoutMs: 250 }), isLate);
  await assert.rejects(sequences(client.subscribe("t-1", { timeoutMs: 250 })), isLate);
  const tookMs = performance.now() - began;
  assert.ok(tookMs >= 490 && tookMs < 1000, `it took ${tookMs} ms`);
});

/** An agent whose calls never end, whatever becomes of their signals, or are cut at once. */
function hopeless(isCut: boolean): Client {
  const never = new Promise<never>(() => {});
  const failing = async () => (isCut ? Promise.reject(cut()) : never);
  return new Client({ unary: failing, stream: failing });
}

test("the caller's abort ends calls at once with the signal's reason, also in a pause", async () => {
  for (const isCut of [false, true]) {
    const client = hopeless(isCut);
    const all = [
      (options: SendOptions) => client.send("x", options),
      (options: StreamOptions) => client.stream("x", options).next(),
      (options: StreamOptions) => client.watchApprovals({}, options).next(),
      (options: StreamOptions) => client.list({}, options).next(),
    ];
    for (const begin of all) {
      const controller = new AbortController();
      const reason = new Error("enough");
      const call = begin({ signal: controller.signal });
      await setTimeout(5);
      controller.abort(reason);
      const began = performance.now();
      await assert.rejects(call, (error) => error === reason);
      assert.ok(performance.now() - began < 50);
      await assert.rejects(begin({ signal: controller.signal }), (error) => error === reason);
    }
    await assert.rejects(client.get("t-1", { signal: AbortSignal.timeout(5) }), { name: "TimeoutError" });
    const controller = new AbortController();
    const call = client.get("t-1", { signal: controller.signal });
    controller.abort();
    await assert.rejects(call, { name: "AbortError" });
  }
});

test("leaving a stream ends its call at once, also while the next event is awaited", async () => {
  let ended = 0;
  const client = clientOf({
    async *subscribeTask(_, { signal }) {
      signal.addEventListener("abort", () => (ended += 1));
      yield { events: [event(1)] };
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
  });
  for await (const { sequence } of client.subscribe("t-1")) {
    assert.equal(sequence, 1n);
    break;
  }
  assert.equal(ended, 1);
  const events = client.subscribe("t-1");
  await events.next();
  const next = events.next();
  assert.deepEqual(await events.return(), { done: true, value: undefined });
  assert.deepEqual(await next, { done: true, value: undefined });
  assert.deepEqual(await events.next(), { done: true, value: undefined });
  assert.equal(ended, 2);
  assert.deepEqual(await client.subscribe("t-1").return(), { done: true, value: undefined });
  assert.equal(ended, 2);
});

test("a closed client ends what is under way, and begins nothing", async () => {
  const client = hopeless(false);
  const events = client.subscribe("t-1").next();
  const card = client.card();
  client.close();
  for (const call of [events, card, client.get("t-1"), client.subscribe("t-1").next()]) {
    await assert.rejects(call, hasCode(Code.Canceled));
  }
});

test("no piece of a text comes twice, also after a cut, and a call that is tried again begins its text anew", async () => {
  const piece = (callId: string, offset: number, value: string) => ({
    callId,
    offsetBytes: BigInt(offset),
    piece: { case: "text", value } as const,
  });
  const started = { payload: { case: "llmCallStarted", value: { callId: "a" } } } as const;
  const streams = [
    [{ events: [event(1)] }, { deltas: [piece("a", 0, "Grüße "), piece("a", 8, "an "), piece("b", 0, "x")] }],
    [{ deltas: [piece("a", 0, "Grüße an alle"), piece("a", 15, "!"), piece("b", 0, "x")] }],
    [{ events: [event(2, started)] }, { deltas: [piece("a", 0, "Grüße"), piece("a", 7, "!")] }],
    [{ deltas: [piece("a", 0, "Grüße!"), piece("a", 0, "Hallo")] }, { events: [event(3, { last: true })] }],
  ];
  async function* next() {
    yield* streams.shift() ?? [];
    if (streams.length > 0) {
      throw cut();
    }
  }
  const shown: string[] = [];
  const client = clientOf({ streamTask: next, subscribeTask: next });
  const onDelta: StreamOptions["onDelta"] = ({ callId, offsetBytes, piece }) =>
    shown.push(`${callId}${offsetBytes} ${piece.value}`);
  assert.deepEqual(await sequences(client.stream("Hello", { onDelta })), [1, 2, 3]);
  assert.deepEqual(shown, ["a0 Grüße ", "a8 an ", "b0 x", "a11 alle", "a15 !", "a0 Grüße", "a7 !", "a0 Hallo"]);
});

test("lists are fetched page by page", async () => {
  const client = clientOf({
    listTasks: ({ pageToken }) =>
      pageToken ? { tasks: [{ id: "t-3" }] } : { tasks: [{ id: "t-1" }, { id: "t-2" }], nextPageToken: "next" },
  });
  const found: string[] = [];
  for await (const { id } of client.list({ updatedAfter: new Date(0) })) {
    found.push(id);
  }
  assert.deepEqual(found, ["t-1", "t-2", "t-3"]);
});

test("lists begin with the page of a token", async () => {
  const asked: unknown[] = [];
  const page = (request: { pageToken: string; pageSize: number }) => {
    asked.push([request.pageToken, request.pageSize]);
    return { nextPageToken: request.pageToken === "second" ? "third" : "" };
  };
  const client = clientOf({ listTasks: page }, { listTools: page, listApprovals: page });
  const from = { pageToken: "second", pageSize: 7 };
  assert.equal((await client.list(from).next()).done, true);
  await client.tools(from);
  await client.approvals(from);
  const pages = [
    ["second", 7],
    ["third", 7],
  ];
  assert.deepEqual(asked, [...pages, ...pages, ...pages]);
});

test("a watch of approvals goes on after a cut from where it was, and shows nothing twice", async () => {
  const approval = (approvalId: string, state: ApprovalState) => ({ state, approvalId, taskId: "t-1" });
  const { PENDING, DENIED, APPROVED } = ApprovalState;
  const asked: bigint[] = [];
  const client = clientOf(
    {},
    {
      async *watchApprovals({ afterRevision }) {
        asked.push(afterRevision);
        switch (asked.length) {
          case 1: // cut within the snapshot: b is answered meanwhile
            yield { approvals: [approval("a", PENDING), approval("b", PENDING)], position: { reset: true } };
            throw cut();
          case 2:
            yield { approvals: [approval("a", PENDING)], position: { reset: true } };
            yield { approvals: [approval("c", PENDING)], position: { revision: 10n, caughtUp: true } };
            yield { approvals: [approval("d", PENDING)], position: { revision: 11n } };
            throw cut();
          case 3: // ends with OK, which is a cut
            return;
          case 4:
            yield { approvals: [approval("c", APPROVED), approval("d", DENIED)], position: { revision: 13n } };
            yield { position: { revision: 15n, caughtUp: true } };
            return;
          case 5: // another life of the agent
            yield {
              approvals: [approval("a", PENDING), approval("e", PENDING)],
              position: { revision: 3n, reset: true, caughtUp: true },
            };
            yield { approvals: [approval("a", DENIED)], position: { revision: 4n } };
        }
      },
    },
  );
  const told: string[] = [];
  for await (const { approvalId, state } of client.watchApprovals()) {
    told.push(`${approvalId} ${ApprovalState[state]}`);
    if (told.at(-1) === "a DENIED") {
      break;
    }
  }
  const first = ["a PENDING", "c PENDING", "d PENDING"];
  assert.deepEqual(told, [...first, "c APPROVED", "d DENIED", "e PENDING", "a DENIED"]);
  assert.deepEqual(asked, [0n, 0n, 11n, 11n, 15n]);
});

test("an approval is answered as it was shown, under one request id through cuts, with other arguments where the caller has some", async () => {
  const answers: unknown[] = [];
  const requestIds: string[] = [];
  const client = clientOf(
    {},
    {
      respondApproval({ approvalId, verdict, etag, reason, editedArguments, requestId }) {
        requestIds.push(requestId);
        if (requestIds.length === 1) {
          throw cut();
        }
        answers.push([approvalId, ApprovalVerdict[verdict], etag, reason, editedArguments?.value.value]);
        return {};
      },
    },
  );
  const approval = create(ApprovalSchema, { approvalId: "a", etag: "e" });
  await client.respond(approval, true, { reason: "cheaper", editedArguments: { nights: 3 } });
  await client.respond(approval, false);
  assert.deepEqual(answers, [
    ["a", "APPROVE", "e", "cheaper", '{"nights":3}'],
    ["a", "DENY", "e", "", undefined],
  ]);
  assert.equal(requestIds.length, 3);
  assert.equal(requestIds[0], requestIds[1]);
  assert.notEqual(requestIds[1], requestIds[2]);
});

test("the output of a task is what the agent names as the answer", () => {
  const text = (value: string) => [{ content: { case: "text", value } } as const];
  const [answer, artifact] = [
    { id: "m", parts: text("said") },
    { id: "a", parts: text("made") },
  ];
  const task = { messages: [{ ...userMessage("question"), id: "q" }, answer], artifacts: [artifact] };
  for (const [outputId, output] of Object.entries({ m: "said", a: "made", "": "", unknown: "" })) {
    assert.equal(outputText(create(TaskSchema, { ...task, outputId })), output);
  }
});
