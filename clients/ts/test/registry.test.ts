import assert from "node:assert/strict";
import { test } from "node:test";

import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { AgentChangeKind, RegistryService } from "@protolink-grpc/protocol";

import { Registry } from "../src/index.js";

const { UP, DOWN } = AgentChangeKind;

function change(kind: AgentChangeKind, name: string, revision: bigint) {
  return { kind, revision, agent: { revision, card: { name, interfaces: [{ url: `grpc://${name}:1` }] } } };
}

test("a watch goes on after a cut from where it was, and finds out from a snapshot who has gone", async () => {
  const asked: bigint[] = [];
  const transport = createRouterTransport((router) => {
    router.service(RegistryService, {
      async *watchAgents({ afterRevision }) {
        asked.push(afterRevision);
        switch (asked.length) {
          case 1:
            yield { position: { reset: true }, changes: [change(UP, "a", 1n)] };
            yield { changes: [change(UP, "b", 2n)], position: { revision: 2n } };
            yield { changes: [change(UP, "c", 3n)], position: { revision: 3n } };
            throw new ConnectError("cut", Code.Unavailable);
          case 2:
            yield { changes: [change(UP, "a", 1n), change(UP, "c", 5n)], position: { revision: 5n, reset: true } };
            return; // ends with OK, which is a cut: a watch has no end
          case 3:
            yield { changes: [change(DOWN, "a", 6n)], position: { revision: 6n } };
        }
      },
    });
  });
  const told: string[] = [];
  for await (const { kind, agent } of new Registry(transport).watch()) {
    told.push(`${AgentChangeKind[kind]} ${agent?.card?.name}`);
    if (told.at(-1) === "DOWN a") {
      break;
    }
  }
  assert.deepEqual(told, ["UP a", "UP b", "UP c", "UP c", "DOWN b", "DOWN a"]);
  assert.deepEqual(asked, [0n, 3n, 5n]);
});
