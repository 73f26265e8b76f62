package dev.protolink.client;

import dev.protolink.v1.Approval;
import dev.protolink.v1.ApprovalState;
import dev.protolink.v1.ControlServiceGrpc;
import dev.protolink.v1.WatchApprovalsRequest;
import dev.protolink.v1.WatchApprovalsResponse;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;

/**
 * Approvals as they are asked for and answered. After a cut the agent shows again what waits; that
 * is known here.
 */
final class ApprovalWatch extends ResumingStream<Approval> {

  private final WatchApprovalsRequest request;
  private final Set<String> waiting = new HashSet<>();

  ApprovalWatch(Connection connection, WatchApprovalsRequest request) {
    super(connection);
    this.request = request;
  }

  @Override
  Supplier<List<Approval>> open() {
    Iterator<WatchApprovalsResponse> responses =
        connection.answers(ControlServiceGrpc.getWatchApprovalsMethod(), request, options);
    return () -> responses.hasNext() ? responses.next().getApprovalsList() : null;
  }

  @Override
  boolean accept(Approval approval) {
    String id = approval.getRequest().getRequestId();
    if (approval.getState() == ApprovalState.APPROVAL_STATE_PENDING) {
      return waiting.add(id);
    }
    waiting.remove(id);
    return true;
  }

  @Override
  boolean isComplete() {
    return false;
  }

  @Override
  boolean mayEnd() {
    return false;
  }
}
