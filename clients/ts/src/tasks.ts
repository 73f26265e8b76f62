/** Builders of inputs, and the output of a task. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type Message,
  MessageRole,
  MessageSchema,
  type Part,
  type Task,
  type TaskInput,
  TaskInputSchema,
  TaskTarget,
} from "@protolink-grpc/protocol";

import { textOf, textPart } from "./parts.js";

/** What a user says: a text, or texts and parts. */
export type Content = string | readonly (string | Part)[];

/** What is sent to an agent: what the user says, or a whole input with options, metadata or an id of the caller's own. */
export type Input = Content | MessageInitShape<typeof TaskInputSchema>;

/** A message of the user. */
export function userMessage(content: Content): Message {
  return messageOf(MessageRole.USER, content);
}

/** A message of the agent. */
export function agentMessage(content: Content): Message {
  return messageOf(MessageRole.AGENT, content);
}

function messageOf(role: MessageRole, content: Content): Message {
  const pieces = typeof content === "string" ? [content] : content;
  const parts = pieces.map((each) => (typeof each === "string" ? textPart(each) : each));
  return create(MessageSchema, { role, parts });
}

/**
 * What begins a new task, with an id by which the task can be found and canceled, whatever becomes of the call that sends it.
 * Sending it fails with TASK_ALREADY_EXISTS where an id of the caller's own is taken.
 */
export function newTask(input: Input): TaskInput {
  const given = inputOf(input);
  // A copy: the caller's own input stays as it is.
  return { ...given, taskId: given.taskId || randomId(), target: TaskTarget.CREATE };
}

/** What the caller contributes to a task, new or not. */
export function inputOf(input: Input): TaskInput {
  const isContent = typeof input === "string" || isList(input);
  return create(TaskInputSchema, isContent ? { messages: [userMessage(input)] } : input);
}

function isList(input: object): input is readonly unknown[] {
  return Array.isArray(input);
}

/**
 * What a task is for, as text: the last part that is output in the message or artifact that the agent names as the answer; empty
 * where there is none. JSON comes as JSON text.
 */
export function outputText(task: Task): string {
  const answer = task.outputId && [...task.messages, ...task.artifacts].find((each) => each.id === task.outputId);
  return (answer && textOf(answer)) || "";
}

/** A random UUID. */
export function randomId(): string {
  // Pages that were not loaded over TLS do not have it, whatever the types say.
  return (crypto as Partial<Crypto>).randomUUID?.() ?? composedId();
}

/** A random UUID without `crypto.randomUUID`. */
export function composedId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  // Version 4, variant 1. Source: RFC 9562 section 5.4.
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
