//! SCRAM (RFC 5802 and 7677): shows that we know a password, which never leaves, and has the broker
//! show that it knows it too.
//!
//! Pure: two words are shown, and each answer to them is judged.

use std::io::{Error, ErrorKind, Result};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event::Secret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

/// Nothing of TLS is bound to it.
const UNBOUND: &str = "n,,";

/// How many rounds a broker may ask for: as many as Kafka lets a user have. With fewer, who listens
/// could guess the password, and with more, whoever asks is kept busy.
const ROUNDS: std::ops::RangeInclusive<u32> = 4096..=16_384;

/// With what is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

/// One who is about to be let in.
#[derive(Debug)]
pub(super) struct Scram {
    hash: Hash,
    nonce: String,
    bare: String,
}

/// What is shown in the end, and how the broker has to answer.
#[derive(Debug)]
pub(super) struct Proof {
    pub(super) shown: String,
    expected: Vec<u8>,
}

impl Scram {
    /// Begins; nobody may know the nonce before, and it has no comma.
    pub(super) fn new(hash: Hash, user: &str, nonce: String) -> Scram {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Scram { hash, bare: format!("n={user},r={nonce}"), nonce }
    }

    /// Returns what is shown first.
    pub(super) fn first(&self) -> String {
        format!("{UNBOUND}{}", self.bare)
    }

    /// Returns what is shown to a broker that answered so.
    pub(super) fn prove(&self, password: &Secret, answer: &[u8]) -> Result<Proof> {
        let answer = std::str::from_utf8(answer).map_err(|_| strange("no text"))?;
        let [nonce, salt, rounds] = ["r=", "s=", "i="].map(|name| part(answer, name));
        let nonce = nonce.filter(|nonce| nonce.len() > self.nonce.len());
        let nonce = nonce.filter(|nonce| nonce.starts_with(&self.nonce));
        let nonce = nonce.ok_or_else(|| strange("it did not go on from our nonce"))?;
        let salt = salt.and_then(|salt| STANDARD.decode(salt).ok());
        let salt = salt.ok_or_else(|| strange("it gave no salt"))?;
        let rounds = rounds.and_then(|rounds| rounds.parse::<u32>().ok());
        let rounds = rounds.filter(|rounds| ROUNDS.contains(rounds));
        let rounds = rounds.ok_or_else(|| strange("its number of rounds is too small or large"))?;
        let bound = format!("c={},r={nonce}", STANDARD.encode(UNBOUND));
        let said = format!("{},{answer},{bound}", self.bare);
        let salted = self.hash.salted(password.reveal().as_bytes(), &salt, rounds);
        let key = self.hash.sign(&salted, b"Client Key");
        let signature = self.hash.sign(&self.hash.digest(&key), said.as_bytes());
        let proof: Vec<u8> = key.iter().zip(signature).map(|(key, by)| key ^ by).collect();
        let expected = self.hash.sign(&salted, b"Server Key");
        let expected = self.hash.sign(&expected, said.as_bytes());
        Ok(Proof { shown: format!("{bound},p={}", STANDARD.encode(proof)), expected })
    }
}

impl Proof {
    /// Checks that whoever answered so knows the password too.
    pub(super) fn check(&self, answer: &[u8]) -> Result<()> {
        let told = std::str::from_utf8(answer).ok().and_then(|answer| part(answer, "v="));
        match told.and_then(|told| STANDARD.decode(told).ok()) {
            Some(told) if told == self.expected => Ok(()),
            _ => Err(strange("it does not know the password itself")),
        }
    }
}

impl Hash {
    fn digest(self, text: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => Sha256::digest(text).to_vec(),
            Hash::Sha512 => Sha512::digest(text).to_vec(),
        }
    }

    fn sign(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => sign(keyed::<Hmac<Sha256>>(key), text),
            Hash::Sha512 => sign(keyed::<Hmac<Sha512>>(key), text),
        }
    }

    fn salted(self, password: &[u8], salt: &[u8], rounds: u32) -> Vec<u8> {
        match self {
            Hash::Sha256 => salted(&keyed::<Hmac<Sha256>>(password), salt, rounds),
            Hash::Sha512 => salted(&keyed::<Hmac<Sha512>>(password), salt, rounds),
        }
    }
}

fn keyed<M: KeyInit>(key: &[u8]) -> M {
    M::new_from_slice(key).expect("a key of any length will do")
}

fn sign<M: Mac>(mac: M, text: &[u8]) -> Vec<u8> {
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

fn salted<M: Mac + Clone>(mac: &M, salt: &[u8], rounds: u32) -> Vec<u8> {
    let mut round = sign(mac.clone(), &[salt, &[0, 0, 0, 1]].concat());
    let mut all = round.clone();
    for _ in 1..rounds {
        round = sign(mac.clone(), &round);
        all.iter_mut().zip(&round).for_each(|(all, by)| *all ^= by);
    }
    all
}

/// Returns what an answer has under a name.
fn part<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.split(',').find_map(|part| part.strip_prefix(name))
}

fn strange(why: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, format!("whoever answers is not trusted: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const ANSWER: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                          s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn scram(hash: Hash) -> Scram {
        Scram::new(hash, "user", NONCE.to_owned())
    }

    fn proof(hash: Hash, answer: &str) -> Result<Proof> {
        scram(hash).prove(&Secret::new("pencil"), answer.as_bytes())
    }

    /// The first is of RFC 7677; the second is the same with the other hash, by Python's own.
    #[test]
    fn what_is_shown_and_expected_is_that_of_the_standard() {
        assert_eq!(scram(Hash::Sha256).first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        for (hash, shown, told) in [
            (
                Hash::Sha256,
                "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            ),
            (
                Hash::Sha512,
                "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dyb\
                 EmDYXYTxwnYPJQ==",
                "v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq\
                 199RVG2rR7N7Zw==",
            ),
        ] {
            let proof = proof(hash, ANSWER).unwrap();
            let (bound, by) = proof.shown.rsplit_once(",p=").unwrap();
            assert_eq!(bound, format!("c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"));
            assert_eq!(by, shown, "{hash:?}");
            proof.check(told.as_bytes()).unwrap();
        }
    }

    #[test]
    fn a_broker_that_does_not_know_the_password_is_not_trusted() {
        let proof = proof(Hash::Sha256, ANSWER).unwrap();
        for told in ["", "v=", "v=AAAA", "e=other-error", "r=1", "v=7rriTRBi"] {
            let error = proof.check(told.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("does not know the password"), "{told}: {error}");
        }
    }

    #[test]
    fn an_answer_that_makes_it_easy_to_guess_or_hard_to_end_is_none() {
        let answer = |nonce: &str, salt: &str, rounds: &str| {
            proof(Hash::Sha256, &format!("r={nonce},s={salt},i={rounds}"))
        };
        let longer = format!("{NONCE}x");
        assert!(answer(&longer, "AAAA", "4096").is_ok());
        for (nonce, salt, rounds, why) in [
            ("another", "AAAA", "4096", "nonce"),
            (NONCE, "AAAA", "4096", "nonce"),
            (&longer, "?", "4096", "salt"),
            (&longer, "AAAA", "4095", "rounds"),
            (&longer, "AAAA", "16385", "rounds"),
            (&longer, "AAAA", "many", "rounds"),
        ] {
            let error = answer(nonce, salt, rounds).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("pencil"), "{error}");
        }
    }

    #[test]
    fn a_name_may_hold_what_separates() {
        let scram = Scram::new(Hash::Sha256, "a=b,c", "x".to_owned());
        assert_eq!(scram.first(), "n,,n=a=3Db=2Cc,r=x");
    }
}
