package dev.protolink.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.protolink.v1.AgentCard;
import dev.protolink.v1.AgentChange;
import dev.protolink.v1.AgentChangeKind;
import dev.protolink.v1.AgentFilter;
import dev.protolink.v1.Approval;
import dev.protolink.v1.ApprovalRequest;
import dev.protolink.v1.ApprovalState;
import dev.protolink.v1.ControlServiceGrpc;
import dev.protolink.v1.RegisteredAgent;
import dev.protolink.v1.RegistryServiceGrpc;
import dev.protolink.v1.WatchAgentsRequest;
import dev.protolink.v1.WatchAgentsResponse;
import dev.protolink.v1.WatchApprovalsRequest;
import dev.protolink.v1.WatchApprovalsResponse;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.Test;

class WatchTest {

  private static final AgentChangeKind UP = AgentChangeKind.AGENT_CHANGE_KIND_UP;
  private static final AgentChangeKind DOWN = AgentChangeKind.AGENT_CHANGE_KIND_DOWN;

  /**
   * Each call is answered with the next list of responses and then cut; when there are none left,
   * refused.
   */
  private final Deque<List<WatchAgentsResponse>> scripts = new ArrayDeque<>();

  private final List<Long> positions = new ArrayList<>();
  private final List<String> shown = new ArrayList<>();

  private final RegistryServiceGrpc.RegistryServiceImplBase registry =
      new RegistryServiceGrpc.RegistryServiceImplBase() {
        @Override
        public void watchAgents(
            WatchAgentsRequest request, StreamObserver<WatchAgentsResponse> observer) {
          positions.add(request.getAfterRevision());
          Status end = scripts.isEmpty() ? Status.PERMISSION_DENIED : Status.UNAVAILABLE;
          (scripts.isEmpty() ? List.<WatchAgentsResponse>of() : scripts.remove())
              .forEach(observer::onNext);
          observer.onError(end.asRuntimeException());
        }
      };

  @Test
  void aCutWatchGoesOnAfterItsRevision() {
    scripts.add(List.of(response(true, 2, change(UP, "a")), response(false, 3, change(UP, "b"))));
    scripts.add(List.of(response(false, 4, change(DOWN, "a"))));
    watch();
    assertEquals(List.of("UP a", "UP b", "DOWN a"), shown);
    assertEquals(List.of(0L, 3L, 4L), positions);
  }

  @Test
  void aSecondSnapshotShowsOnlyWhatIsNewsAndWhoHasGone() {
    scripts.add(List.of(response(true, 2, change(UP, "a"), change(UP, "b"))));
    scripts.add(List.of(response(true, 0, change(UP, "b")), response(true, 9, change(UP, "c"))));
    watch();
    assertEquals(List.of("UP a", "UP b", "UP c", "DOWN a"), shown);
  }

  @Test
  void whatASnapshotThatWasCutDoesNotHoldHasNotGone() {
    scripts.add(List.of(response(true, 2, change(UP, "a"), change(UP, "b"))));
    scripts.add(List.of(response(true, 0, change(UP, "b"))));
    scripts.add(List.of(response(true, 9, change(UP, "a"))));
    watch();
    assertEquals(List.of("UP a", "UP b", "DOWN b"), shown);
  }

  @Test
  void anApprovalThatStillWaitsAfterACutIsNotShownAgain() {
    Deque<List<Approval>> answers = new ArrayDeque<>();
    answers.add(List.of(approval("1", ApprovalState.APPROVAL_STATE_PENDING)));
    answers.add(
        List.of(
            approval("1", ApprovalState.APPROVAL_STATE_PENDING),
            approval("2", ApprovalState.APPROVAL_STATE_PENDING),
            approval("1", ApprovalState.APPROVAL_STATE_APPROVED)));
    ControlServiceGrpc.ControlServiceImplBase control =
        new ControlServiceGrpc.ControlServiceImplBase() {
          @Override
          public void watchApprovals(
              WatchApprovalsRequest request, StreamObserver<WatchApprovalsResponse> observer) {
            observer.onNext(
                WatchApprovalsResponse.newBuilder().addAllApprovals(answers.remove()).build());
            observer.onCompleted(); // which for a watch is a cut, too
          }
        };
    try (Served served = Served.of(control);
        ProtolinkClient client = ProtolinkClient.connect(served.url());
        ResumingStream<Approval> approvals = client.watchApprovals("")) {
      for (String wanted : List.of("1 PENDING", "2 PENDING", "1 APPROVED")) {
        Approval next = approvals.next();
        String state = next.getState().name().replace("APPROVAL_STATE_", "");
        assertEquals(wanted, next.getRequest().getRequestId() + " " + state);
      }
    }
  }

  private void watch() {
    try (Served served = Served.of(registry);
        RegistryClient client = RegistryClient.connect(served.url());
        ResumingStream<AgentChange> changes = client.watch(AgentFilter.getDefaultInstance())) {
      ProtolinkException end =
          assertThrows(
              ProtolinkException.class,
              () ->
                  changes.forEachRemaining(
                      each ->
                          shown.add(
                              each.getKind().name().replace("AGENT_CHANGE_KIND_", "")
                                  + " "
                                  + each.getAgent().getCard().getName())));
      assertEquals(Status.Code.PERMISSION_DENIED, end.code());
    }
  }

  private static WatchAgentsResponse response(
      boolean snapshot, long revision, AgentChange... changes) {
    return WatchAgentsResponse.newBuilder()
        .setSnapshot(snapshot)
        .setRevision(revision)
        .addAllChanges(List.of(changes))
        .build();
  }

  private static AgentChange change(AgentChangeKind kind, String name) {
    AgentCard card = AgentCard.newBuilder().setName(name).setUrl("grpc://" + name + ":1").build();
    return AgentChange.newBuilder()
        .setKind(kind)
        .setAgent(RegisteredAgent.newBuilder().setCard(card))
        .build();
  }

  private static Approval approval(String id, ApprovalState state) {
    return Approval.newBuilder()
        .setRequest(ApprovalRequest.newBuilder().setRequestId(id))
        .setState(state)
        .build();
  }
}
