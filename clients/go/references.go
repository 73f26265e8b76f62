package plgrpc

import (
	"cmp"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/protobuf/proto"
)

// References resolves what the events of one log refer to. An event leaves out a value that an earlier event of the log has: the
// arguments of an action that a tool call requested, and the action and the verdict of an approval.
//
// [Client.Stream] and [Client.Subscribe] resolve the arguments themselves. Use a References of your own to look up actions and verdicts
// while you read a stream, or to read events from elsewhere. Pass each event of the log to [References.Resolve], in order.
//
// A log that is read from its beginning, or from the beginning of a turn, is resolved completely. If it is read from the middle, what
// refers to an event before that stays as it is: [IsAbridged] reports it, and [References.Action] does not know the action.
//
// The zero value is ready to use. It is not safe for concurrent use.
type References struct {
	calls   map[string]*pb.Payload // arguments of the tool calls that no action has named yet, by call id
	actions map[string]*knownAction
}

type knownAction struct {
	action  *pb.RunAction
	verdict *pb.PolicyDecision
}

// Resolve notes the next event of the log, and returns it with its arguments put back. An event that leaves nothing out is returned as
// it is; any other is copied.
func (r *References) Resolve(event *pb.RunEvent) *pb.RunEvent {
	switch payload := event.GetPayload().(type) {
	case *pb.RunEvent_TaskSubmitted:
		r.noteMessages(payload.TaskSubmitted.GetTask().GetMessages())
	case *pb.RunEvent_TaskMessages:
		r.noteMessages(payload.TaskMessages.GetMessages())
	case *pb.RunEvent_LlmCallCompleted:
		r.noteCalls(payload.LlmCallCompleted.GetToolCalls())
	case *pb.RunEvent_TaskStatus:
		if state := payload.TaskStatus.GetNewState(); terminal(state) || waits(state) {
			r.calls, r.actions = nil, nil
		}
	case *pb.RunEvent_ActionRequested:
		event = r.requested(event)
	case *pb.RunEvent_ActionPolicy:
		if known := r.actions[event.GetActionId()]; known != nil {
			known.verdict = payload.ActionPolicy.GetDecision()
		}
	case *pb.RunEvent_ActionEnded:
		delete(r.actions, event.GetActionId())
	}
	return event
}

// Action returns the action of that id, as it was requested: RunEvent.ActionId names it. It returns nil for an action that has ended,
// or that was requested before the first event that was read.
func (r *References) Action(actionID string) *pb.RunAction {
	if known := r.actions[actionID]; known != nil {
		return known.action
	}
	return nil
}

// Verdict returns the last decision of the policy about the action of that id. It returns nil where there is none, or where
// [References.Action] does not know the action.
func (r *References) Verdict(actionID string) *pb.PolicyDecision {
	if known := r.actions[actionID]; known != nil {
		return known.verdict
	}
	return nil
}

// IsAbridged reports whether the event requests an action whose arguments are in an earlier event of the log.
func IsAbridged(event *pb.RunEvent) bool {
	action := event.GetActionRequested().GetAction()
	return action.GetCallId() != "" && action.GetPayload() == nil
}

func (r *References) requested(event *pb.RunEvent) *pb.RunEvent {
	callID := event.GetActionRequested().GetAction().GetCallId()
	arguments, isKnown := r.calls[callID]
	delete(r.calls, callID)
	if isKnown && IsAbridged(event) {
		event = proto.CloneOf(event)
		text := `{"arguments":` + cmp.Or(arguments.GetJson(), "{}") + `}`
		event.GetActionRequested().Action.Payload = &pb.Payload{Value: &pb.Payload_Json{Json: text}}
	}
	if r.actions == nil {
		r.actions = map[string]*knownAction{}
	}
	r.actions[event.GetActionId()] = &knownAction{action: event.GetActionRequested().GetAction()}
	return event
}

func (r *References) noteMessages(messages []*pb.Message) {
	for _, message := range messages {
		r.noteCalls(ToolCallsOf(message.GetParts()))
	}
}

func (r *References) noteCalls(calls []*pb.ToolCall) {
	for _, call := range calls {
		if call.GetCallId() == "" {
			continue
		}
		if r.calls == nil {
			r.calls = map[string]*pb.Payload{}
		}
		delete(r.calls, call.GetCallId())
		if arguments := call.GetArguments(); isJSON(arguments) {
			r.calls[call.GetCallId()] = arguments
		}
	}
}

// isJSON reports whether a payload is plain JSON text, or unset. An action has no other arguments.
func isJSON(payload *pb.Payload) bool {
	switch payload.GetValue().(type) {
	case nil:
		return payload == nil
	case *pb.Payload_Json:
		return payload.GetEncoding() == ""
	default:
		return false
	}
}
