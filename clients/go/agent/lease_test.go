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

// directory is a registry that forgets each lease after one heartbeat, and refuses agents of the name refused.
type directory struct {
	pb.UnimplementedRegistryServiceServer
	mu    sync.Mutex
	asked []string
	// What the agent says of itself.
	instances []string
	reports   chan *pb.RenewLeaseRequest
	again     chan struct{} // closed at the second registration
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
	d.mu.Lock()
	d.instances = append(d.instances, request.GetInstanceId())
	d.mu.Unlock()
	if d.note("register") == 2 {
		close(d.again)
	}
	return &pb.RegisterAgentResponse{LeaseId: "lease", LeaseTtl: durationpb.New(30 * time.Millisecond)}, nil
}

func (d *directory) RenewLease(_ context.Context, report *pb.RenewLeaseRequest) (*pb.RenewLeaseResponse, error) {
	if d.reports != nil {
		d.note("renew")
		d.reports <- report
		return &pb.RenewLeaseResponse{LeaseTtl: durationpb.New(30 * time.Millisecond)}, nil
	}
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
	if d.instances[0] == "" || d.instances[0] != d.instances[1] {
		t.Errorf("instances %v of one start", d.instances)
	}
}

func TestHeartbeatsReportRunsAndThatTheAgentDrainsUntilTheyHaveEnded(t *testing.T) {
	d, url := registryAt(t)
	d.reports = make(chan *pb.RenewLeaseRequest, 1000)
	release := make(chan struct{})
	client, stop := start(t, func(context.Context, *Run) error { <-release; return nil }, WithRegistry(url), WithGrace(10*time.Second))
	sent := make(chan error, 1)
	go func() { _, err := client.Send(context.Background(), plgrpc.Text("work")); sent <- err }()
	until := func(state pb.InstanceState, running int32) {
		t.Helper()
		for deadline := time.After(10 * time.Second); ; {
			select {
			case report := <-d.reports:
				if report.GetState() == state && report.GetRunning() == running {
					return
				}
			case <-deadline:
				t.Fatalf("no report of %v with %d runs", state, running)
			}
		}
	}
	until(pb.InstanceState_INSTANCE_STATE_UP, 1)
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	until(pb.InstanceState_INSTANCE_STATE_DRAINING, 1)
	if d.note("the run ends"); slices.Contains(d.asked, "deregister") {
		t.Error("it left the registry before its run had ended")
	}
	close(release)
	if err := errors.Join(<-sent, <-stopped); err != nil {
		t.Error(err)
	}
	if last := d.asked[len(d.asked)-1]; last != "deregister" {
		t.Errorf("at the end it asked for %s", last)
	}
}

func TestACardThatIsRefusedEndsTheAgent(t *testing.T) {
	_, url := registryAt(t)
	card := Card("refused", "Is refused.", "grpc://127.0.0.1:0")
	quiet := WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	err := Serve(t.Context(), card, scripted, WithRegistry(url), quiet)
	if !errors.Is(err, plgrpc.ErrAgentConflict) {
		t.Errorf("%v", err)
	}
}
