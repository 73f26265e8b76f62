// Runs every case over one way to reach the agents and prints a line for each: `ok NAME`, `failed NAME: why`.
//
//     node cases.mjs '{"sdk": "v1", "binding": "JSONRPC", "version": "1.0", "agents": {...}, "token": "...", "name": "..."}'
//
// `agents` holds the URLs of the agents of interop_stage.py by kind; `name` is the principal whose token it is.

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";

const given = JSON.parse(process.argv[2]);
const { connect, isLossy, nameOf, otherNames } = await import(`./sdk_${given.sdk}.mjs`);
const to = (kind, more = {}) => connect(given.agents[kind], { ...given, token: kind === "full" ? given.token : undefined, ...more });

const PATIENCE_MS = 15_000; // far more than a case needs

// What this client calls an error over this binding where it has no class of A2A's name for it.
const names = otherNames(given);

// Whether this client leaves out or spoils parts of messages, and `append` of artifacts, on their way through v0.3's protobuf.
const lossy = isLossy(given);

async function collect(stream) {
  const found = [];
  for await (const event of stream) found.push(event);
  return found;
}

// An error has its name; what stands behind a space tells apart where a client has no class for it.
async function refused(name, attempt, pattern = /./) {
  await assert.rejects(attempt, (error) => {
    assert.equal(nameOf(error), names[name] ?? name.split(" ")[0], error.message);
    if (!names.speechless) assert.match(error.message, pattern);
    return true;
  });
}

const cases = {
  async card() {
    const { card } = await to("full");
    assert.equal(card.name, "errands");
    assert.equal(card.streaming, true);
    assert.ok(card.interfaces >= 1);
  },

  async send() {
    const task = await (await to("full")).send("hello");
    assert.equal(task.state, "completed");
    assert.equal(task.said, "did: hello");
    assert.ok(task.id && task.contextId);
    assert.deepEqual(task.history, ["hello"]);
  },

  async parts() {
    const parts = [
      { kind: "text", value: "plain" },
      { kind: "data", value: { n: 1.5, list: [true, lossy ? false : null, "x"] } },
      { kind: "url", value: "https://example.com/a.png", mediaType: "image/png", ...(lossy ? {} : { filename: "a.png" }) },
      ...(lossy ? [] : [{ kind: "raw", value: [0, 1, 255], mediaType: "image/png", filename: "dot.png" }]),
    ];
    const task = await (await to("full")).send("echo", { parts });
    const wanted = parts.map(({ kind, value, ...named }) => ({ [kind]: value, ...named }));
    const found = task.artifacts[0].parts.map(({ filename, ...part }) => (filename ? { ...part, filename } : part));
    assert.deepEqual(found, wanted);
  },

  async stream() {
    const agent = await to("full");
    const events = await collect(agent.stream("count"));
    assert.equal(events[0].kind, "task");
    assert.equal(events.slice(1).filter((each) => each.kind === "task").length, 0);
    const artifacts = events.filter((each) => each.kind === "artifact");
    assert.deepEqual(artifacts.map((each) => each.parts[0].text), ["one", "two ", "and a half"]);
    assert.deepEqual(artifacts.slice(1).map((each) => each.lastChunk), [false, true]);
    if (!lossy) assert.deepEqual(artifacts.slice(1).map((each) => each.append), [false, true]);
    assert.equal(events.at(-1).state, "completed");
    if (given.sdk === "v03") assert.equal(events.at(-1).final, true);
    const task = await agent.get(events[0].id);
    assert.deepEqual(task.artifacts.map((each) => each.parts.map((part) => part.text).join("")), ["one", "two and a half"]);
  },

  async "stream of an agent that has none"() {
    const events = await collect((await to("bare")).stream("hello"));
    assert.deepEqual(events.map((each) => [each.kind, each.state]), [["task", "completed"]]);
  },

  async "immediate answer"() {
    const agent = await to("full");
    let task = await agent.send(`hold ${given.name}-now`, { immediately: true });
    assert.ok(["submitted", "working"].includes(task.state), task.state);
    await agent.send(`release ${given.name}-now`);
    while (task.state !== "completed") task = await agent.get(task.id);
    assert.equal(task.said, "let go");
  },

  async "input required"() {
    const agent = await to("full");
    const asked = await agent.send("ask");
    assert.deepEqual([asked.state, asked.said], ["input-required", "Which city?"]);
    const done = await agent.send("Lisbon", { taskId: asked.id, contextId: asked.contextId });
    assert.deepEqual([done.id, done.state, done.said], [asked.id, "completed", "did: Lisbon"]);
  },

  async "input required in a stream"() {
    const agent = await to("full");
    const events = await collect(agent.stream("ask"));
    assert.equal(events.at(-1).state, "input-required");
    const [{ id, contextId }] = events;
    const answered = await collect(agent.stream("Lisbon", { taskId: id, contextId }));
    assert.deepEqual([answered[0].id, answered.at(-1).state], [id, "completed"]);
  },

  async context() {
    const agent = await to("full");
    const first = await agent.send("one");
    const second = await agent.send("two", { contextId: first.contextId });
    assert.equal(second.contextId, first.contextId);
    assert.notEqual(second.id, first.id);
  },

  async "other ends"() {
    const agent = await to("full");
    const ends = {};
    for (const word of ["fail", "refuse", "login"]) ends[word] = (await agent.send(word)).state;
    assert.deepEqual(ends, { fail: "failed", refuse: "rejected", login: "auth-required" });
  },

  async "message instead of a task"() {
    const agent = await to("speaking");
    assert.deepEqual(await agent.send("say good morning"), { kind: "message", said: "good morning" });
    assert.deepEqual(await collect(agent.stream("say good night")), [{ kind: "message", said: "good night" }]);
  },

  async get() {
    const agent = await to("full");
    const { id } = await agent.send("ask");
    await agent.send("Lisbon", { taskId: id });
    assert.deepEqual((await agent.get(id)).history, ["ask", "Which city?", "Lisbon"]);
    if (given.sdk === "v03" && given.binding === "GRPC") return; // this client forgets the length
    assert.deepEqual((await agent.get(id, 1)).history, ["Lisbon"]);
  },

  async list() {
    const agent = await to("full");
    const first = await agent.send("one");
    const second = await agent.send("two", { contextId: first.contextId });
    const page = await agent.list({ contextId: first.contextId, pageSize: 1 });
    assert.deepEqual([page.ids, page.total], [[second.id], 2]);
    const rest = await agent.list({ contextId: first.contextId, pageSize: 1, pageToken: page.next });
    assert.deepEqual([rest.ids, rest.next], [[first.id], ""]);
  },

  async cancel() {
    const agent = await to("full");
    const task = await agent.send(`hold ${given.name}-cancel`, { immediately: true });
    assert.equal((await agent.cancel(task.id)).state, "canceled");
    assert.equal((await agent.get(task.id)).state, "canceled");
  },

  async resubscribe() {
    const agent = await to("full");
    const stream = agent.stream(`hold ${given.name}-watch`);
    const { id } = (await stream.next()).value;
    await stream.return(); // hangs up; the task goes on
    const again = agent.resubscribe(id);
    const first = (await again.next()).value;
    assert.deepEqual([first.kind, first.id], ["task", id]);
    await agent.send(`release ${given.name}-watch`);
    const rest = await collect(again);
    assert.equal(rest.filter((each) => each.kind === "task").length, 0);
    assert.deepEqual([rest.at(-1).state, rest.at(-1).said], ["completed", "let go"]);
  },

  async push() {
    const agent = await to("full");
    const { id: taskId } = await agent.send("ask");
    const config = { id: "c-1", taskId, url: "http://127.0.0.1:9/hook", token: "t-1" };
    const set = await agent.setPush(config);
    assert.deepEqual([set.id, set.url, set.token], ["c-1", config.url, "t-1"]);
    const read = await agent.getPush(taskId, "c-1");
    assert.deepEqual([read.id, read.url], ["c-1", config.url]);
    assert.deepEqual((await agent.listPush(taskId)).map((each) => each.id), ["c-1"]);
    await agent.deletePush(taskId, "c-1");
    await refused("TaskNotFoundError", agent.getPush(taskId, "c-1"));
  },

  async "extended card"() {
    assert.equal(await (await to("full")).extendedCard(), `knows ${given.name}`);
  },

  async extension() {
    const agent = await to("demanding");
    await refused("ExtensionSupportRequiredError", agent.send("hello"), /urn:example:demanded/);
    const task = await agent.send("hello", { extensions: ["urn:example:demanded"] });
    assert.equal(task.state, "completed");
  },

  async "task not found"() {
    const agent = await to("full");
    await refused("TaskNotFoundError", agent.get("no-such-task"), /no-such-task/);
    await refused("TaskNotFoundError", agent.cancel("no-such-task"), /no-such-task/);
    await refused("TaskNotFoundError", agent.send("hello", { taskId: "no-such-task" }), /no-such-task/);
    await refused("TaskNotFoundError of streams", collect(agent.stream("hello", { taskId: "no-such-task" })), /no-such-task/);
    await refused("TaskNotFoundError of streams", collect(agent.resubscribe("no-such-task")), /no-such-task/);
  },

  async "task of somebody else"() {
    const task = await (await to("full")).send("ask");
    const other = await to("full", { token: given.otherToken });
    await refused("TaskNotFoundError", other.get(task.id));
    await refused("TaskNotFoundError", other.cancel(task.id));
  },

  async "task that has ended"() {
    const agent = await to("full");
    const { id } = await agent.send("hello");
    await refused("TaskNotCancelableError", agent.cancel(id));
    await refused("UnsupportedOperationError of streams", collect(agent.resubscribe(id)));
    await refused("UnsupportedOperationError of sending", agent.send("more", { taskId: id }));
    await refused("UnsupportedOperationError of sending streams", collect(agent.stream("more", { taskId: id })));
  },

  async "no push notifications"() {
    const agent = await to("bare");
    const { id: taskId } = await agent.send("ask");
    await refused("PushNotificationNotSupportedError", agent.setPush({ id: "c-1", taskId, url: "http://127.0.0.1:9/", token: "" }));
  },

  async "media type"() {
    const parts = [{ kind: "raw", value: [0], mediaType: "video/mp4", filename: "a.mp4" }];
    await refused("ContentTypeNotSupportedError", (await to("full")).send("echo", { parts }), /video\/mp4/);
  },

  async "context of another task"() {
    const agent = await to("full");
    const { id } = await agent.send("ask");
    await refused("InvalidParamsError", agent.send("Lisbon", { taskId: id, contextId: "another" }), /belongs to another context/);
  },

  async "extended card that is not there"() {
    const agent = await to("full", { token: given.strangerToken });
    await refused("ExtendedAgentCardNotConfiguredError", agent.extendedCard(), /no extended card/);
  },

  async "no credentials"() {
    const agent = await to("full", { token: undefined });
    await assert.rejects(agent.get("any"));
    await assert.rejects(agent.send("hello"));
    await assert.rejects(collect(agent.stream("hello")));
  },
};

function inTime(work) {
  return Promise.race([work, setTimeout(PATIENCE_MS, undefined, { ref: false }).then(() => assert.fail("it takes too long"))]);
}

for (const [name, run] of Object.entries(cases)) {
  if (given.without.includes(name)) continue;
  try {
    await inTime(run());
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`failed ${name}: ${String(error.stack ?? error).replaceAll("\n", " | ")}`);
  }
}
process.exit(0); // gRPC's connections would keep it
