package plgrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

// Approvals yields approvals that the caller may answer or has asked for, oldest first, page after page; by default the pending
// ones. An error is yielded once, as the last value.
func (c *Client) Approvals(ctx context.Context, request *pb.ListApprovalsRequest) iter.Seq2[*pb.Approval, error] {
	return pages(request, request.GetPageToken(), func(r *pb.ListApprovalsRequest, token string) ([]*pb.Approval, string, error) {
		r.PageToken = token
		response, err := unary(ctx, c.channel, c.control.ListApprovals, r)
		return response.GetApprovals(), response.GetNextPageToken(), err
	})
}

// RespondOption changes an answer of [Client.Respond].
type RespondOption func(*pb.ApprovalDecision) error

// EditedArguments approves the action with other arguments than those that it asked for: a struct or a map that becomes a JSON object,
// and is validated again. Only an approval whose request is Editable allows it; any other fails with [ErrInvalidArgument].
func EditedArguments(arguments any) RespondOption {
	return func(decision *pb.ApprovalDecision) error {
		data, err := json.Marshal(arguments)
		if err != nil {
			return fmt.Errorf("plgrpc: edited arguments: %w", err)
		}
		decision.EditedArgumentsJson = string(data)
		return nil
	}
}

// Respond answers an approval as it was shown: what runs is what the caller has seen, or the answer fails with
// [ErrApprovalChanged]. The reason is one sentence for the log. If the approval was answered before, nothing changes, and the response
// contains the earlier answer. After an interrupted call, that answer can be the caller's own.
func (c *Client) Respond(
	ctx context.Context, approval *pb.Approval, approved bool, reason string, options ...RespondOption,
) (*pb.RespondApprovalResponse, error) {
	question := approval.GetRequest()
	decision := &pb.ApprovalDecision{
		RequestId:   question.GetRequestId(),
		Approved:    approved,
		Reason:      reason,
		Fingerprint: question.GetAction().GetFingerprint(),
	}
	for _, option := range options {
		if err := option(decision); err != nil {
			return nil, err
		}
	}
	return unary(ctx, c.channel, c.control.RespondApproval, &pb.RespondApprovalRequest{Decision: decision})
}

// WatchApprovals yields what waits for an answer, then what is asked for and answered as it happens; of one task, or of all where
// taskID is empty. It goes on through cuts, and ends with ctx, or with an error as the last value.
//
// After a cut, what waits is not shown again, and what was answered meanwhile is. What was asked for and answered within one cut is not.
func (c *Client) WatchApprovals(ctx context.Context, taskID string) iter.Seq2[*pb.Approval, error] {
	return func(yield func(*pb.Approval, error) bool) {
		pending := map[string]string{}
		err := c.persist(ctx, func(ctx context.Context, this *attempt) error {
			changes := approvalChanges{pending: pending, missing: maps.Clone(pending), answered: map[string]bool{}}
			show := func(approvals []*pb.Approval) error {
				for _, approval := range approvals {
					if err := ctx.Err(); err != nil {
						return err
					}
					if !changes.accept(approval) {
						this.known = true
						continue
					}
					this.news = true
					if !yield(approval, nil) {
						return errStopped
					}
				}
				return nil
			}
			stream, err := c.control.WatchApprovals(ctx, &pb.WatchApprovalsRequest{TaskId: taskID})
			return listen(this, stream, err, func(response *pb.WatchApprovalsResponse) error {
				if len(response.GetApprovals()) > 0 {
					return show(response.GetApprovals())
				}
				// What waits has been shown; what is missing there was answered during the cut.
				answers, err := c.answers(ctx, changes.missing)
				if err != nil {
					return err
				}
				if err := show(answers); err != nil {
					return err
				}
				changes.dropMissing()
				return nil
			})
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// approvalChanges tells what is new on one stream of a watch.
type approvalChanges struct {
	pending  map[string]string // tasks by approval, of those that the caller knows to wait; kept from one stream to the next
	missing  map[string]string // those of them that this stream has not spoken of
	answered map[string]bool   // what this stream has shown as answered
}

// accept takes an approval in and reports whether it is new to the caller.
func (a *approvalChanges) accept(approval *pb.Approval) bool {
	id := approval.GetRequest().GetRequestId()
	_, waited := a.pending[id]
	delete(a.missing, id)
	if approval.GetState() == pb.ApprovalState_APPROVAL_STATE_PENDING {
		a.pending[id] = approval.GetRequest().GetTaskId()
		return !waited
	}
	delete(a.pending, id)
	known := a.answered[id]
	a.answered[id] = true
	return !known
}

// dropMissing forgets what the agent no longer knows of.
func (a *approvalChanges) dropMissing() {
	for id := range a.missing {
		delete(a.pending, id)
	}
	clear(a.missing)
}

// answers are those of the wanted approvals, tasks by id, that were answered. It is part of an attempt, and tries nothing again.
func (c *Client) answers(ctx context.Context, wanted map[string]string) ([]*pb.Approval, error) {
	var found []*pb.Approval
	asked := map[string]bool{}
	for _, task := range wanted {
		if asked[task] {
			continue
		}
		asked[task] = true
		request := &pb.ListApprovalsRequest{TaskId: task, States: []pb.ApprovalState{
			pb.ApprovalState_APPROVAL_STATE_APPROVED, pb.ApprovalState_APPROVAL_STATE_DENIED,
			pb.ApprovalState_APPROVAL_STATE_EXPIRED, pb.ApprovalState_APPROVAL_STATE_WITHDRAWN,
		}}
		for approval, err := range pages(request, "", func(r *pb.ListApprovalsRequest, token string) ([]*pb.Approval, string, error) {
			r.PageToken = token
			response, err := c.control.ListApprovals(ctx, r)
			return response.GetApprovals(), response.GetNextPageToken(), err
		}) {
			if err != nil {
				return nil, err
			}
			if _, ok := wanted[approval.GetRequest().GetRequestId()]; ok {
				found = append(found, approval)
			}
		}
	}
	return found, nil
}
