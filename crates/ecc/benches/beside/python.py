"""Times bchlib on a file of steps, as kernel.c times the kernel's code."""

import struct
import sys
import time

import bchlib

strength, work, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
with open(path, "rb") as file:
    step, parity, order, count = struct.unpack("<4I", file.read(16))
    stride = step + parity
    read = [file.read(stride) for _ in range(count)]
    written = [file.read(stride) for _ in range(count)]
code = bchlib.BCH(strength, m=order)


def encode(steps):
    return [(data, code.encode(data)) for data, _ in steps]


def correct(steps):
    for data, ecc in steps:
        if code.decode(data, ecc):
            code.correct(data, ecc)
    return steps


run = encode if work == "encode" else correct
best = float("inf")
for _ in range(5):
    steps = [(bytearray(one[:step]), bytearray(one[step:])) for one in read]
    began = time.thread_time_ns()
    done = run(steps)
    best = min(best, (time.thread_time_ns() - began) / count)
for (data, ecc), expected in zip(done, written):
    assert data + ecc == expected, "a step is wrong"
print(f"{best:.1f}")
