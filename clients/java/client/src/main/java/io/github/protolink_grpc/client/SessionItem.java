package io.github.protolink_grpc.client;

import io.github.protolink_grpc.v1.RunEvent;
import io.github.protolink_grpc.v1.SessionEvent;

/**
 * An event of a session itself, or of one of its tasks.
 *
 * @param position among all events of the session and of its tasks, from 1
 * @param sessionEvent null for an event of a task
 * @param event null for an event of the session itself
 */
public record SessionItem(long position, SessionEvent sessionEvent, RunEvent event) {}
