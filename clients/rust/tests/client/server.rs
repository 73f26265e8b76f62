//! The server of the tests: without the router of tonic, which would add axum to the build.

use std::convert::Infallible;
use std::task::{Context, Poll};

use http::{Request, Response};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::{Error, Server};
use tower::Service;
use tower::util::BoxCloneSyncService;

/// Any service, so that the compiler makes one server for all of them.
pub type AnyService = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

pub async fn run(socket: TcpListener, service: AnyService) -> Result<(), Error> {
    let incoming = TcpListenerStream::new(socket);
    Server::builder().serve_with_incoming(service, incoming).await
}

/// Serve on a free port, and return the URL.
pub async fn start(service: AnyService) -> String {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpc://{}", socket.local_addr().unwrap());
    tokio::spawn(run(socket, service));
    url
}

/// Two services at one address.
#[derive(Clone)]
pub struct Both<A, B>(pub A, pub B);

impl<A, B, R> Service<Request<R>> for Both<A, B>
where
    A: Service<Request<R>> + NamedService,
    B: Service<Request<R>, Response = A::Response, Error = A::Error, Future = A::Future>,
{
    type Response = A::Response;
    type Error = A::Error;
    type Future = A::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), A::Error>> {
        Poll::Ready(Ok(())) // generated services are always ready
    }

    fn call(&mut self, request: Request<R>) -> A::Future {
        let service = request.uri().path().split('/').nth(1);
        if service == Some(A::NAME) {
            self.0.call(request)
        } else {
            self.1.call(request)
        }
    }
}
