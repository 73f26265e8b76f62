package io.github.protolink_grpc.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * SessionService keeps the inputs of a conversation in order and streams everything that happens in it. It is made for hosts and
 * chat front ends.
 * A session belongs to the principal that created it; for every other principal it does not exist. A task that is sent with a
 * `session_id`, or over A2A with a `contextId`, belongs to the thread `default` of that session, which is created if necessary.
 * Size limits and errors are those of AgentService.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class SessionServiceGrpc {

  private SessionServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "plgrpc.v1.SessionService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CreateSessionRequest,
      io.github.protolink_grpc.v1.CreateSessionResponse> getCreateSessionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateSession",
      requestType = io.github.protolink_grpc.v1.CreateSessionRequest.class,
      responseType = io.github.protolink_grpc.v1.CreateSessionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CreateSessionRequest,
      io.github.protolink_grpc.v1.CreateSessionResponse> getCreateSessionMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.CreateSessionRequest, io.github.protolink_grpc.v1.CreateSessionResponse> getCreateSessionMethod;
    if ((getCreateSessionMethod = SessionServiceGrpc.getCreateSessionMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getCreateSessionMethod = SessionServiceGrpc.getCreateSessionMethod) == null) {
          SessionServiceGrpc.getCreateSessionMethod = getCreateSessionMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.CreateSessionRequest, io.github.protolink_grpc.v1.CreateSessionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateSession"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CreateSessionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.CreateSessionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("CreateSession"))
              .build();
        }
      }
    }
    return getCreateSessionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UpdateSessionRequest,
      io.github.protolink_grpc.v1.UpdateSessionResponse> getUpdateSessionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpdateSession",
      requestType = io.github.protolink_grpc.v1.UpdateSessionRequest.class,
      responseType = io.github.protolink_grpc.v1.UpdateSessionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UpdateSessionRequest,
      io.github.protolink_grpc.v1.UpdateSessionResponse> getUpdateSessionMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UpdateSessionRequest, io.github.protolink_grpc.v1.UpdateSessionResponse> getUpdateSessionMethod;
    if ((getUpdateSessionMethod = SessionServiceGrpc.getUpdateSessionMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getUpdateSessionMethod = SessionServiceGrpc.getUpdateSessionMethod) == null) {
          SessionServiceGrpc.getUpdateSessionMethod = getUpdateSessionMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.UpdateSessionRequest, io.github.protolink_grpc.v1.UpdateSessionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpdateSession"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.UpdateSessionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.UpdateSessionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("UpdateSession"))
              .build();
        }
      }
    }
    return getUpdateSessionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetSessionRequest,
      io.github.protolink_grpc.v1.GetSessionResponse> getGetSessionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetSession",
      requestType = io.github.protolink_grpc.v1.GetSessionRequest.class,
      responseType = io.github.protolink_grpc.v1.GetSessionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetSessionRequest,
      io.github.protolink_grpc.v1.GetSessionResponse> getGetSessionMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetSessionRequest, io.github.protolink_grpc.v1.GetSessionResponse> getGetSessionMethod;
    if ((getGetSessionMethod = SessionServiceGrpc.getGetSessionMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getGetSessionMethod = SessionServiceGrpc.getGetSessionMethod) == null) {
          SessionServiceGrpc.getGetSessionMethod = getGetSessionMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetSessionRequest, io.github.protolink_grpc.v1.GetSessionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetSession"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetSessionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetSessionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("GetSession"))
              .build();
        }
      }
    }
    return getGetSessionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListSessionsRequest,
      io.github.protolink_grpc.v1.ListSessionsResponse> getListSessionsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListSessions",
      requestType = io.github.protolink_grpc.v1.ListSessionsRequest.class,
      responseType = io.github.protolink_grpc.v1.ListSessionsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListSessionsRequest,
      io.github.protolink_grpc.v1.ListSessionsResponse> getListSessionsMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListSessionsRequest, io.github.protolink_grpc.v1.ListSessionsResponse> getListSessionsMethod;
    if ((getListSessionsMethod = SessionServiceGrpc.getListSessionsMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getListSessionsMethod = SessionServiceGrpc.getListSessionsMethod) == null) {
          SessionServiceGrpc.getListSessionsMethod = getListSessionsMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.ListSessionsRequest, io.github.protolink_grpc.v1.ListSessionsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListSessions"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListSessionsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListSessionsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("ListSessions"))
              .build();
        }
      }
    }
    return getListSessionsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.DeleteSessionRequest,
      io.github.protolink_grpc.v1.DeleteSessionResponse> getDeleteSessionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteSession",
      requestType = io.github.protolink_grpc.v1.DeleteSessionRequest.class,
      responseType = io.github.protolink_grpc.v1.DeleteSessionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.DeleteSessionRequest,
      io.github.protolink_grpc.v1.DeleteSessionResponse> getDeleteSessionMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.DeleteSessionRequest, io.github.protolink_grpc.v1.DeleteSessionResponse> getDeleteSessionMethod;
    if ((getDeleteSessionMethod = SessionServiceGrpc.getDeleteSessionMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getDeleteSessionMethod = SessionServiceGrpc.getDeleteSessionMethod) == null) {
          SessionServiceGrpc.getDeleteSessionMethod = getDeleteSessionMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.DeleteSessionRequest, io.github.protolink_grpc.v1.DeleteSessionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteSession"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.DeleteSessionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.DeleteSessionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("DeleteSession"))
              .build();
        }
      }
    }
    return getDeleteSessionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StartThreadRequest,
      io.github.protolink_grpc.v1.StartThreadResponse> getStartThreadMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "StartThread",
      requestType = io.github.protolink_grpc.v1.StartThreadRequest.class,
      responseType = io.github.protolink_grpc.v1.StartThreadResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StartThreadRequest,
      io.github.protolink_grpc.v1.StartThreadResponse> getStartThreadMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StartThreadRequest, io.github.protolink_grpc.v1.StartThreadResponse> getStartThreadMethod;
    if ((getStartThreadMethod = SessionServiceGrpc.getStartThreadMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getStartThreadMethod = SessionServiceGrpc.getStartThreadMethod) == null) {
          SessionServiceGrpc.getStartThreadMethod = getStartThreadMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.StartThreadRequest, io.github.protolink_grpc.v1.StartThreadResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "StartThread"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.StartThreadRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.StartThreadResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("StartThread"))
              .build();
        }
      }
    }
    return getStartThreadMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SubmitTurnRequest,
      io.github.protolink_grpc.v1.SubmitTurnResponse> getSubmitTurnMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SubmitTurn",
      requestType = io.github.protolink_grpc.v1.SubmitTurnRequest.class,
      responseType = io.github.protolink_grpc.v1.SubmitTurnResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SubmitTurnRequest,
      io.github.protolink_grpc.v1.SubmitTurnResponse> getSubmitTurnMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SubmitTurnRequest, io.github.protolink_grpc.v1.SubmitTurnResponse> getSubmitTurnMethod;
    if ((getSubmitTurnMethod = SessionServiceGrpc.getSubmitTurnMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getSubmitTurnMethod = SessionServiceGrpc.getSubmitTurnMethod) == null) {
          SessionServiceGrpc.getSubmitTurnMethod = getSubmitTurnMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.SubmitTurnRequest, io.github.protolink_grpc.v1.SubmitTurnResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SubmitTurn"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.SubmitTurnRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.SubmitTurnResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("SubmitTurn"))
              .build();
        }
      }
    }
    return getSubmitTurnMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StreamTurnRequest,
      io.github.protolink_grpc.v1.StreamTurnResponse> getStreamTurnMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "StreamTurn",
      requestType = io.github.protolink_grpc.v1.StreamTurnRequest.class,
      responseType = io.github.protolink_grpc.v1.StreamTurnResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StreamTurnRequest,
      io.github.protolink_grpc.v1.StreamTurnResponse> getStreamTurnMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StreamTurnRequest, io.github.protolink_grpc.v1.StreamTurnResponse> getStreamTurnMethod;
    if ((getStreamTurnMethod = SessionServiceGrpc.getStreamTurnMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getStreamTurnMethod = SessionServiceGrpc.getStreamTurnMethod) == null) {
          SessionServiceGrpc.getStreamTurnMethod = getStreamTurnMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.StreamTurnRequest, io.github.protolink_grpc.v1.StreamTurnResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "StreamTurn"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.StreamTurnRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.StreamTurnResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("StreamTurn"))
              .build();
        }
      }
    }
    return getStreamTurnMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UpdateQueuedTurnRequest,
      io.github.protolink_grpc.v1.UpdateQueuedTurnResponse> getUpdateQueuedTurnMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpdateQueuedTurn",
      requestType = io.github.protolink_grpc.v1.UpdateQueuedTurnRequest.class,
      responseType = io.github.protolink_grpc.v1.UpdateQueuedTurnResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UpdateQueuedTurnRequest,
      io.github.protolink_grpc.v1.UpdateQueuedTurnResponse> getUpdateQueuedTurnMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.UpdateQueuedTurnRequest, io.github.protolink_grpc.v1.UpdateQueuedTurnResponse> getUpdateQueuedTurnMethod;
    if ((getUpdateQueuedTurnMethod = SessionServiceGrpc.getUpdateQueuedTurnMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getUpdateQueuedTurnMethod = SessionServiceGrpc.getUpdateQueuedTurnMethod) == null) {
          SessionServiceGrpc.getUpdateQueuedTurnMethod = getUpdateQueuedTurnMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.UpdateQueuedTurnRequest, io.github.protolink_grpc.v1.UpdateQueuedTurnResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpdateQueuedTurn"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.UpdateQueuedTurnRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.UpdateQueuedTurnResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("UpdateQueuedTurn"))
              .build();
        }
      }
    }
    return getUpdateQueuedTurnMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RollbackThreadRequest,
      io.github.protolink_grpc.v1.RollbackThreadResponse> getRollbackThreadMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RollbackThread",
      requestType = io.github.protolink_grpc.v1.RollbackThreadRequest.class,
      responseType = io.github.protolink_grpc.v1.RollbackThreadResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RollbackThreadRequest,
      io.github.protolink_grpc.v1.RollbackThreadResponse> getRollbackThreadMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RollbackThreadRequest, io.github.protolink_grpc.v1.RollbackThreadResponse> getRollbackThreadMethod;
    if ((getRollbackThreadMethod = SessionServiceGrpc.getRollbackThreadMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getRollbackThreadMethod = SessionServiceGrpc.getRollbackThreadMethod) == null) {
          SessionServiceGrpc.getRollbackThreadMethod = getRollbackThreadMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.RollbackThreadRequest, io.github.protolink_grpc.v1.RollbackThreadResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RollbackThread"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RollbackThreadRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RollbackThreadResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("RollbackThread"))
              .build();
        }
      }
    }
    return getRollbackThreadMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ResumeThreadRequest,
      io.github.protolink_grpc.v1.ResumeThreadResponse> getResumeThreadMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResumeThread",
      requestType = io.github.protolink_grpc.v1.ResumeThreadRequest.class,
      responseType = io.github.protolink_grpc.v1.ResumeThreadResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ResumeThreadRequest,
      io.github.protolink_grpc.v1.ResumeThreadResponse> getResumeThreadMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ResumeThreadRequest, io.github.protolink_grpc.v1.ResumeThreadResponse> getResumeThreadMethod;
    if ((getResumeThreadMethod = SessionServiceGrpc.getResumeThreadMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getResumeThreadMethod = SessionServiceGrpc.getResumeThreadMethod) == null) {
          SessionServiceGrpc.getResumeThreadMethod = getResumeThreadMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.ResumeThreadRequest, io.github.protolink_grpc.v1.ResumeThreadResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResumeThread"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ResumeThreadRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ResumeThreadResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("ResumeThread"))
              .build();
        }
      }
    }
    return getResumeThreadMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.InterruptTurnRequest,
      io.github.protolink_grpc.v1.InterruptTurnResponse> getInterruptTurnMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "InterruptTurn",
      requestType = io.github.protolink_grpc.v1.InterruptTurnRequest.class,
      responseType = io.github.protolink_grpc.v1.InterruptTurnResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.InterruptTurnRequest,
      io.github.protolink_grpc.v1.InterruptTurnResponse> getInterruptTurnMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.InterruptTurnRequest, io.github.protolink_grpc.v1.InterruptTurnResponse> getInterruptTurnMethod;
    if ((getInterruptTurnMethod = SessionServiceGrpc.getInterruptTurnMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getInterruptTurnMethod = SessionServiceGrpc.getInterruptTurnMethod) == null) {
          SessionServiceGrpc.getInterruptTurnMethod = getInterruptTurnMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.InterruptTurnRequest, io.github.protolink_grpc.v1.InterruptTurnResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "InterruptTurn"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.InterruptTurnRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.InterruptTurnResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("InterruptTurn"))
              .build();
        }
      }
    }
    return getInterruptTurnMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.PromoteQueuedTurnRequest,
      io.github.protolink_grpc.v1.PromoteQueuedTurnResponse> getPromoteQueuedTurnMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PromoteQueuedTurn",
      requestType = io.github.protolink_grpc.v1.PromoteQueuedTurnRequest.class,
      responseType = io.github.protolink_grpc.v1.PromoteQueuedTurnResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.PromoteQueuedTurnRequest,
      io.github.protolink_grpc.v1.PromoteQueuedTurnResponse> getPromoteQueuedTurnMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.PromoteQueuedTurnRequest, io.github.protolink_grpc.v1.PromoteQueuedTurnResponse> getPromoteQueuedTurnMethod;
    if ((getPromoteQueuedTurnMethod = SessionServiceGrpc.getPromoteQueuedTurnMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getPromoteQueuedTurnMethod = SessionServiceGrpc.getPromoteQueuedTurnMethod) == null) {
          SessionServiceGrpc.getPromoteQueuedTurnMethod = getPromoteQueuedTurnMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.PromoteQueuedTurnRequest, io.github.protolink_grpc.v1.PromoteQueuedTurnResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PromoteQueuedTurn"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.PromoteQueuedTurnRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.PromoteQueuedTurnResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("PromoteQueuedTurn"))
              .build();
        }
      }
    }
    return getPromoteQueuedTurnMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RemoveQueuedTurnRequest,
      io.github.protolink_grpc.v1.RemoveQueuedTurnResponse> getRemoveQueuedTurnMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RemoveQueuedTurn",
      requestType = io.github.protolink_grpc.v1.RemoveQueuedTurnRequest.class,
      responseType = io.github.protolink_grpc.v1.RemoveQueuedTurnResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RemoveQueuedTurnRequest,
      io.github.protolink_grpc.v1.RemoveQueuedTurnResponse> getRemoveQueuedTurnMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RemoveQueuedTurnRequest, io.github.protolink_grpc.v1.RemoveQueuedTurnResponse> getRemoveQueuedTurnMethod;
    if ((getRemoveQueuedTurnMethod = SessionServiceGrpc.getRemoveQueuedTurnMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getRemoveQueuedTurnMethod = SessionServiceGrpc.getRemoveQueuedTurnMethod) == null) {
          SessionServiceGrpc.getRemoveQueuedTurnMethod = getRemoveQueuedTurnMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.RemoveQueuedTurnRequest, io.github.protolink_grpc.v1.RemoveQueuedTurnResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RemoveQueuedTurn"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RemoveQueuedTurnRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RemoveQueuedTurnResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("RemoveQueuedTurn"))
              .build();
        }
      }
    }
    return getRemoveQueuedTurnMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SubscribeSessionRequest,
      io.github.protolink_grpc.v1.SubscribeSessionResponse> getSubscribeSessionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SubscribeSession",
      requestType = io.github.protolink_grpc.v1.SubscribeSessionRequest.class,
      responseType = io.github.protolink_grpc.v1.SubscribeSessionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SubscribeSessionRequest,
      io.github.protolink_grpc.v1.SubscribeSessionResponse> getSubscribeSessionMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.SubscribeSessionRequest, io.github.protolink_grpc.v1.SubscribeSessionResponse> getSubscribeSessionMethod;
    if ((getSubscribeSessionMethod = SessionServiceGrpc.getSubscribeSessionMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getSubscribeSessionMethod = SessionServiceGrpc.getSubscribeSessionMethod) == null) {
          SessionServiceGrpc.getSubscribeSessionMethod = getSubscribeSessionMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.SubscribeSessionRequest, io.github.protolink_grpc.v1.SubscribeSessionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SubscribeSession"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.SubscribeSessionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.SubscribeSessionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("SubscribeSession"))
              .build();
        }
      }
    }
    return getSubscribeSessionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StreamRuntimeEventsRequest,
      io.github.protolink_grpc.v1.StreamRuntimeEventsResponse> getStreamRuntimeEventsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "StreamRuntimeEvents",
      requestType = io.github.protolink_grpc.v1.StreamRuntimeEventsRequest.class,
      responseType = io.github.protolink_grpc.v1.StreamRuntimeEventsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StreamRuntimeEventsRequest,
      io.github.protolink_grpc.v1.StreamRuntimeEventsResponse> getStreamRuntimeEventsMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.StreamRuntimeEventsRequest, io.github.protolink_grpc.v1.StreamRuntimeEventsResponse> getStreamRuntimeEventsMethod;
    if ((getStreamRuntimeEventsMethod = SessionServiceGrpc.getStreamRuntimeEventsMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getStreamRuntimeEventsMethod = SessionServiceGrpc.getStreamRuntimeEventsMethod) == null) {
          SessionServiceGrpc.getStreamRuntimeEventsMethod = getStreamRuntimeEventsMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.StreamRuntimeEventsRequest, io.github.protolink_grpc.v1.StreamRuntimeEventsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "StreamRuntimeEvents"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.StreamRuntimeEventsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.StreamRuntimeEventsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("StreamRuntimeEvents"))
              .build();
        }
      }
    }
    return getStreamRuntimeEventsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static SessionServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionServiceStub>() {
        @java.lang.Override
        public SessionServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionServiceStub(channel, callOptions);
        }
      };
    return SessionServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static SessionServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionServiceBlockingV2Stub>() {
        @java.lang.Override
        public SessionServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return SessionServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static SessionServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionServiceBlockingStub>() {
        @java.lang.Override
        public SessionServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionServiceBlockingStub(channel, callOptions);
        }
      };
    return SessionServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static SessionServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionServiceFutureStub>() {
        @java.lang.Override
        public SessionServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionServiceFutureStub(channel, callOptions);
        }
      };
    return SessionServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * SessionService keeps the inputs of a conversation in order and streams everything that happens in it. It is made for hosts and
   * chat front ends.
   * A session belongs to the principal that created it; for every other principal it does not exist. A task that is sent with a
   * `session_id`, or over A2A with a `contextId`, belongs to the thread `default` of that session, which is created if necessary.
   * Size limits and errors are those of AgentService.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * CreateSession creates a session. Repeating the call with the same `session_id` returns the existing session unchanged.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void createSession(io.github.protolink_grpc.v1.CreateSessionRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CreateSessionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateSessionMethod(), responseObserver);
    }

    /**
     * <pre>
     * UpdateSession changes title, metadata or `archived`.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    default void updateSession(io.github.protolink_grpc.v1.UpdateSessionRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UpdateSessionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUpdateSessionMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetSession returns a session and its newest turns. Its cost does not grow with the number of turns.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    default void getSession(io.github.protolink_grpc.v1.GetSessionRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetSessionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetSessionMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListSessions returns the caller's sessions, most recently changed first.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void listSessions(io.github.protolink_grpc.v1.ListSessionsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListSessionsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListSessionsMethod(), responseObserver);
    }

    /**
     * <pre>
     * DeleteSession deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored state of the agent
     * for the session. Open turns are canceled first. If a run does not stop in time, the call fails with
     * FAILED_PRECONDITION/THREAD_BUSY and can be repeated.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, FAILED_PRECONDITION/THREAD_BUSY.
     * </pre>
     */
    default void deleteSession(io.github.protolink_grpc.v1.DeleteSessionRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.DeleteSessionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteSessionMethod(), responseObserver);
    }

    /**
     * <pre>
     * StartThread starts a thread in a session, which is created if necessary. Its conversation is empty, or that of another thread
     * up to a turn. Repeating the call with the same `thread_id` returns the existing thread unchanged. A session has at most 1,000
     * threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED, NOT_FOUND/THREAD_NOT_FOUND,
     * NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    default void startThread(io.github.protolink_grpc.v1.StartThreadRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StartThreadResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getStartThreadMethod(), responseObserver);
    }

    /**
     * <pre>
     * SubmitTurn accepts an input and responds when it is in the log, before any work begins. The session is created if necessary.
     * If the last task of the thread waits for input, the turn continues it. A repetition with the same `turn_id` returns the turn of
     * the first call; its other fields are ignored.
     * Errors: those of SendTask, FAILED_PRECONDITION/THREAD_BUSY, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    default void submitTurn(io.github.protolink_grpc.v1.SubmitTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SubmitTurnResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSubmitTurnMethod(), responseObserver);
    }

    /**
     * <pre>
     * StreamTurn streams the events of a turn as StreamTask does, also of a turn that has not started. It ends when the turn has
     * ended.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    default void streamTurn(io.github.protolink_grpc.v1.StreamTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StreamTurnResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getStreamTurnMethod(), responseObserver);
    }

    /**
     * <pre>
     * UpdateQueuedTurn replaces the input of a queued turn.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    default void updateQueuedTurn(io.github.protolink_grpc.v1.UpdateQueuedTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UpdateQueuedTurnResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUpdateQueuedTurnMethod(), responseObserver);
    }

    /**
     * <pre>
     * RollbackThread takes a turn and all later ones out of the conversation of a thread. Active turns among them are canceled.
     * Nothing is deleted: Turn.rolled_back marks them. Queued turns stay in the queue. Repeating the call changes nothing.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    default void rollbackThread(io.github.protolink_grpc.v1.RollbackThreadRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RollbackThreadResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRollbackThreadMethod(), responseObserver);
    }

    /**
     * <pre>
     * ResumeThread ends the pause of the active turns of a thread, and returns what the thread still waits for. A thread continues by
     * itself after a restart.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    default void resumeThread(io.github.protolink_grpc.v1.ResumeThreadRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ResumeThreadResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResumeThreadMethod(), responseObserver);
    }

    /**
     * <pre>
     * InterruptTurn cancels the active turns of a thread and its task that waits for input, or one turn. The response has the turns
     * that were open, after the call; it is empty if there was nothing to interrupt. The cancellation is in the logs before the work
     * is stopped.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    default void interruptTurn(io.github.protolink_grpc.v1.InterruptTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.InterruptTurnResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getInterruptTurnMethod(), responseObserver);
    }

    /**
     * <pre>
     * PromoteQueuedTurn puts a queued turn at the front of its thread's queue.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    default void promoteQueuedTurn(io.github.protolink_grpc.v1.PromoteQueuedTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.PromoteQueuedTurnResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPromoteQueuedTurnMethod(), responseObserver);
    }

    /**
     * <pre>
     * RemoveQueuedTurn removes a turn from the queue: its task is canceled.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    default void removeQueuedTurn(io.github.protolink_grpc.v1.RemoveQueuedTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RemoveQueuedTurnResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRemoveQueuedTurnMethod(), responseObserver);
    }

    /**
     * <pre>
     * SubscribeSession streams the events of a session and of all its tasks after a position, in the order of their commits, without
     * gaps or repetitions. It does not end by itself.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    default void subscribeSession(io.github.protolink_grpc.v1.SubscribeSessionRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SubscribeSessionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSubscribeSessionMethod(), responseObserver);
    }

    /**
     * <pre>
     * StreamRuntimeEvents streams the same facts as events of the Agent Runtime contract.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    default void streamRuntimeEvents(io.github.protolink_grpc.v1.StreamRuntimeEventsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StreamRuntimeEventsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getStreamRuntimeEventsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service SessionService.
   * <pre>
   * SessionService keeps the inputs of a conversation in order and streams everything that happens in it. It is made for hosts and
   * chat front ends.
   * A session belongs to the principal that created it; for every other principal it does not exist. A task that is sent with a
   * `session_id`, or over A2A with a `contextId`, belongs to the thread `default` of that session, which is created if necessary.
   * Size limits and errors are those of AgentService.
   * </pre>
   */
  public static abstract class SessionServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return SessionServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service SessionService.
   * <pre>
   * SessionService keeps the inputs of a conversation in order and streams everything that happens in it. It is made for hosts and
   * chat front ends.
   * A session belongs to the principal that created it; for every other principal it does not exist. A task that is sent with a
   * `session_id`, or over A2A with a `contextId`, belongs to the thread `default` of that session, which is created if necessary.
   * Size limits and errors are those of AgentService.
   * </pre>
   */
  public static final class SessionServiceStub
      extends io.grpc.stub.AbstractAsyncStub<SessionServiceStub> {
    private SessionServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateSession creates a session. Repeating the call with the same `session_id` returns the existing session unchanged.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void createSession(io.github.protolink_grpc.v1.CreateSessionRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CreateSessionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateSessionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * UpdateSession changes title, metadata or `archived`.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public void updateSession(io.github.protolink_grpc.v1.UpdateSessionRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UpdateSessionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUpdateSessionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetSession returns a session and its newest turns. Its cost does not grow with the number of turns.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public void getSession(io.github.protolink_grpc.v1.GetSessionRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetSessionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetSessionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListSessions returns the caller's sessions, most recently changed first.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void listSessions(io.github.protolink_grpc.v1.ListSessionsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListSessionsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListSessionsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * DeleteSession deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored state of the agent
     * for the session. Open turns are canceled first. If a run does not stop in time, the call fails with
     * FAILED_PRECONDITION/THREAD_BUSY and can be repeated.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, FAILED_PRECONDITION/THREAD_BUSY.
     * </pre>
     */
    public void deleteSession(io.github.protolink_grpc.v1.DeleteSessionRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.DeleteSessionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteSessionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * StartThread starts a thread in a session, which is created if necessary. Its conversation is empty, or that of another thread
     * up to a turn. Repeating the call with the same `thread_id` returns the existing thread unchanged. A session has at most 1,000
     * threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED, NOT_FOUND/THREAD_NOT_FOUND,
     * NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public void startThread(io.github.protolink_grpc.v1.StartThreadRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StartThreadResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getStartThreadMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SubmitTurn accepts an input and responds when it is in the log, before any work begins. The session is created if necessary.
     * If the last task of the thread waits for input, the turn continues it. A repetition with the same `turn_id` returns the turn of
     * the first call; its other fields are ignored.
     * Errors: those of SendTask, FAILED_PRECONDITION/THREAD_BUSY, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public void submitTurn(io.github.protolink_grpc.v1.SubmitTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SubmitTurnResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSubmitTurnMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * StreamTurn streams the events of a turn as StreamTask does, also of a turn that has not started. It ends when the turn has
     * ended.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    public void streamTurn(io.github.protolink_grpc.v1.StreamTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StreamTurnResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getStreamTurnMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * UpdateQueuedTurn replaces the input of a queued turn.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public void updateQueuedTurn(io.github.protolink_grpc.v1.UpdateQueuedTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UpdateQueuedTurnResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUpdateQueuedTurnMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RollbackThread takes a turn and all later ones out of the conversation of a thread. Active turns among them are canceled.
     * Nothing is deleted: Turn.rolled_back marks them. Queued turns stay in the queue. Repeating the call changes nothing.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public void rollbackThread(io.github.protolink_grpc.v1.RollbackThreadRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RollbackThreadResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRollbackThreadMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ResumeThread ends the pause of the active turns of a thread, and returns what the thread still waits for. A thread continues by
     * itself after a restart.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public void resumeThread(io.github.protolink_grpc.v1.ResumeThreadRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ResumeThreadResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResumeThreadMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * InterruptTurn cancels the active turns of a thread and its task that waits for input, or one turn. The response has the turns
     * that were open, after the call; it is empty if there was nothing to interrupt. The cancellation is in the logs before the work
     * is stopped.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public void interruptTurn(io.github.protolink_grpc.v1.InterruptTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.InterruptTurnResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getInterruptTurnMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * PromoteQueuedTurn puts a queued turn at the front of its thread's queue.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public void promoteQueuedTurn(io.github.protolink_grpc.v1.PromoteQueuedTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.PromoteQueuedTurnResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPromoteQueuedTurnMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RemoveQueuedTurn removes a turn from the queue: its task is canceled.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public void removeQueuedTurn(io.github.protolink_grpc.v1.RemoveQueuedTurnRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RemoveQueuedTurnResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRemoveQueuedTurnMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SubscribeSession streams the events of a session and of all its tasks after a position, in the order of their commits, without
     * gaps or repetitions. It does not end by itself.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    public void subscribeSession(io.github.protolink_grpc.v1.SubscribeSessionRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SubscribeSessionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getSubscribeSessionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * StreamRuntimeEvents streams the same facts as events of the Agent Runtime contract.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    public void streamRuntimeEvents(io.github.protolink_grpc.v1.StreamRuntimeEventsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StreamRuntimeEventsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getStreamRuntimeEventsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service SessionService.
   * <pre>
   * SessionService keeps the inputs of a conversation in order and streams everything that happens in it. It is made for hosts and
   * chat front ends.
   * A session belongs to the principal that created it; for every other principal it does not exist. A task that is sent with a
   * `session_id`, or over A2A with a `contextId`, belongs to the thread `default` of that session, which is created if necessary.
   * Size limits and errors are those of AgentService.
   * </pre>
   */
  public static final class SessionServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<SessionServiceBlockingV2Stub> {
    private SessionServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateSession creates a session. Repeating the call with the same `session_id` returns the existing session unchanged.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.CreateSessionResponse createSession(io.github.protolink_grpc.v1.CreateSessionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * UpdateSession changes title, metadata or `archived`.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.UpdateSessionResponse updateSession(io.github.protolink_grpc.v1.UpdateSessionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUpdateSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetSession returns a session and its newest turns. Its cost does not grow with the number of turns.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetSessionResponse getSession(io.github.protolink_grpc.v1.GetSessionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListSessions returns the caller's sessions, most recently changed first.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListSessionsResponse listSessions(io.github.protolink_grpc.v1.ListSessionsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListSessionsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DeleteSession deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored state of the agent
     * for the session. Open turns are canceled first. If a run does not stop in time, the call fails with
     * FAILED_PRECONDITION/THREAD_BUSY and can be repeated.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, FAILED_PRECONDITION/THREAD_BUSY.
     * </pre>
     */
    public io.github.protolink_grpc.v1.DeleteSessionResponse deleteSession(io.github.protolink_grpc.v1.DeleteSessionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeleteSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * StartThread starts a thread in a session, which is created if necessary. Its conversation is empty, or that of another thread
     * up to a turn. Repeating the call with the same `thread_id` returns the existing thread unchanged. A session has at most 1,000
     * threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED, NOT_FOUND/THREAD_NOT_FOUND,
     * NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.StartThreadResponse startThread(io.github.protolink_grpc.v1.StartThreadRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getStartThreadMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SubmitTurn accepts an input and responds when it is in the log, before any work begins. The session is created if necessary.
     * If the last task of the thread waits for input, the turn continues it. A repetition with the same `turn_id` returns the turn of
     * the first call; its other fields are ignored.
     * Errors: those of SendTask, FAILED_PRECONDITION/THREAD_BUSY, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.SubmitTurnResponse submitTurn(io.github.protolink_grpc.v1.SubmitTurnRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSubmitTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * StreamTurn streams the events of a turn as StreamTask does, also of a turn that has not started. It ends when the turn has
     * ended.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.protolink_grpc.v1.StreamTurnResponse>
        streamTurn(io.github.protolink_grpc.v1.StreamTurnRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getStreamTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * UpdateQueuedTurn replaces the input of a queued turn.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.UpdateQueuedTurnResponse updateQueuedTurn(io.github.protolink_grpc.v1.UpdateQueuedTurnRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUpdateQueuedTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RollbackThread takes a turn and all later ones out of the conversation of a thread. Active turns among them are canceled.
     * Nothing is deleted: Turn.rolled_back marks them. Queued turns stay in the queue. Repeating the call changes nothing.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.RollbackThreadResponse rollbackThread(io.github.protolink_grpc.v1.RollbackThreadRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRollbackThreadMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResumeThread ends the pause of the active turns of a thread, and returns what the thread still waits for. A thread continues by
     * itself after a restart.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ResumeThreadResponse resumeThread(io.github.protolink_grpc.v1.ResumeThreadRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResumeThreadMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * InterruptTurn cancels the active turns of a thread and its task that waits for input, or one turn. The response has the turns
     * that were open, after the call; it is empty if there was nothing to interrupt. The cancellation is in the logs before the work
     * is stopped.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.InterruptTurnResponse interruptTurn(io.github.protolink_grpc.v1.InterruptTurnRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getInterruptTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * PromoteQueuedTurn puts a queued turn at the front of its thread's queue.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.PromoteQueuedTurnResponse promoteQueuedTurn(io.github.protolink_grpc.v1.PromoteQueuedTurnRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getPromoteQueuedTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RemoveQueuedTurn removes a turn from the queue: its task is canceled.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.RemoveQueuedTurnResponse removeQueuedTurn(io.github.protolink_grpc.v1.RemoveQueuedTurnRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRemoveQueuedTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SubscribeSession streams the events of a session and of all its tasks after a position, in the order of their commits, without
     * gaps or repetitions. It does not end by itself.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.protolink_grpc.v1.SubscribeSessionResponse>
        subscribeSession(io.github.protolink_grpc.v1.SubscribeSessionRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getSubscribeSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * StreamRuntimeEvents streams the same facts as events of the Agent Runtime contract.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.protolink_grpc.v1.StreamRuntimeEventsResponse>
        streamRuntimeEvents(io.github.protolink_grpc.v1.StreamRuntimeEventsRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getStreamRuntimeEventsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service SessionService.
   * <pre>
   * SessionService keeps the inputs of a conversation in order and streams everything that happens in it. It is made for hosts and
   * chat front ends.
   * A session belongs to the principal that created it; for every other principal it does not exist. A task that is sent with a
   * `session_id`, or over A2A with a `contextId`, belongs to the thread `default` of that session, which is created if necessary.
   * Size limits and errors are those of AgentService.
   * </pre>
   */
  public static final class SessionServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<SessionServiceBlockingStub> {
    private SessionServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateSession creates a session. Repeating the call with the same `session_id` returns the existing session unchanged.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.CreateSessionResponse createSession(io.github.protolink_grpc.v1.CreateSessionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * UpdateSession changes title, metadata or `archived`.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.UpdateSessionResponse updateSession(io.github.protolink_grpc.v1.UpdateSessionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUpdateSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetSession returns a session and its newest turns. Its cost does not grow with the number of turns.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetSessionResponse getSession(io.github.protolink_grpc.v1.GetSessionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListSessions returns the caller's sessions, most recently changed first.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListSessionsResponse listSessions(io.github.protolink_grpc.v1.ListSessionsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListSessionsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DeleteSession deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored state of the agent
     * for the session. Open turns are canceled first. If a run does not stop in time, the call fails with
     * FAILED_PRECONDITION/THREAD_BUSY and can be repeated.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, FAILED_PRECONDITION/THREAD_BUSY.
     * </pre>
     */
    public io.github.protolink_grpc.v1.DeleteSessionResponse deleteSession(io.github.protolink_grpc.v1.DeleteSessionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * StartThread starts a thread in a session, which is created if necessary. Its conversation is empty, or that of another thread
     * up to a turn. Repeating the call with the same `thread_id` returns the existing thread unchanged. A session has at most 1,000
     * threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED, NOT_FOUND/THREAD_NOT_FOUND,
     * NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.StartThreadResponse startThread(io.github.protolink_grpc.v1.StartThreadRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getStartThreadMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SubmitTurn accepts an input and responds when it is in the log, before any work begins. The session is created if necessary.
     * If the last task of the thread waits for input, the turn continues it. A repetition with the same `turn_id` returns the turn of
     * the first call; its other fields are ignored.
     * Errors: those of SendTask, FAILED_PRECONDITION/THREAD_BUSY, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.SubmitTurnResponse submitTurn(io.github.protolink_grpc.v1.SubmitTurnRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSubmitTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * StreamTurn streams the events of a turn as StreamTask does, also of a turn that has not started. It ends when the turn has
     * ended.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    public java.util.Iterator<io.github.protolink_grpc.v1.StreamTurnResponse> streamTurn(
        io.github.protolink_grpc.v1.StreamTurnRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getStreamTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * UpdateQueuedTurn replaces the input of a queued turn.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.UpdateQueuedTurnResponse updateQueuedTurn(io.github.protolink_grpc.v1.UpdateQueuedTurnRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUpdateQueuedTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RollbackThread takes a turn and all later ones out of the conversation of a thread. Active turns among them are canceled.
     * Nothing is deleted: Turn.rolled_back marks them. Queued turns stay in the queue. Repeating the call changes nothing.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.RollbackThreadResponse rollbackThread(io.github.protolink_grpc.v1.RollbackThreadRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRollbackThreadMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResumeThread ends the pause of the active turns of a thread, and returns what the thread still waits for. A thread continues by
     * itself after a restart.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ResumeThreadResponse resumeThread(io.github.protolink_grpc.v1.ResumeThreadRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResumeThreadMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * InterruptTurn cancels the active turns of a thread and its task that waits for input, or one turn. The response has the turns
     * that were open, after the call; it is empty if there was nothing to interrupt. The cancellation is in the logs before the work
     * is stopped.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public io.github.protolink_grpc.v1.InterruptTurnResponse interruptTurn(io.github.protolink_grpc.v1.InterruptTurnRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getInterruptTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * PromoteQueuedTurn puts a queued turn at the front of its thread's queue.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.PromoteQueuedTurnResponse promoteQueuedTurn(io.github.protolink_grpc.v1.PromoteQueuedTurnRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPromoteQueuedTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RemoveQueuedTurn removes a turn from the queue: its task is canceled.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public io.github.protolink_grpc.v1.RemoveQueuedTurnResponse removeQueuedTurn(io.github.protolink_grpc.v1.RemoveQueuedTurnRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRemoveQueuedTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SubscribeSession streams the events of a session and of all its tasks after a position, in the order of their commits, without
     * gaps or repetitions. It does not end by itself.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    public java.util.Iterator<io.github.protolink_grpc.v1.SubscribeSessionResponse> subscribeSession(
        io.github.protolink_grpc.v1.SubscribeSessionRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getSubscribeSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * StreamRuntimeEvents streams the same facts as events of the Agent Runtime contract.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
     * </pre>
     */
    public java.util.Iterator<io.github.protolink_grpc.v1.StreamRuntimeEventsResponse> streamRuntimeEvents(
        io.github.protolink_grpc.v1.StreamRuntimeEventsRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getStreamRuntimeEventsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service SessionService.
   * <pre>
   * SessionService keeps the inputs of a conversation in order and streams everything that happens in it. It is made for hosts and
   * chat front ends.
   * A session belongs to the principal that created it; for every other principal it does not exist. A task that is sent with a
   * `session_id`, or over A2A with a `contextId`, belongs to the thread `default` of that session, which is created if necessary.
   * Size limits and errors are those of AgentService.
   * </pre>
   */
  public static final class SessionServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<SessionServiceFutureStub> {
    private SessionServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateSession creates a session. Repeating the call with the same `session_id` returns the existing session unchanged.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.CreateSessionResponse> createSession(
        io.github.protolink_grpc.v1.CreateSessionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateSessionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * UpdateSession changes title, metadata or `archived`.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.UpdateSessionResponse> updateSession(
        io.github.protolink_grpc.v1.UpdateSessionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUpdateSessionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetSession returns a session and its newest turns. Its cost does not grow with the number of turns.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetSessionResponse> getSession(
        io.github.protolink_grpc.v1.GetSessionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetSessionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListSessions returns the caller's sessions, most recently changed first.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.ListSessionsResponse> listSessions(
        io.github.protolink_grpc.v1.ListSessionsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListSessionsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * DeleteSession deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored state of the agent
     * for the session. Open turns are canceled first. If a run does not stop in time, the call fails with
     * FAILED_PRECONDITION/THREAD_BUSY and can be repeated.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, FAILED_PRECONDITION/THREAD_BUSY.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.DeleteSessionResponse> deleteSession(
        io.github.protolink_grpc.v1.DeleteSessionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteSessionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * StartThread starts a thread in a session, which is created if necessary. Its conversation is empty, or that of another thread
     * up to a turn. Repeating the call with the same `thread_id` returns the existing thread unchanged. A session has at most 1,000
     * threads.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED, NOT_FOUND/THREAD_NOT_FOUND,
     * NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.StartThreadResponse> startThread(
        io.github.protolink_grpc.v1.StartThreadRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getStartThreadMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * SubmitTurn accepts an input and responds when it is in the log, before any work begins. The session is created if necessary.
     * If the last task of the thread waits for input, the turn continues it. A repetition with the same `turn_id` returns the turn of
     * the first call; its other fields are ignored.
     * Errors: those of SendTask, FAILED_PRECONDITION/THREAD_BUSY, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.SubmitTurnResponse> submitTurn(
        io.github.protolink_grpc.v1.SubmitTurnRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSubmitTurnMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * UpdateQueuedTurn replaces the input of a queued turn.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.UpdateQueuedTurnResponse> updateQueuedTurn(
        io.github.protolink_grpc.v1.UpdateQueuedTurnRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUpdateQueuedTurnMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RollbackThread takes a turn and all later ones out of the conversation of a thread. Active turns among them are canceled.
     * Nothing is deleted: Turn.rolled_back marks them. Queued turns stay in the queue. Repeating the call changes nothing.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.RollbackThreadResponse> rollbackThread(
        io.github.protolink_grpc.v1.RollbackThreadRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRollbackThreadMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ResumeThread ends the pause of the active turns of a thread, and returns what the thread still waits for. A thread continues by
     * itself after a restart.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.ResumeThreadResponse> resumeThread(
        io.github.protolink_grpc.v1.ResumeThreadRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResumeThreadMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * InterruptTurn cancels the active turns of a thread and its task that waits for input, or one turn. The response has the turns
     * that were open, after the call; it is empty if there was nothing to interrupt. The cancellation is in the logs before the work
     * is stopped.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.InterruptTurnResponse> interruptTurn(
        io.github.protolink_grpc.v1.InterruptTurnRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getInterruptTurnMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * PromoteQueuedTurn puts a queued turn at the front of its thread's queue.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.PromoteQueuedTurnResponse> promoteQueuedTurn(
        io.github.protolink_grpc.v1.PromoteQueuedTurnRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPromoteQueuedTurnMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RemoveQueuedTurn removes a turn from the queue: its task is canceled.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
     * FAILED_PRECONDITION/TURN_NOT_QUEUED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.RemoveQueuedTurnResponse> removeQueuedTurn(
        io.github.protolink_grpc.v1.RemoveQueuedTurnRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRemoveQueuedTurnMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_SESSION = 0;
  private static final int METHODID_UPDATE_SESSION = 1;
  private static final int METHODID_GET_SESSION = 2;
  private static final int METHODID_LIST_SESSIONS = 3;
  private static final int METHODID_DELETE_SESSION = 4;
  private static final int METHODID_START_THREAD = 5;
  private static final int METHODID_SUBMIT_TURN = 6;
  private static final int METHODID_STREAM_TURN = 7;
  private static final int METHODID_UPDATE_QUEUED_TURN = 8;
  private static final int METHODID_ROLLBACK_THREAD = 9;
  private static final int METHODID_RESUME_THREAD = 10;
  private static final int METHODID_INTERRUPT_TURN = 11;
  private static final int METHODID_PROMOTE_QUEUED_TURN = 12;
  private static final int METHODID_REMOVE_QUEUED_TURN = 13;
  private static final int METHODID_SUBSCRIBE_SESSION = 14;
  private static final int METHODID_STREAM_RUNTIME_EVENTS = 15;

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
        case METHODID_CREATE_SESSION:
          serviceImpl.createSession((io.github.protolink_grpc.v1.CreateSessionRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.CreateSessionResponse>) responseObserver);
          break;
        case METHODID_UPDATE_SESSION:
          serviceImpl.updateSession((io.github.protolink_grpc.v1.UpdateSessionRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UpdateSessionResponse>) responseObserver);
          break;
        case METHODID_GET_SESSION:
          serviceImpl.getSession((io.github.protolink_grpc.v1.GetSessionRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetSessionResponse>) responseObserver);
          break;
        case METHODID_LIST_SESSIONS:
          serviceImpl.listSessions((io.github.protolink_grpc.v1.ListSessionsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListSessionsResponse>) responseObserver);
          break;
        case METHODID_DELETE_SESSION:
          serviceImpl.deleteSession((io.github.protolink_grpc.v1.DeleteSessionRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.DeleteSessionResponse>) responseObserver);
          break;
        case METHODID_START_THREAD:
          serviceImpl.startThread((io.github.protolink_grpc.v1.StartThreadRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StartThreadResponse>) responseObserver);
          break;
        case METHODID_SUBMIT_TURN:
          serviceImpl.submitTurn((io.github.protolink_grpc.v1.SubmitTurnRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SubmitTurnResponse>) responseObserver);
          break;
        case METHODID_STREAM_TURN:
          serviceImpl.streamTurn((io.github.protolink_grpc.v1.StreamTurnRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StreamTurnResponse>) responseObserver);
          break;
        case METHODID_UPDATE_QUEUED_TURN:
          serviceImpl.updateQueuedTurn((io.github.protolink_grpc.v1.UpdateQueuedTurnRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.UpdateQueuedTurnResponse>) responseObserver);
          break;
        case METHODID_ROLLBACK_THREAD:
          serviceImpl.rollbackThread((io.github.protolink_grpc.v1.RollbackThreadRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RollbackThreadResponse>) responseObserver);
          break;
        case METHODID_RESUME_THREAD:
          serviceImpl.resumeThread((io.github.protolink_grpc.v1.ResumeThreadRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ResumeThreadResponse>) responseObserver);
          break;
        case METHODID_INTERRUPT_TURN:
          serviceImpl.interruptTurn((io.github.protolink_grpc.v1.InterruptTurnRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.InterruptTurnResponse>) responseObserver);
          break;
        case METHODID_PROMOTE_QUEUED_TURN:
          serviceImpl.promoteQueuedTurn((io.github.protolink_grpc.v1.PromoteQueuedTurnRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.PromoteQueuedTurnResponse>) responseObserver);
          break;
        case METHODID_REMOVE_QUEUED_TURN:
          serviceImpl.removeQueuedTurn((io.github.protolink_grpc.v1.RemoveQueuedTurnRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RemoveQueuedTurnResponse>) responseObserver);
          break;
        case METHODID_SUBSCRIBE_SESSION:
          serviceImpl.subscribeSession((io.github.protolink_grpc.v1.SubscribeSessionRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.SubscribeSessionResponse>) responseObserver);
          break;
        case METHODID_STREAM_RUNTIME_EVENTS:
          serviceImpl.streamRuntimeEvents((io.github.protolink_grpc.v1.StreamRuntimeEventsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.StreamRuntimeEventsResponse>) responseObserver);
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
          getCreateSessionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.CreateSessionRequest,
              io.github.protolink_grpc.v1.CreateSessionResponse>(
                service, METHODID_CREATE_SESSION)))
        .addMethod(
          getUpdateSessionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.UpdateSessionRequest,
              io.github.protolink_grpc.v1.UpdateSessionResponse>(
                service, METHODID_UPDATE_SESSION)))
        .addMethod(
          getGetSessionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetSessionRequest,
              io.github.protolink_grpc.v1.GetSessionResponse>(
                service, METHODID_GET_SESSION)))
        .addMethod(
          getListSessionsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.ListSessionsRequest,
              io.github.protolink_grpc.v1.ListSessionsResponse>(
                service, METHODID_LIST_SESSIONS)))
        .addMethod(
          getDeleteSessionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.DeleteSessionRequest,
              io.github.protolink_grpc.v1.DeleteSessionResponse>(
                service, METHODID_DELETE_SESSION)))
        .addMethod(
          getStartThreadMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.StartThreadRequest,
              io.github.protolink_grpc.v1.StartThreadResponse>(
                service, METHODID_START_THREAD)))
        .addMethod(
          getSubmitTurnMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.SubmitTurnRequest,
              io.github.protolink_grpc.v1.SubmitTurnResponse>(
                service, METHODID_SUBMIT_TURN)))
        .addMethod(
          getStreamTurnMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.StreamTurnRequest,
              io.github.protolink_grpc.v1.StreamTurnResponse>(
                service, METHODID_STREAM_TURN)))
        .addMethod(
          getUpdateQueuedTurnMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.UpdateQueuedTurnRequest,
              io.github.protolink_grpc.v1.UpdateQueuedTurnResponse>(
                service, METHODID_UPDATE_QUEUED_TURN)))
        .addMethod(
          getRollbackThreadMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.RollbackThreadRequest,
              io.github.protolink_grpc.v1.RollbackThreadResponse>(
                service, METHODID_ROLLBACK_THREAD)))
        .addMethod(
          getResumeThreadMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.ResumeThreadRequest,
              io.github.protolink_grpc.v1.ResumeThreadResponse>(
                service, METHODID_RESUME_THREAD)))
        .addMethod(
          getInterruptTurnMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.InterruptTurnRequest,
              io.github.protolink_grpc.v1.InterruptTurnResponse>(
                service, METHODID_INTERRUPT_TURN)))
        .addMethod(
          getPromoteQueuedTurnMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.PromoteQueuedTurnRequest,
              io.github.protolink_grpc.v1.PromoteQueuedTurnResponse>(
                service, METHODID_PROMOTE_QUEUED_TURN)))
        .addMethod(
          getRemoveQueuedTurnMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.RemoveQueuedTurnRequest,
              io.github.protolink_grpc.v1.RemoveQueuedTurnResponse>(
                service, METHODID_REMOVE_QUEUED_TURN)))
        .addMethod(
          getSubscribeSessionMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.SubscribeSessionRequest,
              io.github.protolink_grpc.v1.SubscribeSessionResponse>(
                service, METHODID_SUBSCRIBE_SESSION)))
        .addMethod(
          getStreamRuntimeEventsMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.StreamRuntimeEventsRequest,
              io.github.protolink_grpc.v1.StreamRuntimeEventsResponse>(
                service, METHODID_STREAM_RUNTIME_EVENTS)))
        .build();
  }

  private static abstract class SessionServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    SessionServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.protolink_grpc.v1.SessionServiceOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("SessionService");
    }
  }

  private static final class SessionServiceFileDescriptorSupplier
      extends SessionServiceBaseDescriptorSupplier {
    SessionServiceFileDescriptorSupplier() {}
  }

  private static final class SessionServiceMethodDescriptorSupplier
      extends SessionServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    SessionServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (SessionServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new SessionServiceFileDescriptorSupplier())
              .addMethod(getCreateSessionMethod())
              .addMethod(getUpdateSessionMethod())
              .addMethod(getGetSessionMethod())
              .addMethod(getListSessionsMethod())
              .addMethod(getDeleteSessionMethod())
              .addMethod(getStartThreadMethod())
              .addMethod(getSubmitTurnMethod())
              .addMethod(getStreamTurnMethod())
              .addMethod(getUpdateQueuedTurnMethod())
              .addMethod(getRollbackThreadMethod())
              .addMethod(getResumeThreadMethod())
              .addMethod(getInterruptTurnMethod())
              .addMethod(getPromoteQueuedTurnMethod())
              .addMethod(getRemoveQueuedTurnMethod())
              .addMethod(getSubscribeSessionMethod())
              .addMethod(getStreamRuntimeEventsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
