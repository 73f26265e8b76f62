package plgrpc

import (
	"context"
	"iter"
	"strings"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Registry finds agents. It is safe for concurrent use.
type Registry struct {
	*channel
	registry pb.RegistryServiceClient
}

// DialRegistry returns a client of the registry at url; URLs and options are those of [Dial].
func DialRegistry(url string, options ...Option) (*Registry, error) {
	channel, err := dial(url, options)
	if err != nil {
		return nil, err
	}
	return &Registry{channel, pb.NewRegistryServiceClient(channel.conn)}, nil
}

// NewRegistry returns a client of a registry over a connection of the caller's own, see [NewClient].
func NewRegistry(conn grpc.ClientConnInterface, options ...Option) (*Registry, error) {
	channel, err := over(conn, options)
	if err != nil {
		return nil, err
	}
	return &Registry{channel, pb.NewRegistryServiceClient(channel.conn)}, nil
}

// Lookup returns the agent of that name or URL; [URL] says where to call it. Of several instances with one name it is one that is not
// draining, if there is any. It fails with [ErrAgentNotFound] or [ErrAgentAmbiguous].
func (r *Registry) Lookup(ctx context.Context, nameOrURL string) (*pb.RegisteredAgent, error) {
	request := &pb.GetAgentRequest{Target: &pb.GetAgentRequest_Name{Name: nameOrURL}}
	if strings.Contains(nameOrURL, "://") {
		request.Target = &pb.GetAgentRequest_Url{Url: nameOrURL}
	}
	response, err := unary(ctx, r.channel, r.registry.GetAgent, request)
	return response.GetAgent(), err
}

// URL returns where the agent of a card is called: the URL of its first interface. It is empty for a card without interfaces.
func URL(card *pb.AgentCard) string {
	if len(card.GetInterfaces()) == 0 {
		return ""
	}
	return card.GetInterfaces()[0].GetUrl()
}

// List yields the agents that match, for instance &pb.AgentFilter{Role: "worker", Tags: []string{"travel"}}, sorted by name and URL;
// all of them for nil. An error is yielded once, as the last value.
func (r *Registry) List(ctx context.Context, filter *pb.AgentFilter) iter.Seq2[*pb.RegisteredAgent, error] {
	request := &pb.ListAgentsRequest{Filter: filter}
	return pages(request, "", func(page *pb.ListAgentsRequest, token string) ([]*pb.RegisteredAgent, string, error) {
		page.PageToken = token
		response, err := unary(ctx, r.channel, r.registry.ListAgents, page)
		return response.GetAgents(), response.GetNextPageToken(), err
	})
}

// Watch yields the registered agents that match, as AGENT_CHANGE_KIND_UP, and then changes. It resumes after interruptions and restarts
// of the registry; an agent that left meanwhile is reported as AGENT_CHANGE_KIND_DOWN. It ends with ctx, or with an
// error as the last value.
func (r *Registry) Watch(ctx context.Context, filter *pb.AgentFilter) iter.Seq2[*pb.AgentChange, error] {
	return func(yield func(*pb.AgentChange, error) bool) {
		var present roster
		err := r.persist(ctx, func(ctx context.Context, this *attempt) error {
			present.snapshot = nil // an interrupted one is sent again
			request := &pb.WatchAgentsRequest{Filter: filter, AfterRevision: present.revision}
			stream, err := r.registry.WatchAgents(ctx, request)
			return listen(this, stream, err, func(response *pb.WatchAgentsResponse) error {
				this.known = this.known || len(response.GetChanges()) > 0
				for _, change := range present.news(response) {
					if err := ctx.Err(); err != nil {
						return err
					}
					this.news = true
					if !yield(change, nil) {
						return errStopped
					}
				}
				return nil
			})
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// roster is the set of agents that a watch has shown as present.
type roster struct {
	revision int64
	agents   map[string]*pb.RegisteredAgent // by URL
	snapshot map[string]*pb.RegisteredAgent // the agents of a snapshot that is under way
}

// news takes a response in and returns what the reader does not know yet. A snapshot has all agents, in several responses, of which the
// last one has a revision; agents that are not in it have left.
func (r *roster) news(response *pb.WatchAgentsResponse) []*pb.AgentChange {
	revision := response.GetPosition().GetRevision()
	if response.GetPosition().GetReset_() {
		r.snapshot = map[string]*pb.RegisteredAgent{}
	}
	if r.agents == nil {
		r.agents = map[string]*pb.RegisteredAgent{}
	}
	var news []*pb.AgentChange
	for _, change := range response.GetChanges() {
		agent := change.GetAgent()
		url := URL(agent.GetCard())
		if change.GetKind() != pb.AgentChangeKind_AGENT_CHANGE_KIND_UP {
			delete(r.agents, url)
			news = append(news, change)
			continue
		}
		if r.snapshot != nil {
			r.snapshot[url] = agent
		}
		if r.snapshot == nil || !sameInstance(r.agents[url], agent) {
			news = append(news, change)
		}
		r.agents[url] = agent
	}
	if revision == 0 {
		return news
	}
	if r.snapshot != nil {
		for url, agent := range r.agents {
			if r.snapshot[url] == nil {
				delete(r.agents, url)
				down := &pb.AgentChange{Kind: pb.AgentChangeKind_AGENT_CHANGE_KIND_DOWN, Agent: agent, Revision: revision}
				news = append(news, down)
			}
		}
	}
	r.snapshot, r.revision = nil, revision
	return news
}

// sameInstance reports whether both look the same to a watcher, to whom load and lease do not count.
func sameInstance(a, b *pb.RegisteredAgent) bool {
	return a.GetInstanceId() == b.GetInstanceId() && a.GetState() == b.GetState() && a.GetOwner() == b.GetOwner() &&
		proto.Equal(a.GetCard(), b.GetCard())
}
