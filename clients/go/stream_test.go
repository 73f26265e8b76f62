package protolink

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/protolink/v1"
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
	hung  chan struct{} // closed when the caller of a call that hangs has gone
}

type call struct {
	sequences []int64
	err       error
	hangs     bool
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
		events = append(events, &pb.RunEvent{TaskId: "t", Sequence: sequence, Final: sequence == 9})
	}
	return events
}

func (s *script) SendTask(_ context.Context, request *pb.SendTaskRequest) (*pb.SendTaskResponse, error) {
	return &pb.SendTaskResponse{Task: &pb.Task{Id: "t"}}, s.next(request.GetRequestId(), 0).err
}

func (s *script) StreamTask(request *pb.StreamTaskRequest, stream grpc.ServerStreamingServer[pb.StreamTaskResponse]) error {
	this := s.next(request.GetRequestId(), 0)
	if err := stream.Send(&pb.StreamTaskResponse{Events: this.events()}); err != nil {
		return err
	}
	if this.hangs {
		<-stream.Context().Done()
		close(s.hung)
	}
	return this.err
}

func (s *script) SubscribeTask(request *pb.SubscribeTaskRequest, stream grpc.ServerStreamingServer[pb.SubscribeTaskResponse]) error {
	this := s.next("subscribe", request.GetAfterSequence())
	if err := stream.Send(&pb.SubscribeTaskResponse{Events: this.events()}); err != nil {
		return err
	}
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
	client, err := Dial(listener.Addr().String(), WithAttempts(3))
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

func TestAStreamThatGetsNoFurtherIsGivenUp(t *testing.T) {
	s, client := serve(t, call{sequences: []int64{1}, err: cut}, call{err: cut})
	shown, err := read(client.Stream(t.Context(), Text("go")))
	if !errors.Is(err, ErrUnavailable) || !slices.Equal(shown, []int64{1}) {
		t.Errorf("shown %v, %v", shown, err)
	}
	if len(s.made) != 1+3 {
		t.Errorf("%d calls, want the stream and 3 attempts", len(s.made))
	}
}

func TestWhatNoRepetitionMakesRightEndsAtOnce(t *testing.T) {
	s, client := serve(t, call{sequences: []int64{1}, err: status.Error(codes.NotFound, "gone")})
	if _, err := read(client.Stream(t.Context(), Text("go"))); FromError(err).Code != codes.NotFound || len(s.made) != 1 {
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

func TestACleanEndIsTheEnd(t *testing.T) {
	s, client := serve(t, call{sequences: []int64{1, 2}})
	if shown, err := read(client.Stream(t.Context(), Text("go"))); err != nil || len(shown) != 2 || len(s.made) != 1 {
		t.Errorf("shown %v, %v, after %d calls", shown, err, len(s.made))
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

func TestSendComesBackToAFullServerOnlyWhenAsked(t *testing.T) {
	s, client := serve(t, call{err: failed(t, codes.ResourceExhausted)})
	if _, err := client.Send(t.Context(), Text("go")); !errors.Is(err, ErrResourceExhausted) || len(s.made) != 1 {
		t.Errorf("%v after %d calls", err, len(s.made))
	}
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(50 * time.Millisecond)}
	s, client = serve(t, call{err: failed(t, codes.ResourceExhausted, wait)}, call{})
	if _, err := client.Send(t.Context(), Text("go")); err != nil || len(s.made) != 2 {
		t.Errorf("%v after %d calls", err, len(s.made))
	}
}

func TestNoPauseGoesBeyondTheDeadline(t *testing.T) {
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)}
	s, client := serve(t, call{err: failed(t, codes.ResourceExhausted, wait)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := client.Send(ctx, Text("go")); !errors.Is(err, ErrResourceExhausted) || ctx.Err() != nil || len(s.made) != 1 {
		t.Errorf("%v after %d calls", err, len(s.made))
	}
}

func TestPausesDoubleUpToABound(t *testing.T) {
	for failures, whole := range map[int]time.Duration{0: firstPause, 1: firstPause, 2: 2 * firstPause, 4: 8 * firstPause, 1000: longestPause} {
		if got := pause(failures); got < whole/2 || got > whole {
			t.Errorf("after %d failures: %v, want %v to %v", failures, got, whole/2, whole)
		}
	}
}
