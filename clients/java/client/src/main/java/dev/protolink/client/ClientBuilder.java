package dev.protolink.client;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import java.time.Duration;
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

  /** Bound of one message in either direction; a whole task may be larger than gRPC's default. */
  static final int MAX_MESSAGE_BYTES = 64 << 20;

  private final Endpoint endpoint;
  private final Function<Connection, C> client;
  private final Metadata headers = new Metadata();
  private ChannelCredentials tls;
  private Supplier<String> token;
  private boolean hasCredentials;
  private boolean mayLeak;
  private Duration deadline = Duration.ofMinutes(5);
  private int maxAttempts = 5;

  ClientBuilder(String url, Function<Connection, C> client) {
    this.endpoint = Endpoint.parse(url);
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
    hasCredentials = true;
    return header("x-api-key", key);
  }

  /**
   * Identifies the caller by a token, in {@code authorization: Bearer}.
   *
   * @throws IllegalArgumentException if a header cannot carry it
   */
  public ClientBuilder<C> bearerToken(String token) {
    String checked = visible(token);
    return bearerToken(() -> checked);
  }

  /**
   * Identifies the caller by a token that may change: asked for at each call, on the caller's
   * thread or on one of gRPC's. What it throws fails the call.
   */
  public ClientBuilder<C> bearerToken(Supplier<String> token) {
    hasCredentials = true;
    this.token = () -> visible(token.get());
    return this;
  }

  /**
   * Lets credentials go to other machines without TLS, where everybody on the way can read them.
   */
  public ClientBuilder<C> allowPlaintextCredentials() {
    mayLeak = true;
    return this;
  }

  /**
   * Sends one more header with every call.
   *
   * @throws IllegalArgumentException if a header cannot carry it
   */
  public ClientBuilder<C> header(String name, String value) {
    headers.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), visible(value));
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
   * How often a call, or a stream that has shown nothing new meanwhile, is tried in all. Default:
   * 5, which spends about a second on pauses; 12 spend half a minute.
   */
  public ClientBuilder<C> maxAttempts(int attempts) {
    if (attempts < 1) {
      throw new IllegalArgumentException("there must be at least one attempt, not " + attempts);
    }
    maxAttempts = attempts;
    return this;
  }

  /**
   * The client. Connects at the first call, and again by itself; close it to let go of the
   * connection.
   *
   * @throws IllegalStateException if credentials would go to another machine in plaintext, or
   *     certificates are given for a URL in plaintext
   */
  public C build() {
    if (hasCredentials && !mayLeak && !endpoint.isConfidential()) {
      throw new IllegalStateException(
          "credentials would go to "
              + endpoint
              + " in plaintext: use grpcs://, or allowPlaintextCredentials()");
    }
    if (tls != null && !endpoint.secure()) {
      throw new IllegalStateException("certificates are for grpcs://, not for " + endpoint);
    }
    return client.apply(
        new Connection(channel(), new CallHeaders(headers, token), deadline, maxAttempts));
  }

  private ManagedChannel channel() {
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

  /** The value, if a header can carry it. It may be a secret, so that no text repeats it. */
  private static String visible(String value) {
    if (value.isEmpty() || !value.chars().allMatch(each -> each >= ' ' && each <= '~')) {
      throw new IllegalArgumentException("the value of a header must be visible ASCII");
    }
    return value;
  }
}
