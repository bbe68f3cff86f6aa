//! A consumer takes each event in once, whatever comes, fails or stops.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod consumer {
    mod ends;
    mod hand;
    mod hearing;
    mod http;
    mod outage;
    mod pace;
    mod place;
}
