"""A registry on loopback: packages are directories NAME/VERSION, packed when they are asked for. Requests are written to requests.log.

It serves the API of npm's registry, and Python's simple index below /simple, whose archives are on another host of the same machine. With the name of a
host as its second argument it speaks TLS, with cert.pem and key.pem beside the packages.
"""

import base64
import hashlib
import http.server
import io
import json
import os
import ssl
import sys
import tarfile
import threading
import zipfile

ROOT = sys.argv[1]
HOST = sys.argv[2] if len(sys.argv) > 2 else None
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


def wheel(name, version):
    """One module with a function `main`, which is the program of the package."""
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": open(os.path.join(ROOT, name, version, f"{name}.py")).read(),
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return buffer.getvalue()


class Registry(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, code, kind, content):
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_HEAD(self):
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self):
        with open(os.path.join(ROOT, "requests.log"), "a") as log:
            log.write(self.path + "\n")
        parts = [part for part in self.path.split("?")[0].split("/") if part]
        if parts[:1] == ["simple"]:
            return self.simple(parts[1:])
        if parts[:1] == ["archives"]:
            name, version = parts[1].split("-")[:2]
            return self.answer(200, "application/octet-stream", wheel(name, version))
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
            place = f"https://{HOST}" if HOST else "http://127.0.0.1"
            tarball = f"{place}:{self.server.server_port}/{name}/-/{version}.tgz"
            about["dist"] = {"tarball": tarball, "integrity": "sha512-" + digest}
            versions[version] = about
        packument = {"name": name, "dist-tags": {"latest": max(versions)}, "versions": versions}
        self.answer(200, "application/json", json.dumps(packument).encode())

    def simple(self, parts):
        if len(parts) != 1 or not os.path.isdir(os.path.join(ROOT, parts[0])):
            return self.answer(404, "text/html", b"")
        links = []
        for version in sorted(os.listdir(os.path.join(ROOT, parts[0]))):
            file = f"{parts[0]}-{version}-py3-none-any.whl"
            digest = hashlib.sha256(wheel(parts[0], version)).hexdigest()
            links.append(f'<a href="https://{HOST}:{self.server.server_port}/archives/{file}#sha256={digest}">{file}</a><br>')
        self.answer(200, "text/html", ("<!DOCTYPE html><html><body>" + "".join(links) + "</body></html>").encode())


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
if HOST:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.path.join(ROOT, "cert.pem"), os.path.join(ROOT, "key.pem"))
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()
