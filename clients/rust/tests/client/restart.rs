//! An agent that dies in the middle of a stream: its connections break, and another process takes over its log.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use plgrpc_client::v1::agent_service_server::{AgentService, AgentServiceServer};
use plgrpc_client::v1::*;
use plgrpc_client::{Client, Code, Submission, reason};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::{Stream, StreamExt, iter, pending};
use tonic::{Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::server::{self, AnyService};

type Batches<B> = Pin<Box<dyn Stream<Item = Result<B, Status>> + Send>>;

fn events(sequences: impl IntoIterator<Item = i64>) -> Vec<RunEvent> {
    let event = |sequence| RunEvent {
        task_id: "t".into(),
        sequence,
        last: sequence == 6,
        ..Default::default()
    };
    sequences.into_iter().map(event).collect()
}

/// Streams begin with three events and stay open; subscriptions show all six.
struct Agent;

#[tonic::async_trait]
impl AgentService for Agent {
    type StreamTaskStream = Batches<StreamTaskResponse>;
    type SubscribeTaskStream = Batches<SubscribeTaskResponse>;

    async fn stream_task(&self, _: Request<StreamTaskRequest>) -> Result<Response<Self::StreamTaskStream>, Status> {
        let begin = StreamTaskResponse {
            events: events(1..4),
            ..Default::default()
        };
        Ok(Response::new(Box::pin(iter([Ok(begin)]).chain(pending()))))
    }

    async fn subscribe_task(
        &self,
        request: Request<SubscribeTaskRequest>,
    ) -> Result<Response<Self::SubscribeTaskStream>, Status> {
        let after = request.into_inner().after_sequence;
        // It repeats the last event that was seen, which the client leaves out.
        let rest = SubscribeTaskResponse {
            events: events(after..7),
            ..Default::default()
        };
        Ok(Response::new(Box::pin(iter([Ok(rest)]))))
    }

    async fn get_task(&self, _: Request<GetTaskRequest>) -> Result<Response<GetTaskResponse>, Status> {
        std::future::pending().await
    }

    async fn get_agent_card(&self, _: Request<GetAgentCardRequest>) -> Result<Response<GetAgentCardResponse>, Status> {
        Ok(Response::new(GetAgentCardResponse::default()))
    }

    async fn send_task(&self, _: Request<SendTaskRequest>) -> Result<Response<SendTaskResponse>, Status> {
        let later = ErrorDetails::with_retry_info(Some(Duration::from_secs(60)));
        Err(Status::with_error_details(Code::Unavailable, "busy", later))
    }

    async fn list_tasks(&self, request: Request<ListTasksRequest>) -> Result<Response<ListTasksResponse>, Status> {
        let page: usize = request.into_inner().page_token.parse().unwrap_or_default();
        let tasks = vec![Task {
            id: page.to_string(),
            ..Default::default()
        }];
        let next_page_token = if page < 2 {
            (page + 1).to_string()
        } else {
            String::new()
        };
        Ok(Response::new(ListTasksResponse {
            tasks,
            next_page_token,
            total_size: 3,
        }))
    }

    async fn cancel_task(&self, _: Request<CancelTaskRequest>) -> Result<Response<CancelTaskResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

/// A free port of this machine. It stays bound until it is dropped, so that servers can follow each other on it.
fn bind() -> (std::net::TcpListener, SocketAddr) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    port.set_nonblocking(true).unwrap();
    let address = port.local_addr().unwrap();
    (port, address)
}

/// A server with a runtime of its own, which stands for a process: shutting it down breaks its connections.
fn serve(port: &std::net::TcpListener) -> Runtime {
    let process = Runtime::new().unwrap();
    let entered = process.enter();
    let socket = TcpListener::from_std(port.try_clone().unwrap()).unwrap();
    process.spawn(server::run(socket, AnyService::new(AgentServiceServer::new(Agent))));
    drop(entered);
    process
}

#[tokio::test]
async fn a_stream_goes_on_with_the_next_process() {
    let (port, address) = bind();
    let first = serve(&port);
    let mut events = Client::connect(address.to_string()).unwrap().stream("count");
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(events.try_next().await.unwrap().unwrap().sequence);
    }
    first.shutdown_background();
    let second = serve(&port);
    while let Some(event) = events.try_next().await.unwrap() {
        seen.push(event.sequence);
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
    second.shutdown_background();
}

#[tokio::test]
async fn a_port_without_a_server_is_unavailable_when_the_patience_has_run_out() {
    let (port, address) = bind();
    drop(port);
    let patience = Duration::from_millis(200);
    let client = Client::builder(address.to_string())
        .patience(patience)
        .connect()
        .unwrap();
    let error = client.send("Hello").await.unwrap_err();
    assert_eq!((error.code(), error.reason()), (Code::Unavailable, reason::UNAVAILABLE));
    assert!(error.message().contains("refused"), "{error}");
    assert_eq!(
        client.stream("Hello").try_next().await.unwrap_err().code(),
        Code::Unavailable
    );
}

#[tokio::test]
async fn a_timeout_bounds_a_call_and_its_repetitions() {
    let (port, address) = bind();
    let process = serve(&port);
    let client = Client::connect(address.to_string())
        .unwrap()
        .with_timeout(Duration::from_millis(250));
    assert_eq!(client.get("t").await.unwrap_err().reason(), reason::DEADLINE_EXCEEDED);
    let call = tokio::spawn(async move { client.send(Submission::text("Hello")).await });
    let late = call.await.unwrap().unwrap_err();
    assert_eq!(late.reason(), reason::DEADLINE_EXCEEDED);
    assert!(late.message().ends_with("busy"), "{late}"); // what the last attempt failed with
    process.shutdown_background();
}

#[tokio::test]
async fn lists_go_through_all_pages() {
    let (port, address) = bind();
    let process = serve(&port);
    let client = Client::connect(address.to_string()).unwrap();
    let pages: Vec<_> = client
        .list(ListTasksRequest::default())
        .map(|task| task.unwrap().id)
        .collect()
        .await;
    assert_eq!(pages, ["0", "1", "2"]);
    assert_eq!(client.card().await.unwrap_err().code(), Code::Internal); // there is none in the answer
    process.shutdown_background();
}
