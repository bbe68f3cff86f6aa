//! The old protocol of RocketMQ, which name servers and brokers speak: here one call at a time, for
//! what is asked now and then. Only they tell settings and routes, and only by it.
//!
//! Events go by a `link`, many at once.

#[cfg(feature = "rocketmq-remoting")]
mod brokers;
#[cfg(feature = "rocketmq-remoting")]
mod link;
#[cfg(feature = "rocketmq-remoting")]
mod parcel;
#[cfg(feature = "rocketmq-remoting")]
mod plan;
#[cfg(feature = "rocketmq-remoting")]
mod refusal;
#[cfg(feature = "rocketmq-remoting")]
mod route;
#[cfg(feature = "rocketmq-remoting")]
mod routes;
#[cfg(feature = "rocketmq-remoting")]
mod sink;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event::Secret;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

#[cfg(feature = "rocketmq-remoting")]
pub use self::parcel::opened;
#[cfg(feature = "rocketmq-remoting")]
pub use self::sink::RocketMqRemoting;
use super::stamp::sign;
pub use crate::trust::Trust;
use crate::trust::connect;

/// The largest answer that is read.
const LARGEST: usize = 16 << 20;

/// One who answers: a name server or a broker.
#[derive(Clone, Debug)]
pub struct Desk {
    /// `HOST:PORT`.
    pub address: String,
    /// Access key and secret key.
    pub keys: Option<(String, Secret)>,
    /// Whom to trust; without it nothing is encrypted.
    pub trust: Option<Trust>,
    /// How long one call may take.
    pub patience: Duration,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum Silence {
    /// It was not reached, or said nothing.
    #[error("{0}")]
    Unreached(String),
    /// It said no.
    #[error("{code}: {remark}")]
    Refused {
        /// Its own code.
        code: i64,
        /// Its own words.
        remark: String,
    },
}

impl Desk {
    /// Asks one thing; returns the body of the answer.
    pub async fn ask(
        &self,
        code: i32,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Vec<u8>, Silence> {
        let asked = timeout(self.patience, self.exchange(code, fields, body)).await;
        let how = if self.trust.is_some() { " with TLS" } else { "" };
        let unreached = |why: String| Silence::Unreached(format!("{}{how}: {why}", self.address));
        let (header, body) = match asked {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(unreached(error.to_string())),
            Err(_) => return Err(unreached("no answer in time".to_owned())),
        };
        match header["code"].as_i64() {
            Some(0) => Ok(body),
            code => {
                let remark = header["remark"].as_str().unwrap_or_default().to_owned();
                Err(Silence::Refused { code: code.unwrap_or(-1), remark })
            }
        }
    }

    async fn exchange(
        &self,
        code: i32,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<(Value, Vec<u8>)> {
        let mut stream = connect(&self.address, self.trust.as_ref()).await?;
        stream.write_all(&request(code, 1, fields, body, self.keys.as_ref())).await?;
        stream.flush().await?;
        next(&mut stream).await
    }
}

/// Writes a request; its answer carries the same number.
pub(super) fn request(
    code: i32,
    number: i32,
    fields: &[(&str, &str)],
    body: &[u8],
    keys: Option<&(String, Secret)>,
) -> Vec<u8> {
    let header = json!({
        "code": code, "language": "JAVA", "version": 505, "opaque": number, "flag": 0,
        "serializeTypeCurrentRPC": "JSON", "extFields": signed(fields, body, keys),
    });
    frame(header.to_string().as_bytes(), body)
}

/// Reads the next answer.
pub(super) async fn next(
    stream: &mut (impl AsyncRead + Unpin),
) -> std::io::Result<(Value, Vec<u8>)> {
    let length = usize::try_from(stream.read_u32().await?).unwrap_or(usize::MAX);
    if !(4..=LARGEST).contains(&length) {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await?;
    read(&answer).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

fn signed<'a>(
    fields: &[(&'a str, &'a str)],
    body: &[u8],
    keys: Option<&'a (String, Secret)>,
) -> BTreeMap<&'a str, Cow<'a, str>> {
    let own = fields.iter().map(|(name, value)| (*name, Cow::from(*value)));
    let mut fields: BTreeMap<&str, Cow<'_, str>> = own.collect();
    if let Some((access, secret)) = keys {
        fields.insert("AccessKey", Cow::from(access.as_str()));
        let values = fields.values().flat_map(|value| value.bytes());
        let content: Vec<u8> = values.chain(body.iter().copied()).collect();
        fields.insert("Signature", Cow::from(STANDARD.encode(sign(secret, &content))));
    }
    fields
}

/// Puts lengths before a header and a body.
pub fn frame(header: &[u8], body: &[u8]) -> Vec<u8> {
    let long = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let whole = 4 + header.len() + body.len();
    [&long(whole), &long(header.len()), header, body].concat()
}

/// Reads what follows the length: three bytes of the header's length behind one that says how the
/// header is written, the header, the body.
pub fn read(answer: &[u8]) -> Option<(Value, Vec<u8>)> {
    let (length, rest) = answer.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length) & 0x00ff_ffff).ok()?;
    let header = serde_json::from_slice(rest.get(..length)?).ok()?;
    Some((header, rest.get(length..)?.to_vec()))
}

/// Returns the numbers that stand behind a name, in their order. The tables of RocketMQ have
/// objects for keys, which no reader of JSON takes.
pub fn numbers(text: &str, name: &str) -> Vec<i64> {
    let named = format!("\"{name}\":");
    let number = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    text.split(&named).skip(1).filter_map(number).collect()
}

/// Writes names that are bare numbers, which no reader of JSON takes, as texts.
pub fn mended(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 16);
    let (mut quoted, mut rest) = (false, json);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        out.push(c);
        rest = after;
        match c {
            '\\' if quoted => {
                let Some(escaped) = after.chars().next() else { break };
                out.push(escaped);
                rest = &after[escaped.len_utf8()..];
            }
            '"' => quoted = !quoted,
            '{' | ',' if !quoted => {
                let digits = after.bytes().take_while(u8::is_ascii_digit).count();
                if digits > 0 && after[digits..].starts_with(':') {
                    out.push_str(&format!("\"{}\"", &after[..digits]));
                    rest = &after[digits..];
                }
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let whole = frame(br#"{"code":0}"#, b"body");
        let (length, answer) = whole.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, answer.len());
        let (header, body) = read(answer).unwrap();
        assert_eq!((header["code"].as_i64(), &*body), (Some(0), &b"body"[..]));
        for broken in [&b""[..], &[0, 0, 0, 9, b'{'], &[0, 0, 0, 1, b'{']] {
            assert!(read(broken).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn a_signature_is_over_the_values_in_the_order_of_their_names() {
        let keys = Some(("me".to_owned(), Secret::new("key")));
        let fields = signed(&[("topic", "t"), ("a", "1")], b"body", keys.as_ref());
        let (address, patience) = ("127.0.0.1:1".to_owned(), Duration::from_secs(1));
        let right = STANDARD.encode(sign(&Secret::new("key"), b"me1tbody"));
        assert_eq!(fields["Signature"], right);
        let desk = Desk { address, keys, trust: None, patience };
        assert!(!format!("{desk:?}").contains("key\""), "{desk:?}");
    }

    #[test]
    fn tables_that_are_no_json_are_read() {
        let table = r#"{"offsetTable":{{"queueId":0}:{"brokerOffset":7,"consumerOffset":5},
            {"topic":"t","queueId":1}:{"brokerOffset":-1,"consumerOffset":5}}}"#;
        assert_eq!(numbers(table, "brokerOffset"), [7, -1]);
        let json = r#"{"a":{0:"x,1:\"{2:","b":[3,4],12:{"c":5}}}"#;
        let mended = mended(json);
        let value: Value = serde_json::from_str(&mended).unwrap();
        assert_eq!(value["a"]["0"], "x,1:\"{2:");
        assert_eq!(value["a"]["12"]["c"], 5);
    }
}
