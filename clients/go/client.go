// Package plgrpc calls plgrpc agents: it sends tasks, follows their events, answers approvals and finds agents in a
// registry.
//
// It is a thin layer over the generated stubs (imported as pb below, from gen/go/plgrpc/v1), whose messages it uses. Writes carry a request
// id, so that a retry is never a second run. Interrupted streams continue after the last event, without gaps and duplicates. Errors are
// typed.
//
//	client, err := plgrpc.Dial("grpc://127.0.0.1:50051")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	task, err := client.Send(ctx, plgrpc.Text("Hello"))
//	if err != nil {
//		return err
//	}
//	fmt.Println(plgrpc.Output(task))
//
// A context limits how long a call waits, and not the work: a run belongs to the agent and continues after its caller has left. To end it, call
// [Client.Cancel].
package plgrpc

import (
	"cmp"
	"context"
	"iter"
	"slices"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Client speaks with one agent. It is safe for concurrent use, and one per agent is enough.
type Client struct {
	*channel
	agent   pb.AgentServiceClient
	control pb.ControlServiceClient
}

// Dial returns a client of the agent at url: grpc://host:port without TLS, grpcs://host:port over TLS; host:port alone is
// without TLS. It does no I/O: the connection is made by the first call, and made again whenever it is lost.
//
// It fails for a URL of another shape, and for credentials that would go over the network unencrypted (see [WithInsecureOK]).
func Dial(url string, options ...Option) (*Client, error) {
	channel, err := dial(url, options)
	if err != nil {
		return nil, err
	}
	return newClient(channel), nil
}

// NewClient returns a client that speaks over a connection of the caller's own: one with settings that [Dial] does not have, one in
// memory, or one that several clients share. The options are those of Dial, except those that say how to connect: [WithTLS] and
// [WithDialOptions].
//
// Whether such a connection is encrypted only gRPC knows: calls with credentials fail on one that is not, also on this machine, unless
// [WithInsecureOK] allows them. Closing the client leaves the connection open.
func NewClient(conn grpc.ClientConnInterface, options ...Option) (*Client, error) {
	channel, err := over(conn, options)
	if err != nil {
		return nil, err
	}
	return newClient(channel), nil
}

func newClient(channel *channel) *Client {
	return &Client{channel, pb.NewAgentServiceClient(channel.conn), pb.NewControlServiceClient(channel.conn)}
}

// SendOption changes one request of [Client.Send], [Client.Submit] or [Client.Stream].
type SendOption func(*sendOptions)

type sendOptions struct {
	requestID, taskID string
	expected          int64
	view              pb.TaskView
}

// RequestID names the request, for a repetition from another process: the same id from the same caller is the same request for at
// least 24 hours, and is answered with the task of the first one, whatever else the repetition says. At most 128 bytes. Without it each
// request gets an id of its own.
func RequestID(id string) SendOption {
	return func(o *sendOptions) { o.requestID = id }
}

// ContinueTask sends the messages to a task that exists already, for instance one in TASK_STATE_INPUT_REQUIRED. Where the agent
// does not know the task, the request fails with [ErrTaskNotFound] and begins no other one.
func ContinueTask(id string) SendOption {
	return func(o *sendOptions) { o.taskID = id }
}

// ExpectedSequence continues a task only if its last event has this sequence: that of the last event that the caller has. Otherwise the
// request fails with [ErrSequenceConflict], and nothing is added to the task.
func ExpectedSequence(sequence int64) SendOption {
	return func(o *sendOptions) { o.expected = sequence }
}

// ReturnView says how much of the task [Client.Send] and [Client.Submit] return; by default what the turn has added.
func ReturnView(view pb.TaskView) SendOption {
	return func(o *sendOptions) { o.view = view }
}

// sending is a request as the options say, with a copy of the input. A new task without an id gets one here:
// a repetition, and a caller that gave up waiting, must know which task it is.
func sending(input *pb.TaskInput, options []SendOption) *pb.SendTaskRequest {
	var chosen sendOptions
	for _, option := range options {
		option(&chosen)
	}
	given := &pb.TaskInput{}
	proto.Merge(given, input)
	given.ExpectedSequence = cmp.Or(chosen.expected, given.ExpectedSequence)
	switch {
	case chosen.taskID != "":
		given.TaskId, given.Target = chosen.taskID, pb.TaskTarget_TASK_TARGET_CONTINUE
	case given.TaskId != "":
	case given.Target == pb.TaskTarget_TASK_TARGET_UNSPECIFIED:
		given.TaskId, given.Target = newID(), pb.TaskTarget_TASK_TARGET_CREATE
	case given.Target != pb.TaskTarget_TASK_TARGET_CONTINUE:
		given.TaskId = newID()
	}
	return &pb.SendTaskRequest{Input: given, RequestId: cmp.Or(chosen.requestID, newID()), View: chosen.view}
}

// Send starts or continues a task and waits until it ends or needs input. It returns the task with what this turn has added.
//
// An input without a task id begins a new task. It gets a UUID; the task that is returned has it, and so has the error: Error.TaskID.
// An input with a task id continues that task, which must exist, unless its target says otherwise: TASK_TARGET_CREATE begins a task
// under that id, and TASK_TARGET_CREATE_OR_CONTINUE does either.
//
// A task that failed is returned, without an error: look at its state. Interrupted calls are retried with the same request id. When the
// deadline of ctx, or the default timeout, passes first, Send fails with [ErrDeadlineExceeded], and the task continues.
func (c *Client) Send(ctx context.Context, input *pb.TaskInput, options ...SendOption) (*pb.Task, error) {
	return c.send(ctx, sending(input, options))
}

// Submit starts or continues a task as [Client.Send] does, and returns as soon as the agent has accepted it. Follow it with
// [Client.Subscribe] and [Client.Get].
func (c *Client) Submit(ctx context.Context, input *pb.TaskInput, options ...SendOption) (*pb.Task, error) {
	request := sending(input, options)
	request.WaitFor = pb.WaitFor_WAIT_FOR_ACCEPTED
	return c.send(ctx, request)
}

func (c *Client) send(ctx context.Context, request *pb.SendTaskRequest) (*pb.Task, error) {
	response, err := unary(ctx, c.channel, c.agent.SendTask, request)
	return response.GetTask(), aboutTask(err, request.GetInput().GetTaskId())
}

// Stream starts or continues a task and yields the events of this turn as they are committed, until the task ends or needs
// input. Sequence numbers have no gaps, and no event is delivered twice, also after interrupted connections.
//
// An error is yielded once, as the last value; its TaskID says which task it is, also before the first event. Leaving the loop ends the
// watch and not the task. Each iteration over the sequence is the same request: a second one shows the same turn again.
func (c *Client) Stream(ctx context.Context, input *pb.TaskInput, options ...SendOption) iter.Seq2[*pb.RunEvent, error] {
	return onlyEvents(c.stream(ctx, input, options, false))
}

// StreamUpdates is [Client.Stream] with the text that models produce, while they do so. The pieces of a call that follow its latest
// LlmCallStarted event are, put together, a beginning of its text: a further LlmCallStarted of the same call makes the earlier ones
// void. The whole text is in the event LlmCallCompleted; pieces are not stored, and an agent need not send any.
func (c *Client) StreamUpdates(ctx context.Context, input *pb.TaskInput, options ...SendOption) iter.Seq2[Update, error] {
	return c.stream(ctx, input, options, true)
}

func (c *Client) stream(ctx context.Context, input *pb.TaskInput, options []SendOption, deltas bool) iter.Seq2[Update, error] {
	sent := sending(input, options)
	request := &pb.StreamTaskRequest{Input: sent.Input, RequestId: sent.RequestId, Deltas: deltaMode(deltas)}
	start := cursor{taskID: sent.GetInput().GetTaskId(), stopAt: pb.StopAt_STOP_AT_INTERRUPTED, deltas: deltas}
	return c.follow(ctx, start, c.receiveFrom(request))
}

func deltaMode(deltas bool) pb.DeltaMode {
	if deltas {
		return pb.DeltaMode_DELTA_MODE_ALL
	}
	return pb.DeltaMode_DELTA_MODE_NONE
}

// Subscribe yields the events of a task after request.AfterSequence (0: from the beginning): first the stored ones, then new ones. It
// ends at request.StopAt, by default with the task, and resumes after interruptions as [Client.Stream] does.
func (c *Client) Subscribe(ctx context.Context, request *pb.SubscribeTaskRequest) iter.Seq2[*pb.RunEvent, error] {
	return onlyEvents(c.subscribe(ctx, request, false))
}

// SubscribeUpdates is [Client.Subscribe] with the text that models produce, as in [Client.StreamUpdates].
func (c *Client) SubscribeUpdates(ctx context.Context, request *pb.SubscribeTaskRequest) iter.Seq2[Update, error] {
	return c.subscribe(ctx, request, true)
}

func (c *Client) subscribe(ctx context.Context, request *pb.SubscribeTaskRequest, deltas bool) iter.Seq2[Update, error] {
	return c.follow(ctx, cursor{
		taskID: request.GetTaskId(), seen: request.GetAfterSequence(), known: true, stopAt: request.GetStopAt(), deltas: deltas,
	}, c.receive)
}

// Get returns the whole task as it is now.
func (c *Client) Get(ctx context.Context, taskID string) (*pb.Task, error) {
	return c.GetView(ctx, taskID, pb.TaskView_TASK_VIEW_FULL)
}

// GetView returns a view of a task: TASK_VIEW_HEADER has its state and no messages or artifacts, TASK_VIEW_TURN those
// of the latest turn.
//
// A whole task that is too large for one answer is got by several calls. Of a view of the latest turn, the newest messages and artifacts
// are shown, as many as fit. What is too large by itself is left out: Task.Omitted names it, and [Client.Subscribe] has it.
func (c *Client) GetView(ctx context.Context, taskID string, view pb.TaskView) (*pb.Task, error) {
	request := &pb.GetTaskRequest{TaskId: taskID, View: view}
	response, err := unary(ctx, c.channel, c.agent.GetTask, request)
	task := response.GetTask()
	if err != nil || view != pb.TaskView_TASK_VIEW_FULL {
		return task, err
	}
	for task.FirstMessage > 0 || task.FirstArtifact > 0 {
		request.BeforeMessage, request.BeforeArtifact = proto.Int32(task.FirstMessage), proto.Int32(task.FirstArtifact)
		response, err := unary(ctx, c.channel, c.agent.GetTask, request)
		if err != nil {
			return nil, err
		}
		earlier := response.GetTask()
		if len(earlier.GetMessages()) == 0 && len(earlier.GetArtifacts()) == 0 {
			break // the agent has no more
		}
		for _, path := range earlier.Omitted {
			if !slices.Contains(task.Omitted, path) {
				task.Omitted = append(task.Omitted, path)
			}
		}
		task.Messages = append(earlier.Messages, task.Messages...)
		task.Artifacts = append(earlier.Artifacts, task.Artifacts...)
		task.FirstMessage, task.FirstArtifact = earlier.FirstMessage, earlier.FirstArtifact
	}
	return task, nil
}

// List yields the caller's tasks that match, last changed first, page after page. By default they have no messages and no artifacts
// (see request.View). An error is yielded once, as the last value.
func (c *Client) List(ctx context.Context, request *pb.ListTasksRequest) iter.Seq2[*pb.Task, error] {
	return pages(request, request.GetPageToken(), func(r *pb.ListTasksRequest, token string) ([]*pb.Task, string, error) {
		r.PageToken = token
		response, err := unary(ctx, c.channel, c.agent.ListTasks, r)
		return response.GetTasks(), response.GetNextPageToken(), err
	})
}

// Cancel asks the agent to end a task, and returns it as it is afterwards, without messages. The reason is one sentence for the log.
//
// A task that has ended fails with [ErrTaskNotCancelable].
func (c *Client) Cancel(ctx context.Context, taskID, reason string) (*pb.Task, error) {
	request := &pb.CancelTaskRequest{TaskId: taskID, Reason: reason}
	response, err := unary(ctx, c.channel, c.agent.CancelTask, request)
	return response.GetTask(), err
}

// Tools yields the agent's tools, ordered by name, page after page. An error is yielded once, as the last value.
func (c *Client) Tools(ctx context.Context, request *pb.ListToolsRequest) iter.Seq2[*pb.Tool, error] {
	return pages(request, request.GetPageToken(), func(r *pb.ListToolsRequest, token string) ([]*pb.Tool, string, error) {
		r.PageToken = token
		response, err := unary(ctx, c.channel, c.control.ListTools, r)
		return response.GetTools(), response.GetNextPageToken(), err
	})
}

// CallTool runs one tool of the agent as a task of its own, and waits for its end. A tool that failed is no error: its output says so.
//
// A request without ids gets them: the response has the task's id, and so has the error: Error.TaskID. When the deadline of ctx, or the
// default timeout, passes first, CallTool fails with [ErrDeadlineExceeded], and the task of the call continues.
func (c *Client) CallTool(ctx context.Context, request *pb.CallToolRequest) (*pb.CallToolResponse, error) {
	request = proto.CloneOf(request)
	request.TaskId, request.RequestId = cmp.Or(request.GetTaskId(), newID()), cmp.Or(request.GetRequestId(), newID())
	response, err := unary(ctx, c.channel, c.control.CallTool, request)
	return response, aboutTask(err, request.GetTaskId())
}

// Card returns who the agent is and what it can do.
func (c *Client) Card(ctx context.Context) (*pb.AgentCard, error) {
	response, err := unary(ctx, c.channel, c.agent.GetAgentCard, &pb.GetAgentCardRequest{})
	return response.GetCard(), err
}
