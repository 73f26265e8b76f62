import assert from "node:assert/strict";
import { test } from "node:test";

import { create, createFileRegistry } from "@bufbuild/protobuf";
import type { GenService } from "@bufbuild/protobuf/codegenv2";
import {
  file_google_protobuf_wrappers,
  FileDescriptorProtoSchema,
  type Int64ValueSchema,
} from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createRouterTransport, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { AgentService, StopAt } from "@protolink-grpc/protocol";

import { Calculator } from "../example/gen/calculator_pb.js";
import { type CallerOptions, Client, ProtolinkError } from "../src/index.js";

const cut = () => new ConnectError("cut", Code.Unavailable);

/** A client of a calculator whose `add` first calls `before`, with the number of the call. */
function calculatorOf(
  before: (call: number, context: HandlerContext) => void | Promise<void>,
  options: CallerOptions = {},
) {
  let calls = 0;
  const transport = createRouterTransport(({ service }) => {
    service(Calculator, {
      async add({ a, b }, context) {
        await before(++calls, context);
        context.responseHeader.set("x-task-id", "t-1");
        return { result: a + (b ?? 2n) };
      },
    });
  });
  return new Client(transport, options).stub(Calculator);
}

test("a call of a stub is retried under one request id", async () => {
  const ids: (string | null)[] = [];
  const calculator = calculatorOf((call, { requestHeader }) => {
    ids.push(requestHeader.get("x-request-id"));
    if (call < 3) {
      throw cut();
    }
  });
  let taskId: string | null = "";
  const sum = await calculator.add({ a: 20n, b: 22n }, { onHeader: (headers) => (taskId = headers.get("x-task-id")) });
  assert.equal(sum.result, 42n);
  assert.equal(taskId, "t-1");
  assert.equal(ids.length, 3);
  assert.ok(ids[0]);
  assert.equal(new Set(ids).size, 1);
});

test("each call of a stub has a request id of its own, unless its caller has chosen one", async () => {
  const ids: (string | null)[] = [];
  const calculator = calculatorOf((_, { requestHeader }) => void ids.push(requestHeader.get("x-request-id")));
  await calculator.add({ a: 1n });
  await calculator.add({ a: 1n });
  await calculator.add({ a: 1n }, { headers: { "X-Request-Id": "mine" } });
  assert.equal(new Set(ids).size, 3);
  assert.equal(ids[2], "mine");
});

test("an answer of the agent is a typed error, and the call is not retried", async () => {
  let calls = 0;
  const calculator = calculatorOf((call) => {
    calls = call;
    throw new ConnectError("too large", Code.InvalidArgument);
  });
  await assert.rejects(
    calculator.add({ a: 1n }, { headers: { "x-task-id": "t-2" } }),
    (error: ProtolinkError) => error.code === Code.InvalidArgument && error.taskId === "t-2",
  );
  assert.equal(calls, 1);
});

test("a stub has the timeout of its client, and its calls have their own", async () => {
  const stalled = () => new Promise<void>(() => {});
  const isLate = (error: ProtolinkError) => error.code === Code.DeadlineExceeded;
  await assert.rejects(calculatorOf(stalled, { timeoutMs: 50 }).add({ a: 1n }), isLate);
  await assert.rejects(calculatorOf(stalled).add({ a: 1n }, { timeoutMs: 50 }), isLate);
});

test("a stub gives up when the patience has run out, and at once when its caller aborts the call", async () => {
  const down = () => {
    throw cut();
  };
  const isUnavailable = (error: ProtolinkError) => error.reason === "UNAVAILABLE";
  await assert.rejects(calculatorOf(down, { patienceMs: 0 }).add({ a: 1n }), isUnavailable);
  const reason = new Error("enough");
  const control = new AbortController();
  const call = calculatorOf(down).add({ a: 1n }, { signal: control.signal });
  control.abort(reason);
  await assert.rejects(call, (error) => error === reason);
});

test("a closed client makes no calls of stubs", async () => {
  const client = new Client(createRouterTransport(() => {}));
  client.close();
  await assert.rejects(client.stub(Calculator).add({ a: 1n }), (error: ProtolinkError) => error.code === Code.Canceled);
});

/** A stub of the contract's own service over a client's transport. */
function agentOf(agent: Partial<ServiceImpl<typeof AgentService>>) {
  return new Client(createRouterTransport(({ service }) => void service(AgentService, agent))).stub(AgentService);
}

test("a stream of the contract's own services is not repeated, and its error is typed", async () => {
  let calls = 0;
  const agent = agentOf({
    async *subscribeTask() {
      calls += 1;
      yield { events: [{ sequence: 1n }] };
      throw cut();
    },
  });
  const read = async () => {
    for await (const { events } of agent.subscribeTask({ taskId: "t-1", stopAt: StopAt.TERMINAL })) {
      assert.equal(events[0]?.sequence, 1n);
    }
  };
  await assert.rejects(read(), (error) => error instanceof ProtolinkError && error.reason === "UNAVAILABLE");
  assert.equal(calls, 1);
});

test("the contract's own services are called once, because they read no request id from a header", async () => {
  let calls = 0;
  const agent = agentOf({
    sendTask() {
      calls += 1;
      throw cut();
    },
  });
  await assert.rejects(
    agent.sendTask({}),
    (error) => error instanceof ProtolinkError && error.reason === "UNAVAILABLE",
  );
  assert.equal(calls, 1);
});

/** The service of a user: `count` streams numbers. */
const ROWS = createFileRegistry(
  create(FileDescriptorProtoSchema, {
    name: "acme/rows.proto",
    package: "acme",
    syntax: "proto3",
    dependency: ["google/protobuf/wrappers.proto"],
    service: [
      {
        name: "Rows",
        method: [
          {
            name: "Count",
            inputType: ".google.protobuf.Int64Value",
            outputType: ".google.protobuf.Int64Value",
            serverStreaming: true,
          },
        ],
      },
    ],
  }),
  () => file_google_protobuf_wrappers,
).getService("acme.Rows") as GenService<{
  count: { methodKind: "server_streaming"; input: typeof Int64ValueSchema; output: typeof Int64ValueSchema };
}>;

/**
 * Reads numbers from 1 to 5, whose calls break after so many of them; further calls do not break.
 *
 * @returns The numbers, the request ids of the calls, the id of the task, and the error that has ended the stream.
 */
async function counted(breaks: number[], { isTask = false, ...options }: CallerOptions & { isTask?: boolean } = {}) {
  const ids: (string | null)[] = [];
  const transport = createRouterTransport(({ service }) => {
    service(ROWS, {
      async *count(_, { requestHeader, responseHeader }) {
        ids.push(requestHeader.get("x-request-id"));
        const breaksAfter = breaks[ids.length - 1] ?? 5;
        if (isTask) {
          responseHeader.set("x-task-id", "t-1");
        }
        for (let number = 1; number <= breaksAfter; number++) {
          yield { value: BigInt(number) };
        }
        if (breaksAfter < 5) {
          throw cut();
        }
      },
    });
  });
  const numbers: number[] = [];
  let taskId: string | null = null;
  let error: unknown;
  try {
    const onHeader = (headers: Headers) => (taskId = headers.get("x-task-id"));
    for await (const { value } of new Client(transport, options).stub(ROWS).count({ value: 5n }, { onHeader })) {
      numbers.push(Number(value));
    }
  } catch (caught) {
    error = caught;
  }
  return { numbers, ids, taskId, error };
}

test("a stream of a stub that is a task continues after what was received", async () => {
  const { numbers, ids, taskId, error } = await counted([0, 2, 1, 4], { isTask: true });
  assert.deepEqual([numbers, taskId, error], [[1, 2, 3, 4, 5], "t-1", undefined]);
  assert.ok(ids[0]);
  assert.deepEqual(ids, Array(5).fill(ids[0]));
});

test("a stream of a stub that is no task is not repeated after its first response", async () => {
  const { numbers, ids, error } = await counted([0, 2]);
  assert.deepEqual([numbers, ids.length], [[1, 2], 2]);
  assert.ok(error instanceof ProtolinkError && error.isRetryable);
});

test("a stream of a stub gives up when the patience has run out", async () => {
  const { numbers, ids, error } = await counted([2], { isTask: true, patienceMs: 0 });
  assert.deepEqual([numbers, ids.length], [[1, 2], 1]);
  assert.ok(error instanceof ProtolinkError && error.reason === "UNAVAILABLE");
});
