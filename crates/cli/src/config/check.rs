//! Relations between values: what each section allows by itself, but not together.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use broker::stdout::Stdout;
use store::{Home, Strategy};

use super::duration;
use super::place::{At, Place, Problems};
use super::sealed::Url;
use super::written::{Outbox, Route, Sink, Written};
use crate::nearest::suggestion;

/// Adds a problem for every relation that does not hold.
pub(crate) fn check(written: &Written, file: &Place, problems: &mut Problems) {
    if written.outboxes.is_empty() {
        problems.add(file, "there is no outbox: add [outbox.NAME] with its `url`");
    }
    if written.routes.is_empty() {
        problems.add(file, "there is no route: add [[route]] with a `topic` and a `sink`");
    }
    for outbox in &written.outboxes {
        check_outbox(outbox, problems);
    }
    check_twins(&written.outboxes, problems);
    for route in &written.routes {
        check_route(route, written, problems);
    }
    check_patience(written, problems);
    check_admin(written, problems);
}

fn at_least_one(key: &str, title: &str, value: &Option<At<usize>>, problems: &mut Problems) {
    if let Some(At { value: 0, place }) = value {
        problems.add(place, format!("`{key}` in {title} must be at least 1"));
    }
}

fn not_zero(key: &str, title: &str, value: &Option<At<Duration>>, problems: &mut Problems) {
    if let Some(At { value: Duration::ZERO, place }) = value {
        problems.add(place, format!("`{key}` in {title} must be longer than 0s"));
    }
}

fn check_outbox(outbox: &Outbox, problems: &mut Problems) {
    let title = format!("[outbox.{}]", outbox.section);
    at_least_one("batch", &title, &outbox.batch, problems);
    at_least_one("bytes", &title, &outbox.bytes, problems);
    at_least_one("turns", &title, &outbox.turns, problems);
    not_zero("idle", &title, &outbox.idle, problems);
    if let Some(At { value, place }) = &outbox.table
        && let Err(error) = store::check_table(value)
    {
        problems.add(place, format!("`table` in {title}: {}", error.cause().detail));
    }
    if let Some(At { value, place }) = &outbox.lease
        && *value < Duration::from_secs(1)
    {
        problems.add(place, format!("`lease` in {title} must be at least 1s"));
    }
    if let (Some(idle), Some(lease)) = (&outbox.idle, &outbox.lease)
        && idle.value >= lease.value
    {
        let text = format!("`idle` in {title} must be shorter than its lease");
        problems.add(
            idle.place.or(&lease.place),
            format!("{text}, which is {}", duration::text(lease.value)),
        );
    }
    let competes =
        |at: &&At<&'static str>| Strategy::named(at.value).is_some_and(Strategy::competes);
    if let (Some(strategy), Some(order)) =
        (outbox.strategy.as_ref().filter(competes), &outbox.order)
        && order.value == "hold"
    {
        let name = strategy.value;
        let text = format!(
            "`strategy` in {title} is {name}, with which no order per key is kept: set `order` to \
             \"pass\", or take own"
        );
        problems.add(strategy.place.or(&order.place), text);
    }
    if let (Some(At { value: true, place }), Some(connections)) =
        (&outbox.listen, &outbox.connections)
        && connections.value < 3
    {
        let text = format!("`connections` in {title} must be at least 3: one of them listens");
        problems.add(connections.place.or(place), text);
    }
    if let (Some(sent), Some(inbox)) = (&outbox.keep_sent, &outbox.keep_inbox)
        && inbox.value < sent.value
    {
        let text = format!(
            "`keep_inbox` in {title} is {}, shorter than keep_sent, {}: an event that is published \
             again would be taken in twice; keep the inbox at least as long",
            duration::text(inbox.value),
            duration::text(sent.value),
        );
        problems.add(inbox.place.or(&sent.place), text);
    }
}

fn check_twins(outboxes: &[Outbox], problems: &mut Problems) {
    let key = |outbox: &Outbox| {
        let url = Url::read(&outbox.url.as_ref()?.value).ok()?;
        let home = match store::home(url.reveal()).ok()? {
            Home::File(file) => Home::File(one_spelling(&file)),
            server => server,
        };
        // Databases know tables without case.
        Some((home, outbox.table.as_ref()?.value.to_ascii_lowercase()))
    };
    let (mut names, mut tables) = (HashMap::new(), HashMap::new());
    for outbox in outboxes {
        if let Some(other) = names.insert(&outbox.name, &outbox.section) {
            let (name, a) = (&outbox.name, &outbox.section);
            let text = format!("[outbox.{a}] and [outbox.{other}] both make an outbox `{name}`");
            problems.add(&outbox.head.place, format!("{text}; rename one"));
        }
        let Some(key) = key(outbox) else { continue };
        if let Some(twin) = tables.insert(key, &outbox.name) {
            let text = format!(
                "[outbox.{}] and [outbox.{twin}] are the same table; remove one",
                outbox.name
            );
            problems.add(&outbox.head.place, text);
        }
    }
}

/// Returns the same path for every spelling of a file, as far as its folders are there.
fn one_spelling(file: &Path) -> PathBuf {
    let in_folder = || {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(file.file_name()?))
    };
    let there = file.canonicalize().ok().or_else(in_folder);
    there.or_else(|| std::path::absolute(file).ok()).unwrap_or_else(|| file.to_owned())
}

fn check_route(route: &Route, written: &Written, problems: &mut Problems) {
    if let Some(At { value, place }) = &route.outbox
        && !written.outboxes.iter().any(|outbox| outbox.name == *value)
    {
        let near = suggestion(value, written.outboxes.iter().map(|outbox| &*outbox.name));
        problems.add(place, format!("[[route]] names the unknown outbox `{value}`{near}"));
    }
    let Some(At { value, place }) = &route.sink else { return };
    let Some(sink) = written.sinks.iter().find(|sink| sink.name == *value) else {
        let near = suggestion(value, written.sinks.iter().map(|sink| &*sink.name));
        problems.add(place, format!("[[route]] names the unknown sink `{value}`{near}"));
        return;
    };
    for outbox in &written.outboxes {
        if route.outbox.as_ref().is_none_or(|at| at.value == outbox.name) {
            for (key, time) in [("lease", &outbox.lease), ("drain", &outbox.drain)] {
                check_longer_than_publish(key, time, outbox, sink, problems);
            }
        }
    }
}

/// Checks that a publish ends while it is still waited for. One offers for as long as its timeout,
/// and what it offered last may take as long again.
fn check_longer_than_publish(
    key: &str,
    time: &Option<At<Duration>>,
    outbox: &Outbox,
    sink: &Sink,
    problems: &mut Problems,
) {
    let Some(time) = time else { return };
    let (outbox, name) = (&outbox.name, &sink.name);
    match (sink.kind.as_ref().map(|kind| kind.value), &sink.timeout) {
        (Some("stdout"), _) if time.value <= Stdout::LONGEST => {
            let text = format!(
                "`{key}` in [outbox.{outbox}] is {}; it must be longer than {}, which \
                 [sink.{name}] may take to print",
                duration::text(time.value),
                duration::text(Stdout::LONGEST),
            );
            problems.add(&time.place, text);
        }
        (Some("stdout") | None, _) | (_, None) => {}
        (Some(_), Some(timeout)) if timeout.value >= time.value / 2 => {
            let text = format!(
                "`timeout` in [sink.{name}] is {}; it must be shorter than half the {key} of \
                 [outbox.{outbox}], {}: shorten it, or lengthen the {key}",
                duration::text(timeout.value),
                duration::text(time.value / 2),
            );
            problems.add(timeout.place.or(&time.place), text);
        }
        _ => {}
    }
}

fn check_patience(written: &Written, problems: &mut Problems) {
    let policy = &written.policy;
    at_least_one("attempts", "[policy]", &policy.attempts, problems);
    not_zero("rest", "[policy]", &policy.rest, problems);
    at_least_one("step", "[chores]", &written.chores.step, problems);
    not_zero("every", "[chores]", &written.chores.every, problems);
    not_zero("lease", "[chores]", &written.chores.lease, problems);
    let all = written.limits.iter().map(|limit| (&limit.backoff, &limit.backoff_cap));
    let usual = (&policy.backoff, &policy.backoff_cap);
    for (base, cap) in all.chain([usual]) {
        let (Some(first), Some(longest)) =
            (base.as_ref().or(usual.0.as_ref()), cap.as_ref().or(usual.1.as_ref()))
        else {
            continue;
        };
        if first.value > longest.value {
            let (a, b) = (duration::text(first.value), duration::text(longest.value));
            let place = if base.is_some() { &first.place } else { &longest.place };
            let place = place.or(&first.place).or(&longest.place);
            problems.add(place, format!("`backoff` is {a}, longer than `backoff_cap`, {b}"));
        }
    }
    for limit in &written.limits {
        at_least_one("attempts", "[[limit]]", &limit.attempts, problems);
        if limit.topic.is_none() && limit.kind.is_none() {
            let text = "[[limit]] names no events: give it a `topic`, a `type`, or both";
            problems.add(&limit.head.place, text);
        }
    }
}

fn check_admin(written: &Written, problems: &mut Problems) {
    let admin = &written.admin;
    not_zero("sample", "[admin]", &admin.sample, problems);
    let off = admin.off.as_ref().is_some_and(|off| off.value);
    let Some(At { value, place }) = admin.listen.as_ref().filter(|_| !off) else { return };
    let Ok(listen) = value.parse::<SocketAddr>() else { return };
    let given = admin.token.as_ref().is_some_and(|token| !token.value.is_empty());
    if !listen.ip().is_loopback() && !given {
        let here = match listen.ip() {
            IpAddr::V4(_) => "127.0.0.1",
            IpAddr::V6(_) => "[::1]",
        };
        let text = format!(
            "[admin] listens on {listen}, which others can reach: set `token`, or listen on \
             {here}:{}",
            listen.port()
        );
        problems.add(place, text);
    }
}
