package plgrpc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// shown is a response of a watch. An approval is its id and state, such as "a?" (pending), "a+" or "a-".
type shown struct {
	approvals string
	position  *pb.WatchPosition
}

// desk is a control plane: each watch shows the next list of responses, then is cut; the last one, again and again.
type desk struct {
	pb.UnimplementedControlServiceServer
	mu      sync.Mutex
	watches [][]shown
	after   []int64 // positions that the watches were opened with
	answers []*pb.RespondApprovalRequest
	failing int // answers that are lost on their way back
}

func approvalOf(text string) *pb.Approval {
	id, state := text[:1], map[string]pb.ApprovalState{
		"?": pb.ApprovalState_APPROVAL_STATE_PENDING, "+": pb.ApprovalState_APPROVAL_STATE_APPROVED, "-": pb.ApprovalState_APPROVAL_STATE_DENIED,
	}[text[1:]]
	return &pb.Approval{ApprovalId: id, TaskId: "task of " + id, State: state}
}

func approvalsOf(text string) []*pb.Approval {
	var all []*pb.Approval
	for _, one := range strings.Fields(text) {
		all = append(all, approvalOf(one))
	}
	return all
}

func (d *desk) WatchApprovals(request *pb.WatchApprovalsRequest, stream grpc.ServerStreamingServer[pb.WatchApprovalsResponse]) error {
	d.mu.Lock()
	responses := d.watches[min(len(d.after), len(d.watches)-1)]
	d.after = append(d.after, request.GetAfterRevision())
	d.mu.Unlock()
	for _, each := range responses {
		if err := stream.Send(&pb.WatchApprovalsResponse{Approvals: approvalsOf(each.approvals), Position: each.position}); err != nil {
			return err
		}
	}
	return cut
}

func (d *desk) RespondApproval(_ context.Context, request *pb.RespondApprovalRequest) (*pb.RespondApprovalResponse, error) {
	if d.answers = append(d.answers, request); len(d.answers) <= d.failing {
		return nil, status.Error(codes.Unavailable, "cut")
	}
	return &pb.RespondApprovalResponse{}, nil
}

func TestAWatchOfApprovalsContinuesAtItsPositionAndShowsEachChangeOnce(t *testing.T) {
	t.Parallel()
	begins := func(revision int64) *pb.WatchPosition { return &pb.WatchPosition{Revision: revision, Reset_: true} }
	at := func(revision int64) *pb.WatchPosition { return &pb.WatchPosition{Revision: revision} }
	d := &desk{watches: [][]shown{
		{{"a? b?", begins(0)}},                              // cut before the end of the snapshot: b is answered meanwhile
		{{"a?", begins(0)}, {"c?", at(10)}, {"d?", at(11)}}, // c and d are answered during the next cut
		{{"c+ d-", at(13)}, {"", at(15)}},
		{{"a? e?", begins(3)}, {"a-", at(4)}}, // another life of the agent
		{{"", at(4)}},
	}}
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterControlServiceServer(s, d) }, WithPatience(300*time.Millisecond))
	var seen []string
	var failure error
	for approval, err := range client.WatchApprovals(t.Context(), "") {
		if failure = err; err == nil {
			state := map[int32]string{1: "?", 2: "+", 3: "-"}[int32(approval.GetState())]
			seen = append(seen, approval.GetApprovalId()+state)
		}
	}
	if want := []string{"a?", "c?", "d?", "c+", "d-", "e?", "a-"}; !slices.Equal(seen, want) {
		t.Errorf("shown %v, want %v", seen, want)
	}
	if want := []int64{0, 0, 11, 15, 4}; !slices.Equal(d.after[:len(want)], want) {
		t.Errorf("opened after %v, want %v", d.after, want)
	}
	if !errors.Is(failure, ErrUnavailable) {
		t.Errorf("ended with %v", failure)
	}
}

func TestAWatchOfApprovalsDoesNotSpin(t *testing.T) {
	t.Parallel()
	d := &desk{watches: [][]shown{{{"a?", &pb.WatchPosition{Revision: 1, Reset_: true}}}}}
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterControlServiceServer(s, d) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for _, err := range client.WatchApprovals(ctx, "") {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if d.mu.Lock(); len(d.after) < 3 || len(d.after) > 8 {
		t.Errorf("%d watches in a second", len(d.after))
	}
}

func TestAnAnswerMayEditTheArguments(t *testing.T) {
	d := &desk{}
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterControlServiceServer(s, d) })
	approval := &pb.Approval{ApprovalId: "a", Etag: "e"}
	if _, err := client.Respond(t.Context(), approval, true, "cheaper", EditedArguments(map[string]int{"nights": 3})); err != nil {
		t.Fatal(err)
	}
	answer := d.answers[0]
	approves := answer.GetVerdict() == pb.ApprovalVerdict_APPROVAL_VERDICT_APPROVE
	if answer.GetEditedArguments().GetJson() != `{"nights":3}` || answer.GetEtag() != "e" || !approves {
		t.Errorf("answered %v", answer)
	}
	if _, err := client.Respond(t.Context(), approval, true, "", EditedArguments(make(chan int))); err == nil {
		t.Error("a channel has a JSON form")
	}
}

func TestAnAnswerIsRepeatedUnderOneRequestID(t *testing.T) {
	d := &desk{failing: 1}
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterControlServiceServer(s, d) })
	if _, err := client.Respond(t.Context(), &pb.Approval{ApprovalId: "a", Etag: "e"}, false, "no"); err != nil {
		t.Fatal(err)
	}
	if len(d.answers) != 2 || d.answers[0].GetRequestId() == "" || !proto.Equal(d.answers[0], d.answers[1]) {
		t.Errorf("answered %v", d.answers)
	}
}
