package agent

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// logFormat is the format of the events that this package writes.
const logFormat = 1

// thisWorker is the process that works on the runs, as their logs name it.
var thisWorker = sync.OnceValue(func() *pb.Worker {
	id := newID()
	worker := &pb.Worker{Name: id[len(id)-12:]} // the end of a UUIDv7 is random
	worker.Host, _ = os.Hostname()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range append(info.Deps, &info.Main) {
			if module.Path == "github.com/protolink-grpc/protolink-grpc/clients/go" {
				worker.Version = module.Version
			}
		}
	}
	return worker
})

// taskLog is a task: its events, in order, and what they add up to. Events and what they hold are never changed once they are in.
type taskLog struct {
	agent    string
	requests []string // that opened its turns; the service's lock guards them

	mu        sync.Mutex
	events    []*pb.RunEvent
	task      *pb.Task       // the fold of events
	artifacts map[string]int // where the task's artifacts are, by id
	turn      turn           // the latest one
	attempt   int32          // number of the latest run
	cancel    context.CancelFunc
	changed   chan struct{} // closed at the next append
}

// turn is where a turn begins: positions in the log, and in the lists of the task.
type turn struct {
	runID                        string
	after                        int64
	messages, artifacts, changes int
}

func newLog(agent, taskID, sessionID string) *taskLog {
	task := &pb.Task{Id: taskID, SessionId: sessionID}
	return &taskLog{agent: agent, task: task, artifacts: map[string]int{}, changed: make(chan struct{})}
}

// begin opens a turn with what the caller sent. It fails where the task has ended, is at work, or ends elsewhere than the caller expects.
func (l *taskLog) begin(input *pb.TaskInput, id string, cancel context.CancelFunc) (turn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	given, cause := filledIn(input), pb.RunCause_RUN_CAUSE_CONTINUED
	var opening *pb.RunEvent
	last, expected := int64(len(l.events)), input.GetExpectedSequence()
	switch state := l.task.State; {
	case expected != 0 && expected != last:
		sentence := fmt.Sprintf("the last sequence of task %s is %d, not %d", l.task.Id, last, expected)
		return turn{}, failure(codes.Aborted, plgrpc.ErrSequenceConflict, sentence, "task_id", l.task.Id,
			"expected_sequence", strconv.FormatInt(expected, 10), "last_sequence", strconv.FormatInt(last, 10))
	case len(l.events) == 0:
		cause = pb.RunCause_RUN_CAUSE_SUBMITTED
		task := &pb.Task{
			Id: l.task.Id, State: pb.TaskState_TASK_STATE_SUBMITTED, Messages: given.Messages, Artifacts: given.Artifacts,
			MetadataJson: given.MetadataJson, FlowStateJson: given.FlowStateJson, CreateTime: given.CreateTime,
			SessionId: l.task.SessionId, Context: contextOf(given),
		}
		submitted := &pb.TaskSubmitted{Task: task, Principal: anonymous, RequestId: id}
		opening = &pb.RunEvent{EventType: "task.submitted", Payload: &pb.RunEvent_TaskSubmitted{TaskSubmitted: submitted}}
	case ended(state):
		return turn{}, failure(codes.FailedPrecondition, plgrpc.ErrTaskFinished, "task "+l.task.Id+" has ended", "task_id", l.task.Id)
	case !settled(state):
		return turn{}, failure(codes.FailedPrecondition, plgrpc.ErrTaskAlreadyRunning, "task "+l.task.Id+" is at work", "task_id", l.task.Id)
	default:
		opening = messagesAdded(id, given.GetMessages())
	}
	l.turn = turn{newID(), last, len(l.task.Messages), len(l.task.Artifacts), len(l.task.StateHistory)}
	l.task.RunId, l.cancel = l.turn.runID, cancel
	l.attempt++
	l.append(opening)
	working := statusChanged(&pb.TaskStatusChanged{PreviousState: l.task.State, NewState: pb.TaskState_TASK_STATE_WORKING})
	working.GetTaskStatus().Run = &pb.RunStart{Attempt: l.attempt, Cause: cause, Worker: thisWorker(), LogFormat: logFormat}
	l.append(working)
	return l.turn, nil
}

// publish adds what a run says, as long as that is the run under way, and reports whether it is.
func (l *taskLog) publish(runID string, events ...*pb.RunEvent) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.task.RunId != runID || l.task.State != pb.TaskState_TASK_STATE_WORKING {
		return false
	}
	l.append(events...)
	return true
}

// end adds the last events of a run, of which the status is made here.
func (l *taskLog) end(runID string, state pb.TaskState, why *pb.Failure, before ...*pb.RunEvent) {
	change := &pb.TaskStatusChanged{PreviousState: pb.TaskState_TASK_STATE_WORKING, NewState: state, Failure: why}
	l.publish(runID, append(before, statusChanged(change))...)
}

// cancelTask records the wish and ends the task, then interrupts the run; what that says from now on is dropped. Canceling twice is
// the same as once.
func (l *taskLog) cancelTask(reason, metadataJSON string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state := l.task.State; {
	case state == pb.TaskState_TASK_STATE_CANCELED:
		return nil
	case ended(state):
		name := strings.ToLower(strings.TrimPrefix(state.String(), "TASK_STATE_"))
		return failure(codes.FailedPrecondition, plgrpc.ErrTaskNotCancelable, "task "+l.task.Id+" is "+name+" already",
			"task_id", l.task.Id, "state", name)
	}
	asked := &pb.CancelRequested{Reason: reason, RequestedBy: anonymous, MetadataJson: metadataJSON}
	l.append(&pb.RunEvent{EventType: "task.cancel_requested", Payload: &pb.RunEvent_CancelRequested{CancelRequested: asked}})
	change := &pb.TaskStatusChanged{PreviousState: l.task.State, NewState: pb.TaskState_TASK_STATE_CANCELED, CancelReason: reason}
	l.append(statusChanged(change))
	l.cancel()
	return nil
}

// append adds events and wakes the readers. What an event says is the caller's affair; whose it is and when it was is set here.
func (l *taskLog) append(events ...*pb.RunEvent) {
	now := timestamppb.Now()
	for _, event := range events {
		event.TaskId, event.SessionId, event.RunId, event.AgentName = l.task.Id, l.task.SessionId, l.task.RunId, l.agent
		event.Sequence, event.CreateTime = int64(len(l.events))+1, now
		event.Last = ended(event.GetTaskStatus().GetNewState())
		l.events = append(l.events, event)
		l.fold(event)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func statusChanged(change *pb.TaskStatusChanged) *pb.RunEvent {
	return &pb.RunEvent{EventType: "task.status", Payload: &pb.RunEvent_TaskStatus{TaskStatus: change}}
}

func messagesAdded(request string, messages []*pb.Message) *pb.RunEvent {
	added := &pb.TaskMessagesAdded{Messages: messages, RequestId: request}
	return &pb.RunEvent{EventType: "task.message", Payload: &pb.RunEvent_TaskMessages{TaskMessages: added}}
}

// fold takes an event into the task.
func (l *taskLog) fold(event *pb.RunEvent) {
	t := l.task
	t.Sequence, t.UpdateTime = event.Sequence, event.CreateTime
	switch payload := event.Payload.(type) {
	case *pb.RunEvent_TaskSubmitted:
		first := payload.TaskSubmitted.Task
		t.State, t.CreateTime = first.State, first.CreateTime
		t.Messages, t.Artifacts = slices.Clip(first.Messages), slices.Clip(first.Artifacts)
		for at, artifact := range t.Artifacts {
			l.artifacts[artifact.Id] = at
		}
		t.MetadataJson, t.FlowStateJson, t.Context = first.MetadataJson, first.FlowStateJson, first.Context
	case *pb.RunEvent_TaskMessages:
		t.Messages = append(t.Messages, payload.TaskMessages.Messages...)
	case *pb.RunEvent_TaskArtifact:
		l.foldArtifact(payload.TaskArtifact)
	case *pb.RunEvent_TaskStatus:
		change := payload.TaskStatus
		t.State = change.NewState
		t.StateHistory = append(t.StateHistory, &pb.StateChange{
			PreviousState: change.PreviousState, NewState: change.NewState, ChangeTime: event.CreateTime,
		})
		t.CancelReason, t.Failure = change.CancelReason, change.Failure
	}
	t.MessageCount, t.ArtifactCount = int32(len(t.Messages)), int32(len(t.Artifacts))
}

func (l *taskLog) foldArtifact(update *pb.TaskArtifactUpdated) {
	t, artifact := l.task, update.Artifact
	at, known := l.artifacts[artifact.Id]
	if !known {
		l.artifacts[artifact.Id] = len(t.Artifacts)
		t.Artifacts = append(t.Artifacts, artifact)
		return
	}
	if update.Append {
		grown := proto.CloneOf(t.Artifacts[at])
		grown.Parts = append(grown.Parts, artifact.Parts...)
		artifact = grown
	}
	t.Artifacts = slices.Clone(t.Artifacts) // views share the list
	t.Artifacts[at] = artifact
}

// view is the task as it is now.
func (l *taskLog) view(which pb.TaskView) *pb.Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.task
	shown := &pb.Task{
		Id: t.Id, State: t.State, CreateTime: t.CreateTime, UpdateTime: t.UpdateTime, SessionId: t.SessionId, RunId: t.RunId,
		Sequence: t.Sequence, AgentName: l.agent, MessageCount: t.MessageCount, ArtifactCount: t.ArtifactCount, Failure: t.Failure,
		CancelReason: t.CancelReason,
	}
	if which == pb.TaskView_TASK_VIEW_HEADER {
		return shown
	}
	var from turn
	if which == pb.TaskView_TASK_VIEW_TURN {
		from = l.turn
	}
	shown.MetadataJson, shown.FlowStateJson, shown.Context = t.MetadataJson, t.FlowStateJson, t.Context
	shown.Messages = slices.Clone(t.Messages[from.messages:])
	shown.Artifacts = slices.Clone(t.Artifacts[from.artifacts:])
	shown.StateHistory = slices.Clip(t.StateHistory[from.changes:])
	shown.OutputId = outputID(shown)
	return shown
}

// outputID is the message or artifact of a view that is the answer, as the comment of Task.output_id says. A tie goes to the artifact:
// it was made from the message.
func outputID(task *pb.Task) string {
	var id string
	var when time.Time
	look := func(itemID string, parts []*pb.Part, made *timestamppb.Timestamp) {
		if at := made.AsTime(); slices.ContainsFunc(parts, isOutput) && (id == "" || !at.Before(when)) {
			id, when = itemID, at
		}
	}
	for _, message := range task.GetMessages() {
		if message.GetRole() == pb.MessageRole_MESSAGE_ROLE_AGENT {
			look(message.GetId(), message.GetParts(), message.GetCreateTime())
		}
	}
	for _, artifact := range task.GetArtifacts() {
		if kind := artifact.GetKind(); kind == "" || kind == "result" {
			look(artifact.GetId(), artifact.GetParts(), artifact.GetCreateTime())
		}
	}
	return id
}

func isOutput(part *pb.Part) bool {
	switch content := part.GetContent().(type) {
	case *pb.Part_Text, *pb.Part_Data, *pb.Part_InferOutput:
		return true
	case *pb.Part_ToolOutput:
		return content.ToolOutput.GetFailure() == nil
	default:
		return false
	}
}

// bodyBytes bounds the messages and artifacts of one answer: callers receive 4 MiB by default.
const bodyBytes = 3 << 20

// answer is a view of which as much is shown as fits into one answer: of messages and artifacts the newest, and those that the request
// asks for.
func (l *taskLog) answer(which pb.TaskView, request *pb.GetTaskRequest) *pb.Task {
	t := l.view(which)
	if which == pb.TaskView_TASK_VIEW_HEADER {
		return t
	}
	messages, artifacts := int(t.MessageCount)-len(t.Messages), int(t.ArtifactCount)-len(t.Artifacts)
	if request != nil && request.BeforeMessage != nil {
		t.Messages = t.Messages[:min(len(t.Messages), max(0, int(request.GetBeforeMessage())-messages))]
	}
	if request != nil && request.BeforeArtifact != nil {
		t.Artifacts = t.Artifacts[:min(len(t.Artifacts), max(0, int(request.GetBeforeArtifact())-artifacts))]
	}
	if most := int(request.GetMaxMessages()); most > 0 && len(t.Messages) > most {
		messages += len(t.Messages) - most
		t.Messages = t.Messages[len(t.Messages)-most:]
	}
	first := newest(t.Messages, max(bodyBytes/2, bodyBytes-sizeOf(t.Artifacts)))
	if first == len(t.Messages) && first > 0 {
		first-- // always the latest message
		t.Messages[first] = fitting(t.Messages[first], fmt.Sprintf("messages[%d].parts", messages+first), t)
	}
	t.Messages, messages = t.Messages[first:], messages+first
	first = newest(t.Artifacts, bodyBytes-sizeOf(t.Messages))
	if first == len(t.Artifacts) && first > 0 && len(t.Messages) == 0 {
		first--
		t.Artifacts[first] = fitting(t.Artifacts[first], fmt.Sprintf("artifacts[%d].parts", artifacts+first), t)
	}
	t.Artifacts, artifacts = t.Artifacts[first:], artifacts+first
	t.FirstMessage, t.FirstArtifact = int32(messages), int32(artifacts)
	return t
}

func sizeOf[Item proto.Message](items []Item) (size int) {
	for _, item := range items {
		size += proto.Size(item)
	}
	return size
}

// newest returns where the last items begin that fit.
func newest[Item proto.Message](items []Item, room int) int {
	for at := len(items) - 1; at >= 0; at-- {
		if room -= proto.Size(items[at]); room < 0 {
			return at + 1
		}
	}
	return 0
}

// fitting is an item as it is where it fits into an answer, else a copy without its parts.
func fitting[Item proto.Message](item Item, path string, task *pb.Task) Item {
	size := proto.Size(item)
	if size <= bodyBytes {
		return item
	}
	hint := []*pb.Part{{FallbackText: fmt.Sprintf("%d bytes, which do not fit into this answer", size)}}
	task.Omitted = append(task.Omitted, path)
	var short proto.Message = item
	switch long := short.(type) {
	case *pb.Message:
		short = &pb.Message{Id: long.Id, Role: long.Role, CreateTime: long.CreateTime, Parts: hint}
	case *pb.Artifact:
		short = &pb.Artifact{Id: long.Id, Kind: long.Kind, CreateTime: long.CreateTime, Parts: hint}
	}
	return short.(Item)
}

// read returns the events after a sequence, whether they are the last ones, and what is closed when there are more.
func (l *taskLog) read(after int64) ([]*pb.RunEvent, bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.events[min(after, int64(len(l.events))):]), ended(l.task.State), l.changed
}

func ended(state pb.TaskState) bool {
	switch state {
	case pb.TaskState_TASK_STATE_COMPLETED, pb.TaskState_TASK_STATE_CANCELED, pb.TaskState_TASK_STATE_FAILED,
		pb.TaskState_TASK_STATE_REJECTED:
		return true
	default:
		return false
	}
}

// settled reports whether a task in this state has ended or waits for input.
func settled(state pb.TaskState) bool {
	return ended(state) || state == pb.TaskState_TASK_STATE_INPUT_REQUIRED || state == pb.TaskState_TASK_STATE_AUTH_REQUIRED
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
