//! What a feed asks of a proxy for one delivery: end it, hide it, bury it.

use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Code, Refusal};
use tokio::time::timeout;

use super::super::refusal::{self, Absence};
use super::super::wire::{Call, Line, lasting, resource, v2};
use super::keep::Proxy;
use super::session::Session;
use super::shelf::Parcel;
use crate::manner::Subscription;

/// The way to a proxy, as one consumer of a group.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) line: Line,
    pub(super) wants: Subscription,
    pub(super) session: Session,
}

#[async_trait]
impl Proxy for Wire {
    async fn acknowledge(&self, parcel: &Parcel) -> Result<(), Refusal> {
        let entry = v2::AckMessageEntry {
            message_id: parcel.message.clone(),
            receipt_handle: parcel.receipt.clone(),
        };
        let request = v2::AckMessageRequest {
            group: resource(&self.wants.group),
            topic: resource(&parcel.place.topic),
            entries: vec![entry],
        };
        let ask = async |mut call: Call| call.client.ack_message(request).await;
        let v2::AckMessageResponse { status, entries } = self.ask(ask).await?;
        let exact = entries.into_iter().next().and_then(|entry| entry.status);
        judge(exact.or(status))
    }

    async fn hide(&self, parcel: &Parcel, duration: Duration) -> Result<String, Refusal> {
        let request = v2::ChangeInvisibleDurationRequest {
            group: resource(&self.wants.group),
            topic: resource(&parcel.place.topic),
            receipt_handle: parcel.receipt.clone(),
            invisible_duration: Some(lasting(duration)),
            message_id: parcel.message.clone(),
        };
        let ask = async |mut call: Call| call.client.change_invisible_duration(request).await;
        let v2::ChangeInvisibleDurationResponse { status, receipt_handle } = self.ask(ask).await?;
        judge(status).map(|()| mended(receipt_handle))
    }

    async fn bury(&self, parcel: &Parcel) -> Result<(), Refusal> {
        let attempt = i32::try_from(parcel.attempt).unwrap_or(i32::MAX);
        let request = v2::ForwardMessageToDeadLetterQueueRequest {
            group: resource(&self.wants.group),
            topic: resource(&parcel.place.topic),
            receipt_handle: parcel.receipt.clone(),
            message_id: parcel.message.clone(),
            delivery_attempt: attempt,
            max_delivery_attempts: attempt,
        };
        let ask =
            async |mut call: Call| call.client.forward_message_to_dead_letter_queue(request).await;
        judge(self.ask(ask).await?.status)?;
        // The proxy ends it too, but does not wait for that, nor tells whether it went well.
        self.acknowledge(parcel).await
    }
}

impl Wire {
    /// Returns a call to a proxy that knows this consumer, and whether its group is FIFO.
    pub(super) async fn call(&self) -> Result<(Call, bool), Refusal> {
        self.session.call(&self.line, &self.wants).await
    }

    /// Says that this consumer goes.
    pub(super) async fn take_leave(&self) {
        let request = v2::NotifyClientTerminationRequest { group: resource(&self.wants.group) };
        let ask = async |mut call: Call| call.client.notify_client_termination(request).await;
        // A proxy that is gone has forgotten this consumer anyway.
        let _ = self.ask(ask).await;
    }

    async fn ask<T>(
        &self,
        ask: impl AsyncFnOnce(Call) -> Result<tonic::Response<T>, tonic::Status>,
    ) -> Result<T, Refusal> {
        let call = self.line.call();
        let turn = call.turn;
        let host = self.line.host(turn);
        match timeout(self.wants.timeout, ask(call)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => {
                self.line.leave(turn);
                Err(refusal::without(&status, host))
            }
            Err(_) => {
                self.line.leave(turn);
                Err(refusal::silent(host, self.wants.timeout))
            }
        }
    }
}

/// Mends the receipt of a renewal. A proxy inside its broker writes where the old hand-out of
/// several began, but the new one is of this event alone: under any other beginning it is not
/// found, and an ack ends nothing.
fn mended(receipt: String) -> String {
    const BEGINNING: usize = 0;
    const OFFSET: usize = 7;
    let mut fields: Vec<&str> = receipt.split(' ').collect();
    let number = |field: &str| field.parse::<i64>().is_ok();
    match fields.get(OFFSET).copied() {
        Some(offset) if number(offset) && number(fields[BEGINNING]) => {
            fields[BEGINNING] = offset;
            fields.join(" ")
        }
        _ => receipt,
    }
}

fn judge(status: Option<v2::Status>) -> Result<(), Refusal> {
    const INVALID_RECEIPT: i32 = 40013;
    match status.unwrap_or_default() {
        status if status.code == refusal::OK => Ok(()),
        v2::Status { code: INVALID_RECEIPT, message } => {
            let detail =
                format!("this delivery is no longer in hand: {INVALID_RECEIPT}: {message}");
            Err(Refusal::Reject(Cause::new(Code::SinkRefused, detail)))
        }
        status => Err(refusal::of(&status, "", Absence::Missing)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewed_receipt_begins_with_its_own_event() {
        let told = "40 1794923455381 60000 0 0 broker-a 3 47 0".to_owned();
        assert_eq!(mended(told), "47 1794923455381 60000 0 0 broker-a 3 47 0");
        for other in ["", "something else", "a b c d e f g 7", "1 2 3 4 5 6 7 x"] {
            assert_eq!(mended(other.to_owned()), other);
        }
    }
}
