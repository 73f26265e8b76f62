import assert from "node:assert/strict";
import { test } from "node:test";

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

test("credentials do not travel in the clear to another machine, unless that is allowed", () => {
  for (const secret of [{ apiKey: "k" }, { bearer: "t" }, { bearer: () => "t" }]) {
    assert.throws(() => connect("grpc://agent.example.org:50051", secret), refused("credentials"));
    assert.throws(() => connectWeb("http://agent.example.org", secret), refused("credentials"));
    assert.throws(() => connect("grpc://127.0.0.1.example.org:50051", secret), refused("credentials"));
    connect("grpcs://agent.example.org:50051", secret).close();
    connect("grpc://agent.example.org:50051", { ...secret, allowInsecureCredentials: true }).close();
    for (const host of ["localhost", "127.0.0.1", "[::1]"]) {
      connect(`grpc://${host}:50051`, secret).close();
      connectWeb(`http://${host}:8080`, secret).close();
    }
  }
});
