package plgrpc

import (
	"testing"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

func jsonOf(text string) *pb.Payload { return &pb.Payload{Value: &pb.Payload_Json{Json: text}} }

func called(calls ...*pb.ToolCall) *pb.RunEvent {
	return &pb.RunEvent{Payload: &pb.RunEvent_LlmCallCompleted{LlmCallCompleted: &pb.LlmCallCompleted{ToolCalls: calls}}}
}

func requested(callID string, payload *pb.Payload) *pb.RunEvent {
	action := &pb.RunAction{ActionId: "a", Name: "echo", CallId: callID, Payload: payload}
	return &pb.RunEvent{ActionId: "a", Payload: &pb.RunEvent_ActionRequested{ActionRequested: &pb.ActionRequested{Action: action}}}
}

func payloadOf(event *pb.RunEvent) string {
	return event.GetActionRequested().GetAction().GetPayload().GetJson()
}

func TestArgumentsThatAnEventLeavesOutArePutBack(t *testing.T) {
	message := &pb.Message{Parts: []*pb.Part{{Content: &pb.Part_ToolCall{ToolCall: &pb.ToolCall{CallId: "c"}}}}}
	submitted := &pb.RunEvent{Payload: &pb.RunEvent_TaskSubmitted{
		TaskSubmitted: &pb.TaskSubmitted{Task: &pb.Task{Messages: []*pb.Message{message}}},
	}}
	added := &pb.RunEvent{Payload: &pb.RunEvent_TaskMessages{
		TaskMessages: &pb.TaskMessagesAdded{Messages: []*pb.Message{message}},
	}}
	model := called(&pb.ToolCall{CallId: "c", Arguments: jsonOf(`{"n":1}`)})
	for want, before := range map[string][]*pb.RunEvent{
		`{"arguments":{}}`:      {submitted},
		`{"arguments":{"n":1}}`: {submitted, added, model}, // the last one counts
	} {
		var references References
		for _, event := range before {
			references.Resolve(event)
		}
		event := requested("c", nil)
		resolved := references.Resolve(event)
		if payloadOf(resolved) != want || IsAbridged(resolved) || !IsAbridged(event) {
			t.Errorf("%v of %v, want %s", resolved, event, want)
		}
		if action := references.Action("a"); action.GetPayload().GetJson() != want {
			t.Errorf("the action is %v", action)
		}
		if again := references.Resolve(requested("c", nil)); !IsAbridged(again) {
			t.Errorf("a call was named twice: %v", again)
		}
	}
}

func TestWhatWasBeforeTheFirstEventStaysAsItIs(t *testing.T) {
	var references References
	if event := references.Resolve(requested("c", nil)); !IsAbridged(event) || references.Action("a") == nil {
		t.Error(event)
	}
	if action := references.Action("b"); action != nil {
		t.Error(action)
	}
	bytes := &pb.Payload{Value: &pb.Payload_Data{Data: []byte("x")}}
	references.Resolve(called(&pb.ToolCall{CallId: "c", Arguments: jsonOf("{}")}, &pb.ToolCall{CallId: "c", Arguments: bytes}))
	if event := references.Resolve(requested("c", nil)); !IsAbridged(event) {
		t.Error(event)
	}
	for _, event := range []*pb.RunEvent{requested("c", jsonOf("{}")), requested("", nil)} {
		if references.Resolve(event) != event || IsAbridged(event) {
			t.Error(event)
		}
	}
}

func TestActionsAndCallsAreForgottenWhenTheyAreOver(t *testing.T) {
	verdict := &pb.PolicyDecision{Reason: "so"}
	judged := &pb.RunEvent{ActionId: "a", Payload: &pb.RunEvent_ActionPolicy{ActionPolicy: &pb.ActionPolicyEvaluated{Decision: verdict}}}
	ended := &pb.RunEvent{ActionId: "a", Payload: &pb.RunEvent_ActionEnded{ActionEnded: &pb.ActionEnded{}}}
	asks := &pb.RunEvent{Payload: &pb.RunEvent_TaskStatus{
		TaskStatus: &pb.TaskStatusChanged{NewState: pb.TaskState_TASK_STATE_INPUT_REQUIRED},
	}}
	for _, last := range []*pb.RunEvent{ended, asks} {
		var references References
		references.Resolve(judged)
		references.Resolve(requested("", nil))
		references.Resolve(judged)
		references.Resolve(called(&pb.ToolCall{CallId: "c"}))
		if references.Verdict("a") != verdict {
			t.Error("the verdict is not known")
		}
		references.Resolve(last)
		if references.Action("a") != nil || references.Verdict("a") != nil {
			t.Error("the action is still known")
		}
		if event := references.Resolve(requested("c", nil)); IsAbridged(event) != (last == asks) {
			t.Error(event)
		}
	}
}
