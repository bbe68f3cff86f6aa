//! `kind = "kafka"`.

use std::sync::Arc;

use broker::kafka::{Access, Mechanism, Options};
use event::{Cause, Sink};
use toml::{Table, Value};

use super::super::sealed::{Sealed, Url};
use super::super::section::Section;
use super::address::Address;
use super::common::{self, Common, Login};
use super::{Destination, Wiring};

const ADDRESS: Address = Address {
    schemes: &["kafka", "kafka+tls"],
    example: "kafka://127.0.0.1:9092,127.0.0.1:9093",
    several: true,
    usual_port: false,
    login: Some(("user", "password")),
    behind: None,
};

/// The first is the usual one.
const MECHANISMS: [&str; 3] = ["plain", "scram-sha-256", "scram-sha-512"];

/// A Kafka cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kafka {
    pub(crate) common: Common,
    pub(crate) login: Login,
    pub(crate) mechanism: &'static str,
    pub(crate) compression: &'static str,
}

impl Destination for Kafka {
    fn read(section: &mut Section<'_>) -> Option<Kafka> {
        let common = Common::read(section, &ADDRESS);
        let login = common::login(section, "user", "password");
        let mechanism = section.word("mechanism", &MECHANISMS);
        let place = mechanism.as_ref().map(|mechanism| mechanism.place.clone());
        let mechanism = section.need("mechanism", mechanism);
        let compression = section.word("compression", &["none", "gzip", "snappy", "lz4"]);
        let compression = section.need("compression", compression);
        if login == Some(None) && mechanism.is_some_and(|name| name != MECHANISMS[0]) {
            let wrong = "it needs `user` and `password` too";
            section.refuse("mechanism", place.as_ref(), wrong);
            return None;
        }
        Some(Kafka {
            common: common?,
            login: login?,
            mechanism: mechanism?,
            compression: compression?,
        })
    }

    fn print(&self, table: &mut Table) {
        self.common.print(table);
        common::print_login(table, ("user", "password"), &self.login);
        table.insert("mechanism".to_owned(), Value::from(self.mechanism));
        table.insert("compression".to_owned(), Value::from(self.compression));
    }

    fn secrets(&self) -> Vec<&Sealed> {
        self.login.iter().map(|(_, secret)| secret).collect()
    }

    fn urls(&self) -> Vec<&Url> {
        vec![&self.common.url]
    }

    fn sink(&self, wiring: &Wiring<'_>) -> Result<Arc<dyn Sink>, Cause> {
        let (url, user) = (self.common.url.reveal().to_owned(), common::reveal(&self.login));
        let mechanism = match self.mechanism {
            "scram-sha-256" => Mechanism::ScramSha256,
            "scram-sha-512" => Mechanism::ScramSha512,
            _ => Mechanism::Plain,
        };
        let options = Options {
            access: Access { url, user, mechanism },
            topic: self.common.naming(),
            compression: self.compression.to_owned(),
            manner: self.common.manner(wiring),
        };
        Ok(Arc::new(broker::kafka::Kafka::new(options)?))
    }
}
