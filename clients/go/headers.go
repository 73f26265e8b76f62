package plgrpc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// credentialHeaders are the headers that can carry credentials: with their values another process can call as the caller.
var credentialHeaders = []string{"authorization", "proxy-authorization", "x-api-key", "cookie"}

// header is one header that goes with every call.
type header struct{ name, value string }

func (h header) isCredential() bool { return slices.Contains(credentialHeaders, h.name) }

// GetRequestMetadata makes it credentials.PerRPCCredentials. Whether they may go unencrypted was decided by [Dial].
func (h header) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{h.name: h.value}, nil
}

// RequireTransportSecurity is for gRPC; see GetRequestMetadata.
func (header) RequireTransportSecurity() bool { return false }

// checkHeader refuses what HTTP/2 cannot carry. gRPC reports that as Internal, as it does broken connections. The value is not in the
// error: it may be a secret.
func checkHeader(name, value string) error {
	const allowed = "0123456789abcdefghijklmnopqrstuvwxyz-_."
	if name == "" || strings.Trim(name, allowed) != "" {
		return fmt.Errorf("plgrpc: %q is not a name of a header", name)
	}
	printable := func(r rune) bool { return r >= ' ' && r <= '~' }
	if !strings.HasSuffix(name, "-bin") && strings.ContainsFunc(value, func(r rune) bool { return !printable(r) }) {
		return fmt.Errorf("plgrpc: the value of the header %s has characters other than printable ASCII", name)
	}
	return nil
}

// guard adds the headers of [WithHeader] to each call, and keeps credentials from going unencrypted.
type guard struct {
	headers []header
	refuses bool   // calls with credentials in their headers
	target  string // to which they would go

	// For a connection that the caller has made: this package cannot tell whether it is encrypted.
	credentials   []credentials.PerRPCCredentials
	asksTransport bool // whether gRPC is to refuse credentials on a connection that is not
}

// outgoing returns the context of a call with its headers, and whether there are credentials among them.
func (g *guard) outgoing(ctx context.Context) (context.Context, bool, error) {
	sent, _ := metadata.FromOutgoingContext(ctx)
	var added []string
	for _, h := range g.headers {
		if len(sent.Get(h.name)) == 0 {
			added = append(added, h.name, h.value)
		}
	}
	ctx = metadata.AppendToOutgoingContext(ctx, added...)
	sent, _ = metadata.FromOutgoingContext(ctx)
	secret := false
	for name, values := range sent {
		for _, value := range values {
			if err := checkHeader(name, value); err != nil {
				return nil, false, status.Error(codes.InvalidArgument, err.Error())
			}
		}
		if (header{name: name}).isCredential() {
			secret = true
		}
		if secret && g.refuses {
			return nil, false, status.Errorf(codes.Unauthenticated,
				"the header %s would go to %s unencrypted; use grpcs://, or WithInsecureOK", name, g.target)
		}
	}
	return ctx, secret, nil
}

// unary is a grpc.UnaryClientInterceptor.
func (g *guard) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	ctx, _, err := g.outgoing(ctx)
	if err != nil {
		return err
	}
	return invoke(ctx, method, request, reply, conn, options...)
}

// stream is a grpc.StreamClientInterceptor.
func (g *guard) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, _, err := g.outgoing(ctx)
	if err != nil {
		return nil, err
	}
	return open(ctx, desc, conn, method, options...)
}

// guarded is a connection of the caller's own, with a guard before it.
type guarded struct {
	conn  grpc.ClientConnInterface
	guard *guard
}

// Invoke is for the generated clients.
func (c guarded) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	ctx, own, err := c.guard.options(ctx)
	if err != nil {
		return err
	}
	return c.conn.Invoke(ctx, method, request, reply, append(own, options...)...)
}

// NewStream is for the generated clients.
func (c guarded) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, own, err := c.guard.options(ctx)
	if err != nil {
		return nil, err
	}
	return c.conn.NewStream(ctx, desc, method, append(own, options...)...)
}

// options returns what is added to a call over a connection of the caller's own.
func (g *guard) options(ctx context.Context) (context.Context, []grpc.CallOption, error) {
	ctx, secret, err := g.outgoing(ctx)
	if err != nil {
		return nil, nil, err
	}
	added := slices.Clone(sizes)
	if secret || len(g.credentials) > 0 {
		added = append(added, grpc.PerRPCCredentials(together{g.credentials, g.asksTransport}))
	}
	return ctx, added, nil
}

// together are several credentials as one: a call takes no more. Also without any, it has gRPC refuse an unencrypted connection.
type together struct {
	all    []credentials.PerRPCCredentials
	secure bool
}

// GetRequestMetadata is for gRPC.
func (t together) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	sent := map[string]string{}
	for _, c := range t.all {
		headers, err := c.GetRequestMetadata(ctx, uri...)
		if err != nil {
			return nil, err
		}
		maps.Copy(sent, headers)
	}
	return sent, nil
}

// RequireTransportSecurity is for gRPC.
func (t together) RequireTransportSecurity() bool {
	return t.secure || slices.ContainsFunc(t.all, credentials.PerRPCCredentials.RequireTransportSecurity)
}
