# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over DevTools' pipe: messages end with a zero byte."""
import base64
import json
import os
import select
import shutil
import subprocess
import time

BOUND_S = 120


def find():
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self, folder):
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        redirected = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        # A home of its own: it neither reads nor leaves settings of the user.
        self.process = subprocess.Popen(
            ["bash", "-c", redirected, "bash", find(), "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             "--remote-debugging-pipe", "--window-size=1100,1400", f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(to_browser, from_browser), env={**os.environ, "HOME": folder},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.bytes = b""
        self.last_id = 0
        self.session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    def receive(self, until):
        while b"\0" not in self.bytes:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise SystemExit(f"the browser did not answer within {BOUND_S} s")
            more = os.read(self.read_end, 1 << 20)
            if not more:
                raise SystemExit("the browser ended")
            self.bytes += more
        message, self.bytes = self.bytes.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + BOUND_S
        while True:
            received = self.receive(until)
            if received.get("id") == self.last_id:
                if "error" in received:
                    raise SystemExit(f"{method}: {received['error']}")
                return received["result"]
            self.events.append(received)

    def await_event(self, method):
        until = time.monotonic() + BOUND_S
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive(until))

    def open(self, url):
        self.events = [event for event in self.events if event.get("method") != "Page.domContentEventFired"]
        self.call("Page.navigate", url=url)
        self.await_event("Page.domContentEventFired")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, condition):
        """Waits for a condition of the document, which is evaluated after each change of it."""
        print(f"  until {condition}", flush=True)
        self.evaluate("""new Promise((done) => {
            let observer;
            const check = () => { if (%s) { observer.disconnect(); done(); } };
            observer = new MutationObserver(check);
            observer.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
            check();
        })""" % condition)

    def requested(self):
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def save_screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
