package agent

import (
	"cmp"
	"fmt"
	"time"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	maxIDBytes = 128
	maxItems   = 1000 // messages, artifacts, and parts of one of them
)

var (
	goingDown = failure(codes.Unavailable, plgrpc.ErrUnavailable, "the agent is going down")
	busy      = detailed(failure(codes.ResourceExhausted, plgrpc.ErrResourceExhausted, "the agent has as many runs as it may"),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
)

// failure is the error that a caller sees; metadata are keys and values.
func failure(code codes.Code, reason plgrpc.Reason, message string, metadata ...string) error {
	facts := map[string]string{}
	for i := 0; i+1 < len(metadata); i += 2 {
		facts[metadata[i]] = metadata[i+1]
	}
	info := &errdetails.ErrorInfo{Reason: string(reason), Domain: plgrpc.Domain, Metadata: facts}
	return detailed(status.Error(code, message), info)
}

func notFound(taskID string) error {
	return failure(codes.NotFound, plgrpc.ErrTaskNotFound, "there is no task "+taskID, "task_id", taskID)
}

func invalid(field, problem string) error {
	return detailed(failure(codes.InvalidArgument, plgrpc.ErrInvalidArgument, field+": "+problem, "field", field),
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: problem}}})
}

func detailed(err error, detail protoadapt.MessageV1) error {
	s, failed := status.Convert(err).WithDetails(detail)
	if failed != nil {
		panic(failed) // a detail that cannot be encoded
	}
	return s.Err()
}

// known refuses a value of an enum that this version does not know.
func known[Enum ~int32](field string, value Enum, names map[int32]string) error {
	if _, ok := names[int32(value)]; !ok {
		return invalid(field, fmt.Sprintf("%d is not known", value))
	}
	return nil
}

// targetOf is the target of an input, also where the id alone says it.
func targetOf(input *pb.TaskInput) pb.TaskTarget {
	switch {
	case input.GetTarget() != pb.TaskTarget_TASK_TARGET_UNSPECIFIED:
		return input.GetTarget()
	case input.GetTaskId() != "":
		return pb.TaskTarget_TASK_TARGET_CONTINUE
	default:
		return pb.TaskTarget_TASK_TARGET_CREATE
	}
}

// check refuses what no repetition makes right.
func check(input *pb.TaskInput, requestID string) error {
	for field, id := range map[string]string{
		"request_id": requestID, "input.task_id": input.GetTaskId(), "input.session_id": input.GetSessionId(),
	} {
		if len(id) > maxIDBytes {
			return invalid(field, fmt.Sprintf("must be at most %d bytes long", maxIDBytes))
		}
	}
	if err := known("input.target", input.GetTarget(), pb.TaskTarget_name); err != nil {
		return err
	}
	switch target := targetOf(input); {
	case input.GetExpectedSequence() < 0:
		return invalid("input.expected_sequence", "must not be negative")
	case input.GetExpectedSequence() != 0 && target == pb.TaskTarget_TASK_TARGET_CREATE:
		return invalid("input.expected_sequence", "is for a task that is continued")
	case input.GetTaskId() == "" && target == pb.TaskTarget_TASK_TARGET_CONTINUE:
		return invalid("input.task_id", "must name the task to continue")
	}
	if len(input.GetMessages()) > maxItems {
		return invalid("input.messages", fmt.Sprintf("there may be at most %d", maxItems))
	}
	for m, message := range input.GetMessages() {
		field := fmt.Sprintf("input.messages[%d]", m)
		if len(message.GetId()) > maxIDBytes {
			return invalid(field+".id", fmt.Sprintf("must be at most %d bytes long", maxIDBytes))
		}
		if len(message.GetParts()) > maxItems {
			return invalid(field+".parts", fmt.Sprintf("there may be at most %d", maxItems))
		}
		for p, part := range message.GetParts() {
			if part.GetContent() == nil {
				return invalid(fmt.Sprintf("%s.parts[%d]", field, p), "must have a content")
			}
			if place, empty := emptyPayload(part); empty {
				return invalid(fmt.Sprintf("%s.parts[%d].%s", field, p, place), "must carry a value of a known form")
			}
		}
	}
	return nil
}

// emptyPayload names the field of a part whose payload has no value that this version knows.
func emptyPayload(part *pb.Part) (field string, empty bool) {
	var payload *pb.Payload
	switch content := part.GetContent().(type) {
	case *pb.Part_Data:
		field, payload = "data", content.Data
	case *pb.Part_File:
		field, payload = "file.content", content.File.GetContent()
	case *pb.Part_ToolCall:
		field, payload = "tool_call.arguments", content.ToolCall.GetArguments()
	case *pb.Part_ToolOutput:
		field, payload = "tool_output.result", content.ToolOutput.GetResult()
	case *pb.Part_InferOutput:
		field, payload = "infer_output.value", content.InferOutput.GetValue()
	case *pb.Part_Custom:
		field, payload = "custom.content", content.Custom.GetContent()
	}
	return field, payload != nil && payload.GetValue() == nil
}

// filledIn is a copy of what a caller sent, with what it has left to the server.
func filledIn(sent *pb.TaskInput) *pb.TaskInput {
	input := &pb.TaskInput{}
	proto.Merge(input, sent)
	input.CreateTime = cmp.Or(input.CreateTime, timestamppb.Now())
	for _, message := range input.Messages {
		message.Id = cmp.Or(message.Id, newID())
		message.Role = cmp.Or(message.Role, pb.MessageRole_MESSAGE_ROLE_USER)
		message.CreateTime = cmp.Or(message.CreateTime, input.CreateTime)
		for _, part := range message.Parts {
			if call := part.GetToolCall(); call != nil {
				call.CallId = cmp.Or(call.CallId, newID())
			}
		}
	}
	return input
}

// contextOf is the envelope that the options of a caller make; nil without options.
func contextOf(input *pb.TaskInput) *pb.RunContext {
	options := input.GetOptions()
	if options == nil {
		return nil
	}
	return &pb.RunContext{
		RunId: options.RunId, SessionId: input.SessionId, TraceId: options.TraceId, WorkspaceUri: options.WorkspaceUri,
		ParentRunId: options.ParentRunId, AgentChain: options.AgentChain, Permissions: options.Permissions,
		Budget: options.Budget, MetadataJson: options.MetadataJson, CreateTime: cmp.Or(options.CreateTime, input.CreateTime),
	}
}
