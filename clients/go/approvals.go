package plgrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

// Approvals yields approvals that the caller may answer or has requested, oldest first, page after page; by default the pending
// ones. An error is yielded once, as the last value.
func (c *Client) Approvals(ctx context.Context, request *pb.ListApprovalsRequest) iter.Seq2[*pb.Approval, error] {
	return pages(request, request.GetPageToken(), func(r *pb.ListApprovalsRequest, token string) ([]*pb.Approval, string, error) {
		r.PageToken = token
		response, err := unary(ctx, c.channel, c.control.ListApprovals, r)
		return response.GetApprovals(), response.GetNextPageToken(), err
	})
}

// RespondOption changes an answer of [Client.Respond].
type RespondOption func(*pb.RespondApprovalRequest) error

// EditedArguments approves the action with other arguments than the requested ones: a struct or a map that becomes a JSON object,
// and is validated again. Only an approval whose Edit is APPROVAL_EDIT_ARGUMENTS allows it; any other fails
// with [ErrInvalidArgument].
func EditedArguments(arguments any) RespondOption {
	return func(answer *pb.RespondApprovalRequest) error {
		data, err := json.Marshal(arguments)
		if err != nil {
			return fmt.Errorf("plgrpc: edited arguments: %w", err)
		}
		answer.EditedArguments = &pb.Payload{Value: &pb.Payload_Json{Json: string(data)}}
		return nil
	}
}

// Respond answers an approval as it was shown: what runs is what the caller has seen, or the answer fails with
// [ErrApprovalChanged]. The reason is one sentence for the log. If the approval has an answer already, nothing changes, and the response
// contains that answer and says so. An interrupted call is repeated under one request id, so the client's own answer is not reported as an earlier one.
func (c *Client) Respond(
	ctx context.Context, approval *pb.Approval, approved bool, reason string, options ...RespondOption,
) (*pb.RespondApprovalResponse, error) {
	answer := &pb.RespondApprovalRequest{
		ApprovalId: approval.GetApprovalId(),
		Verdict:    pb.ApprovalVerdict_APPROVAL_VERDICT_DENY,
		Etag:       approval.GetEtag(),
		Reason:     reason,
		RequestId:  newID(),
	}
	if approved {
		answer.Verdict = pb.ApprovalVerdict_APPROVAL_VERDICT_APPROVE
	}
	for _, option := range options {
		if err := option(answer); err != nil {
			return nil, err
		}
	}
	return unary(ctx, c.channel, c.control.RespondApproval, answer)
}

// WatchApprovals yields the pending approvals, and then each approval when it is requested or answered: those of one task, or of all tasks
// where taskID is empty. It continues after an interruption, and ends with ctx, or with an error as the last value.
//
// After an interruption it yields the approvals that were requested or answered meanwhile, each in its latest state, and none twice. If the
// agent has lost its state meanwhile, it yields the approvals that are pending then.
func (c *Client) WatchApprovals(ctx context.Context, taskID string) iter.Seq2[*pb.Approval, error] {
	return func(yield func(*pb.Approval, error) bool) {
		known := approvalsKnown{pending: map[string]bool{}}
		err := c.persist(ctx, func(ctx context.Context, this *attempt) error {
			known.snapshot = nil // an interrupted one is sent again
			request := &pb.WatchApprovalsRequest{TaskId: taskID, AfterRevision: known.revision}
			stream, err := c.control.WatchApprovals(ctx, request)
			return listen(this, stream, err, func(response *pb.WatchApprovalsResponse) error {
				this.known = this.known || len(response.GetApprovals()) > 0
				for _, approval := range known.news(response) {
					if err := ctx.Err(); err != nil {
						return err
					}
					this.news = true
					if !yield(approval, nil) {
						return errStopped
					}
				}
				return nil
			})
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// approvalsKnown is what the reader of a watch knows, through all its streams.
type approvalsKnown struct {
	revision int64
	pending  map[string]bool // those shown as waiting
	snapshot []*pb.Approval  // those of a snapshot that is under way
}

// news takes a response in and returns what the reader does not know yet. A snapshot is yielded when it is complete; an interrupted one
// is sent again.
func (k *approvalsKnown) news(response *pb.WatchApprovalsResponse) []*pb.Approval {
	position, approvals := response.GetPosition(), response.GetApprovals()
	if position.GetReset_() {
		k.snapshot = []*pb.Approval{}
	}
	if k.snapshot != nil {
		k.snapshot = append(k.snapshot, approvals...)
		if position.GetRevision() == 0 {
			return nil
		}
		pending := k.pending
		approvals, k.pending = nil, map[string]bool{}
		for _, approval := range k.snapshot {
			id := approval.GetApprovalId()
			k.pending[id] = true
			if !pending[id] {
				approvals = append(approvals, approval)
			}
		}
		k.snapshot = nil
	}
	for _, approval := range approvals {
		id := approval.GetApprovalId()
		if approval.GetState() == pb.ApprovalState_APPROVAL_STATE_PENDING {
			k.pending[id] = true
		} else {
			delete(k.pending, id)
		}
	}
	if position.GetRevision() != 0 {
		k.revision = position.GetRevision()
	}
	return approvals
}
