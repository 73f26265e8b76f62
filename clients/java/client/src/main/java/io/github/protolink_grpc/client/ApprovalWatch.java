package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.Approval;
import io.github.protolink_grpc.v1.ApprovalState;
import io.github.protolink_grpc.v1.ControlServiceGrpc;
import io.github.protolink_grpc.v1.ListApprovalsRequest;
import io.github.protolink_grpc.v1.WatchApprovalsRequest;
import io.github.protolink_grpc.v1.WatchApprovalsResponse;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Approvals as they are asked for and answered. After a cut the agent shows again what waits; that
 * is known here. What waited before and no longer does was decided meanwhile: it is looked up.
 */
final class ApprovalWatch extends ResumingStream<Approval> {

  private static final List<ApprovalState> DECIDED =
      List.of(
          ApprovalState.APPROVAL_STATE_APPROVED,
          ApprovalState.APPROVAL_STATE_DENIED,
          ApprovalState.APPROVAL_STATE_EXPIRED,
          ApprovalState.APPROVAL_STATE_WITHDRAWN);

  private final WatchApprovalsRequest request;

  /** Tasks of the approvals that were shown as pending, by the id of the approval. */
  private final Map<String, String> waiting = new HashMap<>();

  /** Those of them that this attempt has not shown yet. */
  private final Map<String, String> unseen = new HashMap<>();

  /** Looked up in this attempt: the agent may show the same as a change. */
  private final Set<String> lookedUp = new HashSet<>();

  ApprovalWatch(Connection connection, WatchApprovalsRequest request) {
    super(connection, request.getTaskId());
    this.request = request;
  }

  @Override
  Responses<?, Approval> open() {
    unseen.clear();
    unseen.putAll(waiting);
    lookedUp.clear();
    return Responses.of(
        connection.channel(),
        ControlServiceGrpc.getWatchApprovalsMethod(),
        request,
        operation.options,
        this::read);
  }

  private List<Approval> read(WatchApprovalsResponse response) {
    List<Approval> shown =
        response.getApprovalsList().stream().filter(each -> !lookedUp.remove(id(each))).toList();
    shown.forEach(each -> unseen.remove(id(each)));
    boolean isAllPendingShown = response.getApprovalsCount() == 0;
    return isAllPendingShown && !unseen.isEmpty() ? decided() : shown;
  }

  private List<Approval> decided() {
    List<Approval> decided = new ArrayList<>();
    for (String taskId : new TreeSet<>(unseen.values())) {
      ListApprovalsRequest ofTask =
          ListApprovalsRequest.newBuilder().addAllStates(DECIDED).setTaskId(taskId).build();
      ProtolinkClient.approvals(connection.withoutPatience(), ofTask)
          .filter(each -> unseen.containsKey(id(each)))
          .forEach(decided::add);
    }
    waiting.keySet().removeAll(unseen.keySet());
    unseen.clear();
    decided.forEach(each -> lookedUp.add(id(each)));
    return decided;
  }

  @Override
  boolean accept(Approval approval) {
    if (approval.getState() == ApprovalState.APPROVAL_STATE_PENDING) {
      return waiting.put(id(approval), approval.getRequest().getTaskId()) == null;
    }
    waiting.remove(id(approval));
    return true;
  }

  private static String id(Approval approval) {
    return approval.getRequest().getRequestId();
  }
}
