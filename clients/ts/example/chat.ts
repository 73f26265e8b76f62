/**
 * A chat with an agent: each line is a turn, lines wait for each other, and one stream shows everything that happens.
 *
 * `plgrpc conformance serve` prints the URL of an agent, among others. Then, here: `node dist/chat.js URL [SESSION]`
 *
 * `/stop` interrupts the active turn, `/clear` also removes those that wait. That agent understands `echo TEXT`, `wait` and
 * `ask QUESTION`. Started again with the same session, it shows the conversation so far, and continues it.
 */

import { createInterface } from "node:readline";

import { connect, type SessionItem, textOf } from "@protolink-grpc/client/node";
import { TaskState } from "@protolink-grpc/protocol";

const [url, sessionId] = process.argv.slice(2);
if (!url) {
  console.error("usage: node dist/chat.js URL [SESSION]");
  process.exit(2);
}

function line({ position, event, sessionEvent }: SessionItem): string {
  let said = event?.summary ?? sessionEvent?.payload.case;
  if (event?.payload.case === "taskMessages") {
    said = event.payload.value.messages.map(textOf).join(" ");
  } else if (sessionEvent?.payload.case === "turnEnded") {
    said = `turn ended: ${TaskState[sessionEvent.payload.value.result]}`;
  }
  return `${String(position).padStart(4)}  ${(event?.eventType ?? "session").padEnd(20)} ${said}`;
}

const agent = connect(url);
const session = await agent.sessions.create({ sessionId, title: "A chat" });
console.log("session", session.sessionId);
const items = agent.sessions.subscribe(session.sessionId);
const show = async () => {
  for await (const item of items) {
    console.log(line(item));
  }
};
const shown = show();
for await (const text of createInterface({ input: process.stdin })) {
  if (text === "/stop" || text === "/clear") {
    const open = await agent.sessions.interrupt(session.sessionId, { clearQueue: text === "/clear" });
    console.log(`${open.length} turns were open`);
  } else {
    await agent.sessions.submit(session.sessionId, text);
  }
}
await items.return();
await shown;
agent.close();
