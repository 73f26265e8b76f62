package plgrpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/protolink-grpc/protolink-grpc/clients/go/examples/calculatorv1"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// sums is a calculator whose calls end as scripted, and that notes what it was called with.
type sums struct {
	calculatorv1.UnimplementedCalculatorServer
	mu       sync.Mutex
	ends     []error // of the calls in their order; the last one applies to all further calls
	headers  []metadata.MD
	deadline time.Time
}

func (s *sums) Add(ctx context.Context, request *calculatorv1.AddRequest) (*calculatorv1.AddResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, _ := metadata.FromIncomingContext(ctx)
	s.headers = append(s.headers, sent)
	s.deadline, _ = ctx.Deadline()
	end := s.ends[min(len(s.headers), len(s.ends))-1]
	return &calculatorv1.AddResponse{Result: request.GetA() + request.GetB()}, end
}

func (s *sums) requestIDs() []string {
	var ids []string
	for _, sent := range s.headers {
		ids = append(ids, sent.Get("x-request-id")...)
	}
	return ids
}

func stubOf(t *testing.T, options []Option, ends ...error) (*sums, calculatorv1.CalculatorClient) {
	t.Helper()
	s := &sums{ends: ends}
	client := clientOf(t, func(server *grpc.Server) { calculatorv1.RegisterCalculatorServer(server, s) }, options...)
	return s, calculatorv1.NewCalculatorClient(client.Conn())
}

func add(ctx context.Context, stub calculatorv1.CalculatorClient) (int64, error) {
	b := int64(22)
	sum, err := stub.Add(ctx, &calculatorv1.AddRequest{A: 20, B: &b})
	return sum.GetResult(), err
}

func TestACallOfAStubIsRetriedUnderOneRequestID(t *testing.T) {
	s, stub := stubOf(t, []Option{WithInsecureOK(), WithAPIKey("k"), WithHeader("x-tenant", "acme")}, cut, cut, nil)
	if sum, err := add(t.Context(), stub); sum != 42 || err != nil {
		t.Fatalf("%d, %v", sum, err)
	}
	ids := s.requestIDs()
	if len(ids) != 3 || ids[0] == "" || ids[1] != ids[0] || ids[2] != ids[0] {
		t.Errorf("sent the request ids %q", ids)
	}
	if last := s.headers[2]; last.Get("x-api-key")[0] != "k" || last.Get("x-tenant")[0] != "acme" {
		t.Errorf("sent %v", last)
	}
	if left := time.Until(s.deadline); left <= 0 || left > DefaultTimeout {
		t.Errorf("%s of the default timeout are left", left)
	}
}

func TestEachCallOfAStubHasARequestIDOfItsOwnUnlessItsCallerHasChosenOne(t *testing.T) {
	s, stub := stubOf(t, nil, nil)
	chosen := metadata.AppendToOutgoingContext(t.Context(), "X-Request-Id", "mine")
	for _, ctx := range []context.Context{t.Context(), t.Context(), chosen} {
		if _, err := add(ctx, stub); err != nil {
			t.Fatal(err)
		}
	}
	if ids := s.requestIDs(); len(ids) != 3 || ids[0] == ids[1] || ids[2] != "mine" {
		t.Errorf("sent the request ids %q", ids)
	}
}

func TestAnAnswerOfTheServerIsATypedErrorOfAStubAndIsNotRetried(t *testing.T) {
	info := &errdetails.ErrorInfo{Reason: "TOOL_REJECTED", Domain: Domain, Metadata: map[string]string{"task_id": "t1"}}
	bad := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "a", Description: "too large"}}}
	s, stub := stubOf(t, nil, failed(t, codes.InvalidArgument, info, bad))
	_, err := add(t.Context(), stub)
	var failure *Error
	if !errors.As(err, &failure) || !errors.Is(err, ErrToolRejected) || failure.TaskID != "t1" || len(failure.Violations) != 1 {
		t.Fatalf("%#v", err)
	}
	if status.Code(err) != codes.InvalidArgument || len(s.headers) != 1 {
		t.Errorf("%s after %d calls", status.Code(err), len(s.headers))
	}
}

func TestAStubGivesUpWhenThePatienceHasRunOut(t *testing.T) {
	s, stub := stubOf(t, []Option{WithPatience(0)}, cut)
	if _, err := add(t.Context(), stub); !errors.Is(err, ErrUnavailable) || len(s.headers) != 1 {
		t.Errorf("%v after %d calls", err, len(s.headers))
	}
}

func TestTheErrorOfALateCallNamesTheTaskThatItsCallerHasChosen(t *testing.T) {
	_, stub := stubOf(t, nil, cut)
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "x-task-id", "t2"), 50*time.Millisecond)
	defer cancel()
	_, err := add(ctx, stub)
	var failure *Error
	if !errors.As(err, &failure) || !errors.Is(err, context.DeadlineExceeded) || failure.TaskID != "t2" {
		t.Errorf("%v", err)
	}
}

func TestAStreamOfAStubIsNotRepeatedAndItsErrorIsTyped(t *testing.T) {
	script, client := serve(t, call{sequences: []int64{1}, err: cut}, call{sequences: []int64{9}})
	stub := pb.NewAgentServiceClient(client.Conn())
	for _, want := range []error{ErrUnavailable, io.EOF} {
		stream, err := stub.StreamTask(t.Context(), &pb.StreamTaskRequest{RequestId: "r"})
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, want) {
			t.Errorf("%v instead of %v", err, want)
		}
	}
	if len(script.made) != 2 {
		t.Errorf("called %v", script.made)
	}
}

func TestTheContractsOwnServicesAreCalledOnceBecauseTheyReadNoRequestIDFromHeaders(t *testing.T) {
	script, client := serve(t, call{err: cut}, call{})
	_, err := pb.NewAgentServiceClient(client.Conn()).SendTask(t.Context(), &pb.SendTaskRequest{})
	if !errors.Is(err, ErrUnavailable) || len(script.sends) != 1 {
		t.Errorf("%v after %d calls", err, len(script.sends))
	}
}
