package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import io.grpc.TlsServerCredentials;
import io.grpc.stub.MetadataUtils;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CredentialsTest {

  private static final Metadata.Key<String> AUTHORIZATION = key("authorization");
  private static final Metadata.Key<String> TENANT = key("x-tenant");

  private final ScriptedAgent agent = new ScriptedAgent().then(Status.OK).then(Status.OK);
  private final BlockingQueue<Metadata> received = new LinkedBlockingQueue<>();
  private Server server;
  private ManagedChannel channel;

  @BeforeEach
  void serve() throws Exception {
    serve(InsecureServerCredentials.create());
  }

  private void serve(ServerCredentials credentials) throws Exception {
    server =
        Grpc.newServerBuilderForPort(0, credentials)
            .addService(agent)
            .intercept(
                new ServerInterceptor() {
                  @Override
                  public <Q, A> ServerCall.Listener<Q> interceptCall(
                      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
                    received.add(headers);
                    return next.startCall(call, headers);
                  }
                })
            .build()
            .start();
  }

  @AfterEach
  void stop() {
    server.shutdownNow();
    if (channel != null) {
      channel.shutdownNow();
    }
  }

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  private ManagedChannel channelTo(String host) {
    channel =
        Grpc.newChannelBuilderForAddress(
                host, server.getPort(), InsecureChannelCredentials.create())
            .build();
    return channel;
  }

  /** An interceptor that sets a header by hand. */
  private static ClientInterceptor setting(Metadata.Key<String> name, String value) {
    Metadata header = new Metadata();
    header.put(name, value);
    return MetadataUtils.newAttachHeadersInterceptor(header);
  }

  @Test
  void headersOfACallTakeThePlaceOfTheBuilders() throws Exception {
    try (ProtolinkClient client =
        ProtolinkClient.builder("127.0.0.1:" + server.getPort())
            .header("x-tenant", "north")
            .header("x-region", "eu")
            .bearerToken("usual")
            .build()) {
      client.withHeader("x-tenant", "south").withHeader("authorization", "Bearer mine").send("a");
      client.send("b");
    }
    Metadata first = received.take();
    assertEquals(List.of("south"), all(first, TENANT));
    assertEquals(List.of("eu"), all(first, key("x-region")));
    assertEquals(List.of("Bearer mine"), all(first, AUTHORIZATION));
    Metadata second = received.take();
    assertEquals(List.of("north"), all(second, TENANT));
    assertEquals(List.of("Bearer usual"), all(second, AUTHORIZATION));
  }

  private static List<String> all(Metadata headers, Metadata.Key<String> key) {
    List<String> all = new ArrayList<>();
    headers.getAll(key).forEach(all::add);
    return all;
  }

  @Test
  void aChannelOfTheCallersOwnIsUsedAndLeftOpen() throws Exception {
    try (ProtolinkClient client =
        ProtolinkClient.builder(channelTo("localhost")).apiKey("k").build()) {
      client.send("hello");
    }
    assertEquals("k", received.take().get(key("x-api-key")));
    assertFalse(channel.isShutdown());
  }

  @Test
  void certificatesAreNotForAChannelThatExists() {
    ClientBuilder<ProtolinkClient> builder =
        ProtolinkClient.builder(channelTo("localhost"))
            .tls(TlsChannelCredentials.create());
    assertThrows(IllegalStateException.class, builder::build);
  }

  @Test
  void interceptorsAreCalledInTheirOrder() throws Exception {
    Metadata.Key<String> who = key("x-who");
    try (ProtolinkClient client =
        ProtolinkClient.builder("127.0.0.1:" + server.getPort())
            .intercept(setting(who, "inner"), setting(who, "outer"))
            .build()) {
      client.send("hello");
    }
    // The outer one sees the call first, but its headers are added when the inner one starts it.
    assertEquals(List.of("inner", "outer"), all(received.take(), who));
  }

  @Test
  void credentialsAreNotSentToAnotherAddressUnencrypted() throws Exception {
    String address = otherAddress();
    ClientInterceptor byHand = setting(AUTHORIZATION, "Bearer secret");
    for (ClientBuilder<ProtolinkClient> builder :
        List.of(
            ProtolinkClient.builder(channelTo(address)).apiKey("secret"),
            ProtolinkClient.builder(channel).bearerToken("secret"),
            ProtolinkClient.builder(channel).intercept(byHand),
            ProtolinkClient.builder(address + ":" + server.getPort()).intercept(byHand))) {
      try (ProtolinkClient client = builder.build()) {
        ProtolinkException error =
            assertThrows(ProtolinkException.class, () -> client.send("hello"));
        assertEquals(Status.Code.UNAUTHENTICATED, error.code());
        assertTrue(error.getMessage().contains("unencrypted"), error.getMessage());
        assertFalse(error.getMessage().contains("secret"), error.getMessage());
      }
    }
    assertEquals(List.of(), agent.requests);
    try (ProtolinkClient client =
        ProtolinkClient.builder(channel).intercept(byHand).insecureOk().build()) {
      client.send("hello");
    }
    assertEquals("Bearer secret", received.take().get(AUTHORIZATION));
    try (ProtolinkClient nobody = ProtolinkClient.builder(channel).build()) {
      nobody.send("hello");
    }
    assertNull(received.take().get(AUTHORIZATION));
  }

  @Test
  void credentialsAreSentToAnotherAddressOverTls(@TempDir Path folder) throws Exception {
    String address = otherAddress();
    server.shutdownNow();
    KeyStore keys = selfSigned(address, folder.resolve("keys.p12"));
    KeyManagerFactory own = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    own.init(keys, PASSWORD.toCharArray());
    serve(TlsServerCredentials.newBuilder().keyManager(own.getKeyManagers()).build());
    TrustManagerFactory trusted =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trusted.init(keys);
    ChannelCredentials tls =
        TlsChannelCredentials.newBuilder().trustManager(trusted.getTrustManagers()).build();
    String url = "grpcs://" + address + ":" + server.getPort();
    try (ProtolinkClient client = ProtolinkClient.builder(url).tls(tls).apiKey("k").build()) {
      client.send("hello");
    }
    assertEquals("k", received.take().get(key("x-api-key")));
  }

  private static final String PASSWORD = "for this test";

  /** A key, and a certificate for an address that it signs itself and trusts. */
  private static KeyStore selfSigned(String address, Path file) throws Exception {
    String keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
    String certificate = "-genkeypair -keyalg EC -dname CN=test -alias server -ext san=ip:";
    List<String> command = new ArrayList<>(List.of(keytool));
    command.addAll(List.of((certificate + address).split(" ")));
    command.addAll(List.of("-storetype", "PKCS12", "-storepass", PASSWORD));
    command.addAll(List.of("-keystore", file.toString()));
    new ProcessBuilder(command)
        .redirectErrorStream(true)
        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
        .start()
        .waitFor();
    KeyStore keys = KeyStore.getInstance(file.toFile(), PASSWORD.toCharArray());
    keys.setCertificateEntry("trusted", keys.getCertificate("server"));
    return keys;
  }

  /** An address of this machine that is not of its loopback: for the client, another machine. */
  private static String otherAddress() throws Exception {
    Optional<InetAddress> found =
        NetworkInterface.networkInterfaces()
            .flatMap(NetworkInterface::inetAddresses)
            .filter(each -> !each.isLoopbackAddress() && each.getAddress().length == 4)
            .findFirst();
    Assumptions.assumeTrue(found.isPresent(), "this machine has no other address");
    return found.get().getHostAddress();
  }
}
