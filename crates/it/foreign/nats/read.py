"""Reads a stream as a consumer in Python does: NATS' own client, and the CloudEvents SDK.

    python read.py URL STREAM SUBJECT COUNT

Takes COUNT events with a durable consumer, acknowledges each, and prints each as one line of JSON.
It knows nothing of Postbox: whatever it prints, any reader of CloudEvents sees.
"""

import asyncio
import base64
import json
import sys

import nats
from cloudevents.core.bindings.http import HTTPMessage, from_http_event

SECONDS = 60


def event_of(message):
    """Hands the SDK what came. In binary form NATS carries the headers that HTTP does."""
    return from_http_event(HTTPMessage(headers=message.headers, body=message.data))


def shown(event, message):
    attributes = {name: str(value) for name, value in event.get_attributes().items()}
    attributes["time"] = event.get_time().isoformat()
    return {
        "attributes": attributes,
        "data": event.get_data() if isinstance(event.get_data(), (dict, list)) else None,
        "body": base64.b64encode(message.data).decode(),
        "subject": message.subject,
        "message_id": message.headers["Nats-Msg-Id"],
        "traceparent": message.headers.get("traceparent"),
    }


async def main(url, stream, subject, count):
    client = await nats.connect(url)
    taking = await client.jetstream().pull_subscribe(subject, durable="python", stream=stream)
    taken = 0
    while taken < count:
        for message in await taking.fetch(count - taken, timeout=SECONDS):
            print(json.dumps(shown(event_of(message), message)), flush=True)
            await message.ack_sync()
            taken += 1
    await client.close()


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
