import assert from "node:assert/strict";
import { test } from "node:test";

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

test("a stream of a stub is not repeated, and its error is typed", async () => {
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
