//! The channel of generated clients: credentials, retries and a timeout for services that are not plgrpc's own.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use tokio::time::{Instant, timeout_at};
use tonic::Status;
use tonic::body::Body;
use tower::{Service, ServiceExt};
use uuid::Uuid;

use crate::connection::Connection;
use crate::patience::Patience;

const REQUEST_ID: &str = "x-request-id";
pub(crate) const TASK_ID: &str = "x-task-id";
const TIMEOUT: &str = "grpc-timeout";

/// Begins the paths of plgrpc's own services, whose request ids are fields of their requests.
const CONTRACT: &str = "/plgrpc.v1.";

/// Before each message: a flag, and the length in 4 bytes. Source: gRPC over HTTP/2.
const PREFIX_BYTES: usize = 5;

/// What generated clients of typed services speak over: see [`Client::channel`](crate::Client::channel).
#[derive(Clone)]
pub struct StubChannel {
    connection: Connection,
}

impl StubChannel {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// One attempt.
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let response = self.connection.transport().oneshot(request).await?;
        Ok(response.map(Body::new))
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let (mut head, body) = request.into_parts();
        let message = match Message::read(body).await {
            Message::Whole(message) if !head.uri.path().starts_with(CONTRACT) => message,
            Message::Whole(message) => return self.send(Request::from_parts(head, whole(message))).await,
            Message::Part(body) => return self.send(Request::from_parts(head, body)).await,
        };
        if !head.headers.contains_key(REQUEST_ID) && !self.connection.headers.have(REQUEST_ID) {
            let id = Uuid::new_v4().to_string();
            head.headers.insert(REQUEST_ID, id.parse().expect("a UUID is ASCII"));
        }
        let given = head.headers.get(TIMEOUT).and_then(read_timeout);
        let end = given
            .or(self.connection.timeout)
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let mut patience = Patience::new(self.connection.patience);
        loop {
            if let Some(end) = end.filter(|_| given.is_some()) {
                head.headers.insert(TIMEOUT, write_timeout(end - Instant::now()));
            }
            let attempt = self.attempt(Request::from_parts(head.clone(), whole(message.clone())));
            let answer = match end {
                None => attempt.await,
                Some(end) => {
                    let late = |_| Err(Status::deadline_exceeded("there was no answer in time"));
                    timeout_at(end, attempt).await.unwrap_or_else(late)
                }
            };
            match answer {
                Ok(response) => return Ok(response),
                Err(status) => patience.after(status.into(), end).await.map_err(|error| {
                    let mut status = error.status().clone();
                    if let Some(task) = head.headers.get(TASK_ID).and_then(|id| id.to_str().ok()?.parse().ok()) {
                        status.metadata_mut().insert(TASK_ID, task);
                    }
                    status
                })?,
            }
        }
    }

    /// One attempt, to the first message of its answer. A call whose answer is an error has no message.
    async fn attempt(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let (head, mut body) = self.send(request).await?.into_parts();
        let mut has_ended = false;
        if let Some(status) = Status::from_header_map(&head.headers) {
            check(status)?;
            has_ended = true;
        }
        if let StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT = head.status {
            return Err(Status::unavailable(format!("a proxy answered {}", head.status)));
        }
        let mut read = BytesMut::new();
        let mut frames = VecDeque::new();
        while !has_ended && !has_message(&read) {
            match next_frame(&mut body).await {
                None => return Err(Status::unavailable("the answer ended before its status")),
                Some(Err(status)) => return Err(status),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        read.extend_from_slice(data);
                    }
                    if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                        check(status)?;
                        has_ended = true;
                    }
                    frames.push_back(frame);
                }
            }
        }
        Ok(Response::from_parts(
            head,
            Body::new(Begun {
                frames,
                rest: Some(body),
            }),
        ))
    }
}

impl Service<Request<Body>> for StubChannel {
    type Response = Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Response<Body>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(())) // each attempt waits for its connection
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let channel = self.clone();
        Box::pin(async move { channel.answer(request).await })
    }
}

/// The error of a status that is not OK.
fn check(status: Status) -> Result<(), Status> {
    if status.code() == tonic::Code::Ok {
        Ok(())
    } else {
        Err(status)
    }
}

/// Whether the bytes hold the first message of an answer.
fn has_message(mut read: &[u8]) -> bool {
    if read.len() < PREFIX_BYTES {
        return false;
    }
    read.advance(1);
    let length = read.get_u32();
    read.len() >= length as usize
}

async fn next_frame(body: &mut Body) -> Option<Result<Frame<Bytes>, Status>> {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// What a request sends.
enum Message {
    /// One message, known as a whole, which may be sent again.
    Whole(Bytes),
    /// A stream of messages, which is sent as it comes.
    Part(Body),
}

impl Message {
    /// Reads what there is of a body. A generated client has the one message of a call at once.
    async fn read(mut body: Body) -> Self {
        let mut frames = VecDeque::new();
        loop {
            let next = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await;
            match next {
                Poll::Ready(None) => break,
                Poll::Ready(Some(Ok(frame))) if frames.is_empty() && frame.is_data() => frames.push_back(frame),
                Poll::Ready(Some(Ok(frame))) => {
                    frames.push_back(frame);
                    return Self::Part(Body::new(Begun {
                        frames,
                        rest: Some(body),
                    }));
                }
                Poll::Ready(Some(Err(status))) => return Self::Part(Body::new(Failed(Some(status)))),
                Poll::Pending => {
                    return Self::Part(Body::new(Begun {
                        frames,
                        rest: Some(body),
                    }));
                }
            }
        }
        let first = frames.pop_front().and_then(|frame| frame.into_data().ok());
        Self::Whole(first.unwrap_or_default())
    }
}

fn whole(message: Bytes) -> Body {
    let frames = VecDeque::from([Frame::data(message)]);
    Body::new(Begun { frames, rest: None })
}

/// A body whose beginning has been read.
struct Begun {
    frames: VecDeque<Frame<Bytes>>,
    rest: Option<Body>,
}

impl http_body::Body for Begun {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(frame) = self.frames.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.as_ref().is_none_or(http_body::Body::is_end_stream)
    }
}

/// A body that has no encoding.
struct Failed(Option<Status>);

impl http_body::Body for Failed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(Err))
    }
}

/// Reads a timeout: up to 8 digits and a unit. Source: gRPC over HTTP/2.
fn read_timeout(value: &HeaderValue) -> Option<Duration> {
    let (digits, unit) = value.to_str().ok()?.split_at_checked(value.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

fn write_timeout(left: Duration) -> HeaderValue {
    // Milliseconds of 8 digits are a day; beyond, seconds are exact enough.
    let millis = left.as_millis();
    let text = if millis < 100_000_000 {
        format!("{millis}m")
    } else {
        format!("{}S", left.as_secs().min(99_999_999))
    };
    text.parse().expect("digits are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_and_written_as_grpc_spells_them() {
        for (text, wanted) in [
            ("2H", Some(Duration::from_secs(7200))),
            ("3M", Some(Duration::from_secs(180))),
            ("4S", Some(Duration::from_secs(4))),
            ("5m", Some(Duration::from_millis(5))),
            ("6u", Some(Duration::from_micros(6))),
            ("7n", Some(Duration::from_nanos(7))),
            ("8", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(read_timeout(&HeaderValue::from_static(text)), wanted, "{text}");
        }
        assert_eq!(write_timeout(Duration::from_millis(1500)), "1500m");
        assert_eq!(write_timeout(Duration::from_secs(1_000_000)), "1000000S");
        assert_eq!(write_timeout(Duration::MAX), "99999999S");
    }

    #[test]
    fn a_message_is_there_when_all_its_bytes_are() {
        let bytes = [0, 0, 0, 0, 2, b'a', b'b'];
        for length in 0..bytes.len() {
            assert!(!has_message(&bytes[..length]), "{length}");
        }
        assert!(has_message(&bytes));
        assert!(has_message(&[0; PREFIX_BYTES]));
    }
}
