//! The connection to one server, and calls with one response.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Response, Status};
use tower::util::BoxCloneSyncService;

use crate::Error;
use crate::headers::{Guard, Headers};
use crate::patience::Patience;

/// Bound of a message in both directions. A whole task may be larger than the 4 MiB that gRPC receives by default.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// A connection with the caller's own layers around it: see [`Builder::layer`](crate::Builder::layer).
pub type HttpService = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>;

/// What the generated clients of this crate speak over; credentials go with it.
pub type Transport = InterceptedService<HttpService, Headers>;

/// What [`Connection::unary`] calls: a method of a generated client, which has to be made anew for each attempt.
macro_rules! method {
    ($client:expr, $method:ident) => {
        |request| {
            let mut client = $client;
            async move { client.$method(request).await }
        }
    };
}
pub(crate) use method;

/// A way to one server, and how patient its callers are. Clones share the way.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) service: HttpService,
    pub(crate) headers: Headers,
    pub(crate) guard: Guard,
    pub(crate) timeout: Option<Duration>,
    pub(crate) patience: Duration,
}

impl Connection {
    pub(crate) fn transport(&self) -> Transport {
        InterceptedService::new(self.service.clone(), self.headers.clone())
    }

    /// The same way, and another header with each call.
    pub(crate) fn with_header(&self, name: &str, value: &str) -> Result<Self, Error> {
        let mut connection = self.clone();
        connection.headers.set(name, value)?;
        connection.guard.check(connection.headers.have_credentials())?;
        Ok(connection)
    }

    /// A call with one answer. What is repeated is the same request, request id included.
    pub(crate) async fn unary<Q: Clone, A, F>(&self, message: Q, call: impl Fn(Request<Q>) -> F) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let end = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut patience = Patience::new(self.patience);
        loop {
            let mut request = Request::new(message.clone());
            let answer = match end {
                None => call(request).await,
                Some(end) => {
                    request.set_timeout(end.saturating_duration_since(Instant::now()));
                    let late = |_| Err(Status::deadline_exceeded("there was no answer in time"));
                    timeout_at(end, call(request)).await.unwrap_or_else(late)
                }
            };
            match answer {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => patience.after(status.into(), end).await?,
            }
        }
    }
}
