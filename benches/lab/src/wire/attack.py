"""Sends control frames to a switch that must accept none of them.

    attack.py --interface x2 --victim w2 --seconds 60 --counts counts.json

Listens on the link for true control frames, then sends by --interface what an attacker on the link
could make of them without the key. Writes how many frames of each trick it sent (JSON). Needs scapy.
"""

import argparse
import json
import random
import struct
import time

from scapy.all import AsyncSniffer, Ether, conf

ETHERTYPE = 0x88B5
MAGIC = b"VRNR"
HEADER = struct.Struct(">4sBBHHHIHQQQq")
TAG_BYTES = 16
MTU = 1_500
HELLO = "old hello"
KINDS = range(1, 8)


class Header:
    """A control frame's header, by name (wire::frame)."""

    FIELDS = (
        "magic version kind key length port switch segment session sequence epoch time".split()
    )

    def __init__(self, frame):
        for name, value in zip(self.FIELDS, HEADER.unpack_from(frame)):
            setattr(self, name, value)

    def pack(self):
        return HEADER.pack(*(getattr(self, name) for name in self.FIELDS))


def changed(frame, **fields):
    """The frame with other header fields, and the tag it had."""
    header = Header(frame)
    for name, value in fields.items():
        old = getattr(header, name)
        setattr(header, name, value(old) if callable(value) else value)
    return header.pack() + frame[HEADER.size :]


def made(kind, body, key=1, session=0, tag=None, **fields):
    """A frame from nothing, with a random tag."""
    header = Header(bytes(HEADER.size))
    header.magic, header.version, header.kind, header.key = MAGIC, 2, kind, key
    header.length, header.session = len(body), session
    for name, value in fields.items():
        setattr(header, name, value)
    return header.pack() + body + (tag or random.randbytes(TAG_BYTES))


def tricks(seen):
    """Names of tricks, each with a function of a true frame."""

    def flip(frame):
        at = random.randrange(len(MAGIC) * 8, len(frame) * 8)
        return frame[: at // 8] + bytes([frame[at // 8] ^ 1 << at % 8]) + frame[at // 8 + 1 :]

    hellos = [one for one in seen if Header(one).kind == 1]
    others = [one for one in seen if Header(one).kind != 1]

    def of_kind(frame, kind):
        return [one for one in seen if Header(one).kind == kind] or [frame]

    return {
        # Heard before, word for word, either way: an old sequence number, or another session.
        "replay": lambda frame: random.choice(others or [frame]),
        # These have no sequence, and a true tag: old ones must say nothing, and own ones that come
        # back from the other side of the link must not make a loop of it.
        HELLO: lambda frame: random.choice(hellos or [frame]),
        "flipped bit": flip,
        "next sequence": lambda frame: changed(frame, sequence=lambda n: n + 1_000),
        "last sequence": lambda frame: changed(frame, sequence=2**64 - 1),
        "other session": lambda frame: changed(frame, session=random.getrandbits(64)),
        "far epoch": lambda frame: changed(frame, epoch=2**64 - 1),
        "old epoch": lambda frame: changed(frame, epoch=0),
        "time in 2262": lambda frame: changed(frame, time=2**63 - 1),
        "time before 1970": lambda frame: changed(frame, time=-(2**63)),
        "other segment": lambda frame: changed(frame, segment=65_535),
        "other switch": lambda frame: changed(frame, switch=random.getrandbits(32)),
        "no key": lambda frame: changed(frame, key=0),
        "unknown key": lambda frame: changed(frame, key=9),
        "other version": lambda frame: changed(frame, version=3),
        "unknown kind": lambda frame: changed(frame, kind=random.choice([0, 8, 255])),
        "other kind": lambda frame: changed(frame, kind=lambda k: k % 7 + 1),
        "length too long": lambda frame: changed(frame, length=65_535),
        "length too short": lambda frame: changed(frame, length=lambda n: max(n - 1, 0)),
        "cut off": lambda frame: frame[: random.randrange(len(MAGIC), len(frame))],
        "only magic": lambda _: MAGIC,
        "padded": lambda frame: frame + bytes(random.randrange(1, 100)),
        "tag of zeros": lambda frame: frame[:-TAG_BYTES] + bytes(TAG_BYTES),
        "forged hello": lambda frame: made(1, random.randbytes(60)),
        "forged marker": lambda frame: made(
            2,
            struct.pack(">BIBIQ", random.randrange(3), 0, 1, 1, 2**32),
            session=Header(frame).session,
            sequence=Header(frame).sequence + 1,
            epoch=Header(frame).epoch + 1,
        ),
        "longest": lambda frame: made(4, random.randbytes(1_400), session=Header(frame).session),
        "body of another": lambda frame: frame[: HEADER.size]
        + random.choice(seen)[HEADER.size :],
        "tag of another": lambda frame: frame[:-TAG_BYTES]
        + random.choice(of_kind(frame, Header(frame).kind))[-TAG_BYTES:],
    }


def listen(interfaces, seconds):
    """True control frames that went by, either way."""
    sniffer = AsyncSniffer(iface=interfaces, filter=f"ether proto {ETHERTYPE:#06x}")
    sniffer.start()
    time.sleep(seconds)
    frames = [bytes(packet) for packet in sniffer.stop()]
    return [frame for frame in frames if frame[14:18] == MAGIC]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--interface", required=True)
    arguments.add_argument("--victim", required=True)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--pps", type=float, default=300)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--counts", required=True)
    arguments = arguments.parse_args()
    random.seed(arguments.seed)
    end = time.monotonic() + arguments.seconds

    # What a driver sends past the kernel's queues is heard at the other end only.
    heard = listen([arguments.interface, arguments.victim], 2)
    if not heard:
        raise SystemExit("no control frames on the link")
    addresses = heard[0][:14]
    # Others make frames up, too, and cut some short.
    seen = [frame[14:] for frame in heard if len(frame) >= 14 + HEADER.size][:2_000]

    socket = conf.L2socket(iface=arguments.interface)
    names = tricks(seen)
    thrown = dict.fromkeys(names, 0)
    next_at = time.monotonic()
    while time.monotonic() < end:
        for name, trick in names.items():
            frame = trick(random.choice(seen))
            # By chance it may be a true one that a switch has not seen yet, or too long for the link.
            if (name not in ("replay", HELLO) and frame in seen) or len(frame) > MTU:
                continue
            socket.send(Ether(addresses + frame))
            thrown[name] += 1
            next_at += 1 / arguments.pps
        time.sleep(max(0, next_at - time.monotonic()))
    with open(arguments.counts, "w", encoding="utf-8") as file:
        json.dump({"heard": len(heard), "thrown": thrown}, file, indent=2)


if __name__ == "__main__":
    main()
