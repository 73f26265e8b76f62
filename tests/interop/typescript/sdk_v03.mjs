// @a2a-js/sdk of the 0.3 line, which knows A2A v0.3 only and reads our card as such.

import { AgentCardResolver, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from "a2a-js-sdk-v03/client";
import { GrpcTransportFactory } from "a2a-js-sdk-v03/client/grpc";
import { textOf } from "./words.mjs";

function partIn(part) {
  const named = { name: part.filename, mimeType: part.mediaType };
  switch (part.kind) {
    case "text":
      return { kind: "text", text: part.value };
    case "data":
      return { kind: "data", data: part.value };
    case "raw":
      return { kind: "file", file: { bytes: Buffer.from(part.value).toString("base64"), ...named } };
    default:
      return { kind: "file", file: { uri: part.value, ...named } };
  }
}

function partOut(part) {
  if (part.kind === "text") return { text: part.text };
  if (part.kind === "data") return { data: part.data };
  const named = { filename: part.file.name, mediaType: part.file.mimeType };
  return "bytes" in part.file ? { raw: [...Buffer.from(part.file.bytes, "base64")], ...named } : { url: part.file.uri, ...named };
}

const partsOut = (parts) => (parts ?? []).map(partOut);
const statusOut = (status) => ({ state: status.state, said: textOf(partsOut(status.message?.parts)) });
const artifactOut = (artifact) => ({ name: artifact.name, parts: partsOut(artifact.parts) });

function eventOut(event) {
  switch (event.kind) {
    case "task":
      return {
        kind: "task",
        id: event.id,
        contextId: event.contextId,
        ...statusOut(event.status),
        artifacts: (event.artifacts ?? []).map(artifactOut),
        history: (event.history ?? []).map((message) => textOf(partsOut(message.parts))),
      };
    case "message":
      return { kind: "message", said: textOf(partsOut(event.parts)) };
    case "status-update":
      return { kind: "status", taskId: event.taskId, final: event.final, ...statusOut(event.status) };
    case "artifact-update":
      return { kind: "artifact", append: event.append ?? false, lastChunk: event.lastChunk ?? false, ...artifactOut(event.artifact) };
    default:
      return { kind: "nothing" };
  }
}

export const nameOf = (error) => error.constructor.name.replace(/JSONRPCError$/, "Error");

export const isLossy = ({ binding }) => binding !== "JSONRPC";

export function otherNames({ binding }) {
  const other = binding === "JSONRPC" ? "JSONRPCTransportError" : "Error";
  const found = {
    InvalidParamsError: other,
    ExtensionSupportRequiredError: other,
    ExtendedAgentCardNotConfiguredError: "AuthenticatedExtendedCardNotConfiguredError",
  };
  switch (binding) {
    case "JSONRPC": // has sentences of its own
      return {
        ...found,
        speechless: true,
        "TaskNotFoundError of streams": "Error",
        "UnsupportedOperationError of streams": "Error",
        "UnsupportedOperationError of sending streams": "Error",
      };
    case "GRPC": // tells errors by status and method alone
      return {
        ...found,
        ContentTypeNotSupportedError: "Error",
        "UnsupportedOperationError of sending": "Error",
        "UnsupportedOperationError of sending streams": "Error",
      };
    default:
      return found;
  }
}

export async function connect(url, { binding, token }) {
  const card = await AgentCardResolver.default.resolve(url);
  for (const each of card.additionalInterfaces) {
    // This client dials `host:port`; the card has a URL there, as v0.3's kit wants it.
  }
  const transports = [new JsonRpcTransportFactory(), new RestTransportFactory(), new GrpcTransportFactory()];
  const client = await new ClientFactory({ transports, preferredTransports: [binding] }).createFromAgentCard(card);

  const options = (extensions = []) => ({
    serviceParameters: {
      ...(token ? { Authorization: `Bearer ${token}` } : {}),
      ...(extensions.length ? { "X-A2A-Extensions": extensions.join(",") } : {}),
    },
  });
  const request = (text, { parts = [], taskId, contextId, immediately, historyLength } = {}) => ({
    message: {
      kind: "message",
      messageId: crypto.randomUUID(),
      role: "user",
      parts: [{ kind: "text", value: text }, ...parts].map(partIn),
      ...(taskId ? { taskId } : {}),
      ...(contextId ? { contextId } : {}),
    },
    ...(immediately === undefined && historyLength === undefined ? {} : { configuration: { blocking: !immediately, historyLength } }),
  });
  async function* events(stream) {
    for await (const event of stream) yield eventOut(event);
  }
  const config = (given) => ({ id: given.id, url: given.url, token: given.token });

  return {
    card: { name: card.name, streaming: card.capabilities.streaming, interfaces: card.additionalInterfaces.length },
    send: async (text, more = {}) => eventOut(await client.sendMessage(request(text, more), options(more.extensions))),
    stream: (text, more = {}) => events(client.sendMessageStream(request(text, more), options(more.extensions))),
    get: async (id, historyLength) => eventOut(await client.getTask({ id, historyLength }, options())),
    cancel: async (id) => eventOut(await client.cancelTask({ id }, options())),
    resubscribe: (id) => events(client.resubscribeTask({ id }, options())),
    setPush: async (given) =>
      (await client.setTaskPushNotificationConfig({ taskId: given.taskId, pushNotificationConfig: config(given) }, options()))
        .pushNotificationConfig,
    getPush: async (id, pushNotificationConfigId) =>
      (await client.getTaskPushNotificationConfig({ id, pushNotificationConfigId }, options())).pushNotificationConfig,
    listPush: async (id) =>
      (await client.listTaskPushNotificationConfig({ id }, options())).map((each) => each.pushNotificationConfig),
    deletePush: (id, pushNotificationConfigId) => client.deleteTaskPushNotificationConfig({ id, pushNotificationConfigId }, options()),
    extendedCard: async () => (await client.getAgentCard(options())).description,
  };
}
