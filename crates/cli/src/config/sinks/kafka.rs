//! `kind = "kafka"`.

use std::sync::Arc;

use broker::kafka::{Access, Options};
use event::{Cause, Sink};
use toml::{Table, Value};

use super::super::sealed::{Sealed, Url};
use super::super::section::Section;
use super::address::Address;
use super::common::{self, Common, Login};
use super::{Destination, Wiring};

const ADDRESS: Address = Address {
    schemes: &["kafka"],
    example: "kafka://127.0.0.1:9092,127.0.0.1:9093",
    several: true,
    usual_port: false,
    login: Some(("user", "password")),
    behind: None,
};

/// A Kafka cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kafka {
    pub(crate) common: Common,
    pub(crate) login: Login,
    pub(crate) compression: &'static str,
}

impl Destination for Kafka {
    fn read(section: &mut Section<'_>) -> Option<Kafka> {
        let common = Common::read(section, &ADDRESS);
        let login = common::login(section, "user", "password");
        let compression = section.word("compression", &["none", "gzip", "snappy", "lz4"]);
        let compression = section.need("compression", compression);
        Some(Kafka { common: common?, login: login?, compression: compression? })
    }

    fn print(&self, table: &mut Table) {
        self.common.print(table);
        common::print_login(table, ("user", "password"), &self.login);
        table.insert("compression".to_owned(), Value::from(self.compression));
    }

    fn secrets(&self) -> Vec<&Sealed> {
        self.login.iter().map(|(_, secret)| secret).collect()
    }

    fn urls(&self) -> Vec<&Url> {
        vec![&self.common.url]
    }

    fn sink(&self, wiring: &Wiring<'_>) -> Result<Arc<dyn Sink>, Cause> {
        let url = self.common.url.reveal().to_owned();
        let options = Options {
            access: Access { url, user: common::reveal(&self.login) },
            topic: self.common.naming(),
            compression: self.compression.to_owned(),
            manner: self.common.manner(wiring),
        };
        Ok(Arc::new(broker::kafka::Kafka::new(options)?))
    }
}
