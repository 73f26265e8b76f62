//! The headers of every call, and those that must not be sent unencrypted.

use std::sync::Arc;

use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::Error;
use crate::address::Address;
use crate::error::invalid;

/// Names of the headers that carry credentials.
const CREDENTIALS: [&str; 4] = ["authorization", "proxy-authorization", "x-api-key", "cookie"];

pub(crate) type TokenSource = Arc<dyn Fn() -> String + Send + Sync>;

/// What goes with every call: a tonic interceptor.
#[derive(Clone, Default)]
pub struct Headers {
    fixed: Vec<(AsciiMetadataKey, AsciiMetadataValue)>,
    token: Option<TokenSource>,
}

impl Headers {
    /// Adds a header beside those of the same name.
    pub(crate) fn add(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let key: AsciiMetadataKey = name
            .parse()
            .map_err(|_| invalid(format!("{name:?} is no name of a header")))?;
        // What it is stays out of the message: it may be a secret.
        let mut value: AsciiMetadataValue = value
            .parse()
            .map_err(|_| invalid(format!("the value of {name} is no header")))?;
        value.set_sensitive(CREDENTIALS.contains(&key.as_str()));
        self.fixed.push((key, value));
        Ok(())
    }

    /// Sets a header, instead of those of the same name.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        self.fixed.retain(|(key, _)| !key.as_str().eq_ignore_ascii_case(name));
        if name.eq_ignore_ascii_case("authorization") {
            self.token = None;
        }
        self.add(name, value)
    }

    /// Asks for a token at every call.
    pub(crate) fn renew_token(&mut self, source: TokenSource) {
        self.token = Some(source);
    }

    pub(crate) fn have(&self, name: &str) -> bool {
        self.fixed.iter().any(|(key, _)| key.as_str() == name)
    }

    pub(crate) fn have_credentials(&self) -> bool {
        self.token.is_some() || self.fixed.iter().any(|(key, _)| CREDENTIALS.contains(&key.as_str()))
    }
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        for (key, value) in &self.fixed {
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

/// Refuses calls that would send credentials unencrypted. As an interceptor it is the last one before the
/// connection, so it sees what the caller's own interceptors have set, too.
#[derive(Clone)]
pub(crate) struct Guard {
    /// Where calls go, if credentials may not go there.
    open_way: Option<Arc<str>>,
}

impl Guard {
    pub(crate) fn new(address: &Address, insecure_ok: bool) -> Self {
        let is_open = !address.secure && !address.local && !insecure_ok;
        Self {
            open_way: is_open.then(|| address.target.authority().map_or("", |it| it.as_str()).into()),
        }
    }

    /// # Errors
    ///
    /// `InvalidArgument`: they would go unencrypted.
    pub(crate) fn check(&self, has_credentials: bool) -> Result<(), Error> {
        match &self.open_way {
            Some(target) if has_credentials => Err(invalid(format!(
                "credentials would go to {target} unencrypted; use grpcs://, or allow it with insecure_ok"
            ))),
            _ => Ok(()),
        }
    }
}

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let has = |metadata: &MetadataMap| CREDENTIALS.iter().any(|name| metadata.contains_key(*name));
        self.check(has(request.metadata()))
            .map_err(|error| error.status().clone())?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(headers: &mut Headers) -> MetadataMap {
        headers.call(Request::new(())).unwrap().into_parts().0
    }

    #[test]
    fn headers_go_with_each_call_and_tokens_are_asked_for() {
        let mut headers = Headers::default();
        headers.add("x-tenant", "a").unwrap();
        headers.renew_token(Arc::new(|| "fresh".into()));
        assert_eq!(sent(&mut headers).get("x-tenant").unwrap(), "a");
        assert_eq!(sent(&mut headers).get("authorization").unwrap(), "Bearer fresh");
    }

    #[test]
    fn a_header_that_is_set_replaces_what_was_there() {
        let mut headers = Headers::default();
        headers.add("x-tenant", "a").unwrap();
        headers.add("x-tenant", "b").unwrap();
        headers.renew_token(Arc::new(|| "fresh".into()));
        headers.set("X-Tenant", "c").unwrap();
        headers.set("Authorization", "Basic x").unwrap();
        let metadata = sent(&mut headers);
        assert_eq!(metadata.get_all("x-tenant").iter().collect::<Vec<_>>(), ["c"]);
        assert_eq!(
            metadata.get_all("authorization").iter().collect::<Vec<_>>(),
            ["Basic x"]
        );
    }

    #[test]
    fn the_guard_reads_each_credential_that_a_call_has() {
        let far = Address::parse("grpc://10.0.0.7:50051").unwrap();
        for name in CREDENTIALS {
            let mut request = Request::new(());
            request.metadata_mut().insert(name, "secret".parse().unwrap());
            let refused = Guard::new(&far, false).call(request).unwrap_err();
            assert!(!refused.message().contains("secret"), "{refused}");
            assert!(refused.message().contains("10.0.0.7:50051"), "{refused}");
        }
        assert!(Guard::new(&far, false).call(Request::new(())).is_ok());
        assert!(Guard::new(&far, true).check(true).is_ok());
        let secure = Address::parse("grpcs://10.0.0.7:50051").unwrap();
        assert!(Guard::new(&secure, false).check(true).is_ok());
    }
}
