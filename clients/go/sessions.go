package plgrpc

import (
	"cmp"
	"context"
	"io"
	"iter"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

// Sessions are the caller's conversations with an agent. A session has threads, and a thread has turns: inputs that run one after the
// other. Agents of other systems have no sessions: their calls fail with [ErrUnimplemented].
type Sessions struct {
	client  *Client
	service pb.SessionServiceClient
}

// Sessions returns the sessions of the caller with the agent. It does no I/O.
func (c *Client) Sessions() *Sessions {
	return &Sessions{c, pb.NewSessionServiceClient(c.conn)}
}

// Create creates a session, or returns the existing one with that id unchanged. An empty id, or a nil request, creates an id.
func (s *Sessions) Create(ctx context.Context, request *pb.CreateSessionRequest) (*pb.Session, error) {
	request = copyOf(request)
	request.SessionId = cmp.Or(request.SessionId, newID())
	response, err := unary(ctx, s.client.channel, s.service.CreateSession, request)
	return response.GetSession(), err
}

// Update changes the fields of a session that are set. It fails with [ErrSessionNotFound].
func (s *Sessions) Update(ctx context.Context, request *pb.UpdateSessionRequest) (*pb.Session, error) {
	response, err := unary(ctx, s.client.channel, s.service.UpdateSession, request)
	return response.GetSession(), err
}

// Get returns a session and its newest turns, of one thread or of all, oldest first; NextPageToken requests the turns before these. It
// fails with [ErrSessionNotFound].
func (s *Sessions) Get(ctx context.Context, request *pb.GetSessionRequest) (*pb.GetSessionResponse, error) {
	return unary(ctx, s.client.channel, s.service.GetSession, request)
}

// List yields the caller's sessions without their threads and turns, last changed first, page after page. An error is yielded once, as
// the last value.
func (s *Sessions) List(ctx context.Context, request *pb.ListSessionsRequest) iter.Seq2[*pb.Session, error] {
	return pages(request, request.GetPageToken(), func(r *pb.ListSessionsRequest, token string) ([]*pb.Session, string, error) {
		r.PageToken = token
		response, err := unary(ctx, s.client.channel, s.service.ListSessions, r)
		return response.GetSessions(), response.GetNextPageToken(), err
	})
}

// Delete deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored state of the agent for the session.
// Open turns are canceled first. It fails with [ErrSessionNotFound], also for a repetition after a response that got lost, and with
// [ErrThreadBusy] if a run does not stop in time: repeat the call then.
func (s *Sessions) Delete(ctx context.Context, sessionID string) (*pb.DeleteSessionResponse, error) {
	return unary(ctx, s.client.channel, s.service.DeleteSession, &pb.DeleteSessionRequest{SessionId: sessionID})
}

// StartThread starts a thread, or returns the existing one with that id unchanged. An empty id creates an id. The session is created if
// necessary.
//
// The conversation of the thread is empty, or with FromThreadId that of another thread, up to and with the turn FromTurnId; without it,
// up to the last turn that has ended. StartThread fails with [ErrThreadNotFound] or [ErrTurnNotFound] if there is no such thread or turn.
func (s *Sessions) StartThread(ctx context.Context, request *pb.StartThreadRequest) (*pb.Thread, error) {
	request = copyOf(request)
	request.ThreadId = cmp.Or(request.ThreadId, newID())
	response, err := unary(ctx, s.client.channel, s.service.StartThread, request)
	return response.GetThread(), err
}

// TurnOption changes one request of [Sessions.Submit].
type TurnOption func(*pb.SubmitTurnRequest)

// InThread submits to that thread; by default to the thread "default", which always exists.
func InThread(id string) TurnOption {
	return func(request *pb.SubmitTurnRequest) { request.ThreadId = id }
}

// TurnID names the turn, for a repetition from another process: the same id in a session is the same turn, whatever else the repetition
// contains. At most 128 bytes. Without it each turn gets an id of its own.
func TurnID(id string) TurnOption {
	return func(request *pb.SubmitTurnRequest) { request.TurnId = id }
}

// WhenBusy selects what happens if the thread has an active turn; by default the new turn waits.
func WhenBusy(policy pb.WhenBusy) TurnOption {
	return func(request *pb.SubmitTurnRequest) { request.WhenBusy = policy }
}

// Submit submits an input to a thread, and returns its turn as soon as it is in the agent's log. If the last task of the thread waits for
// input, the turn continues it. The session is created if necessary. Interrupted calls are repeated with the same turn id, so that an
// input is never two turns.
//
// The input must not name a task or a session. Submit fails with [ErrThreadBusy] if the policy is WHEN_BUSY_REJECT and the thread has an
// active turn, and with [ErrThreadNotFound] for a thread that was not started.
func (s *Sessions) Submit(ctx context.Context, sessionID string, input *pb.TaskInput, options ...TurnOption) (*pb.Turn, error) {
	request := &pb.SubmitTurnRequest{SessionId: sessionID, Input: input}
	for _, option := range options {
		option(request)
	}
	request.TurnId = cmp.Or(request.TurnId, newID())
	response, err := unary(ctx, s.client.channel, s.service.SubmitTurn, request)
	return response.GetTurn(), err
}

// Stream yields the events of a turn, also of one that has not started, until the turn has ended. It resumes after interruptions as
// [Client.Stream] does: no event is delivered twice, and none is lost. It fails with [ErrSessionNotFound] or [ErrTurnNotFound].
func (s *Sessions) Stream(ctx context.Context, sessionID, turnID string) iter.Seq2[*pb.RunEvent, error] {
	return onlyEvents(s.stream(ctx, sessionID, turnID, false))
}

// StreamUpdates is [Sessions.Stream] with the text that models produce, as in [Client.StreamUpdates].
func (s *Sessions) StreamUpdates(ctx context.Context, sessionID, turnID string) iter.Seq2[Update, error] {
	return s.stream(ctx, sessionID, turnID, true)
}

func (s *Sessions) stream(ctx context.Context, sessionID, turnID string, deltas bool) iter.Seq2[Update, error] {
	start := cursor{stopAt: pb.StopAt_STOP_AT_INTERRUPTED, deltas: deltas}
	return s.client.follow(ctx, start, func(ctx context.Context, this *attempt, at *cursor, show func(batch) error) error {
		request := &pb.StreamTurnRequest{
			SessionId: sessionID, TurnId: turnID, AfterSequence: at.seen, Deltas: deltaMode(at.deltas),
		}
		this.request = request
		stream, err := s.service.StreamTurn(ctx, request)
		return listen(this, stream, err, func(r *pb.StreamTurnResponse) error { return show(r) })
	})
}

// Interrupt cancels the active turns of a thread and its task that waits for input, or the turn that the request names; with ClearQueue
// also the queued turns of the thread. It returns the turns that were open, as they are after the call: none if there was nothing to
// interrupt. It fails with [ErrSessionNotFound] or [ErrTurnNotFound].
//
// A request that names no turn interrupts what is active when it arrives. If its response gets lost, the repetition may also interrupt a
// turn that has started meanwhile.
func (s *Sessions) Interrupt(ctx context.Context, request *pb.InterruptTurnRequest) ([]*pb.Turn, error) {
	response, err := unary(ctx, s.client.channel, s.service.InterruptTurn, request)
	return response.GetTurns(), err
}

// Promote puts a queued turn at the front of its thread's queue. It fails with [ErrTurnNotQueued] if the turn has started or ended, and
// with [ErrTurnNotFound].
func (s *Sessions) Promote(ctx context.Context, sessionID, turnID string) (*pb.Turn, error) {
	request := &pb.PromoteQueuedTurnRequest{SessionId: sessionID, TurnId: turnID}
	response, err := unary(ctx, s.client.channel, s.service.PromoteQueuedTurn, request)
	return response.GetTurn(), err
}

// Remove removes a turn from the queue: its task is canceled. It fails as [Sessions.Promote] does.
func (s *Sessions) Remove(ctx context.Context, sessionID, turnID string) (*pb.Turn, error) {
	request := &pb.RemoveQueuedTurnRequest{SessionId: sessionID, TurnId: turnID}
	response, err := unary(ctx, s.client.channel, s.service.RemoveQueuedTurn, request)
	return response.GetTurn(), err
}

// ReplaceInput replaces the messages of a queued turn by those of the input, whose other fields are ignored. It fails as
// [Sessions.Promote] does.
func (s *Sessions) ReplaceInput(ctx context.Context, sessionID, turnID string, input *pb.TaskInput) (*pb.Turn, error) {
	request := &pb.UpdateQueuedTurnRequest{SessionId: sessionID, TurnId: turnID, Messages: input.GetMessages()}
	response, err := unary(ctx, s.client.channel, s.service.UpdateQueuedTurn, request)
	return response.GetTurn(), err
}

// RollBack takes a turn and all later ones out of the conversation of their thread, and returns the thread. Active turns among them are
// canceled. Nothing is deleted: Turn.RolledBack marks them. Repeating the call changes nothing.
//
// It fails with [ErrSessionNotFound] or [ErrTurnNotFound], and with [ErrInvalidArgument] for a turn that waits in the queue.
func (s *Sessions) RollBack(ctx context.Context, sessionID, turnID, reason string) (*pb.Thread, error) {
	request := &pb.RollbackThreadRequest{SessionId: sessionID, TurnId: turnID, Reason: reason}
	response, err := unary(ctx, s.client.channel, s.service.RollbackThread, request)
	return response.GetThread(), err
}

// Resume ends the pauses of the active turns of a thread, and returns what the thread still waits for. A thread continues by itself
// after a restart of the agent. It fails with [ErrSessionNotFound] or [ErrThreadNotFound].
func (s *Sessions) Resume(ctx context.Context, request *pb.ResumeThreadRequest) (*pb.ResumeThreadResponse, error) {
	return unary(ctx, s.client.channel, s.service.ResumeThread, request)
}

// SessionItem is an event of the session itself, or of one of its tasks. One of the two is set.
type SessionItem struct {
	Position     int64 // among all events of the session and of its tasks, from 1
	SessionEvent *pb.SessionEvent
	Event        *pb.RunEvent
}

// Subscribe yields everything that happens in a session after a position (0: from the beginning), in the order of positions: first what
// is stored, then what comes. It ends with ctx, or with an error as the last value: [ErrSessionNotFound], or [ErrSequenceOutOfRange] for
// a position that the session does not have. It resumes after interruptions: no event is delivered twice, and none is lost.
func (s *Sessions) Subscribe(ctx context.Context, sessionID string, after int64) iter.Seq2[SessionItem, error] {
	return func(yield func(SessionItem, error) bool) {
		reader := sessionReader{position: after, references: map[string]*References{}}
		err := s.client.persist(ctx, func(ctx context.Context, this *attempt) error {
			request := &pb.SubscribeSessionRequest{SessionId: sessionID, AfterPosition: reader.position}
			this.request = request
			stream, err := s.service.SubscribeSession(ctx, request)
			return listen(this, stream, err, func(response *pb.SubscribeSessionResponse) error {
				for item := range reader.items(response) {
					if err := ctx.Err(); err != nil {
						return err
					}
					this.news = true
					if !yield(item, nil) {
						return errStopped
					}
				}
				return nil
			})
		})
		if err != nil {
			yield(SessionItem{}, err)
		}
	}
}

// RuntimeEvents yields the facts of [Sessions.Subscribe] as events of the Agent Runtime contract, after request.AfterSequence (0: from
// the beginning). Sequences ascend, with gaps. With StopAtEnd the stream ends after the last event that exists at the time of the call;
// otherwise it ends as Subscribe does. It resumes after interruptions: no event is delivered twice, and none is lost.
func (s *Sessions) RuntimeEvents(ctx context.Context, request *pb.StreamRuntimeEventsRequest) iter.Seq2[*pb.RuntimeEvent, error] {
	return func(yield func(*pb.RuntimeEvent, error) bool) {
		next := copyOf(request)
		err := s.client.persist(ctx, func(ctx context.Context, this *attempt) error {
			this.request = next
			stream, err := s.service.StreamRuntimeEvents(ctx, next)
			err = listen(this, stream, err, func(response *pb.StreamRuntimeEventsResponse) error {
				for _, event := range response.GetEvents() {
					if err := ctx.Err(); err != nil {
						return err
					}
					if event.GetSequence() <= next.AfterSequence {
						continue
					}
					next.AfterSequence, this.news = event.GetSequence(), true
					if !yield(event, nil) {
						return errStopped
					}
				}
				return nil
			})
			if err == io.EOF && next.StopAtEnd {
				return nil
			}
			return err
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// sessionReader is what the reader of a session has, through all its streams.
type sessionReader struct {
	position   int64
	references map[string]*References // by task; of tasks that have not ended
}

// items yields what the reader does not have yet, with the values that events refer to.
func (r *sessionReader) items(response *pb.SubscribeSessionResponse) iter.Seq[SessionItem] {
	return func(yield func(SessionItem) bool) {
		for _, segment := range response.GetSegments() {
			position := segment.GetFirstPosition()
			for _, event := range segment.GetSessionEvents() {
				if r.advance(position) && !yield(SessionItem{Position: position, SessionEvent: event}) {
					return
				}
				position++
			}
			for _, event := range segment.GetEvents() {
				if r.advance(position) && !yield(SessionItem{Position: position, Event: r.resolve(event)}) {
					return
				}
				position++
			}
		}
	}
}

// advance moves on to a position. It reports whether the reader does not have its event yet. Positions may be missing: a memory store
// drops the events of old tasks.
func (r *sessionReader) advance(position int64) bool {
	if position <= r.position {
		return false
	}
	r.position = position
	return true
}

func (r *sessionReader) resolve(event *pb.RunEvent) *pb.RunEvent {
	known := r.references[event.GetTaskId()]
	if known == nil {
		known = &References{}
		r.references[event.GetTaskId()] = known
	}
	if terminal(event.GetTaskStatus().GetNewState()) {
		delete(r.references, event.GetTaskId())
	}
	return known.Resolve(event)
}
