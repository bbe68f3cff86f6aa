//! What works behind a feed: it joins, reads what is new and what others have let go, and keeps
//! leases alive.
//!
//! Whatever goes wrong ends the session; after a rest it joins again, by itself.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Cause, Code, Refusal};
use futures_util::future::{join_all, try_join};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value, cmd};
use tokio::time::{Instant, sleep, timeout};

use super::super::link::Link;
use super::super::{entry, refusal};
use super::look::{Ask, Look, Looks};
use super::script::{self, Ticket, millis};
use crate::hand::{self, Arrival, Ours};
use crate::manner::Subscription;

/// The place of an entry: which of the streams, and its id there.
pub(super) type Place = (usize, u64, u64);
pub(super) type Hand = hand::Hand<Place, Ticket>;

/// How long one read waits at the server.
const WAIT: Duration = Duration::from_millis(500);
/// Longer than anybody's lease: what has lain for so long is free for all.
const FREE: Duration = Duration::from_secs(24 * 60 * 60);
/// How many entries are asked for at once that an answer had which never came.
const MISSED: usize = 100;
/// How long to rest after something went wrong: at first, and at the most.
const REST: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// One consumer of a group.
pub(super) struct Reader {
    pub(super) link: Link,
    pub(super) hand: Hand,
    subscription: Subscription,
    consumer: String,
    /// What shall come again later than a lease: nobody gets it before.
    resting: Mutex<HashMap<Place, (Ticket, Instant)>>,
    /// The newest entry of each stream that came as a new one.
    newest: Mutex<Vec<String>>,
}

impl Reader {
    pub(super) fn new(
        link: Link,
        hand: Hand,
        subscription: Subscription,
        consumer: String,
    ) -> Reader {
        let newest = Mutex::new(vec!["0".to_owned(); subscription.topics.len()]);
        Reader { link, hand, subscription, consumer, resting: Mutex::default(), newest }
    }

    /// Works until it is dropped.
    pub(super) async fn run(&self) {
        let mut rest = REST[0];
        loop {
            match self.join().await {
                Err(refusal) => self.hand.trouble(refusal),
                Ok(connection) => {
                    rest = REST[0];
                    let Err(refusal) = try_join(self.read(connection), self.keep()).await;
                    self.hand.trouble(refusal);
                }
            }
            sleep(rest).await;
            rest = (rest * 2).min(REST[1]);
        }
    }

    /// Runs a script about an entry; tells whether the entry was this consumer's.
    pub(super) async fn call(&self, script: Cmd) -> Result<bool, Refusal> {
        let host = &self.link.host;
        let line = self.link.line().await?;
        let mut connection = line.connection.clone();
        let calling = script.query_async::<u64>(&mut connection);
        let answer = match timeout(self.subscription.timeout, calling).await {
            Ok(Ok(done)) => Ok(done == 1),
            // Without its group, nothing is anybody's.
            Ok(Err(error)) if error.code() == Some("NOGROUP") => Ok(false),
            Ok(Err(error)) => Err(refusal::judge(&error, &self.subscription.group, host)),
            Err(_) => Err(refusal::late(host)),
        };
        if let Err(Refusal::Unknown(_)) = &answer {
            self.link.forget(&line).await;
        }
        answer
    }

    /// Lets an entry come again after a while; tells whether it was this consumer's.
    pub(super) async fn rest(
        &self,
        place: &Place,
        ticket: &Ticket,
        after: Duration,
    ) -> Result<bool, Refusal> {
        let lease = self.hand.lease();
        let mine = self.call(script::renew(ticket, lease.saturating_sub(after))).await?;
        if mine && after > lease {
            self.resting().insert(*place, (ticket.clone(), Instant::now() + after));
        }
        Ok(mine)
    }

    /// Gives back what is left, and is no longer known in the group.
    pub(super) async fn leave(&self) {
        let resting = std::mem::take(&mut *self.resting());
        let left = self.hand.clear().into_iter().map(|ours| ours.ticket);
        let left = left.chain(resting.into_values().map(|(ticket, _)| ticket));
        let free = left.map(|ticket| script::renew(&ticket, FREE));
        // What could not be given back comes again when its lease has run out.
        join_all(free.map(|script| self.call(script))).await;
        let Subscription { topics, group, .. } = &self.subscription;
        let leaving = topics.iter().map(|stream| script::leave(stream, group, &self.consumer));
        join_all(leaving.map(|script| self.call(script))).await;
    }

    async fn join(&self) -> Result<MultiplexedConnection, Refusal> {
        let mut connection = self.link.open(self.subscription.timeout + WAIT).await?;
        for stream in &self.subscription.topics {
            let mut making = cmd("XGROUP");
            making.arg("CREATE").arg(stream).arg(&self.subscription.group).arg("0").arg("MKSTREAM");
            match making.query_async::<Value>(&mut connection).await {
                Err(error) if error.code() != Some("BUSYGROUP") => return Err(self.failed(error)),
                _ => {}
            }
        }
        Ok(connection)
    }

    async fn read(&self, mut connection: MultiplexedConnection) -> Result<Infallible, Refusal> {
        let step = (self.hand.lease() / 8).clamp(Duration::from_millis(50), WAIT);
        let mut looks = Looks::new(self.subscription.topics.len());
        let mut due = Instant::now();
        for at in 0..self.subscription.topics.len() {
            self.missed(&mut connection, at).await?;
        }
        loop {
            let room = self.hand.room().await;
            if due <= Instant::now() {
                let looked = self.look(&mut connection, looks.begin(room.of)).await;
                let is_cut = looked.map_err(|error| self.failed(error))?;
                // However much was let go, what is new has its turn after it, unless what was
                // missed may be among what there was no room for.
                if !is_cut || !self.hand.misses() {
                    due = Instant::now() + step;
                }
                continue;
            }
            if room.missed_only {
                continue;
            }
            // The server takes a wait of nothing for one without end.
            let wait = due.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let read = self.fresh(&mut connection, room.of, wait).await;
            read.map_err(|error| self.failed(error))?;
        }
    }

    /// Takes what the server has given to this consumer in an answer that never came, before
    /// anything newer: of a key, nothing may pass it.
    async fn missed(
        &self,
        connection: &mut MultiplexedConnection,
        at: usize,
    ) -> Result<(), Refusal> {
        loop {
            let from = self.newest()[at].clone();
            let read = self.more(connection, at, &from).await;
            let entries = read.map_err(|error| self.failed(error))?;
            if entries.is_empty() {
                return Ok(());
            }
            for (id, fields) in entries {
                let ticket = self.ticket(at, id.clone(), fields.clone());
                let known = self.hand.has(&place(at, &id));
                if !known && self.call(script::renew(&ticket, Duration::ZERO)).await? {
                    self.arrive(at, id.clone(), fields, 1);
                }
                self.newest()[at] = id;
            }
        }
    }

    /// Reads what this consumer has, from an entry on.
    async fn more(
        &self,
        connection: &mut MultiplexedConnection,
        at: usize,
        from: &str,
    ) -> Result<Vec<(String, entry::Fields)>, RedisError> {
        let Subscription { topics, group, .. } = &self.subscription;
        let mut reading = cmd("XREADGROUP");
        reading.arg("GROUP").arg(group).arg(&self.consumer).arg("COUNT").arg(MISSED);
        reading.arg("STREAMS").arg(&topics[at]).arg(from);
        let reply: Value = reading.query_async(connection).await?;
        let stream = entry::array(&reply).first().map(entry::array);
        Ok(stream.and_then(|stream| stream.get(1)).map(entry::entries).unwrap_or_default())
    }

    /// Looks for what others have let go. Tells whether there may be more than there was room for.
    async fn look(
        &self,
        connection: &mut MultiplexedConnection,
        mut look: Look<'_>,
    ) -> Result<bool, RedisError> {
        while let Some(ask) = look.ask() {
            let (came, next) = self.claim(connection, &ask).await?;
            look.answered(&ask, came, next.as_deref());
        }
        Ok(look.is_cut())
    }

    /// Takes over what nobody has touched for a lease, with the count of its deliveries. Returns
    /// how many came, and where to go on.
    async fn claim(
        &self,
        connection: &mut MultiplexedConnection,
        ask: &Ask,
    ) -> Result<(usize, Option<String>), RedisError> {
        let (stream, group) = (&self.subscription.topics[ask.at], &self.subscription.group);
        let mut claiming = cmd("XAUTOCLAIM");
        claiming.arg(stream).arg(group).arg(&self.consumer).arg(millis(self.hand.lease()));
        claiming.arg(&ask.from).arg("COUNT").arg(ask.room);
        let reply: Value = claiming.query_async(connection).await?;
        let next = entry::array(&reply).first().and_then(entry::bytes);
        let next = next.map(|id| String::from_utf8_lossy(id).into_owned());
        let entries = entry::array(&reply).get(1).map(entry::entries).unwrap_or_default();
        let came = entries.len();
        for (id, fields) in entries {
            let mut asking = cmd("XPENDING");
            asking.arg(stream).arg(group).arg(&id).arg(&id).arg(1);
            let told: Value = asking.query_async(connection).await?;
            let count = entry::array(&told).first().and_then(|one| entry::array(one).get(3));
            let attempt = match count {
                Some(Value::Int(count)) => u32::try_from(*count).unwrap_or(u32::MAX),
                _ => 1,
            };
            self.arrive(ask.at, id, fields, attempt.max(1));
        }
        Ok((came, next))
    }

    /// Reads what is new.
    async fn fresh(
        &self,
        connection: &mut MultiplexedConnection,
        room: usize,
        wait: Duration,
    ) -> Result<(), RedisError> {
        let Subscription { topics, group, .. } = &self.subscription;
        let mut reading = cmd("XREADGROUP");
        reading.arg("GROUP").arg(group).arg(&self.consumer).arg("COUNT").arg(room);
        reading.arg("BLOCK").arg(millis(wait)).arg("STREAMS").arg(topics);
        reading.arg(vec![">"; topics.len()]);
        let reply: Value = reading.query_async(connection).await?;
        for stream in entry::array(&reply) {
            let [name, entries] = entry::array(stream) else { continue };
            let name = entry::bytes(name).unwrap_or_default();
            let at = topics.iter().position(|topic| topic.as_bytes() == name);
            let at = at.unwrap_or_default();
            for (id, fields) in entry::entries(entries) {
                self.newest()[at].clone_from(&id);
                self.arrive(at, id, fields, 1);
            }
        }
        Ok(())
    }

    fn arrive(&self, at: usize, id: String, fields: entry::Fields, attempt: u32) {
        let until = Instant::now() + self.hand.lease();
        let stream = &self.subscription.topics[at];
        let event = entry::open(&fields, stream);
        let origin = format!("{stream}:{id}");
        let place = place(at, &id);
        let ticket = self.ticket(at, id, fields);
        self.resting().remove(&place);
        self.hand.arrive(place, Arrival { event, origin, attempt, ticket, until });
    }

    fn ticket(&self, at: usize, id: String, fields: entry::Fields) -> Ticket {
        let Subscription { topics, group, .. } = &self.subscription;
        let (stream, consumer) = (topics[at].clone(), self.consumer.clone());
        Ticket { stream, group: group.clone(), consumer, id, fields }
    }

    /// Renews the leases of what waits here, of what shall be kept, and of what rests.
    async fn keep(&self) -> Result<Infallible, Refusal> {
        let lease = self.hand.lease();
        let step = (lease / 8).clamp(Duration::from_millis(50), Duration::from_secs(5));
        loop {
            sleep(step).await;
            let asked = Instant::now();
            let renew = |Ours { place, ticket, .. }: Ours<Place, Ticket>| async move {
                match self.call(script::renew(&ticket, Duration::ZERO)).await {
                    Ok(true) => self.hand.renewed(&place, asked),
                    Ok(false) => self.hand.lost(&place),
                    Err(_) => {}
                }
            };
            join_all(self.hand.due().into_iter().map(renew)).await;
            let resting: Vec<_> = {
                let mut resting = self.resting();
                let all = resting.iter().map(|(_, (ticket, due))| (ticket.clone(), *due));
                let all = all.collect();
                resting.retain(|_, (_, due)| *due > asked + lease);
                all
            };
            let rest = resting.into_iter().map(|(ticket, due)| {
                let left = due.saturating_duration_since(asked);
                self.call(script::renew(&ticket, lease.saturating_sub(left)))
            });
            // Who cannot be told gets it sooner.
            join_all(rest).await;
        }
    }

    fn failed(&self, error: RedisError) -> Refusal {
        match refusal::judge(&error, &self.subscription.group, &self.link.host) {
            // Nothing was added that could have arrived.
            Refusal::Unknown(cause) => {
                let detail = format!("{}: {}", self.link.host, refusal::plain(&error));
                Refusal::Down(Cause::new(cause.code, detail))
            }
            Refusal::Retry(cause, _) if error.code() == Some("NOGROUP") => {
                let detail = format!("the group is gone and is made again: {}", cause.detail);
                Refusal::Retry(Cause::new(Code::TopicMissing, detail), None)
            }
            refusal => refusal,
        }
    }

    fn newest(&self) -> MutexGuard<'_, Vec<String>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resting(&self) -> MutexGuard<'_, HashMap<Place, (Ticket, Instant)>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(at: usize, id: &str) -> Place {
    let (time, number) = id.split_once('-').unwrap_or((id, "0"));
    (at, time.parse().unwrap_or_default(), number.parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_the_order_of_their_ids() {
        let ids = ["1-0", "1-2", "1-10", "9-1", "10-0"];
        let places: Vec<Place> = ids.iter().map(|id| place(0, id)).collect();
        assert!(places.is_sorted(), "{places:?}");
    }
}
