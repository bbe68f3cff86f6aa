"""Receives events as a service in Python does: Standard Webhooks' own package, and CloudEvents'.

    python receive.py PORT SECRET

It takes in what is genuine, in either layout, and refuses the rest. `GET /ID` shows what came with
an id as one document of JSON. It knows nothing of Postbox: whatever it shows, any receiver of
CloudEvents sees.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

import base64, hashlib, hmac, time

from cloudevents.core.bindings.http import HTTPMessage, from_http_event


def genuine(headers, body: bytes, secret: str) -> bool:
    """Tells whether who knows the secret signed this just now. Names are in lower case."""
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    event_id, at, given = (headers.get(name, "") for name in names)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    code = hmac.new(key, f"{event_id}.{at}.".encode() + body, hashlib.sha256).digest()
    right = b"v1," + base64.b64encode(code)
    fresh = at.isdecimal() and abs(time.time() - int(at)) < 300
    return fresh and any(hmac.compare_digest(right, one.encode()) for one in given.split())


def receive(headers, body: bytes, secret: str):
    """Returns the status to answer, and the event if it is to be taken in."""
    if not genuine(headers, body, secret):
        return 401, None
    event = from_http_event(HTTPMessage(headers=headers, body=body))
    ...                                                # take it in, once per event.get_id()
    return 204, event


def by_package(headers, body, secret):
    """Tells what the package says of a signature; of a body that is no text it can say nothing."""
    try:
        Webhook(secret).verify(body, headers, json_parse=False)
        return "genuine"
    except UnicodeDecodeError:
        return "no text"
    except WebhookVerificationError:
        return "forged"


def shown(event, headers, body):
    attributes = {name: str(value) for name, value in event.get_attributes().items()}
    attributes["time"] = event.get_time().isoformat()
    data = event.get_data()
    return {
        "attributes": attributes,
        "data": data if isinstance(data, (dict, list)) else None,
        "body": base64.b64encode(data if isinstance(data, bytes) else body).decode(),
        "type": headers["content-type"],
        "idempotency_key": headers["idempotency-key"],
        "traceparent": headers.get("traceparent"),
        "package": by_package(headers, body, SECRET),
    }


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    taken = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, event = receive(headers, body, SECRET)
        if event:
            self.taken[event.get_id()] = shown(event, headers, body)
        elif by_package(headers, body, SECRET) == "genuine":
            status = 500                               # whom to believe?
        self.answer(status)

    def do_GET(self):
        seen = {"": "ready", **self.taken}.get(self.path.strip("/"))
        self.answer(200 if seen else 404, json.dumps(seen).encode())

    def answer(self, status, body=b""):
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    SECRET = sys.argv[2]
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
