//! Retries: which errors are interruptions (cuts), and the backoff after them. The only place that decides it.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tonic::Code;

use crate::Error;

pub(crate) const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A stream that was open for this long counts as progress, even without an item.
const STEADY: Duration = Duration::from_secs(1);

/// Whether the call was interrupted. A status with `ErrorInfo` is the agent's answer, and not an interruption unless it
/// is `Unavailable`.
pub(crate) fn is_cut(error: &Error) -> bool {
    match error.code() {
        Code::Unavailable => true,
        // Canceled by the other side: a caller cancels by dropping the future, which then gets no error at all.
        Code::Internal | Code::Unknown | Code::Cancelled => !error.has_info(),
        _ => false,
    }
}

/// The backoff of one call or stream with all its attempts.
pub(crate) struct Patience {
    /// How long to retry without progress.
    limit: Duration,
    /// The next pause, before jitter.
    pause: Duration,
    first_cut: Option<Instant>,
    /// When the current stream was begun; none for calls with one answer.
    began: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            pause: FIRST_PAUSE,
            first_cut: None,
            began: None,
        }
    }

    /// A stream begins.
    pub(crate) fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    /// No stream is open any more.
    pub(crate) fn close(&mut self) {
        self.began = None;
    }

    /// An item has arrived: a later error is a new interruption.
    pub(crate) fn progress(&mut self) {
        self.pause = FIRST_PAUSE;
        self.first_cut = None;
    }

    /// Waits for the time of the next attempt. It comes before `end`.
    ///
    /// # Errors
    ///
    /// `error` itself, if it is not an interruption or the time for retries is over. `DeadlineExceeded`, at `end`, if
    /// the next attempt would be too late.
    pub(crate) async fn after(&mut self, error: Error, end: Option<Instant>) -> Result<(), Error> {
        let Some(pause) = self.pause_after(&error) else {
            return Err(error);
        };
        match end.filter(|end| Instant::now() + pause >= *end) {
            None => {
                sleep(pause).await;
                Ok(())
            }
            Some(end) => {
                sleep_until(end).await;
                let last = error.message();
                let late = format!("there was no answer in time; the last attempt failed: {last}");
                Err(Error::new(Code::DeadlineExceeded, late))
            }
        }
    }

    fn pause_after(&mut self, error: &Error) -> Option<Duration> {
        if !is_cut(error) {
            return None;
        }
        let now = Instant::now();
        let was_steady = self.began.is_some_and(|began| now - began >= STEADY);
        if was_steady && !error.is_unreached() {
            self.first_cut = None;
        }
        let first_cut = *self.first_cut.get_or_insert(now);
        let left = self.limit.saturating_sub(now - first_cut);
        let whole = self.pause;
        self.pause = (whole * 2).min(LONGEST_PAUSE);
        let jittered = whole.mul_f64(0.5 + fastrand::f64() / 2.0);
        // The last attempt comes right at the end; where the agent asks for a later one, there is none.
        let pause = jittered.min(left).max(error.retry_after().unwrap_or_default());
        (!left.is_zero() && pause <= left).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tokio::time::advance;
    use tonic::{ConnectError, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;

    fn gone() -> Error {
        Error::new(Code::Unavailable, "gone")
    }

    /// As the agent itself answers, with a reason.
    fn answered(code: Code) -> Error {
        let details = ErrorDetails::with_error_info("REASON", "example.com", HashMap::new());
        Status::with_error_details(code, "no", details).into()
    }

    fn asking_to_wait(pause: Duration) -> Error {
        let mut details = ErrorDetails::with_retry_info(Some(pause));
        details.set_error_info("UNAVAILABLE", "example.com", HashMap::new());
        Status::with_error_details(Code::Unavailable, "later", details).into()
    }

    /// What passes until there is no further attempt, and how many pauses there are.
    async fn endured(patience: &mut Patience, error: impl Fn() -> Error) -> (Duration, usize) {
        let (began, mut pauses) = (Instant::now(), 0);
        while patience.after(error(), None).await.is_ok() {
            pauses += 1;
        }
        (began.elapsed(), pauses)
    }

    #[test]
    fn what_the_agent_answers_is_no_cut() {
        for code in [Code::Unavailable, Code::Internal, Code::Unknown, Code::Cancelled] {
            assert!(is_cut(&Error::new(code, "")), "{code:?}");
            assert_eq!(is_cut(&answered(code)), code == Code::Unavailable, "{code:?}");
        }
        for code in [
            Code::NotFound,
            Code::ResourceExhausted,
            Code::DeadlineExceeded,
            Code::DataLoss,
        ] {
            assert!(!is_cut(&Error::new(code, "")), "{code:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_and_vary() {
        let mut patience = Patience::new(DEFAULT_PATIENCE);
        for whole in [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0] {
            let began = Instant::now();
            patience.after(gone(), None).await.unwrap();
            let pause = began.elapsed().as_secs_f64();
            assert!(pause >= whole / 2.0 && pause <= whole + 0.002, "{pause} of {whole}"); // timers count milliseconds
        }
    }

    #[tokio::test(start_paused = true)]
    async fn patience_is_a_time_and_not_a_number_of_attempts() {
        let (waited, pauses) = endured(&mut Patience::new(Duration::from_secs(2)), gone).await;
        assert!(
            waited >= Duration::from_secs(2) && waited < Duration::from_millis(2100),
            "{waited:?}"
        );
        assert!((5..9).contains(&pauses), "{pauses}");
        assert_eq!(endured(&mut Patience::new(Duration::ZERO), gone).await.1, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_renews_the_patience_and_the_pauses() {
        let mut patience = Patience::new(Duration::from_secs(2));
        endured(&mut patience, gone).await;
        patience.progress();
        let began = Instant::now();
        patience.after(gone(), None).await.unwrap();
        assert!(began.elapsed() <= Duration::from_millis(101));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_renews_the_patience_and_not_the_pauses() {
        let mut patience = Patience::new(Duration::from_secs(2));
        for round in 0..9 {
            patience.begin();
            advance(STEADY).await;
            let began = Instant::now();
            patience.after(gone(), None).await.unwrap();
            assert!(round < 4 || began.elapsed() >= Duration::from_millis(800));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_wait_for_a_connection_is_no_quiet_stream() {
        let unreached = || Status::from_error(Box::new(ConnectError("refused".into()))).into();
        let mut patience = Patience::new(Duration::from_secs(2));
        let mut attempts = 0;
        loop {
            patience.begin();
            advance(STEADY).await;
            attempts += 1;
            if patience.after(unreached(), None).await.is_err() {
                break;
            }
        }
        assert!(attempts < 5, "{attempts}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_agent_says_when_it_is_to_be_asked_again() {
        let began = Instant::now();
        let mut patience = Patience::new(Duration::from_secs(2));
        let error = || asking_to_wait(Duration::from_millis(1500));
        patience.after(error(), None).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(1500));
        assert!(patience.after(error(), None).await.is_err()); // half a second is left
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_at_the_deadline() {
        let mut patience = Patience::new(DEFAULT_PATIENCE);
        let end = Instant::now() + Duration::from_secs(1);
        let late = loop {
            match patience.after(gone(), Some(end)).await {
                Ok(()) => assert!(Instant::now() < end),
                Err(error) => break error,
            }
        };
        assert_eq!(late.code(), Code::DeadlineExceeded);
        assert!(late.message().ends_with("gone"), "{late}");
        assert!(Instant::now() < end + Duration::from_millis(2)); // timers count milliseconds
    }
}
