//! The errors of calls. `patience` decides which of them are retried.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use tonic::{Code, ConnectError, Status, TimeoutExpired};
use tonic_types::StatusExt;

use crate::patience::is_cut;
use crate::reason;
use crate::stubs::TASK_ID;

/// Where the reasons of plgrpc's errors are defined.
const DOMAIN: &str = "protolink-grpc.github.io";

/// One field of a request that was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its path, for instance `input.task_id`.
    pub field: String,
    /// What is wrong with it, one sentence.
    pub description: String,
}

/// Why a call failed: the only error of this crate.
///
/// ```
/// # use plgrpc_client::{Error, reason, v1::Task};
/// fn found(answer: Result<Task, Error>) -> Result<Option<Task>, Error> {
///     match answer {
///         Ok(task) => Ok(Some(task)),
///         Err(error) if error.reason() == reason::TASK_NOT_FOUND => Ok(None),
///         Err(error) => Err(error),
///     }
/// }
/// ```
///
/// What the generated clients return becomes one by `?` or `Error::from(status)`.
#[derive(Clone)]
pub struct Error(Box<Inner>); // results stay small

#[derive(Clone)]
struct Inner {
    code: Code,
    reason: String,
    message: String,
    metadata: HashMap<String, String>,
    violations: Vec<Violation>,
    retry_after: Option<Duration>,
    /// The task of the call; empty where the call was about none.
    task_id: String,
    /// Whether the status has an `ErrorInfo`, of whichever domain.
    has_info: bool,
    status: Status,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Status::new(code, message).into()
    }

    /// The gRPC code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The machine-readable reason: see [`reason`]. If the status has no reason, it follows from the code. It is empty
    /// for codes without one, and for a reason of another system.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// One sentence for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The dynamic values of the sentence, for instance `task_id`.
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.0.metadata
    }

    /// Which fields of the request were wrong.
    pub fn violations(&self) -> &[Violation] {
        &self.0.violations
    }

    /// How long the server asks to wait before a repetition, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Whether the same request, with the same request id, may succeed later: the call was interrupted, and the
    /// client's retries did not succeed, or the agent is full and requests a delay.
    pub fn is_retryable(&self) -> bool {
        is_cut(self) || self.code() == Code::ResourceExhausted && self.retry_after().is_some()
    }

    /// The status as the server has sent it, or as gRPC has made it.
    pub fn status(&self) -> &Status {
        &self.0.status
    }

    /// The task that the call was about, if it was about one. A new task has an id before it is sent: with it, the task
    /// of a call that failed on the way can be looked up, and canceled.
    pub fn task_id(&self) -> Option<&str> {
        let named = Some(self.0.task_id.as_str()).filter(|id| !id.is_empty());
        named
            .or_else(|| self.metadata().get("task_id").map(String::as_str))
            .or_else(|| self.status().metadata().get(TASK_ID)?.to_str().ok())
    }

    /// The same error, of a call about that task.
    pub(crate) fn about(mut self, task_id: &str) -> Self {
        task_id.clone_into(&mut self.0.task_id);
        self
    }

    /// Whether the agent itself has answered.
    pub(crate) fn has_info(&self) -> bool {
        self.0.has_info
    }

    /// Whether there was no server: no connection was made, or it was silent for so long that it was closed.
    pub(crate) fn is_unreached(&self) -> bool {
        let is_silent = |error: &hyper::Error| error.is_timeout();
        causes(self.status())
            .any(|cause| cause.is::<ConnectError>() || cause.downcast_ref::<hyper::Error>().is_some_and(is_silent))
    }
}

/// An argument of the caller that is wrong before anything is sent.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let has_info = details.error_info().is_some();
        let info = details.error_info().filter(|info| info.domain == DOMAIN);
        let code = code_of(&status);
        let implied = if has_info { "" } else { reason_of(code) };
        Self(Box::new(Inner {
            code,
            reason: info.map_or_else(|| implied.to_owned(), |info| info.reason.clone()),
            message: message_of(&status),
            metadata: info.map(|info| info.metadata.clone()).unwrap_or_default(),
            violations: details.bad_request().map_or_else(Vec::new, |bad| {
                let violations = bad.field_violations.iter();
                violations
                    .map(|each| Violation {
                        field: each.field.clone(),
                        description: each.description.clone(),
                    })
                    .collect()
            }),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            task_id: String::new(),
            has_info,
            status,
        }))
    }
}

/// The code that a failure deserves. What has a cause on this side was not sent by the server: the connection broke.
fn code_of(status: &Status) -> Code {
    match status.code() {
        Code::Cancelled if causes(status).any(|cause| cause.is::<TimeoutExpired>()) => Code::DeadlineExceeded,
        Code::Unknown | Code::Internal | Code::Cancelled if status.source().is_some() => Code::Unavailable,
        code => code,
    }
}

/// The reason of failures that gRPC itself or a proxy reports: by code, for want of details.
fn reason_of(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => reason::INVALID_ARGUMENT,
        Code::Unauthenticated => reason::UNAUTHENTICATED,
        Code::PermissionDenied => reason::PERMISSION_DENIED,
        Code::ResourceExhausted => reason::RESOURCE_EXHAUSTED,
        Code::DeadlineExceeded => reason::DEADLINE_EXCEEDED,
        Code::Unavailable => reason::UNAVAILABLE,
        Code::Unimplemented => reason::UNIMPLEMENTED,
        _ => "",
    }
}

/// The sentence. gRPC's own is often "transport error" and little else, so it gets its first cause.
fn message_of(status: &Status) -> String {
    match causes(status).last().map(ToString::to_string) {
        Some(cause) if !status.message().contains(&cause) => format!("{}: {cause}", status.message()),
        _ => status.message().to_owned(),
    }
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(status.source(), |&cause| cause.source())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.code())?;
        if !self.reason().is_empty() {
            write!(f, "/{}", self.reason())?;
        }
        write!(f, ": {}", self.message())?;
        match self.task_id() {
            Some(id) if !self.message().contains(id) => write!(f, " (task {id})"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("code", &self.code())
            .field("reason", &self.reason())
            .field("message", &self.message())
            .field("metadata", self.metadata())
            .field("violations", &self.violations())
            .field("retry_after", &self.retry_after())
            .field("task_id", &self.task_id())
            .finish()
    }
}

impl StdError for Error {}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn details_of_a_status_become_fields() {
        let mut details = ErrorDetails::new();
        let metadata = HashMap::from([("field".to_owned(), "task.id".to_owned())]);
        details.set_error_info("MESSAGE_TOO_LARGE", DOMAIN, metadata);
        details.add_bad_request_violation("task.id", "is too long");
        details.set_retry_info(Some(Duration::from_millis(1500)));
        let error = Error::from(Status::with_error_details(Code::InvalidArgument, "no", details));
        assert_eq!(
            (error.code(), error.reason(), error.message()),
            (Code::InvalidArgument, "MESSAGE_TOO_LARGE", "no")
        );
        assert_eq!(error.metadata()["field"], "task.id");
        assert_eq!(
            error.violations(),
            [Violation {
                field: "task.id".into(),
                description: "is too long".into()
            }]
        );
        assert_eq!(error.retry_after(), Some(Duration::from_millis(1500)));
        assert_eq!(error.to_string(), "InvalidArgument/MESSAGE_TOO_LARGE: no");
    }

    #[test]
    fn another_systems_reason_is_not_ours() {
        let details = ErrorDetails::with_error_info("TASK_NOT_FOUND", "example.com", HashMap::new());
        let error = Error::from(Status::with_error_details(Code::NotFound, "no", details));
        assert_eq!((error.code(), error.reason()), (Code::NotFound, ""));
        let details = ErrorDetails::with_error_info("GONE", "example.com", HashMap::new());
        let error = Error::from(Status::with_error_details(Code::Unavailable, "no", details));
        assert_eq!((error.code(), error.reason()), (Code::Unavailable, ""));
    }

    #[test]
    fn without_details_the_code_gives_the_reason() {
        assert_eq!(Error::new(Code::Unavailable, "gone").reason(), reason::UNAVAILABLE);
        assert_eq!(Error::new(Code::Unknown, "?").reason(), "");
    }

    #[test]
    fn a_full_agent_is_retryable_if_it_says_when() {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(2)));
        assert!(Error::from(Status::with_error_details(Code::ResourceExhausted, "full", details)).is_retryable());
        assert!(!Error::new(Code::ResourceExhausted, "full").is_retryable());
        assert!(Error::new(Code::Unavailable, "gone").is_retryable());
        assert!(!Error::new(Code::NotFound, "no").is_retryable());
    }

    #[test]
    fn a_connection_that_breaks_is_unavailable_whatever_it_is_called() {
        let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let error = Error::from(Status::from_error(Box::new(broken())));
        assert_eq!(error.code(), Code::Unavailable);
        assert!(!error.is_unreached());
        let error = Error::from(Status::from_error(Box::new(ConnectError(Box::new(broken())))));
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.is_unreached());
        assert_eq!(
            Error::from(Status::from_error(Box::new(TimeoutExpired(())))).code(),
            Code::DeadlineExceeded
        );
    }

    #[test]
    fn an_error_names_its_task() {
        let error = Error::new(Code::DeadlineExceeded, "too late");
        assert_eq!(error.task_id(), None);
        let error = error.about("t-1");
        assert_eq!(error.task_id(), Some("t-1"));
        assert_eq!(
            error.to_string(),
            "DeadlineExceeded/DEADLINE_EXCEEDED: too late (task t-1)"
        );
    }
}
