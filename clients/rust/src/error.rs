//! What a failed call means. Which failures are tried again is said here, when and how often in `connection`.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use tonic::{Code, ConnectError, Status, TimeoutExpired};
use tonic_types::StatusExt;

/// Where the reasons of protolink's errors are defined.
const DOMAIN: &str = "protolink.dev";

/// Reasons that callers tell apart most often, for [`Error::reason`]. The comments of `proto/protolink/v1` name those
/// of each method.
pub mod reason {
    /// The request is wrong: see [`Error::violations`](super::Error::violations).
    pub const INVALID_ARGUMENT: &str = "INVALID_ARGUMENT";
    /// Unknown, or somebody else's.
    pub const TASK_NOT_FOUND: &str = "TASK_NOT_FOUND";
    /// The task takes no more messages.
    pub const TASK_FINISHED: &str = "TASK_FINISHED";
    /// Wait for the task, or cancel it.
    pub const TASK_ALREADY_RUNNING: &str = "TASK_ALREADY_RUNNING";
    /// The task has ended.
    pub const TASK_NOT_CANCELABLE: &str = "TASK_NOT_CANCELABLE";
    /// The task's log is not that long.
    pub const SEQUENCE_OUT_OF_RANGE: &str = "SEQUENCE_OUT_OF_RANGE";
    /// Unknown, or not the caller's business.
    pub const APPROVAL_NOT_FOUND: &str = "APPROVAL_NOT_FOUND";
    /// The answer is about another action than the one that waits.
    pub const APPROVAL_CHANGED: &str = "APPROVAL_CHANGED";
    /// The registry knows no such agent.
    pub const AGENT_NOT_FOUND: &str = "AGENT_NOT_FOUND";
    /// The registry knows several.
    pub const AGENT_AMBIGUOUS: &str = "AGENT_AMBIGUOUS";
    /// No credentials, or wrong ones.
    pub const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
    /// These credentials do not suffice.
    pub const PERMISSION_DENIED: &str = "PERMISSION_DENIED";
    /// Try again after [`Error::retry_after`](super::Error::retry_after).
    pub const RESOURCE_EXHAUSTED: &str = "RESOURCE_EXHAUSTED";
    /// The wait was over before the work.
    pub const DEADLINE_EXCEEDED: &str = "DEADLINE_EXCEEDED";
    /// It could not be reached, or goes down.
    pub const UNAVAILABLE: &str = "UNAVAILABLE";
    /// This agent does not do that.
    pub const UNIMPLEMENTED: &str = "UNIMPLEMENTED";
    /// Its fault; [`Error::metadata`](super::Error::metadata) names the incident.
    pub const INTERNAL: &str = "INTERNAL";
}

/// One field of a request that was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its path, for instance `task.id`.
    pub field: String,
    /// What is wrong with it, one sentence.
    pub description: String,
}

/// Why a call failed: the only error of this crate.
///
/// ```
/// # use protolink_client::{Error, reason, v1::Task};
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

    /// Why, in a word that does not change: see [`reason`]. Where the server has said nothing in protolink's words, the
    /// code decides; empty where that says too little.
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

    /// The status as the server has sent it, or as gRPC has made it.
    pub fn status(&self) -> &Status {
        &self.0.status
    }

    /// Whether a repetition of the same request may succeed, and does no harm.
    pub(crate) fn is_retryable(&self) -> bool {
        match self.code() {
            // Canceled, and not by us: an overloaded server has let go of the call unread.
            Code::Unavailable | Code::Cancelled => true,
            Code::ResourceExhausted => self.retry_after().is_some(),
            _ => false,
        }
    }

    /// Whether there was not even a connection.
    pub(crate) fn is_unconnected(&self) -> bool {
        causes(self.status()).any(|cause| cause.is::<ConnectError>())
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN);
        let code = code_of(&status);
        Self(Box::new(Inner {
            code,
            reason: info.map_or_else(|| reason_of(code).to_owned(), |info| info.reason.clone()),
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
        write!(f, ": {}", self.message())
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
    }

    #[test]
    fn without_details_the_code_gives_the_reason() {
        assert_eq!(Error::new(Code::Unavailable, "gone").reason(), reason::UNAVAILABLE);
        assert_eq!(Error::new(Code::Unknown, "?").reason(), "");
    }

    #[test]
    fn a_connection_that_breaks_is_unavailable_whatever_it_is_called() {
        let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let error = Error::from(Status::from_error(Box::new(broken())));
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.is_retryable() && !error.is_unconnected());
        let error = Error::from(Status::from_error(Box::new(ConnectError(Box::new(broken())))));
        assert!(error.is_retryable() && error.is_unconnected());
        assert!(!Error::from(Status::unknown("from the server")).is_retryable());
        assert_eq!(
            Error::from(Status::from_error(Box::new(TimeoutExpired(())))).code(),
            Code::DeadlineExceeded
        );
    }

    #[test]
    fn exhaustion_is_retried_only_where_the_server_says_when() {
        assert!(!Error::new(Code::ResourceExhausted, "full").is_retryable());
        let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(1)));
        assert!(Error::from(Status::with_error_details(Code::ResourceExhausted, "full", details)).is_retryable());
    }
}
