package io.github.protolink_grpc.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * AgentService accepts tasks, runs them, and returns or streams their state and events.
 * Every error carries `google.rpc.ErrorInfo` with a reason in domain `protolink-grpc.github.io`. All methods may also fail with
 * UNAUTHENTICATED/UNAUTHENTICATED, PERMISSION_DENIED/PERMISSION_DENIED, DEADLINE_EXCEEDED/DEADLINE_EXCEEDED, INTERNAL/INTERNAL and
 * UNAVAILABLE/UNAVAILABLE. Methods that read a log of a later version fail with FAILED_PRECONDITION/LOG_TOO_NEW. A task belongs to
 * the principal that sent it; for every other principal it does not exist.
 * Requests are at most 4 MiB. Responses of methods without a stream are smaller than 4 MiB, the default limit of gRPC for received
 * messages. A larger task is returned in parts: each response has the newest messages and artifacts, up to about 3 MiB (see
 * GetTaskRequest).
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class AgentServiceGrpc {

  private AgentServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "plgrpc.v1.AgentService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetAgentCardRequest,
      io.github.protolink_grpc.v1.GetAgentCardResponse> getGetAgentCardMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetAgentCard",
      requestType = io.github.protolink_grpc.v1.GetAgentCardRequest.class,
      responseType = io.github.protolink_grpc.v1.GetAgentCardResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetAgentCardRequest,
      io.github.protolink_grpc.v1.GetAgentCardResponse> getGetAgentCardMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetAgentCardRequest, io.github.protolink_grpc.v1.GetAgentCardResponse> getGetAgentCardMethod;
    if ((getGetAgentCardMethod = AgentServiceGrpc.getGetAgentCardMethod) == null) {
      synchronized (AgentServiceGrpc.class) {
        if ((getGetAgentCardMethod = AgentServiceGrpc.getGetAgentCardMethod) == null) {
          AgentServiceGrpc.getGetAgentCardMethod = getGetAgentCardMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetAgentCardRequest, io.github.protolink_grpc.v1.GetAgentCardResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetAgentCard"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetAgentCardRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetAgentCardResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AgentServiceMethodDescriptorSupplier("GetAgentCard"))
              .build();
        }
      }
    }
    return getGetAgentCardMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SendTaskRequest,
      io.github.protolink_grpc.v1.SendTaskResponse> getSendTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SendTask",
      requestType = io.github.protolink_grpc.v1.SendTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.SendTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SendTaskRequest,
      io.github.protolink_grpc.v1.SendTaskResponse> getSendTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SendTaskRequest, io.github.protolink_grpc.v1.SendTaskResponse> getSendTaskMethod;
    if ((getSendTaskMethod = AgentServiceGrpc.getSendTaskMethod) == null) {
      synchronized (AgentServiceGrpc.class) {
        if ((getSendTaskMethod = AgentServiceGrpc.getSendTaskMethod) == null) {
          AgentServiceGrpc.getSendTaskMethod = getSendTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.SendTaskRequest, io.github.protolink_grpc.v1.SendTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SendTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.SendTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.SendTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AgentServiceMethodDescriptorSupplier("SendTask"))
              .build();
        }
      }
    }
    return getSendTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StreamTaskRequest,
      io.github.protolink_grpc.v1.StreamTaskResponse> getStreamTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "StreamTask",
      requestType = io.github.protolink_grpc.v1.StreamTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.StreamTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StreamTaskRequest,
      io.github.protolink_grpc.v1.StreamTaskResponse> getStreamTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StreamTaskRequest, io.github.protolink_grpc.v1.StreamTaskResponse> getStreamTaskMethod;
    if ((getStreamTaskMethod = AgentServiceGrpc.getStreamTaskMethod) == null) {
      synchronized (AgentServiceGrpc.class) {
        if ((getStreamTaskMethod = AgentServiceGrpc.getStreamTaskMethod) == null) {
          AgentServiceGrpc.getStreamTaskMethod = getStreamTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.StreamTaskRequest, io.github.protolink_grpc.v1.StreamTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "StreamTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.StreamTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.StreamTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AgentServiceMethodDescriptorSupplier("StreamTask"))
              .build();
        }
      }
    }
    return getStreamTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SubscribeTaskRequest,
      io.github.protolink_grpc.v1.SubscribeTaskResponse> getSubscribeTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SubscribeTask",
      requestType = io.github.protolink_grpc.v1.SubscribeTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.SubscribeTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SubscribeTaskRequest,
      io.github.protolink_grpc.v1.SubscribeTaskResponse> getSubscribeTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SubscribeTaskRequest, io.github.protolink_grpc.v1.SubscribeTaskResponse> getSubscribeTaskMethod;
    if ((getSubscribeTaskMethod = AgentServiceGrpc.getSubscribeTaskMethod) == null) {
      synchronized (AgentServiceGrpc.class) {
        if ((getSubscribeTaskMethod = AgentServiceGrpc.getSubscribeTaskMethod) == null) {
          AgentServiceGrpc.getSubscribeTaskMethod = getSubscribeTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.SubscribeTaskRequest, io.github.protolink_grpc.v1.SubscribeTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SubscribeTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.SubscribeTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.SubscribeTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AgentServiceMethodDescriptorSupplier("SubscribeTask"))
              .build();
        }
      }
    }
    return getSubscribeTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetTaskRequest,
      io.github.protolink_grpc.v1.GetTaskResponse> getGetTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetTask",
      requestType = io.github.protolink_grpc.v1.GetTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.GetTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetTaskRequest,
      io.github.protolink_grpc.v1.GetTaskResponse> getGetTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetTaskRequest, io.github.protolink_grpc.v1.GetTaskResponse> getGetTaskMethod;
    if ((getGetTaskMethod = AgentServiceGrpc.getGetTaskMethod) == null) {
      synchronized (AgentServiceGrpc.class) {
        if ((getGetTaskMethod = AgentServiceGrpc.getGetTaskMethod) == null) {
          AgentServiceGrpc.getGetTaskMethod = getGetTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetTaskRequest, io.github.protolink_grpc.v1.GetTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AgentServiceMethodDescriptorSupplier("GetTask"))
              .build();
        }
      }
    }
    return getGetTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListTasksRequest,
      io.github.protolink_grpc.v1.ListTasksResponse> getListTasksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTasks",
      requestType = io.github.protolink_grpc.v1.ListTasksRequest.class,
      responseType = io.github.protolink_grpc.v1.ListTasksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListTasksRequest,
      io.github.protolink_grpc.v1.ListTasksResponse> getListTasksMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListTasksRequest, io.github.protolink_grpc.v1.ListTasksResponse> getListTasksMethod;
    if ((getListTasksMethod = AgentServiceGrpc.getListTasksMethod) == null) {
      synchronized (AgentServiceGrpc.class) {
        if ((getListTasksMethod = AgentServiceGrpc.getListTasksMethod) == null) {
          AgentServiceGrpc.getListTasksMethod = getListTasksMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.ListTasksRequest, io.github.protolink_grpc.v1.ListTasksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTasks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListTasksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListTasksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AgentServiceMethodDescriptorSupplier("ListTasks"))
              .build();
        }
      }
    }
    return getListTasksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CancelTaskRequest,
      io.github.protolink_grpc.v1.CancelTaskResponse> getCancelTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CancelTask",
      requestType = io.github.protolink_grpc.v1.CancelTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.CancelTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CancelTaskRequest,
      io.github.protolink_grpc.v1.CancelTaskResponse> getCancelTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CancelTaskRequest, io.github.protolink_grpc.v1.CancelTaskResponse> getCancelTaskMethod;
    if ((getCancelTaskMethod = AgentServiceGrpc.getCancelTaskMethod) == null) {
      synchronized (AgentServiceGrpc.class) {
        if ((getCancelTaskMethod = AgentServiceGrpc.getCancelTaskMethod) == null) {
          AgentServiceGrpc.getCancelTaskMethod = getCancelTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.CancelTaskRequest, io.github.protolink_grpc.v1.CancelTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CancelTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CancelTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CancelTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AgentServiceMethodDescriptorSupplier("CancelTask"))
              .build();
        }
      }
    }
    return getCancelTaskMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static AgentServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AgentServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AgentServiceStub>() {
        @java.lang.Override
        public AgentServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AgentServiceStub(channel, callOptions);
        }
      };
    return AgentServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static AgentServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AgentServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AgentServiceBlockingV2Stub>() {
        @java.lang.Override
        public AgentServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AgentServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return AgentServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static AgentServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AgentServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AgentServiceBlockingStub>() {
        @java.lang.Override
        public AgentServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AgentServiceBlockingStub(channel, callOptions);
        }
      };
    return AgentServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static AgentServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AgentServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AgentServiceFutureStub>() {
        @java.lang.Override
        public AgentServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AgentServiceFutureStub(channel, callOptions);
        }
      };
    return AgentServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * AgentService accepts tasks, runs them, and returns or streams their state and events.
   * Every error carries `google.rpc.ErrorInfo` with a reason in domain `protolink-grpc.github.io`. All methods may also fail with
   * UNAUTHENTICATED/UNAUTHENTICATED, PERMISSION_DENIED/PERMISSION_DENIED, DEADLINE_EXCEEDED/DEADLINE_EXCEEDED, INTERNAL/INTERNAL and
   * UNAVAILABLE/UNAVAILABLE. Methods that read a log of a later version fail with FAILED_PRECONDITION/LOG_TOO_NEW. A task belongs to
   * the principal that sent it; for every other principal it does not exist.
   * Requests are at most 4 MiB. Responses of methods without a stream are smaller than 4 MiB, the default limit of gRPC for received
   * messages. A larger task is returned in parts: each response has the newest messages and artifacts, up to about 3 MiB (see
   * GetTaskRequest).
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * GetAgentCard returns the card of the agent. An encoded card is at most 1 MiB: see AgentCard.
     * </pre>
     */
    default void getAgentCard(io.github.protolink_grpc.v1.GetAgentCardRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetAgentCardResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetAgentCardMethod(), responseObserver);
    }

    /**
     * <pre>
     * SendTask starts or continues a task and waits until the task is terminal or waits for input. Default view: turn.
     * The run does not end with the call: a deadline limits only the wait.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/MESSAGE_TOO_LARGE, NOT_FOUND/TASK_NOT_FOUND,
     * ALREADY_EXISTS/TASK_ALREADY_EXISTS, ABORTED/SEQUENCE_CONFLICT, FAILED_PRECONDITION/TASK_FINISHED,
     * FAILED_PRECONDITION/TASK_ALREADY_RUNNING, FAILED_PRECONDITION/DELEGATION_CYCLE, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
     * </pre>
     */
    default void sendTask(io.github.protolink_grpc.v1.SendTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SendTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSendTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * StreamTask starts or continues a task, as SendTask, and streams the events of the turn as they are committed. It ends when the
     * task is terminal or waits for input.
     * Errors: those of SendTask.
     * </pre>
     */
    default void streamTask(io.github.protolink_grpc.v1.StreamTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StreamTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getStreamTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * SubscribeTask streams a task's events after a position: first the stored events, then new events as they are committed, without
     * gaps or repetitions. WatchPosition has the rules.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE, OUT_OF_RANGE/POSITION_COMPACTED: the log begins after the
     * position; read the task with GetTask and continue after its `sequence`.
     * </pre>
     */
    default void subscribeTask(io.github.protolink_grpc.v1.SubscribeTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SubscribeTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSubscribeTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetTask returns the current state of a task. Default view: full.
     * Of a large task it returns only the newest messages and artifacts, and always the latest message. To get the others, repeat the
     * call with `before_message` and `before_artifact` set to `first_message` and `first_artifact` of the response, until both are 0.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    default void getTask(io.github.protolink_grpc.v1.GetTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListTasks returns the caller's tasks, most recently changed first. Default view: header.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void listTasks(io.github.protolink_grpc.v1.ListTasksRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListTasksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListTasksMethod(), responseObserver);
    }

    /**
     * <pre>
     * CancelTask appends a CancelRequested event, interrupts the run, and waits up to 10 seconds for the task to end. If the returned
     * state is not canceled, the run is still stopping: watch the task. The call is never queued behind running work.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_NOT_CANCELABLE.
     * </pre>
     */
    default void cancelTask(io.github.protolink_grpc.v1.CancelTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CancelTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCancelTaskMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service AgentService.
   * <pre>
   * AgentService accepts tasks, runs them, and returns or streams their state and events.
   * Every error carries `google.rpc.ErrorInfo` with a reason in domain `protolink-grpc.github.io`. All methods may also fail with
   * UNAUTHENTICATED/UNAUTHENTICATED, PERMISSION_DENIED/PERMISSION_DENIED, DEADLINE_EXCEEDED/DEADLINE_EXCEEDED, INTERNAL/INTERNAL and
   * UNAVAILABLE/UNAVAILABLE. Methods that read a log of a later version fail with FAILED_PRECONDITION/LOG_TOO_NEW. A task belongs to
   * the principal that sent it; for every other principal it does not exist.
   * Requests are at most 4 MiB. Responses of methods without a stream are smaller than 4 MiB, the default limit of gRPC for received
   * messages. A larger task is returned in parts: each response has the newest messages and artifacts, up to about 3 MiB (see
   * GetTaskRequest).
   * </pre>
   */
  public static abstract class AgentServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return AgentServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service AgentService.
   * <pre>
   * AgentService accepts tasks, runs them, and returns or streams their state and events.
   * Every error carries `google.rpc.ErrorInfo` with a reason in domain `protolink-grpc.github.io`. All methods may also fail with
   * UNAUTHENTICATED/UNAUTHENTICATED, PERMISSION_DENIED/PERMISSION_DENIED, DEADLINE_EXCEEDED/DEADLINE_EXCEEDED, INTERNAL/INTERNAL and
   * UNAVAILABLE/UNAVAILABLE. Methods that read a log of a later version fail with FAILED_PRECONDITION/LOG_TOO_NEW. A task belongs to
   * the principal that sent it; for every other principal it does not exist.
   * Requests are at most 4 MiB. Responses of methods without a stream are smaller than 4 MiB, the default limit of gRPC for received
   * messages. A larger task is returned in parts: each response has the newest messages and artifacts, up to about 3 MiB (see
   * GetTaskRequest).
   * </pre>
   */
  public static final class AgentServiceStub
      extends io.grpc.stub.AbstractAsyncStub<AgentServiceStub> {
    private AgentServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AgentServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AgentServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetAgentCard returns the card of the agent. An encoded card is at most 1 MiB: see AgentCard.
     * </pre>
     */
    public void getAgentCard(io.github.protolink_grpc.v1.GetAgentCardRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetAgentCardResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetAgentCardMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SendTask starts or continues a task and waits until the task is terminal or waits for input. Default view: turn.
     * The run does not end with the call: a deadline limits only the wait.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/MESSAGE_TOO_LARGE, NOT_FOUND/TASK_NOT_FOUND,
     * ALREADY_EXISTS/TASK_ALREADY_EXISTS, ABORTED/SEQUENCE_CONFLICT, FAILED_PRECONDITION/TASK_FINISHED,
     * FAILED_PRECONDITION/TASK_ALREADY_RUNNING, FAILED_PRECONDITION/DELEGATION_CYCLE, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
     * </pre>
     */
    public void sendTask(io.github.protolink_grpc.v1.SendTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SendTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSendTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * StreamTask starts or continues a task, as SendTask, and streams the events of the turn as they are committed. It ends when the
     * task is terminal or waits for input.
     * Errors: those of SendTask.
     * </pre>
     */
    public void streamTask(io.github.protolink_grpc.v1.StreamTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StreamTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getStreamTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SubscribeTask streams a task's events after a position: first the stored events, then new events as they are committed, without
     * gaps or repetitions. WatchPosition has the rules.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE, OUT_OF_RANGE/POSITION_COMPACTED: the log begins after the
     * position; read the task with GetTask and continue after its `sequence`.
     * </pre>
     */
    public void subscribeTask(io.github.protolink_grpc.v1.SubscribeTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SubscribeTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getSubscribeTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetTask returns the current state of a task. Default view: full.
     * Of a large task it returns only the newest messages and artifacts, and always the latest message. To get the others, repeat the
     * call with `before_message` and `before_artifact` set to `first_message` and `first_artifact` of the response, until both are 0.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public void getTask(io.github.protolink_grpc.v1.GetTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListTasks returns the caller's tasks, most recently changed first. Default view: header.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void listTasks(io.github.protolink_grpc.v1.ListTasksRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListTasksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListTasksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * CancelTask appends a CancelRequested event, interrupts the run, and waits up to 10 seconds for the task to end. If the returned
     * state is not canceled, the run is still stopping: watch the task. The call is never queued behind running work.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_NOT_CANCELABLE.
     * </pre>
     */
    public void cancelTask(io.github.protolink_grpc.v1.CancelTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CancelTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCancelTaskMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service AgentService.
   * <pre>
   * AgentService accepts tasks, runs them, and returns or streams their state and events.
   * Every error carries `google.rpc.ErrorInfo` with a reason in domain `protolink-grpc.github.io`. All methods may also fail with
   * UNAUTHENTICATED/UNAUTHENTICATED, PERMISSION_DENIED/PERMISSION_DENIED, DEADLINE_EXCEEDED/DEADLINE_EXCEEDED, INTERNAL/INTERNAL and
   * UNAVAILABLE/UNAVAILABLE. Methods that read a log of a later version fail with FAILED_PRECONDITION/LOG_TOO_NEW. A task belongs to
   * the principal that sent it; for every other principal it does not exist.
   * Requests are at most 4 MiB. Responses of methods without a stream are smaller than 4 MiB, the default limit of gRPC for received
   * messages. A larger task is returned in parts: each response has the newest messages and artifacts, up to about 3 MiB (see
   * GetTaskRequest).
   * </pre>
   */
  public static final class AgentServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<AgentServiceBlockingV2Stub> {
    private AgentServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AgentServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AgentServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * GetAgentCard returns the card of the agent. An encoded card is at most 1 MiB: see AgentCard.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetAgentCardResponse getAgentCard(io.github.protolink_grpc.v1.GetAgentCardRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetAgentCardMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SendTask starts or continues a task and waits until the task is terminal or waits for input. Default view: turn.
     * The run does not end with the call: a deadline limits only the wait.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/MESSAGE_TOO_LARGE, NOT_FOUND/TASK_NOT_FOUND,
     * ALREADY_EXISTS/TASK_ALREADY_EXISTS, ABORTED/SEQUENCE_CONFLICT, FAILED_PRECONDITION/TASK_FINISHED,
     * FAILED_PRECONDITION/TASK_ALREADY_RUNNING, FAILED_PRECONDITION/DELEGATION_CYCLE, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.SendTaskResponse sendTask(io.github.protolink_grpc.v1.SendTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSendTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * StreamTask starts or continues a task, as SendTask, and streams the events of the turn as they are committed. It ends when the
     * task is terminal or waits for input.
     * Errors: those of SendTask.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.protolink_grpc.v1.StreamTaskResponse>
        streamTask(io.github.protolink_grpc.v1.StreamTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getStreamTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SubscribeTask streams a task's events after a position: first the stored events, then new events as they are committed, without
     * gaps or repetitions. WatchPosition has the rules.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE, OUT_OF_RANGE/POSITION_COMPACTED: the log begins after the
     * position; read the task with GetTask and continue after its `sequence`.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.protolink_grpc.v1.SubscribeTaskResponse>
        subscribeTask(io.github.protolink_grpc.v1.SubscribeTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getSubscribeTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetTask returns the current state of a task. Default view: full.
     * Of a large task it returns only the newest messages and artifacts, and always the latest message. To get the others, repeat the
     * call with `before_message` and `before_artifact` set to `first_message` and `first_artifact` of the response, until both are 0.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetTaskResponse getTask(io.github.protolink_grpc.v1.GetTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListTasks returns the caller's tasks, most recently changed first. Default view: header.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListTasksResponse listTasks(io.github.protolink_grpc.v1.ListTasksRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CancelTask appends a CancelRequested event, interrupts the run, and waits up to 10 seconds for the task to end. If the returned
     * state is not canceled, the run is still stopping: watch the task. The call is never queued behind running work.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_NOT_CANCELABLE.
     * </pre>
     */
    public io.github.protolink_grpc.v1.CancelTaskResponse cancelTask(io.github.protolink_grpc.v1.CancelTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCancelTaskMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service AgentService.
   * <pre>
   * AgentService accepts tasks, runs them, and returns or streams their state and events.
   * Every error carries `google.rpc.ErrorInfo` with a reason in domain `protolink-grpc.github.io`. All methods may also fail with
   * UNAUTHENTICATED/UNAUTHENTICATED, PERMISSION_DENIED/PERMISSION_DENIED, DEADLINE_EXCEEDED/DEADLINE_EXCEEDED, INTERNAL/INTERNAL and
   * UNAVAILABLE/UNAVAILABLE. Methods that read a log of a later version fail with FAILED_PRECONDITION/LOG_TOO_NEW. A task belongs to
   * the principal that sent it; for every other principal it does not exist.
   * Requests are at most 4 MiB. Responses of methods without a stream are smaller than 4 MiB, the default limit of gRPC for received
   * messages. A larger task is returned in parts: each response has the newest messages and artifacts, up to about 3 MiB (see
   * GetTaskRequest).
   * </pre>
   */
  public static final class AgentServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<AgentServiceBlockingStub> {
    private AgentServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AgentServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AgentServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetAgentCard returns the card of the agent. An encoded card is at most 1 MiB: see AgentCard.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetAgentCardResponse getAgentCard(io.github.protolink_grpc.v1.GetAgentCardRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetAgentCardMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SendTask starts or continues a task and waits until the task is terminal or waits for input. Default view: turn.
     * The run does not end with the call: a deadline limits only the wait.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/MESSAGE_TOO_LARGE, NOT_FOUND/TASK_NOT_FOUND,
     * ALREADY_EXISTS/TASK_ALREADY_EXISTS, ABORTED/SEQUENCE_CONFLICT, FAILED_PRECONDITION/TASK_FINISHED,
     * FAILED_PRECONDITION/TASK_ALREADY_RUNNING, FAILED_PRECONDITION/DELEGATION_CYCLE, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.SendTaskResponse sendTask(io.github.protolink_grpc.v1.SendTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSendTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * StreamTask starts or continues a task, as SendTask, and streams the events of the turn as they are committed. It ends when the
     * task is terminal or waits for input.
     * Errors: those of SendTask.
     * </pre>
     */
    public java.util.Iterator<io.github.protolink_grpc.v1.StreamTaskResponse> streamTask(
        io.github.protolink_grpc.v1.StreamTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getStreamTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SubscribeTask streams a task's events after a position: first the stored events, then new events as they are committed, without
     * gaps or repetitions. WatchPosition has the rules.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE, OUT_OF_RANGE/POSITION_COMPACTED: the log begins after the
     * position; read the task with GetTask and continue after its `sequence`.
     * </pre>
     */
    public java.util.Iterator<io.github.protolink_grpc.v1.SubscribeTaskResponse> subscribeTask(
        io.github.protolink_grpc.v1.SubscribeTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getSubscribeTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetTask returns the current state of a task. Default view: full.
     * Of a large task it returns only the newest messages and artifacts, and always the latest message. To get the others, repeat the
     * call with `before_message` and `before_artifact` set to `first_message` and `first_artifact` of the response, until both are 0.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetTaskResponse getTask(io.github.protolink_grpc.v1.GetTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListTasks returns the caller's tasks, most recently changed first. Default view: header.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListTasksResponse listTasks(io.github.protolink_grpc.v1.ListTasksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CancelTask appends a CancelRequested event, interrupts the run, and waits up to 10 seconds for the task to end. If the returned
     * state is not canceled, the run is still stopping: watch the task. The call is never queued behind running work.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_NOT_CANCELABLE.
     * </pre>
     */
    public io.github.protolink_grpc.v1.CancelTaskResponse cancelTask(io.github.protolink_grpc.v1.CancelTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCancelTaskMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service AgentService.
   * <pre>
   * AgentService accepts tasks, runs them, and returns or streams their state and events.
   * Every error carries `google.rpc.ErrorInfo` with a reason in domain `protolink-grpc.github.io`. All methods may also fail with
   * UNAUTHENTICATED/UNAUTHENTICATED, PERMISSION_DENIED/PERMISSION_DENIED, DEADLINE_EXCEEDED/DEADLINE_EXCEEDED, INTERNAL/INTERNAL and
   * UNAVAILABLE/UNAVAILABLE. Methods that read a log of a later version fail with FAILED_PRECONDITION/LOG_TOO_NEW. A task belongs to
   * the principal that sent it; for every other principal it does not exist.
   * Requests are at most 4 MiB. Responses of methods without a stream are smaller than 4 MiB, the default limit of gRPC for received
   * messages. A larger task is returned in parts: each response has the newest messages and artifacts, up to about 3 MiB (see
   * GetTaskRequest).
   * </pre>
   */
  public static final class AgentServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<AgentServiceFutureStub> {
    private AgentServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AgentServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AgentServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetAgentCard returns the card of the agent. An encoded card is at most 1 MiB: see AgentCard.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetAgentCardResponse> getAgentCard(
        io.github.protolink_grpc.v1.GetAgentCardRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetAgentCardMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * SendTask starts or continues a task and waits until the task is terminal or waits for input. Default view: turn.
     * The run does not end with the call: a deadline limits only the wait.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/MESSAGE_TOO_LARGE, NOT_FOUND/TASK_NOT_FOUND,
     * ALREADY_EXISTS/TASK_ALREADY_EXISTS, ABORTED/SEQUENCE_CONFLICT, FAILED_PRECONDITION/TASK_FINISHED,
     * FAILED_PRECONDITION/TASK_ALREADY_RUNNING, FAILED_PRECONDITION/DELEGATION_CYCLE, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.SendTaskResponse> sendTask(
        io.github.protolink_grpc.v1.SendTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSendTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetTask returns the current state of a task. Default view: full.
     * Of a large task it returns only the newest messages and artifacts, and always the latest message. To get the others, repeat the
     * call with `before_message` and `before_artifact` set to `first_message` and `first_artifact` of the response, until both are 0.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetTaskResponse> getTask(
        io.github.protolink_grpc.v1.GetTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListTasks returns the caller's tasks, most recently changed first. Default view: header.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.ListTasksResponse> listTasks(
        io.github.protolink_grpc.v1.ListTasksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListTasksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * CancelTask appends a CancelRequested event, interrupts the run, and waits up to 10 seconds for the task to end. If the returned
     * state is not canceled, the run is still stopping: watch the task. The call is never queued behind running work.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_NOT_CANCELABLE.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.CancelTaskResponse> cancelTask(
        io.github.protolink_grpc.v1.CancelTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCancelTaskMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_GET_AGENT_CARD = 0;
  private static final int METHODID_SEND_TASK = 1;
  private static final int METHODID_STREAM_TASK = 2;
  private static final int METHODID_SUBSCRIBE_TASK = 3;
  private static final int METHODID_GET_TASK = 4;
  private static final int METHODID_LIST_TASKS = 5;
  private static final int METHODID_CANCEL_TASK = 6;

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
        case METHODID_GET_AGENT_CARD:
          serviceImpl.getAgentCard((io.github.protolink_grpc.v1.GetAgentCardRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetAgentCardResponse>) responseObserver);
          break;
        case METHODID_SEND_TASK:
          serviceImpl.sendTask((io.github.protolink_grpc.v1.SendTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SendTaskResponse>) responseObserver);
          break;
        case METHODID_STREAM_TASK:
          serviceImpl.streamTask((io.github.protolink_grpc.v1.StreamTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StreamTaskResponse>) responseObserver);
          break;
        case METHODID_SUBSCRIBE_TASK:
          serviceImpl.subscribeTask((io.github.protolink_grpc.v1.SubscribeTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SubscribeTaskResponse>) responseObserver);
          break;
        case METHODID_GET_TASK:
          serviceImpl.getTask((io.github.protolink_grpc.v1.GetTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetTaskResponse>) responseObserver);
          break;
        case METHODID_LIST_TASKS:
          serviceImpl.listTasks((io.github.protolink_grpc.v1.ListTasksRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListTasksResponse>) responseObserver);
          break;
        case METHODID_CANCEL_TASK:
          serviceImpl.cancelTask((io.github.protolink_grpc.v1.CancelTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CancelTaskResponse>) responseObserver);
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
          getGetAgentCardMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetAgentCardRequest,
              io.github.protolink_grpc.v1.GetAgentCardResponse>(
                service, METHODID_GET_AGENT_CARD)))
        .addMethod(
          getSendTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.SendTaskRequest,
              io.github.protolink_grpc.v1.SendTaskResponse>(
                service, METHODID_SEND_TASK)))
        .addMethod(
          getStreamTaskMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.StreamTaskRequest,
              io.github.protolink_grpc.v1.StreamTaskResponse>(
                service, METHODID_STREAM_TASK)))
        .addMethod(
          getSubscribeTaskMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.SubscribeTaskRequest,
              io.github.protolink_grpc.v1.SubscribeTaskResponse>(
                service, METHODID_SUBSCRIBE_TASK)))
        .addMethod(
          getGetTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetTaskRequest,
              io.github.protolink_grpc.v1.GetTaskResponse>(
                service, METHODID_GET_TASK)))
        .addMethod(
          getListTasksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.ListTasksRequest,
              io.github.protolink_grpc.v1.ListTasksResponse>(
                service, METHODID_LIST_TASKS)))
        .addMethod(
          getCancelTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.CancelTaskRequest,
              io.github.protolink_grpc.v1.CancelTaskResponse>(
                service, METHODID_CANCEL_TASK)))
        .build();
  }

  private static abstract class AgentServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    AgentServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.protolink_grpc.v1.AgentServiceOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("AgentService");
    }
  }

  private static final class AgentServiceFileDescriptorSupplier
      extends AgentServiceBaseDescriptorSupplier {
    AgentServiceFileDescriptorSupplier() {}
  }

  private static final class AgentServiceMethodDescriptorSupplier
      extends AgentServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    AgentServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (AgentServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new AgentServiceFileDescriptorSupplier())
              .addMethod(getGetAgentCardMethod())
              .addMethod(getSendTaskMethod())
              .addMethod(getStreamTaskMethod())
              .addMethod(getSubscribeTaskMethod())
              .addMethod(getGetTaskMethod())
              .addMethod(getListTasksMethod())
              .addMethod(getCancelTaskMethod())
              .build();
        }
      }
    }
    return result;
  }
}
