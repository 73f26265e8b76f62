/**
 * The conformance program of the TypeScript client: `plgrpc conformance run -- node dist/conformance.js`.
 *
 * It knows the public client and the environment that it is started with, and does what the programs of all languages do.
 */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { parseArgs } from "node:util";

import {
  type Client,
  Code,
  type ClientOptions,
  newTask,
  outputText,
  payloadText,
  ProtolinkError,
  type Registry,
  textOf,
  urlOf,
} from "@protolink-grpc/client";
import { connect, connectRegistry } from "@protolink-grpc/client/node";
import { connect as connectWeb } from "@protolink-grpc/client/web";
import { AgentChangeKind, InstanceState, type RunEvent, type TaskInput, TaskState } from "@protolink-grpc/protocol";

import { checkVectors } from "./vectors.js";

const CASE_MS = 60_000;

/** A case that cannot be run here; says why. */
class Skip extends Error {}

/** Where the stage is. */
interface Stage {
  agent: Client;
  agentUrl: string;
  /** The agent through the door that breaks connections, with these options. */
  hostile: (options?: ClientOptions) => Client;
  isWeb: boolean;
  guarded: (options: ClientOptions) => Client;
  apiKey: string;
  bearer: string;
  registry: Registry;
  vectors: string;
}

function environment(name: string): string {
  return process.env[`PLGRPC_${name}`] ?? "";
}

function word(): string {
  return randomUUID().replaceAll("-", "");
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
  assert.ok(found.at(-1)?.last, "the last event is not final");
  return found;
}

async function readToEnd(events: AsyncIterable<RunEvent>): Promise<void> {
  for await (const _ of events) {
    // What comes is of no interest; how it ends is.
  }
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

/** What the agent says of the task with a word: calls that reached it, runs that it began, streams that are open. */
interface Calls {
  calls: number;
  runs: number;
  open: number;
}

async function callsOf(agent: Client, of: string): Promise<Calls> {
  return JSON.parse(outputText(await agent.send(`calls ${of}`))) as Calls;
}

/** The patience of the cases in which it runs out. */
const PATIENCE_MS = 2_000;

/** Uses a client through the door that breaks connections. */
async function throughDoor(
  { hostile }: Stage,
  options: ClientOptions,
  what: (client: Client) => Promise<void>,
): Promise<void> {
  const client = hostile(options);
  try {
    await what(client);
  } finally {
    client.close();
  }
}

/** Streams a task that makes artifacts 1 to 100, through the door. */
async function countedThroughDoor(stage: Stage, text: string): Promise<void> {
  await throughDoor(stage, {}, async (client) => {
    assert.deepEqual(artifactTexts(await collected(client.stream(text))), COUNTED, text);
  });
}

/** Checks that something gave up when its patience had run out, and that it neither spun nor ran the task again. */
async function checkGaveUp({ agent }: Stage, waiting: TaskInput, of: string, call: Promise<unknown>): Promise<void> {
  const began = performance.now();
  const { taskId } = await refused(call, Code.Unavailable);
  const tookMs = performance.now() - began;
  assert.equal(taskId, waiting.taskId);
  assert.ok(tookMs >= PATIENCE_MS && tookMs <= 9_000, `it took ${tookMs} ms`);
  const found = await agent.get(waiting.taskId);
  assert.equal(found.id, waiting.taskId);
  await agent.cancel(waiting.taskId, "seen");
  const { calls, runs } = await callsOf(agent, of);
  assert.ok(calls >= 3 && calls <= 20, `${calls} calls`);
  assert.equal(runs, 1, `${runs} runs`);
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
    const waiting = newTask("wait");
    let last: RunEvent | undefined;
    let canceled: Promise<unknown> | undefined;
    for await (const event of agent.stream(waiting)) {
      last = event;
      if (stateOf(event) === TaskState.WORKING) {
        canceled = agent.cancel(waiting.taskId, "enough");
      }
    }
    await canceled;
    assert.equal(last && stateOf(last), TaskState.CANCELED);
    const now = await agent.get(waiting.taskId);
    assert.equal(now.state, TaskState.CANCELED);
    assert.equal(now.cancelReason, "enough");
  },

  async deadline({ agent }) {
    const waiting = newTask("wait");
    const began = performance.now();
    await refused(agent.send(waiting, { timeoutMs: 300 }), Code.DeadlineExceeded);
    assert.ok(performance.now() - began < 3000, "the deadline was noticed after more than 3 s");
    assert.equal((await agent.get(waiting.taskId)).state, TaskState.WORKING);
    await agent.cancel(waiting.taskId, "seen");
  },

  async errors({ agent }) {
    const unknown = randomUUID();
    const missing = await refused(agent.get(unknown), Code.NotFound);
    assert.equal(missing.reason, "TASK_NOT_FOUND");
    assert.equal(missing.metadata["task_id"], unknown);
    const long = { ...newTask("echo too long"), taskId: "x".repeat(200) };
    const wrong = await refused(agent.send(long), Code.InvalidArgument);
    assert.deepEqual(
      wrong.violations.map(({ field }) => field),
      ["input.task_id"],
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
    const token = word();
    assert.equal(outputText(await agent.send(`flaky 2 ${token}`)), `${token} ran 1 times`);
    const [other, requestId] = [word(), randomUUID()];
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
      const asking = newTask("approve it");
      for await (const event of agent.stream(asking)) {
        if (event.payload.case === "approvalRequired") {
          const waiting = await agent.approvals({ taskId: asking.taskId });
          assert.equal(waiting.length, 1);
          for await (const watched of agent.watchApprovals({ taskId: asking.taskId })) {
            assert.deepEqual(watched, waiting[0]);
            break;
          }
          assert.equal((await agent.respond(waiting[0]!, approved)).alreadyDecided, false);
        }
      }
      const done = await agent.get(asking.taskId);
      assert.equal(done.state, TaskState.COMPLETED);
      assert.equal(outputText(done), said);
    }
  },

  async tool({ agent }) {
    const tools = await agent.tools();
    assert.deepEqual(
      tools.map((each) => each.name),
      ["echo", "hold", "stamp"],
    );
    assert.deepEqual([tools[0]?.title, tools[0]?.readOnly, tools[1]?.readOnly], ["Echo", true, false]);
    const { output, taskId } = await agent.callTool("echo", { text: "hi" });
    assert.equal(payloadText(output?.outcome.case === "result" ? output.outcome.value : undefined), '"hi"');
    assert.equal((await agent.get(taskId)).state, TaskState.COMPLETED);
    const late = await refused(agent.callTool("hold", {}, { timeoutMs: 300 }), Code.DeadlineExceeded);
    assert.equal((await agent.get(late.taskId ?? "")).state, TaskState.WORKING);
    await agent.cancel(late.taskId ?? "", "seen");
  },

  async registry({ registry, agentUrl }) {
    assert.equal(urlOf((await registry.lookup("conformance")).card), agentUrl);
    const tagged = await registry.list({ tags: ["scripted"] });
    assert.deepEqual(
      tagged.map(({ card }) => card?.name),
      ["conformance"],
    );
    const name = `temp-${randomUUID().slice(0, 8)}`;
    const interfaces = [{ url: `grpc://${name}.invalid:1`, transport: "grpc" }];
    const card = { name, description: "Comes and goes.", interfaces };
    const changes = registry.watch();
    const next = async () => {
      const { value } = await changes.next();
      const state = InstanceState[value?.agent?.state ?? InstanceState.UNSPECIFIED];
      return value && [AgentChangeKind[value.kind], value.agent?.card?.name, state];
    };
    try {
      assert.deepEqual(await next(), ["UP", "conformance", "UP"]);
      const { leaseId } = await registry.stub.registerAgent({ card });
      assert.deepEqual(await next(), ["UP", name, "UP"]);
      // The second heartbeat reports another load, which no watcher is told.
      for (const running of [0, 1]) {
        await registry.stub.renewLease({ leaseId, state: InstanceState.DRAINING, running });
      }
      assert.deepEqual(await next(), ["UP", name, "DRAINING"]);
      await registry.stub.deregisterAgent({ leaseId });
      assert.deepEqual(await next(), ["DOWN", name, "DRAINING"]);
    } finally {
      await changes.return();
    }
  },

  async "unknown-event"({ agent }) {
    const events = await collected(agent.stream("future"));
    const strange = events.filter(({ eventType }) => eventType === "example.unheard_of");
    assert.deepEqual(
      strange.map(({ summary }) => summary),
      ["From the future"],
    );
    assert.equal(strange[0]?.payload.case, undefined);
  },

  async "unknown-part"({ agent }) {
    const events = await collected(agent.stream("future"));
    const parts = events.flatMap(({ payload }) =>
      payload.case === "taskArtifact" ? (payload.value.artifact?.parts ?? []) : [],
    );
    assert.equal(parts.length, 1);
    assert.equal(parts[0]?.content.case, undefined);
    assert.equal(parts[0]?.fallbackText, "A part from the future");
  },

  async "unknown-enum"({ agent }) {
    const events = await collected(agent.stream("future"));
    const states = events.flatMap(({ payload }) =>
      payload.case === "taskStatus" ? [Number(payload.value.newState)] : [],
    );
    assert.deepEqual(states, [77, TaskState.COMPLETED]);
  },

  async outage(stage) {
    await countedThroughDoor(stage, "outage 4000 40 count 100");
  },

  async reset(stage) {
    for (const code of [8, 2, 0]) {
      await countedThroughDoor(stage, `reset ${code} 40 count 100`);
    }
  },

  async "early-ok"(stage) {
    await countedThroughDoor(stage, "early 40 count 100");
  },

  async "idle-cuts"(stage) {
    await throughDoor(stage, { patienceMs: PATIENCE_MS }, async (client) => {
      const events = await collected(client.stream("idle 5 1100 echo here"));
      assert.equal(stateOf(events.at(-1)!), TaskState.COMPLETED);
      assert.equal(outputText(await client.get(events[0]!.taskId)), "here");
    });
  },

  async flapping(stage) {
    const of = word();
    const waiting = newTask(`flap ${of}`);
    await throughDoor(stage, { patienceMs: PATIENCE_MS }, async (client) => {
      await checkGaveUp(stage, waiting, of, readToEnd(client.stream(waiting)));
    });
  },

  async "retry-bound"(stage) {
    if (stage.isWeb) {
      throw new Skip("only the door that speaks gRPC loses all answers");
    }
    const of = word();
    const waiting = newTask(`down ${of}`);
    await throughDoor(stage, { patienceMs: PATIENCE_MS }, async (client) => {
      await checkGaveUp(stage, waiting, of, client.send(waiting));
    });
  },

  async "cancel-in-pause"(stage) {
    const waiting = newTask(`flap ${word()}`);
    await throughDoor(stage, {}, async (client) => {
      const controller = new AbortController();
      const enough = new Error("enough");
      const events = client.stream(waiting, { signal: controller.signal });
      assert.equal((await events.next()).value?.taskId, waiting.taskId);
      let abortedAt = 0;
      setTimeout(() => {
        abortedAt = performance.now();
        controller.abort(enough);
      }, 1_000);
      await assert.rejects(readToEnd(events), (error) => error === enough);
      const tookMs = performance.now() - abortedAt;
      assert.ok(abortedAt && tookMs < 500, `it took ${tookMs} ms`);
    });
    await stage.agent.cancel(waiting.taskId, "seen");
  },

  async "forgotten-task"(stage) {
    await throughDoor(stage, {}, async (client) => {
      const shown: number[] = [];
      const read = async () => {
        for await (const { sequence } of client.stream("forget 5 count 100")) {
          shown.push(Number(sequence));
        }
      };
      const error = await refused(read(), Code.NotFound);
      assert.equal(error.reason, "TASK_NOT_FOUND");
      assert.deepEqual(shown, [1, 2, 3, 4, 5]);
    });
  },

  async mistyped({ agent }) {
    const taskId = "no-such-task";
    const calls = [agent.send("echo hello", { taskId }), readToEnd(agent.stream("echo hello", { taskId }))];
    for (const call of calls) {
      assert.equal((await refused(call, Code.NotFound)).reason, "TASK_NOT_FOUND");
    }
  },

  async "expected-sequence"({ agent }) {
    const { id: taskId, sequence: last } = await agent.send("ask where");
    const stale = agent.send("there", { taskId, expectedSequence: last - 1n });
    const { reason, metadata } = await refused(stale, Code.Aborted);
    assert.equal(reason, "SEQUENCE_CONFLICT");
    assert.equal(metadata["last_sequence"], String(last));
    const done = await agent.send("there", { taskId, expectedSequence: last });
    assert.equal(done.state, TaskState.COMPLETED);
    assert.equal(outputText(done), "there");
  },

  async credentials() {
    for (const who of [{ apiKey: "secret" }, { headers: { authorization: "Bearer secret" } }]) {
      const making = async () => connect("grpc://agent.example:50051", who);
      const { message } = await refused(making(), Code.InvalidArgument);
      assert.ok(message.includes("in the clear") && !message.includes("secret"), message);
    }
  },

  async leak(stage) {
    const of = word();
    const waiting = newTask(`hold ${of}`);
    await throughDoor(stage, {}, async (client) => {
      for await (const event of client.stream(waiting)) {
        assert.equal(event.taskId, waiting.taskId);
        break;
      }
      const end = performance.now() + 5_000;
      let open: number;
      do {
        ({ open } = await callsOf(stage.agent, of));
      } while (open > 0 && performance.now() < end);
      assert.equal(open, 0, `${open} streams are open`);
    });
    await stage.agent.cancel(waiting.taskId, "seen");
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
    // The door speaks gRPC only; most of what goes wrong behind it goes wrong at every port.
    hostile: (options) =>
      values.web ? connectWeb(environment("HTTP"), options) : connect(environment("HOSTILE"), options),
    isWeb: values.web,
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
