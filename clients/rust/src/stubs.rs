//! The channel of generated clients: credentials, retries and a timeout for services that are not plgrpc's own.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, unfold};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Service, ServiceExt};
use uuid::Uuid;

use crate::connection::{Connection, MAX_MESSAGE_BYTES};
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
        let timeout = head.headers.get(TIMEOUT).and_then(read_timeout);
        let after = |timeout| Instant::now().checked_add(timeout);
        let call = Call {
            channel: self.clone(),
            end: timeout.and_then(after),
            first_end: timeout.or(self.connection.timeout).and_then(after),
            patience: Patience::new(self.connection.patience),
            head,
            message,
        };
        call.answer().await
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

/// A call with one request, and all its attempts.
struct Call {
    channel: StubChannel,
    head: http::request::Parts,
    message: Bytes,
    patience: Patience,
    /// The deadline of the caller.
    end: Option<Instant>,
    /// The deadline of the first message of the answer: a channel cannot tell a stream, which has no default timeout,
    /// from a call with one response.
    first_end: Option<Instant>,
}

impl Call {
    /// The answer of the first attempt that begins one. Its body makes further attempts.
    async fn answer(mut self) -> Result<Response<Body>, Status> {
        let (head, body) = self.attempts(self.first_end).await?.into_parts();
        let has_task = head.headers.contains_key(TASK_ID);
        let responses = Responses {
            call: self,
            body,
            unread: BytesMut::new(),
            received: 0,
            skip: 0,
            has_task,
        };
        Ok(Response::from_parts(head, Body::new(Frames::of(responses))))
    }

    /// Attempts until one begins an answer.
    async fn attempts(&mut self, end: Option<Instant>) -> Result<Response<Body>, Status> {
        loop {
            match before(end, self.attempt()).await {
                Ok(response) => return Ok(response),
                Err(status) => self.pause_after(status, end).await?,
            }
        }
    }

    /// One attempt, to the headers of its answer.
    async fn attempt(&mut self) -> Result<Response<Body>, Status> {
        self.patience.close();
        if let Some(end) = self.end {
            self.head.headers.insert(TIMEOUT, write_timeout(end - Instant::now()));
        }
        let request = Request::from_parts(self.head.clone(), whole(self.message.clone()));
        let response = self.channel.send(request).await?;
        let code = response.status();
        if let StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT = code {
            return Err(Status::unavailable(format!("a proxy answered {code}")));
        }
        self.patience.begin();
        match Status::from_header_map(response.headers()) {
            None => Ok(response),
            Some(status) if status.code() != Code::Ok => Err(status),
            Some(_) => {
                // There is no message: these headers are also the trailers.
                let trailers = Frame::trailers(response.headers().clone());
                Ok(response.map(|_| one_frame(trailers)))
            }
        }
    }

    /// Waits for the time of the next attempt. The error of the last one names the task that the caller has chosen.
    async fn pause_after(&mut self, status: Status, end: Option<Instant>) -> Result<(), Status> {
        let Err(error) = self.patience.after(status.into(), end).await else {
            return Ok(());
        };
        let mut status = error.status().clone();
        let task_id = self.head.headers.get(TASK_ID);
        if let Some(task_id) = task_id.and_then(|id| id.to_str().ok()?.parse().ok()) {
            status.metadata_mut().insert(TASK_ID, task_id);
        }
        Err(status)
    }
}

/// The result, if there is one before `end`.
async fn before<T>(end: Option<Instant>, result: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = |_| Err(Status::deadline_exceeded("there was no answer in time"));
    match end {
        None => result.await,
        Some(end) => timeout_at(end, result).await.unwrap_or_else(late),
    }
}

/// The messages of an answer, each once. After an interruption the call is made again, if no message was received, or
/// if a task has the messages in its log: then the answer begins with those that were received.
struct Responses {
    call: Call,
    /// Of the latest attempt.
    body: Body,
    /// Data of the latest attempt that is not a whole message yet.
    unread: BytesMut,
    received: usize,
    /// How many messages the latest attempt repeats.
    skip: usize,
    has_task: bool,
}

impl Responses {
    /// The next message, or the trailers.
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, Status>> {
        loop {
            if let Some(length) = message_length(&self.unread).filter(|length| *length > MAX_MESSAGE_BYTES) {
                let large = format!("a message has {length} bytes, at most {MAX_MESSAGE_BYTES} are accepted");
                return Some(Err(Status::out_of_range(large)));
            }
            if let Some(message) = take_message(&mut self.unread) {
                if self.skip > 0 {
                    self.skip -= 1;
                    continue;
                }
                self.received += 1;
                self.call.patience.progress();
                return Some(Ok(Frame::data(message)));
            }
            let end = self.end();
            match before(end, read_frame(&mut self.body)).await {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => self.unread.extend_from_slice(&data),
                    Err(trailers) => return Some(Ok(trailers)),
                },
                Err(status) => {
                    if let Err(status) = self.resume(status, end).await {
                        return Some(Err(status));
                    }
                }
            }
        }
    }

    /// The deadline of the next message.
    fn end(&self) -> Option<Instant> {
        if self.received == 0 {
            self.call.first_end
        } else {
            self.call.end
        }
    }

    /// Makes the next attempt after one that failed.
    async fn resume(&mut self, status: Status, end: Option<Instant>) -> Result<(), Status> {
        if self.received > 0 && !self.has_task {
            return Err(status);
        }
        self.call.pause_after(status, end).await?;
        let response = self.call.attempts(end).await?;
        self.has_task |= response.headers().contains_key(TASK_ID);
        self.body = response.into_body();
        self.unread.clear();
        self.skip = self.received;
        Ok(())
    }
}

/// The next frame: data, or the trailers of a call that has succeeded.
async fn read_frame(body: &mut Body) -> Result<Frame<Bytes>, Status> {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
    let frame = frame.ok_or_else(|| Status::unavailable("the answer ended before its status"))??;
    match frame.trailers_ref().and_then(Status::from_header_map) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(frame),
    }
}

/// The length of the first message, if its prefix is whole.
fn message_length(unread: &[u8]) -> Option<usize> {
    Some(unread.get(1..PREFIX_BYTES)?.get_u32() as usize)
}

/// Takes the first message, with its prefix, if it is whole.
fn take_message(unread: &mut BytesMut) -> Option<Bytes> {
    let end = PREFIX_BYTES + message_length(unread)?;
    (unread.len() >= end).then(|| unread.split_to(end).freeze())
}

/// The frames of responses as a body.
struct Frames(BoxStream<'static, Result<Frame<Bytes>, Status>>);

impl Frames {
    fn of(responses: Responses) -> Self {
        Self(Box::pin(unfold(Some(responses), async |responses| {
            let mut responses = responses?;
            let next = responses.next().await?;
            let is_last = !matches!(&next, Ok(frame) if frame.is_data());
            Some((next, (!is_last).then_some(responses)))
        })))
    }
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0.as_mut().poll_next(cx)
    }
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
    one_frame(Frame::data(message))
}

/// A body of one frame.
fn one_frame(only: Frame<Bytes>) -> Body {
    let frames = VecDeque::from([only]);
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
    fn a_message_is_taken_when_all_its_bytes_are_there() {
        let bytes = [0, 0, 0, 0, 2, b'a', b'b'];
        for length in 0..bytes.len() {
            let mut unread = BytesMut::from(&bytes[..length]);
            assert_eq!((take_message(&mut unread), unread.len()), (None, length));
        }
        let mut unread = BytesMut::from(&[&bytes[..], &[0; PREFIX_BYTES], &bytes[..3]].concat()[..]);
        assert_eq!(take_message(&mut unread).as_deref(), Some(&bytes[..]));
        assert_eq!(take_message(&mut unread).as_deref(), Some(&[0; PREFIX_BYTES][..]));
        assert_eq!((take_message(&mut unread), unread.len()), (None, 3));
        assert_eq!(message_length(&[0, 255, 255, 255, 255]), Some(u32::MAX as usize));
    }
}
