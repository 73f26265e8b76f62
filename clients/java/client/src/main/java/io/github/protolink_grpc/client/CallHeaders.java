package io.github.protolink_grpc.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.util.function.Supplier;

/**
 * Sends headers with every call, unless the call brings its own of that name. Those that identify
 * the caller, whether they are set here, by an interceptor or by a generated stub, become {@link
 * CallerCredentials}.
 */
final class CallHeaders implements ClientInterceptor {

  private final Metadata fixed = new Metadata();
  private Supplier<String> token;
  private boolean isInsecureAllowed;

  /**
   * Adds a header.
   *
   * @throws IllegalArgumentException if no header can carry it
   */
  void add(String name, String value) {
    fixed.put(CallerCredentials.key(name), CallerCredentials.visible(value));
  }

  /** The same as it is now. */
  CallHeaders copy() {
    CallHeaders copy = new CallHeaders();
    copy.fixed.merge(fixed);
    copy.token = token;
    copy.isInsecureAllowed = isInsecureAllowed;
    return copy;
  }

  /** Adds a bearer token, whose supplier is called for each call. */
  void addToken(Supplier<String> token) {
    this.token = token;
  }

  /** Lets credentials go where others can read them. */
  void allowInsecure() {
    isInsecureAllowed = true;
  }

  /** Whether there is something here that must not go unencrypted to another machine. */
  boolean needsEncryption() {
    return !isInsecureAllowed
        && (token != null || fixed.keys().stream().anyMatch(CallerCredentials::isSecret));
  }

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(
      MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    return new LateCall<>(
        headers -> {
          boolean isIdentified = headers.containsKey(CallerCredentials.AUTHORIZATION);
          addMissing(headers);
          return next.newCall(
              method,
              CallerCredentials.added(
                  options,
                  CallerCredentials.takeSecrets(headers),
                  isIdentified ? null : token,
                  isInsecureAllowed));
        });
  }

  /** Adds the fixed headers, except those that the call brings itself. */
  private void addMissing(Metadata headers) {
    for (String name : fixed.keys()) {
      Metadata.Key<String> key = CallerCredentials.key(name);
      if (!headers.containsKey(key)) {
        fixed.getAll(key).forEach(value -> headers.put(key, value));
      }
    }
  }
}
