//! The settings of a client: address, credentials, headers, timeout and retries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tonic::Status;
use tonic::body::Body;
use tonic::service::{Interceptor, InterceptorLayer, interceptor::InterceptedService};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tower::util::{BoxCloneSyncService, ServiceExt};
use tower::{BoxError, Layer, Service};

use crate::Error;
use crate::address::Address;
use crate::connection::{Connection, HttpService};
use crate::error::invalid;
use crate::headers::{Guard, Headers, TokenSource};
use crate::patience::DEFAULT_PATIENCE;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// How to connect: see [`Client::builder`](crate::Client::builder) and
/// [`RegistryClient::builder`](crate::RegistryClient::builder).
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use plgrpc_client::Client;
/// use plgrpc_client::transport::{Certificate, ClientTlsConfig};
///
/// let authority = Certificate::from_pem(std::fs::read("ca.pem")?);
/// let client = Client::builder("grpcs://agents.example.com:443")
///     .tls(ClientTlsConfig::new().ca_certificate(authority))
///     .bearer_token(std::env::var("TOKEN")?)
///     .connect()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before `connect`"]
pub struct Builder<C> {
    url: String,
    headers: Vec<(String, String)>,
    token: Option<TokenSource>,
    tls: Option<ClientTlsConfig>,
    channel: Option<Channel>,
    layers: Vec<Box<dyn FnOnce(HttpService) -> HttpService + Send>>,
    insecure_ok: bool,
    timeout: Option<Duration>,
    patience: Duration,
    make: fn(Connection) -> C,
}

impl<C> Builder<C> {
    pub(crate) fn new(url: impl Into<String>, make: fn(Connection) -> C) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            token: None,
            tls: None,
            channel: None,
            layers: Vec::new(),
            insecure_ok: false,
            timeout: Some(DEFAULT_TIMEOUT),
            patience: DEFAULT_PATIENCE,
            make,
        }
    }

    /// Sends `authorization: Bearer TOKEN` with every call.
    pub fn bearer_token(self, token: impl fmt::Display) -> Self {
        self.metadata("authorization", format!("Bearer {token}"))
    }

    /// As [`bearer_token`](Self::bearer_token), for tokens that are renewed: `source` is called for each call and must
    /// not block.
    pub fn bearer_token_from(mut self, source: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.token = Some(Arc::new(source));
        self
    }

    /// Sends `x-api-key: KEY` with every call.
    pub fn api_key(self, key: impl Into<String>) -> Self {
        self.metadata("x-api-key", key)
    }

    /// Sends a header with every call. Names and values are ASCII.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Lets credentials go over `grpc://` to another machine, where anybody on the way can read them. Without it, that
    /// is refused, also if the caller has set the header; on the same machine it is always allowed.
    pub fn insecure_ok(mut self) -> Self {
        self.insecure_ok = true;
        self
    }

    /// For `grpcs://` URLs whose server is not verified by the system's roots, or wants a certificate.
    pub fn tls(mut self, config: ClientTlsConfig) -> Self {
        self.tls = Some(config);
        self
    }

    /// Calls over a channel of the caller's own, for instance to a Unix socket or with other keepalive times. The URL
    /// then only says whether credentials may go over it.
    pub fn channel(mut self, channel: Channel) -> Self {
        self.channel = Some(channel);
        self
    }

    /// Puts a tower layer around each attempt of each call. The one that is added first sees a request first; all of
    /// them see the headers that go with the call.
    pub fn layer<L, S, B>(mut self, layer: L) -> Self
    where
        L: Layer<HttpService, Service = S> + Send + 'static,
        S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.layers.push(Box::new(move |inner| boxed(layer.layer(inner))));
        self
    }

    /// Puts a tonic interceptor around each attempt of each call, in the order of [`layer`](Self::layer).
    pub fn interceptor(self, interceptor: impl Interceptor + Clone + Send + Sync + 'static) -> Self {
        self.layer(InterceptorLayer::new(interceptor))
    }

    /// Bounds calls with one answer, their repetitions included; `None` means without bound. By default 5 minutes.
    /// Feeds are not bounded.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// How long an interrupted call or stream is retried without progress; zero means no retries. Default: 60 seconds.
    /// The time starts with the first interruption after the last progress: an event, or a second during which the
    /// stream stayed open.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Makes the client. It does no I/O: the first call connects, and so does each call after the connection was lost.
    /// To be called inside of a Tokio runtime.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`: the URL has another shape than `grpc://host:port` (without TLS, also without the scheme) or
    /// `grpcs://host:port` (TLS); credentials would go over the network unencrypted; a header or the TLS configuration
    /// is invalid.
    pub fn connect(self) -> Result<C, Error> {
        let address = Address::parse(&self.url)?;
        let mut headers = Headers::default();
        for (name, value) in &self.headers {
            headers.add(name, value)?;
        }
        if let Some(source) = self.token {
            headers.renew_token(source);
        }
        let guard = Guard::new(&address, self.insecure_ok);
        guard.check(headers.have_credentials())?;
        let channel = match (self.channel, self.tls) {
            (Some(_), Some(_)) => return Err(invalid("a channel of one's own brings its own TLS")),
            (Some(channel), None) => channel,
            (None, tls) => open_channel(&address, tls)?,
        };
        let innermost = boxed(InterceptedService::new(channel, guard.clone()));
        let service = self
            .layers
            .into_iter()
            .rev()
            .fold(innermost, |inner, layer| layer(inner));
        Ok((self.make)(Connection {
            service,
            headers,
            guard,
            timeout: self.timeout,
            patience: self.patience,
        }))
    }
}

impl<C> fmt::Debug for Builder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Builder") // what goes with its calls is secret
    }
}

fn open_channel(address: &Address, tls: Option<ClientTlsConfig>) -> Result<Channel, Error> {
    let mut endpoint = Endpoint::from(address.target.clone())
        .connect_timeout(Duration::from_secs(10))
        .http2_keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10));
    match tls {
        Some(_) if !address.secure => return Err(invalid("there is no TLS behind grpc://, only behind grpcs://")),
        None if !address.secure => {}
        tls => {
            let config = tls.unwrap_or_else(|| ClientTlsConfig::new().with_native_roots());
            endpoint = endpoint
                .tls_config(config)
                .map_err(|error| invalid(format!("TLS: {error}")))?;
        }
    }
    Ok(endpoint.connect_lazy())
}

fn boxed<S, B>(service: S) -> HttpService
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = service
        .map_response(|response: http::Response<B>| response.map(Body::new))
        .map_err(|error: S::Error| Status::from_error(error.into()));
    BoxCloneSyncService::new(service)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    #[tokio::test]
    async fn credentials_do_not_leave_the_machine_in_the_clear() {
        let far = || Client::builder("grpc://10.0.0.7:50051");
        assert!(far().connect().is_ok());
        assert!(far().api_key("k").connect().is_err());
        assert!(far().bearer_token("t").connect().is_err());
        assert!(far().bearer_token_from(|| "t".into()).connect().is_err());
        for name in ["Authorization", "Proxy-Authorization", "X-API-Key", "Cookie"] {
            assert!(far().metadata(name, "x").connect().is_err(), "{name}");
            assert!(far().connect().unwrap().with_metadata(name, "x").is_err(), "{name}");
        }
        assert!(far().metadata("x-tenant", "x").connect().is_ok());
        assert!(far().api_key("k").insecure_ok().connect().is_ok());
        assert!(Client::builder("grpc://127.0.0.1:50051").api_key("k").connect().is_ok());
    }

    #[tokio::test]
    async fn a_header_that_is_none_is_refused_and_not_repeated() {
        let near = || Client::builder("localhost:1");
        assert!(near().metadata("a b", "v").connect().is_err());
        let error = near().api_key("secret\n").connect().err().unwrap();
        assert!(!error.to_string().contains("secret"));
        assert!(near().tls(ClientTlsConfig::new()).connect().is_err());
    }
}
