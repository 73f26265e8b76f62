package plgrpc

import (
	"cmp"
	"context"
	"iter"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

// TaskControl controls the caller's tasks with an agent: drafts, descriptions, links, pauses and retries, and work outside of the agent.
// Each method returns the task after the call, and fails with [ErrTaskNotFound] if the caller has no such task. Agents of other systems
// have no task control: [ErrUnimplemented].
type TaskControl struct {
	client  *Client
	service pb.TaskControlServiceClient
}

// Tasks returns the control of the caller's tasks with the agent. It does no I/O.
func (c *Client) Tasks() *TaskControl {
	return &TaskControl{c, pb.NewTaskControlServiceClient(c.conn)}
}

// Create creates a draft: a task that does not begin before [TaskControl.Start]. A request without ids of its own gets them, so that a
// repetition is never a second task; Error.TaskID is the id.
//
// It fails with [ErrTaskAlreadyExists], with [ErrTaskNotFound] for a link to an unknown task, and with [ErrLinkCycle].
func (t *TaskControl) Create(ctx context.Context, request *pb.CreateTaskRequest) (*pb.TaskSnapshot, error) {
	request = copyOf(request)
	request.RequestId = cmp.Or(request.RequestId, newID())
	if input := request.Input; input != nil {
		input.TaskId = cmp.Or(input.TaskId, newID())
		input.Target = cmp.Or(input.Target, pb.TaskTarget_TASK_TARGET_CREATE)
	}
	response, err := unary(ctx, t.client.channel, t.service.CreateTask, request)
	return response.GetSnapshot(), aboutTask(err, request.GetInput().GetTaskId())
}

// Update changes the description of a task, as a whole, or keys of its metadata. It fails with [ErrSequenceConflict] if the last event of
// the task is not request.ExpectedSequence, also for a repetition after a response that got lost.
func (t *TaskControl) Update(ctx context.Context, request *pb.UpdateTaskRequest) (*pb.TaskSnapshot, error) {
	response, err := unary(ctx, t.client.channel, t.service.UpdateTask, request)
	return response.GetSnapshot(), err
}

// Start starts a draft. If other tasks block it, it starts when they have ended. A task that has been started is returned unchanged. Start
// fails with [ErrTaskFinished].
func (t *TaskControl) Start(ctx context.Context, taskID string) (*pb.TaskSnapshot, error) {
	return t.start(ctx, &pb.StartTaskRequest{TaskId: taskID})
}

// StartExternal starts a draft whose work is done outside of the agent: no run begins, and [TaskControl.Complete] or [TaskControl.Fail]
// ends the task.
func (t *TaskControl) StartExternal(ctx context.Context, taskID string) (*pb.TaskSnapshot, error) {
	return t.start(ctx, &pb.StartTaskRequest{TaskId: taskID, External: true})
}

func (t *TaskControl) start(ctx context.Context, request *pb.StartTaskRequest) (*pb.TaskSnapshot, error) {
	response, err := unary(ctx, t.client.channel, t.service.StartTask, request)
	return response.GetSnapshot(), err
}

// ReportProgress adds a progress report to a task that has not ended. It fails with [ErrTaskFinished].
func (t *TaskControl) ReportProgress(ctx context.Context, request *pb.AppendTaskProgressRequest) (*pb.TaskSnapshot, error) {
	request = copyOf(request)
	request.RequestId = cmp.Or(request.RequestId, newID())
	response, err := unary(ctx, t.client.channel, t.service.AppendTaskProgress, request)
	return response.GetSnapshot(), err
}

// Pause pauses a task at the next point at which its run can wait. A pause survives restarts of the agent. Pause fails with
// [ErrTaskFinished], and with [ErrInvalidTransition] for a draft or a task that waits for input.
func (t *TaskControl) Pause(ctx context.Context, taskID, reason string) (*pb.TaskSnapshot, error) {
	request := &pb.PauseTaskRequest{TaskId: taskID, Reason: reason}
	response, err := unary(ctx, t.client.channel, t.service.PauseTask, request)
	return response.GetSnapshot(), err
}

// Resume ends the pause of a task. A task that is not paused is returned unchanged. Resume fails with [ErrTaskFinished].
func (t *TaskControl) Resume(ctx context.Context, taskID, reason string) (*pb.TaskSnapshot, error) {
	request := &pb.ResumeTaskRequest{TaskId: taskID, Reason: reason}
	response, err := unary(ctx, t.client.channel, t.service.ResumeTask, request)
	return response.GetSnapshot(), err
}

// Retry begins the work on an ended task again, with the same input. A request without an id of its own gets one, so that a repetition is
// never a second retry. Retry fails with [ErrInvalidTransition] if the task has not ended.
func (t *TaskControl) Retry(ctx context.Context, request *pb.RetryTaskRequest) (*pb.TaskSnapshot, error) {
	request = copyOf(request)
	request.RequestId = cmp.Or(request.RequestId, newID())
	response, err := unary(ctx, t.client.channel, t.service.RetryTask, request)
	return response.GetSnapshot(), err
}

// Complete ends a task with success, for work outside of the agent. The messages and artifacts are added before the end; the output of the
// task is in the last message of the agent among them, see [AgentMessage]. It fails with
// [ErrTaskAlreadyRunning] for a task that the agent works on, and with [ErrTaskFinished] for one that has ended in another state.
func (t *TaskControl) Complete(ctx context.Context, request *pb.CompleteTaskRequest) (*pb.TaskSnapshot, error) {
	response, err := unary(ctx, t.client.channel, t.service.CompleteTask, request)
	return response.GetSnapshot(), err
}

// Fail ends a task with a failure, whose message is required. It fails as [TaskControl.Complete] does.
func (t *TaskControl) Fail(ctx context.Context, taskID string, failure *pb.Failure) (*pb.TaskSnapshot, error) {
	request := &pb.FailTaskRequest{TaskId: taskID, Failure: failure}
	response, err := unary(ctx, t.client.channel, t.service.FailTask, request)
	return response.GetSnapshot(), err
}

// Link adds a link to a task, or changes the reason of an existing one. It fails with [ErrLinkCycle] if the other task leads back to this
// one, with [ErrTaskStarted] for a blocker of a task that has been started, and with [ErrTaskFinished].
func (t *TaskControl) Link(ctx context.Context, taskID string, link *pb.TaskLink) (*pb.TaskSnapshot, error) {
	request := &pb.LinkTasksRequest{TaskId: taskID, Link: link}
	response, err := unary(ctx, t.client.channel, t.service.LinkTasks, request)
	return response.GetSnapshot(), err
}

// Unlink removes the link with that kind and target, if it exists. A started task without any other blocker begins.
func (t *TaskControl) Unlink(ctx context.Context, taskID string, link *pb.TaskLink) (*pb.TaskSnapshot, error) {
	request := &pb.UnlinkTasksRequest{TaskId: taskID, Link: link}
	response, err := unary(ctx, t.client.channel, t.service.UnlinkTasks, request)
	return response.GetSnapshot(), err
}

// Get returns a task with its status in detail, its attempts and its links.
func (t *TaskControl) Get(ctx context.Context, taskID string) (*pb.TaskSnapshot, error) {
	response, err := unary(ctx, t.client.channel, t.service.GetTaskSnapshot, &pb.GetTaskSnapshotRequest{TaskId: taskID})
	return response.GetSnapshot(), err
}

// List yields the caller's tasks that match, without attempts and links, last changed first, page after page. An error is yielded once,
// as the last value.
func (t *TaskControl) List(ctx context.Context, request *pb.ListTaskSnapshotsRequest) iter.Seq2[*pb.TaskSnapshot, error] {
	fetch := func(r *pb.ListTaskSnapshotsRequest, token string) ([]*pb.TaskSnapshot, string, error) {
		r.PageToken = token
		response, err := unary(ctx, t.client.channel, t.service.ListTaskSnapshots, r)
		return response.GetSnapshots(), response.GetNextPageToken(), err
	}
	return pages(request, request.GetPageToken(), fetch)
}
