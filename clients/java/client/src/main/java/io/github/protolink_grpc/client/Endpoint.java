package io.github.protolink_grpc.client;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Where a server is, and whether it is spoken to over TLS. An IPv6 host has no brackets here. */
record Endpoint(String host, int port, boolean secure) {

  private static final Pattern URL =
      Pattern.compile("(?:(grpcs?)://)?(?:\\[([0-9A-Fa-f:.]+)]|([^\\s/?#@:\\[\\]]+)):(\\d{1,5})/?");
  private static final Pattern LOOPBACK =
      Pattern.compile("localhost|127(\\.\\d{1,3}){3}|::1", Pattern.CASE_INSENSITIVE);

  /**
   * The endpoint of {@code grpc://host:port}, {@code grpcs://host:port} or {@code host:port}, which
   * is unencrypted.
   *
   * @throws IllegalArgumentException for anything else; the text does not repeat what may be a
   *     secret
   */
  static Endpoint parse(String url) {
    Matcher found = URL.matcher(url);
    if (!found.matches()) {
      throw new IllegalArgumentException(
          "a URL must look like grpc://host:port, grpcs://host:port or host:port");
    }
    int port = Integer.parseInt(found.group(4));
    if (port < 1 || port > 65535) {
      throw new IllegalArgumentException("the port must be from 1 to 65535, not " + port);
    }
    String host = found.group(2) != null ? found.group(2) : found.group(3);
    return new Endpoint(host, port, "grpcs".equals(found.group(1)));
  }

  /** Whether the traffic cannot be read on the network: it is encrypted, or stays on this machine. */
  boolean isConfidential() {
    return secure || LOOPBACK.matcher(host).matches();
  }

  @Override
  public String toString() {
    return (secure ? "grpcs://" : "grpc://")
        + (host.contains(":") ? "[" + host + "]" : host)
        + ":"
        + port;
  }
}
