/** The shared vectors, as protobuf-es reads them: decode, encode again, compare with the JSON form and with what they mean. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import {
  createRegistry,
  type DescField,
  type DescMessage,
  equals,
  fromBinary,
  fromJsonString,
  type Message,
  toBinary,
} from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import * as protocol from "@protolink-grpc/protocol";

import { outputText } from "../src/index.js";

/** One entry of `index.json`; tests/vectors/README.md says what its keys mean. */
interface Entry {
  name: string;
  message: string;
  file: string;
  json: string;
  bytes_equal: boolean;
  expect: Record<string, unknown>;
  /** Of a task: the text of its answer, null where it has none. */
  output?: string | null;
}

const MESSAGES = createRegistry(
  ...Object.values(protocol).filter((each) => typeof each === "object" && "kind" in each && each.kind === "message"),
);

/** Checks every vector of a folder. Throws an error that names the first one that is not what its entry says. */
export function checkVectors(folder: string): void {
  const entries = JSON.parse(readFileSync(join(folder, "index.json"), "utf8")) as Entry[];
  assert.ok(entries.length > 0, "the index is empty");
  for (const entry of entries) {
    try {
      checkVector(folder, entry);
    } catch (error) {
      throw new Error(`vector ${entry.name}: ${error instanceof Error ? error.message : error}`);
    }
  }
}

function checkVector(folder: string, entry: Entry): void {
  const desc = MESSAGES.getMessage(entry.message);
  assert.ok(desc, `there is no message ${entry.message}`);
  const bytes = readFileSync(join(folder, entry.file));
  const message = fromBinary(desc, bytes);
  const encoded = toBinary(desc, message);
  if (entry.bytes_equal) {
    assert.ok(Buffer.from(encoded).equals(bytes), "its bytes are not the same after a round trip");
  }
  const again = fromBinary(desc, encoded);
  assert.ok(
    equals(desc, again, message, { unknown: true, registry: MESSAGES }),
    "it is another value after a round trip",
  );
  const fromJson = fromJsonString(desc, readFileSync(join(folder, entry.json), "utf8"));
  assert.ok(equals(desc, fromJson, message), "its JSON form is another value");
  for (const [path, wanted] of Object.entries(entry.expect)) {
    assert.deepEqual(valueAt(desc, message, path), wanted, path);
  }
  if (entry.output !== undefined) {
    assert.equal(outputText(message as protocol.Task), entry.output ?? "", "the output");
  }
}

/** What a path leads to, as the index writes it; null for a field or a oneof that is not set. */
function valueAt(desc: DescMessage, message: Message, path: string): unknown {
  const steps = path.split(".");
  let at: ReflectMessage = reflect(desc, message);
  for (;;) {
    const name = steps.shift()!;
    const oneof = at.oneofs.find((each) => each.name === name);
    if (oneof && steps.length === 0) {
      return at.oneofCase(oneof)?.name ?? null;
    }
    const field = at.fields.find((each) => each.name === name);
    assert.ok(field, `${path}: there is no field ${name}`);
    if (field.presence !== IMPLICIT && !at.isSet(field)) {
      return null;
    }
    let value: unknown;
    switch (field.fieldKind) {
      case "list": {
        const list = at.get(field);
        const step = steps.shift()!;
        if (step === "size") {
          return list.size;
        }
        value = list.get(Number(step));
        break;
      }
      case "map": {
        const map = at.get(field);
        const key = steps.shift()!;
        if (key === "size") {
          return map.size;
        }
        value = map.get(key);
        break;
      }
      default:
        value = at.get(field);
    }
    if (steps.length === 0) {
      return written(field, value);
    }
    assert.ok(isReflected(value), `${path} leads through ${field.name}, which is no message`);
    at = value;
  }
}

/** `FeatureSet.FieldPresence.IMPLICIT`: the field is its default where it is not set; lists and maps are so, too. */
const IMPLICIT = 2;

function isReflected(value: unknown): value is ReflectMessage {
  return typeof value === "object" && value !== null && "message" in value;
}

function written(field: DescField, value: unknown): unknown {
  if (field.enum) {
    return field.enum.value[value as number]?.name ?? value;
  }
  if (typeof value === "bigint") {
    return String(value);
  }
  if (value instanceof Uint8Array) {
    return Buffer.from(value).toString("base64");
  }
  return isReflected(value) ? {} : value;
}
