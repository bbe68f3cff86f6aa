//! The relay beside bare loops: owning, competing, and several of them.

use anyhow::Result;

use super::{Run, at};
use crate::ROUNDS;
use crate::drain::{Drained, How, drain};
use crate::report::{Figure, Report};

impl Run<'_> {
    /// The relay beside the bare owner's loop and beside each shape.
    pub(super) async fn drains(&self, report: &mut Report) -> Result<()> {
        let shapes = self.bed.shapes();
        let mut rows: Vec<Vec<f64>> = vec![Vec::new(); 3 + shapes.len()];
        let mut claims = Vec::new();
        for _ in 0..ROUNDS {
            let url = self.bed.outbox(self.events, 0).await?;
            rows[0].push(self.bed.raw(&url, self.events).await?);
            rows[1].push(self.relay(self.how(false)).await?.rate);
            let drained = self.relay(self.how(true)).await?;
            rows[2].push(drained.rate);
            claims.extend(drained.claims);
            for (at, shape) in shapes.iter().enumerate() {
                rows[3 + at].push(self.bed.shape(shape, self.events).await?);
            }
        }
        let pair =
            |a: &[f64], b: &[f64]| a.iter().copied().zip(b.iter().copied()).collect::<Vec<_>>();
        let (raw, plain, kept) = (&rows[0], &rows[1], &rows[2]);
        let owner = "read and delete by primary key, no lease, no promise";
        report.pair(self.named("own_vs_raw"), owner, &pair(raw, plain));
        report.pair(self.named("own_history_vs_raw"), owner, &pair(raw, kept));
        for (shape, rates) in shapes.iter().zip(&rows[3..]) {
            report.pair(
                self.named(&format!("own_vs_{}", shape.name)),
                shape.what,
                &pair(rates, plain),
            );
            let name = self.named(&format!("own_history_vs_{}", shape.name));
            report.pair(name, shape.what, &pair(rates, kept));
        }
        claims.sort();
        for (name, share) in [("claim_p50_ms", 0.5), ("claim_p99_ms", 0.99)] {
            let what = "how long a claim of up to 100 events takes, ms";
            report.figure(Figure {
                name: self.named(name),
                what,
                value: at(&claims, share),
                unit: 1.0,
            });
        }
        Ok(())
    }

    /// Relays that compete beside one that owns, and beside the first shape.
    pub(super) async fn strategies(&self, report: &mut Report) -> Result<()> {
        let shape = self.bed.shapes().first();
        for strategy in self.bed.strategies() {
            let (mut owned, mut shaped) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let own = self.relay(self.how(false)).await?.rate;
                let how = How { strategy: *strategy, ..self.how(false) };
                let competing = self.relay(how).await?.rate;
                owned.push((own, competing));
                if let Some(shape) = shape {
                    shaped.push((self.bed.shape(shape, self.events).await?, competing));
                }
            }
            let name = strategy.name();
            report.pair(self.named(&format!("{name}_vs_own")), "own, without history", &owned);
            if let Some(shape) = shape {
                let name = self.named(&format!("{name}_vs_{}", shape.name));
                report.pair(name, shape.what, &shaped);
            }
        }
        Ok(())
    }

    /// Several relays beside one.
    pub(super) async fn relays(&self, report: &mut Report) -> Result<()> {
        if self.bed.width() == 1 {
            return Ok(());
        }
        for relays in [2, 4] {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                let one = self.relay(self.how(true)).await?.rate;
                rounds.push((one, self.relay(How { relays, ..self.how(true) }).await?.rate));
            }
            let what = format!("{relays} relays side by side, beside one, history on");
            report.pair(self.named(&format!("relays_{relays}")), &what, &rounds);
        }
        Ok(())
    }

    async fn relay(&self, how: How) -> Result<Drained> {
        let url = self.bed.outbox(self.events, 0).await?;
        drain(&url, self.events, how).await
    }
}
