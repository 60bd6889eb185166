"""A stand-in for a container runtime: answers the two calls of the CRI that the controller makes, over HTTP/2, with the pods of a file.

    cri.py SOCKET FILE      FILE: [{"id", "namespace", "pod", "container", "annotations": {}}, ...], or "hang"

HTTP/2 and protocol buffers are written by hand, so that the controller's libraries do not talk to themselves. On each connection the
first request is about containers and the second about pods, so headers need not be decoded.
"""

import json, os, socket, struct, sys, threading

DATA, HEADERS, SETTINGS, PING, GOAWAY = 0, 1, 4, 6, 7
ACK, END_STREAM, END_HEADERS = 1, 1, 4


def field(number, value):
    """A field of a message: a text, or another message."""
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def literal(name, value):
    """A header that is not indexed."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def containers(pods):
    return b"".join(
        field(1, field(1, pod["id"]) + field(2, "sandbox of " + pod["id"]) + field(3, field(1, pod["container"])))
        for pod in pods)


def sandboxes(pods):
    def sandbox(pod):
        metadata = field(1, pod["pod"]) + field(2, "some-uid") + field(3, pod["namespace"])
        entries = (field(6, field(1, key) + field(2, value)) for key, value in pod["annotations"].items())
        return field(1, "sandbox of " + pod["id"]) + field(2, metadata) + b"".join(entries)
    return b"".join(field(1, sandbox(pod)) for pod in pods)


def serve(connection, file):
    answers = iter([containers, sandboxes])
    stream = connection.makefile("rb")
    frame = lambda kind, flags, number, body=b"": connection.sendall(
        struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", number) + body)
    assert stream.read(24) == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    frame(SETTINGS, 0, 0)
    while head := stream.read(9):
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        number, body = struct.unpack(">I", head[5:])[0], stream.read(length)
        if kind == SETTINGS and not flags & ACK:
            frame(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK:
            frame(PING, ACK, 0, body)
        elif kind == GOAWAY:
            return
        elif kind in (HEADERS, DATA) and flags & END_STREAM:
            with open(file) as said:
                pods = json.load(said)
            if pods == "hang":
                continue
            message = next(answers)(pods)
            # :status 200 has the index 8.
            frame(HEADERS, END_HEADERS, number, b"\x88" + literal(b"content-type", b"application/grpc"))
            message = b"\0" + struct.pack(">I", len(message)) + message
            for at in range(0, len(message), 16384):
                frame(DATA, 0, number, message[at:at + 16384])
            frame(HEADERS, END_HEADERS | END_STREAM, number, literal(b"grpc-status", b"0"))


listener = socket.socket(socket.AF_UNIX)
if os.path.exists(sys.argv[1]):
    os.unlink(sys.argv[1])
listener.bind(sys.argv[1])
listener.listen()
print("listening", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0], sys.argv[2]), daemon=True).start()
