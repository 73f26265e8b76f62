package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	protolink "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/protolink/v1"
	"google.golang.org/protobuf/proto"
)

var runs atomic.Int64

// scripted does what its text says, as the agent of the conformance cases does.
func scripted(ctx context.Context, run *Run) error {
	runs.Add(1)
	verb, rest, _ := strings.Cut(run.Text(), " ")
	switch verb {
	case "echo":
		run.Say(rest)
	case "count":
		n, _ := strconv.Atoi(rest)
		for i := range n {
			run.Artifact(&pb.Artifact{Parts: []*pb.Part{{Content: &pb.Part_Text{Text: strconv.Itoa(i + 1)}}}})
		}
	case "wait":
		<-ctx.Done()
		run.Say("too late to be heard")
		return ctx.Err()
	case "ask":
		return RequireInput(rest)
	case "reject":
		return Reject(rest)
	case "fail":
		return errors.New(rest)
	case "panic":
		panic(rest)
	default:
		run.Say("you said " + run.Text())
	}
	return nil
}

// start serves an agent until the test is over, or until stop is called, which waits for its end.
func start(t *testing.T, handler Handler, options ...Option) (client *protolink.Client, stop func() error) {
	t.Helper()
	card := &pb.AgentCard{Name: "scripted", Description: "Does what it is told.", Url: "grpc://127.0.0.1:0"}
	card.Capabilities = &pb.AgentCapabilities{Streaming: true, MaxConcurrency: 4}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	server, err := Listen(card, handler, append([]Option{WithLogger(quiet), WithGrace(time.Second)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	client, err = protolink.Dial(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	stop = func() error { cancel(); err := <-ended; ended <- err; return err }
	t.Cleanup(func() { _ = stop(); client.Close() })
	return client, stop
}

func send(t *testing.T, client *protolink.Client, text string, options ...protolink.SendOption) *pb.Task {
	t.Helper()
	task, err := client.Send(t.Context(), protolink.Text(text), options...)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// read is a stream as the kinds of its events, with what they say, whose sequences must follow each other from first.
func read(t *testing.T, first int64, events func(func(*pb.RunEvent, error) bool)) []string {
	t.Helper()
	var told []string
	for event, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		if want := first + int64(len(told)); event.GetSequence() != want {
			t.Fatalf("sequence %d, want %d", event.GetSequence(), want)
		}
		said := strings.TrimPrefix(event.GetTaskStatus().GetNewState().String(), "TASK_STATE_")
		if event.GetTaskStatus() == nil {
			said = protolink.TextOf(event.GetTaskArtifact().GetArtifact().GetParts())
			for _, message := range event.GetTaskMessages().GetMessages() {
				said += protolink.TextOf(message.GetParts())
			}
		}
		if event.GetFinal() {
			said += "."
		}
		told = append(told, strings.TrimSpace(strings.TrimPrefix(event.GetType(), "task.")+" "+said))
	}
	return told
}

func expect(t *testing.T, what string, found, wanted any) {
	t.Helper()
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		t.Errorf("%s: %v, want %v", what, found, wanted)
	}
}

func TestUnaryIsTheStreamAwaited(t *testing.T) {
	client, _ := start(t, scripted)
	task := send(t, client, "echo héllo 世界")
	expect(t, "state", task.GetState(), pb.TaskState_TASK_STATE_COMPLETED)
	expect(t, "output", protolink.Output(task), "héllo 世界")
	events := read(t, 1, client.Subscribe(t.Context(), &pb.SubscribeTaskRequest{TaskId: task.GetId()}))
	expect(t, "log", events, []string{"submitted", "status WORKING", "message héllo 世界", "status COMPLETED."})
	whole, err := client.Get(t.Context(), task.GetId())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "turn", proto.Equal(whole, task), true)
	expect(t, "count", whole.GetMessageCount(), 2)
}

func TestEventsAreStreamedInOrderAndReadFromAnyPosition(t *testing.T) {
	client, _ := start(t, scripted)
	var id string
	for event, err := range client.Stream(t.Context(), protolink.Text("count 1000")) {
		if err != nil {
			t.Fatal(err)
		}
		id = event.GetTaskId()
	}
	tail := read(t, 1001, client.Subscribe(t.Context(), &pb.SubscribeTaskRequest{TaskId: id, AfterSequence: 1000}))
	expect(t, "tail", tail, []string{"artifact 999", "artifact 1000", "status COMPLETED."})
	for _, err := range client.Subscribe(t.Context(), &pb.SubscribeTaskRequest{TaskId: id, AfterSequence: 2000}) {
		expect(t, "beyond the end", errors.Is(err, protolink.ErrSequenceOutOfRange), true)
	}
}

func TestEventsAreShownWhileTheRunGoesOn(t *testing.T) {
	client, _ := start(t, func(ctx context.Context, run *Run) error {
		run.Progress(50, "half")
		<-ctx.Done()
		return ctx.Err()
	})
	var told []string
	for event, err := range client.Stream(t.Context(), protolink.Text("go")) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, event.GetType())
		if event.GetTaskProgress() != nil {
			if _, err := client.Cancel(t.Context(), event.GetTaskId(), "enough"); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect(t, "log", told, []string{"task.submitted", "task.status", "task.progress", "task.cancel_requested", "task.status"})
}

func TestACanceledTaskHearsNothingMore(t *testing.T) {
	client, _ := start(t, scripted)
	first := send(t, client, "echo done")
	_, err := client.Cancel(t.Context(), first.GetId(), "too late")
	expect(t, "completed", errors.Is(err, protolink.ErrTaskNotCancelable), true)
	expect(t, "state", protolink.FromError(err).Metadata["state"], "completed")

	var id string
	for event, err := range client.Stream(t.Context(), protolink.Text("wait")) {
		if err != nil {
			t.Fatal(err)
		}
		if event.GetTaskStatus().GetNewState() == pb.TaskState_TASK_STATE_WORKING {
			id = event.GetTaskId()
			for range 2 { // twice is the same as once
				if _, err := client.Cancel(t.Context(), id, "enough"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	task, err := client.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "state", task.GetState(), pb.TaskState_TASK_STATE_CANCELED)
	expect(t, "reason", task.GetCancelReason(), "enough")
	expect(t, "events", task.GetSequence(), 4)
}

func TestADeadlineBoundsTheWait(t *testing.T) {
	client, _ := start(t, scripted)
	task := protolink.Text("wait")
	task.Id = "patient"
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := client.Send(ctx, task)
	expect(t, "deadline", errors.Is(err, context.DeadlineExceeded), true)
	now, err := client.Get(t.Context(), "patient")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "state", now.GetState(), pb.TaskState_TASK_STATE_WORKING)
}

func TestARepeatedRequestIsTheSameTask(t *testing.T) {
	client, _ := start(t, scripted)
	before := runs.Load()
	first, again := send(t, client, "echo once", protolink.RequestID("r")), send(t, client, "echo once", protolink.RequestID("r"))
	expect(t, "id", again.GetId(), first.GetId())
	expect(t, "runs", runs.Load()-before, 1)
	expect(t, "stream", len(read(t, 1, client.Stream(t.Context(), protolink.Text("echo once"), protolink.RequestID("r")))), 4)
}

func TestATurnIsContinuedByAMessage(t *testing.T) {
	client, _ := start(t, scripted)
	asked := send(t, client, "ask Where to?")
	expect(t, "state", asked.GetState(), pb.TaskState_TASK_STATE_INPUT_REQUIRED)
	expect(t, "question", protolink.Output(asked), "Where to?")
	told := read(t, 5, client.Stream(t.Context(), protolink.Text("Lisbon"), protolink.ContinueTask(asked.GetId())))
	expect(t, "second turn", told, []string{"message Lisbon", "status WORKING", "message you said Lisbon", "status COMPLETED."})
	_, err := client.Send(t.Context(), protolink.Text("more"), protolink.ContinueTask(asked.GetId()))
	expect(t, "finished", errors.Is(err, protolink.ErrTaskFinished), true)
	_, err = client.Send(t.Context(), protolink.Text("more"), protolink.ContinueTask("unknown"))
	expect(t, "unknown", errors.Is(err, protolink.ErrTaskNotFound), true)
}

func TestEndingsOfATurn(t *testing.T) {
	client, _ := start(t, scripted)
	for text, want := range map[string]string{
		"reject not mine": "REJECTED not mine",
		"fail it broke":   "FAILED it broke",
		"panic secret":    "FAILED " + errPanicked.Error(),
	} {
		task := send(t, client, text)
		expect(t, text, strings.TrimPrefix(task.GetState().String(), "TASK_STATE_")+" "+task.GetError(), want)
	}
}

func TestWrongRequestsNameTheField(t *testing.T) {
	client, _ := start(t, scripted)
	long := protolink.Text("echo")
	long.Id = strings.Repeat("x", 200)
	for field, task := range map[string]*pb.Task{
		"task.id":                   long,
		"task.messages":             {},
		"task.messages[0].parts[0]": {Messages: []*pb.Message{{Parts: []*pb.Part{{}}}}},
	} {
		_, err := client.Send(t.Context(), task)
		failure := protolink.FromError(err)
		if !errors.Is(err, protolink.ErrInvalidArgument) || len(failure.Violations) != 1 || failure.Violations[0].Field != field {
			t.Errorf("%s: %v, %v", field, err, failure)
		}
	}
	_, err := client.Get(t.Context(), "unknown")
	expect(t, "task_id", protolink.FromError(err).Metadata["task_id"], "unknown")
}

func TestALargeTextComesBackWhole(t *testing.T) {
	client, _ := start(t, scripted)
	text := strings.Repeat("0123456789", 300_000)
	expect(t, "text", protolink.Output(send(t, client, "echo "+text)) == text, true)
}

func TestTasksAreListedLastChangedFirst(t *testing.T) {
	client, _ := start(t, scripted)
	var sent []string
	for i := range 5 {
		sent = append([]string{send(t, client, "echo "+strconv.Itoa(i)).GetId()}, sent...)
	}
	var listed []string
	for task, err := range client.List(t.Context(), &pb.ListTasksRequest{PageSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, task.GetId())
	}
	expect(t, "ids", listed, sent)
}

func TestABusyAgentSaysWhenToComeBack(t *testing.T) {
	client, _ := start(t, scripted)
	for range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, _ = client.Send(ctx, protolink.Text("wait"))
		cancel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // less than the delay it asks for
	defer cancel()
	_, err := client.Send(ctx, protolink.Text("wait"))
	expect(t, "busy", errors.Is(err, protolink.ErrResourceExhausted), true)
	expect(t, "delay", protolink.FromError(err).RetryDelay, time.Second)
}

func TestAnAgentThatStopsRecordsWhatItDidNotFinish(t *testing.T) {
	client, stop := start(t, scripted, WithGrace(10*time.Millisecond))
	var last *pb.RunEvent
	for event, err := range client.Stream(t.Context(), protolink.Text("wait")) {
		if err != nil {
			t.Fatal(err)
		}
		if last = event; event.GetTaskStatus().GetNewState() == pb.TaskState_TASK_STATE_WORKING {
			go func() { _ = stop() }()
		}
	}
	expect(t, "state", last.GetTaskStatus().GetNewState(), pb.TaskState_TASK_STATE_FAILED)
	expect(t, "reason", last.GetTaskStatus().GetReason(), errStopped.Error())
	expect(t, "end", stop(), nil)
}

func TestOnlySoManyEndedTasksAreKept(t *testing.T) {
	s := newService(&pb.AgentCard{Capabilities: &pb.AgentCapabilities{MaxConcurrency: 1}}, scripted, slog.Default())
	ask := func(text string) *pb.Task {
		response, err := s.SendTask(t.Context(), &pb.SendTaskRequest{Task: protolink.Text(text), RequestId: newID()})
		if err != nil {
			t.Fatal(err)
		}
		s.runs.Wait()
		return response.GetTask()
	}
	open := ask("ask for more")
	for range keptTasks + 5 {
		ask("echo")
	}
	expect(t, "tasks", len(s.tasks), keptTasks)
	expect(t, "requests", len(s.requests), keptTasks)
	_, err := s.find(open.GetId())
	expect(t, "the open one", err, nil)
}

func TestToolsAnswerWithTheirResultOrWhyNot(t *testing.T) {
	type numbers struct{ A, B int }
	add := NewTool("add", "Adds.", "{}", func(_ context.Context, n numbers) (int, error) {
		if n.B == 0 {
			return 0, &Rejection{"pointless", "nothing to add", "Add something."}
		}
		return n.A + n.B, nil
	})
	client, _ := start(t, Tools(add))
	for arguments, want := range map[any]string{
		numbers{1, 2}:               "COMPLETED 3",
		numbers{1, 0}:               `FAILED {"changes_made":false,"code":"pointless","details":{},"message":"nothing to add","status":"rejected","suggestion":"Add something."}`,
		struct{ C int }{1}:          `FAILED "code":"invalid_arguments"`,
		struct{ A string }{"seven"}: `FAILED "code":"invalid_arguments"`,
	} {
		task, err := protolink.ToolCall("add", arguments)
		if err != nil {
			t.Fatal(err)
		}
		if task, err = client.Send(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		output := task.GetArtifacts()[0].GetParts()[0].GetToolOutput()
		got := strings.TrimPrefix(task.GetState().String(), "TASK_STATE_") + " " + output.GetResultJson() + output.GetErrorJson()
		state, said, _ := strings.Cut(want, " ")
		if !strings.HasPrefix(got, state+" ") || !strings.Contains(got, said) {
			t.Errorf("%v: %s, want %s", arguments, got, want)
		}
	}
	expect(t, "no call", send(t, client, "add").GetState(), pb.TaskState_TASK_STATE_REJECTED)
}
