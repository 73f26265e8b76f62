package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.TlsChannelCredentials;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ClientBuilderTest {

  private static final String PUBLIC = "grpc://agents.example:50051";

  @Test
  void credentialsDoNotGoToOtherMachinesUnencrypted() {
    IllegalStateException key =
        assertThrows(
            IllegalStateException.class, ProtolinkClient.builder(PUBLIC).apiKey("secret")::build);
    assertFalse(key.getMessage().contains("secret"));
    assertThrows(
        IllegalStateException.class, RegistryClient.builder(PUBLIC).bearerToken("secret")::build);
    assertThrows(
        IllegalStateException.class,
        ProtolinkClient.builder(PUBLIC).bearerToken(() -> "secret")::build);
  }

  @ParameterizedTest
  @ValueSource(strings = {"authorization", "Proxy-Authorization", "X-API-Key", "cookie"})
  void headersThatAreCredentialsDoNotEither(String name) {
    IllegalStateException error =
        assertThrows(
            IllegalStateException.class,
            ProtolinkClient.builder(PUBLIC).header(name, "secret")::build);
    assertFalse(error.getMessage().contains("secret"));
    ProtolinkClient.builder(PUBLIC).header("x-tenant", "north").build().close();
  }

  @Test
  void theyGoOverTlsOnThisMachineAndWhereAllowed() {
    ProtolinkClient.builder("grpcs://agents.example:50051").apiKey("secret").build().close();
    ProtolinkClient.builder("grpc://localhost:50051").bearerToken("secret").build().close();
    ProtolinkClient.builder(PUBLIC).apiKey("secret").insecureOk().build().close();
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "line\nbreak", "nül", "tab\t"})
  void whatNoHeaderCanCarryIsRefusedAndNotRepeated(String secret) {
    IllegalArgumentException error =
        assertThrows(
            IllegalArgumentException.class, () -> ProtolinkClient.builder(PUBLIC).apiKey(secret));
    assertTrue(secret.isEmpty() || !error.getMessage().contains(secret));
  }

  @Test
  void certificatesAreForTls() {
    assertThrows(
        IllegalStateException.class,
        ProtolinkClient.builder(PUBLIC).tls(TlsChannelCredentials.create())::build);
  }

  @Test
  void boundsAreNotNegative() {
    ClientBuilder<ProtolinkClient> builder = ProtolinkClient.builder(PUBLIC);
    assertThrows(IllegalArgumentException.class, () -> builder.deadline(Duration.ZERO));
    assertThrows(IllegalArgumentException.class, () -> builder.patience(Duration.ofMillis(-1)));
    assertEquals(builder, builder.patience(Duration.ZERO).deadline(Duration.ofMillis(1)));
  }
}
