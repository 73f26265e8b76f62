import assert from "node:assert/strict";
import { test } from "node:test";

import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";

import { ProtolinkError } from "../src/index.js";
import { Patience } from "../src/patience.js";

type Fields = [number, string | number | Uint8Array][];

function encoded(fields: Fields): Uint8Array {
  const writer = new BinaryWriter();
  for (const [number, value] of fields) {
    if (typeof value === "string") {
      writer.tag(number, 2).string(value);
    } else if (typeof value === "number") {
      writer.tag(number, 0).int64(value);
    } else {
      writer.tag(number, 2).bytes(value);
    }
  }
  return writer.finish();
}

function answered(code: Code, ...details: [string, Uint8Array][]): ConnectError {
  const error = new ConnectError("said the server", code, { "grpc-status": String(code) });
  error.details = details.map(([type, value]) => ({ type, value }));
  return error;
}

test("the details of a status are read", () => {
  const entry = encoded([
    [1, "task_id"],
    [2, "t-1"],
  ]);
  const info = encoded([
    [1, "TASK_NOT_FOUND"],
    [2, "protolink-grpc.github.io"],
    [3, entry],
    [99, 7],
  ]);
  const violation = encoded([
    [1, "input.task_id"],
    [2, "is too long"],
  ]);
  const delay = encoded([
    [1, 2],
    [2, 500_000_000],
  ]);
  const error = ProtolinkError.from(
    answered(
      Code.NotFound,
      ["google.rpc.ErrorInfo", info],
      ["google.rpc.BadRequest", encoded([[1, violation]])],
      ["google.rpc.RetryInfo", encoded([[1, delay]])],
      ["example.Unheard", info],
    ),
  );
  assert.equal(error.message, "said the server");
  assert.equal(error.reason, "TASK_NOT_FOUND");
  assert.deepEqual(error.metadata, { task_id: "t-1" });
  assert.deepEqual(error.violations, [{ field: "input.task_id", description: "is too long" }]);
  assert.equal(error.retryAfterMs, 2500);
});

test("reasons of another domain, and bytes that are no details, leave the code and the sentence", () => {
  const foreign = encoded([
    [1, "SOMETHING"],
    [2, "example.org"],
  ]);
  for (const bytes of [foreign, new Uint8Array([0xff, 0xff])]) {
    const error = ProtolinkError.from(answered(Code.NotFound, ["google.rpc.ErrorInfo", bytes]));
    assert.deepEqual([error.code, error.reason, error.metadata], [Code.NotFound, "", {}]);
  }
  const gone = answered(Code.Unavailable, ["google.rpc.ErrorInfo", foreign]);
  assert.equal(ProtolinkError.from(gone).reason, "");
  assert.equal(ProtolinkError.from(answered(Code.Unavailable)).reason, "UNAVAILABLE");
  assert.equal(ProtolinkError.from(answered(Code.InvalidArgument)).reason, "INVALID_ARGUMENT");
});

test("what broke on the way is UNAVAILABLE, what a server said stays what it is", () => {
  const broken = (code: Code, cause?: unknown) =>
    ProtolinkError.from(new ConnectError("x", code, undefined, undefined, cause)).code;
  assert.equal(broken(Code.Canceled), Code.Unavailable);
  assert.equal(broken(Code.Aborted, Object.assign(new Error("reset"), { code: "ECONNRESET" })), Code.Unavailable);
  assert.equal(broken(Code.Internal, Object.assign(new Error("x"), { code: "ERR_HTTP2_ERROR" })), Code.Unavailable);
  assert.equal(broken(Code.Unknown, new TypeError("Failed to fetch")), Code.Unavailable);
  assert.equal(broken(Code.Internal, new Error("cannot encode field")), Code.Internal);
  assert.equal(broken(Code.ResourceExhausted), Code.ResourceExhausted);
  assert.equal(ProtolinkError.from(answered(Code.Internal)).code, Code.Internal);
  assert.equal(ProtolinkError.from(answered(Code.Canceled)).code, Code.Canceled);
});

test("an aborted signal says that it was the caller", () => {
  const reason = new Error("enough");
  const error = ProtolinkError.from(new ConnectError("x", Code.Internal), AbortSignal.abort(reason));
  assert.deepEqual([error.code, error.cause, error.isRetryable], [Code.Canceled, reason, false]);
});

test("a cut is retryable, an answer with a reason of the agent is not, unless it says that it is unavailable", () => {
  const info = encoded([[1, "SOMETHING"]]);
  for (const code of [Code.Internal, Code.Unknown, Code.Canceled, Code.Unavailable]) {
    assert.equal(ProtolinkError.from(answered(code)).isRetryable, true, Code[code]);
    const told = ProtolinkError.from(answered(code, ["google.rpc.ErrorInfo", info]));
    assert.equal(told.isRetryable, code === Code.Unavailable, Code[code]);
  }
  for (const code of [Code.ResourceExhausted, Code.DeadlineExceeded, Code.Aborted, Code.NotFound]) {
    assert.equal(ProtolinkError.from(answered(code)).isRetryable, false, Code[code]);
  }
});

test("a full agent is retryable if it says when, and then the caller decides", async () => {
  const delay = encoded([[1, encoded([[1, 2]])]]);
  const full = ProtolinkError.from(answered(Code.ResourceExhausted, ["google.rpc.RetryInfo", delay]));
  assert.deepEqual([full.isRetryable, full.retryAfterMs], [true, 2000]);
  assert.throws(() => new Patience(60_000).pauseAfter(full), full);
});

test("a mistake on this side is not retryable", () => {
  const thrown = (cause: unknown) => ProtolinkError.from(new ConnectError("x", Code.Unknown, undefined, [], cause));
  assert.equal(thrown(new RangeError("a mistake")).isRetryable, false);
  const own = new ProtolinkError("no", Code.InvalidArgument);
  assert.equal(thrown(own), own);
  assert.equal(
    ProtolinkError.from(new ConnectError("cannot be sent", Code.InvalidArgument)).code,
    Code.InvalidArgument,
  );
});
