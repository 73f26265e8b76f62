package io.github.protolink_grpc.client;

import io.grpc.CallCredentials;
import io.grpc.CallOptions;
import io.grpc.CompositeCallCredentials;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.SecurityLevel;
import io.grpc.Status;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/**
 * Headers that identify the caller. They go only over connections that are encrypted or stay on
 * this machine. That is decided when the connection is known: a channel of the caller's own does
 * not say where it leads.
 */
final class CallerCredentials extends CallCredentials {

  static final Metadata.Key<String> AUTHORIZATION = key("authorization");

  private static final Set<String> SECRETS =
      Set.of("authorization", "proxy-authorization", "x-api-key", "cookie");

  private final Metadata secrets;
  private final Supplier<String> token;
  private final boolean isInsecureAllowed;

  private CallerCredentials(Metadata secrets, Supplier<String> token, boolean isInsecureAllowed) {
    this.secrets = secrets;
    this.token = token;
    this.isInsecureAllowed = isInsecureAllowed;
  }

  /**
   * The options of a call with these credentials.
   *
   * @param token null means none. No token, no call: it fails with what was thrown.
   */
  static CallOptions added(
      CallOptions options, Metadata secrets, Supplier<String> token, boolean isInsecureAllowed) {
    if (secrets.keys().isEmpty() && token == null) {
      return options;
    }
    CallCredentials own = new CallerCredentials(secrets, token, isInsecureAllowed);
    CallCredentials others = options.getCredentials();
    return options.withCallCredentials(
        others == null ? own : new CompositeCallCredentials(others, own));
  }

  /** Removes the headers that identify the caller, and returns them. */
  static Metadata takeSecrets(Metadata headers) {
    Metadata secrets = new Metadata();
    for (String name : SECRETS) {
      Iterable<String> values = headers.removeAll(key(name));
      if (values != null) {
        values.forEach(each -> secrets.put(key(name), each));
      }
    }
    return secrets;
  }

  static boolean isSecret(String name) {
    return SECRETS.contains(name.toLowerCase(Locale.ROOT));
  }

  static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  /** The value, if a header can carry it. It may be a secret, so that no text repeats it. */
  static String visible(String value) {
    if (value.isEmpty() || !value.chars().allMatch(each -> each >= ' ' && each <= '~')) {
      throw new IllegalArgumentException("the value of a header must be visible ASCII");
    }
    return value;
  }

  @Override
  public void applyRequestMetadata(RequestInfo call, Executor executor, MetadataApplier applier) {
    if (isInsecureAllowed || isConfidential(call)) {
      executor.execute(() -> apply(applier)); // asking for a token may take a while
    } else {
      applier.fail(
          Status.UNAUTHENTICATED.withDescription(
              "credentials were not sent: the connection to "
                  + call.getAuthority()
                  + " is unencrypted"));
    }
  }

  private void apply(MetadataApplier applier) {
    try {
      if (token != null) {
        secrets.put(AUTHORIZATION, "Bearer " + visible(token.get()));
      }
      applier.apply(secrets);
    } catch (RuntimeException e) {
      applier.fail(Status.UNAUTHENTICATED.withDescription("there is no token").withCause(e));
    }
  }

  private static boolean isConfidential(RequestInfo call) {
    return call.getSecurityLevel() == SecurityLevel.PRIVACY_AND_INTEGRITY
        || isThisMachine(call.getTransportAttrs().get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR));
  }

  private static boolean isThisMachine(SocketAddress peer) {
    return peer instanceof InetSocketAddress address
        && !address.isUnresolved()
        && address.getAddress().isLoopbackAddress();
  }
}
