package protolink

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Domain is where the reasons of protolink's errors are defined.
const Domain = "protolink.dev"

// Reason is why a call failed, in a word that does not change. It is an error to compare with:
//
//	if errors.Is(err, protolink.ErrTaskNotFound) { ... }
//
// Reasons that are not among the constants are compared in the same way: errors.Is(err, protolink.Reason("BUDGET_EXCEEDED")).
type Reason string

// Error returns the word.
func (r Reason) Error() string { return string(r) }

// Reasons that callers tell apart most often. The comments of proto/protolink/v1 name those of each method.
const (
	ErrInvalidArgument    Reason = "INVALID_ARGUMENT"      // see Error.Violations
	ErrTaskNotFound       Reason = "TASK_NOT_FOUND"        // unknown, or somebody else's
	ErrTaskFinished       Reason = "TASK_FINISHED"         // it takes no more messages
	ErrTaskAlreadyRunning Reason = "TASK_ALREADY_RUNNING"  // wait, or cancel it
	ErrTaskNotCancelable  Reason = "TASK_NOT_CANCELABLE"   // it has ended
	ErrSequenceOutOfRange Reason = "SEQUENCE_OUT_OF_RANGE" // the log is not that long
	ErrApprovalNotFound   Reason = "APPROVAL_NOT_FOUND"    // unknown, or not the caller's business
	ErrApprovalChanged    Reason = "APPROVAL_CHANGED"      // the answer is about another action than the one that waits
	ErrAgentNotFound      Reason = "AGENT_NOT_FOUND"       // the registry knows no such agent
	ErrAgentAmbiguous     Reason = "AGENT_AMBIGUOUS"       // it knows several
	ErrAgentConflict      Reason = "AGENT_CONFLICT"        // the URL is registered by somebody else
	ErrLeaseNotFound      Reason = "LEASE_NOT_FOUND"       // register again
	ErrUnauthenticated    Reason = "UNAUTHENTICATED"       // no credentials, or wrong ones
	ErrPermissionDenied   Reason = "PERMISSION_DENIED"     // these credentials do not suffice
	ErrResourceExhausted  Reason = "RESOURCE_EXHAUSTED"    // try again after Error.RetryDelay
	ErrDeadlineExceeded   Reason = "DEADLINE_EXCEEDED"     // the wait was over before the work
	ErrUnavailable        Reason = "UNAVAILABLE"           // it could not be reached, or goes down
	ErrUnimplemented      Reason = "UNIMPLEMENTED"         // this agent does not do that
	ErrInternal           Reason = "INTERNAL"              // its fault; Error.Metadata names the incident
)

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
	Domain     string            // "protolink.dev"; another system's; empty where the server gave no reason
	Message    string            // one sentence for people
	Metadata   map[string]string // the dynamic values of the sentence, for instance task_id
	Violations []Violation       // which fields of the request were wrong
	RetryDelay time.Duration     // how long the server asks to wait before a repetition; 0 where it does not
	status     *status.Status
}

// Violation is one field of a request that was wrong: its path, such as task.id, and what is wrong with it.
type Violation struct{ Field, Description string }

// Error returns code, reason and sentence.
func (e *Error) Error() string {
	said := "protolink: " + e.Code.String()
	if e.Reason != "" {
		said += "/" + string(e.Reason)
	}
	return said + ": " + e.Message
}

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
	e := &Error{Code: s.Code(), Message: s.Message(), status: s}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason, e.Domain, e.Metadata = Reason(detail.GetReason()), detail.GetDomain(), detail.GetMetadata()
		case *errdetails.BadRequest:
			for _, v := range detail.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{v.GetField(), v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryDelay = detail.GetRetryDelay().AsDuration()
		}
	}
	if e.Domain == "" && e.Reason == "" {
		e.Reason = reasons[e.Code]
	}
	return e
}
