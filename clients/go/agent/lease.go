package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc/codes"
)

const (
	registryTimeout          = 5 * time.Second // of one call
	farewellTimeout          = 2 * time.Second
	firstPause, longestPause = 200 * time.Millisecond, 5 * time.Second
	heartbeatsPerLease       = 3
)

// stayRegistered registers the card and renews its lease until ctx ends, then gives it back. It fails when the registry refuses the
// card the first time; whatever happens later is logged, and tried again.
func (s *Server) stayRegistered(ctx context.Context) error {
	registry, err := plgrpc.DialRegistry(s.options.registry, s.options.registryOptions...)
	if err != nil {
		return err
	}
	defer registry.Close()
	stub := pb.NewRegistryServiceClient(registry.Conn())
	lease, pause, known := "", firstPause, false
	for ctx.Err() == nil {
		ttl, err := s.beat(ctx, stub, &lease)
		wait, failure := max(ttl/heartbeatsPerLease, firstPause), plgrpc.FromError(err)
		switch {
		case failure == nil:
			pause, known = firstPause, true
		case !known && refuses(failure.Code):
			return failure
		case errors.Is(failure, plgrpc.ErrLeaseNotFound):
			lease = ""
			continue
		default:
			s.options.log.Warn("agent: not registered, will try again", "registry", s.options.registry, "error", failure)
			wait, pause = pause, min(2*pause, longestPause)
		}
		select {
		case <-ctx.Done():
		// Jitter keeps agents that started together from beating together.
		case <-time.After(wait - rand.N(wait/5)):
		}
	}
	if lease != "" {
		s.leave(stub, lease)
	}
	return nil
}

// leave gives the lease back. Where there are runs it says first that the agent is draining, and waits for them.
func (s *Server) leave(stub pb.RegistryServiceClient, lease string) {
	if s.service.running() > 0 && s.options.grace > 0 {
		s.farewell(func(ctx context.Context) error {
			_, err := stub.RenewLease(ctx, s.report(lease, pb.InstanceState_INSTANCE_STATE_DRAINING))
			return err
		})
		s.health.Shutdown()
		s.service.drain(s.options.grace)
	}
	s.farewell(func(ctx context.Context) error {
		_, err := stub.DeregisterAgent(ctx, &pb.DeregisterAgentRequest{LeaseId: lease})
		return err
	})
}

func (s *Server) farewell(say func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), farewellTimeout)
	defer cancel()
	if err := say(ctx); err != nil {
		s.options.log.Warn("agent: the registry will forget it when its lease runs out", "registry", s.options.registry, "error", err)
	}
}

// report is a heartbeat: how the agent is now.
func (s *Server) report(lease string, state pb.InstanceState) *pb.RenewLeaseRequest {
	return &pb.RenewLeaseRequest{LeaseId: lease, State: state, Running: s.service.running()}
}

// beat renews the lease, or takes one where there is none, and returns how long it lasts.
func (s *Server) beat(ctx context.Context, stub pb.RegistryServiceClient, lease *string) (time.Duration, error) {
	// A call that is under way when the agent stops is completed: a lease can only be given back if its id is known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registryTimeout)
	defer cancel()
	if *lease != "" {
		renewed, err := stub.RenewLease(ctx, s.report(*lease, pb.InstanceState_INSTANCE_STATE_UP))
		return renewed.GetLeaseTtl().AsDuration(), err
	}
	registered, err := stub.RegisterAgent(ctx, &pb.RegisterAgentRequest{Card: s.card, InstanceId: s.instance})
	*lease = registered.GetLeaseId()
	return registered.GetLeaseTtl().AsDuration(), err
}

// refuses reports whether a registry that answers so will not answer otherwise to the same card.
func refuses(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	default:
		return false
	}
}
