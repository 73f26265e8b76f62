package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/protobuf/proto"
)

func tasks(ctx context.Context, s *stage) error {
	first, err := blockedTasks(ctx, s, uuid.NewString())
	if err != nil {
		return err
	}
	if err := pauseAndRetry(ctx, s, first); err != nil {
		return err
	}
	if err := workOutside(ctx, s); err != nil {
		return err
	}
	_, err = s.agent.Tasks().Get(ctx, uuid.NewString())
	return refused(err, plgrpc.ErrTaskNotFound)
}

// blockedTasks runs a task, and then one that the first has blocked. It returns the id of the first one.
func blockedTasks(ctx context.Context, s *stage, word string) (string, error) {
	control := s.agent.Tasks()
	request := &pb.CreateTaskRequest{Input: plgrpc.Text("echo " + word), Description: &pb.TaskDescription{Title: "First"}}
	first, err := control.Create(ctx, request)
	if err != nil {
		return "", err
	}
	blocker := &pb.TaskLink{Kind: pb.LinkKind_LINK_KIND_BLOCKED_BY, Target: first.GetTaskId()}
	second, err := control.Create(ctx, &pb.CreateTaskRequest{Input: plgrpc.Text("echo second"), Links: []*pb.TaskLink{blocker}})
	if err != nil {
		return "", err
	}
	if err := expect("the status of a draft", first.GetStatus(), pb.TaskStatus_TASK_STATUS_DRAFT); err != nil {
		return "", err
	}
	blocked, err := control.Start(ctx, second.GetTaskId())
	if err != nil {
		return "", err
	}
	if err := expect("the status of a blocked task", blocked.GetStatus(), pb.TaskStatus_TASK_STATUS_BLOCKED); err != nil {
		return "", err
	}
	cycle := &pb.TaskLink{Kind: pb.LinkKind_LINK_KIND_BLOCKED_BY, Target: second.GetTaskId()}
	_, err = control.Link(ctx, first.GetTaskId(), cycle)
	if err := refused(err, plgrpc.ErrLinkCycle); err != nil {
		return "", err
	}
	if err := changeDraft(ctx, control, first.GetTaskId(), second.GetTaskId(), word); err != nil {
		return "", err
	}
	if _, err := control.Start(ctx, first.GetTaskId()); err != nil {
		return "", err
	}
	if _, err := wholeLog(s.agent.Subscribe(ctx, &pb.SubscribeTaskRequest{TaskId: second.GetTaskId()})); err != nil {
		return "", err
	}
	for id, wanted := range map[string]string{first.GetTaskId(): word, second.GetTaskId(): "second"} {
		task, err := s.agent.Get(ctx, id)
		if err != nil {
			return "", err
		}
		if err := expect("the output", plgrpc.Output(task), wanted); err != nil {
			return "", err
		}
	}
	return first.GetTaskId(), nil
}

// changeDraft updates a draft, and finds it among the drafts, and not the started task.
func changeDraft(ctx context.Context, control *plgrpc.TaskControl, draft, started, word string) error {
	metadata := fmt.Sprintf(`{"word": %q}`, word)
	updated, err := control.Update(ctx, &pb.UpdateTaskRequest{
		TaskId: draft, Description: &pb.TaskDescription{Title: "The first"}, MetadataJson: metadata,
	})
	if err != nil {
		return err
	}
	if err := expect("the title", updated.GetDescription().GetTitle(), "The first"); err != nil {
		return err
	}
	found := map[string]string{}
	if err := json.Unmarshal([]byte(updated.GetMetadataJson()), &found); err != nil {
		return err
	}
	if err := expect("the metadata", found["word"], word); err != nil {
		return err
	}
	isListed := map[string]bool{}
	drafts := &pb.ListTaskSnapshotsRequest{Statuses: []pb.TaskStatus{pb.TaskStatus_TASK_STATUS_DRAFT}}
	for task, err := range control.List(ctx, drafts) {
		if err != nil {
			return err
		}
		isListed[task.GetTaskId()] = true
	}
	if !isListed[draft] || isListed[started] {
		return errors.New("the list of drafts is wrong")
	}
	return nil
}

// pauseAndRetry pauses a task whose run has not begun, because another task blocks it, and retries it after its end.
func pauseAndRetry(ctx context.Context, s *stage, other string) error {
	control := s.agent.Tasks()
	blocker, err := control.Create(ctx, &pb.CreateTaskRequest{Input: plgrpc.Text("wait")})
	if err != nil {
		return err
	}
	if _, err := control.Start(ctx, blocker.GetTaskId()); err != nil {
		return err
	}
	_, err = control.Link(ctx, blocker.GetTaskId(), &pb.TaskLink{Kind: pb.LinkKind_LINK_KIND_BLOCKED_BY, Target: other})
	if err := refused(err, plgrpc.ErrTaskStarted); err != nil {
		return err
	}
	link := &pb.TaskLink{Kind: pb.LinkKind_LINK_KIND_BLOCKED_BY, Target: blocker.GetTaskId()}
	task, err := control.Create(ctx, &pb.CreateTaskRequest{Input: plgrpc.Text("echo later"), Links: []*pb.TaskLink{link}})
	if err != nil {
		return err
	}
	if _, err := control.Start(ctx, task.GetTaskId()); err != nil {
		return err
	}
	if _, err := control.Pause(ctx, task.GetTaskId(), "lunch"); err != nil {
		return err
	}
	if _, err := s.agent.Cancel(ctx, blocker.GetTaskId(), "enough"); err != nil {
		return err
	}
	if err := awaitPause(ctx, s, task.GetTaskId()); err != nil {
		return err
	}
	if _, err := control.Resume(ctx, task.GetTaskId(), ""); err != nil {
		return err
	}
	if _, err := wholeLog(s.agent.Subscribe(ctx, &pb.SubscribeTaskRequest{TaskId: task.GetTaskId()})); err != nil {
		return err
	}
	return retryTask(ctx, s, task.GetTaskId())
}

func awaitPause(ctx context.Context, s *stage, taskID string) error {
	for event, err := range s.agent.Subscribe(ctx, &pb.SubscribeTaskRequest{TaskId: taskID}) {
		if err != nil {
			return err
		}
		if event.GetEventType() == "task.paused" {
			break
		}
	}
	paused, err := s.agent.Tasks().Get(ctx, taskID)
	if err != nil {
		return err
	}
	if err := expect("the status of a paused task", paused.GetStatus(), pb.TaskStatus_TASK_STATUS_PAUSED); err != nil {
		return err
	}
	return expect("the reason of the pause", paused.GetStatusReason(), "lunch")
}

// retryTask repeats a task that has completed.
func retryTask(ctx context.Context, s *stage, taskID string) error {
	control := s.agent.Tasks()
	ended, err := control.Get(ctx, taskID)
	if err != nil {
		return err
	}
	if _, err := control.Retry(ctx, &pb.RetryTaskRequest{TaskId: taskID, Reason: "again"}); err != nil {
		return err
	}
	hasEnded := false
	again := &pb.SubscribeTaskRequest{TaskId: taskID, AfterSequence: ended.GetSequence()}
	for event, err := range s.agent.Subscribe(ctx, again) {
		if err != nil {
			return err
		}
		hasEnded = event.GetLast()
	}
	if err := expect("whether the retry has ended", hasEnded, true); err != nil {
		return err
	}
	retried, err := control.Get(ctx, taskID)
	if err != nil {
		return err
	}
	if err := expect("the status after the retry", retried.GetStatus(), pb.TaskStatus_TASK_STATUS_COMPLETED); err != nil {
		return err
	}
	return expect("the runs", fmt.Sprint(retried.GetRetryCount(), retried.GetAttemptCount()), "1 2")
}

// workOutside starts, reports, completes and fails tasks whose work is done outside of the agent.
func workOutside(ctx context.Context, s *stage) error {
	control := s.agent.Tasks()
	task, err := startExternal(ctx, control)
	if err != nil {
		return err
	}
	half := &pb.AppendTaskProgressRequest{TaskId: task, Progress: proto.Float64(50), Message: "half"}
	reported, err := control.ReportProgress(ctx, half)
	if err != nil {
		return err
	}
	progress := fmt.Sprint(reported.GetProgress().GetProgress(), " ", reported.GetProgress().GetMessage())
	if err := expect("the progress", progress, "50 half"); err != nil {
		return err
	}
	if err := linkEvidence(ctx, control, task); err != nil {
		return err
	}
	answer := plgrpc.AgentMessage(plgrpc.TextPart("done"))
	done, err := control.Complete(ctx, &pb.CompleteTaskRequest{TaskId: task, Messages: []*pb.Message{answer}})
	if err != nil {
		return err
	}
	completed := fmt.Sprint(done.GetStatus(), " ", done.GetMessageCount())
	if err := expect("the completed task", completed, "TASK_STATUS_COMPLETED 2"); err != nil {
		return err
	}
	whole, err := s.agent.Get(ctx, task)
	if err != nil {
		return err
	}
	if err := expect("the output", plgrpc.Output(whole), "done"); err != nil {
		return err
	}
	_, err = control.Fail(ctx, task, &pb.Failure{Message: "too late"})
	if err := refused(err, plgrpc.ErrTaskFinished); err != nil {
		return err
	}
	broken, err := startExternal(ctx, control)
	if err != nil {
		return err
	}
	failed, err := control.Fail(ctx, broken, &pb.Failure{Message: "broken"})
	if err != nil {
		return err
	}
	return expect("the failed task", fmt.Sprint(failed.GetStatus(), " ", failed.GetFailure().GetMessage()), "TASK_STATUS_FAILED broken")
}

func startExternal(ctx context.Context, control *plgrpc.TaskControl) (string, error) {
	draft, err := control.Create(ctx, &pb.CreateTaskRequest{Input: plgrpc.Text("by hand")})
	if err != nil {
		return "", err
	}
	started, err := control.StartExternal(ctx, draft.GetTaskId())
	if err != nil {
		return "", err
	}
	begun := fmt.Sprint(started.GetExternal(), " ", started.GetState())
	return started.GetTaskId(), expect("the external work", begun, "true TASK_STATE_WORKING")
}

func linkEvidence(ctx context.Context, control *plgrpc.TaskControl, taskID string) error {
	link := &pb.TaskLink{Kind: pb.LinkKind_LINK_KIND_EVIDENCE, Target: "https://example.com/report", Reason: "the report"}
	linked, err := control.Link(ctx, taskID, link)
	if err != nil {
		return err
	}
	if err := expect("the number of links", len(linked.GetLinks()), 1); err != nil {
		return err
	}
	if err := expect("the target of the link", linked.GetLinks()[0].GetLink().GetTarget(), link.GetTarget()); err != nil {
		return err
	}
	unlinked, err := control.Unlink(ctx, taskID, link)
	if err != nil {
		return err
	}
	return expect("the number of links that are left", len(unlinked.GetLinks()), 0)
}
