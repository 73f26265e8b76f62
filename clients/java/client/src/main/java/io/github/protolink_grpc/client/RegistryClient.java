package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.AgentCard;
import io.github.protolink_grpc.v1.AgentChange;
import io.github.protolink_grpc.v1.AgentFilter;
import io.github.protolink_grpc.v1.GetAgentRequest;
import io.github.protolink_grpc.v1.GetAgentResponse;
import io.github.protolink_grpc.v1.ListAgentsRequest;
import io.github.protolink_grpc.v1.ListAgentsResponse;
import io.github.protolink_grpc.v1.RegisteredAgent;
import io.github.protolink_grpc.v1.RegistryServiceGrpc;
import io.grpc.Channel;
import java.time.Duration;
import java.util.function.Function;
import java.util.stream.Stream;

/** Finds agents in a registry. Every method throws {@link ProtolinkException}. */
public final class RegistryClient implements AutoCloseable {

  private final Connection connection;

  private RegistryClient(Connection connection) {
    this.connection = connection;
  }

  /**
   * Connects to a registry unencrypted or over TLS, without credentials.
   *
   * @param url {@code grpc://host:port}, {@code grpcs://host:port} or {@code host:port}
   * @throws IllegalArgumentException if the URL is none of these
   */
  public static RegistryClient connect(String url) {
    return builder(url).build();
  }

  /** The same, with options. */
  public static ClientBuilder<RegistryClient> builder(String url) {
    return new ClientBuilder<>(url, RegistryClient::new);
  }

  /** Over a channel of your own: see {@link ProtolinkClient#builder(Channel)}. */
  public static ClientBuilder<RegistryClient> builder(Channel channel) {
    return new ClientBuilder<>(channel, RegistryClient::new);
  }

  /** This client with another deadline: see {@link ProtolinkClient#withDeadline}. */
  public RegistryClient withDeadline(Duration deadline) {
    return new RegistryClient(connection.withDeadline(deadline));
  }

  /** This client with one more header: see {@link ProtolinkClient#withHeader}. */
  public RegistryClient withHeader(String name, String value) {
    return new RegistryClient(connection.withHeader(name, value));
  }

  /**
   * The agent of that name or URL; {@link #url} says where to call it. Of several instances with one
   * name it is one that is not draining, if there is any.
   *
   * @throws ProtolinkException with {@link Reason#AGENT_NOT_FOUND} or {@link
   *     Reason#AGENT_AMBIGUOUS}
   */
  public RegisteredAgent lookup(String nameOrUrl) {
    GetAgentRequest.Builder request = GetAgentRequest.newBuilder();
    if (nameOrUrl.contains("://")) {
      request.setUrl(nameOrUrl);
    } else {
      request.setName(nameOrUrl);
    }
    return connection.ask(
        RegistryServiceGrpc.getGetAgentMethod(), request.build(), "", GetAgentResponse::getAgent);
  }

  /**
   * Where the agent of a card is called: the URL of its first interface, empty where it has none.
   */
  public static String url(AgentCard card) {
    return card.getInterfacesCount() == 0 ? "" : card.getInterfaces(0).getUrl();
  }

  /** The agents that match, by name and URL; pages are fetched as they are read. */
  public Stream<RegisteredAgent> list(AgentFilter filter) {
    ListAgentsRequest.Builder request = ListAgentsRequest.newBuilder().setFilter(filter);
    Function<String, ListAgentsResponse> page =
        token ->
            connection.ask(
                RegistryServiceGrpc.getListAgentsMethod(),
                request.clone().setPageToken(token).build(),
                "",
                Function.identity());
    return Connection.pages("", page, ListAgentsResponse::getNextPageToken)
        .flatMap(each -> each.getAgentsList().stream());
  }

  /** The agents that have this tag. */
  public Stream<RegisteredAgent> byTag(String tag) {
    return list(AgentFilter.newBuilder().addTags(tag).build());
  }

  /** The agents that have this role, for instance {@code worker}. */
  public Stream<RegisteredAgent> byRole(String role) {
    return list(AgentFilter.newBuilder().setRole(role).build());
  }

  /**
   * The agents that match as they come and go, beginning with those that are there. It does not end
   * by itself; agents that went away while the registry could not be reached are shown as {@code
   * DOWN} afterwards.
   */
  public ResumingStream<AgentChange> watch(AgentFilter filter) {
    AgentWatch watch = new AgentWatch(connection, filter);
    watch.start();
    return watch;
  }

  /**
   * For generated stubs: methods that this class does not have. Headers and the deadline go along;
   * retries do not.
   */
  public Channel channel() {
    return connection.stubChannel();
  }

  /** Ends the calls and streams under way, and the connection. */
  @Override
  public void close() {
    connection.transport().close();
  }
}
