package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

func snapshots(ctx context.Context, s *stage) error {
	reader, sessionID := s.agent.Snapshots(), "chat-"+uuid.NewString()
	if err := snapshotsOfSession(ctx, s, sessionID); err != nil {
		return err
	}
	if err := snapshotsOfTasks(ctx, s); err != nil {
		return err
	}
	_, err := reader.Thread(ctx, sessionID, "unknown")
	if err := refused(err, plgrpc.ErrThreadNotFound); err != nil {
		return err
	}
	_, err = reader.Session(ctx, sessionID+"-unknown")
	if err := refused(err, plgrpc.ErrSessionNotFound); err != nil {
		return err
	}
	_, err = reader.Evidence(ctx, sessionID+"-unknown")
	return refused(err, plgrpc.ErrTaskNotFound)
}

// snapshotsOfSession reads a session with an active and a queued turn, and again when the turns have ended.
func snapshotsOfSession(ctx context.Context, s *stage, sessionID string) error {
	reader, chat := s.agent.Snapshots(), s.agent.Sessions()
	if _, err := submitTurns(ctx, chat, sessionID, "wait", "echo second"); err != nil {
		return err
	}
	session, err := reader.Session(ctx, sessionID)
	if err != nil {
		return err
	}
	var open []string
	for _, turn := range session.GetSession().GetOpenTurns() {
		open = append(open, turn.GetTurnId())
	}
	if err := expect("the open turns", fmt.Sprint(open), "[turn-1 turn-2]"); err != nil {
		return err
	}
	if err := expectThread(ctx, reader, sessionID, pb.ThreadStatus_THREAD_STATUS_RUNNING); err != nil {
		return err
	}
	queue, err := reader.Queue(ctx, sessionID, "")
	if err != nil {
		return err
	}
	if err := expect("the length of the queue", len(queue.GetQueuedTurns()), 1); err != nil {
		return err
	}
	queued := queue.GetQueuedTurns()[0]
	place := fmt.Sprint(queued.GetTurn().GetTurnId(), " ", queued.GetPlace(), " ", queued.GetPreview())
	if err := expect("the queue", place, "turn-2 1 echo second"); err != nil {
		return err
	}
	if _, err := chat.Interrupt(ctx, &pb.InterruptTurnRequest{SessionId: sessionID}); err != nil {
		return err
	}
	if _, err := wholeLog(chat.Stream(ctx, sessionID, "turn-2")); err != nil {
		return err
	}
	return expectThread(ctx, reader, sessionID, pb.ThreadStatus_THREAD_STATUS_COMPLETED)
}

func expectThread(ctx context.Context, reader *plgrpc.Snapshots, sessionID string, status pb.ThreadStatus) error {
	session, err := reader.Session(ctx, sessionID)
	if err != nil {
		return err
	}
	thread, err := reader.Thread(ctx, sessionID, "")
	if err != nil {
		return err
	}
	if err := expect("the status of the thread", thread.GetStatus(), status); err != nil {
		return err
	}
	return expect("the position of the thread", thread.GetPosition(), session.GetSession().GetPosition())
}

// snapshotsOfTasks reads the tools, the context and evidence of a task with model calls, and the artifacts of another.
func snapshotsOfTasks(ctx context.Context, s *stage) error {
	reader := s.agent.Snapshots()
	inventory, err := reader.Tools(ctx)
	if err != nil {
		return err
	}
	var tools []string
	for _, entry := range inventory.GetTools() {
		tools = append(tools, entry.GetTool().GetName())
	}
	if err := expect("the tools", fmt.Sprint(tools), "[echo hold stamp]"); err != nil {
		return err
	}
	spent, err := s.agent.Send(ctx, plgrpc.Text("spend 3"))
	if err != nil {
		return err
	}
	modelCall, err := reader.Context(ctx, spent.GetId())
	if err != nil {
		return err
	}
	if err := expect("the step of the model call", modelCall.GetStep(), int32(3)); err != nil {
		return err
	}
	if modelCall.GetPreparedSequence() <= 0 {
		return errors.New("the context has no sequence")
	}
	evidence, err := reader.Evidence(ctx, spent.GetId())
	if err != nil {
		return err
	}
	calls := int64(0)
	for _, action := range evidence.GetActions() {
		if action.GetKind() == "tool.call" && action.GetOutcome() == pb.ActionOutcome_ACTION_OUTCOME_COMPLETED {
			calls += action.GetCount()
		}
	}
	if err := expect("the tool calls", calls, int64(2)); err != nil {
		return err
	}
	counted, err := s.agent.Send(ctx, plgrpc.Text("count 3"))
	if err != nil {
		return err
	}
	artifacts, err := reader.Artifacts(ctx, counted.GetId())
	if err != nil {
		return err
	}
	var previews []string
	for _, artifact := range artifacts.GetArtifacts() {
		previews = append(previews, artifact.GetPreview())
	}
	return expect("the artifacts", fmt.Sprint(previews), "[1 2 3]")
}
