import assert from "node:assert/strict";
import { test } from "node:test";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type PayloadSchema,
  type RunEvent,
  RunEventSchema,
  TaskState,
  type ToolCallSchema,
} from "@protolink-grpc/protocol";

import { isAbridged, jsonPayload, payloadText, References } from "../src/index.js";

type Payload = MessageInitShape<typeof RunEventSchema>["payload"];
type Call = MessageInitShape<typeof ToolCallSchema>;

const event = (payload: Payload): RunEvent => create(RunEventSchema, { actionId: "a", payload });
const called = (...toolCalls: Call[]) => event({ case: "llmCallCompleted", value: { toolCalls } });
const requested = (callId: string, payload?: MessageInitShape<typeof PayloadSchema>) =>
  event({ case: "actionRequested", value: { action: { actionId: "a", name: "echo", callId, payload } } });
const argumentsOf = ({ payload }: RunEvent) =>
  payload.case === "actionRequested" ? payloadText(payload.value.action?.payload) : undefined;

test("arguments that an event leaves out are put back", () => {
  const messages = [{ parts: [{ content: { case: "toolCall" as const, value: { callId: "c" } } }] }];
  const submitted = event({ case: "taskSubmitted", value: { task: { messages } } });
  const added = event({ case: "taskMessages", value: { messages } });
  const model = called({ callId: "c", arguments: jsonPayload({ n: 1 }) });
  for (const [before, wanted] of [
    [[submitted], '{"arguments":{}}'],
    [[submitted, added, model], '{"arguments":{"n":1}}'], // the last one counts
  ] as const) {
    const references = new References();
    before.forEach((each) => references.resolve(each));
    const abridged = requested("c");
    const resolved = references.resolve(abridged);
    assert.equal(argumentsOf(resolved), wanted);
    assert.deepEqual([isAbridged(abridged), isAbridged(resolved)], [true, false]);
    assert.equal(payloadText(references.action("a")?.payload), wanted);
    assert.ok(isAbridged(references.resolve(requested("c"))), "a call was named twice");
  }
});

test("what was before the first event stays as it is", () => {
  const references = new References();
  assert.ok(isAbridged(references.resolve(requested("c"))));
  assert.equal(references.action("a")?.name, "echo");
  assert.equal(references.action("b"), undefined);
  const bytes = { value: { case: "data" as const, value: new Uint8Array(1) } };
  references.resolve(called({ callId: "c", arguments: jsonPayload({}) }, { callId: "c", arguments: bytes }));
  assert.ok(isAbridged(references.resolve(requested("c"))));
  for (const whole of [requested("c", jsonPayload({})), requested("")]) {
    assert.equal(references.resolve(whole), whole);
    assert.ok(!isAbridged(whole));
  }
});

test("actions and calls are forgotten when they are over", () => {
  const ended = event({ case: "actionEnded", value: {} });
  const asks = event({ case: "taskStatus", value: { newState: TaskState.INPUT_REQUIRED } });
  for (const last of [ended, asks]) {
    const references = new References();
    const judged = event({ case: "actionPolicy", value: { decision: { reason: "so" } } });
    [judged, requested(""), judged, called({ callId: "c" })].forEach((each) => references.resolve(each));
    assert.equal(references.verdict("a")?.reason, "so");
    references.resolve(last);
    assert.deepEqual([references.action("a"), references.verdict("a")], [undefined, undefined]);
    assert.equal(isAbridged(references.resolve(requested("c"))), last === asks);
  }
});
