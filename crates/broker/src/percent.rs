//! Percent-encoding as the CloudEvents bindings want it for header values.

#[cfg(any(test, feature = "http", feature = "nats"))]
use std::borrow::Cow;

/// Encodes a value: everything but printable ASCII, and of that space, double quote and percent,
/// becomes percent-encoded UTF-8.
#[cfg(any(test, feature = "http", feature = "nats"))]
pub(crate) fn encode(text: &str) -> Cow<'_, str> {
    let plain = |byte| matches!(byte, 0x21..=0x7e) && byte != b'"' && byte != b'%';
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match plain(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    Cow::Owned(out)
}

/// Decodes a value. What is not encoded stays as it is; what decodes to no UTF-8 is mended.
#[cfg(any(test, feature = "nats", feature = "rocketmq"))]
pub(crate) fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let encoded = after.get(..2).filter(|_| *first == b'%').and_then(|two| {
            let two = std::str::from_utf8(two).ok()?;
            u8::from_str_radix(two, 16).ok()
        });
        out.push(encoded.unwrap_or(*first));
        rest = if encoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(out)
        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_bindings_ask() {
        let cases = [
            ("plain-~!$&'()", "plain-~!$&'()"),
            ("a b\"c%d", "a%20b%22c%25d"),
            ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
            ("\r\n\u{7f}", "%0D%0A%7F"),
        ];
        for (text, encoded) in cases {
            assert_eq!(encode(text), encoded);
        }
    }

    #[test]
    fn what_was_encoded_comes_out_and_what_is_not_encoded_stays() {
        for text in ["plain", "a b\"c%d", "Euro € 😀", "\r\n\u{7f}", "", "100%"] {
            let encoded = encode(text);
            assert!(encoded.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{encoded}");
            assert_eq!(decode(&encoded), text);
        }
        for as_is in ["100%", "%", "%2", "%zz", "a b"] {
            assert_eq!(decode(as_is), as_is);
        }
        assert_eq!(decode("%FF"), "\u{fffd}");
    }
}
