/** The services of the contract as definitions for `@grpc/grpc-js`. */

import { type DescMethod, type DescService, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { MethodDefinition } from "@grpc/grpc-js";

/** A service definition of `@grpc/grpc-js`, its methods by their names in TypeScript, like `sendTask`. */
export type GrpcJsDefinition<S extends DescService> = {
  [Name in keyof S["method"]]: MethodDefinition<
    MessageShape<S["method"][Name]["input"]>,
    MessageShape<S["method"][Name]["output"]>
  >;
};

/**
 * The definition of a service of protobuf-es, for `makeGenericClientConstructor` and `Server.addService`.
 *
 * @param service - For instance `AgentService` of `@protolink-grpc/protocol`, or one generated from your own protos.
 */
export function grpcJsDefinition<S extends DescService>(service: S): GrpcJsDefinition<S> {
  const entries = service.methods.map((method) => [method.localName, definitionOf(method)]);
  return Object.fromEntries(entries) as GrpcJsDefinition<S>;
}

function definitionOf({ parent, name, localName, methodKind, input, output }: DescMethod) {
  return {
    path: `/${parent.typeName}/${name}`,
    originalName: localName,
    requestStream: methodKind === "client_streaming" || methodKind === "bidi_streaming",
    responseStream: methodKind === "server_streaming" || methodKind === "bidi_streaming",
    requestSerialize: (message: MessageShape<typeof input>) => Buffer.from(toBinary(input, message)),
    requestDeserialize: (bytes: Buffer) => fromBinary(input, bytes),
    responseSerialize: (message: MessageShape<typeof output>) => Buffer.from(toBinary(output, message)),
    responseDeserialize: (bytes: Buffer) => fromBinary(output, bytes),
  };
}
