package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
)

// directory is a registry that forgets each lease after one heartbeat, and refuses whoever is called refused.
type directory struct {
	pb.UnimplementedRegistryServiceServer
	mu    sync.Mutex
	asked []string
	again chan struct{} // closed when somebody registers a second time
}

func (d *directory) note(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, what)
	count := 0
	for _, each := range d.asked {
		if each == what {
			count++
		}
	}
	return count
}

func (d *directory) RegisterAgent(_ context.Context, request *pb.RegisterAgentRequest) (*pb.RegisterAgentResponse, error) {
	if request.GetCard().GetName() == "refused" {
		return nil, failure(codes.AlreadyExists, plgrpc.ErrAgentConflict, "another agent has that URL")
	}
	if d.note("register") == 2 {
		close(d.again)
	}
	return &pb.RegisterAgentResponse{LeaseId: "lease", LeaseTtl: durationpb.New(30 * time.Millisecond)}, nil
}

func (d *directory) RenewLease(context.Context, *pb.RenewLeaseRequest) (*pb.RenewLeaseResponse, error) {
	if d.note("renew")%2 == 0 {
		return nil, failure(codes.NotFound, plgrpc.ErrLeaseNotFound, "there is no such lease")
	}
	return &pb.RenewLeaseResponse{LeaseTtl: durationpb.New(30 * time.Millisecond)}, nil
}

func (d *directory) DeregisterAgent(context.Context, *pb.DeregisterAgentRequest) (*pb.DeregisterAgentResponse, error) {
	d.note("deregister")
	return &pb.DeregisterAgentResponse{Removed: true}, nil
}

func registryAt(t *testing.T) (*directory, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d, server := &directory{again: make(chan struct{})}, grpc.NewServer()
	pb.RegisterRegistryServiceServer(server, d)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return d, listener.Addr().String()
}

func TestAnAgentStaysRegisteredAndSaysGoodBye(t *testing.T) {
	d, url := registryAt(t)
	_, stop := start(t, scripted, WithRegistry(url))
	select {
	case <-d.again:
	case <-time.After(10 * time.Second):
		t.Fatalf("asked only %v", d.asked)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	want := []string{"register", "renew", "renew", "register"}
	if !slices.Equal(d.asked[:4], want) || d.asked[len(d.asked)-1] != "deregister" {
		t.Errorf("asked %v, want %v, and deregister at the end", d.asked, want)
	}
}

func TestACardThatIsRefusedEndsTheAgent(t *testing.T) {
	_, url := registryAt(t)
	card := &pb.AgentCard{Name: "refused", Description: "Is refused.", Url: "grpc://127.0.0.1:0"}
	quiet := WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	err := Serve(t.Context(), card, scripted, WithRegistry(url), quiet)
	if !errors.Is(err, plgrpc.ErrAgentConflict) {
		t.Errorf("%v", err)
	}
}
