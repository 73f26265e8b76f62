package dev.protolink.client;

/**
 * The reasons of {@link ProtolinkException} that callers have answers to. Servers may send others.
 */
public final class Reason {

  /** A field of the request is wrong: see {@link ProtolinkException#violations}. */
  public static final String INVALID_ARGUMENT = "INVALID_ARGUMENT";

  /** A message, part or list is over its limit. */
  public static final String MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE";

  /** No such task, or somebody else's. */
  public static final String TASK_NOT_FOUND = "TASK_NOT_FOUND";

  /** The task has ended and takes no more messages. */
  public static final String TASK_FINISHED = "TASK_FINISHED";

  /** The task works already: wait, or cancel it. */
  public static final String TASK_ALREADY_RUNNING = "TASK_ALREADY_RUNNING";

  /** The task has ended, so that there is nothing to cancel. */
  public static final String TASK_NOT_CANCELABLE = "TASK_NOT_CANCELABLE";

  /** The position to go on from is after the end of the task's log. */
  public static final String SEQUENCE_OUT_OF_RANGE = "SEQUENCE_OUT_OF_RANGE";

  /** No such approval, or somebody else's. */
  public static final String APPROVAL_NOT_FOUND = "APPROVAL_NOT_FOUND";

  /** The answer is about another action than the one that waits now. */
  public static final String APPROVAL_CHANGED = "APPROVAL_CHANGED";

  /** No agent of that name or URL is registered. */
  public static final String AGENT_NOT_FOUND = "AGENT_NOT_FOUND";

  /** Several agents have that name: ask by URL. */
  public static final String AGENT_AMBIGUOUS = "AGENT_AMBIGUOUS";

  /** The credentials are missing or not accepted. */
  public static final String UNAUTHENTICATED = "UNAUTHENTICATED";

  /** The caller is known, and may not do this. */
  public static final String PERMISSION_DENIED = "PERMISSION_DENIED";

  /** A queue or quota is full: see {@link ProtolinkException#retryDelay}. */
  public static final String RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED";

  private Reason() {}
}
