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
)

// desk is a control plane: each watch shows the next list of batches, then is cut; the last one, again and again.
type desk struct {
	pb.UnimplementedControlServiceServer
	mu       sync.Mutex
	watches  [][]string // an approval is its id and state, such as "a?" (pending), "a+" or "a-"; an empty batch marks the end of what waits
	opened   int
	answered []string
	decision *pb.ApprovalDecision
}

func approvalOf(text string) *pb.Approval {
	id, state := text[:1], map[string]pb.ApprovalState{
		"?": pb.ApprovalState_APPROVAL_STATE_PENDING, "+": pb.ApprovalState_APPROVAL_STATE_APPROVED, "-": pb.ApprovalState_APPROVAL_STATE_DENIED,
	}[text[1:]]
	return &pb.Approval{Request: &pb.ApprovalRequest{RequestId: id, TaskId: "task of " + id}, State: state}
}

func approvalsOf(text string) []*pb.Approval {
	var all []*pb.Approval
	for _, one := range strings.Fields(text) {
		all = append(all, approvalOf(one))
	}
	return all
}

func (d *desk) WatchApprovals(_ *pb.WatchApprovalsRequest, stream grpc.ServerStreamingServer[pb.WatchApprovalsResponse]) error {
	d.mu.Lock()
	batches := d.watches[min(d.opened, len(d.watches)-1)]
	d.opened++
	d.mu.Unlock()
	for _, batch := range batches {
		if err := stream.Send(&pb.WatchApprovalsResponse{Approvals: approvalsOf(batch)}); err != nil {
			return err
		}
	}
	return cut
}

func (d *desk) ListApprovals(_ context.Context, request *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	response := &pb.ListApprovalsResponse{}
	for _, approval := range approvalsOf(strings.Join(d.answered, " ")) {
		if request.GetTaskId() == approval.GetRequest().GetTaskId() && slices.Contains(request.GetStates(), approval.GetState()) {
			response.Approvals = append(response.Approvals, approval)
		}
	}
	return response, nil
}

func (d *desk) RespondApproval(_ context.Context, request *pb.RespondApprovalRequest) (*pb.RespondApprovalResponse, error) {
	d.decision = request.GetDecision()
	return &pb.RespondApprovalResponse{}, nil
}

func TestAWatchOfApprovalsShowsEachChangeOnceAlsoThoseOfACut(t *testing.T) {
	t.Parallel()
	d := &desk{
		watches: [][]string{
			{"a? b? c?", "", "d?"},
			{"a?", "c?", "", "e?", "e+"}, // b and d were answered meanwhile; d is unknown now
			{"a?", "c+"},                 // cut before the end of what waits
			{""},
		},
		answered: []string{"b+", "x-", "a-"},
	}
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterControlServiceServer(s, d) }, WithPatience(300*time.Millisecond))
	var shown []string
	var failure error
	for approval, err := range client.WatchApprovals(t.Context(), "") {
		if failure = err; err == nil {
			state := map[int32]string{1: "?", 2: "+", 3: "-"}[int32(approval.GetState())]
			shown = append(shown, approval.GetRequest().GetRequestId()+state)
		}
	}
	if want := []string{"a?", "b?", "c?", "d?", "b+", "e?", "e+", "c+", "a-"}; !slices.Equal(shown[:len(want)], want) {
		t.Errorf("shown %v, want %v", shown, want)
	}
	if !errors.Is(failure, ErrUnavailable) {
		t.Errorf("ended with %v", failure)
	}
}

func TestAWatchOfApprovalsDoesNotSpin(t *testing.T) {
	t.Parallel()
	d := &desk{watches: [][]string{{"a?", ""}}}
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterControlServiceServer(s, d) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for _, err := range client.WatchApprovals(ctx, "") {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if d.mu.Lock(); d.opened < 3 || d.opened > 8 {
		t.Errorf("%d watches in a second", d.opened)
	}
}

func TestAnAnswerMayEditTheArguments(t *testing.T) {
	d := &desk{}
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterControlServiceServer(s, d) })
	approval := &pb.Approval{Request: &pb.ApprovalRequest{RequestId: "a", Action: &pb.RunAction{Fingerprint: "f"}}}
	if _, err := client.Respond(t.Context(), approval, true, "cheaper", EditedArguments(map[string]int{"nights": 3})); err != nil {
		t.Fatal(err)
	}
	if d.decision.GetEditedArgumentsJson() != `{"nights":3}` || d.decision.GetFingerprint() != "f" || !d.decision.GetApproved() {
		t.Errorf("decided %v", d.decision)
	}
	if _, err := client.Respond(t.Context(), approval, true, "", EditedArguments(make(chan int))); err == nil {
		t.Error("a channel has a JSON form")
	}
}
