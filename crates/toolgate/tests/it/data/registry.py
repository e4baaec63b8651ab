"""An npm registry on loopback: packages are directories NAME/VERSION, packed when they are asked for. Requests are written to requests.log."""

import base64
import hashlib
import http.server
import io
import json
import os
import sys
import tarfile
import threading

ROOT = sys.argv[1]
released = threading.Event()


def packed(name, version):
    folder = os.path.join(ROOT, name, version)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for place, _, files in sorted(os.walk(folder)):
            for file in sorted(files):
                path = os.path.join(place, file)
                if file == "extra.json":
                    for entry in json.load(open(path)):
                        about = tarfile.TarInfo(entry["name"])
                        about.mtime = 0
                        if "link" in entry:
                            about.type, about.linkname = tarfile.SYMTYPE, entry["link"]
                            archive.addfile(about)
                        else:
                            content = entry["content"].encode()
                            about.size = len(content)
                            archive.addfile(about, io.BytesIO(content))
                    continue
                about = tarfile.TarInfo("package/" + os.path.relpath(path, folder))
                content = open(path, "rb").read()
                about.size, about.mode, about.mtime = len(content), 0o755, 0
                archive.addfile(about, io.BytesIO(content))
    # The time in the header of gzip would change the digest.
    content = bytearray(buffer.getvalue())
    content[4:8] = b"\0\0\0\0"
    return bytes(content)


class Registry(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, code, kind, content):
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        with open(os.path.join(ROOT, "requests.log"), "a") as log:
            log.write(self.path + "\n")
        parts = [part for part in self.path.split("?")[0].split("/") if part]
        if len(parts) == 3 and parts[1] == "-":
            if os.path.exists(os.path.join(ROOT, "hold")):
                released.wait()
            return self.answer(200, "application/octet-stream", packed(parts[0], parts[2].removesuffix(".tgz")))
        if len(parts) != 1 or not os.path.isdir(os.path.join(ROOT, parts[0])):
            return self.answer(404, "application/json", b"{}")
        name, versions = parts[0], {}
        for version in sorted(os.listdir(os.path.join(ROOT, name))):
            about = json.load(open(os.path.join(ROOT, name, version, "package.json")))
            digest = base64.b64encode(hashlib.sha512(packed(name, version)).digest()).decode()
            about["hasInstallScript"] = "postinstall" in about.get("scripts", {})
            tarball = f"http://127.0.0.1:{self.server.server_port}/{name}/-/{version}.tgz"
            about["dist"] = {"tarball": tarball, "integrity": "sha512-" + digest}
            versions[version] = about
        packument = {"name": name, "dist-tags": {"latest": max(versions)}, "versions": versions}
        self.answer(200, "application/json", json.dumps(packument).encode())


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
print(server.server_port, flush=True)
server.serve_forever()
