import assert from "node:assert/strict";
import { test } from "node:test";

import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import { LinkKind, SnapshotService, TaskControlService, TaskStatus, TaskTarget } from "@protolink-grpc/protocol";

import { agentMessage, Client, ProtolinkError, textOf } from "../src/index.js";

function clientOf(
  tasks: Partial<ServiceImpl<typeof TaskControlService>>,
  snapshots: Partial<ServiceImpl<typeof SnapshotService>> = {},
): Client {
  const transport = createRouterTransport((router) => {
    router.service(TaskControlService, tasks);
    router.service(SnapshotService, snapshots);
  });
  return new Client(transport, { patienceMs: 5_000 });
}

const cut = () => new ConnectError("cut", Code.Unavailable);

test("a draft, a report or a retry whose answers get lost has the same ids in every attempt", async () => {
  const asked: unknown[][] = [];
  const lostOnce = (...sent: unknown[]) => {
    asked.push(sent);
    if (asked.length % 2 === 1) {
      throw cut();
    }
  };
  const { tasks } = clientOf({
    createTask({ input, description, links, requestId }) {
      lostOnce(input?.taskId, requestId);
      assert.equal(input?.target, TaskTarget.CREATE);
      return { snapshot: { taskId: input.taskId, description, links: links.map((link) => ({ link })) } };
    },
    appendTaskProgress({ taskId, progress, message, requestId }) {
      lostOnce(taskId, progress, message, requestId);
      return { snapshot: { taskId } };
    },
    retryTask({ taskId, reason, requestId }) {
      lostOnce(taskId, reason, requestId);
      return { snapshot: { taskId } };
    },
  });
  const links = [{ kind: LinkKind.BLOCKED_BY, target: "b" }];
  const draft = await tasks.create("later", { description: { title: "T" }, links });
  assert.match(draft.taskId, /^[0-9a-f-]{36}$/);
  assert.deepEqual([draft.description?.title, draft.links[0]?.link?.target], ["T", "b"]);
  await tasks.reportProgress("a", { progress: 50, message: "half" });
  await tasks.retry("a", { reason: "again" });
  assert.ok(asked.every((sent) => sent.at(-1)));
  assert.deepEqual([asked[0], asked[2], asked[4]], [asked[1], asked[3], asked[5]]);
  assert.deepEqual(asked[2]?.slice(0, 3), ["a", 50, "half"]);
});

test("the error of a draft that could not be created has the id of the task", async () => {
  const { tasks } = clientOf({
    createTask({ input }) {
      throw new ConnectError(`no room for ${input?.taskId}`, Code.ResourceExhausted);
    },
  });
  const error = await tasks.create("later").catch((caught: unknown) => caught);
  assert.ok(error instanceof ProtolinkError);
  assert.match(error.taskId, /^[0-9a-f-]{36}$/);
  assert.equal(error.message, `no room for ${error.taskId}`);
});

test("calls about tasks send what they change, and return the task", async () => {
  const { tasks } = clientOf({
    updateTask: ({ taskId, metadataJson }) => ({ snapshot: { taskId, metadataJson } }),
    startTask: ({ external }) => ({ snapshot: { external } }),
    pauseTask: ({ reason: statusReason }) => ({ snapshot: { status: TaskStatus.PAUSED, statusReason } }),
    resumeTask: ({ reason: statusReason }) => ({ snapshot: { status: TaskStatus.RUNNING, statusReason } }),
    completeTask: ({ messages }) => ({ snapshot: { statusReason: messages.map(textOf).join() } }),
    failTask: ({ failure }) => ({ snapshot: { failure } }),
    linkTasks: ({ link }) => ({ snapshot: { links: [{ link }] } }),
    unlinkTasks: ({ taskId }) => ({ snapshot: { taskId } }),
    getTaskSnapshot: ({ taskId }) => ({ snapshot: { taskId } }),
    listTaskSnapshots: ({ pageToken, statuses }) =>
      pageToken
        ? { snapshots: [{ taskId: "b", status: statuses[0] }] }
        : { snapshots: [{ taskId: "a", status: statuses[0] }], nextPageToken: "more" },
  });
  assert.equal((await tasks.update("a", { metadata: { key: null } })).metadataJson, '{"key":null}');
  assert.equal((await tasks.start("a")).external, false);
  assert.equal((await tasks.start("a", { external: true })).external, true);
  assert.equal((await tasks.pause("a", { reason: "lunch" })).statusReason, "lunch");
  assert.equal((await tasks.resume("a", { reason: "back" })).statusReason, "back");
  assert.equal((await tasks.complete("a", { message: "done" })).statusReason, "done");
  const messages = [agentMessage("checked"), agentMessage("tested")];
  assert.equal((await tasks.complete("a", { messages, message: "done" })).statusReason, "checked,tested,done");
  assert.equal((await tasks.fail("a", "broken")).failure?.message, "broken");
  const [linked] = (await tasks.link("a", LinkKind.SOURCE, "b", { reason: "from it" })).links;
  assert.deepEqual([linked?.link?.kind, linked?.link?.target, linked?.link?.reason], [LinkKind.SOURCE, "b", "from it"]);
  assert.equal((await tasks.unlink("a", LinkKind.SOURCE, "b")).taskId, "a");
  assert.equal((await tasks.get("a")).taskId, "a");
  const found: unknown[] = [];
  for await (const { taskId, status } of tasks.list({ statuses: [TaskStatus.DRAFT] })) {
    found.push([taskId, status]);
  }
  assert.deepEqual(found, [
    ["a", TaskStatus.DRAFT],
    ["b", TaskStatus.DRAFT],
  ]);
});

test("each snapshot is requested by its ids", async () => {
  const { snapshots } = clientOf(
    {},
    {
      getSessionSnapshot: ({ sessionId }) => ({ snapshot: { session: { sessionId } } }),
      getThreadSnapshot: ({ sessionId, threadId }) => ({ snapshot: { sessionId, thread: { threadId } } }),
      getQueueSnapshot: ({ sessionId, threadId }) => ({ snapshot: { sessionId, holds: [{ threadId }] } }),
      getToolInventory: () => ({ snapshot: { tools: [{ runtimeOwner: "local" }] } }),
      getContextBoundary: ({ taskId }) => ({ snapshot: { taskId, step: 2 } }),
      getArtifacts: ({ taskId }) => ({ snapshot: { taskId, artifacts: [{ taskId }] } }),
      getEvidence: ({ taskId }) => ({ snapshot: { taskId, traceId: "t" } }),
    },
  );
  assert.equal((await snapshots.session("s")).session?.sessionId, "s");
  assert.equal((await snapshots.thread("s", { threadId: "side" })).thread?.threadId, "side");
  assert.equal((await snapshots.queue("s", { threadId: "side" })).holds[0]?.threadId, "side");
  assert.equal((await snapshots.tools()).tools[0]?.runtimeOwner, "local");
  assert.equal((await snapshots.context("a")).step, 2);
  assert.equal((await snapshots.artifacts("a")).artifacts[0]?.taskId, "a");
  assert.equal((await snapshots.evidence("a")).traceId, "t");
});
