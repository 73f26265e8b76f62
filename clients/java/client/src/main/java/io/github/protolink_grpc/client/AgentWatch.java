package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.AgentChange;
import io.github.protolink_grpc.v1.AgentChangeKind;
import io.github.protolink_grpc.v1.AgentFilter;
import io.github.protolink_grpc.v1.RegisteredAgent;
import io.github.protolink_grpc.v1.RegistryServiceGrpc;
import io.github.protolink_grpc.v1.WatchAgentsRequest;
import io.github.protolink_grpc.v1.WatchAgentsResponse;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Agents as they come and go. A registry that no longer knows the position begins again with a
 * snapshot, in one or several responses of which the last has a revision; compared with what was
 * known, it becomes changes, too.
 */
final class AgentWatch extends ResumingStream<AgentChange> {

  private final AgentFilter filter;
  private final Map<String, RegisteredAgent> known = new HashMap<>();
  private Map<String, RegisteredAgent> missing;
  private long revision;

  AgentWatch(Connection connection, AgentFilter filter) {
    super(connection, "");
    this.filter = filter;
  }

  @Override
  Responses<?, AgentChange> open() {
    missing = null;
    WatchAgentsRequest request =
        WatchAgentsRequest.newBuilder().setFilter(filter).setAfterRevision(revision).build();
    return Responses.of(
        connection.channel(),
        RegistryServiceGrpc.getWatchAgentsMethod(),
        request,
        operation.options,
        this::read);
  }

  private List<AgentChange> read(WatchAgentsResponse response) {
    long informed = response.getPosition().getRevision();
    if (response.getPosition().getReset()) {
      missing = new HashMap<>(known);
    }
    List<AgentChange> changes = new ArrayList<>(response.getChangesList());
    if (missing != null) {
      changes.forEach(each -> missing.remove(url(each)));
    }
    if (informed != 0) {
      revision = informed;
      changes.addAll(gone());
      missing = null;
    }
    return changes;
  }

  /** The changes of the agents that are not in a complete snapshot. */
  private List<AgentChange> gone() {
    List<AgentChange> gone = new ArrayList<>();
    for (RegisteredAgent agent : missing == null ? List.<RegisteredAgent>of() : missing.values()) {
      AgentChangeKind down = AgentChangeKind.AGENT_CHANGE_KIND_DOWN;
      gone.add(
          AgentChange.newBuilder().setKind(down).setAgent(agent).setRevision(revision).build());
    }
    return gone;
  }

  @Override
  boolean accept(AgentChange change) {
    if (change.getKind() != AgentChangeKind.AGENT_CHANGE_KIND_UP) {
      return known.remove(url(change)) != null;
    }
    RegisteredAgent before = known.put(url(change), change.getAgent());
    return before == null || !shown(before).equals(shown(change.getAgent()));
  }

  /** The part of a registration whose changes a watch shows: load and lease do not count. */
  private static RegisteredAgent shown(RegisteredAgent agent) {
    return RegisteredAgent.newBuilder()
        .setCard(agent.getCard())
        .setInstanceId(agent.getInstanceId())
        .setOwner(agent.getOwner())
        .setStateValue(agent.getStateValue())
        .build();
  }

  private static String url(AgentChange change) {
    return RegistryClient.url(change.getAgent().getCard());
  }
}
