//! What each response, and each way of getting none, is answered as.

use std::time::Duration;

use event::{Code, Grade, Receipt, Refusal, Secret, Sink};
use tokio::net::TcpSocket;

use super::server::{Reply, Server, status, with};
use super::{cause, event, kind, options, publish_one, sink};
use crate::http::{Http, Options};

#[tokio::test]
async fn each_status_has_its_answer() {
    let cases: [(&str, Option<Code>, &[u16]); 8] = [
        ("receipt", None, &[200, 201, 202, 204, 206]),
        ("reject", Some(Code::SinkRefused), &[400, 409, 413, 415, 418, 422]),
        ("down", Some(Code::SinkRefused), &[300, 301, 302, 303, 304, 307, 308, 399, 407, 421]),
        ("down", Some(Code::AuthRefused), &[401, 403]),
        ("retry", Some(Code::TopicMissing), &[404, 405, 410]),
        ("retry", Some(Code::SinkBusy), &[425, 429]),
        ("unknown", Some(Code::SinkBusy), &[408, 503]),
        ("unknown", Some(Code::SinkBroken), &[500, 501, 502, 504, 599]),
    ];
    for (expected, code, statuses) in cases {
        for &number in statuses {
            let server = Server::start(move |_| status(number)).await;
            let answer = publish_one(&sink(&server), event()).await;
            assert_eq!(kind(&answer), (expected, code), "{number}");
            assert_eq!(server.seen().len(), 1, "{number} was offered once");
        }
    }
}

#[tokio::test]
async fn what_may_have_been_taken_in_is_never_called_refused() {
    let cases = [
        (503, "", "unknown", "it may have arrived: 503"),
        (503, "retry-after: 0\r\n", "retry", "503"),
        (500, "retry-after: 5\r\n", "unknown", "it may have arrived: 500"),
        (504, "", "unknown", "it may have arrived: 504"),
    ];
    for (number, headers, expected, said) in cases {
        let server = Server::start(move |_| with(number, headers, "")).await;
        let answer = publish_one(&sink(&server), event()).await;
        assert_eq!(kind(&answer).0, expected, "{number} {headers}");
        let cause = cause(answer);
        assert!(cause.detail.starts_with(said), "{cause}");
    }
}

#[tokio::test]
async fn a_cause_says_the_status_and_what_was_said_if_anything_was() {
    let cases = [
        ("", "422 Unprocessable Entity"),
        ("no such\r\nsku\n", "422 Unprocessable Entity: no such sku"),
    ];
    for (body, detail) in cases {
        let server = Server::start(move |_| with(422, "", body)).await;
        assert_eq!(cause(publish_one(&sink(&server), event()).await).detail, detail);
    }
}

#[tokio::test]
async fn a_redirect_is_never_followed_and_its_cause_names_only_the_host() {
    let place = "location: https://login.example.com/in?state=canary\r\n";
    let body = "<a href=\"https://login.example.com/in?state=canary\">Found</a>";
    let server = Server::start(move |_| with(302, place, body)).await;
    let answer = publish_one(&sink(&server), event()).await;
    assert_eq!(kind(&answer), ("down", Some(Code::SinkRefused)));
    let leads = "302 Found: it leads to login.example.com, and redirects are not followed";
    assert_eq!(cause(answer).detail, leads);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_wrong_place_is_no_event_s_end_and_nothing_more_is_offered_there() {
    for number in [302, 407, 421] {
        let server = Server::start(move |_| status(number)).await;
        let options = Options { concurrency: 1, ..options(server.url()) };
        let events: Vec<_> = (0..20).map(|_| event()).collect();
        let answers = Http::new(options).unwrap().publish(&events).await;
        let down = |answer| kind(answer) == ("down", Some(Code::SinkRefused));
        assert!(answers.iter().all(down), "{number}: {answers:?}");
        assert_eq!(server.seen().len(), 1, "{number}");
    }
}

#[tokio::test]
async fn retry_after_is_honoured_as_seconds_and_as_a_date() {
    let date =
        "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:50:37 GMT\r\n";
    let cases = [
        (503, "retry-after: 120\r\n", Some(120)),
        (429, "Retry-After: 7\r\n", Some(7)),
        (503, date, Some(60)),
        (429, "retry-after: soon\r\n", None),
        (429, "", None),
    ];
    for (number, headers, seconds) in cases {
        let server = Server::start(move |_| with(number, headers, "")).await;
        let answer = publish_one(&sink(&server), event()).await;
        let Err(Refusal::Retry(_, asked)) = answer else { panic!("{answer:?}") };
        assert_eq!(asked, seconds.map(Duration::from_secs), "{headers}");
    }
}

#[tokio::test]
async fn the_destinations_own_id_is_in_the_receipt() {
    let server = Server::start(|_| with(202, "X-Request-Id: r-17\r\n", "ok")).await;
    let answer = publish_one(&sink(&server), event()).await;
    assert_eq!(answer, Ok(Receipt { broker_id: Some("r-17".into()) }));
}

#[tokio::test]
async fn a_refused_connection_is_down() {
    // Held without listening, so that nobody listens there.
    let held = TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", held.local_addr().unwrap());
    let http = Http::new(options(url)).unwrap();
    let answer = publish_one(&http, event()).await;
    assert_eq!(kind(&answer), ("down", Some(Code::SinkDown)));
    assert!(cause(answer).detail.contains("refused"));
    assert!(matches!(http.probe().await, Err(Refusal::Down(_))));
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_down() {
    let http = Http::new(Options::new("http://nowhere.invalid/", "orders")).unwrap();
    let answer = publish_one(&http, event()).await;
    assert_eq!(kind(&answer), ("down", Some(Code::SinkDown)));
}

#[tokio::test]
async fn a_name_that_leads_to_a_private_address_is_down_and_nothing_is_connected() {
    let server = Server::start(|_| status(200)).await;
    let url = format!("http://localhost:{}/", server.port);
    let http = Http::new(Options::new(&url, "orders")).unwrap();
    let answer = publish_one(&http, event()).await;
    assert_eq!(kind(&answer), ("down", Some(Code::AddressRefused)));
    let probed = http.probe().await.map(|()| Receipt { broker_id: None });
    assert_eq!(kind(&probed), ("down", Some(Code::AddressRefused)));
    assert_eq!(server.connections(), 0);

    let allowed = Http::new(options(url)).unwrap();
    assert_eq!(kind(&publish_one(&allowed, event()).await), ("receipt", None));
}

#[tokio::test]
async fn no_whole_answer_to_a_request_that_was_read_is_unknown() {
    let half = Reply::WriteAndCut("HTTP/1.1 20".into());
    let nonsense = Reply::WriteAndCut("nonsense\r\n\r\n".into());
    for reply in [Reply::Cut, half, nonsense] {
        let server = Server::start(move |_| reply.clone()).await;
        let answer = publish_one(&sink(&server), event()).await;
        assert_eq!(kind(&answer), ("unknown", Some(Code::SinkBroken)));
        assert_eq!(server.seen().len(), 1, "it was offered once, and read");
    }
}

#[tokio::test]
async fn a_silent_destination_is_unknown_when_the_timeout_is_over() {
    let server = Server::start(|_| Reply::Silence).await;
    let timeout = Duration::from_millis(500);
    let http = Http::new(Options { timeout, ..options(server.url()) }).unwrap();
    let answer = publish_one(&http, event()).await;
    assert_eq!(kind(&answer), ("unknown", Some(Code::SinkTimeout)));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_receipt_needs_the_status_only() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_owned();
    let server = Server::start(move |_| Reply::WriteAndCut(half.clone())).await;
    assert_eq!(kind(&publish_one(&sink(&server), event()).await), ("receipt", None));
}

#[tokio::test]
async fn of_a_long_body_only_the_start_is_shown_and_the_rest_is_not_waited_for() {
    let body = "é\u{1b}[31m\r\n".repeat(40_000);
    let head = "HTTP/1.1 400 x\r\ncontent-length: 999999999\r\n\r\n";
    let server = Server::start(move |_| Reply::Write(format!("{head}{body}"))).await;
    let cause = cause(publish_one(&sink(&server), event()).await);
    assert_eq!(cause.code, Code::SinkRefused);
    assert!(cause.detail.starts_with("400 Bad Request: é"), "{cause}");
    assert!(cause.detail.chars().count() < 400 && !cause.detail.contains('\u{1b}'), "{cause}");
}

#[tokio::test]
async fn any_status_shows_that_the_destination_can_be_reached() {
    for number in [200, 405, 500] {
        let server = Server::start(move |_| status(number)).await;
        let http = sink(&server);
        http.probe().await.unwrap();
        assert!(http.inspect().await.unwrap().findings.is_empty());
        let seen = server.seen();
        assert!(seen[0].line.starts_with("OPTIONS /events") && seen[0].body.is_empty());
        assert_eq!(seen[0].header("ce-id"), "");
    }
}

#[tokio::test]
async fn a_probe_that_is_turned_away_is_found_until_an_event_is_taken_in() {
    for (number, code) in [(302, Code::SinkRefused), (401, Code::AuthRefused)] {
        let server = Server::start(move |seen| match seen.line.starts_with("OPTIONS") {
            true => status(number),
            false => status(200),
        });
        let server = server.await;
        let http = sink(&server);
        http.probe().await.unwrap();
        let findings = http.inspect().await.unwrap().findings;
        let [found] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((found.grade, &*found.what), (Grade::Warn, "answer"));
        for part in [code.as_str(), &number.to_string(), "postbox explain"] {
            assert!(found.detail.contains(part), "{found:?}");
        }
        publish_one(&http, event()).await.unwrap();
        assert!(http.inspect().await.unwrap().findings.is_empty(), "{number}");
    }
}

#[tokio::test]
async fn a_probe_is_not_signed_so_whoever_wants_a_signature_says_nothing_of_events() {
    let secrets = vec![Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")];
    for (number, findings) in [(401, 0), (302, 1)] {
        let server = Server::start(move |_| status(number)).await;
        let options = Options { secrets: secrets.clone(), ..options(server.url()) };
        let http = Http::new(options).unwrap();
        http.probe().await.unwrap();
        assert_eq!(http.inspect().await.unwrap().findings.len(), findings, "{number}");
    }
}
