# SPDX-License-Identifier: Apache-2.0
"""What is kept of a run: few files, so that they are quickly fetched, and whole after each check."""
import json
import os
import pathlib
import zipfile

# Of one file; what is longer loses its middle.
MOST_BYTES = 8 << 20


class Results:
    """`output.txt`: what was printed; `results.json`: a row for each check so far; `logs.zip`: everything that its programs wrote."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("output.txt", "results.json", "logs.zip"):
            (self.folder / name).unlink(missing_ok=True)
        self.rows = []

    def say(self, text=""):
        print(text, flush=True)
        with open(self.folder / "output.txt", "a", encoding="utf-8") as out:
            out.write(text + "\n")

    def add(self, row, logs):
        """`logs`: a folder."""
        self.rows.append(row)
        whole = self.folder / "results.json.new"
        whole.write_text(json.dumps(self.rows, indent=1) + "\n", encoding="utf-8")
        os.replace(whole, self.folder / "results.json")
        with zipfile.ZipFile(self.folder / "logs.zip", "a", zipfile.ZIP_DEFLATED) as kept:
            for file in sorted(pathlib.Path(logs).iterdir()):
                if file.is_file():
                    kept.writestr(f"{logs.name}/{file.name}", shortened(file))


def shortened(file):
    size = file.stat().st_size
    with open(file, "rb") as source:
        if size <= MOST_BYTES:
            return source.read()
        begin = source.read(MOST_BYTES // 2)
        source.seek(size - MOST_BYTES // 2)
        return begin + f"\n... {size - MOST_BYTES} bytes are left out ...\n".encode() + source.read()
