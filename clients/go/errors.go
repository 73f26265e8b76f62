package plgrpc

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Domain is where the reasons of plgrpc's errors are defined.
const Domain = "protolink-grpc.github.io"

// Reason is why a call failed, in a word that does not change. It is an error to compare with:
//
//	if errors.Is(err, plgrpc.ErrTaskNotFound) { ... }
//
// The constants are the values of plgrpc.v1.ErrorReason. A later agent may send others, which are compared in the same way:
// errors.Is(err, plgrpc.Reason("NEW_REASON")). The comments of proto/plgrpc/v1 name the reasons of each method.
type Reason string

// Error returns the word.
func (r Reason) Error() string { return string(r) }

// reasons are those of failures that gRPC itself or a proxy reports: by code, for want of details.
var reasons = map[codes.Code]Reason{
	codes.InvalidArgument:   ErrInvalidArgument,
	codes.Unauthenticated:   ErrUnauthenticated,
	codes.PermissionDenied:  ErrPermissionDenied,
	codes.ResourceExhausted: ErrResourceExhausted,
	codes.DeadlineExceeded:  ErrDeadlineExceeded,
	codes.Unavailable:       ErrUnavailable,
	codes.Unimplemented:     ErrUnimplemented,
}

// Error is why a call failed. Every error of a call in this package is, or wraps, one: use errors.As for its fields, errors.Is for its
// reason. It is also context.DeadlineExceeded and context.Canceled, where its code says so.
type Error struct {
	Code       codes.Code
	Reason     Reason            // empty where neither the server nor the code gives one
	Domain     string            // "protolink-grpc.github.io"; another system's; empty where the server gave no reason
	Message    string            // one sentence for people
	Metadata   map[string]string // the dynamic values of the sentence, for instance task_id
	Violations []Violation       // which fields of the request were wrong
	RetryDelay time.Duration     // how long the server asks to wait before a repetition; 0 where it does not
	TaskID     string            // of the task that was sent, begun or not, or that the server names; may be empty
	status     *status.Status
	answered   bool  // the status has an ErrorInfo: the server itself says so
	remote     bool  // gRPC has reported it, and not code of the caller's
	cause      error // on this side
}

// Violation is one field of a request that was wrong: its path, such as input.task_id, and what is wrong with it.
type Violation struct{ Field, Description string }

// Error returns code, reason and sentence.
func (e *Error) Error() string {
	said := "plgrpc: " + e.Code.String()
	if e.Reason != "" {
		said += "/" + string(e.Reason)
	}
	said += ": " + e.Message
	if e.TaskID != "" {
		said += " (task " + e.TaskID + ")"
	}
	return said
}

// Unwrap returns why the call ended on this side: the cause of its context, see context.Cause, or the error of an interceptor of the
// caller's own. It is nil where the connection or the server failed.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether e has the reason that target is.
func (e *Error) Is(target error) bool {
	switch target {
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	case context.Canceled:
		return e.Code == codes.Canceled
	}
	reason, ok := target.(Reason)
	return ok && reason == e.Reason && (e.Domain == Domain || e.Domain == "")
}

// GRPCStatus returns the status as the server sent it, so that status.Code and status.FromError work.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// FromError makes an Error of what a generated client returned. It returns nil for nil, and an Error as it is.
func FromError(err error) *Error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	e := &Error{Code: s.Code(), Message: s.Message(), status: s, remote: ok}
	if !ok {
		e.cause = err
	}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason, e.Domain, e.Metadata, e.answered = Reason(detail.GetReason()), detail.GetDomain(), detail.GetMetadata(), true
		case *errdetails.BadRequest:
			for _, v := range detail.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{v.GetField(), v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryDelay = detail.GetRetryDelay().AsDuration()
		}
	}
	if e.Domain == Domain {
		e.TaskID = e.Metadata["task_id"]
	}
	if e.Domain == "" && e.Reason == "" {
		e.Reason = reasons[e.Code]
	}
	return e
}

// Retryable reports whether the same request, with the same request id, may succeed later: the call was interrupted, and the client's
// retries did not succeed, or the agent is full and requests a delay.
func (e *Error) Retryable() bool {
	return e.isCut() || e.Code == codes.ResourceExhausted && e.RetryDelay > 0
}

// interrupted is the error of a call that its context has ended, whose latest attempt failed with last.
func interrupted(ctx context.Context, last *Error) *Error {
	e := FromError(ctx.Err())
	e.cause = context.Cause(ctx)
	if last.isCut() {
		e.Message += "; before that: " + last.Message
	}
	return e
}

// aboutTask adds the task to the error of a call that has sent it.
func aboutTask(err error, taskID string) error {
	if err == nil {
		return nil
	}
	e := *FromError(err)
	e.TaskID = cmp.Or(taskID, e.TaskID)
	return &e
}
