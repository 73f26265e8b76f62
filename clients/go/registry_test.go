package protolink

import (
	"slices"
	"testing"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/protolink/v1"
)

func TestAWatchTellsWhatIsNewHoweverOftenItBegins(t *testing.T) {
	change := func(kind pb.AgentChangeKind, url, version string) *pb.AgentChange {
		card := &pb.AgentCard{Name: url, Url: url, Version: version}
		return &pb.AgentChange{Kind: kind, Agent: &pb.RegisteredAgent{Card: card}}
	}
	up := func(url, version string) *pb.AgentChange {
		return change(pb.AgentChangeKind_AGENT_CHANGE_KIND_UP, url, version)
	}
	var present roster
	for i, step := range []struct {
		response *pb.WatchAgentsResponse
		want     []string
	}{
		{&pb.WatchAgentsResponse{Snapshot: true, Changes: []*pb.AgentChange{up("a", "1"), up("b", "1")}}, []string{"UP a", "UP b"}},
		{&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{up("c", "1")}, Revision: 7}, []string{"UP c"}},
		{&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{change(pb.AgentChangeKind_AGENT_CHANGE_KIND_EXPIRED, "c", "1")}, Revision: 8}, []string{"EXPIRED c"}},
		// The registry was restarted: a is gone, b is as it was, d is new.
		{&pb.WatchAgentsResponse{Snapshot: true, Changes: []*pb.AgentChange{up("b", "1")}}, nil},
		{&pb.WatchAgentsResponse{Changes: []*pb.AgentChange{up("d", "1")}, Revision: 3}, []string{"UP d", "DOWN a"}},
		{&pb.WatchAgentsResponse{Snapshot: true, Changes: []*pb.AgentChange{up("b", "2"), up("d", "1")}, Revision: 4}, []string{"UP b"}},
	} {
		var got []string
		for _, told := range present.news(step.response) {
			got = append(got, told.GetKind().String()[len("AGENT_CHANGE_KIND_"):]+" "+told.GetAgent().GetCard().GetUrl())
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d tells %q, want %q", i, got, step.want)
		}
	}
	if present.revision != 4 || len(present.agents) != 2 {
		t.Errorf("revision %d, agents %v", present.revision, present.agents)
	}
}
