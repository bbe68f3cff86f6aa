//! What every call to a proxy carries: who calls, and a signature if there are keys.

use event::{Cause, Code, Millis, Secret};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// Puts the headers onto a call.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    client: MetadataValue<Ascii>,
    keys: Option<(String, Secret)>,
}

impl Stamp {
    /// Makes one. `client` is this client's own name, unlike every other's.
    pub(super) fn new(client: &str, keys: Option<(String, Secret)>) -> Result<Stamp, Cause> {
        let invalid = |_| Cause::new(Code::ConfigInvalid, "access_key: it is not printable ASCII");
        if let Some((access, _)) = &keys {
            header(access).map_err(invalid)?;
        }
        Ok(Stamp { client: header(client).map_err(invalid)?, keys })
    }

    fn write(&self, headers: &mut MetadataMap, now: Millis) -> Result<(), Status> {
        let header = |text: &str| header(text).map_err(|_| Status::internal("a header"));
        headers.insert("x-mq-client-id", self.client.clone());
        headers.insert("x-mq-language", MetadataValue::from_static("RUST"));
        headers.insert("x-mq-client-version", header(env!("CARGO_PKG_VERSION"))?);
        headers.insert("x-mq-protocol", MetadataValue::from_static("v2"));
        if let Some((access, secret)) = &self.keys {
            let date = compact(now);
            let signature = hex(&sign(secret, date.as_bytes()));
            let told = format!(
                "MQv2-HMAC-SHA1 Credential={access}, SignedHeaders=x-mq-date-time, \
                 Signature={signature}"
            );
            headers.insert("x-mq-date-time", header(&date)?);
            headers.insert("authorization", header(&told)?);
        }
        Ok(())
    }
}

impl Interceptor for Stamp {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        self.write(request.metadata_mut(), Millis::now())?;
        Ok(request)
    }
}

/// Signs as RocketMQ wants it. The weakness of SHA-1 is in collisions, which an HMAC does not rest
/// upon.
pub(super) fn sign(secret: &Secret, content: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha1>::new_from_slice(secret.reveal().as_bytes())
        .expect("an HMAC takes a key of any length");
    mac.update(content);
    mac.finalize().into_bytes().to_vec()
}

/// Returns `2026-11-15T20:00:00.000Z` as `20261115T200000Z`.
fn compact(now: Millis) -> String {
    let whole = now.to_string();
    let seconds = whole.split(['.', 'Z']).next().unwrap_or_default();
    seconds.chars().filter(|c| !matches!(c, '-' | ':')).chain(['Z']).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn header(
    text: &str,
) -> Result<MetadataValue<Ascii>, tonic::metadata::errors::InvalidMetadataValue> {
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_over_the_date_and_shows_no_secret() {
        let keys = ("me".to_owned(), Secret::new("key"));
        let stamp = Stamp::new("client", Some(keys)).unwrap();
        let mut headers = MetadataMap::new();
        stamp.write(&mut headers, Millis::parse("2026-11-15T20:00:00.123Z").unwrap()).unwrap();
        let text = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!(text("x-mq-date-time"), "20261115T200000Z");
        assert_eq!(
            (text("x-mq-protocol").as_str(), text("x-mq-client-id").as_str()),
            ("v2", "client")
        );
        let told = text("authorization");
        assert!(told.starts_with("MQv2-HMAC-SHA1 Credential=me, SignedHeaders=x-mq-date-time, "));
        assert!(!format!("{stamp:?}").contains("key\""), "{stamp:?}");
        // The known answer of RFC 2202, case 2.
        let known = sign(&Secret::new("Jefe"), b"what do ya want for nothing?");
        assert_eq!(hex(&known), "EFFCDF6AE5EB2FA2D27416D5F184DF9C259A7C79");
    }
}
