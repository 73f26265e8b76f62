//! An agent that says what a test has written down, and tells the test what it was asked.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plgrpc_client::tonic::metadata::MetadataMap;
use plgrpc_client::v1::agent_service_server::{AgentService, AgentServiceServer};
use plgrpc_client::v1::control_service_server::{ControlService, ControlServiceServer};
use plgrpc_client::v1::*;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tokio_stream::{Stream, pending};
use tonic::{Request, Response, Status};

use crate::server::{self, AnyService, Both};

pub type Batches<B> = Pin<Box<dyn Stream<Item = Result<B, Status>> + Send>>;

/// What the agent was asked, message by message.
#[derive(Debug)]
pub enum Asked {
    Send(SendTaskRequest),
    Stream(StreamTaskRequest),
    Subscribe(SubscribeTaskRequest),
    Get(GetTaskRequest),
    Cancel(CancelTaskRequest),
    WatchApprovals(WatchApprovalsRequest),
    Respond(RespondApprovalRequest),
}

/// What the agent answers, call by call. What is not written down does not end.
#[derive(Default)]
pub struct Script {
    pub sent: VecDeque<Result<Task, Status>>,
    pub got: VecDeque<Result<Task, Status>>,
    pub streamed: VecDeque<Batches<StreamTaskResponse>>,
    pub subscribed: VecDeque<Batches<SubscribeTaskResponse>>,
    pub watched: VecDeque<Batches<WatchApprovalsResponse>>,
}

struct Agent {
    script: Mutex<Script>,
    asked: UnboundedSender<(Asked, MetadataMap)>,
}

/// Where the agent is, and what it is asked.
pub struct Place {
    pub url: String,
    pub asked: UnboundedReceiver<(Asked, MetadataMap)>,
}

impl Place {
    /// The next thing that it is asked.
    pub async fn next(&mut self) -> Asked {
        let next = timeout(Duration::from_secs(10), self.asked.recv()).await;
        next.expect("it was asked nothing more").unwrap().0
    }
}

pub async fn serve(script: Script) -> Place {
    let (sender, asked) = unbounded_channel();
    let agent = Arc::new(Agent {
        script: Mutex::new(script),
        asked: sender,
    });
    let services = Both(
        AgentServiceServer::from_arc(agent.clone()),
        ControlServiceServer::from_arc(agent),
    );
    let url = server::start(AnyService::new(services)).await;
    Place { url, asked }
}

impl Agent {
    fn note<Q>(&self, request: Request<Q>, kind: fn(Q) -> Asked) {
        let (metadata, _, message) = request.into_parts();
        let _ = self.asked.send((kind(message), metadata));
    }

    async fn answer<T>(&self, next: impl Fn(&mut Script) -> &mut VecDeque<T>) -> T {
        let said = next(&mut self.script.lock().unwrap()).pop_front();
        match said {
            Some(said) => said,
            None => std::future::pending().await,
        }
    }

    fn stream<B: Send + 'static>(
        &self,
        next: impl Fn(&mut Script) -> &mut VecDeque<Batches<B>>,
    ) -> Result<Response<Batches<B>>, Status> {
        let said = next(&mut self.script.lock().unwrap()).pop_front();
        Ok(Response::new(said.unwrap_or_else(|| Box::pin(pending()))))
    }
}

#[tonic::async_trait]
impl AgentService for Agent {
    type StreamTaskStream = Batches<StreamTaskResponse>;
    type SubscribeTaskStream = Batches<SubscribeTaskResponse>;

    async fn send_task(&self, request: Request<SendTaskRequest>) -> Result<Response<SendTaskResponse>, Status> {
        self.note(request, Asked::Send);
        let task = self.answer(|script| &mut script.sent).await?;
        Ok(Response::new(SendTaskResponse { task: Some(task) }))
    }

    async fn stream_task(
        &self,
        request: Request<StreamTaskRequest>,
    ) -> Result<Response<Self::StreamTaskStream>, Status> {
        self.note(request, Asked::Stream);
        self.stream(|script| &mut script.streamed)
    }

    async fn subscribe_task(
        &self,
        request: Request<SubscribeTaskRequest>,
    ) -> Result<Response<Self::SubscribeTaskStream>, Status> {
        self.note(request, Asked::Subscribe);
        self.stream(|script| &mut script.subscribed)
    }

    async fn get_task(&self, request: Request<GetTaskRequest>) -> Result<Response<GetTaskResponse>, Status> {
        self.note(request, Asked::Get);
        let task = self.answer(|script| &mut script.got).await?;
        Ok(Response::new(GetTaskResponse { task: Some(task) }))
    }

    async fn cancel_task(&self, request: Request<CancelTaskRequest>) -> Result<Response<CancelTaskResponse>, Status> {
        self.note(request, Asked::Cancel);
        let task = Some(Task::default());
        Ok(Response::new(CancelTaskResponse { task }))
    }

    async fn list_tasks(&self, _: Request<ListTasksRequest>) -> Result<Response<ListTasksResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn get_agent_card(&self, _: Request<GetAgentCardRequest>) -> Result<Response<GetAgentCardResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

#[tonic::async_trait]
impl ControlService for Agent {
    type WatchApprovalsStream = Batches<WatchApprovalsResponse>;
    type GetRunReportStream = Batches<GetRunReportResponse>;
    type ExportTaskStream = Batches<ExportTaskResponse>;

    async fn list_approvals(
        &self,
        _: Request<ListApprovalsRequest>,
    ) -> Result<Response<ListApprovalsResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn watch_approvals(
        &self,
        request: Request<WatchApprovalsRequest>,
    ) -> Result<Response<Self::WatchApprovalsStream>, Status> {
        self.note(request, Asked::WatchApprovals);
        self.stream(|script| &mut script.watched)
    }

    async fn respond_approval(
        &self,
        request: Request<RespondApprovalRequest>,
    ) -> Result<Response<RespondApprovalResponse>, Status> {
        self.note(request, Asked::Respond);
        Ok(Response::new(RespondApprovalResponse::default()))
    }

    async fn get_run_report(
        &self,
        _: Request<GetRunReportRequest>,
    ) -> Result<Response<Self::GetRunReportStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn export_task(&self, _: Request<ExportTaskRequest>) -> Result<Response<Self::ExportTaskStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn describe_state(
        &self,
        _: Request<DescribeStateRequest>,
    ) -> Result<Response<DescribeStateResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn reset_state(&self, _: Request<ResetStateRequest>) -> Result<Response<ResetStateResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn compact_state(&self, _: Request<CompactStateRequest>) -> Result<Response<CompactStateResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn list_tools(&self, _: Request<ListToolsRequest>) -> Result<Response<ListToolsResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn call_tool(&self, _: Request<CallToolRequest>) -> Result<Response<CallToolResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}
