package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc/metadata"
)

// The cases here go through a proxy that breaks connections when the scripted agent tells it to.

const shortPatience = 2 * time.Second

func outage(ctx context.Context, s *stage) error {
	return counts(ctx, s.hostile, "outage 4000 40 count 100")
}

func reset(ctx context.Context, s *stage) error {
	for _, code := range []string{"8", "2", "0"} {
		if err := counts(ctx, s.hostile, "reset "+code+" 40 count 100"); err != nil {
			return fmt.Errorf("reset %s: %w", code, err)
		}
	}
	return nil
}

func earlyOK(ctx context.Context, s *stage) error {
	return counts(ctx, s.hostile, "early 40 count 100")
}

func cutEnd(ctx context.Context, s *stage) error {
	question, err := collected(s.agent.Stream(ctx, plgrpc.Text("cut-end ask where")))
	if err != nil {
		return err
	}
	asked := question[len(question)-1]
	answer, err := collected(s.agent.Stream(ctx, plgrpc.Text("there"), plgrpc.ContinueTask(asked.GetTaskId())))
	if err != nil {
		return err
	}
	ended := answer[len(answer)-1]
	err = errors.Join(
		expect("the end of the first turn", asked.GetTaskStatus().GetNewState(), pb.TaskState_TASK_STATE_INPUT_REQUIRED),
		expect("the end of the second turn", ended.GetLast(), true),
	)
	if err != nil {
		return err
	}
	retry := &pb.RetryTaskRequest{TaskId: asked.GetTaskId(), Reason: "again", RequestId: uuid.NewString()}
	for range 2 {
		if _, err := s.agent.Tasks().Retry(ctx, retry); err != nil {
			return err
		}
	}
	return retriedOnce(ctx, s, ended)
}

// retriedOnce reads the log of a task that has ended once before its retry, and then what follows its last event: nothing.
func retriedOnce(ctx context.Context, s *stage, ended *pb.RunEvent) error {
	events, err := wholeLog(s.agent.Subscribe(ctx, &pb.SubscribeTaskRequest{TaskId: ended.GetTaskId()}))
	if err != nil {
		return err
	}
	var ends []int64
	retries, last := 0, events[len(events)-1].GetSequence()
	for _, event := range events {
		if event.GetLast() {
			ends = append(ends, event.GetSequence())
		}
		if event.GetEventType() == "task.retried" {
			retries++
		}
	}
	rest, err := collected(s.agent.Subscribe(ctx, &pb.SubscribeTaskRequest{TaskId: ended.GetTaskId(), AfterSequence: last}))
	return errors.Join(
		err,
		expect("the ends", fmt.Sprint(ends), fmt.Sprint([]int64{ended.GetSequence(), last})),
		expect("the number of retries", retries, 1),
		expect("the number of events after the end", len(rest), 0),
	)
}

func idleCuts(ctx context.Context, s *stage) error {
	events, err := wholeLog(s.impatient.Stream(ctx, plgrpc.Text("idle 5 1100 echo here")))
	if err != nil {
		return err
	}
	var said string
	for _, event := range events {
		for _, message := range event.GetTaskMessages().GetMessages() {
			said = plgrpc.TextOf(message.GetParts())
		}
	}
	return errors.Join(
		expect("the last state", events[len(events)-1].GetTaskStatus().GetNewState(), pb.TaskState_TASK_STATE_COMPLETED),
		expect("the output", said, "here"),
	)
}

func flapping(ctx context.Context, s *stage) error {
	word := uuid.NewString()
	began, id := time.Now(), ""
	for event, err := range s.impatient.Stream(ctx, plgrpc.Text("flap "+word)) {
		if err == nil {
			id = event.GetTaskId()
			continue
		}
		if err := errors.Join(refused(err, plgrpc.ErrUnavailable), endedAfter(began)); err != nil {
			return err
		}
	}
	if _, err := s.agent.Cancel(ctx, id, "seen"); err != nil {
		return err
	}
	return checkCalls(ctx, s, word)
}

// endedAfter fails unless the short patience has been used up.
func endedAfter(began time.Time) error {
	if took := time.Since(began); took < shortPatience || took > 9*time.Second {
		return fmt.Errorf("given up after %s", took)
	}
	return nil
}

// calls are how often something about the task of a word was called.
type calls struct{ Calls, Runs, Open int }

func callsOf(ctx context.Context, s *stage, word string) (calls, error) {
	var counted calls
	task, err := s.agent.Send(ctx, plgrpc.Text("calls "+word))
	if err != nil {
		return counted, err
	}
	return counted, json.Unmarshal([]byte(plgrpc.Output(task)), &counted)
}

func checkCalls(ctx context.Context, s *stage, word string) error {
	counted, err := callsOf(ctx, s, word)
	if err != nil {
		return err
	}
	if counted.Calls < 3 || counted.Calls > 20 {
		return fmt.Errorf("%d calls instead of 3 to 20", counted.Calls)
	}
	return expect("the number of runs", counted.Runs, 1)
}

func retryBound(ctx context.Context, s *stage) error {
	word := uuid.NewString()
	began := time.Now()
	_, err := s.impatient.Send(ctx, plgrpc.Text("down "+word))
	if err := errors.Join(refused(err, plgrpc.ErrUnavailable), endedAfter(began)); err != nil {
		return err
	}
	var failure *plgrpc.Error
	if !errors.As(err, &failure) || failure.TaskID == "" {
		return fmt.Errorf("%v does not say which task it is about", err)
	}
	task, err := s.agent.Get(ctx, failure.TaskID)
	if err != nil {
		return err
	}
	if err := expect("the state", task.GetState(), pb.TaskState_TASK_STATE_WORKING); err != nil {
		return err
	}
	if _, err := s.agent.Cancel(ctx, failure.TaskID, "seen"); err != nil {
		return err
	}
	return checkCalls(ctx, s, word)
}

func deadlineInOutage(ctx context.Context, s *stage) error {
	hasty, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	began := time.Now()
	_, err := s.hostile.Send(hasty, plgrpc.Text("down "+uuid.NewString()))
	took := time.Since(began)
	if err := refused(err, plgrpc.ErrDeadlineExceeded); err != nil {
		return err
	}
	_, canceled := s.agent.Cancel(ctx, plgrpc.FromError(err).TaskID, "seen")
	isInTime := took >= 950*time.Millisecond && took < 5*time.Second
	return errors.Join(canceled, expect("whether it took 1 to 5 s: "+took.String(), isInTime, true))
}

func cancelInPause(ctx context.Context, s *stage) error {
	hasty, cancel := context.WithCancel(ctx)
	defer cancel()
	var id string
	canceled := make(chan time.Time, 1)
	for event, err := range s.hostile.Stream(hasty, plgrpc.Text("flap "+uuid.NewString())) {
		if err == nil {
			if id == "" {
				time.AfterFunc(time.Second, func() { canceled <- time.Now(); cancel() })
			}
			id = event.GetTaskId()
			continue
		}
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%v is not context.Canceled", err)
		}
		if late := time.Since(<-canceled); late > 500*time.Millisecond {
			return fmt.Errorf("the call ended %s after it was canceled", late)
		}
		_, err = s.agent.Cancel(ctx, id, "seen")
		return err
	}
	return errors.New("the stream ended without an error")
}

func decisionInCut(ctx context.Context, s *stage) error {
	return errors.Join(
		decided(ctx, s, "undecided 5 approve it", s.agent, true, 0),
		decided(ctx, s, "outage 2000 5 approve it", s.hostile, false, 500*time.Millisecond),
	)
}

// decided streams a task whose approval is answered while its stream is cut: by approver, a pause after the stream has shown the question.
func decided(
	ctx context.Context, s *stage, text string, approver *plgrpc.Client, approved bool, pause time.Duration,
) error {
	var answers []pb.ApprovalState
	var ends []pb.ActionOutcome
	events, err := wholeLog(func(yield func(*pb.RunEvent, error) bool) {
		for event, err := range s.hostile.Stream(ctx, plgrpc.Text(text)) {
			if event.GetApprovalRequired() != nil {
				time.Sleep(pause) // by then the connection is closed
				err = respondTo(ctx, s, event.GetTaskId(), approver, approved)
			}
			if !yield(event, err) {
				return
			}
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	for _, event := range events {
		if answer := event.GetApprovalDecided(); answer != nil {
			answers = append(answers, answer.GetState())
		}
		if end := event.GetActionEnded(); end != nil {
			ends = append(ends, end.GetOutcome())
		}
	}
	answer, end, output := pb.ApprovalState_APPROVAL_STATE_DENIED, pb.ActionOutcome_ACTION_OUTCOME_DENIED, "refused"
	if approved {
		answer, end, output = pb.ApprovalState_APPROVAL_STATE_APPROVED, pb.ActionOutcome_ACTION_OUTCOME_COMPLETED, "approved"
	}
	done, err := s.agent.Get(ctx, events[0].GetTaskId())
	return errors.Join(err,
		expect("the answers", fmt.Sprint(answers), fmt.Sprint([]pb.ApprovalState{answer})),
		expect("the ends of the action", fmt.Sprint(ends), fmt.Sprint([]pb.ActionOutcome{end})),
		expect("the output", plgrpc.Output(done), output),
	)
}

// respondTo answers the one approval of a task; no other answer may have been first.
func respondTo(ctx context.Context, s *stage, taskID string, approver *plgrpc.Client, approved bool) error {
	for waiting, err := range s.agent.Approvals(ctx, &pb.ListApprovalsRequest{TaskId: taskID}) {
		if err != nil {
			return err
		}
		response, err := approver.Respond(ctx, waiting, approved, "")
		return errors.Join(err, expect("whether another answer was first", response.GetAlreadyDecided(), false))
	}
	return errors.New("no approval is listed")
}

func forgottenTask(ctx context.Context, s *stage) error {
	var shown int64
	for event, err := range s.hostile.Stream(ctx, plgrpc.Text("forget 5 count 100")) {
		if err != nil {
			return errors.Join(expect("the number of events", shown, 5), refused(err, plgrpc.ErrTaskNotFound))
		}
		shown++
		if err := expect("the sequence", event.GetSequence(), shown); err != nil {
			return err
		}
	}
	return errors.New("the stream ended without an error after " + strconv.FormatInt(shown, 10) + " events")
}

func mistyped(ctx context.Context, s *stage) error {
	_, err := s.agent.Send(ctx, plgrpc.Text("echo lost"), plgrpc.ContinueTask("no-such-task"))
	if err := refused(err, plgrpc.ErrTaskNotFound); err != nil {
		return err
	}
	for _, err := range s.agent.Stream(ctx, plgrpc.Text("echo lost"), plgrpc.ContinueTask("no-such-task")) {
		return refused(err, plgrpc.ErrTaskNotFound)
	}
	return errors.New("the stream ended without an error")
}

func expectedSequence(ctx context.Context, s *stage) error {
	asked, err := s.agent.Send(ctx, plgrpc.Text("ask where"))
	if err != nil {
		return err
	}
	id, last := asked.GetId(), asked.GetSequence()
	_, err = s.agent.Send(ctx, plgrpc.Text("there"), plgrpc.ContinueTask(id), plgrpc.ExpectedSequence(last-1))
	if err := refused(err, plgrpc.ErrSequenceConflict); err != nil {
		return err
	}
	told := plgrpc.FromError(err).Metadata["last_sequence"]
	if err := expect("metadata last_sequence", told, strconv.FormatInt(last, 10)); err != nil {
		return err
	}
	done, err := s.agent.Send(ctx, plgrpc.Text("there"), plgrpc.ContinueTask(id), plgrpc.ExpectedSequence(last))
	if err != nil {
		return err
	}
	return errors.Join(
		expect("the state", done.GetState(), pb.TaskState_TASK_STATE_COMPLETED),
		expect("the output", plgrpc.Output(done), "there"),
	)
}

func credentials(ctx context.Context, _ *stage) error {
	const elsewhere = "grpc://agent.example:50051"
	for name, option := range map[string]plgrpc.Option{
		"an API key":               plgrpc.WithAPIKey("secret"),
		"the header authorization": plgrpc.WithHeader("authorization", "Bearer secret"),
	} {
		if client, err := plgrpc.Dial(elsewhere, option); err == nil {
			return errors.Join(fmt.Errorf("%s is not refused", name), client.Close())
		}
	}
	client, err := plgrpc.Dial(elsewhere)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Card(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer secret"))
	return refused(err, plgrpc.ErrUnauthenticated) // a call that was sent would be Unavailable: there is no such machine
}

func leak(ctx context.Context, s *stage) error {
	word := uuid.NewString()
	var id string
	for event, err := range s.hostile.Stream(ctx, plgrpc.Text("hold "+word)) {
		if err != nil {
			return err
		}
		id = event.GetTaskId()
		break
	}
	for began := time.Now(); ; {
		counted, err := callsOf(ctx, s, word)
		if err != nil {
			return err
		}
		if counted.Open == 0 {
			break
		}
		if time.Since(began) > 5*time.Second {
			return fmt.Errorf("%d streams are open", counted.Open)
		}
		time.Sleep(20 * time.Millisecond) // nothing tells when the server has noticed
	}
	_, err := s.agent.Cancel(ctx, id, "seen")
	return err
}
