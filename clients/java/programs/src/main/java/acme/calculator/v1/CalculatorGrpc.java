package acme.calculator.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Adds numbers.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class CalculatorGrpc {

  private CalculatorGrpc() {}

  public static final java.lang.String SERVICE_NAME = "acme.calculator.v1.Calculator";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<acme.calculator.v1.AddRequest,
      acme.calculator.v1.AddResponse> getAddMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Add",
      requestType = acme.calculator.v1.AddRequest.class,
      responseType = acme.calculator.v1.AddResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<acme.calculator.v1.AddRequest,
      acme.calculator.v1.AddResponse> getAddMethod() {
    io.grpc.MethodDescriptor<acme.calculator.v1.AddRequest, acme.calculator.v1.AddResponse> getAddMethod;
    if ((getAddMethod = CalculatorGrpc.getAddMethod) == null) {
      synchronized (CalculatorGrpc.class) {
        if ((getAddMethod = CalculatorGrpc.getAddMethod) == null) {
          CalculatorGrpc.getAddMethod = getAddMethod =
              io.grpc.MethodDescriptor.<acme.calculator.v1.AddRequest, acme.calculator.v1.AddResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Add"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  acme.calculator.v1.AddRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  acme.calculator.v1.AddResponse.getDefaultInstance()))
              .setSchemaDescriptor(new CalculatorMethodDescriptorSupplier("Add"))
              .build();
        }
      }
    }
    return getAddMethod;
  }

  private static volatile io.grpc.MethodDescriptor<acme.calculator.v1.AccumulateRequest,
      acme.calculator.v1.AccumulateResponse> getAccumulateMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Accumulate",
      requestType = acme.calculator.v1.AccumulateRequest.class,
      responseType = acme.calculator.v1.AccumulateResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<acme.calculator.v1.AccumulateRequest,
      acme.calculator.v1.AccumulateResponse> getAccumulateMethod() {
    io.grpc.MethodDescriptor<acme.calculator.v1.AccumulateRequest, acme.calculator.v1.AccumulateResponse> getAccumulateMethod;
    if ((getAccumulateMethod = CalculatorGrpc.getAccumulateMethod) == null) {
      synchronized (CalculatorGrpc.class) {
        if ((getAccumulateMethod = CalculatorGrpc.getAccumulateMethod) == null) {
          CalculatorGrpc.getAccumulateMethod = getAccumulateMethod =
              io.grpc.MethodDescriptor.<acme.calculator.v1.AccumulateRequest, acme.calculator.v1.AccumulateResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Accumulate"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  acme.calculator.v1.AccumulateRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  acme.calculator.v1.AccumulateResponse.getDefaultInstance()))
              .setSchemaDescriptor(new CalculatorMethodDescriptorSupplier("Accumulate"))
              .build();
        }
      }
    }
    return getAccumulateMethod;
  }

  private static volatile io.grpc.MethodDescriptor<acme.calculator.v1.CountRequest,
      acme.calculator.v1.CountResponse> getCountMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Count",
      requestType = acme.calculator.v1.CountRequest.class,
      responseType = acme.calculator.v1.CountResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<acme.calculator.v1.CountRequest,
      acme.calculator.v1.CountResponse> getCountMethod() {
    io.grpc.MethodDescriptor<acme.calculator.v1.CountRequest, acme.calculator.v1.CountResponse> getCountMethod;
    if ((getCountMethod = CalculatorGrpc.getCountMethod) == null) {
      synchronized (CalculatorGrpc.class) {
        if ((getCountMethod = CalculatorGrpc.getCountMethod) == null) {
          CalculatorGrpc.getCountMethod = getCountMethod =
              io.grpc.MethodDescriptor.<acme.calculator.v1.CountRequest, acme.calculator.v1.CountResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Count"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  acme.calculator.v1.CountRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  acme.calculator.v1.CountResponse.getDefaultInstance()))
              .setSchemaDescriptor(new CalculatorMethodDescriptorSupplier("Count"))
              .build();
        }
      }
    }
    return getCountMethod;
  }

  private static volatile io.grpc.MethodDescriptor<acme.calculator.v1.DivideRequest,
      acme.calculator.v1.DivideResponse> getDivideMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Divide",
      requestType = acme.calculator.v1.DivideRequest.class,
      responseType = acme.calculator.v1.DivideResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<acme.calculator.v1.DivideRequest,
      acme.calculator.v1.DivideResponse> getDivideMethod() {
    io.grpc.MethodDescriptor<acme.calculator.v1.DivideRequest, acme.calculator.v1.DivideResponse> getDivideMethod;
    if ((getDivideMethod = CalculatorGrpc.getDivideMethod) == null) {
      synchronized (CalculatorGrpc.class) {
        if ((getDivideMethod = CalculatorGrpc.getDivideMethod) == null) {
          CalculatorGrpc.getDivideMethod = getDivideMethod =
              io.grpc.MethodDescriptor.<acme.calculator.v1.DivideRequest, acme.calculator.v1.DivideResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Divide"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  acme.calculator.v1.DivideRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  acme.calculator.v1.DivideResponse.getDefaultInstance()))
              .setSchemaDescriptor(new CalculatorMethodDescriptorSupplier("Divide"))
              .build();
        }
      }
    }
    return getDivideMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static CalculatorStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<CalculatorStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<CalculatorStub>() {
        @java.lang.Override
        public CalculatorStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new CalculatorStub(channel, callOptions);
        }
      };
    return CalculatorStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static CalculatorBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<CalculatorBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<CalculatorBlockingV2Stub>() {
        @java.lang.Override
        public CalculatorBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new CalculatorBlockingV2Stub(channel, callOptions);
        }
      };
    return CalculatorBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static CalculatorBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<CalculatorBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<CalculatorBlockingStub>() {
        @java.lang.Override
        public CalculatorBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new CalculatorBlockingStub(channel, callOptions);
        }
      };
    return CalculatorBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static CalculatorFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<CalculatorFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<CalculatorFutureStub>() {
        @java.lang.Override
        public CalculatorFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new CalculatorFutureStub(channel, callOptions);
        }
      };
    return CalculatorFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Adds numbers.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Add two integers.
     * </pre>
     */
    default void add(acme.calculator.v1.AddRequest request,
        io.grpc.stub.StreamObserver<acme.calculator.v1.AddResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAddMethod(), responseObserver);
    }

    /**
     * <pre>
     * Add an amount to the running total of that name. A call that ran twice would count twice.
     * </pre>
     */
    default void accumulate(acme.calculator.v1.AccumulateRequest request,
        io.grpc.stub.StreamObserver<acme.calculator.v1.AccumulateResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAccumulateMethod(), responseObserver);
    }

    /**
     * <pre>
     * Add 1 to the running total of that name, so many times, and yield the total each time.
     * </pre>
     */
    default void count(acme.calculator.v1.CountRequest request,
        io.grpc.stub.StreamObserver<acme.calculator.v1.CountResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCountMethod(), responseObserver);
    }

    /**
     * <pre>
     * Divide two numbers.
     * </pre>
     */
    default void divide(acme.calculator.v1.DivideRequest request,
        io.grpc.stub.StreamObserver<acme.calculator.v1.DivideResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDivideMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service Calculator.
   * <pre>
   * Adds numbers.
   * </pre>
   */
  public static abstract class CalculatorImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return CalculatorGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service Calculator.
   * <pre>
   * Adds numbers.
   * </pre>
   */
  public static final class CalculatorStub
      extends io.grpc.stub.AbstractAsyncStub<CalculatorStub> {
    private CalculatorStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected CalculatorStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new CalculatorStub(channel, callOptions);
    }

    /**
     * <pre>
     * Add two integers.
     * </pre>
     */
    public void add(acme.calculator.v1.AddRequest request,
        io.grpc.stub.StreamObserver<acme.calculator.v1.AddResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAddMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Add an amount to the running total of that name. A call that ran twice would count twice.
     * </pre>
     */
    public void accumulate(acme.calculator.v1.AccumulateRequest request,
        io.grpc.stub.StreamObserver<acme.calculator.v1.AccumulateResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAccumulateMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Add 1 to the running total of that name, so many times, and yield the total each time.
     * </pre>
     */
    public void count(acme.calculator.v1.CountRequest request,
        io.grpc.stub.StreamObserver<acme.calculator.v1.CountResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getCountMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Divide two numbers.
     * </pre>
     */
    public void divide(acme.calculator.v1.DivideRequest request,
        io.grpc.stub.StreamObserver<acme.calculator.v1.DivideResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDivideMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service Calculator.
   * <pre>
   * Adds numbers.
   * </pre>
   */
  public static final class CalculatorBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<CalculatorBlockingV2Stub> {
    private CalculatorBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected CalculatorBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new CalculatorBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Add two integers.
     * </pre>
     */
    public acme.calculator.v1.AddResponse add(acme.calculator.v1.AddRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getAddMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Add an amount to the running total of that name. A call that ran twice would count twice.
     * </pre>
     */
    public acme.calculator.v1.AccumulateResponse accumulate(acme.calculator.v1.AccumulateRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getAccumulateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Add 1 to the running total of that name, so many times, and yield the total each time.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, acme.calculator.v1.CountResponse>
        count(acme.calculator.v1.CountRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getCountMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Divide two numbers.
     * </pre>
     */
    public acme.calculator.v1.DivideResponse divide(acme.calculator.v1.DivideRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDivideMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service Calculator.
   * <pre>
   * Adds numbers.
   * </pre>
   */
  public static final class CalculatorBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<CalculatorBlockingStub> {
    private CalculatorBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected CalculatorBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new CalculatorBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Add two integers.
     * </pre>
     */
    public acme.calculator.v1.AddResponse add(acme.calculator.v1.AddRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAddMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Add an amount to the running total of that name. A call that ran twice would count twice.
     * </pre>
     */
    public acme.calculator.v1.AccumulateResponse accumulate(acme.calculator.v1.AccumulateRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAccumulateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Add 1 to the running total of that name, so many times, and yield the total each time.
     * </pre>
     */
    public java.util.Iterator<acme.calculator.v1.CountResponse> count(
        acme.calculator.v1.CountRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getCountMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Divide two numbers.
     * </pre>
     */
    public acme.calculator.v1.DivideResponse divide(acme.calculator.v1.DivideRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDivideMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service Calculator.
   * <pre>
   * Adds numbers.
   * </pre>
   */
  public static final class CalculatorFutureStub
      extends io.grpc.stub.AbstractFutureStub<CalculatorFutureStub> {
    private CalculatorFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected CalculatorFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new CalculatorFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Add two integers.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<acme.calculator.v1.AddResponse> add(
        acme.calculator.v1.AddRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAddMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Add an amount to the running total of that name. A call that ran twice would count twice.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<acme.calculator.v1.AccumulateResponse> accumulate(
        acme.calculator.v1.AccumulateRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAccumulateMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Divide two numbers.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<acme.calculator.v1.DivideResponse> divide(
        acme.calculator.v1.DivideRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDivideMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_ADD = 0;
  private static final int METHODID_ACCUMULATE = 1;
  private static final int METHODID_COUNT = 2;
  private static final int METHODID_DIVIDE = 3;

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
        case METHODID_ADD:
          serviceImpl.add((acme.calculator.v1.AddRequest) request,
              (io.grpc.stub.StreamObserver<acme.calculator.v1.AddResponse>) responseObserver);
          break;
        case METHODID_ACCUMULATE:
          serviceImpl.accumulate((acme.calculator.v1.AccumulateRequest) request,
              (io.grpc.stub.StreamObserver<acme.calculator.v1.AccumulateResponse>) responseObserver);
          break;
        case METHODID_COUNT:
          serviceImpl.count((acme.calculator.v1.CountRequest) request,
              (io.grpc.stub.StreamObserver<acme.calculator.v1.CountResponse>) responseObserver);
          break;
        case METHODID_DIVIDE:
          serviceImpl.divide((acme.calculator.v1.DivideRequest) request,
              (io.grpc.stub.StreamObserver<acme.calculator.v1.DivideResponse>) responseObserver);
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
          getAddMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              acme.calculator.v1.AddRequest,
              acme.calculator.v1.AddResponse>(
                service, METHODID_ADD)))
        .addMethod(
          getAccumulateMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              acme.calculator.v1.AccumulateRequest,
              acme.calculator.v1.AccumulateResponse>(
                service, METHODID_ACCUMULATE)))
        .addMethod(
          getCountMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              acme.calculator.v1.CountRequest,
              acme.calculator.v1.CountResponse>(
                service, METHODID_COUNT)))
        .addMethod(
          getDivideMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              acme.calculator.v1.DivideRequest,
              acme.calculator.v1.DivideResponse>(
                service, METHODID_DIVIDE)))
        .build();
  }

  private static abstract class CalculatorBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    CalculatorBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return acme.calculator.v1.CalculatorOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("Calculator");
    }
  }

  private static final class CalculatorFileDescriptorSupplier
      extends CalculatorBaseDescriptorSupplier {
    CalculatorFileDescriptorSupplier() {}
  }

  private static final class CalculatorMethodDescriptorSupplier
      extends CalculatorBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    CalculatorMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (CalculatorGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new CalculatorFileDescriptorSupplier())
              .addMethod(getAddMethod())
              .addMethod(getAccumulateMethod())
              .addMethod(getCountMethod())
              .addMethod(getDivideMethod())
              .build();
        }
      }
    }
    return result;
  }
}
