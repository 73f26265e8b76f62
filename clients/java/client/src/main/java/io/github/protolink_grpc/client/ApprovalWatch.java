package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.Approval;
import io.github.protolink_grpc.v1.ApprovalState;
import io.github.protolink_grpc.v1.ControlServiceGrpc;
import io.github.protolink_grpc.v1.WatchApprovalsRequest;
import io.github.protolink_grpc.v1.WatchApprovalsResponse;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Approvals when they are requested or answered. After an interruption the agent sends the changes
 * since then. An agent that no longer knows the position sends a snapshot of the pending approvals,
 * of which those that were returned before are left out. A snapshot is returned when it is
 * complete; an interrupted one is sent again.
 */
final class ApprovalWatch extends ResumingStream<Approval> {

  private final WatchApprovalsRequest.Builder request;

  /** Ids of the approvals that were shown as pending. */
  private Set<String> waiting = new HashSet<>();

  private List<Approval> snapshot;

  ApprovalWatch(Connection connection, WatchApprovalsRequest request) {
    super(connection, request.getTaskId());
    this.request = request.toBuilder();
  }

  @Override
  Responses<?, Approval> open() {
    snapshot = null;
    return Responses.of(
        connection.channel(),
        ControlServiceGrpc.getWatchApprovalsMethod(),
        request.build(),
        operation.options,
        this::read);
  }

  private List<Approval> read(WatchApprovalsResponse response) {
    long revision = response.getPosition().getRevision();
    List<Approval> news = response.getApprovalsList();
    if (response.getPosition().getReset()) {
      snapshot = new ArrayList<>();
    }
    if (snapshot != null) {
      snapshot.addAll(news);
      if (revision == 0) {
        return List.of();
      }
      news = snapshot.stream().filter(each -> !waiting.contains(id(each))).toList();
      waiting = new HashSet<>(snapshot.stream().map(ApprovalWatch::id).toList());
      snapshot = null;
    }
    if (revision != 0) {
      request.setAfterRevision(revision);
    }
    return news;
  }

  @Override
  boolean accept(Approval approval) {
    if (approval.getState() == ApprovalState.APPROVAL_STATE_PENDING) {
      waiting.add(id(approval));
    } else {
      waiting.remove(id(approval));
    }
    return true;
  }

  private static String id(Approval approval) {
    return approval.getApprovalId();
  }
}
