import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";

import { Code, ProtolinkError } from "../src/index.js";
import { Patience } from "../src/patience.js";

const cut = new ProtolinkError("cut", Code.Unavailable);

function assertBetween(pauseMs: number, wholeMs: number): void {
  assert.ok(pauseMs >= wholeMs / 2 && pauseMs <= wholeMs, `${pauseMs} for ${wholeMs}`);
}

test("pauses are doubled up to 5 s, less up to half of them", () => {
  const patience = new Patience(60_000);
  for (const wholeMs of [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]) {
    assertBetween(patience.pauseAfter(cut), wholeMs);
  }
});

test("news set the pause back, a stream that only stayed open does not", () => {
  const patience = new Patience(60_000);
  patience.pauseAfter(cut);
  patience.pauseAfter(cut);
  patience.stayedOpen();
  assertBetween(patience.pauseAfter(cut), 400);
  patience.progress();
  assertBetween(patience.pauseAfter(cut), 100);
});

test("patience runs from the first cut after the last progress; its last attempt is made when it ends", async () => {
  for (const renew of [(each: Patience) => each.progress(), (each: Patience) => each.stayedOpen()]) {
    const patience = new Patience(40);
    await setTimeout(50); // before the first cut it does not run
    assert.ok(patience.pauseAfter(cut) <= 40);
    await setTimeout(50);
    assert.throws(() => patience.pauseAfter(cut), cut);
    renew(patience);
    assert.ok(patience.pauseAfter(cut) <= 40);
  }
});

test("what the server asks for is the least pause, and too much of it ends the call", () => {
  const later = (retryAfterMs: number) => new ProtolinkError("later", Code.Unavailable, { retryAfterMs });
  const patience = new Patience(2_000);
  assert.equal(patience.pauseAfter(later(1_500)), 1_500);
  assert.throws(() => patience.pauseAfter(later(2_500)), { message: "later" });
});

test("no patience, and errors that are no cut, end the call at once", () => {
  assert.throws(() => new Patience(0).pauseAfter(cut), cut);
  const answer = new ProtolinkError("no", Code.NotFound);
  assert.throws(() => new Patience(60_000).pauseAfter(answer), answer);
});
