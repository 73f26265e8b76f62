package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func unary(ctx context.Context, s *stage) error {
	return says(ctx, s.agent, "echo héllo 世界", "héllo 世界")
}

// says sends a text and expects an answer.
func says(ctx context.Context, agent *plgrpc.Client, text, wanted string) error {
	task, err := agent.Send(ctx, plgrpc.Text(text))
	if err != nil {
		return err
	}
	return errors.Join(
		expect("the state", task.GetState(), pb.TaskState_TASK_STATE_COMPLETED),
		expect("the output", plgrpc.Output(task), wanted),
	)
}

func stream(ctx context.Context, s *stage) error {
	return counts(ctx, s.agent, "count 100")
}

func resume(ctx context.Context, s *stage) error {
	return counts(ctx, s.agent, "cut 40 count 100")
}

// counts streams a text that makes the artifacts 1 to 100.
func counts(ctx context.Context, agent *plgrpc.Client, text string) error {
	return counted(agent.Stream(ctx, plgrpc.Text(text)))
}

// counted reads a stream of events with the artifacts 1 to 100.
func counted(stream iter.Seq2[*pb.RunEvent, error]) error {
	events, err := wholeLog(stream)
	if err != nil {
		return err
	}
	count := 0
	for _, event := range events {
		if event.GetTaskArtifact() == nil {
			continue
		}
		count++
		said := plgrpc.TextOf(event.GetTaskArtifact().GetArtifact().GetParts())
		if err := expect("the artifact", said, strconv.Itoa(count)); err != nil {
			return err
		}
	}
	return expect("the number of artifacts", count, 100)
}

func cancel(ctx context.Context, s *stage) error {
	ids, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		var last *pb.RunEvent
		for event, err := range s.agent.Stream(ctx, plgrpc.Text("wait")) {
			if err != nil {
				ended <- err
				return
			}
			if last = event; last.GetTaskStatus().GetNewState() == pb.TaskState_TASK_STATE_WORKING {
				ids <- event.GetTaskId()
			}
		}
		ended <- expect("the last state of the stream", last.GetTaskStatus().GetNewState(), pb.TaskState_TASK_STATE_CANCELED)
	}()
	var id string
	select {
	case id = <-ids:
	case err := <-ended:
		return err
	}
	if _, err := s.agent.Cancel(ctx, id, "enough"); err != nil {
		return err
	}
	if err := <-ended; err != nil {
		return err
	}
	task, err := s.agent.Get(ctx, id)
	if err != nil {
		return err
	}
	return errors.Join(
		expect("the state", task.GetState(), pb.TaskState_TASK_STATE_CANCELED),
		expect("the reason", task.GetCancelReason(), "enough"),
	)
}

func deadline(ctx context.Context, s *stage) error {
	task := plgrpc.Text("wait")
	task.TaskId, task.Target = uuid.NewString(), pb.TaskTarget_TASK_TARGET_CREATE
	hasty, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := s.agent.Send(hasty, task)
	if err := refused(err, plgrpc.ErrDeadlineExceeded); err != nil {
		return err
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%v is not context.DeadlineExceeded", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		return fmt.Errorf("the deadline was noticed after %s", took)
	}
	now, err := s.agent.Get(ctx, task.GetTaskId())
	if err != nil {
		return err
	}
	if err := expect("the state", now.GetState(), pb.TaskState_TASK_STATE_WORKING); err != nil {
		return err
	}
	_, err = s.agent.Cancel(ctx, task.GetTaskId(), "seen")
	return err
}

func typedErrors(ctx context.Context, s *stage) error {
	unknown := uuid.NewString()
	_, err := s.agent.Get(ctx, unknown)
	if err := refused(err, plgrpc.ErrTaskNotFound); err != nil {
		return err
	}
	if err := expect("metadata task_id", plgrpc.FromError(err).Metadata["task_id"], unknown); err != nil {
		return err
	}

	long := plgrpc.Text("echo too long")
	long.TaskId = strings.Repeat("x", 200)
	_, err = s.agent.Send(ctx, long)
	if err := refused(err, plgrpc.ErrInvalidArgument); err != nil {
		return err
	}
	var invalid *plgrpc.Error
	if !errors.As(err, &invalid) || len(invalid.Violations) != 1 {
		return fmt.Errorf("%v has no violation", err)
	}
	if err := expect("the field", invalid.Violations[0].Field, "input.task_id"); err != nil {
		return err
	}

	done, err := s.agent.Send(ctx, plgrpc.Text("echo done"))
	if err != nil {
		return err
	}
	_, err = s.agent.Cancel(ctx, done.GetId(), "too late")
	return refused(err, plgrpc.ErrTaskNotCancelable)
}

func sentMetadata(ctx context.Context, s *stage) error {
	for _, credentials := range []plgrpc.Option{plgrpc.WithAPIKey(s.apiKey), plgrpc.WithBearerToken(s.bearer)} {
		guarded, err := plgrpc.Dial(s.guarded, credentials)
		if err != nil {
			return err
		}
		defer guarded.Close()
		if err := says(ctx, guarded, "whoami", "conformance"); err != nil {
			return err
		}
	}
	anonymous, err := plgrpc.Dial(s.guarded)
	if err != nil {
		return err
	}
	defer anonymous.Close()
	_, err = anonymous.Send(ctx, plgrpc.Text("whoami"))
	if err := refused(err, plgrpc.ErrUnauthenticated); err != nil {
		return err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "x-conformance", "hello")
	return says(ctx, s.agent, "header x-conformance", "hello")
}

func retry(ctx context.Context, s *stage) error {
	token := uuid.NewString()
	if err := says(ctx, s.agent, "flaky 2 "+token, token+" ran 1 times"); err != nil {
		return err
	}
	token = uuid.NewString()
	request := plgrpc.RequestID(uuid.NewString())
	ids := map[string]bool{}
	for range 2 {
		task, err := s.agent.Send(ctx, plgrpc.Text("count-runs "+token), request)
		if err != nil {
			return err
		}
		ids[task.GetId()] = true
		if err := expect("the output", plgrpc.Output(task), token+" ran 1 times"); err != nil {
			return err
		}
	}
	return expect("the number of tasks", len(ids), 1)
}

func large(ctx context.Context, s *stage) error {
	text := strings.Repeat("0123456789", 300_000)
	return says(ctx, s.agent, "echo "+text, text)
}

func approval(ctx context.Context, s *stage) error {
	for approved, said := range map[bool]string{true: "approved", false: "refused"} {
		var last, message *pb.RunEvent
		for event, err := range s.agent.Stream(ctx, plgrpc.Text("approve it")) {
			if err != nil {
				return err
			}
			last = event
			if event.GetTaskMessages() != nil {
				message = event
			}
			if event.GetApprovalRequired() != nil {
				if err := answer(ctx, s, event.GetTaskId(), approved); err != nil {
					return err
				}
			}
		}
		messages := message.GetTaskMessages().GetMessages()
		if len(messages) == 0 {
			return errors.New("the agent said nothing")
		}
		if err := errors.Join(
			expect("the last state of the stream", last.GetTaskStatus().GetNewState(), pb.TaskState_TASK_STATE_COMPLETED),
			expect("the output", plgrpc.TextOf(messages[len(messages)-1].GetParts()), said),
		); err != nil {
			return err
		}
	}
	return nil
}

// answer responds to the one approval that the task waits for, which both ways of looking must show.
func answer(ctx context.Context, s *stage, taskID string, approved bool) error {
	var waiting []*pb.Approval
	for approval, err := range s.agent.Approvals(ctx, &pb.ListApprovalsRequest{TaskId: taskID}) {
		if err != nil {
			return err
		}
		waiting = append(waiting, approval)
	}
	if err := expect("the number of approvals", len(waiting), 1); err != nil {
		return err
	}
	for watched, err := range s.agent.WatchApprovals(ctx, taskID) {
		if err != nil {
			return err
		}
		if err := expect("the watched approval", watched.GetApprovalId(), waiting[0].GetApprovalId()); err != nil {
			return err
		}
		break
	}
	response, err := s.agent.Respond(ctx, waiting[0], approved, "as the case says")
	if err != nil {
		return err
	}
	return expect("whether another answer was first", response.GetAlreadyDecided(), false)
}

func budget(ctx context.Context, s *stage) error {
	price := &pb.Cost{Micros: 200_000, Currency: "USD"}
	usage, err := spent(ctx, s, "spend 9", &pb.Budget{MaxCost: price}, "max_cost")
	if err != nil {
		return err
	}
	if len(usage.GetCosts()) != 1 || !proto.Equal(usage.GetCosts()[0], price) {
		return fmt.Errorf("the costs are %v, not %v", usage.GetCosts(), price)
	}
	if err := expect("the number of model calls", usage.GetLlmCalls(), 2); err != nil {
		return err
	}
	if usage, err = spent(ctx, s, "spend 9", &pb.Budget{MaxToolCalls: proto.Int64(2)}, "max_tool_calls"); err != nil {
		return err
	}
	if err := expect("the number of tool calls", usage.GetToolCalls(), 2); err != nil {
		return err
	}
	const limit = 300 * time.Millisecond
	usage, err = spent(ctx, s, "ponder", &pb.Budget{MaxRuntime: durationpb.New(limit)}, "max_runtime_seconds")
	if err != nil {
		return err
	}
	if took := usage.GetRuntime().AsDuration(); took < limit || took > 5*time.Second {
		return fmt.Errorf("the run took %s", took)
	}
	enough := plgrpc.Text("spend 2")
	enough.Options = &pb.RunOptions{Budget: &pb.Budget{MaxCost: price}}
	done, err := s.agent.Send(ctx, enough)
	return errors.Join(err, expect("the output", plgrpc.Output(done), "spent 2"))
}

// spent runs a text that must fail because of one limit of its budget. It returns what the run has used, as its log and the task say.
func spent(ctx context.Context, s *stage, text string, budget *pb.Budget, limit string) (*pb.Usage, error) {
	input := plgrpc.Text(text)
	input.Options = &pb.RunOptions{Budget: budget}
	events, err := wholeLog(s.agent.Stream(ctx, input))
	if err != nil {
		return nil, err
	}
	last := events[len(events)-1]
	status := last.GetTaskStatus()
	failure := status.GetFailure()
	task, err := s.agent.Get(ctx, last.GetTaskId())
	if err != nil {
		return nil, err
	}
	var details struct {
		LimitName string `json:"limit_name"`
	}
	if err := plgrpc.DecodePayload(failure.GetDetails(), &details); err != nil {
		return nil, err
	}
	return status.GetUsage(), errors.Join(
		expect("the state", task.GetState(), pb.TaskState_TASK_STATE_FAILED),
		expect("whether the task has the failure", proto.Equal(task.GetFailure(), failure), true),
		expect("whether the task has the usage", proto.Equal(task.GetUsage(), status.GetUsage()), true),
		expect("the reason", plgrpc.Reason(failure.GetReason()), plgrpc.ErrBudgetExceeded),
		expect("the category", failure.GetCategory(), pb.FailureCategory_FAILURE_CATEGORY_LIMIT),
		expect("whether the same work may succeed later", failure.GetRetryable(), false),
		expect("the limit", details.LimitName, limit),
	)
}

func registry(ctx context.Context, s *stage) error {
	found, err := s.registry.Lookup(ctx, "conformance")
	if err != nil {
		return err
	}
	if err := expect("the URL by name", plgrpc.URL(found.GetCard()), s.url); err != nil {
		return err
	}
	var names []string
	for agent, err := range s.registry.List(ctx, &pb.AgentFilter{Tags: []string{"scripted"}}) {
		if err != nil {
			return err
		}
		names = append(names, agent.GetCard().GetName())
	}
	if err := expect("the names by tag", strings.Join(names, " "), "conformance"); err != nil {
		return err
	}
	return watchOneComeAndGo(ctx, s)
}

func tool(ctx context.Context, s *stage) error {
	var names []string
	var echo *pb.Tool
	for tool, err := range s.agent.Tools(ctx, &pb.ListToolsRequest{PageSize: 2}) {
		if err != nil {
			return err
		}
		names = append(names, tool.GetName())
		if tool.GetName() == "echo" {
			echo = tool
		}
	}
	call, err := plgrpc.ToolCallPart("echo", map[string]any{"text": "hi"})
	if err != nil {
		return err
	}
	called, err := s.agent.CallTool(ctx, &pb.CallToolRequest{Call: call.GetToolCall()})
	if err != nil {
		return err
	}
	done, err := s.agent.Get(ctx, called.GetTaskId())
	if err != nil {
		return err
	}
	if err := errors.Join(
		expect("the tools", strings.Join(names, " "), "echo hold stamp"),
		expect("the hints of echo", fmt.Sprint(echo.GetReadOnly(), " ", echo.GetTitle()), "true Echo"),
		expect("the result", called.GetOutput().GetResult().GetJson(), `"hi"`),
		expect("the state", done.GetState(), pb.TaskState_TASK_STATE_COMPLETED),
	); err != nil {
		return err
	}
	hasty, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = s.agent.CallTool(hasty, &pb.CallToolRequest{Call: &pb.ToolCall{ToolName: "hold"}})
	if err := refused(err, plgrpc.ErrDeadlineExceeded); err != nil {
		return err
	}
	id := plgrpc.FromError(err).TaskID
	held, err := s.agent.Get(ctx, id)
	if err != nil {
		return err
	}
	_, err = s.agent.Cancel(ctx, id, "seen")
	return errors.Join(err, expect("the state", held.GetState(), pb.TaskState_TASK_STATE_WORKING))
}

func references(ctx context.Context, s *stage) error {
	events, err := wholeLog(s.agent.Stream(ctx, plgrpc.Text("cut 5 spend 3")))
	if err != nil {
		return err
	}
	if err := expect("the arguments", argumentsOf(events), `{"arguments":{"text":"1"}} {"arguments":{"text":"2"}}`); err != nil {
		return err
	}
	var first int64
	for _, event := range slices.Backward(events) {
		if event.GetLlmCallCompleted() != nil {
			first = event.GetSequence()
		}
	}
	rest, err := log(ctx, s, &pb.SubscribeTaskRequest{TaskId: events[0].GetTaskId(), AfterSequence: first})
	if err != nil {
		return err
	}
	if err := expect("the arguments of a log from its middle", argumentsOf(rest), `abridged {"arguments":{"text":"2"}}`); err != nil {
		return err
	}
	call, err := plgrpc.ToolCallPart("echo", map[string]any{"text": "hi"})
	if err != nil {
		return err
	}
	called, err := s.agent.CallTool(ctx, &pb.CallToolRequest{Call: call.GetToolCall()})
	if err != nil {
		return err
	}
	whole, err := log(ctx, s, &pb.SubscribeTaskRequest{TaskId: called.GetTaskId()})
	if err != nil {
		return err
	}
	if err := expect("the arguments of a tool that was called", argumentsOf(whole), `{"arguments":{"text":"hi"}}`); err != nil {
		return err
	}
	return approvalReferences(ctx, s)
}

func approvalReferences(ctx context.Context, s *stage) error {
	var known plgrpc.References
	for event, err := range s.agent.Stream(ctx, plgrpc.Text("approve it")) {
		if err != nil {
			return err
		}
		known.Resolve(event)
		if event.GetApprovalRequired() == nil {
			continue
		}
		if err := errors.Join(
			expect("the action of the approval", known.Action(event.GetActionId()).GetName(), "stamp"),
			expect("the verdict", known.Verdict(event.GetActionId()).GetEffect(), pb.PolicyEffect_POLICY_EFFECT_REQUIRE_APPROVAL),
		); err != nil {
			return err
		}
		_, err = s.agent.Cancel(ctx, event.GetTaskId(), "seen")
		return err
	}
	return errors.New("no approval was asked for")
}

// argumentsOf returns the payload of each action that is requested, or "abridged" where it is left out.
func argumentsOf(events []*pb.RunEvent) string {
	var payloads []string
	for _, event := range events {
		if event.GetActionRequested() == nil {
			continue
		}
		payload := event.GetActionRequested().GetAction().GetPayload().GetJson()
		if plgrpc.IsAbridged(event) {
			payload = "abridged"
		}
		payloads = append(payloads, payload)
	}
	return strings.Join(payloads, " ")
}

func log(ctx context.Context, s *stage, request *pb.SubscribeTaskRequest) ([]*pb.RunEvent, error) {
	var events []*pb.RunEvent
	for event, err := range s.agent.Subscribe(ctx, request) {
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
}

func watchOneComeAndGo(ctx context.Context, s *stage) error {
	stub := pb.NewRegistryServiceClient(s.registry.Conn())
	name := "temp-" + uuid.NewString()[:8]
	where := &pb.AgentInterface{Url: "grpc://" + name + ".invalid:1", Transport: "grpc"}
	card := &pb.AgentCard{Name: name, Description: "Comes and goes.", Interfaces: []*pb.AgentInterface{where}}
	wanted := []string{"UP conformance UP", "UP " + name + " UP", "UP " + name + " DRAINING", "DOWN " + name + " DRAINING"}
	var lease string
	for change, err := range s.registry.Watch(ctx, nil) {
		if err != nil {
			return err
		}
		kind := strings.TrimPrefix(change.GetKind().String(), "AGENT_CHANGE_KIND_")
		state := strings.TrimPrefix(change.GetAgent().GetState().String(), "INSTANCE_STATE_")
		if err := expect("the change", kind+" "+change.GetAgent().GetCard().GetName()+" "+state, wanted[0]); err != nil {
			return err
		}
		switch wanted = wanted[1:]; len(wanted) {
		case 3:
			response, err := stub.RegisterAgent(ctx, &pb.RegisterAgentRequest{Card: card})
			if err != nil {
				return err
			}
			lease = response.GetLeaseId()
		case 2:
			// The second heartbeat reports another load, which a watch does not show.
			for running := range int32(2) {
				report := &pb.RenewLeaseRequest{LeaseId: lease, State: pb.InstanceState_INSTANCE_STATE_DRAINING, Running: running}
				if _, err := stub.RenewLease(ctx, report); err != nil {
					return err
				}
			}
		case 1:
			if _, err := stub.DeregisterAgent(ctx, &pb.DeregisterAgentRequest{LeaseId: lease}); err != nil {
				return err
			}
		case 0:
			return nil
		}
	}
	return errors.New("the watch ended")
}

func unknownEvent(ctx context.Context, s *stage) error {
	events, err := wholeLog(s.agent.Stream(ctx, plgrpc.Text("future")))
	if err != nil {
		return err
	}
	for _, event := range events {
		if event.GetEventType() == "example.unheard_of" {
			return errors.Join(
				expect("the summary", event.GetSummary(), "From the future"),
				expect("whether it has a payload", event.GetPayload() != nil, false),
				expect("whether the unknown fields are kept", len(event.ProtoReflect().GetUnknown()) > 0, true),
			)
		}
	}
	return errors.New("there was no example.unheard_of")
}

func unknownPart(ctx context.Context, s *stage) error {
	events, err := wholeLog(s.agent.Stream(ctx, plgrpc.Text("future")))
	if err != nil {
		return err
	}
	var parts []*pb.Part
	for _, event := range events {
		parts = append(parts, event.GetTaskArtifact().GetArtifact().GetParts()...)
	}
	if len(parts) != 1 {
		return fmt.Errorf("there are %d parts, not 1", len(parts))
	}
	return errors.Join(
		expect("whether it has a content", parts[0].GetContent() != nil, false),
		expect("the text to show", parts[0].GetFallbackText(), "A part from the future"),
		expect("whether the unknown fields are kept", len(parts[0].ProtoReflect().GetUnknown()) > 0, true),
	)
}

func unknownEnum(ctx context.Context, s *stage) error {
	events, err := wholeLog(s.agent.Stream(ctx, plgrpc.Text("future")))
	if err != nil {
		return err
	}
	var states []int32
	for _, event := range events {
		if change := event.GetTaskStatus(); change != nil {
			states = append(states, int32(change.GetNewState()))
		}
	}
	return expect("the states", fmt.Sprint(states), fmt.Sprint([]int32{77, int32(pb.TaskState_TASK_STATE_COMPLETED)}))
}

func missingEvent(ctx context.Context, s *stage) error {
	var task string
	var shown []int64
	var gap error
	for event, err := range s.agent.Stream(ctx, plgrpc.Text("gap 5 count 10")) {
		if err != nil {
			gap = err
			break
		}
		task, shown = event.GetTaskId(), append(shown, event.GetSequence())
	}
	rest, err := collected(s.agent.Subscribe(ctx, &pb.SubscribeTaskRequest{TaskId: task, AfterSequence: 5}))
	var following []int64
	for _, event := range rest {
		following = append(following, event.GetSequence())
	}
	return errors.Join(
		err,
		expect("the code", plgrpc.FromError(gap).Code, codes.DataLoss),
		expect("the task of the error", plgrpc.FromError(gap).TaskID, task),
		expect("the events before the gap", fmt.Sprint(shown), fmt.Sprint(numbers(1, 5))),
		expect("the events after them", fmt.Sprint(following), fmt.Sprint(numbers(6, 13))),
	)
}
