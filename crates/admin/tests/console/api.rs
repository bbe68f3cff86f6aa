//! The JSON API.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use event::{
    Beat, Cause, Code, Durability, Event, Finding, Gauge, Grade, LaneState, LaneView, Level,
    Payload, SinkView, Status,
};
use serde_json::{Value, json};

use crate::client::open;
use crate::fake::listed;

#[tokio::test]
async fn outboxes_and_pulse_show_what_the_seams_say() {
    let console = open().await;
    console.dead(3);
    let beat = Beat { second: 7, sent: 5, retried: 1, dead: 1, pending: 9 };
    console.relay.beats.lock().unwrap().push(beat);
    console.relay.lanes.lock().unwrap().push(LaneView {
        outbox: "orders".into(),
        sink: "stock".into(),
        state: LaneState::Resting,
        cause: Some(Cause::new(Code::SinkDown, "refused")),
    });
    let lag = Level { gauge: Gauge::Lag, topic: "t".into(), group: "g".into(), value: 7.0 };
    console.relay.sinks.lock().unwrap().push(SinkView {
        sink: "stock".into(),
        durability: Some(Durability::Replicated),
        levels: vec![lag],
        findings: vec![Finding::new(Grade::Bad, "copies", "no slave is there")],
        cause: None,
    });
    let outboxes = console.get("/api/v1/outboxes").await.json();
    assert_eq!(outboxes["outboxes"][0]["name"], "orders");
    assert_eq!(outboxes["outboxes"][0]["counts"]["dead"], 3);
    assert_eq!(outboxes["outboxes"][0]["counts"]["committed"], 3);
    let pulse = console.get("/api/v1/pulse").await.json();
    assert_eq!(
        pulse["beats"],
        json!([{"second": 7, "sent": 5, "retried": 1, "dead": 1, "pending": 9}])
    );
    assert_eq!(pulse["lanes"][0]["state"], "resting");
    assert_eq!(pulse["lanes"][0]["cause"]["code"], "sink-down");
    assert_eq!(pulse["sinks"][0]["durability"], "replicated");
    let level = json!({"gauge": "lag", "topic": "t", "group": "g", "value": 7.0});
    assert_eq!(pulse["sinks"][0]["levels"], json!([level]));
    let finding = json!({"grade": "bad", "what": "copies", "detail": "no slave is there"});
    assert_eq!(pulse["sinks"][0]["findings"], json!([finding]));
}

#[tokio::test]
async fn metrics_and_health_answer_plainly() {
    let console = open().await;
    let metrics = console.get("/metrics").await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(metrics.body.contains("postbox_sent_total 42"));
    assert_eq!(console.get("/livez").await.status, 200);
    assert_eq!(console.get("/readyz").await.status, 200);
    console.ready.store(false, Ordering::Relaxed);
    let unready = console.get("/readyz").await;
    assert_eq!((unready.status, &*unready.body), (503, "not ready: orders: store-down\n"));
    assert_eq!(console.get("/livez").await.status, 200);
}

#[tokio::test]
async fn pages_of_a_listing_hold_every_event_once() {
    let console = open().await;
    let ids = console.dead(23);
    let mut seen = Vec::new();
    let mut path = "/api/v1/events?outbox=orders&status=DEAD&limit=5".to_string();
    loop {
        let page = console.get(&path).await.json();
        let events = page["events"].as_array().unwrap();
        assert!(events.len() <= 5);
        seen.extend(events.iter().map(|event| event["id"].as_str().unwrap().to_string()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/events?outbox=orders&status=DEAD&limit=5&after={next}");
    }
    seen.reverse();
    assert_eq!(seen, ids, "newest first, each once");
}

#[tokio::test]
async fn a_search_that_stops_early_says_how_far_it_came_and_goes_on() {
    let console = open().await;
    let mail = listed(Event::new("mail.due", "MailDue", ""), Status::Sent, None);
    let id = mail.event.id.to_string();
    console.orders.rows.lock().unwrap().push(mail);
    console.dead(9);
    console.orders.reach.store(5, Ordering::Relaxed);
    let path = "/api/v1/events?outbox=orders&topic=mail.due";
    let page = console.get(path).await.json();
    assert_eq!(page["events"], json!([]), "the newest five are others");
    let reached = console.orders.rows.lock().unwrap()[5].event.created;
    assert_eq!(page["searched_to"], json!(reached.to_string()));
    let next = page["next"].as_str().expect("the search is not at its end");
    let page = console.get(&format!("{path}&after={next}")).await.json();
    assert_eq!(page["events"][0]["id"], json!(id));
    assert_eq!((&page["next"], &page["searched_to"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn an_id_that_stands_in_two_rows_is_shown_with_both() {
    let console = open().await;
    let id = console.dead(1).remove(0);
    let mut again = console.orders.rows.lock().unwrap()[0].clone();
    again.status = Status::Sent;
    console.orders.rows.lock().unwrap().push(again);
    let event = console.get(&format!("/api/v1/events/{id}")).await.json();
    assert_eq!(event["status"], "SENT", "the newest row comes first");
    assert_eq!(event["others"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&event["others"][0]["id"], &event["others"][0]["status"]),
        (&json!(id), &json!("DEAD"))
    );
    let body = json!({"outbox": "orders", "ids": [id], "dry_run": true});
    let told = console.post("/api/v1/requeue", &body.to_string()).await.json();
    assert_eq!(told["requeued"], json!([id]), "one of its rows is dead");
}

#[tokio::test]
async fn a_search_that_cannot_be_understood_is_refused() {
    let console = open().await;
    for query in ["outbox=orders&id=12", "outbox=orders&status=LOST", "outbox=orders&topik=x"] {
        let answer = console.get(&format!("/api/v1/events?{query}")).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (400, Some("bad-request")));
    }
    assert_eq!(console.get("/api/v1/events").await.status, 400, "there are two outboxes");
    assert_eq!(console.get("/api/v1/events?outbox=nowhere").await.status, 404);
    assert_eq!(console.get("/api/v1/events/not-an-id").await.status, 404);
}

#[tokio::test]
async fn a_dry_run_tells_what_a_requeue_would_do_and_changes_nothing() {
    let console = open().await;
    let ids = console.dead(4);
    console.orders.rows.lock().unwrap()[0].status = Status::Sent;
    let body = json!({"outbox": "orders", "ids": [ids[0], ids[1]], "dry_run": true});
    let told = console.post("/api/v1/requeue", &body.to_string()).await.json();
    assert_eq!(told["requeued"], json!([ids[1]]));
    assert_eq!(told["skipped"], json!([ids[0]]));
    assert_eq!((told["dry_run"].as_bool(), console.still_dead()), (Some(true), 3));
    let body = json!({"outbox": "orders", "ids": [ids[0], ids[1]]});
    let done = console.post("/api/v1/requeue", &body.to_string()).await.json();
    assert_eq!((&done["requeued"], &done["skipped"]), (&told["requeued"], &told["skipped"]));
    assert_eq!((done["dry_run"].as_bool(), console.still_dead()), (Some(false), 2));
}

#[tokio::test]
async fn a_filter_is_requeued_up_to_the_limit_and_the_rest_is_told() {
    let console = open().await;
    console.dead(5);
    let ask = |limit: usize, dry_run: bool| {
        let filter = json!({"topic": "order.paid", "code": "sink-refused"});
        json!({"outbox": "orders", "filter": filter, "limit": limit, "dry_run": dry_run})
    };
    let told = console.post("/api/v1/requeue", &ask(2, true).to_string()).await.json();
    assert_eq!((told["requeued"].as_array().unwrap().len(), &told["more"]), (2, &json!(true)));
    assert_eq!(console.still_dead(), 5);
    let done = console.post("/api/v1/requeue", &ask(2, false).to_string()).await.json();
    assert_eq!((done["requeued"].as_array().unwrap().len(), &done["more"]), (2, &json!(true)));
    assert_eq!(console.still_dead(), 3);
    let counts = console.get("/api/v1/outboxes").await.json();
    assert_eq!(counts["outboxes"][0]["counts"]["dead"], 3);
    let done = console.post("/api/v1/requeue", &ask(100, false).to_string()).await.json();
    assert_eq!((done["requeued"].as_array().unwrap().len(), &done["more"]), (3, &json!(false)));
    let counts = console.get("/api/v1/outboxes").await.json();
    assert_eq!(counts["outboxes"][0]["counts"]["dead"], 0, "the counts are fresh at once");
}

#[tokio::test]
async fn a_dry_run_that_stops_counting_says_at_least() {
    let console = open().await;
    console.dead(1_003);
    let ask = async |limit: usize| {
        let body = json!({"outbox": "orders", "filter": {}, "limit": limit, "dry_run": true});
        let told = console.post("/api/v1/requeue", &body.to_string()).await.json();
        let count = told["requeued"].as_array().unwrap().len();
        (count, told["at_least"].as_bool().unwrap(), told["more"].as_bool().unwrap())
    };
    assert_eq!(ask(5_000).await, (1_000, true, false));
    assert_eq!(ask(1_000).await, (1_000, false, true));
    console.orders.rows.lock().unwrap().truncate(1_000);
    assert_eq!(ask(5_000).await, (1_000, false, false));
    console.orders.reach.store(10, Ordering::Relaxed);
    assert_eq!(ask(5_000).await, (200, true, false), "it does not search for ever");
}

#[tokio::test]
async fn a_misspelt_or_empty_requeue_changes_nothing() {
    let console = open().await;
    console.dead(2);
    for body in [
        r#"{"outbox": "orders"}"#,
        r#"{"outbox": "orders", "filter": {"topik": "x"}}"#,
        r#"{"outbox": "orders", "filters": {}}"#,
        r#"{"outbox": "orders", "filter": {"status": "SENT"}}"#,
        r#"{"outbox": "orders", "ids": ["12"]}"#,
        r#"{"outbox": "orders", "filter": {}, "limit": 0}"#,
        r#"{"filter": {}}"#,
        "not json",
        "",
    ] {
        let answer = console.post("/api/v1/requeue", body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.json()["detail"].is_string());
    }
    assert_eq!(console.still_dead(), 2);
}

#[tokio::test]
async fn a_payload_is_handed_out_as_plain_text_to_keep() {
    let console = open().await;
    let evil = "<script>alert('canary')</script>";
    let text = listed(Event::new("t", "T", evil), Status::Sent, None);
    let mut bytes = listed(Event::new("t", "T", ""), Status::Sent, None);
    bytes.event.payload = Payload::Bytes(bytes::Bytes::from_static(b"\x00\x01"));
    let (id, binary) = (text.event.id, bytes.event.id);
    console.stock.rows.lock().unwrap().extend([text, bytes]);
    let answer = console.get(&format!("/api/v1/events/{id}/payload")).await;
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(answer.header("content-disposition").unwrap().starts_with("attachment"));
    assert_eq!(answer.body, evil);
    let answer = console.get(&format!("/api/v1/events/{binary}/payload?outbox=stock")).await;
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert_eq!(answer.body.as_bytes(), b"\x00\x01");
    let shown = console.get(&format!("/api/v1/events/{id}")).await;
    assert!(!shown.body.contains("canary"), "an event is shown without its payload");
}

#[tokio::test]
async fn an_export_holds_every_dead_event_and_payloads_only_when_asked() {
    let console = open().await;
    let ids = console.dead(60);
    let path = "/api/v1/export?outbox=orders&status=DEAD";
    let answer = console.get(path).await;
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> =
        answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: BTreeSet<&str> = lines.iter().filter_map(|line| line["id"].as_str()).collect();
    assert_eq!((lines.len(), found.len(), ids.len()), (60, 60, 60));
    assert!(lines[0].get("payload").is_none());
    let answer = console.get(&format!("{path}&payloads=true")).await;
    assert_eq!(answer.body.lines().count(), 60);
    let line: Value = serde_json::from_str(answer.body.lines().next().unwrap()).unwrap();
    assert_eq!(line["payload"], "{}");
}

#[tokio::test]
async fn a_store_that_is_down_is_a_problem_with_a_code_and_no_secret() {
    let console = open().await;
    console.orders.down.store(true, Ordering::Relaxed);
    for path in ["/api/v1/events?outbox=orders", "/api/v1/export?outbox=orders"] {
        let answer = console.get(path).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("store-down")));
        assert!(answer.header("retry-after").is_some());
        assert!(!answer.body.contains("canary"));
    }
    let outboxes = console.get("/api/v1/outboxes").await.json();
    assert_eq!(outboxes["outboxes"][0]["problem"]["code"], "store-down");
    assert_eq!(outboxes["outboxes"][1]["counts"]["new"], 0, "the other outbox still answers");
    let answer = console.post("/api/v1/requeue", r#"{"outbox": "orders", "filter": {}}"#).await;
    assert_eq!(answer.status, 503);
}

#[tokio::test]
async fn the_description_names_every_route_of_the_api_and_nothing_else() {
    let console = open().await;
    let id = console.dead(1).remove(0);
    let served = console.get("/api/v1/openapi.json").await;
    let description: Value = serde_json::from_str(&postbox_admin::openapi()).unwrap();
    assert_eq!(served.json(), description);
    assert!(description["openapi"].as_str().unwrap().starts_with("3."));
    let paths: BTreeSet<&str> =
        description["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let routes = [
        "/api/v1/events",
        "/api/v1/events/{id}",
        "/api/v1/events/{id}/payload",
        "/api/v1/export",
        "/api/v1/outboxes",
        "/api/v1/pulse",
        "/api/v1/requeue",
    ];
    assert_eq!(paths, BTreeSet::from(routes));
    let schemas = description["components"]["schemas"].to_string();
    for field in ["searched_to", "others", "at_least", "exact"] {
        assert!(schemas.contains(&format!("\"{field}\":")), "{field} is described");
    }
    for path in routes {
        let status = console.get(&path.replace("{id}", &id)).await.status;
        assert_ne!(status, 404, "{path} is served");
    }
}
