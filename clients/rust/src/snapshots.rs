//! Snapshots: the current state of a caller's sessions, threads and tasks.

use std::fmt;

use crate::client::present;
use crate::connection::{Connection, MAX_MESSAGE_BYTES, method};
use crate::v1::snapshot_service_client::SnapshotServiceClient;
use crate::v1::{
    ArtifactsSnapshot, ContextBoundarySnapshot, EvidenceSnapshot, GetArtifactsRequest, GetContextBoundaryRequest,
    GetEvidenceRequest, GetQueueSnapshotRequest, GetSessionSnapshotRequest, GetThreadSnapshotRequest,
    GetToolInventoryRequest, QueueSnapshot, SessionSnapshot, ThreadSnapshot, ToolInventorySnapshot,
};
use crate::{Error, Transport};

/// The snapshots of an agent: [`Client::snapshots`](crate::Client::snapshots). Each names the position or sequence
/// that it reflects: a stream that starts there misses nothing. A part without a value is in its `gaps`.
/// [`TaskControl::get`](crate::TaskControl::get) returns the snapshot of a task.
///
/// Calls are repeated as those of the client are. Agents of other systems have no snapshots:
/// [`UNIMPLEMENTED`](crate::reason::UNIMPLEMENTED).
#[derive(Clone)]
pub struct Snapshots {
    connection: Connection,
}

impl Snapshots {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// The generated client of the service, credentials included. Nothing is repeated there.
    pub fn service(&self) -> SnapshotServiceClient<Transport> {
        SnapshotServiceClient::new(self.connection.transport())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// A session with its threads.
    ///
    /// # Errors
    ///
    /// [`SESSION_NOT_FOUND`](crate::reason::SESSION_NOT_FOUND).
    pub async fn session(&self, session_id: impl Into<String>) -> Result<SessionSnapshot, Error> {
        let request = GetSessionSnapshotRequest {
            session_id: session_id.into(),
        };
        let method = method!(self.service(), get_session_snapshot);
        present(self.connection.unary(request, method).await?.snapshot, "snapshot")
    }

    /// A thread with its turns and open tasks. An empty id is the thread `default`.
    ///
    /// # Errors
    ///
    /// [`SESSION_NOT_FOUND`](crate::reason::SESSION_NOT_FOUND), [`THREAD_NOT_FOUND`](crate::reason::THREAD_NOT_FOUND).
    pub async fn thread(
        &self,
        session_id: impl Into<String>,
        thread_id: impl Into<String>,
    ) -> Result<ThreadSnapshot, Error> {
        let request = GetThreadSnapshotRequest {
            session_id: session_id.into(),
            thread_id: thread_id.into(),
        };
        let method = method!(self.service(), get_thread_snapshot);
        present(self.connection.unary(request, method).await?.snapshot, "snapshot")
    }

    /// The queues of a session, or with a thread id the queue of that thread.
    ///
    /// # Errors
    ///
    /// [`SESSION_NOT_FOUND`](crate::reason::SESSION_NOT_FOUND), [`THREAD_NOT_FOUND`](crate::reason::THREAD_NOT_FOUND).
    pub async fn queue(
        &self,
        session_id: impl Into<String>,
        thread_id: impl Into<String>,
    ) -> Result<QueueSnapshot, Error> {
        let request = GetQueueSnapshotRequest {
            session_id: session_id.into(),
            thread_id: thread_id.into(),
        };
        let method = method!(self.service(), get_queue_snapshot);
        present(self.connection.unary(request, method).await?.snapshot, "snapshot")
    }

    /// The tools that the caller can use now, with the effect of the agent's policy.
    ///
    /// # Errors
    ///
    /// What the agent answers.
    pub async fn tools(&self) -> Result<ToolInventorySnapshot, Error> {
        let request = GetToolInventoryRequest {};
        let method = method!(self.service(), get_tool_inventory);
        present(self.connection.unary(request, method).await?.snapshot, "snapshot")
    }

    /// The context of the latest model call of a task.
    ///
    /// # Errors
    ///
    /// [`TASK_NOT_FOUND`](crate::reason::TASK_NOT_FOUND).
    pub async fn context(&self, task_id: impl Into<String>) -> Result<ContextBoundarySnapshot, Error> {
        let request = GetContextBoundaryRequest {
            task_id: task_id.into(),
        };
        let method = method!(self.service(), get_context_boundary);
        present(self.connection.unary(request, method).await?.snapshot, "snapshot")
    }

    /// The artifacts of a task without their content.
    ///
    /// # Errors
    ///
    /// [`TASK_NOT_FOUND`](crate::reason::TASK_NOT_FOUND).
    pub async fn artifacts(&self, task_id: impl Into<String>) -> Result<ArtifactsSnapshot, Error> {
        let request = GetArtifactsRequest {
            task_id: task_id.into(),
        };
        let method = method!(self.service(), get_artifacts);
        present(self.connection.unary(request, method).await?.snapshot, "snapshot")
    }

    /// The counts of actions, approvals and decisions in the log of a task.
    ///
    /// # Errors
    ///
    /// [`TASK_NOT_FOUND`](crate::reason::TASK_NOT_FOUND).
    pub async fn evidence(&self, task_id: impl Into<String>) -> Result<EvidenceSnapshot, Error> {
        let request = GetEvidenceRequest {
            task_id: task_id.into(),
        };
        let method = method!(self.service(), get_evidence);
        present(self.connection.unary(request, method).await?.snapshot, "snapshot")
    }
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshots") // what goes with its calls is secret
    }
}
