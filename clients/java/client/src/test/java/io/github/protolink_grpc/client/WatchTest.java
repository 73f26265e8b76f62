package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.protolink_grpc.v1.AgentCard;
import io.github.protolink_grpc.v1.AgentChange;
import io.github.protolink_grpc.v1.AgentChangeKind;
import io.github.protolink_grpc.v1.AgentFilter;
import io.github.protolink_grpc.v1.AgentInterface;
import io.github.protolink_grpc.v1.Approval;
import io.github.protolink_grpc.v1.ApprovalState;
import io.github.protolink_grpc.v1.ControlServiceGrpc;
import io.github.protolink_grpc.v1.RegisteredAgent;
import io.github.protolink_grpc.v1.RegistryServiceGrpc;
import io.github.protolink_grpc.v1.WatchAgentsRequest;
import io.github.protolink_grpc.v1.WatchAgentsResponse;
import io.github.protolink_grpc.v1.WatchApprovalsRequest;
import io.github.protolink_grpc.v1.WatchApprovalsResponse;
import io.github.protolink_grpc.v1.WatchPosition;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.Test;

class WatchTest {

  private static final String TASK = "t-1";
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
    scripts.add(List.of(response(true, 0, change(UP, "b")), response(false, 9, change(UP, "c"))));
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
  void aCutWatchOfApprovalsGoesOnAfterItsRevision() {
    Desk desk = new Desk();
    desk.shows(approvals(true, 2, PENDING_1, PENDING_2));
    desk.shows(approvals(false, 4, APPROVED_1, PENDING_3), approvals(false, 7));
    desk.shows(approvals(false, 8, PENDING_4));
    assertEquals(
        List.of("1 PENDING", "2 PENDING", "1 APPROVED", "3 PENDING", "4 PENDING"),
        desk.watched(5));
    assertEquals(List.of(0L, 2L, 7L), desk.positions);
  }

  @Test
  void aSecondSnapshotShowsOnlyTheApprovalsThatWereNotShown() {
    Desk desk = new Desk();
    desk.shows(approvals(true, 9, PENDING_1));
    desk.shows(approvals(true, 3, PENDING_1, PENDING_2), approvals(false, 4, APPROVED_1));
    assertEquals(List.of("1 PENDING", "2 PENDING", "1 APPROVED"), desk.watched(3));
  }

  @Test
  void aSnapshotOfApprovalsIsShownWhenItIsWhole() {
    Desk desk = new Desk();
    desk.shows(approvals(true, 0, PENDING_1, PENDING_2)); // 2 is answered during the cut
    desk.shows(approvals(true, 0, PENDING_1), approvals(false, 5, PENDING_3));
    assertEquals(List.of("1 PENDING", "3 PENDING"), desk.watched(2));
    assertEquals(List.of(0L, 0L), desk.positions);
  }

  private static final Approval PENDING_1 = approval("1", ApprovalState.APPROVAL_STATE_PENDING);
  private static final Approval PENDING_2 = approval("2", ApprovalState.APPROVAL_STATE_PENDING);
  private static final Approval PENDING_3 = approval("3", ApprovalState.APPROVAL_STATE_PENDING);
  private static final Approval PENDING_4 = approval("4", ApprovalState.APPROVAL_STATE_PENDING);
  private static final Approval APPROVED_1 = approval("1", ApprovalState.APPROVAL_STATE_APPROVED);

  private static WatchApprovalsResponse approvals(
      boolean reset, long revision, Approval... approvals) {
    return WatchApprovalsResponse.newBuilder()
        .setPosition(position(reset, revision))
        .addAllApprovals(List.of(approvals))
        .build();
  }

  /** Shows the next list of responses to each call, and ends it. */
  private static final class Desk extends ControlServiceGrpc.ControlServiceImplBase {

    private final Deque<List<WatchApprovalsResponse>> scripts = new ArrayDeque<>();
    private final List<Long> positions = new ArrayList<>();

    void shows(WatchApprovalsResponse... responses) {
      scripts.add(List.of(responses));
    }

    @Override
    public void watchApprovals(
        WatchApprovalsRequest request, StreamObserver<WatchApprovalsResponse> observer) {
      positions.add(request.getAfterRevision());
      scripts.remove().forEach(observer::onNext);
      observer.onCompleted(); // which for a watch is a cut, too
    }

    List<String> watched(int count) {
      List<String> shown = new ArrayList<>();
      try (Served served = Served.of(this);
          ProtolinkClient client = ProtolinkClient.connect(served.url());
          ResumingStream<Approval> approvals = client.watchApprovals()) {
        for (int i = 0; i < count; i++) {
          Approval next = approvals.next();
          String state = next.getState().name().replace("APPROVAL_STATE_", "");
          shown.add(next.getApprovalId() + " " + state);
        }
      }
      return shown;
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
      boolean reset, long revision, AgentChange... changes) {
    return WatchAgentsResponse.newBuilder()
        .setPosition(position(reset, revision))
        .addAllChanges(List.of(changes))
        .build();
  }

  private static WatchPosition position(boolean reset, long revision) {
    return WatchPosition.newBuilder().setReset(reset).setRevision(revision).build();
  }

  private static AgentChange change(AgentChangeKind kind, String name) {
    AgentInterface where = AgentInterface.newBuilder().setUrl("grpc://" + name + ":1").build();
    AgentCard card = AgentCard.newBuilder().setName(name).addInterfaces(where).build();
    return AgentChange.newBuilder()
        .setKind(kind)
        .setAgent(RegisteredAgent.newBuilder().setCard(card))
        .build();
  }

  private static Approval approval(String id, ApprovalState state) {
    return Approval.newBuilder()
        .setApprovalId(id)
        .setTaskId(TASK)
        .setState(state)
        .build();
  }
}
