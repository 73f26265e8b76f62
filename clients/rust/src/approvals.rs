//! The watch of approvals, which resumes after interruptions.

use std::collections::{HashSet, VecDeque};

use futures_util::StreamExt;
use tonic::Status;

use crate::Error;
use crate::client::Control;
use crate::feed::{Batches, Source};
use crate::v1::{Approval, ApprovalState, WatchApprovalsRequest, WatchApprovalsResponse};

/// Approvals of one task, or of all.
pub(crate) struct Approvals {
    control: Control,
    task_id: String,
    known: Known,
}

impl Source for Approvals {
    type Batch = WatchApprovalsResponse;
    type Item = Approval;

    async fn open(&mut self) -> Result<Batches<WatchApprovalsResponse>, Status> {
        self.known.snapshot = None; // an interrupted one is sent again
        let request = WatchApprovalsRequest {
            task_id: self.task_id.clone(),
            after_revision: self.known.revision,
        };
        Ok(self.control.watch_approvals(request).await?.into_inner().boxed())
    }

    async fn read(&mut self, batch: WatchApprovalsResponse, news: &mut VecDeque<Approval>) -> Result<bool, Error> {
        let is_progress = !batch.approvals.is_empty();
        news.extend(self.known.news(batch));
        Ok(is_progress)
    }

    fn task_id(&self) -> &str {
        &self.task_id
    }
}

impl Approvals {
    pub(crate) fn new(control: Control, task_id: String) -> Self {
        Self {
            control,
            task_id,
            known: Known::default(),
        }
    }
}

/// What the reader of a watch knows from all its calls.
#[derive(Default)]
struct Known {
    revision: i64,
    /// Ids of the approvals that were yielded as pending.
    pending: HashSet<String>,
    /// A snapshot that is being received. It is yielded when it is complete; an interrupted one is sent again.
    snapshot: Option<Vec<Approval>>,
}

impl Known {
    fn news(&mut self, batch: WatchApprovalsResponse) -> Vec<Approval> {
        let position = batch.position.unwrap_or_default();
        let mut news = batch.approvals;
        if position.reset {
            self.snapshot = Some(Vec::new());
        }
        if let Some(mut snapshot) = self.snapshot.take() {
            snapshot.append(&mut news);
            if position.revision == 0 {
                self.snapshot = Some(snapshot);
                return news;
            }
            let pending = snapshot.iter().map(|approval| approval.approval_id.clone()).collect();
            let before = std::mem::replace(&mut self.pending, pending);
            snapshot.retain(|approval| !before.contains(&approval.approval_id));
            news = snapshot;
        }
        for approval in &news {
            if approval.state() == ApprovalState::Pending {
                self.pending.insert(approval.approval_id.clone());
            } else {
                self.pending.remove(&approval.approval_id);
            }
        }
        if position.revision > 0 {
            self.revision = position.revision;
        }
        news
    }
}
