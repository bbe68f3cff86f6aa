//! Each promise, broken once, is found and counted under its own name and no other.

use super::*;

/// Two relays, r1 and r2, have published four events of two keys; the third came twice.
fn good() -> Facts {
    let put = |id: &str, key: &str| Put { id: id.into(), key: Some(key.into()) };
    let came = |id: &str, by: &str, receipt: usize| {
        let (id, by) = (id.into(), by.into());
        Came { id, by, receipt: receipt.to_string(), whole: true }
    };
    let sent = |id: &str, receipt: &str| Sent { id: id.into(), receipt: Some(receipt.into()) };
    let change = |id: &str, relay: &str, owner: &str| {
        let (id, relay) = (Some(id.into()), Some(relay.into()));
        Change { id, relay, owner: owner.into() }
    };
    Facts {
        put: vec![put("a1", "a"), put("b1", "b"), put("a2", "a"), put("a3", "a")],
        sold: ["a1", "b1", "a2", "a3"].map(str::to_owned).into(),
        came: vec![
            came("a1", "r1", 0),
            came("a2", "r1", 1),
            came("a2", "r2", 2),
            came("b1", "r2", 3),
            came("a3", "r2", 4),
        ],
        sent: vec![sent("a1", "0"), sent("a2", "2"), sent("b1", "3"), sent("a3", "4")],
        left: Vec::new(),
        counted: 4,
        changes: vec![
            change("a1", "r1", "x"),
            change("a2", "r2", "y"),
            change("b1", "r2", "y"),
            change("a3", "r2", "y"),
        ],
        waits: Some(Vec::new()),
        calm: false,
        ordered: true,
    }
}

fn broken(facts: &Facts) -> Vec<(&'static str, usize)> {
    let found = facts.findings().into_iter();
    found.filter_map(|it| Some((it.name, it.count.filter(|count| *count > 0)?))).collect()
}

#[test]
fn kept_promises_are_found_kept() {
    assert_eq!(broken(&good()), []);
    assert_eq!(good().twice(), 1);
}

#[test]
fn each_broken_promise_is_found_by_name() {
    type Break = fn(&mut Facts);
    let cases: [(&str, Break); 12] = [
        ("lost", |it| {
            it.came.remove(3);
            it.sent[2].receipt = Some("4".into());
        }),
        ("phantom", |it| it.came[1].whole = false),
        ("phantom", |it| {
            it.sold.remove("b1");
        }),
        ("out of order", |it| {
            it.came.swap(0, 1);
            it.came.remove(2);
            it.sent[1].receipt = Some("1".into());
            it.changes[1] =
                Change { relay: Some("r1".into()), owner: "x".into(), ..it.changes[1].clone() };
        }),
        ("left", |it| it.left = vec!["a row".into()]),
        ("missent", |it| {
            it.sent.pop();
        }),
        ("missent", |it| it.sent.push(it.sent[0].clone())),
        ("unproven", |it| it.sent[0].receipt = None),
        ("miscounted", |it| it.counted = 5),
        ("stale writes", |it| it.changes[0].relay = Some("r2".into())),
        ("waits", |it| it.waits = Some(vec!["an INSERT".into()])),
        ("twice", |it| it.calm = true),
    ];
    for (name, spoil) in cases {
        let mut facts = good();
        spoil(&mut facts);
        let names: Vec<_> = broken(&facts).into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&name), "{name} was broken, and found: {names:?}");
        let found = facts.findings().into_iter().find(|it| it.name == name);
        let told = found.map(|it| it.facts).unwrap_or_default();
        assert!(!told.is_empty(), "{name} was broken, and nothing is told of it");
    }
}

#[test]
fn a_row_that_a_stale_relay_settled_is_told_by_its_receipt_alone() {
    let mut facts = good();
    facts.changes.iter_mut().for_each(|change| change.relay = None);
    assert_eq!(broken(&facts), []);
    facts.sent[1].receipt = Some("1".into());
    assert_eq!(broken(&facts), [("stale writes", 1)]);
}

#[test]
fn order_is_asked_for_only_where_it_is_promised() {
    let mut facts = good();
    facts.came.swap(0, 4);
    assert_eq!(broken(&facts), [("out of order", 2)]);
    facts.ordered = false;
    assert_eq!(broken(&facts), []);
}
