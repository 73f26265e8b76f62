package agent

import (
	"cmp"
	"errors"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var (
	errStopped  = errors.New("the agent stopped before it was done")
	errPanicked = errors.New("the agent made a mistake; its log says more")
)

// Run is one turn of a task. What it publishes is in the log, and shown to readers, when the method returns. Once the task was canceled
// nothing is published any more; the handler's context says so. It is safe for concurrent use.
type Run struct {
	id       string
	log      *taskLog
	task     *pb.Task
	messages int
}

// Task is the whole task as this turn began. It must not be changed.
func (r *Run) Task() *pb.Task { return r.task }

// Messages are those that this turn was begun with. They must not be changed.
func (r *Run) Messages() []*pb.Message { return r.task.GetMessages()[r.messages:] }

// Text is what the last of them says.
func (r *Run) Text() string {
	messages := r.Messages()
	if len(messages) == 0 {
		return ""
	}
	return plgrpc.TextOf(messages[len(messages)-1].GetParts())
}

// Say adds a message of the agent.
func (r *Run) Say(text string) {
	r.Message(&pb.Message{Parts: []*pb.Part{{Content: &pb.Part_Text{Text: text}}}})
}

// Message adds a message of the agent. Id, role and time are set where they are not.
func (r *Run) Message(message *pb.Message) {
	r.log.publish(r.id, messagesAdded("", []*pb.Message{spoken(message)}))
}

func spoken(message *pb.Message) *pb.Message {
	message = proto.CloneOf(message)
	message.Id = cmp.Or(message.Id, newID())
	message.Role = cmp.Or(message.Role, pb.MessageRole_MESSAGE_ROLE_AGENT)
	message.CreateTime = cmp.Or(message.CreateTime, timestamppb.Now())
	return message
}

// Artifact adds a result, or replaces the one with the same id. Id, kind ("result") and time are set where they are not.
func (r *Run) Artifact(artifact *pb.Artifact) {
	r.log.publish(r.id, made(artifact))
}

func made(artifact *pb.Artifact) *pb.RunEvent {
	artifact = proto.CloneOf(artifact)
	artifact.Id = cmp.Or(artifact.Id, newID())
	artifact.Kind = cmp.Or(artifact.Kind, "result")
	artifact.CreateTime = cmp.Or(artifact.CreateTime, timestamppb.Now())
	update := &pb.TaskArtifactUpdated{Artifact: artifact}
	return &pb.RunEvent{EventType: "task.artifact", ActionId: artifact.GetActionId(), Payload: &pb.RunEvent_TaskArtifact{TaskArtifact: update}}
}

// Progress says how far the work is, in percent, in one sentence.
func (r *Run) Progress(percent float64, message string) {
	progress := &pb.TaskProgress{Progress: &percent, Message: message}
	r.Emit(&pb.RunEvent{EventType: "task.progress", Payload: &pb.RunEvent_TaskProgress{TaskProgress: progress}})
}

// Emit adds an event of any other kind, for instance a CustomEvent under a type of the application's own. Whose event it is and its
// place in the log are set here.
func (r *Run) Emit(event *pb.RunEvent) {
	r.log.publish(r.id, proto.CloneOf(event))
}

// ending is the end of a turn that is neither success nor failure.
type ending struct {
	state pb.TaskState
	text  string
}

func (e *ending) Error() string { return e.text }

// Reject returns what a handler returns to decline the task, with one sentence that says why.
func Reject(reason string) error { return &ending{pb.TaskState_TASK_STATE_REJECTED, reason} }

// RequireInput returns what a handler returns to ask the caller something. The handler is called again with the answer.
func RequireInput(question string) error {
	return &ending{pb.TaskState_TASK_STATE_INPUT_REQUIRED, question}
}

// outcome returns the state in which a handler's result ends the run, the failure if it has one, and the events before the last one.
func outcome(err error) (pb.TaskState, *pb.Failure, []*pb.RunEvent) {
	var end *ending
	switch {
	case err == nil:
		return pb.TaskState_TASK_STATE_COMPLETED, nil, nil
	case !errors.As(err, &end):
		return pb.TaskState_TASK_STATE_FAILED, failureOf(err), nil
	case end.state == pb.TaskState_TASK_STATE_INPUT_REQUIRED:
		question := spoken(&pb.Message{Parts: []*pb.Part{{Content: &pb.Part_Text{Text: end.text}}}})
		return end.state, nil, []*pb.RunEvent{messagesAdded("", []*pb.Message{question})}
	default:
		return end.state, &pb.Failure{Message: end.text}, nil
	}
}

// failureOf returns the Failure that the log records for an error that ended a run. An error of another agent is the cause.
func failureOf(err error) *pb.Failure {
	failure := &pb.Failure{Reason: "AGENT_FAILED", Message: err.Error(), Category: pb.FailureCategory_FAILURE_CATEGORY_TOOL}
	var answer *plgrpc.Error
	switch {
	case errors.Is(err, errStopped):
		failure.Reason, failure.Category, failure.Retryable = "RUN_LOST", pb.FailureCategory_FAILURE_CATEGORY_UNAVAILABLE, true
	case errors.Is(err, errPanicked):
		failure.Reason, failure.Category = string(plgrpc.ErrInternal), pb.FailureCategory_FAILURE_CATEGORY_INTERNAL
	case errors.As(err, &answer):
		failure.Category = pb.FailureCategory_FAILURE_CATEGORY_PEER
		failure.Cause = &pb.Failure{Reason: string(answer.Reason), Message: answer.Message}
	}
	return failure
}
