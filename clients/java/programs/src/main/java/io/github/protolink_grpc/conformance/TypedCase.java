package io.github.protolink_grpc.conformance;

import static io.github.protolink_grpc.conformance.Checks.expect;
import static io.github.protolink_grpc.conformance.Checks.given;
import static io.github.protolink_grpc.conformance.Checks.word;

import acme.calculator.v1.AccumulateRequest;
import acme.calculator.v1.AddRequest;
import acme.calculator.v1.CalculatorGrpc;
import acme.calculator.v1.CalculatorGrpc.CalculatorBlockingStub;
import acme.calculator.v1.CountRequest;
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
import java.util.stream.LongStream;

/** Calls of a generated stub over a channel of the client. */
final class TypedCase implements Main.Case {

  private static final String LOST = "x-lost-answers";
  private static final String CUT_AFTER = "x-cut-after";
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

  /** The case of streams. */
  static void stream() {
    try (ProtolinkClient client = ProtolinkClient.connect(given("CALCULATOR"))) {
      CalculatorBlockingStub calculator = CalculatorGrpc.newBlockingStub(client.channel());
      String name = word();
      expect(
          "the totals",
          counted(with(calculator, CUT_AFTER, "20 10 30"), name, 50),
          LongStream.rangeClosed(1, 50).boxed().toList());
      CalculatorBlockingStub named = with(calculator, REQUEST_ID, word());
      List<Long> last = LongStream.rangeClosed(51, 60).boxed().toList();
      expect("the totals of one request", counted(with(named, CUT_AFTER, "3"), name, 10), last);
      expect("the totals of the same request", counted(named, name, 10), last);
      expect("the total afterwards", accumulated(calculator, name, 0), 60L);
      expectRejected(() -> counted(calculator, "", 1), "name");
    }
  }

  private static List<Long> counted(CalculatorBlockingStub calculator, String name, long times) {
    CountRequest request = CountRequest.newBuilder().setName(name).setTimes(times).build();
    List<Long> totals = new ArrayList<>();
    calculator.count(request).forEachRemaining(response -> totals.add(response.getResult()));
    return totals;
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
