//! Calls plgrpc agents: sends tasks, follows their events, answers approvals and finds agents in a registry.
//!
//! A thin layer over the generated stubs: messages are those of [`v1`], and what this crate adds is what bare stubs
//! leave to each caller. Writes carry a request id, so that a repetition is never a second run; streams that are cut go
//! on after the last event seen, without a gap and without a repetition; errors are typed.
//!
//! ```no_run
//! # async fn f() -> Result<(), plgrpc_client::Error> {
//! use plgrpc_client::{Client, output};
//!
//! let client = Client::connect("grpc://127.0.0.1:50051")?;
//! let task = client.send("Hello").await?;
//! println!("{}", output(&task).unwrap_or_default());
//! # Ok(())
//! # }
//! ```
//!
//! A timeout bounds the wait, never the work: a run belongs to the agent and goes on when its caller has hung up. To
//! end it, call [`Client::cancel`]. Dropping a future or a [`Feed`] ends the call behind it at once.

#![warn(missing_docs)]

mod address;
mod approvals;
mod builder;
mod client;
mod connection;
mod error;
mod events;
mod feed;
mod headers;
pub mod parts;
mod patience;
pub mod reason;
mod references;
mod registry;
mod sessions;
mod snapshots;
mod stubs;
mod submission;
mod task_control;

pub use builder::Builder;
pub use client::Client;
pub use connection::{HttpService, Transport};
pub use error::{Error, Violation};
pub use events::Update;
pub use feed::Feed;
pub use headers::Headers;
pub use parts::text_of;
pub use plgrpc_protocol::v1;
pub use references::References;
pub use registry::{RegistryClient, url};
pub use sessions::{NewTurn, SessionFact, SessionItem, Sessions};
pub use snapshots::Snapshots;
pub use stubs::StubChannel;
pub use submission::{Submission, output};
pub use task_control::{Draft, TaskControl};
pub use tonic::{self, Code, Status, transport};

// The snippets of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
