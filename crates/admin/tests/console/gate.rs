//! What every request passes, and every answer carries.

use crate::client::open;

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                   connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

#[tokio::test]
async fn every_answer_carries_the_policy_and_no_data_is_kept() {
    let console = open().await;
    let id = &console.dead(1)[0];
    let event = format!("/events/{id}?outbox=orders");
    let payload = format!("/api/v1/events/{id}/payload");
    let paths = ["/", "/events", &event, "/dead", "/explain", "/explain/sink-down", "/nowhere"];
    let more = ["/livez", "/readyz", "/metrics", "/api/v1/outboxes", "/api/v1/nowhere", "/login"];
    let answers = ["/api/v1/openapi.json", "/api/v1/export?outbox=orders", &payload, "/dead?x=1"];
    for path in paths.into_iter().chain(more).chain(answers) {
        let answer = console.get(path).await;
        assert_eq!(answer.header("content-security-policy"), Some(CSP), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
    for refused in [
        console.ask("GET", "/", &[("host", "evil.example")], "").await,
        console.ask("POST", "/api/v1/requeue", &[], "{}").await,
        console.ask("DELETE", "/events", &[("origin", "http://evil.example")], "").await,
        console.post("/api/v1/outboxes", "").await,
    ] {
        assert!(refused.status >= 400);
        assert_eq!(refused.header("content-security-policy"), Some(CSP));
    }
}

#[tokio::test]
async fn a_foreign_host_name_is_turned_away() {
    let console = open().await;
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.1.2.3"] {
        let answer = console.ask("GET", "/api/v1/outboxes", &[("host", host)], "").await;
        assert_eq!(answer.status, 421, "{host}");
        assert_eq!(answer.json()["code"], "wrong-host");
    }
    let page = console.ask("GET", "/", &[("host", "evil.example")], "").await.body;
    assert!(page.contains("add it to `hosts` in the section [admin]"), "{page}");
    assert!(!page.contains("id=\"nav-events\""), "a foreign name sees a page of the inside");
    let port = console.address.port();
    let host = format!("host: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n");
    let absolute = format!("GET http://evil.example/api/v1/outboxes HTTP/1.1\r\n{host}");
    assert_eq!(console.raw(&absolute).await.status, 421);
    let localhost = format!("localhost:{port}");
    assert_eq!(console.ask("GET", "/", &[("host", &localhost)], "").await.status, 200);
}

#[tokio::test]
async fn a_change_from_another_site_is_refused() {
    let console = open().await;
    let ids = console.dead(1);
    let body = format!(r#"{{"outbox": "orders", "ids": ["{}"]}}"#, ids[0]);
    let own = format!("http://{}", console.address);
    let near = format!("http://127.0.0.1:{}", console.address.port() ^ 1);
    let attempts: [&[(&str, &str)]; 8] = [
        &[("x-postbox", "1")],
        &[("origin", "http://evil.example"), ("x-postbox", "1")],
        &[("origin", &near), ("x-postbox", "1")],
        &[("origin", "null"), ("x-postbox", "1")],
        &[("origin", "null"), ("sec-fetch-site", "cross-site"), ("x-postbox", "1")],
        &[("sec-fetch-site", "same-site"), ("x-postbox", "1")],
        &[("authorization", "Bearer x"), ("x-postbox", "1")],
        &[("origin", &own)],
    ];
    for headers in attempts {
        let answer = console.ask("POST", "/api/v1/requeue", headers, &body).await;
        assert_eq!(answer.status, 403, "{headers:?}");
        assert_eq!(answer.json()["code"], "forbidden");
        assert_eq!(console.still_dead(), 1, "{headers:?}");
    }
    let same = [("sec-fetch-site", "same-origin"), ("x-postbox", "1")];
    assert_eq!(console.ask("POST", "/api/v1/requeue", &same, &body).await.status, 200);
    assert_eq!(console.still_dead(), 0);
}

#[tokio::test]
async fn a_form_without_the_visitors_own_value_is_refused() {
    let console = open().await;
    let ids = console.dead(1);
    let origin = format!("http://{}", console.address);
    for value in ["", "form=", "form=guess"] {
        let body = format!("outbox=orders&pick={}&{value}", ids[0]);
        let answer = console.ask("POST", "/dead/requeue", &[("origin", &origin)], &body).await;
        assert_eq!(answer.status, 403, "{value}");
        assert!(answer.body.contains("id=\"problem\""), "a person sees a page");
    }
    assert_eq!(console.still_dead(), 1);
}

#[tokio::test]
async fn reading_never_changes_anything() {
    let console = open().await;
    let ids = console.dead(2);
    for path in [
        format!("/dead/requeue?outbox=orders&pick={}", ids[0]),
        "/dead/requeue?outbox=orders&all=true".to_string(),
        "/api/v1/requeue".to_string(),
        "/dead?outbox=orders".to_string(),
    ] {
        console.get(&path).await;
        console.ask("HEAD", &path, &[], "").await;
    }
    assert_eq!(console.still_dead(), 2);
}

#[tokio::test]
async fn a_body_beyond_64_kib_is_refused_however_it_is_announced() {
    let console = open().await;
    console.dead(1);
    let large = format!(r#"{{"outbox": "orders", "filter": {{"key": "{}"}}}}"#, "x".repeat(65536));
    let answer = console.post("/api/v1/requeue", &large).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (413, Some("too-large")));
    let origin = format!("http://{}", console.address);
    let headers =
        [("origin", origin.as_str()), ("x-postbox", "1"), ("transfer-encoding", "chunked")];
    let chunked = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let answer = console.ask("POST", "/api/v1/requeue", &headers, &chunked).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (413, Some("too-large")));
    assert_eq!(console.still_dead(), 1);
}
