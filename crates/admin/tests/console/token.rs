//! The console behind a token.

use std::time::{Duration, Instant};

use crate::client::{Answer, Served, TOKEN, closed, open};

const BEARER: (&str, &str) = ("authorization", "Bearer a-canary-as-token");

async fn login(console: &Served, token: &str) -> Answer {
    let origin = format!("http://{}", console.address);
    let body = format!("token={token}&next=%2Fdead");
    console.ask("POST", "/login", &[("origin", &origin)], &body).await
}

fn cookie(answer: &Answer) -> String {
    let line = answer.header("set-cookie").unwrap();
    line.split(';').next().unwrap().to_string()
}

#[tokio::test]
async fn without_the_token_only_health_and_the_login_are_open() {
    let console = closed().await;
    console.dead(1);
    assert_eq!(console.get("/livez").await.status, 200);
    assert_eq!(console.get("/readyz").await.status, 200);
    assert!(console.get("/login").await.body.contains("id=\"login\""));
    for path in ["/api/v1/outboxes", "/metrics", "/live", "/api/v1/export?outbox=orders"] {
        let answer = console.get(path).await;
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert!(!answer.body.contains("OrderPaid"));
    }
    for path in ["/", "/events?status=DEAD", "/dead", "/explain"] {
        let answer = console.get(path).await;
        assert_eq!(answer.status, 303, "{path}");
        assert!(answer.header("location").unwrap().starts_with("/login?next=%2F"));
    }
    let nowhere = console.get("/nowhere").await;
    assert!(nowhere.status == 404 && !nowhere.body.contains("id=\"nav-events\""));
    assert_eq!(console.post("/api/v1/requeue", "{}").await.status, 401);
    assert_eq!(console.still_dead(), 1);
}

#[tokio::test]
async fn a_program_with_the_token_may_read_and_change() {
    let console = closed().await;
    let ids = console.dead(1);
    for path in ["/api/v1/outboxes", "/metrics", "/events"] {
        assert_eq!(console.ask("GET", path, &[BEARER], "").await.status, 200, "{path}");
    }
    let body = format!(r#"{{"outbox": "orders", "ids": ["{}"]}}"#, ids[0]);
    let foreign = [BEARER, ("origin", "http://evil.example")];
    assert_eq!(console.ask("POST", "/api/v1/requeue", &foreign, &body).await.status, 403);
    assert_eq!(console.still_dead(), 1);
    assert_eq!(console.ask("POST", "/api/v1/requeue", &[BEARER], &body).await.status, 200);
    assert_eq!(console.still_dead(), 0);
}

#[tokio::test]
async fn the_login_opens_a_session_that_scripts_cannot_read() {
    let console = closed().await;
    let answer = login(&console, TOKEN).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/dead")));
    let line = answer.header("set-cookie").unwrap();
    assert!(line.contains("HttpOnly") && line.contains("SameSite=Strict"), "{line}");
    assert!(!line.contains(TOKEN));
    let cookie = cookie(&answer);
    let page = console.ask("GET", "/dead", &[("cookie", &cookie)], "").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("id=\"logout\""));
    assert!(!page.body.contains(TOKEN));
    let nowhere = console.ask("GET", "/nowhere", &[("cookie", &cookie)], "").await;
    assert!(nowhere.status == 404 && nowhere.body.contains("id=\"logout\""));
    let forged = cookie.replace('.', ".A");
    assert_eq!(console.ask("GET", "/dead", &[("cookie", &forged)], "").await.status, 303);
}

#[tokio::test]
async fn a_form_value_of_one_session_does_not_open_another() {
    let console = closed().await;
    let ids = console.dead(1);
    let cookie = cookie(&login(&console, TOKEN).await);
    let path = format!("/dead/requeue?outbox=orders&pick={}", ids[0]);
    let page = console.ask("GET", &path, &[("cookie", &cookie)], "").await;
    let value = page.body.split("name=\"form\" value=\"").nth(1).unwrap();
    let value = value.split('"').next().unwrap();
    let origin = format!("http://{}", console.address);
    let body = format!("outbox=orders&pick={}&form={value}", ids[0]);
    let stranger = open().await;
    stranger.dead(1);
    let there = format!("http://{}", stranger.address);
    let other = stranger.ask("POST", "/dead/requeue", &[("origin", &there)], &body).await;
    assert_eq!(other.status, 403);
    let headers = [("origin", origin.as_str()), ("cookie", &cookie)];
    assert_eq!(console.ask("POST", "/dead/requeue", &headers, &body).await.status, 200);
    assert_eq!(console.still_dead(), 0);
}

#[tokio::test]
async fn guessing_is_slowed_down_and_never_shuts_out_who_has_the_token() {
    let console = closed().await;
    let answer = login(&console, "guess").await;
    assert_eq!(answer.status, 401);
    assert!(answer.body.contains("id=\"login-error\""));
    for _ in 0..9 {
        assert_eq!(login(&console, "guess").await.status, 401);
    }
    let asked = Instant::now();
    let answer = login(&console, "guess").await;
    assert_eq!(answer.status, 429);
    assert!(answer.header("retry-after").is_some());
    assert!(asked.elapsed() >= Duration::from_millis(500), "a guess too many waits");
    let wrong = ("authorization", "Bearer guess");
    assert_eq!(console.ask("GET", "/metrics", &[wrong], "").await.status, 429);
    assert_eq!(console.ask("GET", "/metrics", &[BEARER], "").await.status, 200);
    assert_eq!(login(&console, TOKEN).await.status, 303);
}
