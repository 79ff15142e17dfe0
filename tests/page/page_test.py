# SPDX-License-Identifier: Apache-2.0
"""The server's page in a browser, with a job of light agents.

    page_test.py BUILD NODES [SCREENSHOT]

Prints how long the first paint and the updates took. Skipped (77) without Chromium, unless
DDPRUN_REQUIRE_CHROMIUM=1."""
import base64
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile

import browser

# Ended at the end of the test, however it ends.
started = []

HOSTILE = "<img src=x onerror=document.title='owned'>"


def free_port():
    """A port outside the kernel's range for port 0, so that the server can start there again."""
    while True:
        port = random.randrange(10000, 20000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Server:
    def __init__(self, build, port=0, options=()):
        self.process = subprocess.Popen(
            [build / "bin" / "ddprun-rendezvous", "--host", "127.0.0.1", "--port", str(port), *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        started.append(self.process)
        for line in self.process.stderr:
            if found := re.search(r"rendezvous.listening port=(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise SystemExit("the server did not start")
        # Nothing reads its log from here on: it drops lines and does not wait.

    def get(self, path, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=browser.BOUND_S)
        connection.request("GET", path, headers={name.replace("_", "-"): text for name, text in fields.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()


class Job:
    def __init__(self, build, port, nodes):
        self.process = subprocess.Popen(
            [build / "bin" / "light_agents", str(port), str(nodes), "0", str(nodes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        started.append(self.process)
        self.order(f"name {HOSTILE}", answered=False)
        self.order("join")

    def order(self, command, answered=True):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        if answered and not self.process.stdout.readline():
            raise SystemExit(f"the agents ended at '{command}'")

    def fail(self):
        self.order("forget")
        self.order("fail")
        self.order("await_stop")

    def end(self):
        self.process.stdin.close()
        self.process.wait(browser.BOUND_S)
        self.process.stdout.close()


def check(fact, text):
    if not fact:
        raise SystemExit(f"FAILED: {text}")


def check_answers(server):
    job = "job=" + "".join(f"%{byte:02x}" for byte in HOSTILE.encode())
    for path in ("/", "/page.css", "/page.js", f"/timeline?{job}"):
        status, fields, _ = server.get(path)
        check(status == 200, f"{path}: {status}")
        # A timeline may be made again in between.
        while True:
            known = fields["ETag"]
            status, fields, body = server.get(path, If_None_Match=known)
            if status == 304 or fields["ETag"] == known:
                break
        check((status, body) == (304, b""), f"{path} again: {status}")
    check("default-src 'none'" in server.get("/")[1]["Content-Security-Policy"], "no policy")
    check(server.get(f"/timeline?{job}&from=-1")[0] == 400, "from=-1")
    check(server.get("/timeline?job=gone")[0] == 404, "a job that is gone")
    rounds = json.loads(server.get(f"/timeline?{job}&from=1")[2])["rounds"]
    check([each["number"] for each in rounds] == [1], f"rounds from 1 on: {rounds}")


def check_access(build, folder):
    """With a secret a page of another site may not read the pages by a name that leads here."""
    secret = folder / "secret"
    characters = base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
    secret.write_text(f"ddprun-secret-1:{characters}\n", encoding="ascii")
    secret.chmod(0o600)
    server = Server(build, options=["--secret-file", str(secret)])
    for path in ("/", "/page.js", "/status", "/timeline?job=x"):
        allowed = server.get(path, Host=f"localhost:{server.port}")[0]
        check(allowed in (200, 404), f"{path} under localhost: {allowed}")
        refused = server.get(path, Host=f"evil.example:{server.port}")[0]
        check(refused == 401, f"{path} under a foreign name: {refused}")
    server.kill()


def check_page(build, nodes, folder, screenshot):
    server = Server(build, free_port())
    origin = f"http://127.0.0.1:{server.port}"
    job = Job(build, server.port, nodes)
    page = browser.Browser(str(folder))
    started.append(page.process)
    page.open(origin + "/")
    page.until(f"document.querySelectorAll('#grid > i.running').length === {nodes}")
    painted = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null")
    first = page.evaluate("document.body.dataset.updateMs")

    job.fail()
    page.until("document.querySelectorAll('#rounds tr').length === 2"
               " && document.querySelector('#rounds tr:nth-child(2)').textContent.includes('exited with code 1')"
               f" && document.querySelectorAll('#grid > i.running').length === {nodes}")
    page.until(f"document.body.dataset.updateMs !== '{first}'")
    print(f"{nodes} nodes: first paint {painted} ms, first update {first} ms, a later one"
          f" {page.evaluate('document.body.dataset.updateMs')} ms")
    if screenshot:
        page.save_screenshot(screenshot)
    check_answers(server)

    shown = page.evaluate("document.body.textContent")
    check(HOSTILE + "0" in shown, "the host's name is not shown as text")
    check(page.evaluate("document.querySelector('#jobs button').textContent") == HOSTILE, "the job's name")
    check(page.evaluate("document.querySelectorAll('img').length") == 0, "a name became an element")
    check(page.evaluate("document.title") == "ddprun", "a name was executed")

    job.end()
    server.kill()
    page.until("document.querySelector('#link').textContent.startsWith('no answer')")
    server = Server(build, server.port)
    page.until("document.querySelector('#link').textContent.endsWith('is gone')"
               " && document.querySelector('#detail').hidden")
    job = Job(build, server.port, nodes)
    page.until("!document.querySelector('#detail').hidden"
               f" && document.querySelectorAll('#grid > i.running').length === {nodes}")
    foreign = [url for url in page.requested() if not url.startswith(origin + "/") and url != "about:blank"]
    check(page.requested() and not foreign, f"requests elsewhere: {foreign}")
    page.end()
    job.end()
    server.kill()


def main():
    build, nodes = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    screenshot = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        check_access(build, folder)
        if not browser.find():
            if os.environ.get("DDPRUN_REQUIRE_CHROMIUM") == "1":
                sys.exit("DDPRUN_REQUIRE_CHROMIUM=1, but there is no chromium")
            print("SKIP the page in a browser: no chromium")
            sys.exit(77)
        check_page(build, nodes, folder, screenshot)


try:
    main()
finally:
    for each in started:
        if each.poll() is None:
            each.kill()
            each.wait()
