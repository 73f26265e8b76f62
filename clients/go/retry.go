package plgrpc

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second

	// steady is how long a stream is open before that alone counts as progress.
	steady = time.Second
)

// errStopped ends an attempt whose caller has left the loop.
var errStopped = errors.New("the loop was left")

// attempt is one attempt of a call that may be retried. The call sets the fields.
type attempt struct {
	opened  time.Time     // when a stream was open; zero for a call with one answer
	news    bool          // the caller got something that it did not have
	known   bool          // the server sent what the caller has already
	request proto.Message // what was sent
}

// progressed reports whether the server has done something for the caller.
func (a *attempt) progressed(now time.Time) bool {
	return a.news || a.known || !a.opened.IsZero() && now.Sub(a.opened) >= steady
}

// persist runs do until it succeeds, its caller stops it, it fails with an answer, or the patience has run out. Every call of this
// package goes through it, and it alone decides what is retried, and when. io.EOF from do means that a stream ended too early.
func (c *channel) persist(ctx context.Context, do func(context.Context, *attempt) error) error {
	left := patience{limit: c.patience}
	for {
		this := &attempt{}
		err := try(ctx, this, do)
		if err == nil || err == errStopped {
			return nil
		}
		if err == io.EOF {
			err = status.Error(codes.Unavailable, "the stream ended before its last event")
		}
		if err := left.waitAfter(ctx, this, err); err != nil {
			return err
		}
	}
}

// waitAfter waits after a failed attempt until the next one may begin. It returns why there is no further attempt.
func (p *patience) waitAfter(ctx context.Context, this *attempt, err error) error {
	failure := FromError(err)
	if ctx.Err() != nil && !failure.answered {
		return interrupted(ctx, failure)
	}
	if !failure.isCut() {
		return failure
	}
	if unsendable := this.encodingError(failure); unsendable != nil {
		return unsendable
	}
	pause, again := p.pause(this, failure.RetryDelay)
	if !again {
		return failure
	}
	if !sleep(ctx, pause) {
		return interrupted(ctx, failure)
	}
	return nil
}

// try runs one attempt, whose call ends with it.
func try(ctx context.Context, this *attempt, do func(context.Context, *attempt) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return do(ctx, this)
}

// encodingError distinguishes a request that has no encoding from a broken connection: gRPC reports both as Internal.
func (a *attempt) encodingError(failure *Error) error {
	if failure.Code != codes.Internal || a.request == nil {
		return nil
	}
	if _, err := proto.Marshal(a.request); err != nil {
		return FromError(status.Error(codes.InvalidArgument, err.Error()))
	}
	return nil
}

// isCut reports whether the call ended without an answer, so that the same request may be sent again.
func (e *Error) isCut() bool {
	switch e.Code {
	case codes.Unavailable:
		return e.remote // with details, too: the server asks to come back
	case codes.Internal, codes.Unknown, codes.Canceled:
		return e.remote && !e.answered
	default:
		return false
	}
}

// patience is the backoff of one call, which ends after limit without progress.
type patience struct {
	limit  time.Duration
	since  time.Time // of the first interruption after the last progress
	pauses int       // since the caller got something
}

// pause returns the pause after an interruption; false if the time for retries is over, or ends before `least`.
func (p *patience) pause(this *attempt, least time.Duration) (time.Duration, bool) {
	now := time.Now()
	if this.news {
		p.pauses = 0
	}
	if p.since.IsZero() || this.progressed(now) {
		p.since = now
	}
	left := p.limit - now.Sub(p.since)
	if left <= 0 || least > left {
		return 0, false
	}
	p.pauses++
	return max(min(jittered(p.pauses), left), least), true // the last attempt is at the end of the patience
}

// jittered is the n-th pause, from 1.
func jittered(n int) time.Duration {
	whole := min(firstPause<<min(n-1, 16), longestPause)
	return whole/2 + rand.N(whole/2)
}

// sleep reports false when the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// unary is a call with one answer. What is repeated is the same request, request id included.
func unary[Request, Response any](
	ctx context.Context,
	c *channel,
	method func(context.Context, *Request, ...grpc.CallOption) (*Response, error),
	request *Request,
) (*Response, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var response *Response
	err := c.persist(ctx, func(ctx context.Context, this *attempt) (err error) {
		this.request, _ = any(request).(proto.Message)
		response, err = method(ctx, request)
		return err
	})
	return response, err
}

// bounded returns the context of a call with one answer: with the default timeout where it has no deadline of its own.
func (c *channel) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || c.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// listen reads a stream, just opened or failed to, until it ends or show fails, and returns why: io.EOF where it ended with OK.
func listen[Response any](this *attempt, stream grpc.ServerStreamingClient[Response], err error, show func(*Response) error) error {
	if err != nil {
		return err
	}
	this.opened = time.Now()
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := show(response); err != nil {
			return err
		}
	}
}

// pages yields the items of page after page. The request, which may be nil, is copied, and fetched with each page's token.
func pages[Request proto.Message, Item any](
	request Request, token string, fetch func(Request, string) ([]Item, string, error),
) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		page, token := copyOf(request), token
		for {
			items, next, err := fetch(page, token)
			if err != nil {
				var none Item
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}

// copyOf returns a copy of a request; an empty one of nil.
func copyOf[Request proto.Message](request Request) Request {
	made := request.ProtoReflect().New().Interface().(Request)
	proto.Merge(made, request)
	return made
}

func newID() string { return uuid.NewString() }
