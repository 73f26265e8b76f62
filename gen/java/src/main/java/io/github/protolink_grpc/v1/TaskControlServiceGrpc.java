package io.github.protolink_grpc.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * TaskControlService controls single tasks. AgentService sends, reads and cancels them.
 * A task belongs to the principal that created it; for every other principal it does not exist. Each method returns the task after
 * the call. Size limits and errors are those of AgentService.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class TaskControlServiceGrpc {

  private TaskControlServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "plgrpc.v1.TaskControlService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CreateTaskRequest,
      io.github.protolink_grpc.v1.CreateTaskResponse> getCreateTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateTask",
      requestType = io.github.protolink_grpc.v1.CreateTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.CreateTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CreateTaskRequest,
      io.github.protolink_grpc.v1.CreateTaskResponse> getCreateTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CreateTaskRequest, io.github.protolink_grpc.v1.CreateTaskResponse> getCreateTaskMethod;
    if ((getCreateTaskMethod = TaskControlServiceGrpc.getCreateTaskMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getCreateTaskMethod = TaskControlServiceGrpc.getCreateTaskMethod) == null) {
          TaskControlServiceGrpc.getCreateTaskMethod = getCreateTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.CreateTaskRequest, io.github.protolink_grpc.v1.CreateTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CreateTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CreateTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("CreateTask"))
              .build();
        }
      }
    }
    return getCreateTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UpdateTaskRequest,
      io.github.protolink_grpc.v1.UpdateTaskResponse> getUpdateTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpdateTask",
      requestType = io.github.protolink_grpc.v1.UpdateTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.UpdateTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UpdateTaskRequest,
      io.github.protolink_grpc.v1.UpdateTaskResponse> getUpdateTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UpdateTaskRequest, io.github.protolink_grpc.v1.UpdateTaskResponse> getUpdateTaskMethod;
    if ((getUpdateTaskMethod = TaskControlServiceGrpc.getUpdateTaskMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getUpdateTaskMethod = TaskControlServiceGrpc.getUpdateTaskMethod) == null) {
          TaskControlServiceGrpc.getUpdateTaskMethod = getUpdateTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.UpdateTaskRequest, io.github.protolink_grpc.v1.UpdateTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpdateTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.UpdateTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.UpdateTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("UpdateTask"))
              .build();
        }
      }
    }
    return getUpdateTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StartTaskRequest,
      io.github.protolink_grpc.v1.StartTaskResponse> getStartTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "StartTask",
      requestType = io.github.protolink_grpc.v1.StartTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.StartTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StartTaskRequest,
      io.github.protolink_grpc.v1.StartTaskResponse> getStartTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StartTaskRequest, io.github.protolink_grpc.v1.StartTaskResponse> getStartTaskMethod;
    if ((getStartTaskMethod = TaskControlServiceGrpc.getStartTaskMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getStartTaskMethod = TaskControlServiceGrpc.getStartTaskMethod) == null) {
          TaskControlServiceGrpc.getStartTaskMethod = getStartTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.StartTaskRequest, io.github.protolink_grpc.v1.StartTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "StartTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.StartTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.StartTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("StartTask"))
              .build();
        }
      }
    }
    return getStartTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.AppendTaskProgressRequest,
      io.github.protolink_grpc.v1.AppendTaskProgressResponse> getAppendTaskProgressMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "AppendTaskProgress",
      requestType = io.github.protolink_grpc.v1.AppendTaskProgressRequest.class,
      responseType = io.github.protolink_grpc.v1.AppendTaskProgressResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.AppendTaskProgressRequest,
      io.github.protolink_grpc.v1.AppendTaskProgressResponse> getAppendTaskProgressMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.AppendTaskProgressRequest, io.github.protolink_grpc.v1.AppendTaskProgressResponse> getAppendTaskProgressMethod;
    if ((getAppendTaskProgressMethod = TaskControlServiceGrpc.getAppendTaskProgressMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getAppendTaskProgressMethod = TaskControlServiceGrpc.getAppendTaskProgressMethod) == null) {
          TaskControlServiceGrpc.getAppendTaskProgressMethod = getAppendTaskProgressMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.AppendTaskProgressRequest, io.github.protolink_grpc.v1.AppendTaskProgressResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "AppendTaskProgress"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.AppendTaskProgressRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.AppendTaskProgressResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("AppendTaskProgress"))
              .build();
        }
      }
    }
    return getAppendTaskProgressMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.PauseTaskRequest,
      io.github.protolink_grpc.v1.PauseTaskResponse> getPauseTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PauseTask",
      requestType = io.github.protolink_grpc.v1.PauseTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.PauseTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.PauseTaskRequest,
      io.github.protolink_grpc.v1.PauseTaskResponse> getPauseTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.PauseTaskRequest, io.github.protolink_grpc.v1.PauseTaskResponse> getPauseTaskMethod;
    if ((getPauseTaskMethod = TaskControlServiceGrpc.getPauseTaskMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getPauseTaskMethod = TaskControlServiceGrpc.getPauseTaskMethod) == null) {
          TaskControlServiceGrpc.getPauseTaskMethod = getPauseTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.PauseTaskRequest, io.github.protolink_grpc.v1.PauseTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PauseTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.PauseTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.PauseTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("PauseTask"))
              .build();
        }
      }
    }
    return getPauseTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ResumeTaskRequest,
      io.github.protolink_grpc.v1.ResumeTaskResponse> getResumeTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResumeTask",
      requestType = io.github.protolink_grpc.v1.ResumeTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.ResumeTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ResumeTaskRequest,
      io.github.protolink_grpc.v1.ResumeTaskResponse> getResumeTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ResumeTaskRequest, io.github.protolink_grpc.v1.ResumeTaskResponse> getResumeTaskMethod;
    if ((getResumeTaskMethod = TaskControlServiceGrpc.getResumeTaskMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getResumeTaskMethod = TaskControlServiceGrpc.getResumeTaskMethod) == null) {
          TaskControlServiceGrpc.getResumeTaskMethod = getResumeTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.ResumeTaskRequest, io.github.protolink_grpc.v1.ResumeTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResumeTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ResumeTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ResumeTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("ResumeTask"))
              .build();
        }
      }
    }
    return getResumeTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RetryTaskRequest,
      io.github.protolink_grpc.v1.RetryTaskResponse> getRetryTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RetryTask",
      requestType = io.github.protolink_grpc.v1.RetryTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.RetryTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RetryTaskRequest,
      io.github.protolink_grpc.v1.RetryTaskResponse> getRetryTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RetryTaskRequest, io.github.protolink_grpc.v1.RetryTaskResponse> getRetryTaskMethod;
    if ((getRetryTaskMethod = TaskControlServiceGrpc.getRetryTaskMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getRetryTaskMethod = TaskControlServiceGrpc.getRetryTaskMethod) == null) {
          TaskControlServiceGrpc.getRetryTaskMethod = getRetryTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.RetryTaskRequest, io.github.protolink_grpc.v1.RetryTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RetryTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RetryTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RetryTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("RetryTask"))
              .build();
        }
      }
    }
    return getRetryTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CompleteTaskRequest,
      io.github.protolink_grpc.v1.CompleteTaskResponse> getCompleteTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CompleteTask",
      requestType = io.github.protolink_grpc.v1.CompleteTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.CompleteTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CompleteTaskRequest,
      io.github.protolink_grpc.v1.CompleteTaskResponse> getCompleteTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CompleteTaskRequest, io.github.protolink_grpc.v1.CompleteTaskResponse> getCompleteTaskMethod;
    if ((getCompleteTaskMethod = TaskControlServiceGrpc.getCompleteTaskMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getCompleteTaskMethod = TaskControlServiceGrpc.getCompleteTaskMethod) == null) {
          TaskControlServiceGrpc.getCompleteTaskMethod = getCompleteTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.CompleteTaskRequest, io.github.protolink_grpc.v1.CompleteTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CompleteTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CompleteTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CompleteTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("CompleteTask"))
              .build();
        }
      }
    }
    return getCompleteTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.FailTaskRequest,
      io.github.protolink_grpc.v1.FailTaskResponse> getFailTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "FailTask",
      requestType = io.github.protolink_grpc.v1.FailTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.FailTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.FailTaskRequest,
      io.github.protolink_grpc.v1.FailTaskResponse> getFailTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.FailTaskRequest, io.github.protolink_grpc.v1.FailTaskResponse> getFailTaskMethod;
    if ((getFailTaskMethod = TaskControlServiceGrpc.getFailTaskMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getFailTaskMethod = TaskControlServiceGrpc.getFailTaskMethod) == null) {
          TaskControlServiceGrpc.getFailTaskMethod = getFailTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.FailTaskRequest, io.github.protolink_grpc.v1.FailTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "FailTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.FailTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.FailTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("FailTask"))
              .build();
        }
      }
    }
    return getFailTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.LinkTasksRequest,
      io.github.protolink_grpc.v1.LinkTasksResponse> getLinkTasksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "LinkTasks",
      requestType = io.github.protolink_grpc.v1.LinkTasksRequest.class,
      responseType = io.github.protolink_grpc.v1.LinkTasksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.LinkTasksRequest,
      io.github.protolink_grpc.v1.LinkTasksResponse> getLinkTasksMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.LinkTasksRequest, io.github.protolink_grpc.v1.LinkTasksResponse> getLinkTasksMethod;
    if ((getLinkTasksMethod = TaskControlServiceGrpc.getLinkTasksMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getLinkTasksMethod = TaskControlServiceGrpc.getLinkTasksMethod) == null) {
          TaskControlServiceGrpc.getLinkTasksMethod = getLinkTasksMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.LinkTasksRequest, io.github.protolink_grpc.v1.LinkTasksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "LinkTasks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.LinkTasksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.LinkTasksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("LinkTasks"))
              .build();
        }
      }
    }
    return getLinkTasksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UnlinkTasksRequest,
      io.github.protolink_grpc.v1.UnlinkTasksResponse> getUnlinkTasksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UnlinkTasks",
      requestType = io.github.protolink_grpc.v1.UnlinkTasksRequest.class,
      responseType = io.github.protolink_grpc.v1.UnlinkTasksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UnlinkTasksRequest,
      io.github.protolink_grpc.v1.UnlinkTasksResponse> getUnlinkTasksMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UnlinkTasksRequest, io.github.protolink_grpc.v1.UnlinkTasksResponse> getUnlinkTasksMethod;
    if ((getUnlinkTasksMethod = TaskControlServiceGrpc.getUnlinkTasksMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getUnlinkTasksMethod = TaskControlServiceGrpc.getUnlinkTasksMethod) == null) {
          TaskControlServiceGrpc.getUnlinkTasksMethod = getUnlinkTasksMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.UnlinkTasksRequest, io.github.protolink_grpc.v1.UnlinkTasksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UnlinkTasks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.UnlinkTasksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.UnlinkTasksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("UnlinkTasks"))
              .build();
        }
      }
    }
    return getUnlinkTasksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetTaskSnapshotRequest,
      io.github.protolink_grpc.v1.GetTaskSnapshotResponse> getGetTaskSnapshotMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetTaskSnapshot",
      requestType = io.github.protolink_grpc.v1.GetTaskSnapshotRequest.class,
      responseType = io.github.protolink_grpc.v1.GetTaskSnapshotResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetTaskSnapshotRequest,
      io.github.protolink_grpc.v1.GetTaskSnapshotResponse> getGetTaskSnapshotMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetTaskSnapshotRequest, io.github.protolink_grpc.v1.GetTaskSnapshotResponse> getGetTaskSnapshotMethod;
    if ((getGetTaskSnapshotMethod = TaskControlServiceGrpc.getGetTaskSnapshotMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getGetTaskSnapshotMethod = TaskControlServiceGrpc.getGetTaskSnapshotMethod) == null) {
          TaskControlServiceGrpc.getGetTaskSnapshotMethod = getGetTaskSnapshotMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetTaskSnapshotRequest, io.github.protolink_grpc.v1.GetTaskSnapshotResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetTaskSnapshot"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetTaskSnapshotRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetTaskSnapshotResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("GetTaskSnapshot"))
              .build();
        }
      }
    }
    return getGetTaskSnapshotMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListTaskSnapshotsRequest,
      io.github.protolink_grpc.v1.ListTaskSnapshotsResponse> getListTaskSnapshotsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTaskSnapshots",
      requestType = io.github.protolink_grpc.v1.ListTaskSnapshotsRequest.class,
      responseType = io.github.protolink_grpc.v1.ListTaskSnapshotsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListTaskSnapshotsRequest,
      io.github.protolink_grpc.v1.ListTaskSnapshotsResponse> getListTaskSnapshotsMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListTaskSnapshotsRequest, io.github.protolink_grpc.v1.ListTaskSnapshotsResponse> getListTaskSnapshotsMethod;
    if ((getListTaskSnapshotsMethod = TaskControlServiceGrpc.getListTaskSnapshotsMethod) == null) {
      synchronized (TaskControlServiceGrpc.class) {
        if ((getListTaskSnapshotsMethod = TaskControlServiceGrpc.getListTaskSnapshotsMethod) == null) {
          TaskControlServiceGrpc.getListTaskSnapshotsMethod = getListTaskSnapshotsMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.ListTaskSnapshotsRequest, io.github.protolink_grpc.v1.ListTaskSnapshotsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTaskSnapshots"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListTaskSnapshotsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListTaskSnapshotsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskControlServiceMethodDescriptorSupplier("ListTaskSnapshots"))
              .build();
        }
      }
    }
    return getListTaskSnapshotsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static TaskControlServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskControlServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskControlServiceStub>() {
        @java.lang.Override
        public TaskControlServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskControlServiceStub(channel, callOptions);
        }
      };
    return TaskControlServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static TaskControlServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskControlServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskControlServiceBlockingV2Stub>() {
        @java.lang.Override
        public TaskControlServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskControlServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return TaskControlServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static TaskControlServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskControlServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskControlServiceBlockingStub>() {
        @java.lang.Override
        public TaskControlServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskControlServiceBlockingStub(channel, callOptions);
        }
      };
    return TaskControlServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static TaskControlServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskControlServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskControlServiceFutureStub>() {
        @java.lang.Override
        public TaskControlServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskControlServiceFutureStub(channel, callOptions);
        }
      };
    return TaskControlServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * TaskControlService controls single tasks. AgentService sends, reads and cancels them.
   * A task belongs to the principal that created it; for every other principal it does not exist. Each method returns the task after
   * the call. Size limits and errors are those of AgentService.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * CreateTask creates a draft: a task that does not begin before StartTask. Repeating the call with the same `request_id` returns
     * the same task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/TASK_ALREADY_EXISTS, NOT_FOUND/TASK_NOT_FOUND (a link),
     * FAILED_PRECONDITION/LINK_CYCLE.
     * </pre>
     */
    default void createTask(io.github.protolink_grpc.v1.CreateTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CreateTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * UpdateTask changes the description or the metadata of a task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    default void updateTask(io.github.protolink_grpc.v1.UpdateTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UpdateTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUpdateTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * StartTask starts a draft. If other tasks block it, it starts when they have ended. A task that has been started is returned
     * unchanged.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    default void startTask(io.github.protolink_grpc.v1.StartTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StartTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getStartTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * AppendTaskProgress adds a progress report to a task that has not ended.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    default void appendTaskProgress(io.github.protolink_grpc.v1.AppendTaskProgressRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.AppendTaskProgressResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAppendTaskProgressMethod(), responseObserver);
    }

    /**
     * <pre>
     * PauseTask pauses a task at the next point at which its run can wait: before an action, a model call or an emitted event. While
     * it is paused, the run has no slot, and the time limits of its budget stand still. A pause survives restarts. Repeating the call
     * changes nothing.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED, FAILED_PRECONDITION/INVALID_TRANSITION (a draft, or a
     * task that waits for input).
     * </pre>
     */
    default void pauseTask(io.github.protolink_grpc.v1.PauseTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.PauseTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPauseTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * ResumeTask ends the pause of a task. A task that is not paused is returned unchanged.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    default void resumeTask(io.github.protolink_grpc.v1.ResumeTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ResumeTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResumeTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * RetryTask begins the work on an ended task again, with the same input. The earlier runs stay in its log.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/INVALID_TRANSITION (the task has not ended).
     * </pre>
     */
    default void retryTask(io.github.protolink_grpc.v1.RetryTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RetryTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRetryTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * CompleteTask ends a task with success. It is for work that is done outside of the agent: a task that a run of the agent works
     * on is refused. Repeating the call changes nothing.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_ALREADY_RUNNING,
     * FAILED_PRECONDITION/TASK_FINISHED (with another state).
     * </pre>
     */
    default void completeTask(io.github.protolink_grpc.v1.CompleteTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CompleteTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCompleteTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * FailTask ends a task with a failure, as CompleteTask does with success.
     * Errors: as CompleteTask.
     * </pre>
     */
    default void failTask(io.github.protolink_grpc.v1.FailTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.FailTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getFailTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * LinkTasks adds a link to a task. A link that exists gets the new reason.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/LINK_CYCLE,
     * FAILED_PRECONDITION/TASK_STARTED (BLOCKED_BY for a task that has started), FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    default void linkTasks(io.github.protolink_grpc.v1.LinkTasksRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.LinkTasksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getLinkTasksMethod(), responseObserver);
    }

    /**
     * <pre>
     * UnlinkTasks removes a link. Without such a link nothing changes.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    default void unlinkTasks(io.github.protolink_grpc.v1.UnlinkTasksRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UnlinkTasksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUnlinkTasksMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetTaskSnapshot returns a task with its status in detail.
     * Errors: NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    default void getTaskSnapshot(io.github.protolink_grpc.v1.GetTaskSnapshotRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetTaskSnapshotResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetTaskSnapshotMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListTaskSnapshots returns tasks with their status in detail, most recently changed first.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void listTaskSnapshots(io.github.protolink_grpc.v1.ListTaskSnapshotsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListTaskSnapshotsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListTaskSnapshotsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service TaskControlService.
   * <pre>
   * TaskControlService controls single tasks. AgentService sends, reads and cancels them.
   * A task belongs to the principal that created it; for every other principal it does not exist. Each method returns the task after
   * the call. Size limits and errors are those of AgentService.
   * </pre>
   */
  public static abstract class TaskControlServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return TaskControlServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service TaskControlService.
   * <pre>
   * TaskControlService controls single tasks. AgentService sends, reads and cancels them.
   * A task belongs to the principal that created it; for every other principal it does not exist. Each method returns the task after
   * the call. Size limits and errors are those of AgentService.
   * </pre>
   */
  public static final class TaskControlServiceStub
      extends io.grpc.stub.AbstractAsyncStub<TaskControlServiceStub> {
    private TaskControlServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskControlServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskControlServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateTask creates a draft: a task that does not begin before StartTask. Repeating the call with the same `request_id` returns
     * the same task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/TASK_ALREADY_EXISTS, NOT_FOUND/TASK_NOT_FOUND (a link),
     * FAILED_PRECONDITION/LINK_CYCLE.
     * </pre>
     */
    public void createTask(io.github.protolink_grpc.v1.CreateTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CreateTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * UpdateTask changes the description or the metadata of a task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public void updateTask(io.github.protolink_grpc.v1.UpdateTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UpdateTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUpdateTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * StartTask starts a draft. If other tasks block it, it starts when they have ended. A task that has been started is returned
     * unchanged.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public void startTask(io.github.protolink_grpc.v1.StartTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StartTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getStartTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * AppendTaskProgress adds a progress report to a task that has not ended.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public void appendTaskProgress(io.github.protolink_grpc.v1.AppendTaskProgressRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.AppendTaskProgressResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAppendTaskProgressMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * PauseTask pauses a task at the next point at which its run can wait: before an action, a model call or an emitted event. While
     * it is paused, the run has no slot, and the time limits of its budget stand still. A pause survives restarts. Repeating the call
     * changes nothing.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED, FAILED_PRECONDITION/INVALID_TRANSITION (a draft, or a
     * task that waits for input).
     * </pre>
     */
    public void pauseTask(io.github.protolink_grpc.v1.PauseTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.PauseTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPauseTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ResumeTask ends the pause of a task. A task that is not paused is returned unchanged.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public void resumeTask(io.github.protolink_grpc.v1.ResumeTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ResumeTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResumeTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RetryTask begins the work on an ended task again, with the same input. The earlier runs stay in its log.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/INVALID_TRANSITION (the task has not ended).
     * </pre>
     */
    public void retryTask(io.github.protolink_grpc.v1.RetryTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RetryTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRetryTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * CompleteTask ends a task with success. It is for work that is done outside of the agent: a task that a run of the agent works
     * on is refused. Repeating the call changes nothing.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_ALREADY_RUNNING,
     * FAILED_PRECONDITION/TASK_FINISHED (with another state).
     * </pre>
     */
    public void completeTask(io.github.protolink_grpc.v1.CompleteTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CompleteTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCompleteTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * FailTask ends a task with a failure, as CompleteTask does with success.
     * Errors: as CompleteTask.
     * </pre>
     */
    public void failTask(io.github.protolink_grpc.v1.FailTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.FailTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getFailTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * LinkTasks adds a link to a task. A link that exists gets the new reason.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/LINK_CYCLE,
     * FAILED_PRECONDITION/TASK_STARTED (BLOCKED_BY for a task that has started), FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public void linkTasks(io.github.protolink_grpc.v1.LinkTasksRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.LinkTasksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getLinkTasksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * UnlinkTasks removes a link. Without such a link nothing changes.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public void unlinkTasks(io.github.protolink_grpc.v1.UnlinkTasksRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UnlinkTasksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUnlinkTasksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetTaskSnapshot returns a task with its status in detail.
     * Errors: NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public void getTaskSnapshot(io.github.protolink_grpc.v1.GetTaskSnapshotRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetTaskSnapshotResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetTaskSnapshotMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListTaskSnapshots returns tasks with their status in detail, most recently changed first.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void listTaskSnapshots(io.github.protolink_grpc.v1.ListTaskSnapshotsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListTaskSnapshotsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListTaskSnapshotsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service TaskControlService.
   * <pre>
   * TaskControlService controls single tasks. AgentService sends, reads and cancels them.
   * A task belongs to the principal that created it; for every other principal it does not exist. Each method returns the task after
   * the call. Size limits and errors are those of AgentService.
   * </pre>
   */
  public static final class TaskControlServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<TaskControlServiceBlockingV2Stub> {
    private TaskControlServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskControlServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskControlServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateTask creates a draft: a task that does not begin before StartTask. Repeating the call with the same `request_id` returns
     * the same task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/TASK_ALREADY_EXISTS, NOT_FOUND/TASK_NOT_FOUND (a link),
     * FAILED_PRECONDITION/LINK_CYCLE.
     * </pre>
     */
    public io.github.protolink_grpc.v1.CreateTaskResponse createTask(io.github.protolink_grpc.v1.CreateTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * UpdateTask changes the description or the metadata of a task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.UpdateTaskResponse updateTask(io.github.protolink_grpc.v1.UpdateTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUpdateTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * StartTask starts a draft. If other tasks block it, it starts when they have ended. A task that has been started is returned
     * unchanged.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.StartTaskResponse startTask(io.github.protolink_grpc.v1.StartTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getStartTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * AppendTaskProgress adds a progress report to a task that has not ended.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.AppendTaskProgressResponse appendTaskProgress(io.github.protolink_grpc.v1.AppendTaskProgressRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getAppendTaskProgressMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * PauseTask pauses a task at the next point at which its run can wait: before an action, a model call or an emitted event. While
     * it is paused, the run has no slot, and the time limits of its budget stand still. A pause survives restarts. Repeating the call
     * changes nothing.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED, FAILED_PRECONDITION/INVALID_TRANSITION (a draft, or a
     * task that waits for input).
     * </pre>
     */
    public io.github.protolink_grpc.v1.PauseTaskResponse pauseTask(io.github.protolink_grpc.v1.PauseTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getPauseTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResumeTask ends the pause of a task. A task that is not paused is returned unchanged.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ResumeTaskResponse resumeTask(io.github.protolink_grpc.v1.ResumeTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResumeTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RetryTask begins the work on an ended task again, with the same input. The earlier runs stay in its log.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/INVALID_TRANSITION (the task has not ended).
     * </pre>
     */
    public io.github.protolink_grpc.v1.RetryTaskResponse retryTask(io.github.protolink_grpc.v1.RetryTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRetryTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CompleteTask ends a task with success. It is for work that is done outside of the agent: a task that a run of the agent works
     * on is refused. Repeating the call changes nothing.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_ALREADY_RUNNING,
     * FAILED_PRECONDITION/TASK_FINISHED (with another state).
     * </pre>
     */
    public io.github.protolink_grpc.v1.CompleteTaskResponse completeTask(io.github.protolink_grpc.v1.CompleteTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCompleteTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * FailTask ends a task with a failure, as CompleteTask does with success.
     * Errors: as CompleteTask.
     * </pre>
     */
    public io.github.protolink_grpc.v1.FailTaskResponse failTask(io.github.protolink_grpc.v1.FailTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getFailTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * LinkTasks adds a link to a task. A link that exists gets the new reason.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/LINK_CYCLE,
     * FAILED_PRECONDITION/TASK_STARTED (BLOCKED_BY for a task that has started), FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.LinkTasksResponse linkTasks(io.github.protolink_grpc.v1.LinkTasksRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getLinkTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * UnlinkTasks removes a link. Without such a link nothing changes.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.UnlinkTasksResponse unlinkTasks(io.github.protolink_grpc.v1.UnlinkTasksRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUnlinkTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetTaskSnapshot returns a task with its status in detail.
     * Errors: NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetTaskSnapshotResponse getTaskSnapshot(io.github.protolink_grpc.v1.GetTaskSnapshotRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetTaskSnapshotMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListTaskSnapshots returns tasks with their status in detail, most recently changed first.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListTaskSnapshotsResponse listTaskSnapshots(io.github.protolink_grpc.v1.ListTaskSnapshotsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListTaskSnapshotsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service TaskControlService.
   * <pre>
   * TaskControlService controls single tasks. AgentService sends, reads and cancels them.
   * A task belongs to the principal that created it; for every other principal it does not exist. Each method returns the task after
   * the call. Size limits and errors are those of AgentService.
   * </pre>
   */
  public static final class TaskControlServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<TaskControlServiceBlockingStub> {
    private TaskControlServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskControlServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskControlServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateTask creates a draft: a task that does not begin before StartTask. Repeating the call with the same `request_id` returns
     * the same task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/TASK_ALREADY_EXISTS, NOT_FOUND/TASK_NOT_FOUND (a link),
     * FAILED_PRECONDITION/LINK_CYCLE.
     * </pre>
     */
    public io.github.protolink_grpc.v1.CreateTaskResponse createTask(io.github.protolink_grpc.v1.CreateTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * UpdateTask changes the description or the metadata of a task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.UpdateTaskResponse updateTask(io.github.protolink_grpc.v1.UpdateTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUpdateTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * StartTask starts a draft. If other tasks block it, it starts when they have ended. A task that has been started is returned
     * unchanged.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.StartTaskResponse startTask(io.github.protolink_grpc.v1.StartTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getStartTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * AppendTaskProgress adds a progress report to a task that has not ended.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.AppendTaskProgressResponse appendTaskProgress(io.github.protolink_grpc.v1.AppendTaskProgressRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAppendTaskProgressMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * PauseTask pauses a task at the next point at which its run can wait: before an action, a model call or an emitted event. While
     * it is paused, the run has no slot, and the time limits of its budget stand still. A pause survives restarts. Repeating the call
     * changes nothing.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED, FAILED_PRECONDITION/INVALID_TRANSITION (a draft, or a
     * task that waits for input).
     * </pre>
     */
    public io.github.protolink_grpc.v1.PauseTaskResponse pauseTask(io.github.protolink_grpc.v1.PauseTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPauseTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResumeTask ends the pause of a task. A task that is not paused is returned unchanged.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ResumeTaskResponse resumeTask(io.github.protolink_grpc.v1.ResumeTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResumeTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RetryTask begins the work on an ended task again, with the same input. The earlier runs stay in its log.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/INVALID_TRANSITION (the task has not ended).
     * </pre>
     */
    public io.github.protolink_grpc.v1.RetryTaskResponse retryTask(io.github.protolink_grpc.v1.RetryTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRetryTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CompleteTask ends a task with success. It is for work that is done outside of the agent: a task that a run of the agent works
     * on is refused. Repeating the call changes nothing.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_ALREADY_RUNNING,
     * FAILED_PRECONDITION/TASK_FINISHED (with another state).
     * </pre>
     */
    public io.github.protolink_grpc.v1.CompleteTaskResponse completeTask(io.github.protolink_grpc.v1.CompleteTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCompleteTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * FailTask ends a task with a failure, as CompleteTask does with success.
     * Errors: as CompleteTask.
     * </pre>
     */
    public io.github.protolink_grpc.v1.FailTaskResponse failTask(io.github.protolink_grpc.v1.FailTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getFailTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * LinkTasks adds a link to a task. A link that exists gets the new reason.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/LINK_CYCLE,
     * FAILED_PRECONDITION/TASK_STARTED (BLOCKED_BY for a task that has started), FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.LinkTasksResponse linkTasks(io.github.protolink_grpc.v1.LinkTasksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getLinkTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * UnlinkTasks removes a link. Without such a link nothing changes.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.UnlinkTasksResponse unlinkTasks(io.github.protolink_grpc.v1.UnlinkTasksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUnlinkTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetTaskSnapshot returns a task with its status in detail.
     * Errors: NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetTaskSnapshotResponse getTaskSnapshot(io.github.protolink_grpc.v1.GetTaskSnapshotRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetTaskSnapshotMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListTaskSnapshots returns tasks with their status in detail, most recently changed first.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListTaskSnapshotsResponse listTaskSnapshots(io.github.protolink_grpc.v1.ListTaskSnapshotsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListTaskSnapshotsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service TaskControlService.
   * <pre>
   * TaskControlService controls single tasks. AgentService sends, reads and cancels them.
   * A task belongs to the principal that created it; for every other principal it does not exist. Each method returns the task after
   * the call. Size limits and errors are those of AgentService.
   * </pre>
   */
  public static final class TaskControlServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<TaskControlServiceFutureStub> {
    private TaskControlServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskControlServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskControlServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateTask creates a draft: a task that does not begin before StartTask. Repeating the call with the same `request_id` returns
     * the same task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/TASK_ALREADY_EXISTS, NOT_FOUND/TASK_NOT_FOUND (a link),
     * FAILED_PRECONDITION/LINK_CYCLE.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.CreateTaskResponse> createTask(
        io.github.protolink_grpc.v1.CreateTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * UpdateTask changes the description or the metadata of a task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.UpdateTaskResponse> updateTask(
        io.github.protolink_grpc.v1.UpdateTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUpdateTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * StartTask starts a draft. If other tasks block it, it starts when they have ended. A task that has been started is returned
     * unchanged.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.StartTaskResponse> startTask(
        io.github.protolink_grpc.v1.StartTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getStartTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * AppendTaskProgress adds a progress report to a task that has not ended.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.AppendTaskProgressResponse> appendTaskProgress(
        io.github.protolink_grpc.v1.AppendTaskProgressRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAppendTaskProgressMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * PauseTask pauses a task at the next point at which its run can wait: before an action, a model call or an emitted event. While
     * it is paused, the run has no slot, and the time limits of its budget stand still. A pause survives restarts. Repeating the call
     * changes nothing.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED, FAILED_PRECONDITION/INVALID_TRANSITION (a draft, or a
     * task that waits for input).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.PauseTaskResponse> pauseTask(
        io.github.protolink_grpc.v1.PauseTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPauseTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ResumeTask ends the pause of a task. A task that is not paused is returned unchanged.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.ResumeTaskResponse> resumeTask(
        io.github.protolink_grpc.v1.ResumeTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResumeTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RetryTask begins the work on an ended task again, with the same input. The earlier runs stay in its log.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/INVALID_TRANSITION (the task has not ended).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.RetryTaskResponse> retryTask(
        io.github.protolink_grpc.v1.RetryTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRetryTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * CompleteTask ends a task with success. It is for work that is done outside of the agent: a task that a run of the agent works
     * on is refused. Repeating the call changes nothing.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_ALREADY_RUNNING,
     * FAILED_PRECONDITION/TASK_FINISHED (with another state).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.CompleteTaskResponse> completeTask(
        io.github.protolink_grpc.v1.CompleteTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCompleteTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * FailTask ends a task with a failure, as CompleteTask does with success.
     * Errors: as CompleteTask.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.FailTaskResponse> failTask(
        io.github.protolink_grpc.v1.FailTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getFailTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * LinkTasks adds a link to a task. A link that exists gets the new reason.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/LINK_CYCLE,
     * FAILED_PRECONDITION/TASK_STARTED (BLOCKED_BY for a task that has started), FAILED_PRECONDITION/TASK_FINISHED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.LinkTasksResponse> linkTasks(
        io.github.protolink_grpc.v1.LinkTasksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getLinkTasksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * UnlinkTasks removes a link. Without such a link nothing changes.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.UnlinkTasksResponse> unlinkTasks(
        io.github.protolink_grpc.v1.UnlinkTasksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUnlinkTasksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetTaskSnapshot returns a task with its status in detail.
     * Errors: NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetTaskSnapshotResponse> getTaskSnapshot(
        io.github.protolink_grpc.v1.GetTaskSnapshotRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetTaskSnapshotMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListTaskSnapshots returns tasks with their status in detail, most recently changed first.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.ListTaskSnapshotsResponse> listTaskSnapshots(
        io.github.protolink_grpc.v1.ListTaskSnapshotsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListTaskSnapshotsMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_TASK = 0;
  private static final int METHODID_UPDATE_TASK = 1;
  private static final int METHODID_START_TASK = 2;
  private static final int METHODID_APPEND_TASK_PROGRESS = 3;
  private static final int METHODID_PAUSE_TASK = 4;
  private static final int METHODID_RESUME_TASK = 5;
  private static final int METHODID_RETRY_TASK = 6;
  private static final int METHODID_COMPLETE_TASK = 7;
  private static final int METHODID_FAIL_TASK = 8;
  private static final int METHODID_LINK_TASKS = 9;
  private static final int METHODID_UNLINK_TASKS = 10;
  private static final int METHODID_GET_TASK_SNAPSHOT = 11;
  private static final int METHODID_LIST_TASK_SNAPSHOTS = 12;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_CREATE_TASK:
          serviceImpl.createTask((io.github.protolink_grpc.v1.CreateTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CreateTaskResponse>) responseObserver);
          break;
        case METHODID_UPDATE_TASK:
          serviceImpl.updateTask((io.github.protolink_grpc.v1.UpdateTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UpdateTaskResponse>) responseObserver);
          break;
        case METHODID_START_TASK:
          serviceImpl.startTask((io.github.protolink_grpc.v1.StartTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StartTaskResponse>) responseObserver);
          break;
        case METHODID_APPEND_TASK_PROGRESS:
          serviceImpl.appendTaskProgress((io.github.protolink_grpc.v1.AppendTaskProgressRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.AppendTaskProgressResponse>) responseObserver);
          break;
        case METHODID_PAUSE_TASK:
          serviceImpl.pauseTask((io.github.protolink_grpc.v1.PauseTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.PauseTaskResponse>) responseObserver);
          break;
        case METHODID_RESUME_TASK:
          serviceImpl.resumeTask((io.github.protolink_grpc.v1.ResumeTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ResumeTaskResponse>) responseObserver);
          break;
        case METHODID_RETRY_TASK:
          serviceImpl.retryTask((io.github.protolink_grpc.v1.RetryTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RetryTaskResponse>) responseObserver);
          break;
        case METHODID_COMPLETE_TASK:
          serviceImpl.completeTask((io.github.protolink_grpc.v1.CompleteTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CompleteTaskResponse>) responseObserver);
          break;
        case METHODID_FAIL_TASK:
          serviceImpl.failTask((io.github.protolink_grpc.v1.FailTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.FailTaskResponse>) responseObserver);
          break;
        case METHODID_LINK_TASKS:
          serviceImpl.linkTasks((io.github.protolink_grpc.v1.LinkTasksRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.LinkTasksResponse>) responseObserver);
          break;
        case METHODID_UNLINK_TASKS:
          serviceImpl.unlinkTasks((io.github.protolink_grpc.v1.UnlinkTasksRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UnlinkTasksResponse>) responseObserver);
          break;
        case METHODID_GET_TASK_SNAPSHOT:
          serviceImpl.getTaskSnapshot((io.github.protolink_grpc.v1.GetTaskSnapshotRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetTaskSnapshotResponse>) responseObserver);
          break;
        case METHODID_LIST_TASK_SNAPSHOTS:
          serviceImpl.listTaskSnapshots((io.github.protolink_grpc.v1.ListTaskSnapshotsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListTaskSnapshotsResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getCreateTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.CreateTaskRequest,
              io.github.protolink_grpc.v1.CreateTaskResponse>(
                service, METHODID_CREATE_TASK)))
        .addMethod(
          getUpdateTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.UpdateTaskRequest,
              io.github.protolink_grpc.v1.UpdateTaskResponse>(
                service, METHODID_UPDATE_TASK)))
        .addMethod(
          getStartTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.StartTaskRequest,
              io.github.protolink_grpc.v1.StartTaskResponse>(
                service, METHODID_START_TASK)))
        .addMethod(
          getAppendTaskProgressMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.AppendTaskProgressRequest,
              io.github.protolink_grpc.v1.AppendTaskProgressResponse>(
                service, METHODID_APPEND_TASK_PROGRESS)))
        .addMethod(
          getPauseTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.PauseTaskRequest,
              io.github.protolink_grpc.v1.PauseTaskResponse>(
                service, METHODID_PAUSE_TASK)))
        .addMethod(
          getResumeTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.ResumeTaskRequest,
              io.github.protolink_grpc.v1.ResumeTaskResponse>(
                service, METHODID_RESUME_TASK)))
        .addMethod(
          getRetryTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.RetryTaskRequest,
              io.github.protolink_grpc.v1.RetryTaskResponse>(
                service, METHODID_RETRY_TASK)))
        .addMethod(
          getCompleteTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.CompleteTaskRequest,
              io.github.protolink_grpc.v1.CompleteTaskResponse>(
                service, METHODID_COMPLETE_TASK)))
        .addMethod(
          getFailTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.FailTaskRequest,
              io.github.protolink_grpc.v1.FailTaskResponse>(
                service, METHODID_FAIL_TASK)))
        .addMethod(
          getLinkTasksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.LinkTasksRequest,
              io.github.protolink_grpc.v1.LinkTasksResponse>(
                service, METHODID_LINK_TASKS)))
        .addMethod(
          getUnlinkTasksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.UnlinkTasksRequest,
              io.github.protolink_grpc.v1.UnlinkTasksResponse>(
                service, METHODID_UNLINK_TASKS)))
        .addMethod(
          getGetTaskSnapshotMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetTaskSnapshotRequest,
              io.github.protolink_grpc.v1.GetTaskSnapshotResponse>(
                service, METHODID_GET_TASK_SNAPSHOT)))
        .addMethod(
          getListTaskSnapshotsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.ListTaskSnapshotsRequest,
              io.github.protolink_grpc.v1.ListTaskSnapshotsResponse>(
                service, METHODID_LIST_TASK_SNAPSHOTS)))
        .build();
  }

  private static abstract class TaskControlServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    TaskControlServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.protolink_grpc.v1.TaskControlServiceOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("TaskControlService");
    }
  }

  private static final class TaskControlServiceFileDescriptorSupplier
      extends TaskControlServiceBaseDescriptorSupplier {
    TaskControlServiceFileDescriptorSupplier() {}
  }

  private static final class TaskControlServiceMethodDescriptorSupplier
      extends TaskControlServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    TaskControlServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (TaskControlServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new TaskControlServiceFileDescriptorSupplier())
              .addMethod(getCreateTaskMethod())
              .addMethod(getUpdateTaskMethod())
              .addMethod(getStartTaskMethod())
              .addMethod(getAppendTaskProgressMethod())
              .addMethod(getPauseTaskMethod())
              .addMethod(getResumeTaskMethod())
              .addMethod(getRetryTaskMethod())
              .addMethod(getCompleteTaskMethod())
              .addMethod(getFailTaskMethod())
              .addMethod(getLinkTasksMethod())
              .addMethod(getUnlinkTasksMethod())
              .addMethod(getGetTaskSnapshotMethod())
              .addMethod(getListTaskSnapshotsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
