#!/usr/bin/env python3.11
"""Set up a clone: virtual environments, packages, system packages, translations.

Standard library only, since it runs before anything is installed. Each part leaves a stamp, so
a second run finds nothing to do. `--dev` adds what the checks and tests need, `--lock` writes
the lock files anew from the requirement files.
"""

from __future__ import annotations

import argparse
import ctypes.util
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "deploy" / "requirements"
MAIN_LOCK, SERVING_LOCK = REQUIREMENTS / "main.lock", REQUIREMENTS / "serving.lock"
BASE, WORKER, DEV = ROOT / "requirements.txt", REQUIREMENTS / "worker.txt", REQUIREMENTS / "dev.txt"
TORCH, SERVING = REQUIREMENTS / "torch.txt", REQUIREMENTS / "serving.txt"
LDAP, LDAP_LOCK = REQUIREMENTS / "ldap.txt", REQUIREMENTS / "ldap.lock"
VERIFY, VERIFY_LOCK = REQUIREMENTS / "verify.txt", REQUIREMENTS / "verify.lock"
VENV, SERVING_VENV = ROOT / ".venv", ROOT / ".venv-triton"
UV = "uv==0.13.9"
PYTHON = (3, 11)
SITE = f"lib/python{PYTHON[0]}.{PYTHON[1]}/site-packages"

SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
LDAP_NEEDS = {"/usr/include/ldap.h": "libldap-dev", "/usr/include/sasl/sasl.h": "libsasl2-dev"}
PYTHON_HEADER = Path(sysconfig.get_path("include")) / "Python.h"


class SetupError(Exception):
    """The text says what is wrong and what to do."""


class Stamps:
    """What has been installed already, by the hash of what asked for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.known: dict[str, str] = json.loads(path.read_text())
        except (OSError, ValueError):
            self.known = {}

    def is_current(self, part: str, digest: str) -> bool:
        """Whether the part was installed from the very same files."""
        return self.known.get(part) == digest

    def note(self, part: str, digest: str) -> None:
        """Remember the part; written at once, so that a break later costs nothing twice."""
        self.known[part] = digest
        self.path.write_text(json.dumps(self.known, indent=1))


def main() -> int:
    """Do what is missing, and say what is done."""
    parser = argparse.ArgumentParser(description="Set up a clone of Covenant.")
    parser.add_argument("--dev", action="store_true", help="also what checks and tests need")
    parser.add_argument("--lock", action="store_true", help="write the lock files anew")
    options = parser.parse_args()
    begun = time.monotonic()
    try:
        check_python()
        with open(__file__) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one set-up at a time, others wait for it
            count = set_up(dev=options.dev)
            if options.lock:
                write_locks()
        if count:
            say(f"Set up in {time.monotonic() - begun:.0f} s.")
    except SetupError as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def set_up(*, dev: bool) -> int:
    """Every part in order; returns how many had something to do."""
    stamps = Stamps(VENV / "installed.json")
    parts: list[tuple[str, str, Callable[[], None]]] = [
        ("virtual environment", digest(), make_venv),
        ("web and stack packages", digest(BASE, MAIN_LOCK), lambda: install(BASE)),
        ("export packages", digest(WORKER, MAIN_LOCK), install_export),
        ("torch (large)", digest(TORCH), install_torch),
        ("Triton and Envoy (large)", digest(SERVING, SERVING_LOCK), install_serving),
        ("command covenant", digest(), link_project),
    ]
    if dev:
        parts.append(("check and test packages", digest(DEV, MAIN_LOCK), lambda: install(DEV)))
    todo = [part for part in parts if not stamps.is_current(part[0], part[1])]
    for number, (name, wanted, work) in enumerate(todo, start=1):
        begun = time.monotonic()
        say(f"[{number}/{len(todo)}] {name} …")
        work()
        stamps.note(name, wanted)
        say(f"[{number}/{len(todo)}] {name}: {time.monotonic() - begun:.1f} s")
    count = len(todo) + install_system_packages(dev=dev) + compile_translations()
    return count + (install_ldap(stamps) if dev else 0)


def check_python() -> None:
    """Triton's Python backend is built for one minor version."""
    if sys.version_info[:2] != PYTHON:
        raise SetupError(
            f"Python {PYTHON[0]}.{PYTHON[1]} is needed, this is {sys.version.split()[0]}. "
            "Install it (Debian 12 has it as python3.11) and run `make PYTHON=python3.11`."
        )


def make_venv() -> None:
    """The main environment with pip and uv."""
    if not (VENV / "bin" / "python").exists() or not works(VENV / "bin" / "python"):
        shutil.rmtree(VENV, ignore_errors=True)
        try:
            run([sys.executable, "-m", "venv", str(VENV)])
        except SetupError:
            shutil.rmtree(VENV, ignore_errors=True)
            if not apt_install(["python3.11-venv"]):
                raise
            run([sys.executable, "-m", "venv", str(VENV)])
    run([python(), "-m", "pip", "install", "--quiet", UV])


def install(requirements: Path) -> None:
    """Exactly what the lock says; uv compares the hashes."""
    uv("pip", "install", "--python", python(), "-r", str(requirements), "-c", str(MAIN_LOCK))


def install_export() -> None:
    """ONNX and its company, compiled: the sandbox cannot write bytecode, and starts often."""
    install(WORKER)
    folders = ("numpy", "onnx", "onnxruntime", "google", "ml_dtypes", "picklescan")
    packages = [str(VENV / SITE / folder) for folder in folders]
    run([python(), "-m", "compileall", "-q", "-j", "0", *packages])


def install_torch() -> None:
    """By pip: it honours the configuration that names a folder or index with CPU builds."""
    run([python(), "-m", "pip", "install", "--quiet", "-r", str(TORCH)])


def install_serving() -> None:
    """Triton's and Envoy's environment; nothing but what is listed."""
    if not works(SERVING_VENV / "bin" / "python"):
        shutil.rmtree(SERVING_VENV, ignore_errors=True)
        uv("venv", "--quiet", "--python", sys.executable, str(SERVING_VENV))
    uv(
        *("pip", "install", "--python", str(SERVING_VENV / "bin" / "python"), "--no-deps"),
        *("-r", str(SERVING), "-c", str(SERVING_LOCK)),
    )


def link_project() -> None:
    """Make the packages importable from any folder, and give the command `covenant`."""
    (VENV / SITE / "covenant.pth").write_text(f"{ROOT}\n")
    command = VENV / "bin" / "covenant"
    command.write_text(
        f"#!{VENV / 'bin' / 'python'}\n"
        "import sys\n\n"
        "from deployments.cli.entry import main\n\n"
        "sys.exit(main())\n"
    )
    command.chmod(0o755)


def install_system_packages(*, dev: bool) -> int:
    """The few programs that no Python package carries; asked for when they cannot be installed."""
    wanted = missing_packages()
    if dev:
        wanted += missing_test_packages()
    if not wanted:
        return 0
    begun = time.monotonic()
    say(f"system packages {' '.join(wanted)} …")
    if apt_install(wanted):
        say(f"system packages: {time.monotonic() - begun:.1f} s")
    else:
        say(
            f"  {' '.join(wanted)} missing. Install with: sudo apt-get install {' '.join(wanted)}\n"
            "  (bubblewrap: the sandbox that opens model files; libseccomp2: its system call\n"
            "  filter; libgomp1: LightGBM; libpython3.11: Triton's Python backend; libpango…,\n"
            "  libharfbuzz… and fonts-noto-cjk: documents as PDF; chromium: the browser tests;\n"
            "  slapd and the rest: signing in by a directory, and its tests)"
        )
    return 1


def missing_packages() -> list[str]:
    """Debian packages that the product needs and that are not there."""
    libraries = {
        "seccomp": "libseccomp2",
        "gomp": "libgomp1",
        "pango-1.0": "libpango-1.0-0",
        "pangoft2-1.0": "libpangoft2-1.0-0",
        "harfbuzz-subset": "libharfbuzz-subset0",
    }
    wanted = [] if shutil.which("bwrap") else ["bubblewrap"]
    wanted += [name for lib, name in libraries.items() if not ctypes.util.find_library(lib)]
    if not has_libpython():
        wanted.append("libpython3.11")
    # Chinese in PDFs, and in the screenshots of the browser tests.
    if not any(Path("/usr/share/fonts").rglob("NotoSansCJK*")):
        wanted.append("fonts-noto-cjk")
    return wanted


def missing_test_packages() -> list[str]:
    """Debian packages that only the tests need: a browser, a directory, a Prometheus, headers."""
    wanted = []
    if not (shutil.which("chromium") or shutil.which("chromium-browser")):
        wanted.append("chromium")
    if not shutil.which("slapd", path=SBIN):
        wanted.append("slapd")
    if not shutil.which("prometheus"):
        wanted.append("prometheus")
    if not has_ldap():
        wanted += [name for header, name in LDAP_NEEDS.items() if not Path(header).exists()]
        wanted += [] if shutil.which("gcc") else ["gcc", "libc6-dev"]
        wanted += [] if PYTHON_HEADER.exists() else ["python3.11-dev"]
    return wanted


def has_ldap() -> bool:
    """Whether the library for signing in by a directory is built and installed."""
    return any((VENV / SITE).glob("python_ldap-*.dist-info"))


def install_ldap(stamps: Stamps) -> int:
    """The optional sign-in by a directory, for its tests; they are skipped where it cannot be."""
    wanted = digest(LDAP, LDAP_LOCK)
    buildable = shutil.which("gcc") and PYTHON_HEADER.exists()
    if stamps.is_current("directory packages", wanted) and has_ldap():
        return 0
    if not buildable or not all(Path(header).exists() for header in LDAP_NEEDS):
        say("  directory packages are left out: their compiler or headers are missing (see above)")
        return 0
    begun = time.monotonic()
    try:
        uv("pip", "install", "--python", python(), "-r", str(LDAP), "-c", str(LDAP_LOCK))
    except SetupError as error:
        say(f"  directory packages are left out: {error}")
        return 0
    stamps.note("directory packages", wanted)
    say(f"directory packages: {time.monotonic() - begun:.1f} s")
    return 1


def apt_install(packages: Sequence[str]) -> bool:
    """Install Debian packages when this user may; False when not."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    # RUNLEVEL=1: what is installed for tests (slapd) is started by them, not by the system.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    quiet = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    try:
        run([*quiet, "update"], environment)
        run([*quiet, "install", "-y", "--no-install-recommends", *packages], environment)
    except SetupError as error:
        say(f"  {error}")
        return False
    return True


def has_libpython() -> bool:
    """Whether the shared library that Triton's stubs are linked against is there."""
    name = "libpython3.11.so.1.0"
    folders = [Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib"), Path("/usr/lib")]
    folders += Path("/usr/lib").glob("*-linux-gnu")
    return any((folder / name).exists() for folder in folders)


def compile_translations() -> int:
    """Compile the catalogues whose source is newer than what was compiled."""
    stale = False
    for source in (ROOT / "console" / "locale").glob("*/LC_MESSAGES/django.po"):
        compiled = source.with_suffix(".mo")
        stale |= not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime
    if not stale:
        return 0
    say("translations …")
    folder = str(ROOT / "console" / "locale")
    run([str(VENV / "bin" / "pybabel"), "--quiet", "compile", "-D", "django", "-d", folder])
    return 1


def write_locks() -> None:
    """Resolve everything together and write each package's version and hashes."""
    common = ("--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url")
    common += ("--quiet", "--upgrade", "--python-version", f"{PYTHON[0]}.{PYTHON[1]}")
    sources = (str(BASE), str(WORKER), str(DEV))
    uv("pip", "compile", *sources, *common, "--output-file", str(MAIN_LOCK))
    uv("pip", "compile", str(SERVING), "--no-deps", *common, "--output-file", str(SERVING_LOCK))
    # What verifies a bundle is what made it; a directory's library joins what is there.
    same = ("--constraint", str(MAIN_LOCK))
    uv("pip", "compile", str(LDAP), *same, *common, "--output-file", str(LDAP_LOCK))
    uv("pip", "compile", str(VERIFY), *same, *common, "--output-file", str(VERIFY_LOCK))
    say("Lock files are written.")


def digest(*files: Path) -> str:
    """Hash of the files, this folder and this Python: a moved clone is set up anew."""
    text = hashlib.sha256(f"{ROOT} {sys.version} {UV}".encode())
    for file in files:
        text.update(file.read_bytes())
    return text.hexdigest()


def works(program: Path) -> bool:
    """Whether a virtual environment's Python still runs and is of our version."""
    try:
        done = subprocess.run(
            [str(program), "-c", f"import sys; sys.exit(sys.version_info[:2] != {PYTHON})"],
            check=False,
            capture_output=True,
        )
    except OSError:
        return False
    return done.returncode == 0


def python() -> str:
    """The main environment's interpreter."""
    return str(VENV / "bin" / "python")


def uv(*arguments: str) -> None:
    """Run uv; only its errors are shown."""
    run([str(VENV / "bin" / "uv"), *arguments], {**os.environ, "UV_NO_PROGRESS": "1"})


def run(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    """Run to the end. Raises SetupError with the end of the output when it fails."""
    try:
        done = subprocess.run(
            list(command),
            check=False,
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except OSError as error:
        raise SetupError(f"{command[0]} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        tail = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise SetupError(f"`{' '.join(command)}` failed ({done.returncode}):\n{tail}")


def say(text: str) -> None:
    """One line of progress, shown at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
