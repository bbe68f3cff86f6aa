//! Where rows go: copied first, then taken out of where they stood, by primary key. The tallies of
//! their shards are open all the while, so nobody else moves them.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use event::{Address, Millis, Shelf};
use sqlx::MySqlConnection;

use super::template::Value;
use super::{MySql, flight, parcel, rows};
use crate::server::{Again, End, Fault, Kept, Leases, Moves, Owned, broken};

/// How many rows one statement names.
pub(super) const AT_ONCE: usize = 512;

/// Returns the rows of a table in the order of its key, each with its place in line.
fn ordered<T>(rows: &[End<T>]) -> Vec<(usize, &End<T>)> {
    let mut rows: Vec<_> = rows.iter().enumerate().collect();
    rows.sort_by_key(|(_, end)| (end.address.number, end.address.shard));
    rows
}

/// Names a row as its table has it.
fn key<T>(shelf: Shelf, end: &End<T>) -> Vec<Value> {
    match shelf {
        Shelf::Hot => vec![end.address.number.into(), end.address.shard.into()],
        Shelf::Later => vec![end.address.number.into()],
    }
}

fn place(at: usize) -> Value {
    i64::try_from(at).unwrap_or(i64::MAX).into()
}

/// Returns hot rows shard by shard, so many at a time.
fn by_shard<T>(rows: impl Iterator<Item = (u16, T)>) -> Vec<(u16, Vec<T>)> {
    let mut shards: BTreeMap<u16, Vec<Vec<T>>> = BTreeMap::new();
    for (shard, row) in rows {
        let parts = shards.entry(shard).or_default();
        match parts.last_mut() {
            Some(part) if part.len() < AT_ONCE => part.push(row),
            _ => parts.push(vec![row]),
        }
    }
    shards
        .into_iter()
        .flat_map(|(of, parts)| parts.into_iter().map(move |part| (of, part)))
        .collect()
}

impl MySql {
    /// Takes rows out of where they stood, hot ones shard by shard.
    async fn drop_rows(
        &self,
        conn: &mut MySqlConnection,
        rows: impl Iterator<Item = Address> + Send,
    ) -> Result<(), Fault> {
        let (hot, later): (Vec<Address>, Vec<Address>) =
            rows.partition(|address| address.shelf == Shelf::Hot);
        for (shard, seqs) in by_shard(hot.iter().map(|at| (at.shard, at.number))) {
            self.sql.drop_hot.ask().give(shard).list(seqs).run(&mut *conn).await?;
        }
        for some in later.chunks(AT_ONCE) {
            let named = some.iter().map(|at| vec![at.number.into()]).collect();
            self.sql.drop_later.ask().rows(named).run(&mut *conn).await?;
        }
        Ok(())
    }

    /// Copies hot rows into the history, shard by shard.
    async fn keep_hot(
        &self,
        conn: &mut MySqlConnection,
        rows: &[(usize, &End<Option<String>>)],
        now: Millis,
    ) -> Result<(), Fault> {
        let row = |(_, end): &(usize, &End<Option<String>>)| {
            (end.address.shard, (end.address.number, end.said.clone()))
        };
        for (shard, rows) in by_shard(rows.iter().map(row)) {
            let (seqs, ids): (Vec<i64>, Vec<Option<String>>) = rows.into_iter().unzip();
            // Where no destination called them anything, one nothing is enough.
            let ids = if ids.iter().any(Option::is_some) { ids } else { vec![None] };
            let ask = self.sql.done_hot.ask().give(now.0).give(shard).list(seqs).list(ids);
            ask.run(&mut *conn).await?;
        }
        Ok(())
    }

    /// Takes hot rows that stay where they are out of flight. Returns what is still ours.
    async fn unname(
        &self,
        conn: &mut MySqlConnection,
        owner: &str,
        shards: &[Owned],
        back: &[i64],
    ) -> Result<Vec<Owned>, Fault> {
        let named: Vec<u16> = shards.iter().map(|one| one.shard).collect();
        let back: BTreeSet<i64> = back.iter().copied().collect();
        let (mut ours, mut flights) = (Vec::new(), Vec::new());
        for row in self.open_leases(conn, None, &named, &named).await? {
            let mine = |one: &&Owned| one.shard == row.shard && one.mark == row.mark;
            let Some(one) = shards.iter().find(mine).filter(|_| row.owner == owner) else {
                continue;
            };
            ours.push(*one);
            let out = row.out.into_iter().filter(|(seq, _)| !back.contains(seq));
            let out: Vec<(i64, Millis)> = out.collect();
            flights.push((row.shard, flight::write(&out)));
        }
        for part in parcel::part(flights, |(_, out)| out.len()) {
            let named = part.into_iter().map(|(shard, out)| vec![shard.into(), out.into()]);
            self.sql.unname.ask().rows(named.collect()).run(&mut *conn).await?;
        }
        Ok(ours)
    }

    /// Makes later rows of shards due that are in flight beyond a moment.
    pub(super) async fn make_due(
        &self,
        conn: &mut MySqlConnection,
        shards: impl Iterator<Item = u16> + Send,
        now: Millis,
        beyond: Millis,
    ) -> Result<(), Fault> {
        let out = self.sql.out_later.ask().give(beyond.0).list(shards).all(&mut *conn).await?;
        let numbers = out.iter().map(|row| rows::int(row, 0));
        let mut numbers = numbers.collect::<Result<Vec<i64>, Fault>>()?;
        numbers.sort_unstable();
        for some in numbers.chunks(AT_ONCE) {
            let named = some.iter().map(|number| vec![(*number).into()]).collect();
            let ask = self.sql.lapse_later.ask().give(now.0).give(beyond.0);
            ask.rows(named).run(&mut *conn).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Moves for MySql {
    const ONE_STROKE: bool = false;

    async fn open(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        owner: &str,
        shards: &[Owned],
        back: &[i64],
    ) -> Result<Kept, Fault> {
        let mut ours = match back.is_empty() {
            true => shards.to_vec(),
            false => self.unname(conn, owner, shards, back).await?,
        };
        if ours.is_empty() {
            return Ok(Kept::default());
        }
        ours.sort_by_key(|one| one.shard);
        let ask = self.sql.settle.ask().give(now).give(owner);
        let ask = ask.list(ours.iter().map(|one| one.shard));
        let ask = ask.list(ours.iter().map(|one| one.mark.0));
        let ask = ask.list(ours.iter().map(|one| one.done));
        let found = ask.run(&mut *conn).await?;
        let told = i64::try_from(found.last_insert_id()).unwrap_or(0);
        if told == 0 && now.is_none() && found.rows_affected() > 0 {
            return Err(broken(
                "the server passes no LAST_INSERT_ID(…) on, by which it tells the time",
            ));
        }
        let now = Millis(told);
        if found.rows_affected() == ours.len() as u64 {
            let shards = ours.iter().map(|one| one.shard).collect();
            return Ok(Kept { shards, now, ..Kept::default() });
        }
        let row = |one: &Owned| vec![one.shard.into(), one.mark.0.into()];
        let ask = self.sql.counted.ask().give(owner).rows(ours.iter().map(row).collect());
        let kept = ask.all(conn).await?;
        let shards = kept.iter().map(|row| rows::shard(row, 0)).collect::<Result<_, Fault>>()?;
        Ok(Kept { shards, now, ..Kept::default() })
    }

    async fn done(
        &self,
        conn: &mut MySqlConnection,
        shelf: Shelf,
        rows: &[End<Option<String>>],
        history: bool,
        now: Millis,
    ) -> Result<(), Fault> {
        let rows = ordered(rows);
        if history && shelf == Shelf::Hot {
            self.keep_hot(conn, &rows, now).await?;
        } else if history {
            for some in rows.chunks(AT_ONCE) {
                let row = |(_, end): &(usize, &End<Option<String>>)| {
                    vec![end.address.number.into(), end.said.clone().into()]
                };
                let named = some.iter().map(row).collect();
                self.sql.done_later.ask().give(now.0).rows(named).run(&mut *conn).await?;
            }
        }
        self.drop_rows(conn, rows.iter().map(|(_, end)| end.address)).await
    }

    async fn retry(
        &self,
        conn: &mut MySqlConnection,
        shelf: Shelf,
        rows: &[End<Again>],
        now: Millis,
    ) -> Result<(), Fault> {
        let rows = ordered(rows);
        let sql = match shelf {
            Shelf::Hot => &self.sql.retry_hot,
            Shelf::Later => &self.sql.retry_later,
        };
        for some in rows.chunks(AT_ONCE) {
            let row = |(at, end): &(usize, &End<Again>)| {
                let Again { fence, due, attempts, trail } = &end.said;
                let mut row = key(shelf, end);
                if shelf == Shelf::Hot {
                    row.extend([(*attempts).into(), fence.0.into()]);
                }
                row.extend([due.0.into(), trail.clone().into()]);
                row.extend((shelf == Shelf::Hot).then(|| place(*at)));
                row
            };
            let named = some.iter().map(row).collect();
            sql.ask().give(now.0).rows(named).run(&mut *conn).await?;
        }
        match shelf {
            Shelf::Hot => self.drop_rows(conn, rows.iter().map(|(_, end)| end.address)).await,
            Shelf::Later => Ok(()),
        }
    }

    async fn dead(
        &self,
        conn: &mut MySqlConnection,
        shelf: Shelf,
        rows: &[End<(i32, String)>],
        now: Millis,
    ) -> Result<(), Fault> {
        let rows = ordered(rows);
        let sql = match shelf {
            Shelf::Hot => &self.sql.dead_hot,
            Shelf::Later => &self.sql.dead_later,
        };
        for some in rows.chunks(AT_ONCE) {
            let row = |(at, end): &(usize, &End<(i32, String)>)| {
                let mut row = key(shelf, end);
                row.extend([end.said.0.into(), end.said.1.clone().into(), place(*at)]);
                row
            };
            let named = some.iter().map(row).collect();
            sql.ask().give(now.0).rows(named).run(&mut *conn).await?;
        }
        self.drop_rows(conn, rows.iter().map(|(_, end)| end.address)).await
    }

    async fn release(
        &self,
        conn: &mut MySqlConnection,
        rows: &[(i64, Millis)],
    ) -> Result<(), Fault> {
        let mut ordered = rows.to_vec();
        ordered.sort_unstable();
        for some in ordered.chunks(AT_ONCE) {
            let named = some.iter().map(|(number, due)| vec![(*number).into(), due.0.into()]);
            self.sql.release_later.ask().rows(named.collect()).run(&mut *conn).await?;
        }
        Ok(())
    }

    async fn lapse(
        &self,
        conn: &mut MySqlConnection,
        rows: &[(u16, i64)],
        now: Millis,
    ) -> Result<(), Fault> {
        let mut ordered: Vec<(i64, u16)> = rows.iter().map(|(shard, seq)| (*seq, *shard)).collect();
        ordered.sort_unstable();
        let key = |(seq, shard): &(i64, u16)| vec![(*seq).into(), (*shard).into()];
        for some in ordered.chunks(AT_ONCE) {
            let named = some.iter().map(key).collect();
            self.sql.lapse.ask().give(now.0).rows(named).run(&mut *conn).await?;
        }
        let address = |(number, shard)| Address { shelf: Shelf::Hot, shard, number };
        self.drop_rows(conn, ordered.into_iter().map(address)).await
    }

    async fn lapse_later(
        &self,
        conn: &mut MySqlConnection,
        shards: &[u16],
        now: Millis,
    ) -> Result<(), Fault> {
        self.make_due(conn, shards.iter().copied(), now, now).await
    }
}
