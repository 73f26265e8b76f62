/**
 * Asks the vacation mesh for a trip and prints what happens, one line per event; approves the booking.
 *
 * `make demo ARGS="--yes --keep-running"` starts the mesh and prints the URL of its registry. Then, here:
 * `node dist/vacation.js REGISTRY_URL [DESTINATION]`
 */

import {
  type Client,
  connect,
  connectRegistry,
  type Input,
  jsonPart,
  outputText,
  urlOf,
} from "@protolink-grpc/client/node";
import { type RunEvent, TaskState } from "@protolink-grpc/protocol";

/** The wish, in words for the model and as data for those who can read it. */
function wish(destination: string): Input {
  const text = `Plan and book a vacation in ${destination}: 5 nights for 2 guests.`;
  return [text, jsonPart({ to: destination, nights: 5, guests: 2, budget: null, start: null })];
}

function line({ sequence, agentName, eventType, summary, payload }: RunEvent): string {
  let said = summary;
  switch (payload.case) {
    case "taskStatus":
      said = [TaskState[payload.value.newState], payload.value.failure?.message, payload.value.cancelReason]
        .filter(Boolean)
        .join(": ");
      break;
    case "actionStarted":
    case "actionEnded":
      said = payload.value.name;
      break;
    case "taskArtifact":
      said = payload.value.artifact?.name ?? "the answer";
      break;
    case "taskProgress":
      said = payload.value.message;
      break;
    case "llmCallCompleted":
      said = payload.value.text || `asks for ${payload.value.toolCalls.map((call) => call.toolName).join(", ")}`;
      break;
  }
  return `${String(sequence).padStart(3)}  ${agentName.padEnd(12)} ${eventType.padEnd(20)} ${said}`;
}

async function approve(client: Client, taskId: string): Promise<void> {
  for (const approval of await client.approvals({ taskId })) {
    console.log(`     approves ${approval.action?.name}`);
    await client.respond(approval, true, { reason: "the example says yes" });
  }
}

const [registryUrl, destination = "Santorini"] = process.argv.slice(2);
if (!registryUrl) {
  console.error("usage: node dist/vacation.js REGISTRY_URL [DESTINATION]");
  process.exit(2);
}
const registry = connectRegistry(registryUrl);
const { card } = await registry.lookup("coordinator");
registry.close();

const coordinator = connect(urlOf(card));
let taskId = "";
for await (const event of coordinator.stream(wish(destination))) {
  taskId = event.taskId;
  console.log(line(event));
  if (event.payload.case === "approvalRequired") {
    await approve(coordinator, taskId);
  }
}
const task = await coordinator.get(taskId);
console.log(`\n${TaskState[task.state]}\n${outputText(task)}`);
coordinator.close();
