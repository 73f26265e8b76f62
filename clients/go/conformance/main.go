// Conformance runs the cases that every client passes, against the scripted agent of protolink_grpc:
//
//	plgrpc conformance run -- go run ./conformance
//
// It prints one line per case, such as "PASS unary 12ms", and exits with 1 where one of them failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

// caseTimeout is how long one case may take.
const caseTimeout = time.Minute

// stage is what a program runs against, as its environment says.
type stage struct {
	agent      *plgrpc.Client
	hostile    *plgrpc.Client // the same agent, behind a proxy that breaks connections
	impatient  *plgrpc.Client // so is this
	registry   *plgrpc.Registry
	calculator *plgrpc.Client // an agent with a typed service, behind another such proxy
	url        string
	guarded    string
	apiKey     string
	bearer     string
	vectors    string
}

// skip is why a case cannot be run here.
type skip string

func (s skip) Error() string { return string(s) }

var cases = []struct {
	name string
	run  func(context.Context, *stage) error
}{
	{"unary", unary},
	{"stream", stream},
	{"resume", resume},
	{"cancel", cancel},
	{"deadline", deadline},
	{"errors", typedErrors},
	{"metadata", sentMetadata},
	{"retry", retry},
	{"large", large},
	{"approval", approval},
	{"budget", budget},
	{"registry", registry},
	{"tool", tool},
	{"typed-call", typedCall},
	{"typed-stream", typedStream},
	{"references", references},
	{"sessions", sessions},
	{"tasks", tasks},
	{"snapshots", snapshots},
	{"unknown-event", unknownEvent},
	{"unknown-part", unknownPart},
	{"unknown-enum", unknownEnum},
	{"missing-event", missingEvent},
	{"outage", outage},
	{"reset", reset},
	{"early-ok", earlyOK},
	{"cut-end", cutEnd},
	{"idle-cuts", idleCuts},
	{"flapping", flapping},
	{"retry-bound", retryBound},
	{"deadline-in-outage", deadlineInOutage},
	{"cancel-in-pause", cancelInPause},
	{"decision-in-cut", decisionInCut},
	{"forgotten-task", forgottenTask},
	{"mistyped", mistyped},
	{"expected-sequence", expectedSequence},
	{"credentials", credentials},
	{"leak", leak},
	{"vectors", vectors},
}

func main() {
	s, err := fromEnvironment()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	failed := false
	for _, c := range cases {
		ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
		began := time.Now()
		err := c.run(ctx, s)
		cancel()
		var skipped skip
		switch {
		case err == nil:
			fmt.Printf("PASS %s %dms\n", c.name, time.Since(began).Milliseconds())
		case errors.As(err, &skipped):
			fmt.Printf("SKIP %s: %s\n", c.name, skipped)
		default:
			failed = true
			fmt.Printf("FAIL %s: %s\n", c.name, strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	if failed {
		os.Exit(1)
	}
}

func fromEnvironment() (*stage, error) {
	agent, err := plgrpc.Dial(os.Getenv("PLGRPC_AGENT"))
	if err != nil {
		return nil, fmt.Errorf("PLGRPC_AGENT: %w", err)
	}
	hostile, err := plgrpc.Dial(os.Getenv("PLGRPC_HOSTILE"))
	if err != nil {
		return nil, fmt.Errorf("PLGRPC_HOSTILE: %w", err)
	}
	impatient, err := plgrpc.Dial(os.Getenv("PLGRPC_HOSTILE"), plgrpc.WithPatience(shortPatience))
	if err != nil {
		return nil, fmt.Errorf("PLGRPC_HOSTILE: %w", err)
	}
	registry, err := plgrpc.DialRegistry(os.Getenv("PLGRPC_REGISTRY"))
	if err != nil {
		return nil, fmt.Errorf("PLGRPC_REGISTRY: %w", err)
	}
	calculator, err := plgrpc.Dial(os.Getenv("PLGRPC_CALCULATOR"))
	if err != nil {
		return nil, fmt.Errorf("PLGRPC_CALCULATOR: %w", err)
	}
	return &stage{
		agent:      agent,
		hostile:    hostile,
		impatient:  impatient,
		registry:   registry,
		calculator: calculator,
		url:        os.Getenv("PLGRPC_AGENT"),
		guarded:    os.Getenv("PLGRPC_GUARDED"),
		apiKey:     os.Getenv("PLGRPC_API_KEY"),
		bearer:     os.Getenv("PLGRPC_BEARER"),
		vectors:    os.Getenv("PLGRPC_VECTORS"),
	}, nil
}

// expect fails, with both values, where they differ.
func expect[T comparable](what string, found, wanted T) error {
	if found != wanted {
		return fmt.Errorf("%s is %.200q, not %.200q", what, fmt.Sprint(found), fmt.Sprint(wanted))
	}
	return nil
}

// refused fails unless err has that reason.
func refused(err error, reason plgrpc.Reason) error {
	if !errors.Is(err, reason) {
		return fmt.Errorf("%v instead of %s", err, reason)
	}
	return nil
}

// collected reads a stream to its end.
func collected(events func(func(*pb.RunEvent, error) bool)) ([]*pb.RunEvent, error) {
	var all []*pb.RunEvent
	for event, err := range events {
		if err != nil {
			return nil, err
		}
		all = append(all, event)
	}
	return all, nil
}

// wholeLog reads a stream that must number its events from 1, without a gap, and end with the last one.
func wholeLog(events func(func(*pb.RunEvent, error) bool)) ([]*pb.RunEvent, error) {
	all, err := collected(events)
	if err != nil {
		return nil, err
	}
	for index, event := range all {
		if err := expect("the sequence", event.GetSequence(), int64(index+1)); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 || !all[len(all)-1].GetLast() {
		return nil, errors.New("the last event is not final")
	}
	return all, nil
}
