package plgrpc

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
)

// inMemory is a connection to a server in this process.
func inMemory(t *testing.T, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	listener, server := bufconn.Listen(1<<20), grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///in-memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); server.Stop() })
	return conn
}

func clientOf(t *testing.T, register func(*grpc.Server), options ...Option) *Client {
	t.Helper()
	client, err := NewClient(inMemory(t, register), options...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// heard is an agent that notes what it was called with.
type heard struct {
	pb.UnimplementedAgentServiceServer
	mu      sync.Mutex
	headers []metadata.MD
}

func (h *heard) GetAgentCard(ctx context.Context, _ *pb.GetAgentCardRequest) (*pb.GetAgentCardResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent, _ := metadata.FromIncomingContext(ctx)
	h.headers = append(h.headers, sent)
	return &pb.GetAgentCardResponse{Card: &pb.AgentCard{Name: "heard"}}, nil
}

func TestHeadersGoWithEveryCallUnlessItHasItsOwn(t *testing.T) {
	h := &heard{}
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterAgentServiceServer(s, h) }, WithHeader("X-Tenant", "acme"))
	for _, ctx := range []context.Context{t.Context(), metadata.AppendToOutgoingContext(t.Context(), "x-tenant", "other")} {
		if _, err := client.Card(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := []string{h.headers[0].Get("x-tenant")[0], h.headers[1].Get("x-tenant")[0]}; !slices.Equal(got, []string{"acme", "other"}) {
		t.Errorf("sent %v", got)
	}
}

func TestCredentialsOfAnyKindNeedAnEncryptedConnection(t *testing.T) {
	byHand := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "Cookie", "secret")
	}
	plain := func(ctx context.Context) context.Context { return ctx }
	for name, c := range map[string]struct {
		options []Option
		context func(context.Context) context.Context
		sent    bool
	}{
		"none":               {nil, plain, true},
		"token":              {[]Option{WithBearerToken("t")}, plain, false},
		"header":             {[]Option{WithHeader("Authorization", "t")}, plain, false},
		"by hand":            {nil, byHand, false},
		"allowed token":      {[]Option{WithInsecureOK(), WithBearerToken("t")}, plain, true},
		"allowed by hand":    {[]Option{WithInsecureOK()}, byHand, true},
		"allowed and joined": {[]Option{WithInsecureOK(), WithBearerToken("t"), WithAPIKey("k")}, byHand, true},
	} {
		h := &heard{}
		client := clientOf(t, func(s *grpc.Server) { pb.RegisterAgentServiceServer(s, h) }, c.options...)
		_, err := client.Card(c.context(t.Context()))
		if (err == nil) != c.sent || (len(h.headers) == 1) != c.sent || err != nil && !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %v, received %v", name, err, h.headers)
		}
		if name == "allowed and joined" && (h.headers[0].Get("authorization") == nil || h.headers[0].Get("x-api-key") == nil) {
			t.Errorf("sent %v", h.headers)
		}
	}
}

func TestAHeaderSetByHandIsRefusedBeforeAnythingIsSent(t *testing.T) {
	add := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, "x-api-key", "secret"), method, request, reply, conn, options...)
	}
	reached := false
	client, err := Dial("grpc://agents.example:1", WithDialOptions(grpc.WithChainUnaryInterceptor(add),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { reached = true; return nil, errors.New("unreachable") })))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Card(t.Context()); !errors.Is(err, ErrUnauthenticated) || reached {
		t.Errorf("%v, connected: %v", err, reached)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "secret")
	if _, err := read(client.Stream(ctx, Text("go"))); !errors.Is(err, ErrUnauthenticated) || reached {
		t.Errorf("%v, connected: %v", err, reached)
	}
	if client, err := Dial("grpc://agents.example:1", WithHeader("Proxy-Authorization", "secret")); err == nil {
		t.Errorf("%v is not refused", client)
	}
}

func TestAnErrorOfAnInterceptorIsNoCut(t *testing.T) {
	closed := errors.New("closed on Sundays")
	calls := 0
	refuse := func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
		calls++
		return closed
	}
	client, err := Dial("grpc://127.0.0.1:1", WithDialOptions(grpc.WithChainUnaryInterceptor(refuse)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Card(t.Context()); !errors.Is(err, closed) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestAHeaderThatCannotBeSentIsNoCut(t *testing.T) {
	for name, value := range map[string]string{"x tenant": "acme", "x-tenant": "a\nb", "": "empty"} {
		if _, err := Dial("grpc://127.0.0.1:1", WithHeader(name, value)); err == nil {
			t.Errorf("%q: %q is not refused", name, value)
		}
	}
	if _, err := Dial("grpc://127.0.0.1:1", WithBearerToken("read from a file\n")); err == nil {
		t.Error("a token with a line break is not refused")
	}
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterAgentServiceServer(s, &heard{}) })
	if _, err := client.Card(metadata.AppendToOutgoingContext(t.Context(), "x-tenant", "a\nb")); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestAConnectionOfTheCallersOwnStaysOpen(t *testing.T) {
	conn := inMemory(t, func(s *grpc.Server) { pb.RegisterAgentServiceServer(s, &heard{}) })
	for range 2 {
		client, err := NewClient(conn)
		if err != nil {
			t.Fatal(err)
		}
		if card, err := client.Card(t.Context()); err != nil || card.GetName() != "heard" {
			t.Errorf("%v, %v", card, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewClient(conn, WithTLS(nil), WithDialOptions(grpc.WithUserAgent("mine"))); err == nil {
		t.Error("options that say how to connect are not refused")
	}
}
