// Example asks the vacation mesh for a trip and prints what happens, one line per event, while it happens.
//
//	make demo ARGS="--yes --keep-running"       # in one terminal; it prints the registry's URL
//	go run ./example -registry grpc://...       # in another one
//
// The coordinator may book nothing without an approval: it is asked for here, or given by -yes.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

type wish struct {
	To     string `json:"to"`
	Nights int    `json:"nights"`
	Guests int    `json:"guests"`
}

func main() {
	registry := flag.String("registry", os.Getenv("PLGRPC_REGISTRY"), "URL of the registry; default: $PLGRPC_REGISTRY")
	to := flag.String("to", "Santorini", "where to go")
	nights := flag.Int("nights", 5, "for how long")
	guests := flag.Int("guests", 2, "for how many")
	yes := flag.Bool("yes", false, "approve the booking without asking")
	flag.Parse()
	if *registry == "" {
		fmt.Fprintln(os.Stderr, "-registry is missing: the URL that the mesh's registry has printed")
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := ask(ctx, *registry, wish{*to, *nights, *guests}, *yes); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(ctx context.Context, registryURL string, trip wish, yes bool) error {
	coordinator, err := find(ctx, registryURL, "coordinator")
	if err != nil {
		return err
	}
	defer coordinator.Close()
	task, err := plgrpc.JSON(trip)
	if err != nil {
		return err
	}
	var id string
	for event, err := range coordinator.Stream(ctx, task) {
		if errors.Is(err, context.Canceled) && id != "" {
			// Leaving would not end the work; canceling does.
			_, err := coordinator.Cancel(context.Background(), id, "the traveller has left")
			return err
		}
		if err != nil {
			return err
		}
		id = event.GetTaskId()
		fmt.Println(line(event))
		if event.GetApprovalRequired() != nil {
			if err := decide(ctx, coordinator, event, yes); err != nil {
				return err
			}
		}
	}
	return nil
}

// find looks an agent up by name and returns a client of it.
func find(ctx context.Context, registryURL, name string) (*plgrpc.Client, error) {
	registry, err := plgrpc.DialRegistry(registryURL)
	if err != nil {
		return nil, err
	}
	defer registry.Close()
	found, err := registry.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	return plgrpc.Dial(plgrpc.URL(found.GetCard()))
}

// line is an event in one line: kinds that this program has not heard of are shown by type and summary.
func line(event *pb.RunEvent) string {
	said := event.GetSummary()
	switch payload := event.GetPayload().(type) {
	case *pb.RunEvent_TaskStatus:
		state := strings.TrimPrefix(payload.TaskStatus.GetNewState().String(), "TASK_STATE_")
		said = strings.TrimSpace(strings.ToLower(state) + " " + payload.TaskStatus.GetFailure().GetMessage() + payload.TaskStatus.GetCancelReason())
	case *pb.RunEvent_TaskMessages:
		messages := payload.TaskMessages.GetMessages()
		said = plgrpc.TextOf(messages[len(messages)-1].GetParts())
	case *pb.RunEvent_LlmCallCompleted:
		said = payload.LlmCallCompleted.GetText()
	case *pb.RunEvent_TaskArtifact:
		said = "publishes " + payload.TaskArtifact.GetArtifact().GetName()
	}
	said = strings.Join(strings.Fields(said), " ")
	return fmt.Sprintf("%3d  %-20s %-12s %.120s", event.GetSequence(), event.GetEventType(), event.GetAgentName(), said)
}

// decide answers what the event asks for, unless another approver does so first.
func decide(ctx context.Context, agent *plgrpc.Client, event *pb.RunEvent, yes bool) error {
	for approval, err := range agent.Approvals(ctx, &pb.ListApprovalsRequest{TaskId: event.GetTaskId()}) {
		if err != nil {
			return err
		}
		if approval.GetApprovalId() != event.GetApprovalRequired().GetApprovalId() {
			continue
		}
		reason := "-yes"
		if !yes {
			action := approval.GetAction()
			fmt.Printf("May %s run with %s? [y/n] ", action.GetName(), action.GetPayload().GetJson())
			said, _ := bufio.NewReader(os.Stdin).ReadString('\n')
			yes, reason = strings.HasPrefix(strings.ToLower(said), "y"), "said at the terminal"
		}
		_, err := agent.Respond(ctx, approval, yes, reason)
		return err
	}
	return nil
}
