package io.github.protolink_grpc.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * ControlService controls an agent while it works. Its calls are never queued behind runs.
 * Size limits and errors are those of AgentService. A method that an agent does not support fails with UNIMPLEMENTED/UNIMPLEMENTED.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class ControlServiceGrpc {

  private ControlServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "plgrpc.v1.ControlService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListApprovalsRequest,
      io.github.protolink_grpc.v1.ListApprovalsResponse> getListApprovalsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListApprovals",
      requestType = io.github.protolink_grpc.v1.ListApprovalsRequest.class,
      responseType = io.github.protolink_grpc.v1.ListApprovalsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListApprovalsRequest,
      io.github.protolink_grpc.v1.ListApprovalsResponse> getListApprovalsMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListApprovalsRequest, io.github.protolink_grpc.v1.ListApprovalsResponse> getListApprovalsMethod;
    if ((getListApprovalsMethod = ControlServiceGrpc.getListApprovalsMethod) == null) {
      synchronized (ControlServiceGrpc.class) {
        if ((getListApprovalsMethod = ControlServiceGrpc.getListApprovalsMethod) == null) {
          ControlServiceGrpc.getListApprovalsMethod = getListApprovalsMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.ListApprovalsRequest, io.github.protolink_grpc.v1.ListApprovalsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListApprovals"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListApprovalsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListApprovalsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ControlServiceMethodDescriptorSupplier("ListApprovals"))
              .build();
        }
      }
    }
    return getListApprovalsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.WatchApprovalsRequest,
      io.github.protolink_grpc.v1.WatchApprovalsResponse> getWatchApprovalsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchApprovals",
      requestType = io.github.protolink_grpc.v1.WatchApprovalsRequest.class,
      responseType = io.github.protolink_grpc.v1.WatchApprovalsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.WatchApprovalsRequest,
      io.github.protolink_grpc.v1.WatchApprovalsResponse> getWatchApprovalsMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.WatchApprovalsRequest, io.github.protolink_grpc.v1.WatchApprovalsResponse> getWatchApprovalsMethod;
    if ((getWatchApprovalsMethod = ControlServiceGrpc.getWatchApprovalsMethod) == null) {
      synchronized (ControlServiceGrpc.class) {
        if ((getWatchApprovalsMethod = ControlServiceGrpc.getWatchApprovalsMethod) == null) {
          ControlServiceGrpc.getWatchApprovalsMethod = getWatchApprovalsMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.WatchApprovalsRequest, io.github.protolink_grpc.v1.WatchApprovalsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchApprovals"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.WatchApprovalsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.WatchApprovalsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ControlServiceMethodDescriptorSupplier("WatchApprovals"))
              .build();
        }
      }
    }
    return getWatchApprovalsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RespondApprovalRequest,
      io.github.protolink_grpc.v1.RespondApprovalResponse> getRespondApprovalMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RespondApproval",
      requestType = io.github.protolink_grpc.v1.RespondApprovalRequest.class,
      responseType = io.github.protolink_grpc.v1.RespondApprovalResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RespondApprovalRequest,
      io.github.protolink_grpc.v1.RespondApprovalResponse> getRespondApprovalMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RespondApprovalRequest, io.github.protolink_grpc.v1.RespondApprovalResponse> getRespondApprovalMethod;
    if ((getRespondApprovalMethod = ControlServiceGrpc.getRespondApprovalMethod) == null) {
      synchronized (ControlServiceGrpc.class) {
        if ((getRespondApprovalMethod = ControlServiceGrpc.getRespondApprovalMethod) == null) {
          ControlServiceGrpc.getRespondApprovalMethod = getRespondApprovalMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.RespondApprovalRequest, io.github.protolink_grpc.v1.RespondApprovalResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RespondApproval"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RespondApprovalRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RespondApprovalResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ControlServiceMethodDescriptorSupplier("RespondApproval"))
              .build();
        }
      }
    }
    return getRespondApprovalMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetRunReportRequest,
      io.github.protolink_grpc.v1.GetRunReportResponse> getGetRunReportMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetRunReport",
      requestType = io.github.protolink_grpc.v1.GetRunReportRequest.class,
      responseType = io.github.protolink_grpc.v1.GetRunReportResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetRunReportRequest,
      io.github.protolink_grpc.v1.GetRunReportResponse> getGetRunReportMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetRunReportRequest, io.github.protolink_grpc.v1.GetRunReportResponse> getGetRunReportMethod;
    if ((getGetRunReportMethod = ControlServiceGrpc.getGetRunReportMethod) == null) {
      synchronized (ControlServiceGrpc.class) {
        if ((getGetRunReportMethod = ControlServiceGrpc.getGetRunReportMethod) == null) {
          ControlServiceGrpc.getGetRunReportMethod = getGetRunReportMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetRunReportRequest, io.github.protolink_grpc.v1.GetRunReportResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetRunReport"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetRunReportRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetRunReportResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ControlServiceMethodDescriptorSupplier("GetRunReport"))
              .build();
        }
      }
    }
    return getGetRunReportMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ExportTaskRequest,
      io.github.protolink_grpc.v1.ExportTaskResponse> getExportTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ExportTask",
      requestType = io.github.protolink_grpc.v1.ExportTaskRequest.class,
      responseType = io.github.protolink_grpc.v1.ExportTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ExportTaskRequest,
      io.github.protolink_grpc.v1.ExportTaskResponse> getExportTaskMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ExportTaskRequest, io.github.protolink_grpc.v1.ExportTaskResponse> getExportTaskMethod;
    if ((getExportTaskMethod = ControlServiceGrpc.getExportTaskMethod) == null) {
      synchronized (ControlServiceGrpc.class) {
        if ((getExportTaskMethod = ControlServiceGrpc.getExportTaskMethod) == null) {
          ControlServiceGrpc.getExportTaskMethod = getExportTaskMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.ExportTaskRequest, io.github.protolink_grpc.v1.ExportTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ExportTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ExportTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ExportTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ControlServiceMethodDescriptorSupplier("ExportTask"))
              .build();
        }
      }
    }
    return getExportTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.DescribeStateRequest,
      io.github.protolink_grpc.v1.DescribeStateResponse> getDescribeStateMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DescribeState",
      requestType = io.github.protolink_grpc.v1.DescribeStateRequest.class,
      responseType = io.github.protolink_grpc.v1.DescribeStateResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.DescribeStateRequest,
      io.github.protolink_grpc.v1.DescribeStateResponse> getDescribeStateMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.DescribeStateRequest, io.github.protolink_grpc.v1.DescribeStateResponse> getDescribeStateMethod;
    if ((getDescribeStateMethod = ControlServiceGrpc.getDescribeStateMethod) == null) {
      synchronized (ControlServiceGrpc.class) {
        if ((getDescribeStateMethod = ControlServiceGrpc.getDescribeStateMethod) == null) {
          ControlServiceGrpc.getDescribeStateMethod = getDescribeStateMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.DescribeStateRequest, io.github.protolink_grpc.v1.DescribeStateResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DescribeState"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.DescribeStateRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.DescribeStateResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ControlServiceMethodDescriptorSupplier("DescribeState"))
              .build();
        }
      }
    }
    return getDescribeStateMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ResetStateRequest,
      io.github.protolink_grpc.v1.ResetStateResponse> getResetStateMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResetState",
      requestType = io.github.protolink_grpc.v1.ResetStateRequest.class,
      responseType = io.github.protolink_grpc.v1.ResetStateResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ResetStateRequest,
      io.github.protolink_grpc.v1.ResetStateResponse> getResetStateMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ResetStateRequest, io.github.protolink_grpc.v1.ResetStateResponse> getResetStateMethod;
    if ((getResetStateMethod = ControlServiceGrpc.getResetStateMethod) == null) {
      synchronized (ControlServiceGrpc.class) {
        if ((getResetStateMethod = ControlServiceGrpc.getResetStateMethod) == null) {
          ControlServiceGrpc.getResetStateMethod = getResetStateMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.ResetStateRequest, io.github.protolink_grpc.v1.ResetStateResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResetState"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ResetStateRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ResetStateResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ControlServiceMethodDescriptorSupplier("ResetState"))
              .build();
        }
      }
    }
    return getResetStateMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CompactStateRequest,
      io.github.protolink_grpc.v1.CompactStateResponse> getCompactStateMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CompactState",
      requestType = io.github.protolink_grpc.v1.CompactStateRequest.class,
      responseType = io.github.protolink_grpc.v1.CompactStateResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CompactStateRequest,
      io.github.protolink_grpc.v1.CompactStateResponse> getCompactStateMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CompactStateRequest, io.github.protolink_grpc.v1.CompactStateResponse> getCompactStateMethod;
    if ((getCompactStateMethod = ControlServiceGrpc.getCompactStateMethod) == null) {
      synchronized (ControlServiceGrpc.class) {
        if ((getCompactStateMethod = ControlServiceGrpc.getCompactStateMethod) == null) {
          ControlServiceGrpc.getCompactStateMethod = getCompactStateMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.CompactStateRequest, io.github.protolink_grpc.v1.CompactStateResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CompactState"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CompactStateRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CompactStateResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ControlServiceMethodDescriptorSupplier("CompactState"))
              .build();
        }
      }
    }
    return getCompactStateMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListToolsRequest,
      io.github.protolink_grpc.v1.ListToolsResponse> getListToolsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTools",
      requestType = io.github.protolink_grpc.v1.ListToolsRequest.class,
      responseType = io.github.protolink_grpc.v1.ListToolsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListToolsRequest,
      io.github.protolink_grpc.v1.ListToolsResponse> getListToolsMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListToolsRequest, io.github.protolink_grpc.v1.ListToolsResponse> getListToolsMethod;
    if ((getListToolsMethod = ControlServiceGrpc.getListToolsMethod) == null) {
      synchronized (ControlServiceGrpc.class) {
        if ((getListToolsMethod = ControlServiceGrpc.getListToolsMethod) == null) {
          ControlServiceGrpc.getListToolsMethod = getListToolsMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.ListToolsRequest, io.github.protolink_grpc.v1.ListToolsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTools"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListToolsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListToolsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ControlServiceMethodDescriptorSupplier("ListTools"))
              .build();
        }
      }
    }
    return getListToolsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CallToolRequest,
      io.github.protolink_grpc.v1.CallToolResponse> getCallToolMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CallTool",
      requestType = io.github.protolink_grpc.v1.CallToolRequest.class,
      responseType = io.github.protolink_grpc.v1.CallToolResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CallToolRequest,
      io.github.protolink_grpc.v1.CallToolResponse> getCallToolMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CallToolRequest, io.github.protolink_grpc.v1.CallToolResponse> getCallToolMethod;
    if ((getCallToolMethod = ControlServiceGrpc.getCallToolMethod) == null) {
      synchronized (ControlServiceGrpc.class) {
        if ((getCallToolMethod = ControlServiceGrpc.getCallToolMethod) == null) {
          ControlServiceGrpc.getCallToolMethod = getCallToolMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.CallToolRequest, io.github.protolink_grpc.v1.CallToolResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CallTool"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CallToolRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CallToolResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ControlServiceMethodDescriptorSupplier("CallTool"))
              .build();
        }
      }
    }
    return getCallToolMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static ControlServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ControlServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ControlServiceStub>() {
        @java.lang.Override
        public ControlServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ControlServiceStub(channel, callOptions);
        }
      };
    return ControlServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static ControlServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ControlServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ControlServiceBlockingV2Stub>() {
        @java.lang.Override
        public ControlServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ControlServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return ControlServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static ControlServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ControlServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ControlServiceBlockingStub>() {
        @java.lang.Override
        public ControlServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ControlServiceBlockingStub(channel, callOptions);
        }
      };
    return ControlServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static ControlServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ControlServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ControlServiceFutureStub>() {
        @java.lang.Override
        public ControlServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ControlServiceFutureStub(channel, callOptions);
        }
      };
    return ControlServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * ControlService controls an agent while it works. Its calls are never queued behind runs.
   * Size limits and errors are those of AgentService. A method that an agent does not support fails with UNIMPLEMENTED/UNIMPLEMENTED.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * ListApprovals returns the approvals that the caller may decide, and those of the caller's own tasks.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void listApprovals(io.github.protolink_grpc.v1.ListApprovalsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListApprovalsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListApprovalsMethod(), responseObserver);
    }

    /**
     * <pre>
     * WatchApprovals streams approvals as they are requested and decided. It does not end by itself. WatchPosition has the rules.
     * Without `after_revision`, the stream begins with a snapshot of the pending approvals. With `after_revision`, it begins with the
     * approvals that changed after that revision, each in its current state, including decisions made while the reader was
     * disconnected.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void watchApprovals(io.github.protolink_grpc.v1.WatchApprovalsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.WatchApprovalsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchApprovalsMethod(), responseObserver);
    }

    /**
     * <pre>
     * RespondApproval decides an approval. The first decision counts; for a later one nothing changes and `already_decided` is set.
     * Repeating a request with the same `request_id` is safe: it returns the first response again.
     * Errors: NOT_FOUND/APPROVAL_NOT_FOUND, PERMISSION_DENIED/PERMISSION_DENIED (only an approver may decide),
     * FAILED_PRECONDITION/APPROVAL_CHANGED (`etag` does not match), INVALID_ARGUMENT/INVALID_ARGUMENT (also: approving without `etag`,
     * edited arguments that the policy does not allow, a `request_id` that was used for a different decision about this approval).
     * </pre>
     */
    default void respondApproval(io.github.protolink_grpc.v1.RespondApprovalRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RespondApprovalResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRespondApprovalMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetRunReport returns the report of a run in pieces; concatenated they are the report.
     * Errors: NOT_FOUND/TASK_NOT_FOUND (also if the task has no such run).
     * </pre>
     */
    default void getRunReport(io.github.protolink_grpc.v1.GetRunReportRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetRunReportResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetRunReportMethod(), responseObserver);
    }

    /**
     * <pre>
     * ExportTask returns the log of a task in another format, in pieces; concatenated they are the export.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void exportTask(io.github.protolink_grpc.v1.ExportTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ExportTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getExportTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * DescribeState returns what an agent has stored about the caller's sessions and their threads. An unknown session is described as
     * empty.
     * A response has at most 1 MiB of content. Content that does not fit is left out, and its size is in `omitted_bytes`.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    default void describeState(io.github.protolink_grpc.v1.DescribeStateRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.DescribeStateResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDescribeStateMethod(), responseObserver);
    }

    /**
     * <pre>
     * ResetState deletes the stored state of one session with its threads, or of all sessions of the caller.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    default void resetState(io.github.protolink_grpc.v1.ResetStateRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ResetStateResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResetStateMethod(), responseObserver);
    }

    /**
     * <pre>
     * CompactState shortens the stored conversation of a session, without those of its other threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    default void compactState(io.github.protolink_grpc.v1.CompactStateRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CompactStateResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCompactStateMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListTools returns the agent's tools, ordered by name.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void listTools(io.github.protolink_grpc.v1.ListToolsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListToolsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListToolsMethod(), responseObserver);
    }

    /**
     * <pre>
     * CallTool runs one tool as a task of its own, under the same policy as any other tool call, and waits for its end.
     * The failure of a tool that ran is not an error of the call: the failure is in the output. The task does not end with the call: a
     * deadline limits only the wait. A caller that set `task_id` can then get, watch and cancel the task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/TOOL_REJECTED, ALREADY_EXISTS/TASK_ALREADY_EXISTS,
     * PERMISSION_DENIED/ACTION_DENIED, FAILED_PRECONDITION/APPROVAL_DENIED, FAILED_PRECONDITION/APPROVAL_REQUIRED,
     * FAILED_PRECONDITION/BUDGET_EXCEEDED, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
     * </pre>
     */
    default void callTool(io.github.protolink_grpc.v1.CallToolRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CallToolResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCallToolMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service ControlService.
   * <pre>
   * ControlService controls an agent while it works. Its calls are never queued behind runs.
   * Size limits and errors are those of AgentService. A method that an agent does not support fails with UNIMPLEMENTED/UNIMPLEMENTED.
   * </pre>
   */
  public static abstract class ControlServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return ControlServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service ControlService.
   * <pre>
   * ControlService controls an agent while it works. Its calls are never queued behind runs.
   * Size limits and errors are those of AgentService. A method that an agent does not support fails with UNIMPLEMENTED/UNIMPLEMENTED.
   * </pre>
   */
  public static final class ControlServiceStub
      extends io.grpc.stub.AbstractAsyncStub<ControlServiceStub> {
    private ControlServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ControlServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ControlServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListApprovals returns the approvals that the caller may decide, and those of the caller's own tasks.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void listApprovals(io.github.protolink_grpc.v1.ListApprovalsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListApprovalsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListApprovalsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * WatchApprovals streams approvals as they are requested and decided. It does not end by itself. WatchPosition has the rules.
     * Without `after_revision`, the stream begins with a snapshot of the pending approvals. With `after_revision`, it begins with the
     * approvals that changed after that revision, each in its current state, including decisions made while the reader was
     * disconnected.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void watchApprovals(io.github.protolink_grpc.v1.WatchApprovalsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.WatchApprovalsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchApprovalsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RespondApproval decides an approval. The first decision counts; for a later one nothing changes and `already_decided` is set.
     * Repeating a request with the same `request_id` is safe: it returns the first response again.
     * Errors: NOT_FOUND/APPROVAL_NOT_FOUND, PERMISSION_DENIED/PERMISSION_DENIED (only an approver may decide),
     * FAILED_PRECONDITION/APPROVAL_CHANGED (`etag` does not match), INVALID_ARGUMENT/INVALID_ARGUMENT (also: approving without `etag`,
     * edited arguments that the policy does not allow, a `request_id` that was used for a different decision about this approval).
     * </pre>
     */
    public void respondApproval(io.github.protolink_grpc.v1.RespondApprovalRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RespondApprovalResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRespondApprovalMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetRunReport returns the report of a run in pieces; concatenated they are the report.
     * Errors: NOT_FOUND/TASK_NOT_FOUND (also if the task has no such run).
     * </pre>
     */
    public void getRunReport(io.github.protolink_grpc.v1.GetRunReportRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetRunReportResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getGetRunReportMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ExportTask returns the log of a task in another format, in pieces; concatenated they are the export.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void exportTask(io.github.protolink_grpc.v1.ExportTaskRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ExportTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getExportTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * DescribeState returns what an agent has stored about the caller's sessions and their threads. An unknown session is described as
     * empty.
     * A response has at most 1 MiB of content. Content that does not fit is left out, and its size is in `omitted_bytes`.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public void describeState(io.github.protolink_grpc.v1.DescribeStateRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.DescribeStateResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDescribeStateMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ResetState deletes the stored state of one session with its threads, or of all sessions of the caller.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public void resetState(io.github.protolink_grpc.v1.ResetStateRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ResetStateResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResetStateMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * CompactState shortens the stored conversation of a session, without those of its other threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public void compactState(io.github.protolink_grpc.v1.CompactStateRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CompactStateResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCompactStateMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListTools returns the agent's tools, ordered by name.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void listTools(io.github.protolink_grpc.v1.ListToolsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListToolsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListToolsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * CallTool runs one tool as a task of its own, under the same policy as any other tool call, and waits for its end.
     * The failure of a tool that ran is not an error of the call: the failure is in the output. The task does not end with the call: a
     * deadline limits only the wait. A caller that set `task_id` can then get, watch and cancel the task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/TOOL_REJECTED, ALREADY_EXISTS/TASK_ALREADY_EXISTS,
     * PERMISSION_DENIED/ACTION_DENIED, FAILED_PRECONDITION/APPROVAL_DENIED, FAILED_PRECONDITION/APPROVAL_REQUIRED,
     * FAILED_PRECONDITION/BUDGET_EXCEEDED, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
     * </pre>
     */
    public void callTool(io.github.protolink_grpc.v1.CallToolRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CallToolResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCallToolMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service ControlService.
   * <pre>
   * ControlService controls an agent while it works. Its calls are never queued behind runs.
   * Size limits and errors are those of AgentService. A method that an agent does not support fails with UNIMPLEMENTED/UNIMPLEMENTED.
   * </pre>
   */
  public static final class ControlServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<ControlServiceBlockingV2Stub> {
    private ControlServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ControlServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ControlServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * ListApprovals returns the approvals that the caller may decide, and those of the caller's own tasks.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListApprovalsResponse listApprovals(io.github.protolink_grpc.v1.ListApprovalsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListApprovalsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchApprovals streams approvals as they are requested and decided. It does not end by itself. WatchPosition has the rules.
     * Without `after_revision`, the stream begins with a snapshot of the pending approvals. With `after_revision`, it begins with the
     * approvals that changed after that revision, each in its current state, including decisions made while the reader was
     * disconnected.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.protolink_grpc.v1.WatchApprovalsResponse>
        watchApprovals(io.github.protolink_grpc.v1.WatchApprovalsRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchApprovalsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RespondApproval decides an approval. The first decision counts; for a later one nothing changes and `already_decided` is set.
     * Repeating a request with the same `request_id` is safe: it returns the first response again.
     * Errors: NOT_FOUND/APPROVAL_NOT_FOUND, PERMISSION_DENIED/PERMISSION_DENIED (only an approver may decide),
     * FAILED_PRECONDITION/APPROVAL_CHANGED (`etag` does not match), INVALID_ARGUMENT/INVALID_ARGUMENT (also: approving without `etag`,
     * edited arguments that the policy does not allow, a `request_id` that was used for a different decision about this approval).
     * </pre>
     */
    public io.github.protolink_grpc.v1.RespondApprovalResponse respondApproval(io.github.protolink_grpc.v1.RespondApprovalRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRespondApprovalMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetRunReport returns the report of a run in pieces; concatenated they are the report.
     * Errors: NOT_FOUND/TASK_NOT_FOUND (also if the task has no such run).
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.protolink_grpc.v1.GetRunReportResponse>
        getRunReport(io.github.protolink_grpc.v1.GetRunReportRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getGetRunReportMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ExportTask returns the log of a task in another format, in pieces; concatenated they are the export.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.protolink_grpc.v1.ExportTaskResponse>
        exportTask(io.github.protolink_grpc.v1.ExportTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getExportTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DescribeState returns what an agent has stored about the caller's sessions and their threads. An unknown session is described as
     * empty.
     * A response has at most 1 MiB of content. Content that does not fit is left out, and its size is in `omitted_bytes`.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.DescribeStateResponse describeState(io.github.protolink_grpc.v1.DescribeStateRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDescribeStateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResetState deletes the stored state of one session with its threads, or of all sessions of the caller.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ResetStateResponse resetState(io.github.protolink_grpc.v1.ResetStateRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResetStateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CompactState shortens the stored conversation of a session, without those of its other threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.CompactStateResponse compactState(io.github.protolink_grpc.v1.CompactStateRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCompactStateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListTools returns the agent's tools, ordered by name.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListToolsResponse listTools(io.github.protolink_grpc.v1.ListToolsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CallTool runs one tool as a task of its own, under the same policy as any other tool call, and waits for its end.
     * The failure of a tool that ran is not an error of the call: the failure is in the output. The task does not end with the call: a
     * deadline limits only the wait. A caller that set `task_id` can then get, watch and cancel the task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/TOOL_REJECTED, ALREADY_EXISTS/TASK_ALREADY_EXISTS,
     * PERMISSION_DENIED/ACTION_DENIED, FAILED_PRECONDITION/APPROVAL_DENIED, FAILED_PRECONDITION/APPROVAL_REQUIRED,
     * FAILED_PRECONDITION/BUDGET_EXCEEDED, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.CallToolResponse callTool(io.github.protolink_grpc.v1.CallToolRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCallToolMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service ControlService.
   * <pre>
   * ControlService controls an agent while it works. Its calls are never queued behind runs.
   * Size limits and errors are those of AgentService. A method that an agent does not support fails with UNIMPLEMENTED/UNIMPLEMENTED.
   * </pre>
   */
  public static final class ControlServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<ControlServiceBlockingStub> {
    private ControlServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ControlServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ControlServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListApprovals returns the approvals that the caller may decide, and those of the caller's own tasks.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListApprovalsResponse listApprovals(io.github.protolink_grpc.v1.ListApprovalsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListApprovalsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchApprovals streams approvals as they are requested and decided. It does not end by itself. WatchPosition has the rules.
     * Without `after_revision`, the stream begins with a snapshot of the pending approvals. With `after_revision`, it begins with the
     * approvals that changed after that revision, each in its current state, including decisions made while the reader was
     * disconnected.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public java.util.Iterator<io.github.protolink_grpc.v1.WatchApprovalsResponse> watchApprovals(
        io.github.protolink_grpc.v1.WatchApprovalsRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchApprovalsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RespondApproval decides an approval. The first decision counts; for a later one nothing changes and `already_decided` is set.
     * Repeating a request with the same `request_id` is safe: it returns the first response again.
     * Errors: NOT_FOUND/APPROVAL_NOT_FOUND, PERMISSION_DENIED/PERMISSION_DENIED (only an approver may decide),
     * FAILED_PRECONDITION/APPROVAL_CHANGED (`etag` does not match), INVALID_ARGUMENT/INVALID_ARGUMENT (also: approving without `etag`,
     * edited arguments that the policy does not allow, a `request_id` that was used for a different decision about this approval).
     * </pre>
     */
    public io.github.protolink_grpc.v1.RespondApprovalResponse respondApproval(io.github.protolink_grpc.v1.RespondApprovalRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRespondApprovalMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetRunReport returns the report of a run in pieces; concatenated they are the report.
     * Errors: NOT_FOUND/TASK_NOT_FOUND (also if the task has no such run).
     * </pre>
     */
    public java.util.Iterator<io.github.protolink_grpc.v1.GetRunReportResponse> getRunReport(
        io.github.protolink_grpc.v1.GetRunReportRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getGetRunReportMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ExportTask returns the log of a task in another format, in pieces; concatenated they are the export.
     * Errors: NOT_FOUND/TASK_NOT_FOUND, INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public java.util.Iterator<io.github.protolink_grpc.v1.ExportTaskResponse> exportTask(
        io.github.protolink_grpc.v1.ExportTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getExportTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DescribeState returns what an agent has stored about the caller's sessions and their threads. An unknown session is described as
     * empty.
     * A response has at most 1 MiB of content. Content that does not fit is left out, and its size is in `omitted_bytes`.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.DescribeStateResponse describeState(io.github.protolink_grpc.v1.DescribeStateRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDescribeStateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResetState deletes the stored state of one session with its threads, or of all sessions of the caller.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ResetStateResponse resetState(io.github.protolink_grpc.v1.ResetStateRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResetStateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CompactState shortens the stored conversation of a session, without those of its other threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.CompactStateResponse compactState(io.github.protolink_grpc.v1.CompactStateRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCompactStateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListTools returns the agent's tools, ordered by name.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListToolsResponse listTools(io.github.protolink_grpc.v1.ListToolsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CallTool runs one tool as a task of its own, under the same policy as any other tool call, and waits for its end.
     * The failure of a tool that ran is not an error of the call: the failure is in the output. The task does not end with the call: a
     * deadline limits only the wait. A caller that set `task_id` can then get, watch and cancel the task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/TOOL_REJECTED, ALREADY_EXISTS/TASK_ALREADY_EXISTS,
     * PERMISSION_DENIED/ACTION_DENIED, FAILED_PRECONDITION/APPROVAL_DENIED, FAILED_PRECONDITION/APPROVAL_REQUIRED,
     * FAILED_PRECONDITION/BUDGET_EXCEEDED, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.CallToolResponse callTool(io.github.protolink_grpc.v1.CallToolRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCallToolMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service ControlService.
   * <pre>
   * ControlService controls an agent while it works. Its calls are never queued behind runs.
   * Size limits and errors are those of AgentService. A method that an agent does not support fails with UNIMPLEMENTED/UNIMPLEMENTED.
   * </pre>
   */
  public static final class ControlServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<ControlServiceFutureStub> {
    private ControlServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ControlServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ControlServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListApprovals returns the approvals that the caller may decide, and those of the caller's own tasks.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.ListApprovalsResponse> listApprovals(
        io.github.protolink_grpc.v1.ListApprovalsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListApprovalsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RespondApproval decides an approval. The first decision counts; for a later one nothing changes and `already_decided` is set.
     * Repeating a request with the same `request_id` is safe: it returns the first response again.
     * Errors: NOT_FOUND/APPROVAL_NOT_FOUND, PERMISSION_DENIED/PERMISSION_DENIED (only an approver may decide),
     * FAILED_PRECONDITION/APPROVAL_CHANGED (`etag` does not match), INVALID_ARGUMENT/INVALID_ARGUMENT (also: approving without `etag`,
     * edited arguments that the policy does not allow, a `request_id` that was used for a different decision about this approval).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.RespondApprovalResponse> respondApproval(
        io.github.protolink_grpc.v1.RespondApprovalRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRespondApprovalMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * DescribeState returns what an agent has stored about the caller's sessions and their threads. An unknown session is described as
     * empty.
     * A response has at most 1 MiB of content. Content that does not fit is left out, and its size is in `omitted_bytes`.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.DescribeStateResponse> describeState(
        io.github.protolink_grpc.v1.DescribeStateRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDescribeStateMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ResetState deletes the stored state of one session with its threads, or of all sessions of the caller.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.ResetStateResponse> resetState(
        io.github.protolink_grpc.v1.ResetStateRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResetStateMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * CompactState shortens the stored conversation of a session, without those of its other threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.CompactStateResponse> compactState(
        io.github.protolink_grpc.v1.CompactStateRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCompactStateMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListTools returns the agent's tools, ordered by name.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.ListToolsResponse> listTools(
        io.github.protolink_grpc.v1.ListToolsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListToolsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * CallTool runs one tool as a task of its own, under the same policy as any other tool call, and waits for its end.
     * The failure of a tool that ran is not an error of the call: the failure is in the output. The task does not end with the call: a
     * deadline limits only the wait. A caller that set `task_id` can then get, watch and cancel the task.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/TOOL_REJECTED, ALREADY_EXISTS/TASK_ALREADY_EXISTS,
     * PERMISSION_DENIED/ACTION_DENIED, FAILED_PRECONDITION/APPROVAL_DENIED, FAILED_PRECONDITION/APPROVAL_REQUIRED,
     * FAILED_PRECONDITION/BUDGET_EXCEEDED, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.CallToolResponse> callTool(
        io.github.protolink_grpc.v1.CallToolRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCallToolMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_APPROVALS = 0;
  private static final int METHODID_WATCH_APPROVALS = 1;
  private static final int METHODID_RESPOND_APPROVAL = 2;
  private static final int METHODID_GET_RUN_REPORT = 3;
  private static final int METHODID_EXPORT_TASK = 4;
  private static final int METHODID_DESCRIBE_STATE = 5;
  private static final int METHODID_RESET_STATE = 6;
  private static final int METHODID_COMPACT_STATE = 7;
  private static final int METHODID_LIST_TOOLS = 8;
  private static final int METHODID_CALL_TOOL = 9;

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
        case METHODID_LIST_APPROVALS:
          serviceImpl.listApprovals((io.github.protolink_grpc.v1.ListApprovalsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListApprovalsResponse>) responseObserver);
          break;
        case METHODID_WATCH_APPROVALS:
          serviceImpl.watchApprovals((io.github.protolink_grpc.v1.WatchApprovalsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.WatchApprovalsResponse>) responseObserver);
          break;
        case METHODID_RESPOND_APPROVAL:
          serviceImpl.respondApproval((io.github.protolink_grpc.v1.RespondApprovalRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RespondApprovalResponse>) responseObserver);
          break;
        case METHODID_GET_RUN_REPORT:
          serviceImpl.getRunReport((io.github.protolink_grpc.v1.GetRunReportRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetRunReportResponse>) responseObserver);
          break;
        case METHODID_EXPORT_TASK:
          serviceImpl.exportTask((io.github.protolink_grpc.v1.ExportTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ExportTaskResponse>) responseObserver);
          break;
        case METHODID_DESCRIBE_STATE:
          serviceImpl.describeState((io.github.protolink_grpc.v1.DescribeStateRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.DescribeStateResponse>) responseObserver);
          break;
        case METHODID_RESET_STATE:
          serviceImpl.resetState((io.github.protolink_grpc.v1.ResetStateRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ResetStateResponse>) responseObserver);
          break;
        case METHODID_COMPACT_STATE:
          serviceImpl.compactState((io.github.protolink_grpc.v1.CompactStateRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CompactStateResponse>) responseObserver);
          break;
        case METHODID_LIST_TOOLS:
          serviceImpl.listTools((io.github.protolink_grpc.v1.ListToolsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListToolsResponse>) responseObserver);
          break;
        case METHODID_CALL_TOOL:
          serviceImpl.callTool((io.github.protolink_grpc.v1.CallToolRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CallToolResponse>) responseObserver);
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
          getListApprovalsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.ListApprovalsRequest,
              io.github.protolink_grpc.v1.ListApprovalsResponse>(
                service, METHODID_LIST_APPROVALS)))
        .addMethod(
          getWatchApprovalsMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.WatchApprovalsRequest,
              io.github.protolink_grpc.v1.WatchApprovalsResponse>(
                service, METHODID_WATCH_APPROVALS)))
        .addMethod(
          getRespondApprovalMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.RespondApprovalRequest,
              io.github.protolink_grpc.v1.RespondApprovalResponse>(
                service, METHODID_RESPOND_APPROVAL)))
        .addMethod(
          getGetRunReportMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetRunReportRequest,
              io.github.protolink_grpc.v1.GetRunReportResponse>(
                service, METHODID_GET_RUN_REPORT)))
        .addMethod(
          getExportTaskMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.ExportTaskRequest,
              io.github.protolink_grpc.v1.ExportTaskResponse>(
                service, METHODID_EXPORT_TASK)))
        .addMethod(
          getDescribeStateMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.DescribeStateRequest,
              io.github.protolink_grpc.v1.DescribeStateResponse>(
                service, METHODID_DESCRIBE_STATE)))
        .addMethod(
          getResetStateMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.ResetStateRequest,
              io.github.protolink_grpc.v1.ResetStateResponse>(
                service, METHODID_RESET_STATE)))
        .addMethod(
          getCompactStateMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.CompactStateRequest,
              io.github.protolink_grpc.v1.CompactStateResponse>(
                service, METHODID_COMPACT_STATE)))
        .addMethod(
          getListToolsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.ListToolsRequest,
              io.github.protolink_grpc.v1.ListToolsResponse>(
                service, METHODID_LIST_TOOLS)))
        .addMethod(
          getCallToolMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.CallToolRequest,
              io.github.protolink_grpc.v1.CallToolResponse>(
                service, METHODID_CALL_TOOL)))
        .build();
  }

  private static abstract class ControlServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    ControlServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.protolink_grpc.v1.ControlServiceOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("ControlService");
    }
  }

  private static final class ControlServiceFileDescriptorSupplier
      extends ControlServiceBaseDescriptorSupplier {
    ControlServiceFileDescriptorSupplier() {}
  }

  private static final class ControlServiceMethodDescriptorSupplier
      extends ControlServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    ControlServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (ControlServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new ControlServiceFileDescriptorSupplier())
              .addMethod(getListApprovalsMethod())
              .addMethod(getWatchApprovalsMethod())
              .addMethod(getRespondApprovalMethod())
              .addMethod(getGetRunReportMethod())
              .addMethod(getExportTaskMethod())
              .addMethod(getDescribeStateMethod())
              .addMethod(getResetStateMethod())
              .addMethod(getCompactStateMethod())
              .addMethod(getListToolsMethod())
              .addMethod(getCallToolMethod())
              .build();
        }
      }
    }
    return result;
  }
}
