// Package agent serves a plgrpc agent written in Go: a card that says who it is, and a handler that does the work.
//
//	card := agent.Card("greeter", "Says hello.", "grpc://127.0.0.1:50051")
//	err := agent.Serve(ctx, card, func(ctx context.Context, run *agent.Run) error {
//		run.Say("Hello, " + run.Text())
//		return nil
//	})
//
// A task is its log: what a run publishes becomes an event with the next sequence, readers pull events from any position, and the
// run never waits for them. A repeated request id is answered with the task of the first request. A run goes on when its caller hangs
// up, and ends early only when somebody cancels it.
//
// The package is experimental: it will change, without a version in between, when agents of other languages become workers of one
// runtime. Do not build on it what has to last.
//
// What it is not: durable. Logs are in memory and gone with the process; beyond 1,000 tasks the oldest ones that have ended are
// forgotten, and a request id is known for a day, or until 100,000 later ones. It has no policies, approvals or budgets, no text deltas
// and no task owners: every caller sees all tasks. Restrict who may call with interceptors ([WithServerOptions]) or client
// certificates ([WithTLS]).
package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/google/uuid"
	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"
)

const (
	// DefaultConcurrency is how many runs there may be at a time, where the card does not say.
	DefaultConcurrency = 64

	// DefaultGrace is how long runs may finish when the agent stops.
	DefaultGrace = 5 * time.Second

	// protocolVersion is the version of the contract.
	protocolVersion = "1.0"

	// maxRequestBytes bounds what a caller may send.
	maxRequestBytes = 64 << 20
)

// Handler does one turn of a task. Its context ends when the task is canceled or the agent stops.
//
// Without an error the task is completed. [Reject] and [RequireInput] end the turn in their own ways; any other error fails the
// task, and its text is told to the caller. A panic fails the task, too, and is logged.
type Handler func(ctx context.Context, run *Run) error

// Option changes how an agent serves.
type Option func(*options)

type options struct {
	server          []grpc.ServerOption
	tls             *tls.Config
	tools           []Tool
	registry        string
	registryOptions []plgrpc.Option
	grace           time.Duration
	log             *slog.Logger
}

// WithRegistry makes the agent known to the registry at url, as long as it serves.
func WithRegistry(url string, dial ...plgrpc.Option) Option {
	return func(o *options) { o.registry, o.registryOptions = url, dial }
}

// WithTLS is for an agent whose card says grpcs://: its certificate (config.Certificates), and whose certificates callers must have
// (config.ClientCAs and config.ClientAuth).
func WithTLS(config *tls.Config) Option {
	return func(o *options) { o.tls = config }
}

// WithTools offers functions that callers run by name, with CallTool: each call is a task of its own. They become the card's skills,
// unless it names some. An agent without a handler runs the tool calls in its messages with them, too.
func WithTools(tools ...Tool) Option {
	return func(o *options) { o.tools = append(o.tools, tools...) }
}

// WithServerOptions adds options of gRPC's own, such as interceptors that ask who calls.
func WithServerOptions(server ...grpc.ServerOption) Option {
	return func(o *options) { o.server = append(o.server, server...) }
}

// WithGrace says how long runs may finish when the agent stops; then they are recorded as failed.
func WithGrace(grace time.Duration) Option {
	return func(o *options) { o.grace = grace }
}

// WithLogger sets the logger for failures that no caller sees; the default is slog.Default().
func WithLogger(log *slog.Logger) Option {
	return func(o *options) { o.log = log }
}

// Card returns a card with one interface at url, to be completed by its user and by [Listen].
func Card(name, description, url string) *pb.AgentCard {
	return &pb.AgentCard{Name: name, Description: description, Interfaces: []*pb.AgentInterface{{Url: url, Transport: "grpc"}}}
}

// Server is an agent that has its port.
type Server struct {
	card     *pb.AgentCard
	instance string // identifies this start of the agent
	options  options
	listener net.Listener
	grpc     *grpc.Server
	health   *health.Server
	service  *service
}

// Serve runs an agent until ctx ends, and returns nil then. See [Listen] and [Server.Serve].
func Serve(ctx context.Context, card *pb.AgentCard, handler Handler, options ...Option) error {
	server, err := Listen(card, handler, options...)
	if err != nil {
		return err
	}
	return server.Serve(ctx)
}

// Listen takes the port that the URL of the card's first interface names, or any free one where that is 0; it does not answer calls yet. What the
// card does not state is filled in: versions, formats, role, features, and skills from the tools. The handler may be nil where there are
// tools ([WithTools]): messages are then tool calls.
func Listen(card *pb.AgentCard, handler Handler, chosen ...Option) (*Server, error) {
	all := options{grace: DefaultGrace, log: slog.Default()}
	for _, option := range chosen {
		option(&all)
	}
	configured := plgrpc.URL(card)
	where, err := url.Parse(configured)
	if err != nil || where.Hostname() == "" || where.Port() == "" || where.Scheme != "grpc" && where.Scheme != "grpcs" {
		return nil, fmt.Errorf("agent: the card's URL %q is not like grpc://127.0.0.1:50051", configured)
	}
	transport, err := all.transport(where.Scheme)
	if err != nil {
		return nil, err
	}
	tools, err := newToolbox(all.tools)
	if err != nil {
		return nil, err
	}
	if handler == nil && len(all.tools) == 0 {
		return nil, errors.New("agent: there is neither a handler nor a tool")
	}
	if handler == nil {
		handler = tools.handle
	}
	listener, err := net.Listen("tcp", where.Host)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	where.Host = net.JoinHostPort(where.Hostname(), port)
	card = complete(card, where.String(), tools)

	s := &Server{card: card, instance: uuid.NewString(), options: all, listener: listener, health: health.NewServer()}
	s.service = newService(card, handler, all.log)
	s.grpc = grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(transport),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxSendMsgSize(maxRequestBytes),
		// Clients may ask every few seconds whether anybody is there; gRPC allows it every five minutes.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 20 * time.Second}),
	}, all.server...)...)
	pb.RegisterAgentServiceServer(s.grpc, s.service)
	pb.RegisterControlServiceServer(s.grpc, &control{service: s.service, tools: tools})
	s.health.SetServingStatus(pb.AgentService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s, nil
}

// transport is how the agent is reached at that scheme.
func (o *options) transport(scheme string) (credentials.TransportCredentials, error) {
	hasCertificate := o.tls != nil && (len(o.tls.Certificates) > 0 || o.tls.GetCertificate != nil || o.tls.GetConfigForClient != nil)
	switch {
	case scheme == "grpcs" && !hasCertificate:
		return nil, errors.New("agent: the card says grpcs://, and WithTLS has no certificate")
	case scheme == "grpcs":
		return credentials.NewTLS(o.tls), nil
	case o.tls != nil:
		return nil, errors.New("agent: WithTLS is for cards that say grpcs://")
	default:
		return insecure.NewCredentials(), nil
	}
}

func complete(card *pb.AgentCard, url string, tools *toolbox) *pb.AgentCard {
	card = proto.CloneOf(card)
	if len(card.Skills) == 0 {
		card.Skills = tools.skills()
	}
	if len(card.Features) == 0 {
		card.Features = []string{"streaming"}
		if len(card.Skills) > 0 {
			card.Features = append(card.Features, "tools")
		}
	}
	if len(card.InputFormats) == 0 {
		card.InputFormats = []string{"text/plain"}
	}
	if len(card.OutputFormats) == 0 {
		card.OutputFormats = []string{"text/plain"}
	}
	card.Version = cmp.Or(card.Version, "1.0.0")
	card.ProtocolVersion = cmp.Or(card.ProtocolVersion, protocolVersion)
	card.Role = cmp.Or(card.Role, "worker")
	card.MaxConcurrency = cmp.Or(card.MaxConcurrency, DefaultConcurrency)
	first := card.Interfaces[0]
	first.Url = url
	first.Transport = cmp.Or(first.Transport, "grpc")
	first.ProtocolVersion = cmp.Or(first.ProtocolVersion, card.ProtocolVersion)
	return card
}

// URL is where the agent can be reached, the port included.
func (s *Server) URL() string { return plgrpc.URL(s.card) }

// Serve answers calls until ctx ends. Then it takes no more tasks, gives runs their grace, and returns nil. It leaves the registry first; where there
// are runs, it says there that it is draining, and leaves when they have ended. It fails when the registry refuses the card; a registry that is away is tried again. Call it once.
func (s *Server) Serve(ctx context.Context) error {
	serving := make(chan error, 1)
	go func() { serving <- s.grpc.Serve(s.listener) }()
	registered := make(chan error, 1)
	leaseContext, leave := context.WithCancel(ctx)
	defer leave()
	if s.options.registry != "" {
		go func() { registered <- s.stayRegistered(leaseContext) }()
	} else {
		go func() { <-leaseContext.Done(); registered <- nil }()
	}
	var err error
	select {
	case err = <-serving:
		leave()
		return errors.Join(err, <-registered)
	case err = <-registered: // refused; or ctx has ended, and it is off the registry
	}
	s.stop()
	<-serving
	return err
}

// stop ends in order: no new tasks, then the runs, then the calls that watch them.
func (s *Server) stop() {
	s.health.Shutdown()
	s.service.drain(s.options.grace)
	stopped := make(chan struct{})
	go func() { s.grpc.GracefulStop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(time.Second): // streams of tasks that wait for input do not end by themselves
		s.grpc.Stop()
		<-stopped
	}
}
