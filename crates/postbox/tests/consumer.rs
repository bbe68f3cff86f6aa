//! A consumer takes each event in once, whatever comes, fails or stops.

mod consumer {
    mod ends;
    mod hand;
    mod http;
    mod pace;
    mod place;
}
