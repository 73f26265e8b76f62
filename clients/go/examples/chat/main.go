// Chat is a chat with an agent: each line is a turn, lines wait for each other, and one stream shows everything that happens.
//
//	plgrpc conformance serve                              # prints the URL of an agent, among others
//	go run ./examples/chat grpc://127.0.0.1:PORT [SESSION]
//
// /stop interrupts the active turn, /clear also removes those that wait. That agent understands "echo TEXT", "wait" and "ask QUESTION".
// Started again with the same session, it shows the conversation so far, and continues it.
package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "the URL of the agent is missing")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	session := ""
	if len(os.Args) > 2 {
		session = os.Args[2]
	}
	if err := chat(ctx, os.Args[1], session); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func chat(ctx context.Context, url, sessionID string) error {
	client, err := plgrpc.Dial(url)
	if err != nil {
		return err
	}
	defer client.Close()
	sessions := client.Sessions()
	session, err := sessions.Create(ctx, &pb.CreateSessionRequest{SessionId: sessionID, Title: "A chat"})
	if err != nil {
		return err
	}
	fmt.Println("session", session.GetSessionId())

	ctx, stop := context.WithCancel(ctx)
	shown := make(chan error, 1)
	go func() { shown <- show(ctx, sessions, session.GetSessionId()) }()
	defer func() { stop(); <-shown }()

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := submit(ctx, sessions, session.GetSessionId(), lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// submit makes a turn of a line, or follows a command.
func submit(ctx context.Context, sessions *plgrpc.Sessions, sessionID, line string) error {
	if line != "/stop" && line != "/clear" {
		_, err := sessions.Submit(ctx, sessionID, plgrpc.Text(line))
		return err
	}
	request := &pb.InterruptTurnRequest{SessionId: sessionID, Reason: "the user has stopped it", ClearQueue: line == "/clear"}
	interrupted, err := sessions.Interrupt(ctx, request)
	fmt.Println(len(interrupted), "turns were open")
	return err
}

// show prints the events of the session, one line each, until ctx ends.
func show(ctx context.Context, sessions *plgrpc.Sessions, sessionID string) error {
	for item, err := range sessions.Subscribe(ctx, sessionID, 0) {
		if err != nil {
			return err
		}
		switch event := item.SessionEvent; {
		case event == nil:
			fmt.Printf("%4d  %-20s %s\n", item.Position, item.Event.GetEventType(), said(item.Event))
		case event.GetTurnSubmitted() != nil:
			fmt.Printf("%4d  turn submitted (queued: %t)\n", item.Position, event.GetTurnSubmitted().GetQueued())
		case event.GetTurnEnded() != nil:
			fmt.Printf("%4d  turn ended: %s\n", item.Position, event.GetTurnEnded().GetResult())
		}
	}
	return nil
}

// said is the text of the messages that an event adds, or its summary.
func said(event *pb.RunEvent) string {
	text := ""
	for _, message := range event.GetTaskMessages().GetMessages() {
		text += plgrpc.TextOf(message.GetParts())
	}
	return cmp.Or(text, event.GetSummary())
}
