//! One connection, and the channels on it that wait for the next wave.
//!
//! The library's own recovery is off: it would hold back what must be answered now.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use event::{Cause, Code, Refusal, Secret};
use futures_util::{FutureExt, StreamExt};
use lapin::options::ConfirmSelectOptions;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, Event};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::refusal::{self, Where};

/// Seconds of silence after which a peer is taken for dead, unless the url says otherwise.
const HEARTBEAT: u16 = 10;

/// How many channels are kept for the next waves: as many as a wave has routing keys at the most.
/// The library looks at every open one with each frame that it writes.
const SPARE: usize = 256;

/// How long an end in good order may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where to connect, and as whom.
#[derive(Clone)]
pub(super) struct Target {
    uri: AMQPUri,
    /// What a person may read of it.
    pub(super) host: String,
    /// What the broker's own pages call the connection.
    name: String,
}

impl Target {
    /// Reads an address. Its error does not repeat it.
    pub(super) fn new(url: &Secret, timeout: Duration, name: &str) -> Result<Target, Cause> {
        let invalid = |why: &str| Cause::new(Code::ConfigInvalid, why);
        if timeout.is_zero() {
            return Err(invalid("timeout: it must be longer than 0"));
        }
        let uri: Result<AMQPUri, _> = url.reveal().parse();
        let wanted = "url: it is not of the form amqp://USER:PASSWORD@HOST:PORT/VHOST";
        let mut uri = uri.map_err(|_| invalid(wanted))?;
        // To the letter, an address that ends in / names the virtual host without a name. Nobody
        // means that.
        if uri.vhost.is_empty() {
            uri.vhost = "/".to_owned();
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        uri.query.connection_timeout.get_or_insert(millis);
        let host = format!("{}:{}", uri.authority.host, uri.authority.port);
        Ok(Target { uri, host, name: format!("postbox {name}") })
    }

    /// Returns what all that lead to the same broker have in common.
    pub(super) fn destination(&self) -> String {
        format!("{}://{}/{}", self.uri.scheme, self.host, self.uri.vhost)
    }

    /// Returns the virtual host.
    pub(super) fn vhost(&self) -> &str {
        &self.uri.vhost
    }

    pub(super) async fn connect(&self) -> Result<Line, Refusal> {
        let properties =
            ConnectionProperties::default().with_connection_name(self.name.as_str().into());
        let connected = Connection::connect_uri(self.uri.clone(), properties).await;
        let at = Where { host: &self.host, exchange: "" };
        let connection = connected.map_err(|error| refusal::before(&error, at))?;
        let alarm = Arc::new(Mutex::new(None));
        let mut events = connection.events_listener();
        let heard = Arc::clone(&alarm);
        let listening = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let mut alarm = heard.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Event::ConnectionBlocked(reason) => *alarm = Some(reason),
                    Event::ConnectionUnblocked => *alarm = None,
                    _ => {}
                }
            }
        });
        let (idle, left) = (Mutex::default(), Mutex::default());
        Ok(Line { connection, idle, left, alarm, listening })
    }
}

/// A connection.
pub(super) struct Line {
    connection: Connection,
    idle: Mutex<Vec<Channel>>,
    /// Channels with something that is not written yet.
    left: Mutex<Vec<Channel>>,
    /// Why the broker takes nothing in.
    alarm: Arc<Mutex<Option<String>>>,
    listening: JoinHandle<()>,
}

impl Line {
    /// Says whether it is of use. One that took nothing for so long that something was left on it
    /// is not, except under an alarm: another would get through only to hear of that.
    pub(super) fn lives(&self) -> bool {
        let left = || self.left.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.connection.status().connected() && (self.blocked().is_some() || left() == 0)
    }

    /// Returns why the broker takes nothing in, while it does not.
    pub(super) fn blocked(&self) -> Option<String> {
        if !self.connection.status().blocked() {
            return None;
        }
        let alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        Some(alarm.clone().unwrap_or_else(|| "it does not say which".to_owned()))
    }

    /// Returns how many bytes a frame may have.
    pub(super) fn frame(&self) -> usize {
        usize::try_from(self.connection.configuration().frame_max()).unwrap_or(usize::MAX)
    }

    /// Opens a channel for anything but events.
    pub(super) async fn plain_channel(&self) -> lapin::Result<Channel> {
        self.connection.create_channel().await
    }

    /// Takes a channel that confirms, or opens one.
    pub(super) async fn channel(&self) -> lapin::Result<Channel> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(channel) if channel.status().connected() => return Ok(channel),
                Some(_) => {}
                None => break,
            }
        }
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    /// Puts a channel back that has nothing out. Any other is dropped, which closes it.
    pub(super) fn keep(&self, channel: Channel) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < SPARE {
            idle.push(channel);
        }
    }

    /// Takes a channel out of use that has something to write. It is open as long as the
    /// connection: the library would say first that it closes, and the broker ends the connection
    /// of whoever writes on a channel that is closed, and with it what others have out.
    pub(super) fn leave(&self, channel: Channel) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(channel);
    }

    /// Ends the connection in good order.
    pub(super) async fn close(&self) {
        // It is of no use afterwards, however that ends.
        let _ = timeout(FAREWELL, self.connection.close(200, "OK".into())).await;
    }
}

impl Drop for Line {
    /// Says good-bye before anything that uses the connection does. The library would cancel
    /// consumers first, and the broker would hand the next events of a queue to another consumer
    /// while this one still has earlier ones; the end of a connection gives those back first.
    fn drop(&mut self) {
        self.listening.abort();
        // It is asked for at once, and nobody waits for the answer.
        let _ = self.connection.close(200, "OK".into()).now_or_never();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_a_host_and_a_virtual_host() {
        let read = |url: &str| {
            let target = Target::new(&Secret::new(url), FAREWELL, "orders").unwrap();
            (target.host.clone(), target.vhost().to_owned(), target.destination())
        };
        let of = |host: &str, vhost: &str, all: &str| (host.into(), vhost.into(), all.into());
        assert_eq!(read("amqp://h"), of("h:5672", "/", "amqp://h:5672//"));
        assert_eq!(read("amqp://h/"), of("h:5672", "/", "amqp://h:5672//"));
        assert_eq!(read("amqp://u:p@h:1/%2f"), of("h:1", "/", "amqp://h:1//"));
        assert_eq!(read("amqps://u:p@h/shop"), of("h:5671", "shop", "amqps://h:5671/shop"));
        assert!(Target::new(&Secret::new("amqp://h"), Duration::ZERO, "orders").is_err());
    }
}
