//! `kind = "nats"`.

use std::sync::Arc;

use broker::nats::{Access, Options};
use event::{Cause, Sink};
use toml::{Table, Value};

use super::super::sealed::{Sealed, Url};
use super::super::section::Section;
use super::address::Address;
use super::common::{self, Common};
use super::{Destination, Wiring};

const ADDRESS: Address = Address {
    schemes: &["nats", "tls"],
    example: "nats://127.0.0.1:4222,127.0.0.1:4223",
    several: true,
    usual_port: true,
    login: None,
    behind: None,
};

/// A NATS cluster with JetStream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nats {
    pub(crate) common: Common,
    pub(crate) token: Option<Sealed>,
    pub(crate) credentials: Option<Sealed>,
    pub(crate) stream: Option<String>,
}

impl Destination for Nats {
    fn read(section: &mut Section<'_>) -> Option<Nats> {
        let common = Common::read(section, &ADDRESS);
        let token = common::secret(section, "token");
        let credentials = common::secret(section, "credentials");
        let stream = common::text(section, "stream");
        if let (Some(Some(_)), Some(Some(_))) = (&token, &credentials) {
            section.refuse("token", None, "it goes without `credentials`: give one of them");
            return None;
        }
        Some(Nats { common: common?, token: token?, credentials: credentials?, stream: stream? })
    }

    fn print(&self, table: &mut Table) {
        self.common.print(table);
        let stream = self.stream.clone().unwrap_or_default();
        table.insert("token".to_owned(), common::print_secret(self.token.as_ref()));
        table.insert("credentials".to_owned(), common::print_secret(self.credentials.as_ref()));
        table.insert("stream".to_owned(), Value::from(stream));
    }

    fn secrets(&self) -> Vec<&Sealed> {
        self.token.iter().chain(&self.credentials).collect()
    }

    fn urls(&self) -> Vec<&Url> {
        vec![&self.common.url]
    }

    fn sink(&self, wiring: &Wiring<'_>) -> Result<Arc<dyn Sink>, Cause> {
        let value = |secret: &Sealed| secret.value.clone();
        let options = Options {
            access: Access {
                url: self.common.secret_url(),
                token: self.token.as_ref().map(value),
                credentials: self.credentials.as_ref().map(value),
            },
            topic: self.common.naming(),
            stream: self.stream.clone(),
            manner: self.common.manner(wiring),
        };
        Ok(Arc::new(broker::nats::Nats::new(options)?))
    }
}
