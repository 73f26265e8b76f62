package io.github.protolink_grpc.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * RegistryService keeps agent cards under leases. A registration whose lease is not renewed is removed.
 * Every change has a revision, greater than the one before. A registration belongs to the principal that made it. The load that
 * heartbeats report is not a change: it has no revision and is not sent to watchers.
 * Errors as in AgentService.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class RegistryServiceGrpc {

  private RegistryServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "plgrpc.v1.RegistryService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RegisterAgentRequest,
      io.github.protolink_grpc.v1.RegisterAgentResponse> getRegisterAgentMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RegisterAgent",
      requestType = io.github.protolink_grpc.v1.RegisterAgentRequest.class,
      responseType = io.github.protolink_grpc.v1.RegisterAgentResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RegisterAgentRequest,
      io.github.protolink_grpc.v1.RegisterAgentResponse> getRegisterAgentMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RegisterAgentRequest, io.github.protolink_grpc.v1.RegisterAgentResponse> getRegisterAgentMethod;
    if ((getRegisterAgentMethod = RegistryServiceGrpc.getRegisterAgentMethod) == null) {
      synchronized (RegistryServiceGrpc.class) {
        if ((getRegisterAgentMethod = RegistryServiceGrpc.getRegisterAgentMethod) == null) {
          RegistryServiceGrpc.getRegisterAgentMethod = getRegisterAgentMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.RegisterAgentRequest, io.github.protolink_grpc.v1.RegisterAgentResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RegisterAgent"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RegisterAgentRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RegisterAgentResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RegistryServiceMethodDescriptorSupplier("RegisterAgent"))
              .build();
        }
      }
    }
    return getRegisterAgentMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RenewLeaseRequest,
      io.github.protolink_grpc.v1.RenewLeaseResponse> getRenewLeaseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RenewLease",
      requestType = io.github.protolink_grpc.v1.RenewLeaseRequest.class,
      responseType = io.github.protolink_grpc.v1.RenewLeaseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RenewLeaseRequest,
      io.github.protolink_grpc.v1.RenewLeaseResponse> getRenewLeaseMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.RenewLeaseRequest, io.github.protolink_grpc.v1.RenewLeaseResponse> getRenewLeaseMethod;
    if ((getRenewLeaseMethod = RegistryServiceGrpc.getRenewLeaseMethod) == null) {
      synchronized (RegistryServiceGrpc.class) {
        if ((getRenewLeaseMethod = RegistryServiceGrpc.getRenewLeaseMethod) == null) {
          RegistryServiceGrpc.getRenewLeaseMethod = getRenewLeaseMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.RenewLeaseRequest, io.github.protolink_grpc.v1.RenewLeaseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RenewLease"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RenewLeaseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.RenewLeaseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RegistryServiceMethodDescriptorSupplier("RenewLease"))
              .build();
        }
      }
    }
    return getRenewLeaseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.DeregisterAgentRequest,
      io.github.protolink_grpc.v1.DeregisterAgentResponse> getDeregisterAgentMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeregisterAgent",
      requestType = io.github.protolink_grpc.v1.DeregisterAgentRequest.class,
      responseType = io.github.protolink_grpc.v1.DeregisterAgentResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.DeregisterAgentRequest,
      io.github.protolink_grpc.v1.DeregisterAgentResponse> getDeregisterAgentMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.DeregisterAgentRequest, io.github.protolink_grpc.v1.DeregisterAgentResponse> getDeregisterAgentMethod;
    if ((getDeregisterAgentMethod = RegistryServiceGrpc.getDeregisterAgentMethod) == null) {
      synchronized (RegistryServiceGrpc.class) {
        if ((getDeregisterAgentMethod = RegistryServiceGrpc.getDeregisterAgentMethod) == null) {
          RegistryServiceGrpc.getDeregisterAgentMethod = getDeregisterAgentMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.DeregisterAgentRequest, io.github.protolink_grpc.v1.DeregisterAgentResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeregisterAgent"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.DeregisterAgentRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.DeregisterAgentResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RegistryServiceMethodDescriptorSupplier("DeregisterAgent"))
              .build();
        }
      }
    }
    return getDeregisterAgentMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetAgentRequest,
      io.github.protolink_grpc.v1.GetAgentResponse> getGetAgentMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetAgent",
      requestType = io.github.protolink_grpc.v1.GetAgentRequest.class,
      responseType = io.github.protolink_grpc.v1.GetAgentResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetAgentRequest,
      io.github.protolink_grpc.v1.GetAgentResponse> getGetAgentMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.GetAgentRequest, io.github.protolink_grpc.v1.GetAgentResponse> getGetAgentMethod;
    if ((getGetAgentMethod = RegistryServiceGrpc.getGetAgentMethod) == null) {
      synchronized (RegistryServiceGrpc.class) {
        if ((getGetAgentMethod = RegistryServiceGrpc.getGetAgentMethod) == null) {
          RegistryServiceGrpc.getGetAgentMethod = getGetAgentMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.GetAgentRequest, io.github.protolink_grpc.v1.GetAgentResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetAgent"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetAgentRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.GetAgentResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RegistryServiceMethodDescriptorSupplier("GetAgent"))
              .build();
        }
      }
    }
    return getGetAgentMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListAgentsRequest,
      io.github.protolink_grpc.v1.ListAgentsResponse> getListAgentsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListAgents",
      requestType = io.github.protolink_grpc.v1.ListAgentsRequest.class,
      responseType = io.github.protolink_grpc.v1.ListAgentsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListAgentsRequest,
      io.github.protolink_grpc.v1.ListAgentsResponse> getListAgentsMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.ListAgentsRequest, io.github.protolink_grpc.v1.ListAgentsResponse> getListAgentsMethod;
    if ((getListAgentsMethod = RegistryServiceGrpc.getListAgentsMethod) == null) {
      synchronized (RegistryServiceGrpc.class) {
        if ((getListAgentsMethod = RegistryServiceGrpc.getListAgentsMethod) == null) {
          RegistryServiceGrpc.getListAgentsMethod = getListAgentsMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.ListAgentsRequest, io.github.protolink_grpc.v1.ListAgentsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListAgents"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListAgentsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.ListAgentsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RegistryServiceMethodDescriptorSupplier("ListAgents"))
              .build();
        }
      }
    }
    return getListAgentsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.WatchAgentsRequest,
      io.github.protolink_grpc.v1.WatchAgentsResponse> getWatchAgentsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchAgents",
      requestType = io.github.protolink_grpc.v1.WatchAgentsRequest.class,
      responseType = io.github.protolink_grpc.v1.WatchAgentsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.WatchAgentsRequest,
      io.github.protolink_grpc.v1.WatchAgentsResponse> getWatchAgentsMethod() {
    io.grpc.MethodDescriptor<io.github.protolink_grpc.v1.WatchAgentsRequest, io.github.protolink_grpc.v1.WatchAgentsResponse> getWatchAgentsMethod;
    if ((getWatchAgentsMethod = RegistryServiceGrpc.getWatchAgentsMethod) == null) {
      synchronized (RegistryServiceGrpc.class) {
        if ((getWatchAgentsMethod = RegistryServiceGrpc.getWatchAgentsMethod) == null) {
          RegistryServiceGrpc.getWatchAgentsMethod = getWatchAgentsMethod =
              io.grpc.MethodDescriptor.<io.github.protolink_grpc.v1.WatchAgentsRequest, io.github.protolink_grpc.v1.WatchAgentsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchAgents"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.WatchAgentsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.protolink_grpc.v1.WatchAgentsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RegistryServiceMethodDescriptorSupplier("WatchAgents"))
              .build();
        }
      }
    }
    return getWatchAgentsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static RegistryServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RegistryServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RegistryServiceStub>() {
        @java.lang.Override
        public RegistryServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RegistryServiceStub(channel, callOptions);
        }
      };
    return RegistryServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static RegistryServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RegistryServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RegistryServiceBlockingV2Stub>() {
        @java.lang.Override
        public RegistryServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RegistryServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return RegistryServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static RegistryServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RegistryServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RegistryServiceBlockingStub>() {
        @java.lang.Override
        public RegistryServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RegistryServiceBlockingStub(channel, callOptions);
        }
      };
    return RegistryServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static RegistryServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RegistryServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RegistryServiceFutureStub>() {
        @java.lang.Override
        public RegistryServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RegistryServiceFutureStub(channel, callOptions);
        }
      };
    return RegistryServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * RegistryService keeps agent cards under leases. A registration whose lease is not renewed is removed.
   * Every change has a revision, greater than the one before. A registration belongs to the principal that made it. The load that
   * heartbeats report is not a change: it has no revision and is not sent to watchers.
   * Errors as in AgentService.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * RegisterAgent adds or replaces the card under the URL of its first interface and grants a lease. The state is then UP.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/AGENT_CONFLICT.
     * </pre>
     */
    default void registerAgent(io.github.protolink_grpc.v1.RegisterAgentRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RegisterAgentResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRegisterAgentMethod(), responseObserver);
    }

    /**
     * <pre>
     * RenewLease is the heartbeat of an agent: it renews the lease and reports state and load. Only a new state is a change of the
     * registry.
     * Errors: NOT_FOUND/LEASE_NOT_FOUND: register again. INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void renewLease(io.github.protolink_grpc.v1.RenewLeaseRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RenewLeaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRenewLeaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * DeregisterAgent removes a registration. Removing an unknown lease changes nothing.
     * </pre>
     */
    default void deregisterAgent(io.github.protolink_grpc.v1.DeregisterAgentRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.DeregisterAgentResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeregisterAgentMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetAgent returns the agent with a name or URL. Of several instances with the same name it returns one that is not draining, if
     * there is one, and of these the most recently registered.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/AGENT_NOT_FOUND, FAILED_PRECONDITION/AGENT_AMBIGUOUS.
     * </pre>
     */
    default void getAgent(io.github.protolink_grpc.v1.GetAgentRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetAgentResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetAgentMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListAgents returns the agents that match a filter, sorted by name and URL.
     * A page ends with the agent whose card brings it to 1 MiB or more, even if `page_size` allows further agents. So the cards of a page
     * have less than 1 MiB and, on top of that, its last card, which is at most 1 MiB: less than 2 MiB in all.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void listAgents(io.github.protolink_grpc.v1.ListAgentsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListAgentsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListAgentsMethod(), responseObserver);
    }

    /**
     * <pre>
     * WatchAgents streams the changes after a revision, then new changes as they happen. WatchPosition has the rules.
     * Without a revision, or if the registry no longer has it, the stream begins with a snapshot of all matching agents.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    default void watchAgents(io.github.protolink_grpc.v1.WatchAgentsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.WatchAgentsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchAgentsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service RegistryService.
   * <pre>
   * RegistryService keeps agent cards under leases. A registration whose lease is not renewed is removed.
   * Every change has a revision, greater than the one before. A registration belongs to the principal that made it. The load that
   * heartbeats report is not a change: it has no revision and is not sent to watchers.
   * Errors as in AgentService.
   * </pre>
   */
  public static abstract class RegistryServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return RegistryServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service RegistryService.
   * <pre>
   * RegistryService keeps agent cards under leases. A registration whose lease is not renewed is removed.
   * Every change has a revision, greater than the one before. A registration belongs to the principal that made it. The load that
   * heartbeats report is not a change: it has no revision and is not sent to watchers.
   * Errors as in AgentService.
   * </pre>
   */
  public static final class RegistryServiceStub
      extends io.grpc.stub.AbstractAsyncStub<RegistryServiceStub> {
    private RegistryServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RegistryServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RegistryServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * RegisterAgent adds or replaces the card under the URL of its first interface and grants a lease. The state is then UP.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/AGENT_CONFLICT.
     * </pre>
     */
    public void registerAgent(io.github.protolink_grpc.v1.RegisterAgentRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RegisterAgentResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRegisterAgentMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RenewLease is the heartbeat of an agent: it renews the lease and reports state and load. Only a new state is a change of the
     * registry.
     * Errors: NOT_FOUND/LEASE_NOT_FOUND: register again. INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void renewLease(io.github.protolink_grpc.v1.RenewLeaseRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RenewLeaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRenewLeaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * DeregisterAgent removes a registration. Removing an unknown lease changes nothing.
     * </pre>
     */
    public void deregisterAgent(io.github.protolink_grpc.v1.DeregisterAgentRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.DeregisterAgentResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeregisterAgentMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetAgent returns the agent with a name or URL. Of several instances with the same name it returns one that is not draining, if
     * there is one, and of these the most recently registered.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/AGENT_NOT_FOUND, FAILED_PRECONDITION/AGENT_AMBIGUOUS.
     * </pre>
     */
    public void getAgent(io.github.protolink_grpc.v1.GetAgentRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetAgentResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetAgentMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListAgents returns the agents that match a filter, sorted by name and URL.
     * A page ends with the agent whose card brings it to 1 MiB or more, even if `page_size` allows further agents. So the cards of a page
     * have less than 1 MiB and, on top of that, its last card, which is at most 1 MiB: less than 2 MiB in all.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void listAgents(io.github.protolink_grpc.v1.ListAgentsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListAgentsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListAgentsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * WatchAgents streams the changes after a revision, then new changes as they happen. WatchPosition has the rules.
     * Without a revision, or if the registry no longer has it, the stream begins with a snapshot of all matching agents.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public void watchAgents(io.github.protolink_grpc.v1.WatchAgentsRequest request,
        io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.WatchAgentsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchAgentsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service RegistryService.
   * <pre>
   * RegistryService keeps agent cards under leases. A registration whose lease is not renewed is removed.
   * Every change has a revision, greater than the one before. A registration belongs to the principal that made it. The load that
   * heartbeats report is not a change: it has no revision and is not sent to watchers.
   * Errors as in AgentService.
   * </pre>
   */
  public static final class RegistryServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<RegistryServiceBlockingV2Stub> {
    private RegistryServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RegistryServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RegistryServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * RegisterAgent adds or replaces the card under the URL of its first interface and grants a lease. The state is then UP.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/AGENT_CONFLICT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.RegisterAgentResponse registerAgent(io.github.protolink_grpc.v1.RegisterAgentRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRegisterAgentMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RenewLease is the heartbeat of an agent: it renews the lease and reports state and load. Only a new state is a change of the
     * registry.
     * Errors: NOT_FOUND/LEASE_NOT_FOUND: register again. INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.RenewLeaseResponse renewLease(io.github.protolink_grpc.v1.RenewLeaseRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRenewLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DeregisterAgent removes a registration. Removing an unknown lease changes nothing.
     * </pre>
     */
    public io.github.protolink_grpc.v1.DeregisterAgentResponse deregisterAgent(io.github.protolink_grpc.v1.DeregisterAgentRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeregisterAgentMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetAgent returns the agent with a name or URL. Of several instances with the same name it returns one that is not draining, if
     * there is one, and of these the most recently registered.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/AGENT_NOT_FOUND, FAILED_PRECONDITION/AGENT_AMBIGUOUS.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetAgentResponse getAgent(io.github.protolink_grpc.v1.GetAgentRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetAgentMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListAgents returns the agents that match a filter, sorted by name and URL.
     * A page ends with the agent whose card brings it to 1 MiB or more, even if `page_size` allows further agents. So the cards of a page
     * have less than 1 MiB and, on top of that, its last card, which is at most 1 MiB: less than 2 MiB in all.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListAgentsResponse listAgents(io.github.protolink_grpc.v1.ListAgentsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListAgentsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchAgents streams the changes after a revision, then new changes as they happen. WatchPosition has the rules.
     * Without a revision, or if the registry no longer has it, the stream begins with a snapshot of all matching agents.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.protolink_grpc.v1.WatchAgentsResponse>
        watchAgents(io.github.protolink_grpc.v1.WatchAgentsRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchAgentsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service RegistryService.
   * <pre>
   * RegistryService keeps agent cards under leases. A registration whose lease is not renewed is removed.
   * Every change has a revision, greater than the one before. A registration belongs to the principal that made it. The load that
   * heartbeats report is not a change: it has no revision and is not sent to watchers.
   * Errors as in AgentService.
   * </pre>
   */
  public static final class RegistryServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<RegistryServiceBlockingStub> {
    private RegistryServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RegistryServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RegistryServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * RegisterAgent adds or replaces the card under the URL of its first interface and grants a lease. The state is then UP.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/AGENT_CONFLICT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.RegisterAgentResponse registerAgent(io.github.protolink_grpc.v1.RegisterAgentRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRegisterAgentMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RenewLease is the heartbeat of an agent: it renews the lease and reports state and load. Only a new state is a change of the
     * registry.
     * Errors: NOT_FOUND/LEASE_NOT_FOUND: register again. INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.RenewLeaseResponse renewLease(io.github.protolink_grpc.v1.RenewLeaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRenewLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DeregisterAgent removes a registration. Removing an unknown lease changes nothing.
     * </pre>
     */
    public io.github.protolink_grpc.v1.DeregisterAgentResponse deregisterAgent(io.github.protolink_grpc.v1.DeregisterAgentRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeregisterAgentMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetAgent returns the agent with a name or URL. Of several instances with the same name it returns one that is not draining, if
     * there is one, and of these the most recently registered.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/AGENT_NOT_FOUND, FAILED_PRECONDITION/AGENT_AMBIGUOUS.
     * </pre>
     */
    public io.github.protolink_grpc.v1.GetAgentResponse getAgent(io.github.protolink_grpc.v1.GetAgentRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetAgentMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListAgents returns the agents that match a filter, sorted by name and URL.
     * A page ends with the agent whose card brings it to 1 MiB or more, even if `page_size` allows further agents. So the cards of a page
     * have less than 1 MiB and, on top of that, its last card, which is at most 1 MiB: less than 2 MiB in all.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public io.github.protolink_grpc.v1.ListAgentsResponse listAgents(io.github.protolink_grpc.v1.ListAgentsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListAgentsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchAgents streams the changes after a revision, then new changes as they happen. WatchPosition has the rules.
     * Without a revision, or if the registry no longer has it, the stream begins with a snapshot of all matching agents.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public java.util.Iterator<io.github.protolink_grpc.v1.WatchAgentsResponse> watchAgents(
        io.github.protolink_grpc.v1.WatchAgentsRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchAgentsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service RegistryService.
   * <pre>
   * RegistryService keeps agent cards under leases. A registration whose lease is not renewed is removed.
   * Every change has a revision, greater than the one before. A registration belongs to the principal that made it. The load that
   * heartbeats report is not a change: it has no revision and is not sent to watchers.
   * Errors as in AgentService.
   * </pre>
   */
  public static final class RegistryServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<RegistryServiceFutureStub> {
    private RegistryServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RegistryServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RegistryServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * RegisterAgent adds or replaces the card under the URL of its first interface and grants a lease. The state is then UP.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/AGENT_CONFLICT.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.RegisterAgentResponse> registerAgent(
        io.github.protolink_grpc.v1.RegisterAgentRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRegisterAgentMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RenewLease is the heartbeat of an agent: it renews the lease and reports state and load. Only a new state is a change of the
     * registry.
     * Errors: NOT_FOUND/LEASE_NOT_FOUND: register again. INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.RenewLeaseResponse> renewLease(
        io.github.protolink_grpc.v1.RenewLeaseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRenewLeaseMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * DeregisterAgent removes a registration. Removing an unknown lease changes nothing.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.DeregisterAgentResponse> deregisterAgent(
        io.github.protolink_grpc.v1.DeregisterAgentRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeregisterAgentMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetAgent returns the agent with a name or URL. Of several instances with the same name it returns one that is not draining, if
     * there is one, and of these the most recently registered.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/AGENT_NOT_FOUND, FAILED_PRECONDITION/AGENT_AMBIGUOUS.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.GetAgentResponse> getAgent(
        io.github.protolink_grpc.v1.GetAgentRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetAgentMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListAgents returns the agents that match a filter, sorted by name and URL.
     * A page ends with the agent whose card brings it to 1 MiB or more, even if `page_size` allows further agents. So the cards of a page
     * have less than 1 MiB and, on top of that, its last card, which is at most 1 MiB: less than 2 MiB in all.
     * Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.protolink_grpc.v1.ListAgentsResponse> listAgents(
        io.github.protolink_grpc.v1.ListAgentsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListAgentsMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_REGISTER_AGENT = 0;
  private static final int METHODID_RENEW_LEASE = 1;
  private static final int METHODID_DEREGISTER_AGENT = 2;
  private static final int METHODID_GET_AGENT = 3;
  private static final int METHODID_LIST_AGENTS = 4;
  private static final int METHODID_WATCH_AGENTS = 5;

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
        case METHODID_REGISTER_AGENT:
          serviceImpl.registerAgent((io.github.protolink_grpc.v1.RegisterAgentRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RegisterAgentResponse>) responseObserver);
          break;
        case METHODID_RENEW_LEASE:
          serviceImpl.renewLease((io.github.protolink_grpc.v1.RenewLeaseRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.RenewLeaseResponse>) responseObserver);
          break;
        case METHODID_DEREGISTER_AGENT:
          serviceImpl.deregisterAgent((io.github.protolink_grpc.v1.DeregisterAgentRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.DeregisterAgentResponse>) responseObserver);
          break;
        case METHODID_GET_AGENT:
          serviceImpl.getAgent((io.github.protolink_grpc.v1.GetAgentRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.GetAgentResponse>) responseObserver);
          break;
        case METHODID_LIST_AGENTS:
          serviceImpl.listAgents((io.github.protolink_grpc.v1.ListAgentsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.ListAgentsResponse>) responseObserver);
          break;
        case METHODID_WATCH_AGENTS:
          serviceImpl.watchAgents((io.github.protolink_grpc.v1.WatchAgentsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.protolink_grpc.v1.WatchAgentsResponse>) responseObserver);
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
          getRegisterAgentMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.RegisterAgentRequest,
              io.github.protolink_grpc.v1.RegisterAgentResponse>(
                service, METHODID_REGISTER_AGENT)))
        .addMethod(
          getRenewLeaseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.RenewLeaseRequest,
              io.github.protolink_grpc.v1.RenewLeaseResponse>(
                service, METHODID_RENEW_LEASE)))
        .addMethod(
          getDeregisterAgentMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.DeregisterAgentRequest,
              io.github.protolink_grpc.v1.DeregisterAgentResponse>(
                service, METHODID_DEREGISTER_AGENT)))
        .addMethod(
          getGetAgentMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.GetAgentRequest,
              io.github.protolink_grpc.v1.GetAgentResponse>(
                service, METHODID_GET_AGENT)))
        .addMethod(
          getListAgentsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.ListAgentsRequest,
              io.github.protolink_grpc.v1.ListAgentsResponse>(
                service, METHODID_LIST_AGENTS)))
        .addMethod(
          getWatchAgentsMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.protolink_grpc.v1.WatchAgentsRequest,
              io.github.protolink_grpc.v1.WatchAgentsResponse>(
                service, METHODID_WATCH_AGENTS)))
        .build();
  }

  private static abstract class RegistryServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    RegistryServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.protolink_grpc.v1.RegistryServiceOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("RegistryService");
    }
  }

  private static final class RegistryServiceFileDescriptorSupplier
      extends RegistryServiceBaseDescriptorSupplier {
    RegistryServiceFileDescriptorSupplier() {}
  }

  private static final class RegistryServiceMethodDescriptorSupplier
      extends RegistryServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    RegistryServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (RegistryServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new RegistryServiceFileDescriptorSupplier())
              .addMethod(getRegisterAgentMethod())
              .addMethod(getRenewLeaseMethod())
              .addMethod(getDeregisterAgentMethod())
              .addMethod(getGetAgentMethod())
              .addMethod(getListAgentsMethod())
              .addMethod(getWatchAgentsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
