package plgrpc

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// sessionScript is an agent with sessions whose streams are as written, and whose first answers get lost.
type sessionScript struct {
	pb.UnimplementedSessionServiceServer
	mu       sync.Mutex
	lost     int // answers that still get lost
	requests []proto.Message
	streams  []func(grpc.ServerStreamingServer[pb.StreamTurnResponse]) error
	sessions []func(grpc.ServerStreamingServer[pb.SubscribeSessionResponse]) error
	runtime  []func(grpc.ServerStreamingServer[pb.StreamRuntimeEventsResponse]) error
}

// note keeps a request. It fails while answers get lost.
func (s *sessionScript) note(request proto.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	if s.lost > 0 {
		s.lost--
		return cut
	}
	return nil
}

func (s *sessionScript) CreateSession(_ context.Context, r *pb.CreateSessionRequest) (*pb.CreateSessionResponse, error) {
	return &pb.CreateSessionResponse{Session: &pb.Session{SessionId: r.GetSessionId()}}, s.note(r)
}

func (s *sessionScript) UpdateSession(_ context.Context, r *pb.UpdateSessionRequest) (*pb.UpdateSessionResponse, error) {
	return &pb.UpdateSessionResponse{Session: &pb.Session{Title: r.GetTitle()}}, s.note(r)
}

func (s *sessionScript) GetSession(_ context.Context, r *pb.GetSessionRequest) (*pb.GetSessionResponse, error) {
	return &pb.GetSessionResponse{NextPageToken: "earlier"}, s.note(r)
}

func (s *sessionScript) ListSessions(_ context.Context, r *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	if r.GetPageToken() == "" {
		return &pb.ListSessionsResponse{Sessions: []*pb.Session{{SessionId: "a"}}, NextPageToken: "b"}, s.note(r)
	}
	return &pb.ListSessionsResponse{Sessions: []*pb.Session{{SessionId: "b"}}}, s.note(r)
}

func (s *sessionScript) StartThread(_ context.Context, r *pb.StartThreadRequest) (*pb.StartThreadResponse, error) {
	return &pb.StartThreadResponse{Thread: &pb.Thread{ThreadId: r.GetThreadId()}}, s.note(r)
}

func (s *sessionScript) SubmitTurn(_ context.Context, r *pb.SubmitTurnRequest) (*pb.SubmitTurnResponse, error) {
	return &pb.SubmitTurnResponse{Turn: &pb.Turn{TurnId: r.GetTurnId()}}, s.note(r)
}

func (s *sessionScript) InterruptTurn(_ context.Context, r *pb.InterruptTurnRequest) (*pb.InterruptTurnResponse, error) {
	return &pb.InterruptTurnResponse{Turns: []*pb.Turn{{TurnId: "a"}}}, s.note(r)
}

func (s *sessionScript) PromoteQueuedTurn(_ context.Context, r *pb.PromoteQueuedTurnRequest) (*pb.PromoteQueuedTurnResponse, error) {
	return &pb.PromoteQueuedTurnResponse{Turn: &pb.Turn{TurnId: r.GetTurnId()}}, s.note(r)
}

func (s *sessionScript) RemoveQueuedTurn(_ context.Context, r *pb.RemoveQueuedTurnRequest) (*pb.RemoveQueuedTurnResponse, error) {
	if err := s.note(r); err != nil {
		return nil, err
	}
	started, err := status.New(codes.FailedPrecondition, "turn "+r.GetTurnId()+" has started").WithDetails(
		&errdetails.ErrorInfo{Reason: string(ErrTurnNotQueued), Domain: Domain, Metadata: map[string]string{"turn_id": r.GetTurnId()}},
	)
	if err != nil {
		return nil, err
	}
	return nil, started.Err()
}

func (s *sessionScript) StreamTurn(r *pb.StreamTurnRequest, stream grpc.ServerStreamingServer[pb.StreamTurnResponse]) error {
	_ = s.note(r)
	this := s.streams[0]
	s.streams = s.streams[1:]
	return this(stream)
}

func (s *sessionScript) SubscribeSession(
	r *pb.SubscribeSessionRequest, stream grpc.ServerStreamingServer[pb.SubscribeSessionResponse],
) error {
	_ = s.note(r)
	this := s.sessions[0]
	s.sessions = s.sessions[1:]
	return this(stream)
}

func (s *sessionScript) DeleteSession(_ context.Context, r *pb.DeleteSessionRequest) (*pb.DeleteSessionResponse, error) {
	return &pb.DeleteSessionResponse{TurnCount: 3}, s.note(r)
}

func (s *sessionScript) UpdateQueuedTurn(_ context.Context, r *pb.UpdateQueuedTurnRequest) (*pb.UpdateQueuedTurnResponse, error) {
	return &pb.UpdateQueuedTurnResponse{Turn: &pb.Turn{TurnId: r.GetTurnId()}}, s.note(r)
}

func (s *sessionScript) RollbackThread(_ context.Context, r *pb.RollbackThreadRequest) (*pb.RollbackThreadResponse, error) {
	return &pb.RollbackThreadResponse{Thread: &pb.Thread{RollbackCount: 1}}, s.note(r)
}

func (s *sessionScript) ResumeThread(_ context.Context, r *pb.ResumeThreadRequest) (*pb.ResumeThreadResponse, error) {
	return &pb.ResumeThreadResponse{Resumed: []*pb.Turn{{TurnId: "a"}}}, s.note(r)
}

func (s *sessionScript) StreamRuntimeEvents(
	r *pb.StreamRuntimeEventsRequest, stream grpc.ServerStreamingServer[pb.StreamRuntimeEventsResponse],
) error {
	_ = s.note(proto.CloneOf(r))
	this := s.runtime[0]
	s.runtime = s.runtime[1:]
	return this(stream)
}

func serveSessions(t *testing.T) (*sessionScript, *Sessions) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, server := &sessionScript{}, grpc.NewServer()
	pb.RegisterSessionServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	client, err := Dial(listener.Addr().String(), WithPatience(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Stop() })
	return s, client.Sessions()
}

// turnOf is a stream that sends events of a turn, of which 9 is the last, and ends with err.
func turnOf(err error, sequences ...int64) func(grpc.ServerStreamingServer[pb.StreamTurnResponse]) error {
	return func(stream grpc.ServerStreamingServer[pb.StreamTurnResponse]) error {
		if sent := stream.Send(&pb.StreamTurnResponse{Events: call{sequences: sequences}.events()}); sent != nil {
			return sent
		}
		return err
	}
}

// sessionOf is a stream that sends segments and ends with err.
func sessionOf(err error, segments ...*pb.SessionSegment) func(grpc.ServerStreamingServer[pb.SubscribeSessionResponse]) error {
	return func(stream grpc.ServerStreamingServer[pb.SubscribeSessionResponse]) error {
		if sent := stream.Send(&pb.SubscribeSessionResponse{Segments: segments}); sent != nil {
			return sent
		}
		return err
	}
}

// runtimeEvents is a stream that sends events of the Agent Runtime contract, and ends with err.
func runtimeEvents(err error, sequences ...int64) func(grpc.ServerStreamingServer[pb.StreamRuntimeEventsResponse]) error {
	return func(stream grpc.ServerStreamingServer[pb.StreamRuntimeEventsResponse]) error {
		response := &pb.StreamRuntimeEventsResponse{}
		for _, sequence := range sequences {
			response.Events = append(response.Events, &pb.RuntimeEvent{Sequence: sequence})
		}
		if sent := stream.Send(response); sent != nil {
			return sent
		}
		return err
	}
}

func TestASubmittedTurnWhoseAnswersGetLostIsOneTurn(t *testing.T) {
	t.Parallel()
	s, chat := serveSessions(t)
	s.lost = 2
	turn, err := chat.Submit(t.Context(), "s", Text("hello"), InThread("side"), WhenBusy(pb.WhenBusy_WHEN_BUSY_REJECT))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.requests) != 3 || turn.GetTurnId() == "" {
		t.Fatalf("%d requests, turn %q", len(s.requests), turn.GetTurnId())
	}
	for _, request := range s.requests {
		sent := request.(*pb.SubmitTurnRequest)
		if sent.GetTurnId() != turn.GetTurnId() || sent.GetThreadId() != "side" || sent.GetWhenBusy() != pb.WhenBusy_WHEN_BUSY_REJECT {
			t.Errorf("sent %v", sent)
		}
	}
	named, err := chat.Submit(t.Context(), "s", Text("hello"), TurnID("mine"))
	if err != nil || named.GetTurnId() != "mine" {
		t.Errorf("%v, %v", named, err)
	}
}

func TestNewSessionsAndThreadsHaveTheirIdsInEveryAttempt(t *testing.T) {
	t.Parallel()
	s, chat := serveSessions(t)
	s.lost = 1
	session, err := chat.Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.lost = 1
	request := &pb.StartThreadRequest{SessionId: "s"}
	thread, err := chat.StartThread(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{
		s.requests[0].(*pb.CreateSessionRequest).GetSessionId(), s.requests[1].(*pb.CreateSessionRequest).GetSessionId(),
		s.requests[2].(*pb.StartThreadRequest).GetThreadId(), s.requests[3].(*pb.StartThreadRequest).GetThreadId(),
	}
	wanted := []string{session.GetSessionId(), session.GetSessionId(), thread.GetThreadId(), thread.GetThreadId()}
	if !slices.Equal(ids, wanted) || slices.Contains(ids, "") {
		t.Errorf("sent %q, got %q", ids, wanted)
	}
	if request.GetThreadId() != "" {
		t.Error("the caller's request was changed")
	}
}

func TestAllSessionsAreListedPageByPage(t *testing.T) {
	t.Parallel()
	_, chat := serveSessions(t)
	var ids []string
	for session, err := range chat.List(t.Context(), &pb.ListSessionsRequest{IncludeArchived: true}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, session.GetSessionId())
	}
	if !slices.Equal(ids, []string{"a", "b"}) {
		t.Errorf("listed %q", ids)
	}
}

func TestSessionsAreListedWithoutARequest(t *testing.T) {
	t.Parallel()
	_, chat := serveSessions(t)
	count := 0
	for _, err := range chat.List(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != 2 {
		t.Errorf("listed %d", count)
	}
}

func TestCallsAboutTurnsReturnTurnsOrReasons(t *testing.T) {
	t.Parallel()
	_, chat := serveSessions(t)
	interrupted, err := chat.Interrupt(t.Context(), &pb.InterruptTurnRequest{SessionId: "s"})
	if err != nil || len(interrupted) != 1 {
		t.Errorf("interrupted %v, %v", interrupted, err)
	}
	promoted, err := chat.Promote(t.Context(), "s", "b")
	if err != nil || promoted.GetTurnId() != "b" {
		t.Errorf("promoted %v, %v", promoted, err)
	}
	_, err = chat.Remove(t.Context(), "s", "a")
	if !errors.Is(err, ErrTurnNotQueued) || FromError(err).Metadata["turn_id"] != "a" {
		t.Errorf("removed: %v", err)
	}
	updated, err := chat.Update(t.Context(), &pb.UpdateSessionRequest{SessionId: "s", Title: proto.String("Trip")})
	if err != nil || updated.GetTitle() != "Trip" {
		t.Errorf("updated %v, %v", updated, err)
	}
	page, err := chat.Get(t.Context(), &pb.GetSessionRequest{SessionId: "s"})
	if err != nil || page.GetNextPageToken() != "earlier" {
		t.Errorf("got %v, %v", page, err)
	}
}

func TestCallsAboutThreadsReturnWhatTheyChanged(t *testing.T) {
	t.Parallel()
	s, chat := serveSessions(t)
	replaced, err := chat.ReplaceInput(t.Context(), "s", "a", Text("another"))
	if err != nil || replaced.GetTurnId() != "a" {
		t.Errorf("replaced %v, %v", replaced, err)
	}
	if messages := s.requests[0].(*pb.UpdateQueuedTurnRequest).GetMessages(); len(messages) != 1 || TextOf(messages[0].GetParts()) != "another" {
		t.Errorf("sent %v", messages)
	}
	s.lost = 1
	thread, err := chat.RollBack(t.Context(), "s", "a", "wrong")
	if err != nil || thread.GetRollbackCount() != 1 || !proto.Equal(s.requests[1], s.requests[2]) {
		t.Errorf("rolled back %v, %v", thread, err)
	}
	resumed, err := chat.Resume(t.Context(), &pb.ResumeThreadRequest{SessionId: "s"})
	if err != nil || len(resumed.GetResumed()) != 1 {
		t.Errorf("resumed %v, %v", resumed, err)
	}
	branch := &pb.StartThreadRequest{SessionId: "s", FromThreadId: "default", FromTurnId: "a"}
	if _, err := chat.StartThread(t.Context(), branch); err != nil {
		t.Error(err)
	}
	if sent := s.requests[4].(*pb.StartThreadRequest); sent.GetFromThreadId() != "default" || sent.GetFromTurnId() != "a" {
		t.Errorf("sent %v", sent)
	}
	deleted, err := chat.Delete(t.Context(), "s")
	if err != nil || deleted.GetTurnCount() != 3 {
		t.Errorf("deleted %v, %v", deleted, err)
	}
}

func TestTheStreamOfRuntimeEventsResumesAfterItsLastSequence(t *testing.T) {
	t.Parallel()
	for _, stopAtEnd := range []bool{false, true} {
		s, chat := serveSessions(t)
		s.runtime = append(s.runtime, runtimeEvents(cut), runtimeEvents(cut, 16, 17), runtimeEvents(cut, 17, 32))
		if !stopAtEnd {
			s.runtime = append(s.runtime, runtimeEvents(nil)) // ends too early
		}
		s.runtime = append(s.runtime, runtimeEvents(nil, 48))
		request := &pb.StreamRuntimeEventsRequest{SessionId: "s", AfterSequence: 3, StopAtEnd: stopAtEnd}
		var sequences []int64
		for event, err := range chat.RuntimeEvents(t.Context(), request) {
			if err != nil {
				t.Fatal(err)
			}
			if sequences = append(sequences, event.GetSequence()); event.GetSequence() == 48 && !stopAtEnd {
				break
			}
		}
		if !slices.Equal(sequences, []int64{16, 17, 32, 48}) || len(s.runtime) != 0 {
			t.Errorf("read %v, %d streams are left", sequences, len(s.runtime))
		}
		var after []int64
		for _, sent := range s.requests {
			after = append(after, sent.(*pb.StreamRuntimeEventsRequest).GetAfterSequence())
		}
		if !slices.Equal(after[:4], []int64{3, 3, 17, 32}) || request.GetAfterSequence() != 3 {
			t.Errorf("requested the events after %v", after)
		}
	}
}

func TestTheStreamOfATurnResumesAfterItsLastEvent(t *testing.T) {
	t.Parallel()
	s, chat := serveSessions(t)
	s.streams = append(s.streams, turnOf(cut), turnOf(cut, 4, 5), turnOf(nil, 5, 6), turnOf(nil, 7, 8, 9))
	sequences, err := read(chat.Stream(t.Context(), "s", "t"))
	if err != nil || !slices.Equal(sequences, []int64{4, 5, 6, 7, 8, 9}) {
		t.Fatalf("read %v, %v", sequences, err)
	}
	var after []int64
	for _, request := range s.requests {
		after = append(after, request.(*pb.StreamTurnRequest).GetAfterSequence())
	}
	if !slices.Equal(after, []int64{0, 0, 5, 6}) {
		t.Errorf("requested the events after %v", after)
	}
}

func TestTheStreamOfASessionResumesAfterItsLastPosition(t *testing.T) {
	t.Parallel()
	s, chat := serveSessions(t)
	own := func(first int64, count int) *pb.SessionSegment {
		return &pb.SessionSegment{FirstPosition: first, SessionEvents: slices.Repeat([]*pb.SessionEvent{{}}, count)}
	}
	task := func(first int64, sequences ...int64) *pb.SessionSegment {
		return &pb.SessionSegment{FirstPosition: first, TaskId: "t", Events: call{sequences: sequences}.events()}
	}
	s.sessions = append(s.sessions,
		sessionOf(cut),
		sessionOf(cut, own(4, 2), task(6, 1)),
		sessionOf(nil, task(6, 1, 2)), // has an event that was sent before, and ends too early
		sessionOf(cut, task(8, 3), own(9, 1)),
	)
	var positions, sequences []int64
	for item, err := range chat.Subscribe(t.Context(), "s", 3) {
		if err != nil {
			t.Fatal(err)
		}
		positions = append(positions, item.Position)
		if item.Event != nil {
			sequences = append(sequences, item.Event.GetSequence())
		}
		if item.Position == 9 {
			break
		}
	}
	if !slices.Equal(positions, []int64{4, 5, 6, 7, 8, 9}) || !slices.Equal(sequences, []int64{1, 2, 3}) {
		t.Fatalf("read positions %v, sequences %v", positions, sequences)
	}
	var after []int64
	for _, request := range s.requests {
		after = append(after, request.(*pb.SubscribeSessionRequest).GetAfterPosition())
	}
	if !slices.Equal(after, []int64{3, 3, 6, 7}) {
		t.Errorf("requested the events after %v", after)
	}
}

func TestTheStreamOfASessionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s, chat := serveSessions(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.sessions = append(s.sessions, func(stream grpc.ServerStreamingServer[pb.SubscribeSessionResponse]) error {
		cancel()
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	var last error
	for _, err := range chat.Subscribe(ctx, "s", 0) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("ended with %v", last)
	}
}

func TestTheStreamOfASessionHasTheArgumentsOfItsActions(t *testing.T) {
	t.Parallel()
	s, chat := serveSessions(t)
	events := []*pb.RunEvent{
		{TaskId: "t", Sequence: 1, Payload: &pb.RunEvent_LlmCallCompleted{LlmCallCompleted: &pb.LlmCallCompleted{ToolCalls: []*pb.ToolCall{
			{CallId: "c", Arguments: &pb.Payload{Value: &pb.Payload_Json{Json: `{"a":1}`}}},
		}}}},
		{TaskId: "t", Sequence: 2, ActionId: "x", Payload: &pb.RunEvent_ActionRequested{
			ActionRequested: &pb.ActionRequested{Action: &pb.RunAction{CallId: "c"}},
		}},
	}
	s.sessions = append(s.sessions,
		sessionOf(cut, &pb.SessionSegment{FirstPosition: 1, TaskId: "t", Events: events[:1]}),
		sessionOf(cut, &pb.SessionSegment{FirstPosition: 2, TaskId: "t", Events: events[1:]}),
	)
	for item, err := range chat.Subscribe(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Position == 1 {
			continue
		}
		if found := item.Event.GetActionRequested().GetAction().GetPayload().GetJson(); found != `{"arguments":{"a":1}}` {
			t.Errorf("the arguments are %q", found)
		}
		break
	}
}
