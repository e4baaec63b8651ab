"""An HTTP proxy that only tunnels: it wants a password, knows one name that no resolver does, and prints what it is asked for."""

import base64
import contextlib
import socket
import socketserver
import sys
import threading

EXPECTED = "Basic " + base64.b64encode(b"worker:secret").decode()


def copy(source, target):
    # Either side may hang up first, and a passing run prints no traceback.
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


class Tunnel(socketserver.StreamRequestHandler):
    rbufsize = 0

    def handle(self):
        target = self.rfile.readline().decode().split()[1]
        fields = {}
        while line := self.rfile.readline().decode().strip():
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        print(target, flush=True)
        if fields.get("proxy-authorization") != EXPECTED:
            return self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        server = socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2])))
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        back = threading.Thread(target=copy, args=(server, self.connection), daemon=True)
        back.start()
        copy(self.connection, server)
        back.join()


socketserver.ThreadingTCPServer.daemon_threads = True
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tunnel)
print(server.server_address[1], flush=True)
server.serve_forever()
