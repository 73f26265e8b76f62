package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/protobuf/proto"
)

func sessions(ctx context.Context, s *stage) error {
	chat, sessionID, word := s.agent.Sessions(), "chat-"+uuid.NewString(), uuid.NewString()
	turns, err := submitTurns(ctx, chat, sessionID, "wait", "flaky 2 "+word, "cut 40 count 100")
	if err != nil {
		return err
	}
	again, err := chat.Submit(ctx, sessionID, plgrpc.Text("echo other"), plgrpc.TurnID("turn-2"))
	if err != nil {
		return err
	}
	if err := expect("the task of the repeated turn", again.GetTaskId(), turns[1].GetTaskId()); err != nil {
		return err
	}
	if err := streamAndInterrupt(ctx, chat, sessionID); err != nil {
		return err
	}
	page, err := chat.Get(ctx, &pb.GetSessionRequest{SessionId: sessionID})
	if err != nil {
		return err
	}
	var results []string
	for _, turn := range page.GetTurns() {
		results = append(results, turn.GetTurnId()+" "+turn.GetResult().String())
	}
	wanted := "[turn-1 TASK_STATE_CANCELED turn-2 TASK_STATE_COMPLETED turn-3 TASK_STATE_COMPLETED]"
	if err := expect("the results", fmt.Sprint(results), wanted); err != nil {
		return err
	}
	task, err := s.agent.Get(ctx, turns[1].GetTaskId())
	if err != nil {
		return err
	}
	if err := expect("the output", plgrpc.Output(task), word+" ran 1 times"); err != nil {
		return err
	}
	if err := readSession(ctx, chat, sessionID, page.GetSession().GetPosition()); err != nil {
		return err
	}
	_, err = chat.Remove(ctx, sessionID, "turn-3")
	if err := refused(err, plgrpc.ErrTurnNotQueued); err != nil {
		return err
	}
	_, err = chat.Get(ctx, &pb.GetSessionRequest{SessionId: sessionID + "-unknown"})
	return refused(err, plgrpc.ErrSessionNotFound)
}

// submitTurns submits the texts as turn-1, turn-2 and so on. The first one must be active, the others queued.
func submitTurns(ctx context.Context, chat *plgrpc.Sessions, sessionID string, texts ...string) ([]*pb.Turn, error) {
	var turns []*pb.Turn
	state := pb.TurnState_TURN_STATE_ACTIVE
	for index, text := range texts {
		id := fmt.Sprintf("turn-%d", index+1)
		turn, err := chat.Submit(ctx, sessionID, plgrpc.Text(text), plgrpc.TurnID(id))
		if err != nil {
			return nil, err
		}
		if err := expect("the state of "+id, turn.GetState(), state); err != nil {
			return nil, err
		}
		turns, state = append(turns, turn), pb.TurnState_TURN_STATE_QUEUED
	}
	return turns, nil
}

// streamAndInterrupt streams the last turn to its end, and interrupts the first one when the stream has begun.
func streamAndInterrupt(ctx context.Context, chat *plgrpc.Sessions, sessionID string) error {
	return counted(func(yield func(*pb.RunEvent, error) bool) {
		for event, err := range chat.Stream(ctx, sessionID, "turn-3") {
			if event.GetSequence() == 1 {
				err = interruptFirst(ctx, chat, sessionID)
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	})
}

func interruptFirst(ctx context.Context, chat *plgrpc.Sessions, sessionID string) error {
	interrupted, err := chat.Interrupt(ctx, &pb.InterruptTurnRequest{SessionId: sessionID, Reason: "enough"})
	if err != nil {
		return err
	}
	if len(interrupted) != 1 {
		return fmt.Errorf("%d turns were interrupted", len(interrupted))
	}
	return expect("the interrupted turn", interrupted[0].GetTurnId(), "turn-1")
}

// readSession reads the events of a session up to its end: the second half by a stream that is cut, and all.
func readSession(ctx context.Context, chat *plgrpc.Sessions, sessionID string, end int64) error {
	rest, err := itemsUpTo(ctx, chat, sessionID, end/2, end)
	if err != nil {
		return err
	}
	whole, err := itemsUpTo(ctx, chat, sessionID, 0, end)
	if err != nil {
		return err
	}
	for index, item := range whole {
		if err := expect("the position", item.Position, int64(index+1)); err != nil {
			return err
		}
	}
	if err := expect("the number of events in the rest", int64(len(rest)), end-end/2); err != nil {
		return err
	}
	for index, item := range rest {
		same := whole[end/2+int64(index)]
		if item.Position != same.Position || !proto.Equal(item.Event, same.Event) || !proto.Equal(item.SessionEvent, same.SessionEvent) {
			return fmt.Errorf("position %d differs in the rest", same.Position)
		}
	}
	return nil
}

func itemsUpTo(ctx context.Context, chat *plgrpc.Sessions, sessionID string, after, end int64) ([]plgrpc.SessionItem, error) {
	var items []plgrpc.SessionItem
	for item, err := range chat.Subscribe(ctx, sessionID, after) {
		if err != nil {
			return nil, err
		}
		if items = append(items, item); item.Position >= end {
			return items, nil
		}
	}
	return nil, errors.New("the stream of the session has ended")
}
