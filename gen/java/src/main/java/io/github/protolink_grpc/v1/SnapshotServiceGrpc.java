package io.github.protolink_grpc.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * SnapshotService returns read models. The cost of a call does not grow with the age of a session.
 * A snapshot of a session, thread or queue needs a session of the caller, and one of a task needs a task of the caller. Size limits
 * and errors are those of AgentService. TaskControlService has the snapshots of tasks.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class SnapshotServiceGrpc {

  private SnapshotServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "plgrpc.v1.SnapshotService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetSessionSnapshotRequest,
      io.github.protolink_grpc.v1.GetSessionSnapshotResponse> getGetSessionSnapshotMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetSessionSnapshot",
      requestType = io.github.protolink_grpc.v1.GetSessionSnapshotRequest.class,
      responseType = io.github.protolink_grpc.v1.GetSessionSnapshotResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetSessionSnapshotRequest,
      io.github.protolink_grpc.v1.GetSessionSnapshotResponse> getGetSessionSnapshotMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetSessionSnapshotRequest, io.github.protolink_grpc.v1.GetSessionSnapshotResponse> getGetSessionSnapshotMethod;
    if ((getGetSessionSnapshotMethod = SnapshotServiceGrpc.getGetSessionSnapshotMethod) == null) {
      synchronized (SnapshotServiceGrpc.class) {
        if ((getGetSessionSnapshotMethod = SnapshotServiceGrpc.getGetSessionSnapshotMethod) == null) {
          SnapshotServiceGrpc.getGetSessionSnapshotMethod = getGetSessionSnapshotMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetSessionSnapshotRequest, io.github.protolink_grpc.v1.GetSessionSnapshotResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetSessionSnapshot"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetSessionSnapshotRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetSessionSnapshotResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SnapshotServiceMethodDescriptorSupplier("GetSessionSnapshot"))
              .build();
        }
      }
    }
    return getGetSessionSnapshotMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetThreadSnapshotRequest,
      io.github.protolink_grpc.v1.GetThreadSnapshotResponse> getGetThreadSnapshotMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetThreadSnapshot",
      requestType = io.github.protolink_grpc.v1.GetThreadSnapshotRequest.class,
      responseType = io.github.protolink_grpc.v1.GetThreadSnapshotResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetThreadSnapshotRequest,
      io.github.protolink_grpc.v1.GetThreadSnapshotResponse> getGetThreadSnapshotMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetThreadSnapshotRequest, io.github.protolink_grpc.v1.GetThreadSnapshotResponse> getGetThreadSnapshotMethod;
    if ((getGetThreadSnapshotMethod = SnapshotServiceGrpc.getGetThreadSnapshotMethod) == null) {
      synchronized (SnapshotServiceGrpc.class) {
        if ((getGetThreadSnapshotMethod = SnapshotServiceGrpc.getGetThreadSnapshotMethod) == null) {
          SnapshotServiceGrpc.getGetThreadSnapshotMethod = getGetThreadSnapshotMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetThreadSnapshotRequest, io.github.protolink_grpc.v1.GetThreadSnapshotResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetThreadSnapshot"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetThreadSnapshotRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetThreadSnapshotResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SnapshotServiceMethodDescriptorSupplier("GetThreadSnapshot"))
              .build();
        }
      }
    }
    return getGetThreadSnapshotMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetQueueSnapshotRequest,
      io.github.protolink_grpc.v1.GetQueueSnapshotResponse> getGetQueueSnapshotMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetQueueSnapshot",
      requestType = io.github.protolink_grpc.v1.GetQueueSnapshotRequest.class,
      responseType = io.github.protolink_grpc.v1.GetQueueSnapshotResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetQueueSnapshotRequest,
      io.github.protolink_grpc.v1.GetQueueSnapshotResponse> getGetQueueSnapshotMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetQueueSnapshotRequest, io.github.protolink_grpc.v1.GetQueueSnapshotResponse> getGetQueueSnapshotMethod;
    if ((getGetQueueSnapshotMethod = SnapshotServiceGrpc.getGetQueueSnapshotMethod) == null) {
      synchronized (SnapshotServiceGrpc.class) {
        if ((getGetQueueSnapshotMethod = SnapshotServiceGrpc.getGetQueueSnapshotMethod) == null) {
          SnapshotServiceGrpc.getGetQueueSnapshotMethod = getGetQueueSnapshotMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetQueueSnapshotRequest, io.github.protolink_grpc.v1.GetQueueSnapshotResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetQueueSnapshot"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetQueueSnapshotRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetQueueSnapshotResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SnapshotServiceMethodDescriptorSupplier("GetQueueSnapshot"))
              .build();
        }
      }
    }
    return getGetQueueSnapshotMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetToolInventoryRequest,
      io.github.protolink_grpc.v1.GetToolInventoryResponse> getGetToolInventoryMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetToolInventory",
      requestType = io.github.protolink_grpc.v1.GetToolInventoryRequest.class,
      responseType = io.github.protolink_grpc.v1.GetToolInventoryResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetToolInventoryRequest,
      io.github.protolink_grpc.v1.GetToolInventoryResponse> getGetToolInventoryMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetToolInventoryRequest, io.github.protolink_grpc.v1.GetToolInventoryResponse> getGetToolInventoryMethod;
    if ((getGetToolInventoryMethod = SnapshotServiceGrpc.getGetToolInventoryMethod) == null) {
      synchronized (SnapshotServiceGrpc.class) {
        if ((getGetToolInventoryMethod = SnapshotServiceGrpc.getGetToolInventoryMethod) == null) {
          SnapshotServiceGrpc.getGetToolInventoryMethod = getGetToolInventoryMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetToolInventoryRequest, io.github.protolink_grpc.v1.GetToolInventoryResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetToolInventory"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetToolInventoryRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetToolInventoryResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SnapshotServiceMethodDescriptorSupplier("GetToolInventory"))
              .build();
        }
      }
    }
    return getGetToolInventoryMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetContextBoundaryRequest,
      io.github.protolink_grpc.v1.GetContextBoundaryResponse> getGetContextBoundaryMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetContextBoundary",
      requestType = io.github.protolink_grpc.v1.GetContextBoundaryRequest.class,
      responseType = io.github.protolink_grpc.v1.GetContextBoundaryResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetContextBoundaryRequest,
      io.github.protolink_grpc.v1.GetContextBoundaryResponse> getGetContextBoundaryMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetContextBoundaryRequest, io.github.protolink_grpc.v1.GetContextBoundaryResponse> getGetContextBoundaryMethod;
    if ((getGetContextBoundaryMethod = SnapshotServiceGrpc.getGetContextBoundaryMethod) == null) {
      synchronized (SnapshotServiceGrpc.class) {
        if ((getGetContextBoundaryMethod = SnapshotServiceGrpc.getGetContextBoundaryMethod) == null) {
          SnapshotServiceGrpc.getGetContextBoundaryMethod = getGetContextBoundaryMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetContextBoundaryRequest, io.github.protolink_grpc.v1.GetContextBoundaryResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetContextBoundary"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetContextBoundaryRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetContextBoundaryResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SnapshotServiceMethodDescriptorSupplier("GetContextBoundary"))
              .build();
        }
      }
    }
    return getGetContextBoundaryMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetArtifactsRequest,
      io.github.protolink_grpc.v1.GetArtifactsResponse> getGetArtifactsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetArtifacts",
      requestType = io.github.protolink_grpc.v1.GetArtifactsRequest.class,
      responseType = io.github.protolink_grpc.v1.GetArtifactsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetArtifactsRequest,
      io.github.protolink_grpc.v1.GetArtifactsResponse> getGetArtifactsMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetArtifactsRequest, io.github.protolink_grpc.v1.GetArtifactsResponse> getGetArtifactsMethod;
    if ((getGetArtifactsMethod = SnapshotServiceGrpc.getGetArtifactsMethod) == null) {
      synchronized (SnapshotServiceGrpc.class) {
        if ((getGetArtifactsMethod = SnapshotServiceGrpc.getGetArtifactsMethod) == null) {
          SnapshotServiceGrpc.getGetArtifactsMethod = getGetArtifactsMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetArtifactsRequest, io.github.protolink_grpc.v1.GetArtifactsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetArtifacts"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetArtifactsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetArtifactsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SnapshotServiceMethodDescriptorSupplier("GetArtifacts"))
              .build();
        }
      }
    }
    return getGetArtifactsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetEvidenceRequest,
      io.github.protolink_grpc.v1.GetEvidenceResponse> getGetEvidenceMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetEvidence",
      requestType = io.github.protolink_grpc.v1.GetEvidenceRequest.class,
      responseType = io.github.protolink_grpc.v1.GetEvidenceResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetEvidenceRequest,
      io.github.protolink_grpc.v1.GetEvidenceResponse> getGetEvidenceMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetEvidenceRequest, io.github.protolink_grpc.v1.GetEvidenceResponse> getGetEvidenceMethod;
    if ((getGetEvidenceMethod = SnapshotServiceGrpc.getGetEvidenceMethod) == null) {
      synchronized (SnapshotServiceGrpc.class) {
        if ((getGetEvidenceMethod = SnapshotServiceGrpc.getGetEvidenceMethod) == null) {
          SnapshotServiceGrpc.getGetEvidenceMethod = getGetEvidenceMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetEvidenceRequest, io.github.protolink_grpc.v1.GetEvidenceResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetEvidence"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetEvidenceRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetEvidenceResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SnapshotServiceMethodDescriptorSupplier("GetEvidence"))
              .build();
        }
      }
    }
    return getGetEvidenceMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static SnapshotServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SnapshotServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SnapshotServiceStub>() {
        @java.lang.Override
        public SnapshotServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SnapshotServiceStub(channel, callOptions);
        }
      };
    return SnapshotServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static SnapshotServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SnapshotServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SnapshotServiceBlockingV2Stub>() {
        @java.lang.Override
        public SnapshotServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SnapshotServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return SnapshotServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static SnapshotServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SnapshotServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SnapshotServiceBlockingStub>() {
        @java.lang.Override
        public SnapshotServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SnapshotServiceBlockingStub(channel, callOptions);
        }
      };
    return SnapshotServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static SnapshotServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SnapshotServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SnapshotServiceFutureStub>() {
        @java.lang.Override
        public SnapshotServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SnapshotServiceFutureStub(channel, callOptions);
        }
      };
    return SnapshotServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * SnapshotService returns read models. The cost of a call does not grow with the age of a session.
   * A snapshot of a session, thread or queue needs a session of the caller, and one of a task needs a task of the caller. Size limits
   * and errors are those of AgentService. TaskControlService has the snapshots of tasks.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * GetSessionSnapshot returns a session with its threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    default void getSessionSnapshot(io.github.protolink_grpc.v1.GetSessionSnapshotRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetSessionSnapshotResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetSessionSnapshotMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetThreadSnapshot returns one thread.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    default void getThreadSnapshot(io.github.protolink_grpc.v1.GetThreadSnapshotRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetThreadSnapshotResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetThreadSnapshotMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetQueueSnapshot returns the queues of a session, or of one thread.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    default void getQueueSnapshot(io.github.protolink_grpc.v1.GetQueueSnapshotRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetQueueSnapshotResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetQueueSnapshotMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetToolInventory returns the tools that the caller can use.
     * </pre>
     */
    default void getToolInventory(io.github.protolink_grpc.v1.GetToolInventoryRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetToolInventoryResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetToolInventoryMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetContextBoundary returns the context of the latest model call of a task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    default void getContextBoundary(io.github.protolink_grpc.v1.GetContextBoundaryRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetContextBoundaryResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetContextBoundaryMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetArtifacts returns the artifacts of a task without their content.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    default void getArtifacts(io.github.protolink_grpc.v1.GetArtifactsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetArtifactsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetArtifactsMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetEvidence returns what the log of a task proves.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    default void getEvidence(io.github.protolink_grpc.v1.GetEvidenceRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetEvidenceResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetEvidenceMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service SnapshotService.
   * <pre>
   * SnapshotService returns read models. The cost of a call does not grow with the age of a session.
   * A snapshot of a session, thread or queue needs a session of the caller, and one of a task needs a task of the caller. Size limits
   * and errors are those of AgentService. TaskControlService has the snapshots of tasks.
   * </pre>
   */
  public static abstract class SnapshotServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return SnapshotServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service SnapshotService.
   * <pre>
   * SnapshotService returns read models. The cost of a call does not grow with the age of a session.
   * A snapshot of a session, thread or queue needs a session of the caller, and one of a task needs a task of the caller. Size limits
   * and errors are those of AgentService. TaskControlService has the snapshots of tasks.
   * </pre>
   */
  public static final class SnapshotServiceStub
      extends io.grpc.stub.AbstractAsyncStub<SnapshotServiceStub> {
    private SnapshotServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SnapshotServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SnapshotServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetSessionSnapshot returns a session with its threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public void getSessionSnapshot(io.github.protolink_grpc.v1.GetSessionSnapshotRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetSessionSnapshotResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetSessionSnapshotMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetThreadSnapshot returns one thread.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public void getThreadSnapshot(io.github.protolink_grpc.v1.GetThreadSnapshotRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetThreadSnapshotResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetThreadSnapshotMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetQueueSnapshot returns the queues of a session, or of one thread.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public void getQueueSnapshot(io.github.protolink_grpc.v1.GetQueueSnapshotRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetQueueSnapshotResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetQueueSnapshotMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetToolInventory returns the tools that the caller can use.
     * </pre>
     */
    public void getToolInventory(io.github.protolink_grpc.v1.GetToolInventoryRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetToolInventoryResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetToolInventoryMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetContextBoundary returns the context of the latest model call of a task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public void getContextBoundary(io.github.protolink_grpc.v1.GetContextBoundaryRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetContextBoundaryResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetContextBoundaryMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetArtifacts returns the artifacts of a task without their content.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public void getArtifacts(io.github.protolink_grpc.v1.GetArtifactsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetArtifactsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetArtifactsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetEvidence returns what the log of a task proves.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public void getEvidence(io.github.protolink_grpc.v1.GetEvidenceRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetEvidenceResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetEvidenceMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service SnapshotService.
   * <pre>
   * SnapshotService returns read models. The cost of a call does not grow with the age of a session.
   * A snapshot of a session, thread or queue needs a session of the caller, and one of a task needs a task of the caller. Size limits
   * and errors are those of AgentService. TaskControlService has the snapshots of tasks.
   * </pre>
   */
  public static final class SnapshotServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<SnapshotServiceBlockingV2Stub> {
    private SnapshotServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SnapshotServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SnapshotServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * GetSessionSnapshot returns a session with its threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetSessionSnapshotResponse getSessionSnapshot(io.github.protolink_grpc.v1.GetSessionSnapshotRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetSessionSnapshotMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetThreadSnapshot returns one thread.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetThreadSnapshotResponse getThreadSnapshot(io.github.protolink_grpc.v1.GetThreadSnapshotRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetThreadSnapshotMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetQueueSnapshot returns the queues of a session, or of one thread.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetQueueSnapshotResponse getQueueSnapshot(io.github.protolink_grpc.v1.GetQueueSnapshotRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetQueueSnapshotMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetToolInventory returns the tools that the caller can use.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetToolInventoryResponse getToolInventory(io.github.protolink_grpc.v1.GetToolInventoryRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetToolInventoryMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetContextBoundary returns the context of the latest model call of a task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetContextBoundaryResponse getContextBoundary(io.github.protolink_grpc.v1.GetContextBoundaryRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetContextBoundaryMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetArtifacts returns the artifacts of a task without their content.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetArtifactsResponse getArtifacts(io.github.protolink_grpc.v1.GetArtifactsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetArtifactsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetEvidence returns what the log of a task proves.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetEvidenceResponse getEvidence(io.github.protolink_grpc.v1.GetEvidenceRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetEvidenceMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service SnapshotService.
   * <pre>
   * SnapshotService returns read models. The cost of a call does not grow with the age of a session.
   * A snapshot of a session, thread or queue needs a session of the caller, and one of a task needs a task of the caller. Size limits
   * and errors are those of AgentService. TaskControlService has the snapshots of tasks.
   * </pre>
   */
  public static final class SnapshotServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<SnapshotServiceBlockingStub> {
    private SnapshotServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SnapshotServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SnapshotServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetSessionSnapshot returns a session with its threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetSessionSnapshotResponse getSessionSnapshot(io.github.protolink_grpc.v1.GetSessionSnapshotRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetSessionSnapshotMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetThreadSnapshot returns one thread.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetThreadSnapshotResponse getThreadSnapshot(io.github.protolink_grpc.v1.GetThreadSnapshotRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetThreadSnapshotMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetQueueSnapshot returns the queues of a session, or of one thread.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetQueueSnapshotResponse getQueueSnapshot(io.github.protolink_grpc.v1.GetQueueSnapshotRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetQueueSnapshotMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetToolInventory returns the tools that the caller can use.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetToolInventoryResponse getToolInventory(io.github.protolink_grpc.v1.GetToolInventoryRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetToolInventoryMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetContextBoundary returns the context of the latest model call of a task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetContextBoundaryResponse getContextBoundary(io.github.protolink_grpc.v1.GetContextBoundaryRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetContextBoundaryMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetArtifacts returns the artifacts of a task without their content.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetArtifactsResponse getArtifacts(io.github.protolink_grpc.v1.GetArtifactsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetArtifactsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetEvidence returns what the log of a task proves.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetEvidenceResponse getEvidence(io.github.protolink_grpc.v1.GetEvidenceRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetEvidenceMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service SnapshotService.
   * <pre>
   * SnapshotService returns read models. The cost of a call does not grow with the age of a session.
   * A snapshot of a session, thread or queue needs a session of the caller, and one of a task needs a task of the caller. Size limits
   * and errors are those of AgentService. TaskControlService has the snapshots of tasks.
   * </pre>
   */
  public static final class SnapshotServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<SnapshotServiceFutureStub> {
    private SnapshotServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SnapshotServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SnapshotServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetSessionSnapshot returns a session with its threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetSessionSnapshotResponse> getSessionSnapshot(
        io.github.protolink_grpc.v1.GetSessionSnapshotRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetSessionSnapshotMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetThreadSnapshot returns one thread.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetThreadSnapshotResponse> getThreadSnapshot(
        io.github.protolink_grpc.v1.GetThreadSnapshotRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetThreadSnapshotMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetQueueSnapshot returns the queues of a session, or of one thread.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetQueueSnapshotResponse> getQueueSnapshot(
        io.github.protolink_grpc.v1.GetQueueSnapshotRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetQueueSnapshotMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetToolInventory returns the tools that the caller can use.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetToolInventoryResponse> getToolInventory(
        io.github.protolink_grpc.v1.GetToolInventoryRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetToolInventoryMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetContextBoundary returns the context of the latest model call of a task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetContextBoundaryResponse> getContextBoundary(
        io.github.protolink_grpc.v1.GetContextBoundaryRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetContextBoundaryMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetArtifacts returns the artifacts of a task without their content.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetArtifactsResponse> getArtifacts(
        io.github.protolink_grpc.v1.GetArtifactsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetArtifactsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetEvidence returns what the log of a task proves.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetEvidenceResponse> getEvidence(
        io.github.protolink_grpc.v1.GetEvidenceRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetEvidenceMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_GET_SESSION_SNAPSHOT = 0;
  private static final int METHODID_GET_THREAD_SNAPSHOT = 1;
  private static final int METHODID_GET_QUEUE_SNAPSHOT = 2;
  private static final int METHODID_GET_TOOL_INVENTORY = 3;
  private static final int METHODID_GET_CONTEXT_BOUNDARY = 4;
  private static final int METHODID_GET_ARTIFACTS = 5;
  private static final int METHODID_GET_EVIDENCE = 6;

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
        case METHODID_GET_SESSION_SNAPSHOT:
          serviceImpl.getSessionSnapshot((io.github.protolink_grpc.v1.GetSessionSnapshotRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetSessionSnapshotResponse>) responseObserver);
          break;
        case METHODID_GET_THREAD_SNAPSHOT:
          serviceImpl.getThreadSnapshot((io.github.protolink_grpc.v1.GetThreadSnapshotRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetThreadSnapshotResponse>) responseObserver);
          break;
        case METHODID_GET_QUEUE_SNAPSHOT:
          serviceImpl.getQueueSnapshot((io.github.protolink_grpc.v1.GetQueueSnapshotRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetQueueSnapshotResponse>) responseObserver);
          break;
        case METHODID_GET_TOOL_INVENTORY:
          serviceImpl.getToolInventory((io.github.protolink_grpc.v1.GetToolInventoryRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetToolInventoryResponse>) responseObserver);
          break;
        case METHODID_GET_CONTEXT_BOUNDARY:
          serviceImpl.getContextBoundary((io.github.protolink_grpc.v1.GetContextBoundaryRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetContextBoundaryResponse>) responseObserver);
          break;
        case METHODID_GET_ARTIFACTS:
          serviceImpl.getArtifacts((io.github.protolink_grpc.v1.GetArtifactsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetArtifactsResponse>) responseObserver);
          break;
        case METHODID_GET_EVIDENCE:
          serviceImpl.getEvidence((io.github.protolink_grpc.v1.GetEvidenceRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetEvidenceResponse>) responseObserver);
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
          getGetSessionSnapshotMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetSessionSnapshotRequest,
              io.github.protolink_grpc.v1.GetSessionSnapshotResponse>(
                service, METHODID_GET_SESSION_SNAPSHOT)))
        .addMethod(
          getGetThreadSnapshotMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetThreadSnapshotRequest,
              io.github.protolink_grpc.v1.GetThreadSnapshotResponse>(
                service, METHODID_GET_THREAD_SNAPSHOT)))
        .addMethod(
          getGetQueueSnapshotMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetQueueSnapshotRequest,
              io.github.protolink_grpc.v1.GetQueueSnapshotResponse>(
                service, METHODID_GET_QUEUE_SNAPSHOT)))
        .addMethod(
          getGetToolInventoryMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetToolInventoryRequest,
              io.github.protolink_grpc.v1.GetToolInventoryResponse>(
                service, METHODID_GET_TOOL_INVENTORY)))
        .addMethod(
          getGetContextBoundaryMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetContextBoundaryRequest,
              io.github.protolink_grpc.v1.GetContextBoundaryResponse>(
                service, METHODID_GET_CONTEXT_BOUNDARY)))
        .addMethod(
          getGetArtifactsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetArtifactsRequest,
              io.github.protolink_grpc.v1.GetArtifactsResponse>(
                service, METHODID_GET_ARTIFACTS)))
        .addMethod(
          getGetEvidenceMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetEvidenceRequest,
              io.github.protolink_grpc.v1.GetEvidenceResponse>(
                service, METHODID_GET_EVIDENCE)))
        .build();
  }

  private static abstract class SnapshotServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    SnapshotServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.protolink_grpc.v1.SnapshotServiceOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("SnapshotService");
    }
  }

  private static final class SnapshotServiceFileDescriptorSupplier
      extends SnapshotServiceBaseDescriptorSupplier {
    SnapshotServiceFileDescriptorSupplier() {}
  }

  private static final class SnapshotServiceMethodDescriptorSupplier
      extends SnapshotServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    SnapshotServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (SnapshotServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new SnapshotServiceFileDescriptorSupplier())
              .addMethod(getGetSessionSnapshotMethod())
              .addMethod(getGetThreadSnapshotMethod())
              .addMethod(getGetQueueSnapshotMethod())
              .addMethod(getGetToolInventoryMethod())
              .addMethod(getGetContextBoundaryMethod())
              .addMethod(getGetArtifactsMethod())
              .addMethod(getGetEvidenceMethod())
              .build();
        }
      }
    }
    return result;
  }
}
