package plgrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Input returns an input whose one message has these parts.
func Input(parts ...*pb.Part) *pb.TaskInput {
	return &pb.TaskInput{Messages: []*pb.Message{{Role: pb.Role_ROLE_USER, Parts: parts}}}
}

// Text returns an input whose one message says text.
func Text(text string) *pb.TaskInput { return Input(TextPart(text)) }

// JSON returns an input whose one message is value as JSON. It fails for a value that has no JSON form.
func JSON(value any) (*pb.TaskInput, error) {
	part, err := JSONPart(value)
	if err != nil {
		return nil, err
	}
	return Input(part), nil
}

// ToolCall returns an input that asks for one run of a tool with arguments, a struct or a map that becomes a JSON object. It fails for
// arguments that have no JSON form.
func ToolCall(tool string, arguments any) (*pb.TaskInput, error) {
	part, err := ToolCallPart(tool, arguments)
	if err != nil {
		return nil, err
	}
	return Input(part), nil
}

// TextPart returns a part with a text.
func TextPart(text string) *pb.Part {
	return &pb.Part{Content: &pb.Part_Text{Text: text}}
}

// JSONPart returns a part with value as JSON. It fails for a value that has no JSON form.
func JSONPart(value any) (*pb.Part, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("plgrpc: %w", err)
	}
	return &pb.Part{Content: &pb.Part_DataJson{DataJson: string(data)}}, nil
}

// FilePart returns a part with a file: its name without directories, its media type, such as image/png, and its bytes.
func FilePart(name, mediaType string, data []byte) *pb.Part {
	file := &pb.FileContent{Name: name, MediaType: mediaType, Source: &pb.FileContent_Data{Data: data}}
	return &pb.Part{Content: &pb.Part_File{File: file}}
}

// LinkPart returns a part with a file that is elsewhere. The agent decides whether to fetch it.
func LinkPart(name, mediaType, uri string) *pb.Part {
	file := &pb.FileContent{Name: name, MediaType: mediaType, Source: &pb.FileContent_Uri{Uri: uri}}
	return &pb.Part{Content: &pb.Part_File{File: file}}
}

// ToolCallPart returns a part that asks for one run of a tool, as [ToolCall] does. It has an id, which the output repeats.
func ToolCallPart(tool string, arguments any) (*pb.Part, error) {
	data, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("plgrpc: arguments of %s: %w", tool, err)
	}
	call := &pb.ToolCall{ToolName: tool, ArgsJson: string(data), CallId: newID()}
	return &pb.Part{Content: &pb.Part_ToolCall{ToolCall: call}}, nil
}

// Output returns what the task is for: the newest output among the agent's messages and the artifacts of kind result. A text is
// returned as it is, data and results of tools as JSON text. It is empty where there is no output.
func Output(task *pb.Task) string {
	part := newestOutput(task)
	text, _ := output(part)
	return text
}

// DecodeOutput reads the output of a task, which is data, the result of a tool or a model's value, into a value as json.Unmarshal does.
// It fails where the task has no output, or a text.
func DecodeOutput(task *pb.Task, into any) error {
	part := newestOutput(task)
	if part == nil {
		return fmt.Errorf("plgrpc: task %s has no output", task.GetId())
	}
	return Decode(part, into)
}

// Decode reads the JSON of a part into a value as json.Unmarshal does: data, the result of a tool, a model's value. It fails for any
// other part; for a tool that failed, with a [ToolError].
func Decode(part *pb.Part, into any) error {
	var text string
	switch content := part.GetContent().(type) {
	case *pb.Part_DataJson:
		text = content.DataJson
	case *pb.Part_ToolOutput:
		if told := content.ToolOutput.GetErrorJson(); told != "" {
			return toolError(content.ToolOutput.GetCallId(), told)
		}
		text = content.ToolOutput.GetResultJson()
	case *pb.Part_InferOutput:
		text = content.InferOutput.GetValueJson()
	}
	if text == "" {
		return errors.New("plgrpc: the part has no JSON")
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("plgrpc: %w", err)
	}
	return nil
}

// ToolError is why a tool did not succeed, as the agent tells it.
type ToolError struct {
	CallID  string // of the call that failed
	Code    string // machine-readable, for instance TOOL_FAILED; may be empty
	Message string // one sentence
	JSON    string // all of it
}

// Error returns code and sentence.
func (e *ToolError) Error() string {
	if e.Code == "" {
		return "plgrpc: the tool failed: " + e.Message
	}
	return "plgrpc: the tool failed: " + e.Code + ": " + e.Message
}

func toolError(callID, told string) *ToolError {
	e := &ToolError{CallID: callID, Message: told, JSON: told}
	var fields struct{ Code, Message string }
	if json.Unmarshal([]byte(told), &fields) == nil && fields.Message != "" {
		e.Code, e.Message = fields.Code, fields.Message
	}
	return e
}

// PartsOf returns what the agent has said and made in a task: the parts of its messages, then those of the artifacts.
func PartsOf(task *pb.Task) []*pb.Part {
	var parts []*pb.Part
	for _, message := range task.GetMessages() {
		if isAgents(message) {
			parts = append(parts, message.GetParts()...)
		}
	}
	for _, artifact := range task.GetArtifacts() {
		parts = append(parts, artifact.GetParts()...)
	}
	return parts
}

// TextOf returns the texts of the parts, put together.
func TextOf(parts []*pb.Part) string {
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(part.GetText())
	}
	return text.String()
}

// FilesOf returns the files among the parts. GetData has the bytes of a file; where it is nil, GetUri says where they are.
func FilesOf(parts []*pb.Part) []*pb.FileContent { return each(parts, (*pb.Part).GetFile) }

// ToolCallsOf returns the tool calls among the parts.
func ToolCallsOf(parts []*pb.Part) []*pb.ToolCall { return each(parts, (*pb.Part).GetToolCall) }

// ToolOutputsOf returns the outputs of tools among the parts, each with a result or an error as JSON text. [Decode] reads a part of this
// kind.
func ToolOutputsOf(parts []*pb.Part) []*pb.ToolOutput { return each(parts, (*pb.Part).GetToolOutput) }

// each returns the contents of one kind.
func each[Content any](parts []*pb.Part, get func(*pb.Part) *Content) []*Content {
	var found []*Content
	for _, part := range parts {
		if content := get(part); content != nil {
			found = append(found, content)
		}
	}
	return found
}

func isAgents(message *pb.Message) bool {
	return message.GetRole() == pb.Role_ROLE_AGENT || message.GetRole() == pb.Role_ROLE_ASSISTANT
}

func newestOutput(task *pb.Task) *pb.Part {
	var newest *pb.Part
	var when time.Time
	look := func(parts []*pb.Part, at *timestamppb.Timestamp) {
		for _, part := range slices.Backward(parts) {
			if _, ok := output(part); ok && !at.AsTime().Before(when) {
				newest, when = part, at.AsTime()
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
		if isAgents(message) {
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
