package plgrpc_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	"github.com/protolink-grpc/protolink-grpc/clients/go/agent"
	"github.com/protolink-grpc/protolink-grpc/clients/go/examples/calculatorv1"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// The examples are those of README.md. They are compiled, and not run: there is no agent here.

func Example() {
	ctx := context.Background()
	client, err := plgrpc.Dial("grpc://127.0.0.1:50051")
	if err != nil {
		panic(err)
	}
	defer client.Close()

	task, err := plgrpc.ToolCall("add", map[string]int{"a": 1, "b": 2})
	if err != nil {
		panic(err)
	}
	done, err := client.Send(ctx, task)
	if err != nil {
		panic(err)
	}
	fmt.Println(done.GetState(), plgrpc.Output(done)) // TASK_STATE_COMPLETED 3
}

func Example_stream() {
	ctx, client := context.Background(), dialed()
	for event, err := range client.Stream(ctx, plgrpc.Text("Plan a trip")) {
		if err != nil {
			panic(err)
		}
		fmt.Println(event.GetSequence(), event.GetEventType(), event.GetSummary())
	}

	// Another process, later: the same log from position 40 on, to the end of the task.
	for event, err := range client.Subscribe(ctx, &pb.SubscribeTaskRequest{TaskId: "task id", AfterSequence: 40}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(event.GetSequence(), event.GetEventType())
	}
}

func Example_text() {
	ctx, client := context.Background(), dialed()
	for update, err := range client.StreamUpdates(ctx, plgrpc.Text("Plan a trip")) {
		switch {
		case err != nil:
			panic(err)
		case update.Delta != nil:
			fmt.Print(update.Delta.GetText())
		default:
			fmt.Println(update.Event.GetSequence(), update.Event.GetEventType())
		}
	}
}

func Example_submit() {
	ctx, client := context.Background(), dialed()
	task, err := client.Submit(ctx, plgrpc.Text("Count the stars"))
	if err != nil {
		panic(err)
	}
	now, err := client.GetView(ctx, task.GetId(), pb.TaskView_TASK_VIEW_HEADER) // state and counts, no messages
	if err != nil {
		panic(err)
	}
	fmt.Println(now.GetState())
}

func Example_timeouts() {
	client := dialed()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := client.Send(ctx, plgrpc.Text("Count the stars"))
	var failure *plgrpc.Error
	if errors.Is(err, context.DeadlineExceeded) && errors.As(err, &failure) {
		_, err = client.Cancel(context.Background(), failure.TaskID, "it took too long")
	}
	fmt.Println(err)
}

func Example_parts() {
	ctx, client := context.Background(), dialed()
	wish, err := plgrpc.JSONPart(map[string]any{"to": "Lisbon", "nights": 3})
	if err != nil {
		panic(err)
	}
	picture := plgrpc.FilePart("view.png", "image/png", []byte("..."))
	done, err := client.Send(ctx, plgrpc.Input(plgrpc.TextPart("Like in this picture"), picture, wish))
	if err != nil {
		panic(err)
	}
	var trip struct{ Hotel string }
	if err := plgrpc.DecodeOutput(done, &trip); err != nil {
		panic(err)
	}
	for _, file := range plgrpc.FilesOf(plgrpc.PartsOf(done)) {
		fmt.Println(file.GetName(), len(file.GetContent().GetData()), file.GetContent().GetRef().GetUri())
	}
}

func Example_input() {
	ctx, client := context.Background(), dialed()
	task, err := client.Send(ctx, plgrpc.Text("Book a room"))
	if err != nil {
		panic(err)
	}
	for task.GetState() == pb.TaskState_TASK_STATE_INPUT_REQUIRED {
		fmt.Print(plgrpc.Output(task), " ")
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		task, err = client.Send(ctx, plgrpc.Text(answer), plgrpc.ContinueTask(task.GetId()))
		if err != nil {
			panic(err)
		}
	}
}

func Example_sessions() {
	ctx, client := context.Background(), dialed()
	chat := client.Sessions()
	turn, err := chat.Submit(ctx, "trip", plgrpc.Text("Find a hotel"))
	if err != nil {
		panic(err)
	}
	next, err := chat.Submit(ctx, "trip", plgrpc.Text("And a train"), plgrpc.TurnID("train")) // waits for the first one
	if err != nil {
		panic(err)
	}
	fmt.Println(turn.GetState(), next.GetState()) // TURN_STATE_ACTIVE TURN_STATE_QUEUED
	for event, err := range chat.Stream(ctx, "trip", next.GetTurnId()) {
		if err != nil {
			panic(err)
		}
		fmt.Println(event.GetSequence(), event.GetEventType())
	}
	for item, err := range chat.Subscribe(ctx, "trip", 0) { // until ctx ends
		if err != nil {
			panic(err)
		}
		fmt.Println(item.Position, item.SessionEvent, item.Event.GetEventType())
	}
}

func Example_tasks() {
	ctx, client := context.Background(), dialed()
	tasks := client.Tasks()
	draft, err := tasks.Create(ctx, &pb.CreateTaskRequest{
		Input:       plgrpc.Text("Check the figures"),
		Description: &pb.TaskDescription{Title: "Review", Assignee: "Ada"},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(draft.GetStatus())                                         // TASK_STATUS_DRAFT
	if _, err := tasks.StartExternal(ctx, draft.GetTaskId()); err != nil { // the work is done by a person
		panic(err)
	}
	answer := plgrpc.AgentMessage(plgrpc.TextPart("They add up"))
	done, err := tasks.Complete(ctx, &pb.CompleteTaskRequest{TaskId: draft.GetTaskId(), Messages: []*pb.Message{answer}})
	if err != nil {
		panic(err)
	}
	fmt.Println(done.GetStatus()) // TASK_STATUS_COMPLETED
	tools, err := client.Snapshots().Tools(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(tools.GetTools()))
}

func Example_approvals() {
	ctx, client := context.Background(), dialed()
	for approval, err := range client.WatchApprovals(ctx, "") { // of all tasks
		if err != nil {
			panic(err)
		}
		if approval.GetState() != pb.ApprovalState_APPROVAL_STATE_PENDING {
			continue
		}
		action := approval.GetAction()
		fmt.Println(action.GetName(), action.GetPayload().GetJson())
		var options []plgrpc.RespondOption
		if approval.GetEdit() == pb.ApprovalEdit_APPROVAL_EDIT_ARGUMENTS {
			options = append(options, plgrpc.EditedArguments(map[string]int{"nights": 3}))
		}
		if _, err := client.Respond(ctx, approval, true, "looks right", options...); err != nil {
			panic(err)
		}
	}
}

func Example_registry() {
	ctx := context.Background()
	registry, err := plgrpc.DialRegistry("grpc://127.0.0.1:50050")
	if err != nil {
		panic(err)
	}
	defer registry.Close()
	found, err := registry.Lookup(ctx, "coordinator")
	if err != nil {
		panic(err)
	}
	coordinator, err := plgrpc.Dial(plgrpc.URL(found.GetCard()))
	if err != nil {
		panic(err)
	}
	defer coordinator.Close()

	for agent, err := range registry.List(ctx, &pb.AgentFilter{Tags: []string{"vacation"}}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(agent.GetCard().GetName(), plgrpc.URL(agent.GetCard()))
	}
	for change, err := range registry.Watch(ctx, nil) { // until ctx ends
		if err != nil {
			panic(err)
		}
		fmt.Println(change.GetKind(), change.GetAgent().GetCard().GetName())
	}
}

func Example_errors() {
	ctx, client := context.Background(), dialed()
	_, err := client.Get(ctx, "unknown")
	if errors.Is(err, plgrpc.ErrTaskNotFound) {
		fmt.Println("no such task")
	}
	var failure *plgrpc.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Code, failure.Reason, failure.Metadata["task_id"], failure.Violations)
	}
}

func Example_credentials() {
	pool := x509.NewCertPool() // add the authority that signed the agent's certificate
	client, err := plgrpc.Dial("grpcs://agents.example.com:443",
		plgrpc.WithTLS(&tls.Config{RootCAs: pool}), // without it: the system's roots
		plgrpc.WithBearerToken(os.Getenv("TOKEN")), // or WithAPIKey, WithCredentials
		plgrpc.WithHeader("x-tenant", "acme"),      // with every call
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-tenant", "other") // with this one
	card, err := client.Card(ctx)
	fmt.Println(card.GetName(), err)
}

func Example_connection() {
	conn, err := grpc.NewClient("unix:///run/agent.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	client, err := plgrpc.NewClient(conn, plgrpc.WithPatience(10*time.Second))
	if err != nil {
		panic(err)
	}
	card, err := client.Card(context.Background())
	fmt.Println(card.GetName(), err)
}

func Example_stubs() {
	ctx, client := context.Background(), dialed()
	control := pb.NewControlServiceClient(client.Conn())
	state, err := control.DescribeState(ctx, &pb.DescribeStateRequest{})
	if err != nil {
		panic(plgrpc.FromError(err))
	}
	fmt.Println(state.GetStores())
}

func Example_typed() {
	ctx, client := context.Background(), dialed()
	calculator := calculatorv1.NewCalculatorClient(client.Conn())
	var headers metadata.MD // of the answer
	sum, err := calculator.Add(ctx, &calculatorv1.AddRequest{A: 20, B: proto.Int64(22)}, grpc.Header(&headers))
	var failure *plgrpc.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Reason, failure.Violations, failure.TaskID)
	}
	fmt.Println(sum.GetResult(), headers.Get("x-task-id")) // 42, and the id of the task that the call was
}

func Example_typedStream() {
	ctx := context.Background()
	calculator := calculatorv1.NewCalculatorClient(dialed().Conn())
	totals, err := calculator.Count(ctx, &calculatorv1.CountRequest{Name: "steps", Times: 3})
	if err != nil {
		panic(err)
	}
	for {
		total, err := totals.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(err)
		}
		fmt.Println(total.GetResult())
	}
}

func Example_tools() {
	ctx, client := context.Background(), dialed()
	for tool, err := range client.Tools(ctx, nil) {
		if err != nil {
			panic(err)
		}
		fmt.Println(tool.GetName(), tool.GetDescription(), tool.GetReadOnly())
	}
	call, err := plgrpc.ToolCallPart("add", map[string]any{"a": 1, "b": 2})
	if err != nil {
		panic(err)
	}
	called, err := client.CallTool(ctx, &pb.CallToolRequest{Call: call.GetToolCall()})
	if err != nil {
		panic(err)
	}
	var sum int
	err = plgrpc.DecodeToolOutput(called.GetOutput(), &sum) // a *plgrpc.ToolError if the tool failed
	fmt.Println(called.GetTaskId(), sum, err)
}

func Example_agent() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	card := agent.Card("greeter", "Says hello.", "grpc://127.0.0.1:50053")
	err := agent.Serve(ctx, card, func(ctx context.Context, run *agent.Run) error {
		run.Progress(50, "thinking of a greeting")
		run.Say("Hello, " + run.Text())
		return nil
	})
	if err != nil {
		panic(err)
	}
}

func dialed() *plgrpc.Client {
	client, err := plgrpc.Dial("grpc://127.0.0.1:50051")
	if err != nil {
		panic(err)
	}
	return client
}

func TestEverySnippetOfTheReadmeIsCompiled(t *testing.T) {
	checkSnippets(t, "README.md", "example_test.go")
}

// checkSnippets fails for every Go block of a page that is not in the source.
func checkSnippets(t *testing.T, page, source string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	blocks := strings.Split(string(text), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Error("there are no snippets")
	}
	for _, block := range blocks {
		snippet, _, _ := strings.Cut(block, "```")
		if !strings.Contains(words(string(compiled)), words(snippet)) {
			t.Errorf("this is not in %s:\n%s", source, snippet)
		}
	}
}
