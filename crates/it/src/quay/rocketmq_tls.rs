//! RocketMQ that speaks TLS and nothing else: proxy, name server and broker.

use anyhow::Result;
use broker::rocketmq::remoting::Trust;

use super::rocketmq::{RocketMqQuay, at};
use crate::instance::Instance;

/// What the world calls it.
const SERVER: &str = "rocketmq";

/// A server of its own.
pub struct Enforcing {
    instance: Instance,
}

/// Where its parts listen.
#[derive(Clone, Debug)]
pub struct Parts {
    /// `HOST:PORT` of the proxy.
    pub proxy: String,
    /// `HOST:PORT` of the name server.
    pub names: String,
    /// `HOST:PORT` of the broker.
    pub broker: String,
}

impl Enforcing {
    /// Starts one whose certificate and key are these files. It takes a while until it answers.
    pub fn start(certificate: &str, key: &str) -> Result<Enforcing> {
        let settings = [
            "broker.flushDiskType=SYNC_FLUSH",
            "property.tls.server.mode=enforcing",
            // Its parts speak TLS with each other, too, and trust anybody.
            "property.tls.enable=true",
            "property.tls.test.mode.enable=false",
            &format!("property.tls.server.certPath={certificate}"),
            &format!("property.tls.server.keyPath={key}"),
            "proxy.tlsTestModeEnable=false",
            &format!("proxy.tlsCertPath={certificate}"),
            &format!("proxy.tlsKeyPath={key}"),
        ];
        Ok(Enforcing { instance: Instance::start_with(SERVER, &settings)? })
    }

    /// Returns where its parts listen.
    pub fn parts(&self) -> Parts {
        let proxy = format!("127.0.0.1:{}", self.instance.ports[0]);
        let [names, broker] = ["names", "broker"].map(|part| at(&self.instance, SERVER, part));
        Parts { proxy, names, broker }
    }

    /// Fails with its last words when it has ended.
    pub fn lives(&mut self) -> Result<()> {
        self.instance.lives()
    }
}

impl Parts {
    /// Uses it as one who trusts what this process trusts.
    pub fn quay(&self) -> RocketMqQuay {
        let url = format!("rocketmq+tls://{}", self.proxy);
        let mut quay = RocketMqQuay::new(&url, &self.names, &self.broker, None, None);
        let trust = Trust::machine().expect("the test has named its CA");
        quay.names.trust = Some(trust.clone());
        quay.broker.trust = Some(trust);
        quay
    }
}
