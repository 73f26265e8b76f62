/**
 * The conformance program of the TypeScript client: `plgrpc conformance run -- node dist/conformance.js`.
 *
 * It knows the public client and the environment that it is started with, and does what the programs of all languages do.
 */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as setTimeoutAsync } from "node:timers/promises";
import { parseArgs } from "node:util";

import { createConnectTransport } from "@connectrpc/connect-node";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import {
  Client,
  Code,
  type ClientOptions,
  isAbridged,
  newTask,
  outputText,
  payloadText,
  ProtolinkError,
  References,
  type Registry,
  type SessionItem,
  textOf,
  urlOf,
} from "@protolink-grpc/client";
import { connect, connectRegistry } from "@protolink-grpc/client/node";
import { connect as connectWeb } from "@protolink-grpc/client/web";
import {
  ActionOutcome,
  AgentChangeKind,
  ApprovalState,
  type BudgetSchema,
  FailureCategory,
  InstanceState,
  LinkKind,
  PolicyEffect,
  type RunEvent,
  RunOptionsSchema,
  type RuntimeEvent,
  type TaskInput,
  TaskState,
  TaskStatus,
  ThreadStatus,
  TurnState,
  type Usage,
} from "@protolink-grpc/protocol";

import { Calculator } from "../example/gen/calculator_pb.js";
import { checkVectors } from "./vectors.js";

const CASE_MS = 60_000;

/** A case that cannot be run here; says why. */
class Skip extends Error {}

/** Where the stage is. */
interface Stage {
  agent: Client;
  agentUrl: string;
  /** The agent through the proxy that breaks connections, with these options. */
  hostile: (options?: ClientOptions) => Client;
  /** Whether the calls go to the agent's HTTP port, over gRPC-Web or Connect. */
  isHttp: boolean;
  guarded: (options: ClientOptions) => Client;
  apiKey: string;
  bearer: string;
  registry: Registry;
  /** An agent with a typed service, behind another such proxy. */
  calculator: Client;
  vectors: string;
}

function environment(name: string): string {
  return process.env[`PLGRPC_${name}`] ?? "";
}

function word(): string {
  return randomUUID().replaceAll("-", "");
}

async function all(events: AsyncIterable<RunEvent>): Promise<RunEvent[]> {
  const found: RunEvent[] = [];
  for await (const event of events) {
    found.push(event);
  }
  return found;
}

/** All events of a stream that must number them without a gap and end with the last one. */
async function collected(events: AsyncIterable<RunEvent>): Promise<RunEvent[]> {
  const found = await all(events);
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

/** Uses a client through the proxy that breaks connections. */
async function throughProxy(
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

/** Streams a task that makes artifacts 1 to 100, through the proxy. */
async function countedThroughProxy(stage: Stage, text: string): Promise<void> {
  await throughProxy(stage, {}, async (client) => {
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

/** Runs a text that must fail because of one limit of its budget; returns what the run used, as its log and the task say. */
async function spent(
  agent: Client,
  text: string,
  budget: MessageInitShape<typeof BudgetSchema>,
  limit: string,
): Promise<Usage> {
  const input = { ...newTask(text), options: create(RunOptionsSchema, { budget }) };
  const last = (await collected(agent.stream(input))).at(-1)?.payload;
  assert.ok(last?.case === "taskStatus" && last.value.failure && last.value.usage, "no failure, or no usage");
  const { failure, usage } = last.value;
  const task = await agent.get(input.taskId);
  assert.equal(task.state, TaskState.FAILED);
  assert.deepEqual(task.failure, failure);
  assert.deepEqual(task.usage, usage);
  assert.equal(failure.reason, "BUDGET_EXCEEDED");
  assert.equal(failure.category, FailureCategory.LIMIT);
  assert.equal(failure.retryable, false);
  assert.equal(JSON.parse(payloadText(failure.details) ?? "")["limit_name"], limit);
  return usage;
}

/** The payload of each action that is requested, or `abridged` where it is left out. */
function argumentsOf(events: RunEvent[]): (string | undefined)[] {
  return events.flatMap((event) =>
    event.payload.case === "actionRequested"
      ? [isAbridged(event) ? "abridged" : payloadText(event.payload.value.action?.payload)]
      : [],
  );
}

/**
 * Streams a task whose approval is answered while its stream is cut: by `approver`, `pauseMs` after the stream has shown the question.
 * The stream must show the answer once, and what follows from it.
 */
async function checkDecided(
  { agent }: Stage,
  client: Client,
  text: string,
  approver: Client,
  approved: boolean,
  pauseMs: number,
): Promise<void> {
  const asking = newTask(text);
  const answers: (boolean | undefined)[] = [];
  const ends: ActionOutcome[] = [];
  let seen = 0n;
  for await (const { sequence, payload } of client.stream(asking)) {
    assert.equal(sequence, ++seen);
    if (payload.case === "approvalRequired") {
      const [waiting] = await agent.approvals({ taskId: asking.taskId });
      await setTimeoutAsync(pauseMs); // by then the connection is closed
      assert.equal((await approver.respond(waiting!, approved)).alreadyDecided, false);
    } else if (payload.case === "approvalDecided") {
      answers.push(payload.value.state === ApprovalState.APPROVED);
    } else if (payload.case === "actionEnded") {
      ends.push(payload.value.outcome);
    }
  }
  assert.deepEqual(answers, [approved]);
  assert.deepEqual(ends, [approved ? ActionOutcome.COMPLETED : ActionOutcome.DENIED]);
  assert.equal(outputText(await agent.get(asking.taskId)), approved ? "approved" : "refused");
}

/** The events of a session after a position, up to another one. */
async function sessionUpTo(
  { sessions }: Client,
  sessionId: string,
  after: bigint,
  end: bigint,
): Promise<SessionItem[]> {
  const found: SessionItem[] = [];
  for await (const item of sessions.subscribe(sessionId, { after })) {
    found.push(item);
    if (item.position >= end) {
      break;
    }
  }
  return found;
}

/** Edits, rolls back, branches, resumes, exports and deletes a session with the turns `first`, `second` and `third`. */
async function changeSession(agent: Client, sessionId: string): Promise<void> {
  const { sessions } = agent;
  await sessions.submit(sessionId, "wait", { turnId: "fourth" });
  const fifth = await sessions.submit(sessionId, "echo five", { turnId: "fifth" });
  await sessions.replaceInput(sessionId, "fifth", "echo six");
  await sessions.interrupt(sessionId);
  await collected(sessions.stream(sessionId, "fifth"));
  assert.equal(outputText(await agent.get(fifth.taskId)), "six");
  for (const reason of ["wrong", "the repetition changes nothing"]) {
    assert.equal((await sessions.rollBack(sessionId, "fourth", { reason })).rollbackCount, 1);
  }
  const { turns } = await sessions.get(sessionId);
  const rolledBack = turns.filter((turn) => turn.rolledBack).map(({ turnId }) => turnId);
  assert.deepEqual(rolledBack, ["fourth", "fifth"]);
  const origin = { fromThreadId: "default", fromTurnId: "second" };
  const branch = await sessions.startThread(sessionId, origin);
  assert.deepEqual({ fromThreadId: branch.fromThreadId, fromTurnId: branch.fromTurnId }, origin);
  const { resumed, openTurns } = await sessions.resume(sessionId);
  assert.deepEqual([resumed, openTurns], [[], []]);

  const whole = await runtimeEvents(agent, sessionId, 0n);
  const middle = Math.floor(whole.length / 2);
  const rest = await runtimeEvents(agent, sessionId, whole[middle - 1]!.sequence);
  assert.deepEqual(rest, whole.slice(middle));
  const started = whole.filter(({ type }) => type === "turn.started").map(({ turnId }) => turnId);
  assert.deepEqual(started.sort(), ["fifth", "first", "fourth", "second", "third"]);
  assert.equal((await sessions.delete(sessionId)).turnCount, 5n);
  assert.equal((await refused(sessions.get(sessionId), Code.NotFound)).reason, "SESSION_NOT_FOUND");
  assert.equal((await refused(agent.get(fifth.taskId), Code.NotFound)).reason, "TASK_NOT_FOUND");
}

async function runtimeEvents({ sessions }: Client, sessionId: string, after: bigint): Promise<RuntimeEvent[]> {
  const found: RuntimeEvent[] = [];
  for await (const event of sessions.runtimeEvents(sessionId, { after, stopAtEnd: true })) {
    found.push(event);
  }
  return found;
}

/** Pauses a task whose run has not begun, because another task blocks it; retries it after its end. */
async function pauseAndRetry(agent: Client, other: string): Promise<void> {
  const { tasks } = agent;
  const blocker = await tasks.create("wait");
  await tasks.start(blocker.taskId);
  const late = tasks.link(blocker.taskId, LinkKind.BLOCKED_BY, other);
  assert.equal((await refused(late, Code.FailedPrecondition)).reason, "TASK_STARTED");
  const links = [{ kind: LinkKind.BLOCKED_BY, target: blocker.taskId }];
  const { taskId } = await tasks.create("echo later", { links });
  await tasks.start(taskId);
  await tasks.pause(taskId, { reason: "lunch" });
  await agent.cancel(blocker.taskId, "enough");
  for await (const { eventType } of agent.subscribe(taskId)) {
    if (eventType === "task.paused") {
      break;
    }
  }
  const paused = await tasks.get(taskId);
  assert.deepEqual([paused.status, paused.statusReason], [TaskStatus.PAUSED, "lunch"]);
  await tasks.resume(taskId);
  await collected(agent.subscribe(taskId));
  const { sequence } = await tasks.get(taskId);
  await tasks.retry(taskId, { reason: "again" });
  const again = await all(agent.subscribe(taskId, { after: sequence }));
  assert.ok(again.at(-1)?.last, "the retry has not ended");
  const { status, retryCount, attemptCount } = await tasks.get(taskId);
  assert.deepEqual([status, retryCount, attemptCount], [TaskStatus.COMPLETED, 1, 2]);
}

/** Starts, reports, completes and fails tasks whose work is done outside of the agent. */
async function workOutside(agent: Client): Promise<void> {
  const { tasks } = agent;
  const { taskId } = await tasks.create("by hand");
  const started = await tasks.start(taskId, { external: true });
  assert.deepEqual([started.external, started.state], [true, TaskState.WORKING]);
  const { progress } = await tasks.reportProgress(taskId, { progress: 50, message: "half" });
  assert.deepEqual([progress?.progress, progress?.message], [50, "half"]);
  const evidence = [taskId, LinkKind.EVIDENCE, "https://example.com/report"] as const;
  const { links } = await tasks.link(...evidence, { reason: "the report" });
  assert.deepEqual(
    links.map(({ link }) => [taskId, link?.kind, link?.target]),
    [evidence],
  );
  assert.equal((await tasks.unlink(...evidence)).links.length, 0);
  const done = await tasks.complete(taskId, { message: "done" });
  assert.deepEqual([done.status, done.messageCount], [TaskStatus.COMPLETED, 2]);
  assert.equal(outputText(await agent.get(taskId)), "done");
  assert.equal((await refused(tasks.fail(taskId, "too late"), Code.FailedPrecondition)).reason, "TASK_FINISHED");
  const broken = await tasks.create("by hand");
  await tasks.start(broken.taskId, { external: true });
  const { status, failure } = await tasks.fail(broken.taskId, "broken");
  assert.deepEqual([status, failure?.message], [TaskStatus.FAILED, "broken"]);
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
    const anonymous = guarded({});
    const error = await refused(anonymous.send("whoami"), Code.Unauthenticated);
    assert.equal(error.reason, "UNAUTHENTICATED");
    anonymous.close();
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

  async budget({ agent }) {
    const maxCost = { micros: 200_000n, currency: "USD" };
    const paid = await spent(agent, "spend 9", { maxCost }, "max_cost");
    assert.deepEqual(
      paid.costs.map(({ micros, currency }) => ({ micros, currency })),
      [maxCost],
    );
    assert.equal(paid.llmCalls, 2n);
    const called = await spent(agent, "spend 9", { maxToolCalls: 2n }, "max_tool_calls");
    assert.equal(called.toolCalls, 2n);
    const maxRuntime = durationFromMs(300);
    const { runtime } = await spent(agent, "ponder", { maxRuntime }, "max_runtime_seconds");
    const tookMs = runtime ? durationMs(runtime) : 0;
    assert.ok(tookMs >= 300 && tookMs < 5_000, `the run took ${tookMs} ms`);
    const enough = await agent.send({
      ...newTask("spend 2"),
      options: create(RunOptionsSchema, { budget: { maxCost } }),
    });
    assert.equal(outputText(enough), "spent 2");
  },

  async tool({ agent }) {
    const tools = await agent.tools({ pageSize: 2 });
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

  async "typed-call"({ calculator: client }) {
    const calculator = client.stub(Calculator);
    const lost = { "x-lost-answers": "2" };
    const sum = await calculator.add({ a: 20n, b: 22n }, { headers: lost });
    assert.equal(sum.result, 42n);
    assert.equal((await calculator.add({ a: 40n })).result, 42n);

    const name = word();
    const request = { "x-request-id": randomUUID() };
    const accumulate = async (amount: bigint, headers: HeadersInit = {}) =>
      (await calculator.accumulate({ name, amount }, { headers })).result?.value;
    assert.equal(await accumulate(42n, lost), 42n);
    assert.equal(await accumulate(0n), 42n);
    assert.equal(await accumulate(1n, { ...lost, ...request }), 43n);
    assert.equal(await accumulate(1n, request), 43n);

    const fieldsOf = ({ violations }: ProtolinkError) => violations.map(({ field }) => field);
    const nameless = await refused(calculator.accumulate({ amount: 1n }), Code.InvalidArgument);
    assert.equal(nameless.reason, "TOOL_REJECTED");
    assert.deepEqual(fieldsOf(nameless), ["name"]);
    const byZero = await refused(calculator.divide({ dividend: 1 }), Code.InvalidArgument);
    assert.deepEqual(fieldsOf(byZero), ["divisor"]);
    assert.equal((await client.get(byZero.taskId)).id, byZero.taskId);
  },

  async "typed-stream"({ calculator: client }) {
    const calculator = client.stub(Calculator);
    const name = word();
    const request = { "x-request-id": randomUUID() };
    const count = async (times: bigint, headers: HeadersInit = {}, of = name) => {
      const totals: number[] = [];
      for await (const { result } of calculator.count({ name: of, times }, { headers })) {
        totals.push(Number(result));
      }
      return totals;
    };
    const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);
    assert.deepEqual(await count(50n, { "x-cut-after": "20 10 30" }), numbers(1, 50));
    assert.deepEqual(await count(10n, { ...request, "x-cut-after": "3" }), numbers(51, 60));
    assert.deepEqual(await count(10n, request), numbers(51, 60));
    assert.equal((await calculator.accumulate({ name })).result?.value, 60n);

    const nameless = await refused(count(1n, {}, ""), Code.InvalidArgument);
    assert.equal(nameless.reason, "TOOL_REJECTED");
    assert.deepEqual(
      nameless.violations.map(({ field }) => field),
      ["name"],
    );
  },

  async references({ agent }) {
    const events = await collected(agent.stream("cut 5 spend 3"));
    assert.deepEqual(argumentsOf(events), [`{"arguments":{"text":"1"}}`, `{"arguments":{"text":"2"}}`]);
    const [{ taskId }] = events as [RunEvent];
    const after = events.find(({ payload }) => payload.case === "llmCallCompleted")?.sequence;
    const rest = await all(agent.subscribe(taskId, { after }));
    assert.deepEqual(argumentsOf(rest), ["abridged", `{"arguments":{"text":"2"}}`]);
    const called = await agent.callTool("echo", { text: "hi" });
    const whole = await all(agent.subscribe(called.taskId));
    assert.deepEqual(argumentsOf(whole), [`{"arguments":{"text":"hi"}}`]);

    const known = new References();
    for await (const event of agent.stream("approve it")) {
      known.resolve(event);
      if (event.payload.case === "approvalRequired") {
        assert.equal(known.action(event.actionId)?.name, "stamp");
        assert.equal(known.verdict(event.actionId)?.effect, PolicyEffect.REQUIRE_APPROVAL);
        await agent.cancel(event.taskId, "seen");
      }
    }
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
      // The second heartbeat reports another load, which a watch does not show.
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

  async sessions({ agent }) {
    const { sessions } = agent;
    const [sessionId, of] = [`chat-${randomUUID()}`, word()];
    const submit = (turnId: string, text: string) => sessions.submit(sessionId, text, { turnId });
    const first = await submit("first", "wait");
    const second = await submit("second", `flaky 2 ${of}`);
    const third = await submit("third", "cut 40 count 100");
    const { ACTIVE, QUEUED } = TurnState;
    assert.deepEqual(
      [first, second, third].map(({ state }) => state),
      [ACTIVE, QUEUED, QUEUED],
    );
    assert.equal((await submit("second", "echo other")).taskId, second.taskId);

    const interruptAndStream = async function* () {
      for await (const event of sessions.stream(sessionId, "third")) {
        if (event.sequence === 1n) {
          const interrupted = await sessions.interrupt(sessionId, { reason: "enough" });
          assert.deepEqual(
            interrupted.map(({ turnId }) => turnId),
            ["first"],
          );
        }
        yield event;
      }
    };
    assert.deepEqual(artifactTexts(await collected(interruptAndStream())), COUNTED);
    const { session, turns } = await sessions.get(sessionId);
    const { CANCELED, COMPLETED } = TaskState;
    assert.deepEqual(
      turns.map(({ turnId }) => turnId),
      ["first", "second", "third"],
    );
    assert.deepEqual(
      turns.map(({ result }) => result),
      [CANCELED, COMPLETED, COMPLETED],
    );
    assert.equal(outputText(await agent.get(second.taskId)), `${of} ran 1 times`);

    const end = session.position;
    const rest = await sessionUpTo(agent, sessionId, end / 2n, end); // this stream is cut
    const whole = await sessionUpTo(agent, sessionId, 0n, end);
    assert.deepEqual(
      whole.map(({ position }) => Number(position)),
      Array.from(whole.keys(), (index) => index + 1),
    );
    assert.equal(whole.length, Number(end));
    assert.deepEqual(rest, whole.slice(Number(end / 2n)));
    assert.equal(
      (await refused(sessions.remove(sessionId, "third"), Code.FailedPrecondition)).reason,
      "TURN_NOT_QUEUED",
    );
    assert.equal((await refused(sessions.get(`${sessionId}-unknown`), Code.NotFound)).reason, "SESSION_NOT_FOUND");
    await changeSession(agent, sessionId);
  },

  async tasks({ agent }) {
    const { tasks } = agent;
    const of = word();
    const first = await tasks.create(`echo ${of}`, { description: { title: "First" } });
    const links = [{ kind: LinkKind.BLOCKED_BY, target: first.taskId }];
    const second = await tasks.create("echo second", { links });
    assert.deepEqual([first.status, second.status], [TaskStatus.DRAFT, TaskStatus.DRAFT]);
    assert.equal((await tasks.start(second.taskId)).status, TaskStatus.BLOCKED);
    const cycle = tasks.link(first.taskId, LinkKind.BLOCKED_BY, second.taskId);
    assert.equal((await refused(cycle, Code.FailedPrecondition)).reason, "LINK_CYCLE");
    const changes = { description: { title: "The first" }, metadata: { word: of } };
    const { description, metadataJson } = await tasks.update(first.taskId, changes);
    assert.deepEqual([description?.title, JSON.parse(metadataJson)], ["The first", { word: of }]);
    const drafts = new Set<string>();
    for await (const { taskId } of tasks.list({ statuses: [TaskStatus.DRAFT] })) {
      drafts.add(taskId);
    }
    assert.deepEqual([drafts.has(first.taskId), drafts.has(second.taskId)], [true, false]);
    await tasks.start(first.taskId);
    await collected(agent.subscribe(second.taskId));
    assert.equal(outputText(await agent.get(first.taskId)), of);
    assert.equal(outputText(await agent.get(second.taskId)), "second");
    await pauseAndRetry(agent, first.taskId);
    await workOutside(agent);
    assert.equal((await refused(tasks.get(randomUUID()), Code.NotFound)).reason, "TASK_NOT_FOUND");
  },

  async snapshots({ agent }) {
    const { sessions, snapshots } = agent;
    const sessionId = `chat-${randomUUID()}`;
    await sessions.submit(sessionId, "wait", { turnId: "first" });
    await sessions.submit(sessionId, "echo second", { turnId: "second" });
    const { session } = await snapshots.session(sessionId);
    const { position, status } = await snapshots.thread(sessionId);
    assert.deepEqual(
      session?.openTurns.map(({ turnId }) => turnId),
      ["first", "second"],
    );
    assert.deepEqual([position, status], [session?.position, ThreadStatus.RUNNING]);
    const { queuedTurns } = await snapshots.queue(sessionId);
    assert.deepEqual(
      queuedTurns.map(({ turn, place, preview }) => [turn?.turnId, place, preview]),
      [["second", 1, "echo second"]],
    );
    await sessions.interrupt(sessionId);
    await collected(sessions.stream(sessionId, "second"));
    assert.equal((await snapshots.thread(sessionId)).status, ThreadStatus.COMPLETED);

    const { tools } = await snapshots.tools();
    assert.deepEqual(
      tools.map(({ tool }) => tool?.name),
      ["echo", "hold", "stamp"],
    );
    const spent = (await agent.send("spend 3")).id;
    const { preparedSequence, step } = await snapshots.context(spent);
    assert.ok(preparedSequence > 0n);
    assert.equal(step, 3);
    const { actions } = await snapshots.evidence(spent);
    const calls = actions.filter(({ kind, outcome }) => kind === "tool.call" && outcome === ActionOutcome.COMPLETED);
    assert.deepEqual(
      calls.map(({ count }) => count),
      [2n],
    );
    const { artifacts } = await snapshots.artifacts((await agent.send("count 3")).id);
    assert.deepEqual(
      artifacts.map(({ preview }) => preview),
      ["1", "2", "3"],
    );
    const unknown = `${sessionId}-unknown`;
    const thread = snapshots.thread(sessionId, { threadId: "unknown" });
    assert.equal((await refused(thread, Code.NotFound)).reason, "THREAD_NOT_FOUND");
    assert.equal((await refused(snapshots.session(unknown), Code.NotFound)).reason, "SESSION_NOT_FOUND");
    assert.equal((await refused(snapshots.evidence(unknown), Code.NotFound)).reason, "TASK_NOT_FOUND");
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

  async "missing-event"({ agent }) {
    const input = newTask("gap 5 count 10");
    const shown: number[] = [];
    const read = async () => {
      for await (const { sequence } of agent.stream(input)) {
        shown.push(Number(sequence));
      }
    };
    const gap = await refused(read(), Code.DataLoss);
    assert.equal(gap.taskId, input.taskId);
    assert.deepEqual(shown, [1, 2, 3, 4, 5]);
    const rest = await all(agent.subscribe(input.taskId, { after: 5n }));
    assert.deepEqual(
      rest.map(({ sequence }) => Number(sequence)),
      [6, 7, 8, 9, 10, 11, 12, 13],
    );
  },

  async outage(stage) {
    await countedThroughProxy(stage, "outage 4000 40 count 100");
  },

  async reset(stage) {
    for (const code of [8, 2, 0]) {
      await countedThroughProxy(stage, `reset ${code} 40 count 100`);
    }
  },

  async "early-ok"(stage) {
    await countedThroughProxy(stage, "early 40 count 100");
  },

  async "cut-end"({ agent }) {
    const asked = (await all(agent.stream("cut-end ask where"))).at(-1)!;
    assert.equal(stateOf(asked), TaskState.INPUT_REQUIRED);
    const { taskId } = asked;
    const ended = (await all(agent.stream("there", { taskId }))).at(-1)!;
    assert.ok(ended.last, "the second turn has not ended");
    const requestId = randomUUID();
    for (let times = 0; times < 2; times++) {
      await agent.tasks.retry(taskId, { reason: "again", requestId });
    }
    const events = await collected(agent.subscribe(taskId));
    const ends = events.filter(({ last }) => last).map(({ sequence }) => sequence);
    const after = events.at(-1)!.sequence;
    assert.deepEqual(ends, [ended.sequence, after]);
    assert.equal(events.filter(({ eventType }) => eventType === "task.retried").length, 1);
    assert.deepEqual(await all(agent.subscribe(taskId, { after })), []);
  },

  async "idle-cuts"(stage) {
    await throughProxy(stage, { patienceMs: PATIENCE_MS }, async (client) => {
      const events = await collected(client.stream("idle 5 1100 echo here"));
      assert.equal(stateOf(events.at(-1)!), TaskState.COMPLETED);
      assert.equal(outputText(await client.get(events[0]!.taskId)), "here");
    });
  },

  async flapping(stage) {
    const of = word();
    const waiting = newTask(`flap ${of}`);
    await throughProxy(stage, { patienceMs: PATIENCE_MS }, async (client) => {
      await checkGaveUp(stage, waiting, of, readToEnd(client.stream(waiting)));
    });
  },

  async "retry-bound"(stage) {
    if (stage.isHttp) {
      throw new Skip("the hostile proxy speaks gRPC only, and it is what makes all answers get lost");
    }
    const of = word();
    const waiting = newTask(`down ${of}`);
    await throughProxy(stage, { patienceMs: PATIENCE_MS }, async (client) => {
      await checkGaveUp(stage, waiting, of, client.send(waiting));
    });
  },

  async "deadline-in-outage"(stage) {
    // Over HTTP the proxy is not on the way: the call waits for its response until the deadline.
    const waiting = newTask(`down ${word()}`);
    await throughProxy(stage, {}, async (client) => {
      const began = performance.now();
      const error = await refused(client.send(waiting, { timeoutMs: 1_000 }), Code.DeadlineExceeded);
      const tookMs = performance.now() - began;
      assert.ok(tookMs >= 950 && tookMs < 5_000, `it took ${tookMs} ms`);
      assert.equal(error.reason, "DEADLINE_EXCEEDED");
      await stage.agent.cancel(error.taskId, "seen");
    });
  },

  async "cancel-in-pause"(stage) {
    const waiting = newTask(`flap ${word()}`);
    await throughProxy(stage, {}, async (client) => {
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

  async "decision-in-cut"(stage) {
    await throughProxy(stage, {}, async (client) => {
      await checkDecided(stage, client, "undecided 5 approve it", stage.agent, true, 0);
      if (!stage.isHttp) {
        await checkDecided(stage, client, "outage 2000 5 approve it", client, false, 500);
      }
    });
  },

  async "forgotten-task"(stage) {
    await throughProxy(stage, {}, async (client) => {
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
    const calls = [() => agent.send("echo hello", { taskId }), () => readToEnd(agent.stream("echo hello", { taskId }))];
    for (const call of calls) {
      assert.equal((await refused(call(), Code.NotFound)).reason, "TASK_NOT_FOUND");
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
      assert.ok(message.includes("unencrypted") && !message.includes("secret"), message);
    }
  },

  async leak(stage) {
    const of = word();
    const waiting = newTask(`hold ${of}`);
    await throughProxy(stage, {}, async (client) => {
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

/** A client over the Connect protocol, with JSON and Connect's own transport. */
function connectJson(url: string, options: ClientOptions = {}): Client {
  return new Client(createConnectTransport({ baseUrl: url, httpVersion: "1.1" }), options);
}

async function main(): Promise<number> {
  // Beside the run of every language, over gRPC: the same cases over gRPC-Web and Connect, at the HTTP port.
  const { values } = parseArgs({
    options: { web: { type: "boolean", default: false }, connect: { type: "boolean", default: false } },
  });
  const isHttp = values.web || values.connect;
  const open = (options?: ClientOptions): Client =>
    (values.web ? connectWeb : connectJson)(environment("HTTP"), options);
  const stage: Stage = {
    agent: isHttp ? open() : connect(environment("AGENT")),
    agentUrl: environment("AGENT"),
    // The proxy speaks gRPC only; the other faults are those of the agent, and so the same at every port.
    hostile: (options) => (isHttp ? open(options) : connect(environment("HOSTILE"), options)),
    isHttp,
    guarded: (options) => connect(environment("GUARDED"), options),
    apiKey: environment("API_KEY"),
    bearer: environment("BEARER"),
    registry: connectRegistry(environment("REGISTRY")),
    calculator: connect(environment("CALCULATOR")),
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
  stage.calculator.close();
  return failed ? 1 : 0;
}

process.exitCode = await main();
