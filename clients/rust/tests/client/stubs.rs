//! Calls of a generated client over [`Client::channel`], and how they survive cuts.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plgrpc_client::tonic::metadata::MetadataMap;
use plgrpc_client::v1::agent_service_client::AgentServiceClient;
use plgrpc_client::v1::{SendTaskRequest, StreamTaskRequest, StreamTaskResponse};
use plgrpc_client::{Builder, Client, Code, Error, reason};
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::{Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tower::service_fn;

use crate::scripted::{Asked, Batches, Script, serve};
use crate::server::{self, AnyService};
use calculator::calculator_client::CalculatorClient;
use calculator::calculator_server::{Calculator, CalculatorServer};
use calculator::*;

mod calculator {
    include!("../../examples/gen/acme/calculator/v1/acme.calculator.v1.rs");
}

/// A calculator whose first calls fail, and what it was called with.
#[derive(Clone, Default)]
struct Sums {
    failures: Arc<Mutex<Vec<Status>>>,
    metadata: Arc<Mutex<Vec<MetadataMap>>>,
    /// Whether `add` does not answer.
    stalls: bool,
    /// What each call of `count` streams.
    streams: Arc<Mutex<VecDeque<Counted>>>,
}

/// The responses of one call of `count`, how it ends, and whether its headers name a task.
#[derive(Clone)]
struct Counted {
    totals: RangeInclusive<i64>,
    end: Option<Status>,
    names_task: bool,
}

#[tonic::async_trait]
impl Calculator for Sums {
    async fn add(&self, request: Request<AddRequest>) -> Result<Response<AddResponse>, Status> {
        self.metadata.lock().unwrap().push(request.metadata().clone());
        if self.stalls {
            std::future::pending::<()>().await;
        }
        if let Some(failure) = self.failures.lock().unwrap().pop() {
            return Err(failure);
        }
        let AddRequest { a, b } = request.into_inner();
        let mut response = Response::new(AddResponse {
            result: a + b.unwrap_or(2),
        });
        response.metadata_mut().insert("x-task-id", "t-1".parse().unwrap());
        Ok(response)
    }

    type CountStream = Pin<Box<dyn Stream<Item = Result<CountResponse, Status>> + Send>>;

    async fn count(&self, request: Request<CountRequest>) -> Result<Response<Self::CountStream>, Status> {
        self.metadata.lock().unwrap().push(request.metadata().clone());
        let counted = self.streams.lock().unwrap().pop_front().expect("a call too many");
        let totals = counted.totals.map(|result| Ok(CountResponse { result }));
        let answer = tokio_stream::iter(totals.chain(counted.end.map(Err)));
        let mut response = Response::new(Box::pin(answer) as Self::CountStream);
        if counted.names_task {
            response.metadata_mut().insert("x-task-id", "t-1".parse().unwrap());
        }
        Ok(response)
    }

    async fn accumulate(&self, _: Request<AccumulateRequest>) -> Result<Response<AccumulateResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn divide(&self, _: Request<DivideRequest>) -> Result<Response<DivideResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

impl Sums {
    fn failing(failures: impl IntoIterator<Item = Status>) -> Self {
        let sums = Self::default();
        sums.failures.lock().unwrap().extend(failures);
        sums
    }

    async fn serve(&self) -> Builder<Client> {
        let service = AnyService::new(CalculatorServer::new(self.clone()));
        Client::builder(server::start(service).await)
    }

    /// The values of a header, call by call.
    fn sent(&self, name: &str) -> Vec<String> {
        let metadata = self.metadata.lock().unwrap();
        let value = |each: &MetadataMap| each.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        metadata.iter().map(value).collect()
    }
}

fn cut() -> Status {
    Status::unavailable("cut")
}

fn sum() -> AddRequest {
    AddRequest { a: 20, b: Some(22) }
}

#[tokio::test]
async fn a_call_is_retried_under_one_request_id() {
    let sums = Sums::failing([cut(), Status::unknown("cut")]);
    let client = sums.serve().await.api_key("k").connect().unwrap();
    let answer = CalculatorClient::new(client.channel()).add(sum()).await.unwrap();
    assert_eq!(answer.metadata().get("x-task-id").unwrap(), "t-1");
    assert_eq!(answer.into_inner().result, 42);
    let ids = sums.sent("x-request-id");
    assert!(ids.len() == 3 && !ids[0].is_empty(), "{ids:?}");
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(sums.sent("x-api-key"), ["k", "k", "k"]);
}

#[tokio::test]
async fn each_call_has_a_request_id_of_its_own_unless_its_caller_has_chosen_one() {
    let sums = Sums::default();
    let client = sums.serve().await.connect().unwrap();
    let mut calculator = CalculatorClient::new(client.channel());
    calculator.add(sum()).await.unwrap();
    calculator.add(sum()).await.unwrap();
    let mut request = Request::new(sum());
    request.metadata_mut().insert("x-request-id", "mine".parse().unwrap());
    calculator.add(request).await.unwrap();
    let named = client.with_metadata("x-request-id", "also mine").unwrap();
    CalculatorClient::new(named.channel()).add(sum()).await.unwrap();
    let ids = sums.sent("x-request-id");
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[2..], ["mine", "also mine"]);
}

#[tokio::test]
async fn an_answer_of_the_agent_is_not_retried_and_names_its_task() {
    let mut details = ErrorDetails::new();
    let metadata = HashMap::from([("task_id".to_owned(), "t-1".to_owned())]);
    details.set_error_info(reason::TOOL_REJECTED, "protolink-grpc.github.io", metadata);
    details.add_bad_request_violation("a", "too large");
    let sums = Sums::failing([Status::with_error_details(Code::InvalidArgument, "no", details)]);
    let client = sums.serve().await.connect().unwrap();
    let status = CalculatorClient::new(client.channel()).add(sum()).await.unwrap_err();
    let error = Error::from(status);
    assert_eq!(
        (error.code(), error.reason()),
        (Code::InvalidArgument, reason::TOOL_REJECTED)
    );
    assert_eq!((error.task_id(), &*error.violations()[0].field), (Some("t-1"), "a"));
    assert_eq!(sums.sent("x-request-id").len(), 1);
}

#[tokio::test]
async fn without_patience_a_cut_is_the_status_of_the_call() {
    let sums = Sums::failing([cut()]);
    let client = sums.serve().await.patience(Duration::ZERO).connect().unwrap();
    let status = CalculatorClient::new(client.channel()).add(sum()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "cut"));
    assert_eq!(sums.sent("x-request-id").len(), 1);
}

#[tokio::test]
async fn the_timeout_of_the_client_or_of_the_call_bounds_all_attempts_and_its_error_names_the_chosen_task() {
    let stalling = Sums {
        stalls: true,
        ..Sums::default()
    };
    let builder = stalling.serve().await.timeout(Duration::from_millis(100));
    let client = builder.connect().unwrap();
    let mut request = Request::new(sum());
    request.metadata_mut().insert("x-task-id", "t-2".parse().unwrap());
    let status = CalculatorClient::new(client.channel()).add(request).await.unwrap_err();
    let error = Error::from(status);
    assert_eq!((error.code(), error.task_id()), (Code::DeadlineExceeded, Some("t-2")));

    let failing = Sums::failing(std::iter::repeat_n(cut(), 100));
    let client = failing.serve().await.connect().unwrap();
    let mut request = Request::new(sum());
    request.set_timeout(Duration::from_millis(500));
    let began = Instant::now();
    CalculatorClient::new(client.channel()).add(request).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(failing.sent("grpc-timeout").iter().all(|left| left.ends_with('m')));
}

/// What the calls of `count` stream; all but the last one are cut.
fn streaming(totals: &[RangeInclusive<i64>], names_task: bool) -> Sums {
    let count = totals.len();
    let streams = totals.iter().enumerate().map(|(index, totals)| Counted {
        totals: totals.clone(),
        end: (index + 1 < count).then(cut),
        names_task,
    });
    Sums {
        streams: Arc::new(Mutex::new(streams.collect())),
        ..Sums::default()
    }
}

/// The responses of `count`, and how the stream failed.
async fn counted(client: &Client) -> (Vec<i64>, Option<Status>) {
    let mut calculator = CalculatorClient::new(client.channel());
    let mut totals = Vec::new();
    let mut stream = match calculator.count(CountRequest::default()).await {
        Ok(response) => response.into_inner(),
        Err(status) => return (totals, Some(status)),
    };
    loop {
        match stream.message().await {
            Ok(Some(response)) => totals.push(response.result),
            Ok(None) => return (totals, None),
            Err(status) => return (totals, Some(status)),
        }
    }
}

#[tokio::test]
async fn a_stream_of_a_task_continues_after_interruptions_and_shows_each_response_once() {
    let sums = streaming(&[1..=3, 1..=2, 1..=5, 1..=7], true);
    let client = sums.serve().await.connect().unwrap();
    let (totals, failure) = counted(&client).await;
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!(totals, (1..=7).collect::<Vec<_>>());
    let ids = sums.sent("x-request-id");
    assert!(
        ids.len() == 4 && ids.iter().all(|id| *id == ids[0] && !id.is_empty()),
        "{ids:?}"
    );
}

#[tokio::test]
async fn a_stream_without_a_task_is_repeated_until_its_first_response_only() {
    let empty = RangeInclusive::new(1, 0);
    let sums = streaming(&[empty.clone(), empty, 1..=2, 1..=3], false);
    let client = sums.serve().await.connect().unwrap();
    let (totals, failure) = counted(&client).await;
    assert_eq!(totals, [1, 2]);
    assert_eq!(failure.unwrap().message(), "cut");
    assert_eq!(sums.sent("x-request-id").len(), 3);
}

#[tokio::test]
async fn an_error_of_the_agent_ends_a_stream_after_the_responses_before_it() {
    let sums = streaming(&[1..=2], true);
    sums.streams.lock().unwrap()[0].end = Some(Status::invalid_argument("no more"));
    let client = sums.serve().await.connect().unwrap();
    let (totals, failure) = counted(&client).await;
    assert_eq!(totals, [1, 2]);
    assert_eq!(failure.unwrap().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_stream_gives_up_when_the_patience_has_run_out() {
    let empty = RangeInclusive::new(1, 0);
    let mut cuts = vec![1..=3];
    cuts.resize(100, empty);
    let sums = streaming(&cuts, true);
    let builder = sums.serve().await.patience(Duration::from_millis(300));
    let (totals, failure) = counted(&builder.connect().unwrap()).await;
    assert_eq!(totals, [1, 2, 3]);
    assert_eq!(failure.unwrap().message(), "cut");
    assert!(sums.sent("x-request-id").len() < 10);
}

#[tokio::test]
async fn a_response_with_more_than_64_mib_is_refused_before_it_is_read() {
    let large = service_fn(|_: http::Request<Body>| async {
        let prefix = "\0\x7f\x7f\x7f\x7f"; // of a message with about 2 GiB, which does not follow
        let mut response = http::Response::new(Body::new(prefix.to_owned()));
        let headers = response.headers_mut();
        headers.insert("content-type", "application/grpc".parse().unwrap());
        Ok::<_, Infallible>(response)
    });
    let url = server::start(AnyService::new(large)).await;
    let client = Client::builder(url).patience(Duration::ZERO).connect().unwrap();
    let mut calculator = CalculatorClient::new(client.channel());
    let refused = calculator.add(AddRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
}

#[tokio::test]
async fn a_stream_that_has_begun_is_not_repeated() {
    let begun = || -> Batches<StreamTaskResponse> {
        Box::pin(tokio_stream::iter([Ok(StreamTaskResponse::default()), Err(cut())]))
    };
    let mut place = serve(Script {
        streamed: [begun()].into(),
        ..Script::default()
    })
    .await;
    let client = Client::connect(&*place.url).unwrap();
    let mut agent = AgentServiceClient::new(client.channel());
    let mut stream = agent
        .stream_task(StreamTaskRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert!(stream.message().await.unwrap().is_some());
    assert_eq!(stream.message().await.unwrap_err().message(), "cut");
    assert!(matches!(place.next().await, Asked::Stream(_)));
    assert!(place.asked.try_recv().is_err());
}

#[tokio::test]
async fn the_contracts_own_services_are_called_once() {
    let mut place = serve(Script {
        sent: [Err(cut())].into(),
        ..Script::default()
    })
    .await;
    let client = Client::connect(&*place.url).unwrap();
    let mut agent = AgentServiceClient::new(client.channel());
    let status = agent.send_task(SendTaskRequest::default()).await.unwrap_err();
    assert_eq!(status.message(), "cut");
    assert!(matches!(place.next().await, Asked::Send(_)));
    assert!(place.asked.try_recv().is_err());
}
