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

// check refuses what no repetition makes right.
func check(request *pb.SendTaskRequest) error {
	task := request.GetTask()
	for field, id := range map[string]string{
		"request_id": request.GetRequestId(), "task_id": request.GetTaskId(), "task.id": task.GetId(), "task.session_id": task.GetSessionId(),
	} {
		if len(id) > maxIDBytes {
			return invalid(field, fmt.Sprintf("must be at most %d bytes long", maxIDBytes))
		}
	}
	if own := task.GetId(); own != "" && request.GetTaskId() != "" && own != request.GetTaskId() {
		return invalid("task_id", "names another task than task.id, "+own)
	}
	if len(task.GetMessages()) == 0 && request.GetTaskId() == "" {
		return invalid("task.messages", "a new task has a message")
	}
	if len(task.GetMessages()) > maxItems {
		return invalid("task.messages", fmt.Sprintf("there may be at most %d", maxItems))
	}
	for m, message := range task.GetMessages() {
		field := fmt.Sprintf("task.messages[%d]", m)
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
		}
	}
	return nil
}

// filledIn is a copy of what a caller sent, with what it has left to the server.
func filledIn(sent *pb.Task) *pb.Task {
	task := proto.CloneOf(sent)
	if task == nil {
		task = &pb.Task{}
	}
	task.CreateTime = cmp.Or(task.CreateTime, timestamppb.Now())
	for _, message := range task.Messages {
		message.Id = cmp.Or(message.Id, newID())
		message.Role = cmp.Or(message.Role, pb.Role_ROLE_USER)
		message.CreateTime = cmp.Or(message.CreateTime, task.CreateTime)
		for _, part := range message.Parts {
			if call := part.GetToolCall(); call != nil {
				call.CallId = cmp.Or(call.CallId, newID())
			}
		}
	}
	return task
}
