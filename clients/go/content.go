package plgrpc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/protobuf/proto"
)

// Input returns an input whose one message has these parts.
func Input(parts ...*pb.Part) *pb.TaskInput {
	return &pb.TaskInput{Messages: []*pb.Message{{Role: pb.MessageRole_MESSAGE_ROLE_USER, Parts: parts}}}
}

// AgentMessage is a message of the agent, of these parts: what [TaskControl.Complete] adds as the answer of a task.
func AgentMessage(parts ...*pb.Part) *pb.Message {
	return &pb.Message{Role: pb.MessageRole_MESSAGE_ROLE_AGENT, Parts: parts}
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

// ToolCall returns an input that asks for one run of a tool with arguments: a protobuf message, or a struct or a map that becomes a JSON
// object. It fails for arguments that have no such form.
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
	data, err := JSONPayload(value)
	if err != nil {
		return nil, err
	}
	return &pb.Part{Content: &pb.Part_Data{Data: data}}, nil
}

// MessagePart returns a part with a protobuf message of any type. [Decode] reads it.
func MessagePart(message proto.Message) (*pb.Part, error) {
	data, err := MessagePayload(message)
	if err != nil {
		return nil, err
	}
	return &pb.Part{Content: &pb.Part_Data{Data: data}}, nil
}

// JSONPayload returns value as JSON. It fails for a value that has no JSON form.
func JSONPayload(value any) (*pb.Payload, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("plgrpc: %w", err)
	}
	return &pb.Payload{Value: &pb.Payload_Json{Json: string(data)}}, nil
}

// MessagePayload returns a protobuf message with the name of its type.
func MessagePayload(message proto.Message) (*pb.Payload, error) {
	value, err := proto.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("plgrpc: %w", err)
	}
	typed := &pb.TypedMessage{TypeName: string(message.ProtoReflect().Descriptor().FullName()), Value: value}
	return &pb.Payload{Value: &pb.Payload_Message{Message: typed}}, nil
}

// DecodePayload reads a payload: JSON as json.Unmarshal does, a protobuf message into a message of its type. It fails for any other
// payload.
func DecodePayload(payload *pb.Payload, into any) error {
	if codec := payload.GetEncoding(); codec != "" {
		return fmt.Errorf("plgrpc: the value is encoded with %s", codec)
	}
	switch value := payload.GetValue().(type) {
	case *pb.Payload_Json:
		if err := json.Unmarshal([]byte(value.Json), into); err != nil {
			return fmt.Errorf("plgrpc: %w", err)
		}
		return nil
	case *pb.Payload_Message:
		message, ok := into.(proto.Message)
		if !ok || string(message.ProtoReflect().Descriptor().FullName()) != value.Message.GetTypeName() {
			return fmt.Errorf("plgrpc: the value is a %s", value.Message.GetTypeName())
		}
		if err := proto.Unmarshal(value.Message.GetValue(), message); err != nil {
			return fmt.Errorf("plgrpc: %w", err)
		}
		return nil
	default:
		return errors.New("plgrpc: the value is neither JSON nor a protobuf message")
	}
}

// PayloadText returns the JSON text of a payload; of any other its preview, which may be empty.
func PayloadText(payload *pb.Payload) string { return cmp.Or(payload.GetJson(), payload.GetPreview()) }

// FilePart returns a part with a file: its name without directories, its media type, such as image/png, and its bytes.
func FilePart(name, mediaType string, data []byte) *pb.Part {
	content := &pb.Payload{MediaType: mediaType, Value: &pb.Payload_Data{Data: data}}
	return &pb.Part{Content: &pb.Part_File{File: &pb.FileContent{Name: name, Content: content}}}
}

// LinkPart returns a part with a file that is elsewhere. The agent decides whether to fetch it.
func LinkPart(name, mediaType, uri string) *pb.Part {
	content := &pb.Payload{MediaType: mediaType, Value: &pb.Payload_Ref{Ref: &pb.PayloadRef{Uri: uri}}}
	return &pb.Part{Content: &pb.Part_File{File: &pb.FileContent{Name: name, Content: content}}}
}

// ToolCallPart returns a part that asks for one run of a tool, as [ToolCall] does. It has an id, which the output repeats.
func ToolCallPart(tool string, arguments any) (*pb.Part, error) {
	payload, err := argumentsOf(arguments)
	if err != nil {
		return nil, fmt.Errorf("%w, the arguments of %s", err, tool)
	}
	call := &pb.ToolCall{ToolName: tool, Arguments: payload, CallId: newID()}
	return &pb.Part{Content: &pb.Part_ToolCall{ToolCall: call}}, nil
}

func argumentsOf(value any) (*pb.Payload, error) {
	if message, ok := value.(proto.Message); ok {
		return MessagePayload(message)
	}
	return JSONPayload(value)
}

// Output returns what the task is for: the newest output among the agent's messages and the artifacts of kind result. A text is
// returned as it is, data and results of tools as [PayloadText] does. It is empty where there is no output.
func Output(task *pb.Task) string {
	part := answer(task)
	text, _ := output(part)
	return text
}

// DecodeOutput reads the output of a task, which is data, the result of a tool or a model's value, as [DecodePayload] does. It fails
// where the task has no output, or a text.
func DecodeOutput(task *pb.Task, into any) error {
	part := answer(task)
	if part == nil {
		return fmt.Errorf("plgrpc: task %s has no output", task.GetId())
	}
	return Decode(part, into)
}

// Decode reads the value of a part as [DecodePayload] does: data, the result of a tool, a model's value. It fails for any other part;
// for a tool that failed, with a [ToolError].
func Decode(part *pb.Part, into any) error {
	var value *pb.Payload
	switch content := part.GetContent().(type) {
	case *pb.Part_Data:
		value = content.Data
	case *pb.Part_ToolOutput:
		return DecodeToolOutput(content.ToolOutput, into)
	case *pb.Part_InferOutput:
		value = content.InferOutput.GetValue()
	}
	if value == nil {
		return errors.New("plgrpc: the part has no value")
	}
	return DecodePayload(value, into)
}

// DecodeToolOutput reads the result of a tool, for instance that of [Client.CallTool], as [DecodePayload] does. It fails for a tool that
// failed, with a [ToolError], and for one that has no result.
func DecodeToolOutput(output *pb.ToolOutput, into any) error {
	if failure := output.GetFailure(); failure != nil {
		return toolError(output.GetCallId(), failure)
	}
	if output.GetResult() == nil {
		return errors.New("plgrpc: the tool has no result")
	}
	return DecodePayload(output.GetResult(), into)
}

// ToolError is the failure of a tool.
type ToolError struct {
	CallID  string      // of the call that failed
	Code    string      // machine-readable, for instance TOOL_FAILED; may be empty
	Message string      // one sentence
	Failure *pb.Failure // all of it
}

// Error returns code and sentence.
func (e *ToolError) Error() string {
	if e.Code == "" {
		return "plgrpc: the tool failed: " + e.Message
	}
	return "plgrpc: the tool failed: " + e.Code + ": " + e.Message
}

func toolError(callID string, failure *pb.Failure) *ToolError {
	message := cmp.Or(failure.GetMessage(), PayloadText(failure.GetDetails()))
	return &ToolError{CallID: callID, Code: failure.GetReason(), Message: message, Failure: failure}
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

// FilesOf returns the files among the parts. GetContent().GetData() has the bytes of a file; where it is nil, GetContent().GetRef() says
// where they are.
func FilesOf(parts []*pb.Part) []*pb.FileContent { return each(parts, (*pb.Part).GetFile) }

// ToolCallsOf returns the tool calls among the parts.
func ToolCallsOf(parts []*pb.Part) []*pb.ToolCall { return each(parts, (*pb.Part).GetToolCall) }

// ToolOutputsOf returns the outputs of tools among the parts, each with a result or a failure. [DecodeToolOutput] reads one.
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
	return message.GetRole() == pb.MessageRole_MESSAGE_ROLE_AGENT
}

// answer returns the part that is the answer of a task: of the message or artifact that the agent names, the last one that is output.
func answer(task *pb.Task) *pb.Part {
	id := task.GetOutputId()
	if id == "" {
		return nil
	}
	var parts []*pb.Part
	for _, artifact := range task.GetArtifacts() {
		if artifact.GetId() == id {
			parts = artifact.GetParts()
		}
	}
	for _, message := range task.GetMessages() {
		if message.GetId() == id {
			parts = message.GetParts()
		}
	}
	for _, part := range slices.Backward(parts) {
		if _, ok := output(part); ok {
			return part
		}
	}
	return nil
}

func output(part *pb.Part) (text string, ok bool) {
	switch content := part.GetContent().(type) {
	case *pb.Part_Text:
		return content.Text, true
	case *pb.Part_Data:
		return PayloadText(content.Data), true
	case *pb.Part_ToolOutput:
		return PayloadText(content.ToolOutput.GetResult()), content.ToolOutput.GetFailure() == nil
	case *pb.Part_InferOutput:
		return content.InferOutput.GetText() + PayloadText(content.InferOutput.GetValue()), true // one of the two is set
	default:
		return "", false
	}
}
