//! Standard Webhooks signatures: how a receiver knows that an event is ours, and fresh.
//!
//! A secret is `whsec_` and base64 of 24 to 64 bytes. The signature covers the id, the moment and
//! the body, so none can be exchanged. Nothing here prints a secret or compares in varying time.

use std::time::Duration;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use event::Secret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why a signature cannot be made, or does not hold.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WebhookError {
    /// The secret cannot be used.
    #[error("the signing secret is not `whsec_` and base64 of 24 to 64 bytes")]
    Secret,
    /// The timestamp is not a number of seconds, or lies too far from now.
    #[error("the timestamp is missing, malformed, too old or too new")]
    Timestamp,
    /// No signature fits any secret.
    #[error("no signature fits")]
    Signature,
}

/// What came with a body: the three headers of Standard Webhooks.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// `webhook-id`
    pub id: &'a str,
    /// `webhook-timestamp`
    pub timestamp: &'a str,
    /// `webhook-signature`
    pub signature: &'a str,
}

/// Signs a body with every secret, and returns the value of `webhook-signature`. `timestamp` is in
/// seconds since 1970. Several secrets let receivers change theirs one after another.
pub fn sign(
    secrets: &[Secret],
    id: &str,
    timestamp: i64,
    body: &[u8],
) -> Result<String, WebhookError> {
    let one = |secret| {
        let code = mac(secret, id, &timestamp.to_string(), body)?.finalize().into_bytes();
        Ok(format!("v1,{}", STANDARD.encode(code)))
    };
    let signatures: Result<Vec<String>, WebhookError> = secrets.iter().map(one).collect();
    Ok(signatures?.join(" "))
}

/// Checks that one of the signatures fits one of the secrets, and that the timestamp is at most
/// `tolerance` from `now` (seconds since 1970).
pub fn verify(
    secrets: &[Secret],
    signed: Signed<'_>,
    body: &[u8],
    now: i64,
    tolerance: Duration,
) -> Result<(), WebhookError> {
    let at: i64 = signed.timestamp.parse().map_err(|_| WebhookError::Timestamp)?;
    if now.abs_diff(at) > tolerance.as_secs() {
        return Err(WebhookError::Timestamp);
    }
    let given = signed.signature.split(' ').filter_map(|one| one.strip_prefix("v1,"));
    let given: Vec<Vec<u8>> = given.filter_map(|code| LENIENT.decode(code).ok()).collect();
    for secret in secrets {
        let mac = mac(secret, signed.id, signed.timestamp, body)?;
        if given.iter().any(|code| mac.clone().verify_slice(code).is_ok()) {
            return Ok(());
        }
    }
    Err(WebhookError::Signature)
}

fn mac(
    secret: &Secret,
    id: &str,
    timestamp: &str,
    body: &[u8],
) -> Result<Hmac<Sha256>, WebhookError> {
    let encoded = secret.reveal().strip_prefix("whsec_").ok_or(WebhookError::Secret)?;
    let key = LENIENT.decode(encoded).map_err(|_| WebhookError::Secret)?;
    if !(24..=64).contains(&key.len()) {
        return Err(WebhookError::Secret);
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| WebhookError::Secret)?;
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    Ok(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const MINUTES: Duration = Duration::from_secs(300);

    fn secrets(texts: &[&str]) -> Vec<Secret> {
        texts.iter().map(|text| Secret::new(*text)).collect()
    }

    fn check(signature: &str, body: &[u8], now: i64) -> Result<(), WebhookError> {
        let signed = Signed { id: ID, timestamp: "1614265330", signature };
        verify(&secrets(&[SECRET]), signed, body, now, MINUTES)
    }

    #[test]
    fn the_published_example_is_signed_and_verified() {
        assert_eq!(sign(&secrets(&[SECRET]), ID, AT, BODY).as_deref(), Ok(SIGNATURE));
        assert_eq!(check(SIGNATURE, BODY, AT), Ok(()));
    }

    #[test]
    fn what_was_changed_does_not_verify() {
        let zero = format!("v1,{}", STANDARD.encode([0; 32]));
        for signature in ["", "v1,", "v1,!", "v2,g0hM", &SIGNATURE[3..], &SIGNATURE[..20], &zero] {
            assert_eq!(check(signature, BODY, AT), Err(WebhookError::Signature), "{signature}");
        }
        assert_eq!(check(SIGNATURE, b"{}", AT), Err(WebhookError::Signature));
        for (id, timestamp) in [("msg_x", "1614265330"), (ID, "1614265331"), (ID, "+1614265330")] {
            let signed = Signed { id, timestamp, signature: SIGNATURE };
            let verified = verify(&secrets(&[SECRET]), signed, BODY, AT, MINUTES);
            assert_eq!(verified, Err(WebhookError::Signature), "{id} {timestamp}");
        }
    }

    #[test]
    fn an_old_a_future_and_a_malformed_timestamp_do_not_verify() {
        for now in [AT + 301, AT - 301, i64::MAX, i64::MIN] {
            assert_eq!(check(SIGNATURE, BODY, now), Err(WebhookError::Timestamp), "{now}");
        }
        assert_eq!(check(SIGNATURE, BODY, AT + 300), Ok(()));
        let signed = Signed { id: ID, timestamp: "now", signature: SIGNATURE };
        let verified = verify(&secrets(&[SECRET]), signed, BODY, AT, MINUTES);
        assert_eq!(verified, Err(WebhookError::Timestamp));
    }

    #[test]
    fn a_rotation_verifies_with_the_old_and_with_the_new_secret() {
        let signature = sign(&secrets(&[OTHER, SECRET]), ID, AT, BODY).unwrap();
        assert_eq!(signature.split(' ').count(), 2);
        let signed = Signed { id: ID, timestamp: "1614265330", signature: &signature };
        for known in [&[SECRET][..], &[OTHER], &[OTHER, SECRET]] {
            assert_eq!(verify(&secrets(known), signed, BODY, AT, MINUTES), Ok(()));
        }
        assert_eq!(verify(&[], signed, BODY, AT, MINUTES), Err(WebhookError::Signature));
    }

    #[test]
    fn a_secret_that_is_none_is_refused() {
        let short = format!("whsec_{}", STANDARD.encode([1; 23]));
        let long = format!("whsec_{}", STANDARD.encode([1; 65]));
        for text in ["", "whsec_", "whsec_!!!", &SECRET[6..], &short, &long] {
            assert_eq!(sign(&secrets(&[text]), ID, AT, BODY), Err(WebhookError::Secret), "{text}");
        }
    }
}
