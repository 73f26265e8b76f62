package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/protolink/v1"
)

// Tool is a function that callers run by its name.
type Tool struct {
	skill *pb.AgentSkill
	call  func(context.Context, string) (any, error)
}

// NewTool makes a tool of a function. Arguments, a struct, is read from the caller's JSON, and fields that it does not have are
// refused; the result becomes JSON. The schema is the JSON Schema of the arguments, for models and people that write calls.
//
// A [Rejection] as error says that nothing was done, and why; any other error that it went wrong.
func NewTool[Arguments, Result any](
	name, description, schema string, call func(context.Context, Arguments) (Result, error),
) Tool {
	skill := &pb.AgentSkill{Id: name, Description: description, InputSchemaJson: schema}
	return Tool{skill, func(ctx context.Context, text string) (any, error) {
		var arguments Arguments
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&arguments); err != nil {
			return nil, &Rejection{Code: "invalid_arguments", Message: "the arguments are not those of " + name + ": " + err.Error()}
		}
		return call(ctx, arguments)
	}}
}

// Rejection is why a tool did nothing. It is told to the caller, who may be a model that tries again.
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

// Skills are the tools as a card names them.
func Skills(tools ...Tool) []*pb.AgentSkill {
	var skills []*pb.AgentSkill
	for _, tool := range tools {
		skills = append(skills, tool.skill)
	}
	return skills
}

// Tools returns a handler that runs the tool calls of a message, one after the other. The first that does not succeed fails the task. A
// message without a tool call is rejected.
func Tools(tools ...Tool) Handler {
	byName, names := map[string]Tool{}, []string{}
	for _, tool := range tools {
		byName[tool.skill.Id] = tool
		names = append(names, tool.skill.Id)
	}
	return func(ctx context.Context, run *Run) error {
		count := 0
		for _, message := range run.Messages() {
			for _, part := range message.GetParts() {
				if call := part.GetToolCall(); call != nil {
					count++
					if err := runTool(ctx, run, byName[call.GetToolName()], call, names); err != nil {
						return err
					}
				}
			}
		}
		if count == 0 {
			return Reject("this agent runs tools and does nothing else: " + strings.Join(names, ", "))
		}
		return nil
	}
}

// runTool runs one call, with an event at its beginning and one at its end, and publishes its outcome.
func runTool(ctx context.Context, run *Run, tool Tool, call *pb.ToolCall, names []string) error {
	const kind = "tool.call"
	actionID, arguments := newID(), call.GetArgsJson()
	if arguments == "" {
		arguments = "{}"
	}
	summary := kind + " '" + call.GetToolName() + "'"
	run.Emit(&pb.RunEvent{
		Type: "action.started", ActionId: actionID, Summary: summary,
		Payload: &pb.RunEvent_ActionStarted{ActionStarted: &pb.ActionStarted{Kind: kind, Name: call.GetToolName(), ArgumentsJson: arguments}},
	})
	began := time.Now()
	var result string
	var err error = &Rejection{"unknown_tool", "there is no tool " + call.GetToolName(), "Use " + strings.Join(names, " or ") + "."}
	if tool.call != nil {
		result, err = called(ctx, tool, arguments)
	}
	ended := &pb.RunEvent{Type: "action.completed", ActionId: actionID, Summary: summary}
	output := &pb.ToolOutput{CallId: call.GetCallId(), ResultJson: result}
	if err != nil {
		ended.Severity, ended.Summary = pb.Severity_SEVERITY_ERROR, err.Error()
		ended.Type, output.ErrorJson = refusal(err)
	}
	ended.Payload = &pb.RunEvent_ActionEnded{ActionEnded: &pb.ActionEnded{
		Kind: kind, Name: call.GetToolName(), ResultJson: result, ErrorJson: output.ErrorJson, DurationMicros: time.Since(began).Microseconds(),
	}}
	run.Emit(ended)
	run.Artifact(&pb.Artifact{ActionId: &actionID, Parts: []*pb.Part{{Content: &pb.Part_ToolOutput{ToolOutput: output}}}})
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

// refusal is the type of the event that ends a tool without success, and the error as peers read it.
func refusal(err error) (event, errorJSON string) {
	told := map[string]any{"status": "failed", "code": "TOOL_FAILED", "message": err.Error()}
	event = "action.failed"
	var rejection *Rejection
	if errors.As(err, &rejection) {
		event = "action.rejected"
		told = map[string]any{
			"status": "rejected", "changes_made": false, "code": rejection.Code, "message": rejection.Message, "details": struct{}{},
		}
		if rejection.Suggestion != "" {
			told["suggestion"] = rejection.Suggestion
		}
	}
	text, _ := json.Marshal(told) // strings have a JSON form
	return event, string(text)
}
