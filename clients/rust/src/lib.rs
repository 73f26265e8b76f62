//! Calls plgrpc agents: sends tasks, follows their events, answers approvals and finds agents in a registry.
//!
//! A thin layer over the generated stubs, with the messages of [`v1`]. Writes carry a request id, so that a retry is
//! never a second run. Interrupted streams continue after the last event, without gaps and duplicates. Errors are typed.
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
//! A timeout limits the wait and not the work: a run belongs to the agent and continues after its caller has left. To
//! end it, call [`Client::cancel`]. Dropping a future or a [`Feed`] ends its call at once.

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

// The snippets of the README compile: as one program, except those with `include!`, whose path needs `standalone_crate`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
