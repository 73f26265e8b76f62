package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.RuntimeEvent;
import io.github.protolink_grpc.v1.SessionServiceGrpc;
import io.github.protolink_grpc.v1.StreamRuntimeEventsRequest;
import io.github.protolink_grpc.v1.StreamRuntimeEventsResponse;

/** The events of a session in the Agent Runtime contract, in the order of their sequences. */
final class RuntimeEventStream extends ResumingStream<RuntimeEvent> {

  private final StreamRuntimeEventsRequest.Builder position;

  RuntimeEventStream(Connection connection, StreamRuntimeEventsRequest request) {
    super(connection, "");
    this.position = request.toBuilder();
  }

  @Override
  Responses<?, RuntimeEvent> open() {
    return Responses.of(
        connection.channel(),
        SessionServiceGrpc.getStreamRuntimeEventsMethod(),
        position.build(),
        operation.options,
        StreamRuntimeEventsResponse::getEventsList);
  }

  @Override
  boolean accept(RuntimeEvent event) {
    if (event.getSequence() <= position.getAfterSequence()) {
      return false;
    }
    position.setAfterSequence(event.getSequence());
    return true;
  }

  @Override
  boolean isWhole() {
    return position.getStopAtEnd();
  }
}
