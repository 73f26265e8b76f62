package plgrpc

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

const (
	requestIDHeader = "x-request-id"
	taskIDHeader    = "x-task-id"

	// contract begins the methods of plgrpc's own services, whose request ids are fields of their requests.
	contract = "/plgrpc.v1."
)

// Conn is the connection for generated clients: calculatorv1.NewCalculatorClient(client.Conn()).
//
// Their calls have the credentials and headers of this client, its default timeout, and errors of the type [*Error]. A call with one
// answer is retried after an interruption, as those of this package are. Its idempotency key, the header x-request-id, is the same for
// all attempts, so that an agent runs the call once; metadata.AppendToOutgoingContext sets one of the caller's own. The headers of the
// answer (grpc.Header) have the id of the call's task as x-task-id, and so has the error: Error.TaskID.
//
// A stream of responses is opened again after an interruption, with the same x-request-id, and responses that were received are left out: if
// there were none, or if the headers of the response name a task, because the task's log has all of them. Streams of requests are not
// repeated. Neither are the calls of plgrpc's own services: the methods of this package are, with the request ids that these services read.
func (c *channel) Conn() grpc.ClientConnInterface { return stubConn{c} }

// stubConn is what generated clients call.
type stubConn struct{ channel *channel }

// Invoke is for the generated clients.
func (s stubConn) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	ctx, cancel := s.channel.bounded(ctx)
	defer cancel()
	if strings.HasPrefix(method, contract) {
		return typedError(ctx, s.channel.conn.Invoke(ctx, method, request, reply, options...))
	}
	ctx = withRequestID(ctx)
	return typedError(ctx, s.channel.persist(ctx, func(ctx context.Context, this *attempt) error {
		this.request, _ = request.(proto.Message)
		return s.channel.conn.Invoke(ctx, method, request, reply, options...)
	}))
}

// NewStream is for the generated clients.
func (s stubConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	isResumed := desc.ServerStreams && !desc.ClientStreams && !strings.HasPrefix(method, contract)
	if isResumed {
		ctx = withRequestID(ctx)
	}
	open := func() (grpc.ClientStream, error) { return s.channel.conn.NewStream(ctx, desc, method, options...) }
	if isResumed {
		stream := &resumedStream{ctx: ctx, open: open, left: patience{limit: s.channel.patience}}
		return stream, typedError(ctx, stream.begin())
	}
	stream, err := open()
	if err != nil {
		return nil, typedError(ctx, err)
	}
	return typedStream{stream}, nil
}

// withRequestID adds an idempotency key to the headers of a call, unless its caller has chosen one.
func withRequestID(ctx context.Context) context.Context {
	if sent, _ := metadata.FromOutgoingContext(ctx); len(sent.Get(requestIDHeader)) > 0 {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, requestIDHeader, newID())
}

// resumedStream is a stream of responses that continues after interruptions. ClientStream is its latest attempt.
type resumedStream struct {
	grpc.ClientStream
	ctx      context.Context // of the call; an attempt's own ends with the attempt
	open     func() (grpc.ClientStream, error)
	request  any
	left     patience
	this     *attempt
	received int  // responses that the caller has
	skip     int  // of these, how many the latest attempt will send again
	isTask   bool // a task has the responses in its log
}

// begin opens a stream. It tries again after interruptions.
func (s *resumedStream) begin() error {
	for {
		s.this, s.skip = &attempt{}, s.received
		s.this.request, _ = s.request.(proto.Message)
		stream, err := s.open()
		if err == nil {
			s.this.opened = time.Now()
			s.ClientStream = stream
			return nil
		}
		if err := s.left.waitAfter(s.ctx, s.this, err); err != nil {
			return err
		}
	}
}

// SendMsg is for the generated clients: it sends the one request.
func (s *resumedStream) SendMsg(message any) error {
	s.request = message
	s.this.request, _ = message.(proto.Message)
	return typedError(s.ctx, s.ClientStream.SendMsg(message))
}

// RecvMsg is for the generated clients.
func (s *resumedStream) RecvMsg(message any) error {
	for {
		err := s.ClientStream.RecvMsg(message)
		switch {
		case err == io.EOF:
			return err
		case err == nil && s.skip > 0:
			s.skip--
		case err == nil:
			s.received++
			s.this.news = true
			return nil
		default:
			if err := s.resume(err); err != nil {
				return typedError(s.ctx, err)
			}
		}
	}
}

// resume makes the next attempt after one that failed. It returns an error if no further attempt is allowed.
func (s *resumedStream) resume(err error) error {
	if header, failed := s.Header(); failed == nil && len(header.Get(taskIDHeader)) > 0 {
		s.isTask = true // an attempt that breaks before its headers does not have the id
	}
	if s.received > 0 && !s.isTask {
		return err
	}
	if err := s.left.waitAfter(s.ctx, s.this, err); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	if err := s.ClientStream.SendMsg(s.request); err != nil && err != io.EOF { // io.EOF: RecvMsg returns the status
		return err
	}
	return s.CloseSend()
}

// typedStream is a stream with errors of this package.
type typedStream struct{ grpc.ClientStream }

// SendMsg is for the generated clients.
func (s typedStream) SendMsg(message any) error {
	return typedError(s.Context(), s.ClientStream.SendMsg(message))
}

// RecvMsg is for the generated clients.
func (s typedStream) RecvMsg(message any) error {
	return typedError(s.Context(), s.ClientStream.RecvMsg(message))
}

// typedError makes an [*Error] of the error of a call, with the task that the server names, or that the caller has chosen for the call. io.EOF
// stays: it ends a stream.
func typedError(ctx context.Context, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	failure := FromError(err)
	chosen := ""
	if sent, _ := metadata.FromOutgoingContext(ctx); len(sent.Get(taskIDHeader)) > 0 {
		chosen = sent.Get(taskIDHeader)[0]
	}
	return aboutTask(failure, cmp.Or(failure.TaskID, chosen))
}
