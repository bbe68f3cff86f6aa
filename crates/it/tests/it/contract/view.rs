//! The view on a server says of every row what the catalog says, as the types that reports rely on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use event::{
    Cause, Claim, Code, Event, EventId, Filter, Listed, Millis, Outcome, Page, Payload, Receipt,
    Source, Status, Topics, Want,
};
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup, Strategy};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(60);

/// The last moment that every server can show: the end of the year 9999.
const END: i64 = 253_402_300_799_999;

/// An outbox, a relay's lane on it, and a session of somebody who reads the view.
struct Place {
    table: String,
    outbox: Arc<dyn Outbox>,
    lane: Arc<dyn Source>,
    session: Session,
}

impl Place {
    async fn new(server: &str, strategy: Strategy) -> Place {
        let table = format!("t{:016x}", fastrand::u64(..));
        let setup = Setup::new(need(server).detail("url"));
        let setup = Setup { table: table.clone(), strategy, ..setup };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        let session = Session::open(&setup.url).await.unwrap();
        Place { table, outbox, lane, session }
    }

    async fn put(&self, events: &[Event], due: Option<Millis>) {
        self.outbox.put(events, due).await.unwrap();
    }

    /// Claims what is due, and shows it in a relay's hands.
    async fn claim(&mut self, id: EventId, lease: Duration) -> Vec<Claim> {
        let want = Want { limit: 10, bytes: 1 << 20, lease };
        let claims = self.lane.claim(&want).await.unwrap();
        assert!(claims.iter().any(|claim| claim.event.id == id), "it is due: {claims:?}");
        claims
    }

    /// Claims an event and ends that so; whatever was claimed beside it is put back.
    async fn turn(&mut self, id: EventId, outcome: Outcome) {
        let claims = self.claim(id, LONG).await;
        self.shows(id, Status::Dispatching).await;
        let back = Outcome::Release { after: Duration::ZERO };
        let is_it = |claim: &Claim| claim.event.id == id;
        let end = |claim: &Claim| claim.end(if is_it(claim) { &outcome } else { &back }.clone());
        let ends: Vec<_> = claims.iter().map(end).collect();
        assert_eq!(self.lane.settle(&ends).await.unwrap().stale, []);
    }

    /// Checks that an event has a status, and that of every event the view says what the catalog
    /// says.
    async fn shows(&mut self, id: EventId, status: Status) {
        let mut listed = self.listed().await;
        listed.sort_by_key(|one| one.event.id);
        let told: Vec<String> = listed.iter().map(line).collect();
        let ask = lines(self.session.is_postgres(), &self.table);
        assert_eq!(self.session.texts(ask, 0).await.unwrap(), told);
        let one = listed.iter().find(|one| one.event.id == id);
        assert_eq!(one.map(|one| one.status), Some(status));
    }

    async fn listed(&self) -> Vec<Listed> {
        let page = Page { limit: 10, after: None, payloads: true };
        self.outbox.catalog().find(&Filter::default(), &page).await.unwrap().events
    }

    /// Waits until the catalog says that nothing is in a relay's hands.
    async fn run_out(&self) {
        let out = |listed: Vec<Listed>| listed.iter().any(|one| one.status == Status::Dispatching);
        let over = async { while out(self.listed().await) {} };
        tokio::time::timeout(PATIENCE, over).await.expect("claims run out");
    }

    /// Returns the columns of the view with their types.
    async fn columns(&mut self) -> Vec<String> {
        let schema = if self.session.is_postgres() { "current_schema()" } else { "DATABASE()" };
        let ask = format!(
            "SELECT CONCAT(column_name, ' ', data_type) FROM information_schema.columns \
             WHERE table_schema = {schema} AND table_name = '{}_events' ORDER BY ordinal_position",
            self.table
        );
        self.session.texts(ask, 0).await.unwrap()
    }
}

/// Asks for the view's rows, each as one line, in the order of their identities.
fn lines(is_postgres: bool, table: &str) -> String {
    let millis = |column: &str| match is_postgres {
        true => format!("(extract(epoch FROM {column}) * 1000)::bigint::text"),
        false => {
            format!("CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column}) DIV 1000 AS CHAR)")
        }
    };
    let hex =
        if is_postgres { "encode(payload_bytes, 'hex')" } else { "LOWER(HEX(payload_bytes))" };
    let (next, created) = (millis("next_attempt_at"), millis("created_at"));
    let updated = millis("updated_at");
    let columns = [
        "id",
        "event_id",
        "topic",
        "event_type",
        "biz_key",
        "payload",
        hex,
        "headers",
        "status",
        "attempts",
        &next,
        "last_error",
        "broker_message_id",
        &created,
        &updated,
    ];
    let text = if is_postgres { "text" } else { "CHAR" };
    let shown = columns.map(|column| format!("COALESCE(CAST({column} AS {text}), '-')"));
    format!("SELECT CONCAT_WS('|', {}) FROM {table}_events ORDER BY id", shown.join(", "))
}

/// Writes what the catalog says as such a line.
fn line(listed: &Listed) -> String {
    let Listed { event, status, attempts, .. } = listed;
    let (text, bytes) = match &event.payload {
        Payload::Text(text) => (Some(text.clone()), None),
        Payload::Bytes(bytes) => {
            (None, Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
        }
    };
    let id = || Some(event.id.to_string());
    let columns = [
        id(),
        id(),
        Some(event.topic.clone()),
        Some(event.kind.clone()),
        event.key.clone(),
        text,
        bytes,
        Some(event.headers.to_json()),
        Some(status.to_string()),
        Some(attempts.to_string()),
        listed.next_attempt.map(|at| at.0.min(END).to_string()),
        listed.last_error().map(Cause::to_string),
        listed.broker_id.clone(),
        Some(event.created.0.to_string()),
        Some(listed.updated.0.to_string()),
    ];
    columns.map(|column| column.unwrap_or_else(|| "-".to_owned())).join("|")
}

async fn the_view_says_what_the_catalog_says(server: &str) {
    for strategy in [Strategy::Own, Strategy::Cas] {
        let mut place = Place::new(server, strategy).await;
        let paid = |text: &str| Event::new("order.paid", "OrderPaid", text).key("Käse 1");
        let event = paid(r#"{"total": 42, "note": "a\nb"}"#).header("schema_version", "3");
        let id = event.id;
        place.put(&[event, paid("its follower")], None).await;
        let payload = Payload::Bytes(Bytes::from_static(b"\0\xff"));
        let delayed = Event { payload, ..Event::new("order.due", "OrderDue", "") };
        place.put(&[delayed], Some(Millis::now() + LONG)).await;
        place.put(&[Event::new("order.due", "OrderDue", "")], Some(Millis(i64::MAX))).await;
        place.shows(id, Status::New).await;

        let busy = Cause::new(Code::SinkBusy, "so it goes: 100 %");
        place.turn(id, Outcome::Retry { after: Duration::ZERO, cause: busy }).await;
        place.shows(id, Status::Retry).await;
        place.turn(id, Outcome::Dead(Cause::new(Code::SinkRefused, "no \"such\" Käse"))).await;
        place.shows(id, Status::Dead).await;
        place.outbox.catalog().requeue(&[id], None, 1).await.unwrap();
        place.shows(id, Status::New).await;
        place.turn(id, Outcome::Done(Receipt { broker_id: Some("0-7".to_owned()) })).await;
        place.shows(id, Status::Sent).await;

        // Nobody says what became of the next claim.
        place.lane.release().await.unwrap();
        let last = Event::new("order.paid", "OrderPaid", "{}");
        let id = last.id;
        place.put(&[last], None).await;
        place.claim(id, SHORT).await;
        place.run_out().await;
        place.shows(id, Status::New).await;
        place.outbox.close().await;
    }
}

async fn the_view_has_the_columns_and_types_that_reports_rely_on(server: &str) {
    let mut place = Place::new(server, Strategy::Own).await;
    let (id, name, text, long, bytes, number, moment) = match server {
        "postgres" => {
            ("text", "text", "text", "text", "bytea", "integer", "timestamp with time zone")
        }
        "mysql" => ("char", "varchar", "mediumtext", "longtext", "longblob", "bigint", "datetime"),
        _ => ("char", "varchar", "mediumtext", "longtext", "longblob", "int", "datetime"),
    };
    let columns = [
        ("id", id),
        ("event_id", id),
        ("topic", name),
        ("event_type", name),
        ("biz_key", name),
        ("payload", long),
        ("payload_bytes", bytes),
        ("headers", text),
        ("status", name),
        ("attempts", number),
        ("next_attempt_at", moment),
        ("last_error", long),
        ("broker_message_id", text),
        ("created_at", moment),
        ("updated_at", moment),
    ];
    assert_eq!(place.columns().await, columns.map(|(name, kind)| format!("{name} {kind}")));
    place.outbox.close().await;
}

mod rows {
    use super::the_view_says_what_the_catalog_says as test;
    servers!(test);
}

mod columns {
    use super::the_view_has_the_columns_and_types_that_reports_rely_on as test;
    servers!(test);
}
