package plgrpc

import (
	"context"
	"errors"
	"io"
	"slices"
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
	"google.golang.org/protobuf/types/known/wrapperspb"
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

func TestAStreamOfTheContractsOwnServicesIsNotRepeatedAndItsErrorIsTyped(t *testing.T) {
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

// rows is a service whose method streams numbers from 1 to 5. Each call ends as scripted: it breaks after so many numbers.
type rows struct {
	mu     sync.Mutex
	breaks []int // of the calls in their order; 0 for all further ones: they do not break
	isTask bool
	ids    []string
}

func (r *rows) handle(_ any, stream grpc.ServerStream) error {
	r.mu.Lock()
	sent, _ := metadata.FromIncomingContext(stream.Context())
	r.ids = append(r.ids, sent.Get("x-request-id")...)
	breaksAfter := 5
	if len(r.ids) <= len(r.breaks) {
		breaksAfter = r.breaks[len(r.ids)-1]
	}
	r.mu.Unlock()
	if r.isTask {
		if err := stream.SetHeader(metadata.Pairs("x-task-id", "t1")); err != nil {
			return err
		}
	}
	for number := range breaksAfter {
		if err := stream.SendMsg(wrapperspb.Int64(int64(number + 1))); err != nil {
			return err
		}
	}
	if breaksAfter < 5 {
		return cut
	}
	return nil
}

// numbers calls a method of the service, as a generated client does.
func numbers(t *testing.T, r *rows, options ...Option) (found []int64, err error) {
	t.Helper()
	desc := grpc.StreamDesc{StreamName: "Count", Handler: r.handle, ServerStreams: true}
	service := grpc.ServiceDesc{ServiceName: "acme.Rows", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{desc}}
	client := clientOf(t, func(server *grpc.Server) { server.RegisterService(&service, r) }, options...)
	stream, err := client.Conn().NewStream(t.Context(), &desc, "/acme.Rows/Count")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(stream.SendMsg(wrapperspb.Int64(5)), stream.CloseSend()); err != nil {
		return nil, err
	}
	for {
		var number wrapperspb.Int64Value
		if err := stream.RecvMsg(&number); err != nil {
			return found, err
		}
		found = append(found, number.GetValue())
	}
}

func TestAStreamOfAStubThatIsATaskContinuesAfterWhatWasReceived(t *testing.T) {
	r := &rows{breaks: []int{0, 2, 1, 4}, isTask: true}
	found, err := numbers(t, r)
	if err != io.EOF || !slices.Equal(found, []int64{1, 2, 3, 4, 5}) {
		t.Errorf("received %v, %v", found, err)
	}
	if len(r.ids) != 5 || len(slices.Compact(slices.Clone(r.ids))) != 1 || r.ids[0] == "" {
		t.Errorf("sent the request ids %q", r.ids)
	}
}

func TestAStreamOfAStubThatIsNoTaskIsNotRepeatedAfterItsFirstResponse(t *testing.T) {
	r := &rows{breaks: []int{0, 2}}
	found, err := numbers(t, r)
	if !errors.Is(err, ErrUnavailable) || !slices.Equal(found, []int64{1, 2}) || len(r.ids) != 2 {
		t.Errorf("received %v, %v after %d calls", found, err, len(r.ids))
	}
}

func TestAStreamOfAStubGivesUpWhenThePatienceHasRunOut(t *testing.T) {
	r := &rows{breaks: []int{2}, isTask: true}
	if found, err := numbers(t, r, WithPatience(0)); !errors.Is(err, ErrUnavailable) || len(found) != 2 || len(r.ids) != 1 {
		t.Errorf("received %v, %v after %d calls", found, err, len(r.ids))
	}
}

func TestTheContractsOwnServicesAreCalledOnceBecauseTheyReadNoRequestIDFromHeaders(t *testing.T) {
	script, client := serve(t, call{err: cut}, call{})
	_, err := pb.NewAgentServiceClient(client.Conn()).SendTask(t.Context(), &pb.SendTaskRequest{})
	if !errors.Is(err, ErrUnavailable) || len(script.sends) != 1 {
		t.Errorf("%v after %d calls", err, len(script.sends))
	}
}
