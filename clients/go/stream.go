package plgrpc

import (
	"context"
	"io"
	"iter"
	"maps"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Update is one item of a stream with text deltas: an event, or a piece of a text that a model is producing. One of the two is set.
type Update struct {
	Event *pb.RunEvent
	Delta *pb.Delta
}

// cursor is a reader's position in the log of a task.
type cursor struct {
	taskID  string
	seen    int64 // the last sequence shown
	known   bool  // whether seen is the position to continue from; a stream learns it from its first event
	shown   bool  // whether the event at seen was shown here, and is not only what the caller has named
	settled bool  // the last event shown is one with which the stream can end
	stopAt  pb.StopAt
	deltas  bool
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
	at.taskID, at.seen, at.known, at.shown = event.GetTaskId(), sequence, true, true
	at.settled = event.GetLast() || at.stopAt == pb.StopAt_STOP_AT_INTERRUPTED && waits(event.GetTaskStatus().GetNewState())
	return true, nil
}

func waits(state pb.TaskState) bool {
	return state == pb.TaskState_TASK_STATE_INPUT_REQUIRED || state == pb.TaskState_TASK_STATE_AUTH_REQUIRED
}

func terminal(state pb.TaskState) bool {
	switch state {
	case pb.TaskState_TASK_STATE_COMPLETED, pb.TaskState_TASK_STATE_CANCELED, pb.TaskState_TASK_STATE_FAILED,
		pb.TaskState_TASK_STATE_REJECTED:
		return true
	default:
		return false
	}
}

// batch is what both streams of events send.
type batch interface {
	GetEvents() []*pb.RunEvent
	GetDeltas() []*pb.Delta
}

// receiver opens the stream that continues a position, and reads it to its end.
type receiver func(ctx context.Context, this *attempt, at *cursor, show func(batch) error) error

// follow yields the events and deltas after a position, and resumes after interruptions.
func (c *Client) follow(ctx context.Context, start cursor, receive receiver) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		at := start
		var texts textsShown
		var references References
		err := c.persist(ctx, func(ctx context.Context, this *attempt) error {
			texts.reopened()
			show := func(next batch) error {
				for _, event := range next.GetEvents() {
					if err := ctx.Err(); err != nil {
						return err // the caller has canceled in the middle of a batch
					}
					fresh, gap := at.accept(event)
					if gap != nil {
						return gap
					}
					if !fresh {
						continue
					}
					this.news = true
					texts.passed(event)
					if !yield(Update{Event: references.Resolve(event)}, nil) {
						return errStopped
					}
				}
				for _, delta := range next.GetDeltas() {
					if delta = texts.rest(delta); delta != nil && !yield(Update{Delta: delta}, nil) {
						return errStopped
					}
				}
				return nil
			}
			err := receive(ctx, this, &at, show)
			if err == io.EOF {
				return c.checkEnd(ctx, &at)
			}
			// A turn is complete with its last event. A task that has ended may have been retried: only the server can end its stream.
			if at.settled && at.stopAt == pb.StopAt_STOP_AT_INTERRUPTED && FromError(err).isCut() {
				return nil
			}
			return err
		})
		if err != nil {
			yield(Update{}, aboutTask(err, at.taskID))
		}
	}
}

// receiveFrom returns a receiver that begins with a stream of first, as long as the position is not known.
func (c *Client) receiveFrom(first *pb.StreamTaskRequest) receiver {
	return func(ctx context.Context, this *attempt, at *cursor, show func(batch) error) error {
		if at.known {
			return c.receive(ctx, this, at, show)
		}
		this.request = first
		stream, err := c.agent.StreamTask(ctx, first)
		return listen(this, stream, err, func(r *pb.StreamTaskResponse) error { return show(r) })
	}
}

// receive is the receiver of a position that is known.
func (c *Client) receive(ctx context.Context, this *attempt, at *cursor, show func(batch) error) error {
	request := &pb.SubscribeTaskRequest{
		TaskId: at.taskID, AfterSequence: at.seen, StopAt: at.stopAt, Deltas: deltaMode(at.deltas),
	}
	this.request = request
	stream, err := c.agent.SubscribeTask(ctx, request)
	return listen(this, stream, err, func(r *pb.SubscribeTaskResponse) error { return show(r) })
}

// checkEnd looks at a stream that has ended with OK. It returns nil if the stream is complete, and io.EOF if it was interrupted.
func (c *Client) checkEnd(ctx context.Context, at *cursor) error {
	switch {
	case at.settled || at.stopAt == pb.StopAt_STOP_AT_CURRENT:
		return nil
	case at.shown || !at.known:
		return io.EOF
	}
	// The caller has named the position: it may be that of the last event.
	response, err := c.agent.GetTask(ctx, &pb.GetTaskRequest{TaskId: at.taskID, View: pb.TaskView_TASK_VIEW_HEADER})
	if err != nil {
		return err
	}
	if terminal(response.GetTask().GetState()) && response.GetTask().GetSequence() <= at.seen {
		return nil
	}
	return io.EOF
}

// onlyEvents leaves the deltas out.
func onlyEvents(updates iter.Seq2[Update, error]) iter.Seq2[*pb.RunEvent, error] {
	return func(yield func(*pb.RunEvent, error) bool) {
		for update, err := range updates {
			if err != nil || update.Event != nil {
				if !yield(update.Event, err) {
					return
				}
			}
		}
	}
}

// textsShown is what the caller has of the texts that are being produced, so that a resumed stream does not repeat them: each
// stream sends each text from its beginning. Lengths are in bytes, by the block of the call that produces it.
type textsShown struct{ shown, told map[block]int64 }

type block struct {
	call   string
	number int32
}

// reopened notes that another stream begins.
func (t *textsShown) reopened() { t.told = map[block]int64{} }

// passed notes an event: when a call is retried, or has ended, its earlier pieces are void.
func (t *textsShown) passed(event *pb.RunEvent) {
	for _, call := range []string{event.GetLlmCallStarted().GetCallId(), event.GetLlmCallCompleted().GetCallId()} {
		of := func(each block, _ int64) bool { return each.call == call }
		maps.DeleteFunc(t.shown, of)
		maps.DeleteFunc(t.told, of)
	}
}

// rest returns what the caller does not have of a piece; nil where that is nothing, or the piece is of a later version.
func (t *textsShown) rest(delta *pb.Delta) *pb.Delta {
	piece := delta.ProtoReflect().WhichOneof(pieces)
	if piece == nil {
		return nil
	}
	of, text := block{delta.GetCallId(), delta.GetBlock()}, delta.ProtoReflect().Get(piece).String()
	if t.shown == nil {
		t.shown = map[block]int64{}
	}
	if _, begun := t.told[of]; begun && delta.GetOffsetBytes() == 0 {
		t.shown[of] = 0 // it begins again in the middle of a stream
	}
	end := delta.GetOffsetBytes() + int64(len(text))
	t.told[of] = end
	had := t.shown[of] - delta.GetOffsetBytes()
	if had >= int64(len(text)) {
		return nil
	}
	t.shown[of] = end
	if had <= 0 {
		return delta
	}
	rest := proto.CloneOf(delta)
	rest.OffsetBytes += had
	rest.ProtoReflect().Set(piece, protoreflect.ValueOfString(text[had:]))
	return rest
}

var pieces = (&pb.Delta{}).ProtoReflect().Descriptor().Oneofs().ByName("piece")
