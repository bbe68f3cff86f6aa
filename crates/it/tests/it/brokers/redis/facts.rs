//! What the code relies on, and only the real server can tell.

use it::quay::Quay;
use it::quay::redis::{RedisQuay, shared};
use redis::{FromRedisValue, Value};

async fn ask<T: FromRedisValue>(quay: &RedisQuay, words: &[&str]) -> T {
    let mut asking = redis::Cmd::new();
    words.iter().for_each(|word| {
        asking.arg(word);
    });
    asking.query_async(&mut quay.client().await.unwrap()).await.unwrap()
}

/// Makes a group of which one consumer has an entry; returns the stream and the entry.
async fn held(quay: &RedisQuay) -> (String, String) {
    let stream = quay.topic("group").await.unwrap();
    let id: String = ask(quay, &["XADD", &stream, "*", "a", "b"]).await;
    let _: Value = ask(quay, &["XGROUP", "CREATE", &stream, "group", "0"]).await;
    let read = ["XREADGROUP", "GROUP", "group", "one", "STREAMS", &stream, ">"];
    let _: Value = ask(quay, &read).await;
    (stream, id)
}

async fn pending(quay: &RedisQuay, stream: &str) -> Vec<(String, String, u64, u64)> {
    ask(quay, &["XPENDING", stream, "group", "-", "+", "9"]).await
}

/// Why a feed looks whose an entry is before it ends it.
#[tokio::test]
async fn redis_takes_an_ack_from_anyone_in_the_group() {
    let quay = shared().await;
    let (stream, id) = held(&quay).await;
    let _: Value = ask(&quay, &["XCLAIM", &stream, "group", "two", "0", &id]).await;
    assert_eq!(pending(&quay, &stream).await[0].1, "two");
    let ended: u64 = ask(&quay, &["XACK", &stream, "group", &id]).await;
    assert_eq!((ended, pending(&quay, &stream).await.len()), (1, 0), "whoever asked");
}

/// Why a lease is renewed with JUSTID, and given back with IDLE.
#[tokio::test]
async fn a_claim_of_just_the_id_counts_no_delivery_and_sets_the_idle_time() {
    let quay = shared().await;
    let (stream, id) = held(&quay).await;
    for idle in ["60000", "0"] {
        let claim = ["XCLAIM", &stream, "group", "one", "0", &id, "IDLE", idle, "JUSTID"];
        let _: Value = ask(&quay, &claim).await;
        let (_, consumer, since, count) = pending(&quay, &stream).await.remove(0);
        assert_eq!((consumer.as_str(), count), ("one", 1));
        assert_eq!(since >= 60000, idle == "60000", "{since}");
    }
}

/// Why a consumer that has anything left is never deleted.
#[tokio::test]
async fn whatever_a_deleted_consumer_had_is_lost_to_its_group() {
    let quay = shared().await;
    let (stream, _) = held(&quay).await;
    let lost: u64 = ask(&quay, &["XGROUP", "DELCONSUMER", &stream, "group", "one"]).await;
    assert_eq!((lost, pending(&quay, &stream).await.len()), (1, 0));
    let claim = ["XAUTOCLAIM", &stream, "group", "two", "0", "0-0"];
    let (_, claimed, _): (String, Vec<Value>, Vec<Value>) = ask(&quay, &claim).await;
    assert!(claimed.is_empty(), "nobody gets it");
}

/// Why a look goes on where the last one ended, and asks for nothing without room.
#[tokio::test]
async fn a_take_over_sees_ten_times_as_many_as_it_may_take_and_never_takes_none() {
    let quay = shared().await;
    let (stream, _) = held(&quay).await;
    for _ in 1..10 {
        let _: Value = ask(&quay, &["XADD", &stream, "*", "a", "b"]).await;
    }
    let last: String = ask(&quay, &["XADD", &stream, "*", "a", "b"]).await;
    let read = ["XREADGROUP", "GROUP", "group", "one", "STREAMS", &stream, ">"];
    let _: Value = ask(&quay, &read).await;
    let idle = ["XCLAIM", &stream, "group", "one", "0", &last, "IDLE", "900000", "JUSTID"];
    let _: Value = ask(&quay, &idle).await;
    let mut from = "0-0".to_owned();
    for (next, count) in [(last.as_str(), 0), ("0-0", 1)] {
        let claim = ["XAUTOCLAIM", &stream, "group", "two", "600000", &from, "COUNT", "1"];
        let (cursor, came, _): (String, Vec<Value>, Vec<Value>) = ask(&quay, &claim).await;
        assert_eq!((cursor.as_str(), came.len()), (next, count));
        from = cursor;
    }
    let mut none = redis::cmd("XAUTOCLAIM");
    none.arg(&stream).arg("group").arg("two").arg(0).arg("0-0").arg("COUNT").arg(0);
    let refused = none.query_async::<Value>(&mut quay.client().await.unwrap()).await;
    refused.unwrap_err();
}
