//! Two brokers of RocketMQ under one name server: the first has it, and the proxy, in its process;
//! the second can be killed alone.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use broker::rocketmq::remoting::{Desk, mended};
use serde_json::Value;
use tokio::time::sleep;

use super::rocketmq::{RocketMqQuay, at, begun};
use super::rocketmq_remoting::RemotingQuay;
use crate::instance::Instance;

/// What the world calls the newest, and the old one.
pub const FIVE: &str = "rocketmq";
/// RocketMQ 4.
pub const FOUR: &str = "rocketmq-4";

/// How long a broker may take until it is known, or no longer is.
const PATIENCE: Duration = Duration::from_secs(180);

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(100);

const SET: i32 = 25;
const CLUSTER: i32 = 106;

/// Two brokers.
pub struct Fleet {
    /// The first, and what all share.
    pub quay: RemotingQuay,
    second: Mutex<Instance>,
    /// What the name server calls the second, and its number among those of the name.
    place: (&'static str, &'static str),
}

/// Starts two masters that have the same topics.
pub async fn masters(server: &str, first: &[&str], second: &[&str]) -> Fleet {
    let first = [&["proxy.proxyMode=cluster"], first].concat();
    let second = [&["broker.brokerName=broker-b"], second].concat();
    let mut fleet = Fleet::start(server, &first, &second, ("broker-b", "0")).await;
    let desk = &fleet.quay.whole.broker;
    let address = at(&fleet.second(), server, "broker");
    let other = Desk { address, ..desk.clone() };
    fleet.quay.whole.others.push(other);
    // A proxy goes through the queues of one broker before it comes to the next.
    fleet.quay.whole.width = 4;
    fleet
}

/// Starts a master and its slave.
pub async fn master_and_slave(server: &str, settings: &[&str]) -> Fleet {
    let slave = ["broker.brokerRole=SLAVE", "broker.brokerId=1"];
    Fleet::start(server, settings, &slave, ("broker-a", "1")).await
}

impl Fleet {
    async fn start(
        server: &str,
        first: &[&str],
        second: &[&str],
        place: (&'static str, &'static str),
    ) -> Fleet {
        let whole = begun(server, first, None);
        let names = format!("broker.namesrvAddr={}", whole.names.address);
        let second = [&[&*names], second].concat();
        let second = Instance::start_with(server, &second).expect("a second broker starts");
        whole.answers().await.expect("the first broker answers");
        let fleet = Fleet { quay: RemotingQuay::new(whole), second: Mutex::new(second), place };
        fleet.is_known(true).await.expect("the second broker comes");
        fleet
    }

    /// Returns the first with its proxy.
    pub fn whole(&self) -> &RocketMqQuay {
        &self.quay.whole
    }

    /// Stops the second in the midst of whatever it does, or lets it go on.
    pub fn pause(&self, paused: bool) -> Result<()> {
        self.second().pause(paused)
    }

    /// Kills the second.
    pub fn kill(&self) -> Result<()> {
        self.second().kill()
    }

    /// Starts it again, and returns when the name server knows it.
    pub async fn revive(&self) -> Result<()> {
        self.second().revive()?;
        self.is_known(true).await
    }

    /// Changes a setting of the first.
    pub async fn set(&self, name: &str, value: &str) -> Result<()> {
        let setting = format!("{name}={value}");
        self.whole().broker.ask(SET, &[], setting.as_bytes()).await?;
        Ok(())
    }

    /// Waits until the name server knows the second, or no longer does.
    pub async fn is_known(&self, known: bool) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let (name, number) = self.place;
        loop {
            let told = self.whole().names.ask(CLUSTER, &[], b"").await?;
            let table: Value = serde_json::from_str(&mended(&String::from_utf8_lossy(&told)))?;
            let brokers = &table["brokerAddrTable"][name]["brokerAddrs"];
            if brokers[number].is_string() == known {
                return Ok(());
            }
            if known {
                self.second().lives()?;
            }
            self.whole().lives().context("the first broker")?;
            ensure!(Instant::now() < until, "the name server does not learn of it: {table}");
            sleep(LOOK).await;
        }
    }

    fn second(&self) -> MutexGuard<'_, Instance> {
        self.second.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
