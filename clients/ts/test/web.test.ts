import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { create, toBinary } from "@bufbuild/protobuf";
import { StreamTaskResponseSchema } from "@protolink-grpc/protocol";

import { connect } from "../src/web.js";

/** Collects garbage now; Node has a function for it only with the flag --expose-gc. */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}

/** A message in the frame of gRPC-Web. */
function frame(message: Uint8Array): Uint8Array {
  const head = new DataView(new ArrayBuffer(5));
  head.setUint32(1, message.length);
  return Buffer.concat([new Uint8Array(head.buffer), message]);
}

test("leaving a stream ends its request, also when its parts have been garbage collected", async () => {
  const response = create(StreamTaskResponseSchema, { events: [{ taskId: "t-1", sequence: 1n }] });
  let answer: ServerResponse | undefined;
  const server = createServer((_, found) => {
    answer = found;
    found.writeHead(200, { "content-type": "application/grpc-web+proto" });
    found.write(frame(toBinary(StreamTaskResponseSchema, response)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    for (const isWaiting of [false, true]) {
      const events = connect(`http://127.0.0.1:${port}`).stream("x");
      assert.equal((await events.next()).value?.sequence, 1n);
      const closed = once(answer!, "close", { signal: AbortSignal.timeout(5_000) });
      const next = isWaiting ? events.next() : undefined;
      for (let turn = 0; turn < 5; turn++) {
        await setTimeout(10); // lets go of what the last turn of the event loop held
        collectGarbage();
      }
      await events.return();
      await closed;
      assert.equal((await next)?.done, isWaiting ? true : undefined);
    }
  } finally {
    server.close();
    server.closeAllConnections();
  }
});
