/** The state of a watch of approvals, over all its connections. */

import { type Approval, ApprovalState, type WatchApprovalsResponse } from "@protolink-grpc/protocol";

/** The pending approvals that were shown, and where the watch continues. */
export class KnownApprovals {
  /** Revision up to which the watcher is informed; 0 before the first one. */
  revision = 0n;
  #pending = new Set<string>();
  #snapshot: Approval[] | undefined;

  /** Takes note of a new connection: an interrupted snapshot is sent again. */
  begin(): void {
    this.#snapshot = undefined;
  }

  /** Takes note of a response, and returns what is news in it. A snapshot is shown when it is complete. */
  take({ approvals, position }: WatchApprovalsResponse): Approval[] {
    const revision = position?.revision ?? 0n;
    let news = approvals;
    if (position?.reset) {
      this.#snapshot = [];
    }
    if (this.#snapshot) {
      this.#snapshot.push(...approvals);
      if (!revision) {
        return [];
      }
      news = this.#snapshot.filter((each) => !this.#pending.has(each.approvalId));
      this.#pending = new Set(this.#snapshot.map((each) => each.approvalId));
      this.#snapshot = undefined;
    }
    for (const approval of news) {
      if (approval.state === ApprovalState.PENDING) {
        this.#pending.add(approval.approvalId);
      } else {
        this.#pending.delete(approval.approvalId);
      }
    }
    this.revision = revision || this.revision;
    return news;
  }
}
