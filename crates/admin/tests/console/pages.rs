//! The pages.

use std::sync::atomic::Ordering;

use event::{
    Cause, Code, Durability, EXPLANATIONS, Event, Finding, Gauge, Grade, Level, SinkView, Status,
};

use crate::client::{Answer, open};
use crate::fake::listed;

const SCRIPT: &str = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>";

fn is_page(answer: &Answer) -> bool {
    answer.header("content-type") == Some("text/html; charset=utf-8")
        && answer.body.starts_with("<!doctype html>")
        && answer.body.contains("<main id=\"main\"")
}

#[tokio::test]
async fn the_overview_shows_destinations_once_they_were_looked_at() {
    let console = open().await;
    assert!(
        console.get("/").await.body.contains("id=\"sinks\" aria-labelledby=\"sinks-title\" hidden")
    );
    let level = |gauge, value| Level { gauge, topic: "t".into(), group: "g".into(), value };
    let levels = vec![level(Gauge::Lag, 1200.0), level(Gauge::Lag, 34.0), level(Gauge::Disk, 0.9)];
    console.relay.sinks.lock().unwrap().extend([
        SinkView {
            sink: "stock".into(),
            durability: Some(Durability::Durable),
            levels,
            findings: vec![
                Finding::new(Grade::Bad, "copies", SCRIPT),
                Finding::new(Grade::Warn, SCRIPT, "is everysec"),
                Finding::new(Grade::Warn, "third", "as the test says"),
                Finding::new(Grade::Warn, "fourth", "as the test says"),
            ],
            cause: None,
        },
        SinkView {
            sink: SCRIPT.into(),
            durability: None,
            levels: Vec::new(),
            findings: Vec::new(),
            cause: Some(Cause::new(Code::SinkDown, SCRIPT)),
        },
    ]);
    let page = console.get("/").await.body;
    for shown in [
        "<td data-label=\"Durability\">durable</td>",
        "data-label=\"Lag\">1,234</td>",
        "<td class=\"num\" data-label=\"Dead there\">–</td>",
        "<td class=\"num bad-text\" data-label=\"Disk\">90 %</td>",
        "<td data-label=\"Durability\">unknown</td>",
        "<a href=\"/explain/sink-down\">",
        "<span class=\"pill bad\">copies</span>",
        "<span class=\"detail\">is everysec</span>",
        "<span class=\"pill warn\">third</span>",
        "and 1 more: <code>postbox doctor</code>",
        "data-shown=\"3\"",
    ] {
        assert!(page.contains(shown), "{shown}\n{page}");
    }
    assert!(!page.contains(SCRIPT) && !page.contains("fourth"));
}

#[tokio::test]
async fn the_url_holds_the_filter_and_the_form_shows_it_again() {
    let console = open().await;
    console.dead(2);
    let query = "outbox=orders&key=key-1&type=OrderPaid&topic=order.paid&status=DEAD&\
                 code=sink-refused";
    let page = console.get(&format!("/events?{query}")).await;
    assert_eq!(page.status, 200);
    assert_eq!(page.body.matches("data-event=").count(), 1);
    for shown in ["value=\"key-1\"", "value=\"OrderPaid\"", "value=\"order.paid\""] {
        assert!(page.body.contains(shown), "{shown}");
    }
    assert!(page.body.contains("<option selected>sink-refused</option>"));
    let retry = query.replace("status=DEAD", "status=RETRY").replace('&', "&#38;");
    assert!(page.body.contains(&format!("href=\"/events?{retry}\"")), "a status keeps the rest");
    let submitted = "/events?outbox=orders&id=&key=key-1&type=&topic=&code=";
    let answer = console.get(submitted).await;
    assert_eq!(answer.header("location"), Some("/events?outbox=orders&key=key-1"));
}

#[tokio::test]
async fn pages_are_turned_by_a_link_that_keeps_the_filter() {
    let console = open().await;
    let ids = console.dead(5);
    let page = console.get("/events?outbox=orders&status=DEAD&limit=3").await;
    assert!(page.body.contains(&ids[4]) && !page.body.contains(&ids[1]));
    let next = page.body.split("id=\"page-next\" rel=\"next\" href=\"").nth(1).unwrap();
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    assert!(next.starts_with("/events?outbox=orders&status=DEAD&limit=3&after="), "{next}");
    let page = console.get(&next).await;
    assert!(page.body.contains(&ids[1]) && !page.body.contains(&ids[4]));
    assert!(!page.body.contains("id=\"page-next\""));
    assert!(page.body.contains("id=\"page-first\""));
}

#[tokio::test]
async fn a_search_that_stops_early_says_how_far_it_came_and_leads_on() {
    let console = open().await;
    console.dead(9);
    console.orders.reach.store(5, Ordering::Relaxed);
    let reached = console.orders.rows.lock().unwrap()[4].event.created.to_string();
    for path in ["/events?topic=mail.due", "/dead?topic=mail.due"] {
        let page = console.get(path).await.body;
        assert!(page.contains("matches so far"), "{path}");
        let said = page.split("id=\"searched\"").nth(1).expect("it says how far it came");
        assert!(said.contains(&format!("datetime=\"{reached}\"")), "{path}: {said}");
        let next = said.split("id=\"page-next\" rel=\"next\" href=\"").nth(1).unwrap();
        assert!(next.split("</a>").next().unwrap().ends_with(">Go on"), "{next}");
        let next = next.split('"').next().unwrap().replace("&#38;", "&");
        let page = console.get(&next).await.body;
        assert!(page.contains("matches.") && !page.contains("id=\"searched\""), "{next}");
    }
    let whole = console.get("/events?status=DEAD&limit=3").await.body;
    assert!(whole.contains(">Older</a>") && !whole.contains("id=\"searched\""));
}

#[tokio::test]
async fn an_estimate_is_called_one() {
    for estimates in [false, true] {
        let console = open().await;
        console.dead(2);
        console.orders.estimates.store(estimates, Ordering::Relaxed);
        let overview = console.get("/").await.body;
        let called = |name| overview.matches(&format!("data-about=\"{name}\" >about ")).count();
        let wanted = if estimates { 2 } else { 0 };
        assert_eq!((called("dead"), called("new")), (wanted, 0), "nothing is no estimate");
        let events = console.get("/events").await.body;
        assert_eq!(events.contains("DEAD <span>about 2</span>"), estimates, "{events}");
    }
}

#[tokio::test]
async fn what_is_due_later_says_when() {
    let console = open().await;
    let mut row = listed(Event::new("t", "T", ""), Status::New, None);
    let event = format!("/events/{}", row.event.id);
    row.next_attempt = Some(row.event.created + std::time::Duration::from_secs(7_300));
    console.orders.rows.lock().unwrap().push(row);
    let page = console.get(&event).await.body;
    assert!(page.contains("Its time has not come.") && page.contains("in 2 h"), "{page}");
    console.orders.rows.lock().unwrap()[0].next_attempt = None;
    assert!(console.get(&event).await.body.contains("Due now"));
}

#[tokio::test]
async fn an_id_that_stands_in_two_rows_is_shown_with_both() {
    let console = open().await;
    let id = console.dead(1).remove(0);
    let event = format!("/events/{id}");
    assert!(!console.get(&event).await.body.contains("id=\"rows\""), "one row is the rule");
    let mut again = console.orders.rows.lock().unwrap()[0].clone();
    again.status = Status::Sent;
    console.orders.rows.lock().unwrap().push(again);
    let page = console.get(&event).await.body;
    assert!(page.contains("This id stands in 2 rows"));
    let rows = page.split("id=\"rows\"").nth(1).unwrap().split("</table>").next().unwrap();
    let at = |status: &str| rows.find(&format!("<tr data-status=\"{status}\"")).unwrap();
    assert!(at("SENT") < at("DEAD"), "newest first");
    assert!(page.contains("id=\"requeue-one\""), "one of them can be requeued");
}

#[tokio::test]
async fn a_wrong_field_is_told_on_the_page_itself() {
    let console = open().await;
    let page = console.get("/events?id=12").await;
    assert_eq!(page.status, 400);
    assert!(page.body.contains("id=\"field-error\"") && page.body.contains("value=\"12\""));
}

#[tokio::test]
async fn a_payload_is_on_no_page() {
    let console = open().await;
    let event = Event::new("t", "T", "{\"card\": \"canary\"}").header("authorization", "canary");
    let row = listed(event, Status::Dead, Some(Cause::new(Code::SinkRefused, "no")));
    let id = row.event.id;
    console.orders.rows.lock().unwrap().push(row);
    let event = format!("/events/{id}");
    for path in ["/", "/events", &event, "/dead", "/dead/requeue?outbox=orders&all=true"] {
        let page = console.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.body.contains("canary"), "{path}");
    }
    assert!(console.get(&event).await.body.contains("id=\"payload-show\""));
}

#[tokio::test]
async fn a_script_in_any_field_stays_text() {
    let console = open().await;
    let event = Event::new(SCRIPT, SCRIPT, SCRIPT).key(SCRIPT).header(SCRIPT, SCRIPT);
    let mut row = listed(event, Status::Dead, Some(Cause::new(Code::SinkRefused, SCRIPT)));
    row.broker_id = Some(SCRIPT.to_string());
    let event = format!("/events/{}", row.event.id);
    console.orders.rows.lock().unwrap().push(row);
    let typed = "/events?outbox=orders&key=%22%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E";
    let board = "/dead?outbox=orders&topic=%3Cscript%3E";
    let nowhere = "/%3Cscript%3E";
    for path in ["/events", "/dead", &event, typed, board, nowhere, "/explain/%3Cscript%3E"] {
        let page = console.get(path).await;
        assert!(is_page(&page), "{path}");
        assert!(!page.body.contains("<script>"), "{path}");
        assert!(!page.body.contains("<img"), "{path}");
    }
    assert!(console.get(&event).await.body.contains("&#60;script&#62;"));
}

#[tokio::test]
async fn pages_bring_no_inline_script_or_style_and_all_their_files_are_there() {
    let console = open().await;
    let id = console.dead(1).remove(0);
    let event = format!("/events/{id}");
    for path in ["/", "/events", &event, "/dead", "/explain", "/explain/unrouted", "/nowhere"] {
        let page = console.get(path).await;
        assert!(is_page(&page), "{path}");
        assert!(!page.body.contains(" style="), "{path}");
        assert!(!page.body.contains("<style") && !page.body.contains(" onclick="), "{path}");
        assert!(page.body.split("<script").skip(1).all(|tag| tag.contains("src=\"/static/")));
        assert!(!page.body.contains("src=\"http") && !page.body.contains("href=\"http"), "{path}");
        for file in page.body.split("=\"/static/").skip(1) {
            let file = format!("/static/{}", file.split('"').next().unwrap());
            let asset = console.get(&file).await;
            assert_eq!(asset.status, 200, "{file}");
            let kind = match file.rsplit('.').next().unwrap() {
                "css" => "text/css; charset=utf-8",
                "js" => "text/javascript; charset=utf-8",
                _ => "image/svg+xml",
            };
            assert_eq!(asset.header("content-type"), Some(kind), "{file}");
            assert!(asset.header("cache-control").unwrap().contains("immutable"), "{file}");
            let tag = asset.header("etag").unwrap();
            let again = console.ask("GET", &file, &[("if-none-match", tag)], "").await;
            assert_eq!(again.status, 304, "{file}");
        }
    }
}

#[tokio::test]
async fn a_store_that_is_down_still_has_a_page_that_says_so() {
    let console = open().await;
    console.stock.down.store(true, Ordering::Relaxed);
    let page = console.get("/").await;
    assert_eq!(page.status, 200, "the other outbox is up");
    assert!(page.body.contains("Outbox stock cannot be read"));
    console.orders.down.store(true, Ordering::Relaxed);
    let event = format!("/events/{}", event::EventId::new());
    for path in ["/events", "/dead", &event] {
        let page = console.get(path).await;
        assert!(is_page(&page), "{path}");
        assert_eq!(page.status, 503, "{path}");
        assert!(page.body.contains("/explain/store-down"), "{path}");
        assert!(!page.body.contains("canary"), "{path}");
    }
}

#[tokio::test]
async fn what_is_not_there_has_a_page() {
    let console = open().await;
    let event = format!("/events/{}", event::EventId::new());
    for path in ["/nowhere", "/events/12", &event, "/explain/nothing", "/dead?outbox=nowhere"] {
        let page = console.get(path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(is_page(&page) && page.body.contains("data-code=\"not-found\""), "{path}");
        assert!(page.body.contains("id=\"nav-events\""), "{path} has a way on");
    }
    let answer = console.get("/api/v1/nowhere").await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (404, Some("not-found")));
}

#[tokio::test]
async fn every_code_has_its_page() {
    let console = open().await;
    let index = console.get("/explain").await.body;
    for explanation in EXPLANATIONS {
        let path = format!("/explain/{}", explanation.code);
        assert!(index.contains(&format!("href=\"{path}\"")), "{path}");
        let page = console.get(&path).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.body.contains(&format!("data-code=\"{}\"", explanation.code)), "{path}");
    }
}

#[tokio::test]
async fn the_board_groups_what_died_by_cause_and_topic() {
    let console = open().await;
    console.dead(3);
    let cause = Cause::new(Code::Unrouted, "no route");
    let row = listed(Event::new("mail.due", "MailDue", ""), Status::Dead, Some(cause));
    console.orders.rows.lock().unwrap().push(row);
    let page = console.get("/dead").await.body;
    assert!(page.contains("data-code=\"sink-refused\" data-topic=\"order.paid\""));
    assert!(page.contains("data-code=\"unrouted\" data-topic=\"mail.due\""));
    assert!(page.contains("href=\"/dead?topic=mail.due&#38;code=unrouted\""));
    let narrowed = console.get("/dead?topic=mail.due&code=unrouted").await.body;
    assert_eq!(narrowed.matches("data-event=").count(), 1);
}

#[tokio::test]
async fn without_scripts_a_requeue_is_confirmed_on_a_page_and_told_on_another() {
    let console = open().await;
    let ids = console.dead(3);
    let path = format!("/dead/requeue?outbox=orders&pick={}&pick={}", ids[0], ids[1]);
    let page = console.get(&path).await.body;
    assert!(page.contains("2 events will be due again"), "{page}");
    let value = page.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let body = format!("outbox=orders&pick={}&pick={}&form={value}", ids[0], ids[1]);
    let done = console.post("/dead/requeue", &body).await.body;
    assert!(done.contains("2 events requeued"));
    assert_eq!(console.still_dead(), 1);
    let again = console.post("/dead/requeue", &body).await.body;
    assert!(again.contains("Nothing was requeued") && again.contains("2 events skipped"));
    let page = console.get("/dead/requeue?outbox=orders&all=true").await.body;
    assert!(page.contains("max=\"10000\" value=\"1\""), "as many as there are: {page}");
    let all = format!("outbox=orders&all=true&count=10&topic=order.paid&form={value}");
    assert!(console.post("/dead/requeue", &all).await.body.contains("1 event requeued"));
    assert_eq!(console.still_dead(), 0);
}

#[tokio::test]
async fn the_timeline_leads_from_the_commit_through_every_trouble_to_the_end() {
    let console = open().await;
    let id = console.dead(1).remove(0);
    let page = console.get(&format!("/events/{id}")).await.body;
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not on the page"));
    assert!(at("Committed") < at("Attempt 1 failed"));
    assert!(at("Attempt 1 failed") < at("<strong>Dead</strong>"));
    assert!(page.contains("href=\"/explain/sink-refused\""));
    assert!(page.contains("id=\"requeue-one\""));
}
