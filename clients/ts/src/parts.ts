/** Parts: making them for a message, and reading those of messages and artifacts. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type FileContent,
  type FileContentSchema,
  type Part,
  PartSchema,
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
  return create(PartSchema, { content: { case: "dataJson", value: jsonText(value) } });
}

/** What a file is made of: its bytes or where they are, and its name. */
export interface FileInput extends Pick<MessageInitShape<typeof FileContentSchema>, "name" | "mediaType" | "kind"> {
  /** The bytes themselves. */
  data?: Uint8Array<ArrayBuffer>;
  /** Where to fetch them, instead. */
  uri?: string;
}

/** A part with a file, by value (`data`) or by reference (`uri`). */
export function filePart({ data, uri, ...about }: FileInput): Part {
  const byReference = uri === undefined ? { case: undefined } : { case: "uri" as const, value: uri };
  const source = data === undefined ? byReference : { case: "data" as const, value: data };
  return create(PartSchema, { content: { case: "file", value: { ...about, source } } });
}

/** A part that asks for one run of a tool. The agent names the call where `callId` is empty. */
export function toolCallPart(toolName: string, args: Record<string, unknown> = {}, callId = ""): Part {
  return create(PartSchema, { content: { case: "toolCall", value: toolCall(toolName, args, callId) } });
}

/** A call of a tool, not exported by the package. */
export function toolCall(toolName: string, args: Record<string, unknown> = {}, callId = ""): ToolCall {
  return create(ToolCallSchema, { toolName, argsJson: jsonText(args), callId });
}

/** The last part that is output, as text; undefined where there is none. JSON comes as JSON text. */
export function textOf(item: HasParts): string | undefined {
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

/**
 * The last part that is a value of JSON, parsed; undefined where there is none. Integers beyond 2^53 lose digits here, those of
 * `dataJson` do not. Throws SyntaxError where the text is no JSON.
 */
export function jsonOf(item: HasParts): unknown {
  for (const { content } of [...item.parts].reverse()) {
    switch (content.case) {
      case "dataJson":
        return parsed(content.value);
      case "inferOutput":
        if (content.value.content.case === "valueJson") {
          return parsed(content.value.content.value);
        }
        break;
      case "toolOutput":
        if (!content.value.errorJson) {
          return parsed(content.value.resultJson);
        }
    }
  }
  return undefined;
}

/** The files, in order. `source` has the bytes or the URI. */
export function filesOf(item: HasParts): FileContent[] {
  return item.parts.flatMap(({ content }) => (content.case === "file" ? [content.value] : []));
}

/** A tool that is asked for. */
export interface ToolCallRead {
  readonly toolName: string;
  readonly args: Record<string, unknown>;
  readonly callId: string;
}

/** The tool calls, in order, their arguments parsed. */
export function toolCallsOf(item: HasParts): ToolCallRead[] {
  return item.parts.flatMap(({ content }) => {
    if (content.case !== "toolCall") {
      return [];
    }
    const { toolName, argsJson, callId } = content.value;
    return [{ toolName, args: (parsed(argsJson) ?? {}) as Record<string, unknown>, callId }];
  });
}

/** What became of a tool call. */
export interface ToolOutputRead {
  readonly callId: string;
  /** The result; undefined where there is none. */
  readonly result: unknown;
  /** Why it failed; undefined where it did not. */
  readonly error: unknown;
}

/** The outputs of tools, in order, parsed. */
export function toolOutputsOf(item: HasParts): ToolOutputRead[] {
  return item.parts.flatMap(({ content }) => {
    if (content.case !== "toolOutput") {
      return [];
    }
    const { callId, resultJson, errorJson } = content.value;
    return [{ callId, result: parsed(resultJson), error: parsed(errorJson) }];
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

/** An empty text is no value. */
function parsed(json: string): unknown {
  return json === "" ? undefined : JSON.parse(json);
}
