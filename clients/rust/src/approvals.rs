//! Approvals as they are asked for and answered, followed through cuts.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use futures_util::StreamExt;
use tonic::Status;

use crate::Error;
use crate::client::Control;
use crate::feed::{Batches, Source};
use crate::v1::{Approval, ApprovalState, ListApprovalsRequest, WatchApprovalsRequest, WatchApprovalsResponse};

/// Approvals of one task, or of all.
pub(crate) struct Approvals {
    control: Control,
    task_id: String,
    /// What has been shown as waiting: task ids by request id.
    pending: HashMap<String, String>,
    /// Those of them that the current call has not shown yet.
    unseen: HashMap<String, String>,
    /// Request ids whose answers were asked for during the current call, which may show them, too.
    told: HashSet<String>,
}

impl Source for Approvals {
    type Batch = WatchApprovalsResponse;
    type Item = Approval;

    async fn open(&mut self) -> Result<Batches<WatchApprovalsResponse>, Status> {
        self.unseen = self.pending.clone();
        self.told.clear();
        let request = WatchApprovalsRequest {
            task_id: self.task_id.clone(),
        };
        Ok(self.control.watch_approvals(request).await?.into_inner().boxed())
    }

    async fn read(&mut self, batch: WatchApprovalsResponse, news: &mut VecDeque<Approval>) -> Result<bool, Error> {
        // The first batch without approvals ends what waits: what was not among it has been answered.
        if batch.approvals.is_empty() && !self.unseen.is_empty() {
            let answered = self.answered().await?;
            self.told.extend(answered.iter().map(request_id));
            self.pending.retain(|id, _| !self.unseen.contains_key(id));
            self.unseen.clear();
            news.extend(answered);
            return Ok(true);
        }
        let is_progress = !batch.approvals.is_empty();
        news.extend(batch.approvals.into_iter().filter(|approval| self.is_news(approval)));
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
            pending: HashMap::new(),
            unseen: HashMap::new(),
            told: HashSet::new(),
        }
    }

    fn is_news(&mut self, approval: &Approval) -> bool {
        let request = approval.request.clone().unwrap_or_default();
        self.unseen.remove(&request.request_id);
        if approval.state() == ApprovalState::Pending {
            return self.pending.insert(request.request_id, request.task_id).is_none();
        }
        self.pending.remove(&request.request_id);
        !self.told.contains(&request.request_id)
    }

    /// Those of the unseen approvals that have been answered.
    async fn answered(&mut self) -> Result<Vec<Approval>, Status> {
        use ApprovalState::{Approved, Denied, Expired, Withdrawn};
        let mut answered = Vec::new();
        let task_ids: BTreeSet<_> = self.unseen.values().cloned().collect();
        for task_id in task_ids {
            let mut request = ListApprovalsRequest {
                states: [Approved, Denied, Expired, Withdrawn].map(Into::into).into(),
                task_id,
                ..Default::default()
            };
            loop {
                let page = self.control.list_approvals(request.clone()).await?.into_inner();
                let is_unseen = |approval: &Approval| self.unseen.contains_key(&request_id(approval));
                answered.extend(page.approvals.into_iter().filter(is_unseen));
                if page.next_page_token.is_empty() {
                    break;
                }
                request.page_token = page.next_page_token;
            }
        }
        Ok(answered)
    }
}

fn request_id(approval: &Approval) -> String {
    let request = approval.request.as_ref();
    request.map(|request| request.request_id.clone()).unwrap_or_default()
}
