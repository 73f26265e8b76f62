//! Tasks that are controlled by ids that stay the same, and snapshots.

use std::sync::{Arc, Mutex};

use plgrpc_client::v1::snapshot_service_server::{SnapshotService, SnapshotServiceServer};
use plgrpc_client::v1::task_control_service_server::{TaskControlService, TaskControlServiceServer};
use plgrpc_client::v1::*;
use plgrpc_client::{Client, Draft, Submission};
use tonic::{Request, Response, Status};

use crate::server::{self, AnyService, Both};

/// An agent whose methods return empty snapshots, and whose first answers get lost.
#[derive(Default)]
struct Host {
    lost: Mutex<usize>,
    sent: Mutex<Vec<String>>,
}

impl Host {
    fn note(&self, sent: String) -> Result<(), Status> {
        self.sent.lock().unwrap().push(sent);
        let mut lost = self.lost.lock().unwrap();
        if *lost > 0 {
            *lost -= 1;
            return Err(Status::unavailable("lost"));
        }
        Ok(())
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.sent.lock().unwrap())
    }
}

macro_rules! recorded {
    ($service:ident: $($method:ident($request:ident) -> $response:ident { $field:ident: $value:expr },)*) => {
        #[tonic::async_trait]
        impl $service for Host {
            $(async fn $method(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                self.note(format!("{:?}", request.into_inner()))?;
                Ok(Response::new($response { $field: $value, ..Default::default() }))
            })*
        }
    };
}

#[allow(clippy::needless_update)] // one response has a field more than the others
mod recorded {
    use super::*;

    recorded!(TaskControlService:
        create_task(CreateTaskRequest) -> CreateTaskResponse { snapshot: Some(Default::default()) },
        update_task(UpdateTaskRequest) -> UpdateTaskResponse { snapshot: Some(Default::default()) },
        start_task(StartTaskRequest) -> StartTaskResponse { snapshot: Some(Default::default()) },
        append_task_progress(AppendTaskProgressRequest) -> AppendTaskProgressResponse { snapshot: Some(Default::default()) },
        pause_task(PauseTaskRequest) -> PauseTaskResponse { snapshot: Some(Default::default()) },
        resume_task(ResumeTaskRequest) -> ResumeTaskResponse { snapshot: Some(Default::default()) },
        retry_task(RetryTaskRequest) -> RetryTaskResponse { snapshot: Some(Default::default()) },
        complete_task(CompleteTaskRequest) -> CompleteTaskResponse { snapshot: Some(Default::default()) },
        fail_task(FailTaskRequest) -> FailTaskResponse { snapshot: Some(Default::default()) },
        link_tasks(LinkTasksRequest) -> LinkTasksResponse { snapshot: Some(Default::default()) },
        unlink_tasks(UnlinkTasksRequest) -> UnlinkTasksResponse { snapshot: Some(Default::default()) },
        get_task_snapshot(GetTaskSnapshotRequest) -> GetTaskSnapshotResponse { snapshot: Some(Default::default()) },
        list_task_snapshots(ListTaskSnapshotsRequest) -> ListTaskSnapshotsResponse { snapshots: vec![] },
    );

    recorded!(SnapshotService:
        get_session_snapshot(GetSessionSnapshotRequest) -> GetSessionSnapshotResponse { snapshot: Some(Default::default()) },
        get_thread_snapshot(GetThreadSnapshotRequest) -> GetThreadSnapshotResponse { snapshot: Some(Default::default()) },
        get_queue_snapshot(GetQueueSnapshotRequest) -> GetQueueSnapshotResponse { snapshot: Some(Default::default()) },
        get_tool_inventory(GetToolInventoryRequest) -> GetToolInventoryResponse { snapshot: Some(Default::default()) },
        get_context_boundary(GetContextBoundaryRequest) -> GetContextBoundaryResponse { snapshot: Some(Default::default()) },
        get_artifacts(GetArtifactsRequest) -> GetArtifactsResponse { snapshot: Some(Default::default()) },
        get_evidence(GetEvidenceRequest) -> GetEvidenceResponse { snapshot: Some(Default::default()) },
    );
}

async fn serve(lost: usize) -> (Arc<Host>, Client) {
    let host = Arc::new(Host {
        lost: Mutex::new(lost),
        ..Default::default()
    });
    let services = Both(
        TaskControlServiceServer::from_arc(host.clone()),
        SnapshotServiceServer::from_arc(host.clone()),
    );
    let url = server::start(AnyService::new(services)).await;
    (host, Client::connect(url).unwrap())
}

fn debug(requests: &[&dyn std::fmt::Debug]) -> Vec<String> {
    requests.iter().map(|request| format!("{request:?}")).collect()
}

#[tokio::test]
async fn each_method_of_tasks_sends_its_own_request() {
    let (host, client) = serve(0).await;
    let (tasks, id) = (client.tasks(), || "a".to_owned());
    let update = UpdateTaskRequest {
        task_id: id(),
        metadata_json: "{}".into(),
        ..Default::default()
    };
    let completion = CompleteTaskRequest {
        task_id: id(),
        ..Default::default()
    };
    let failure = Failure {
        message: "broken".into(),
        ..Default::default()
    };
    let link = TaskLink {
        kind: LinkKind::BlockedBy.into(),
        target: "b".into(),
        ..Default::default()
    };
    tasks.update(update.clone()).await.unwrap();
    tasks.start("a").await.unwrap();
    tasks.start_external("a").await.unwrap();
    tasks.pause("a", "r").await.unwrap();
    tasks.resume("a", "r").await.unwrap();
    tasks.complete(completion.clone()).await.unwrap();
    tasks.fail("a", failure.clone()).await.unwrap();
    tasks.link("a", link.clone()).await.unwrap();
    tasks.unlink("a", LinkKind::BlockedBy, "b").await.unwrap();
    tasks.get("a").await.unwrap();
    assert_eq!(tasks.list(Default::default()).try_next().await.unwrap(), None);
    let (reason, link) = ("r".to_owned(), Some(link));
    let sent = debug(&[
        &update,
        &StartTaskRequest {
            task_id: id(),
            external: false,
        },
        &StartTaskRequest {
            task_id: id(),
            external: true,
        },
        &PauseTaskRequest {
            task_id: id(),
            reason: reason.clone(),
        },
        &ResumeTaskRequest { task_id: id(), reason },
        &completion,
        &FailTaskRequest {
            task_id: id(),
            failure: Some(failure),
        },
        &LinkTasksRequest {
            task_id: id(),
            link: link.clone(),
        },
        &UnlinkTasksRequest { task_id: id(), link },
        &GetTaskSnapshotRequest { task_id: id() },
        &ListTaskSnapshotsRequest::default(),
    ]);
    assert_eq!(host.taken(), sent);
}

#[tokio::test]
async fn a_repeated_draft_report_or_retry_has_the_same_ids() {
    let (host, client) = serve(1).await;
    let submission = Submission::text("later").id("mine").request_id("once");
    let draft = Draft::from(submission).link(LinkKind::Source, "b");
    client.tasks().create(draft).await.unwrap();
    let sent = host.taken();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1]);
    assert!(sent[0].contains("\"mine\"") && sent[0].contains("\"once\"") && sent[0].contains("\"b\""));

    *host.lost.lock().unwrap() = 1;
    client.tasks().report_progress(Default::default()).await.unwrap();
    *host.lost.lock().unwrap() = 1;
    client.tasks().retry(Default::default()).await.unwrap();
    let sent = host.taken();
    assert_eq!((&sent[0], &sent[2]), (&sent[1], &sent[3]));
    assert!(!sent[0].contains("request_id: \"\"") && !sent[2].contains("request_id: \"\""));

    let request_id = "mine".to_owned();
    let named = RetryTaskRequest {
        request_id,
        ..Default::default()
    };
    client.tasks().retry(named.clone()).await.unwrap();
    assert_eq!(host.taken(), debug(&[&named]));
}

#[tokio::test]
async fn each_snapshot_is_requested_by_its_ids() {
    let (host, client) = serve(0).await;
    let (snapshots, session_id, task_id) = (client.snapshots(), "s".to_owned(), "a".to_owned());
    snapshots.session("s").await.unwrap();
    snapshots.thread("s", "t").await.unwrap();
    snapshots.queue("s", "").await.unwrap();
    snapshots.tools().await.unwrap();
    snapshots.context("a").await.unwrap();
    snapshots.artifacts("a").await.unwrap();
    snapshots.evidence("a").await.unwrap();
    let sent = debug(&[
        &GetSessionSnapshotRequest {
            session_id: session_id.clone(),
        },
        &GetThreadSnapshotRequest {
            session_id: session_id.clone(),
            thread_id: "t".into(),
        },
        &GetQueueSnapshotRequest {
            session_id,
            thread_id: String::new(),
        },
        &GetToolInventoryRequest {},
        &GetContextBoundaryRequest {
            task_id: task_id.clone(),
        },
        &GetArtifactsRequest {
            task_id: task_id.clone(),
        },
        &GetEvidenceRequest { task_id },
    ]);
    assert_eq!(host.taken(), sent);
}
