package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.SessionEvent;
import io.github.protolink_grpc.v1.SessionSegment;
import io.github.protolink_grpc.v1.SessionServiceGrpc;
import io.github.protolink_grpc.v1.SubscribeSessionRequest;
import io.github.protolink_grpc.v1.SubscribeSessionResponse;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The events of a session and of its tasks in the order of their positions, each exactly once.
 * Positions may be missing: a memory store drops the events of old tasks.
 */
final class SessionStream extends ResumingStream<SessionItem> {

  private final SubscribeSessionRequest.Builder position;

  /** By task; of those that have not ended. */
  private final Map<String, References> references = new HashMap<>();

  SessionStream(Connection connection, SubscribeSessionRequest request) {
    super(connection, "");
    this.position = request.toBuilder();
  }

  @Override
  Responses<?, SessionItem> open() {
    return Responses.of(
        connection.channel(),
        SessionServiceGrpc.getSubscribeSessionMethod(),
        position.build(),
        operation.options,
        SessionStream::read);
  }

  private static List<SessionItem> read(SubscribeSessionResponse response) {
    List<SessionItem> items = new ArrayList<>();
    for (SessionSegment segment : response.getSegmentsList()) {
      long at = segment.getFirstPosition();
      for (SessionEvent event : segment.getSessionEventsList()) {
        items.add(new SessionItem(at++, event, null));
      }
      for (RunEvent event : segment.getEventsList()) {
        items.add(new SessionItem(at++, null, event));
      }
    }
    return items;
  }

  @Override
  boolean accept(SessionItem item) {
    if (item.position() <= position.getAfterPosition()) {
      return false;
    }
    position.setAfterPosition(item.position());
    return true;
  }

  @Override
  SessionItem shown(SessionItem item) {
    RunEvent event = item.event();
    if (event == null) {
      return item;
    }
    References known = references.computeIfAbsent(event.getTaskId(), id -> new References());
    if (Tasks.isTerminal(event.getTaskStatus().getNewState())) {
      references.remove(event.getTaskId());
    }
    return new SessionItem(item.position(), null, known.resolve(event));
  }
}
