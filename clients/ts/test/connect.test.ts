import assert from "node:assert/strict";
import { test } from "node:test";

import type { Interceptor } from "@connectrpc/connect";

import { Code, type ProtolinkError } from "../src/index.js";
import { baseUrl, connect } from "../src/node.js";
import { connect as connectWeb } from "../src/web.js";

const refused = (field: string) => (error: ProtolinkError) =>
  error.code === Code.InvalidArgument && error.violations[0]?.field === field;

test("a gRPC URL names a scheme, a host and a port", () => {
  assert.equal(baseUrl("grpc://127.0.0.1:50051").href, "http://127.0.0.1:50051/");
  assert.equal(baseUrl("localhost:80").href, "http://localhost/");
  assert.equal(baseUrl("grpcs://agent.example.org:443/").href, "https://agent.example.org/");
  assert.equal(baseUrl("grpc://[::1]:50051").host, "[::1]:50051");
});

test("anything else is refused, and no password is repeated", () => {
  for (const url of [
    "",
    "grpc://",
    "grpc://host",
    "http://host:1",
    "grpc://host:1/path",
    "grpc://host:1?a",
    "host:x",
  ]) {
    assert.throws(() => connect(url), refused("url"), url);
  }
  assert.throws(
    () => connect("grpc://ann:secret@host:1"),
    (error: Error) => !error.message.includes("secret"),
  );
  for (const url of ["", "/agent", "grpc://host:1", "http://ann:secret@host", "http://host?a"]) {
    assert.throws(() => connectWeb(url), refused("url"), url);
  }
});

test("credentials do not travel unencrypted to another machine, unless that is allowed", () => {
  const byHand = ["authorization", "Proxy-Authorization", "x-api-key", "cookie"].map((name) => ({
    headers: { [name]: "s" },
  }));
  for (const secret of [{ apiKey: "k" }, { bearer: "t" }, { bearer: () => "t" }, ...byHand]) {
    assert.throws(() => connect("grpc://agent.example.org:50051", secret), refused("credentials"));
    assert.throws(() => connectWeb("http://agent.example.org", secret), refused("credentials"));
    assert.throws(() => connect("grpc://127.0.0.1.example.org:50051", secret), refused("credentials"));
    connect("grpcs://agent.example.org:50051", secret).close();
    connect("grpc://agent.example.org:50051", { ...secret, insecureOk: true }).close();
    for (const host of ["localhost", "127.0.0.1", "[::1]"]) {
      connect(`grpc://${host}:50051`, secret).close();
      connectWeb(`http://${host}:8080`, secret).close();
    }
  }
});

test("credentials of a single call, or of an interceptor, are refused before anything is sent", async () => {
  let sent = 0;
  const fetch = async () => {
    sent += 1;
    return new Response();
  };
  const options = { fetch, patienceMs: 0 };
  const headers = { Authorization: "Bearer s" };
  const plain = connectWeb("http://agent.example.org", options);
  await assert.rejects(plain.send("x", { headers }), refused("credentials"));
  await assert.rejects(plain.stream("x", { headers }).next(), refused("credentials"));
  const adding: Interceptor = (next) => async (request) => {
    request.header.set("x-api-key", "s");
    return next(request);
  };
  const others = connectWeb("http://agent.example.org", { ...options, interceptors: [adding] });
  await assert.rejects(others.card(), refused("credentials"));
  assert.equal(sent, 0);
  const allowed = connectWeb("http://agent.example.org", { ...options, insecureOk: true });
  await assert.rejects(allowed.send("x", { headers }), (error: ProtolinkError) => error.code !== Code.InvalidArgument);
  assert.equal(sent, 1);
});
