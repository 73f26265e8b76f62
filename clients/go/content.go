package protolink

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/protolink/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Text returns a task whose one message says text.
func Text(text string) *pb.Task {
	return newTask(&pb.Part{Content: &pb.Part_Text{Text: text}})
}

// JSON returns a task whose one message is value as JSON. It fails for a value that has no JSON form.
func JSON(value any) (*pb.Task, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("protolink: %w", err)
	}
	return newTask(&pb.Part{Content: &pb.Part_DataJson{DataJson: string(data)}}), nil
}

// ToolCall returns a task that asks for one run of a tool with arguments, a struct or a map that becomes a JSON object. It fails for
// arguments that have no JSON form.
func ToolCall(tool string, arguments any) (*pb.Task, error) {
	data, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("protolink: arguments of %s: %w", tool, err)
	}
	call := &pb.ToolCall{ToolName: tool, ArgsJson: string(data)}
	return newTask(&pb.Part{Content: &pb.Part_ToolCall{ToolCall: call}}), nil
}

func newTask(parts ...*pb.Part) *pb.Task {
	return &pb.Task{Messages: []*pb.Message{{Role: pb.Role_ROLE_USER, Parts: parts}}}
}

// Output returns what the task is for: the newest output among the agent's messages and the artifacts of kind result. A text is
// returned as it is, data and results of tools as JSON text. It is empty where there is no output.
func Output(task *pb.Task) string {
	var newest string
	var when time.Time
	look := func(parts []*pb.Part, at *timestamppb.Timestamp) {
		for _, part := range slices.Backward(parts) {
			if text, ok := output(part); ok && !at.AsTime().Before(when) {
				newest, when = text, at.AsTime()
				return
			}
		}
	}
	for _, artifact := range task.GetArtifacts() {
		if kind := artifact.GetKind(); kind == "" || kind == "result" {
			look(artifact.GetParts(), artifact.GetCreateTime())
		}
	}
	for _, message := range task.GetMessages() {
		if role := message.GetRole(); role == pb.Role_ROLE_AGENT || role == pb.Role_ROLE_ASSISTANT {
			look(message.GetParts(), message.GetCreateTime())
		}
	}
	return newest
}

func output(part *pb.Part) (text string, ok bool) {
	switch content := part.GetContent().(type) {
	case *pb.Part_Text:
		return content.Text, true
	case *pb.Part_DataJson:
		return content.DataJson, true
	case *pb.Part_ToolOutput:
		return content.ToolOutput.GetResultJson(), content.ToolOutput.GetErrorJson() == ""
	case *pb.Part_InferOutput:
		return content.InferOutput.GetText() + content.InferOutput.GetValueJson(), true // one of the two is set
	default:
		return "", false
	}
}

// TextOf returns the texts of the parts, put together.
func TextOf(parts []*pb.Part) string {
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(part.GetText())
	}
	return text.String()
}
