package plgrpc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

func failed(t *testing.T, code codes.Code, details ...protoadapt.MessageV1) error {
	t.Helper()
	s, err := status.New(code, "a sentence").WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

func TestAnErrorSaysWhatTheServerSaid(t *testing.T) {
	err := FromError(failed(t, codes.InvalidArgument,
		&errdetails.ErrorInfo{Reason: "INVALID_ARGUMENT", Domain: Domain, Metadata: map[string]string{"field": "task.id"}},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "task.id", Description: "too long"}}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Second)},
	))
	if err.Metadata["field"] != "task.id" || err.RetryDelay != 2*time.Second {
		t.Errorf("metadata %v, delay %v", err.Metadata, err.RetryDelay)
	}
	if len(err.Violations) != 1 || err.Violations[0] != (Violation{"task.id", "too long"}) {
		t.Errorf("violations %v", err.Violations)
	}
	if want := "plgrpc: InvalidArgument/INVALID_ARGUMENT: a sentence"; err.Error() != want {
		t.Errorf("%q, want %q", err.Error(), want)
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("status.Code is %v", status.Code(err))
	}
}

func TestAnErrorNamesTheTaskOfTheCallOrThatOfTheServer(t *testing.T) {
	named := func(domain string) error {
		return failed(t, codes.NotFound,
			&errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: domain, Metadata: map[string]string{"task_id": "t-1"}})
	}
	for _, each := range []struct {
		err  error
		want string
	}{
		{FromError(named(Domain)), "t-1"},
		{aboutTask(named(Domain), ""), "t-1"},
		{aboutTask(named(Domain), "t-2"), "t-2"},
		{FromError(named("example.com")), ""},
	} {
		if got := FromError(each.err).TaskID; got != each.want {
			t.Errorf("%v has the task %q, want %q", each.err, got, each.want)
		}
	}
}

func TestAFullAgentIsRetryableIfItSaysWhen(t *testing.T) {
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Second)}
	for err, want := range map[error]bool{
		failed(t, codes.ResourceExhausted, wait): true,
		failed(t, codes.ResourceExhausted):       false,
		failed(t, codes.Unavailable):             true,
		failed(t, codes.NotFound):                false,
	} {
		if FromError(err).Retryable() != want {
			t.Errorf("%v is not as retryable as it should be", err)
		}
	}
}

func TestReasonsAreComparedWithErrorsIs(t *testing.T) {
	info := &errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: Domain}
	wrapped := fmt.Errorf("looking: %w", FromError(failed(t, codes.NotFound, info)))
	if !errors.Is(wrapped, ErrTaskNotFound) || errors.Is(wrapped, ErrTaskFinished) {
		t.Errorf("%v is not exactly ErrTaskNotFound", wrapped)
	}
	foreign := &errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: "other.example"}
	if err := FromError(failed(t, codes.NotFound, foreign)); errors.Is(err, ErrTaskNotFound) {
		t.Errorf("%v has another system's reason", err)
	}
	if !errors.Is(FromError(failed(t, codes.Unavailable)), ErrUnavailable) {
		t.Error("gRPC's own Unavailable is not ErrUnavailable")
	}
	if err := FromError(context.DeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrDeadlineExceeded) {
		t.Errorf("%v is not both deadlines", err)
	}
	if FromError(nil) != nil {
		t.Error("nil became an error")
	}
}
