//! `kind = "rabbitmq"`.

use std::sync::Arc;

use broker::rabbitmq::Options;
use event::{Cause, Secret, Sink};
use toml::{Table, Value};

use super::super::sealed::Url;
use super::super::section::Section;
use super::address::Address;
use super::common::Common;
use super::{Destination, Wiring};

const ADDRESS: Address = Address {
    schemes: &["amqp", "amqps"],
    example: "amqp://USER:${env:RABBITMQ_PASSWORD}@127.0.0.1:5672/VHOST",
    several: false,
    usual_port: true,
    login: None,
    behind: Some(|vhost| match vhost.contains('/') {
        true => Err("a / inside the virtual host is written %2F"),
        false => Ok(()),
    }),
};

const MANAGEMENT: Address = Address {
    schemes: &["http", "https"],
    example: "http://USER:${env:RABBITMQ_PASSWORD}@127.0.0.1:15672",
    several: false,
    usual_port: true,
    login: None,
    behind: None,
};

/// A RabbitMQ server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RabbitMq {
    pub(crate) common: Common,
    pub(crate) exchange: String,
    pub(crate) declare: bool,
    /// Where the management plugin listens, with user and password.
    pub(crate) management: Option<Url>,
}

impl Destination for RabbitMq {
    fn read(section: &mut Section<'_>) -> Option<RabbitMq> {
        let common = Common::read(section, &ADDRESS);
        let (exchange, declare) = (section.text("exchange"), section.flag("declare"));
        let exchange = section.need("exchange", exchange);
        let declare = section.need("declare", declare);
        let management = section.text("management");
        let management = section.mean("management", management, |text| match text.is_empty() {
            true => Ok(None),
            false => {
                let url = Url::read(text)?;
                MANAGEMENT.check(url.reveal())?;
                Ok(Some(url))
            }
        });
        Some(RabbitMq {
            common: common?,
            exchange: exchange?,
            declare: declare?,
            management: management?,
        })
    }

    fn print(&self, table: &mut Table) {
        self.common.print(table);
        table.insert("exchange".to_owned(), Value::from(self.exchange.clone()));
        table.insert("declare".to_owned(), Value::from(self.declare));
        let management = self.management.as_ref().map(ToString::to_string).unwrap_or_default();
        table.insert("management".to_owned(), Value::from(management));
    }

    fn urls(&self) -> Vec<&Url> {
        std::iter::once(&self.common.url).chain(&self.management).collect()
    }

    fn sink(&self, wiring: &Wiring<'_>) -> Result<Arc<dyn Sink>, Cause> {
        let options = Options {
            url: self.common.secret_url(),
            exchange: self.exchange.clone(),
            topic: self.common.naming(),
            declare: self.declare,
            manner: self.common.manner(wiring),
        };
        let sink = broker::rabbitmq::RabbitMq::new(options)?;
        Ok(match &self.management {
            Some(url) => Arc::new(sink.with_management(&Secret::new(url.reveal()))?),
            None => Arc::new(sink),
        })
    }
}
