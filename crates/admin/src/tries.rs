//! How often one address may guess the token.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
const ADDRESSES: usize = 4096;

/// Wrong guesses of the last minute, by address.
#[derive(Default)]
pub(crate) struct Tries(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl Tries {
    /// Returns how long an address that guessed too often has to wait.
    pub(crate) fn wait(&self, peer: IpAddr) -> Option<Duration> {
        let tries = self.0.lock().expect("no holder of the tries panics");
        match tries.get(&peer) {
            Some((since, wrong)) if *wrong >= MOST => {
                WINDOW.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
            }
            _ => None,
        }
    }

    /// Notes a wrong guess.
    pub(crate) fn wrong(&self, peer: IpAddr) {
        let mut tries = self.0.lock().expect("no holder of the tries panics");
        tries.retain(|_, (since, _)| since.elapsed() < WINDOW);
        if tries.len() >= ADDRESSES && !tries.contains_key(&peer) {
            return;
        }
        tries.entry(peer).or_insert_with(|| (Instant::now(), 0)).1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_that_guessed_too_often_waits_for_the_window_to_pass() {
        let tries = Tries::default();
        let peer = IpAddr::from([10, 0, 0, 1]);
        for _ in 0..MOST {
            assert_eq!(tries.wait(peer), None);
            tries.wrong(peer);
        }
        assert_eq!(tries.wait(peer), Some(WINDOW));
        assert_eq!(tries.wait(IpAddr::from([10, 0, 0, 2])), None);
        tokio::time::advance(WINDOW).await;
        assert_eq!(tries.wait(peer), None);
    }
}
