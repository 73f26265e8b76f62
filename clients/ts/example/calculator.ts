/**
 * Calls an agent's typed service with generated code: requests and answers are messages.
 *
 * `plgrpc conformance serve` prints the URL of a calculator, among others. Then, here: `node dist/calculator.js URL`. An agent's HTTP port
 * (`http://host:port`) is called over gRPC-Web, as a page calls it.
 *
 * The stubs in gen/ were made by `plgrpc gen --lang ts --proto calculator.proto --out gen`.
 */

import { connect, ProtolinkError } from "@protolink-grpc/client/node";
import { connect as connectWeb } from "@protolink-grpc/client/web";
import { TaskState } from "@protolink-grpc/protocol";

import { Calculator } from "./gen/calculator_pb.js";

const [url] = process.argv.slice(2);
if (!url) {
  console.error("usage: node dist/calculator.js URL");
  process.exit(2);
}

const client = url.startsWith("http") ? connectWeb(url) : connect(url);
try {
  const calculator = client.stub(Calculator);

  let taskId = "";
  const sum = await calculator.add(
    { a: 20n, b: 22n },
    { onHeader: (headers) => (taskId = headers.get("x-task-id") ?? "") },
  );
  console.log(`20 + 22 = ${sum.result}`);

  // The call was a task of its own, with its log.
  const { state } = await client.get(taskId);
  console.log(TaskState[state]);

  // After an interruption the stream continues, and no response is received twice.
  for await (const { result } of calculator.count({ name: "steps", times: 3n })) {
    console.log(`${result}`);
  }

  try {
    await calculator.accumulate({ amount: 1n });
  } catch (error) {
    if (!(error instanceof ProtolinkError) || error.reason !== "TOOL_REJECTED") {
      throw error;
    }
    for (const { field, description } of error.violations) {
      console.log(`${field}: ${description}`);
    }
  }
} finally {
  client.close();
}
