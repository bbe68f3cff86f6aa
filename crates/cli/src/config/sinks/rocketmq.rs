//! `kind = "rocketmq"`.

use std::sync::Arc;

use broker::rocketmq::{Access, Options, Shape};
use event::{Cause, Sink};
use toml::{Table, Value};

use super::super::sealed::{Sealed, Url};
use super::super::section::Section;
use super::address::Address;
use super::common::{self, Common, Login};
use super::{Destination, Wiring};

const ADDRESS: Address = Address {
    schemes: &["rocketmq", "rocketmq+tls", "rocketmq+remoting", "rocketmq+remoting+tls"],
    example: "rocketmq://127.0.0.1:8081, the address of its proxy, or \
              rocketmq+remoting://127.0.0.1:9876, that of its name server",
    several: true,
    usual_port: false,
    login: Some(("access_key", "secret_key")),
    behind: Some(|more| match more.split_once('=') {
        Some(("?nameserver" | "?plain-nameserver", _)) => Ok(()),
        _ if more.is_empty() => Ok(()),
        _ => Err("only ?nameserver=HOST:PORT may follow the hosts"),
    }),
};

/// A RocketMQ proxy, or brokers that name servers lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RocketMq {
    pub(crate) common: Common,
    pub(crate) shape: &'static str,
    pub(crate) keys: Login,
}

impl Destination for RocketMq {
    fn read(section: &mut Section<'_>) -> Option<RocketMq> {
        let common = Common::read(section, &ADDRESS);
        let shape = section.word("shape", &["fifo", "normal", "delay"]);
        let shape = section.need("shape", shape);
        let keys = common::login(section, "access_key", "secret_key");
        Some(RocketMq { common: common?, shape: shape?, keys: keys? })
    }

    fn print(&self, table: &mut Table) {
        self.common.print(table);
        table.insert("shape".to_owned(), Value::from(self.shape));
        common::print_login(table, ("access_key", "secret_key"), &self.keys);
    }

    fn secrets(&self) -> Vec<&Sealed> {
        self.keys.iter().map(|(_, secret)| secret).collect()
    }

    fn urls(&self) -> Vec<&Url> {
        vec![&self.common.url]
    }

    fn sink(&self, wiring: &Wiring<'_>) -> Result<Arc<dyn Sink>, Cause> {
        let url = self.common.url.reveal().to_owned();
        let options = Options {
            access: Access { url, keys: common::reveal(&self.keys) },
            topic: self.common.naming(),
            shape: match self.shape {
                "normal" => Shape::Normal,
                "delay" => Shape::Delay,
                _ => Shape::Fifo,
            },
            manner: self.common.manner(wiring),
        };
        broker::rocketmq::sink(options)
    }
}
