package io.github.protolink_grpc.client;

import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.TlsChannelCredentials;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Says how to connect. Get one from {@link ProtolinkClient#builder} or {@link
 * RegistryClient#builder}.
 *
 * @param <C> the client that it builds
 */
public final class ClientBuilder<C> {

  /**
   * Bound of one message that is received; a whole task may be larger than gRPC's default. What is
   * sent is bounded by the agent.
   */
  private static final int MAX_MESSAGE_BYTES = 64 << 20;

  private final Endpoint endpoint;
  private final Channel channel;
  private final Function<Connection, C> client;
  private final CallHeaders headers = new CallHeaders();
  private final List<ClientInterceptor> interceptors = new ArrayList<>();
  private ChannelCredentials tls;
  private Duration deadline = Duration.ofMinutes(5);
  private Duration patience = Duration.ofSeconds(60);

  ClientBuilder(String url, Function<Connection, C> client) {
    this.endpoint = Endpoint.parse(url);
    this.channel = null;
    this.client = client;
  }

  ClientBuilder(Channel channel, Function<Connection, C> client) {
    this.endpoint = null;
    this.channel = channel;
    this.client = client;
  }

  /**
   * Certificates for {@code grpcs://}, for instance {@code
   * TlsChannelCredentials.newBuilder().trustManager(new File("ca.pem")).build()}. Default: the
   * system's authorities, no certificate of the client's own.
   */
  public ClientBuilder<C> tls(ChannelCredentials credentials) {
    tls = credentials;
    return this;
  }

  /**
   * Identifies the caller by a key, in the header {@code x-api-key}.
   *
   * @throws IllegalArgumentException if a header cannot carry it
   */
  public ClientBuilder<C> apiKey(String key) {
    return header("x-api-key", key);
  }

  /**
   * Identifies the caller by a token, in {@code authorization: Bearer}.
   *
   * @throws IllegalArgumentException if a header cannot carry it
   */
  public ClientBuilder<C> bearerToken(String token) {
    String checked = CallerCredentials.visible(token);
    return bearerToken(() -> checked);
  }

  /**
   * Identifies the caller by a token that may change. The supplier is called for each call, on one
   * of gRPC's threads; an exception fails the call.
   */
  public ClientBuilder<C> bearerToken(Supplier<String> token) {
    headers.addToken(token);
    return this;
  }

  /**
   * Lets credentials go to other machines without TLS, where everybody on the way can read them.
   * Credentials are keys, tokens, and the headers {@code authorization}, {@code
   * proxy-authorization}, {@code x-api-key} and {@code cookie}.
   */
  public ClientBuilder<C> insecureOk() {
    headers.allowInsecure();
    return this;
  }

  /**
   * Sends one more header with every call. For one call: {@link ProtolinkClient#withHeader}.
   *
   * @throws IllegalArgumentException if a header cannot carry it
   */
  public ClientBuilder<C> header(String name, String value) {
    headers.add(name, value);
    return this;
  }

  /**
   * Adds interceptors around each attempt of each call, the first one outermost. They see headers
   * that they add, not those of this builder.
   */
  public ClientBuilder<C> intercept(ClientInterceptor... interceptors) {
    this.interceptors.addAll(List.of(interceptors));
    return this;
  }

  /**
   * How long a call with one answer may take, its retries included. Default: 5 minutes. It bounds
   * the wait, not the run.
   */
  public ClientBuilder<C> deadline(Duration deadline) {
    this.deadline = positive(deadline);
    return this;
  }

  /**
   * How long interrupted calls and streams are retried without progress. Default: 60 seconds; zero
   * means no retries.
   *
   * <p>The time starts with the first interruption after the last progress, which is a response, an
   * event, or a stream that was open for a second. The backoff grows from 0.1 to 5 seconds.
   */
  public ClientBuilder<C> patience(Duration patience) {
    if (patience.isNegative()) {
      throw new IllegalArgumentException("patience must not be negative, not " + patience);
    }
    this.patience = patience;
    return this;
  }

  /**
   * The client. Connects at the first call, and again by itself; close it to let go of the
   * connection.
   *
   * @throws IllegalStateException if credentials would go to another machine unencrypted, or
   *     certificates are given where they are of no use. Over a channel of the caller's own, it is
   *     the call that fails.
   */
  public C build() {
    if (endpoint != null && !endpoint.isConfidential() && headers.needsEncryption()) {
      throw new IllegalStateException(
          "credentials would go to "
              + endpoint
              + " unencrypted: use grpcs://, or insecureOk()");
    }
    if (tls != null && (endpoint == null || !endpoint.secure())) {
      throw new IllegalStateException(
          "certificates are for grpcs://, not for "
              + (endpoint == null ? "a channel that exists" : endpoint));
    }
    boolean isOwned = channel == null;
    Transport transport = new Transport(isOwned ? open() : channel, isOwned);
    // The headers are next to the connection: they see what interceptors add.
    Channel identified = ClientInterceptors.intercept(transport.channel(), headers.copy());
    Channel intercepted = ClientInterceptors.interceptForward(identified, interceptors);
    return client.apply(new Connection(transport, intercepted, deadline, false, patience));
  }

  private ManagedChannel open() {
    ChannelCredentials plaintext = InsecureChannelCredentials.create();
    ChannelCredentials own = tls != null ? tls : TlsChannelCredentials.create();
    return Grpc.newChannelBuilderForAddress(
            endpoint.host(), endpoint.port(), endpoint.secure() ? own : plaintext)
        .maxInboundMessageSize(MAX_MESSAGE_BYTES)
        .keepAliveTime(30, TimeUnit.SECONDS)
        .keepAliveTimeout(10, TimeUnit.SECONDS)
        .build();
  }

  static Duration positive(Duration deadline) {
    if (deadline.isZero() || deadline.isNegative()) {
      throw new IllegalArgumentException("a deadline must be positive, not " + deadline);
    }
    return deadline;
  }
}
