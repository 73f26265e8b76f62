package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.ArtifactsSnapshot;
import io.github.protolink_grpc.v1.ContextBoundarySnapshot;
import io.github.protolink_grpc.v1.EvidenceSnapshot;
import io.github.protolink_grpc.v1.GetArtifactsRequest;
import io.github.protolink_grpc.v1.GetArtifactsResponse;
import io.github.protolink_grpc.v1.GetContextBoundaryRequest;
import io.github.protolink_grpc.v1.GetContextBoundaryResponse;
import io.github.protolink_grpc.v1.GetEvidenceRequest;
import io.github.protolink_grpc.v1.GetEvidenceResponse;
import io.github.protolink_grpc.v1.GetQueueSnapshotRequest;
import io.github.protolink_grpc.v1.GetQueueSnapshotResponse;
import io.github.protolink_grpc.v1.GetSessionSnapshotRequest;
import io.github.protolink_grpc.v1.GetSessionSnapshotResponse;
import io.github.protolink_grpc.v1.GetThreadSnapshotRequest;
import io.github.protolink_grpc.v1.GetThreadSnapshotResponse;
import io.github.protolink_grpc.v1.GetToolInventoryRequest;
import io.github.protolink_grpc.v1.GetToolInventoryResponse;
import io.github.protolink_grpc.v1.QueueSnapshot;
import io.github.protolink_grpc.v1.SessionSnapshot;
import io.github.protolink_grpc.v1.SnapshotServiceGrpc;
import io.github.protolink_grpc.v1.ThreadSnapshot;
import io.github.protolink_grpc.v1.ToolInventorySnapshot;

/**
 * What the sessions, threads and tasks of the caller are now: {@link ProtolinkClient#snapshots}.
 * Each snapshot names the position or sequence that it reflects: a stream that starts there misses
 * nothing. A part without a value is in its gaps. {@link TaskCalls#get} returns the snapshot of a
 * task.
 *
 * <p>Every method throws {@link ProtolinkException}, and repeats calls as {@link ProtolinkClient}
 * does. Agents of other systems have no snapshots: {@link Reason#UNIMPLEMENTED}.
 */
public final class Snapshots {

  private final Connection connection;

  Snapshots(Connection connection) {
    this.connection = connection;
  }

  /**
   * A session with its threads.
   *
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND}
   */
  public SessionSnapshot session(String sessionId) {
    return connection.ask(
        SnapshotServiceGrpc.getGetSessionSnapshotMethod(),
        GetSessionSnapshotRequest.newBuilder().setSessionId(sessionId).build(),
        "",
        GetSessionSnapshotResponse::getSnapshot);
  }

  /**
   * A thread with its turns and open tasks.
   *
   * @param threadId empty means {@code default}
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND} or {@link
   *     Reason#THREAD_NOT_FOUND}
   */
  public ThreadSnapshot thread(String sessionId, String threadId) {
    return connection.ask(
        SnapshotServiceGrpc.getGetThreadSnapshotMethod(),
        GetThreadSnapshotRequest.newBuilder()
            .setSessionId(sessionId)
            .setThreadId(threadId)
            .build(),
        "",
        GetThreadSnapshotResponse::getSnapshot);
  }

  /**
   * The queues of a session, or of one thread.
   *
   * @param threadId empty means all threads
   * @throws ProtolinkException with {@link Reason#SESSION_NOT_FOUND} or {@link
   *     Reason#THREAD_NOT_FOUND}
   */
  public QueueSnapshot queue(String sessionId, String threadId) {
    return connection.ask(
        SnapshotServiceGrpc.getGetQueueSnapshotMethod(),
        GetQueueSnapshotRequest.newBuilder().setSessionId(sessionId).setThreadId(threadId).build(),
        "",
        GetQueueSnapshotResponse::getSnapshot);
  }

  /** The tools that the caller can use now, with the effect of the agent's policy. */
  public ToolInventorySnapshot tools() {
    return connection.ask(
        SnapshotServiceGrpc.getGetToolInventoryMethod(),
        GetToolInventoryRequest.getDefaultInstance(),
        "",
        GetToolInventoryResponse::getSnapshot);
  }

  /**
   * The context of the latest model call of a task.
   *
   * @throws ProtolinkException with {@link Reason#TASK_NOT_FOUND}
   */
  public ContextBoundarySnapshot context(String taskId) {
    return connection.ask(
        SnapshotServiceGrpc.getGetContextBoundaryMethod(),
        GetContextBoundaryRequest.newBuilder().setTaskId(taskId).build(),
        taskId,
        GetContextBoundaryResponse::getSnapshot);
  }

  /**
   * The artifacts of a task without their content.
   *
   * @throws ProtolinkException with {@link Reason#TASK_NOT_FOUND}
   */
  public ArtifactsSnapshot artifacts(String taskId) {
    return connection.ask(
        SnapshotServiceGrpc.getGetArtifactsMethod(),
        GetArtifactsRequest.newBuilder().setTaskId(taskId).build(),
        taskId,
        GetArtifactsResponse::getSnapshot);
  }

  /**
   * The counts of actions, approvals and decisions in the log of a task.
   *
   * @throws ProtolinkException with {@link Reason#TASK_NOT_FOUND}
   */
  public EvidenceSnapshot evidence(String taskId) {
    return connection.ask(
        SnapshotServiceGrpc.getGetEvidenceMethod(),
        GetEvidenceRequest.newBuilder().setTaskId(taskId).build(),
        taskId,
        GetEvidenceResponse::getSnapshot);
  }
}
