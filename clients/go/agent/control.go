package agent

import (
	"context"
	"errors"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc/codes"
)

// control is the part of the ControlService that an agent here has: its tools. Other methods are UNIMPLEMENTED.
type control struct {
	pb.UnimplementedControlServiceServer
	service *service
	tools   *toolbox
}

func (c *control) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	return &pb.ListToolsResponse{Tools: c.tools.skills()}, nil
}

func (c *control) CallTool(ctx context.Context, request *pb.CallToolRequest) (*pb.CallToolResponse, error) {
	call := request.GetCall()
	if _, err := c.tools.find(call); err != nil {
		var rejection *Rejection
		errors.As(err, &rejection)
		return nil, failure(codes.InvalidArgument, "TOOL_REJECTED", err.Error(), "code", rejection.Code)
	}
	task := plgrpc.NewTask(&pb.Part{Content: &pb.Part_ToolCall{ToolCall: call}})
	task.SessionId = request.GetSessionId()
	began, err := c.service.accept(&pb.SendTaskRequest{Task: task, RequestId: request.GetRequestId()}, c.tools.handle)
	if err != nil {
		return nil, err
	}
	response := &pb.CallToolResponse{}
	keep := func(events []*pb.RunEvent) error { response.Events = append(response.Events, events...); return nil }
	if err := c.service.watch(ctx, began.taskLog, began.turn.after, pb.StopAt_STOP_AT_INTERRUPTED, keep); err != nil {
		return nil, err
	}
	for _, event := range response.Events {
		for _, output := range plgrpc.ToolOutputsOf(event.GetTaskArtifact().GetArtifact().GetParts()) {
			response.Output = output
		}
	}
	if response.Output == nil {
		return nil, failure(codes.Aborted, "TASK_FAILED", "task "+began.taskID+" ended before its tool did", "task_id", began.taskID)
	}
	return response, nil
}
