package io.github.protolink_grpc.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.OneofDescriptor;
import io.github.protolink_grpc.v1.Delta;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/**
 * Shows the texts that model calls are producing. A stream that is opened again sends each of them
 * from its beginning; the pieces that were shown are left out.
 */
final class Deltas {

  private static final OneofDescriptor PIECE =
      Delta.getDescriptor().getOneofs().stream()
          .filter(each -> each.getName().equals("piece"))
          .findFirst()
          .orElseThrow();

  private final Consumer<Delta> consumer;

  /** Bytes shown so far of the block of each call. */
  private final Map<String, Map<Integer, Long>> shown = new HashMap<>();

  /** The texts, by call and block, of which the current stream has sent some. */
  private final Set<Map.Entry<String, Integer>> sent = new HashSet<>();

  /** A consumer of null is shown nothing. */
  Deltas(Consumer<Delta> consumer) {
    this.consumer = consumer;
  }

  /** Another stream begins. */
  void reopened() {
    sent.clear();
  }

  void show(Delta delta) {
    if (consumer == null) {
      return;
    }
    FieldDescriptor field = delta.getOneofFieldDescriptor(PIECE);
    if (field == null) {
      return; // a piece of a later version
    }
    byte[] piece = ((String) delta.getField(field)).getBytes(UTF_8);
    long start = delta.getOffsetBytes();
    long end = start + piece.length;
    Map<Integer, Long> blocks = shown.computeIfAbsent(delta.getCallId(), id -> new HashMap<>());
    if (!sent.add(Map.entry(delta.getCallId(), delta.getBlock())) && start == 0) {
      blocks.remove(delta.getBlock()); // it begins again in the middle of a stream
    }
    long seen = blocks.getOrDefault(delta.getBlock(), 0L);
    if (end <= seen) {
      return;
    }
    blocks.put(delta.getBlock(), end);
    if (start >= seen) {
      consumer.accept(delta);
    } else {
      int known = (int) (seen - start);
      String rest = new String(piece, known, piece.length - known, UTF_8);
      consumer.accept(delta.toBuilder().setOffsetBytes(seen).setField(field, rest).build());
    }
  }

  /** The call has ended, or begins anew: its text is another one. */
  void forget(String callId) {
    shown.remove(callId);
    sent.removeIf(text -> text.getKey().equals(callId));
  }
}
