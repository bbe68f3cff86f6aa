//! HTTP: the sink posts to the receiver, in both layouts.

mod foreign;

mod binary {
    use it::quay::http::binary as quay;

    it::sink_contract!(quay, quay);
    it::feed_contract!(quay, quay, quay);
}

mod structured {
    use it::quay::http::structured as quay;

    it::sink_contract!(quay, quay);
    it::feed_contract!(quay, quay, quay);
}
