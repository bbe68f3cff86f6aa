//! The line to a proxy: connected when it is first used, and to the next proxy after a failure.
//!
//! It tries nothing twice by itself.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Cause, Code, EventId};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use self::v2::messaging_service_client::MessagingServiceClient;
use super::Access;
use super::address::Places;
use super::stamp::Stamp;

/// The protocol, as `proto/rocketmq` has it.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "it is made by the build")]
pub mod v2 {
    tonic::include_proto!("apache.rocketmq.v2");
}

/// What speaks with a proxy.
pub(super) type Client = MessagingServiceClient<InterceptedService<Channel, Stamp>>;

/// More than the largest body with all its properties.
const LARGEST: usize = 16 << 20;

/// One client, and which turn of the line it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) client: Client,
    pub(super) turn: usize,
}

/// The line.
#[derive(Debug)]
pub(super) struct Line {
    proxies: Vec<(String, Endpoint)>,
    stamp: Stamp,
    now: Mutex<(usize, Option<Client>)>,
}

impl Line {
    /// Checks the access. Nothing is connected yet.
    pub(super) fn new(access: &Access, places: &Places, timeout: Duration) -> Result<Line, Cause> {
        const CONNECT: Duration = Duration::from_secs(5);
        let stamp = Stamp::new(&format!("postbox@{}", EventId::new()), access.keys.clone())?;
        let scheme = if places.tls { "https" } else { "http" };
        let mut proxies = Vec::new();
        for place in &places.proxies {
            let invalid = |error| Cause::new(Code::ConfigInvalid, format_args!("url: {error}"));
            let endpoint = Endpoint::from_shared(format!("{scheme}://{place}")).map_err(invalid)?;
            let mut endpoint = endpoint
                .connect_timeout(CONNECT.min(timeout / 2))
                .tcp_keepalive(Some(Duration::from_secs(30)));
            if places.tls {
                let trust = ClientTlsConfig::new().with_native_roots();
                endpoint = endpoint.tls_config(trust).map_err(invalid)?;
            }
            proxies.push((place.clone(), endpoint));
        }
        Ok(Line { proxies, stamp, now: Mutex::new((0, None)) })
    }

    /// Returns a client of the present turn.
    pub(super) fn call(&self) -> Call {
        let mut now = self.now();
        let (turn, client) = &mut *now;
        let endpoint = &self.proxies[*turn % self.proxies.len()].1;
        let client = client.get_or_insert_with(|| {
            let channel = endpoint.connect_lazy();
            MessagingServiceClient::with_interceptor(channel, self.stamp.clone())
                .max_decoding_message_size(LARGEST)
        });
        Call { client: client.clone(), turn: *turn }
    }

    /// Whoever calls next gets a fresh connection, to the next proxy if there are several. Many who
    /// failed in the same turn move it once.
    pub(super) fn leave(&self, turn: usize) {
        let mut now = self.now();
        if now.0 == turn {
            *now = (turn + 1, None);
        }
    }

    /// Tells whether there is another proxy to go to.
    pub(super) fn several(&self) -> bool {
        self.proxies.len() > 1
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        self.now().1 = None;
    }

    /// Returns the address that a turn speaks with.
    pub(super) fn host(&self, turn: usize) -> &str {
        &self.proxies[turn % self.proxies.len()].0
    }

    /// Returns all addresses as the protocol writes them.
    pub(super) fn endpoints(&self) -> v2::Endpoints {
        let address = |(place, _): &(String, Endpoint)| {
            let (host, port) = place.rsplit_once(':')?;
            let host = host.trim_matches(['[', ']']).to_owned();
            Some(v2::Address { host, port: port.parse().ok()? })
        };
        let addresses: Vec<_> = self.proxies.iter().filter_map(address).collect();
        let ip = addresses.iter().all(|address| address.host.parse::<std::net::IpAddr>().is_ok());
        let six = addresses.iter().any(|address| address.host.contains(':'));
        let scheme = match (ip, six) {
            (false, _) => v2::AddressScheme::DomainName,
            (true, false) => v2::AddressScheme::IPv4,
            (true, true) => v2::AddressScheme::IPv6,
        };
        v2::Endpoints { scheme: scheme.into(), addresses }
    }

    fn now(&self) -> MutexGuard<'_, (usize, Option<Client>)> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names a topic or group.
pub(super) fn resource(name: &str) -> Option<v2::Resource> {
    Some(v2::Resource { resource_namespace: String::new(), name: name.to_owned() })
}

/// Writes a duration.
pub(super) fn lasting(duration: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: duration.subsec_nanos().cast_signed() }
}
