/** Parts: making them for a message, and reading those of messages and artifacts. */

import { create, type DescMessage, fromBinary, isMessage, type MessageShape, toBinary } from "@bufbuild/protobuf";
import {
  type Failure,
  type FileContent,
  type Part,
  PartSchema,
  type Payload,
  PayloadSchema,
  type ToolCall,
  ToolCallSchema,
} from "@protolink-grpc/protocol";

/** Whatever has parts: a message, an artifact. */
export interface HasParts {
  readonly parts: readonly Part[];
}

/** A part with a text, for instance of media type `text/markdown`. Default: `text/plain`. */
export function textPart(text: string, mediaType = ""): Part {
  return create(PartSchema, { content: { case: "text", value: text }, mediaType });
}

/** A part with a value of JSON. Throws TypeError where JSON cannot say it. */
export function jsonPart(value: unknown): Part {
  return create(PartSchema, { content: { case: "data", value: jsonPayload(value) } });
}

/** A part with a protobuf message of any type. {@link messageOf} reads it. */
export function messagePart<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): Part {
  return create(PartSchema, { content: { case: "data", value: messagePayload(schema, message) } });
}

/** A value of JSON as a payload. Throws TypeError where JSON cannot say it. */
export function jsonPayload(value: unknown): Payload {
  return create(PayloadSchema, { value: { case: "json", value: jsonText(value) } });
}

/** A protobuf message of any type as a payload. */
export function messagePayload<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): Payload {
  const value = { typeName: schema.typeName, value: toBinary(schema, message) };
  return create(PayloadSchema, { value: { case: "message", value } });
}

/** The protobuf message of a payload; undefined where it has another form, a codec or another type. */
export function messageOf<Desc extends DescMessage>(
  schema: Desc,
  payload: Payload | undefined,
): MessageShape<Desc> | undefined {
  if (payload?.value.case !== "message" || payload.encoding || payload.value.value.typeName !== schema.typeName) {
    return undefined;
  }
  return fromBinary(schema, payload.value.value.value);
}

/** The JSON text of a payload, of any other its preview, which may be empty; undefined where there is no payload. */
export function payloadText(payload: Payload | undefined): string | undefined {
  return payload?.value.case === "json" ? payload.value.value : payload?.preview;
}

/** What a file is made of: its bytes or where they are, and its name. */
export interface FileInput {
  /** Without directories. */
  name?: string;
  /** Default: `application/octet-stream`. */
  mediaType?: string;
  /** The bytes themselves. */
  data?: Uint8Array<ArrayBuffer>;
  /** Where to fetch them, instead. */
  uri?: string;
}

/** A part with a file, by value (`data`) or by reference (`uri`). */
export function filePart({ data, uri, name, mediaType }: FileInput): Part {
  const byReference = uri === undefined ? undefined : { case: "ref" as const, value: { uri } };
  const value = data === undefined ? byReference : { case: "data" as const, value: data };
  return create(PartSchema, { content: { case: "file", value: { name, content: value && { value, mediaType } } } });
}

/** What a tool is called with: an object of JSON, or a payload such as {@link messagePayload} makes. */
export type ToolArguments = Record<string, unknown> | Payload;

/** A part that asks for one run of a tool. The agent names the call where `callId` is empty. */
export function toolCallPart(toolName: string, args: ToolArguments = {}, callId = ""): Part {
  return create(PartSchema, { content: { case: "toolCall", value: toolCall(toolName, args, callId) } });
}

/** A call of a tool, not exported by the package. */
export function toolCall(toolName: string, args: ToolArguments = {}, callId = ""): ToolCall {
  const payload = isMessage(args, PayloadSchema) ? args : jsonPayload(args);
  return create(ToolCallSchema, { toolName, arguments: payload, callId });
}

/** The last part that is output, as text; undefined where there is none. Values come as {@link payloadText} has them. */
export function textOf(item: HasParts): string | undefined {
  for (const { content } of [...item.parts].reverse()) {
    switch (content.case) {
      case "text":
        return content.value;
      case "data":
        return payloadText(content.value);
      case "inferOutput": {
        const { content: answer } = content.value;
        return answer.case === "value" ? payloadText(answer.value) : (answer.value ?? "");
      }
      case "toolOutput":
        if (content.value.outcome.case !== "failure") {
          return payloadText(content.value.outcome.value) ?? "";
        }
    }
  }
  return undefined;
}

/**
 * The last part that is a value, parsed where it is JSON, else undefined. Integers beyond 2^53 lose digits here, those of the text
 * do not. Throws SyntaxError where the text is no JSON.
 */
export function jsonOf(item: HasParts): unknown {
  for (const { content } of [...item.parts].reverse()) {
    switch (content.case) {
      case "data":
        return parsed(content.value);
      case "inferOutput":
        if (content.value.content.case === "value") {
          return parsed(content.value.content.value);
        }
        break;
      case "toolOutput":
        if (content.value.outcome.case !== "failure") {
          return parsed(content.value.outcome.value);
        }
    }
  }
  return undefined;
}

/** The files, in order. `content.value` has the bytes, or a reference with the URI. */
export function filesOf(item: HasParts): FileContent[] {
  return item.parts.flatMap(({ content }) => (content.case === "file" ? [content.value] : []));
}

/** A requested tool call. */
export interface ToolCallRead {
  readonly toolName: string;
  /** The arguments, parsed; undefined where they are not JSON. */
  readonly args: Record<string, unknown> | undefined;
  /** The arguments as they came; undefined where there are none. */
  readonly arguments: Payload | undefined;
  readonly callId: string;
}

/** The tool calls, in order, their arguments parsed. */
export function toolCallsOf(item: HasParts): ToolCallRead[] {
  return item.parts.flatMap(({ content }) => {
    if (content.case !== "toolCall") {
      return [];
    }
    const { toolName, arguments: payload, callId } = content.value;
    const args = (payload ? parsed(payload) : {}) as Record<string, unknown> | undefined;
    return [{ toolName, args, arguments: payload, callId }];
  });
}

/** What became of a tool call. */
export interface ToolOutputRead {
  readonly callId: string;
  /** The result, parsed; undefined where there is none or it is not JSON. */
  readonly result: unknown;
  /** The result as it came; undefined where there is none. */
  readonly payload: Payload | undefined;
  /** Why it failed; undefined where it did not. */
  readonly failure: Failure | undefined;
}

/** The outputs of tools, in order, parsed. */
export function toolOutputsOf(item: HasParts): ToolOutputRead[] {
  return item.parts.flatMap(({ content }) => {
    if (content.case !== "toolOutput") {
      return [];
    }
    const { callId, outcome } = content.value;
    const payload = outcome.case === "result" ? outcome.value : undefined;
    const failure = outcome.case === "failure" ? outcome.value : undefined;
    return [{ callId, result: parsed(payload), payload, failure }];
  });
}

/** A value as JSON text. Throws TypeError where JSON cannot say it. */
export function jsonText(value: unknown): string {
  const text: string | undefined = JSON.stringify(value);
  if (text === undefined) {
    throw new TypeError(`${typeof value} is no value of JSON`);
  }
  return text;
}

function parsed(payload: Payload | undefined): unknown {
  return payload?.value.case === "json" && !payload.encoding ? JSON.parse(payload.value.value) : undefined;
}
