package plgrpc

import (
	"cmp"
	"context"
	"io"
	"strings"

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
// Streams are not repeated. Neither are the calls of plgrpc's own services: the methods of this package are, with the request ids that
// these services read.
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
	if sent, _ := metadata.FromOutgoingContext(ctx); len(sent.Get(requestIDHeader)) == 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, requestIDHeader, newID())
	}
	return typedError(ctx, s.channel.persist(ctx, func(ctx context.Context, this *attempt) error {
		this.request, _ = request.(proto.Message)
		return s.channel.conn.Invoke(ctx, method, request, reply, options...)
	}))
}

// NewStream is for the generated clients.
func (s stubConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := s.channel.conn.NewStream(ctx, desc, method, options...)
	if err != nil {
		return nil, typedError(ctx, err)
	}
	return typedStream{stream}, nil
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
	return aboutTask(failure, cmp.Or(failure.TaskID, failure.Metadata["task_id"], chosen))
}
