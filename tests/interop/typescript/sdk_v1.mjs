// @a2a-js/sdk of the 1.x line: A2A v1.0, and v0.3 through its compatibility transports.

import { Role, taskStateToJSON } from "@a2a-js/sdk";
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
  ServiceParameters,
  withA2AExtensions,
} from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";
import { stateOf, textOf } from "./words.mjs";

const content = (part) => ({ $case: part.kind, value: part.kind === "raw" ? Buffer.from(part.value) : part.value });
const partIn = (part) => ({ content: content(part), metadata: undefined, filename: part.filename ?? "", mediaType: part.mediaType ?? "" });
const partOut = (part) => ({
  [part.content.$case]: part.content.$case === "raw" ? [...part.content.value] : part.content.value,
  ...(part.content.$case === "raw" || part.content.$case === "url" ? { filename: part.filename, mediaType: part.mediaType } : {}),
});
const partsOut = (parts) => (parts ?? []).map(partOut);
const statusOut = (status) => ({ state: stateOf(taskStateToJSON(status.state)), said: textOf(partsOut(status.message?.parts)) });
const artifactOut = (artifact) => ({ name: artifact.name, parts: partsOut(artifact.parts) });
const messageOut = (message) => ({ kind: "message", said: textOf(partsOut(message.parts)) });
const taskOut = (task) => ({
  kind: "task",
  id: task.id,
  contextId: task.contextId,
  ...statusOut(task.status),
  artifacts: task.artifacts.map(artifactOut),
  history: task.history.map((message) => textOf(partsOut(message.parts))),
});

function eventOut({ payload }) {
  switch (payload?.$case) {
    case "task":
      return taskOut(payload.value);
    case "message":
      return messageOut(payload.value);
    case "statusUpdate":
      return { kind: "status", taskId: payload.value.taskId, ...statusOut(payload.value.status) };
    case "artifactUpdate":
      return { kind: "artifact", append: payload.value.append, lastChunk: payload.value.lastChunk, ...artifactOut(payload.value.artifact) };
    default:
      return { kind: "nothing" };
  }
}

export const nameOf = (error) => error.name;

export const isLossy = ({ binding, version }) => version === "0.3" && binding !== "JSONRPC";

export function otherNames({ binding, version }) {
  const found = { InvalidParamsError: "RequestMalformedError" }; // its own name for wrong arguments
  if (version === "1.0" || binding === "GRPC") return found;
  if (binding === "HTTP+JSON") return { ...found, ExtensionSupportRequiredError: "Error" };
  return {
    ...found,
    ExtensionSupportRequiredError: "JsonRpcTransportError",
    "TaskNotFoundError of streams": "Error",
    "UnsupportedOperationError of streams": "Error",
    "UnsupportedOperationError of sending streams": "Error",
  };
}

export async function connect(url, { binding, version, token }) {
  const legacyCompat = { enabled: version === "0.3" };
  const resolver = new DefaultAgentCardResolver({ legacyCompat });
  const card = await resolver.resolve(url);
  card.supportedInterfaces = card.supportedInterfaces.filter(
    (each) => each.protocolBinding === binding && each.protocolVersion === version,
  );
  const transports = [JsonRpcTransportFactory, RestTransportFactory, GrpcTransportFactory].map((each) => new each({ legacyCompat }));
  const client = await new ClientFactory({ transports, cardResolver: resolver }).createFromAgentCard(card);

  const options = (extensions = []) => ({
    serviceParameters: {
      ...(token ? { Authorization: `Bearer ${token}` } : {}),
      ...(extensions.length ? ServiceParameters.create(withA2AExtensions(...extensions)) : {}),
    },
  });
  const request = (text, { parts = [], taskId = "", contextId = "", immediately, historyLength } = {}) => ({
    tenant: "",
    message: {
      messageId: crypto.randomUUID(),
      contextId,
      taskId,
      role: Role.ROLE_USER,
      parts: [{ kind: "text", value: text }, ...parts].map(partIn),
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: immediately === undefined && historyLength === undefined
      ? undefined
      : { acceptedOutputModes: [], taskPushNotificationConfig: undefined, historyLength, returnImmediately: immediately ?? false },
    metadata: undefined,
  });
  async function* events(stream) {
    for await (const event of stream) yield eventOut(event);
  }
  const config = (given) => ({ tenant: "", id: given.id, taskId: given.taskId, url: given.url, token: given.token, authentication: undefined });

  return {
    card: { name: card.name, streaming: card.capabilities.streaming, interfaces: card.supportedInterfaces.length },
    send: async (text, more = {}) => {
      const found = await client.sendMessage(request(text, more), options(more.extensions));
      return "messageId" in found ? messageOut(found) : taskOut(found);
    },
    stream: (text, more = {}) => events(client.sendMessageStream(request(text, more), options(more.extensions))),
    get: async (id, historyLength) => taskOut(await client.getTask({ tenant: "", id, historyLength }, options())),
    cancel: async (id) => taskOut(await client.cancelTask({ tenant: "", id, metadata: undefined }, options())),
    resubscribe: (id) => events(client.resubscribeTask({ tenant: "", id }, options())),
    list: async (more = {}) => {
      const asked = { tenant: "", contextId: "", status: 0, pageToken: "", statusTimestampAfter: undefined, ...more };
      const page = await client.listTasks(asked, options());
      return { ids: page.tasks.map((task) => task.id), next: page.nextPageToken, total: page.totalSize };
    },
    setPush: async (given) => client.createTaskPushNotificationConfig(config(given), options()),
    getPush: (taskId, id) => client.getTaskPushNotificationConfig({ tenant: "", taskId, id }, options()),
    listPush: async (taskId) =>
      (await client.listTaskPushNotificationConfig({ tenant: "", taskId, pageSize: 0, pageToken: "" }, options())).configs,
    deletePush: (taskId, id) => client.deleteTaskPushNotificationConfig({ tenant: "", taskId, id }, options()),
    extendedCard: async () => (await client.getAgentCard(options())).description,
  };
}
