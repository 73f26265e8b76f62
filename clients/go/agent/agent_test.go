package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
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
func start(t *testing.T, handler Handler, options ...Option) (client *plgrpc.Client, stop func() error) {
	t.Helper()
	card := Card("scripted", "Follows the directives of its messages.", "grpc://127.0.0.1:0")
	card.MaxConcurrency = 4
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	server, err := Listen(card, handler, append([]Option{WithLogger(quiet), WithGrace(time.Second)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	client, err = plgrpc.Dial(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	stop = func() error { cancel(); err := <-ended; ended <- err; return err }
	t.Cleanup(func() { _ = stop(); client.Close() })
	return client, stop
}

func send(t *testing.T, client *plgrpc.Client, text string, options ...plgrpc.SendOption) *pb.Task {
	t.Helper()
	task, err := client.Send(t.Context(), plgrpc.Text(text), options...)
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
			said = plgrpc.TextOf(event.GetTaskArtifact().GetArtifact().GetParts())
			for _, message := range event.GetTaskMessages().GetMessages() {
				said += plgrpc.TextOf(message.GetParts())
			}
		}
		if event.GetLast() {
			said += "."
		}
		told = append(told, strings.TrimSpace(strings.TrimPrefix(event.GetEventType(), "task.")+" "+said))
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
	expect(t, "output", plgrpc.Output(task), "héllo 世界")
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
	for event, err := range client.Stream(t.Context(), plgrpc.Text("count 1000")) {
		if err != nil {
			t.Fatal(err)
		}
		id = event.GetTaskId()
	}
	tail := read(t, 1001, client.Subscribe(t.Context(), &pb.SubscribeTaskRequest{TaskId: id, AfterSequence: 1000}))
	expect(t, "tail", tail, []string{"artifact 999", "artifact 1000", "status COMPLETED."})
	for _, err := range client.Subscribe(t.Context(), &pb.SubscribeTaskRequest{TaskId: id, AfterSequence: 2000}) {
		expect(t, "beyond the end", errors.Is(err, plgrpc.ErrSequenceOutOfRange), true)
	}
}

// watched keeps what a watch sends.
type watched struct {
	grpc.ServerStream
	ctx       context.Context
	positions []string
}

func (w *watched) Context() context.Context { return w.ctx }

func (w *watched) Send(response *pb.SubscribeTaskResponse) error {
	at := response.GetPosition()
	w.positions = append(w.positions, fmt.Sprintf("%d: %d of %d, %v", len(response.GetEvents()), at.GetRevision(), at.GetHead(), at.GetCaughtUp()))
	return nil
}

func TestAWatchSaysOnceThatItsReaderHasCaughtUp(t *testing.T) {
	card := &pb.AgentCard{Name: "scripted", MaxConcurrency: 1}
	s := newService(card, scripted, slog.New(slog.NewTextHandler(io.Discard, nil)))
	sent, err := s.SendTask(t.Context(), &pb.SendTaskRequest{Input: plgrpc.Text("count 1000")})
	if err != nil {
		t.Fatal(err)
	}
	positions := func(after int64, stopAt pb.StopAt) []string {
		to := &watched{ctx: t.Context()}
		request := &pb.SubscribeTaskRequest{TaskId: sent.GetTask().GetId(), AfterSequence: after, StopAt: stopAt}
		if err := s.SubscribeTask(request, to); err != nil {
			t.Fatal(err)
		}
		return to.positions
	}
	expect(t, "at the end", positions(1003, pb.StopAt_STOP_AT_TERMINAL), []string{"0: 1003 of 1003, true"})
	expect(t, "near it", positions(1000, pb.StopAt_STOP_AT_CURRENT), []string{"3: 1003 of 1003, true"})
	all := positions(0, pb.StopAt_STOP_AT_TERMINAL)
	expect(t, "a long log, at first", all[0], fmt.Sprintf("%d: %d of 1003, false", eventsAtOnce, eventsAtOnce))
	expect(t, "its end", strings.HasSuffix(all[len(all)-1], ": 1003 of 1003, true"), true)
	for _, between := range all[1 : len(all)-1] {
		expect(t, "between", strings.HasSuffix(between, ": 0 of 0, false"), true)
	}
}

func TestEventsAreShownWhileTheRunGoesOn(t *testing.T) {
	client, _ := start(t, func(ctx context.Context, run *Run) error {
		run.Progress(50, "half")
		<-ctx.Done()
		return ctx.Err()
	})
	var told []string
	for event, err := range client.Stream(t.Context(), plgrpc.Text("go")) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, event.GetEventType())
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
	expect(t, "completed", errors.Is(err, plgrpc.ErrTaskNotCancelable), true)
	expect(t, "state", plgrpc.FromError(err).Metadata["state"], "completed")

	var id string
	for event, err := range client.Stream(t.Context(), plgrpc.Text("wait")) {
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
	task := plgrpc.Text("wait")
	task.TaskId, task.Target = "patient", pb.TaskTarget_TASK_TARGET_CREATE
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
	first, again := send(t, client, "echo once", plgrpc.RequestID("r")), send(t, client, "echo once", plgrpc.RequestID("r"))
	expect(t, "id", again.GetId(), first.GetId())
	expect(t, "runs", runs.Load()-before, 1)
	expect(t, "stream", len(read(t, 1, client.Stream(t.Context(), plgrpc.Text("echo once"), plgrpc.RequestID("r")))), 4)
}

func TestATurnIsContinuedByAMessage(t *testing.T) {
	client, _ := start(t, scripted)
	asked := send(t, client, "ask Where to?")
	expect(t, "state", asked.GetState(), pb.TaskState_TASK_STATE_INPUT_REQUIRED)
	expect(t, "question", plgrpc.Output(asked), "Where to?")
	told := read(t, 5, client.Stream(t.Context(), plgrpc.Text("Lisbon"), plgrpc.ContinueTask(asked.GetId())))
	expect(t, "second turn", told, []string{"message Lisbon", "status WORKING", "message you said Lisbon", "status COMPLETED."})
	_, err := client.Send(t.Context(), plgrpc.Text("more"), plgrpc.ContinueTask(asked.GetId()))
	expect(t, "finished", errors.Is(err, plgrpc.ErrTaskFinished), true)
	_, err = client.Send(t.Context(), plgrpc.Text("more"), plgrpc.ContinueTask("unknown"))
	expect(t, "unknown", errors.Is(err, plgrpc.ErrTaskNotFound), true)
}

func TestEndingsOfATurn(t *testing.T) {
	client, _ := start(t, scripted)
	for text, want := range map[string]string{
		"reject not mine": "REJECTED not mine",
		"fail it broke":   "FAILED it broke",
		"panic secret":    "FAILED " + errPanicked.Error(),
	} {
		task := send(t, client, text)
		expect(t, text, strings.TrimPrefix(task.GetState().String(), "TASK_STATE_")+" "+task.GetFailure().GetMessage(), want)
	}
}

func TestWrongRequestsNameTheField(t *testing.T) {
	client, _ := start(t, scripted)
	long := plgrpc.Text("echo")
	long.TaskId = strings.Repeat("x", 200)
	for field, input := range map[string]*pb.TaskInput{
		"input.task_id":              long,
		"input.messages":             {},
		"input.messages[0].parts[0]": {Messages: []*pb.Message{{Parts: []*pb.Part{{}}}}},
		"input.target":               {Target: 99, Messages: plgrpc.Text("echo").Messages},
		"input.expected_sequence":    {ExpectedSequence: 1, Messages: plgrpc.Text("echo").Messages},
	} {
		_, err := client.Send(t.Context(), input)
		failure := plgrpc.FromError(err)
		if !errors.Is(err, plgrpc.ErrInvalidArgument) || len(failure.Violations) != 1 || failure.Violations[0].Field != field {
			t.Errorf("%s: %v, %v", field, err, failure)
		}
	}
	_, err := client.Get(t.Context(), "unknown")
	expect(t, "task_id", plgrpc.FromError(err).Metadata["task_id"], "unknown")
}

func TestATaskIsCreatedOrContinuedAsTheTargetSays(t *testing.T) {
	client, _ := start(t, scripted)
	asked := send(t, client, "ask where")
	again := &pb.TaskInput{TaskId: asked.GetId(), Target: pb.TaskTarget_TASK_TARGET_CREATE, Messages: plgrpc.Text("there").Messages}
	_, err := client.Send(t.Context(), again)
	expect(t, "taken", errors.Is(err, plgrpc.ErrTaskAlreadyExists), true)
	_, err = client.Send(t.Context(), plgrpc.Text("there"), plgrpc.ContinueTask("unknown"))
	expect(t, "unknown", errors.Is(err, plgrpc.ErrTaskNotFound), true)
	_, err = client.Send(t.Context(), plgrpc.Text("there"), plgrpc.ContinueTask(asked.GetId()), plgrpc.ExpectedSequence(asked.GetSequence()-1))
	expect(t, "conflict", errors.Is(err, plgrpc.ErrSequenceConflict), true)
	again.Target, again.ExpectedSequence = pb.TaskTarget_TASK_TARGET_CREATE_OR_CONTINUE, asked.GetSequence()
	done, err := client.Send(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "state", done.GetState(), pb.TaskState_TASK_STATE_COMPLETED)
}

func TestALargeTextComesBackWhole(t *testing.T) {
	client, _ := start(t, scripted)
	text := strings.Repeat("0123456789", 300_000)
	expect(t, "text", plgrpc.Output(send(t, client, "echo "+text)) == text, true)
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
		if _, err := client.Submit(t.Context(), plgrpc.Text("wait")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // less than the delay it asks for
	defer cancel()
	_, err := client.Send(ctx, plgrpc.Text("wait"))
	expect(t, "busy", errors.Is(err, plgrpc.ErrResourceExhausted), true)
	expect(t, "delay", plgrpc.FromError(err).RetryDelay, time.Second)
}

func TestAnAgentThatStopsRecordsWhatItDidNotFinish(t *testing.T) {
	client, stop := start(t, scripted, WithGrace(10*time.Millisecond))
	var last *pb.RunEvent
	for event, err := range client.Stream(t.Context(), plgrpc.Text("wait")) {
		if err != nil {
			t.Fatal(err)
		}
		if last = event; event.GetTaskStatus().GetNewState() == pb.TaskState_TASK_STATE_WORKING {
			go func() { _ = stop() }()
		}
	}
	expect(t, "state", last.GetTaskStatus().GetNewState(), pb.TaskState_TASK_STATE_FAILED)
	expect(t, "reason", last.GetTaskStatus().GetFailure().GetMessage(), errStopped.Error())
	expect(t, "end", stop(), nil)
}

func TestOnlySoManyEndedTasksAreKept(t *testing.T) {
	s := newService(&pb.AgentCard{MaxConcurrency: 1}, scripted, slog.Default())
	ask := func(text string) *pb.Task {
		response, err := s.SendTask(t.Context(), &pb.SendTaskRequest{Input: plgrpc.Text(text), RequestId: newID()})
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
	expect(t, "requests", len(s.requests), keptTasks+6)
	_, err := s.find(open.GetId())
	expect(t, "the open one", err, nil)
}

func TestARequestIsKnownWhenItsTaskIsForgotten(t *testing.T) {
	s := newService(&pb.AgentCard{MaxConcurrency: 1}, scripted, slog.Default())
	ask := func(request string) (string, error) {
		response, err := s.SendTask(t.Context(), &pb.SendTaskRequest{Input: plgrpc.Text("echo"), RequestId: request})
		s.runs.Wait()
		return response.GetTask().GetId(), err
	}
	first, _ := ask("r")
	for range keptTasks {
		if _, err := ask(newID()); err != nil {
			t.Fatal(err)
		}
	}
	before := runs.Load()
	_, err := ask("r")
	expect(t, "forgotten", errors.Is(plgrpc.FromError(err), plgrpc.ErrTaskNotFound), true)
	expect(t, "task_id", plgrpc.FromError(err).Metadata["task_id"], first)
	expect(t, "runs", runs.Load()-before, 0)

	s.recent[0].when = time.Now().Add(-keptFor - time.Second)
	if _, err := ask(newID()); err != nil {
		t.Fatal(err)
	}
	_, known := s.requests["r"]
	expect(t, "known after a day", known, false)
	for range keptRequests {
		s.remember(newID(), accepted{taskLog: &taskLog{}})
	}
	expect(t, "requests", fmt.Sprint(len(s.requests), len(s.recent)), fmt.Sprint(keptRequests, keptRequests))
}

const addSchema = `{"type":"object","required":["a"],"properties":{"a":{"type":"integer","maximum":9},"b":{"type":"integer"},"day":{"format":"date"}}}`

type numbers struct{ A, B int }

func add(_ context.Context, n numbers) (int, error) {
	if n.B == 0 {
		return 0, &Rejection{"pointless", "nothing to add", "Add something."}
	}
	return n.A + n.B, nil
}

func jsonArguments(text string) *pb.Payload { return &pb.Payload{Value: &pb.Payload_Json{Json: text}} }

func told(why *pb.Failure) string {
	if why == nil {
		return ""
	}
	return why.GetReason() + " " + why.GetMessage() + " " + why.GetDetails().GetJson()
}

func TestArgumentsThatAreNotJSONAreRefusedByName(t *testing.T) {
	client, _ := start(t, nil, WithTools(NewTool("add", "Adds.", addSchema, add)))
	part, err := plgrpc.ToolCallPart("add", timestamppb.Now())
	if err != nil {
		t.Fatal(err)
	}
	task, err := client.Send(t.Context(), plgrpc.Input(part))
	if err != nil {
		t.Fatal(err)
	}
	why := task.GetArtifacts()[0].GetParts()[0].GetToolOutput().GetFailure()
	expect(t, "why", why.GetReason()+" "+why.GetMessage(), "INVALID_ARGUMENT tool_call.arguments: cannot be read here, they are not JSON")
	stub := pb.NewControlServiceClient(client.Conn())
	_, err = stub.CallTool(t.Context(), &pb.CallToolRequest{Call: part.GetToolCall()})
	expect(t, "field", fmt.Sprint(plgrpc.FromError(err).Reason, plgrpc.FromError(err).Metadata["field"]), "INVALID_ARGUMENTcall.arguments")
}

func TestToolsAnswerWithTheirResultOrWhyNot(t *testing.T) {
	client, _ := start(t, nil, WithTools(NewTool("add", "Adds.", addSchema, add)))
	for arguments, want := range map[string]string{
		`{"a":1,"b":2}`:        "COMPLETED 3",
		`{"a":1}`:              `FAILED pointless nothing to add {"changes_made":false,"details":{},"status":"rejected","suggestion":"Add something."}`,
		`{"b":1}`:              `FAILED a: is required`,
		`{"a":"secret"}`:       `FAILED a: must be integer`,
		`{"a":10,"b":1}`:       `FAILED a: must satisfy maximum`,
		`{"a":1,"A":10,"b":1}`: `FAILED A: is not permitted`,
		`{"a":1,"day":"when"}`: `FAILED day: must satisfy format`,
		`{"a":1,"c":1}`:        `FAILED unknown field`,
		`[]`:                   `FAILED must be object`,
		`{`:                    `FAILED no JSON`,
	} {
		call := &pb.ToolCall{ToolName: "add", Arguments: jsonArguments(arguments)}
		task, err := client.Send(t.Context(), plgrpc.Input(&pb.Part{Content: &pb.Part_ToolCall{ToolCall: call}}))
		if err != nil {
			t.Fatal(err)
		}
		output := task.GetArtifacts()[0].GetParts()[0].GetToolOutput()
		got := strings.TrimPrefix(task.GetState().String(), "TASK_STATE_") + " " + output.GetResult().GetJson() + told(output.GetFailure())
		state, said, _ := strings.Cut(want, " ")
		if !strings.HasPrefix(got, state+" ") || !strings.Contains(got, said) || strings.Contains(got, "secret") {
			t.Errorf("%v: %s, want %s", arguments, got, want)
		}
	}
	expect(t, "no call", send(t, client, "add").GetState(), pb.TaskState_TASK_STATE_REJECTED)
}

func TestTheLogNamesOutcomesAndCausesInItsPayloads(t *testing.T) {
	breaks := func(context.Context, numbers) (int, error) { return 0, errors.New("broken") }
	client, _ := start(t, nil, WithTools(NewTool("add", "Adds.", addSchema, add), NewTool("break", "Breaks.", "", breaks)))
	for arguments, want := range map[string]string{
		`{"a":1,"b":2}`: "action.completed ACTION_OUTCOME_COMPLETED",
		`{"a":1}`:       "action.rejected ACTION_OUTCOME_REJECTED",
		`{}`:            "action.failed ACTION_OUTCOME_FAILED",
	} {
		call := &pb.ToolCall{ToolName: "add", Arguments: jsonArguments(arguments)}
		if arguments == "{}" {
			call.ToolName = "break"
		}
		var outcome, cause string
		var began *pb.RunStart
		for event, err := range client.Stream(t.Context(), plgrpc.Input(&pb.Part{Content: &pb.Part_ToolCall{ToolCall: call}})) {
			if err != nil {
				t.Fatal(err)
			}
			if ended := event.GetActionEnded(); ended != nil {
				outcome = event.GetEventType() + " " + ended.GetOutcome().String()
			}
			if run := event.GetTaskStatus().GetRun(); run != nil {
				cause, began = run.GetCause().String(), run
			}
		}
		expect(t, arguments, outcome, want)
		expect(t, "cause", cause, "RUN_CAUSE_SUBMITTED")
		expect(t, "attempt", began.GetAttempt(), 1)
		expect(t, "log format", began.GetLogFormat(), logFormat)
		expect(t, "worker", began.GetWorker().GetName(), thisWorker().GetName())
	}
}

func TestToolsAreListedAndCalled(t *testing.T) {
	client, _ := start(t, scripted, WithTools(NewTool("subtract", "Subtracts.", "", add).Destructive(),
		NewTool("add", "Adds.", addSchema, add).ReadOnly().Titled("Sum")))
	stub := pb.NewControlServiceClient(client.Conn())
	listed, err := stub.ListTools(t.Context(), &pb.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "tools", listed.GetTools()[0].GetName()+" "+listed.GetTools()[1].GetName(), "add subtract")
	hints := func(tool *pb.Tool) string {
		return fmt.Sprint(tool.GetTitle(), tool.GetReadOnly(), tool.GetIdempotent(), tool.GetDestructive())
	}
	expect(t, "hints", hints(listed.GetTools()[0])+" "+hints(listed.GetTools()[1]), "Sumtrue true false false false true")
	var names []string
	for tool, err := range client.Tools(t.Context(), &pb.ListToolsRequest{PageSize: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.GetName())
	}
	expect(t, "pages", strings.Join(names, " "), "add subtract")
	for _, wrong := range []*pb.ListToolsRequest{{PageSize: -1}, {PageSize: 1001}, {PageToken: "%"}} {
		_, err := stub.ListTools(t.Context(), wrong)
		expect(t, wrong.String(), plgrpc.FromError(err).Code, codes.InvalidArgument)
	}
	expect(t, "schema", listed.GetTools()[0].GetInputSchemaJson(), addSchema)
	card, err := client.Card(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "skills", len(card.GetSkills()), 2)
	expect(t, "features", strings.Join(card.GetFeatures(), " "), "streaming tools")
	stated := []string{card.GetVersion(), card.GetProtocolVersion(), card.GetRole(), card.GetInputFormats()[0], card.GetOutputFormats()[0]}
	expect(t, "what is stated", strings.Join(stated, " "), "1.0.0 1.0 worker text/plain text/plain")
	first := card.GetInterfaces()[0]
	expect(t, "the interface", first.GetTransport()+" "+first.GetProtocolVersion(), "grpc 1.0")

	request := &pb.CallToolRequest{Call: &pb.ToolCall{ToolName: "add", Arguments: jsonArguments(`{"a":1,"b":2}`), CallId: "c"}, RequestId: "once", TaskId: "mine"}
	var tasks []string
	for range 2 {
		called, err := stub.CallTool(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "result", called.GetOutput().GetCallId()+" "+called.GetOutput().GetResult().GetJson(), "c 3")
		tasks = append(tasks, called.GetTaskId())
		request.TaskId = "other"
	}
	expect(t, "task", strings.Join(tasks, " "), "mine mine")
	kept, err := client.Get(t.Context(), "mine")
	expect(t, "state", fmt.Sprint(err, kept.GetState()), "<nil> TASK_STATE_COMPLETED")
	_, err = stub.CallTool(t.Context(), &pb.CallToolRequest{Call: request.Call, TaskId: strings.Repeat("x", 129)})
	expect(t, "a long id", plgrpc.FromError(err).Code, codes.InvalidArgument)

	failed, err := stub.CallTool(t.Context(), &pb.CallToolRequest{Call: &pb.ToolCall{ToolName: "add", Arguments: jsonArguments(`{"a":1}`)}})
	expect(t, "a tool that failed", fmt.Sprint(err, failed.GetOutput().GetFailure().GetReason() == "pointless"), "<nil> true")
	for tool, code := range map[string]string{"add": "invalid_arguments", "divide": "unknown_tool"} {
		_, err := stub.CallTool(t.Context(), &pb.CallToolRequest{Call: &pb.ToolCall{ToolName: tool}})
		expect(t, tool, fmt.Sprint(plgrpc.FromError(err).Reason, plgrpc.FromError(err).Metadata), fmt.Sprint("TOOL_REJECTED", map[string]string{"code": code}))
	}
	expect(t, "the handler's own", plgrpc.Output(send(t, client, "echo hello")), "hello")
}

func TestASchemaMustBeOneByItself(t *testing.T) {
	for _, schema := range []string{`{`, `{"type":"strange"}`, `{"$ref":"file:///etc/hostname"}`, `{"$ref":"other.json"}`} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is taken", schema)
				}
			}()
			NewTool("add", "Adds.", schema, add)
		}()
	}
}

func TestWhatAnAgentCannotServeIsRefused(t *testing.T) {
	certificate := &tls.Config{Certificates: []tls.Certificate{{}}}
	tool := NewTool("add", "Adds.", "", add)
	for name, c := range map[string]struct {
		url     string
		handler Handler
		options []Option
	}{
		"grpcs without a certificate":  {"grpcs://127.0.0.1:0", scripted, nil},
		"grpcs with an empty TLS":      {"grpcs://127.0.0.1:0", scripted, []Option{WithTLS(&tls.Config{})}},
		"a certificate without TLS":    {"grpc://127.0.0.1:0", scripted, []Option{WithTLS(certificate)}},
		"neither a handler nor a tool": {"grpc://127.0.0.1:0", nil, nil},
		"two tools of one name":        {"grpc://127.0.0.1:0", nil, []Option{WithTools(tool, tool)}},
		"a URL without a port":         {"grpc://127.0.0.1", scripted, nil},
	} {
		card := Card("a", "An agent.", c.url)
		if server, err := Listen(card, c.handler, c.options...); err == nil {
			server.listener.Close()
			t.Errorf("%s is not refused", name)
		}
	}
}

func TestAnAgentBehindTLS(t *testing.T) {
	certificate := selfSigned(t)
	card := Card("a", "An agent.", "grpcs://127.0.0.1:0")
	server, err := Listen(card, scripted, WithTLS(&tls.Config{Certificates: []tls.Certificate{certificate}}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	defer func() { cancel(); <-ended }()
	trusted := x509.NewCertPool()
	trusted.AddCert(certificate.Leaf)
	client, err := plgrpc.Dial(server.URL(), plgrpc.WithTLS(&tls.Config{RootCAs: trusted}), plgrpc.WithBearerToken("over TLS"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	expect(t, "output", plgrpc.Output(send(t, client, "echo hello")), "hello")
	conn, err := grpc.NewClient(strings.TrimPrefix(server.URL(), "grpcs://"),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: trusted})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	own, err := plgrpc.NewClient(conn, plgrpc.WithBearerToken("over TLS"))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "output", plgrpc.Output(send(t, own, "echo hello")), "hello")
}

// selfSigned is a certificate for this machine, valid for an hour.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
