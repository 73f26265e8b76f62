package plgrpc

import (
	"context"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
)

// Snapshots are what sessions, threads and tasks of an agent are now. Each names the position or sequence that it reflects: a stream that
// starts there misses nothing. A part without a value is in its Gaps. [TaskControl.Get] returns the snapshot of a task. Agents of other
// systems have no snapshots: [ErrUnimplemented].
type Snapshots struct {
	client  *Client
	service pb.SnapshotServiceClient
}

// Snapshots returns the snapshots of the agent. It does no I/O.
func (c *Client) Snapshots() *Snapshots {
	return &Snapshots{c, pb.NewSnapshotServiceClient(c.conn)}
}

// Session returns a session with its threads. It fails with [ErrSessionNotFound].
func (s *Snapshots) Session(ctx context.Context, sessionID string) (*pb.SessionSnapshot, error) {
	request := &pb.GetSessionSnapshotRequest{SessionId: sessionID}
	response, err := unary(ctx, s.client.channel, s.service.GetSessionSnapshot, request)
	return response.GetSnapshot(), err
}

// Thread returns a thread with its turns and open tasks. An empty id is the thread "default". It fails with [ErrSessionNotFound] or
// [ErrThreadNotFound].
func (s *Snapshots) Thread(ctx context.Context, sessionID, threadID string) (*pb.ThreadSnapshot, error) {
	request := &pb.GetThreadSnapshotRequest{SessionId: sessionID, ThreadId: threadID}
	response, err := unary(ctx, s.client.channel, s.service.GetThreadSnapshot, request)
	return response.GetSnapshot(), err
}

// Queue returns the queues of a session, or with a thread id the queue of that thread. It fails with [ErrSessionNotFound] or
// [ErrThreadNotFound].
func (s *Snapshots) Queue(ctx context.Context, sessionID, threadID string) (*pb.QueueSnapshot, error) {
	request := &pb.GetQueueSnapshotRequest{SessionId: sessionID, ThreadId: threadID}
	response, err := unary(ctx, s.client.channel, s.service.GetQueueSnapshot, request)
	return response.GetSnapshot(), err
}

// Tools returns the tools that the caller can use now, with the effect of the agent's policy.
func (s *Snapshots) Tools(ctx context.Context) (*pb.ToolInventorySnapshot, error) {
	response, err := unary(ctx, s.client.channel, s.service.GetToolInventory, &pb.GetToolInventoryRequest{})
	return response.GetSnapshot(), err
}

// Context returns the context of the latest model call of a task. It fails with [ErrTaskNotFound].
func (s *Snapshots) Context(ctx context.Context, taskID string) (*pb.ContextBoundarySnapshot, error) {
	request := &pb.GetContextBoundaryRequest{TaskId: taskID}
	response, err := unary(ctx, s.client.channel, s.service.GetContextBoundary, request)
	return response.GetSnapshot(), err
}

// Artifacts returns the artifacts of a task without their content. It fails with [ErrTaskNotFound].
func (s *Snapshots) Artifacts(ctx context.Context, taskID string) (*pb.ArtifactsSnapshot, error) {
	response, err := unary(ctx, s.client.channel, s.service.GetArtifacts, &pb.GetArtifactsRequest{TaskId: taskID})
	return response.GetSnapshot(), err
}

// Evidence returns the counts of actions, approvals and decisions in the log of a task. It fails with [ErrTaskNotFound].
func (s *Snapshots) Evidence(ctx context.Context, taskID string) (*pb.EvidenceSnapshot, error) {
	response, err := unary(ctx, s.client.channel, s.service.GetEvidence, &pb.GetEvidenceRequest{TaskId: taskID})
	return response.GetSnapshot(), err
}
