"""A process with a stand-in for the shim: it speaks the controller's protocol, controlled by its standard input.

Each line is a command; its answer is a line of JSON. Only the client's side of the protocol is here. The layout of packets
and of the arbiter page is that of xsched_protocol::wire and xsched_protocol::arbiter_page.
"""

import array, ctypes, json, mmap, os, resource, select, socket, struct, sys, time

HELLO, WELCOME, OPEN, OPENED, REPORTED, USAGE, REFUSAL, VERDICTS, RULES = range(1, 10)
SETTINGS = 12
# The runtime that its shim is for.
HIP = 1
ORIGIN_NAME, ORIGIN_USAGE, OWN_ORIGIN = 13, 14, 1 << 31
REPORTS = {"join": 1, "ready": 2, "idle": 3, "expire": 4, "check": 5, "close": 6}
BLOCKS = 8 * 64
DEVICES, DEVICE_LEN, QUEUE_LEN = 128 + BLOCKS, 32 + 16 * 64, 32
QUEUES = DEVICES + 256 * DEVICE_LEN
PAGE_LEN = QUEUES + 4096 * QUEUE_LEN


class Process:
    def __init__(self, folder):
        self.path = os.path.join(folder, "shim.sock")
        self.control_path = os.path.join(folder, "control.sock")

    def connect(self, priority=None, token=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(self.path)
        token = bytes.fromhex(token or os.environ.get("XSCHED_TOKEN", "00" * 16))
        hints, priority = (0, 0) if priority in (None, "-") else (1, int(priority))
        packet = struct.pack("=IIQIiII16sQII", HELLO, WIRE, PAGE, hints, priority, 0, 0, token, 0, HIP, 0)
        self.socket.send(packet)
        return self.receive()

    def receive(self):
        kind = RULES
        while kind in (VERDICTS, RULES):  # not answers to a request
            packet, ancillary, _, _ = self.socket.recvmsg(64, socket.CMSG_SPACE(8))
            if not packet:
                return {"end": True}
            kind = struct.unpack_from("=I", packet)[0]
        if kind == WELCOME:
            fds = array.array("i")
            for _, _, data in ancillary:
                fds.frombytes(data)
            self.page = mmap.mmap(fds[0], PAGE_LEN, mmap.MAP_SHARED, mmap.PROT_READ)
            try:
                mmap.mmap(fds[0], PAGE_LEN, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
                may_write = True
            except OSError:
                may_write = False
            keeper, epoch, number, in_flight, level, observe = struct.unpack_from("=IQQQII", packet, 4)
            return {"keeper": keeper, "epoch": epoch, "in_flight_ns": in_flight, "preemption_level": level,
                    "observe": observe, "may_write": may_write}
        if kind == OPENED:
            fds = array.array("i")
            for _, _, data in ancillary:
                fds.frombytes(data)
            request, slot, generation, keeper, brings = struct.unpack_from("=IIIII", packet, 4)
            if brings & 2:
                self.wake = select.epoll.fromfd(fds.pop())
            self.gate_word = mmap.mmap(fds[0], 4096) if brings & 1 else None
            for fd in fds:
                os.close(fd)
            return {"slot": slot, "generation": generation, "keeper": keeper, "request": request}
        if kind == REFUSAL:
            return {"refused": struct.unpack_from("=I", packet, 4)[0]}
        return {"kind": kind}

    def open(self, bus, stream_priority="0"):
        self.key = 1 << 63 | int(bus) << 16
        self.socket.send(struct.pack("=IIQiIiIQ", OPEN, 7, self.key, int(stream_priority), 0, 0, 0, 0))
        return self.receive()

    def report(self, name, slot, generation):
        self.socket.send(struct.pack("=IIQQ", REPORTED, int(slot), REPORTS[name], int(generation)))
        return {}

    def usage(self, slot, generation, device_ns):
        self.socket.send(struct.pack("=IIIIQQQQ", USAGE, int(slot), int(generation), 0, int(device_ns), 1, 0, 0))
        return {}

    def divide(self, slot, generation, device_ns):
        """Reports device time of a library that it names itself."""
        name = b"libown.so"
        self.socket.send(struct.pack("=IIII400s", ORIGIN_NAME, 0, len(name), 0, name))
        self.socket.send(struct.pack("=IIIIIIQ384x", ORIGIN_USAGE, int(slot), int(generation), 1, OWN_ORIGIN, 0, int(device_ns)))
        return {}

    def storm(self, count):
        """Connects this many times, each time with another device, uses it and leaves."""
        for number in range(int(count)):
            self.connect(priority=number % 250 - 150)
            opened = self.open(1 + number % 200)
            if "slot" in opened:
                self.usage(opened["slot"], opened["generation"], 1000)
            # The controller reads all that was sent before it ends the connection.
            self.socket.shutdown(socket.SHUT_WR)
            self.end()
        return {}

    def word(self, offset):
        return struct.unpack_from("=Q", self.page, offset)[0]

    def look(self):
        devices = {}
        for index in range(64):
            at = DEVICES + index * DEVICE_LEN
            if self.word(at):
                devices[str(self.word(at) >> 16 & 0xFF)] = {"ready": self.word(at + 8), "exists": self.word(at + 16)}
        return {"obey": self.word(24), "devices": devices}

    def level(self, slot):
        return {"level": self.word(QUEUES + int(slot) * QUEUE_LEN) >> 2 & 63}

    def gate(self):
        """Reads the gate of the last opened queue."""
        return {"gate": struct.unpack_from("=Q", self.gate_word)[0] if self.gate_word else None}

    def wait(self):
        """Waits until the masks change, for at most a minute."""
        return {"woken": bool(self.wake.poll(60))}

    def packet(self, text):
        """Sends these bytes, and returns the answer."""
        self.socket.send(bytes.fromhex(text))
        return self.receive()

    def throw(self, text):
        """Sends these bytes, and does not wait for an answer."""
        self.socket.send(bytes.fromhex(text))
        return {}

    def settings(self, *words):
        """Sends the process's own rules, in TOML."""
        text = " ".join(words).encode()
        self.socket.send(struct.pack("=II", SETTINGS, len(text)) + text)
        return {}

    def descriptor(self, which):
        """Sends a valid packet with a descriptor, to the controller's socket for shims or for commands."""
        if which == "shim":
            self.connect()
            receiver, packet = self.socket, struct.pack("=II", SETTINGS, 0)
        else:
            receiver, packet = socket.socket(socket.AF_UNIX), b'{"verb":"list"}\n'
            receiver.connect(self.control_path)
        receiver.settimeout(60)
        try:
            socket.send_fds(receiver, [packet], [0])
            while answer := receiver.recv(64):
                kind = struct.unpack_from("=I", answer)[0]
                if which != "shim" or kind not in (VERDICTS, RULES):
                    return {"refused": which == "shim" and kind == REFUSAL}
        except (PermissionError, ConnectionResetError):  # the former from Linux 6.16 on
            pass
        return {"refused": True}

    def raw(self, text="-"):
        """Connects, sends these bytes first, and returns the answer."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(self.path)
        return self.packet(text)

    def end(self):
        """Waits for the controller's end."""
        try:
            while self.socket.recv(64):
                pass
        except ConnectionResetError:
            pass
        return {"end": True}

    def order(self, *words):
        """Sends a command's request, in JSON, and returns the answer."""
        control = socket.socket(socket.AF_UNIX)
        control.settimeout(60)
        control.connect(self.control_path)
        control.sendall(" ".join(words).encode() + b"\n")
        answer = control.makefile().readline()
        return json.loads(answer) if answer else {"end": True}

    def crowd(self, count):
        """Makes this many connections to the control socket; returns how many stay open, and the messages on the others."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        self.connections = [socket.socket(socket.AF_UNIX) for _ in range(int(count))]
        for connection in self.connections:
            connection.settimeout(1)
            try:
                connection.connect(self.control_path)
            except TimeoutError:
                break
        time.sleep(1)
        said = [self.left(connection) for connection in self.connections]
        told = [json.loads(text) for text, _ in said if text]
        return {"held": sum(is_open for _, is_open in said), "told": [answer["message"] for answer in told]}

    def queue_up(self):
        """Connects to the control socket and closes the connection, until the backlog is full."""
        while True:
            with socket.socket(socket.AF_UNIX) as control:
                control.setblocking(False)
                control.connect(self.control_path)

    def pester(self, seconds, count, *words):
        """Sends a request repeatedly on several connections for some seconds, without waiting; returns the number of answers."""
        lines = (" ".join(words).encode() + b"\n") * 100
        poll, sockets, answers = select.poll(), {}, 0
        for _ in range(int(count)):
            control = socket.socket(socket.AF_UNIX)
            control.connect(self.control_path)
            control.setblocking(False)
            sockets[control.fileno()] = control
            poll.register(control, select.POLLIN | select.POLLOUT)
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            for number, events in poll.poll(100):
                try:
                    if events & select.POLLIN:
                        answers += sockets[number].recv(1 << 20).count(b"\n")
                    if events & select.POLLOUT:
                        sockets[number].send(lines)
                except BlockingIOError:
                    pass
        return {"answers": answers}

    @staticmethod
    def left(connection):
        """Returns the received text, and whether the connection is open."""
        connection.setblocking(False)
        text = b""
        try:
            while part := connection.recv(4096):
                text += part
            return text, False
        except BlockingIOError:
            return text, True
        except OSError:
            return text, False

    def clutter(self, count):
        """Adds this many executable mappings of its own program."""
        libc = ctypes.CDLL(None)
        word, number = ctypes.c_size_t, ctypes.c_int
        libc.mmap.argtypes = [word, word, number, number, number, word]
        with open("/proc/self/exe", "rb") as file:
            for _ in range(int(count)):
                libc.mmap(0, 4096, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file.fileno(), 0)
        return {}

    def signal(self, pid):
        """Sends a process SIGHUP, with which root makes the controller reload its files."""
        os.kill(int(pid), 1)
        return {}

    def leave(self):
        """Closes the connection, and goes on."""
        self.socket.close()
        return {}

    def id(self):
        return {"pid": os.getpid()}


WIRE, PAGE = int(sys.argv[2]), int(sys.argv[3])
process = Process(sys.argv[1])
for line in sys.stdin:
    verb, *arguments = line.split()
    try:
        answer = getattr(process, verb)(*arguments)
    except (OSError, TimeoutError) as error:
        answer = {"error": type(error).__name__}
    print(json.dumps(answer), flush=True)
