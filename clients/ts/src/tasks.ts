/** Tasks from texts, and the text that is in a task. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Message, MessageSchema, type Part, Role, type Task, TaskSchema } from "@protolink-grpc/protocol";

/**
 * What is sent to an agent: a text, or what the caller contributes to a task.
 *
 * A task with an `id` that the agent knows is continued with its `messages`; without one it is new.
 */
export type TaskInput = string | MessageInitShape<typeof TaskSchema>;

/** A message of the user with one part of text. */
export function userMessage(text: string): Message {
  return create(MessageSchema, { role: Role.USER, parts: [{ content: { case: "text", value: text } }] });
}

/** The task that an input stands for. */
export function taskFrom(input: TaskInput): Task {
  return create(TaskSchema, typeof input === "string" ? { messages: [userMessage(input)] } : input);
}

/**
 * What a task is for, as text: its newest result, be it an artifact of kind `result` or what the agent said; empty where there
 * is none. Of its parts the last one that is output counts; JSON comes as JSON text.
 */
export function outputText(task: Task): string {
  const artifacts = task.artifacts.filter((each) => each.kind === "" || each.kind === "result");
  const messages = task.messages.filter((each) => each.role === Role.AGENT || each.role === Role.ASSISTANT);
  const [made, said] = [task.artifacts.at(-1)?.createTime, task.messages.at(-1)?.createTime];
  // A tie goes to the artifact, because it was made from the message.
  const hasNewerArtifact = task.artifacts.length > 0 && (!made || !said || timestampMs(made) >= timestampMs(said));
  const newestFirst = hasNewerArtifact ? [...messages, ...artifacts].reverse() : [...artifacts, ...messages].reverse();
  for (const item of newestFirst) {
    const output = textOf(item);
    if (output !== undefined) {
      return output;
    }
  }
  return "";
}

/** The last part that is output, as text; undefined where there is none. For messages and artifacts. */
export function textOf(item: { parts: Part[] }): string | undefined {
  for (const { content } of [...item.parts].reverse()) {
    switch (content.case) {
      case "text":
      case "dataJson":
        return content.value;
      case "inferOutput":
        return content.value.content.value ?? "";
      case "toolOutput":
        if (!content.value.errorJson) {
          return content.value.resultJson;
        }
    }
  }
  return undefined;
}
