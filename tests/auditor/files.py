"""Reads the files of a ledger that hold frames, and checks all that can be checked of them."""

import struct
import zlib
from pathlib import Path

from blake3 import blake3

from layout import Wrong

POSITION = struct.Struct("<Q32sq")
NOTHING = (0, bytes(32), 0)
MAX_PAYLOAD = 16 * 1024 * 1024


def record(data, at, magic):
    """The body of the record at a place, and where it ends."""
    if data[at:at + 4] != magic + b"\x01":
        raise Wrong(f"no record {magic.decode()} of version 1 at {at}")
    crc, length = struct.unpack_from("<II", data, at + 4)
    end = at + 12 + length
    if end > len(data) or zlib.crc32(data[at + 8:end]) != crc:
        raise Wrong(f"the record {magic.decode()} at {at} is damaged")
    return data[at + 12:end], end


def position(data, at=0):
    """Sequence, chain hash and time."""
    return POSITION.unpack_from(data, at)


def frame(data, at, before):
    """The batch at a place, which has to continue a position; the position behind it, and where it ends. None at the end."""
    if data[at:at + 4] in (b"", bytes(4)) or not any(data[at:at + 4]):
        return None
    if data[at:at + 4] != b"QLF\x01":
        raise Wrong(f"no frame at {at}")
    crc, _, length, count, first, time = struct.unpack_from("<IIIIQq", data, at + 4)
    hashed = at + 36 + length
    if length > MAX_PAYLOAD or hashed + 32 > len(data) or zlib.crc32(data[at + 8:hashed + 32]) != crc:
        raise Wrong(f"the frame at {at} is damaged")
    link = blake3(b"quota-ledger/1" + before[1] + data[at + 12:hashed]).digest()
    if link != data[hashed:hashed + 32]:
        raise Wrong(f"the frame at {at} does not have its place in the chain")
    if first != before[0] + 1 or time < before[2]:
        raise Wrong(f"the frame at {at} does not follow sequence {before[0]}")
    batch = {"first": first, "count": count, "time": time, "payload": data[at + 36:hashed], "hash": link}
    return batch, (first + count - 1, link, time), hashed + 32


def frames(data, at, before, last=None):
    """All batches from a place on; with `last`, up to that sequence. The position and the place behind them."""
    batches = []
    while last is None or before[0] < last:
        found = frame(data, at, before)
        if found is None:
            break
        batch, before, at = found
        batches.append(batch)
    return batches, before, at


def lz4(data, length):
    """Decompresses an lz4 block."""
    out, at = bytearray(), 0

    def more(number, at):
        if number == 15:
            while True:
                number, byte, at = number + data[at], data[at], at + 1
                if byte != 255:
                    break
        return number, at

    while at < len(data):
        token, at = data[at], at + 1
        literals, at = more(token >> 4, at)
        out += data[at:at + literals]
        at += literals
        if at >= len(data):
            break
        offset, at = int.from_bytes(data[at:at + 2], "little"), at + 2
        match, at = more(token & 15, at)
        if not 0 < offset <= len(out):
            raise Wrong("an lz4 block that refers to nothing")
        for _ in range(match + 4):
            out.append(out[-offset])
    if len(out) != length:
        raise Wrong("an lz4 block of another length than it says")
    return bytes(out)


def archive(directory):
    """The batches of an archive, the position before and the one behind them."""
    batches, begin, end = [], None, None
    for path in sorted(Path(directory).glob("*.qla")):
        data = path.read_bytes()
        body, at = record(data, 0, b"QLH")
        before = position(body)
        if end is not None and before != end:
            raise Wrong(f"{path.name} does not continue what is before it")
        begin, end = begin or before, before
        listed = []
        while data[at:at + 3] == b"QLB":
            start = at
            body, at = record(data, at, b"QLB")
            if position(body) != end:
                raise Wrong(f"{path.name}: the block at {start} does not continue the one before")
            listed.append((end[0] + 1, start))
            unpacked = lz4(body[56:], int.from_bytes(body[48:56], "little"))
            found, end, used = frames(unpacked, 0, end)
            if used != len(unpacked):
                raise Wrong(f"{path.name}: the block at {start} holds something else")
            batches += found
        list_at = at
        body, at = record(data, at, b"QLL")
        if list(struct.iter_unpack("<QQ", body)) != listed:
            raise Wrong(f"{path.name}: its list is wrong")
        foot_at = at
        body, at = record(data, at, b"QLT")
        recorded = (position(body), int.from_bytes(body[48:56], "little"), body[56:88])
        if recorded != (end, list_at, blake3(data[:foot_at]).digest()) or at != len(data):
            raise Wrong(f"{path.name}: its end is wrong")
        if path.name != f"{before[0] + 1:020}-{end[0]:020}.qla":
            raise Wrong(f"{path.name} does not hold what its name says")
    return batches, begin or NOTHING, end or NOTHING


def backup(path):
    """The batches of a backup, the position before and the one behind them, and its snapshots."""
    data = Path(path).read_bytes()
    body, at = record(data, 0, b"QLK")
    before, last = position(body), position(body, POSITION.size)
    batches, end, at = frames(data, at, before, last[0])
    if end != last:
        raise Wrong("the backup does not go as far as it says")
    snapshots = []
    while data[at:at + 3] == b"QLN":
        body, at = record(data, at, b"QLN")
        length = int.from_bytes(body[48:56], "little")
        content, at = data[at:at + length], at + length
        if blake3(content).digest() != body[56:88]:
            raise Wrong("a snapshot is damaged")
        snapshots.append((position(body), content))
    body, at = record(data, at, b"QLO")
    if position(body) != last or int.from_bytes(body[48:56], "little") != len(snapshots) or at != len(data):
        raise Wrong("the end of the backup is wrong")
    return batches, before, last, snapshots


def log(directory, end):
    """The batches of a write-ahead log behind a position."""
    batches = []
    for path in sorted(Path(directory).glob("*.log")):
        data = path.read_bytes()
        body, at = record(data, 0, b"QLS")
        if position(body)[0] < end[0]:
            continue
        if position(body) != end:
            raise Wrong(f"{path.name} does not continue what is before it")
        found, end, _ = frames(data, at, end)
        batches += found
    return batches, end
