package agent

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	anonymous    = "anonymous" // the principal of every call: callers are not authenticated
	keptTasks    = 1000        // when there are more, the oldest tasks that have ended are dropped
	keptRequests = 100_000     // request ids, also of tasks that were dropped
	keptFor      = 24 * time.Hour
	eventsAtOnce = 256
)

// service is the agent's AgentService.
type service struct {
	pb.UnimplementedAgentServiceServer
	card    *pb.AgentCard
	handler Handler
	log     *slog.Logger

	mu       sync.Mutex
	tasks    map[string]*taskLog
	order    []string            // ids of tasks, oldest first
	requests map[string]accepted // by request id
	recent   []recent            // what is in requests, oldest first
	draining bool
	drained  sync.Once
	runs     sync.WaitGroup
	slots    chan struct{} // one for each run under way
	stopping context.Context
	stopRuns context.CancelFunc
}

// accepted is what became of a request: a turn of a task.
type accepted struct {
	*taskLog // nil where the task is forgotten
	taskID   string
	turn     turn
}

// recent is when a request was accepted.
type recent struct {
	id   string
	when time.Time
}

func newService(card *pb.AgentCard, handler Handler, log *slog.Logger) *service {
	s := &service{
		card: card, handler: handler, log: log, tasks: map[string]*taskLog{}, requests: map[string]accepted{},
		slots: make(chan struct{}, card.MaxConcurrency),
	}
	s.stopping, s.stopRuns = context.WithCancel(context.Background())
	return s
}

func (s *service) GetAgentCard(context.Context, *pb.GetAgentCardRequest) (*pb.GetAgentCardResponse, error) {
	return &pb.GetAgentCardResponse{Card: s.card}, nil
}

func (s *service) SendTask(ctx context.Context, request *pb.SendTaskRequest) (*pb.SendTaskResponse, error) {
	if err := known("wait_for", request.GetWaitFor(), pb.WaitFor_name); err != nil {
		return nil, err
	}
	task, err := s.accept(request.GetInput(), request.GetRequestId(), s.handler)
	if err != nil {
		return nil, err
	}
	if request.GetWaitFor() != pb.WaitFor_WAIT_FOR_ACCEPTED {
		discard := func([]*pb.RunEvent, *pb.WatchPosition) error { return nil }
		if err := s.watch(ctx, task.taskLog, task.turn.after, pb.StopAt_STOP_AT_INTERRUPTED, discard); err != nil {
			return nil, err
		}
	}
	return &pb.SendTaskResponse{Task: task.answer(cmp.Or(request.GetView(), pb.TaskView_TASK_VIEW_TURN), nil)}, nil
}

func (s *service) StreamTask(request *pb.StreamTaskRequest, stream grpc.ServerStreamingServer[pb.StreamTaskResponse]) error {
	if err := known("deltas", request.GetDeltas(), pb.DeltaMode_name); err != nil {
		return err
	}
	task, err := s.accept(request.GetInput(), request.GetRequestId(), s.handler)
	if err != nil {
		return err
	}
	return s.watch(stream.Context(), task.taskLog, task.turn.after, pb.StopAt_STOP_AT_INTERRUPTED, func(events []*pb.RunEvent, position *pb.WatchPosition) error {
		return stream.Send(&pb.StreamTaskResponse{Events: events, Position: position})
	})
}

func (s *service) SubscribeTask(request *pb.SubscribeTaskRequest, stream grpc.ServerStreamingServer[pb.SubscribeTaskResponse]) error {
	if err := known("deltas", request.GetDeltas(), pb.DeltaMode_name); err != nil {
		return err
	}
	task, err := s.find(request.GetTaskId())
	if err != nil {
		return err
	}
	if last := task.view(pb.TaskView_TASK_VIEW_HEADER).GetSequence(); request.GetAfterSequence() > last {
		return failure(codes.OutOfRange, plgrpc.ErrSequenceOutOfRange, fmt.Sprintf("the log of task %s ends at %d", request.GetTaskId(), last),
			"task_id", request.GetTaskId(), "last_sequence", strconv.FormatInt(last, 10))
	}
	after := max(request.GetAfterSequence(), 0)
	return s.watch(stream.Context(), task, after, request.GetStopAt(), func(events []*pb.RunEvent, position *pb.WatchPosition) error {
		return stream.Send(&pb.SubscribeTaskResponse{Events: events, Position: position})
	})
}

func (s *service) GetTask(_ context.Context, request *pb.GetTaskRequest) (*pb.GetTaskResponse, error) {
	task, err := s.find(request.GetTaskId())
	if err != nil {
		return nil, err
	}
	for field, value := range map[string]int32{
		"max_messages": request.GetMaxMessages(), "before_message": request.GetBeforeMessage(), "before_artifact": request.GetBeforeArtifact(),
	} {
		if value < 0 {
			return nil, invalid(field, "must be at least 0")
		}
	}
	return &pb.GetTaskResponse{Task: task.answer(cmp.Or(request.GetView(), pb.TaskView_TASK_VIEW_FULL), request)}, nil
}

func (s *service) CancelTask(_ context.Context, request *pb.CancelTaskRequest) (*pb.CancelTaskResponse, error) {
	task, err := s.find(request.GetTaskId())
	if err != nil {
		return nil, err
	}
	if err := task.cancelTask(request.GetReason(), request.GetMetadataJson()); err != nil {
		return nil, err
	}
	return &pb.CancelTaskResponse{Task: task.view(pb.TaskView_TASK_VIEW_HEADER)}, nil
}

func (s *service) ListTasks(_ context.Context, request *pb.ListTasksRequest) (*pb.ListTasksResponse, error) {
	size := int(cmp.Or(request.GetPageSize(), 50))
	if size < 1 || size > 1000 {
		return nil, invalid("page_size", "must be from 1 to 1000")
	}
	token, err := base64.RawURLEncoding.DecodeString(request.GetPageToken())
	from, err2 := strconv.Atoi(cmp.Or(string(token), "0"))
	if err != nil || err2 != nil || from < 0 {
		return nil, invalid("page_token", "is not a token of this agent")
	}
	found := s.matching(request)
	response := &pb.ListTasksResponse{}
	if request.GetIncludeTotal() {
		response.TotalSize = int32(len(found))
	}
	bytes := 0
	for _, task := range found[min(from, len(found)):] {
		bytes += proto.Size(task)
		if count := len(response.Tasks); count == size || count > 0 && bytes > pageBytes {
			response.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(from + count)))
			break
		}
		response.Tasks = append(response.Tasks, task)
	}
	return response, nil
}

func (s *service) matching(request *pb.ListTasksRequest) []*pb.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*pb.Task
	for _, log := range s.tasks {
		task := log.answer(cmp.Or(request.GetView(), pb.TaskView_TASK_VIEW_HEADER), nil)
		if len(request.GetStates()) > 0 && !slices.Contains(request.GetStates(), task.GetState()) ||
			request.GetSessionId() != "" && request.GetSessionId() != task.GetSessionId() ||
			request.GetUpdatedAfter() != nil && !task.GetUpdateTime().AsTime().After(request.GetUpdatedAfter().AsTime()) {
			continue
		}
		found = append(found, task)
	}
	slices.SortFunc(found, func(a, b *pb.Task) int { return b.GetUpdateTime().AsTime().Compare(a.GetUpdateTime().AsTime()) })
	return found
}

// watch sends events as they come, from a position until stopAt says so, the caller hangs up or the agent goes down.
func (s *service) watch(
	ctx context.Context, task *taskLog, after int64, stopAt pb.StopAt, send func([]*pb.RunEvent, *pb.WatchPosition) error,
) error {
	for first := true; ; first = false {
		events, over, changed := task.read(after)
		begin, head := after, after+int64(len(events))
		if first && after == head {
			if err := send(nil, &pb.WatchPosition{Revision: head, Head: head, CaughtUp: true}); err != nil {
				return err
			}
		}
		for len(events) > 0 {
			batch, last := events[:min(len(events), eventsAtOnce)], false
			if stopAt == pb.StopAt_STOP_AT_INTERRUPTED {
				if at := slices.IndexFunc(batch, func(e *pb.RunEvent) bool { return settled(e.GetTaskStatus().GetNewState()) }); at >= 0 {
					batch, last = batch[:at+1], true
				}
			}
			after, events = batch[len(batch)-1].GetSequence(), events[len(batch):]
			var position *pb.WatchPosition
			if caughtUp := after == head; first && (caughtUp || batch[0].GetSequence() == begin+1) {
				position = &pb.WatchPosition{Revision: after, Head: head, CaughtUp: caughtUp}
			}
			if err := send(batch, position); err != nil || last {
				return err
			}
		}
		if over || stopAt == pb.StopAt_STOP_AT_CURRENT {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.stopping.Done():
			if more, _, _ := task.read(after); len(more) == 0 {
				return goingDown
			}
		}
	}
}

func (s *service) find(id string) (*taskLog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if task := s.tasks[id]; task != nil {
		return task, nil
	}
	return nil, notFound(id)
}

// accept begins the turn that a request asks for, or finds the one that it began the first time.
func (s *service) accept(input *pb.TaskInput, requestID string, handler Handler) (accepted, error) {
	if err := check(input, requestID); err != nil {
		return accepted{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.requests[requestID]; ok {
		if known.taskLog == nil {
			return accepted{}, notFound(known.taskID)
		}
		return known, nil
	}
	if s.draining {
		return accepted{}, goingDown
	}
	id, target := cmp.Or(input.GetTaskId(), newID()), targetOf(input)
	task, isNew := s.tasks[id], false
	switch {
	case task != nil && target == pb.TaskTarget_TASK_TARGET_CREATE:
		return accepted{}, failure(codes.AlreadyExists, plgrpc.ErrTaskAlreadyExists, "there is a task "+id+" already", "task_id", id)
	case task == nil && target == pb.TaskTarget_TASK_TARGET_CONTINUE:
		return accepted{}, notFound(id)
	case task == nil && len(input.GetMessages()) == 0:
		return accepted{}, invalid("input.messages", "a new task has a message")
	case task == nil:
		task, isNew = newLog(s.card.GetName(), id, cmp.Or(input.GetSessionId(), id)), true
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return accepted{}, busy
	}
	ctx, cancel := context.WithCancel(s.stopping)
	began, err := task.begin(input, requestID, cancel)
	if err != nil {
		cancel()
		<-s.slots
		return accepted{}, err
	}
	if isNew {
		s.tasks[id] = task
		s.order = append(s.order, id)
		s.forget()
	}
	this := accepted{task, id, began}
	s.remember(requestID, this)
	s.runs.Add(1)
	go s.run(ctx, cancel, this, handler)
	return this, nil
}

// remember keeps what became of a request, so that a repetition finds it, also when its task is forgotten.
func (s *service) remember(request string, this accepted) {
	if request == "" {
		return
	}
	now := time.Now()
	for len(s.recent) > 0 && (len(s.recent) >= keptRequests || now.Sub(s.recent[0].when) > keptFor) {
		delete(s.requests, s.recent[0].id)
		s.recent = s.recent[1:]
	}
	s.recent = append(s.recent, recent{request, now})
	s.requests[request] = this
	this.taskLog.requests = append(this.taskLog.requests, request)
}

// run has the handler do one turn.
func (s *service) run(ctx context.Context, cancel context.CancelFunc, this accepted, handler Handler) {
	defer s.runs.Done()
	defer func() { <-s.slots }()
	defer cancel()
	run := &Run{id: this.turn.runID, log: this.taskLog, task: this.view(pb.TaskView_TASK_VIEW_FULL), messages: this.turn.messages}
	err := s.call(ctx, run, handler)
	if err != nil && s.stopping.Err() != nil {
		err = errStopped
	}
	state, why, last := outcome(err)
	this.end(run.id, state, why, last...)
}

func (s *service) call(ctx context.Context, run *Run, handler Handler) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("agent: the handler panicked", "task", run.task.GetId(), "cause", cause, "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	return handler(ctx, run)
}

// forget drops the oldest task that has ended, once there are too many.
func (s *service) forget() {
	if len(s.order) <= keptTasks {
		return
	}
	for at, id := range s.order {
		task := s.tasks[id]
		if !ended(task.view(pb.TaskView_TASK_VIEW_HEADER).GetState()) {
			continue
		}
		for _, request := range task.requests {
			if _, known := s.requests[request]; known {
				s.requests[request] = accepted{taskID: id}
			}
		}
		delete(s.tasks, id)
		s.order = slices.Delete(s.order, at, at+1)
		return
	}
}

// running is how many runs there are now. None waits for its turn: there is a slot, or the task is refused.
func (s *service) running() int32 { return int32(len(s.slots)) }

// drain takes no more tasks, gives runs their grace, and records those that are not done by then as failed. Later calls do nothing.
func (s *service) drain(grace time.Duration) {
	s.drained.Do(func() { s.drainOnce(grace) })
}

func (s *service) drainOnce(grace time.Duration) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.runs.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(grace):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, task := range s.tasks {
		task.end(task.view(pb.TaskView_TASK_VIEW_HEADER).GetRunId(), pb.TaskState_TASK_STATE_FAILED, failureOf(errStopped))
	}
	s.stopRuns()
}
