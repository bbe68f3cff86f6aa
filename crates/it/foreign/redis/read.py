"""Reads a stream as a consumer in Python does: Redis' own client, and the CloudEvents SDK.

    python read.py URL STREAM COUNT

Takes COUNT events as a group, acknowledges each, and prints each as one line of JSON. It knows
nothing of Postbox but that the fields of an entry are the attributes of an event, and its data.
"""

import base64
import json
import sys
from datetime import datetime

import redis
from cloudevents.core.v1.event import CloudEvent

MILLISECONDS = 60_000


def event_of(fields):
    """Hands the SDK what came: attributes by their plain names, and the payload as `data`."""
    attributes = {name.decode(): value.decode() for name, value in fields.items() if name != b"data"}
    attributes["time"] = datetime.fromisoformat(attributes["time"].replace("Z", "+00:00"))
    return CloudEvent(attributes, fields[b"data"])


def shown(event):
    attributes = {name: str(value) for name, value in event.get_attributes().items()}
    attributes["time"] = event.get_time().isoformat()
    return {"attributes": attributes, "body": base64.b64encode(event.get_data()).decode()}


def main(url, stream, count):
    client = redis.Redis.from_url(url, protocol=2)
    client.xgroup_create(stream, "python", id="0", mkstream=True)
    taken = 0
    while taken < count:
        came = client.xreadgroup("python", "reader", {stream: ">"}, count=10, block=MILLISECONDS)
        if not came:
            sys.exit(f"{taken} of {count} came")
        for number, fields in came[0][1]:
            print(json.dumps(shown(event_of(fields))), flush=True)
            client.xack(stream, "python", number)
            taken += 1
    client.close()


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
