//! Numbers of a sequence against the order of commits.

use anyhow::{Context, Result};
use it::world::need;
use sqlx::Postgres;

use crate::instance::Instance;
use crate::sql_facts::home::{Home, Session, until};

facts!(on_postgres: [
    a_cursor_over_a_sequence_loses_the_row_that_commits_late,
    a_snapshot_names_whoever_is_open_until_he_commits,
    a_snapshot_names_a_prepared_transaction_until_it_is_committed,
    a_snapshot_lists_no_running_transaction_above_the_newest_that_has_ended,
    the_age_of_a_transaction_tells_nothing_once_this_one_has_begun,
    whoever_may_draw_from_a_sequence_may_see_what_was_drawn,
]);

const PUT: &str = "INSERT INTO event DEFAULT VALUES";

/// Opens a table of events and leaves the first of two transactions open.
async fn late(home: &Home) -> Result<(Session<Postgres>, Session<Postgres>)> {
    let (mut late, mut early) = (home.postgres().await?, home.postgres().await?);
    let table = "CREATE TABLE event (tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)";
    late.run(table).await?;
    late.run("BEGIN").await?;
    late.run(PUT).await?;
    early.run(PUT).await?;
    Ok((late, early))
}

/// Rule: a cursor is no more than where a look begins; a look goes back for whoever was open at an
/// earlier one.
async fn a_cursor_over_a_sequence_loses_the_row_that_commits_late(home: &Home) -> Result<()> {
    let (mut late, mut reader) = late(home).await?;
    let cursor = reader.one::<i64>("SELECT max(seq) FROM event").await?;
    assert_eq!(cursor, 2);
    late.run("COMMIT").await?;
    let next = format!("SELECT seq FROM event WHERE seq > {cursor}");
    assert_eq!(reader.all::<i64>(next).await?, [0; 0]);
    assert_eq!(reader.all::<i64>("SELECT seq FROM event ORDER BY seq").await?, [1, 2]);
    Ok(())
}

/// Tells whether a snapshot has seen the end of a transaction, by what the store reads of it.
async fn has_ended(reader: &mut Session<Postgres>, late: i64) -> sqlx::Result<bool> {
    let ended = format!(
        "SELECT {late} < pg_snapshot_xmax(now)::text::bigint \
         AND {late} NOT IN (SELECT pg_snapshot_xip(now)::text::bigint) \
         FROM (SELECT pg_current_snapshot() AS now) AS asked"
    );
    reader.one(ended).await
}

/// Rule: whoever was open at a look is waited for. Once a snapshot shows his end, the next look
/// goes back to above where the reading stood before he was first seen.
async fn a_snapshot_names_whoever_is_open_until_he_commits(home: &Home) -> Result<()> {
    let (mut late, mut reader) = late(home).await?;
    let number = late.one::<i64>("SELECT pg_current_xact_id()::text::bigint").await?;
    assert!(!has_ended(&mut reader, number).await?);
    assert_eq!(reader.all::<i64>("SELECT seq FROM event").await?, [2]);
    late.run("COMMIT").await?;
    assert!(has_ended(&mut reader, number).await?);
    assert_eq!(reader.all::<i64>("SELECT seq FROM event ORDER BY seq").await?, [1, 2]);
    Ok(())
}

/// Rule: the same, whether he has a session or not.
async fn a_snapshot_names_a_prepared_transaction_until_it_is_committed(home: &Home) -> Result<()> {
    let (mut late, mut reader) = late(home).await?;
    let number = late.one::<i64>("SELECT pg_current_xact_id()::text::bigint").await?;
    let name = reader.one::<String>("SELECT current_database()::text").await?;
    late.run(format!("PREPARE TRANSACTION '{name}'")).await?;
    late.close().await?;
    assert!(!has_ended(&mut reader, number).await?);
    reader.run(format!("COMMIT PREPARED '{name}'")).await?;
    assert!(has_ended(&mut reader, number).await?);
    assert_eq!(reader.all::<i64>("SELECT seq FROM event ORDER BY seq").await?, [1, 2]);
    Ok(())
}

/// What would be the next transaction: this one has not begun, so it is nobody's.
const NEXT: &str = "SELECT age('3'::xid)::bigint + 3";

/// Rule: a look takes all from the end of a snapshot up to the next transaction for open. Everybody
/// else on the server would end some, so the fact has one of its own.
async fn a_snapshot_lists_no_running_transaction_above_the_newest_that_has_ended(
    home: &Home,
) -> Result<()> {
    let mut names = ["postgres-13", "postgres", "postgres-18"].into_iter();
    let name = names.find(|name| need(name) == home.server);
    let name = name.context("a server of the world")?;
    let mut server = Instance::start_with(name, &["-c", "autovacuum=off"])?;
    let mut all = Vec::new();
    until(async || {
        server.lives()?;
        all.extend(Session::<Postgres>::open(&server.url).await.ok());
        Ok(all.len() == 3)
    })
    .await?;
    let [older, newer, reader] = &mut all[..] else { unreachable!("there are three") };
    reader.run("CREATE ROLE nobody; SET ROLE nobody").await?;
    const BEGIN: &str = "SELECT pg_current_xact_id()::text::bigint";
    older.run("BEGIN").await?;
    older.one::<i64>(BEGIN).await?;
    newer.run("BEGIN").await?;
    let running = newer.one::<i64>(BEGIN).await?;
    older.run("COMMIT").await?;
    let listed = "SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint";
    assert_eq!(reader.all::<i64>(listed).await?, [0; 0]);
    let end = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    assert_eq!(reader.one::<i64>(end).await?, running);
    assert_eq!(reader.one::<i64>(NEXT).await?, running + 1);
    older.run("BEGIN").await?;
    let newest = older.one::<i64>(BEGIN).await?;
    assert_eq!((newest, reader.one::<i64>(NEXT).await?), (running + 1, running + 2));
    assert_eq!(reader.one::<i64>(end).await?, running, "nobody has ended");
    let mine = "SELECT pg_current_xact_id_if_assigned() IS NULL";
    assert!(reader.one::<bool>(mine).await?, "to ask begins no transaction");
    Ok(())
}

/// Rule: a look within a transaction that has begun takes all from the end of its snapshot on for
/// open.
async fn the_age_of_a_transaction_tells_nothing_once_this_one_has_begun(home: &Home) -> Result<()> {
    let (mut asking, mut other) = (home.postgres().await?, home.postgres().await?);
    let begin = "SELECT pg_current_xact_id()::text::bigint";
    asking.run("BEGIN").await?;
    let own = asking.one::<i64>(begin).await?;
    assert!(other.one::<i64>(begin).await? > own);
    assert_eq!(asking.one::<i64>(NEXT).await?, own);
    Ok(())
}

/// Rule: a look asks how far the numbers are with the rights that put a row down.
async fn whoever_may_draw_from_a_sequence_may_see_what_was_drawn(home: &Home) -> Result<()> {
    let (mut writer, mut reader) = (home.postgres().await?, home.postgres().await?);
    let role = reader.one::<String>("SELECT 'r' || current_database()::text").await?;
    reader.run(format!("CREATE SEQUENCE drawn; CREATE ROLE {role}")).await?;
    reader.run(format!("GRANT USAGE ON SEQUENCE drawn TO {role}; SET ROLE {role}")).await?;
    let last = "SELECT pg_sequence_last_value('drawn'::regclass)";
    assert_eq!(reader.one::<Option<i64>>(last).await?, None);
    writer.run("BEGIN; SELECT nextval('drawn'), nextval('drawn')").await?;
    assert_eq!(reader.one::<Option<i64>>(last).await?, Some(2), "it is not committed");
    let drop = format!("RESET ROLE; REVOKE ALL ON SEQUENCE drawn FROM {role}; DROP ROLE {role}");
    reader.run(drop).await?;
    Ok(())
}
