//! Streams that resume after interruptions.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{Stream, StreamExt, TryStreamExt, try_unfold};
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::Error;
use crate::patience::Patience;

/// How long to wait for the end of a call after its last item.
const CLOSING: Duration = Duration::from_secs(1);

/// A stream of items; an error is its last value. It sends no request before it is polled. Dropping it ends its call,
/// and not the task.
///
/// It is a [`Stream`] for combinators; a loop needs only [`try_next`](Self::try_next).
#[must_use = "feeds do nothing unless polled"]
pub struct Feed<T>(Pin<Box<dyn Stream<Item = Result<T, Error>> + Send>>);

impl<T: Send + 'static> Feed<T> {
    /// The next item; `None` at the end.
    ///
    /// # Errors
    ///
    /// Why there will be no further items.
    pub async fn try_next(&mut self) -> Result<Option<T>, Error> {
        TryStreamExt::try_next(&mut self.0).await
    }

    /// The items of a source, resumed after interruptions.
    pub(crate) fn of<S: Source<Item = T>>(source: S, patience: Duration) -> Self {
        let reader = Reader {
            source,
            patience: Patience::new(patience),
            live: None,
            ready: VecDeque::new(),
            failure: None,
        };
        Self(Box::pin(try_unfold(reader, async |mut reader: Reader<S>| {
            Ok(reader.next().await?.map(|item| (item, reader)))
        })))
    }

    /// Those items that `pick` makes something of.
    pub(crate) fn picked<U: Send + 'static>(self, pick: fn(T) -> Option<U>) -> Feed<U> {
        Feed(Box::pin(
            self.0.try_filter_map(move |item| std::future::ready(Ok(pick(item)))),
        ))
    }

    /// The items of page after page. `fetch` gets the token of a page, and returns its items and the token of the next
    /// one.
    pub(crate) fn pages<F, P>(first: String, mut fetch: F) -> Self
    where
        F: FnMut(String) -> P + Send + 'static,
        P: Future<Output = Result<(Vec<T>, String), Error>> + Send + 'static,
    {
        let pages = try_unfold(Some(first), move |token| {
            let page = token.map(&mut fetch);
            async move {
                let Some(page) = page else { return Ok::<_, Error>(None) };
                let (items, next) = page.await?;
                let items = futures_util::stream::iter(items.into_iter().map(Ok));
                Ok(Some((items, (!next.is_empty()).then_some(next))))
            }
        });
        Self(Box::pin(pages.try_flatten()))
    }
}

impl<T> Stream for Feed<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}

/// What one call sends.
pub(crate) type Batches<B> = Pin<Box<dyn Stream<Item = Result<B, Status>> + Send>>;

/// What a feed reads: it knows how far its reader is.
pub(crate) trait Source: Send + 'static {
    /// What a call sends at a time.
    type Batch: Send;
    /// What a reader gets.
    type Item: Send;

    /// Begins a call where the reader is.
    fn open(&mut self) -> impl Future<Output = Result<Batches<Self::Batch>, Status>> + Send;

    /// Adds to `news` what of a batch the reader does not know yet. True where the batch was progress.
    fn read(
        &mut self,
        batch: Self::Batch,
        news: &mut VecDeque<Self::Item>,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Whether the reader has everything, also if the connection breaks now.
    fn is_complete(&self) -> bool {
        false
    }

    /// Whether a call that ends here without an error is complete. Otherwise it was interrupted.
    fn may_end(&mut self) -> impl Future<Output = Result<bool, Status>> + Send {
        std::future::ready(Ok(false))
    }

    /// The task that it is about, if it is about one.
    fn task_id(&self) -> &str {
        ""
    }
}

struct Reader<S: Source> {
    source: S,
    patience: Patience,
    live: Option<Batches<S::Batch>>,
    ready: VecDeque<S::Item>,
    /// Why there will be no further items than those that are ready.
    failure: Option<Error>,
}

impl<S: Source> Reader<S> {
    async fn next(&mut self) -> Result<Option<S::Item>, Error> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if let Some(error) = self.failure.take() {
                return Err(error.about(self.source.task_id()));
            }
            if self.source.is_complete() {
                self.await_end().await;
                return Ok(None);
            }
            match self.read().await {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => {
                    self.live = None;
                    self.failure = self.patience.after(error, None).await.err();
                }
            }
        }
    }

    /// Reads one batch; false at the end.
    async fn read(&mut self) -> Result<bool, Error> {
        let live = match &mut self.live {
            Some(live) => live,
            None => {
                self.patience.begin();
                self.live.insert(self.source.open().await?)
            }
        };
        match live.next().await {
            Some(batch) => {
                if self.source.read(batch?, &mut self.ready).await? {
                    self.patience.progress();
                }
                Ok(true)
            }
            None if self.source.may_end().await? => Ok(false),
            None => Err(Error::new(Code::Unavailable, "the stream ended before its last event")),
        }
    }

    /// Waits for the end of the call, though not for long: a server takes a call that is dropped for one that was
    /// canceled.
    async fn await_end(&mut self) {
        if let Some(mut live) = self.live.take() {
            let _ = timeout(CLOSING, live.next()).await;
        }
    }
}
