import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";
import {
  AgentService,
  type RunEvent,
  RunEventSchema,
  type SendTaskResponse,
  SendTaskRequestSchema,
  StreamTaskResponseSchema,
  SubscribeTaskResponseSchema,
  TaskState,
} from "@protolink-grpc/protocol";

import { grpcJsDefinition } from "../src/grpc-js.js";
import { Code, outputText, type ProtolinkError, taskFrom } from "../src/index.js";
import { connect } from "../src/node.js";

const DEFINITION = grpcJsDefinition(AgentService);
const PROTOLINK = process.env["PROTOLINK"] ?? "../../.venv/bin/protolink";

function event(sequence: number, final = false): RunEvent {
  return create(RunEventSchema, { taskId: "t-1", sequence: BigInt(sequence), final });
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
  const client = connect(`127.0.0.1:${port}`, { maxAttempts: 2 });
  const isUnavailable = (error: ProtolinkError) => error.code === Code.Unavailable && error.reason === "UNAVAILABLE";
  await assert.rejects(client.card(), isUnavailable);
  client.close();
});

const stage = existsSync(PROTOLINK) ? false : `there is no ${PROTOLINK}; the variable PROTOLINK may name another one`;

test("@grpc/grpc-js calls an agent through the generated services", { skip: stage }, async () => {
  const server = spawn(PROTOLINK, ["conformance", "serve"], { stdio: ["pipe", "pipe", "inherit"] });
  try {
    const lines = createInterface({ input: server.stdout });
    const line = await new Promise<string>((resolve) => lines.once("line", resolve));
    const { agent } = JSON.parse(line) as { agent: string };
    const Agent = grpc.makeGenericClientConstructor(DEFINITION, "AgentService");
    const client = new Agent(agent.replace("grpc://", ""), grpc.credentials.createInsecure());
    const { task } = await new Promise<SendTaskResponse>((resolve, reject) => {
      const request = create(SendTaskRequestSchema, { task: taskFrom("echo héllo 世界") });
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
