package io.github.protolink_grpc.conformance;

import static io.github.protolink_grpc.conformance.Checks.expect;
import static io.github.protolink_grpc.conformance.Checks.given;
import static io.github.protolink_grpc.conformance.Checks.word;

import acme.calculator.v1.AccumulateRequest;
import acme.calculator.v1.AddRequest;
import acme.calculator.v1.CalculatorGrpc;
import acme.calculator.v1.CalculatorGrpc.CalculatorBlockingStub;
import acme.calculator.v1.DivideRequest;
import io.github.protolink_grpc.client.ProtolinkClient;
import io.github.protolink_grpc.client.ProtolinkException;
import io.github.protolink_grpc.client.Reason;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.MetadataUtils;
import java.util.ArrayList;
import java.util.List;

/** Calls of a generated stub over a channel of the client. */
final class TypedCase implements Main.Case {

  private static final String LOST = "x-lost-answers";
  private static final String REQUEST_ID = "x-request-id";

  @Override
  public void run() {
    try (ProtolinkClient client = ProtolinkClient.connect(given("CALCULATOR"))) {
      CalculatorBlockingStub calculator = CalculatorGrpc.newBlockingStub(client.channel());
      CalculatorBlockingStub losing = with(calculator, LOST, "2");
      AddRequest both = AddRequest.newBuilder().setA(20).setB(22).build();
      expect("the sum", losing.add(both).getResult(), 42L);
      AddRequest one = AddRequest.newBuilder().setA(40).build();
      expect("the sum with a default", calculator.add(one).getResult(), 42L);

      String name = word();
      String request = word();
      List<Long> totals = new ArrayList<>();
      totals.add(accumulated(losing, name, 42));
      totals.add(accumulated(calculator, name, 0));
      totals.add(accumulated(with(losing, REQUEST_ID, request), name, 1));
      totals.add(accumulated(with(calculator, REQUEST_ID, request), name, 1));
      expect("the totals", totals, List.of(42L, 42L, 43L, 43L));

      expectRejected(() -> accumulated(calculator, "", 1), "name");
      DivideRequest byZero = DivideRequest.newBuilder().setDividend(1).build();
      String task = expectRejected(() -> calculator.divide(byZero), "divisor").taskId();
      expect("the id of the task of the error", client.get(task).getId(), task);
    }
  }

  private static long accumulated(CalculatorBlockingStub calculator, String name, long amount) {
    AccumulateRequest request =
        AccumulateRequest.newBuilder().setName(name).setAmount(amount).build();
    return calculator.accumulate(request).getResult().getValue();
  }

  private static CalculatorBlockingStub with(
      CalculatorBlockingStub stub, String name, String value) {
    Metadata header = new Metadata();
    header.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), value);
    return stub.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(header));
  }

  private static ProtolinkException expectRejected(Runnable call, String field) {
    try {
      call.run();
    } catch (StatusRuntimeException thrown) {
      ProtolinkException error = ProtolinkException.from(thrown);
      expect("the code", error.code(), Status.Code.INVALID_ARGUMENT);
      expect("the reason", error.reason(), Reason.TOOL_REJECTED);
      List<String> fields =
          error.violations().stream().map(ProtolinkException.Violation::field).toList();
      expect("the fields", fields, List.of(field));
      return error;
    }
    throw new AssertionError("nothing was refused");
  }
}
