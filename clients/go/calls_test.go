package plgrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/uuid"
	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

// The calls are those of docs/calls.md, each with bare stubs and with the client. They are compiled, and not run.

type calls struct {
	agent   pb.AgentServiceClient
	control pb.ControlServiceClient
	client  *plgrpc.Client
}

func (c calls) sendText(ctx context.Context) (*pb.Task, error) {
	agent := c.agent
	input := &pb.TaskInput{Messages: []*pb.Message{{Parts: []*pb.Part{{Content: &pb.Part_Text{Text: "hi"}}}}}}
	sent, err := agent.SendTask(ctx, &pb.SendTaskRequest{Input: input, RequestId: uuid.NewString()})
	return sent.GetTask(), err
}

func (c calls) clientSendsText(ctx context.Context) (*pb.Task, error) {
	client := c.client
	task, err := client.Send(ctx, plgrpc.Text("hi"))
	return task, err
}

func (c calls) readAnswer(task *pb.Task) []*pb.Part {
	var answer []*pb.Part
	for _, message := range task.GetMessages() {
		if message.GetId() == task.GetOutputId() {
			answer = message.GetParts()
		}
	}
	for _, artifact := range task.GetArtifacts() {
		if artifact.GetId() == task.GetOutputId() {
			answer = artifact.GetParts()
		}
	}
	return answer
}

func (c calls) clientReadsAnswer(task *pb.Task, trip any) error {
	fmt.Println(plgrpc.Output(task))        // as text
	err := plgrpc.DecodeOutput(task, &trip) // as a value
	return err
}

type Add struct {
	A int `json:"a"`
	B int `json:"b"`
}

func (c calls) callTool(ctx context.Context) (int, error) {
	control := c.control
	arguments, err := json.Marshal(Add{A: 1, B: 2})
	if err != nil {
		return 0, err
	}
	called, err := control.CallTool(ctx, &pb.CallToolRequest{
		Call:      &pb.ToolCall{ToolName: "add", Arguments: &pb.Payload{Value: &pb.Payload_Json{Json: string(arguments)}}},
		RequestId: uuid.NewString(),
		TaskId:    uuid.NewString(), // the call is this task: after a deadline, get it or cancel it
	})
	if err != nil {
		return 0, err
	}
	if failure := called.GetOutput().GetFailure(); failure != nil {
		return 0, fmt.Errorf("%s: %s", failure.GetReason(), failure.GetMessage())
	}
	var sum int
	err = json.Unmarshal([]byte(called.GetOutput().GetResult().GetJson()), &sum)
	return sum, err
}

func (c calls) clientCallsTool(ctx context.Context) (int, error) {
	client := c.client
	call, err := plgrpc.ToolCallPart("add", Add{A: 1, B: 2})
	if err != nil {
		return 0, err
	}
	called, err := client.CallTool(ctx, &pb.CallToolRequest{Call: call.GetToolCall()})
	if err != nil {
		return 0, err
	}
	if failure := called.GetOutput().GetFailure(); failure != nil {
		return 0, fmt.Errorf("%s: %s", failure.GetReason(), failure.GetMessage())
	}
	var sum int
	err = plgrpc.DecodePayload(called.GetOutput().GetResult(), &sum)
	return sum, err
}

func (c calls) continueTask(ctx context.Context, task *pb.Task, messages []*pb.Message) error {
	agent := c.agent
	input := &pb.TaskInput{TaskId: task.GetId(), ExpectedSequence: task.GetSequence(), Messages: messages}
	sent, err := agent.SendTask(ctx, &pb.SendTaskRequest{Input: input, RequestId: uuid.NewString()})
	fmt.Println(sent)
	return err
}

func (c calls) clientContinuesTask(ctx context.Context, task *pb.Task) error {
	client := c.client
	sent, err := client.Send(ctx, plgrpc.Text("the second"),
		plgrpc.ContinueTask(task.GetId()), plgrpc.ExpectedSequence(task.GetSequence()))
	fmt.Println(sent)
	return err
}

func (c calls) streamAndResume(ctx context.Context, input *pb.TaskInput) error {
	agent := c.agent
	input.TaskId, input.Target = uuid.NewString(), pb.TaskTarget_TASK_TARGET_CREATE
	var seen int64
	show := func(events []*pb.RunEvent) {
		for _, event := range events {
			seen = event.GetSequence()
			switch payload := event.GetPayload().(type) {
			case *pb.RunEvent_ActionEnded:
				fmt.Println(payload.ActionEnded.GetOutcome() == pb.ActionOutcome_ACTION_OUTCOME_DENIED)
			case *pb.RunEvent_BudgetReported:
				fmt.Println(payload.BudgetReported.GetDecision().GetEffect() == pb.BudgetEffect_BUDGET_EFFECT_DENY)
			}
		}
	}
	stream, err := agent.StreamTask(ctx, &pb.StreamTaskRequest{Input: input, RequestId: uuid.NewString()})
	for err == nil {
		var response *pb.StreamTaskResponse
		response, err = stream.Recv()
		show(response.GetEvents())
	}
	if !errors.Is(err, io.EOF) { // interrupted: the same log continues after the last event that was seen
		again, err := agent.SubscribeTask(ctx, &pb.SubscribeTaskRequest{
			TaskId: input.GetTaskId(), AfterSequence: seen, StopAt: pb.StopAt_STOP_AT_INTERRUPTED,
		})
		for err == nil {
			var response *pb.SubscribeTaskResponse
			response, err = again.Recv()
			show(response.GetEvents())
		}
	}
	return err
}

func (c calls) clientStreams(ctx context.Context, input *pb.TaskInput) error {
	client := c.client
	for event, err := range client.Stream(ctx, input) { // resumes by itself
		if err != nil {
			return err
		}
		fmt.Println(event.GetSequence(), event.GetActionEnded().GetOutcome())
	}
	return nil
}

func (c calls) approve(ctx context.Context, approval *pb.Approval) (bool, error) {
	control := c.control
	answered, err := control.RespondApproval(ctx, &pb.RespondApprovalRequest{
		ApprovalId: approval.GetApprovalId(), Etag: approval.GetEtag(), // what was shown, or APPROVAL_CHANGED
		Verdict: pb.ApprovalVerdict_APPROVAL_VERDICT_APPROVE, RequestId: uuid.NewString(),
	})
	return answered.GetAlreadyDecided(), err
}

func (c calls) clientApproves(ctx context.Context, approval *pb.Approval) (bool, error) {
	client := c.client
	answered, err := client.Respond(ctx, approval, true, "looks right")
	return answered.GetAlreadyDecided(), err
}

func (c calls) waitForSubmitted(ctx context.Context, input *pb.TaskInput) error {
	agent := c.agent
	request := &pb.SendTaskRequest{Input: input, RequestId: "order-7", WaitFor: pb.WaitFor_WAIT_FOR_ACCEPTED}
	submitted, err := agent.SendTask(ctx, request)
	if err != nil {
		return err
	}
	request.WaitFor = pb.WaitFor_WAIT_FOR_SETTLED // the same request again: no second run, the answer of the first
	settled, err := agent.SendTask(ctx, request)
	fmt.Println(submitted, settled)
	return err
}

func (c calls) waitByID(ctx context.Context, taskID string) error {
	agent := c.agent
	watch, err := agent.SubscribeTask(ctx, &pb.SubscribeTaskRequest{TaskId: taskID, StopAt: pb.StopAt_STOP_AT_INTERRUPTED})
	for err == nil {
		_, err = watch.Recv()
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	settled, err := agent.GetTask(ctx, &pb.GetTaskRequest{TaskId: taskID, View: pb.TaskView_TASK_VIEW_TURN})
	fmt.Println(settled)
	return err
}

func (c calls) clientWaits(ctx context.Context, input *pb.TaskInput) error {
	client := c.client
	submitted, err := client.Submit(ctx, input, plgrpc.RequestID("order-7"))
	if err != nil {
		return err
	}
	settled, err := client.Send(ctx, input, plgrpc.RequestID("order-7"))
	fmt.Println(submitted, settled)
	return err
}

func (c calls) listFailed(ctx context.Context) error {
	agent := c.agent
	failed := []pb.TaskState{pb.TaskState_TASK_STATE_FAILED}
	request := &pb.ListTasksRequest{States: failed, View: pb.TaskView_TASK_VIEW_TURN}
	for {
		page, err := agent.ListTasks(ctx, request)
		if err != nil {
			return err
		}
		for _, task := range page.GetTasks() {
			for failure := task.GetFailure(); failure != nil; failure = failure.GetCause() {
				fmt.Println(task.GetId(), failure.GetCategory(), failure.GetReason(), failure.GetMessage(), failure.GetRetryable())
			}
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return nil
		}
	}
}

func (c calls) clientListsFailed(ctx context.Context) error {
	client := c.client
	failed := []pb.TaskState{pb.TaskState_TASK_STATE_FAILED}
	for task, err := range client.List(ctx, &pb.ListTasksRequest{States: failed, View: pb.TaskView_TASK_VIEW_TURN}) {
		if err != nil {
			return err
		}
		fmt.Println(task.GetId(), task.GetFailure().GetCategory(), task.GetFailure().GetMessage(), task.GetFailure().GetCause())
	}
	return nil
}

func TestEveryCallOfTheDocsIsCompiled(t *testing.T) {
	checkSnippets(t, "../../docs/calls.md", "calls_test.go")
}
