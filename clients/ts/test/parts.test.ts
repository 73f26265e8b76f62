import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";
import {
  ArtifactSchema,
  type Part,
  PartSchema,
  type Payload,
  TaskInputSchema,
  TaskTarget,
} from "@protolink-grpc/protocol";

import { composedId } from "../src/tasks.js";
import {
  filePart,
  filesOf,
  jsonOf,
  jsonPart,
  jsonPayload,
  messageOf,
  messagePart,
  messagePayload,
  newTask,
  textOf,
  textPart,
  toolCallPart,
  toolCallsOf,
  toolOutputsOf,
  userMessage,
} from "../src/index.js";

const holding = (...parts: Part[]) => create(ArtifactSchema, { parts });

test("a message is made of texts and parts, in order", () => {
  assert.deepEqual(
    userMessage(["See", textPart("**this**", "text/markdown"), jsonPart({ n: 1 })]).parts.map((part) => [
      part.content.case,
      textOf(holding(part)),
      part.mediaType,
    ]),
    [
      ["text", "See", ""],
      ["text", "**this**", "text/markdown"],
      ["data", '{"n":1}', ""],
    ],
  );
  assert.deepEqual(userMessage("x"), userMessage(["x"]));
});

test("a new task has an id, and the caller's own input stays as it is", () => {
  const given = create(TaskInputSchema, { messages: [userMessage("x")], sessionId: "s" });
  const made = newTask(given);
  assert.ok(made.taskId);
  assert.equal(given.taskId, "");
  assert.deepEqual({ ...made, taskId: "", target: TaskTarget.UNSPECIFIED }, { ...given });
  const { taskId, target } = newTask({ taskId: "my-own" });
  assert.deepEqual([taskId, target], ["my-own", TaskTarget.CREATE]);
});

test("ids are random UUIDs, also where the platform makes none", () => {
  const form = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
  for (const made of [() => composedId(), () => newTask("x").taskId]) {
    const ids = Array.from({ length: 100 }, made);
    ids.forEach((id) => assert.match(id, form));
    assert.equal(new Set(ids).size, 100);
  }
});

test("what was put into parts can be read from them", () => {
  const data = new Uint8Array([1, 2, 3]);
  const item = holding(
    textPart("first"),
    jsonPart([1, { two: null }]),
    filePart({ data, name: "a.bin" }),
    filePart({ uri: "https://example.org/b.png", mediaType: "image/png" }),
    filePart({ name: "known by name" }),
    toolCallPart("book", { nights: 5 }, "c-1"),
    toolCallPart("now"),
  );
  assert.deepEqual(jsonOf(item), [1, { two: null }]);
  assert.deepEqual(
    filesOf(item).map(({ name, content }) => [name, content?.mediaType, content?.value.case]),
    [
      ["a.bin", "", "data"],
      ["", "image/png", "ref"],
      ["known by name", undefined, undefined],
    ],
  );
  assert.deepEqual(filesOf(item)[0]?.content?.value.value, data);
  assert.deepEqual(
    toolCallsOf(item).map(({ toolName, args, callId }) => [toolName, args, callId]),
    [
      ["book", { nights: 5 }, "c-1"],
      ["now", {}, ""],
    ],
  );
});

test("a protobuf message is read as the type that it is", () => {
  const task = newTask({ taskId: "t" });
  const item = holding(messagePart(TaskInputSchema, task), toolCallPart("book", messagePayload(TaskInputSchema, task)));
  const sent = item.parts[0]!.content.value as Payload;
  assert.equal(messageOf(TaskInputSchema, sent)?.taskId, "t");
  assert.equal(messageOf(PartSchema, sent), undefined);
  assert.equal(messageOf(TaskInputSchema, { ...sent, encoding: "aes" }), undefined);
  assert.equal(jsonOf(item), undefined);
  assert.equal(textOf(holding(item.parts[0]!)), "");
  const [call] = toolCallsOf(item);
  assert.equal(call?.args, undefined);
  assert.equal(messageOf(TaskInputSchema, call?.arguments)?.taskId, "t");
});

test("outputs of tools and models are read, the last one that is output first", () => {
  const output = (callId: string, json: string, message = "") => {
    const result = { case: "result" as const, value: { value: { case: "json" as const, value: json } } };
    const outcome = message ? { case: "failure" as const, value: { message } } : result;
    return create(PartSchema, { content: { case: "toolOutput", value: { callId, outcome } } });
  };
  const answer = create(PartSchema, {
    content: { case: "inferOutput", value: { content: { case: "value", value: jsonPayload({ a: 1 }) } } },
  });
  const item = holding(textPart("x"), output("c-1", "[7]"), output("c-2", "", "broken"), output("c-3", "null"));
  assert.deepEqual(
    toolOutputsOf(item).map(({ callId, result, failure }) => [callId, result, failure?.message]),
    [
      ["c-1", [7], undefined],
      ["c-2", undefined, "broken"],
      ["c-3", null, undefined],
    ],
  );
  assert.deepEqual(jsonOf(holding(output("c-1", "[7]"), output("c-2", "", "broken"))), [7]);
  assert.deepEqual(jsonOf(holding(answer, textPart("x"))), { a: 1 });
  assert.equal(textOf(holding(answer)), '{"a":1}');
  assert.equal(jsonOf(holding(textPart("x"))), undefined);
});

test("what JSON cannot say is refused", () => {
  assert.throws(() => jsonPart(undefined), TypeError);
  assert.throws(() => jsonPart(1n), TypeError);
});
