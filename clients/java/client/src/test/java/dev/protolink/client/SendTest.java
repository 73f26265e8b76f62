package dev.protolink.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.Code;
import com.google.rpc.RetryInfo;
import dev.protolink.v1.AgentServiceGrpc;
import dev.protolink.v1.SendTaskRequest;
import dev.protolink.v1.SendTaskResponse;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class SendTest {

  private final ScriptedAgent agent = new ScriptedAgent();

  @Test
  void aRepetitionIsTheSameRequest() {
    agent.then(Status.UNAVAILABLE).then(Status.UNAVAILABLE).then(Status.OK);
    assertEquals(ScriptedAgent.TASK, send(3));
    SendTaskRequest first = (SendTaskRequest) agent.requests.get(0);
    assertFalse(first.getRequestId().isEmpty());
    assertEquals(first, agent.requests.get(1));
    assertEquals(first, agent.requests.get(2));
  }

  @Test
  void attemptsAreBounded() {
    agent.then(Status.UNAVAILABLE).then(Status.UNAVAILABLE).then(Status.OK);
    ProtolinkException error = assertThrows(ProtolinkException.class, () -> send(2));
    assertEquals(Status.Code.UNAVAILABLE, error.code());
  }

  @Test
  void aFullAgentIsAskedAgainOnlyWhereItSaysWhen() {
    agent.then(Status.RESOURCE_EXHAUSTED);
    assertThrows(ProtolinkException.class, () -> send(3));
    RetryInfo info =
        RetryInfo.newBuilder().setRetryDelay(Duration.newBuilder().setNanos(1)).build();
    com.google.rpc.Status full =
        com.google.rpc.Status.newBuilder()
            .setCode(Code.RESOURCE_EXHAUSTED_VALUE)
            .addDetails(Any.pack(info))
            .build();
    agent.then(StatusProto.toStatusRuntimeException(full)).then(Status.OK);
    assertEquals(ScriptedAgent.TASK, send(3));
  }

  @Test
  void noPauseOutlastsTheDeadline() {
    RetryInfo hour =
        RetryInfo.newBuilder().setRetryDelay(Duration.newBuilder().setSeconds(3600)).build();
    com.google.rpc.Status full =
        com.google.rpc.Status.newBuilder()
            .setCode(Code.UNAVAILABLE_VALUE)
            .addDetails(Any.pack(hour))
            .build();
    agent.then(StatusProto.toStatusRuntimeException(full)).then(Status.OK);
    ProtolinkException error = assertThrows(ProtolinkException.class, () -> send(3));
    assertEquals(3600, error.retryDelay().orElseThrow().toSeconds());
  }

  @Test
  void theStackTraceIsTheCallers() {
    agent.then(Status.INVALID_ARGUMENT);
    ProtolinkException error = assertThrows(ProtolinkException.class, () -> send(1));
    assertTrue(
        Arrays.stream(error.getStackTrace())
            .anyMatch(frame -> frame.getClassName().equals(SendTest.class.getName())));
  }

  @Test
  void aServerThatIsNotThereIsNamed() {
    String url;
    try (Served gone = Served.of(agent)) {
      url = gone.url();
    }
    try (ProtolinkClient client = ProtolinkClient.builder(url).maxAttempts(2).build()) {
      ProtolinkException error = assertThrows(ProtolinkException.class, () -> client.send("hello"));
      assertEquals(Status.Code.UNAVAILABLE, error.code());
      assertTrue(
          error.getMessage().contains(url.substring("grpc://".length())), error.getMessage());
    }
  }

  @Test
  void whereThereIsNoTokenTheCallFails() {
    RuntimeException expired = new IllegalStateException("nobody has signed in");
    try (Served served = Served.of(agent);
        ProtolinkClient client =
            ProtolinkClient.builder(served.url())
                .bearerToken(
                    () -> {
                      throw expired;
                    })
                .build()) {
      ProtolinkException error = assertThrows(ProtolinkException.class, () -> client.send("hello"));
      assertTrue(error.getMessage().contains("nobody has signed in"), error.getMessage());
      assertThrows(ProtolinkException.class, () -> client.stream("hello").hasNext());
      assertEquals(List.of(), agent.requests);
    }
  }

  @Test
  void aClosedClientDoesNotTryAgain() {
    ProtolinkClient client = ProtolinkClient.builder("localhost:1").maxAttempts(1000).build();
    client.close();
    assertTimeoutPreemptively(
        java.time.Duration.ofSeconds(5),
        () -> {
          assertThrows(ProtolinkException.class, () -> client.send("hello"));
          assertThrows(ProtolinkException.class, () -> client.stream("hello").hasNext());
        });
  }

  @Test
  void cancelingTheFutureCancelsTheCall() throws Exception {
    CountDownLatch arrived = new CountDownLatch(1);
    CountDownLatch canceled = new CountDownLatch(1);
    AgentServiceGrpc.AgentServiceImplBase slow =
        new AgentServiceGrpc.AgentServiceImplBase() {
          @Override
          public void sendTask(SendTaskRequest request, StreamObserver<SendTaskResponse> observer) {
            Context.current().addListener(context -> canceled.countDown(), Runnable::run);
            arrived.countDown();
          }
        };
    try (Served served = Served.of(slow);
        ProtolinkClient client = ProtolinkClient.connect(served.url())) {
      CompletableFuture<?> answer = client.sendAsync(Tasks.of("hello"));
      assertTrue(arrived.await(5, TimeUnit.SECONDS));
      answer.cancel(true);
      assertTrue(canceled.await(5, TimeUnit.SECONDS));
    }
  }

  private String send(int attempts) {
    try (Served served = Served.of(agent);
        ProtolinkClient client =
            ProtolinkClient.builder(served.url()).maxAttempts(attempts).build()) {
      return client.send("hello").getId();
    }
  }
}
