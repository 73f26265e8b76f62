package plgrpc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
)

func TestAWatchTellsWhatIsNewHoweverOftenItBegins(t *testing.T) {
	change := func(kind pb.AgentChangeKind, url, version string) *pb.AgentChange {
		card := &pb.AgentCard{Name: url, Version: version, Interfaces: []*pb.AgentInterface{{Url: url}}}
		return &pb.AgentChange{Kind: kind, Agent: &pb.RegisteredAgent{Card: card}}
	}
	up := func(url, version string) *pb.AgentChange {
		return change(pb.AgentChangeKind_AGENT_CHANGE_KIND_UP, url, version)
	}
	loaded := func(change *pb.AgentChange) *pb.AgentChange {
		change.Agent.Running = 5
		return change
	}
	draining := func(change *pb.AgentChange) *pb.AgentChange {
		change.Agent.State = pb.InstanceState_INSTANCE_STATE_DRAINING
		return change
	}
	var present roster
	for i, step := range []struct {
		response *pb.WatchAgentsResponse
		want     []string
	}{
		{&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{up("a", "1"), up("b", "1")}, Position: &pb.WatchPosition{Reset_: true}}, []string{"UP a", "UP b"}},
		{&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{up("c", "1")}, Position: &pb.WatchPosition{Revision: 7}}, []string{"UP c"}},
		{&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{change(pb.AgentChangeKind_AGENT_CHANGE_KIND_EXPIRED, "c", "1")}, Position: &pb.WatchPosition{Revision: 8}}, []string{"EXPIRED c"}},
		// The registry was restarted: a is gone, b is as it was, d is new.
		{&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{up("b", "1")}, Position: &pb.WatchPosition{Reset_: true}}, nil},
		{&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{up("d", "1")}, Position: &pb.WatchPosition{Revision: 3}}, []string{"UP d", "DOWN a"}},
		{&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{up("b", "2"), up("d", "1")}, Position: &pb.WatchPosition{Revision: 4, Reset_: true}}, []string{"UP b"}},
		// Load is no news, another state is.
		{&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{loaded(up("b", "2")), draining(up("d", "1"))}, Position: &pb.WatchPosition{Revision: 5, Reset_: true}}, []string{"UP d"}},
	} {
		var got []string
		for _, told := range present.news(step.response) {
			got = append(got, told.GetKind().String()[len("AGENT_CHANGE_KIND_"):]+" "+URL(told.GetAgent().GetCard()))
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d tells %q, want %q", i, got, step.want)
		}
	}
	if present.revision != 5 || len(present.agents) != 2 {
		t.Errorf("revision %d, agents %v", present.revision, present.agents)
	}
}

// flapping is a registry whose every watch shows one agent, and ends.
type flapping struct {
	pb.UnimplementedRegistryServiceServer
	mu      sync.Mutex
	watches int
}

func (f *flapping) WatchAgents(_ *pb.WatchAgentsRequest, stream grpc.ServerStreamingServer[pb.WatchAgentsResponse]) error {
	f.mu.Lock()
	f.watches++
	f.mu.Unlock()
	agent := &pb.RegisteredAgent{Card: &pb.AgentCard{Name: "a", Interfaces: []*pb.AgentInterface{{Url: "a"}}}}
	change := &pb.AgentChange{Kind: pb.AgentChangeKind_AGENT_CHANGE_KIND_UP, Agent: agent}
	return stream.Send(&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{change}, Position: &pb.WatchPosition{Revision: 1, Reset_: true}})
}

func TestAWatchOfTheRegistryGoesOnWhenItEndsAndDoesNotSpin(t *testing.T) {
	t.Parallel()
	f := &flapping{}
	registry, err := NewRegistry(inMemory(t, func(s *grpc.Server) { pb.RegisterRegistryServiceServer(s, f) }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	shown := 0
	for _, err := range registry.Watch(ctx, nil) {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		} else if err == nil {
			shown++
		}
	}
	if f.mu.Lock(); shown != 1 || f.watches < 3 || f.watches > 8 {
		t.Errorf("shown %d times by %d watches", shown, f.watches)
	}
}
