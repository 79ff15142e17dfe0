# SPDX-License-Identifier: Apache-2.0
"""api_server.py PORT CERTIFICATE KEY FOLDER: stands in for the API server of Kubernetes, for the Leases of one namespace.

It is no Kubernetes: it has the paths, checks and answers of coordination.k8s.io/v1 that an election meets, written
after the published API. In FOLDER, `token` is the accepted token, `state.json` the objects, which outlive the process,
and `mode` what it does instead of answering well: "forbidden", "page", or "busy" (another program writes the object
between each read and the write that follows it, twice)."""
import http.server
import json
import pathlib
import re
import ssl
import sys
import threading
import uuid

PORT, CERTIFICATE, KEY, FOLDER = int(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
PATH = re.compile(r"/apis/coordination\.k8s\.io/v1/namespaces/ml/leases(?:/([a-z0-9][-a-z0-9.]*))?")
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
KEY_OF_ANNOTATION = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
lock = threading.Lock()


def load():
    path = FOLDER / "state.json"
    return json.loads(path.read_text()) if path.exists() else {"revision": 100, "leases": {}, "writes": 0}


def store(state):
    new = FOLDER / "state.new"
    new.write_text(json.dumps(state))
    new.rename(FOLDER / "state.json")


def status(code, reason, message):
    return code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}


def invalid(message):
    return status(422, "Invalid", f'Lease.coordination.k8s.io "bert" is invalid: {message}')


def check(lease):
    """The text of the first error of a written object; None: there is none."""
    if lease.get("kind") != "Lease" or lease.get("apiVersion") != "coordination.k8s.io/v1":
        return "kind or apiVersion"
    if unknown := set(lease) - {"kind", "apiVersion", "metadata", "spec"}:
        return f"unknown fields {unknown}"
    annotations = lease["metadata"].get("annotations", {})
    if not all(KEY_OF_ANNOTATION.fullmatch(key) and isinstance(value, str) for key, value in annotations.items()):
        return "metadata.annotations"
    spec = lease.get("spec", {})
    if unknown := set(spec) - {"holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"}:
        return f"unknown fields {unknown}"
    if not all(MICRO_TIME.fullmatch(spec[name]) for name in ("acquireTime", "renewTime") if name in spec):
        return "spec: no MicroTime"
    if not isinstance(spec.get("leaseDurationSeconds", 1), int) or spec.get("leaseDurationSeconds", 1) <= 0:
        return "spec.leaseDurationSeconds: must be greater than 0"
    if not isinstance(spec.get("leaseTransitions", 0), int) or spec.get("leaseTransitions", 0) < 0:
        return "spec.leaseTransitions: must be greater than or equal to 0"
    return None


def perform(verb, name, body, mode):
    state = load()
    leases = state["leases"]
    lease = json.loads(body) if body else None
    if lease is not None and (error := check(lease)):
        return invalid(error)
    if verb == "POST":
        name = lease["metadata"]["name"]
        if lease["metadata"].get("resourceVersion"):
            return status(400, "BadRequest", "resourceVersion should not be set on objects to be created")
        if name in leases:
            return status(409, "AlreadyExists", f'leases.coordination.k8s.io "{name}" already exists')
        lease["metadata"]["uid"] = str(uuid.uuid4())
        return write(state, name, lease, 201)
    if name not in leases:
        return status(404, "NotFound", f'leases.coordination.k8s.io "{name}" not found')
    old = leases[name]
    if verb == "GET":
        return 200, old
    if mode == "busy" and state["writes"] % 3 != 2:
        state["writes"] += 1
        old["metadata"].setdefault("labels", {})["writes"] = str(state["writes"])
        write(state, name, old, 200)
    elif mode == "busy":
        state["writes"] += 1
    version = lease["metadata"].get("resourceVersion")
    if not version:
        return invalid("metadata.resourceVersion: Invalid value: 0x0: must be specified for an update")
    if version != old["metadata"]["resourceVersion"]:
        return status(409, "Conflict", f'Operation cannot be fulfilled on leases.coordination.k8s.io "{name}": the object has '
                      "been modified; please apply your changes to the latest version and try again")
    if lease == old:
        return 200, old
    return write(state, name, lease, 200)


def write(state, name, lease, code):
    state["revision"] += 1
    lease["metadata"]["resourceVersion"] = str(state["revision"])
    state["leases"][name] = lease
    store(state)
    return code, lease


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10

    def answer(self, verb):
        mode = (FOLDER / "mode").read_text() if (FOLDER / "mode").exists() else ""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = PATH.fullmatch(self.path)
        if mode == "page":
            return self.send(200, b"<html><body>Sign in</body></html>", "text/html")
        if self.headers.get("Authorization") != "Bearer " + (FOLDER / "token").read_text():
            answer = status(401, "Unauthorized", "Unauthorized")
        elif mode == "forbidden" or not found:
            answer = status(403, "Forbidden", 'leases.coordination.k8s.io "bert" is forbidden: User "system:serviceaccount:ml:default" '
                            f'cannot {verb.lower()} resource "leases" in API group "coordination.k8s.io" in the namespace "ml"')
        else:
            with lock:
                answer = perform(verb, found[1], body, mode)
        print(verb, answer[0], flush=True)
        self.send(answer[0], json.dumps(answer[1]).encode(), "application/json")

    def send(self, code, body, kind):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer("GET")

    def do_POST(self):
        self.answer("POST")

    def do_PUT(self):
        self.answer("PUT")

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """The handshake is in the connection's own thread."""
    daemon_threads = True
    request_queue_size = 64

    def finish_request(self, request, client_address):
        try:
            with context.wrap_socket(request, server_side=True) as secured:
                self.RequestHandlerClass(secured, client_address, self)
        except OSError:
            pass

    def handle_error(self, request, client_address):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
server = Server(("127.0.0.1", PORT), Handler)
print("ready", flush=True)
server.serve_forever()
