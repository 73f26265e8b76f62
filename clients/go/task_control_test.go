package plgrpc

import (
	"context"
	"errors"
	"slices"
	"testing"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// recorder is a connection whose calls return empty snapshots, and whose first answers get lost.
type recorder struct {
	lost     int
	methods  []string
	requests []proto.Message
}

func (r *recorder) Invoke(_ context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	r.methods, r.requests = append(r.methods, method), append(r.requests, proto.Clone(args.(proto.Message)))
	if r.lost > 0 {
		r.lost--
		return cut
	}
	response := reply.(proto.Message).ProtoReflect()
	if field := response.Descriptor().Fields().ByName("snapshot"); field != nil {
		response.Mutable(field)
	}
	return nil
}

func (r *recorder) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}

func recorded(t *testing.T) (*recorder, *Client) {
	t.Helper()
	r := &recorder{}
	client, err := NewClient(r)
	if err != nil {
		t.Fatal(err)
	}
	return r, client
}

func TestEachMethodOfTasksCallsItsOwnAndReturnsTheSnapshot(t *testing.T) {
	t.Parallel()
	r, client := recorded(t)
	ctx, tasks := t.Context(), client.Tasks()
	link := &pb.TaskLink{Kind: pb.LinkKind_LINK_KIND_BLOCKED_BY, Target: "b"}
	update := &pb.UpdateTaskRequest{TaskId: "a", Description: &pb.TaskDescription{Title: "T"}}
	retry := &pb.RetryTaskRequest{TaskId: "a", Reason: "r", RequestId: "retry-1"}
	done := &pb.CompleteTaskRequest{TaskId: "a", Messages: Text("done").GetMessages()}
	failure := &pb.Failure{Message: "broken"}
	for _, one := range []struct {
		method  string
		request proto.Message
		call    func() (*pb.TaskSnapshot, error)
	}{
		{"UpdateTask", update, func() (*pb.TaskSnapshot, error) { return tasks.Update(ctx, update) }},
		{"StartTask", &pb.StartTaskRequest{TaskId: "a"}, func() (*pb.TaskSnapshot, error) { return tasks.Start(ctx, "a") }},
		{"StartTask", &pb.StartTaskRequest{TaskId: "a", External: true}, func() (*pb.TaskSnapshot, error) { return tasks.StartExternal(ctx, "a") }},
		{"PauseTask", &pb.PauseTaskRequest{TaskId: "a", Reason: "r"}, func() (*pb.TaskSnapshot, error) { return tasks.Pause(ctx, "a", "r") }},
		{"ResumeTask", &pb.ResumeTaskRequest{TaskId: "a", Reason: "r"}, func() (*pb.TaskSnapshot, error) { return tasks.Resume(ctx, "a", "r") }},
		{"RetryTask", retry, func() (*pb.TaskSnapshot, error) { return tasks.Retry(ctx, retry) }},
		{"CompleteTask", done, func() (*pb.TaskSnapshot, error) { return tasks.Complete(ctx, done) }},
		{"FailTask", &pb.FailTaskRequest{TaskId: "a", Failure: failure}, func() (*pb.TaskSnapshot, error) { return tasks.Fail(ctx, "a", failure) }},
		{"LinkTasks", &pb.LinkTasksRequest{TaskId: "a", Link: link}, func() (*pb.TaskSnapshot, error) { return tasks.Link(ctx, "a", link) }},
		{"UnlinkTasks", &pb.UnlinkTasksRequest{TaskId: "a", Link: link}, func() (*pb.TaskSnapshot, error) { return tasks.Unlink(ctx, "a", link) }},
		{"GetTaskSnapshot", &pb.GetTaskSnapshotRequest{TaskId: "a"}, func() (*pb.TaskSnapshot, error) { return tasks.Get(ctx, "a") }},
	} {
		snapshot, err := one.call()
		last := len(r.requests) - 1
		if err != nil || snapshot == nil || r.methods[last] != "/plgrpc.v1.TaskControlService/"+one.method {
			t.Errorf("%s returned %v, %v", r.methods[last], snapshot, err)
		}
		if !proto.Equal(r.requests[last], one.request) {
			t.Errorf("%s sent %v", one.method, r.requests[last])
		}
	}
}

func TestARepeatedDraftReportOrRetryHasTheSameIds(t *testing.T) {
	t.Parallel()
	r, client := recorded(t)
	given := &pb.CreateTaskRequest{Input: Text("later")}
	r.lost = 1
	if _, err := client.Tasks().Create(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	r.lost = 1
	if _, err := client.Tasks().ReportProgress(t.Context(), &pb.AppendTaskProgressRequest{TaskId: "a"}); err != nil {
		t.Fatal(err)
	}
	r.lost = 1
	if _, err := client.Tasks().Retry(t.Context(), &pb.RetryTaskRequest{TaskId: "a", Reason: "again"}); err != nil {
		t.Fatal(err)
	}
	for first := 0; first < 6; first += 2 {
		id := r.requests[first].(interface{ GetRequestId() string }).GetRequestId()
		if id == "" || !proto.Equal(r.requests[first], r.requests[first+1]) {
			t.Errorf("sent %v, then %v", r.requests[first], r.requests[first+1])
		}
	}
	sent := r.requests[0].(*pb.CreateTaskRequest).GetInput()
	if sent.GetTaskId() == "" || sent.GetTarget() != pb.TaskTarget_TASK_TARGET_CREATE || given.GetInput().GetTaskId() != "" {
		t.Errorf("sent %v", sent)
	}
}

func TestTasksAreListedWithoutARequest(t *testing.T) {
	t.Parallel()
	r, client := recorded(t)
	for task, err := range client.Tasks().List(t.Context(), nil) {
		t.Errorf("listed %v, %v", task, err)
	}
	if !slices.Equal(r.methods, []string{"/plgrpc.v1.TaskControlService/ListTaskSnapshots"}) {
		t.Errorf("called %q", r.methods)
	}
}

func TestEachSnapshotIsRequestedByItsIds(t *testing.T) {
	t.Parallel()
	r, client := recorded(t)
	ctx, snapshots := t.Context(), client.Snapshots()
	for _, one := range []struct {
		method  string
		request proto.Message
		call    func() (proto.Message, error)
	}{
		{"GetSessionSnapshot", &pb.GetSessionSnapshotRequest{SessionId: "s"}, func() (proto.Message, error) { return snapshots.Session(ctx, "s") }},
		{"GetThreadSnapshot", &pb.GetThreadSnapshotRequest{SessionId: "s", ThreadId: "t"}, func() (proto.Message, error) {
			return snapshots.Thread(ctx, "s", "t")
		}},
		{"GetQueueSnapshot", &pb.GetQueueSnapshotRequest{SessionId: "s"}, func() (proto.Message, error) { return snapshots.Queue(ctx, "s", "") }},
		{"GetToolInventory", &pb.GetToolInventoryRequest{}, func() (proto.Message, error) { return snapshots.Tools(ctx) }},
		{"GetContextBoundary", &pb.GetContextBoundaryRequest{TaskId: "a"}, func() (proto.Message, error) { return snapshots.Context(ctx, "a") }},
		{"GetArtifacts", &pb.GetArtifactsRequest{TaskId: "a"}, func() (proto.Message, error) { return snapshots.Artifacts(ctx, "a") }},
		{"GetEvidence", &pb.GetEvidenceRequest{TaskId: "a"}, func() (proto.Message, error) { return snapshots.Evidence(ctx, "a") }},
	} {
		snapshot, err := one.call()
		last := len(r.requests) - 1
		if err != nil || !snapshot.ProtoReflect().IsValid() || r.methods[last] != "/plgrpc.v1.SnapshotService/"+one.method {
			t.Errorf("%s returned %v, %v", r.methods[last], snapshot, err)
		}
		if !proto.Equal(r.requests[last], one.request) {
			t.Errorf("%s sent %v", one.method, r.requests[last])
		}
	}
}
