/**
 * A page that asks an agent and shows what happens while it happens.
 *
 * `?agent=http://127.0.0.1:8080` names the agent's HTTP port, which must let this page's origin in: `cors_origins`.
 */

import { type Client, connect, ProtolinkError, textOf } from "@protolink-grpc/client/web";
import { type RunEvent, TaskState } from "@protolink-grpc/protocol";

function element<E extends HTMLElement>(id: string): E {
  return document.getElementById(id) as E;
}

const agent = element<HTMLInputElement>("agent");
const key = element<HTMLInputElement>("key");
const text = element<HTMLInputElement>("text");
const send = element<HTMLButtonElement>("send");
const cancel = element<HTMLButtonElement>("cancel");
const state = element("state");
const events = element("events");

/** What is asked for now. */
let current: { client: Client; taskId: string } | undefined;

function say(words: string, kind: "" | "good" | "bad" = ""): void {
  state.textContent = words;
  state.className = kind;
}

/** What an event says, in words. */
function words({ summary, payload }: RunEvent): string {
  switch (payload.case) {
    case "taskStatus":
      return [TaskState[payload.value.newState], payload.value.failure?.message, payload.value.cancelReason]
        .filter(Boolean)
        .join(": ");
    case "taskMessages":
      return payload.value.messages.map((message) => textOf(message) ?? "").join("\n");
    case "taskArtifact":
      return (payload.value.artifact && textOf(payload.value.artifact)) ?? summary;
    case "taskProgress":
      return payload.value.message;
    default:
      return summary;
  }
}

function show(event: RunEvent): void {
  const line = document.createElement("li");
  for (const cell of [String(event.sequence), event.eventType, words(event)]) {
    line.append(Object.assign(document.createElement("span"), { textContent: cell }));
  }
  events.append(line);
  if (event.payload.case === "taskStatus") {
    const now = event.payload.value.newState;
    say((TaskState[now] ?? `state ${now}`).toLowerCase().replace("_", " "), now === TaskState.COMPLETED ? "good" : "");
  }
}

async function ask(): Promise<void> {
  events.replaceChildren();
  say("sending");
  send.disabled = true;
  try {
    const client = connect(agent.value, {
      apiKey: key.value || undefined,
      patienceMs: 5_000, // a user is looking at the page
    });
    for await (const event of client.stream(text.value)) {
      current = { client, taskId: event.taskId };
      cancel.disabled = event.last;
      show(event);
    }
  } catch (error) {
    fail(error);
  } finally {
    send.disabled = false;
    cancel.disabled = true;
  }
}

function fail(error: unknown): void {
  say(error instanceof ProtolinkError ? `${error.reason}: ${error.message}` : String(error), "bad");
}

document.forms[0]!.addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  void ask();
});
cancel.addEventListener("click", () => {
  current?.client.cancel(current.taskId, "the visitor has canceled it").catch(fail);
});
agent.value = new URLSearchParams(location.search).get("agent") ?? agent.value;
