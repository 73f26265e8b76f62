/**
 * The conformance program of the TypeScript client: `protolink conformance run -- node dist/conformance.js`.
 *
 * It knows the public client and the environment that it is started with, and does what the programs of all languages do.
 */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { parseArgs } from "node:util";

import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type Client,
  Code,
  type ClientOptions,
  outputText,
  ProtolinkError,
  type Registry,
  textOf,
  userMessage,
} from "@protolink-grpc/client";
import { connect, connectRegistry } from "@protolink-grpc/client/node";
import { connect as connectWeb } from "@protolink-grpc/client/web";
import { AgentChangeKind, type RunEvent, type TaskSchema, TaskState } from "@protolink-grpc/protocol";

import { checkVectors } from "./vectors.js";

const CASE_MS = 60_000;

/** A case that cannot be run here; says why. */
class Skip extends Error {}

/** Where the stage is. */
interface Stage {
  agent: Client;
  agentUrl: string;
  guarded: (options: ClientOptions) => Client;
  apiKey: string;
  bearer: string;
  registry: Registry;
  vectors: string;
}

function environment(name: string): string {
  return process.env[`PROTOLINK_${name}`] ?? "";
}

function task(text: string): MessageInitShape<typeof TaskSchema> & { id: string } {
  return { id: randomUUID(), messages: [userMessage(text)] };
}

/** All events of a stream that must number them without a gap and end with the last one. */
async function collected(events: AsyncIterable<RunEvent>): Promise<RunEvent[]> {
  const found: RunEvent[] = [];
  for await (const event of events) {
    found.push(event);
  }
  const sequences = found.map((event) => Number(event.sequence));
  assert.deepEqual(
    sequences,
    Array.from(found.keys(), (index) => index + 1),
    `sequences ${sequences}`,
  );
  assert.ok(found.at(-1)?.final, "the last event is not final");
  return found;
}

function artifactTexts(events: RunEvent[]): string[] {
  return events.flatMap(({ payload }) =>
    payload.case === "taskArtifact" && payload.value.artifact ? [textOf(payload.value.artifact) ?? ""] : [],
  );
}

function stateOf({ payload }: RunEvent): TaskState | undefined {
  return payload.case === "taskStatus" ? payload.value.newState : undefined;
}

async function refused(what: Promise<unknown>, code: Code): Promise<ProtolinkError> {
  try {
    await what;
  } catch (error) {
    assert.ok(error instanceof ProtolinkError, `not a typed error: ${error}`);
    assert.equal(Code[error.code], Code[code], error.message);
    return error;
  }
  throw new Error(`nothing was refused with ${Code[code]}`);
}

const COUNTED = Array.from({ length: 100 }, (_, index) => String(index + 1));

const CASES: Record<string, (stage: Stage) => Promise<void>> = {
  async unary({ agent }) {
    const done = await agent.send("echo héllo 世界");
    assert.equal(done.state, TaskState.COMPLETED);
    assert.equal(outputText(done), "héllo 世界");
  },

  async stream({ agent }) {
    assert.deepEqual(artifactTexts(await collected(agent.stream("count 100"))), COUNTED);
  },

  async resume({ agent }) {
    assert.deepEqual(artifactTexts(await collected(agent.stream("cut 40 count 100"))), COUNTED);
  },

  async cancel({ agent }) {
    const waiting = task("wait");
    let last: RunEvent | undefined;
    let canceled: Promise<unknown> | undefined;
    for await (const event of agent.stream(waiting)) {
      last = event;
      if (stateOf(event) === TaskState.WORKING) {
        canceled = agent.cancel(waiting.id, "enough");
      }
    }
    await canceled;
    assert.equal(last && stateOf(last), TaskState.CANCELED);
    const now = await agent.get(waiting.id);
    assert.equal(now.state, TaskState.CANCELED);
    assert.equal(now.cancelReason, "enough");
  },

  async deadline({ agent }) {
    const waiting = task("wait");
    const began = performance.now();
    await refused(agent.send(waiting, { timeoutMs: 300 }), Code.DeadlineExceeded);
    assert.ok(performance.now() - began < 3000, "the deadline was noticed after more than 3 s");
    assert.equal((await agent.get(waiting.id)).state, TaskState.WORKING);
    await agent.cancel(waiting.id, "seen");
  },

  async errors({ agent }) {
    const unknown = randomUUID();
    const missing = await refused(agent.get(unknown), Code.NotFound);
    assert.equal(missing.reason, "TASK_NOT_FOUND");
    assert.equal(missing.metadata["task_id"], unknown);
    const long = { ...task("echo too long"), id: "x".repeat(200) };
    const wrong = await refused(agent.send(long), Code.InvalidArgument);
    assert.deepEqual(
      wrong.violations.map(({ field }) => field),
      ["task.id"],
    );
    const done = await agent.send("echo done");
    const late = await refused(agent.cancel(done.id), Code.FailedPrecondition);
    assert.equal(late.reason, "TASK_NOT_CANCELABLE");
  },

  async metadata({ agentUrl, guarded, apiKey, bearer }) {
    for (const who of [{ apiKey }, { bearer }, { bearer: async () => bearer }]) {
      const client = guarded(who);
      assert.equal(outputText(await client.send("whoami")), "conformance");
      client.close();
    }
    const nobody = guarded({});
    const error = await refused(nobody.send("whoami"), Code.Unauthenticated);
    assert.equal(error.reason, "UNAUTHENTICATED");
    nobody.close();
    const client = connect(agentUrl, { headers: { "x-conformance": "hello" } });
    assert.equal(outputText(await client.send("header x-conformance")), "hello");
    client.close();
  },

  async retry({ agent }) {
    const token = randomUUID().replaceAll("-", "");
    assert.equal(outputText(await agent.send(`flaky 2 ${token}`)), `${token} ran 1 times`);
    const [other, requestId] = [randomUUID().replaceAll("-", ""), randomUUID()];
    const first = await agent.send(`count-runs ${other}`, { requestId });
    const second = await agent.send(`count-runs ${other}`, { requestId });
    assert.equal(second.id, first.id);
    assert.deepEqual([first, second].map(outputText), Array(2).fill(`${other} ran 1 times`));
  },

  async large({ agent }) {
    const text = "0123456789".repeat(300_000);
    assert.ok(outputText(await agent.send(`echo ${text}`)) === text, "the text did not come back whole");
  },

  async approval({ agent }) {
    for (const [approved, said] of [
      [true, "approved"],
      [false, "refused"],
    ] as const) {
      const asking = task("approve it");
      for await (const event of agent.stream(asking)) {
        if (event.payload.case === "approvalRequired") {
          const waiting = await agent.approvals({ taskId: asking.id });
          assert.equal(waiting.length, 1);
          const watched = (await agent.watchApprovals({ taskId: asking.id }).next()).value;
          assert.deepEqual(watched, waiting[0]);
          assert.equal((await agent.respond(waiting[0]!, approved)).alreadyDecided, false);
        }
      }
      const done = await agent.get(asking.id);
      assert.equal(done.state, TaskState.COMPLETED);
      assert.equal(outputText(done), said);
    }
  },

  async registry({ registry, agentUrl }) {
    assert.equal((await registry.lookup("conformance")).card?.url, agentUrl);
    const tagged = await registry.list({ tags: ["scripted"] });
    assert.deepEqual(
      tagged.map(({ card }) => card?.name),
      ["conformance"],
    );
    const name = `temp-${randomUUID().slice(0, 8)}`;
    const card = { name, description: "Comes and goes.", url: `grpc://${name}.invalid:1` };
    const changes = registry.watch();
    const next = async () => {
      const { value } = await changes.next();
      return value && [AgentChangeKind[value.kind], value.agent?.card?.name];
    };
    try {
      assert.deepEqual(await next(), ["UP", "conformance"]);
      const { leaseId } = await registry.stub.registerAgent({ card });
      assert.deepEqual(await next(), ["UP", name]);
      await registry.stub.deregisterAgent({ leaseId });
      assert.deepEqual(await next(), ["DOWN", name]);
    } finally {
      await changes.return();
    }
  },

  async unknown({ agent }) {
    const events = await collected(agent.stream("future"));
    const strange = events.filter(({ type }) => type === "example.unheard_of");
    assert.deepEqual(
      strange.map(({ summary }) => summary),
      ["From the future"],
    );
    assert.equal(strange[0]?.payload.case, undefined);
  },

  async vectors({ vectors }) {
    if (!vectors) {
      throw new Skip("there is no folder of vectors");
    }
    checkVectors(vectors);
  },
};

/** The line that reports one case. */
async function outcome(name: string, run: (stage: Stage) => Promise<void>, stage: Stage): Promise<string> {
  const began = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`took more than ${CASE_MS} ms`)), CASE_MS);
  });
  try {
    await Promise.race([run(stage), late]);
    return `PASS ${name} ${Math.round(performance.now() - began)}ms`;
  } catch (error) {
    const said = (error instanceof Error ? error.message : String(error)).replace(/\s+/g, " ").slice(0, 500);
    return error instanceof Skip ? `SKIP ${name}: ${said}` : `FAIL ${name}: ${said}`;
  } finally {
    clearTimeout(timer);
  }
}

async function main(): Promise<number> {
  // Beside the run of every language, over gRPC: the same cases over gRPC-Web. What is read there says nothing of headers.
  const { values } = parseArgs({ options: { web: { type: "boolean", default: false } } });
  const stage: Stage = {
    agent: values.web ? connectWeb(environment("HTTP")) : connect(environment("AGENT")),
    agentUrl: environment("AGENT"),
    guarded: (options) => connect(environment("GUARDED"), options),
    apiKey: environment("API_KEY"),
    bearer: environment("BEARER"),
    registry: connectRegistry(environment("REGISTRY")),
    vectors: environment("VECTORS"),
  };
  let failed = 0;
  for (const [name, run] of Object.entries(CASES)) {
    const line = await outcome(name, run, stage);
    failed += line.startsWith("FAIL") ? 1 : 0;
    console.log(line);
  }
  stage.agent.close();
  stage.registry.close();
  return failed ? 1 : 0;
}

process.exitCode = await main();
