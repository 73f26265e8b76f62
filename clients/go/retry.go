package protolink

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
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
)

const firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second

// errStopped ends an attempt whose caller wants no more.
var errStopped = errors.New("the loop was left")

// attempt is one try of something that may be tried again.
type attempt struct {
	progressed bool      // the caller got something: the next cut is a new one
	peer       peer.Peer // set by gRPC at the end of the call, if it has reached anybody
}

// persist runs do until it succeeds, reaches io.EOF, fails for good, or has failed too often in a row without any progress.
func (c *channel) persist(ctx context.Context, do func(context.Context, *attempt) error) error {
	ctx, cancel := context.WithCancel(ctx) // lets go of a call that was left before its end
	defer cancel()
	for failures := 0; ; {
		began, this := time.Now(), attempt{}
		err := do(ctx, &this)
		if err == nil || err == io.EOF || err == errStopped {
			return nil
		}
		// A stream that was quiet for long has lost its connection, not its way.
		quiet := this.peer.Addr != nil && time.Since(began) > longestPause
		if failures++; this.progressed || quiet {
			failures = 0
		}
		failure := FromError(err)
		if ctx.Err() != nil || !retryable(failure) || failures >= c.attempts {
			return failure
		}
		if !sleep(ctx, max(pause(failures), failure.RetryDelay)) {
			return failure
		}
	}
}

func retryable(e *Error) bool {
	switch e.Code {
	case codes.Unavailable:
		return true
	case codes.Canceled:
		return true // and not by us: an overloaded server has let go of the call unread
	case codes.ResourceExhausted:
		return e.RetryDelay > 0
	default:
		return false
	}
}

// pause is how long to wait after so many failures in a row: doubling, with jitter.
func pause(failures int) time.Duration {
	whole := min(firstPause<<min(max(failures-1, 0), 16), longestPause)
	return whole/2 + rand.N(whole/2)
}

// sleep reports whether there is any time left after it. Where there will not be, it returns at once.
func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
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
	if _, bounded := ctx.Deadline(); !bounded && c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	var response *Response
	err := c.persist(ctx, func(ctx context.Context, _ *attempt) (err error) {
		response, err = method(ctx, request)
		return err
	})
	return response, err
}

// pages yields the items of page after page. The request is copied, and fetched with each page's token.
func pages[Request proto.Message, Item any](
	request Request, token string, fetch func(Request, string) ([]Item, string, error),
) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		page, token := proto.CloneOf(request), token
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

func newID() string { return uuid.NewString() }
