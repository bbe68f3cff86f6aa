//! What a feed asks of a proxy for one delivery: end it, hide it, bury it.

use std::time::Duration;

use event::{Cause, Code, Refusal};
use tokio::time::timeout;

use super::super::refusal;
use super::super::wire::{Call, lasting, resource, v2};
use super::Inner;
use super::shelf::Parcel;

impl Inner {
    /// Ends a delivery.
    pub(super) async fn acknowledge(&self, parcel: &Parcel) -> Result<(), Refusal> {
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

    /// Hides a parcel from everybody for so long from now; returns its new receipt.
    pub(super) async fn hide(
        &self,
        parcel: &Parcel,
        duration: Duration,
    ) -> Result<String, Refusal> {
        let request = v2::ChangeInvisibleDurationRequest {
            group: resource(&self.wants.group),
            topic: resource(&parcel.place.topic),
            receipt_handle: parcel.receipt.clone(),
            invisible_duration: Some(lasting(duration)),
            message_id: parcel.message.clone(),
        };
        let ask = async |mut call: Call| call.client.change_invisible_duration(request).await;
        let v2::ChangeInvisibleDurationResponse { status, receipt_handle } = self.ask(ask).await?;
        judge(status).map(|()| receipt_handle)
    }

    /// Puts a parcel where the broker keeps what was given up.
    pub(super) async fn bury(&self, parcel: &Parcel) -> Result<(), Refusal> {
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

fn judge(status: Option<v2::Status>) -> Result<(), Refusal> {
    const INVALID_RECEIPT: i32 = 40013;
    match status.unwrap_or_default() {
        status if status.code == refusal::OK => Ok(()),
        v2::Status { code: INVALID_RECEIPT, message } => {
            let detail =
                format!("this delivery is no longer in hand: {INVALID_RECEIPT}: {message}");
            Err(Refusal::Reject(Cause::new(Code::SinkRefused, detail)))
        }
        status => Err(refusal::of(&status, "", false)),
    }
}
