//! `kind = "redis"`.

use std::sync::Arc;

use broker::redis::Options;
use event::{Cause, Sink};
use toml::Table;

use super::super::sealed::Url;
use super::super::section::Section;
use super::address::Address;
use super::common::Common;
use super::{Destination, Wiring};

const ADDRESS: Address = Address {
    schemes: &["redis", "rediss"],
    example: "redis://:${env:REDIS_PASSWORD}@127.0.0.1:6379/0",
    several: false,
    usual_port: true,
    login: None,
    behind: Some(|database| match database.is_empty() || database.parse::<u16>().is_ok() {
        true => Ok(()),
        false => Err("only the number of a database may follow the host"),
    }),
};

/// A Redis server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redis {
    pub(crate) common: Common,
}

impl Destination for Redis {
    fn read(section: &mut Section<'_>) -> Option<Redis> {
        Some(Redis { common: Common::read(section, &ADDRESS)? })
    }

    fn print(&self, table: &mut Table) {
        self.common.print(table);
    }

    fn urls(&self) -> Vec<&Url> {
        vec![&self.common.url]
    }

    fn sink(&self, wiring: &Wiring<'_>) -> Result<Arc<dyn Sink>, Cause> {
        let options = Options {
            url: self.common.secret_url(),
            topic: self.common.naming(),
            manner: self.common.manner(wiring),
        };
        Ok(Arc::new(broker::redis::Redis::new(options)?))
    }
}
