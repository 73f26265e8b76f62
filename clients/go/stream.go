package protolink

import (
	"context"
	"iter"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/protolink/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cursor is a reader's position in the log of a task.
type cursor struct {
	taskID  string
	seen    int64 // the last sequence shown
	known   bool  // whether seen says where to go on; a stream learns that from its first event
	settled bool  // the stream has shown its last event: only its end is missing
	stopAt  pb.StopAt
}

// accept moves on to the event. It reports whether the event is to be shown, and fails where one before it is missing.
func (at *cursor) accept(event *pb.RunEvent) (bool, error) {
	sequence := event.GetSequence()
	if at.known && sequence <= at.seen {
		return false, nil
	}
	if at.known && sequence != at.seen+1 {
		return false, status.Errorf(codes.DataLoss, "task %s: event %d came after %d", event.GetTaskId(), sequence, at.seen)
	}
	at.taskID, at.seen, at.known = event.GetTaskId(), sequence, true
	at.settled = event.GetFinal() || at.stopAt == pb.StopAt_STOP_AT_INTERRUPTED && waits(event.GetTaskStatus().GetNewState())
	return true, nil
}

func waits(state pb.TaskState) bool {
	return state == pb.TaskState_TASK_STATE_INPUT_REQUIRED || state == pb.TaskState_TASK_STATE_AUTH_REQUIRED
}

// batches returns what the server sends next.
type batches func() ([]*pb.RunEvent, error)

// received reads either of the two streams of events.
func received[Response any, P interface {
	*Response
	GetEvents() []*pb.RunEvent
}](stream grpc.ServerStreamingClient[Response], err error) (batches, error) {
	return func() ([]*pb.RunEvent, error) {
		response, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		return P(response).GetEvents(), nil
	}, err
}

// follow yields events from a position on, through cuts. Where the position is not known yet, it begins with the stream of open.
func (c *Client) follow(
	ctx context.Context, start cursor, open func(context.Context, grpc.CallOption) (batches, error),
) iter.Seq2[*pb.RunEvent, error] {
	return func(yield func(*pb.RunEvent, error) bool) {
		at := start
		subscribe := func(ctx context.Context, peer grpc.CallOption) (batches, error) {
			request := &pb.SubscribeTaskRequest{TaskId: at.taskID, AfterSequence: at.seen, StopAt: at.stopAt}
			return received(c.agent.SubscribeTask(ctx, request, peer))
		}
		err := c.persist(ctx, func(ctx context.Context, this *attempt) error {
			from := subscribe
			if !at.known {
				from = open
			}
			next, err := from(ctx, grpc.Peer(&this.peer))
			for err == nil {
				var events []*pb.RunEvent
				if events, err = next(); err != nil {
					break
				}
				for _, event := range events {
					show, gap := at.accept(event)
					if gap != nil {
						return gap
					}
					if !show {
						continue
					}
					this.progressed = true
					if !yield(event, nil) {
						return errStopped
					}
				}
			}
			if at.settled {
				return nil
			}
			return err
		})
		if err != nil {
			yield(nil, err)
		}
	}
}
