"""A small program that takes trtexec's command line, for machines without a GPU.

It refuses what TensorRT 10's trtexec refuses in our own use: an unknown flag, an incomplete
profile, a missing file. What it writes is no plan.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path

PROGRAM = """#!{python}
import os, pathlib, re, sys, time
given = sys.argv[1:]
if any(name.startswith(("COVENANT", "DATABASE", "REDIS")) for name in os.environ):
    sys.exit("trtexec was given the settings of the console")
print("&&&& RUNNING TensorRT.trtexec [TensorRT v{version}] [b26] # trtexec", *given, flush=True)
if given == ["--help"]:
    print("=== Model Options ===")
    sys.exit(0)
if {hang}:
    time.sleep(120)
flags = dict(word.lstrip("-").partition("=")[::2] for word in given)
known = {{"onnx", "saveEngine", "minShapes", "optShapes", "maxShapes", "memPoolSize", "fp16",
          "int8", "skipInference"}}
def fail(text):
    print("[12/01/2026-00:00:00] [E] " + text)
    print("&&&& FAILED TensorRT.trtexec [TensorRT v{version}]")
    sys.exit(1)
if set(flags) - known:
    fail("Unknown option: --" + min(set(flags) - known))
model = pathlib.Path(flags["onnx"])
if not model.is_file():
    fail("could not open file " + str(model))
shapes = [flags.get(name) for name in ("minShapes", "optShapes", "maxShapes")]
if any(shapes):
    pattern = r"[^:]+:\\d+(x\\d+)*(,[^:]+:\\d+(x\\d+)*)*"
    if not all(shape and re.fullmatch(pattern, shape) for shape in shapes):
        fail("Invalid profile " + str(shapes))
if not re.fullmatch(r"workspace:\\d+", flags["memPoolSize"]):
    fail("Invalid memPoolSize")
if {fault!r}:
    fail({fault!r})
print("[12/01/2026-00:00:00] [I] Building the engine")
pathlib.Path(flags["saveEngine"]).write_bytes(b"plan of " + model.read_bytes()[:16])
print("&&&& PASSED TensorRT.trtexec [TensorRT v{version}]")
"""


def install(folder: Path, *, version: str = "100600", fault: str = "", hang: bool = False) -> Path:
    """Put the program into a folder for PATH; gives that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trtexec"
    path.write_text(
        PROGRAM.format(python=sys.executable, version=version, fault=fault, hang=hang),
        encoding="utf-8",
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder
