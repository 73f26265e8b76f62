package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Tool is a function that callers run by its name.
type Tool struct {
	about  *pb.Tool
	schema *argumentSchema
	call   func(context.Context, string) (any, error)
}

// NewTool makes a tool of a function. The schema is the JSON Schema (Draft 2020-12) of the arguments: calls that do not satisfy it are
// refused before the function is called, and callers read it to write calls. Arguments, a struct, is then read from the caller's JSON, and
// fields that it does not have are refused; the result becomes JSON. An empty schema states nothing.
//
// A [Rejection] as error says that nothing was done, and why; any other error that it went wrong. NewTool panics for a schema that is not
// valid, or refers to another document.
func NewTool[Arguments, Result any](
	name, description, schema string, call func(context.Context, Arguments) (Result, error),
) Tool {
	about := &pb.Tool{Name: name, Description: description, InputSchemaJson: schema}
	return Tool{about, mustCompile(name, schema), func(ctx context.Context, text string) (any, error) {
		var arguments Arguments
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&arguments); err != nil {
			return nil, invalidArguments(name, err.Error())
		}
		return call(ctx, arguments)
	}}
}

// ReadOnly is the tool with the statement that a call changes nothing. Callers read it; it is not checked.
func (t Tool) ReadOnly() Tool {
	return t.stating(func(about *pb.Tool) { about.ReadOnly, about.Idempotent = true, true })
}

// Idempotent is the tool with the statement that the same call twice has the same effect as once. As [Tool.ReadOnly].
func (t Tool) Idempotent() Tool {
	return t.stating(func(about *pb.Tool) { about.Idempotent = true })
}

// Destructive is the tool with the statement that a call may delete or overwrite something. As [Tool.ReadOnly].
func (t Tool) Destructive() Tool {
	return t.stating(func(about *pb.Tool) { about.Destructive = true })
}

// Titled is the tool with a name for people.
func (t Tool) Titled(title string) Tool {
	return t.stating(func(about *pb.Tool) { about.Title = title })
}

func (t Tool) stating(what func(*pb.Tool)) Tool {
	t.about = proto.CloneOf(t.about)
	what(t.about)
	return t
}

func invalidArguments(tool, why string) *Rejection {
	return &Rejection{
		"invalid_arguments", "Tool '" + tool + "' arguments were invalid: " + why, "Correct the arguments using the tool's input schema.",
	}
}

// Rejection is the reason why a tool did nothing. The caller gets it, which may be a model that tries again.
type Rejection struct {
	Code       string // machine-readable, for instance unknown_destination
	Message    string // one sentence
	Suggestion string // what to do instead; may be empty
}

// Error returns the sentence and the suggestion.
func (r *Rejection) Error() string {
	if r.Suggestion == "" {
		return r.Message
	}
	return r.Message + ". " + r.Suggestion
}

// toolbox is the tools of an agent.
type toolbox struct {
	byName map[string]Tool
	names  []string // sorted
}

func newToolbox(tools []Tool) (*toolbox, error) {
	box := &toolbox{byName: map[string]Tool{}}
	for _, tool := range tools {
		if _, twice := box.byName[tool.about.GetName()]; twice {
			return nil, fmt.Errorf("agent: there are two tools called %s", tool.about.GetName())
		}
		box.byName[tool.about.GetName()] = tool
		box.names = append(box.names, tool.about.GetName())
	}
	slices.Sort(box.names)
	return box, nil
}

func (b *toolbox) skills() []*pb.AgentSkill {
	var skills []*pb.AgentSkill
	for _, name := range b.names {
		about := b.byName[name].about
		skills = append(skills, &pb.AgentSkill{
			Id: name, Description: about.GetDescription(), InputSchemaJson: about.GetInputSchemaJson(),
		})
	}
	return skills
}

// find returns the tool that a call names, if its arguments are right; a [Rejection] otherwise.
func (b *toolbox) find(call *pb.ToolCall) (Tool, error) {
	tool, known := b.byName[call.GetToolName()]
	if !known {
		return Tool{}, &Rejection{"unknown_tool", "there is no tool " + call.GetToolName(), "Use " + strings.Join(b.names, " or ") + "."}
	}
	given, err := arguments(call)
	if err != nil {
		return Tool{}, err
	}
	if problems := tool.schema.problems(given); len(problems) > 0 {
		return Tool{}, invalidArguments(call.GetToolName(), strings.Join(problems, "; "))
	}
	return tool, nil
}

// unreadable is the code of a [Rejection] of arguments that are not JSON.
const unreadable = "INVALID_ARGUMENT"

// arguments is the JSON object of a call; a [Rejection] where its arguments have another form.
func arguments(call *pb.ToolCall) (string, error) {
	given := call.GetArguments()
	if given == nil {
		return "{}", nil
	}
	if text, ok := given.GetValue().(*pb.Payload_Json); ok && given.GetEncoding() == "" {
		return text.Json, nil
	}
	return "", &Rejection{unreadable, "tool_call.arguments: cannot be read here, they are not JSON", ""}
}

// handle is a [Handler] that runs the tool calls of a message, one after the other. The first that does not succeed fails the task. A
// message without a tool call is rejected.
func (b *toolbox) handle(ctx context.Context, run *Run) error {
	count := 0
	for _, message := range run.Messages() {
		for _, call := range plgrpc.ToolCallsOf(message.GetParts()) {
			count++
			if err := b.run(ctx, run, call); err != nil {
				return err
			}
		}
	}
	if count == 0 {
		return Reject("this agent runs tools and does nothing else: " + strings.Join(b.names, ", "))
	}
	return nil
}

// run runs one call, with an event at its beginning and one at its end, and publishes its outcome.
func (b *toolbox) run(ctx context.Context, run *Run, call *pb.ToolCall) error {
	const kind = "tool.call"
	actionID, summary := newID(), kind+" '"+call.GetToolName()+"'"
	run.Emit(&pb.RunEvent{
		EventType: "action.started", ActionId: actionID, Summary: summary,
		Payload: &pb.RunEvent_ActionStarted{ActionStarted: &pb.ActionStarted{
			Kind: kind, Name: call.GetToolName(), EditedArguments: call.GetArguments(),
		}},
	})
	began := time.Now()
	var result string
	tool, err := b.find(call)
	if err == nil {
		given, _ := arguments(call) // checked by find
		result, err = called(ctx, tool, given)
	}
	ended := &pb.RunEvent{EventType: "action.completed", ActionId: actionID, Summary: summary}
	outcome := pb.ActionOutcome_ACTION_OUTCOME_COMPLETED
	output := &pb.ToolOutput{CallId: call.GetCallId()}
	done := &pb.ActionEnded{Kind: kind, Name: call.GetToolName(), Duration: durationpb.New(time.Since(began).Truncate(time.Microsecond))}
	if err != nil {
		ended.Severity, ended.Summary = pb.Severity_SEVERITY_ERROR, err.Error()
		var why *pb.Failure
		outcome, ended.EventType, why = refusal(call.GetToolName(), err)
		output.Outcome, done.Failure = &pb.ToolOutput_Failure{Failure: why}, why
	} else {
		value := &pb.Payload{Value: &pb.Payload_Json{Json: result}}
		output.Outcome, done.Result = &pb.ToolOutput_Result{Result: value}, value
	}
	done.Outcome = outcome
	ended.Payload = &pb.RunEvent_ActionEnded{ActionEnded: done}
	run.Emit(ended)
	run.Artifact(&pb.Artifact{ActionId: actionID, Parts: []*pb.Part{{Content: &pb.Part_ToolOutput{ToolOutput: output}}}})
	return err
}

// called is the result of a tool as JSON text.
func called(ctx context.Context, tool Tool, arguments string) (string, error) {
	value, err := tool.call(ctx, arguments)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// refusal is how a tool ends without success: the outcome, the type of the event that says so, and why.
func refusal(name string, err error) (outcome pb.ActionOutcome, event string, why *pb.Failure) {
	details := map[string]any{"status": "failed"}
	outcome, event = pb.ActionOutcome_ACTION_OUTCOME_FAILED, "action.failed"
	why = &pb.Failure{
		Reason: "TOOL_FAILED", Message: err.Error(), Category: pb.FailureCategory_FAILURE_CATEGORY_TOOL, Origin: name,
	}
	var rejection *Rejection
	if errors.As(err, &rejection) {
		outcome, event = pb.ActionOutcome_ACTION_OUTCOME_REJECTED, "action.rejected"
		details = map[string]any{"status": "rejected", "changes_made": false, "details": struct{}{}}
		if rejection.Suggestion != "" {
			details["suggestion"] = rejection.Suggestion
		}
		why.Reason, why.Message, why.Category = rejection.Code, rejection.Message, pb.FailureCategory_FAILURE_CATEGORY_INVALID
	}
	why.Details, _ = plgrpc.JSONPayload(details) // strings have a JSON form
	return outcome, event, why
}
