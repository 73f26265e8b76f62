//! The calls of a registry: the agents that are registered, and the changes of that set.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use tonic::Status;

use crate::client::present;
use crate::connection::{Connection, MAX_MESSAGE_BYTES, method};
use crate::feed::{Batches, Source};
use crate::v1::get_agent_request::Target;
use crate::v1::registry_service_client::RegistryServiceClient;
use crate::v1::{
    AgentCard, AgentChange, AgentChangeKind, AgentFilter, GetAgentRequest, ListAgentsRequest, RegisteredAgent,
    WatchAgentsRequest, WatchAgentsResponse,
};
use crate::{Builder, Error, Feed, Transport};

/// Finds agents. Clones share its connection.
#[derive(Clone)]
pub struct RegistryClient {
    connection: Connection,
}

impl RegistryClient {
    /// A client of the registry at `url`, as [`Client::connect`](crate::Client::connect).
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    pub fn connect(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url).connect()
    }

    /// How to connect to the registry at `url` with credentials, TLS or another timeout.
    pub fn builder(url: impl Into<String>) -> Builder<Self> {
        Builder::new(url, |connection| Self { connection })
    }

    /// The same client with another timeout: see [`Client::with_timeout`](crate::Client::with_timeout).
    pub fn with_timeout(&self, timeout: impl Into<Option<Duration>>) -> Self {
        let mut client = self.clone();
        client.connection.timeout = timeout.into();
        client
    }

    /// The same client with a header more: see [`Client::with_metadata`](crate::Client::with_metadata).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn with_metadata(&self, name: impl AsRef<str>, value: impl AsRef<str>) -> Result<Self, Error> {
        let connection = self.connection.with_header(name.as_ref(), value.as_ref())?;
        Ok(Self { connection })
    }

    /// The generated client, credentials included, for registering agents. Nothing is repeated there.
    pub fn registry(&self) -> RegistryServiceClient<Transport> {
        let registry = RegistryServiceClient::new(self.connection.transport());
        registry
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// The agent of that name or URL; [`url`] says where to call it. Of several instances with one name it is one that
    /// is not draining, if there is any.
    ///
    /// # Errors
    ///
    /// [`AGENT_NOT_FOUND`](crate::reason::AGENT_NOT_FOUND), [`AGENT_AMBIGUOUS`](crate::reason::AGENT_AMBIGUOUS).
    pub async fn lookup(&self, name_or_url: impl Into<String>) -> Result<RegisteredAgent, Error> {
        let name_or_url = name_or_url.into();
        let target = match name_or_url.contains("://") {
            true => Target::Url(name_or_url),
            false => Target::Name(name_or_url),
        };
        let request = GetAgentRequest { target: Some(target) };
        let answer = self
            .connection
            .unary(request, method!(self.registry(), get_agent))
            .await?;
        present(answer.agent, "agent")
    }

    /// The agents that match, sorted by name and URL, page after page. The default filter matches all of them.
    pub fn list(&self, filter: AgentFilter) -> Feed<RegisteredAgent> {
        let client = self.clone();
        let request = ListAgentsRequest {
            filter: Some(filter),
            ..Default::default()
        };
        Feed::pages(String::new(), move |page_token| {
            let (client, request) = (
                client.clone(),
                ListAgentsRequest {
                    page_token,
                    ..request.clone()
                },
            );
            async move {
                let page = client
                    .connection
                    .unary(request, method!(client.registry(), list_agents))
                    .await?;
                Ok((page.agents, page.next_page_token))
            }
        })
    }

    /// Yields the registered agents that match, as [`AgentChangeKind::Up`], and then changes. It does not end by
    /// itself.
    ///
    /// It resumes after interruptions and restarts of the registry; an agent that left meanwhile is reported as
    /// [`AgentChangeKind::Down`].
    pub fn watch(&self, filter: AgentFilter) -> Feed<AgentChange> {
        let source = Agents {
            registry: self.registry(),
            filter,
            roster: Roster::default(),
        };
        Feed::of(source, self.connection.patience)
    }
}

impl fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegistryClient") // what goes with its calls is secret
    }
}

/// Where the agent of a card is called: the URL of its first interface, empty where it has none.
pub fn url(card: &AgentCard) -> &str {
    card.interfaces.first().map_or("", |each| &each.url)
}

/// Agents as they come and go.
struct Agents {
    registry: RegistryServiceClient<Transport>,
    filter: AgentFilter,
    roster: Roster,
}

impl Source for Agents {
    type Batch = WatchAgentsResponse;
    type Item = AgentChange;

    async fn open(&mut self) -> Result<Batches<WatchAgentsResponse>, Status> {
        self.roster.snapshot = None; // an interrupted one is sent again
        let request = WatchAgentsRequest {
            filter: Some(self.filter.clone()),
            after_revision: self.roster.revision,
        };
        Ok(self.registry.watch_agents(request).await?.into_inner().boxed())
    }

    async fn read(&mut self, batch: WatchAgentsResponse, news: &mut VecDeque<AgentChange>) -> Result<bool, Error> {
        let is_progress = !batch.changes.is_empty();
        news.extend(self.roster.news(batch));
        Ok(is_progress)
    }
}

type ByUrl = HashMap<String, RegisteredAgent>;

/// The agents that a watch has reported as registered.
#[derive(Default)]
struct Roster {
    revision: i64,
    agents: ByUrl,
    /// A snapshot that is being received: all agents, in several responses, of which the last one has a revision.
    snapshot: Option<ByUrl>,
}

impl Roster {
    fn news(&mut self, batch: WatchAgentsResponse) -> Vec<AgentChange> {
        let position = batch.position.unwrap_or_default();
        if position.reset {
            self.snapshot = Some(ByUrl::new());
        }
        let mut news: Vec<_> = batch
            .changes
            .into_iter()
            .filter(|change| self.is_news(change))
            .collect();
        if position.revision > 0 {
            self.revision = position.revision;
            if let Some(snapshot) = self.snapshot.take() {
                // An agent that is not in it is gone.
                let before = std::mem::replace(&mut self.agents, snapshot);
                let gone = before.into_iter().filter(|(url, _)| !self.agents.contains_key(url));
                news.extend(gone.map(|(_, agent)| AgentChange {
                    kind: AgentChangeKind::Down.into(),
                    agent: Some(agent),
                    revision: position.revision,
                }));
            }
        }
        news
    }

    /// Takes a change in; false where the reader knows it already.
    fn is_news(&mut self, change: &AgentChange) -> bool {
        let agent = change.agent.clone().unwrap_or_default();
        let url = agent.card.as_ref().map(url).unwrap_or_default().to_owned();
        if change.kind() != AgentChangeKind::Up {
            self.agents.remove(&url);
            return true;
        }
        let before = match &mut self.snapshot {
            None => {
                self.agents.insert(url, agent);
                return true;
            }
            Some(snapshot) => {
                snapshot.insert(url.clone(), agent.clone());
                self.agents.insert(url, agent.clone())
            }
        };
        // Load and lease do not count.
        let shown = |agent: RegisteredAgent| (agent.card, agent.instance_id, agent.owner, agent.state);
        before.is_none_or(|before| shown(before) != shown(agent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{AgentInterface, WatchPosition};

    fn change(kind: AgentChangeKind, url: &str) -> AgentChange {
        let first = AgentInterface {
            url: url.into(),
            ..Default::default()
        };
        let card = AgentCard {
            interfaces: vec![first],
            ..Default::default()
        };
        let agent = RegisteredAgent {
            card: Some(card),
            ..Default::default()
        };
        AgentChange {
            kind: kind.into(),
            agent: Some(agent),
            revision: 0,
        }
    }

    fn told(
        roster: &mut Roster,
        reset: bool,
        revision: i64,
        changes: &[(AgentChangeKind, &str)],
    ) -> Vec<(i32, String)> {
        let changes = changes.iter().map(|(kind, url)| change(*kind, url)).collect();
        let news = roster.news(WatchAgentsResponse {
            changes,
            position: Some(WatchPosition {
                revision,
                reset,
                ..Default::default()
            }),
        });
        let url = |each: &AgentChange| super::url(each.agent.as_ref().unwrap().card.as_ref().unwrap()).to_owned();
        news.iter().map(|each| (each.kind, url(each))).collect()
    }

    #[test]
    fn a_second_snapshot_tells_who_came_and_who_is_gone() {
        use AgentChangeKind::{Down, Up};
        let mut roster = Roster::default();
        assert_eq!(told(&mut roster, true, 0, &[(Up, "a")]), [(Up as i32, "a".to_owned())]);
        assert_eq!(told(&mut roster, false, 7, &[(Up, "b")]), [(Up as i32, "b".to_owned())]);
        assert_eq!(roster.revision, 7);
        // A registry that was started anew, with revisions of its own.
        assert_eq!(told(&mut roster, true, 0, &[(Up, "b")]), []);
        let news = told(&mut roster, false, 2, &[(Up, "c")]);
        assert_eq!(news, [(Up as i32, "c".to_owned()), (Down as i32, "a".to_owned())]);
        assert_eq!(
            told(&mut roster, false, 3, &[(Down, "c")]),
            [(Down as i32, "c".to_owned())]
        );
        assert_eq!(roster.agents.into_keys().collect::<Vec<_>>(), ["b"]);
    }
}
