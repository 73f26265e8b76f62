//! Where a URL points.

use std::net::IpAddr;

use tonic::transport::Uri;

use crate::Error;
use crate::error::invalid;

#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) target: Uri,
    /// Behind TLS.
    pub(crate) secure: bool,
    /// On this machine.
    pub(crate) local: bool,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
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

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

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
}
