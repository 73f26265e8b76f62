package agent

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// pageBytes is where a page ends early: callers receive 4 MiB by default, and one item may be large by itself.
const pageBytes = 1 << 20

// control is the part of the ControlService that an agent here has: its tools. Other methods are UNIMPLEMENTED.
type control struct {
	pb.UnimplementedControlServiceServer
	service *service
	tools   *toolbox
}

func (c *control) ListTools(_ context.Context, request *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	size := int(cmp.Or(request.GetPageSize(), 50))
	if size < 1 || size > 1000 {
		return nil, invalid("page_size", "must be from 1 to 1000")
	}
	after, err := base64.RawURLEncoding.DecodeString(request.GetPageToken())
	if err != nil {
		return nil, invalid("page_token", "is not a token of this agent")
	}
	response := &pb.ListToolsResponse{}
	bytes := 0
	for _, name := range c.tools.names {
		tool := c.tools.byName[name].about
		if name <= string(after) {
			continue
		}
		bytes += proto.Size(tool)
		if count := len(response.Tools); count == size || count > 0 && bytes > pageBytes {
			response.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(response.Tools[count-1].GetName()))
			break
		}
		response.Tools = append(response.Tools, tool)
	}
	return response, nil
}

func (c *control) CallTool(ctx context.Context, request *pb.CallToolRequest) (*pb.CallToolResponse, error) {
	call := request.GetCall()
	if _, err := c.tools.find(call); err != nil {
		var rejection *Rejection
		errors.As(err, &rejection)
		if rejection.Code == unreadable {
			return nil, invalid("call.arguments", "cannot be read here, they are not JSON")
		}
		return nil, failure(codes.InvalidArgument, "TOOL_REJECTED", err.Error(), "code", rejection.Code)
	}
	if len(request.GetTaskId()) > maxIDBytes {
		return nil, invalid("task_id", "must be at most 128 bytes")
	}
	input := plgrpc.Input(&pb.Part{Content: &pb.Part_ToolCall{ToolCall: call}})
	input.TaskId, input.Target, input.SessionId = request.GetTaskId(), pb.TaskTarget_TASK_TARGET_CREATE, request.GetSessionId()
	began, err := c.service.accept(input, request.GetRequestId(), c.tools.handle)
	if err != nil {
		return nil, err
	}
	response := &pb.CallToolResponse{TaskId: began.taskID}
	keep := func(events []*pb.RunEvent, _ *pb.WatchPosition) error {
		for _, event := range events {
			for _, output := range plgrpc.ToolOutputsOf(event.GetTaskArtifact().GetArtifact().GetParts()) {
				response.Output = output
			}
		}
		return nil
	}
	if err := c.service.watch(ctx, began.taskLog, began.turn.after, pb.StopAt_STOP_AT_INTERRUPTED, keep); err != nil {
		return nil, err
	}
	if proto.Size(response.Output) > bodyBytes {
		return &pb.CallToolResponse{TaskId: began.taskID}, nil // the task has it
	}
	if response.Output == nil {
		return nil, failure(codes.Aborted, "TASK_FAILED", "task "+began.taskID+" ended before its tool did", "task_id", began.taskID)
	}
	return response, nil
}
