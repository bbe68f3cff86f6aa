//! Rows that commit late come before their followers, however many of them there are.

use std::collections::BTreeMap;
use std::time::Duration;

use event::{Claim, Event, Order, Outcome, Receipt, Source, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Setup};

/// How many keys have an event below the cursor and one above it.
const KEYS: usize = 32;
/// How many rows of another lane commit with them: more than one look shows.
const OTHERS: i64 = 300;
const WANT: Want = Want { limit: 100, bytes: 1 << 20, lease: Duration::from_secs(600) };

/// Claims once, and publishes what came.
async fn claim(lane: &dyn Source) -> Vec<Claim> {
    let claims = lane.claim(&WANT).await.unwrap();
    let done = |claim: &Claim| claim.end(Outcome::Done(Receipt { broker_id: None }));
    let ends: Vec<_> = claims.iter().map(done).collect();
    lane.settle(&ends).await.unwrap();
    claims
}

/// Writes one event of every key.
async fn write(session: &mut Session, table: &str, payload: &str) {
    let row = |key| format!("('a.mine', 'T', 'k{key}', '{payload}')");
    let rows: Vec<String> = (0..KEYS).map(row).collect();
    let columns = "topic, event_type, biz_key, payload";
    let sql = format!("INSERT INTO {table} ({columns}) VALUES {}", rows.join(", "));
    session.run(sql).await.unwrap();
}

async fn what_commits_late_comes_before_its_followers(server: &str) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table: table.clone(), ..Setup::new(need(server).detail("url")) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let topics = Topics::of(vec![("a.*".parse().unwrap(), true)]);
    let lane = outbox.lane(Lane { topics, order: Order::Hold });
    let between = || [Event::new("a.mine", "T", "0")];
    outbox.put(&between(), None).await.unwrap();
    assert_eq!(claim(&*lane).await.len(), 1, "the lane has its shards");

    let mut writer = Session::open(&setup.url).await.unwrap();
    writer.run("START TRANSACTION").await.unwrap();
    write(&mut writer, &table, "1").await;
    let numbers = writer.numbers(OTHERS);
    let others = "topic, event_type, payload";
    let others =
        format!("INSERT INTO {table} ({others}) SELECT 'b.other', 'T', '0' FROM {numbers}");
    writer.run(others).await.unwrap();
    outbox.put(&between(), None).await.unwrap();
    assert_eq!(claim(&*lane).await.len(), 1, "the lane has read beyond what is not committed");
    write(&mut writer, &table, "2").await;
    writer.run("COMMIT").await.unwrap();

    let mut came: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    while came.values().map(Vec::len).sum::<usize>() < 2 * KEYS {
        for Claim { event, .. } in claim(&*lane).await {
            let key = event.key.expect("only these have keys and wait");
            came.entry(key).or_default().push(event.payload.as_bytes().to_vec());
        }
    }
    for (key, came) in came {
        assert_eq!(came, [b"1", b"2"], "{key}");
    }
    writer.close().await.unwrap();
    outbox.close().await;
}

servers!(what_commits_late_comes_before_its_followers);
