package plgrpc

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// script is an agent whose calls go as written: each one sends some events and ends with an error, or with none.
type script struct {
	pb.UnimplementedAgentServiceServer
	mu    sync.Mutex
	calls []call
	made  []string // StreamTask by request id, SubscribeTask by position
	after []int64
	tasks []string // ids that the client has given
	sends []*pb.SendTaskRequest
	hung  chan struct{} // closed when the caller of a call that hangs has gone
	ended bool          // what GetTask says of the task: whether it has ended, at event 9
}

type call struct {
	sequences []int64
	deltas    []*pb.Delta
	err       error
	hangs     bool          // until the caller has gone
	quiet     time.Duration // before the end
}

func (s *script) next(what string, after int64) call {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made, s.after = append(s.made, what), append(s.after, after)
	this := s.calls[0]
	if len(s.calls) > 1 {
		s.calls = s.calls[1:]
	}
	return this
}

func (c call) events() []*pb.RunEvent {
	var events []*pb.RunEvent
	for _, sequence := range c.sequences {
		events = append(events, &pb.RunEvent{TaskId: "t", Sequence: sequence, Last: sequence == 9 || sequence == 11})
	}
	return events
}

func (s *script) sent(input *pb.TaskInput) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks = append(s.tasks, input.GetTaskId())
}

func (s *script) GetTask(context.Context, *pb.GetTaskRequest) (*pb.GetTaskResponse, error) {
	task := &pb.Task{Sequence: 9, State: pb.TaskState_TASK_STATE_WORKING}
	if s.ended {
		task.State = pb.TaskState_TASK_STATE_COMPLETED
	}
	return &pb.GetTaskResponse{Task: task}, nil
}

func (s *script) SendTask(_ context.Context, request *pb.SendTaskRequest) (*pb.SendTaskResponse, error) {
	s.sent(request.GetInput())
	s.sends = append(s.sends, request)
	return &pb.SendTaskResponse{Task: &pb.Task{Id: "t"}}, s.next(request.GetRequestId(), 0).err
}

func (s *script) StreamTask(request *pb.StreamTaskRequest, stream grpc.ServerStreamingServer[pb.StreamTaskResponse]) error {
	s.sent(request.GetInput())
	this := s.next(request.GetRequestId(), 0)
	if err := stream.Send(&pb.StreamTaskResponse{Events: this.events(), Deltas: this.deltas}); err != nil {
		return err
	}
	if this.hangs {
		<-stream.Context().Done()
		close(s.hung)
	}
	time.Sleep(this.quiet)
	return this.err
}

func (s *script) SubscribeTask(request *pb.SubscribeTaskRequest, stream grpc.ServerStreamingServer[pb.SubscribeTaskResponse]) error {
	this := s.next("subscribe", request.GetAfterSequence())
	position := &pb.WatchPosition{Revision: request.GetAfterSequence(), Head: 9, CaughtUp: true} // which is no progress
	if err := stream.Send(&pb.SubscribeTaskResponse{Events: this.events(), Deltas: this.deltas, Position: position}); err != nil {
		return err
	}
	time.Sleep(this.quiet)
	return this.err
}

func serve(t *testing.T, calls ...call) (*script, *Client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, server := &script{calls: calls, hung: make(chan struct{})}, grpc.NewServer()
	pb.RegisterAgentServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	client, err := Dial(listener.Addr().String(), WithPatience(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Stop() })
	return s, client
}

func read(events func(func(*pb.RunEvent, error) bool)) (sequences []int64, err error) {
	for event, failure := range events {
		if failure != nil {
			return sequences, failure
		}
		sequences = append(sequences, event.GetSequence())
	}
	return sequences, nil
}

var cut = status.Error(codes.Unavailable, "cut")

func TestAStreamGoesOnAfterEveryCutWithoutGapOrRepetition(t *testing.T) {
	t.Parallel()
	s, client := serve(t,
		call{err: cut},
		call{sequences: []int64{4, 5}, err: cut},
		call{sequences: []int64{5, 6}, err: cut}, // one too many
		call{err: cut},
		call{err: cut},
		call{sequences: []int64{7}, err: cut},
		call{err: cut},
		call{sequences: []int64{8, 9}, err: cut}, // only the end is missing
	)
	shown, err := read(client.Stream(t.Context(), Text("go"), RequestID("r")))
	if want := []int64{4, 5, 6, 7, 8, 9}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("shown %v, %v; want %v", shown, err, want)
	}
	if want := []string{"r", "r", "subscribe", "subscribe", "subscribe", "subscribe", "subscribe", "subscribe"}; !slices.Equal(s.made, want) {
		t.Errorf("calls %v, want %v", s.made, want)
	}
	if want := []int64{0, 0, 5, 6, 6, 6, 7, 7}; !slices.Equal(s.after, want) {
		t.Errorf("positions %v, want %v", s.after, want)
	}
}

func TestAStreamThatGetsNoFurtherIsGivenUpWhenThePatienceHasRunOut(t *testing.T) {
	t.Parallel()
	s, client := serve(t, call{sequences: []int64{1}, err: cut}, call{err: cut})
	began := time.Now()
	shown, err := read(client.Stream(t.Context(), Text("go")))
	if !errors.Is(err, ErrUnavailable) || !slices.Equal(shown, []int64{1}) {
		t.Errorf("shown %v, %v", shown, err)
	}
	if took := time.Since(began); took < time.Second || took > 3*time.Second {
		t.Errorf("given up after %v", took)
	}
	if len(s.made) < 4 || len(s.made) > 8 { // pauses of 0.1, 0.2, 0.4, ... s, each shortened by up to a half
		t.Errorf("%d calls", len(s.made))
	}
	if failure := FromError(err); failure.TaskID != "t" {
		t.Errorf("%v is not about the task", err)
	}
}

func TestWithoutPatienceNothingIsTriedAgain(t *testing.T) {
	s, client := serve(t, call{sequences: []int64{1}, err: cut}, call{})
	client.patience = 0
	if shown, err := read(client.Stream(t.Context(), Text("go"))); !errors.Is(err, ErrUnavailable) || len(shown) != 1 || len(s.made) != 1 {
		t.Errorf("shown %v, %v after %d calls", shown, err, len(s.made))
	}
}

func TestEveryKindOfCutIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled, codes.OK} {
		s, client := serve(t, call{sequences: []int64{1}, err: status.Error(code, "")}, call{sequences: []int64{2, 9}})
		client.patience = 200 * time.Millisecond
		shown, _ := read(client.Stream(t.Context(), Text("go")))
		if want := []int64{1, 2}; !slices.Equal(shown, want) || s.made[1] != "subscribe" {
			t.Errorf("%v: shown %v by %v", code, shown, s.made)
		}
	}
}

func TestAnAnswerEndsTheCall(t *testing.T) {
	t.Parallel()
	info := &errdetails.ErrorInfo{Reason: "SOMETHING", Domain: Domain}
	for _, code := range []codes.Code{codes.Internal, codes.Unknown, codes.Canceled, codes.ResourceExhausted, codes.NotFound} {
		s, client := serve(t, call{sequences: []int64{1}, err: failed(t, code, info)})
		if _, err := read(client.Stream(t.Context(), Text("go"))); !errors.Is(err, Reason("SOMETHING")) || len(s.made) != 1 {
			t.Errorf("%v: %v after %d calls", code, err, len(s.made))
		}
	}
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(300 * time.Millisecond)}
	s, client := serve(t, call{err: failed(t, codes.Unavailable, info, wait)}, call{})
	began := time.Now()
	if _, err := client.Send(t.Context(), Text("go")); err != nil || len(s.made) != 2 || time.Since(began) < 300*time.Millisecond {
		t.Errorf("%v after %d calls and %v", err, len(s.made), time.Since(began))
	}
}

func TestAPositionThatTheLogNoLongerHasIsAnAnswer(t *testing.T) {
	t.Parallel()
	info := &errdetails.ErrorInfo{Reason: "POSITION_COMPACTED", Domain: Domain, Metadata: map[string]string{"first_sequence": "40"}}
	s, client := serve(t, call{err: failed(t, codes.OutOfRange, info)})
	_, err := read(client.Subscribe(t.Context(), &pb.SubscribeTaskRequest{TaskId: "t", AfterSequence: 3}))
	if !errors.Is(err, ErrPositionCompacted) || FromError(err).Metadata["first_sequence"] != "40" || len(s.made) != 1 {
		t.Errorf("%v after %d calls", err, len(s.made))
	}
}

func TestAStreamThatStaysOpenIsProgress(t *testing.T) {
	t.Parallel()
	quiet := call{err: cut, quiet: steady + 50*time.Millisecond}
	s, client := serve(t, call{sequences: []int64{1}, err: cut}, quiet, quiet, call{sequences: []int64{2}, err: cut}, call{err: cut})
	client.patience = 500 * time.Millisecond
	if shown, _ := read(client.Stream(t.Context(), Text("go"))); !slices.Equal(shown, []int64{1, 2}) {
		t.Errorf("shown %v by %d calls", shown, len(s.made))
	}
}

func TestWhatNoRepetitionMakesRightEndsAtOnce(t *testing.T) {
	s, client := serve(t, call{sequences: []int64{1}, err: failed(t, codes.NotFound, &errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: Domain})})
	if _, err := read(client.Stream(t.Context(), Text("go"))); !errors.Is(err, ErrTaskNotFound) || len(s.made) != 1 {
		t.Errorf("%v after %d calls", err, len(s.made))
	}
}

func TestAGapIsAnError(t *testing.T) {
	for name, events := range map[string]func(*Client) func(func(*pb.RunEvent, error) bool){
		"stream": func(c *Client) func(func(*pb.RunEvent, error) bool) { return c.Stream(t.Context(), Text("go")) },
		"subscribe": func(c *Client) func(func(*pb.RunEvent, error) bool) {
			return c.Subscribe(t.Context(), &pb.SubscribeTaskRequest{TaskId: "t"})
		},
	} {
		_, client := serve(t, call{sequences: []int64{1, 2, 4}})
		if shown, err := read(events(client)); FromError(err).Code != codes.DataLoss || !slices.Equal(shown, []int64{1, 2}) {
			t.Errorf("%s: shown %v, %v", name, shown, err)
		}
	}
	_, client := serve(t, call{sequences: []int64{7}})
	if shown, err := read(client.Subscribe(t.Context(), &pb.SubscribeTaskRequest{TaskId: "t", AfterSequence: 5})); err == nil {
		t.Errorf("shown %v after 5", shown)
	}
}

func TestACleanEndIsTheEndWhereNothingIsToCome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request *pb.SubscribeTaskRequest
		ended   bool
		calls   int
	}{
		"what is stored":       {&pb.SubscribeTaskRequest{TaskId: "t", StopAt: pb.StopAt_STOP_AT_CURRENT}, false, 1},
		"after the last event": {&pb.SubscribeTaskRequest{TaskId: "t", AfterSequence: 9}, true, 1},
		"before it":            {&pb.SubscribeTaskRequest{TaskId: "t", AfterSequence: 8}, true, 2},
		"while it works":       {&pb.SubscribeTaskRequest{TaskId: "t", AfterSequence: 9}, false, 2},
	} {
		next := call{err: failed(t, codes.NotFound, &errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: Domain})}
		s, client := serve(t, call{}, next)
		s.ended = c.ended
		if _, err := read(client.Subscribe(t.Context(), c.request)); (err == nil) != (c.calls == 1) || len(s.made) != c.calls {
			t.Errorf("%s: %v after %d calls", name, err, len(s.made))
		}
	}
}

func TestASubscriptionThatWasCutAfterTheEndOfItsTaskLearnsWhetherARetryHasFollowed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stopAt       pb.StopAt
		retry        []int64
		shown, after []int64
	}{
		"a retry":       {pb.StopAt_STOP_AT_TERMINAL, []int64{10, 11}, []int64{8, 9, 10, 11}, []int64{7, 9}},
		"no retry":      {pb.StopAt_STOP_AT_UNSPECIFIED, nil, []int64{8, 9}, []int64{7, 9}},
		"only one turn": {pb.StopAt_STOP_AT_INTERRUPTED, []int64{10, 11}, []int64{8, 9}, []int64{7}},
	} {
		s, client := serve(t, call{sequences: []int64{8, 9}, err: cut}, call{sequences: c.retry})
		shown, err := read(client.Subscribe(t.Context(), &pb.SubscribeTaskRequest{TaskId: "t", AfterSequence: 7, StopAt: c.stopAt}))
		if err != nil || !slices.Equal(shown, c.shown) || !slices.Equal(s.after, c.after) {
			t.Errorf("%s: shown %v, %v, by calls after %v", name, shown, err, s.after)
		}
	}
}

func TestNewTasksGetTheirIDHere(t *testing.T) {
	s, client := serve(t, call{err: cut}, call{})
	task := Text("go")
	for range 2 {
		if _, err := client.Send(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	if s.tasks[0] == "" || s.tasks[1] != s.tasks[0] || s.tasks[2] == s.tasks[0] || task.GetTaskId() != "" {
		t.Errorf("task ids %q", s.tasks)
	}
	s, client = serve(t, call{err: cut})
	client.patience = 0
	_, err := read(client.Stream(t.Context(), task))
	if failure := FromError(err); failure.TaskID == "" || failure.TaskID != s.tasks[0] {
		t.Errorf("%v, but the task is %s", err, s.tasks[0])
	}
	if _, err = client.Send(t.Context(), task, ContinueTask("known")); s.tasks[1] != "known" || FromError(err).TaskID != "known" {
		t.Errorf("continued as %q: %v", s.tasks[1], err)
	}
}

func TestAnInputSaysWhetherToCreateOrToContinue(t *testing.T) {
	create, either := pb.TaskTarget_TASK_TARGET_CREATE, pb.TaskTarget_TASK_TARGET_CREATE_OR_CONTINUE
	for name, c := range map[string]struct {
		input   *pb.TaskInput
		options []SendOption
		target  pb.TaskTarget
	}{
		"no id":                   {Text("go"), nil, create},
		"an id":                   {&pb.TaskInput{TaskId: "t"}, nil, pb.TaskTarget_TASK_TARGET_UNSPECIFIED}, // read as continue
		"an id of a new task":     {&pb.TaskInput{TaskId: "t", Target: create}, nil, create},
		"either, with an id":      {&pb.TaskInput{TaskId: "t", Target: either}, nil, either},
		"either, without an id":   {&pb.TaskInput{Target: either}, nil, either},
		"continue, by the option": {&pb.TaskInput{Target: create}, []SendOption{ContinueTask("t")}, pb.TaskTarget_TASK_TARGET_CONTINUE},
	} {
		s, client := serve(t, call{})
		if _, err := client.Send(t.Context(), c.input, append(c.options, ExpectedSequence(7))...); err != nil {
			t.Fatal(err)
		}
		sent := s.sends[0].GetInput()
		if sent.GetTarget() != c.target || sent.GetTaskId() == "" || sent.GetExpectedSequence() != 7 {
			t.Errorf("%s: sent %v", name, sent)
		}
	}
}

func TestTheCallersCancellationEndsACallAtOnce(t *testing.T) {
	t.Parallel()
	gone := errors.New("the traveller has left")
	for name, c := range map[string]struct {
		calls []call
		call  func(context.Context, *Client) error
	}{
		"pause of a stream": {[]call{{sequences: []int64{1}, err: cut}, {err: cut}}, func(ctx context.Context, c *Client) error {
			_, err := read(c.Stream(ctx, Text("go")))
			return err
		}},
		"pause of a call": {[]call{{err: cut}}, func(ctx context.Context, c *Client) error {
			_, err := c.Send(ctx, Text("go"))
			return err
		}},
		"stream": {[]call{{sequences: []int64{1}, hangs: true}}, func(ctx context.Context, c *Client) error {
			_, err := read(c.Stream(ctx, Text("go")))
			return err
		}},
	} {
		_, client := serve(t, c.calls...)
		client.patience = time.Minute
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		canceled := make(chan time.Time, 1)
		time.AfterFunc(time.Second, func() { canceled <- time.Now(); cancel(gone) })
		err := c.call(ctx, client)
		if late := time.Since(<-canceled); late > 500*time.Millisecond {
			t.Errorf("%s: ended %v later", name, late)
		}
		if !errors.Is(err, context.Canceled) || !errors.Is(err, gone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingIsShownAfterTheCancellation(t *testing.T) {
	_, client := serve(t, call{sequences: []int64{1, 2, 3, 9}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var shown []int64
	var err error
	for event, failure := range client.Stream(ctx, Text("go")) {
		if err = failure; err == nil {
			shown = append(shown, event.GetSequence())
			cancel()
		}
	}
	if !slices.Equal(shown, []int64{1}) || !errors.Is(err, context.Canceled) {
		t.Errorf("shown %v, %v", shown, err)
	}
}

func TestADeadlineBoundsThePausesToo(t *testing.T) {
	t.Parallel()
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(30 * time.Second)}
	for name, failure := range map[string]error{"pauses": cut, "a long one": failed(t, codes.Unavailable, wait)} {
		_, client := serve(t, call{err: failure})
		client.patience = time.Minute
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		_, err := client.Send(ctx, Text("go"))
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < 700*time.Millisecond || took > 2*time.Second {
			t.Errorf("%s: %v after %v", name, err, took)
		}
	}
}

func TestARequestWithoutAnEncodingIsNoCut(t *testing.T) {
	_, client := serve(t, call{})
	began := time.Now()
	_, err := client.Send(t.Context(), Text("\xff"))
	_, err2 := read(client.Stream(t.Context(), Text("\xff")))
	if !errors.Is(err, ErrInvalidArgument) || !errors.Is(err2, ErrInvalidArgument) || time.Since(began) > time.Second {
		t.Errorf("%v, %v", err, err2)
	}
}

func TestLeavingTheLoopEndsTheCall(t *testing.T) {
	s, client := serve(t, call{sequences: []int64{1}, hangs: true})
	for range client.Stream(t.Context(), Text("go")) {
		break
	}
	select {
	case <-s.hung:
	case <-time.After(10 * time.Second):
		t.Error("the call is still there")
	}
}

func TestSendRepeatsTheSameRequest(t *testing.T) {
	s, client := serve(t, call{err: cut}, call{err: status.Error(codes.Canceled, "too busy to look")}, call{})
	if _, err := client.Send(t.Context(), Text("go")); err != nil {
		t.Fatal(err)
	}
	if len(s.made) != 3 || s.made[0] == "" || s.made[0] != s.made[1] || s.made[1] != s.made[2] {
		t.Errorf("request ids %q", s.made)
	}
}

func TestAPauseThatThePatienceDoesNotReachIsNotBegun(t *testing.T) {
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)}
	s, client := serve(t, call{err: failed(t, codes.Unavailable, wait)})
	if _, err := client.Send(t.Context(), Text("go")); FromError(err).RetryDelay != time.Hour || len(s.made) != 1 {
		t.Errorf("%v after %d calls", err, len(s.made))
	}
}

func TestPausesDoubleUpToABound(t *testing.T) {
	p := patience{limit: time.Hour}
	for i, whole := range []time.Duration{1, 2, 4, 8, 16, 32, 50, 50} {
		whole *= firstPause
		if got, again := p.pause(&attempt{known: true}, 0); !again || got < whole/2 || got > whole {
			t.Errorf("pause %d: %v, want %v to %v", i, got, whole/2, whole)
		}
	}
	if got, _ := p.pause(&attempt{news: true}, 0); got > firstPause {
		t.Errorf("after news: %v", got)
	}
	if got, _ := p.pause(&attempt{}, 8*time.Second); got != 8*time.Second {
		t.Errorf("the server has asked for 8 s: %v", got)
	}
}

func TestTextIsShownOnceHoweverOftenItsStreamIsCut(t *testing.T) {
	piece := func(offset int64, text string) *pb.Delta {
		return &pb.Delta{TaskId: "t", CallId: "c", OffsetBytes: offset, Piece: &pb.Delta_Text{Text: text}}
	}
	_, client := serve(t,
		call{sequences: []int64{7}, deltas: []*pb.Delta{piece(0, "Grüße"), piece(7, " aus")}, err: cut},
		call{deltas: []*pb.Delta{piece(0, "Grüße aus Lis"), piece(15, "sabon")}, err: cut},                 // each stream tells it from the beginning
		call{sequences: []int64{8}, deltas: []*pb.Delta{piece(0, "Grüße"), piece(0, "Bom dia")}, err: cut}, // begun again
		call{sequences: []int64{9}},
	)
	var told []string
	for update, err := range client.StreamUpdates(t.Context(), Text("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if update.Event != nil {
			told = append(told, strconv.FormatInt(update.Event.GetSequence(), 10))
		} else {
			told = append(told, update.Delta.GetText())
		}
	}
	if want := []string{"7", "Grüße", " aus", " Lis", "sabon", "8", "Bom dia", "9"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestATextWhoseCallIsTriedAgainIsVoid(t *testing.T) {
	var texts textsShown
	texts.reopened()
	piece := &pb.Delta{CallId: "c", Piece: &pb.Delta_Text{Text: "Bom"}}
	if texts.rest(piece) == nil {
		t.Error("the first text is not shown")
	}
	texts.reopened()
	texts.passed(&pb.RunEvent{Payload: &pb.RunEvent_LlmCallStarted{LlmCallStarted: &pb.LlmCallStarted{CallId: "c"}}})
	if texts.rest(piece) == nil {
		t.Error("the text of the second try is not shown")
	}
}

func TestSubmitReturnsWhenTheTaskIsAccepted(t *testing.T) {
	s, client := serve(t, call{})
	if _, err := client.Submit(t.Context(), Text("go"), ReturnView(pb.TaskView_TASK_VIEW_HEADER)); err != nil {
		t.Fatal(err)
	}
	if s.sends[0].GetWaitFor() != pb.WaitFor_WAIT_FOR_ACCEPTED || s.sends[0].GetView() != pb.TaskView_TASK_VIEW_HEADER {
		t.Errorf("sent %v", s.sends[0])
	}
}
