package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	if err := refused(err, plgrpc.ErrSessionNotFound); err != nil {
		return err
	}
	return changeSession(ctx, s, sessionID)
}

// changeSession edits, rolls back, branches, resumes, exports and deletes a session with three turns.
func changeSession(ctx context.Context, s *stage, sessionID string) error {
	chat := s.agent.Sessions()
	fifth, err := replaceInput(ctx, s, sessionID)
	if err != nil {
		return err
	}
	if err := rollBackAndBranch(ctx, chat, sessionID); err != nil {
		return err
	}
	if err := readRuntimeEvents(ctx, chat, sessionID); err != nil {
		return err
	}
	deleted, err := chat.Delete(ctx, sessionID)
	if err != nil {
		return err
	}
	if err := expect("the deleted turns", deleted.GetTurnCount(), int64(5)); err != nil {
		return err
	}
	_, err = chat.Get(ctx, &pb.GetSessionRequest{SessionId: sessionID})
	if err := refused(err, plgrpc.ErrSessionNotFound); err != nil {
		return err
	}
	_, err = s.agent.Get(ctx, fifth.GetTaskId())
	return refused(err, plgrpc.ErrTaskNotFound)
}

// replaceInput submits turn-4 and turn-5, and replaces the input of the latter while it waits. It returns the latter, which has ended.
func replaceInput(ctx context.Context, s *stage, sessionID string) (*pb.Turn, error) {
	chat := s.agent.Sessions()
	if _, err := chat.Submit(ctx, sessionID, plgrpc.Text("wait"), plgrpc.TurnID("turn-4")); err != nil {
		return nil, err
	}
	fifth, err := chat.Submit(ctx, sessionID, plgrpc.Text("echo five"), plgrpc.TurnID("turn-5"))
	if err != nil {
		return nil, err
	}
	if _, err := chat.ReplaceInput(ctx, sessionID, "turn-5", plgrpc.Text("echo six")); err != nil {
		return nil, err
	}
	if _, err := chat.Interrupt(ctx, &pb.InterruptTurnRequest{SessionId: sessionID}); err != nil {
		return nil, err
	}
	if _, err := wholeLog(chat.Stream(ctx, sessionID, "turn-5")); err != nil {
		return nil, err
	}
	task, err := s.agent.Get(ctx, fifth.GetTaskId())
	if err != nil {
		return nil, err
	}
	return fifth, expect("the replaced input", plgrpc.Output(task), "six")
}

func rollBackAndBranch(ctx context.Context, chat *plgrpc.Sessions, sessionID string) error {
	for range 2 { // the repetition changes nothing
		thread, err := chat.RollBack(ctx, sessionID, "turn-4", "wrong")
		if err != nil {
			return err
		}
		if err := expect("the number of rollbacks", thread.GetRollbackCount(), int32(1)); err != nil {
			return err
		}
	}
	page, err := chat.Get(ctx, &pb.GetSessionRequest{SessionId: sessionID})
	if err != nil {
		return err
	}
	var rolledBack []string
	for _, turn := range page.GetTurns() {
		if turn.GetRolledBack() {
			rolledBack = append(rolledBack, turn.GetTurnId())
		}
	}
	if err := expect("the turns that are rolled back", fmt.Sprint(rolledBack), "[turn-4 turn-5]"); err != nil {
		return err
	}
	request := &pb.StartThreadRequest{SessionId: sessionID, FromThreadId: "default", FromTurnId: "turn-2"}
	branch, err := chat.StartThread(ctx, request)
	if err != nil {
		return err
	}
	if err := expect("the branch", branch.GetFromThreadId()+" "+branch.GetFromTurnId(), "default turn-2"); err != nil {
		return err
	}
	resumed, err := chat.Resume(ctx, &pb.ResumeThreadRequest{SessionId: sessionID})
	if err != nil {
		return err
	}
	return expect("the open turns", len(resumed.GetResumed())+len(resumed.GetOpenTurns()), 0)
}

// readRuntimeEvents reads the session as events of the Agent Runtime contract: all, and the second half.
func readRuntimeEvents(ctx context.Context, chat *plgrpc.Sessions, sessionID string) error {
	whole, err := runtimeEvents(ctx, chat, sessionID, 0)
	if err != nil {
		return err
	}
	middle := len(whole) / 2
	rest, err := runtimeEvents(ctx, chat, sessionID, whole[middle-1].GetSequence())
	if err != nil {
		return err
	}
	if !slices.EqualFunc(rest, whole[middle:], func(a, b *pb.RuntimeEvent) bool { return proto.Equal(a, b) }) {
		return errors.New("the rest of the runtime events differs")
	}
	var started []string
	for _, event := range whole {
		if event.GetType() == "turn.started" {
			started = append(started, event.GetTurnId())
		}
	}
	slices.Sort(started)
	return expect("the started turns", fmt.Sprint(started), "[turn-1 turn-2 turn-3 turn-4 turn-5]")
}

func runtimeEvents(ctx context.Context, chat *plgrpc.Sessions, sessionID string, after int64) ([]*pb.RuntimeEvent, error) {
	var events []*pb.RuntimeEvent
	request := &pb.StreamRuntimeEventsRequest{SessionId: sessionID, AfterSequence: after, StopAtEnd: true}
	for event, err := range chat.RuntimeEvents(ctx, request) {
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
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
