/** What a watcher of approvals has seen, through all its connections. Nothing is called here. */

import { type Approval, ApprovalState } from "@protolink-grpc/protocol";

/** The pending approvals, by the ids of their requests. */
export class KnownApprovals {
  readonly #pending = new Map<string, Approval>();
  #unseen = new Map<string, Approval>();

  /** A connection begins: the server shows all that are pending now. */
  begin(): void {
    this.#unseen = new Map(this.#pending);
  }

  /** Takes note of an approval, and returns whether it is news. */
  take(approval: Approval): boolean {
    const id = idOf(approval);
    this.#unseen.delete(id);
    if (approval.state !== ApprovalState.PENDING) {
      this.#pending.delete(id);
      return true;
    }
    const isNews = !this.#pending.has(id);
    this.#pending.set(id, approval);
    return isNews;
  }

  /** Those that were pending before this connection and are not any more. Asked when the server has shown all pending ones. */
  get unseen(): Approval[] {
    return [...this.#unseen.values()];
  }

  /** What became of {@link unseen} has been asked for; those of which the agent knows nothing are not asked for again. */
  settle(): void {
    this.#unseen.forEach((_, id) => this.#pending.delete(id));
    this.#unseen.clear();
  }
}

/** The id by which an approval is answered. */
export function idOf(approval: Approval): string {
  return approval.request?.requestId ?? "";
}
