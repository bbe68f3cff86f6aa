//! HTTP: the sink posts to the receiver, in both layouts.

mod foreign;

mod binary {
    it::sink_contract!(it::quay::http::binary, it::quay::http::binary);
    it::feed_contract!(it::quay::http::binary, it::quay::http::binary);
}

mod structured {
    it::sink_contract!(it::quay::http::structured, it::quay::http::structured);
    it::feed_contract!(it::quay::http::structured, it::quay::http::structured);
}
