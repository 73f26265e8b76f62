// Package protolink calls protolink agents: it sends tasks, follows their events, answers approvals and finds agents in a
// registry.
//
// It is a thin layer over the generated stubs (imported as pb below, from gen/go/protolink/v1): messages are the generated ones,
// and what this package adds is what bare stubs leave to each caller. Writes carry a request id, so that a repetition is never a
// second run; streams that are cut go on after the last event seen, without a gap and without a repetition; errors are typed.
//
//	client, err := protolink.Dial("grpc://127.0.0.1:50051")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	task, err := client.Send(ctx, protolink.Text("Hello"))
//	if err != nil {
//		return err
//	}
//	fmt.Println(protolink.Output(task))
//
// A context bounds the wait, never the work: a run belongs to the agent and goes on when its caller has hung up. To end it, call
// [Client.Cancel].
package protolink

import (
	"context"
	"iter"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/protolink/v1"
	"google.golang.org/grpc"
)

// Client speaks with one agent. It is safe for concurrent use, and one per agent is enough.
type Client struct {
	*channel
	agent   pb.AgentServiceClient
	control pb.ControlServiceClient
}

// Dial returns a client of the agent at url: grpc://host:port in the clear, grpcs://host:port over TLS; host:port alone is in the
// clear. It does no I/O: the connection is made by the first call, and made again whenever it is lost.
//
// It fails for a URL of another shape, and for credentials that would go over the network in the clear (see [WithPlaintextCredentials]).
func Dial(url string, options ...Option) (*Client, error) {
	channel, err := dial(url, options)
	if err != nil {
		return nil, err
	}
	return &Client{channel, pb.NewAgentServiceClient(channel.conn), pb.NewControlServiceClient(channel.conn)}, nil
}

// SendOption changes one request of [Client.Send] or [Client.Stream].
type SendOption func(*sendOptions)

type sendOptions struct{ requestID, taskID string }

// RequestID names the request, for a repetition from another process: the same id from the same caller is the same request for at
// least 24 hours, and is answered with the task of the first one. At most 128 bytes. Without it each request gets an id of its own.
func RequestID(id string) SendOption {
	return func(o *sendOptions) { o.requestID = id }
}

// ContinueTask sends the messages to a task that exists already, for instance one in TASK_STATE_INPUT_REQUIRED. Where the agent
// does not know the task, the request fails with [ErrTaskNotFound] and begins no other one.
func ContinueTask(id string) SendOption {
	return func(o *sendOptions) { o.taskID = id }
}

func sendOptionsOf(options []SendOption) sendOptions {
	var all sendOptions
	for _, option := range options {
		option(&all)
	}
	if all.requestID == "" {
		all.requestID = newID()
	}
	return all
}

// Send starts or continues a task and waits until it ends or waits for somebody. It returns the task with what this turn has added.
//
// A task that failed is returned and is no error: look at its state. Calls that did not get through are repeated under the same
// request id. When ctx, or the default timeout, is over first, Send fails with [ErrDeadlineExceeded], and the task goes on.
func (c *Client) Send(ctx context.Context, task *pb.Task, options ...SendOption) (*pb.Task, error) {
	chosen := sendOptionsOf(options)
	request := &pb.SendTaskRequest{Task: task, RequestId: chosen.requestID, TaskId: chosen.taskID}
	response, err := unary(ctx, c.channel, c.agent.SendTask, request)
	return response.GetTask(), err
}

// Stream starts or continues a task and yields the events of this turn as they are committed, until the task ends or waits for
// somebody. Sequences follow each other without a gap, and none is shown twice, whatever happens to the connection.
//
// An error is yielded once, as the last value. Leaving the loop ends the watch and not the task. Each iteration over the sequence
// is the same request: a second one shows the same turn again.
func (c *Client) Stream(ctx context.Context, task *pb.Task, options ...SendOption) iter.Seq2[*pb.RunEvent, error] {
	chosen := sendOptionsOf(options)
	request := &pb.StreamTaskRequest{Task: task, RequestId: chosen.requestID, TaskId: chosen.taskID}
	start := cursor{stopAt: pb.StopAt_STOP_AT_INTERRUPTED}
	return c.follow(ctx, start, func(ctx context.Context, peer grpc.CallOption) (batches, error) {
		return received(c.agent.StreamTask(ctx, request, peer))
	})
}

// Subscribe yields the events of a task after request.AfterSequence (0: from the beginning): first what is stored, then what comes.
// It ends where request.StopAt says, by default with the task, and survives cuts as [Client.Stream] does.
//
// Text deltas have no place in the log and are not yielded; for these, use the generated client on [Client.Conn].
func (c *Client) Subscribe(ctx context.Context, request *pb.SubscribeTaskRequest) iter.Seq2[*pb.RunEvent, error] {
	position := cursor{taskID: request.GetTaskId(), seen: request.GetAfterSequence(), known: true, stopAt: request.GetStopAt()}
	return c.follow(ctx, position, nil)
}

// Get returns the whole task as it is now.
func (c *Client) Get(ctx context.Context, taskID string) (*pb.Task, error) {
	response, err := unary(ctx, c.channel, c.agent.GetTask, &pb.GetTaskRequest{TaskId: taskID})
	return response.GetTask(), err
}

// List yields the caller's tasks that match, last changed first, page after page. By default they have no messages and no artifacts
// (see request.View). An error is yielded once, as the last value.
func (c *Client) List(ctx context.Context, request *pb.ListTasksRequest) iter.Seq2[*pb.Task, error] {
	return pages(request, request.GetPageToken(), func(r *pb.ListTasksRequest, token string) ([]*pb.Task, string, error) {
		r.PageToken = token
		response, err := unary(ctx, c.channel, c.agent.ListTasks, r)
		return response.GetTasks(), response.GetNextPageToken(), err
	})
}

// Cancel asks the agent to end a task, and returns it as it is afterwards, without messages. The reason is one sentence for the log.
//
// A task that has ended fails with [ErrTaskNotCancelable].
func (c *Client) Cancel(ctx context.Context, taskID, reason string) (*pb.Task, error) {
	request := &pb.CancelTaskRequest{TaskId: taskID, Reason: reason, RequestId: newID()}
	response, err := unary(ctx, c.channel, c.agent.CancelTask, request)
	return response.GetTask(), err
}

// Card returns who the agent is and what it can do.
func (c *Client) Card(ctx context.Context) (*pb.AgentCard, error) {
	response, err := unary(ctx, c.channel, c.agent.GetAgentCard, &pb.GetAgentCardRequest{})
	return response.GetCard(), err
}

// Approvals yields approvals that the caller may answer or has asked for, oldest first, page after page; by default the pending
// ones. An error is yielded once, as the last value.
func (c *Client) Approvals(ctx context.Context, request *pb.ListApprovalsRequest) iter.Seq2[*pb.Approval, error] {
	return pages(request, request.GetPageToken(), func(r *pb.ListApprovalsRequest, token string) ([]*pb.Approval, string, error) {
		r.PageToken = token
		response, err := unary(ctx, c.channel, c.control.ListApprovals, r)
		return response.GetApprovals(), response.GetNextPageToken(), err
	})
}

// WatchApprovals yields what waits for an answer, then what is asked for and answered as it happens; of one task, or of all where
// taskID is empty. It ends with ctx, or with an error as the last value.
//
// After a cut it shows each pending approval once all the same; an answer that was given during the cut is not shown.
func (c *Client) WatchApprovals(ctx context.Context, taskID string) iter.Seq2[*pb.Approval, error] {
	return func(yield func(*pb.Approval, error) bool) {
		pending := map[string]bool{}
		err := c.persist(ctx, func(ctx context.Context, this *attempt) error {
			stream, err := c.control.WatchApprovals(ctx, &pb.WatchApprovalsRequest{TaskId: taskID}, grpc.Peer(&this.peer))
			if err != nil {
				return err
			}
			for {
				response, err := stream.Recv()
				if err != nil {
					return err
				}
				this.progressed = true
				for _, approval := range response.GetApprovals() {
					id, waits := approval.GetRequest().GetRequestId(), approval.GetState() == pb.ApprovalState_APPROVAL_STATE_PENDING
					switch {
					case waits && pending[id]:
						continue
					case waits:
						pending[id] = true
					default:
						delete(pending, id)
					}
					if !yield(approval, nil) {
						return errStopped
					}
				}
			}
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// Respond answers an approval as it was shown: what runs is what the caller has seen, or the answer fails with
// [ErrApprovalChanged]. The reason is one sentence for the log. Where somebody has answered before, nothing changes, and the response
// says so.
func (c *Client) Respond(ctx context.Context, approval *pb.Approval, approved bool, reason string) (*pb.RespondApprovalResponse, error) {
	question := approval.GetRequest()
	decision := &pb.ApprovalDecision{
		RequestId:   question.GetRequestId(),
		Approved:    approved,
		Reason:      reason,
		Fingerprint: question.GetAction().GetFingerprint(),
	}
	return unary(ctx, c.channel, c.control.RespondApproval, &pb.RespondApprovalRequest{Decision: decision})
}
