//! Streams that outlive their connections.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{Stream, StreamExt, TryStreamExt, try_unfold};
use tokio::time::sleep;
use tonic::Status;

use crate::Error;
use crate::connection::Patience;

/// A stream of items, each an item or, as the last one, an error. It asks for nothing before it is polled; dropping it
/// ends the call behind it, and not the task.
///
/// It is a [`Stream`] for those who combine streams; a loop needs nothing but [`try_next`](Self::try_next).
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

    /// What a source has, through cuts.
    pub(crate) fn of<S: Source<Item = T>>(source: S, attempts: u32) -> Self {
        let reader = Reader {
            source,
            patience: Patience::new(attempts),
            live: None,
            ready: VecDeque::new(),
        };
        Self(Box::pin(try_unfold(reader, async |mut reader: Reader<S>| {
            Ok(reader.next().await?.map(|item| (item, reader)))
        })))
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

    /// What of a batch the reader does not know yet.
    fn news(&mut self, batch: Self::Batch) -> Result<Vec<Self::Item>, Error>;

    /// Whether the reader has everything: all that is missing is the end of the call.
    fn is_complete(&self) -> bool {
        false
    }
}

struct Reader<S: Source> {
    source: S,
    patience: Patience,
    live: Option<Batches<S::Batch>>,
    ready: VecDeque<S::Item>,
}

impl<S: Source> Reader<S> {
    async fn next(&mut self) -> Result<Option<S::Item>, Error> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            match self.batch().await {
                Ok(Some(batch)) => self.ready = self.source.news(batch)?.into(),
                Ok(None) => return Ok(None),
                Err(_) if self.source.is_complete() => return Ok(None),
                Err(status) => {
                    self.live = None;
                    let error = Error::from(status);
                    match self.patience.after(&error) {
                        Some(pause) => sleep(pause).await,
                        None => return Err(error),
                    }
                }
            }
            if !self.ready.is_empty() {
                self.patience.reset();
            }
        }
    }

    async fn batch(&mut self) -> Result<Option<S::Batch>, Status> {
        let live = match &mut self.live {
            Some(live) => live,
            None => {
                self.patience.begin();
                self.live.insert(self.source.open().await?)
            }
        };
        live.next().await.transpose()
    }
}
