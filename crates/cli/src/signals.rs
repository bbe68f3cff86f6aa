//! Being asked to end: the first signal stops gently, the second at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How a process is asked to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    /// Finish what is in hand, then end.
    pub(crate) gently: CancellationToken,
    /// End.
    pub(crate) now: CancellationToken,
}

impl Stop {
    /// Listens for SIGINT and SIGTERM.
    pub(crate) fn listen() -> std::io::Result<Stop> {
        Stop::on(&[SignalKind::interrupt(), SignalKind::terminate()])
    }

    /// Listens for a closing terminal as well, for what lives only as long as somebody looks.
    pub(crate) fn listen_at_terminal() -> std::io::Result<Stop> {
        Stop::on(&[SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()])
    }

    fn on(kinds: &[SignalKind]) -> std::io::Result<Stop> {
        let stop = Stop::default();
        for kind in kinds {
            tokio::spawn(stop.clone().obey(signal(*kind)?));
        }
        Ok(stop)
    }

    async fn obey(self, mut signals: Signal) {
        while signals.recv().await.is_some() {
            if self.gently.is_cancelled() {
                self.now.cancel();
            }
            self.gently.cancel();
        }
    }
}
