import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import * as grpc from "@grpc/grpc-js";
import {
  AgentService,
  type RunEvent,
  RunEventSchema,
  type SendTaskResponse,
  SendTaskRequestSchema,
  SendTaskResponseSchema,
  StreamTaskResponseSchema,
  SubscribeTaskResponseSchema,
  TaskState,
} from "@protolink-grpc/protocol";

import { grpcJsDefinition } from "../src/grpc-js.js";
import { Client, Code, newTask, outputText, type ProtolinkError } from "../src/index.js";
import { connect } from "../src/node.js";

const DEFINITION = grpcJsDefinition(AgentService);
const PLGRPC = process.env["PLGRPC"] ?? "../../.venv/bin/plgrpc";

function event(sequence: number, last = false): RunEvent {
  return create(RunEventSchema, { taskId: "t-1", sequence: BigInt(sequence), last });
}

/** A server of @grpc/grpc-js with these methods. */
async function serving(methods: grpc.UntypedServiceImplementation, port = 0): Promise<[grpc.Server, number]> {
  const server = new grpc.Server();
  server.addService(DEFINITION, methods);
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, grpc.ServerCredentials.createInsecure(), (error, found) =>
      error ? reject(error) : resolve(found),
    );
  });
  return [server, bound];
}

test("a stream survives the death of its server", async () => {
  const [first, port] = await serving({
    streamTask(call: grpc.ServerWritableStream<unknown, unknown>) {
      call.write(create(StreamTaskResponseSchema, { events: [event(1), event(2)] }));
    },
  });
  const client = connect(`grpc://127.0.0.1:${port}`);
  const found: bigint[] = [];
  let second: grpc.Server | undefined;
  for await (const { sequence } of client.stream("x")) {
    found.push(sequence);
    if (sequence === 2n) {
      first.forceShutdown();
      [second] = await serving(
        {
          subscribeTask(call: grpc.ServerWritableStream<{ afterSequence: bigint }, unknown>) {
            const next = Number(call.request.afterSequence) + 1;
            call.write(create(SubscribeTaskResponseSchema, { events: [event(next, true)] }));
            call.end();
          },
        },
        port,
      );
    }
  }
  assert.deepEqual(found, [1n, 2n, 3n]);
  client.close();
  second?.forceShutdown();
});

test("an agent that is not there is UNAVAILABLE", async () => {
  const [server, port] = await serving({});
  server.forceShutdown();
  const client = connect(`127.0.0.1:${port}`, { patienceMs: 100 });
  const isUnavailable = (error: ProtolinkError) => error.code === Code.Unavailable && error.reason === "UNAVAILABLE";
  await assert.rejects(client.card(), isUnavailable);
  client.close();
});

test("a connection that cannot be opened is UNAVAILABLE after a bound, and connecting is no progress of a stream", async () => {
  let connections = 0;
  const sockets: Socket[] = [];
  // Says nothing, so that no TLS session begins.
  const server = createServer((socket) => {
    connections += 1;
    sockets.push(socket.on("error", () => {}));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const client = connect(`grpcs://127.0.0.1:${port}`, { connectTimeoutMs: 1_050, patienceMs: 300 });
  const began = performance.now();
  await assert.rejects(client.stream("x").next(), { code: Code.Unavailable, message: "no connection within 1050 ms" });
  const tookMs = performance.now() - began;
  assert.ok(tookMs >= 2_100 && tookMs < 4_000, `it took ${tookMs} ms`);
  assert.equal(connections, 2);
  client.close();
  sockets.forEach((socket) => socket.destroy());
  server.close();
});

/** A server that answers SendTask with the headers that it was sent, as the id of the task. */
async function echoingHeaders(...names: string[]): Promise<{ port: number; calls: () => number; stop: () => void }> {
  let calls = 0;
  const [server, port] = await serving({
    sendTask(call: grpc.ServerUnaryCall<unknown, SendTaskResponse>, answer: grpc.sendUnaryData<SendTaskResponse>) {
      calls += 1;
      const id = names.map((name) => call.metadata.get(name).join()).join(" ");
      answer(null, create(SendTaskResponseSchema, { task: { id } }));
    },
  });
  return { port, calls: () => calls, stop: () => server.forceShutdown() };
}

test("headers of the client, of a call and of an interceptor are sent; those of the call win", async () => {
  const { port, stop } = await echoingHeaders("x-client", "x-call", "x-interceptor");
  const adding: Interceptor = (next) => async (request) => {
    request.header.set("x-interceptor", request.method.name);
    return next(request);
  };
  const headers = { "x-client": "a", "x-call": "b" };
  const client = connect(`127.0.0.1:${port}`, { headers, interceptors: [adding] });
  assert.equal((await client.send("x", { headers: { "x-call": "c" } })).id, "a c SendTask");
  client.close();
  stop();
});

test("a client over a transport of the caller's own", async () => {
  const { port, stop } = await echoingHeaders("user-agent");
  const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${port}` });
  const client = new Client(transport, { patienceMs: 0, timeoutMs: 5_000 });
  assert.match((await client.send("x")).id, /connect-es/);
  client.close();
  stop();
});

test("an error that an interceptor throws is given to the caller as it is, once", async () => {
  const { port, calls, stop } = await echoingHeaders();
  let attempts = 0;
  const throwing: Interceptor = () => async () => {
    attempts += 1;
    throw new RangeError("a mistake");
  };
  const client = connect(`127.0.0.1:${port}`, { interceptors: [throwing] });
  await assert.rejects(client.send("x"), { name: "ProtolinkError", message: "a mistake" });
  assert.deepEqual([attempts, calls()], [1, 0]);
  client.close();
  stop();
});

const stage = existsSync(PLGRPC) ? false : `there is no ${PLGRPC}; the variable PLGRPC may name another one`;

test("@grpc/grpc-js calls an agent through the generated services", { skip: stage }, async () => {
  const server = spawn(PLGRPC, ["conformance", "serve"], { stdio: ["pipe", "pipe", "inherit"] });
  try {
    const lines = createInterface({ input: server.stdout });
    const line = await new Promise<string>((resolve) => lines.once("line", resolve));
    const { agent } = JSON.parse(line) as { agent: string };
    const Agent = grpc.makeGenericClientConstructor(DEFINITION, "AgentService");
    const client = new Agent(agent.replace("grpc://", ""), grpc.credentials.createInsecure());
    const { task } = await new Promise<SendTaskResponse>((resolve, reject) => {
      const request = create(SendTaskRequestSchema, { input: newTask("echo héllo 世界") });
      client["sendTask"]!(request, (error: Error | null, response: SendTaskResponse) =>
        error ? reject(error) : resolve(response),
      );
    });
    client.close();
    assert.equal(task?.state, TaskState.COMPLETED);
    assert.equal(task && outputText(task), "héllo 世界");
  } finally {
    server.kill();
  }
});
