package io.github.protolink_grpc.example;

import acme.calculator.v1.AccumulateRequest;
import acme.calculator.v1.AddRequest;
import acme.calculator.v1.CalculatorGrpc;
import acme.calculator.v1.CalculatorGrpc.CalculatorBlockingStub;
import acme.calculator.v1.CountRequest;
import io.github.protolink_grpc.client.ProtolinkClient;
import io.github.protolink_grpc.client.ProtolinkException;
import io.github.protolink_grpc.client.Reason;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.MetadataUtils;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Calls an agent's typed service with generated code: {@code clients/java/calculator.sh URL}.
 * {@code plgrpc conformance serve} prints the URL of a calculator, among others.
 *
 * <p>The classes of {@code acme.calculator.v1} were made by {@code plgrpc gen --lang java --proto
 * calculator.proto}.
 */
final class Calculator {

  private static final Metadata.Key<String> TASK_ID =
      Metadata.Key.of("x-task-id", Metadata.ASCII_STRING_MARSHALLER);

  private Calculator() {}

  public static void main(String[] args) {
    if (args.length != 1) {
      System.err.println("usage: calculator.sh URL");
      System.exit(2);
    }
    try (ProtolinkClient client = ProtolinkClient.connect(args[0])) {
      calculate(client);
    }
  }

  private static void calculate(ProtolinkClient client) {
    AtomicReference<Metadata> headers = new AtomicReference<>(); // of the answer
    CalculatorBlockingStub calculator =
        CalculatorGrpc.newBlockingStub(client.channel())
            .withInterceptors(
                MetadataUtils.newCaptureMetadataInterceptor(headers, new AtomicReference<>()));
    AddRequest request = AddRequest.newBuilder().setA(20).setB(22).build();
    System.out.println("20 + 22 = " + calculator.add(request).getResult());

    // The call was a task of its own, with its log.
    System.out.println(client.get(headers.get().get(TASK_ID)).getState());

    // After an interruption the stream continues, and no response is received twice.
    CountRequest steps = CountRequest.newBuilder().setName("steps").setTimes(3).build();
    calculator.count(steps).forEachRemaining(total -> System.out.println(total.getResult()));

    try {
      calculator.accumulate(AccumulateRequest.newBuilder().setAmount(1).build());
    } catch (StatusRuntimeException thrown) {
      ProtolinkException error = ProtolinkException.from(thrown);
      if (!error.reason().equals(Reason.TOOL_REJECTED)) {
        throw error;
      }
      for (ProtolinkException.Violation violation : error.violations()) {
        System.out.println(violation.field() + ": " + violation.description());
      }
    }
  }
}
