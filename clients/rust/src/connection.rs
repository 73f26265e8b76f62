//! How an agent or a registry is reached: its address, what goes with every call, and how often a call is tried.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::service::{Interceptor, interceptor::InterceptedService};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Uri};
use tonic::{Code, Request, Response, Status};

use crate::Error;

/// Bound of a message in both directions. A whole task may be larger than the 4 MiB that gRPC receives by default.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 20;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
const DEFAULT_ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Headers that say who calls, however they were given.
const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "cookie", "proxy-authorization"];

/// What the generated clients of this crate speak over; credentials go with it.
pub type Transport = InterceptedService<Channel, Headers>;

type Source = Arc<dyn Fn() -> String + Send + Sync>;

/// How to connect: see [`Client::builder`](crate::Client::builder) and
/// [`RegistryClient::builder`](crate::RegistryClient::builder).
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use protolink_client::Client;
/// use protolink_client::transport::{Certificate, ClientTlsConfig};
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
    token: Option<Source>,
    tls: Option<ClientTlsConfig>,
    plaintext: bool,
    timeout: Option<Duration>,
    attempts: u32,
    make: fn(Connection) -> C,
}

impl<C> Builder<C> {
    pub(crate) fn new(url: impl Into<String>, make: fn(Connection) -> C) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            token: None,
            tls: None,
            plaintext: false,
            timeout: Some(DEFAULT_TIMEOUT),
            attempts: DEFAULT_ATTEMPTS,
            make,
        }
    }

    /// Sends `authorization: Bearer TOKEN` with every call.
    pub fn bearer_token(self, token: impl fmt::Display) -> Self {
        self.metadata("authorization", format!("Bearer {token}"))
    }

    /// As [`bearer_token`](Self::bearer_token), for tokens that are renewed: `source` is asked at every call and must
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
    /// is refused; on the same machine it is always allowed.
    pub fn allow_plaintext_credentials(mut self) -> Self {
        self.plaintext = true;
        self
    }

    /// For `grpcs://` URLs whose server is not verified by the system's roots, or wants a certificate.
    pub fn tls(mut self, config: ClientTlsConfig) -> Self {
        self.tls = Some(config);
        self
    }

    /// Bounds calls with one answer, their repetitions included; `None` means without bound. By default 5 minutes.
    /// Feeds are not bounded.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// How often in a row a call, or a stream that gets no further, is tried; 1 tries nothing again. By default 5.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Makes the client. It does no I/O: the first call connects, and so does each call after the connection was lost.
    /// To be called inside of a Tokio runtime.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`: the URL has another shape than `grpc://host:port` (in the clear, also without the scheme) or
    /// `grpcs://host:port` (TLS); credentials would go over the network in the clear; a header or the TLS configuration
    /// is invalid.
    pub fn connect(self) -> Result<C, Error> {
        let address = Address::parse(&self.url)?;
        let headers = self.headers(&address)?;
        let mut endpoint = Endpoint::from(address.target.clone())
            .connect_timeout(Duration::from_secs(10))
            .http2_keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10));
        match self.tls {
            Some(_) if !address.secure => return Err(invalid("there is no TLS behind grpc://, only behind grpcs://")),
            None if !address.secure => {}
            tls => {
                let config = tls.unwrap_or_else(|| ClientTlsConfig::new().with_native_roots());
                endpoint = endpoint
                    .tls_config(config)
                    .map_err(|error| invalid(format!("TLS: {error}")))?;
            }
        }
        let transport = InterceptedService::new(endpoint.connect_lazy(), headers);
        Ok((self.make)(Connection {
            transport,
            timeout: self.timeout,
            attempts: self.attempts,
        }))
    }

    fn headers(&self, address: &Address) -> Result<Headers, Error> {
        let is_credential = |name: &str| CREDENTIALS.iter().any(|each| each.eq_ignore_ascii_case(name));
        let has_credentials = self.token.is_some() || self.headers.iter().any(|(name, _)| is_credential(name));
        if has_credentials && !address.secure && !address.local && !self.plaintext {
            let advice = "use grpcs://, or allow_plaintext_credentials";
            return Err(invalid(format!(
                "credentials would go to {} in the clear; {advice}",
                address.target
            )));
        }
        let parsed = self.headers.iter().map(|(name, value)| {
            let key: AsciiMetadataKey = name
                .parse()
                .map_err(|_| invalid(format!("{name:?} is no name of a header")))?;
            // What it is stays out of the message: it may be a secret.
            let mut value: AsciiMetadataValue = value
                .parse()
                .map_err(|_| invalid(format!("the value of {name} is no header")))?;
            value.set_sensitive(is_credential(name));
            Ok((key, value))
        });
        Ok(Headers {
            fixed: parsed.collect::<Result<_, Error>>()?,
            token: self.token.clone(),
        })
    }
}

/// What goes with every call.
#[derive(Clone)]
pub struct Headers {
    fixed: Arc<[(AsciiMetadataKey, AsciiMetadataValue)]>,
    token: Option<Source>,
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        for (key, value) in self.fixed.iter() {
            metadata.append(key.clone(), value.clone());
        }
        if let Some(token) = &self.token {
            let mut value = AsciiMetadataValue::try_from(format!("Bearer {}", token()))
                .map_err(|_| Status::invalid_argument("the token is no header"))?;
            value.set_sensitive(true);
            metadata.insert("authorization", value);
        }
        Ok(request)
    }
}

/// Where a URL points.
#[derive(Debug)]
struct Address {
    target: Uri,
    secure: bool,
    /// On this machine.
    local: bool,
}

impl Address {
    fn parse(url: &str) -> Result<Self, Error> {
        let whole = if url.contains("://") {
            url.to_owned()
        } else {
            format!("grpc://{url}")
        };
        let uri: Uri = whole
            .parse()
            .map_err(|error| invalid(format!("the URL is none: {error}")))?;
        let secure = match uri.scheme_str() {
            Some("grpc") => false,
            Some("grpcs") => true,
            _ => return Err(invalid("a URL begins with grpc:// or grpcs://")),
        };
        // Such a URL may hold a password: it is not repeated.
        let extra =
            whole.contains('@') || whole.contains('#') || uri.query().is_some() || !matches!(uri.path(), "" | "/");
        if extra {
            return Err(invalid("a URL has a scheme, a host and a port, and nothing else"));
        }
        let host = uri.host().unwrap_or_default();
        let (Some(port), false) = (uri.port_u16(), host.is_empty()) else {
            return Err(invalid(format!(
                "{url:?} must name a host and a port, like grpc://127.0.0.1:50051"
            )));
        };
        let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let target = format!("{}://{host}:{port}", if secure { "https" } else { "http" });
        Ok(Self {
            target: target
                .parse()
                .map_err(|error| invalid(format!("the URL is none: {error}")))?,
            secure,
            local: host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback()),
        })
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

/// What [`Connection::unary`] calls: a method of a generated client, which has to be made anew for each attempt.
macro_rules! method {
    ($client:expr, $method:ident) => {
        |request| {
            let mut client = $client;
            async move { client.$method(request).await }
        }
    };
}
pub(crate) use method;

/// A way to one server, and how patient its callers are. Clones share the way.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    pub(crate) timeout: Option<Duration>,
    pub(crate) attempts: u32,
}

impl Connection {
    /// A call with one answer. What is repeated is the same request, request id included.
    pub(crate) async fn unary<Q: Clone, A, F>(&self, message: Q, call: impl Fn(Request<Q>) -> F) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let end = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut patience = Patience::new(self.attempts);
        loop {
            let mut request = Request::new(message.clone());
            let answer = match end {
                None => call(request).await,
                Some(end) => {
                    request.set_timeout(end.saturating_duration_since(Instant::now()));
                    let late = |_| Err(Status::deadline_exceeded("there was no answer in time"));
                    timeout_at(end, call(request)).await.unwrap_or_else(late)
                }
            };
            let error = match answer {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => Error::from(status),
            };
            match patience.after(&error) {
                Some(pause) if end.is_none_or(|end| Instant::now() + pause < end) => sleep(pause).await,
                _ => return Err(error),
            }
        }
    }
}

/// How often in a row something may fail, and how long to wait in between.
pub(crate) struct Patience {
    attempts: u32,
    failures: u32,
    began: Instant,
}

impl Patience {
    pub(crate) fn new(attempts: u32) -> Self {
        Self {
            attempts,
            failures: 0,
            began: Instant::now(),
        }
    }

    /// An attempt begins.
    pub(crate) fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// The attempt got something: what fails now is a new failure.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long to wait before the next attempt: doubling, with jitter, and at least as the server says. `None`: give
    /// up.
    pub(crate) fn after(&mut self, error: &Error) -> Option<Duration> {
        // A stream that was quiet for long has lost its connection, not its way.
        if self.began.elapsed() > LONGEST_PAUSE && !error.is_unconnected() {
            self.failures = 0;
        }
        self.failures += 1;
        if !error.is_retryable() || self.failures >= self.attempts {
            return None;
        }
        let whole = (FIRST_PAUSE * (1 << (self.failures - 1).min(16))).min(LONGEST_PAUSE);
        let pause = whole.mul_f64(0.5 + fastrand::f64() / 2.0);
        Some(pause.max(error.retry_after().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    #[test]
    fn urls_say_where_and_how() {
        for (url, target, secure, local) in [
            ("grpc://127.0.0.1:50051", "http://127.0.0.1:50051/", false, true),
            ("localhost:1", "http://localhost:1/", false, true),
            ("grpc://[::1]:1/", "http://[::1]:1/", false, true),
            (
                "grpcs://agents.example.com:443",
                "https://agents.example.com:443/",
                true,
                false,
            ),
            ("10.0.0.7:50051", "http://10.0.0.7:50051/", false, false),
            (
                "grpc://localhost.example.com:1",
                "http://localhost.example.com:1/",
                false,
                false,
            ),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(
                (address.target.to_string().as_str(), address.secure, address.local),
                (target, secure, local)
            );
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for url in [
            "",
            "host",
            "grpc://:1",
            "grpc://host",
            "http://host:1",
            "grpc://host:99999",
            "grpc://host:1/path",
            "grpc://host:1?q",
            "grpc://host:1#f",
            "grpc://user:secret@host:1",
            "a b:1",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument, "{url}");
            assert!(!error.message().contains("secret"));
        }
    }

    #[tokio::test]
    async fn credentials_do_not_leave_the_machine_in_the_clear() {
        let far = || Client::builder("grpc://10.0.0.7:50051");
        assert!(far().connect().is_ok());
        assert!(far().api_key("k").connect().is_err());
        assert!(far().bearer_token("t").connect().is_err());
        assert!(far().bearer_token_from(|| "t".into()).connect().is_err());
        assert!(far().metadata("Authorization", "Basic x").connect().is_err());
        assert!(far().metadata("x-tenant", "x").connect().is_ok());
        assert!(far().api_key("k").allow_plaintext_credentials().connect().is_ok());
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

    #[test]
    fn headers_go_with_each_call_and_tokens_are_asked_for() {
        let address = Address::parse("localhost:1").unwrap();
        let builder = Client::builder("")
            .metadata("x-tenant", "a")
            .bearer_token_from(|| "fresh".into());
        let request = builder.headers(&address).unwrap().call(Request::new(())).unwrap();
        assert_eq!(request.metadata().get("x-tenant").unwrap(), "a");
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer fresh");
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_after_so_many_failures_in_a_row() {
        let gone = Error::new(Code::Unavailable, "gone");
        let mut patience = Patience::new(3);
        let first = patience.after(&gone).unwrap();
        assert!(first >= FIRST_PAUSE / 2 && first <= FIRST_PAUSE);
        assert!(patience.after(&gone).unwrap() >= FIRST_PAUSE);
        assert_eq!(patience.after(&gone), None);
        patience.reset();
        assert!(patience.after(&gone).unwrap() <= FIRST_PAUSE);
        assert_eq!(patience.after(&Error::new(Code::NotFound, "no")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_that_is_cut_has_all_its_attempts_left() {
        let gone = Error::new(Code::Unavailable, "gone");
        let mut patience = Patience::new(2);
        for _ in 0..5 {
            patience.begin();
            tokio::time::advance(Duration::from_secs(60)).await;
            assert!(patience.after(&gone).is_some());
        }
    }
}
