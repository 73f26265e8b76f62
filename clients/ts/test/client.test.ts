import assert from "node:assert/strict";
import { test } from "node:test";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import {
  AgentService,
  ApprovalState,
  ControlService,
  type RunEventSchema,
  StopAt,
  TaskSchema,
  TaskState,
} from "@protolink-grpc/protocol";

import { Client, outputText, type ProtolinkError, taskFrom } from "../src/index.js";

type Agent = Partial<ServiceImpl<typeof AgentService>>;

function clientOf(agent: Agent, control: Partial<ServiceImpl<typeof ControlService>> = {}, maxAttempts = 5): Client {
  const transport = createRouterTransport((router) => {
    router.service(AgentService, agent);
    router.service(ControlService, control);
  });
  return new Client(transport, { maxAttempts });
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
        yield { events: [event(10, { final: true })] };
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

test("a subscription passes over a task that waits, unless it is told to stop there", async () => {
  const stops: StopAt[] = [];
  const client = clientOf({
    async *subscribeTask({ afterSequence, stopAt }) {
      stops.push(stopAt);
      if (afterSequence === 0n) {
        yield { events: [event(1), event(2, waits)] };
        throw cut();
      }
      yield { events: [event(3, { final: true })] };
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

test("attempts without progress end with the error, and progress begins the count anew", async () => {
  let calls = 0;
  const client = clientOf(
    {
      async *subscribeTask({ afterSequence }) {
        calls += 1;
        if (afterSequence < 3n) {
          yield { events: [event(Number(afterSequence) + 1)] };
        }
        throw cut();
      },
    },
    {},
    2,
  );
  await assert.rejects(sequences(client.subscribe("t-1")), hasCode(Code.Unavailable));
  assert.equal(calls, 4);
});

test("errors that another attempt cannot mend end a call at once", async () => {
  let calls = 0;
  const client = clientOf({
    getTask() {
      calls += 1;
      throw new ConnectError("no", Code.ResourceExhausted);
    },
  });
  await assert.rejects(client.get("t-1"), hasCode(Code.ResourceExhausted));
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

test("a deadline bounds all attempts together", async () => {
  const client = clientOf({
    sendTask() {
      throw cut();
    },
  });
  const began = performance.now();
  await assert.rejects(client.send("x", { timeoutMs: 120 }), hasCode(Code.Unavailable));
  assert.ok(performance.now() - began < 1000);
});

test("an abort and a closed client end what is under way", async () => {
  const client = clientOf({
    async *subscribeTask(_, { signal }) {
      yield { events: [event(1)] };
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
  });
  const controller = new AbortController();
  const events = client.subscribe("t-1", { signal: controller.signal });
  await events.next();
  controller.abort();
  await assert.rejects(events.next(), hasCode(Code.Canceled));
  const others = client.subscribe("t-1");
  await others.next();
  client.close();
  await assert.rejects(others.next(), hasCode(Code.Canceled));
  await assert.rejects(client.get("t-1"), hasCode(Code.Canceled));
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

test("a watch of approvals tells after a cut what became of those that were pending", async () => {
  const approval = (requestId: string, state: ApprovalState) => ({ state, request: { requestId, taskId: "t-1" } });
  let calls = 0;
  const client = clientOf(
    {},
    {
      async *watchApprovals() {
        calls += 1;
        if (calls === 1) {
          yield { approvals: [approval("a", ApprovalState.PENDING), approval("b", ApprovalState.PENDING)] };
          yield {};
          throw cut();
        }
        yield { approvals: [approval("b", ApprovalState.PENDING), approval("c", ApprovalState.PENDING)] };
        yield {};
      },
      listApprovals: () => ({ approvals: [approval("a", ApprovalState.DENIED), approval("z", ApprovalState.DENIED)] }),
    },
  );
  const told: string[] = [];
  for await (const { request, state } of client.watchApprovals()) {
    told.push(`${request?.requestId} ${ApprovalState[state]}`);
  }
  assert.deepEqual(told, ["a PENDING", "b PENDING", "c PENDING", "a DENIED"]);
});

test("the output of a task is its newest result", () => {
  const text = (value: string) => [{ content: { case: "text", value } } as const];
  const time = (seconds: number) => ({ seconds: BigInt(seconds), nanos: 0 });
  const artifact = { parts: text("made"), createTime: time(2) };
  const answer = { role: 2, parts: text("said"), createTime: time(1) };
  assert.equal(outputText(taskFrom("question")), "");
  assert.equal(outputText(create(TaskSchema, { messages: [answer], artifacts: [artifact] })), "made");
  assert.equal(
    outputText(create(TaskSchema, { messages: [{ ...answer, createTime: time(3) }], artifacts: [artifact] })),
    "said",
  );
  assert.equal(
    outputText(create(TaskSchema, { messages: [answer], artifacts: [{ ...artifact, kind: "preview" }] })),
    "said",
  );
});
